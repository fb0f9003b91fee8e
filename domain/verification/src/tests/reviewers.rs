use super::support::*;
use crate::deviation::{find_deviations, restore_baselines};
use crate::review::{ResolutionRecord, ReviewResolution, ReviewResolutionError, Verifier};
use crate::stored_state::OPEN_MAX;
use crate::{
    AxisBaseline, AxisReason, CallFailure, DecisionInputs, EnvelopeKind, HumanLock, OpenReview, OracleReply,
    ReviewCase, SourceBaselines, decide,
};
use domain_base::digest::Sha256Hex;
use domain_ground::id::SourceId;
use domain_ground::source::OracleTier::Primary;
use domain_ground::value::AxisValue;
use jiff::SignedDuration;
use serde_json::{Value as Json, json};

const REVIEWER: Verifier<'_> = Verifier { id: "1000", name: Some("anna") };

fn disagreement(more: Json) -> DecisionInputs {
    let workflow = workflow(&["dose", "inr"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(workflow, &["dose", "inr"], more);
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("inr", "2.5")]);
    answers(&mut inputs, "lab-b", Primary, &[("dose", "12"), ("inr", "2.5")]);
    inputs
}

fn resolution(values: Json) -> ReviewResolution {
    let values = serde_json::from_value(values).expect("values");
    ReviewResolution {
        values,
        definitions: [].into(),
        own_value: true,
        reason: "seen on paper".into(),
        valid_for_seconds: 600,
        rule: None,
    }
}

fn locks(inputs: &DecisionInputs) -> Vec<HumanLock> {
    let review = ReviewCase::of(inputs, &decide(inputs)).expect("a reviewer decides");
    let resolution = resolution(json!({"dose": "11.0"}));
    review.resolve(ontology(), &resolution, REVIEWER, ago(30)).expect("the value is valid")
}

#[test]
fn review_has_the_open_axes_and_its_resolution_settles_them() {
    let mut inputs = disagreement(json!({}));
    let envelope = decide(&inputs);
    assert_eq!(envelope.kind, EnvelopeKind::HumanReview);
    let review = ReviewCase::of(&inputs, &envelope).expect("a reviewer decides");
    assert_eq!(review.axes.keys().collect::<Vec<_>>(), ["dose"]);
    assert_eq!(review.candidates.len(), 2);
    assert_eq!(review.envelope_sha256, envelope.sha256);

    inputs.locks = locks(&inputs);
    let envelope = decide(&inputs);
    assert_eq!(envelope.kind, EnvelopeKind::Authoritative, "{:?}", envelope.reasons);
    let dose = &envelope.axes["dose"];
    assert_eq!(dose.value, Some(AxisValue::Text("11".into())));
    let record = serde_json::to_value(&dose.evidence[0].record).expect("the value serializes");
    assert_eq!(record["oracle_tier"], "human_lock");
    assert_eq!((record["verifier_id"].as_str(), record["ttl_seconds"].as_u64()), (Some("1000"), Some(600)));
    assert_eq!(dose.evidence[0].record.evidence_hash, Some(review.evidence_hash));
    assert_eq!(envelope.warnings.len(), 2, "other values cause a warning: {:?}", envelope.warnings);
    assert_eq!(ReviewCase::of(&inputs, &envelope), None);
}

#[test]
fn lock_applies_only_to_its_question_and_while_it_is_valid() {
    let plain = disagreement(json!({}));
    let spoil: [fn(&mut HumanLock); 6] = [
        |lock| lock.workflow_id = "other".parse().expect("a valid id"),
        |lock| lock.ontology.version = "2".parse().expect("a version"),
        |lock| drop(lock.subject.insert("patient".into(), AxisValue::Text("p-2".into()))),
        |lock| lock.point_in_time = Some(now()),
        |lock| lock.axis = "inr".into(),
        |lock| lock.valid_until = now(),
    ];
    for (index, spoil) in spoil.into_iter().enumerate() {
        let mut inputs = plain.clone();
        inputs.locks = locks(&plain);
        assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
        spoil(&mut inputs.locks[0]);
        assert_eq!(decide(&inputs).kind, EnvelopeKind::HumanReview, "{index}");
    }
}

