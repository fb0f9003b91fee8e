//! The metrics of requests. Their labels have a bounded number of values.

use super::SocketKind;
use axum::extract::MatchedPath;
use hyper::Method;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::time::Duration;

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
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
    pub(super) const fn new(socket: SocketKind, route: Option<MatchedPath>) -> Self {
        Self { socket, route: RouteLabel(route) }
    }

    pub(super) fn route_name(&self) -> &str {
        self.route.as_str()
    }
}

/// A client may send any word as the method.
pub(super) fn method_name(method: &Method) -> &'static str {
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
pub(super) fn unknown_method() -> Method {
    Method::TRACE
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(super) struct InFlightRequest(Gauge);

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

    pub(super) fn count_in_flight(&self, labels: &RouteLabels) -> InFlightRequest {
        let gauge = self.in_flight.get_or_create(labels).clone();
        gauge.inc();
        InFlightRequest(gauge)
    }

    pub(super) fn count_ended(
        &self,
        labels: &RouteLabels,
        method: &Method,
        status: Option<u16>,
        took: Duration,
    ) {
        let RouteLabels { socket, route } = labels.clone();
        let (method, status) = (method_name(method), StatusLabel(status));
        self.ended.get_or_create(&EndedLabels { socket, route, method, status }).inc();
        self.seconds.get_or_create(labels).observe(took.as_secs_f64());
    }
}
