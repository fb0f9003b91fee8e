use super::support::*;
use crate::verification_record::SignatureVerification;
use crate::{
    AxisReason, CallFailure, CallOutcome, CallTimeLimit, DecisionInputs, EnvelopeKind, OracleReply, decide,
};
use domain_ground::source::OracleTier::{CrossDomain, Primary, Secondary, Unverified};
use domain_ground::value::AxisValue;
use serde_json::json;

/// One oracle that has answered, and room for another.
fn answered_by_one() -> DecisionInputs {
    let workflow = workflow(&["dose"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(workflow, &["dose"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10")]);
    inputs
}

fn with_second(tier: domain_ground::source::OracleTier, reply: OracleReply) -> DecisionInputs {
    let mut inputs = answered_by_one();
    inputs.calls.insert("lab-b".parse().expect("a valid id"), call(tier, &["dose"], reply));
    inputs
}

#[test]
fn answer_after_the_soft_timeout_counts_as_late() {
    let mut inputs = answered_by_one();
    inputs.calls.get_mut(&"lab-a".parse().expect("a valid id")).expect("the oracle was queried").latency_ms =
        2001;
    let envelope = decide(&inputs);
    assert_eq!(envelope.kind, EnvelopeKind::Authoritative);
    assert!(envelope.candidates[0].late && !envelope.candidates[1].late);
    assert_eq!(envelope.warnings, ["lab-a: answered late, after 2001 ms; 2000 ms are the soft timeout"]);
    assert_eq!(envelope.candidates[1].outcome, CallOutcome::NotAsked);
}

#[test]
fn missing_unverified_oracle_does_not_affect_the_decision() {
    let replies = [
        OracleReply::TimedOut { cut: CallTimeLimit::Budget },
        OracleReply::CircuitOpen { retry_after_ms: None },
        OracleReply::Several { records: 2 },
        OracleReply::Failed { failure: CallFailure::Internal, cause: "a fault".into() },
    ];
    let alone = decide(&answered_by_one());
    for reply in replies {
        let envelope = decide(&with_second(Unverified, reply.clone()));
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{reply:?}");
        assert_eq!((&envelope.axes, &envelope.warnings), (&alone.axes, &alone.warnings));
        assert_eq!(decide(&with_second(CrossDomain, reply)).axes["dose"].value, None);
    }
}

#[test]
fn oracle_without_record_or_query_does_not_affect_the_decision() {
    for reply in [OracleReply::NoRecord, OracleReply::NotAsked { cause: "it is deprecated".into() }] {
        let envelope = decide(&with_second(Primary, reply));
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{:?}", envelope.warnings);
    }
    let mut inputs = with_second(Primary, OracleReply::NoRecord);
    inputs.calls.remove(&"lab-a".parse().expect("a valid id"));
    let envelope = decide(&inputs);
    assert_eq!((envelope.kind, envelope.reasons.len()), (EnvelopeKind::Blocked, 1));
    assert!(envelope.reasons.contains(&AxisReason::NoValue));
    assert_eq!(envelope.retry.expect("the envelope has retry guidance").after_ms, None);
}

#[test]
fn missing_value_is_not_reported_while_an_oracle_may_still_have_it() {
    let silent = OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout };
    let failed = OracleReply::Failed { failure: CallFailure::Internal, cause: "a fault".into() };
    for (reply, reason) in [(silent, AxisReason::OracleUnreachable), (failed, AxisReason::OracleUnusable)] {
        let mut inputs = with_second(Primary, reply);
        inputs
            .calls
            .insert("lab-a".parse().expect("a valid id"), call(Primary, &["dose"], OracleReply::NoRecord));
        let envelope = decide(&inputs);
        assert_eq!(envelope.reasons, [reason].into());
        assert_eq!(envelope.axes["dose"].reasons, [reason].into());
    }
    // a missing oracle that was asked for another axis would not have answered this one
    let workflow = workflow(&["dose", "visits"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(workflow, &["dose", "visits"], json!({}));
    inputs
        .calls
        .insert("lab-a".parse().expect("a valid id"), call(Primary, &["dose"], OracleReply::NoRecord));
    let silent = call(Primary, &["visits"], OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
    inputs.calls.insert("lab-b".parse().expect("a valid id"), silent);
    let envelope = decide(&inputs);
    assert_eq!(envelope.axes["dose"].reasons, [AxisReason::NoValue].into());
    assert_eq!(envelope.axes["visits"].reasons, [AxisReason::OracleUnreachable].into());
}

#[test]
fn entity_that_is_not_identified_requires_specification() {
    let workflow = workflow(&["dose"], &["lab-a"], json!({}));
    let open = inputs(workflow, &["dose"], json!({"where": {"patient": "p-1"}}));
    let envelope = decide(&open);
    assert_eq!(envelope.kind, EnvelopeKind::RequiresSpecification);
    assert_eq!(envelope.unspecified, ["day"]);
    assert!(envelope.reasons.contains(&AxisReason::SubjectNotFixed));

    let envelope = decide(&with_second(Secondary, OracleReply::Several { records: 2 }));
    assert_eq!(envelope.kind, EnvelopeKind::RequiresSpecification);
    assert!(envelope.reasons.contains(&AxisReason::SeveralSubjects));
    assert!(envelope.unspecified.is_empty(), "the question is complete: {:?}", envelope.unspecified);
}

#[test]
fn cached_answer_is_not_used_if_the_workflow_does_not_serve_it() {
    let mut inputs = with_second(Primary, OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
    let second = inputs.calls.get_mut(&"lab-b".parse().expect("a valid id")).expect("the oracle was queried");
    second.kept = Some(Box::new(candidate("lab-b", &[("dose", "10")])));
    // registration rejects this combination
    inputs.workflow.oracle_latency.stale_tolerance_seconds = Some(600);
    let envelope = decide(&inputs);
    assert_eq!(envelope.kind, EnvelopeKind::Blocked);
    assert_eq!(envelope.warnings, ["lab-b: no answer within its hard timeout"]);
}

#[test]
fn circuit_held_open_by_an_administrator_has_no_retry_delay() {
    let envelope = decide(&with_second(Primary, OracleReply::CircuitOpen { retry_after_ms: None }));
    assert_eq!(envelope.kind, EnvelopeKind::Blocked);
    let retry = envelope.retry.expect("the envelope has retry guidance");
    assert_eq!((retry.after_ms, retry.oracles.len()), (None, 1));
    assert!(retry.advice.contains("administrator"), "{}", retry.advice);
}

#[test]
fn failure_other_than_timeout_has_no_narrative_or_cached_answer() {
    for on_timeout in [
        json!({"on_timeout": "FAIL_OPEN_NARRATIVE"}),
        json!({"on_timeout": "SERVE_STALE", "stale_tolerance_seconds": 600}),
    ] {
        for failure in [CallFailure::Rejected, CallFailure::Internal] {
            let mut inputs = with_second(Primary, OracleReply::Failed { failure, cause: "a fault".into() });
            inputs.workflow = workflow(&["dose"], &["lab-a", "lab-b"], json!({"oracle_latency": on_timeout}));
            let second =
                inputs.calls.get_mut(&"lab-b".parse().expect("a valid id")).expect("the oracle was queried");
            second.kept = Some(Box::new(candidate("lab-b", &[("dose", "10")])));
            let envelope = decide(&inputs);
            assert_eq!(envelope.kind, EnvelopeKind::Blocked);
            assert!(envelope.reasons.contains(&AxisReason::OracleUnusable));
        }
    }
}

#[test]
fn oracle_that_cannot_answer_about_the_past_is_missing_with_advice() {
    let cause = "this adapter only covers the present".to_owned();
    let rejected = OracleReply::Failed { failure: CallFailure::Rejected, cause };
    let envelope = decide(&with_second(Secondary, rejected));
    assert_eq!(envelope.kind, EnvelopeKind::Blocked);
    assert!(
        envelope.warnings[0].ends_with("this adapter only covers the present"),
        "{:?}",
        envelope.warnings
    );
    let retry = envelope.retry.expect("the envelope has retry guidance");
    assert_eq!((retry.after_ms, retry.oracles[0].as_str()), (None, "lab-b"));
    assert!(retry.advice.starts_with("lab-b cannot answer this question"), "{}", retry.advice);
}

/// The expected warning, and the change that spoils an answer.
type InvalidAnswerCase = (&'static str, fn(&mut DecisionInputs));

/// Poisoned answers, from any oracle.
#[test]
fn answer_for_other_question_or_with_invalid_signature_is_rejected() {
    let spoil: [InvalidAnswerCase; 5] = [
        ("its answer is rejected (identity): it is about another subject than the requested one", |inputs| {
            let other = AxisValue::Text("p-2".into());
            answer_of(inputs, "lab-a").subject.insert("patient".into(), other);
        }),
        ("its answer is rejected (identity): it is lab-b's", |inputs| {
            answer_of(inputs, "lab-a").record.oracle_id = "lab-b".parse().expect("a valid id");
        }),
        ("its answer is rejected (signature): the signature is invalid", |inputs| {
            answer_of(inputs, "lab-a").record.signature_info = Some(SignatureVerification {
                signed_by: "key-1".into(),
                signature_alg: "Ed25519".into(),
                signature_valid: false,
            });
        }),
        ("is in the future", |inputs| {
            answer_of(inputs, "lab-a").record.verified_at = now() + jiff::SignedDuration::from_secs(61);
        }),
        ("its answer is rejected (schema): its value of `dose` is not a number", |inputs| {
            answer_of(inputs, "lab-a").values.get_mut("dose").expect("a dose").value =
                AxisValue::Text("much".into());
        }),
    ];
    for (label, spoil) in spoil {
        let mut inputs = answered_by_one();
        spoil(&mut inputs);
        let envelope = decide(&inputs);
        assert_eq!(envelope.kind, EnvelopeKind::Blocked, "{label}");
        assert_eq!(envelope.candidates[0].outcome, CallOutcome::Refused);
        assert!(envelope.warnings.iter().any(|warning| warning.contains(label)), "{:?}", envelope.warnings);
    }
}

#[test]
fn envelope_without_values_contains_none_anywhere() {
    let budget = |mode: &str| {
        json!({"authority_latency": {"authority_latency_budget_ms": 6000, "enforcement_mode": mode,
                                     "on_timeout_behavior": "DEGRADE_TO_NARRATIVE"}})
    };
    let cases = [
        (json!({}), EnvelopeKind::Blocked),
        (json!({"oracle_latency": {"on_timeout": "FAIL_OPEN_NARRATIVE"}}), EnvelopeKind::NarrativeOnly),
        (budget("ASYNC"), EnvelopeKind::Provisional),
        (budget("NON_AUTHORITATIVE_ONLY"), EnvelopeKind::NarrativeOnly),
    ];
    for (settings, kind) in cases {
        let mut inputs = with_second(Primary, OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
        inputs.workflow = workflow(&["dose"], &["lab-a", "lab-b"], settings);
        for dose in ["4711.5", "4711.5 mg"] {
            answers(&mut inputs, "lab-a", Primary, &[("dose", dose)]);
            let envelope = decide(&inputs);
            let is_unreadable = dose.ends_with("mg") && kind != EnvelopeKind::Provisional;
            assert!(envelope.kind == kind || is_unreadable, "{:?}", envelope.kind);
            let json = String::from_utf8(envelope.to_json()).expect("valid UTF-8");
            assert!(!json.contains("4711"), "{json}");
        }
    }
}

#[test]
fn value_that_was_not_requested_from_the_oracle_is_ignored() {
    let mut inputs = answered_by_one();
    inputs.calls.get_mut(&"lab-a".parse().expect("a valid id")).expect("the oracle was queried").axes =
        vec!["inr".into()];
    let envelope = decide(&inputs);
    assert_eq!(
        (envelope.kind, envelope.reasons.contains(&AxisReason::NoValue)),
        (EnvelopeKind::Blocked, true)
    );
    assert!(envelope.candidates[0].values.is_empty());
}

#[test]
fn missing_oracle_without_listed_axes_blocks_all_axes() {
    let mut inputs = with_second(Primary, OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
    let second = inputs.calls.get_mut(&"lab-b".parse().expect("a valid id")).expect("the oracle was queried");
    second.axes = vec!["inr".into()];
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
    let second = inputs.calls.get_mut(&"lab-b".parse().expect("a valid id")).expect("the oracle was queried");
    second.axes.clear();
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Blocked);
}

#[test]
fn requested_axis_without_a_definition_is_blocked() {
    let workflow = workflow(&["dose", "inr"], &["lab-a"], json!({}));
    let mut inputs = inputs(workflow, &["dose", "inr"], json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("inr", "2.5")]);
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
    inputs.axes.remove("inr");
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Blocked);
}

#[test]
fn tier_in_an_answer_is_ignored() {
    let mut inputs = answered_by_one();
    // the record says `primary`
    answers(&mut inputs, "lab-b", Secondary, &[("dose", "12")]);
    let envelope = decide(&inputs);
    assert_eq!(envelope.axes["dose"].value, Some(AxisValue::Text("10".into())));
    assert_eq!(
        serde_json::to_value(&envelope.candidates[1].record).expect("the value serializes")["oracle_tier"],
        "secondary"
    );
}

#[test]
fn answer_without_version_and_hash_counts_one_tier_lower() {
    let mut inputs = answered_by_one();
    let record = &mut answer_of(&mut inputs, "lab-a").record;
    (record.source_version, record.evidence_hash) = (None, None);
    let envelope = decide(&inputs);
    let evidence = serde_json::to_value(&envelope.axes["dose"].evidence).expect("the value serializes");
    assert_eq!(evidence[0]["record"]["oracle_tier"], "secondary");
    insta::assert_snapshot!("warning_of_an_answer_without_version_and_hash", envelope.warnings.join("\n"));
    // either is enough
    answer_of(&mut inputs, "lab-a").record.source_version = Some("7".into());
    assert_eq!(decide(&inputs).warnings, Vec::<String>::new());
    // an answer of the lowest trusted tier is then no longer trusted
    answers(&mut inputs, "lab-a", CrossDomain, &[("dose", "10")]);
    let record = &mut answer_of(&mut inputs, "lab-a").record;
    (record.source_version, record.evidence_hash) = (None, None);
    assert!(decide(&inputs).reasons.contains(&AxisReason::UnverifiedOnly));
}

#[test]
fn answer_with_a_time_after_its_arrival_is_rejected() {
    let mut inputs = answered_by_one();
    let (came_at, skew) = (ago(100), jiff::SignedDuration::from_secs(60));
    inputs.calls.get_mut(&"lab-a".parse().expect("a valid id")).expect("the oracle was queried").ended_at =
        Some(came_at);
    let record = &mut answer_of(&mut inputs, "lab-a").record;
    (record.retrieved_at, record.verified_at) = (came_at, came_at);
    answer_of(&mut inputs, "lab-a").observed_at = came_at + skew;
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
    answer_of(&mut inputs, "lab-a").observed_at = came_at + skew + jiff::SignedDuration::from_nanos(1);
    let envelope = decide(&inputs);
    assert_eq!(
        (envelope.kind, envelope.candidates[0].outcome),
        (EnvelopeKind::Blocked, CallOutcome::Refused)
    );
}

#[test]
fn age_of_a_state_sensitive_value_counts_to_the_requested_time() {
    let request_with = |age_s: i64, more| {
        let workflow = workflow(&["inr"], &["lab-a"], json!({}));
        let mut inputs = inputs(workflow, &["inr"], more);
        answers(&mut inputs, "lab-a", Primary, &[("inr", "2.5")]);
        answer_of(&mut inputs, "lab-a").observed_at = ago(age_s);
        inputs
    };
    let build = |age_s: i64, more| decide(&request_with(age_s, more));
    assert_eq!(build(3600, json!({})).kind, EnvelopeKind::Authoritative);
    let expired = build(3601, json!({}));
    assert_eq!(expired.kind, EnvelopeKind::Blocked);
    assert_eq!(expired.reverify.len(), 1);
    assert_eq!(expired.retry.expect("the envelope has retry guidance").after_ms, Some(2000));
    let again = decide(&DecisionInputs { reverified: true, ..request_with(3601, json!({})) });
    assert_eq!((again.kind, again.reverify), (EnvelopeKind::Blocked, Vec::new()), "once more is enough");
    let retry = again.retry.expect("the envelope has retry guidance");
    assert_eq!((retry.after_ms, retry.oracles[0].as_str()), (None, "lab-a"), "{}", retry.advice);
    let then = build(3601, json!({"point_in_time": ago(60)}));
    assert_eq!(then.kind, EnvelopeKind::Authoritative);
    let ahead = now() + jiff::SignedDuration::from_secs(3600);
    let mut of_later = request_with(1, json!({}));
    of_later.question.point_in_time = Some(ahead);
    assert_eq!(decide(&of_later).kind, EnvelopeKind::Blocked);
}

#[test]
fn warnings_have_ages_in_words() {
    let mut inputs = answered_by_one();
    let freshness = &mut answer_of(&mut inputs, "lab-a").freshness[0];
    (freshness.stale, freshness.age_seconds, freshness.max_age_seconds) =
        (true, Some(2713 * 86_400), 732 * 86_400);
    // the words after the time of the answer
    let age_of = |inputs: &DecisionInputs| {
        let warnings = decide(inputs).warnings;
        warnings[0].rsplit_once('Z').expect("a time").1.trim_start().to_owned()
    };
    let mut ages = vec![age_of(&inputs)];
    answer_of(&mut inputs, "lab-a").freshness[0].age_seconds = Some(10);
    ages.push(age_of(&inputs));
    axis_of(&mut inputs, "dose").max_ttl_seconds = Some(5);
    ages.push(age_of(&inputs));
    insta::assert_snapshot!("ages_in_warnings", ages.join("\n"));
}

#[test]
fn advice_names_the_oracles_and_the_delay_in_words() {
    for (reply, message) in [
        (
            OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout },
            "no answer came from lab-b: ask again in 5 seconds",
        ),
        (
            OracleReply::CircuitOpen { retry_after_ms: Some(299_001) },
            "no answer came from lab-b: ask again in 5 minutes",
        ),
        (
            OracleReply::Failed { failure: CallFailure::Internal, cause: "a fault".into() },
            "an administrator has to check lab-b: it failed, or its answer cannot be trusted",
        ),
        (
            OracleReply::Failed { failure: CallFailure::NotReady, cause: "lab-b is not approved yet".into() },
            "ask again after an administrator has changed this: lab-b is not approved yet",
        ),
    ] {
        let retry = decide(&with_second(Primary, reply)).retry.expect("the envelope has retry guidance");
        assert_eq!(retry.advice, message);
    }
}

#[test]
fn value_without_a_freshness_entry_is_stale() {
    let mut inputs = answered_by_one();
    answer_of(&mut inputs, "lab-a").freshness.clear();
    let envelope = decide(&inputs);
    assert_eq!(envelope.kind, EnvelopeKind::Blocked);
    assert!(envelope.reasons.contains(&AxisReason::Stale));
    let retry = envelope.retry.expect("the envelope has retry guidance");
    assert_eq!((retry.after_ms, retry.oracles[0].as_str()), (None, "lab-a"));
}
