//! Helpers for generated verdicts: a world with a model, answers of the model, and loss of a verdict.

use crate::model::ModelServer;
use crate::wire::{self, WireConnection};
use crate::{DaemonWorld, at, call, described, document, eventually, get, log, post};
use bytes::Bytes;
use domain_verdict::label::{ProductTier, VerdictDimension, VerdictLabel};
use domain_verdict::prompt::{ModelPrompt, PromptTemplate, build_verdict_prompt};
use domain_verdict::query::CustomerQuery;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use serde_json::{Value, json};
use std::path::Path;
use tokio::net::TcpSocket;

/// API key of the daemon for its model.
pub const KEY: &str = "AIza-not-a-real-key";

/// Query in the requests of [`generation_request`].
pub const QUERY: &str = "Sell honey?";

/// A world whose model is at `base_url`, with the lines of `config` in `[model]`. Unless `config` sets them, calls
/// are not retried, and `calls_per_minute` is too high to matter.
#[must_use]
pub fn world_with_model(base_url: &str, config: &str) -> DaemonWorld {
    let mut lines = format!("[model]\nbase_url = \"{base_url}\"\n");
    for (key, value) in [("max_retries", 0), ("calls_per_minute", 1_000_000)] {
        if !config.contains(key) {
            lines.push_str(&format!("{key} = {value}\n"));
        }
    }
    let mut world = DaemonWorld::with_config(&(lines + config));
    world.variables.push(("GEMINI_API_KEY".into(), KEY.into()));
    world
}

/// The prompt of the built-in template.
///
/// # Panics
/// Panics if the template has no text for the tier.
#[must_use]
pub fn built_in_prompt(tier: ProductTier, query: &str) -> ModelPrompt {
    let query = CustomerQuery::new(query.to_owned());
    build_verdict_prompt(PromptTemplate::built_in(), tier, &query).expect("the tier has a text")
}

/// A base URL at which no server listens. The port stays reserved while the socket is open.
///
/// # Panics
/// Panics if the loopback interface has no free port.
#[must_use]
pub fn unreachable_url() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("the loopback has a port");
    let url = format!("http://{}", socket.local_addr().expect("the socket is bound"));
    (socket, url)
}

impl ModelServer {
    /// A world that calls this model by Gemini's protocol; see [`asking`].
    #[must_use]
    pub fn create_world(&self, config: &str) -> DaemonWorld {
        world_with_model(&self.url(), config)
    }
}

/// A coherent answer of `tier` with `label` in all places.
#[must_use]
pub fn coherent_answer(tier: ProductTier, label: VerdictLabel) -> String {
    let analysis = json!({"verdict": label, "analysis": "It holds together."});
    let breakdown: Value = VerdictDimension::ALL
        .map(|dimension| (dimension.to_string(), analysis.clone()))
        .into_iter()
        .collect();
    let tests = json!(["Ask ten neighbours.", "Sell one jar."]);
    let strategy = json!({"next_step": "Fill a jar.", "alternative": "Sell wax.", "tests": tests});
    let members = [
        (ProductTier::Quick, "verdict", json!(label)),
        (ProductTier::Quick, "summary", json!("A sound and simple plan.")),
        (ProductTier::Full, "breakdown", breakdown),
        (ProductTier::Strategy, "strategy", strategy),
    ];
    let required = members.into_iter().filter(|(from, ..)| *from <= tier);
    required.map(|(_, name, value)| (name.to_owned(), value)).collect::<Value>().to_string()
}

/// Body of a request to generate a verdict of `tier`.
#[must_use]
pub fn generation_request(tier: ProductTier) -> Value {
    json!({"tier": tier, "query": QUERY})
}

/// Requests a first quick-tier verdict, which the model generates.
pub async fn request_verdict(routes: &mut DaemonClient, session: &str) -> DaemonResponse {
    post(routes, &format!("/v1/verdicts/{session}"), &generation_request(ProductTier::Quick)).await
}

/// Requests a first verdict with `Prefer: respond-async` on the socket.
///
/// # Panics
/// Panics if the daemon does not answer.
pub async fn request_order(socket: &Path, session: &str, body: &Value) -> DaemonResponse {
    let path = format!("/v1/verdicts/{session}");
    let request = wire::post(&path, &[("prefer", "respond-async")], body.to_string());
    let mut wire = WireConnection::connect(socket).await;
    let answer = wire.exchange(request).await.expect("the daemon answers");
    described::check("post", &path, &answer);
    answer
}

