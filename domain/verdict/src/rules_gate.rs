//! The rules as a second gate after the crosscheck, for the texts of an approved verdict.

use crate::crosscheck::ApprovedVerdict;
use crate::label::{VerdictDimension, VerdictLabel};
use crate::rejection::{AnswerRejection, RejectedClaim};
use domain_base::payload::JsonNode;
use domain_rules::{
    CandidateCheck, CandidateText, FactSet, RuleSettings, RuleVerdict, RulesEvaluation, evaluate,
};

/// The evaluation of an approved verdict by the rules, with the verdict if it passes.
#[derive(Debug)]
pub struct RulesGateOutcome {
    pub evaluation: RulesEvaluation,
    /// The verdict that may still be delivered, or a marker that it may not.
    pub outcome: Result<ApprovedVerdict, RulesGateRejection>,
}

/// A verdict that the rules refused. The verdict itself is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesGateRejection {
    /// The rules that failed, with the numbers of the claims.
    pub rejection: AnswerRejection,
    /// The texts of those claims, for the next prompt only.
    pub claims: Vec<RejectedClaim>,
}

/// The second gate: applies rules to every text of `approved`, and returns it only if the result is `PASS`.
#[must_use]
pub fn examine(
    approved: ApprovedVerdict,
    check: &CandidateCheck,
    facts: &FactSet,
    settings: &RuleSettings,
) -> RulesGateOutcome {
    let texts = texts(&approved);
    let fields = texts.iter().map(|(field, text)| (field.as_str(), text.as_str()));
    let evaluation = evaluate(&CandidateText::fields(fields), check, facts, settings);
    let outcome = match evaluation.verdict {
        RuleVerdict::Pass => Ok(approved),
        RuleVerdict::Fail | RuleVerdict::Error => {
            let (rejection, claims) = AnswerRejection::by_rules(&evaluation, &texts);
            Err(RulesGateRejection { rejection, claims })
        }
    };
    RulesGateOutcome { evaluation, outcome }
}

/// Every text that `approved` delivers, in its order, with the path of its field. The labels in `verdict` fields are
/// left out: they state nothing, and the crosscheck has judged them.
pub(crate) fn texts(approved: &ApprovedVerdict) -> Vec<(String, String)> {
    let node = JsonNode::parse(approved.verdict().get()).expect("the crosscheck has read the same text");
    let mut texts = Vec::new();
    collect_texts(&node, String::new(), &mut texts);
    texts
}

fn collect_texts(node: &JsonNode<'_>, path: String, texts: &mut Vec<(String, String)>) {
    match node {
        JsonNode::Scalar => {}
        JsonNode::Text(text) => texts.push((path, text.to_string())),
        JsonNode::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_texts(item, format!("{path}[{index}]"), texts);
            }
        }
        JsonNode::Object(members) => {
            for (name, node) in members {
                let path = member_path(&path, name);
                // a name that is more than an identifier is text for readers
                let is_identifier = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
                if !name.chars().all(is_identifier) && name.parse::<VerdictDimension>().is_err() {
                    texts.push((path.clone(), name.to_string()));
                }
                let is_label = name == "verdict"
                    && matches!(node, JsonNode::Text(text) if text.parse::<VerdictLabel>().is_ok());
                if !is_label {
                    collect_texts(node, path, texts);
                }
            }
        }
    }
}

/// The path of the member `name` of the object at `path`. A name that could be read as several names is quoted.
fn member_path(path: &str, name: &str) -> String {
    if name.contains(['.', '[', '"']) {
        format!("{path}[{name:?}]")
    } else if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crosscheck::judge;
    use crate::label::ProductTier;
    use domain_base::payload::VerdictPayload;

    fn full(summary: &str, stability: &str) -> String {
        let dimension =
            |name: &str, analysis: &str| format!(r#""{name}":{{"verdict":"GREEN","analysis":"{analysis}"}}"#);
        let rest =
            ["Turbulence", "Change Rate", "Completion", "Curvature"].map(|name| dimension(name, "Calm"));
        format!(
            r#"{{"verdict":"GREEN","summary":"{summary}","breakdown":{{{},{}}}}}"#,
            dimension("Stability", stability),
            rest.join(",")
        )
    }

    fn examined(tier: ProductTier, verdict: &str, check: &CandidateCheck) -> RulesGateOutcome {
        let approved =
            judge(tier, VerdictPayload::raw(verdict)).outcome.expect("the verdict passes the crosscheck");
        examine(approved, check, &FactSet::compile(&check.facts), &RuleSettings::default())
    }

    #[test]
    fn examination_covers_summary_and_analyses_and_names_fields() {
        let facts = ["the plan is sound", "calm", "firm ground"].map(String::from).to_vec();
        let check = CandidateCheck { facts, ..CandidateCheck::default() };
        let verdict = full("The plan is sound.", "Firm ground! Gold below it.");
        let RulesGateOutcome { evaluation, outcome } = examined(ProductTier::Full, &verdict, &check);
        outcome.expect_err("one claim has no source");
        assert_eq!((evaluation.metrics.claims, evaluation.metrics.unsupported_claims), (7, 1));
        for rule in evaluation.rules.iter().filter(|rule| rule.verdict == RuleVerdict::Fail) {
            let span = rule.violations.first().and_then(|violation| violation.span.clone()).expect("a place");
            assert_eq!(span.field.as_deref(), Some("breakdown.Stability.analysis"));
            assert_eq!((span.start, span.end), (13, 26));
        }
        // a quick verdict is delivered without its analyses
        examined(ProductTier::Quick, &verdict, &check).outcome.expect("the summary is supported");
    }

    #[test]
    fn examination_splits_texts_separately_but_compares_them() {
        let mut check =
            CandidateCheck { facts: vec!["the plan".into(), "calm".into()], ..CandidateCheck::default() };
        check.expected.contradiction_ids = vec!["always".into()];
        check.expected.must_find = vec!["always".into()];
        let verdict = full("The plan always works", "Calm that never is");
        let evaluation = examined(ProductTier::Full, &verdict, &check).evaluation;
        let failed: Vec<_> =
            evaluation.rules.iter().filter(|rule| rule.verdict == RuleVerdict::Fail).collect();
        assert_eq!(failed.len(), 3, "the contradiction rules alone: {failed:?}");
        assert_eq!(evaluation.metrics.claims, 6);
    }

    #[test]
    fn examination_rejects_verdict_if_a_rule_fails_to_run() {
        let mut check =
            CandidateCheck { facts: vec!["a sound and simple plan".into()], ..CandidateCheck::default() };
        let verdict = r#"{"verdict":"GREEN","summary":"A sound and simple plan."}"#;
        examined(ProductTier::Quick, verdict, &check).outcome.expect("the claim is supported");
        check.expected.must_find = vec![" ".into()];
        let RulesGateOutcome { evaluation, outcome } = examined(ProductTier::Quick, verdict, &check);
        outcome.expect_err("the pattern is blank");
        assert_eq!(evaluation.verdict, RuleVerdict::Error);
    }
}
