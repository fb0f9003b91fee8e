//! Verification over three ingested sources, compared with the three queries that a caller would have to send
//! instead. Both are measured from the caller's side, over one connection. A verification is committed with
//! all of its inputs before it is answered, while the entries of queries are committed later. Therefore the
//! comparison is the sum of the queries and of a commit of the verification's entries by the journal alone.

use crate::BenchEffort;
use crate::ground::facts::{BenchFact, BenchRelease, releases};
use crate::read::merge_latencies;
use crate::standalone_journal::StandaloneJournal;
use crate::table::{BenchRow, BenchTable, at_most, histogram, latencies, per_second};
use domain_base::event::AuditEvent;
use hdrhistogram::Histogram;
use oracled_api::client::DaemonClient;
use oracled_domain::events::read_event;
use oracled_store::JournalRecord;
use oracled_tests::ground::{
    approve, ingest, office_documents, put_document, register_all, started_run, wait_for_run, workflow,
};
use oracled_tests::{DaemonProcess, DaemonWorld, at, document, get, post};
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime;

const SOURCES: [&str; 3] = ["office-a", "office-b", "office-c"];
const WORKFLOW: &str = "census";
/// The number of facts of each source.
const FACTS: usize = 30_000;
/// Commits of the same entries in a round of the journal alone.
const COMMITTED: usize = 400;
/// The highest ratio of a verification's median time to the sum of its queries and its commit.
const AIM: f64 = 1.5;

/// Measures a single connection.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let release = releases(1, FACTS).into_iter().next().expect("one release was requested");
    let world = DaemonWorld::default();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut alone = StandaloneJournal::open(&world.path("alone"))?;
    let (verified, queried, entries) = runtime.block_on(async {
        let daemon = world.serve().await;
        prepare(&daemon, &release).await;
        let facts: Vec<&BenchFact> = release.facts.iter().step_by(7).collect();
        let (mut verified, mut queried) = (histogram(), histogram());
        for _ in 0..effort.rounds {
            verify(&daemon, &facts, effort.reading, &mut verified).await;
            query(&daemon, &facts, effort.reading, &mut queried).await;
        }
        let entries = entries(&daemon, facts.first().expect("at least one fact")).await;
        assert!(daemon.stop().success(), "it stops without an error");
        (verified, queried, entries)
    });
    let mut records = std::iter::repeat_with(|| {
        vec![JournalRecord { events: entries.clone(), ..JournalRecord::default() }]
    });
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        rounds.push(alone.round(1, COMMITTED, Duration::ZERO, &mut records)?.0);
    }
    let committed = merge_latencies(&rounds);
    let quantile = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64;
    let ratio = |at, floor: f64| quantile(&verified, at) / floor;
    let of_queries = [0.5, 0.99].map(|at| ratio(at, quantile(&queried, at)));
    let of_both = [0.5, 0.99].map(|at| ratio(at, quantile(&queried, at) + quantile(&committed, at)));
    let rate = |histogram: &Histogram<u64>| per_second(1e9 / histogram.mean());
    table.group(
        "verification over three sources, over the socket; ratio: its time over the sum of its queries'",
    );
    table.row(BenchRow {
        what: format!("verify, {FACTS} facts a source, durable"),
        measured: rate(&verified),
        latencies: latencies(&verified),
        baseline: "three queries, one after the other".into(),
        baseline_measured: rate(&queried),
        baseline_latencies: latencies(&queried),
        verdict: format!("p50 {:.2}, p99 {:.2}", of_queries[0], of_queries[1]),
        ..BenchRow::default()
    });
    table.row(BenchRow {
        what: "the same".into(),
        baseline: "the queries, and the journal alone: its entries".into(),
        baseline_measured: rate(&committed),
        baseline_latencies: latencies(&committed),
        verdict: at_most(
            of_both[0],
            AIM,
            &format!("p50 {:.2}, p99 {:.2}: p50 {AIM}", of_both[0], of_both[1]),
        ),
        ..BenchRow::default()
    });
    Ok(())
}

