mod freshness;

use crate::system::ActorSystem;
use crate::testing::ground::{
    PEER, approve_source, ingest_replacement, ingest_version, open_pipeline, population, register_pipeline,
};
use crate::testing::{TestSystem, with_system};
use crate::tests::ground::ingestion::{NEW, OLD};
use actors_ground::queries::*;
use actors_ground::registry::{RegistryError, SourceInvalidation, SourceReviewDecision, policy_of};
use domain_base::digest::Sha256Hex;
use domain_ground::event::InvalidationCause;
use domain_ground::freshness::{FreshnessPolicy, StaleBehavior};
use domain_ground::id::SourceId;
use domain_ground::query::{
    FilterOperator, InvalidQueryError, OracleQuery, QueryAnswer, QueryFilter, QueryRequest, RecordStatus,
};
use domain_ground::record::ProvenanceRecord;
use freshness::set_policy;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

fn source() -> SourceId {
    "world-bank-population".parse().expect("a valid id")
}

fn request(filters: &[(&str, FilterOperator, serde_json::Value)]) -> QueryRequest {
    let filter = |(axis, operator, value): &(&str, FilterOperator, serde_json::Value)| QueryFilter {
        axis: (*axis).to_owned(),
        operator: *operator,
        value: value.clone(),
    };
    QueryRequest {
        axes_requested: vec!["population".into()],
        filters: filters.iter().map(filter).collect(),
        ..QueryRequest::default()
    }
}

/// The answer to `request`.
pub(crate) async fn ask(system: &ActorSystem, request: OracleQuery) -> Result<QueryAnswer, QueryError> {
    Ok(system.queries.page(request, Arc::new(|| true)).await?.answer)
}

async fn run_query(system: &ActorSystem, request: QueryRequest) -> Result<QueryAnswer, QueryError> {
    ask(system, OracleQuery { query_id: Some("q".into()), oracle_id: source(), request }).await
}

async fn two_releases(system: &ActorSystem) {
    let pipeline_id = population(system).await;
    ingest_version(system, &pipeline_id, OLD, "2020-04-14").await;
    ingest_version(system, &pipeline_id, NEW, "2023-05-04").await;
    approve_source(system, &source()).await;
}

/// The records, as `id=population`.
fn summarize_answer(answer: &QueryAnswer) -> Vec<String> {
    let record = |record: &domain_ground::query::NormalizedRecord| {
        let value = record.axes["population"].as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{}={value}", record.source_record_id)
    };
    answer.response.records.iter().map(record).collect()
}

#[test]
fn source_answers_only_after_it_is_approved() {
    with_system(|TestSystem { system, .. }| async move {
        let unknown = run_query(&system, request(&[])).await;
        assert!(matches!(unknown, Err(QueryError::SourceUnknown(_))), "{unknown:?}");
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let silent = run_query(&system, request(&[])).await;
        assert!(matches!(silent, Err(QueryError::Silent(_))), "{silent:?}");
        approve_source(&system, &source()).await;
        let answer = run_query(&system, request(&[])).await.expect("the call succeeds");
        assert_eq!(summarize_answer(&answer), ["ABW/1960=54208", "ABW/1961=55434", "XKX/1960=947000"]);
    });
}

#[test]
fn query_finds_records_by_valid_time_and_known_at() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let before = time.clock().now();
        time.advance(3600);
        ingest_version(&system, &pipeline_id, NEW, "2023-05-04").await;
        approve_source(&system, &source()).await;
        let at = |point_in_time: &str, known_at: Option<Timestamp>| QueryRequest {
            point_in_time: Some(point_in_time.parse().expect("a valid time")),
            known_at,
            ..request(&[
                ("area", FilterOperator::Eq, json!("ABW")),
                ("year", FilterOperator::Eq, json!(1960)),
            ])
        };
        let now = run_query(&system, at("2026-01-01T00:00:00Z", None)).await.expect("the call succeeds");
        assert_eq!(summarize_answer(&now), ["ABW/1960=54608"]);
        let metadata = &now.response.query_metadata;
        assert_eq!((metadata.data_version.as_str(), metadata.records_scanned), ("2023-05-04", 1));
        let then = run_query(&system, at("2021-01-01T00:00:00Z", None)).await.expect("the call succeeds");
        assert_eq!(summarize_answer(&then), ["ABW/1960=54208"]);
        let known =
            run_query(&system, at("2026-01-01T00:00:00Z", Some(before))).await.expect("the call succeeds");
        assert_eq!(summarize_answer(&known), ["ABW/1960=54208"]);
        assert_eq!(known.response.query_metadata.data_version, "2020-04-14");
        let never = run_query(&system, at("2010-01-01T00:00:00Z", None)).await.expect("the call succeeds");
        assert!(summarize_answer(&never).is_empty());
    });
}

