//! Spans at a collector: one order is one trace, from the request to the mail.

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post as at_post;
use domain_verdict::label::{ProductTier, VerdictLabel};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use oracled_tests::generation::{
    coherent_answer, generation_request, read_metric, request_verdict, unreachable_url,
    wait_for_first_attempt, wait_for_order,
};
use oracled_tests::ground;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::wire::{WireConnection, post as whole_post};
use oracled_tests::{DaemonProcess, DaemonWorld, document, eventually, get, lines, log, read_whole_log};
use prost::Message;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::time::sleep;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
/// The daemon sends spans after 1 s. A test waits longer for those that must not come.
const NEXT_BATCH: Duration = Duration::from_millis(1500);

/// A collector that keeps what it receives. It rejects `rejected` spans of each request.
#[derive(Debug, Clone, Default)]
struct Collector {
    received: Arc<Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>>,
    rejected: i64,
}

impl Collector {
    /// Starts the collector. Returns its address.
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a port");
        let address = listener.local_addr().expect("a listener has its address");
        let router = Router::new().route("/v1/traces", at_post(receive)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}")
    }

    fn requests(&self) -> Vec<(HeaderMap, ExportTraceServiceRequest)> {
        self.received.lock().expect("the lock is not poisoned").clone()
    }

    fn spans(&self) -> Vec<Span> {
        let all = self.requests().into_iter().flat_map(|(_, request)| request.resource_spans);
        all.flat_map(|spans| spans.scope_spans).flat_map(|spans| spans.spans).collect()
    }

    /// The spans with this name, in the order of their beginnings.
    fn named(&self, name: &str) -> Vec<Span> {
        let mut spans: Vec<_> = self.spans().into_iter().filter(|span| span.name == name).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    /// The only span with this name.
    #[track_caller]
    fn only(&self, name: &str) -> Span {
        let mut spans = self.named(name);
        assert_eq!(spans.len(), 1, "{name}: {:#?}", self.spans());
        spans.remove(0)
    }

    async fn wait_for(&self, name: &str) {
        eventually(&format!("the collector has a span {name}"), async || !self.named(name).is_empty()).await;
    }
}

async fn receive(State(collector): State<Collector>, headers: HeaderMap, body: bytes::Bytes) -> Vec<u8> {
    assert_eq!(headers.get("content-type").expect("a type"), "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).expect("an export request");
    collector.received.lock().expect("the lock is not poisoned").push((headers, request));
    let error_message = "made\nup".to_owned();
    let rejected = ExportTracePartialSuccess { rejected_spans: collector.rejected, error_message };
    let partial_success = (collector.rejected > 0).then_some(rejected);
    ExportTraceServiceResponse { partial_success }.encode_to_vec()
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(attributes: &[KeyValue], key: &str) -> Value {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|found| found.value.clone()?.value) {
        Some(Attribute::StringValue(text)) => json!(text),
        Some(Attribute::IntValue(number)) => json!(number),
        Some(Attribute::BoolValue(flag)) => json!(flag),
        _ => Value::Null,
    }
}

const MODEL: &str = "gemini-2.5-flash";
const REQUEST: &str = "POST /v1/verdicts/{session_id}";
const COMMIT: &str = "journal commit";
const ATTEMPT: &str = "order attempt";

/// A world whose model answers, with these lines of configuration.
async fn world_with(model: &ModelServer, config: &str) -> DaemonWorld {
    model.set_default(ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, VerdictLabel::Green)));
    model.create_world(&format!("[health]\nhealth_check_interval_seconds = 3600\n{config}"))
}

/// Orders a verdict that is mailed, with these headers.
async fn order(socket: &Path, session: &str, headers: &[(&str, &str)]) {
    let mut body = generation_request(ProductTier::Quick);
    body["customer_email"] = json!("customer@example.org");
    let headers = [headers, &[("prefer", "respond-async")]].concat();
    let request = whole_post(&format!("/v1/verdicts/{session}"), &headers, body.to_string());
    let answer = WireConnection::connect(socket).await.exchange(request).await.expect("an answer");
    assert!(matches!(answer.status.as_u16(), 201 | 202), "{}", answer.status);
}

