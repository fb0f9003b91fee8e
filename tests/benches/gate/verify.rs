//! Verification over three sources that were ingested, beside the three queries that a caller would have to make instead: as
//! the caller sees both, over one connection. A verification is in the log with all of its inputs before it is told; queries
//! leave nothing behind.

use crate::Effort;
use crate::ground::facts::{Fact, Release, releases};
use crate::table::{Row, Table, at_most, histogram, latencies, per_second};
use harness::ground::{approve, begun, ended, ingest, office, put, register_all, workflow};
use harness::{Daemon, World, at, document, post};
use hdrhistogram::Histogram;
use oracled::client::Client;
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime;

const SOURCES: [&str; 3] = ["office-a", "office-b", "office-c"];
const WORKFLOW: &str = "census";
/// So many facts each source has.
const FACTS: usize = 30_000;
/// What a verification may take at its median, of the sum of its queries.
const AIM: f64 = 1.5;

/// Measures one connection.
pub(crate) fn measure(effort: Effort, table: &mut Table) -> io::Result<()> {
    let release = releases(1, FACTS).into_iter().next().expect("one was asked for");
    let world = World::default();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (verified, queried) = runtime.block_on(async {
        let daemon = world.serve().await;
        prepare(&daemon, &release).await;
        let asked: Vec<&Fact> = release.facts.iter().step_by(7).collect();
        let (mut verified, mut queried) = (histogram(), histogram());
        for _ in 0..effort.rounds {
            verify(&daemon, &asked, effort.reading, &mut verified).await;
            query(&daemon, &asked, effort.reading, &mut queried).await;
        }
        assert!(daemon.stop().success(), "it stops in good order");
        (verified, queried)
    });
    let quantile = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64;
    let [p50, p99] = [0.5, 0.99].map(|at| quantile(&verified, at) / quantile(&queried, at));
    let rate = |histogram: &Histogram<u64>| per_second(1e9 / histogram.mean());
    table.group(
        "verification over three sources, over the socket; ratio: its time over the sum of its queries'",
    );
    table.row(Row {
        what: format!("verify, {FACTS} facts a source, durable"),
        measured: rate(&verified),
        latencies: latencies(&verified),
        beside: "three queries, one after the other".into(),
        beside_measured: rate(&queried),
        beside_latencies: latencies(&queried),
        verdict: at_most(p50, AIM, &format!("p50 {p50:.2}, p99 {p99:.2}: p50 {AIM}")),
        ..Row::default()
    });
    Ok(())
}

/// Three sources that say the same, and a workflow over them.
async fn prepare(daemon: &Daemon<'_>, release: &Release) {
    let control = &mut daemon.control().await;
    for source in SOURCES {
        let (ontology, registration, definition) = office(source);
        register_all(control, &ontology, &registration, &definition).await;
        approve(control, source).await;
        let version = &release.version;
        let released_at = format!("{version}-07-01");
        let run = begun(&ingest(control, source, version, &released_at, release.payload()).await);
        let run = ended(control, &run).await;
        assert_eq!(run.get("state"), Some(&json!("completed")), "{run}");
    }
    let workflow = workflow(WORKFLOW, &SOURCES, &json!({}));
    let answer = put(control, &format!("/v1/workflows/{WORKFLOW}"), &workflow).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Has questions verified, one after the other, for so long.
async fn verify(daemon: &Daemon<'_>, asked: &[&Fact], time: Duration, taken: &mut Histogram<u64>) {
    let routes = &mut daemon.routes().await;
    let question = |fact: &Fact| json!({"workflow": WORKFLOW, "where": {"area": fact.area, "year": fact.year}, "axes": ["population"]});
    each(asked, time, taken, async |fact| {
        let answer = post(routes, "/v1/verify", &question(fact)).await;
        assert_eq!(at(&answer, "/axes/population/value"), fact.population.to_string(), "{fact:?}");
    })
    .await;
}

/// Asks the three sources, one after the other, for so long.
async fn query(daemon: &Daemon<'_>, asked: &[&Fact], time: Duration, taken: &mut Histogram<u64>) {
    let routes: &mut Client = &mut daemon.routes().await;
    let question = |source: &str, fact: &Fact| {
        json!({"oracle_id": source, "request": {
            "axes_requested": ["population"], "include_provenance": true,
            "filters": [{"axis": "area", "operator": "eq", "value": fact.area},
                        {"axis": "year", "operator": "eq", "value": fact.year}],
        }})
    };
    each(asked, time, taken, async |fact| {
        for source in SOURCES {
            let answer = post(routes, "/v1/query", &question(source, fact)).await;
            let told: Value = at(&answer, "/response/records/0/axes/population");
            assert_eq!(told, fact.population.to_string(), "{fact:?}");
        }
    })
    .await;
}

/// Does something with each of them in turn, for so long, and notes what it took each time, in nanoseconds.
async fn each(asked: &[&Fact], time: Duration, taken: &mut Histogram<u64>, mut ask: impl AsyncFnMut(&Fact)) {
    let until = Instant::now() + time;
    for fact in asked.iter().cycle() {
        let began = Instant::now();
        if began >= until {
            break;
        }
        ask(fact).await;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        taken.saturating_record(took);
    }
}
