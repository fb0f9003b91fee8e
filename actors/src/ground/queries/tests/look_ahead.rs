//! A question about a time sees no later release: a new release changes no answer about an earlier time.

use super::freshness::set_policy;
use super::*;
use crate::testing::ground::approve_source;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The content of a release for each of four records: none, a value, or a value that is rejected.
type ReleaseValues = [Option<Option<u8>>; 4];

/// The years in which releases appear.
const YEARS: std::ops::Range<i64> = 2000..2006;

fn payload(values: ReleaseValues) -> String {
    let row = |(index, value): (usize, Option<Option<u8>>)| {
        let value = value?.map_or_else(|| "\"1,0\"".to_owned(), |value| (value + 1).to_string());
        Some(format!("Aruba,ABW,{},{value}\n", 1960 + index))
    };
    let rows: String = values.into_iter().enumerate().filter_map(row).collect();
    // every payload has this record, so that no run fails as empty
    format!("Country Name,Country Code,Year,Value\n{rows}Zambia,ZMB,1960,1\n")
}

/// The answers about a time, without the fields that differ for each request.
async fn about(system: &ActorSystem, time: &str) -> serde_json::Value {
    let request = QueryRequest {
        point_in_time: Some(time.parse().expect("a valid time")),
        include_provenance: true,
        explain: true,
        ..request(&[])
    };
    let answer = match run_query(system, request).await {
        Ok(answer) => serde_json::to_value(answer).expect("plain data serializes"),
        Err(QueryError::Stale(stale)) => {
            return json!({ "stale": serde_json::to_value(&stale.freshness).expect("plain data serializes") });
        }
        Err(error) => panic!("{error}"),
    };
    let mut response = answer["response"].clone();
    for of_the_asking in ["latency_ms", "executed_at", "known_at", "records_scanned"] {
        response["query_metadata"].as_object_mut().expect("an object").remove(of_the_asking);
    }
    response["explain"].as_object_mut().expect("an object").remove("files");
    response
}

#[test]
fn later_release_changes_no_answer_about_an_earlier_time() {
    let value = || prop::option::weighted(0.8, prop::option::weighted(0.9, 0..3_u8));
    let values = move || prop::array::uniform4(value());
    let releases = prop::collection::vec((YEARS, values()), 1..4);
    let cases = if cfg!(debug_assertions) { 12 } else { 200 };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let strategy = (releases, YEARS, values(), 0..3_usize);
    let result = runner.run(&strategy, |(releases, year, later, behavior)| {
        with_system(|TestSystem { system, .. }| async move {
            let pipeline_id = population(&system).await;
            approve_source(&system, &source()).await;
            let behaviors =
                [StaleBehavior::FailClosed, StaleBehavior::ServeStaleWithWarning, StaleBehavior::DegradeTier];
            set_policy(&system, |policy| {
                policy.default_max_age_seconds = 400 * 86_400;
                policy.default_stale_behavior = behaviors[behavior];
            })
            .await;
            for (index, (year, values)) in releases.into_iter().enumerate() {
                ingest_version(&system, &pipeline_id, &payload(values), &format!("{year}-01-0{}", index + 1))
                    .await;
            }
            let time = format!("{year}-06-01T00:00:00Z");
            let before = about(&system, &time).await;
            ingest_version(&system, &pipeline_id, &payload(later), &format!("{}-02-01", year + 1)).await;
            assert_eq!(about(&system, &time).await, before);
        });
        Ok(())
    });
    result.expect("no later release is seen");
}
