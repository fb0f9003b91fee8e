//! The record of a verification, unverified sources, and sources whose current release rejected a record.

use super::support::*;
use super::upstream::{
    ScriptedCall, ScriptedSourceReply, TestScenario, live, timed, two_sources, with_scene,
};
use crate::testing::{TestSystem, with_system};
use domain_verification::{AxisReason, CallOutcome, EnvelopeKind};
use jiff::Timestamp;
use serde_json::json;

const SAME: &str = "Aruba,ABW,1960,54208";

fn at(time: &str) -> Timestamp {
    time.parse().expect("a valid time")
}

#[test]
fn verification_record_describes_the_latest_confirming_release() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        source(&system, "office", json!({})).await;
        ingest_source_rows(&system, "office", "2020-04-14", &[SAME]).await;
        let first = verified(&system_with(&system).await).await;
        ingest_source_rows(&system, "office", "2023-05-04", &[SAME, "Aruba,ABW,1961,55434"]).await;
        let envelope = verified(&system).await;
        let evidence = &envelope.axes["population"].evidence[0];
        let record = &evidence.record;
        assert_eq!(record.source_version.as_deref(), Some("2023-05-04"));
        assert_eq!(evidence.observed_at, at("2023-05-04T00:00:00Z"), "the publisher's date");
        // the record names the artifact whose hash, run and times it contains
        let record_id = record.source_locator.strip_prefix("urn:oracled:record:").expect("a record's");
        let chain = system.queries.provenance(record_id).await.expect("the provenance exists");
        assert_eq!(record.evidence_hash.as_ref(), Some(&chain.raw_hash));
        assert_eq!(record.source_version.as_deref(), Some(chain.source_version.as_str()));
        assert_eq!(record.retrieved_at, chain.ingested_at);
        let custody = record.chain_of_custody.clone().expect("a value is present");
        assert!(custody.iter().any(|hand| hand.contains(&chain.ingestion_run_id.to_string())), "{custody:?}");
        assert!(custody.iter().any(|hand| hand.contains(chain.raw.raw_sha256.as_str())), "{custody:?}");
        assert!(record.verified_at >= record.retrieved_at, "{record:?}");
        let before = &first.axes["population"].evidence[0].record;
        assert_ne!(before.chain_of_custody, record.chain_of_custody);
        // a question about an earlier time uses only the release of that time
        let then =
            verify_population(&system, json!({"point_in_time": "2021-01-01"})).await.expect("an envelope");
        let record = &then.axes["population"].evidence[0].record;
        assert_eq!(record.source_version.as_deref(), Some("2020-04-14"));
        assert!(record.verified_at >= record.retrieved_at, "{record:?}");
    });
}

/// The same system, with a workflow over its one source.
async fn system_with(system: &crate::system::ActorSystem) -> crate::system::ActorSystem {
    workflow(system, &["office"], json!({})).await;
    system.clone()
}

#[test]
fn source_whose_current_release_rejected_the_record_is_unusable() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        let others = ["Aruba,ABW,1961,55434", "Aruba,ABW,1962,56234"];
        for oracle_id in ["office-a", "office-b"] {
            source(&system, oracle_id, json!({})).await;
            ingest_source_rows(&system, oracle_id, "2020-04-14", &[SAME, others[0], others[1]]).await;
        }
        workflow(&system, &["office-a", "office-b"], json!({})).await;
        assert_eq!(verified(&system).await.kind, EnvelopeKind::Authoritative);
        let damaged = ["Aruba,ABW,1960,\"54,208\"", others[0], others[1]];
        let run = ingest_source_release(&system, "office-b", "2023-05-04", &damaged).await;
        assert_eq!(run.counts.rejected, 1, "{run:?}");
        let envelope = verified(&system).await;
        assert_eq!(
            (envelope.kind, &envelope.reasons),
            (EnvelopeKind::Blocked, &[AxisReason::OracleUnusable].into())
        );
        assert_eq!(envelope.candidates[1].outcome, CallOutcome::Failed);
        assert!(envelope.warnings.iter().any(|warning| warning.contains("2023-05-04")), "{envelope:#?}");
        // only that record is unusable, and only since that release
        let other = verify_population(&system, json!({"where": {"area": "ABW", "year": 1961}}))
            .await
            .expect("an envelope");
        assert_eq!(other.kind, EnvelopeKind::Authoritative);
        let then =
            verify_population(&system, json!({"point_in_time": "2021-01-01"})).await.expect("an envelope");
        assert_eq!(then.kind, EnvelopeKind::Authoritative, "{then:#?}");
        ingest_source_rows(&system, "office-b", "2024-05-04", &[SAME, others[0], "Aruba,ABW,1962,56235"])
            .await;
        let envelope = verified(&system).await;
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{envelope:#?}");
    });
}

#[test]
fn source_that_only_rejected_the_record_is_unusable_until_withdrawal() {
    with_system(async |TestSystem { system, .. }: TestSystem| {
        for oracle_id in ["office-a", "office-b"] {
            source(&system, oracle_id, json!({})).await;
        }
        ingest_source_rows(&system, "office-a", "2020-04-14", &[SAME]).await;
        let others = ["Aruba,ABW,1961,55434", "Aruba,ABW,1962,56234"];
        let damaged = ["Aruba,ABW,1960,\"54,208\"", others[0], others[1]];
        ingest_source_release(&system, "office-b", "2020-04-14", &damaged).await;
        workflow(&system, &["office-a", "office-b"], json!({})).await;
        let envelope = verified(&system).await;
        assert_eq!(envelope.reasons, [AxisReason::OracleUnusable].into(), "{envelope:#?}");
        ingest_source_rows(&system, "office-b", "2023-05-04", &others).await;
        let envelope = verified(&system).await;
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative);
        assert_eq!(envelope.candidates[1].outcome, CallOutcome::NoRecord);
    });
}

#[test]
fn unverified_answer_is_among_the_candidates_and_in_the_review() {
    with_scene(
        |_| {},
        async |scene: TestScenario| {
            let system = &scene.world.system;
            live(system, "scraper", json!({"oracle_tier": "unverified"})).await;
            two_sources(&scene, json!({})).await;
            // the only registered source is ingested, and answers at once
            workflow(system, &["archive", "scraper"], json!({})).await;
            scene
                .upstream
                .set_script("scraper", &[ScriptedCall::after(300, ScriptedSourceReply::People("99"))]);
            let (envelope, took_ms) = timed(verified(system)).await;
            assert_eq!((envelope.kind, took_ms), (EnvelopeKind::Authoritative, 300));
            let reported = &envelope.candidates[1];
            assert_eq!((reported.outcome, reported.values.len()), (CallOutcome::Answered, 1));
            let logged = entries(system, &envelope.execution_id);
            assert_eq!(
                (&logged[1]["oracle_id"], &logged[1]["status"]),
                (&json!("scraper"), &json!("success"))
            );
            let always = json!({"conflict_resolution": {"always_human_axes": ["population"]}});
            workflow(system, &["archive", "scraper"], always).await;
            let review_id = verified(system).await.review_id.clone().expect("the envelope has a review");
            let (state, _) =
                system.store.review(&review_id).expect("the review is readable").expect("the review exists");
            assert_eq!(state.review.candidates.len(), 2, "{state:?}");
        },
    );
}
