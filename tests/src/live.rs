//! A scripted live source on the loopback interface, and a daemon that asks it for the population of Aruba in 1960.

#![allow(clippy::indexing_slicing, reason = "a missing element fails the test")]

use crate::ground::{approve, example, put_document};
use crate::verification::{register, workflow};
use crate::{DaemonProcess, DaemonWorld, at, document, get, log, post};
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Population in an honest answer.
pub const HONEST: &str = "54208";
/// A value that must never reach an envelope.
pub const POISON: &str = "99999999";
/// Configuration that permits requests to the loopback interface.
pub const LOCAL: &str = "[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n";

/// Computes the answer, as it is sent on the wire, from the head of the request.
type AnswerScript = Box<dyn Fn(&str) -> String + Send>;

/// A scripted live source on the loopback interface.
pub struct ScriptedSource {
    /// Port on which it listens.
    pub port: u16,
    answering: Arc<Mutex<AnswerScript>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for ScriptedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedSource").field("port", &self.port).finish_non_exhaustive()
    }
}

impl ScriptedSource {
    /// Starts a source that sends empty answers.
    ///
    /// # Panics
    /// Panics if the loopback interface has no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("the system reports it").port();
        let silent: AnswerScript = Box::new(|_| String::new());
        let office =
            Self { port, answering: Arc::new(Mutex::new(silent)), heads: Arc::new(Mutex::default()) };
        let (answering, heads) = (Arc::clone(&office.answering), Arc::clone(&office.heads));
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (mut head, mut piece) = (Vec::new(), [0; 4096]);
                while !head.ends_with(b"\r\n\r\n") {
                    match socket.read(&mut piece).await {
                        Ok(0) | Err(_) => break,
                        Ok(size) => head.extend_from_slice(&piece[..size]),
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let answer = answering.lock().expect("the lock is not poisoned")(&head);
                heads.lock().expect("the lock is not poisoned").push(head);
                // the client may have closed the connection already
                drop(socket.write_all(answer.as_bytes()).await);
            }
        });
        office
    }

    /// Computes all further answers by `answering`.
    ///
    /// # Panics
    /// Panics if a previous answer has panicked.
    pub fn set_answers(&self, answering: impl Fn(&str) -> String + Send + 'static) {
        *self.answering.lock().expect("the lock is not poisoned") = Box::new(answering);
    }

    /// Sends `answer` to all further requests.
    pub fn set_answer(&self, answer: String) {
        self.set_answers(move |_| answer.clone());
    }

    /// Origin of the source.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Endpoint for the adapter of the source.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.origin() + "/{area}/{year}"
    }

    /// Heads of all requests, in the order in which they arrived.
    ///
    /// # Panics
    /// Panics if an answer has panicked.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("the lock is not poisoned").clone()
    }
}

/// A complete answer with these headers. Each header ends with CRLF.
#[must_use]
pub fn complete_answer(headers: &str, body: &str) -> String {
    let size = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n{headers}\r\n{body}")
}

/// An answer with this status and no body.
#[must_use]
pub fn empty(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n{headers}\r\n")
}

/// A body with the population of `area` in 1960 and the fields of `more`.
///
/// # Panics
/// Panics if `people` is not a number.
#[must_use]
pub fn population_body(area: &str, people: &str, more: Value) -> String {
    let mut body = json!({"area": area, "year": 1960, "people": people.parse::<u64>().expect("a number")});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body.to_string()
}

/// A complete answer with the population of Aruba only.
#[must_use]
pub fn population_answer(people: &str) -> String {
    complete_answer("", &population_body("ABW", people, json!({})))
}

/// The adapter of a live source, with the fields of `changes` added or replaced.
///
/// # Panics
/// Panics if `changes` is not an object.
#[must_use]
pub fn adapter_of(oracle_id: &str, endpoint: &str, changes: Value) -> Value {
    let mapping = |field: &str, axis: &str| {
        json!({"source_field": field, "target_axis": axis,
        "cardinality": "one_to_one", "required": true})
    };
    let mut document = json!({
        "oracle_id": oracle_id, "endpoint": endpoint, "records": "",
        "normalization": {"normalizer_id": "people", "source_schema_id": "people",
            "target_ontology_id": "population", "axis_mappings": [
                mapping("area", "area"), mapping("year", "year"), mapping("people", "population")]},
    });
    let changes = changes.as_object().cloned().expect("changes are an object");
    document.as_object_mut().expect("an object").extend(changes);
    document
}

