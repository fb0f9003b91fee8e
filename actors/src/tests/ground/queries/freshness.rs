//! How the freshness policy of a source applies to answers.

use super::*;
use crate::testing::ground::approve_source;
use domain_ground::freshness::AxisFreshnessRequirement;
use domain_ground::source::OracleTier;

/// Sets the source's policy to the current one with this change.
pub(super) async fn set_policy(system: &ActorSystem, change: impl FnOnce(&mut FreshnessPolicy)) {
    let view = system.store.view(&source()).expect("the source opens").expect("the source exists");
    let mut policy = policy_of(&view.state, &view.ontology);
    change(&mut policy);
    system.registry.register(policy, PEER).await.expect("it is set");
}

/// Limits the age of `axis` to one minute, with this behavior for older data.
fn a_minute(policy: &mut FreshnessPolicy, axis: &str, stale_behavior: StaleBehavior) {
    let axis = axis.to_owned();
    let requirement = AxisFreshnessRequirement {
        axis: axis.clone(),
        max_age_seconds: 60,
        stale_behavior,
        refresh_on_query: false,
    };
    policy.axis_freshness.insert(axis, requirement);
}

#[test]
fn filtered_axis_must_be_as_fresh_as_a_requested_one() {
    with_system(|TestSystem { system, .. }| async move {
        two_releases(&system).await;
        let by = |axis: &str, operator, value| QueryRequest {
            axes_requested: vec!["area_name".into()],
            ..request(&[(axis, operator, value)])
        };
        let axes = |answer: &QueryAnswer| {
            let axes = answer.response.query_metadata.freshness.policy.axes.iter();
            axes.map(|axis| axis.axis.clone()).collect::<Vec<_>>()
        };
        let more = || by("population", FilterOperator::Gte, json!(1));
        let fresh = run_query(&system, more()).await.expect("the call succeeds");
        assert_eq!(axes(&fresh), ["area_name", "population"]);
        set_policy(&system, |policy| a_minute(policy, "population", StaleBehavior::FailClosed)).await;
        let stale = run_query(&system, more()).await;
        assert!(matches!(stale, Err(QueryError::Stale { .. })), "{stale:?}");
        // an identity that is only filtered by does not age
        set_policy(&system, |policy| a_minute(policy, "area", StaleBehavior::FailClosed)).await;
        let fresh = run_query(&system, by("area", FilterOperator::Eq, json!("ABW")))
            .await
            .expect("the call succeeds");
        assert_eq!(axes(&fresh), ["area_name"]);
        let area = QueryRequest { axes_requested: vec!["area".into()], ..request(&[]) };
        let stale = run_query(&system, area).await;
        assert!(matches!(stale, Err(QueryError::Stale { .. })), "it was asked for: {stale:?}");
    });
}

#[test]
fn page_freshness_is_evaluated_when_the_page_is_requested() {
    with_system(|TestSystem { system, time, .. }| async move {
        two_releases(&system).await;
        let pipeline_id = "world-bank-population".parse().expect("a valid id");
        ingest_version(&system, &pipeline_id, NEW, "2026-11-20").await;
        set_policy(&system, |policy| {
            policy.default_max_age_seconds = 2 * 86_400;
            policy.default_stale_behavior = StaleBehavior::FailClosed;
        })
        .await;
        let now = QueryRequest { max_results: Some(1), ..request(&[]) };
        let then = QueryRequest { point_in_time: Some(time.clock().now()), ..now.clone() };
        let mut pages = [now, then];
        for page in &mut pages {
            let answer = run_query(&system, page.clone()).await.expect("the answer is fresh");
            page.cursor = answer.response.cursor;
        }
        time.advance(3 * 86_400);
        let [now, then] = pages;
        let stale = run_query(&system, now).await;
        assert!(matches!(stale, Err(QueryError::Stale { .. })), "{stale:?}");
        let fresh = run_query(&system, then).await.expect("the answer is returned");
        assert_eq!(summarize_answer(&fresh), ["ABW/1961=55434"]);
    });
}