#[test]
fn lock_applies_after_the_clock_was_set_back() {
    let mut inputs = disagreement(json!({}));
    inputs.locks = locks(&inputs);
    for lock in &mut inputs.locks {
        lock.verified_at = now() + SignedDuration::from_hours(1);
    }
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
}

#[test]
fn lock_is_limited_by_the_axis_and_the_newest_counts() {
    let mut inputs = disagreement(json!({}));
    let mut old = locks(&inputs).remove(0);
    (old.axis, old.verified_at) = ("inr".into(), ago(3601));
    (old.value, old.valid_until) = (AxisValue::Text("9".into()), now() + SignedDuration::from_secs(9));
    inputs.locks = vec![old.clone()];
    inputs.locks.extend(locks(&inputs));
    let inr = |inputs: &DecisionInputs| decide(inputs).axes["inr"].value.clone();
    assert_eq!(inr(&inputs), Some(AxisValue::Text("2.5".into())));
    let newer = |seconds, value: &str| HumanLock {
        verified_at: ago(seconds),
        value: AxisValue::Text(value.into()),
        ..old.clone()
    };
    inputs.locks.extend([newer(10, "7"), newer(20, "8")]);
    assert_eq!(inr(&inputs), Some(AxisValue::Text("7".into())));
    inputs.locks.reverse();
    assert_eq!(inr(&inputs), Some(AxisValue::Text("7".into())));
}

#[test]
fn conflict_settled_by_a_lock_affects_no_other_axis() {
    let scope = json!({"conflict_resolution": {"scope": {"granularity": "oracle"}}});
    let mut inputs = disagreement(json!({}));
    inputs.locks = locks(&inputs);
    let by_oracle = workflow(&["dose", "inr"], &["lab-a", "lab-b"], scope);
    let mut inputs = DecisionInputs { workflow: by_oracle, ..inputs };
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
    // also if the settled axis is not requested
    inputs.question.axes.retain(|axis| axis == "inr");
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
    inputs.locks.clear();
    assert_eq!(decide(&inputs).kind, EnvelopeKind::HumanReview);
}

#[test]
fn invalid_resolution_is_rejected() {
    let inputs = disagreement(json!({}));
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let refused = |resolution: &ReviewResolution| {
        review.resolve(ontology(), resolution, REVIEWER, now()).expect_err("the value is invalid")
    };
    let plain = resolution(json!({"dose": 11}));
    let axes_named = |values: Json| match refused(&resolution(values)) {
        ReviewResolutionError::Axes { named, required } => (named, required),
        other => panic!("{other:?}"),
    };
    assert_eq!(axes_named(json!({})).1, "dose");
    assert_eq!(axes_named(json!({"dose": 1, "inr": 1})), ("dose, inr".to_owned(), "dose".to_owned()));
    let much = refused(&resolution(json!({"dose": "much"})));
    assert!(
        matches!(&much, ReviewResolutionError::Value { axis, fault } if axis == "dose" && fault.contains("`much`")),
        "{much:?}"
    );
    let blank = ReviewResolution { reason: " ".into(), ..plain.clone() };
    assert_eq!(refused(&blank), ReviewResolutionError::Reason);
    for seconds in [u64::MAX, 0] {
        let invalid = ReviewResolution { valid_for_seconds: seconds, ..plain.clone() };
        let expected = ReviewResolutionError::Validity { seconds, most: 3_155_760_000 };
        assert_eq!(refused(&invalid), expected);
    }
    let mut other = review;
    other.ontology.version = "2".into();
    let refused = other.resolve(ontology(), &plain, REVIEWER, now()).expect_err("other");
    let (expected, given) = (other.ontology.clone(), ontology().reference());
    assert_eq!(refused, ReviewResolutionError::OtherOntology { expected, given });
}