#[test]
fn explanation_names_the_releases_that_counted() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let first = time.clock().now();
        time.advance(3600);
        ingest_version(&system, &pipeline_id, NEW, "2023-05-04").await;
        time.advance(3600);
        // the first version is read again, and counts once
        ingest_replacement(&system, &pipeline_id, NEW, "2020-04-14").await;
        approve_source(&system, &source()).await;
        for (known_at, releases) in
            [(Some(first), vec!["2020-04-14"]), (None, vec!["2023-05-04", "2020-04-14"])]
        {
            let request = QueryRequest { known_at, explain: true, ..request(&[]) };
            let answer = run_query(&system, request).await.expect("the call succeeds");
            assert_eq!(answer.response.explain.expect("the request included it").releases, releases);
        }
    });
}

#[test]
fn pages_continue_after_an_ingestion_between_them() {
    with_system(|TestSystem { system, time, .. }| async move {
        let pipeline_id = population(&system).await;
        ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        approve_source(&system, &source()).await;
        let mut page = QueryRequest { max_results: Some(1), ..request(&[]) };
        let first = run_query(&system, page.clone()).await.expect("the call succeeds");
        assert_eq!(summarize_answer(&first), ["ABW/1960=54208"]);
        time.advance(60);
        ingest_version(&system, &pipeline_id, NEW, "2023-05-04").await;
        page.cursor = first.response.cursor;
        page.max_results = Some(5);
        let rest = run_query(&system, page.clone()).await.expect("the call succeeds");
        assert_eq!(summarize_answer(&rest), ["ABW/1961=55434", "XKX/1960=947000"]);
        assert_eq!(rest.response.cursor, None);
        page.axes_requested = vec!["area_name".into()];
        let other = run_query(&system, page).await;
        assert!(matches!(other, Err(QueryError::Bad(InvalidQueryError::Cursor))), "{other:?}");
    });
}

#[test]
fn stale_data_is_served_as_the_policy_requires() {
    with_system(|TestSystem { system, .. }| async move {
        two_releases(&system).await;
        let view = system.store.view(&source()).expect("the source opens").expect("the source exists");
        let mut policy = policy_of(&view.state, &view.ontology);
        for (behavior, served, warned) in [
            (StaleBehavior::ServeStaleSilent, true, 0),
            (StaleBehavior::ServeStaleWithWarning, true, 1),
            (StaleBehavior::DegradeTier, true, 1),
            (StaleBehavior::FailClosed, false, 0),
            (StaleBehavior::BlockUntilFresh, false, 0),
        ] {
            policy.default_stale_behavior = behavior;
            policy.default_max_age_seconds = 60;
            system.registry.register(policy.clone(), PEER).await.expect("it is set");
            let answer = run_query(&system, request(&[])).await;
            assert_eq!(answer.is_ok(), served, "{behavior:?}: {answer:?}");
            let Ok(answer) = answer else { continue };
            assert_eq!(answer.response.warnings.len(), warned, "{behavior:?}");
            let degraded =
                answer.response.query_metadata.oracle_tier != view.state.entry.registration.oracle_tier;
            assert_eq!(degraded, behavior == StaleBehavior::DegradeTier, "{behavior:?}");
            // 2020 and 2023 data, asked for on 2026-11-20
            assert!(answer.response.query_metadata.freshness.staleness_seconds > Some(3 * 365 * 86_400));
        }
    });
}

