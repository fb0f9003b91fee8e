//! An export has both axes of time: each question about a time, with the knowledge of a time, can be answered from it.

use super::*;
use crate::testing::ground::approve_source;
use oracled_domain::ground::query::{OracleQuery, QueryRequest};
use serde_json::Value as Json;

/// A payload with a record of Aruba for each year, each with its value; 0 is rejected.
fn payload(values: &[(u32, u32)]) -> String {
    let row = |(year, value): &(u32, u32)| match value {
        0 => format!("Aruba,ABW,{year},many\n"),
        value => format!("Aruba,ABW,{year},{value}\n"),
    };
    let rows: String = values.iter().map(row).collect();
    format!("Country Name,Country Code,Year,Value\n{rows}")
}

/// The ids and values of the records that the export has at both times.
fn exported_at(lines: &[Json], time: Timestamp, known: Timestamp) -> Vec<(String, Json)> {
    let parsed = |value: &Json| value.as_str().map(|text| text.parse::<Timestamp>().expect("a time"));
    let is_in = |line: &Json, from: &str, until: &str, at: Timestamp| {
        parsed(&line[from]).is_some_and(|from| from <= at)
            && parsed(&line[until]).is_none_or(|until| at < until)
    };
    let found = lines.iter().filter(|line| {
        is_in(line, "valid_from", "valid_until", time) && is_in(line, "known_from", "known_until", known)
    });
    let id = |line: &Json| line["provenance"]["record_id"].as_str().expect("an id").to_owned();
    found.map(|line| (id(line), line["record"]["axes"]["population"].clone())).collect()
}

async fn answered_at(system: &ActorSystem, time: Timestamp, known: Timestamp) -> Vec<(String, Json)> {
    let request = QueryRequest {
        axes_requested: vec!["population".into()],
        point_in_time: Some(time),
        known_at: Some(known),
        ..QueryRequest::default()
    };
    let oracle_id = "world-bank-population".parse().expect("a valid id");
    let query = OracleQuery { query_id: None, oracle_id, request };
    let answer = system.queries.ask(query).await.expect("the query is answered");
    let record = |record: &oracled_domain::ground::query::NormalizedRecord| {
        (record.record_id.clone(), serde_json::json!(record.values()["population"].to_string()))
    };
    answer.response.records.iter().map(record).collect()
}

#[test]
fn export_answers_500_random_pairs_of_times_as_the_daemon_does() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        let began = time.clock().now();
        let mut runs = Vec::new();
        for (values, version, replace) in [
            (&[(1960, 1), (1961, 2), (1962, 3)][..], "2020-01-10", false),
            // a correction, a withdrawal, a new record
            (&[(1960, 1), (1961, 20), (1963, 4)], "2021-01-10", false),
            // an older release that arrives late
            (&[(1960, 5), (1962, 3)], "2019-01-10", false),
            // another reading, without a record and with a rejected one
            (&[(1960, 1), (1961, 0), (1964, 6)], "2021-01-10", true),
            (&[(1960, 1), (1961, 20), (1963, 4), (1964, 7)], "2022-01-10", false),
            (&[(1961, 21), (1964, 7)], "2020-01-10", true),
        ] {
            time.advance(3600);
            let ingest = if replace {
                ingest_replacement(&system, &pipeline_id, &payload(values), version).await
            } else {
                ingest_version(&system, &pipeline_id, &payload(values), version).await
            };
            assert_eq!(ingest.state, RunState::Completed, "{ingest:?}");
            runs.push(ingest);
        }
        approve_source(&system, &runs[0].oracle_id).await;
        let undo = async |run: &IngestionRun| {
            time.advance(3600);
            let undo = UndoRun { run_id: run.run_id.clone(), reason: "a test".into(), peer: PEER };
            system.ingestion.ask(undo).await.expect("the actor answers").expect("the undo succeeds")
        };
        let undone = undo(&runs[1 + 3]).await;
        undo(&runs[5]).await;
        undo(&undone).await;
        time.advance(3600);
        let view =
            system.store.view(&runs[0].oracle_id).expect("the source opens").expect("the source exists");
        let mut export = Vec::new();
        view.export(&mut export).expect("a write to memory does not fail");
        let lines: Vec<Json> = serde_json::Deserializer::from_slice(&export)
            .into_iter()
            .collect::<Result<_, _>>()
            .expect("JSON");
        assert!(lines.iter().any(|line| !line["known_until"].is_null()), "{lines:?}");
        let from: Timestamp = "2018-06-01T00:00:00Z".parse().expect("a valid time");
        let (mut random, mut found) = (7_u64, 0);
        for _ in 0..500 {
            let mut next = |until: i64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                i64::try_from(random >> 33).expect("31 bits") % until
            };
            let about = from + SignedDuration::from_hours(24 * next(1600));
            let known = began + SignedDuration::from_mins(next(10 * 60));
            let answered = answered_at(&system, about, known).await;
            found += answered.len();
            assert_eq!(exported_at(&lines, about, known), answered, "at {about}, as known at {known}");
        }
        assert!(found > 500, "most questions have answers: {found}");
    });
}
