//! Live sources end to end: what a daemon believes of what they answer over real connections, and that nothing else reaches an
//! authoritative envelope (RFC-0002, Part II, "Failure Modes", "Oracle Integrity Requirements").

#![allow(clippy::indexing_slicing, reason = "what is not there fails the test, in a function beside it too")]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use harness::ground::{approve, example, put};
use harness::verification::{register, workflow};
use harness::{Daemon, World, at, document, eventually, get, log, post};
use jiff::{SignedDuration, Timestamp};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const HONEST: &str = "54208";
/// What nobody is to be told.
const POISON: &str = "99999999";
const LOCAL: &str = "[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n";

/// What makes an answer, as it goes over the wire, of a request's head.
type Answering = Box<dyn Fn(&str) -> String + Send>;

/// A live source on the loopback that says what it is told to.
struct Office {
    port: u16,
    answering: Arc<Mutex<Answering>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Office {
    async fn start() -> Self {
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
    fn answers(&self, answering: impl Fn(&str) -> String + Send + 'static) {
        *self.answering.lock().expect("nobody panics holding it") = Box::new(answering);
    }

    fn says(&self, answer: String) {
        self.answers(move |_| answer.clone());
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{{area}}/{{year}}", self.port)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("nobody panics holding it").clone()
    }
}

fn whole(headers: &str, body: &str) -> String {
    let size = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n{headers}\r\n{body}")
}

fn empty(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n{headers}\r\n")
}

fn said_of(area: &str, people: &str, more: Value) -> String {
    let mut body = json!({"area": area, "year": 1960, "people": people.parse::<u64>().expect("a number")});
    body.as_object_mut().expect("it is one").extend(more.as_object().expect("fields").clone());
    body.to_string()
}

fn people(people: &str) -> String {
    whole("", &said_of("ABW", people, json!({})))
}

/// A key, and as a document has it.
fn key(seed: u8, kid: &str) -> (Ed25519KeyPair, Value) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("32 bytes");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    (pair, json!({"kid": kid, "kty": "OKP", "crv": "Ed25519", "x": x}))
}

/// What an adapter has beside whose source signs by `policy`.
fn signed_by(policy: Value) -> Value {
    json!({"signature": policy, "issued_at": {"path": "issued"}, "max_issue_age_seconds": 3600})
}

fn by_header(keys: &[&Value]) -> Value {
    signed_by(json!({"method": "ed25519", "header": "x-signature", "key_id_header": "x-key", "keys": keys}))
}

/// An answer signed in a header, issued so long ago.
fn signed(pair: &Ed25519KeyPair, kid: &str, number: &str, issued: Timestamp) -> String {
    let body = said_of("ABW", number, json!({"issued": issued.to_string()}));
    let signature = STANDARD.encode(pair.sign(body.as_bytes()));
    whole(&format!("x-signature: {signature}\r\nx-key: {kid}\r\n"), &body)
}

fn seconds_ago(seconds: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_secs(seconds)
}

/// Registers a live source with its adapter, with these changes to both.
async fn source(daemon: &Daemon<'_>, oracle_id: &str, tier: &str, endpoint: &str, adapter: Value) {
    let control = &mut daemon.control().await;
    let ontology = example("ontologies/population.json");
    let mut registration = example("sources/world-bank-population.json");
    (registration["oracle_id"], registration["oracle_tier"]) = (json!(oracle_id), json!(tier));
    registration["adapter_id"] = json!("http");
    registration["axes_provided"] = json!(["area", "year", "population"]);
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
    document.as_object_mut().expect("it is one").extend(adapter.as_object().expect("fields").clone());
    for (path, document) in [
        ("/v1/ontologies/population/1".to_owned(), &ontology),
        (format!("/v1/sources/{oracle_id}"), &registration),
        (format!("/v1/sources/{oracle_id}/adapter"), &document),
    ] {
        let answer = put(control, &path, document).await;
        assert_eq!(answer.status, 200, "{path}: {}", harness::document(&answer));
    }
    approve(control, oracle_id).await;
}

async fn census(daemon: &Daemon<'_>, oracles: &[&str], settings: Value) {
    register(&mut daemon.control().await, &workflow("census", oracles, settings)).await;
}

async fn verified(daemon: &Daemon<'_>) -> Value {
    let request =
        json!({"workflow": "census", "where": {"area": "ABW", "year": 1960}, "axes": ["population"]});
    let answer = post(&mut daemon.routes().await, "/v1/verify", &request).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    document(&answer)
}

/// What was told to be true.
fn told(envelope: &Value) -> &Value {
    assert_eq!(envelope["kind"], "authoritative", "{envelope}");
    assert!(!envelope["axes"]["population"]["value"].to_string().contains(POISON), "{envelope}");
    &envelope["axes"]["population"]["value"]
}

/// The log's entry of what was asked for `envelope` of the source, whose decision comes out again as it did.
async fn asked(daemon: &Daemon<'_>, world: &World, envelope: &Value, oracle_id: &str) -> Value {
    let execution = envelope["execution_id"].as_str().expect("it has one");
    let explained = world.ctl_meanwhile(&["explain", execution]).await;
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    let control = &mut daemon.control().await;
    let decided = get(control, &format!("/v1/executions/{execution}")).await;
    assert_eq!(at(&decided, "/decisions/0/reproduced"), true);
    let entries = log(control, &format!("execution={execution}&event=source_asked")).await;
    entries.into_iter().find(|entry| entry["oracle_id"] == oracle_id).expect("it was asked")
}

#[tokio::test]
async fn an_answer_that_is_good_counts_with_its_version_and_is_not_asked_for_again_while_it_holds() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({"version": {"path": "version"}})).await;
    census(&daemon, &["office"], json!({})).await;
    office.answers(|head| {
        if head.to_lowercase().contains("if-none-match: \"7\"") {
            return empty("304 Not Modified", "etag: \"7\"\r\n");
        }
        whole("etag: \"7\"\r\n", &said_of("ABW", HONEST, json!({"version": "v7"})))
    });
    for _ in 0..2 {
        let envelope = verified(&daemon).await;
        assert_eq!(told(&envelope), HONEST);
        let entry = asked(&daemon, &world, &envelope, "office").await;
        assert_eq!((&entry["status"], &entry["oracle_version"]), (&json!("success"), &json!("v7")));
        assert!(entry["response_hash"].is_string(), "{entry}");
    }
    let heads = office.heads();
    assert!(heads[0].starts_with("GET /ABW/1960 "), "{heads:?}");
    assert!(!heads[0].contains("if-none-match") && heads[1].contains("if-none-match: \"7\""), "{heads:?}");
}