#[test]
fn value_without_support_requires_own_value() {
    let claim = json!({"claimed": {"dose": {"value": 9, "claimed_by": "p-1"}}});
    let mut inputs = disagreement(claim);
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let decided = |review: &ReviewCase, value: Json, own_value: bool| {
        let resolution = ReviewResolution { own_value, ..resolution(json!({"dose": value})) };
        review.resolve(ontology(), &resolution, REVIEWER, now()).map_err(|refused| refused.to_string())
    };
    let message = "`values.dose`: no candidate or claim has 11; they have: 10, 12, 9. Set `own_value` (`--own-value`) to use it anyway";
    assert_eq!(decided(&review, json!(11), false).expect_err("no candidate has the value"), message);
    for value in [json!(9), json!("10.0"), json!(12)] {
        assert!(decided(&review, value.clone(), false).is_ok(), "{value}");
    }
    assert!(decided(&review, json!(11), true).is_ok());
    // the same number with another definition does not count
    inputs.question.claimed.clear();
    let stated = answer_of(&mut inputs, "lab-b").values.get_mut("dose").expect("a dose");
    stated.definition = Some("a day".into());
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let resolution = ReviewResolution {
        own_value: false,
        definitions: [("dose".to_owned(), "a day".to_owned())].into(),
        ..resolution(json!({"dose": 10}))
    };
    let refused =
        review.resolve(ontology(), &resolution, REVIEWER, now()).expect_err("no candidate has the value");
    let ReviewResolutionError::ValueNotOffered { axis, value, offered } = refused else {
        panic!("{refused}")
    };
    assert_eq!((axis.as_str(), value.as_str(), offered.as_str()), ("dose", "10 (a day)", "10, 12 (a day)"));
}

#[test]
fn resolution_names_its_definition_and_the_envelope_shows_it() {
    let mut inputs = disagreement(json!({}));
    let without = Some("without the night's".to_owned());
    let dose_of = |inputs: &mut DecisionInputs, oracle_id: &str, definition: &Option<String>| {
        let stated = answer_of(inputs, oracle_id).values.get_mut("dose").expect("a dose");
        stated.definition.clone_from(definition);
    };
    dose_of(&mut inputs, "lab-b", &without);
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    assert!(review.axes["dose"].contains(&AxisReason::DefinitionMismatch));
    let decided = |review: &ReviewCase, definitions: Json| {
        let definitions = serde_json::from_value(definitions).expect("definitions");
        let resolution = ReviewResolution { definitions, ..resolution(json!({"dose": 12})) };
        review.resolve(ontology(), &resolution, REVIEWER, ago(30))
    };
    let missing = decided(&review, json!({})).expect_err("it has no definition");
    assert!(
        matches!(
            &missing,
            ReviewResolutionError::NoDefinition { axis, definitions }
                if axis == "dose" && definitions.contains("`\"\"`") && definitions.contains("`without the night's`")
        ),
        "{missing:?}"
    );
    let other = decided(&review, json!({"dose": "", "inr": ""})).expect_err("inr is not decided");
    assert_eq!(other, ReviewResolutionError::OtherDefinition { axis: "inr".to_owned() });
    let long = decided(&review, json!({"dose": "x".repeat(1025)})).expect_err("the value is too long");
    assert_eq!(long, ReviewResolutionError::LongDefinition { axis: "dose".to_owned(), bytes: 1025 });
    for (given, expected) in [("", None), (" without the night's ", without.clone())] {
        inputs.locks = decided(&review, json!({"dose": given})).expect("the value is valid");
        let envelope = decide(&inputs);
        assert_eq!(envelope.kind, EnvelopeKind::Authoritative);
        assert_eq!(envelope.axes["dose"].definition, expected);
    }
    // the common definition of all candidates is the default
    inputs.locks.clear();
    dose_of(&mut inputs, "lab-a", &without);
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    assert_eq!(decided(&review, json!({})).expect("it is plain")[0].definition, without);
}

