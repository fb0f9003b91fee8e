use super::support::*;
use crate::conflict::{ConflictStepOutcome, TierRelation};
use crate::envelope::{AxisStatus, ValueBasis};
use crate::verification_record::SignatureVerification;
use crate::{AxisReason, DecisionInputs, Envelope, EnvelopeKind, decide};
use domain_ground::axis::AxisClass;
use domain_ground::source::OracleTier::{self, CrossDomain, Primary, Secondary, Unverified};
use domain_ground::value::AxisValue;
use serde_json::{Value as Json, json};

const LABS: [&str; 6] = ["lab-a", "lab-b", "lab-c", "lab-d", "lab-e", "lab-f"];

/// Oracles of these tiers with these doses, each published one second after the one before it.
fn doses(config: Json, stated: &[(OracleTier, &str)]) -> DecisionInputs {
    let labs = &LABS[..stated.len()];
    let mut inputs =
        inputs(workflow(&["dose"], labs, json!({"conflict_resolution": config})), &["dose"], json!({}));
    for ((lab, (tier, dose)), position) in labs.iter().zip(stated).zip(0..) {
        answers(&mut inputs, lab, *tier, &[("dose", dose)]);
        answer_of(&mut inputs, lab).observed_at = ago(60 - position);
    }
    inputs
}

fn dose(envelope: &Envelope) -> Option<String> {
    envelope.axes["dose"].value.as_ref().map(ToString::to_string)
}

fn only_reason(envelope: &Envelope) -> AxisReason {
    assert_eq!(envelope.reasons.len(), 1, "{:?}", envelope.reasons);
    *envelope.reasons.first().expect("a value is present")
}

