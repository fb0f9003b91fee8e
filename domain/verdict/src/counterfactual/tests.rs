use super::*;
use crate::crosscheck::tests::{any_tier, any_verdict, many_cases};
use crate::crosscheck::{CrosscheckJudgment, VerdictLevel, judge, judge_with, strip};
use crate::label::{ProductTier, VerdictLabel};
use crate::query::CustomerQuery;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use proptest::prelude::*;
use serde_json::{Value, json};

fn payload(verdict: &Value) -> VerdictPayload {
    VerdictPayload::raw(&verdict.to_string())
}

fn entry_of(judgment: &CrosscheckJudgment) -> CrosscheckEntry {
    CrosscheckEntry::of(judgment, &CustomerQuery::new("Sell honey?".into()), GatePath::Submit)
}

/// The label of most dimensions. If no label has most, any label but NULL agrees with them.
fn label_of_most(verdict: &Value) -> &'static str {
    let labels: Vec<VerdictLabel> = VerdictDimension::ALL
        .iter()
        .filter_map(|dimension| verdict["breakdown"][dimension.to_string()]["verdict"].as_str()?.parse().ok())
        .collect();
    let count = |label: VerdictLabel| labels.iter().filter(|other| **other == label).count();
    let most = VerdictLabel::ALL.into_iter().find(|label| 2 * count(*label) > labels.len());
    most.unwrap_or(VerdictLabel::Green).into_str()
}

fn make(change: VerdictChange, tier: ProductTier, verdict: &mut Value) {
    let text = json!("A text of some words.");
    match change {
        VerdictChange::Summary => verdict["summary"] = text,
        VerdictChange::Label => verdict["verdict"] = json!(label_of_most(verdict)),
        VerdictChange::Analysis(dimension) => verdict["breakdown"][dimension.to_string()]["analysis"] = text,
        VerdictChange::Strategy => {
            verdict["strategy"] = json!({"next_step": text, "alternative": text, "tests": [text, text]});
        }
        VerdictChange::NextStep => verdict["strategy"]["next_step"] = text,
        VerdictChange::Alternative => verdict["strategy"]["alternative"] = text,
        VerdictChange::Tests => verdict["strategy"]["tests"] = json!([text, text]),
        VerdictChange::NoUnexpected => {
            let stripped = strip(VerdictLevel::Root(tier), &verdict.to_string());
            *verdict = serde_json::from_str(&stripped).expect("JSON");
        }
    }
}

proptest! {
    #![proptest_config(many_cases())]

    #[test]
    fn counterfactual_is_what_the_gate_decides_on_the_changed_verdict(
        tier in any_tier(), verdict in any_verdict(), strict in any::<bool>(),
    ) {
        let handling = if strict { UnexpectedFieldHandling::Refuse } else { UnexpectedFieldHandling::Deliver };
        let judgment = judge_with(handling, tier, payload(&verdict));
        prop_assume!(verdict.is_object());
        for counterfactual in counterfactuals(&entry_of(&judgment)) {
            let mut changed = verdict.clone();
            for change in &counterfactual.changes {
                make(*change, tier, &mut changed);
            }
            let decided = judge_with(handling, tier, payload(&changed)).decision;
            let Counterfactual { lowest, highest, .. } = &counterfactual;
            let scores = lowest.coherence_score..=highest.coherence_score;
            prop_assert!(scores.contains(&decided.coherence_score), "{scores:?}: {changed}");
            let weighty = |decision: &CrosscheckDecision| -> Vec<_> {
                let flags = decision.flags.iter().filter(|flag| **flag != Flag::DegenerateManifold);
                flags.cloned().collect()
            };
            prop_assert_eq!(weighty(&decided), weighty(lowest), "{}", changed);
            prop_assert!(decided.approved || !lowest.approved);
            prop_assert!(highest.approved || !decided.approved);
        }
    }
}

#[test]
fn counterfactual_of_a_truncated_answer_is_unknown() {
    let judgment = judge(ProductTier::Full, VerdictPayload::raw("{\"verdict\":\"GRE"));
    assert_eq!(counterfactuals(&entry_of(&judgment)), []);
}

#[test]
fn counterfactual_of_a_short_summary_is_the_highest_score() {
    let judgment = judge(ProductTier::Quick, payload(&json!({"verdict": "RED", "summary": "No."})));
    let [alone] = counterfactuals(&entry_of(&judgment)).try_into().expect("one");
    assert_eq!(alone.changes, [VerdictChange::Summary]);
    assert!(alone.is_exact() && alone.lowest.approved, "{alone:?}");
}

#[test]
fn counterfactual_without_an_effect_is_left_out() {
    let verdict = json!({"verdict": "RED", "summary": "A text of some words.", "note": "x"});
    let judgment = judge(ProductTier::Quick, payload(&verdict));
    assert_eq!(counterfactuals(&entry_of(&judgment)), []);
}

#[test]
fn counterfactual_of_one_of_two_missing_members_is_rejected_with_each_score() {
    let judgment = judge(ProductTier::Strategy, payload(&json!({"verdict": "RED", "breakdown": {}})));
    let found = counterfactuals(&entry_of(&judgment));
    let summary = found.iter().find(|one| one.changes == [VerdictChange::Summary]).expect("one");
    assert!(!summary.highest.approved, "{summary:?}");
}