#[test]
fn resolution_of_a_state_sensitive_axis_is_bounded_by_its_max_ttl() {
    let claim = json!({"claimed": {"inr": {"value": 9, "claimed_by": "p-1"}}});
    let inputs = disagreement(claim);
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let long = ReviewResolution { valid_for_seconds: 3601, ..resolution(json!({"dose": 11, "inr": 2.5})) };
    let refused = review.resolve(ontology(), &long, REVIEWER, now()).expect_err("too long");
    assert_eq!(refused, ReviewResolutionError::Validity { seconds: 3601, most: 3600 });
}

#[test]
fn evidence_of_a_dispute_does_not_depend_on_time() {
    let evidence = |inputs: &DecisionInputs| {
        ReviewCase::of(inputs, &decide(inputs)).expect("a reviewer decides").evidence_hash
    };
    let first = disagreement(json!({}));
    let mut again = first.clone();
    again.execution_id = "verify:2".into();
    (again.asked_at, again.decided_at) = (now(), now());
    answer_of(&mut again, "lab-a").record.retrieved_at = now();
    assert_eq!(evidence(&again), evidence(&first));
    answers(&mut again, "lab-b", Primary, &[("dose", "13"), ("inr", "2.5")]);
    assert_ne!(evidence(&again), evidence(&first));
}

#[test]
fn dispute_with_an_open_review_opens_no_second_one() {
    let mut inputs = disagreement(json!({}));
    let first = decide(&inputs);
    assert_eq!(first.review_id.as_deref(), Some("verify:1"));
    let review = ReviewCase::of(&inputs, &first).expect("a reviewer decides");
    inputs.open_reviews = vec![review.to_open_review()];
    inputs.execution_id = "verify:2".into();
    let again = decide(&inputs);
    assert_eq!(again.review_id.as_deref(), Some("verify:1"));
    assert!(again.is_intact() && ReviewCase::of(&inputs, &again).is_none());
    answers(&mut inputs, "lab-b", Primary, &[("dose", "13"), ("inr", "2.5")]);
    let other = decide(&inputs);
    assert_eq!(other.review_id.as_deref(), Some("verify:2"));
    assert!(ReviewCase::of(&inputs, &other).is_some());
    answers(&mut inputs, "lab-b", Primary, &[("dose", "10"), ("inr", "2.5")]);
    assert_eq!(decide(&inputs).review_id, None);
}

#[test]
fn dispute_beyond_the_limit_joins_a_covering_review_or_is_blocked() {
    let mut inputs = disagreement(json!({}));
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let open = |review_id: String, axes: &[&str]| OpenReview {
        review_id,
        evidence_hash: Sha256Hex::of(b"another"),
        axes: axes.iter().map(|axis| (*axis).to_owned()).collect(),
        ..review.to_open_review()
    };
    inputs.execution_id = "verify:2".into();
    inputs.open_reviews = (0..OPEN_MAX).map(|n| open(format!("other:{n}"), &["inr"])).collect();
    let blocked = decide(&inputs);
    assert_eq!((blocked.kind, &blocked.review_id), (EnvelopeKind::Blocked, &None));
    assert!(blocked.reasons.contains(&AxisReason::QueueFull) && blocked.is_intact());
    inputs.open_reviews[3] = open("wider".into(), &["dose", "inr"]);
    inputs.open_reviews[2] = open("older".into(), &["dose"]);
    assert_eq!(decide(&inputs).review_id.as_deref(), Some("wider"));
    inputs.open_reviews[3].ontology.version = "2".into();
    assert_eq!(decide(&inputs).review_id.as_deref(), Some("older"));
    inputs.open_reviews.pop();
    assert_eq!(decide(&inputs).review_id.as_deref(), Some("verify:2"));
}