/// Prepares three sources with the same data, and a workflow over them.
async fn prepare(daemon: &DaemonProcess<'_>, release: &BenchRelease) {
    let control = &mut daemon.control().await;
    for source in SOURCES {
        let (ontology, registration, definition) = office_documents(source);
        register_all(control, &ontology, &registration, &definition).await;
        approve(control, source).await;
        let version = &release.version;
        let released_at = format!("{version}-07-01");
        let run = started_run(&ingest(control, source, version, &released_at, release.payload()).await);
        let run = wait_for_run(control, &run).await;
        assert_eq!(run.get("state"), Some(&json!("completed")), "{run}");
    }
    let workflow = workflow(WORKFLOW, &SOURCES, &json!({}));
    let answer = put_document(control, &format!("/v1/documents/workflow/{WORKFLOW}"), &workflow).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// The log entries of one verification.
async fn entries(daemon: &DaemonProcess<'_>, fact: &BenchFact) -> Vec<AuditEvent> {
    let envelope = post(&mut daemon.routes().await, "/v1/verify", &question(fact)).await;
    let execution_id = at(&envelope, "/execution_id");
    let execution_id = execution_id.as_str().expect("the envelope has an id");
    let log = get(&mut daemon.control().await, &format!("/v1/log?execution={execution_id}")).await;
    let lines = str::from_utf8(&log.body).expect("JSON is UTF-8").lines();
    let read = |line| read_event(line).expect("a valid entry").expect("a known event");
    let entries: Vec<_> = lines.map(read).collect();
    assert_eq!(entries.len(), SOURCES.len() + 1, "one entry for each source call, and the decision");
    entries
}

fn question(fact: &BenchFact) -> Value {
    json!({"workflow": WORKFLOW, "where": {"area": fact.area, "year": fact.year}, "axes": ["population"]})
}

/// Verifies questions one after the other, for `time`.
async fn verify(
    daemon: &DaemonProcess<'_>,
    facts: &[&BenchFact],
    time: Duration,
    taken: &mut Histogram<u64>,
) {
    let routes = &mut daemon.routes().await;
    let question = |fact: &BenchFact| json!({"workflow": WORKFLOW, "where": {"area": fact.area, "year": fact.year}, "axes": ["population"]});
    time_calls(facts, time, taken, async |fact| {
        let answer = post(routes, "/v1/verify", &question(fact)).await;
        assert_eq!(at(&answer, "/axes/population/value"), fact.population.to_string(), "{fact:?}");
    })
    .await;
}

/// Queries the three sources one after the other, for `time`.
async fn query(daemon: &DaemonProcess<'_>, facts: &[&BenchFact], time: Duration, taken: &mut Histogram<u64>) {
    let routes: &mut DaemonClient = &mut daemon.routes().await;
    let question = |source: &str, fact: &BenchFact| {
        json!({"oracle_id": source, "request": {
            "axes_requested": ["population"], "include_provenance": true,
            "filters": [{"axis": "area", "operator": "eq", "value": fact.area},
                        {"axis": "year", "operator": "eq", "value": fact.year}],
        }})
    };
    time_calls(facts, time, taken, async |fact| {
        for source in SOURCES {
            let answer = post(routes, "/v1/query", &question(source, fact)).await;
            let value: Value = at(&answer, "/response/records/0/axes/population");
            assert_eq!(value, fact.population.to_string(), "{fact:?}");
        }
    })
    .await;
}

/// Calls `ask` with each of the facts in turn, for `time`, and records the time of each call in nanoseconds.
async fn time_calls(
    facts: &[&BenchFact],
    time: Duration,
    taken: &mut Histogram<u64>,
    mut ask: impl AsyncFnMut(&BenchFact),
) {
    let until = Instant::now() + time;
    for fact in facts.iter().cycle() {
        let began = Instant::now();
        if began >= until {
            break;
        }
        ask(fact).await;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        taken.saturating_record(took);
    }
}
