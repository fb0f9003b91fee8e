//! The tasks that serve the sockets.

use crate::control::reload::DaemonStart;
use crate::platform::access_log::{AccessLog, SocketKind};
use crate::platform::api::front::SocketFrontend;
use crate::platform::config::LimitsSection;
use crate::platform::listen::{self, DaemonSockets, SocketLimits};
use crate::platform::service::DaemonService;
use crate::{api, control, review};
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
        start: &Arc<DaemonStart>,
        sockets: DaemonSockets,
        connections: usize,
    ) -> Self {
        let limits = &service.limits;
        let idle = Duration::from_secs(limits.idle_s);
        let DaemonSockets { routes, control, review, .. } = sockets;
        let access_log =
            |socket| AccessLog::new(socket, start.config.access_log, service.request_metrics.clone());
        let log = access_log(SocketKind::Routes);
        let front = SocketFrontend::new(api::router(Arc::clone(service)), limits, Arc::clone(&log))
            .for_applications(service.applications.clone());
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
            log,
            move |request, peer, still_waiting| front.clone().answer(request, peer, still_waiting),
        ));
        let router = control::router(Arc::clone(service), Arc::clone(start));
        let log = access_log(SocketKind::Control);
        let front = SocketFrontend::new(router, limits, Arc::clone(&log))
            .without_time_limit_for(control::has_no_time_limit);
        // an administrator may follow the log without a time limit
        let counter = Arc::clone(&service.control_connections);
        let control = serve_people(service, control, (front, log), Duration::MAX, counter);
        let review = review.map(|socket| {
            let router = review::router(Arc::clone(service));
            let log = access_log(SocketKind::Review);
            let front = SocketFrontend::new(router, limits, Arc::clone(&log)).for_reviewers();
            serve_people(service, socket, (front, log), idle, Arc::default())
        });
        Self { routes, control, review }
    }
}

/// Serves a socket of administrators or reviewers.
fn serve_people(
    service: &Arc<DaemonService>,
    socket: UnixListener,
    (front, log): (SocketFrontend, Arc<AccessLog>),
    unread: Duration,
    open: Arc<AtomicUsize>,
) -> JoinHandle<()> {
    let limits = &service.limits;
    tokio::spawn(listen::serve(
        socket,
        socket_limits(limits, limits.control_connections, unread, false),
        open,
        service.subscribe_stop(),
        Arc::new(|| false),
        log,
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
