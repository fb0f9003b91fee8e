//! The access log: one entry of the service log for each request, and the metrics of requests.
//!
//! An entry has the template of the route instead of the path, which has ids of sessions, and no query.

use super::telemetry::AccessLogLevel;
use actors_platform::clock::monotonic;
use actors_platform::span::Span;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::response::Response;
use bytes::Bytes;
use domain_base::caller::{PeerCredentials, SpanId, TraceContext, TraceParent};
use domain_base::series::{MetricSeries, SeriesMeasure, SeriesUnit};
use domain_base::session_id::ApplicationName;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// A socket, as the access log and the metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    Routes,
    Control,
    Review,
}

impl SocketKind {
    const fn into_str(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Control => "control",
            Self::Review => "review",
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

/// The trace of a request, and its span, if the daemon records it.
#[derive(Debug, Default)]
pub(crate) struct RequestTrace {
    caller: Option<TraceParent>,
    span: Span,
}

impl RequestTrace {
    /// The trace of a request that begins now, whose caller has sent `caller`.
    pub(crate) fn begin(caller: Option<TraceParent>) -> Self {
        Self { span: Span::of_request(caller.as_ref()), caller }
    }

    /// The trace in which the request is handled.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.span.context().or_else(|| Some(self.caller.as_ref()?.trace.clone()))
    }

    fn parent_id(&self) -> Option<&SpanId> {
        self.caller.as_ref().map(|caller| &caller.parent_id)
    }
}

/// A request that is being answered. Its end is recorded when this is dropped, also if the client disconnects before.
#[derive(Debug)]
pub struct RequestRecord {
    slot: Arc<RouteSlot>,
    method: Method,
    peer: PeerCredentials,
    application: Option<ApplicationName>,
    request_id: HeaderValue,
    trace: RequestTrace,
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
        trace: RequestTrace,
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
        let mut record = self.record(unknown_method(), peer, request_id, RequestTrace::default());
        record.status = status.map(|status| status.as_u16());
        record.is_complete = status.is_some();
    }

    fn record(
        self: &Arc<Self>,
        method: Method,
        peer: PeerCredentials,
        request_id: HeaderValue,
        trace: RequestTrace,
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

    /// Describes the request in its span, by the attributes that OpenTelemetry has for HTTP servers. The id of the request is not
    /// exported: a caller can choose it. The trace has an id of its own, which the access log has, too. Ids of traces and spans that
    /// a caller sends in `traceparent` are kept: they are hexadecimal, and join the trace of the caller. `tracestate` is not read.
    fn describe_in_span(&mut self, route: &str) {
        let (method, socket) = (method_name(&self.method), self.slot.log.socket.into_str());
        let span = &mut self.trace.span;
        span.rename(|| format!("{method} {route}"));
        span.set("http.request.method", method);
        span.set_text("http.route", route);
        span.set("oracled.socket", socket);
        self.application.iter().for_each(|name| span.set_text("oracled.application", name));
        span.set("http.response.body.size", self.response_bytes);
        match self.status {
            Some(status) => span.set("http.response.status_code", u64::from(status)),
            None => span.fail("disconnected"),
        }
        match self.status {
            Some(status @ 500..) => span.fail(status.to_string()),
            Some(_) if !self.is_complete => span.fail("disconnected"),
            _ => {}
        }
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
        self.describe_in_span(labels.route_name());
        let Some(omitted) = self.count_entry() else { return };
        // a field that is `None` is left out
        tracing::info!(
            target: "oracled::access",
            socket = self.slot.log.socket.into_str(),
            method = method_name(&self.method),
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
            trace_id = self.trace.context().map(|trace| tracing::field::display(trace.trace_id)),
            omitted = Some(omitted).filter(|omitted| *omitted > 0),
            parent_id = self.trace.parent_id().map(tracing::field::display),
            "request ended"
        );
    }
}

/// The body of a response with the record of its request.
#[derive(Debug)]
pub struct RecordedBody {
    body: Body,
    record: RequestRecord,
}

impl RequestRecord {
    /// `response` with this record, which ends with its body.
    pub(crate) fn wrap_response(mut self, response: Response) -> Response<RecordedBody> {
        self.status = Some(response.status().as_u16());
        // hyper does not read the body of a response to HEAD
        self.is_complete = self.method == Method::HEAD;
        response.map(|body| RecordedBody { body, record: self })
    }
}

impl HttpBody for RecordedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                self.record.response_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            Some(Err(_)) => {}
            None => self.record.is_complete = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        // hyper does not poll a body of known length to its end
        self.record.is_complete |= self.body.is_end_stream();
    }
}

/// Maximum number of entries of a socket in a window, with `access_log = "errors"`.
const ENTRIES_PER_WINDOW: u32 = 100;
const ENTRY_WINDOW: Duration = Duration::from_secs(1);

/// The entries in the current window. Without a limit, a flood of failing requests would fill journald, which then drops other
/// entries.
#[derive(Debug, Default)]
struct EntryRate(Mutex<RateWindow>);

#[derive(Debug, Default)]
struct RateWindow {
    began: Option<Instant>,
    entries: u32,
    omitted: u64,
}

