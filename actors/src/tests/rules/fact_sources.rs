use crate::system::ActorSystem;
use crate::testing::ground::{PEER, approve_source, ingest_version, population};
use crate::testing::{TestSystem, with_system};
use crate::tests::ground::ingestion::{NEW, OLD};
use crate::tests::verification::support::workflow;
use actors_ground::queries::QueryError;
use actors_ground::registry::policy_of;
use actors_rules::fact_sources::*;
use domain_ground::freshness::StaleBehavior;
use domain_ground::id::SourceId;
use domain_rules::CandidateCheck;
use domain_rules::sourced::{
    FACTS_FROM_MAX, FactQueryTarget, FactSource, FactsFrom, NoFactsError, SourcedFactOrigin,
};
use oracled_store::LogQuery;
use serde_json::{Value as Json, json};

pub(crate) fn source() -> SourceId {
    "world-bank-population".parse().expect("a valid id")
}

pub(crate) async fn with_a_source(system: &ActorSystem) {
    let pipeline_id = population(system).await;
    ingest_version(system, &pipeline_id, OLD, "2020-04-14").await;
    ingest_version(system, &pipeline_id, NEW, "2023-05-04").await;
    approve_source(system, &source()).await;
}

/// A query of the source for `axes` of the area `area`. `more` adds members to its request.
fn query(area: &str, axes: &[&str], more: Json) -> FactsFrom {
    let mut request =
        json!({"axes_requested": axes, "filters": [{"axis": "area", "operator": "eq", "value": area}]});
    let members = request.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    let entry = json!({"query": {"oracle_id": source(), "request": request}});
    serde_json::from_value(entry).expect("a valid entry")
}

pub(crate) fn query_both_axes(area: &str) -> FactsFrom {
    query(area, &["area_name", "population"], json!({}))
}

pub(crate) async fn gathered(
    system: &ActorSystem,
    facts_from: Vec<FactsFrom>,
) -> Result<CandidateCheck, FactCollectionError> {
    let check = CandidateCheck { facts: vec!["Ice melts".into()], ..CandidateCheck::default() };
    system.fact_sources.collect_facts(check, facts_from).await
}

async fn refused(system: &ActorSystem, facts_from: Vec<FactsFrom>) -> FactCollectionError {
    gathered(system, facts_from).await.expect_err("the source gives no facts")
}

/// The index and the cause of the entry that gives no facts.
fn failed_entry(error: FactCollectionError) -> (usize, FactEntryError) {
    match error {
        FactCollectionError::Entry { index, cause } => (index, cause),
        other => panic!("{other:?}"),
    }
}

