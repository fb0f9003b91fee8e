//! Verdicts that a daemon has made: a world that asks a model, what the model says, and how a verdict is lost.

use crate::model::ModelServer;
use crate::{World, at, document, get, log, post};
use bytes::Bytes;
use hyper::Method;
use oracled_api::base::client::{Answer, Client};
use oracled_domain::{Dimension, Label, Tier};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

/// The key that the daemon has for its model.
pub const KEY: &str = "AIza-not-a-real-key";

/// What [`ordered`] and [`registered`] say that the customer has asked.
pub const QUERY: &str = "Sell honey?";

/// A world that asks the model at `base_url`, with these lines of configuration behind `[model]`; a call of the model
/// is tried once, and the budget of calls is no hindrance, unless they say otherwise.
#[must_use]
pub fn asking(base_url: &str, config: &str) -> World {
    let mut lines = format!("[model]\nbase_url = \"{base_url}\"\n");
    for (key, value) in [("max_retries", 0), ("calls_per_minute", 1_000_000)] {
        if !config.contains(key) {
            lines.push_str(&format!("{key} = {value}\n"));
        }
    }
    let mut world = World::with_config(&(lines + config));
    world.variables.push(("GEMINI_API_KEY".into(), KEY.into()));
    world
}

/// A base URL where nobody is, and nobody will be while the socket is kept.
///
/// # Panics
/// Where the loopback has no port to give.
#[must_use]
pub fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("the loopback has a port");
    let url = format!("http://{}", socket.local_addr().expect("it is bound"));
    (socket, url)
}

impl ModelServer {
    /// A world that asks this model on Gemini's wire; see [`asking`].
    #[must_use]
    pub fn asked_by(&self, config: &str) -> World {
        asking(&self.url(), config)
    }
}

/// A coherent answer of `tier` that says `label` throughout.
#[must_use]
pub fn saying(tier: Tier, label: Label) -> String {
    let analysis = json!({"verdict": label, "analysis": "It holds together."});
    let breakdown: Value =
        Dimension::ALL.map(|dimension| (dimension.to_string(), analysis.clone())).into_iter().collect();
    let tests = json!(["Ask ten neighbours.", "Sell one jar."]);
    let strategy = json!({"next_step": "Fill a jar.", "alternative": "Sell wax.", "tests": tests});
    let members = [
        (Tier::Quick, "verdict", json!(label)),
        (Tier::Quick, "summary", json!("A sound and simple plan.")),
        (Tier::Full, "breakdown", breakdown),
        (Tier::Strategy, "strategy", strategy),
    ];
    let asked_for = members.into_iter().filter(|(from, ..)| *from <= tier);
    asked_for.map(|(_, name, value)| (name.to_owned(), value)).collect::<Value>().to_string()
}

/// The body of a request for a verdict of `tier` that is still to be made.
#[must_use]
pub fn order(tier: Tier) -> Value {
    json!({"tier": tier, "query": QUERY})
}

/// Has a first verdict of the quick tier made.
pub async fn ordered(routes: &mut Client, session: &str) -> Answer {
    post(routes, &format!("/v1/verdicts/{session}"), &order(Tier::Quick)).await
}

/// Tells of a session, by whatever `body` says.
pub async fn put(routes: &mut Client, session: &str, body: &Value) -> Answer {
    let (path, body) = (format!("/v1/sessions/{session}"), Bytes::from(body.to_string()));
    routes.call(Method::PUT, &path, Some(body)).await.expect("it answers")
}

/// Registers a session of the quick tier whose first verdict, if any, was delivered without oracled.
///
/// # Panics
/// Where it is not registered.
pub async fn registered(routes: &mut Client, session: &str, original: Option<Label>) {
    let body = json!({"tier": Tier::Quick, "query": QUERY, "original_verdict": original});
    let answer = put(routes, session, &body).await;
    assert!(answer.status.is_success(), "{}", document(&answer));
}

/// Reads the verdict of a session, which is made anew if it is lost.
pub async fn read(routes: &mut Client, session: &str) -> Answer {
    get(routes, &format!("/v1/verdicts/{session}")).await
}

/// Reads the verdict of a session, which stays lost if it is.
pub async fn cached(routes: &mut Client, session: &str) -> Answer {
    get(routes, &format!("/cache/{session}")).await
}

/// Has the cache lose the verdict of a session.
///
/// # Panics
/// Where there is none.
pub async fn lose(control: &mut Client, session: &str) {
    let path = format!("/v1/verdicts/{session}");
    let purged = control.call(Method::DELETE, &path, None).await.expect("it answers");
    assert_eq!(purged.status, 200, "{}", document(&purged));
}

/// Where a verdict that was read came from: its `X-Cache`.
#[must_use]
pub fn came_from(answer: &Answer) -> Option<&str> {
    answer.headers.get("x-cache")?.to_str().ok()
}

/// When to come back, in seconds.
#[must_use]
pub fn retry_after_s(answer: &Answer) -> Option<u64> {
    answer.headers.get("retry-after")?.to_str().ok()?.parse().ok()
}

/// The events that the log has of a session, in their order.
pub async fn told_of(control: &mut Client, session: &str) -> Vec<String> {
    let entries = log(control, &format!("session={session}&limit=10000")).await;
    entries.iter().filter_map(|entry| Some(entry.get("event")?.as_str()?.to_owned())).collect()
}

/// The value of a sample, by its name with its labels; 0 where it has not been counted yet.
///
/// # Panics
/// Where it is no number.
pub async fn sample(routes: &mut Client, name: &str) -> f64 {
    let answer = get(routes, "/metrics").await;
    let text = String::from_utf8_lossy(&answer.body);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().expect("a sample is a number"))
}

/// How the daemon's only oracle is doing.
pub async fn health(routes: &mut Client) -> Value {
    at(&get(routes, "/v1/health/oracles").await, "/0")
}