impl EntryRate {
    /// Counts an entry at `now`. Returns the number of entries that were omitted since the last one, or `None` if this one
    /// must be omitted.
    fn count_entry(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.is_none_or(|began| now.saturating_duration_since(began) >= ENTRY_WINDOW) {
            (window.began, window.entries) = (Some(now), 0);
        }
        if window.entries >= ENTRIES_PER_WINDOW {
            window.omitted += 1;
            return None;
        }
        window.entries += 1;
        Some(std::mem::take(&mut window.omitted))
    }
}

/// The route of a request that matches none.
const UNMATCHED: &str = "unmatched";
/// A method without a label of its own, or one that is not known.
const OTHER_METHOD: &str = "other";
/// The status of a request whose client disconnected before the response.
const NO_STATUS: &str = "none";

/// The metrics of the requests on both sockets. Clones share them.
#[derive(Debug, Clone)]
pub struct RequestMetrics {
    ended: Family<EndedLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, SecondsBuckets>,
    in_flight: Family<RouteLabels, Gauge>,
}

#[derive(Debug, Clone, Copy)]
struct SecondsBuckets;

impl MetricConstructor<Histogram> for SecondsBuckets {
    fn new_metric(&self) -> Histogram {
        // 0.5 ms to 32.8 s
        Histogram::new(exponential_buckets(0.0005, 4.0, 9))
    }
}

/// The series of requests.
pub(crate) const SERIES: &[MetricSeries] = &[
    MetricSeries {
        name: "requests",
        title: "Requests",
        unit: SeriesUnit::PerMinute,
        metric: "http_requests_total",
        filter: |_| true,
        by: Some("socket"),
        measure: SeriesMeasure::RatePerMinute,
    },
    MetricSeries {
        name: "failed_requests",
        title: "Requests with a status of 500 or more",
        unit: SeriesUnit::PerMinute,
        metric: "http_requests_total",
        filter: |labels| labels.get("status").is_some_and(|status| status.starts_with('5')),
        by: Some("socket"),
        measure: SeriesMeasure::RatePerMinute,
    },
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    socket: SocketKind,
    route: RouteLabel,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    socket: SocketKind,
    route: RouteLabel,
    method: &'static str,
    status: StatusLabel,
}

impl EncodeLabelValue for SocketKind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.into_str())
    }
}

/// The template of a route; `None` if no route matches.
#[derive(Debug, Clone)]
struct RouteLabel(Option<MatchedPath>);

impl RouteLabel {
    fn as_str(&self) -> &str {
        self.0.as_ref().map_or(UNMATCHED, MatchedPath::as_str)
    }
}

impl PartialEq for RouteLabel {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RouteLabel {}

impl Hash for RouteLabel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl EncodeLabelValue for RouteLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StatusLabel(Option<u16>);

impl EncodeLabelValue for StatusLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self.0 {
            Some(status) => write!(encoder, "{status}"),
            None => encoder.write_str(NO_STATUS),
        }
    }
}

impl RouteLabels {
    const fn new(socket: SocketKind, route: Option<MatchedPath>) -> Self {
        Self { socket, route: RouteLabel(route) }
    }

    fn route_name(&self) -> &str {
        self.route.as_str()
    }
}

/// A client may send any word as the method.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => OTHER_METHOD,
    }
}

/// A method whose name is [`OTHER_METHOD`].
fn unknown_method() -> Method {
    Method::TRACE
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
struct InFlightRequest(Gauge);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            ended: Family::default(),
            seconds: Family::new_with_constructor(SecondsBuckets),
            in_flight: Family::default(),
        }
    }
}

impl RequestMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Requests that ended, by socket, route, method and status";
        registry.register("http_requests", help, self.ended.clone());
        let help = "Time from a request to the end of its response";
        registry.register_with_unit("http_request", help, Unit::Seconds, self.seconds.clone());
        let help = "Requests in progress, by socket and route";
        registry.register("http_requests_in_flight", help, self.in_flight.clone());
    }

    fn count_in_flight(&self, labels: &RouteLabels) -> InFlightRequest {
        let gauge = self.in_flight.get_or_create(labels).clone();
        gauge.inc();
        InFlightRequest(gauge)
    }

    fn count_ended(&self, labels: &RouteLabels, method: &Method, status: Option<u16>, took: Duration) {
        let RouteLabels { socket, route } = labels.clone();
        let (method, status) = (method_name(method), StatusLabel(status));
        self.ended.get_or_create(&EndedLabels { socket, route, method, status }).inc();
        self.seconds.get_or_create(labels).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors_platform::clock::monotonic;

    #[test]
    fn entries_beyond_the_rate_are_counted_in_the_next_entry() {
        let (rate, now) = (EntryRate::default(), monotonic());
        for _ in 0..ENTRIES_PER_WINDOW {
            assert_eq!(rate.count_entry(now), Some(0));
        }
        let later = now + ENTRY_WINDOW / 2;
        assert_eq!((rate.count_entry(later), rate.count_entry(later)), (None, None));
        assert_eq!(rate.count_entry(now + ENTRY_WINDOW), Some(2));
        assert_eq!(rate.count_entry(now + ENTRY_WINDOW), Some(0));
    }
}
