//! Hostile callers and an honest one share the routes' socket. All submissions of the honest caller succeed.

use oracled_api::client::DaemonClient;
use oracled_tests::ground::{approve, example_documents, ingest, register_all, started_run, wait_for_run};
use oracled_tests::wire::{WireConnection, connections as many_connections, head, post as whole_post};
use oracled_tests::{DaemonWorld, at, document, eventually, get, post, problem, submission};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const GOOD: &str = r#"{"verdict":"GREEN","summary":"ok"}"#;
const KIB: u64 = 1024;
/// Largest permitted ratio of the honest client's p99 with hostile callers to its quiet p99.
const SLOWER_MAX: u32 = 5;
/// Smallest quiet p99 for that ratio. The test shares two noisy cores with its hostile callers. A few ms of
/// scheduling would exceed any ratio to a p99 below 1 ms.
const QUIET_MIN: Duration = Duration::from_millis(5);
/// The connections that each hostile caller keeps open without reading, or while reading slowly.
const HELD: usize = 20;

/// A source of `count` records whose names have `name_bytes` bytes.
async fn costly_source(control: &mut DaemonClient, count: usize, name_bytes: usize) {
    let (ontology, source, pipeline) = example_documents("costly");
    register_all(control, &ontology, &source, &pipeline).await;
    let name = "n".repeat(name_bytes);
    let row = |number: usize| json!({"number": number, "size": number, "name": name}).to_string() + "\n";
    let payload: String = (0..count).map(row).collect();
    let run_id = started_run(&ingest(control, "costly", "1", "2026-01-01", payload).await);
    assert_eq!(wait_for_run(control, &run_id).await.get("state"), Some(&json!("completed")));
    approve(control, "costly").await;
}

/// A query with `regexes` filters by the same `pattern`, which matches all names, and with an impossible size.
fn query_of(regexes: usize, pattern: &str) -> Value {
    let regex = |_| json!({"axis": "name", "operator": "regex", "value": pattern});
    let mut filters: Vec<_> = (0..regexes).map(regex).collect();
    filters.push(json!({"axis": "size", "operator": "lt", "value": -1}));
    json!({"oracle_id": "costly", "request": {"axes_requested": ["name"], "filters": filters}})
}

/// The same query with a pattern that reads each name to its end.
fn costly_query(regexes: usize) -> Value {
    query_of(regexes, "^n.*n$")
}

#[tokio::test]
async fn query_over_its_work_budget_is_refused_as_too_costly() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    costly_source(&mut daemon.control().await, 500, 40_000).await;
    let routes = &mut daemon.routes().await;
    // the pattern matches at the first byte: even a slow machine exceeds the budget before the deadline
    problem(&post(routes, "/v1/query", &query_of(63, "^n")).await, 422, "query_too_costly");
    assert_eq!(post(routes, "/v1/query", &query_of(1, "^n")).await.status, 200);
    let metrics = get(routes, "/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("oracled_source_queries_total{result=\"too_costly\"} 1"), "{metrics}");
}

#[tokio::test]
async fn scan_stops_after_its_caller_disconnects() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    costly_source(&mut daemon.control().await, 500, 40_000).await;
    let mut wire = WireConnection::connect(&world.socket()).await;
    wire.send(whole_post("/v1/query", &[], costly_query(63).to_string())).await.expect("the server listens");
    drop(wire);
    let routes = &mut daemon.routes().await;
    eventually("the scan is stopped", async || {
        let metrics = get(routes, "/metrics").await;
        String::from_utf8_lossy(&metrics.body).contains("oracled_source_queries_total{result=\"stopped\"} 1")
    })
    .await;
}

#[tokio::test]
async fn connections_over_the_bound_are_refused_a_few_dozen_at_a_time() {
    let world = DaemonWorld::with_config("[limits]\nconnections = 4");
    let daemon = world.serve().await;
    let mut honest = daemon.routes().await;
    assert_eq!(get(&mut honest, "/healthz").await.status, 200);
    let files = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("the program runs").count();
    let before = files();
    let mut flood = Vec::new();
    for _ in 0..many_connections(2000) {
        flood.push(WireConnection::connect(&world.socket()).await);
    }
    let mut most = 0;
    for number in 0..20 {
        most = most.max(files());
        let path = format!("/v1/verdicts/cs_{number}");
        assert_eq!(post(&mut honest, &path, &submission(GOOD)).await.status, 201);
    }
    assert!(most < before + 100, "{most} descriptors with the flood, {before} before");
}

