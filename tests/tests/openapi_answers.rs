//! Calls the operations of all sockets and compares every answer with their OpenAPI documents.

use bytes::Bytes;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse, ResponseLines};
use oracled_api::streamed_body::StreamedBody;
use oracled_tests::described::{METHODS, is_of_template, validator};
use oracled_tests::generation::unreachable_url;
use oracled_tests::ground::{
    example_documents, ingest, register_all, register_gated, started_run, wait_for_run,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::verification::{register_offices, workflow};
use oracled_tests::{at, document, eventually, lines, submission};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A verdict that passes the crosscheck.
const VERDICT: &str = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;
/// The operations for which no answer with a status below 400 is made here: no run lasts long enough to be canceled, this daemon is in
/// no cluster, and no verdict is recalled (`recall.rs` compares those answers).
const NEVER_DONE: [&str; 6] = [
    "cancel_run",
    "decide_recall_notice",
    "leave_cluster",
    "read_cluster",
    "read_recall_notice",
    "remove_cluster_host",
];

/// A socket with its OpenAPI document.
struct Described {
    document: Value,
    client: DaemonClient,
    /// The operations that answered with a status below 400.
    done: BTreeSet<String>,
}

impl Described {
    async fn of(mut client: DaemonClient) -> Self {
        let answer = oracled_tests::get(&mut client, "/openapi.json").await;
        Self { document: document(&answer), client, done: BTreeSet::new() }
    }

    /// The value that a reference leads to; another value is itself.
    fn resolve<'v>(&'v self, value: &'v Value) -> &'v Value {
        let place = value["$ref"].as_str().map(|place| place.trim_start_matches('#'));
        place.map_or(value, |place| self.document.pointer(place).expect(place))
    }

    /// The operation with this method and path.
    fn operation(&self, method: &Method, path: &str) -> &Value {
        let paths = self.document["paths"].as_object().expect("the document has paths");
        let item = paths.iter().filter(|(template, _)| is_of_template(template, path));
        // a path without parameters comes first
        let (_, item) = item.min_by_key(|(template, _)| template.contains('{')).expect(path);
        &item[method.as_str().to_lowercase()]
    }

    /// Sends a request and checks its answer.
    async fn call(&mut self, method: Method, path: &str, body: Option<Bytes>) -> DaemonResponse {
        let answer = self.client.call(method.clone(), path, body).await.expect("the server answers");
        self.check(&method, path, &answer);
        answer
    }

    async fn get(&mut self, path: &str) -> DaemonResponse {
        self.call(Method::GET, path, None).await
    }

    async fn send(&mut self, method: Method, path: &str, body: Value) -> DaemonResponse {
        let described =
            self.operation(&method, path).pointer("/requestBody/content/application~1json/schema");
        if let Some(schema) = described {
            let fault = validator(&self.document, schema).validate(&body).map_err(|error| error.to_string());
            assert_eq!(fault, Ok(()), "the body of {method} {path}: {body}");
        }
        self.call(method, path, Some(body.to_string().into())).await
    }

    async fn post(&mut self, path: &str, body: Value) -> DaemonResponse {
        self.send(Method::POST, path, body).await
    }

    /// Compares an answer with its description: status, headers, media type and body.
    fn check(&mut self, method: &Method, path: &str, answer: &DaemonResponse) {
        let (operation, status) = (self.operation(method, path).clone(), answer.status.as_u16());
        let name = format!("{method} {path} {status}");
        let response = self.resolve(&operation["responses"][status.to_string()]).clone();
        assert!(response.is_object(), "{name} is not described: {}", document(answer));
        let described = response["headers"].as_object().into_iter().flatten();
        let required: BTreeMap<_, _> = described
            .map(|(name, header)| (name.to_lowercase(), self.resolve(header)["required"] == true))
            .collect();
        for header in ["x-request-id", "x-cache", "location", "retry-after"] {
            let (expected, is_sent) = (required.get(header), answer.headers.contains_key(header));
            assert!(expected.map_or(!is_sent, |required| is_sent || !required), "{name}: {header}");
        }
        let media_type = answer.headers.get("content-type").and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or_default();
        let schema = &response["content"][media_type]["schema"];
        assert!(schema.is_object(), "{name}: {media_type} is not described");
        let values = match media_type {
            "application/x-ndjson" => lines(&answer.body),
            "application/openmetrics-text" | "text/plain" | "text/html" => {
                vec![json!(String::from_utf8_lossy(&answer.body))]
            }
            "application/octet-stream" | "application/x-tar" => vec![json!(answer.body.to_vec())],
            _ => vec![document(answer)],
        };
        let validator = validator(&self.document, schema);
        for value in values {
            let faults: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{name}: {faults:#?}\n{value}");
        }
        if status < 400 {
            self.done.extend(operation["operationId"].as_str().map(str::to_owned));
        }
    }

    /// The operations without an answer below 400.
    fn open(&self) -> BTreeSet<&str> {
        let paths = self.document["paths"].as_object().expect("the document has paths");
        let operations = paths.values().flat_map(|item| METHODS.iter().filter_map(|method| item.get(method)));
        let names = operations.filter_map(|operation| operation["operationId"].as_str());
        names.filter(|name| !self.done.contains(*name)).collect()
    }
}

#[tokio::test]
async fn answers_of_all_sockets_match_their_descriptions() {
    let (_reserved, mailbox) = unreachable_url();
    let (model, operators) = (ModelServer::start().await, ModelServer::start().await);
    operators.set_default(ScriptedReply::bytes(410, ""));
    let mut world = model.create_world(&format!(
        "[mail]\ntransport = \"http\"\nbase_url = \"{mailbox}\"\n[ingestion]\nallow_local = [\"127.0.0.0/8\"]\n[gate]\nhold = [\"short_summary\"]\n"
    ));
    world.configure_webhooks(None, &operators.url());
    world.config.push_str("pause_after_s = 1\n");
    world.add_review_socket();
    let daemon = world.serve().await;
    register_offices(&daemon, &[("office-a", "primary", "54208"), ("office-b", "primary", "54608")]).await;
    let (mut routes, mut control) =
        (Described::of(daemon.routes().await).await, Described::of(daemon.control().await).await);
    let mut review = Described::of(daemon.review().await).await;
    documents(&mut control).await;
    // a mail stays queued while the circuit is open
    assert_eq!(control.post("/v1/health/oracles/mail", json!({"action": "open"})).await.status, 200);
    webhooks(&mut control).await;
    verdicts(&mut routes).await;
    orders(&mut routes, &mut control, &model).await;
    held_orders(&mut routes, &mut review).await;
    notices(&mut control).await;
    notices(&mut review).await;
    texts(&mut routes).await;
    let execution_id = verification(&mut routes, &mut control).await;
    verification(&mut routes, &mut review).await;
    let record_id = facts(&mut routes).await;
    sources(&mut control, &record_id).await;
    runs(&mut control).await;
    held_runs(&mut control).await;
    pulls(&mut control).await;
    sessions(&mut control).await;
    follow(&mut control, daemon.control().await).await;
    control.get(&format!("/v1/executions/{execution_id}")).await;
    let trial = control.post("/v1/prompts/try", json!({"tier": "quick", "query": "Sell honey?"})).await;
    assert_eq!(trial.status, 200, "{}", document(&trial));
    for path in [
        "/v1/status",
        "/v1/actors",
        "/v1/series?range=day",
        "/v1/inbox?min_age_s=0",
        "/v1/health/oracles",
        "/v1/log?limit=10000",
        "/v1/log/checkpoint",
        "/v1/log/proof?seq=1&size=2",
        "/v1/log/continuation?old_size=1&size=2",
        "/v1/divergence",
        "/v1/costs",
    ] {
        assert_eq!(control.get(path).await.status, 200, "{path}");
    }
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/health/oracles"] {
        assert_eq!(routes.get(path).await.status, 200, "{path}");
    }
    assert_eq!(control.call(Method::POST, "/v1/backup", None).await.status, 200);
    control.get("/openapi.json").await;
    control.post("/v1/health/oracles/none", json!({"action": "probe"})).await;
    let level = document(&control.get("/v1/log-level").await);
    control.send(Method::PUT, "/v1/log-level", level).await;
    control.call(Method::POST, "/v1/reload", None).await;
    control.post("/v1/drain", json!({"draining": true})).await;
    assert_eq!(routes.post("/v1/verdicts/cs_9", submission(VERDICT)).await.status, 503);
    assert_eq!(routes.get("/readyz").await.status, 503);
    assert_eq!(routes.open(), BTreeSet::new());
    review.get("/openapi.json").await;
    assert_eq!(control.open(), BTreeSet::from(NEVER_DONE));
    assert_eq!(review.open(), BTreeSet::from(["decide_recall_notice", "read_recall_notice"]));
}

async fn documents(control: &mut Described) {
    let policy = json!({
        "oracle_id": "office-a", "default_max_age_seconds": 3_000_000_000_u64, "default_stale_behavior": "fail_closed",
        "invalidation_triggers": [{"trigger_type": "upstream_signal", "config": {"webhook": "/v1/signals/office"}}],
    });
    let census = workflow("census", &["office-a", "office-b"], json!({}));
    control.send(Method::PUT, "/v1/documents/freshness_policy/office-a", policy.clone()).await;
    let documents = json!([
        {"kind": "workflow", "document": census},
        {"kind": "freshness_policy", "document": policy},
        {"kind": "review_rule", "document": {
            "review_rule_id": "small-difference", "version": 1, "workflows": ["census"], "take": {"source": "office-a"},
            "difference_below_percent": "1", "valid_for_days": 90,
        }},
    ]);
    assert_eq!(at(&control.post("/v1/documents", json!({"documents": documents})).await, "/registered"), 3);
    let faulty =
        json!({"documents": [{"kind": "workflow", "document": workflow("other", &["missing"], json!({}))}]});
    assert!(at(&control.post("/v1/documents", faulty).await, "/items/0/fault/code").is_string());
    for kind in ["ontology", "source", "freshness_policy", "pipeline", "adapter", "workflow", "review_rule"] {
        let listed = control.get(&format!("/v1/documents/{kind}?limit=1")).await;
        if let Some(id) = at(&listed, "/items/0/document_id").as_str() {
            assert_eq!(control.get(&format!("/v1/documents/{kind}/{id}")).await.status, 200);
        }
    }
    control.get("/v1/documents/workflow/none").await;
    control.get("/v1/documents/nothing").await;
}

async fn verdicts(routes: &mut Described) {
    let mut submitted = submission(VERDICT);
    submitted["customer_email"] = json!("customer@example.org");
    assert_eq!(routes.post("/v1/verdicts/cs_1", submitted.clone()).await.status, 201);
    assert_eq!(at(&routes.post("/v1/verdicts/cs_1", submitted).await, "/replayed"), true);
    routes.post("/v1/verdicts/cs_1", json!({"tier": "full", "query": "?", "raw": VERDICT})).await;
    assert_eq!(routes.get("/v1/verdicts/cs_1").await.status, 200);
    assert_eq!(routes.get("/v1/verdicts/cs_1?card=1").await.status, 200);
    assert_eq!(routes.get("/v1/verdicts/cs_none").await.status, 404);
    assert_eq!(routes.post("/v1/verdicts/cs_2", submission("{}")).await.status, 422);
    let with_facts =
        json!({"tier": "quick", "query": "?", "raw": VERDICT, "facts": ["A plan is sound and simple."]});
    routes.post("/v1/verdicts/cs_3", with_facts).await;
    routes.post("/v1/verdicts/cs_4", json!({"tier": "quick", "query": "?"})).await;
    let verdict: Value = serde_json::from_str(VERDICT).expect("valid JSON");
    let cached = json!({"tier": "quick", "query": "?", "verdict": verdict});
    assert_eq!(routes.post("/cache/cs_5", cached).await.status, 201);
    assert_eq!(routes.get("/cache/cs_5").await.status, 200);
    let check = json!({"session_id": "cs_6", "tier": "strategy", "query": "?", "verdict": verdict});
    assert_eq!(at(&routes.post("/v1/crosscheck", check).await, "/approved"), false);
    let session = json!({"tier": "full", "query": "Sell honey?", "original_verdict": "AMBER"});
    assert_eq!(routes.send(Method::PUT, "/v1/sessions/cs_7", session).await.status, 201);
}

async fn texts(routes: &mut Described) {
    assert_eq!(routes.get("/v1/rules").await.status, 200);
    let facts_from =
        json!([{"query": {"oracle_id": "office-a", "request": {"axes_requested": ["population"]}}}]);
    let check = json!({
        "candidate_output": "Aruba had 54208 people in 1960.", "facts": ["Aruba is an island."], "facts_from": facts_from,
        "constraints": ["1 < 2"], "expected": {"must_find": ["Aruba"], "max_unsupported_claims": 9},
        "rules": ["RULE-PREC-001", "RULE-PREC-002", "RULE-CONT-002"],
    });
    routes.post("/v1/rules/evaluate", check.clone()).await;
    let plain = json!({"candidate_output": "It is not so. It is so.", "facts": []});
    assert_eq!(routes.post("/v1/rules/evaluate", plain.clone()).await.status, 200);
    check_batch(routes, "/v1/rules/evaluate:batch", &[plain, json!({}), check]).await;
}

/// Posts one request per line, and checks that each line of the answer is described.
async fn check_batch(routes: &mut Described, path: &str, requests: &[Value]) {
    let (mut sender, body) = StreamedBody::new(1);
    let text: String = requests.iter().map(|request| format!("{request}\n")).collect();
    sender.send(text.into()).await.expect("the read succeeds");
    sender.finish();
    let response = routes.client.post_lines(path, body).await.expect("the server answers");
    let answer = DaemonResponse::read_whole(response).await.expect("the answer is complete");
    assert_eq!(lines(&answer.body).len(), requests.len());
    routes.check(&Method::POST, path, &answer);
}

/// Returns the id of a record.
async fn facts(routes: &mut Described) -> String {
    let request = json!({"axes_requested": ["population"], "include_provenance": true, "explain": true,
        "filters": [{"axis": "area", "operator": "eq", "value": "ABW"}]});
    let found = routes.post("/v1/query", json!({"oracle_id": "office-a", "request": request})).await;
    let record_id = at(&found, "/response/records/0/record_id");
    let record_id = record_id.as_str().expect("a record is found").to_owned();
    routes.post("/v1/query", json!({"oracle_id": "missing", "request": request})).await;
    let query = json!({"oracle_id": "office-a", "request": request});
    check_batch(routes, "/v1/query:batch", &[query, json!({})]).await;
    assert_eq!(routes.get(&format!("/v1/records/{record_id}")).await.status, 200);
    assert_eq!(routes.get(&format!("/v1/records/{record_id}/provenance")).await.status, 200);
    routes.get("/v1/records/0123456789abcdef-7").await;
    assert_eq!(routes.get("/v1/sources").await.status, 200);
    assert_eq!(routes.get("/v1/changes?limit=10").await.status, 200);
    routes.get("/v1/changes?since=nowhere").await;
    assert_eq!(routes.post("/v1/signals/office", json!({})).await.status, 200);
    assert_eq!(routes.post("/v1/signals/nothing", json!({})).await.status, 404);
    record_id
}

/// Returns the id of a verification.
async fn verification(routes: &mut Described, reviewer: &mut Described) -> String {
    let question =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let envelope = routes.post("/v1/verify", question.clone()).await;
    assert_eq!(at(&envelope, "/kind"), "human_review", "{}", document(&envelope));
    let execution_id = at(&envelope, "/execution_id").as_str().expect("an id").to_owned();
    check_batch(routes, "/v1/verify:batch", &[question.clone(), json!({})]).await;
    assert_eq!(routes.get(&format!("/v1/verify/{execution_id}")).await.status, 200);
    routes.get("/v1/verify/none").await;
    let path = format!("/v1/reviews/{execution_id}");
    assert_eq!(reviewer.get("/v1/reviews").await.status, 200);
    assert_eq!(reviewer.get(&path).await.status, 200);
    assert_eq!(reviewer.get(&format!("{path}/evidence")).await.status, 200);
    assert_eq!(reviewer.get("/v1/review-rules").await.status, 200);
    assert_eq!(reviewer.get(&format!("{path}/rules/small-difference")).await.status, 200);
    reviewer.get(&format!("{path}/rules/none")).await;
    let comment = json!({"text": "which edition is it?"});
    assert_eq!(reviewer.post(&format!("{path}/comments"), comment).await.status, 200);
    let resolution =
        json!({"values": {"population": 54208}, "reason": "the census", "valid_for_seconds": 3600});
    let resolved = reviewer.post(&format!("{path}/resolve"), resolution).await;
    assert_eq!(resolved.status, 200, "{}", document(&resolved));
    assert_eq!(routes.post("/v1/verify", question.clone()).await.status, 200);
    reviewer.post(&format!("{path}/dismiss"), json!({"reason": "late"})).await;
    assert_eq!(reviewer.post(&format!("{path}/revoke"), json!({"reason": "misread"})).await.status, 200);
    let again = at(&routes.post("/v1/verify", question).await, "/review_id");
    let path = format!("/v1/reviews/{}", again.as_str().expect("a review is opened"));
    assert_eq!(reviewer.post(&format!("{path}/dismiss"), json!({"reason": "late"})).await.status, 200);
    reviewer.get("/v1/reviews?open=false").await;
    execution_id
}

async fn sources(control: &mut Described, record_id: &str) {
    let path = "/v1/sources/office-a";
    for operation in ["invalidate", "confirm"] {
        let done = control.post(&format!("{path}/{operation}"), json!({"reason": "a test"})).await;
        assert_eq!(done.status, 200, "{}", document(&done));
    }
    control.post(&format!("{path}/confirm"), json!({"reason": "again"})).await;
    for operation in ["prune", "verify"] {
        assert_eq!(control.post(&format!("{path}/{operation}"), json!({})).await.status, 200, "{operation}");
    }
    assert_eq!(control.call(Method::POST, &format!("{path}/rebuild"), None).await.status, 200);
    for path in [path.to_owned(), format!("{path}/freshness"), format!("{path}/export")] {
        assert_eq!(control.get(&path).await.status, 200, "{path}");
    }
    let filter = |axis: &str, value: &str| json!({"axis": axis, "operator": "eq", "value": value});
    let filters = json!([filter("area", "ABW"), filter("year", "1960")]);
    let history = json!({"axis": "population", "filters": filters});
    assert_eq!(control.post(&format!("{path}/history"), history).await.status, 200);
    control.post(&format!("{path}/history"), json!({"axis": "none", "filters": []})).await;
    control.post("/v1/sources/missing/history", json!({"axis": "none", "filters": []})).await;
    assert_eq!(control.get(&format!("/v1/records/{record_id}/provenance")).await.status, 200);
    let date = json!({"deprecate": "2099-01-01"});
    assert_eq!(control.post("/v1/sources/office-b/review", date).await.status, 200);
    control.get("/v1/sources/missing").await;
}

async fn runs(control: &mut Described) {
    let listed = control.get("/v1/runs?oracle_id=office-a").await;
    let run_id = at(&listed, "/items/0/run/run_id");
    let path = format!("/v1/runs/{}", run_id.as_str().expect("a run"));
    assert_eq!(control.get(&path).await.status, 200);
    assert_eq!(control.get(&format!("{path}/rejects")).await.status, 200);
    assert_eq!(control.get(&format!("{path}/changes")).await.status, 200);
    control.call(Method::POST, &format!("{path}/cancel"), None).await;
    for operation in ["approve", "discard", "undo"] {
        control.post(&format!("{path}/{operation}"), json!({"reason": "a test"})).await;
    }
    let upload = "/v1/pipelines/office-a/runs?version=2&released_at=2026-03-08";
    let payload = "Country Name,Country Code,Year,Value\nAruba,ABW,1960,no number\n";
    let answer = control.call(Method::POST, upload, Some(payload.into())).await;
    assert_eq!(answer.status, 202);
    control.call(Method::POST, "/v1/pipelines/office-a/pull", None).await;
    control.call(Method::POST, "/v1/pipelines/none/pull", None).await;
    control.get("/v1/runs").await;
    assert_eq!(control.get("/v1/recalls?oracle_id=office-a").await.status, 200);
    control.get("/v1/recalls?oracle_id=none").await;
    assert_eq!(control.post("/v1/what-if", json!({})).await.status, 200);
}

/// Two runs that withdraw half of the records, so that they are held.
async fn held_runs(control: &mut Described) {
    let pipeline = "world-bank-population";
    register_gated(&mut control.client, pipeline).await;
    for (version, years, operation) in [
        ("2020-01-01", 1960..1990, None),
        ("2021-01-01", 1960..1975, Some("discard")),
        ("2022-01-01", 1960..1975, Some("approve")),
    ] {
        let rows: String = years.map(|year| format!("Aruba,ABW,{year},54208\n")).collect();
        let payload = format!("Country Name,Country Code,Year,Value\n{rows}");
        let upload = ingest(&mut control.client, pipeline, version, version, payload).await;
        let run_id = started_run(&upload);
        wait_for_run(&mut control.client, &run_id).await;
        if let Some(operation) = operation {
            let done =
                control.post(&format!("/v1/runs/{run_id}/{operation}"), json!({"reason": "a test"})).await;
            assert!(done.status.is_success(), "{}", document(&done));
        }
    }
}

async fn pulls(control: &mut Described) {
    let server = ModelServer::start().await;
    server.set_default(ScriptedReply::bytes(200, "{\"number\": 1, \"size\": 2}\n"));
    let (ontology, source, mut definition) = example_documents("pulled");
    definition["pipeline"]["retrieval"] =
        json!({"method": "api_pull", "endpoint": server.url(), "format": "ndjson"});
    register_all(&mut control.client, &ontology, &source, &definition).await;
    let pulled = control.call(Method::POST, "/v1/pipelines/pulled/pull", None).await;
    assert_eq!(pulled.status, 200, "{}", document(&pulled));
}

/// Checks the first line of an answer that has no end, on a connection of its own.
async fn follow(control: &mut Described, mut client: DaemonClient) {
    let path = "/v1/log/follow?after=0";
    let (parts, body) = client.open(Method::GET, path, None).await.expect("the daemon answers").into_parts();
    let line =
        ResponseLines::new(body).next_line().await.expect("the answer arrives").expect("the log has entries");
    let answer = DaemonResponse { status: parts.status, headers: parts.headers, body: line };
    control.check(&Method::GET, path, &answer);
}

async fn orders(routes: &mut Described, control: &mut Described, model: &ModelServer) {
    let order = json!({"tier": "quick", "query": "Sell honey?"});
    model.next((0..3).map(|_| ScriptedReply::with_text("{}")));
    assert_eq!(routes.post("/v1/verdicts/cs_order", order.clone()).await.status, 422);
    assert_eq!(routes.get("/v1/verdicts/cs_order").await.status, 422);
    assert_eq!(routes.get("/v1/orders/cs_order").await.status, 200);
    assert_eq!(routes.get("/v1/orders?state=failed").await.status, 200);
    assert_eq!(control.get("/v1/orders?state=failed").await.status, 200);
    assert_eq!(control.get("/v1/orders/cs_order").await.status, 200);
    let retry = json!({"action": "retry", "reason": "a test"});
    assert_eq!(control.post("/v1/orders/cs_order", retry).await.status, 200);
    assert!(matches!(routes.post("/v1/verdicts/cs_order", order).await.status.as_u16(), 200 | 201));
    assert_eq!(control.get("/v1/orders/none").await.status, 404);
    let flagged = r#"{"verdict":"GREEN","summary":"Sound."}"#;
    let held = json!({"tier": "quick", "query": "Sell honey?", "raw": flagged});
    assert_eq!(routes.post("/v1/verdicts/cs_held", held.clone()).await.status, 202);
    assert_eq!(control.get("/v1/orders/cs_held/verdict").await.status, 200);
    assert_eq!(control.get("/v1/orders/cs_order/verdict").await.status, 409);
    assert_eq!(routes.call(Method::DELETE, "/v1/orders/cs_order", None).await.status, 409);
    assert_eq!(routes.post("/v1/verdicts/cs_dropped", held).await.status, 202);
    assert_eq!(routes.call(Method::DELETE, "/v1/orders/cs_dropped", None).await.status, 200);
    let release = json!({"action": "release", "reason": "a test"});
    assert_eq!(control.post("/v1/orders/cs_held", release).await.status, 200);
}

async fn held_orders(routes: &mut Described, review: &mut Described) {
    let flagged = r#"{"verdict":"GREEN","summary":"Sound."}"#;
    let held = json!({"tier": "quick", "query": "Sell honey?", "raw": flagged});
    assert_eq!(routes.post("/v1/verdicts/cs_for_review", held).await.status, 202);
    for path in ["/v1/orders", "/v1/orders/cs_for_review", "/v1/orders/cs_for_review/verdict", "/v1/inbox"] {
        assert_eq!(review.get(path).await.status, 200, "{path}");
    }
    let release = json!({"action": "release", "reason": "a test"});
    assert_eq!(review.post("/v1/orders/cs_for_review", release.clone()).await.status, 200);
    assert_eq!(review.post("/v1/orders/cs_for_review", release).await.status, 404);
}

/// The open circuit of the mails has a webhook, which its endpoint refuses.
async fn webhooks(control: &mut Described) {
    let dead = async |control: &mut Described| {
        let listed = document(&control.get("/v1/webhooks?dead=true").await);
        listed.pointer("/items/0/webhook_id").and_then(Value::as_str).map(|id| format!("/v1/webhooks/{id}"))
    };
    eventually("it is a dead letter", async || dead(control).await.is_some()).await;
    let path = dead(control).await.expect("a dead letter");
    assert_eq!(control.post(&path, json!({"action": "requeue"})).await.status, 200);
    eventually("the endpoint is paused", async || {
        control.post(&path, json!({"action": "requeue"})).await;
        let endpoints = document(&control.get("/v1/webhooks/endpoints").await);
        endpoints.pointer("/0/paused_at").is_some_and(Value::is_string)
    })
    .await;
    let operators = json!({"application": null});
    assert_eq!(control.post("/v1/webhooks/resume", operators.clone()).await.status, 200);
    assert_eq!(control.post("/v1/webhooks/resume", operators).await.status, 409);
    eventually("it is dropped", async || control.call(Method::DELETE, &path, None).await.status == 200).await;
    assert_eq!(control.post(&path, json!({"action": "requeue"})).await.status, 404);
    assert_eq!(control.post("/v1/webhooks/test", json!({"application": null})).await.status, 200);
}

/// Holds a session, and releases it.
async fn notices(client: &mut Described) {
    assert_eq!(client.get("/v1/recall-notices?limit=1").await.status, 200);
    assert_eq!(client.get("/v1/recall-notices/cs_1").await.status, 404);
    let unseen = json!({"action": "discard", "reason": "a test"});
    assert_eq!(client.post("/v1/recall-notices/cs_1", unseen).await.status, 404);
    let seen = json!({"action": "discard", "reason": "a test", "drafted_at": "2026-11-20T10:00:00Z"});
    assert_eq!(client.post("/v1/recall-notices/cs_1", seen).await.status, 409);
}

async fn legal_hold(control: &mut Described, session: &str) {
    let (path, reason) = (format!("/v1/legal-holds/{session}"), json!({"reason": "case 17"}));
    assert_eq!(control.send(Method::PUT, &path, reason.clone()).await.status, 200);
    assert_eq!(control.send(Method::PUT, "/v1/legal-holds/none", reason.clone()).await.status, 404);
    assert_eq!(control.get("/v1/legal-holds").await.status, 200);
    for kept in [format!("/v1/verdicts/{session}"), format!("/v1/sessions/{session}")] {
        assert_eq!(control.call(Method::DELETE, &kept, None).await.status, 409, "{kept}");
    }
    for status in [200, 404] {
        assert_eq!(control.send(Method::DELETE, &path, reason.clone()).await.status, status);
    }
}

async fn sessions(control: &mut Described) {
    assert_eq!(control.get("/v1/sessions/cs_1").await.status, 200);
    assert_eq!(control.get("/v1/sessions/cs_1/export").await.status, 200);
    assert_eq!(control.get("/v1/verdicts/cs_1").await.status, 200);
    let correction = json!({"customer_email": "other@example.org"});
    assert_eq!(control.send(Method::PATCH, "/v1/sessions/cs_7", correction).await.status, 200);
    control.get("/v1/outbox").await;
    let mail = "/v1/outbox/verdict:cs_1";
    // not while an attempt is in progress
    eventually("it is requeued", async || {
        control.post(mail, json!({"action": "requeue"})).await.status == 200
    })
    .await;
    eventually("it is dropped", async || control.call(Method::DELETE, mail, None).await.status == 200).await;
    control.post("/v1/outbox/verdict:none", json!({"action": "requeue"})).await;
    control.call(Method::DELETE, "/v1/outbox/verdict:none", None).await;
    legal_hold(control, "cs_5").await;
    assert_eq!(control.call(Method::DELETE, "/v1/verdicts/cs_5", None).await.status, 200);
    control.call(Method::DELETE, "/v1/verdicts/cs_5", None).await;
    assert_eq!(control.call(Method::DELETE, "/v1/sessions/cs_5", None).await.status, 200);
    control.get("/v1/sessions/cs_5").await;
    control.get("/v1/log/tile/entries/000.p/1").await;
    control.get("/v1/log/tile/9/000").await;
    let erase = |subject: &str, id: &str| json!({subject: id, "reason": "asked"});
    for body in [erase("session_id", "none"), erase("customer_email", "none@b"), json!({"reason": "asked"})] {
        assert!(control.post("/v1/erasures", body).await.status.is_client_error());
    }
    assert_eq!(control.post("/v1/erasures", erase("session_id", "cs_5")).await.status, 200);
    assert_eq!(control.get("/v1/retention").await.status, 200);
    assert_eq!(control.post("/v1/retention", json!({})).await.status, 200);
}
