//! The access log: one entry of the service log for each request, and the metrics of requests.
//!
//! An entry has the template of the route instead of the path, which has ids of sessions, and no query.

mod body;
mod metrics;
mod rate;

pub use body::RecordedBody;
pub use metrics::RequestMetrics;

use crate::platform::telemetry::AccessLogLevel;
use axum::extract::MatchedPath;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode};
use metrics::{InFlightRequest, RouteLabels};
use oracled_actors::platform::clock::monotonic;
use oracled_domain::base::trace::TraceParent;
use oracled_domain::{ApplicationName, PeerCredentials};
use rate::EntryRate;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A socket, as the access log and the metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    Routes,
    Control,
}

impl SocketKind {
    const fn into_str(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Control => "control",
        }
    }
}

/// The access log of one socket.
#[derive(Debug)]
pub struct AccessLog {
    socket: SocketKind,
    level: AccessLogLevel,
    metrics: RequestMetrics,
    rate: EntryRate,
}

/// The part of a record that the router sets: the route, once it is known.
#[derive(Debug)]
struct RouteSlot {
    log: Arc<AccessLog>,
    route: OnceLock<(MatchedPath, InFlightRequest)>,
}

/// Sets the route of a request in its record. The router calls it before the handler.
pub(crate) fn record_route<B>(request: Request<B>) -> Request<B> {
    let extensions = request.extensions();
    if let Some((slot, route)) = extensions.get::<Arc<RouteSlot>>().zip(extensions.get::<MatchedPath>()) {
        slot.route.get_or_init(|| {
            let labels = RouteLabels::new(slot.log.socket, Some(route.clone()));
            (route.clone(), slot.log.metrics.count_in_flight(&labels))
        });
    }
    request
}

/// A request that is being answered. Its end is recorded when this is dropped, also if the client disconnects before.
#[derive(Debug)]
pub struct RequestRecord {
    slot: Arc<RouteSlot>,
    method: Method,
    peer: PeerCredentials,
    application: Option<ApplicationName>,
    request_id: HeaderValue,
    trace: Option<TraceParent>,
    began: Instant,
    /// `None` until there is a response.
    status: Option<u16>,
    response_bytes: u64,
    /// Whether the whole body of the response was passed to the connection.
    is_complete: bool,
}

impl AccessLog {
    #[must_use]
    pub fn new(socket: SocketKind, level: AccessLogLevel, metrics: RequestMetrics) -> Arc<Self> {
        Arc::new(Self { socket, level, metrics, rate: EntryRate::default() })
    }

    /// Begins the record of `request`, and passes it to the router with the request.
    pub(crate) fn begin<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        peer: PeerCredentials,
        request_id: HeaderValue,
        trace: Option<TraceParent>,
    ) -> RequestRecord {
        let record = self.record(request.method().clone(), peer, request_id, trace);
        request.extensions_mut().insert(Arc::clone(&record.slot));
        record
    }

    /// Records a connection that was answered with `status`, or closed, before its request could be read.
    pub(crate) fn record_rejected_connection(
        self: &Arc<Self>,
        peer: PeerCredentials,
        status: Option<StatusCode>,
        request_id: &str,
    ) {
        let request_id = HeaderValue::from_str(request_id).unwrap_or(HeaderValue::from_static(""));
        let mut record = self.record(metrics::unknown_method(), peer, request_id, None);
        record.status = status.map(|status| status.as_u16());
        record.is_complete = status.is_some();
    }

    fn record(
        self: &Arc<Self>,
        method: Method,
        peer: PeerCredentials,
        request_id: HeaderValue,
        trace: Option<TraceParent>,
    ) -> RequestRecord {
        let slot = Arc::new(RouteSlot { log: Arc::clone(self), route: OnceLock::new() });
        RequestRecord {
            method,
            slot,
            peer,
            application: None,
            request_id,
            trace,
            began: monotonic(),
            status: None,
            response_bytes: 0,
            is_complete: false,
        }
    }
}

impl RequestRecord {
    pub(crate) fn set_application(&mut self, application: Option<ApplicationName>) {
        self.application = application;
    }

    /// The number of entries that were omitted before that of this request, or `None` if it has none.
    fn count_entry(&self) -> Option<u64> {
        let AccessLog { level, rate, .. } = &*self.slot.log;
        let is_error = !self.is_complete || self.status.is_none_or(|status| status >= 500);
        match level {
            AccessLogLevel::All => Some(0),
            AccessLogLevel::Errors if is_error => rate.count_entry(monotonic()),
            AccessLogLevel::Errors | AccessLogLevel::Off => None,
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let route = self.slot.route.get().map(|(route, _)| route.clone());
        let took = monotonic().duration_since(self.began);
        let labels = RouteLabels::new(self.slot.log.socket, route);
        self.slot.log.metrics.count_ended(&labels, &self.method, self.status, took);
        let Some(omitted) = self.count_entry() else { return };
        // a field that is `None` is left out
        tracing::info!(
            target: "oracled::access",
            socket = self.slot.log.socket.into_str(),
            method = metrics::method_name(&self.method),
            route = labels.route_name(),
            status = self.status,
            is_complete = self.is_complete,
            duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            response_bytes = self.response_bytes,
            uid = self.peer.uid,
            gid = self.peer.gid,
            pid = self.peer.pid,
            application = self.application.as_ref().map(ApplicationName::as_str),
            request_id = self.request_id.to_str().ok(),
            trace_id = self.trace.as_ref().map(|trace| tracing::field::display(&trace.trace.trace_id)),
            omitted = Some(omitted).filter(|omitted| *omitted > 0),
            parent_id = self.trace.as_ref().map(|trace| trace.parent_id.as_str()),
            "request ended"
        );
    }
}