#[test]
fn each_conflicting_pair_is_a_step_and_too_many_go_to_a_reviewer() {
    let stated = [(Primary, "1"), (Primary, "2"), (Primary, "3"), (Primary, "4"), (Primary, "5")];
    let recent = json!({"same_tier_strategy": "most_recent"});
    let envelope = decide(&doses(recent.clone(), &stated[..4]));
    assert_eq!((envelope.kind, dose(&envelope).as_deref()), (EnvelopeKind::Authoritative, Some("4")));
    assert_eq!(envelope.steps.iter().map(|step| step.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(envelope.steps.iter().all(|step| step.outcome == ConflictStepOutcome::Replaced));

    let envelope = decide(&doses(recent, &stated));
    assert_eq!(
        (envelope.kind, only_reason(&envelope)),
        (EnvelopeKind::HumanReview, AxisReason::CascadeLimit)
    );
    assert_eq!(envelope.steps.len(), 4);
    assert_eq!(envelope.steps[3].reason, Some(AxisReason::CascadeLimit));

    let wider = json!({"same_tier_strategy": "most_recent", "scope": {"cascade_limit": 4}});
    assert_eq!(dose(&decide(&doses(wider, &stated))).as_deref(), Some("5"));
    let narrow = json!({"same_tier_strategy": "most_recent", "scope": {"cascade_limit": 1}});
    assert_eq!(only_reason(&decide(&doses(narrow, &stated[..3]))), AxisReason::CascadeLimit);
}

#[test]
fn agreeing_oracle_is_no_step_and_supports_the_value() {
    let stated = [(Secondary, "10.04"), (Primary, "10"), (Secondary, "12"), (CrossDomain, "9.96")];
    let envelope = decide(&doses(json!({}), &stated));
    assert_eq!(dose(&envelope).as_deref(), Some("10"));
    let oracle_ids = envelope.axes["dose"].evidence.iter().map(|evidence| evidence.record.oracle_id.as_str());
    assert_eq!(oracle_ids.collect::<Vec<_>>(), ["lab-b", "lab-a", "lab-d"]);
    assert_eq!(envelope.axes["dose"].basis, Some(ValueBasis::Resolution));
    let [step] = &envelope.steps[..] else { panic!("{:?}", envelope.steps) };
    assert_eq!((step.relation, step.outcome), (TierRelation::DifferentTier, ConflictStepOutcome::Kept));
    assert_eq!(step.standing.oracles.len(), 2);
    assert_eq!(step.delta, Some("2".parse().expect("a number")));
}

#[test]
fn same_tier_strategy_settles_within_a_tier_and_default_between_tiers() {
    let config = json!({"default_strategy": "higher_tier_wins", "same_tier_strategy": "use_conservative"});
    let stated = [(Primary, "12"), (Secondary, "3"), (Primary, "10")];
    let envelope = decide(&doses(config, &stated));
    assert_eq!(dose(&envelope).as_deref(), Some("10"));
    let relations: Vec<_> = envelope.steps.iter().map(|step| step.relation).collect();
    assert_eq!(relations, [TierRelation::SameTier, TierRelation::DifferentTier]);
}

#[test]
fn difference_over_the_threshold_is_reviewed_even_between_losing_oracles() {
    let config = json!({"escalation_delta_threshold": 3});
    let stated = [(Primary, "10"), (Secondary, "8"), (Secondary, "11")];
    assert_eq!(dose(&decide(&doses(config.clone(), &stated))).as_deref(), Some("10"));
    let stated = [(Primary, "10"), (Secondary, "8"), (Secondary, "11.5")];
    let envelope = decide(&doses(config.clone(), &stated));
    assert_eq!(only_reason(&envelope), AxisReason::DeltaThreshold);
    assert_eq!(envelope.axes["dose"].delta, Some("3.5".parse().expect("a number")));
    // a difference that cannot be computed exceeds each threshold
    let stated = [(Primary, "1e60"), (Secondary, "1e-60")];
    assert_eq!(only_reason(&decide(&doses(config, &stated))), AxisReason::DeltaThreshold);
}

#[test]
fn average_covers_all_members_with_the_precision_of_the_axis() {
    let config = json!({"default_strategy": "weighted_average", "same_tier_strategy": "weighted_average"});
    let stated = [(CrossDomain, "20"), (Primary, "10"), (Secondary, "13"), (Unverified, "1000")];
    let mut inputs = doses(config, &stated);
    let envelope = decide(&inputs);
    // (4 × 10 + 2 × 13 + 1 × 20) / 7 = 12.2857…
    assert_eq!(dose(&envelope).as_deref(), Some("12.3"));
    assert_eq!(envelope.axes["dose"].evidence.len(), 3);
    axis_of(&mut inputs, "dose").precision = None;
    answers(&mut inputs, "lab-a", CrossDomain, &[("dose", "20.00")]);
    assert_eq!(dose(&decide(&inputs)).as_deref(), Some("12"));
    answers(&mut inputs, "lab-a", CrossDomain, &[("dose", "20.02")]);
    assert_eq!(dose(&decide(&inputs)).as_deref(), Some("12.29"));
    // a whole number has no digits after the point, whatever its axis says
    axis_of(&mut inputs, "dose").precision = Some(1);
    axis_of(&mut inputs, "dose").kind = domain_ground::axis::AxisType::Integer;
    answers(&mut inputs, "lab-a", CrossDomain, &[("dose", "20")]);
    assert_eq!(dose(&decide(&inputs)).as_deref(), Some("12"));
}

/// Three oracles, each published later than the one before. The last one agrees with the two others within the tolerance.
fn tolerated(config: Json) -> DecisionInputs {
    let mut inputs = doses(config, &[(Primary, "1000"), (Secondary, "1015"), (Secondary, "1006")]);
    let axis = axis_of(&mut inputs, "dose");
    axis.precision = None;
    axis.relative_tolerance = Some("0.01".parse().expect("a number"));
    inputs
}

#[test]
fn strategy_chooses_among_values_that_agree_within_the_tolerance() {
    let higher = Some(domain_ground::axis::ConservativeSide::Higher);
    for (strategy, expected, supporting) in [
        ("most_recent", "1006", 2),
        ("use_conservative", "1015", 2),
        // (4 × 1000 + 2 × 1015 + 2 × 1006) / 8 = 1005.25
        ("weighted_average", "1005", 3),
        ("higher_tier_wins", "1000", 2),
    ] {
        let mut inputs =
            tolerated(json!({"default_strategy": strategy, "same_tier_strategy": "require_human"}));
        axis_of(&mut inputs, "dose").conservative = higher;
        let envelope = decide(&inputs);
        assert_eq!(dose(&envelope).as_deref(), Some(expected), "{strategy}");
        assert_eq!(envelope.axes["dose"].evidence.len(), supporting, "{strategy}");
        assert_eq!(envelope.steps.len(), 1, "{strategy}");
        // the last one disagrees with none
        let contested = envelope.candidates.iter().map(|candidate| candidate.contested);
        assert_eq!(contested.collect::<Vec<_>>(), [true, true, false], "{strategy}");
    }
}

#[test]
fn most_recent_value_of_those_that_joined_before_the_conflict_wins() {
    let mut inputs = tolerated(json!({"default_strategy": "most_recent"}));
    // the last one joins the first before the conflict
    answers(&mut inputs, "lab-b", Secondary, &[("dose", "1006")]);
    answer_of(&mut inputs, "lab-b").observed_at = ago(58);
    answers(&mut inputs, "lab-c", Secondary, &[("dose", "1015")]);
    answer_of(&mut inputs, "lab-c").observed_at = ago(59);
    let envelope = decide(&inputs);
    assert_eq!(dose(&envelope).as_deref(), Some("1006"));
    assert_eq!(envelope.steps[0].outcome, ConflictStepOutcome::Kept);
    assert_eq!(envelope.steps[0].value.as_ref().map(ToString::to_string).as_deref(), Some("1006"));
}

#[test]
fn order_within_a_tier_decides_whether_an_agreeing_value_joins_before_a_conflict() {
    let ordered = |second: (&str, i64), third: (&str, i64)| {
        let mut inputs = tolerated(json!({"default_strategy": "most_recent"}));
        for (lab, (dose, seconds)) in [("lab-b", second), ("lab-c", third)] {
            answers(&mut inputs, lab, Secondary, &[("dose", dose)]);
            answer_of(&mut inputs, lab).observed_at = ago(seconds);
        }
        decide(&inputs)
    };
    // the latest one agrees with the first, and both win against the other
    let envelope = ordered(("999", 58), ("1015", 59));
    assert_eq!(dose(&envelope).as_deref(), Some("999"));
    assert_eq!(envelope.steps.len(), 1);
    // the other one has replaced the first, and conflicts with the latest one within its tier
    let envelope = ordered(("1015", 59), ("999", 58));
    assert_eq!((envelope.kind, envelope.steps.len()), (EnvelopeKind::HumanReview, 2));
    assert!(envelope.reasons.contains(&AxisReason::RequireHuman), "{:?}", envelope.reasons);
}

#[test]
fn conservative_side_is_defined_by_the_axis() {
    let mut inputs =
        doses(json!({"same_tier_strategy": "use_conservative"}), &[(Primary, "10"), (Primary, "12")]);
    assert_eq!(dose(&decide(&inputs)).as_deref(), Some("10"));
    axis_of(&mut inputs, "dose").conservative = Some(domain_ground::axis::ConservativeSide::Higher);
    assert_eq!(dose(&decide(&inputs)).as_deref(), Some("12"));
    // sources and ontologies may change after the workflow was validated
    axis_of(&mut inputs, "dose").conservative = None;
    assert_eq!(only_reason(&decide(&inputs)), AxisReason::StrategyImpossible);
}

/// A lower tier with proof, where a higher one has none.
#[test]
fn contradicting_tiers_and_axis_class_go_to_a_reviewer() {
    let signature = || {
        Some(SignatureVerification {
            signed_by: "key-1".into(),
            signature_alg: "Ed25519".into(),
            signature_valid: true,
        })
    };
    let conflict = |class, tiers: (OracleTier, OracleTier), is_first_signed| {
        let mut inputs = doses(json!({}), &[(tiers.0, "10"), (tiers.1, "12")]);
        axis_of(&mut inputs, "dose").class = class;
        let proof = &mut answer_of(&mut inputs, "lab-b").record;
        (proof.signature_info, proof.chain_of_custody) = (signature(), Some(vec!["court".into()]));
        answer_of(&mut inputs, "lab-a").record.signature_info = signature().filter(|_| is_first_signed);
        let envelope = decide(&inputs);
        (dose(&envelope), envelope.reasons.contains(&AxisReason::PrecedenceUnclear))
    };
    let (first, nobody) = ((Some("10".to_owned()), false), (None, true));
    // measured: lookup in a primary oracle, then proof
    assert_eq!(conflict(AxisClass::Measured, (Primary, Secondary), false), first);
    assert_eq!(conflict(AxisClass::Measured, (Secondary, CrossDomain), false), nobody);
    // self-reported: lookup counts where it is verified by cryptography
    assert_eq!(conflict(AxisClass::SelfReported, (Primary, Secondary), false), nobody);
    assert_eq!(conflict(AxisClass::SelfReported, (Primary, Secondary), true), first);
    // a signature without a chain of custody is no proof
    let mut inputs = doses(json!({}), &[(Secondary, "10"), (CrossDomain, "12")]);
    answer_of(&mut inputs, "lab-b").record.signature_info = signature();
    assert_eq!(dose(&decide(&inputs)), first.0);
}

#[test]
fn values_outside_the_recency_window_or_of_equal_time_go_to_a_reviewer() {
    let window =
        |seconds: u64| json!({"same_tier_strategy": "most_recent", "recency_window_seconds": seconds});
    let stated = [(Primary, "10"), (Primary, "12")];
    assert_eq!(dose(&decide(&doses(window(59), &stated))).as_deref(), Some("12"));
    let envelope = decide(&doses(window(58), &stated));
    assert_eq!(
        (envelope.kind, only_reason(&envelope)),
        (EnvelopeKind::HumanReview, AxisReason::RecencyUndecided)
    );
    let mut inputs = doses(json!({"same_tier_strategy": "most_recent"}), &stated);
    answer_of(&mut inputs, "lab-a").observed_at = ago(59);
    assert_eq!(only_reason(&decide(&inputs)), AxisReason::RecencyUndecided);
}

/// For example, a population with or without a territory.
#[test]
fn values_of_different_definitions_are_never_settled() {
    let strategies = ["higher_tier_wins", "most_recent", "use_conservative", "weighted_average"];
    for (strategy, second) in strategies.iter().flat_map(|strategy| [(strategy, "12"), (strategy, "10")]) {
        let config = json!({"default_strategy": strategy, "same_tier_strategy": "most_recent"});
        let mut inputs = doses(config, &[(Primary, "10"), (Secondary, second)]);
        let stated = answer_of(&mut inputs, "lab-b").values.get_mut("dose").expect("a dose");
        stated.definition = Some("per day, not per hour".into());
        let envelope = decide(&inputs);
        assert_eq!(envelope.kind, EnvelopeKind::HumanReview, "{strategy}");
        assert_eq!(only_reason(&envelope), AxisReason::DefinitionMismatch);
        assert!(envelope.steps.is_empty() && envelope.axes["dose"].delta.is_none());
        assert!(envelope.candidates.iter().all(|candidate| candidate.contested));
    }
    let config = json!({"default_strategy": "dispute_summary"});
    let mut inputs = doses(config, &[(Primary, "10"), (Secondary, "12")]);
    let per_day = Some("per day".to_owned());
    answer_of(&mut inputs, "lab-b").values.get_mut("dose").expect("a dose").definition.clone_from(&per_day);
    let envelope = decide(&inputs);
    assert_eq!(envelope.kind, EnvelopeKind::DisputeSummary);
    assert!(envelope.reasons.contains(&AxisReason::DefinitionMismatch));
    // values with the same definition are comparable, and the definition is shown
    answer_of(&mut inputs, "lab-a").values.get_mut("dose").expect("a dose").definition.clone_from(&per_day);
    answers(&mut inputs, "lab-b", Secondary, &[]);
    let envelope = decide(&inputs);
    assert_eq!(envelope.axes["dose"].definition, per_day, "{:?}", envelope.reasons);
}

/// Oracle A provides X and Y, oracle B provides Y and Z, and they conflict only on Y.
fn partial(scope: Json, requested: &[&str]) -> DecisionInputs {
    let settings = json!({"conflict_resolution": {"scope": scope}});
    let workflow = workflow(&["dose", "inr", "status"], &["lab-a", "lab-b", "lab-c"], settings);
    let mut inputs = inputs(workflow, requested, json!({}));
    answers(&mut inputs, "lab-a", Primary, &[("dose", "10"), ("inr", "2.5")]);
    answers(&mut inputs, "lab-b", Secondary, &[("inr", "3.5"), ("status", "open")]);
    inputs
}

#[test]
fn conflict_by_axis_affects_only_its_own_axis() {
    let envelope = decide(&partial(json!({}), &["dose", "inr", "status"]));
    assert_eq!(envelope.kind, EnvelopeKind::Authoritative);
    let value = |path: &str| envelope.axes[path].value.as_ref().map(ToString::to_string);
    assert_eq!(value("dose").as_deref(), Some("10"));
    assert_eq!(value("inr").as_deref(), Some("2.5"));
    assert_eq!(value("status").as_deref(), Some("open"));

    let mut inputs = partial(json!({}), &["dose", "inr", "status"]);
    answers(&mut inputs, "lab-b", Primary, &[("inr", "3.5"), ("status", "open")]);
    let envelope = decide(&inputs);
    assert_eq!(envelope.kind, EnvelopeKind::HumanReview);
    let standing = |path: &str| envelope.axes[path].standing;
    assert_eq!((standing("dose"), standing("status")), (AxisStatus::Settled, AxisStatus::Settled));
    assert_eq!(standing("inr"), AxisStatus::Escalated);
}

#[test]
fn conflict_by_oracle_affects_all_axes_of_both_oracles() {
    for requested in [&["dose", "inr", "status"][..], &["dose"], &["status"]] {
        let envelope = decide(&partial(json!({"granularity": "oracle"}), requested));
        assert_eq!(envelope.kind, EnvelopeKind::HumanReview, "{requested:?}");
        assert_eq!(only_reason(&envelope), AxisReason::OracleInvalidated);
        assert!(envelope.axes.values().all(|outcome| outcome.standing == AxisStatus::Escalated));
        assert!(envelope.steps.is_empty(), "nothing is settled: {:?}", envelope.steps);
    }
    let mut inputs = partial(json!({"granularity": "oracle"}), &["status"]);
    answers(&mut inputs, "lab-b", Secondary, &[("inr", "2.5"), ("status", "open")]);
    assert_eq!(decide(&inputs).kind, EnvelopeKind::Authoritative);
}

#[test]
fn invalidate_all_queries_both_oracles_again_and_then_settles() {
    for requested in [&["dose", "inr", "status"][..], &["dose"]] {
        let mut inputs = partial(json!({"partial_conflict_behavior": "invalidate_all"}), requested);
        answers(&mut inputs, "lab-c", CrossDomain, &[("status", "open")]);
        let envelope = decide(&inputs);
        assert_eq!(envelope.kind, EnvelopeKind::Blocked, "{requested:?}");
        assert_eq!(only_reason(&envelope), AxisReason::Reverification);
        let again: Vec<_> =
            envelope.reverify.iter().map(|again| (again.oracle_id.as_str(), again.axes.len())).collect();
        assert_eq!(again, [("lab-a", 2), ("lab-b", 2)]);
        inputs.reverified = true;
        let envelope = decide(&inputs);
        assert_eq!((envelope.kind, envelope.reverify.len()), (EnvelopeKind::Authoritative, 0));
    }
    // a reason for a reviewer has precedence over another query
    let mut inputs = partial(json!({"partial_conflict_behavior": "invalidate_all"}), &["dose"]);
    answer_of(&mut inputs, "lab-a").deviations.insert("dose".into(), "10 after 1".into());
    let envelope = decide(&inputs);
    assert_eq!((envelope.kind, envelope.reverify.len()), (EnvelopeKind::HumanReview, 2));
}

#[test]
fn envelope_reports_deviation_only_for_requested_axes() {
    let jump = "it was 1 and is 10, more than 2 apart";
    let mut inputs = partial(json!({"granularity": "oracle"}), &["dose"]);
    for path in ["dose", "inr"] {
        answer_of(&mut inputs, "lab-a").deviations.insert(path.into(), jump.into());
    }
    let envelope = decide(&inputs);
    assert_eq!(
        (envelope.kind, envelope.reasons.contains(&AxisReason::Deviation)),
        (EnvelopeKind::HumanReview, true)
    );
    assert_eq!(envelope.candidates[0].deviations, [("dose".to_owned(), jump.to_owned())].into());
    assert!(envelope.candidates[1].deviations.is_empty());
    let mut untrusted = doses(json!({}), &[(Unverified, "10")]);
    answer_of(&mut untrusted, "lab-a").deviations.insert("dose".into(), jump.into());
    let envelope = decide(&untrusted);
    assert_eq!(envelope.kind, EnvelopeKind::Blocked);
    assert!(envelope.candidates[0].deviations.is_empty(), "it would reveal a withheld value");
}

#[test]
fn oracle_is_queried_for_the_compared_axes_that_it_provides() {
    let provided: Vec<_> = ["patient", "day", "dose", "inr", "values.*.amount"].map(str::to_owned).into();
    assert_eq!(partial(json!({}), &["dose"]).paths_for(&provided), ["dose"]);
    assert_eq!(partial(json!({"granularity": "oracle"}), &["dose"]).paths_for(&provided), ["dose", "inr"]);
    let groups = workflow(&["values.*.amount"], &["lab-a"], json!({}));
    let inputs = inputs(groups, &["values.iron.amount"], json!({}));
    assert_eq!(inputs.paths_for(&provided), ["values.iron.amount"]);
}

#[test]
fn value_of_a_group_is_settled_like_any_other() {
    let path = "values.iron.amount";
    let groups = workflow(&["values.*.amount"], &["lab-a", "lab-b"], json!({}));
    let mut inputs = inputs(groups, &[path], json!({}));
    answers(&mut inputs, "lab-a", Secondary, &[(path, "4")]);
    answers(&mut inputs, "lab-b", Primary, &[(path, "5")]);
    assert_eq!(decide(&inputs).axes[path].value, Some(AxisValue::Text("5".into())));
}