#[test]
fn dispute_over_another_ontology_has_other_evidence() {
    let mut inputs = disagreement(json!({}));
    let first = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    inputs.workflow.ontology.version = "2".into();
    let second = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    assert_ne!(first.evidence_hash, second.evidence_hash);
    assert!(first.is_deciding(&first) && !first.is_deciding(&second));
}

#[test]
fn locked_axes_do_not_depend_on_ambiguous_or_slow_sources() {
    let mut inputs = disagreement(json!({}));
    let locks = locks(&inputs);
    let several = OracleReply::Several { records: 2 };
    inputs.question.axes = ["dose".to_owned()].into();
    inputs.calls.get_mut(&"lab-b".parse().expect("a valid id")).expect("the oracle was queried").reply =
        several;
    inputs.elapsed_ms = 1 + inputs.workflow.authority_latency.authority_latency_budget_ms;
    let open = decide(&inputs);
    assert_eq!((open.kind, &open.unspecified), (EnvelopeKind::RequiresSpecification, &Vec::new()));
    assert!(open.warnings.iter().any(|warning| warning.starts_with("lab-b: ")), "{:?}", open.warnings);
    inputs.locks = locks;
    let gone = OracleReply::Failed { failure: CallFailure::Internal, cause: "it is not registered".into() };
    for reply in [None, Some(gone)] {
        if let Some(reply) = reply {
            let call =
                inputs.calls.get_mut(&"lab-b".parse().expect("a valid id")).expect("the oracle was queried");
            (call.reply, call.axes) = (reply, Vec::new());
        }
        let decided = decide(&inputs);
        assert_eq!(decided.kind, EnvelopeKind::Authoritative, "{:?}", decided.reasons);
        assert_eq!(decided.axes["dose"].value, Some(AxisValue::Text("11".into())));
    }
}

#[test]
fn claim_supports_only_the_axis_own_definition() {
    let mut inputs = disagreement(json!({"claimed": {"dose": {"value": 9, "claimed_by": "p-1"}}}));
    let stated = answer_of(&mut inputs, "lab-a").values.get_mut("dose").expect("a dose");
    stated.definition = Some("without the night's".to_owned());
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    let decided = |definition: &str| {
        let definitions = [("dose".to_owned(), definition.to_owned())].into();
        let own_resolution =
            ReviewResolution { definitions, own_value: false, ..resolution(json!({"dose": 9})) };
        review.resolve(ontology(), &own_resolution, REVIEWER, now())
    };
    assert!(decided("").is_ok());
    let refused = decided("without the night's").expect_err("no claim has that");
    assert!(matches!(refused, ReviewResolutionError::ValueNotOffered { .. }), "{refused}");
}

#[test]
fn full_review_queue_blocks_the_axes_for_a_reviewer() {
    let mut inputs = disagreement(json!({}));
    inputs.queue_is_full = true;
    let envelope = decide(&inputs);
    assert_eq!((envelope.kind, &envelope.review_id), (EnvelopeKind::Blocked, &None));
    assert_eq!(envelope.reasons, [AxisReason::RequireHuman, AxisReason::QueueFull].into());
    let retry = envelope.retry.as_ref().expect("the envelope has retry guidance");
    assert!(retry.after_ms.is_none() && retry.oracles.is_empty(), "{retry:?}");
    insta::assert_snapshot!("advice_of_a_full_review_queue", retry.advice);
    assert!(envelope.candidates.iter().all(|candidate| !candidate.values.contains_key("dose")));
    assert!(envelope.is_intact() && ReviewCase::of(&inputs, &envelope).is_none());
    answers(&mut inputs, "lab-b", Primary, &[("dose", "10"), ("inr", "2.5")]);
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
}

