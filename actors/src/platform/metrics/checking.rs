//! The metrics of the rules.

use super::{Word, counters, pairs};
use oracled_domain::rules::{Evaluation, RuleId, Verdict};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;
use strum::VariantArray;

/// The label of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CameTo {
    verdict: Word,
}

impl CameTo {
    const fn of(verdict: Verdict) -> Self {
        Self { verdict: Word(verdict.into_str()) }
    }
}

/// The labels of the result of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RuleCameTo {
    rule: Word,
    verdict: Word,
}

impl RuleCameTo {
    const fn of(rule: RuleId, verdict: Verdict) -> Self {
        Self { rule: Word(rule.into_str()), verdict: Word(verdict.into_str()) }
    }
}

/// Where a compiled fact set was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Looked {
    result: Word,
}

impl Looked {
    const fn of(found: bool) -> Self {
        Self { result: Word(if found { "hit" } else { "compiled" }) }
    }
}

/// The metrics of text checks against facts.
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
            evaluations: counters(Verdict::VARIANTS.iter().map(|verdict| CameTo::of(*verdict))),
            rules: counters(
                pairs(RuleId::VARIANTS, Verdict::VARIANTS)
                    .map(|(rule, verdict)| RuleCameTo::of(rule, verdict)),
            ),
            seconds: Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
            fact_sets: counters([true, false].map(Looked::of)),
        }
    }
}

impl Checking {
    /// Counts an evaluation.
    pub(crate) fn evaluated(&self, evaluation: &Evaluation) {
        self.evaluations.get_or_create(&CameTo::of(evaluation.verdict)).inc();
        for rule in &evaluation.rules {
            self.rules.get_or_create(&RuleCameTo::of(rule.rule, rule.verdict)).inc();
        }
    }

    /// Records the duration of an evaluation, without its commit.
    pub(crate) fn took(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts a lookup of a compiled fact set: found, or compiled now.
    pub(crate) fn looked_up(&self, found: bool) {
        self.fact_sets.get_or_create(&Looked::of(found)).inc();
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "rules_evaluations",
            "texts checked against facts, by verdict",
            self.evaluations.clone(),
        );
        registry.register(
            "rules_applied",
            "rules that were applied, by rule and verdict",
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
            "lookups of compiled fact sets: a hit, or compiled now",
            self.fact_sets.clone(),
        );
    }
}
