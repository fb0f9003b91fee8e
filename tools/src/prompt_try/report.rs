//! The comparison of two prompt templates.

use domain_verdict::cost::ModelCost;
use domain_verdict::generation::ModelTokenUsage;
use domain_verdict::label::ProductTier;
use domain_verdict::template_name::TemplateRef;
use oracled_api::verdict::PromptTryResponse;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Number of runs of each query with each template.
pub(super) const RUNS: usize = 2;

/// The results of both templates.
#[derive(Debug, Serialize)]
pub(super) struct TrialReport {
    pub(super) queries: usize,
    pub(super) candidate: TemplateReport,
    pub(super) current: TemplateReport,
}

/// The results of one template.
#[derive(Debug, Default, Serialize)]
pub(super) struct TemplateReport {
    /// The template; absent before the first answer.
    pub(super) template: Option<TemplateRef>,
    /// By tier.
    pub(super) approval: BTreeMap<&'static str, ApprovalReport>,
    /// The number of runs without an answer that can be judged, by their cause.
    pub(super) failures: BTreeMap<String, u64>,
    /// The number of runs with each flag.
    pub(super) flags: BTreeMap<String, u64>,
    pub(super) mean_coherence: Option<f64>,
    pub(super) label_agreement: AgreementReport,
    pub(super) usage: Option<ModelTokenUsage>,
    pub(super) cost: Option<ModelCost>,
}

/// The approved runs of a tier.
#[derive(Debug, Default, Serialize)]
pub(super) struct ApprovalReport {
    pub(super) runs: u64,
    pub(super) approved: u64,
}

/// How many queries got the same label in both runs.
#[derive(Debug, Default, Serialize)]
pub(super) struct AgreementReport {
    /// The queries of which both runs were judged.
    pub(super) compared: u64,
    pub(super) agreed: u64,
}

impl TemplateReport {
    /// The report of the runs of all queries.
    pub(super) fn of(runs: &[(ProductTier, Vec<PromptTryResponse>)]) -> Self {
        let mut report = Self::default();
        let (mut coherence, mut judged) = (0.0, 0u64);
        for (tier, answers) in runs {
            let approval = report.approval.entry(tier.into_str()).or_default();
            for answer in answers {
                report.template.get_or_insert_with(|| answer.template.clone());
                approval.runs += 1;
                if let Some(failure) = &answer.failure {
                    *report.failures.entry(failure.clone()).or_default() += 1;
                }
                let Some(decision) = &answer.decision else { continue };
                approval.approved += u64::from(decision.approved);
                coherence += decision.coherence_score;
                judged += 1;
                for flag in &decision.flags {
                    *report.flags.entry(flag.to_string()).or_default() += 1;
                }
            }
            let labels: Vec<_> =
                answers.iter().filter_map(|answer| answer.decision.as_ref()?.verdict_label).collect();
            if labels.len() == RUNS {
                report.label_agreement.compared += 1;
                report.label_agreement.agreed +=
                    u64::from(labels.windows(2).all(|pair| pair.first() == pair.last()));
            }
        }
        report.mean_coherence = (judged > 0).then(|| coherence / judged as f64);
        let answers = || runs.iter().flat_map(|(_, answers)| answers);
        report.usage = ModelTokenUsage::sum(answers().filter_map(|answer| answer.usage));
        report.cost = ModelCost::sum(answers().filter_map(|answer| answer.cost.clone()));
        report
    }

    fn approved(&self, tier: &str) -> String {
        self.approval.get(tier).map_or_else(String::new, |approval| share(approval.approved, approval.runs))
    }

    fn tokens(&self, of: fn(&ModelTokenUsage) -> Option<u64>) -> String {
        self.usage.as_ref().and_then(of).map_or_else(|| "unknown".to_owned(), |tokens| tokens.to_string())
    }
}

