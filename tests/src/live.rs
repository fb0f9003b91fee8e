//! Live sources from outside: an office on the loopback that says what it is told to, and a daemon that asks it how many people
//! lived in Aruba in 1960.

#![allow(clippy::indexing_slicing, reason = "what is not there fails the test")]

use crate::ground::{approve, example, put};
use crate::verification::{register, workflow};
use crate::{Daemon, World, at, document, get, log, post};
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What an honest office says.
pub const HONEST: &str = "54208";
/// What nobody is to be told.
pub const POISON: &str = "99999999";
/// A configuration by which the loopback is asked.
pub const LOCAL: &str = "[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n";

/// What makes an answer, as it goes over the wire, of a request's head.
type Answering = Box<dyn Fn(&str) -> String + Send>;

/// A live source on the loopback that says what it is told to.
pub struct Office {
    /// Where it listens.
    pub port: u16,
    answering: Arc<Mutex<Answering>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Office").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Office {
    /// Starts one that says nothing yet.
    ///
    /// # Panics
    /// Where the loopback has no port to give.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let port = listener.local_addr().expect("the system tells").port();
        let silent: Answering = Box::new(|_| String::new());
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
                let answer = answering.lock().expect("nobody panics holding it")(&head);
                heads.lock().expect("nobody panics holding it").push(head);
                // whoever asked may have heard enough
                drop(socket.write_all(answer.as_bytes()).await);
            }
        });
        office
    }

    /// From now on it answers so.
    ///
    /// # Panics
    /// Where an answer has panicked.
    pub fn answers(&self, answering: impl Fn(&str) -> String + Send + 'static) {
        *self.answering.lock().expect("nobody panics holding it") = Box::new(answering);
    }

    /// From now on it answers this.
    pub fn says(&self, answer: String) {
        self.answers(move |_| answer.clone());
    }

    /// Its origin.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The endpoint of its adapter.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.origin() + "/{area}/{year}"
    }

    /// The heads of all requests, in the order in which they came.
    ///
    /// # Panics
    /// Where an answer has panicked.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("nobody panics holding it").clone()
    }
}

/// A whole answer with these headers, each with its end of line.
#[must_use]
pub fn whole(headers: &str, body: &str) -> String {
    let size = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n{headers}\r\n{body}")
}

/// An answer of this status without a body.
#[must_use]
pub fn empty(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n{headers}\r\n")
}

/// A body that says how many people lived there in 1960, with these fields beside.
///
/// # Panics
/// Where that is no number.
#[must_use]
pub fn said_of(area: &str, people: &str, more: Value) -> String {
    let mut body = json!({"area": area, "year": 1960, "people": people.parse::<u64>().expect("a number")});
    body.as_object_mut().expect("it is one").extend(more.as_object().expect("fields").clone());
    body.to_string()
}

/// An answer that says so of Aruba, and no more.
#[must_use]
pub fn people(people: &str) -> String {
    whole("", &said_of("ABW", people, json!({})))
}

/// The adapter of a live source, with these changes.
///
/// # Panics
/// Where the changes are no fields.
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
    let changes = changes.as_object().cloned().expect("changes are fields");
    document.as_object_mut().expect("it is one").extend(changes);
    document
}

/// Registers a live source with its adapter, with these changes to that.
///
/// # Panics
/// Where one of them is not taken.
pub async fn source(daemon: &Daemon<'_>, oracle_id: &str, tier: &str, endpoint: &str, adapter: Value) {
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
        let answer = put(control, &path, body).await;
        assert_eq!(answer.status, 200, "{path}: {}", document(&answer));
    }
    adapt(daemon, oracle_id, endpoint, adapter).await;
    approve(control, oracle_id).await;
}

/// Registers the adapter of a live source, or another one in its place, with these changes.
///
/// # Panics
/// Where it is not taken.
pub async fn adapt(daemon: &Daemon<'_>, oracle_id: &str, endpoint: &str, changes: Value) {
    let path = format!("/v1/documents/adapter/{oracle_id}");
    let adapter = adapter_of(oracle_id, endpoint, changes);
    let answer = put(&mut daemon.control().await, &path, &adapter).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Registers the workflow `census` over these sources.
pub async fn census(daemon: &Daemon<'_>, oracles: &[&str], settings: Value) {
    register(&mut daemon.control().await, &workflow("census", oracles, settings)).await;
}

/// What comes of asking it about Aruba in 1960.
///
/// # Panics
/// Where it is not answered.
pub async fn verified(daemon: &Daemon<'_>) -> Value {
    let request =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let answer = post(&mut daemon.routes().await, "/v1/verify", &request).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

/// What was told to be true.
///
/// # Panics
/// Where nothing was, or what is poison.
#[must_use]
pub fn told(envelope: &Value) -> &Value {
    assert_eq!(envelope["kind"], "authoritative", "{envelope}");
    assert!(!envelope["axes"]["population"]["value"].to_string().contains(POISON), "{envelope}");
    &envelope["axes"]["population"]["value"]
}

/// The log's entry of what was asked for `envelope` of the source, whose decision comes out again as it did.
///
/// # Panics
/// Where it was not asked, or the decision comes out otherwise.
pub async fn asked(daemon: &Daemon<'_>, world: &World, envelope: &Value, oracle_id: &str) -> Value {
    let execution = envelope["execution_id"].as_str().expect("it has one");
    let explained = world.ctl_meanwhile(&["explain", execution]).await;
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    let control = &mut daemon.control().await;
    let decided = get(control, &format!("/v1/executions/{execution}")).await;
    assert_eq!(at(&decided, "/decisions/0/reproduced"), true);
    let entries = log(control, &format!("execution={execution}&event=source_asked")).await;
    entries.into_iter().find(|entry| entry["oracle_id"] == oracle_id).expect("it was asked")
}

/// Asks the source `office`, whose answer is refused for this, so that nothing is told.
///
/// # Panics
/// Where it is otherwise.
pub async fn refused(daemon: &Daemon<'_>, world: &World, why: &str) {
    let envelope = verified(daemon).await;
    assert_eq!(envelope["kind"], "blocked", "{why}: {envelope}");
    let entry = asked(daemon, world, &envelope, "office").await;
    assert_eq!((&entry["status"], &entry["error_code"]), (&json!("error"), &json!("refused")), "{why}");
    let execution = envelope["execution_id"].as_str().expect("it has one");
    let decided = get(&mut daemon.control().await, &format!("/v1/executions/{execution}")).await;
    assert_eq!(at(&decided, "/decisions/0/inputs/calls/office/reply/refusal"), why, "{envelope}");
}

/// What people see of the health of sources.
///
/// # Panics
/// Where it is no text.
pub async fn watched(world: &World) -> String {
    String::from_utf8(world.ctl_meanwhile(&["health"]).await.stdout).expect("it is text")
}
