use crate::system::ActorSystem;
use crate::testing::ground::{
    PEER, approve_source, archived, ingest_replacement, ingest_version, population, start_run_message,
    wait_for_run,
};
use crate::testing::{TestClock, TestServices, TestSystem, logged_events, with_services, with_system};
use actors_ground::ingestion::pulling::RequestedPull;
use actors_ground::ingestion::*;
use actors_ground::metrics::IngestionMetrics;
use actors_ground::registry::SourceInvalidation;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_ground::event::InvalidationCause;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::query::{OracleQuery, QueryRequest};
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source_state::{PruneReport, RebuildOutcome};
use domain_ground::value::AxisValue;
use jiff::{SignedDuration, Timestamp};
use oracled_store::ground::view::{FoundVersion, SourceView};
use serde_json::Value as Json;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

mod axes;
mod columns;
mod gates;
mod pulls;
mod rebuild;

pub(crate) const OLD: &str = "Country Name,Country Code,Year,Value\n\
    Aruba,ABW,1960,54208\nAruba,ABW,1961,55434\nKosovo,XKX,1960,947000\n";
pub(crate) const NEW: &str = "Country Name,Country Code,Year,Value\n\
    Aruba,ABW,1960,54608\nAruba,ABW,1961,55434\nZambia,ZMB,1960,3119430\n";

/// The records that are valid at a time, as `id=population`.
fn valid(system: &ActorSystem, at: &str) -> Vec<String> {
    let oracle_id = "world-bank-population".parse().expect("a valid id");
    let view = system.store.view(&oracle_id).expect("the source opens").expect("the source exists");
    let at = format!("{at}T00:00:00Z").parse().expect("a valid time");
    let records = view.records(&[], Bound::Unbounded).expect("the records are readable");
    let found = records
        .filter_map(|record| SourceView::valid_at(&record.expect("the read succeeds"), &view.known, at));
    let reported = found.map(|found: FoundVersion| {
        let content =
            view.content(&found.statement).expect("the content is readable").expect("it was not pruned");
        let provenance = view.provenance(&found).expect("the provenance is readable");
        let population = content.axes.get("population").map(AxisValue::to_string).unwrap_or_default();
        format!("{}={population}", provenance.source_record_id)
    });
    reported.collect()
}

#[test]
fn next_release_corrects_and_withdraws_records() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let run = ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        assert_eq!((run.state, run.counts.records, run.number), (RunState::Completed, 3, 1), "{run:?}");
        let run = ingest_version(&system, &pipeline_id, NEW, "2023-05-04").await;
        assert_eq!((run.state, run.counts.records, run.number), (RunState::Completed, 3, 2), "{run:?}");
        let changes: Vec<_> =
            run.counts.changes.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        assert_eq!(changes, [("became_valid", 2), ("superseded", 1), ("withdrawn", 1)]);
        assert!(valid(&system, "2020-04-13").is_empty());
        assert_eq!(valid(&system, "2020-04-14"), ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"]);
        assert_eq!(valid(&system, "2026-01-01"), ["ABW/1960=54608", "ABW/1961=55434", "ZMB/1960=3119430"]);
    });
}

#[test]
fn validity_does_not_depend_on_the_order_of_ingestion() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, NEW, "2023-05-04").await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        assert_eq!(valid(&system, "2020-04-14"), ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"]);
        assert_eq!(valid(&system, "2026-01-01"), ["ABW/1960=54608", "ABW/1961=55434", "ZMB/1960=3119430"]);
    });
}

#[test]
fn repeated_run_changes_nothing() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let first = ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let entries = system.store.last_seq();
        let begin = start_run_message(&system, &pipeline_id, archived(&system, OLD.as_bytes()), "2020-04-14");
        let begun = system.ingestion.ask(begin).await.expect("the actor answers").expect("the run starts");
        assert!(matches!(begun, StartRunOutcome::Unchanged(run) if *run == first));
        assert_eq!(system.store.last_seq(), entries);
    });
}

#[test]
fn payload_without_accepted_records_changes_nothing_and_keeps_rejects() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        for (payload, cause, rejected) in [
            ("Country Name,Country Code,Year,Value\n", "the payload holds no records", 0),
            (
                "Country Name,Country Code,Year,Value\nAruba,ABW,1960,many\n",
                "none of 1 records was accepted",
                1,
            ),
            ("Country Name,Country Code,Year,Value\nAruba,ABW,1960,\"1", "is not closed", 0),
        ] {
            let run = ingest_version(&system, &pipeline_id, payload, "2021-01-01").await;
            assert_eq!((run.state, run.counts.rejected), (RunState::Failed, rejected), "{run:?}");
            assert!(run.cause.as_deref().is_some_and(|message| message.contains(cause)), "{run:?}");
        }
        assert_eq!(valid(&system, "2026-01-01"), ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"]);
    });
}

