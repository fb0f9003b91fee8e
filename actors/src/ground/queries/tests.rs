mod freshness;
mod look_ahead;
mod pages;

use super::*;
use crate::ground::ingestion::tests::{NEW, OLD};
use crate::ground::registry::{RegistryError, SourceInvalidation, SourceReviewDecision, policy_of};
use crate::system::ActorSystem;
use crate::testing::ground::approve_source;
use crate::testing::ground::{PEER, ingest_replacement, ingest_version, population};
use crate::testing::{TestSystem, with_system};
use jiff::SignedDuration;
use oracled_domain::audit::event::ground::InvalidationCause;
use oracled_domain::ground::freshness::{FreshnessPolicy, StaleBehavior};
use oracled_domain::ground::provenance::ProvenanceRecord;
use oracled_domain::ground::query::answer::RecordStatus;
use oracled_domain::ground::query::{FilterOperator, QueryFilter, QueryRequest};
use serde_json::json;
use std::time::Duration;

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

impl QueryService {
    /// The answer to `request`.
    pub(crate) async fn ask(&self, request: OracleQuery) -> Result<QueryAnswer, QueryError> {
        Ok(self.page(request, Arc::new(|| true)).await?.answer)
    }
}

async fn run_query(system: &ActorSystem, request: QueryRequest) -> Result<QueryAnswer, QueryError> {
    system.queries.ask(OracleQuery { query_id: Some("q".into()), oracle_id: source(), request }).await
}

async fn two_releases(system: &ActorSystem) {
    let pipeline_id = population(system).await;
    ingest_version(system, &pipeline_id, OLD, "2020-04-14").await;
    ingest_version(system, &pipeline_id, NEW, "2023-05-04").await;
    approve_source(system, &source()).await;
}

/// The records, as `id=population`.
fn summarize_answer(answer: &QueryAnswer) -> Vec<String> {
    let record = |record: &oracled_domain::ground::query::NormalizedRecord| {
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
            system.registry.register(&policy.clone(), PEER).await.expect("it is set");
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
            assert_eq!(oracled_domain::Sha256Hex::of(&raw), chain.raw_hash);
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
            .record(&oracled_domain::ground::run::record_id(run_id, 1))
            .await
            .expect("the record exists");
        assert_eq!(same.same_as.as_deref(), old.records.get(1).map(|record| record.record_id.as_str()));
        for unknown in ["", "x", "0123456789abcdef-0", &oracled_domain::ground::run::record_id(run_id, 9)] {
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