/// Registers a live source and its adapter; `adapter` has the changes to the adapter.
///
/// # Panics
/// Panics if one of them is rejected.
pub async fn source(daemon: &DaemonProcess<'_>, oracle_id: &str, tier: &str, endpoint: &str, adapter: Value) {
    let control = &mut daemon.control().await;
    let ontology = example("ontologies/population.json");
    let mut registration = example("sources/world-bank-population.json");
    (registration["oracle_id"], registration["oracle_tier"]) = (json!(oracle_id), json!(tier));
    registration["adapter_id"] = json!("http");
    registration["axes_provided"] = json!(["area", "year", "population"]);
    for (path, body) in [
        ("/v1/documents/ontology/population@1".to_owned(), &ontology),
        (format!("/v1/documents/source/{oracle_id}"), &registration),
    ] {
        let answer = put_document(control, &path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
    }
    adapt(daemon, oracle_id, endpoint, adapter).await;
    approve(control, oracle_id).await;
}

/// Registers the adapter of a live source, or replaces it.
///
/// # Panics
/// Panics if it is rejected.
pub async fn adapt(daemon: &DaemonProcess<'_>, oracle_id: &str, endpoint: &str, changes: Value) {
    let path = format!("/v1/documents/adapter/{oracle_id}");
    let adapter = adapter_of(oracle_id, endpoint, changes);
    let answer = put_document(&mut daemon.control().await, &path, &adapter).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Registers the workflow `census` over these sources.
pub async fn register_census(daemon: &DaemonProcess<'_>, oracles: &[&str], settings: Value) {
    register(&mut daemon.control().await, &workflow("census", oracles, settings)).await;
}

/// Verifies the population of Aruba in 1960 with `census` and returns the envelope.
///
/// # Panics
/// Panics if the request fails.
pub async fn verify_census(daemon: &DaemonProcess<'_>) -> Value {
    let request =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let answer = post(&mut daemon.routes().await, "/v1/verify", &request).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

/// Value of the axis `population` in an authoritative envelope.
///
/// # Panics
/// Panics if the envelope is not authoritative, or has [`POISON`].
#[must_use]
pub fn authoritative_value(envelope: &Value) -> &Value {
    assert_eq!(envelope["kind"], "authoritative", "{envelope}");
    assert!(!envelope["axes"]["population"]["value"].to_string().contains(POISON), "{envelope}");
    &envelope["axes"]["population"]["value"]
}

/// The log entry of the call to `oracle_id` for `envelope`. Also checks that the decision can be reproduced.
///
/// # Panics
/// Panics if the source was not called, or if the decision is not reproduced.
pub async fn check_source_call(
    daemon: &DaemonProcess<'_>,
    world: &DaemonWorld,
    envelope: &Value,
    oracle_id: &str,
) -> Value {
    let execution = envelope["execution_id"].as_str().expect("the envelope has an execution id");
    let explained = world.ctl_in_thread(&["explain", execution]).await;
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    let control = &mut daemon.control().await;
    let decided = get(control, &format!("/v1/executions/{execution}")).await;
    assert_eq!(at(&decided, "/decisions/0/reproduced"), true);
    let entries = log(control, &format!("execution={execution}&event=source_asked")).await;
    entries.into_iter().find(|entry| entry["oracle_id"] == oracle_id).expect("the source was called")
}

/// Verifies with the source `office`, and checks that its answer is rejected for the reason `why` and the envelope is
/// blocked.
///
/// # Panics
/// Panics if the answer is not rejected for this reason.
pub async fn check_refusal(daemon: &DaemonProcess<'_>, world: &DaemonWorld, why: &str) {
    let envelope = verify_census(daemon).await;
    assert_eq!(envelope["kind"], "blocked", "{why}: {envelope}");
    let entry = check_source_call(daemon, world, &envelope, "office").await;
    assert_eq!((&entry["status"], &entry["error_code"]), (&json!("error"), &json!("refused")), "{why}");
    let execution = envelope["execution_id"].as_str().expect("the envelope has an execution id");
    let decided = get(&mut daemon.control().await, &format!("/v1/executions/{execution}")).await;
    assert_eq!(at(&decided, "/decisions/0/inputs/calls/office/reply/refusal"), why, "{envelope}");
}

/// Output of `oraclectl health`.
///
/// # Panics
/// Panics if it is not UTF-8.
pub async fn read_service_log(world: &DaemonWorld) -> String {
    String::from_utf8(world.ctl_in_thread(&["health"]).await.stdout).expect("the output is UTF-8")
}