#[test]
fn payload_with_contradicting_records_changes_nothing() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let twice = "Country Name,Country Code,Year,Value\nAruba,ABW,1960,1\nAruba,ABW,1960,2\n";
        let run = ingest_version(&system, &pipeline_id, twice, "2021-01-01").await;
        assert_eq!((run.state, run.counts.rejected), (RunState::Failed, 2), "{run:?}");
        assert!(run.counts.changes.is_empty() && run.rows.is_some(), "{run:?}");
        assert_eq!(valid(&system, "2026-01-01"), ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"]);
    });
}

#[test]
fn known_version_is_not_read_from_another_payload_without_replace() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let first = ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let begin = |payload: &str| {
            start_run_message(&system, &pipeline_id, archived(&system, payload.as_bytes()), "2020-04-14")
        };
        let refused = system.ingestion.ask(begin(NEW)).await.expect("the actor answers");
        assert!(
            matches!(&refused, Err(IngestionError::VersionKnown { run_id, .. }) if *run_id == first.run_id),
            "{refused:?}"
        );
        let elsewhen =
            StartRun { released_at: "2020-04-15T00:00:00Z".parse().expect("a valid time"), ..begin(OLD) };
        let refused = system.ingestion.ask(elsewhen).await.expect("the actor answers");
        assert!(matches!(refused, Err(IngestionError::VersionKnown { .. })), "{refused:?}");
        let second = ingest_replacement(&system, &pipeline_id, NEW, "2020-04-14").await;
        assert_eq!(second.state, RunState::Completed, "{second:?}");
        assert_eq!(valid(&system, "2026-01-01"), ["ABW/1960=54608", "ABW/1961=55434", "ZMB/1960=3119430"]);
        let again =
            system.ingestion.ask(StartRun { replace: true, ..begin(OLD) }).await.expect("the actor answers");
        assert!(
            matches!(&again, Err(IngestionError::Replaced { by, .. }) if *by == second.run_id),
            "{again:?}"
        );
        let renamed = StartRun { version: "2020-04-14-again".into(), ..begin(OLD) };
        let begun = system.ingestion.ask(renamed).await.expect("the actor answers").expect("the run starts");
        assert_eq!(wait_for_run(&system, begun).await.state, RunState::Completed);
        assert_eq!(valid(&system, "2026-01-01"), ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"]);
    });
}

#[test]
fn payload_of_a_failed_run_is_pruned_and_logged_once() {
    with_services(TestClock::new(), TestServices::default(), |TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let junk = "Country Name,Country Code,Year,Value\nAruba,ABW,1960,many\n";
        let failed = ingest_version(&system, &pipeline_id, junk, "2021-01-01").await;
        assert_eq!(failed.state, RunState::Failed);
        time.advance(20 * 366 * 86_400);
        let prune = || PruneSource { oracle_id: failed.oracle_id.clone(), before: None, peer: PEER };
        let pruned =
            system.ingestion.ask(prune()).await.expect("the actor answers").expect("the prune succeeds");
        assert_eq!(pruned.payloads.as_slice(), std::slice::from_ref(&failed.input.raw_sha256));
        assert!(!system.store.files().has_archived(&failed.input.raw_sha256));
        let again =
            system.ingestion.ask(prune()).await.expect("the actor answers").expect("the prune succeeds");
        assert!(again.payloads.is_empty(), "{again:?}");
        assert_eq!(logged_events(&system.store).iter().filter(|event| *event == "source_pruned").count(), 1);
    });
}

#[test]
fn retention_prunes_content_that_is_older_than_its_days() {
    with_services(TestClock::new(), TestServices::default(), |TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let second = ingest_version(&system, &pipeline_id, NEW, "2021-04-14").await;
        assert_eq!(second.state, RunState::Completed);
        time.advance(20 * 366 * 86_400);
        let prune = async |days, is_dry_run| {
            let message = PruneOldContent { days, peer: None, is_dry_run };
            system.ingestion.ask(message).await.expect("the actor answers").expect("the pruning succeeds")
        };
        let export = || {
            let view = system.store.view(&second.oracle_id).expect("readable").expect("the source exists");
            let mut export = Vec::new();
            view.export(&mut export).expect("a write to memory does not fail");
            export
        };
        let before = export();
        assert_eq!(prune(30 * 366, false).await, PruneReport::default(), "nothing is that old");
        let due = prune(365, true).await.sources;
        assert!(due.len() == 1 && due[0].outcome.versions > 0 && due[0].outcome.freed_bytes > 0, "{due:?}");
        assert_eq!(export(), before, "a dry run changes nothing");
        let pruned = prune(365, false).await.sources;
        assert_eq!(pruned[0].outcome.versions, due[0].outcome.versions);
        assert_eq!(pruned[0].outcome.payloads, due[0].outcome.payloads);
        assert!(export() != before);
        assert_eq!(prune(365, false).await, PruneReport::default());
        let pruned = logged_events(&system.store).iter().filter(|event| *event == "source_pruned").count();
        assert_eq!(pruned, 1);
    });
}

