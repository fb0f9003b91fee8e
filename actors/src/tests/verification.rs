mod answer_cache;
mod baselines;
mod clock;
mod dismissing;
mod documents;
mod latency;
mod look_ahead;
mod matrix;
mod pending_decisions;
mod pinned;
mod poisoning;
mod queue;
mod records;
pub(crate) mod support;
pub(crate) mod upstream;

use crate::testing::ground::PEER;
use crate::testing::{TestServices, TestSystem, with_system};
use actors_ground::registry::SourceReviewDecision;
use actors_verification::*;
use domain_base::event::AuditEvent;
use domain_verification::envelope::ValueBasis;
use domain_verification::event::VerificationDecided;
use domain_verification::review::ReviewResolution;
use domain_verification::{AxisReason, CallOutcome, DecisionInputs, Envelope, EnvelopeKind};
use oracled_store::LogQuery;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use support::*;

const ARUBA: &str = "Aruba,ABW,1960,54208";

async fn register_two_sources(
    system: &crate::system::ActorSystem,
    one: &str,
    other: &str,
    settings: serde_json::Value,
) {
    for (oracle_id, stated) in [("office-a", one), ("office-b", other)] {
        source(system, oracle_id, json!({})).await;
        ingest_source_rows(system, oracle_id, "2020-04-14", &[&format!("Aruba,ABW,1960,{stated}")]).await;
    }
    workflow(system, &["office-a", "office-b"], settings).await;
}

fn population(envelope: &Envelope) -> Option<String> {
    envelope.axes["population"].value.as_ref().map(ToString::to_string)
}

#[test]
fn agreeing_sources_are_returned_with_provenance_after_the_log_entry() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        register_two_sources(&system, "54208", "54208", json!({})).await;
        let envelope = verified(&system).await;
        assert_eq!(
            (envelope.kind, population(&envelope).as_deref()),
            (EnvelopeKind::Authoritative, Some("54208"))
        );
        let evidence = &envelope.axes["population"].evidence;
        assert_eq!(evidence.len(), 2);
        let record = &evidence[0].record;
        assert_eq!(record.verification_method, "controlled ingestion");
        let record_id = record.source_locator.strip_prefix("urn:oracled:record:").expect("a record's");
        let chain = system.queries.provenance(record_id).await.expect("the provenance exists");
        assert_eq!(record.evidence_hash.as_ref(), Some(&chain.raw_hash));
        assert_eq!(record.source_version.as_deref(), Some("2020-04-14"));
        let reported = events(&system, &envelope.execution_id);
        assert_eq!(reported, ["source_asked", "source_asked", "verification_decided"]);
        let [(entry, again)] = &rebuilt(&system, &envelope.execution_id)[..] else { panic!("one decision") };
        assert_eq!(again.to_json(), envelope.to_json());
        assert_eq!(entry.inputs.calls.len(), 2);
    });
}

#[test]
fn source_without_approval_or_data_blocks_the_decision() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        register_two_sources(&system, "54208", "54208", json!({})).await;
        source(&system, "office-c", json!({})).await;
        let blocked = |envelope: &Envelope, cause: &str| {
            let of_it = (envelope.kind, &envelope.reasons, envelope.candidates[2].outcome);
            let reasons = [AxisReason::OracleUnusable].into();
            assert_eq!(of_it, (EnvelopeKind::Blocked, &reasons, CallOutcome::Failed), "{envelope:#?}");
            assert!(envelope.warnings.iter().any(|warning| warning.contains(cause)), "{envelope:#?}");
        };
        workflow(&system, &["office-a", "office-b", "office-c"], json!({})).await;
        blocked(&*verified(&system).await, "is known for the requested time");
        registered(&system, "office-d", json!({})).await;
        workflow(&system, &["office-a", "office-b", "office-d"], json!({})).await;
        blocked(&*verified(&system).await, "source office-d is not approved yet");
        let of_the_name = verify_population(&system, json!({"axes": ["area_name"]})).await;
        assert!(of_the_name.is_err(), "the workflow is about populations alone");
    });
}