/// Orders a first quick-tier verdict with `Prefer: respond-async`, and returns the order.
///
/// # Panics
/// Panics if the answer is not 202.
pub async fn place_order(world: &DaemonWorld, session: &str) -> Value {
    let answer = request_order(&world.socket(), session, &generation_request(ProductTier::Quick)).await;
    assert_eq!(answer.status, 202, "{}", document(&answer));
    document(&answer)
}

/// Reads the order of a session.
///
/// # Panics
/// Panics if the session has no order.
pub async fn read_order(routes: &mut DaemonClient, session: &str) -> Value {
    let answer = get(routes, &format!("/v1/orders/{session}")).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

/// Waits until the order of a session has this state, and returns the order.
pub async fn wait_for_order(routes: &mut DaemonClient, session: &str, state: &str) -> Value {
    let mut order = Value::Null;
    eventually(&format!("the order is {state}"), async || {
        order = read_order(routes, session).await;
        order.get("state").is_some_and(|now| now == state)
    })
    .await;
    order
}

/// Waits until the first attempt of the order of a session has ended, and returns the order.
pub async fn wait_for_first_attempt(routes: &mut DaemonClient, session: &str) -> Value {
    let mut order = Value::Null;
    eventually("the first attempt has ended", async || {
        order = read_order(routes, session).await;
        order.pointer("/last_attempts/0/outcome").is_some_and(Value::is_string)
    })
    .await;
    order
}

/// Puts `body` to the session.
pub async fn put_session(routes: &mut DaemonClient, session: &str, body: &Value) -> DaemonResponse {
    let (path, body) = (format!("/v1/sessions/{session}"), Bytes::from(body.to_string()));
    call(routes, Method::PUT, &path, Some(body)).await
}

/// Registers a quick-tier session; `original` is the label of a first verdict that was delivered without oracled.
///
/// # Panics
/// Panics if it is rejected.
pub async fn register_session(routes: &mut DaemonClient, session: &str, original: Option<VerdictLabel>) {
    let body = json!({"tier": ProductTier::Quick, "query": QUERY, "original_verdict": original});
    let answer = put_session(routes, session, &body).await;
    assert!(answer.status.is_success(), "{}", document(&answer));
}

/// Reads the verdict of a session. A lost verdict is regenerated.
pub async fn read_verdict(routes: &mut DaemonClient, session: &str) -> DaemonResponse {
    get(routes, &format!("/v1/verdicts/{session}")).await
}

/// Reads the verdict of a session from the cache. A lost verdict is not regenerated.
pub async fn read_cached(routes: &mut DaemonClient, session: &str) -> DaemonResponse {
    get(routes, &format!("/cache/{session}")).await
}

/// Removes the verdict of a session from the cache.
///
/// # Panics
/// Panics if the session has no verdict.
pub async fn purge_verdict(control: &mut DaemonClient, session: &str) {
    let path = format!("/v1/verdicts/{session}");
    let purged = call(control, Method::DELETE, &path, None).await;
    assert_eq!(purged.status, 200, "{}", document(&purged));
}

/// The header `X-Cache` of `answer`.
#[must_use]
pub fn x_cache(answer: &DaemonResponse) -> Option<&str> {
    answer.headers.get("x-cache")?.to_str().ok()
}

/// The header `Retry-After` of `answer`, in seconds.
#[must_use]
pub fn retry_after_s(answer: &DaemonResponse) -> Option<u64> {
    answer.headers.get("retry-after")?.to_str().ok()?.parse().ok()
}

/// Names of the log's events of a session, in their order. Changes of an upstream's health are left out: they are logged in the
/// background.
pub async fn event_names(control: &mut DaemonClient, session: &str) -> Vec<String> {
    let entries = log(control, &format!("session={session}&limit=10000")).await;
    let names = entries.iter().filter_map(|entry| Some(entry.get("event")?.as_str()?.to_owned()));
    names.filter(|name| name != "oracle_health_changed").collect()
}

/// Value of the metric with this name and labels; 0 if `/metrics` does not list it.
///
/// # Panics
/// Panics if the value is not a number.
pub async fn read_metric(routes: &mut DaemonClient, name: &str) -> f64 {
    let answer = get(routes, "/metrics").await;
    let text = String::from_utf8_lossy(&answer.body);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().expect("a sample is a number"))
}

/// Health of the daemon's only oracle.
pub async fn read_health(routes: &mut DaemonClient) -> Value {
    at(&get(routes, "/v1/health/oracles").await, "/0")
}