/// Why the first entry gives no facts, although its query or its workflow is valid.
fn no_facts(error: FactCollectionError) -> NoFactsError {
    match failed_entry(error) {
        (0, FactEntryError::None(cause)) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requested_facts_follow_given_facts_in_order_with_their_origin() {
    with_system(|TestSystem { system, .. }| async move {
        with_a_source(&system).await;
        let check =
            gathered(&system, vec![query_both_axes("ABW"), query_both_axes("NUL"), query_both_axes("ABW")])
                .await
                .expect("the source gives facts");
        let [first, nothing, again] = &check.facts_from[..] else { panic!("{:?}", check.facts_from) };
        assert_eq!((nothing.facts, nothing.origins.len()), (0, 0));
        assert_eq!(nothing.asked, FactQueryTarget::Query(source()));
        assert_eq!(check.facts[0], "Ice melts");
        assert_eq!(check.facts.len() as u64, 1 + first.facts + again.facts);
        assert!(first.facts > 0 && first.facts == again.facts);
        for fact in check.facts_from.iter().flat_map(FactSource::facts) {
            assert_eq!(check.facts[fact.fact as usize], fact.text);
        }
        assert!(
            check.facts.iter().any(|fact| fact == "The population of Aruba in 1960 was 54,608"),
            "{check:?}"
        );
        for origin in check.facts_from.iter().flat_map(|source| &source.origins) {
            let SourcedFactOrigin::Record(record) = &origin.origin else { panic!("{origin:?}") };
            let chain = system.queries.provenance(&record.record_id).await.expect("the provenance exists");
            assert_eq!((&chain.raw_hash, &chain.source_version), (&record.raw_hash, &record.source_version));
        }
    });
}

#[test]
fn request_fails_if_any_entry_gives_no_facts() {
    with_system(|TestSystem { system, .. }| async move {
        with_a_source(&system).await;
        let none = refused(&system, vec![]).await;
        assert!(matches!(none, FactCollectionError::Entries(0)), "{none:?}");
        let many = vec![query_both_axes("ABW"); FACTS_FROM_MAX + 1];
        let many = refused(&system, many).await;
        assert!(matches!(many, FactCollectionError::Entries(17)), "{many:?}");
        let paged = query("ABW", &["area_name", "population"], json!({"max_results": 1}));
        let (index, cause) = failed_entry(refused(&system, vec![query_both_axes("ABW"), paged]).await);
        assert!(
            index == 1 && matches!(cause, FactEntryError::None(NoFactsError::More { records: 1 })),
            "{index} {cause:?}"
        );
        let next = query("ABW", &["area_name", "population"], json!({"cursor": "x"}));
        assert_eq!(no_facts(refused(&system, vec![next]).await), NoFactsError::Cursor);
        let cause = no_facts(refused(&system, vec![query("ABW", &["population"], json!({}))]).await);
        let NoFactsError::NoTemplate { ontology, requested, named } = &cause else { panic!("{cause:?}") };
        assert_eq!(
            (ontology.to_string().as_str(), requested.as_str(), named.as_str()),
            ("population@1", "population", "area_name, population")
        );
        let verify = json!({"verify": {"workflow": "people", "where": {}, "axes": ["population"]}});
        let verify = serde_json::from_value(verify).expect("a valid entry");
        let (index, cause) = failed_entry(refused(&system, vec![verify]).await);
        assert!(
            index == 0
                && matches!(&cause, FactEntryError::Verify(error) if error.to_string().contains("people")),
            "{index} {cause:?}"
        );
        let unknown =
            json!({"query": {"oracle_id": "nobody", "request": {"axes_requested": ["population"]}}});
        let unknown = serde_json::from_value(unknown).expect("a valid entry");
        // if several entries fail, the first is reported
        let both = vec![unknown, query("ABW", &["people"], json!({}))];
        let (index, cause) = failed_entry(refused(&system, both).await);
        assert!(
            index == 0
                && matches!(&cause, FactEntryError::Query(error) if error.to_string().contains("nobody")),
            "{index} {cause:?}"
        );
    });
}

#[test]
fn workflow_that_can_give_no_facts_is_not_run() {
    with_system(|TestSystem { system, .. }| async move {
        with_a_source(&system).await;
        let verify = json!({"verify": {"workflow": "census", "where": {"area": "ABW", "year": 1960},
                                       "axes": ["population"]}});
        let verify: FactsFrom = serde_json::from_value(verify).expect("a valid entry");
        let request_with = |mode: &str| {
            json!({"authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": mode,
                                         "on_timeout_behavior": "FAIL_CLOSED"}})
        };
        for (mode, is_inline) in [("INLINE", true), ("ASYNC", false), ("NON_AUTHORITATIVE_ONLY", false)] {
            workflow(&system, &["world-bank-population"], request_with(mode)).await;
            let cause = no_facts(refused(&system, vec![verify.clone()]).await);
            let is_expected = match &cause {
                NoFactsError::NoTemplate { requested, .. } => is_inline && requested == "population",
                NoFactsError::NotInline { workflow: named } => !is_inline && named.as_str() == "census",
                _ => false,
            };
            assert!(is_expected, "{mode}: {cause:?}");
        }
        for event in ["source_asked", "verification_decided"] {
            let query = LogQuery { events: vec![event.into()], limit: 1, ..LogQuery::default() };
            assert!(system.store.log(&query).expect("the log is read").is_empty(), "{event}");
        }
    });
}

#[test]
fn stale_source_gives_no_facts_or_facts_marked_stale_by_policy() {
    with_system(|TestSystem { system, .. }| async move {
        with_a_source(&system).await;
        for (behavior, passes) in
            [(StaleBehavior::ServeStaleSilent, true), (StaleBehavior::FailClosed, false)]
        {
            let view = system.store.view(&source()).expect("the source opens").expect("the source exists");
            let mut policy = policy_of(&view.state, &view.ontology);
            policy.default_max_age_seconds = 60;
            policy.default_stale_behavior = behavior;
            system.registry.register(policy, PEER).await.expect("it is set");
            match gathered(&system, vec![query_both_axes("ABW")]).await {
                Ok(check) => {
                    let mut origins = check.facts_from.iter().flat_map(|source| &source.origins);
                    assert!(
                        passes
                            && origins.all(|origin| {
                                matches!(&origin.origin, SourcedFactOrigin::Record(record) if record.stale)
                            })
                    );
                }
                Err(FactCollectionError::Entry {
                    index: 0,
                    cause: FactEntryError::Query(QueryError::Stale(_)),
                }) => {
                    assert!(!passes);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn request_fails_if_entries_together_give_too_many_facts() {
    with_system(|TestSystem { system, .. }| async move {
        let pipeline_id = population(&system).await;
        let name = "x".repeat(1_500);
        let rows: String = (1900..2100).map(|year| format!("{name},ABW,{year},1000\n")).collect();
        let payload = format!("Country Name,Country Code,Year,Value\n{rows}");
        ingest_version(&system, &pipeline_id, &payload, "2023-05-04").await;
        approve_source(&system, &source()).await;
        let all = query("ABW", &["area_name", "population"], json!({"max_results": 200}));
        let check = gathered(&system, vec![all.clone()]).await.expect("the source gives facts");
        assert_eq!(check.facts.len(), 1 + 2 * 200, "1,000 is not rounded to 0 million");
        let many = refused(&system, vec![all.clone(), all]).await;
        assert!(matches!(many, FactCollectionError::Together(NoFactsError::TooMany)), "{many:?}");
    });
}