#[tokio::test]
async fn unread_answers_are_cut_if_evaluations_wait_for_memory() {
    // no answer is cut because it is unread for long
    let world = DaemonWorld::with_config("[limits]\nidle_s = 3600");
    let daemon = world.serve().await;
    // each full stop of the text is a step in the answer, so one answer has several MB
    let request = json!({"candidate_output": "A. ".repeat(20_000), "facts": ["B"]}).to_string();
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut wire = WireConnection::connect(&world.socket()).await;
        wire.send(whole_post("/v1/rules/evaluate", &[], &request)).await.expect("the server listens");
        unread.push(wire);
    }
    for wire in &unread[..2] {
        wire.wait_for_answer().await;
    }
    let mut honest = daemon.routes().await;
    // on a slow machine the callers before it need more than the 5 s that it waits; then it gets 503
    eventually("the honest caller is answered", async || {
        let answer =
            honest.call(hyper::Method::POST, "/v1/rules/evaluate", Some(request.clone().into())).await;
        answer.expect("the server answers").status == 200
    })
    .await;
}

/// The state that the hostile callers share.
#[derive(Clone)]
struct HostileCaller {
    socket: PathBuf,
    over: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
}

impl HostileCaller {
    fn is_running(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// Sends `request` repeatedly, each time over a new connection. Reads the answers if `reads`.
    async fn send_repeatedly(self, request: impl Fn(usize) -> Vec<u8>, reads: bool) {
        let mut unread = Vec::new();
        for number in 0.. {
            if !self.is_running() {
                return;
            }
            let mut wire = WireConnection::connect(&self.socket).await;
            drop(wire.send(request(number)).await);
            self.done.fetch_add(1, Ordering::Relaxed);
            if reads {
                drop(wire.answer().await);
            } else {
                unread.push(wire);
                unread.drain(..unread.len().saturating_sub(20));
                sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Sends `request` 100 times on each connection and never reads an answer. Holds [`HELD`] connections,
    /// each for about 20 s unless the daemon closes it.
    async fn never_reads(self, request: Vec<u8>) {
        let (requests, mut unread) = (request.repeat(100), std::collections::VecDeque::new());
        while self.is_running() {
            let mut wire = WireConnection::connect(&self.socket).await;
            // the daemon stops reading requests while their answers are not read
            drop(timeout(Duration::from_millis(500), wire.send(&requests)).await);
            self.done.fetch_add(1, Ordering::Relaxed);
            unread.push_back(wire);
            if unread.len() > HELD {
                unread.pop_front();
                sleep(Duration::from_millis(500)).await;
            }
        }
    }

    /// Sends `request` on [`HELD`] connections and reads a few bytes of each answer at a time.
    async fn reads_slowly(self, request: Vec<u8>) {
        let mut wires = std::collections::VecDeque::new();
        while self.is_running() {
            let mut wire = match wires.pop_front() {
                Some(wire) if wires.len() >= HELD => wire,
                oldest => {
                    wires.extend(oldest);
                    let mut wire = WireConnection::connect(&self.socket).await;
                    drop(wire.send(&request).await);
                    self.done.fetch_add(1, Ordering::Relaxed);
                    wire
                }
            };
            // keep a connection whose answer has not begun
            if !matches!(timeout(Duration::from_millis(10), wire.read_bytes(100)).await, Ok(None)) {
                wires.push_back(wire);
            }
        }
    }

    /// Opens connections without sending a request.
    async fn floods(self) {
        let mut idle = std::collections::VecDeque::new();
        while self.is_running() {
            idle.push_back(WireConnection::connect(&self.socket).await);
            if idle.len() > 200 {
                idle.pop_front();
            }
            tokio::task::yield_now().await;
        }
    }
}

/// The 99th percentile of the latencies.
fn p99(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    latencies.get(latencies.len() * 99 / 100).or(latencies.last()).copied().unwrap_or_default()
}

/// Submits one verdict after the other for `time`, and returns the latency of each.
async fn submit_repeatedly(routes: &mut DaemonClient, name: &str, time: Duration) -> Vec<Duration> {
    let (began, mut latencies) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let path = format!("/v1/verdicts/{name}_{}", latencies.len());
        let sent = Instant::now();
        let answer = post(routes, &path, &submission(GOOD)).await;
        assert_eq!(answer.status, 201, "{}", document(&answer));
        latencies.push(sent.elapsed());
    }
    latencies
}

fn post_bytes(path: &str, body: &Value) -> Vec<u8> {
    whole_post(path, &[], body.to_string())
}

/// Runs hostile callers of every kind and an honest one for `time`. Returns the honest client's p99 without and with
/// them.
async fn measure_under_hostile_load(time: Duration) -> (Duration, Duration) {
    let world = DaemonWorld::with_config("[limits]\nconnections = 150");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    costly_source(control, 300, 40_000).await;
    // two sources that agree, so that every claim of another value goes to a reviewer
    let workflow = json!({"workflow_id": "claims", "domain": "samples",
        "ontology": {"ontology_id": "samples", "version": "1"}, "axes": ["size"], "oracles": ["costly"],
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"}});
    let registered =
        oracled_tests::ground::put_document(control, "/v1/documents/workflow/claims", &workflow).await;
    assert_eq!(registered.status, 200, "{}", document(&registered));
    let mut routes = daemon.routes().await;
    let quiet = submit_repeatedly(&mut routes, "quiet", time / 5).await;
    let before = daemon.resident_bytes().expect("the program runs");

    let hostile = HostileCaller { socket: world.socket(), over: Arc::default(), done: Arc::default() };
    let evaluation = json!({"candidate_output": "5% A. ".repeat(8000), "facts": ["B"]});
    let claim = |number: usize| {
        let value = json!({"value": number, "claimed_by": format!("p-{number}")});
        json!({"workflow": "claims", "where": {"number": number % 300}, "axes": ["size"], "claimed": {"size": value}})
    };
    let callers = [
        tokio::spawn(hostile.clone().floods()),
        tokio::spawn(hostile.clone().never_reads(head("GET", "/openapi.json", &[]).into())),
        tokio::spawn(hostile.clone().never_reads(post_bytes("/v1/rules/evaluate", &evaluation))),
        tokio::spawn(hostile.clone().reads_slowly(post_bytes("/v1/rules/evaluate", &evaluation))),
        tokio::spawn(hostile.clone().send_repeatedly(|_| post_bytes("/v1/query", &costly_query(63)), true)),
        tokio::spawn(hostile.clone().send_repeatedly(|_| post_bytes("/v1/query", &costly_query(63)), false)),
        tokio::spawn({
            let evaluation = evaluation.clone();
            hostile.clone().send_repeatedly(move |_| post_bytes("/v1/rules/evaluate", &evaluation), false)
        }),
        tokio::spawn(
            hostile.clone().send_repeatedly(move |_| post_bytes("/v1/rules/evaluate", &evaluation), true),
        ),
        tokio::spawn(
            hostile.clone().send_repeatedly(move |number| post_bytes("/v1/verify", &claim(number)), true),
        ),
        tokio::spawn(hostile.clone().send_repeatedly(
            |number| {
                post_bytes(&format!("/v1/verdicts/quiet_{number}"), &submission("{\"verdict\":\"RED\"}"))
            },
            true,
        )),
    ];
    let loaded = submit_repeatedly(&mut routes, "loaded", time).await;
    hostile.over.store(true, Ordering::Relaxed);
    let most = daemon.most_resident_bytes().expect("the program runs");
    println!(
        "{} hostile requests; {} honest verdicts, p99 {:?}; alone {}, p99 {:?}; {before} bytes before, at most {most}",
        hostile.done.load(Ordering::Relaxed),
        loaded.len(),
        p99(loaded.clone()),
        quiet.len(),
        p99(quiet.clone())
    );
    assert!(!loaded.is_empty() && hostile.done.load(Ordering::Relaxed) > 0);
    assert!(most < before + 600 * KIB * KIB, "{most} bytes at most, {before} before");
    for caller in callers {
        caller.abort();
    }
    // the first connection was closed because it was idle
    let open = at(&get(&mut daemon.control().await, "/v1/status").await, "/open_reviews");
    assert!(open.as_u64().is_some_and(|open| open <= 1000), "{open}");
    (p99(quiet), p99(loaded))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn honest_submissions_all_succeed_under_hostile_load() {
    measure_under_hostile_load(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "five minutes of hostile callers: `just torture`; a release build also asserts the p99"]
async fn honest_submissions_all_succeed_for_five_minutes() {
    let (quiet, loaded) = measure_under_hostile_load(Duration::from_secs(300)).await;
    // in a debug build the callers' rules and queries alone use both cores
    let is_met = cfg!(debug_assertions) || loaded <= SLOWER_MAX * quiet.max(QUIET_MIN);
    assert!(is_met, "p99 {loaded:?} with hostile callers, {quiet:?} alone");
}