#[test]
fn version_error_names_the_value() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        for (version, named) in [("a b", "a b"), ("", ""), (&*"1".repeat(100), &*"1".repeat(80))] {
            let begin =
                start_run_message(&system, &pipeline_id, archived(&system, OLD.as_bytes()), "2020-04-14");
            let begun = system.ingestion.ask(StartRun { version: version.into(), ..begin }).await;
            let Err(IngestionError::Version(given)) = begun.expect("the call succeeds") else {
                panic!("{version}")
            };
            assert_eq!(given, named);
        }
    });
}

#[test]
fn release_date_more_than_24_hours_ahead_is_rejected() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let now = system.clock.now();
        for (hours, is_refused) in [(23, false), (25, true)] {
            let released_at = now + SignedDuration::from_hours(hours);
            let begin =
                start_run_message(&system, &pipeline_id, archived(&system, OLD.as_bytes()), "2020-04-14");
            let begun =
                system.ingestion.ask(StartRun { released_at, ..begin }).await.expect("the actor answers");
            assert_eq!(matches!(begun, Err(IngestionError::Ahead { .. })), is_refused, "{begun:?}");
            if let Ok(begun) = begun {
                wait_for_run(&system, begun).await;
            }
        }
    });
}

#[test]
fn invalidation_is_ended_only_by_a_newer_release() {
    with_services(TestClock::new(), TestServices::default(), |TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, NEW, "2023-05-04").await;
        let oracle_id: SourceId = "world-bank-population".parse().expect("a valid id");
        time.advance(1);
        let (trigger, detail) = (InvalidationCause::Manual, String::new());
        system
            .registry
            .invalidate(SourceInvalidation { oracle_id: oracle_id.clone(), trigger, detail, peer: PEER })
            .await
            .expect("the call succeeds");
        let invalidated_at = || {
            system
                .store
                .source(&oracle_id)
                .expect("the source is readable")
                .expect("the source exists")
                .0
                .stale_since()
        };
        time.advance(1);
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        assert!(invalidated_at().is_some());
        ingest_version(&system, &pipeline_id, OLD, "2024-01-01").await;
        assert_eq!(invalidated_at(), None);
    });
}

#[test]
fn interrupted_run_is_resumed_after_a_restart() {
    with_services(TestClock::new(), TestServices::default(), |world| async move {
        let system = &world.system;
        let pipeline_id = population(system).await;
        let begun = start_long_run(system, &pipeline_id).await;
        let StartRunOutcome::Started(run) = &begun else { panic!("it is new: {begun:?}") };
        let run_id = run.run_id.clone();
        // the closed log accepts nothing: the run can only end in the restarted system
        let world = world.restarted(TestServices::default()).await;
        let run = wait_for_run(&world.system, begun).await;
        assert_eq!((run.state, run.counts.records), (RunState::Completed, 30_000), "{run:?}");
        assert_eq!(run.run_id, run_id);
        let events = logged_events(&world.system.store);
        assert_eq!(events.iter().filter(|event| *event == "ingestion_started").count(), 1);
        assert_eq!(events.iter().filter(|event| *event == "ingestion_ended").count(), 1);
    });
}

/// Begins a run that takes a moment.
async fn start_long_run(system: &ActorSystem, pipeline_id: &PipelineId) -> StartRunOutcome {
    let many: String =
        (0..30_000).map(|n| format!("Aruba,{},{},{n}\n", code(n / 150), 1950 + n % 150)).collect();
    let payload = format!("Country Name,Country Code,Year,Value\n{many}");
    let begin = start_run_message(system, pipeline_id, archived(system, payload.as_bytes()), "2020-04-14");
    system.ingestion.ask(begin).await.expect("the actor answers").expect("the run starts")
}

fn code(number: usize) -> String {
    let letter = |number: usize| char::from(b'A' + u8::try_from(number % 26).expect("below 26"));
    [letter(number / 676), letter(number / 26), letter(number)].iter().collect()
}

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
    let answer = crate::tests::ground::queries::ask(system, query).await.expect("the query is answered");
    let record = |record: &domain_ground::query::NormalizedRecord| {
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