#[test]
fn invalidated_source_is_stale_until_a_run_follows() {
    with_system(|TestSystem { system, time, .. }| async move {
        two_releases(&system).await;
        let fresh = |answer: QueryAnswer| {
            answer.response.query_metadata.freshness.policy.axes.iter().all(|axis| !axis.stale)
        };
        let pinned = QueryRequest {
            point_in_time: Some("2023-06-01T00:00:00Z".parse().expect("a valid time")),
            ..request(&[])
        };
        assert!(fresh(run_query(&system, pinned.clone()).await.expect("the call succeeds")), "a month old");
        let order = |trigger| SourceInvalidation {
            oracle_id: source(),
            trigger,
            detail: "it is wrong".into(),
            peer: PEER,
        };
        let refused = system.registry.invalidate(order(InvalidationCause::UpstreamSignal)).await;
        assert!(matches!(refused, Err(RegistryError::NoTrigger { .. })), "{refused:?}");
        system.registry.invalidate(order(InvalidationCause::Manual)).await.expect("the call succeeds");
        let answer = run_query(&system, request(&[])).await.expect("the answer has a warning");
        assert!(answer.response.warnings.iter().any(|warning| warning.contains("invalidated")), "{answer:?}");
        time.advance(60);
        let pipeline_id = "world-bank-population".parse().expect("a valid id");
        ingest_version(&system, &pipeline_id, NEW, "2026-11-20").await;
        assert!(fresh(run_query(&system, request(&[])).await.expect("the call succeeds")));
    });
}

#[test]
fn record_is_found_by_its_id_in_every_standing() {
    with_system(|TestSystem { system, .. }| async move {
        two_releases(&system).await;
        let at = |time: &str| QueryRequest {
            point_in_time: Some(time.parse().expect("a valid time")),
            include_provenance: true,
            ..request(&[])
        };
        let old = run_query(&system, at("2021-01-01T00:00:00Z")).await.expect("the call succeeds").response;
        let mut standings = Vec::new();
        for record in &old.records {
            let record = system.queries.record(&record.record_id).await.expect("the record exists");
            standings.push((record.record.source_record_id, record.standing));
        }
        let expected = [
            ("ABW/1960", RecordStatus::Superseded),
            ("ABW/1961", RecordStatus::Valid),
            ("XKX/1960", RecordStatus::Withdrawn),
        ];
        assert_eq!(standings, expected.map(|(id, standing)| (id.to_owned(), standing)));
        let provenance = old.provenance.expect("the request included it");
        for (record, chain) in old.records.iter().zip(&provenance) {
            let now = system.queries.provenance(&record.record_id).await.expect("the provenance exists");
            // an answer about an earlier time does not see the later release that ended the record
            assert_eq!((chain.valid_until, &chain.superseded_by), (None, &None));
            let (valid_until, superseded_by) = (now.valid_until, now.superseded_by.clone());
            assert_eq!(now, ProvenanceRecord { valid_until, superseded_by, ..chain.clone() });
            let archive = system
                .store
                .files()
                .archive(&chain.oracle_id, &chain.raw.raw_sha256)
                .expect("the archive exists");
            let raw = archive.slice(chain.raw.offset, chain.raw.len.into()).expect("the range exists");
            assert_eq!(Sha256Hex::of(&raw), chain.raw_hash);
        }
        // the second release has the same record of 1961 as the first
        let run_id = &system
            .store
            .view(&source())
            .expect("the source opens")
            .expect("the source exists")
            .state
            .completed[1]
            .run_id;
        let same = system
            .queries
            .record(&domain_ground::run::record_id(run_id, 1))
            .await
            .expect("the record exists");
        assert_eq!(same.same_as.as_deref(), old.records.get(1).map(|record| record.record_id.as_str()));
        for unknown in ["", "x", "0123456789abcdef-0", &domain_ground::run::record_id(run_id, 9)] {
            assert!(
                matches!(system.queries.record(unknown).await, Err(RecordReadError::Unknown(_))),
                "{unknown}"
            );
        }
    });
}

