use super::*;
use domain_base::payload::VerdictPayload;
use domain_verdict::crosscheck::judge;
use domain_verdict::label::VerdictDimension;
use serde_json::{Map, Value, json};

/// A verdict of `tier` without faults.
fn verdict(tier: ProductTier) -> Value {
    let mut verdict = json!({"verdict": "GREEN", "summary": "A sound plan with clear and modest aims."});
    if tier >= ProductTier::Full {
        let dimension = json!({"verdict": "GREEN", "analysis": "Nothing moves faster than it can."});
        verdict["breakdown"] = VerdictDimension::ALL
            .iter()
            .map(|d| (d.to_string(), dimension.clone()))
            .collect::<Map<_, _>>()
            .into();
    }
    if tier == ProductTier::Strategy {
        verdict["strategy"] = json!({
            "next_step": "Ask ten neighbours.", "alternative": "Rent first.", "tests": ["Sell one.", "Sell ten."],
        });
    }
    verdict
}

fn judge_verdict(tier: ProductTier, verdict: &Value) -> CrosscheckJudgment {
    judge(tier, VerdictPayload::raw(&verdict.to_string()))
}

/// The flags that flip the decision on `verdict`: removed from a refusal, or added to an approval.
fn flipping_flags(tier: ProductTier, verdict: &Value) -> Vec<String> {
    let mut flips = DecisionFlips::default();
    flips.add(&judge_verdict(tier, verdict));
    let names = flips.to_approval.flags.names().iter().chain(flips.to_refusal.flags.names());
    names.filter(|named| named.counts.flips > 0).map(|named| named.flag.to_owned()).collect()
}

#[test]
fn refusal_for_v_r_flips_without_its_decisive_flag() {
    // V_t 1.0, V_r 1.0: C = 0.958
    assert_eq!(
        flipping_flags(ProductTier::Quick, &json!({"verdict": "RED", "summary": ""})),
        ["short_summary"]
    );
}

#[test]
fn missing_field_flips_alone_and_its_accompanying_flag_does_not() {
    // V_t 7.0, V_r 2.0, E_D 0.5: without the E_D 1 - 0.084/7 = 0.988; without the V_r 1 - 0.5/7 = 0.929
    assert_eq!(flipping_flags(ProductTier::Strategy, &verdict(ProductTier::Full)), ["field_missing"]);
}

#[test]
fn refusal_with_two_causes_of_e_d_does_not_flip() {
    let mut twice = verdict(ProductTier::Full);
    twice["breakdown"]["Stability"]["verdict"] = json!("PURPLE");
    twice["breakdown"]["Curvature"] = json!(null);
    assert_eq!(flipping_flags(ProductTier::Full, &twice), [""; 0]);
    // without the larger of two causes, the smaller one remains
    assert_eq!(
        flipping_flags(ProductTier::Full, &json!({"summary": "A sound plan with clear aims."})),
        [""; 0]
    );
}

#[test]
fn malformed_json_always_flips() {
    let mut flips = DecisionFlips::default();
    flips.add(&judge(ProductTier::Full, VerdictPayload::raw("```json\n{}\n```")));
    let names: Vec<_> = flips.to_approval.flags.names().iter().map(|named| named.flag).collect();
    assert_eq!((names, flips.to_approval.by_one_flag.full), (vec!["malformed_json"], 1));
}

#[test]
fn approval_flips_only_by_a_flag_of_sufficient_weight() {
    let e_d = ["malformed_json", "verdict_missing", "verdict_invalid", "field_missing"];
    // V_t 2.0: a short summary of one letter is 1 - 0.042/2 = 0.979
    assert_eq!(flipping_flags(ProductTier::Quick, &verdict(ProductTier::Quick)), e_d);

    let mut null = verdict(ProductTier::Full);
    null["verdict"] = json!("NULL");
    let judgment = judge_verdict(ProductTier::Full, &null);
    assert_eq!((judgment.inspection.v_t, judgment.inspection.v_r), (7.0, 3.5));
    // one more empty analysis: 1 - 0.168/7 = 0.976, above Ω; one short summary: 1 - 0.189/7 = 0.973, below it
    assert_eq!(
        flipping_flags(ProductTier::Full, &null),
        ["short_summary", e_d[0], e_d[1], e_d[2], e_d[3], "dimension_verdict_invalid"]
    );
}

