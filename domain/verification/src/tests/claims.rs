//! Reviews opened by claims alone.

use super::support::*;
use crate::stored_state::{CLAIMS_OPEN_MAX, OPEN_MAX};
use crate::{AxisReason, DecisionInputs, EnvelopeKind, OracleReply, ReviewCase, decide};
use domain_ground::source::OracleTier::Primary;
use serde_json::{Value as Json, json};

fn claim(value: Json, claimed_by: &str, confirmed: bool) -> Json {
    json!({"claimed": {"dose": {"value": value, "claimed_by": claimed_by, "confirmed": confirmed}}})
}

/// A question over `dose` that lab-a answers with 10 and lab-b with `other`.
fn question(number: usize, other: &str, more: Json) -> DecisionInputs {
    let workflow = workflow(&["dose", "inr"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(workflow, &["dose", "inr"], more);
    inputs.execution_id = format!("verify:{number}");
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("inr", "2.5")]);
    answers(&mut inputs, "lab-b", Primary, &[("dose", other), ("inr", "2.5")]);
    inputs
}

fn review(inputs: &DecisionInputs) -> ReviewCase {
    ReviewCase::of(inputs, &decide(inputs)).expect("a reviewer decides")
}

#[test]
fn claims_of_one_value_share_a_review_across_claimants() {
    let first = review(&question(1, "10", claim(json!(9), "p-1", false)));
    assert!(first.of_claim);
    assert_eq!(first.axes["dose"], [AxisReason::OracleVsUser].into());
    let mut again = question(2, "10", claim(json!("9.0"), "p-2", true));
    again.open_reviews = vec![first.to_open_review()];
    let envelope = decide(&again);
    assert_eq!((envelope.kind, envelope.review_id), (EnvelopeKind::HumanReview, Some("verify:1".into())));
    let other = review(&question(3, "10", claim(json!(8), "p-1", false)));
    assert_ne!(other.evidence_hash, first.evidence_hash);
}

#[test]
fn claim_warns_that_it_has_no_effect_unless_it_opens_a_review() {
    let result = |inputs: &DecisionInputs| {
        let envelope = decide(inputs);
        (envelope.kind, envelope.warnings.len())
    };
    let (_, others) = result(&question(1, "10", json!({})));
    let agreed = question(1, "10", claim(json!(10), "p-1", false));
    assert_eq!(result(&agreed), (EnvelopeKind::Authoritative, others + 1));
    let differs = question(1, "10", claim(json!(9), "p-1", false));
    assert_eq!(result(&differs), (EnvelopeKind::HumanReview, others));
    let with_several = |more: Json| {
        let mut inputs = question(1, "10", more);
        inputs.calls.get_mut(&"lab-a".parse().expect("a valid id")).expect("it was called").reply =
            OracleReply::Several { records: 2 };
        result(&inputs)
    };
    let (kind, others_of_several) = with_several(json!({}));
    assert_eq!(kind, EnvelopeKind::RequiresSpecification);
    assert_eq!(with_several(claim(json!(9), "p-1", false)), (kind, others_of_several + 1));
    let mut always = agreed;
    always.workflow.conflict_resolution.always_human_axes = vec!["dose".to_owned()];
    assert_eq!(result(&always), (EnvelopeKind::HumanReview, others));
}

#[test]
fn claim_in_a_dispute_of_sources_opens_no_separate_review() {
    let first = review(&question(1, "12", json!({})));
    assert!(!first.of_claim);
    for number in 2..5 {
        let mut claimed = question(number, "12", claim(json!(number), "p-1", false));
        claimed.open_reviews = vec![first.to_open_review()];
        assert_eq!(decide(&claimed).review_id.as_deref(), Some("verify:1"));
    }
}

#[test]
fn reviews_of_claims_leave_room_for_disputes_of_sources() {
    let mut open = Vec::new();
    for number in 1..=CLAIMS_OPEN_MAX {
        open.push(review(&question(number, "10", claim(json!(20 + number), "p-1", false))).to_open_review());
    }
    let mut further = question(50, "10", claim(json!(99), "p-1", false));
    further.open_reviews = open.clone();
    let last = format!("verify:{CLAIMS_OPEN_MAX}");
    assert_eq!(decide(&further).review_id, Some(last), "it joins the review of the latest claim");
    let one = open[0].clone();
    open.extend((open.len()..OPEN_MAX).map(|_| one.clone()));
    let mut disputed = question(51, "12", json!({}));
    disputed.open_reviews = open;
    assert_eq!(decide(&disputed).review_id.as_deref(), Some("verify:51"));
}

#[test]
fn review_is_caller_openable_for_claim_past_or_no_answer() {
    assert!(!review(&question(1, "12", json!({}))).is_caller_openable());
    assert!(review(&question(1, "10", claim(json!(9), "p-1", false))).is_caller_openable());
    for time in ["point_in_time", "known_at"] {
        let past = question(1, "12", json!({time: "2026-11-01T00:00:00Z"}));
        assert!(review(&past).is_caller_openable(), "{time}");
    }
    let mut unanswered = review(&question(1, "12", json!({})));
    unanswered.candidates.clear();
    assert!(unanswered.is_caller_openable());
}