#[test]
fn silent_source_cannot_be_read_on_any_path() {
    with_system(|TestSystem { system, time, .. }| async move {
        let review = async |review: SourceReviewDecision| {
            system.registry.review(&source(), review, PEER).await.expect("it is reviewed");
        };
        let pipeline_id = population(&system).await;
        let run = ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let record_id = run.record_id(0);
        let is_silent = async || {
            let queries = &system.queries;
            let is_known = [
                matches!(run_query(&system, request(&[])).await, Err(QueryError::Silent(_))),
                matches!(queries.record(&record_id).await, Err(RecordReadError::Silent(_))),
                matches!(queries.provenance(&record_id).await, Err(RecordReadError::Silent(_))),
                matches!(queries.changes(None, Some(source()), 9).await, Err(QueryError::Silent(_))),
                queries.changes(None, None, 9).await.is_ok_and(|page| page.changes.is_empty()),
            ];
            assert_eq!(is_known, [is_known[0]; 5]);
            let page = queries.changes(None, None, 9).await.expect("the changes are readable");
            assert_eq!(page.withheld, is_known[0].then(source).into_iter().collect());
            assert!(queries.recorded_provenance(&record_id).await.is_ok());
            is_known[0]
        };
        assert!(is_silent().await, "it is pending");
        let before = system.queries.changes(None, None, 9).await.expect("the changes are readable").next;
        review(SourceReviewDecision::Approve).await;
        assert!(!is_silent().await);
        let page = system.queries.changes(before, None, 9).await.expect("the changes are readable");
        assert_eq!(page.changes.len(), 3, "they are in the feed once it is approved");
        review(SourceReviewDecision::Deprecate(time.clock().now() + SignedDuration::from_hours(91 * 24)))
            .await;
        assert!(!is_silent().await);
        time.advance(92 * 24 * 3600);
        assert!(is_silent().await, "its deprecation date is over");
    });
}

#[test]
fn refused_read_of_a_record_is_logged_with_its_source() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let run = ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
        let refused = system.queries.record(&run.record_id(0)).await;
        assert!(matches!(refused, Err(RecordReadError::Silent(_))), "{refused:?}");
        let refused = system.queries.provenance(&run.record_id(0)).await;
        assert!(matches!(refused, Err(RecordReadError::Silent(_))), "{refused:?}");
        let is_read = |event: &&String| *event == "source_queried";
        while crate::testing::logged_events(&system.store).iter().filter(is_read).count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let lines =
            system.store.log(&oracled_store::LogQuery { limit: 100, ..oracled_store::LogQuery::default() });
        let lines = lines.expect("the read succeeds");
        let entries = lines
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(&line.json).expect("valid JSON"));
        let sources: Vec<_> = entries
            .filter(|entry| entry["event"] == "source_queried")
            .map(|entry| (entry["outcome"].clone(), entry["oracle_id"].clone()))
            .collect();
        let expected = || (json!("source_silent"), json!(source().as_str()));
        assert_eq!(sources, [expected(), expected()]);
    });
}

#[test]
fn feed_returns_each_change_once_and_can_be_resumed() {
    with_system(|TestSystem { system, .. }| async move {
        two_releases(&system).await;
        let (mut since, mut kinds) = (None, Vec::new());
        loop {
            let page = system.queries.changes(since, None, 2).await.expect("the changes are readable");
            kinds.extend(
                page.changes.iter().map(|change| (change.kind.into_str(), change.source_record_id.clone())),
            );
            since = page.next;
            if !page.more {
                break;
            }
        }
        let kinds: Vec<_> = kinds.iter().map(|(kind, id)| (*kind, id.as_str())).collect();
        let expected = [
            ("became_valid", "ABW/1960"),
            ("became_valid", "ABW/1961"),
            ("became_valid", "XKX/1960"),
            ("superseded", "ABW/1960"),
            ("became_valid", "ABW/1960"),
            ("withdrawn", "XKX/1960"),
            ("became_valid", "ZMB/1960"),
        ];
        assert_eq!(kinds, expected);
        let end = system.queries.changes(since, None, 2).await.expect("the changes are readable");
        assert!(end.changes.is_empty() && !end.more && end.next == since, "{end:?}");
    });
}

#[test]
fn feed_refuses_a_position_that_is_no_log_entry() {
    with_system(|TestSystem { system, .. }| async move {
        two_releases(&system).await;
        for since in ["0", "1000000", "1000000-1", "18446744073709551615"] {
            let since = since.parse().expect("it has the form of a position");
            let refused = system.queries.changes(Some(since), None, 2).await.expect_err("it does not exist");
            assert!(matches!(refused, QueryError::Position(_)), "{refused}");
        }
        let entries = system.store.last_seq();
        let newest = entries.to_string().parse().expect("a position");
        assert!(system.queries.changes(Some(newest), None, 2).await.is_ok());
    });
}