#[test]
fn confirmed_baseline_is_restored_on_axes_no_longer_decided() {
    let stated =
        |value: &str| AxisBaseline::of(&candidate("lab-a", &[("dose", value)]), "dose").expect("a dose");
    let lab = "lab-a".parse::<SourceId>().expect("a valid id");
    let of_lab = |paths: &[(&str, &str)]| -> SourceBaselines {
        let held = paths.iter().map(|(path, value)| ((*path).to_owned(), stated(value)));
        [(lab.clone(), held.collect())].into()
    };
    let mut held = of_lab(&[("dose", "12"), ("inr", "3"), ("note", "7")]);
    let before = [
        ("dose".to_owned(), Some(stated("10"))),
        ("inr".to_owned(), None),
        ("note".to_owned(), Some(stated("6"))),
    ];
    let before = [(lab.clone(), before.into())].into();
    restore_baselines(&mut held, &before, |path| path != "note");
    assert_eq!(held, of_lab(&[("dose", "10"), ("note", "7")]));
    let mut held = of_lab(&[("inr", "3")]);
    restore_baselines(&mut held, &before, |path| path == "inr");
    assert_eq!(held, SourceBaselines::new());
}

#[test]
fn value_deviates_only_beyond_one_of_the_limits() {
    let reason_of = |limits: Json, was: &str, is: &str| {
        let workflow = workflow(&["dose"], &["lab-a"], json!({"deviation_limits": {"dose": limits}}));
        let inputs = inputs(workflow, &["dose"], json!({}));
        let with_dose = |value| candidate("lab-a", &[("dose", value)]);
        let before = with_dose(was);
        let baseline = |path: &str| AxisBaseline::of(&before, path);
        find_deviations(&inputs.workflow, &inputs.axes, baseline, &with_dose(is)).remove("dose")
    };
    let cases = [
        (json!({"max_change": 2}), "10", "12", None),
        (json!({"max_change": 2}), "10", "7.9", Some("it was 10 in 7 and is 7.9; the difference exceeds 2")),
        (json!({"max_change_ratio": "0.5"}), "10", "15", None),
        (
            json!({"max_change_ratio": "0.5"}),
            "10",
            "15.01",
            Some("it was 10 in 7 and is 15.01; the difference exceeds 0.5 of it"),
        ),
        (json!({"max_change_ratio": "0.5"}), "-10", "-15", None),
        (
            json!({"max_change_ratio": "0.5"}),
            "0",
            "0.001",
            Some("it was 0 in 7 and is 0.001; the difference exceeds 0.5 of it"),
        ),
        (json!({"max_change_ratio": "0.5"}), "0", "0", None),
        (
            json!({"max_change": 100, "max_change_ratio": "0.5"}),
            "10",
            "16",
            Some("it was 10 in 7 and is 16; the difference exceeds 0.5 of it"),
        ),
    ];
    for (limits, was, is, told_so) in cases {
        assert_eq!(reason_of(limits.clone(), was, is).as_deref(), told_so, "{limits} {was} {is}");
    }
    let workflow = workflow(&["dose"], &["lab-a"], json!({}));
    let without = inputs(workflow, &["dose"], json!({}));
    let with_dose = |value| candidate("lab-a", &[("dose", value)]);
    let before = with_dose("1");
    let deviations = find_deviations(
        &without.workflow,
        &without.axes,
        |path| AxisBaseline::of(&before, path),
        &with_dose("1000"),
    );
    assert!(deviations.is_empty());
}

#[test]
fn deviating_value_goes_to_a_reviewer() {
    let mut inputs = disagreement(json!({}));
    answers(&mut inputs, "lab-b", Primary, &[("dose", "10"), ("inr", "2.5")]);
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
    answer_of(&mut inputs, "lab-b").deviations.insert("inr".into(), "2.5 after 1.1".into());
    let envelope = decide(&inputs);
    assert_eq!((envelope.kind, envelope.reasons.len()), (EnvelopeKind::HumanReview, 1));
    assert!(envelope.axes["inr"].reasons.contains(&AxisReason::Deviation));
}