#[test]
fn deprecated_source_causes_one_warning() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        register_two_sources(&system, "54208", "54208", json!({})).await;
        let date = system.clock.now() + jiff::SignedDuration::from_hours(24 * 100);
        system
            .registry
            .review(&source_id("office-a"), SourceReviewDecision::Deprecate(date), PEER)
            .await
            .expect("it is deprecated");
        let envelope = verified(&system).await;
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative);
        let warnings = envelope.warnings.iter().filter(|warning| warning.contains("is deprecated")).count();
        assert_eq!(warnings, 1, "{:?}", envelope.warnings);
    });
}

#[test]
fn same_dispute_has_one_review_and_its_resolution_decides() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        register_two_sources(&system, "54208", "54608", json!({})).await;
        let first = verified(&system).await;
        assert_eq!((first.kind, population(&first)), (EnvelopeKind::HumanReview, None));
        let review_id = first.review_id.clone().expect("the envelope has a review");
        assert_eq!(review_id, first.execution_id);
        let again = futures_of(&system, 8).await;
        assert!(again.iter().all(|envelope| envelope.review_id.as_ref() == Some(&review_id)), "{again:?}");
        let opened = LogQuery { events: vec!["review_opened".into()], limit: 9, ..LogQuery::default() };
        assert_eq!(system.store.log(&opened).expect("the log is readable").len(), 1);

        let resolution = |value: &str| ReviewResolution {
            values: [("population".to_owned(), json!(value))].into(),
            definitions: [].into(),
            own_value: true,
            reason: "the census of that year".into(),
            valid_for_seconds: 3600,
            rule: None,
        };
        let resolve = |value: &str| ResolveReview {
            review_id: review_id.clone(),
            resolution: resolution(value),
            user: PEER.into(),
        };
        let refused = system.verification.resolve(&resolve("many")).await;
        assert!(matches!(refused, Err(ReviewError::Bad(_))), "{refused:?}");
        let state = system.verification.resolve(&resolve("54300")).await.expect("the resolution succeeds");
        assert_eq!(state.resolved.expect("the value is present").verifier_id, "7");
        let decided = verified(&system).await;
        assert_eq!(
            (decided.kind, population(&decided).as_deref()),
            (EnvelopeKind::Authoritative, Some("54300"))
        );
        assert_eq!(decided.axes["population"].basis, Some(ValueBasis::HumanLock));
        let twice = system.verification.resolve(&resolve("1")).await;
        assert!(matches!(twice, Err(ReviewError::Resolved { .. })), "{twice:?}");
        let reported = events(&system, &review_id);
        assert_eq!(
            reported,
            ["source_asked", "source_asked", "verification_decided", "review_opened", "review_resolved"]
        );
    });
}

/// Sends `count` questions at the same time.
async fn futures_of(system: &crate::system::ActorSystem, count: usize) -> Vec<Arc<Envelope>> {
    let asking: Vec<_> = (0..count)
        .map(|_| {
            let system = system.clone();
            actix_rt::spawn(async move { verified(&system).await })
        })
        .collect();
    let mut envelopes = Vec::new();
    for request in asking {
        envelopes.push(request.await.expect("the call succeeds"));
    }
    envelopes
}

