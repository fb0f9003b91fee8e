//! A queue of spans, and the thread that sends them to the collector. No actor waits for either: if the queue is full, spans are dropped.
//!
//! Only the messages of OTLP come from opentelemetry. Its exporter reads variables such as `OTEL_EXPORTER_OTLP_HEADERS`, and does not
//! report the spans that a collector rejects. Its queue does not report those that it drops.

use super::{TraceCollector, TracedDaemon};
use actors_platform::clock::monotonic;
use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters};
use actors_platform::span::{EndedSpan, SpanKind, SpanSink, SpanValue, record_spans};
use actors_upstream::UpstreamEndpoint;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as OtlpKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags, Status};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use prost::Message;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{io, mem, thread};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

/// Maximum number of spans that wait.
const QUEUE_MAX: usize = 4096;
/// Maximum number of spans in a request.
const BATCH_MAX: usize = 512;
/// How long a span waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// Time limit of a request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long the stop of the daemon waits for the last spans.
const FLUSH_TIME: Duration = Duration::from_secs(3);
/// Maximum length of an answer of the collector.
const ANSWER_MAX_BYTES: usize = 64 << 10;

/// The causes for which spans are dropped: too many waited; the collector did not answer, or with an error; it rejected them.
const DROP_CAUSES: [&str; 3] = [QUEUE_FULL, UNAVAILABLE, REJECTED];
const QUEUE_FULL: &str = "queue_full";
const UNAVAILABLE: &str = "unavailable";
const REJECTED: &str = "rejected";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DropLabels {
    cause: MetricLabelValue,
}

impl DropLabels {
    const fn new(cause: &'static str) -> Self {
        Self { cause: MetricLabelValue(cause) }
    }
}

/// The metrics of exported spans.
#[derive(Debug, Clone)]
struct SpanMetrics {
    exported: Counter,
    dropped: Family<DropLabels, Counter>,
}

impl SpanMetrics {
    fn register(registry: &mut Registry) -> Self {
        Self {
            exported: registry.add("spans_exported", "spans that the collector accepted", Counter::default()),
            dropped: registry.add(
                "spans_dropped",
                "spans that were not exported, by cause",
                init_counters(DROP_CAUSES.map(DropLabels::new)),
            ),
        }
    }

    fn count_dropped(&self, cause: &'static str, spans: u64) {
        self.dropped.get_or_create(&DropLabels::new(cause)).inc_by(spans);
    }
}

/// The spans that wait.
#[derive(Debug)]
struct SpanQueue {
    spans: mpsc::Sender<EndedSpan>,
    metrics: SpanMetrics,
}

impl SpanSink for SpanQueue {
    fn take(&self, span: EndedSpan) {
        if self.spans.try_send(span).is_err() {
            self.metrics.count_dropped(QUEUE_FULL, 1);
        }
    }
}

/// The thread that sends spans.
#[derive(Debug)]
pub(super) struct ExportThread {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl ExportThread {
    pub(super) fn start(
        collector: TraceCollector,
        daemon: &TracedDaemon,
        registry: &mut Registry,
    ) -> io::Result<Self> {
        let TraceCollector { endpoint, sample_ratio } = collector;
        let metrics = SpanMetrics::register(registry);
        let (sender, spans) = mpsc::channel(QUEUE_MAX);
        let (stop, stopping) = watch::channel(false);
        let (end, ended) = oneshot::channel::<()>();
        let endpoint = endpoint.with_body_limit(ANSWER_MAX_BYTES);
        let exporter = SpanExporter {
            endpoint,
            resource: describe(daemon),
            metrics: metrics.clone(),
            spans,
            stopping,
            has_failed: false,
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("traces".to_owned()).spawn(move || {
            runtime.block_on(exporter.run());
            // it is what the stop of the daemon waits for
            drop(end);
        })?;
        record_spans(sample_ratio, Arc::new(SpanQueue { spans: sender, metrics }));
        Ok(Self { stop, ended })
    }

    /// Sends the spans that still wait, within [`FLUSH_TIME`].
    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        if timeout(FLUSH_TIME, self.ended).await.is_err() {
            tracing::warn!("the last spans were not exported in time");
        }
    }
}

#[derive(Debug)]
struct SpanExporter {
    endpoint: UpstreamEndpoint,
    resource: Resource,
    metrics: SpanMetrics,
    spans: mpsc::Receiver<EndedSpan>,
    stopping: watch::Receiver<bool>,
    /// Whether the last request failed.
    has_failed: bool,
}

impl SpanExporter {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while !*self.stopping.borrow() {
            self.collect(&mut batch).await;
            self.send(&mut batch).await;
        }
        let began = monotonic();
        while let Ok(span) = self.spans.try_recv() {
            batch.push(span);
            if batch.len() == BATCH_MAX {
                self.send(&mut batch).await;
            }
            if began.elapsed() > FLUSH_TIME {
                return;
            }
        }
        self.send(&mut batch).await;
    }

