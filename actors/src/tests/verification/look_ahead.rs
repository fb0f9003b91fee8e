//! A later release does not change an envelope about an earlier time, or about the knowledge at an earlier time.

use super::support::*;
use crate::system::ActorSystem;
use crate::testing::{TestSystem, with_system};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};

const SOURCES: [&str; 2] = ["office-a", "office-b"];
const STRATEGIES: [&str; 4] = ["most_recent", "use_conservative", "dispute_summary", "require_human"];

/// A release of one of the sources: the source's index, the year of the release, and the population; `None`
/// for a rejected record.
type SourceReleaseCase = (usize, i64, Option<u32>);

async fn release(system: &ActorSystem, index: usize, (source, year, people): SourceReleaseCase) {
    let row = people
        .map_or_else(|| "Aruba,ABW,1960,\"1,0\"".to_owned(), |people| format!("Aruba,ABW,1960,{people}"));
    let version = format!("{year}-01-{:02}", index + 1);
    ingest_source_release(system, SOURCES[source], &version, &[&row, "Zambia,ZMB,1960,1"]).await;
}

/// The decision, without the fields that differ for each question.
async fn decided(system: &ActorSystem, question: Json) -> Json {
    let envelope = verify_population(system, question).await.expect("the verification succeeds");
    let axes = envelope.axes.iter().map(|(axis, outcome)| (axis, json!([outcome.kind, outcome.value])));
    let candidates = envelope.candidates.iter().map(|candidate| {
        json!([
            candidate.oracle_id,
            candidate.outcome,
            candidate.tier,
            candidate.values,
            candidate.deviations,
            candidate.record,
            candidate.observed_at,
            candidate.stale
        ])
    });
    json!({"kind": envelope.kind, "reasons": envelope.reasons, "axes": axes.collect::<std::collections::BTreeMap<_, _>>(),
        "candidates": candidates.collect::<Vec<_>>(), "warnings": envelope.warnings})
}

#[test]
fn later_release_changes_no_envelope_about_an_earlier_time() {
    let release_of = |years| (0..2_usize, years, prop::option::weighted(0.8, 1..4_u32));
    let releases = prop::collection::vec(release_of(2000..2006_i64), 0..5);
    let strategy = (releases, 2000..2006_i64, release_of(0..1_i64), 0..STRATEGIES.len());
    let cases = if cfg!(debug_assertions) { 24 } else { 200 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&strategy, |(releases, year, (source_of_later, _, people), strategy)| {
        with_system(async |TestSystem { system, time, .. }: TestSystem| {
            for oracle_id in SOURCES {
                source(&system, oracle_id, json!({})).await;
            }
            let settings = json!({
                "conflict_resolution": {"default_strategy": STRATEGIES[strategy], "recency_window_seconds": 63_072_000},
                "deviation_limits": {"population": {"max_change_ratio": "0.5"}},
            });
            workflow(&system, &SOURCES, settings).await;
            for (index, of) in releases.into_iter().enumerate() {
                time.advance(60);
                release(&system, index, of).await;
            }
            time.advance(60);
            let known_at = time.clock().now();
            let about = json!({"point_in_time": format!("{year}-06-01T00:00:00Z")});
            let known = json!({"known_at": known_at});
            let before = (decided(&system, about.clone()).await, decided(&system, known.clone()).await);
            time.advance(60);
            release(&system, 20, (source_of_later, year + 1, people)).await;
            // a decision about the present moves the baselines
            verified(&system).await;
            time.advance(60);
            let after = (decided(&system, about).await, decided(&system, known).await);
            assert_eq!(after.0, before.0, "about {year}");
            assert_eq!(after.1, before.1, "known at {known_at}");
        });
        Ok(())
    });
    result.expect("no later release is seen");
}