#[test]
fn trials_count_verdicts_and_places_separately() {
    let mut flips = DecisionFlips::default();
    let mut damaged = verdict(ProductTier::Full);
    damaged["breakdown"]["Stability"]["verdict"] = json!(7);
    flips.add(&judge_verdict(ProductTier::Full, &damaged));
    flips.add(&judge_verdict(ProductTier::Full, &verdict(ProductTier::Full)));
    let lost = &flips.to_approval.flags.names()[0];
    assert_eq!((lost.flag, lost.counts.verdicts, lost.counts.flips), ("field_missing", 1, 1));
    assert_eq!(lost.counts.places.by_frequency(), [("breakdown.Stability.verdict", 1)]);
    let gained = flips.to_refusal.flags.names().iter().find(|named| named.flag == "field_missing");
    let gained = &gained.expect("a field can be missing in every tier").counts;
    // the summary, the breakdown, and three places in each of five dimensions
    assert_eq!((gained.verdicts, gained.flips, gained.places.by_frequency().len()), (1, 1, 17));
}

#[test]
fn removing_and_adding_a_flag_are_inverse() {
    for judgment in judgments() {
        let inspection = &judgment.inspection;
        for flag in &inspection.flags {
            assert_eq!(add_flag(&remove_flag(inspection, flag), flag), *inspection);
        }
    }
}

#[test]
fn raisable_lists_every_weighted_flag_of_the_tier() {
    let mut names = std::collections::BTreeSet::new();
    for judgment in judgments() {
        for flag in judgment.inspection.flags.iter().filter(|flag| has_weight(flag)) {
            assert!(raisable_flags(judgment.tier).contains(flag), "{flag} in {}", judgment.tier);
            names.insert(flag.into_str());
        }
    }
    let known: std::collections::BTreeSet<_> =
        raisable_flags(ProductTier::Strategy).iter().map(Flag::into_str).collect();
    assert_eq!(names, known, "every known name occurs, and every name that occurs is known");
    for tier in ProductTier::ALL {
        assert!(raisable_flags(tier).is_sorted_by(|one, other| one < other), "in order, none twice");
    }
}

/// Judgments that together have every flag.
fn judgments() -> Vec<CrosscheckJudgment> {
    let mut verdicts =
        vec![json!("nothing"), json!({}), json!({"verdict": "green", "summary": "", "mood": 1})];
    let mut with_strategy = |change: &dyn Fn(&mut Value)| {
        let mut changed = verdict(ProductTier::Strategy);
        change(&mut changed);
        verdicts.push(changed);
    };
    with_strategy(&|verdict| verdict["verdict"] = json!("RED"));
    with_strategy(&|verdict| verdict["verdict"] = json!("NULL"));
    with_strategy(&|verdict| verdict["breakdown"] = json!([]));
    with_strategy(&|verdict| verdict["breakdown"]["Change Rate"]["analysis"] = json!(" "));
    with_strategy(&|verdict| verdict["breakdown"]["Curvature"] = json!({"verdict": "red", "analysis": 1}));
    with_strategy(&|verdict| verdict["breakdown"]["Stability"] = json!(null));
    with_strategy(&|verdict| verdict["strategy"] = json!(null));
    with_strategy(&|verdict| verdict["strategy"] = json!({"tests": "one"}));
    let parsed = ProductTier::ALL
        .into_iter()
        .flat_map(|tier| verdicts.iter().map(move |verdict| judge_verdict(tier, verdict)));
    parsed.chain([judge(ProductTier::Quick, VerdictPayload::raw("{"))]).collect()
}
