//! What is counted of the rules.

use super::Word;
use domain::rules::{Evaluation, Verdict};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// The label of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CameTo {
    verdict: Word,
}

/// The labels of what one rule came to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RuleCameTo {
    rule: Word,
    verdict: Word,
}

/// Where a compiled fact set was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Looked {
    result: Word,
}

/// All of them.
#[derive(Debug, Clone)]
pub(crate) struct Checking {
    evaluations: Family<CameTo, Counter>,
    rules: Family<RuleCameTo, Counter>,
    seconds: Histogram,
    fact_sets: Family<Looked, Counter>,
}

impl Default for Checking {
    fn default() -> Self {
        Self {
            evaluations: Family::default(),
            rules: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
            fact_sets: Family::default(),
        }
    }
}

impl Checking {
    /// Counts an evaluation.
    pub(crate) fn evaluated(&self, evaluation: &Evaluation) {
        let word = |verdict: Verdict| Word(verdict.as_str());
        self.evaluations.get_or_create(&CameTo { verdict: word(evaluation.verdict) }).inc();
        for rule in &evaluation.rules {
            let came_to = RuleCameTo { rule: Word(rule.rule.as_str()), verdict: word(rule.verdict) };
            self.rules.get_or_create(&came_to).inc();
        }
    }

    /// Notes how long an evaluation took, without its commit.
    pub(crate) fn took(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts whether a fact set was at hand.
    pub(crate) fn looked_up(&self, found: bool) {
        let result = Word(if found { "hit" } else { "compiled" });
        self.fact_sets.get_or_create(&Looked { result }).inc();
    }

    /// Adds them to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rules_evaluations",
            "texts checked against facts, by verdict",
            self.evaluations.clone(),
        );
        registry.register(
            "rules_applied",
            "rules that were applied, by what they came to",
            self.rules.clone(),
        );
        registry.register_with_unit(
            "rules_evaluation",
            "time to check a text against facts, without its commit",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register(
            "rules_fact_sets",
            "fact sets that were asked about: at hand, or compiled for it",
            self.fact_sets.clone(),
        );
    }
}