#[test]
fn exceeded_budget_escalates_all_requested_axes() {
    let mut inputs = disagreement(json!({}));
    answers(&mut inputs, "lab-b", Primary, &[("dose", "10"), ("inr", "2.5")]);
    let policy = json!({"authority_latency_budget_ms": 2000, "enforcement_mode": "INLINE",
                        "on_timeout_behavior": "ESCALATE"});
    inputs.workflow = workflow(&["dose", "inr"], &["lab-a", "lab-b"], json!({"authority_latency": policy}));
    inputs.elapsed_ms = 2001;
    let review = ReviewCase::of(&inputs, &decide(&inputs)).expect("a reviewer decides");
    assert_eq!(review.axes.keys().collect::<Vec<_>>(), ["dose", "inr"]);
    assert!(review.axes.values().all(|reasons| reasons.contains(&AxisReason::BudgetExceeded)));
}

#[test]
fn only_a_confirmed_claim_is_attributed_to_its_confirmer() {
    let build = |confirmed: bool| {
        let workflow = workflow(&["address"], &["lab-a"], json!({}));
        let claim = json!({"claimed": {"address": {"value": "Elm St", "claimed_by": "p-1",
                                                   "confirmed": confirmed}}});
        let mut inputs = inputs(workflow, &["address"], claim);
        answers(&mut inputs, "lab-a", Primary, &[("address", "Oak St")]);
        decide(&inputs)
    };
    let envelope = build(true);
    let record = &envelope.axes["address"].evidence[0].record;
    assert_eq!((record.oracle_id.as_str(), record.verifier_id.as_str()), ("human-confirmation", "p-1"));
    let claim = br#"{"claimed_by":"p-1","confirmed":true,"value":"Elm St"}"#;
    assert_eq!(record.evidence_hash, Some(Sha256Hex::of(claim)));
    assert_eq!(envelope.warnings, ["lab-a: has another value of `address`; p-1 confirmed another value"]);
    let envelope = build(false);
    assert_eq!(envelope.axes["address"].value, Some(AxisValue::Text("Oak St".into())));
    assert_eq!(envelope.warnings, ["`address`: p-1 has not confirmed the claim"]);
}

#[test]
fn advice_mentions_a_confirmation_only_if_it_helps() {
    let advice = |class: &str, axes: &[&str]| {
        let claimed = json!({"claimed": {class: {"value": "7", "claimed_by": "p-1"}}});
        let mut inputs = inputs(workflow(axes, &["lab-a"], json!({})), axes, claimed);
        let nothing = call(Primary, axes, OracleReply::NoRecord);
        inputs.calls.insert("lab-a".parse().expect("a valid id"), nothing);
        let envelope = decide(&inputs);
        envelope.retry.map(|retry| retry.advice.contains("has confirmed the value"))
    };
    assert_eq!(advice("weight", &["weight"]), Some(true));
    assert_eq!(advice("weight", &["weight", "address"]), Some(false));
    assert_eq!(advice("dose", &["dose"]), Some(false));
}

#[test]
fn lock_and_records_from_before_names_stay_readable_and_unchanged() {
    let mut inputs = disagreement(json!({}));
    inputs.locks = locks(&inputs);
    assert_eq!(inputs.locks[0].verifier_name.as_deref(), Some("anna"));
    let named = inputs.digest();
    inputs.locks[0].verifier_name = None;
    let stored = serde_json::to_value(&inputs.locks[0]).expect("a lock is plain data");
    assert!(stored.get("verifier_name").is_none(), "{stored}");
    assert_eq!(serde_json::from_value::<HumanLock>(stored).expect("a lock"), inputs.locks[0]);
    assert_ne!(inputs.digest(), named);
    let resolved = json!({
        "resolution": resolution(json!({"dose": "11.0"})),
        "verifier_id": "1000",
        "resolved_at": now(),
    });
    let read: ResolutionRecord = serde_json::from_value(resolved.clone()).expect("a record without a name");
    assert_eq!(serde_json::to_value(&read).expect("a record is plain data"), resolved);
}