#[tokio::test]
async fn signed_answers_count_by_the_keys_of_their_source_also_after_one_has_followed_another() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    let ((old, old_key), (new, new_key)) = (key(7, "2025"), key(8, "2026"));
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&old_key, &new_key])).await;
    census(&daemon, &["office"], json!({})).await;
    for (pair, kid, seconds) in [(&old, "2025", 9), (&new, "2026", 6)] {
        office.says(signed(pair, kid, HONEST, seconds_ago(seconds)));
        let envelope = verified(&daemon).await;
        assert_eq!(told(&envelope), HONEST);
        let signature = &envelope["axes"]["population"]["evidence"][0]["record"]["signature_info"];
        assert_eq!((&signature["signed_by"], &signature["signature_valid"]), (&json!(kid), &json!(true)));
    }
    let jws = signed_by(json!({"method": "jws", "keys": [new_key]}));
    source(&daemon, "other", "primary", &office.endpoint(), jws).await;
    census(&daemon, &["other"], json!({})).await;
    let token = |pair: &Ed25519KeyPair, number: &str, issued: Timestamp| {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let body = said_of("ABW", number, json!({"issued": issued.to_string()}));
        let input = format!("{}.{}", part(r#"{"alg":"EdDSA","kid":"2026"}"#), part(&body));
        whole("", &format!("{input}.{}", URL_SAFE_NO_PAD.encode(pair.sign(input.as_bytes()))))
    };
    office.says(token(&new, HONEST, seconds_ago(5)));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(token(&old, POISON, seconds_ago(1)));
    let envelope = verified(&daemon).await;
    assert_eq!(envelope["kind"], "blocked", "the key that went signs no more: {envelope}");
}

/// Has the office answer so, and says that nothing is told for that, and why.
async fn refused(daemon: &Daemon<'_>, world: &World, why: &str) -> Value {
    let envelope = verified(daemon).await;
    assert_eq!(envelope["kind"], "blocked", "{why}: {envelope}");
    let entry = asked(daemon, world, &envelope, "office").await;
    assert_eq!((&entry["status"], &entry["error_code"]), (&json!("error"), &json!("refused")), "{why}");
    let decided = get(
        &mut daemon.control().await,
        &format!("/v1/executions/{}", envelope["execution_id"].as_str().expect("it has one")),
    )
    .await;
    assert_eq!(at(&decided, "/decisions/0/inputs/calls/office/reply/refusal"), why, "{envelope}");
    entry
}

#[tokio::test]
async fn nothing_that_is_poisoned_on_the_way_is_told_and_the_log_says_so() {
    let (office, elsewhere) = (Office::start().await, Office::start().await);
    elsewhere.says(people(POISON));
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    census(&daemon, &["office"], json!({})).await;
    let away = empty("302 Found", &format!("location: http://127.0.0.1:{}/ABW/1960\r\n", elsewhere.port));
    let oversized = whole("", &said_of("ABW", POISON, json!({"more": "x".repeat(300 << 10)})));
    for (answer, why) in [
        (whole("", &said_of("AFG", POISON, json!({}))), "identity"),
        (away, "identity"),
        (oversized, "schema"),
        (whole("", "nothing that can be read"), "schema"),
    ] {
        office.says(people(HONEST));
        assert_eq!(told(&verified(&daemon).await), HONEST);
        office.says(answer);
        refused(&daemon, &world, why).await;
    }
    assert!(elsewhere.heads().is_empty(), "nobody else is asked");
}

#[tokio::test]
async fn what_somebody_else_has_signed_or_what_was_said_before_is_not_taken() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    let ((pair, public), (forger, _)) = (key(7, "k"), key(8, "k"));
    source(&daemon, "office", "primary", &office.endpoint(), by_header(&[&public])).await;
    let settings = json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}});
    census(&daemon, &["office"], settings).await;
    let first = signed(&pair, "k", HONEST, seconds_ago(60));
    office.says(first.clone());
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(signed(&forger, "k", POISON, seconds_ago(50)));
    refused(&daemon, &world, "signature").await;
    // one that jumps away is no answer to hold others against, and yet the source has said it
    office.says(signed(&pair, "k", POISON, seconds_ago(40)));
    assert_eq!(verified(&daemon).await["kind"], "human_review");
    office.says(first);
    refused(&daemon, &world, "replay").await;
    office.says(signed(&pair, "k", HONEST, seconds_ago(50)));
    refused(&daemon, &world, "replay").await;
    office.says(signed(&pair, "k", HONEST, seconds_ago(30)));
    assert_eq!(told(&verified(&daemon).await), HONEST, "what is newer counts, held against what was honest");
}