#[test]
fn patterns_are_compiled_only_with_a_processor() {
    with_system(|TestSystem { system, .. }| async move {
        two_releases(&system).await;
        let pattern = |pattern: &str| request(&[("area_name", FilterOperator::Regex, json!(pattern))]);
        let mut permits = Vec::new();
        while let Ok(permit) = timeout(Duration::ZERO, system.queries.processors.acquire_for_scan()).await {
            permits.push(permit);
        }
        // a pattern that cannot be compiled is not noticed without a processor
        tokio::time::pause();
        let busy = run_query(&system, pattern("(")).await;
        assert!(matches!(busy, Err(QueryError::Busy)), "{busy:?}");
        tokio::time::resume();
        drop(permits);
        let bad = run_query(&system, pattern("(")).await;
        assert!(matches!(bad, Err(QueryError::Bad(InvalidQueryError::Filter { .. }))), "{bad:?}");
        let answer = run_query(&system, pattern("^Ar")).await.expect("the call succeeds");
        assert_eq!(summarize_answer(&answer).len(), 2);
    });
}

/// A source with `records` records of one subject, which differ in their values, and one record of another subject.
async fn ingest_records_of_one_subject(system: &ActorSystem, records: usize) {
    let pipeline_id = population(system).await;
    let mut definition = open_pipeline();
    let key = ["Country Code", "Year", "Value"].map(str::to_owned);
    definition.pipeline.validation.deduplication_key = key.into();
    register_pipeline(system, definition).await;
    let rows: String = (1..=records).map(|value| format!("Aruba,ABW,1960,{value}\n")).collect();
    let payload = format!("Country Name,Country Code,Year,Value\n{rows}Zambia,ZMB,1960,3119430\n");
    ingest_version(system, &pipeline_id, &payload, "2023-05-04").await;
    approve_source(system, &source()).await;
}

async fn page(system: &ActorSystem, area: &str, max_results: usize) -> Result<QueryAnswerPage, QueryError> {
    let one = [("area", FilterOperator::Eq, json!(area)), ("year", FilterOperator::Eq, json!(1960))];
    let request = QueryRequest { max_results: Some(max_results), ..request(&one) };
    system.queries.page(OracleQuery { query_id: None, oracle_id: source(), request }, Arc::new(|| true)).await
}

#[test]
fn lookup_of_many_records_becomes_a_scan() {
    with_system(|TestSystem { system, .. }| async move {
        ingest_records_of_one_subject(&system, 300).await;
        let all = page(&system, "ABW", 1000).await.expect("the call succeeds");
        assert_eq!(all.answer.response.records.len(), 300);
        assert!(all.memory_permit.is_some(), "it is no lookup");
        let few = page(&system, "ABW", 20).await.expect("the call succeeds");
        assert_eq!(few.answer.response.records.len(), 20);
        assert!(few.memory_permit.is_none() && few.answer.response.cursor.is_some());
        let one = page(&system, "ZMB", 1000).await.expect("the call succeeds");
        assert_eq!((one.answer.response.records.len(), one.memory_permit.is_none()), (1, true));
    });
}

#[test]
fn pages_wait_for_memory_but_lookups_do_not() {
    with_system(|TestSystem { system, .. }| async move {
        ingest_records_of_one_subject(&system, 300).await;
        let mut held = Vec::new();
        // 64 MiB in total, and each page takes twice its data
        for _ in 0..2 {
            held.push(page(&system, "ABW", 10_000).await.expect("there is room"));
        }
        page(&system, "ZMB", 10_000).await.expect("it takes no room");
        let none = timeout(Duration::from_millis(200), page(&system, "ABW", 10_000)).await;
        assert!(none.is_err(), "it waits: {none:?}");
        let room = held.pop().and_then(|page| page.memory_permit);
        page(&system, "ABW", 10_000).await.expect_err("other pages have all memory");
        drop(room);
        page(&system, "ABW", 10_000).await.expect("there is room");
    });
}

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
