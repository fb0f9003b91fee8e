//! The tasks that serve the sockets.

use super::OTHER_FILES;
use crate::platform::api::front::SocketFrontend;
use crate::platform::config::{DaemonFlags, LimitsSection};
use crate::platform::listen::refusal::REFUSALS_MAX;
use crate::platform::listen::{self, DaemonSockets, SocketLimits};
use crate::platform::service::DaemonService;
use crate::{api, control, review};
use axum::Extension;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// The task of each socket.
#[derive(Debug)]
pub(super) struct SocketServers {
    pub(super) routes: JoinHandle<()>,
    pub(super) control: JoinHandle<()>,
    pub(super) review: Option<JoinHandle<()>>,
}

impl SocketServers {
    pub(super) fn start(
        service: &Arc<DaemonService>,
        flags: &Arc<DaemonFlags>,
        sockets: DaemonSockets,
        connections: usize,
    ) -> Self {
        let limits = &service.config.limits;
        let idle = Duration::from_secs(limits.idle_s);
        let DaemonSockets { routes, control, review, .. } = sockets;
        let front = SocketFrontend::new(api::router(Arc::clone(service)), limits)
            .for_applications(service.config.applications.clone());
        let routes = tokio::spawn(listen::serve(
            routes,
            // submitted work is finished even if the client has disconnected
            socket_limits(limits, connections, idle, true),
            Arc::clone(&service.connections),
            service.subscribe_stop(),
            {
                let service = Arc::clone(service);
                Arc::new(move || service.is_short_of_memory())
            },
            move |request, peer, still_waiting| front.clone().answer(request, peer, still_waiting),
        ));
        let router = control::router(Arc::clone(service)).layer(Extension(Arc::clone(flags)));
        let front = SocketFrontend::new(router, limits).without_time_limit_for(control::has_no_time_limit);
        // an administrator may follow the log without a time limit
        let counter = Arc::clone(&service.control_connections);
        let control = serve_people(service, control, front, Duration::MAX, counter);
        let review = review.map(|socket| {
            let router = review::router(Arc::clone(service));
            let front = SocketFrontend::new(router, limits).for_reviewers();
            serve_people(service, socket, front, idle, Arc::default())
        });
        Self { routes, control, review }
    }
}

/// Serves a socket of administrators or reviewers.
fn serve_people(
    service: &Arc<DaemonService>,
    socket: UnixListener,
    front: SocketFrontend,
    unread: Duration,
    open: Arc<AtomicUsize>,
) -> JoinHandle<()> {
    let limits = &service.config.limits;
    tokio::spawn(listen::serve(
        socket,
        socket_limits(limits, limits.control_connections, unread, false),
        open,
        service.subscribe_stop(),
        Arc::new(|| false),
        move |request, peer, still_waiting| front.clone().answer(request, peer, still_waiting),
    ))
}

/// Waits until the connections of administrators and reviewers are closed.
pub(super) async fn wait_for_people(control: JoinHandle<()>, review: Option<JoinHandle<()>>) {
    drop(control.await);
    if let Some(review) = review {
        drop(review.await);
    }
}

const fn socket_limits(
    limits: &LimitsSection,
    connections: usize,
    unread: Duration,
    finish_unheard: bool,
) -> SocketLimits {
    SocketLimits {
        connections,
        idle: Duration::from_secs(limits.idle_s),
        unread,
        finish_unheard,
        headers: limits.headers,
        header_bytes: limits.header_bytes,
    }
}

/// Maximum number of connections to the routes' socket for this limit of open files. More connections would
/// leave no file descriptors for the store.
pub(super) fn limit_connections(files: u64, limits: &LimitsSection) -> usize {
    let left = files.saturating_sub(OTHER_FILES).saturating_sub(2 * limits.control_connections as u64);
    let left = left.saturating_sub(2 * REFUSALS_MAX as u64);
    let connections = limits.connections.min(usize::try_from(left).unwrap_or(usize::MAX)).max(1);
    if connections < limits.connections {
        tracing::warn!(
            connections,
            file_limit = files,
            "fewer connections than configured: raise the limit on open files"
        );
    }
    connections
}