#[test]
fn source_without_a_release_has_no_age_and_is_not_fresh() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        approve_source(&system, &source()).await;
        let axes = vec!["population".to_owned(), "area_name".to_owned()];
        let now = QueryRequest { axes_requested: axes.clone(), ..request(&[]) };
        let at = |time: &str| Some(time.parse().expect("a valid time"));
        let then = QueryRequest { point_in_time: at("2019-01-01T00:00:00Z"), ..now.clone() };
        let unknown = QueryRequest { known_at: at("2026-01-01T00:00:00Z"), ..now.clone() };
        for ingests in [false, true] {
            if ingests {
                ingest_version(&system, &pipeline_id, OLD, "2020-04-14").await;
            }
            for request in [&now, &then, &unknown].into_iter().skip(usize::from(ingests)) {
                let answer = run_query(&system, request.clone()).await.expect("the call succeeds").response;
                assert!(answer.records.is_empty());
                let metadata = answer.query_metadata;
                assert_eq!(metadata.data_version, "", "no version was in force");
                assert_eq!(
                    (metadata.freshness.data_as_of, metadata.freshness.staleness_seconds),
                    (None, None)
                );
                let axes = &metadata.freshness.policy.axes;
                assert!(axes.iter().all(|axis| axis.stale && axis.age_seconds.is_none()), "{axes:?}");
                assert_eq!(answer.warnings.len(), 1, "{:?}", answer.warnings);
                assert!(answer.warnings[0].contains("no release"), "{:?}", answer.warnings);
            }
        }
        set_policy(&system, |policy| policy.default_stale_behavior = StaleBehavior::FailClosed).await;
        let stale = run_query(&system, then).await;
        assert!(matches!(stale, Err(QueryError::Stale { .. })), "{stale:?}");
        // after a release the data has an age, even if no record matches
        let none = request(&[("area", FilterOperator::Eq, json!("XXX"))]);
        let none = QueryRequest { point_in_time: at("2020-04-15T00:00:00Z"), ..none };
        let metadata = run_query(&system, none).await.expect("it is a day old").response.query_metadata;
        assert_eq!((metadata.data_version.as_str(), metadata.records_returned), ("2020-04-14", 0));
    });
}

#[test]
fn record_by_id_follows_the_freshness_policy() {
    with_system(|TestSystem { system, time, .. }| async move {
        two_releases(&system).await;
        let at = |time: &str| QueryRequest {
            point_in_time: Some(time.parse().expect("a valid time")),
            ..request(&[])
        };
        let old =
            run_query(&system, at("2021-01-01T00:00:00Z")).await.expect("the call succeeds").response.records;
        let [superseded, valid, withdrawn] =
            [0, 1, 2].map(|index: usize| old.get(index).expect("three items").record_id.clone());
        let record = async |id: &str| system.queries.record(id).await;
        let warned = record(&valid).await.expect("the record exists");
        let axes = warned.freshness.policy.axes.iter().map(|axis| (axis.axis.as_str(), axis.stale));
        assert_eq!(axes.collect::<Vec<_>>(), [("area_name", true), ("population", true)]);
        assert_eq!(warned.freshness.data_as_of, "2023-05-04T00:00:00Z".parse().ok(), "it was last seen then");
        assert_eq!(
            (warned.warnings.len(), warned.oracle_tier),
            (1, OracleTier::Primary),
            "{:?}",
            warned.warnings
        );
        for (behavior, tier) in [
            (StaleBehavior::DegradeTier, Some(OracleTier::Secondary)),
            (StaleBehavior::FailClosed, None),
            (StaleBehavior::BlockUntilFresh, None),
        ] {
            set_policy(&system, |policy| a_minute(policy, "population", behavior)).await;
            let now = record(&valid).await;
            assert_eq!(now.as_ref().ok().map(|record| record.oracle_tier), tier, "{behavior:?}: {now:?}");
            assert!(now.is_ok() || matches!(now, Err(RecordReadError::Stale(_))), "{now:?}");
            system.queries.provenance(&valid).await.expect("it is readable");
        }
        // both were three years old, and stale, when they ceased to be valid; later they are as stale as then
        for gone in [&superseded, &withdrawn] {
            assert!(matches!(record(gone).await, Err(RecordReadError::Stale(_))));
        }
        set_policy(&system, |policy| {
            policy.axis_freshness.clear();
            policy.default_max_age_seconds = 4 * 365 * 86_400;
            policy.default_stale_behavior = StaleBehavior::FailClosed;
        })
        .await;
        time.advance(365 * 86_400);
        assert!(matches!(record(&valid).await, Err(RecordReadError::Stale(_))));
        for gone in [&superseded, &withdrawn] {
            let gone = record(gone).await.expect("the answer is returned");
            assert_eq!(gone.freshness.policy.axes[0].age_seconds, Some(1115 * 86_400), "from 2020 to 2023");
        }
        let review = SourceReviewDecision::Deprecate(time.clock().now() + Duration::from_secs(100 * 86_400));
        system.registry.review(&source(), review, PEER).await.expect("it is deprecated");
        let warned = record(&superseded).await.expect("the record exists").warnings;
        assert!(warned.iter().any(|warning| warning.contains("deprecated")), "{warned:?}");
    });
}

#[test]
fn source_declared_stale_stays_stale_after_the_clock_is_set_back() {
    with_system(|TestSystem { system, time, .. }| async move {
        two_releases(&system).await;
        ingest_version(&system, &"world-bank-population".parse().expect("a valid id"), NEW, "2026-11-20")
            .await;
        let (trigger, detail) = (InvalidationCause::Manual, "it is wrong".to_owned());
        let is_stale = async || {
            let answer = run_query(&system, request(&[])).await.expect("the answer has a warning");
            answer.response.query_metadata.freshness.policy.axes.iter().all(|axis| axis.stale)
        };
        assert!(!is_stale().await);
        system
            .registry
            .invalidate(SourceInvalidation { oracle_id: source(), trigger, detail, peer: PEER })
            .await
            .expect("it is stale");
        assert!(is_stale().await);
        time.advance(-3600);
        assert!(is_stale().await);
    });
}