/// Each entry about the order names the trace, with or without a caller.
async fn assert_entries_name(trace: &str, daemon: &DaemonProcess<'_>) {
    let entries = log(&mut daemon.control().await, "session=cs_secret&after=0").await;
    for entry in &entries {
        let named =
            if entry["caller"].is_object() { &entry["caller"]["trace_id"] } else { &entry["trace_id"] };
        assert_eq!(*named, json!(trace), "{entry}");
    }
    for event in ["order_placed", "order_attempted", "verdict_cached", "message_sent"] {
        assert!(entries.iter().any(|entry| entry["event"] == event), "{event}: {entries:#?}");
    }
}

#[tokio::test]
async fn order_is_one_trace_from_the_request_to_the_mail() {
    let (model, mailbox, endpoint) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    let collector = Collector::default();
    let address = collector.start().await;
    let mail = format!("[mail]\ntransport = \"http\"\nbase_url = \"{}\"", mailbox.url());
    let mut world = world_with(&model, &format!("{mail}\n[traces]\nbase_url = \"{address}\"")).await;
    world.configure_webhooks(Some(&endpoint.url()), &endpoint.url());
    world.config.push_str("[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n");
    let daemon = world.serve().await;
    order(&world.socket(), "cs_secret", &[]).await;
    wait_for_order(&mut daemon.routes().await, "cs_secret", "delivered").await;
    for name in ["send mail", "send webhook"] {
        collector.wait_for(name).await;
    }
    let (request, attempt) = (collector.only(REQUEST), collector.only(ATTEMPT));
    let (call, mailed) = (collector.only(&format!("chat {MODEL}")), collector.only("send mail"));
    let trace = hex(&request.trace_id);
    let of_the_trace: Vec<_> =
        collector.spans().into_iter().filter(|span| hex(&span.trace_id) == trace).collect();
    for (span, parent, kind) in [
        (&attempt, &request, SpanKind::Internal),
        (&call, &attempt, SpanKind::Client),
        (&mailed, &attempt, SpanKind::Client),
        (&collector.only("send webhook"), &attempt, SpanKind::Client),
    ] {
        assert_eq!(
            (hex(&span.trace_id), &span.parent_span_id),
            (trace.clone(), &parent.span_id),
            "{span:#?}"
        );
        assert_eq!(span.kind(), kind, "{span:#?}");
        let (begin, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert!(begin < end && begin >= parent.start_time_unix_nano, "{span:#?}");
    }
    assert_eq!((request.parent_span_id.len(), request.kind()), (0, SpanKind::Server));
    let commits: Vec<_> = of_the_trace.iter().filter(|span| span.name == COMMIT).collect();
    for parent in [&request, &attempt] {
        assert!(commits.iter().any(|commit| commit.parent_span_id == parent.span_id), "{commits:#?}");
    }
    for (span, key, value) in [
        (&request, "http.response.status_code", json!(202)),
        (&request, "http.request.method", json!("POST")),
        (&request, "oracled.socket", json!("routes")),
        (&attempt, "oracled.outcome", json!("delivered")),
        (&attempt, "oracled.tier", json!("quick")),
        (&call, "gen_ai.request.model", json!(MODEL)),
        (&call, "gen_ai.usage.output_tokens", json!(40)),
        (&mailed, "oracled.message", json!("verdict")),
    ] {
        assert_eq!(attribute(&span.attributes, key), value, "{key}: {span:#?}");
    }
    // the model and the mail service can continue the trace
    for (server, span) in [(&model, &call), (&mailbox, &mailed)] {
        let sent = format!("00-{trace}-{}-01", hex(&span.span_id));
        assert_eq!(server.requests()[0].header("traceparent"), Some(&*sent));
    }
    let text = format!("{:?}", collector.requests());
    for personal in ["cs_secret", "customer@", "honey", "sound and simple"] {
        assert!(!text.contains(personal), "{personal} was exported");
    }
    assert_entries_name(&trace, &daemon).await;
    assert_eq!(
        read_metric(&mut daemon.routes().await, "oracled_spans_dropped_total{cause=\"queue_full\"}").await,
        0.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn order_continues_its_trace_after_a_restart() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let collector = Collector::default();
    let address = collector.start().await;
    let mail = format!("[mail]\ntransport = \"http\"\nbase_url = \"{}\"", mailbox.url());
    let world = world_with(&model, &format!("{mail}\n[traces]\nbase_url = \"{address}\"")).await;
    model.next([ScriptedReply::error(503, "busy")]);
    let daemon = world.serve().await;
    order(&world.socket(), "cs_1", &[]).await;
    wait_for_first_attempt(&mut daemon.routes().await, "cs_1").await;
    assert!(daemon.stop().success());
    // the stop has sent all spans
    let (request, first) = (collector.only(REQUEST), collector.only(ATTEMPT));
    assert_eq!(attribute(&first.attributes, "error.type"), "model_unavailable");
    let daemon = world.serve().await;
    wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
    collector.wait_for("send mail").await;
    assert!(daemon.stop().success());
    let [_, second] = &collector.named(ATTEMPT)[..] else { panic!("not two attempts: {collector:#?}") };
    let mailed = collector.only("send mail");
    for (span, parent) in [(second, &request), (&mailed, second)] {
        assert_eq!((&span.trace_id, &span.parent_span_id), (&request.trace_id, &parent.span_id), "{span:#?}");
    }
    let daemon = world.serve().await;
    let entries = log(&mut daemon.control().await, "session=cs_1&after=0").await;
    let attempted: Vec<_> = entries.iter().filter(|entry| entry["event"] == "order_attempted").collect();
    let trace = json!(hex(&request.trace_id));
    assert_eq!((&attempted[0]["caller"]["trace_id"], &attempted[1]["trace_id"]), (&trace, &trace));
    let shown = world.ctl_in_thread(&["log", "--session", "cs_1"]).await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(&format!("[trace {}]", hex(&request.trace_id))), "{shown}");
    let order = get(&mut daemon.control().await, "/v1/orders/cs_1").await;
    assert!(document(&order).get("trace").is_none(), "{}", document(&order));
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_of_a_caller_is_continued_if_it_is_sampled() {
    let model = ModelServer::start().await;
    let collector = Collector::default();
    let address = collector.start().await;
    let mut world = world_with(&model, "").await;
    let header = world.path("collector-header");
    fs::write(&header, "Authorization: Bearer made-up\n").expect("the file is written");
    // the ratio is for traces that begin here
    world.config.push_str(&format!(
        "[traces]\nbase_url = \"{address}\"\nsample_ratio = 0\nheader_file = \"{}\"\n",
        header.display()
    ));
    let daemon = world.serve().await;
    let unsampled = format!("00-{}-{PARENT}-00", "ab".repeat(16));
    for (session, traceparent) in [("cs_1", format!("00-{TRACE}-{PARENT}-01")), ("cs_2", unsampled)] {
        order(&world.socket(), session, &[("traceparent", &traceparent)]).await;
        wait_for_order(&mut daemon.routes().await, session, "delivered").await;
    }
    collector.wait_for(ATTEMPT).await;
    assert!(daemon.stop().success());
    let request = collector.only(REQUEST);
    assert_eq!((hex(&request.trace_id), hex(&request.parent_span_id)), (TRACE.into(), PARENT.into()));
    assert!(collector.spans().iter().all(|span| hex(&span.trace_id) == TRACE), "{:#?}", collector.spans());
    let requests = collector.requests();
    assert!(requests.iter().all(|(headers, _)| headers["authorization"] == "Bearer made-up"));
    let resource = requests[0].1.resource_spans[0].resource.clone().expect("a resource");
    assert_eq!(attribute(&resource.attributes, "service.name"), "oracled");
}

#[tokio::test(flavor = "multi_thread")]
async fn ratio_of_0_exports_no_span_and_names_no_trace() {
    let model = ModelServer::start().await;
    let collector = Collector::default();
    let address = collector.start().await;
    let config = format!("[traces]\nbase_url = \"{address}\"\nsample_ratio = 0.0");
    let world = world_with(&model, &config).await;
    let daemon = world.serve().await;
    order(&world.socket(), "cs_1", &[]).await;
    wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
    sleep(NEXT_BATCH).await;
    let entries = read_whole_log(&mut daemon.control().await).await;
    assert!(!json!(entries).to_string().contains("trace_id"), "{entries:#?}");
    assert!(daemon.stop().success());
    assert_eq!(collector.spans(), Vec::new());
}

/// The entries of the service log with this message.
fn logged(world: &DaemonWorld, message: &str) -> Vec<Value> {
    let entries = lines(world.service_log().as_bytes()).into_iter();
    entries.filter(|line| line["fields"]["message"] == message).collect()
}

const DROPPED: &str = "the collector does not take spans; they are dropped until it does";

#[tokio::test]
async fn collector_that_is_away_harms_no_order() {
    let model = ModelServer::start().await;
    let (_reserved, address) = unreachable_url();
    let mut world = world_with(&model, &format!("[traces]\nbase_url = \"{address}\"")).await;
    world.config.insert_str(0, "log_format = \"json\"\n");
    let daemon = world.serve().await;
    let dropped = "oracled_spans_dropped_total{cause=\"unavailable\"}";
    let mut before = 0.0;
    for session in ["cs_1", "cs_2"] {
        assert_eq!(request_verdict(&mut daemon.routes().await, session).await.status, 201);
        eventually("the spans are counted", async || {
            read_metric(&mut daemon.routes().await, dropped).await > before + 4.0
        })
        .await;
        before = read_metric(&mut daemon.routes().await, dropped).await;
    }
    assert!(daemon.stop().success());
    assert_eq!(logged(&world, DROPPED).len(), 1, "{}", world.service_log());
}

#[tokio::test]
async fn collector_that_does_not_answer_delays_the_stop_by_seconds() {
    let model = ModelServer::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a port");
    let address = silent.local_addr().expect("a listener has its address");
    let world = world_with(&model, &format!("[traces]\nbase_url = \"http://{address}\"")).await;
    let daemon = world.serve().await;
    assert_eq!(request_verdict(&mut daemon.routes().await, "cs_1").await.status, 201);
    sleep(NEXT_BATCH).await;
    let began = Instant::now();
    assert!(daemon.stop().success());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn rejected_spans_are_counted_apart() {
    let model = ModelServer::start().await;
    let collector = Collector { rejected: 1, ..Collector::default() };
    let address = collector.start().await;
    let mut world = world_with(&model, &format!("[traces]\nbase_url = \"{address}\"")).await;
    world.config.insert_str(0, "log_format = \"json\"\n");
    let daemon = world.serve().await;
    assert_eq!(request_verdict(&mut daemon.routes().await, "cs_1").await.status, 201);
    let routes = &mut daemon.routes().await;
    eventually("a span is rejected", async || {
        read_metric(routes, "oracled_spans_dropped_total{cause=\"rejected\"}").await >= 1.0
    })
    .await;
    assert!(read_metric(routes, "oracled_spans_exported_total").await >= 4.0);
    let warnings = logged(&world, DROPPED);
    let cause = warnings[0]["fields"]["cause"].as_str().expect("a cause");
    assert!(cause.starts_with("it rejected 1 of ") && !cause.contains("made"), "{warnings:?}");
}

#[tokio::test]
async fn run_of_a_source_is_a_span_of_the_request_that_began_it() {
    let model = ModelServer::start().await;
    let collector = Collector::default();
    let address = collector.start().await;
    let world = world_with(&model, &format!("[traces]\nbase_url = \"{address}\"")).await;
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    ground::register(control, "iso-4217").await;
    ground::approve(control, "iso-4217").await;
    let payload = ground::example("data/iso-4217/4.20.1.json").to_string();
    let run =
        ground::started_run(&ground::ingest(control, "iso-4217", "4.20.1", "2026-02-01", payload).await);
    ground::wait_for_run(control, &run).await;
    collector.wait_for("ingestion run").await;
    let ran = collector.only("ingestion run");
    let request = collector.only("POST /v1/pipelines/{pipeline_id}/runs");
    assert_eq!((&ran.trace_id, &ran.parent_span_id), (&request.trace_id, &request.span_id));
    assert_eq!(attribute(&ran.attributes, "oracled.source"), "iso-4217");
    assert_eq!(attribute(&ran.attributes, "oracled.state"), "completed");
    assert!(attribute(&ran.attributes, "oracled.records").as_u64() > Some(0), "{ran:#?}");
    let commits = collector.named(COMMIT);
    assert!(commits.iter().any(|commit| commit.parent_span_id == ran.span_id), "{commits:#?}");
}

/// Sends a whole request, and reads the answer.
async fn send(socket: &Path, request: Vec<u8>) {
    let sent = WireConnection::connect(socket).await.exchange(request).await;
    sent.expect("the daemon answers");
}

/// The mark of an input.
fn mark(input: &str) -> String {
    format!("zq{input}x7w")
}

/// Orders a verdict with a mark in each input.
async fn order_marked(world: &DaemonWorld, daemon: &DaemonProcess<'_>, n: usize) {
    let headers = [
        ("x-request-id", mark(&format!("request{n}"))),
        ("user-agent", mark("agent")),
        ("traceparent", format!("00-{TRACE}-{PARENT}-01")),
        ("tracestate", format!("vendor={}", mark("state"))),
        ("prefer", "respond-async".to_owned()),
    ];
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let body = json!({
        "tier": "quick", "query": mark("query"), "customer_email": format!("{}@example.org", mark("email")),
    });
    let session = format!("{}-{n}", mark("session"));
    send(&world.socket(), whole_post(&format!("/v1/verdicts/{session}"), &headers, body.to_string())).await;
    wait_for_first_attempt(&mut daemon.routes().await, &session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn span_and_metric_have_no_text_of_a_caller_or_an_upstream() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let collector = Collector::default();
    let address = collector.start().await;
    let mail = format!("[mail]\ntransport = \"http\"\nbase_url = \"{}\"", mailbox.url());
    let mut world = world_with(&model, &format!("{mail}\n[traces]\nbase_url = \"{address}\"")).await;
    world.config.push_str(&format!(
        "\n[lookup]\npreset = \"stripe\"\nsession_url = \"{}/v1/{{session_id}}\"\n",
        mailbox.url()
    ));
    world.config.push_str("[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n");
    world.variables.push(("LOOKUP_TOKEN".into(), "sk_test_not_a_real_key".into()));
    mailbox.set_default(ScriptedReply::bytes(502, mark("mail")).header("x-request-id", &mark("reply")));
    let mut stopped = json!({"candidates": [{"finishReason": mark("finish")}]});
    stopped["modelVersion"] = json!(mark("version"));
    model.next([
        ScriptedReply::error(501, &mark("error")),
        ScriptedReply::json(200, &stopped),
        ScriptedReply::json(200, &json!({"promptFeedback": {"blockReason": mark("blocked")}})),
    ]);
    let daemon = world.serve().await;
    for n in 0..4 {
        order_marked(&world, &daemon, n).await;
    }
    for path in [mark("path"), format!("v1/verdicts/{}?{}=1", mark("unknown"), mark("parameter"))] {
        let answer = get(&mut daemon.routes().await, &format!("/{path}")).await;
        assert!(!answer.status.is_success(), "{path}");
    }
    let raw = format!(
        "{} /{} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        "ZQMETHODX7W",
        mark("path"),
        mark("host")
    );
    send(&world.socket(), raw.into_bytes()).await;
    for name in ["send mail", &*format!("chat {MODEL}"), "other unmatched"] {
        collector.wait_for(name).await;
    }
    let metrics = [
        get(&mut daemon.routes().await, "/metrics").await,
        get(&mut daemon.control().await, "/metrics").await,
    ];
    let metrics = metrics.map(|answer| String::from_utf8_lossy(&answer.body).to_lowercase());
    assert!(daemon.stop().success());
    let spans = collector.spans();
    assert!(spans.len() > 10, "{}", spans.len());
    for span in &spans {
        // names, attributes with keys and values, events, links, states and statuses
        let text = format!("{span:?}").to_lowercase();
        assert!(!text.contains("zq") && span.trace_state.is_empty(), "{span:#?}");
        for attribute in &span.attributes {
            assert_ne!(attribute.key, "oracled.request_id", "{span:#?}");
        }
    }
    let resources =
        format!("{:?}", collector.requests().iter().map(|(_, request)| request).collect::<Vec<_>>());
    assert!(!resources.to_lowercase().contains("x7w"), "a resource or a scope has a mark");
    for text in metrics {
        assert!(!text.contains("x7w"), "{:?}", text.lines().find(|line| line.contains("x7w")));
    }
}