#[test]
fn delayed_decision_keeps_its_id_over_a_restart() {
    with_system(async |world: TestSystem| {
        let settings = json!({"authority_latency": {"authority_latency_budget_ms": 500, "enforcement_mode": "ASYNC",
                                                    "on_timeout_behavior": "ESCALATE"}});
        register_two_sources(&world.system, "54208", "54208", settings).await;
        let provisional = verified(&world.system).await;
        assert_eq!((provisional.kind, population(&provisional)), (EnvelopeKind::Provisional, None));
        let decisions = decided(&world.system, &provisional.execution_id).await;
        let kinds: Vec<_> = decisions.iter().map(|(entry, _)| entry.kind).collect();
        assert_eq!(kinds, [EnvelopeKind::Provisional, EnvelopeKind::Authoritative]);
        assert_eq!(population(&decisions[1].1).as_deref(), Some("54208"));
        assert!(world.system.store.pending_decisions().expect("the read succeeds").is_empty());

        // a decision that was interrupted by a stop
        let entry = &decisions[0].0;
        let mut inputs = (*entry.inputs).clone();
        (inputs.execution_id, inputs.stage) =
            ("v-cut-off".into(), domain_verification::DecisionStage::Delayed);
        let mut record = oracled_store::JournalRecord::from(AuditEvent::new(
            entry.envelope.decided_at,
            None,
            VerificationDecided(entry.clone()),
        ));
        record.writes.push(oracled_store::RowWrite::put::<DecisionInputs>(&inputs));
        world.system.log.commit(record).await.expect("the commit succeeds");
        let TestSystem { system, .. } = world.restarted(TestServices::default()).await;
        let taken = loop {
            let taken = rebuilt(&system, "v-cut-off");
            if !taken.is_empty() {
                break taken;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        assert_eq!(taken[0].0.kind, EnvelopeKind::Authoritative);
        assert!(system.store.pending_decisions().expect("the read succeeds").is_empty());
    });
}

/// The two decisions of an execution, once there are two.
async fn decided(
    system: &crate::system::ActorSystem,
    execution_id: &str,
) -> Vec<(domain_verification::event::VerificationEntry, Envelope)> {
    loop {
        let decisions = rebuilt(system, execution_id);
        if decisions.len() == 2 {
            return decisions;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn registered_deviation_goes_to_review_and_unverified_one_has_no_effect() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let settings = json!({"deviation_limits": {"population": {"max_change_ratio": "0.5"}}});
        register_two_sources(&system, "54208", "54208", settings.clone()).await;
        source(&system, "scraper", json!({"oracle_tier": "unverified"})).await;
        ingest_source_rows(&system, "scraper", "2020-04-14", &["Aruba,ABW,1960,99999999"]).await;
        workflow(&system, &["office-a", "office-b", "scraper"], settings).await;
        let envelope = verified(&system).await;
        assert_eq!(
            (envelope.kind, population(&envelope).as_deref()),
            (EnvelopeKind::Authoritative, Some("54208"))
        );
        for oracle_id in ["office-a", "office-b"] {
            ingest_source_rows(&system, oracle_id, "2023-05-04", &["Aruba,ABW,1960,542080"]).await;
        }
        let envelope = verified(&system).await;
        assert_eq!(envelope.kind, EnvelopeKind::HumanReview);
        assert_eq!(envelope.reasons, [AxisReason::Deviation].into());
        assert_eq!(population(&envelope), None);
    });
}

#[test]
fn invalid_question_is_rejected_without_a_log_entry() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        source(&system, "office-a", json!({})).await;
        ingest_source_rows(&system, "office-a", "2020-04-14", &[ARUBA]).await;
        let refused = verify_population(&system, json!({})).await;
        assert!(matches!(refused, Err(VerifyError::WorkflowUnknown(_))), "{refused:?}");
        workflow(&system, &["office-a"], json!({})).await;
        let refused = verify_population(&system, json!({"axes": ["area_name"]})).await;
        assert!(matches!(refused, Err(VerifyError::Bad(_))), "{refused:?}");
        let open =
            verify_population(&system, json!({"where": {"area": "ABW"}})).await.expect("the query is valid");
        assert_eq!(open.kind, EnvelopeKind::RequiresSpecification);
        assert_eq!(events(&system, &open.execution_id), ["verification_decided"]);
        let decided =
            LogQuery { events: vec!["verification_decided".into()], limit: 9, ..LogQuery::default() };
        assert_eq!(system.store.log(&decided).expect("the log is readable").len(), 1);
        let unknown = verify_population(&system, json!({"where": {"area": "ZZZ", "year": 1960}}))
            .await
            .expect("the query is valid");
        assert_eq!(unknown.axes["population"].reasons, [AxisReason::NoValue].into());
    });
}
