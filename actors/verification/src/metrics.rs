//! The metrics of verification: decisions, conflicts, escalations, staleness, and the calls of sources.

use actors_platform::metrics::{AddMetric, MetricLabelValue, init_missing_counters, pairs};
use domain_verification::conflict::ConflictStepOutcome;
use domain_verification::workflow::{ConflictStrategy, Workflow};
use domain_verification::{AxisReason, CallOutcome, DecisionInputs, Envelope, EnvelopeKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::time::Duration;
use strum::VariantArray;

/// A cached answer that is no longer fresh was used.
const STALE: &str = "stale";
/// A cached answer that is still fresh was used.
const CACHE_HIT: &str = "cache_hit";

/// The labels of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EnvelopeLabels {
    workflow: String,
    kind: MetricLabelValue,
}

/// The labels of a reason for which a decision has no values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WithheldLabels {
    workflow: String,
    reason: MetricLabelValue,
}

/// The labels of a conflict between two values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConflictLabels {
    workflow: String,
    strategy: MetricLabelValue,
    outcome: MetricLabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceCallLabels {
    oracle: String,
    outcome: MetricLabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    oracle: String,
}

#[derive(Debug, Clone)]
pub struct VerificationMetrics {
    decisions: Family<EnvelopeLabels, Counter>,
    reasons: Family<WithheldLabels, Counter>,
    conflicts: Family<ConflictLabels, Counter>,
    calls: Family<SourceCallLabels, Counter>,
    late: Family<SourceLabels, Counter>,
    reviews_opened: Counter,
    reviews_resolved: Counter,
    reviews_revoked: Counter,
    reviews_dismissed: Counter,
    seconds: Histogram,
}

impl VerificationMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            decisions: registry.add(
                "verifications",
                "decisions, by workflow and kind of envelope",
                Family::default(),
            ),
            reasons: registry.add(
                "verification_reasons",
                "reasons for which a decision has no values, by workflow",
                Family::default(),
            ),
            conflicts: registry.add(
                "verification_conflicts",
                "conflicts between two values, by workflow, strategy and outcome",
                Family::default(),
            ),
            calls: registry.add(
                "verification_calls",
                "calls of sources for a verification, by outcome",
                Family::default(),
            ),
            late: registry.add(
                "verification_late_calls",
                "sources that took longer than their soft timeout",
                Family::default(),
            ),
            reviews_opened: registry.add("reviews_opened", "reviews opened by decisions", Counter::default()),
            reviews_resolved: registry.add(
                "reviews_resolved",
                "reviews resolved by a reviewer",
                Counter::default(),
            ),
            reviews_revoked: registry.add(
                "reviews_revoked",
                "resolutions revoked by a reviewer",
                Counter::default(),
            ),
            reviews_dismissed: registry.add(
                "reviews_dismissed",
                "reviews closed without a decision",
                Counter::default(),
            ),
            seconds: registry.add_seconds(
                "verification",
                "time from a verification request to its durable decision",
                Histogram::new(exponential_buckets(0.000_1, 4.0, 10)),
            ),
        }
    }

    /// Counts a decision with its duration, and a review that it opened.
    pub(super) fn count_decision(
        &self,
        inputs: &DecisionInputs,
        envelope: &Envelope,
        opened: bool,
        took: Duration,
    ) {
        let workflow = envelope.workflow.as_str();
        let kind = MetricLabelValue(envelope.kind.into_str());
        self.decisions.get_or_create(&EnvelopeLabels { workflow: workflow.into(), kind }).inc();
        for reason in &envelope.reasons {
            let reason = MetricLabelValue(reason.into_str());
            self.reasons.get_or_create(&WithheldLabels { workflow: workflow.into(), reason }).inc();
        }
        for step in &envelope.steps {
            let (strategy, outcome) =
                (MetricLabelValue(step.strategy.into_str()), MetricLabelValue(step.outcome.into_str()));
            self.conflicts
                .get_or_create(&ConflictLabels { workflow: workflow.into(), strategy, outcome })
                .inc();
        }
        for candidate in &envelope.candidates {
            let oracle = candidate.oracle_id.as_str();
            let call = inputs.calls.get(&candidate.oracle_id);
            let outcome = match call {
                _ if candidate.stale => STALE,
                Some(call) if call.cache_hit => CACHE_HIT,
                _ => candidate.outcome.into_str(),
            };
            self.calls
                .get_or_create(&SourceCallLabels {
                    oracle: oracle.into(),
                    outcome: MetricLabelValue(outcome),
                })
                .inc();
            self.late.get_or_create(&SourceLabels { oracle: oracle.into() }).inc_by(candidate.late.into());
        }
        self.reviews_opened.inc_by(opened.into());
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts reviews that were resolved.
    pub(super) fn count_resolved_reviews(&self, reviews: u64) {
        self.reviews_resolved.inc_by(reviews);
    }

    /// Counts a resolution that was revoked.
    pub(super) fn count_revocation(&self) {
        self.reviews_revoked.inc();
    }

    /// Counts a review that was closed without a decision.
    pub(super) fn count_dismissal(&self) {
        self.reviews_dismissed.inc();
    }
}

impl VerificationMetrics {
    /// Creates the counters of `workflow` and its sources at 0.
    pub(super) fn init_counters_of_workflow(&self, workflow: &Workflow) {
        let name = || workflow.workflow_id.as_str().to_owned();
        let kinds = EnvelopeKind::VARIANTS
            .iter()
            .map(|kind| EnvelopeLabels { workflow: name(), kind: MetricLabelValue(kind.into_str()) });
        init_missing_counters(&self.decisions, kinds);
        let reasons = AxisReason::VARIANTS.iter().map(|reason| MetricLabelValue(reason.into_str()));
        init_missing_counters(
            &self.reasons,
            reasons.map(|reason| WithheldLabels { workflow: name(), reason }),
        );
        let settled =
            pairs(ConflictStrategy::VARIANTS, ConflictStepOutcome::VARIANTS).map(|(strategy, outcome)| {
                ConflictLabels {
                    workflow: name(),
                    strategy: MetricLabelValue(strategy.into_str()),
                    outcome: MetricLabelValue(outcome.into_str()),
                }
            });
        init_missing_counters(&self.conflicts, settled);
        for oracle_id in &workflow.oracles {
            let oracle = || oracle_id.as_str().to_owned();
            let outcomes = CallOutcome::VARIANTS.iter().map(|outcome| outcome.into_str());
            let answered = outcomes.chain([STALE, CACHE_HIT]).map(MetricLabelValue);
            init_missing_counters(
                &self.calls,
                answered.map(|outcome| SourceCallLabels { oracle: oracle(), outcome }),
            );
            init_missing_counters(&self.late, [SourceLabels { oracle: oracle() }]);
        }
    }
}
