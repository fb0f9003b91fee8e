//! The optional TCP listener for `/metrics`, on a loopback address.

use super::config::{ConfigError, Configuration, Section, is_local, not_allowed_error};
use axum::Router;
use axum::body::Body;
use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;
use utoipa::ToSchema;

/// Maximum number of connections. Further ones are closed.
const CONNECTIONS_MAX: usize = 8;
/// Maximum time of a connection, which has one request.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// Pause of accepting after a failure, such as a lack of file descriptors.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);

/// How the metrics can be read, beside `/metrics` on the routes' socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsSection {
    /// A loopback address and a port, such as `127.0.0.1:9464`, on which `/metrics` and no other path is served over TCP. Every
    /// process of this machine can read it. Under systemd, a drop-in must allow the port: `oracled check-config` prints it.
    pub listen: Option<String>,
}

impl MetricsSection {
    /// The address; `None` without a listener.
    ///
    /// # Errors
    /// If it is not a loopback address with a port.
    pub(crate) fn address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(listen) = &self.listen else { return Ok(None) };
        match listen.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() && address.port() != 0 => Ok(Some(address)),
            _ => Err(not_allowed_error(
                "metrics.listen",
                "another address",
                "a loopback address and a port, such as `127.0.0.1:9464`",
            )),
        }
    }

    /// The drop-in of the systemd unit that allows the listener; `None` without one.
    pub(crate) fn drop_in(&self) -> Option<String> {
        let port = self.address().ok().flatten()?.port();
        Some(format!(
            "[Service]\nRestrictAddressFamilies=AF_INET AF_INET6\nIPAddressAllow=localhost\nSocketBindAllow=tcp:{port}"
        ))
    }
}

impl Section for MetricsSection {
    fn key(&self) -> &'static str {
        "metrics"
    }

    fn check(&self, _all: &dyn Configuration) -> Vec<ConfigError> {
        self.address().err().into_iter().collect()
    }
}

/// Serves `router` on `listener` until `stop` is true.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                sleep(FAILURE_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            match timeout(CONNECTION_TIME, answer(stream, router)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection for metrics ended"),
                Err(_) => tracing::debug!("a connection for metrics took too long"),
            }
            drop(permit);
        });
    }
}

/// Answers the request of a connection.
async fn answer(stream: TcpStream, router: Router) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let router = router.clone();
        async move {
            if is_for_this_machine(&request) {
                return router.oneshot(request.map(Body::new)).await;
            }
            let mut refused = Response::new(Body::from("the host of the request is not this machine\n"));
            *refused.status_mut() = StatusCode::MISDIRECTED_REQUEST;
            Ok(refused)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).keep_alive(false);
    http.serve_connection(TokioIo::new(stream), service).await
}

/// Whether the request names this machine as its host. A page in a browser could name another host that leads here.
fn is_for_this_machine<B>(request: &Request<B>) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let authority = host.and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|authority| is_local(authority.host()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(listen: &str) -> MetricsSection {
        MetricsSection { listen: Some(listen.to_owned()) }
    }

    #[test]
    fn address_must_be_loopback_with_a_port() {
        for listen in ["127.0.0.1:9464", "[::1]:9464", "127.0.0.2:1"] {
            assert!(section(listen).address().is_ok_and(|address| address.is_some()), "{listen}");
        }
        for listen in
            ["0.0.0.0:9464", "192.0.2.1:9464", "localhost:9464", "127.0.0.1", "127.0.0.1:0", "", "[::]:1"]
        {
            assert!(section(listen).address().is_err(), "{listen}");
        }
        assert!(MetricsSection::default().address().is_ok_and(|address| address.is_none()));
    }

    #[test]
    fn drop_in_allows_the_port_only() {
        assert!(
            section("127.0.0.1:9464")
                .drop_in()
                .is_some_and(|text| text.ends_with("SocketBindAllow=tcp:9464"))
        );
        assert_eq!(MetricsSection::default().drop_in(), None);
    }

    #[test]
    fn request_must_name_this_machine() {
        let of = |host| {
            Request::builder().header(HOST, host).body(()).is_ok_and(|request| is_for_this_machine(&request))
        };
        assert!(of("127.0.0.1:9464") && of("localhost:9464") && of("[::1]:9464"));
        assert!(!of("rebound.example:9464") && !of(""));
    }
}