impl TrialReport {
    /// The rows of the table: the name of a figure, and its value for each template.
    pub(super) fn rows(&self) -> Vec<[String; 3]> {
        let both = [&self.candidate, &self.current];
        let mut rows = Vec::new();
        let mut add = |name: String, value: &dyn Fn(&TemplateReport) -> String| {
            let [candidate, current] = both.map(value);
            rows.push([name, candidate, current]);
        };
        for tier in ProductTier::ALL.map(|tier| tier.into_str()) {
            if both.iter().any(|report| report.approval.contains_key(tier)) {
                add(format!("approved, {tier}"), &|report| report.approved(tier));
            }
        }
        add("mean coherence".into(), &|report| {
            report.mean_coherence.map_or_else(|| "none".into(), |mean| format!("{mean:.4}"))
        });
        add("same label in both runs".into(), &|report| {
            share(report.label_agreement.agreed, report.label_agreement.compared)
        });
        let names = |of: fn(&TemplateReport) -> &BTreeMap<String, u64>| {
            both.iter().flat_map(|report| of(report).keys().cloned()).collect::<BTreeSet<_>>()
        };
        for flag in names(|report| &report.flags) {
            add(format!("flag {flag}"), &|report| report.flags.get(&flag).copied().unwrap_or(0).to_string());
        }
        for cause in names(|report| &report.failures) {
            add(format!("no answer: {cause}"), &|report| {
                report.failures.get(&cause).copied().unwrap_or(0).to_string()
            });
        }
        add("tokens of prompts".into(), &|report| report.tokens(|usage| usage.prompt_tokens));
        add("tokens of answers".into(), &|report| report.tokens(|usage| usage.output_tokens));
        add("tokens in all".into(), &|report| report.tokens(|usage| usage.total_tokens));
        if both.iter().any(|report| report.cost.is_some()) {
            add("cost".into(), &|report| {
                report.cost.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string)
            });
        }
        rows
    }
}

/// A part of a whole, with its percentage.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "none".to_owned();
    }
    format!("{part} of {whole} ({:.1} %)", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::payload::VerdictPayload;
    use domain_verdict::crosscheck::judge;
    use domain_verdict::label::VerdictLabel;

    fn answer(tier: ProductTier, raw: &str) -> PromptTryResponse {
        let usage = ModelTokenUsage {
            prompt_tokens: Some(10),
            output_tokens: Some(2),
            thinking_tokens: None,
            total_tokens: None,
        };
        PromptTryResponse {
            template: "house@2".parse().expect("a reference"),
            decision: Some(judge(tier, VerdictPayload::raw(raw)).decision),
            failure: None,
            usage: Some(usage),
            cost: Some(ModelCost { amount: "0.25".parse().expect("a number"), currency: "USD".into() }),
        }
    }

    fn good(label: VerdictLabel) -> PromptTryResponse {
        let raw = format!(r#"{{"verdict":"{label}","summary":"A sound and simple plan."}}"#);
        answer(ProductTier::Quick, &raw)
    }

    #[test]
    fn report_counts_approval_flags_agreement_and_tokens() {
        let quick = ProductTier::Quick;
        let failed = PromptTryResponse {
            decision: None,
            failure: Some("declined".into()),
            usage: None,
            cost: None,
            ..good(VerdictLabel::Green)
        };
        let report = TemplateReport::of(&[
            (quick, vec![good(VerdictLabel::Green), good(VerdictLabel::Green)]),
            (quick, vec![good(VerdictLabel::Green), good(VerdictLabel::Red)]),
            (quick, vec![answer(quick, "{}"), failed]),
            // answers without a label do not agree
            (quick, vec![answer(quick, "{}"), answer(quick, "{}")]),
        ]);
        let approval = report.approval.get("quick").expect("the tier was tried");
        assert_eq!((approval.runs, approval.approved), (8, 4));
        assert_eq!((report.label_agreement.compared, report.label_agreement.agreed), (2, 1));
        assert_eq!(report.failures.get("declined"), Some(&1));
        assert_eq!(report.flags.get("verdict_missing"), Some(&3), "{:?}", report.flags);
        assert!(report.mean_coherence.is_some_and(|mean| mean < 1.0));
        let usage = report.usage.expect("the model reported its tokens");
        assert_eq!(
            (usage.prompt_tokens, usage.output_tokens, usage.total_tokens),
            (Some(70), Some(14), None)
        );
        let rows = TrialReport { queries: 4, candidate: report, current: TemplateReport::default() }.rows();
        assert!(
            rows.contains(&["approved, quick".into(), "4 of 8 (50.0 %)".into(), String::new()]),
            "{rows:?}"
        );
        // seven of eight answers have a cost
        assert_eq!(rows.last(), Some(&["cost".into(), "1.75 USD".into(), "unknown".into()]));
    }
}
