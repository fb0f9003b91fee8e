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
            prop_assert!(decided.coherence_score >= counterfactual.decision.coherence_score, "{changed}");
            prop_assert!(!counterfactual.is_exact() || decided.coherence_score == 1.0, "{changed}");
            let weighty = |decision: &CrosscheckDecision| -> Vec<_> {
                let flags = decision.flags.iter().filter(|flag| **flag != Flag::DegenerateManifold);
                flags.cloned().collect()
            };
            prop_assert_eq!(weighty(&decided), weighty(&counterfactual.decision), "{}", changed);
            prop_assert!(decided.approved || !counterfactual.decision.approved);
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
    assert!(alone.is_exact() && alone.decision.approved, "{alone:?}");
}