    /// Waits for spans, and for others to join them. Returns earlier if the daemon stops.
    async fn collect(&mut self, batch: &mut Vec<EndedSpan>) {
        let Self { spans, stopping, .. } = self;
        tokio::select! {
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
            _ = spans.recv_many(batch, BATCH_MAX) => {}
        }
        let due = sleep(BATCH_WAIT);
        tokio::pin!(due);
        while batch.len() < BATCH_MAX {
            let left = BATCH_MAX - batch.len();
            tokio::select! {
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
                () = &mut due => return,
                _ = spans.recv_many(batch, left) => {}
            }
        }
    }

    /// Sends a batch once. If that fails, its spans are dropped. The first failure in a row is logged.
    async fn send(&mut self, batch: &mut Vec<EndedSpan>) {
        if batch.is_empty() {
            return;
        }
        let spans = batch.len() as u64;
        let failure = match self.post(mem::take(batch)).await {
            Ok(rejected) => {
                let rejected = rejected.min(spans);
                self.metrics.exported.inc_by(spans - rejected);
                self.metrics.count_dropped(REJECTED, rejected);
                let cause = || format!("it rejected {rejected} of {spans} spans; its own log has the cause");
                (rejected > 0).then(cause)
            }
            Err(cause) => {
                self.metrics.count_dropped(UNAVAILABLE, spans);
                Some(cause)
            }
        };
        match &failure {
            Some(cause) if !self.has_failed => {
                tracing::warn!(cause, "the collector does not take spans; they are dropped until it does");
            }
            None if self.has_failed => tracing::info!("the collector takes spans again"),
            _ => {}
        }
        self.has_failed = failure.is_some();
    }

    /// Sends a batch. Returns the number of spans that the collector rejected. Its message is not read, because the service log keeps
    /// no text of an upstream.
    async fn post(&self, batch: Vec<EndedSpan>) -> Result<u64, String> {
        let scope_spans = ScopeSpans {
            scope: Some(InstrumentationScope { name: "oracled".to_owned(), ..Default::default() }),
            spans: batch.into_iter().map(to_otlp).collect(),
            ..Default::default()
        };
        let (resource, scope_spans) = (Some(self.resource.clone()), vec![scope_spans]);
        let resource_spans = vec![ResourceSpans { resource, scope_spans, ..Default::default() }];
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let request = self.endpoint.post_bytes(&["v1", "traces"], "application/x-protobuf", body);
        let reply = self.endpoint.send(request, REQUEST_TIME).await.map_err(|failure| failure.to_string())?;
        self.endpoint.check(&reply).map_err(|failure| failure.to_string())?;
        // a collector that answers in another form has accepted them
        let answer = ExportTraceServiceResponse::decode(&*reply.body).unwrap_or_default();
        let rejected = answer.partial_success.unwrap_or_default();
        Ok(u64::try_from(rejected.rejected_spans).unwrap_or_default())
    }
}

/// The attributes that all spans share.
fn describe(daemon: &TracedDaemon) -> Resource {
    let text = |key: &str, value: &str| attribute(key, Value::StringValue(value.to_owned()));
    let host = daemon.host.as_deref().map(|host| text("service.instance.id", host));
    let is_test = daemon.is_test.then(|| attribute("oracled.test_mode", Value::BoolValue(true)));
    let attributes = [text("service.name", "oracled"), text("service.version", env!("CARGO_PKG_VERSION"))];
    Resource { attributes: attributes.into_iter().chain(host).chain(is_test).collect(), ..Default::default() }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

/// The failure of a span, as OpenTelemetry names it.
const ERROR_TYPE: &str = "error.type";

fn to_otlp(span: EndedSpan) -> Span {
    let EndedSpan { trace_id, span_id, parent_id, attributes, failure, began_at, .. } = span;
    let is_remote = if span.has_remote_parent { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
    let failed = failure.as_ref().map(|class| attribute(ERROR_TYPE, Value::StringValue(class.to_string())));
    let code = if failure.is_some() { StatusCode::Error } else { StatusCode::Unset };
    let began_ns = began_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let attributes = attributes.into_iter().map(|(key, value)| attribute(key, to_value(value)));
    let kind = match span.kind {
        SpanKind::Server => OtlpKind::Server,
        SpanKind::Client => OtlpKind::Client,
        SpanKind::Internal => OtlpKind::Internal,
    };
    Span {
        trace_id: trace_id.to_bytes().to_vec(),
        span_id: span_id.to_bytes().to_vec(),
        parent_span_id: parent_id.map(|id| id.to_bytes().to_vec()).unwrap_or_default(),
        // the flag `sampled`, as in a `traceparent`
        flags: 1 | SpanFlags::ContextHasIsRemoteMask as u32 | is_remote,
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: to_nanos(began_ns),
        end_time_unix_nano: to_nanos(began_ns.saturating_add(span.took)),
        attributes: attributes.chain(failed).collect(),
        status: Some(Status { code: code.into(), ..Default::default() }),
        ..Default::default()
    }
}

fn to_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn to_value(value: SpanValue) -> Value {
    match value {
        SpanValue::Text(text) => Value::StringValue(text.into_owned()),
        SpanValue::Number(number) => Value::IntValue(number),
        SpanValue::Flag(flag) => Value::BoolValue(flag),
    }
}
