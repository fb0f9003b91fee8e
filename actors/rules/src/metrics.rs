//! The metrics of the rules.

use actors_platform::metrics::{AddMetric, MetricLabelValue, init_counters, pairs};
use domain_rules::{RuleId, RuleVerdict, RulesEvaluation};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;
use strum::VariantArray;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EvaluationLabels {
    verdict: MetricLabelValue,
}

impl EvaluationLabels {
    const fn of(verdict: RuleVerdict) -> Self {
        Self { verdict: MetricLabelValue(verdict.into_str()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleResultLabels {
    rule: MetricLabelValue,
    verdict: MetricLabelValue,
}

impl RuleResultLabels {
    const fn of(rule: RuleId, verdict: RuleVerdict) -> Self {
        Self { rule: MetricLabelValue(rule.into_str()), verdict: MetricLabelValue(verdict.into_str()) }
    }
}

/// Where a compiled fact set was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FactSetLabels {
    result: MetricLabelValue,
}

impl FactSetLabels {
    const fn of(found: bool) -> Self {
        Self { result: MetricLabelValue(if found { "hit" } else { "compiled" }) }
    }
}

/// The metrics of text checks against facts.
#[derive(Debug, Clone)]
pub struct RuleMetrics {
    evaluations: Family<EvaluationLabels, Counter>,
    rules: Family<RuleResultLabels, Counter>,
    seconds: Histogram,
    fact_sets: Family<FactSetLabels, Counter>,
}

impl RuleMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            evaluations: registry.add(
                "rules_evaluations",
                "texts checked against facts, by verdict",
                init_counters(RuleVerdict::VARIANTS.iter().map(|verdict| EvaluationLabels::of(*verdict))),
            ),
            rules: registry.add(
                "rules_applied",
                "rules that were applied, by rule and verdict",
                init_counters(
                    pairs(RuleId::VARIANTS, RuleVerdict::VARIANTS)
                        .map(|(rule, verdict)| RuleResultLabels::of(rule, verdict)),
                ),
            ),
            seconds: registry.add_seconds(
                "rules_evaluation",
                "time to check a text against facts, without its commit",
                Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
            ),
            fact_sets: registry.add(
                "rules_fact_sets",
                "lookups of compiled fact sets: a hit, or compiled now",
                init_counters([true, false].map(FactSetLabels::of)),
            ),
        }
    }

    pub(super) fn count_evaluation(&self, evaluation: &RulesEvaluation) {
        self.evaluations.get_or_create(&EvaluationLabels::of(evaluation.verdict)).inc();
        for rule in &evaluation.rules {
            self.rules.get_or_create(&RuleResultLabels::of(rule.rule, rule.verdict)).inc();
        }
    }

    /// Records the duration of an evaluation, without its commit.
    pub(super) fn observe_duration(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts a lookup of a compiled fact set: found, or compiled now.
    pub(super) fn count_fact_set_lookup(&self, found: bool) {
        self.fact_sets.get_or_create(&FactSetLabels::of(found)).inc();
    }
}