#[tokio::test]
async fn an_answer_to_another_question_is_none() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    let endpoint = office.endpoint() + "?nonce={nonce}";
    source(&daemon, "office", "primary", &endpoint, json!({"nonce": {"path": "nonce"}})).await;
    census(&daemon, &["office"], json!({})).await;
    let answer = |head: &str, number: &str| {
        let nonce = head.split("nonce=").nth(1).and_then(|rest| rest.split(' ').next());
        whole("", &said_of("ABW", number, json!({"nonce": nonce})))
    };
    office.answers(move |head| answer(head, HONEST));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    let old = office.heads()[0].clone();
    office.answers(move |_| answer(&old, POISON));
    refused(&daemon, &world, "replay").await;
}

#[tokio::test]
async fn an_untrusted_source_moves_nothing_and_a_registered_one_that_jumps_is_looked_at() {
    let (office, scraper) = (Office::start().await, Office::start().await);
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    source(&daemon, "scraper", "unverified", &scraper.endpoint(), json!({})).await;
    let settings = json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}});
    census(&daemon, &["scraper", "office"], settings).await;
    office.says(people(HONEST));
    scraper.says(people(POISON));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(people(POISON));
    let envelope = verified(&daemon).await;
    assert_eq!((&envelope["kind"], &envelope["reasons"]), (&json!("human_review"), &json!(["deviation"])));
    let jump = format!("it was {HONEST} and is {POISON}, more than 0.5 of it apart");
    assert_eq!(envelope["candidates"][1]["deviations"], json!({"population": jump}));
    assert!(envelope["axes"]["population"].get("value").is_none(), "{envelope}");
}

#[tokio::test]
async fn what_is_kept_of_a_dead_source_is_served_while_it_is_tolerated_also_after_a_restart() {
    let office = Office::start().await;
    let world = World::with_config(LOCAL);
    let daemon = world.serve().await;
    source(&daemon, "office", "primary", &office.endpoint(), json!({})).await;
    let tolerating = |seconds: u64| {
        json!({"oracle_latency": {"on_timeout": "SERVE_STALE",
        "stale_tolerance_seconds": seconds}})
    };
    census(&daemon, &["office"], tolerating(3600)).await;
    office.says(people(HONEST));
    assert_eq!(told(&verified(&daemon).await), HONEST);
    office.says(empty("503 Service Unavailable", ""));
    let served = verified(&daemon).await;
    assert_eq!(told(&served), HONEST);
    assert_eq!(asked(&daemon, &world, &served, "office").await["stale_data_used"], true);
    assert!(daemon.stop().success());
    let daemon = world.serve().await;
    // before anybody has asked it since
    eventually("it is watched", async || watched(&world).await.contains("source:office")).await;
    let metrics = get(&mut daemon.routes().await, "/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("source:office"), "{metrics:?}");
    for _ in 0..3 {
        assert_eq!(told(&verified(&daemon).await), HONEST);
    }
    let health = watched(&world).await;
    assert!(health.contains("circuit"), "{health}");
    census(&daemon, &["office"], tolerating(1)).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    assert_eq!(verified(&daemon).await["kind"], "blocked");
}

/// What people see of the health of sources.
async fn watched(world: &World) -> String {
    String::from_utf8(world.ctl_meanwhile(&["health"]).await.stdout).expect("it is text")
}
