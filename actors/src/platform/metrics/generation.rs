//! The metrics of verdicts that the model makes.

use super::{ApplicationLabelValue, MetricLabelValue, init_counters, pairs};
use oracled_domain::verdict::divergence::OriginalLabel;
use oracled_domain::verdict::generation_outcome::GenerationOutcome;
use oracled_domain::verdict::interaction::{InteractionStatus, PERMANENT_STATUSES};
use oracled_domain::{
    ApplicationName, AuditEvent, DivergenceCheck, DivergenceLevel, EventKind, GatePath, OracleId,
    ProductTier, SessionId, VerdictLabel,
};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use strum::VariantArray;

/// The paths on which the model is called for a verdict of a session.
const PATHS: [GatePath; 2] = [GatePath::Generate, GatePath::Regen];
/// The paths on which the model is called.
const CALL_PATHS: [GatePath; 3] = [GatePath::Generate, GatePath::Regen, GatePath::Try];
/// The kinds of the model's tokens.
const DIRECTIONS: [&str; 2] = ["prompt", "output"];

/// The labels of a requested verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct GenerationLabels {
    application: ApplicationLabelValue,
    path: MetricLabelValue,
    outcome: MetricLabelValue,
}

impl GenerationLabels {
    const fn new(application: ApplicationName, path: GatePath, outcome: GenerationOutcome) -> Self {
        Self {
            application: ApplicationLabelValue(application),
            path: MetricLabelValue(path.into_str()),
            outcome: MetricLabelValue(outcome.into_str()),
        }
    }
}

/// The labels of an attempt to call the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelAttemptLabels {
    path: MetricLabelValue,
    status: MetricLabelValue,
}

impl ModelAttemptLabels {
    const fn new(path: GatePath, status: InteractionStatus) -> Self {
        Self { path: MetricLabelValue(path.into_str()), status: MetricLabelValue(status.into_str()) }
    }
}

/// The label of a request that the model refused permanently.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusedRequestLabels {
    status: u16,
}

/// The labels of a cost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CostLabels {
    /// Empty for a trial of a prompt.
    application: Option<ApplicationLabelValue>,
    model: String,
    tier: MetricLabelValue,
}

/// The label of a token count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TokenLabels {
    direction: MetricLabelValue,
}

/// The labels of a comparison with the first verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DivergenceLabels {
    original: MetricLabelValue,
    regenerated: MetricLabelValue,
    level: MetricLabelValue,
}

impl DivergenceLabels {
    fn new(original: OriginalLabel, regenerated: VerdictLabel, level: Option<DivergenceLevel>) -> Self {
        Self {
            original: MetricLabelValue(original.as_str()),
            regenerated: MetricLabelValue(regenerated.into_str()),
            level: MetricLabelValue(level.map_or("unknown", Into::into)),
        }
    }

    /// All combinations of labels.
    fn all() -> impl Iterator<Item = Self> {
        let originals: Vec<_> =
            VerdictLabel::ALL.map(Some).into_iter().chain([None]).map(OriginalLabel).collect();
        let levels: Vec<_> = DivergenceLevel::ALL.map(Some).into_iter().chain([None]).collect();
        let labels: Vec<_> = pairs(&originals, &VerdictLabel::ALL).collect();
        let all: Vec<_> = pairs(&labels, &levels).collect();
        all.into_iter().map(|((original, regenerated), level)| Self::new(original, regenerated, level))
    }
}

/// The metrics of requested verdicts and calls of the model.
#[derive(Debug, Clone)]
pub(crate) struct GenerationMetrics {
    outcomes: Family<GenerationLabels, Counter>,
    attempts: Family<ModelAttemptLabels, Counter>,
    retries: Counter,
    attempt_seconds: Histogram,
    tokens: Family<TokenLabels, Counter>,
    costs: Family<CostLabels, Counter<f64, AtomicU64>>,
    refused_requests: Family<RefusedRequestLabels, Counter>,
    compared: Family<DivergenceLabels, Counter>,
}

impl GenerationMetrics {
    /// The metrics of verdicts of `applications`. Others are added with their first verdict.
    pub(super) fn new(applications: &[ApplicationName]) -> Self {
        let outcomes: Vec<_> = pairs(&PATHS, GenerationOutcome::VARIANTS).collect();
        Self {
            refused_requests: init_counters(PERMANENT_STATUSES.map(|status| RefusedRequestLabels { status })),
            outcomes: init_counters(
                pairs(applications, &outcomes)
                    .map(|(application, (path, outcome))| GenerationLabels::new(application, path, outcome)),
            ),
            attempts: init_counters(
                pairs(&CALL_PATHS, InteractionStatus::VARIANTS)
                    .map(|(path, status)| ModelAttemptLabels::new(path, status)),
            ),
            retries: Counter::default(),
            attempt_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 13)),
            tokens: init_counters(
                DIRECTIONS.map(|direction| TokenLabels { direction: MetricLabelValue(direction) }),
            ),
            costs: Family::default(),
            compared: init_counters(DivergenceLabels::all()),
        }
    }

    /// Creates the counters of the costs of a model at 0.
    pub(crate) fn init_costs(&self, applications: &[ApplicationName], oracle_id: &OracleId) {
        for (application, tier) in pairs(applications, &ProductTier::ALL) {
            let (application, model) = (Some(ApplicationLabelValue(application)), oracle_id.to_string());
            let tier = MetricLabelValue(tier.into_str());
            drop(self.costs.get_or_create(&CostLabels { application, model, tier }));
        }
    }

    /// Counts a verdict that was requested on `path` for `application`, with its outcome.
    pub(crate) fn count_outcome(
        &self,
        application: ApplicationName,
        path: GatePath,
        outcome: GenerationOutcome,
    ) {
        self.outcomes.get_or_create(&GenerationLabels::new(application, path, outcome)).inc();
    }

    /// Counts a request that the model's service refused permanently with `status`.
    pub(crate) fn count_refused_request(&self, status: u16) {
        self.refused_requests.get_or_create(&RefusedRequestLabels { status }).inc();
    }

    /// Counts the attempts of one call of the model.
    pub(crate) fn count_attempts(&self, attempts: &[AuditEvent]) {
        for attempt in attempts {
            let EventKind::OracleInteraction(interaction) = &attempt.kind else { continue };
            self.attempts.get_or_create(&ModelAttemptLabels::new(interaction.path, interaction.status)).inc();
            self.retries.inc_by(u64::from(interaction.attempt > 1));
            self.attempt_seconds.observe(interaction.latency_ms as f64 / 1000.0);
            let usage = interaction.usage.as_ref();
            let tokens =
                [usage.and_then(|usage| usage.prompt_tokens), usage.and_then(|usage| usage.output_tokens)];
            if let Some(cost) =
                interaction.cost.as_ref().and_then(|cost| cost.amount.to_string().parse().ok())
            {
                let tier = MetricLabelValue(interaction.tier.into_str());
                let application = attempt.session_id.as_ref().map(SessionId::application);
                let application = application.map(ApplicationLabelValue);
                let labels = CostLabels { application, model: interaction.oracle_id.clone(), tier };
                self.costs.get_or_create(&labels).inc_by(cost);
            }
            for (direction, tokens) in DIRECTIONS.into_iter().zip(tokens) {
                let direction = TokenLabels { direction: MetricLabelValue(direction) };
                // the model reports this number; no answer has more tokens, and the counter must not wrap
                let tokens = tokens.unwrap_or_default().min(u64::from(u32::MAX));
                self.tokens.get_or_create(&direction).inc_by(tokens);
            }
        }
    }

    /// Counts a regenerated verdict by its divergence from the first.
    pub(crate) fn count_comparison(&self, check: &DivergenceCheck) {
        let labels =
            DivergenceLabels::new(check.original_verdict, check.regen_verdict, check.divergence_level);
        self.compared.get_or_create(&labels).inc();
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "verdicts_made",
            "verdicts requested from the model, by application, path and outcome",
            self.outcomes.clone(),
        );
        registry.register(
            "model_attempts",
            "requests to the model, by path and status",
            self.attempts.clone(),
        );
        registry.register(
            "model_retries",
            "requests to the model after the first of a call",
            self.retries.clone(),
        );
        registry.register(
            "model_refused_requests",
            "requests that the model refused permanently, by HTTP status",
            self.refused_requests.clone(),
        );
        registry.register_with_unit(
            "model_attempt",
            "time of a request to the model",
            Unit::Seconds,
            self.attempt_seconds.clone(),
        );
        registry.register("model_tokens", "tokens that the model read and wrote", self.tokens.clone());
        registry.register(
            "model_cost",
            "cost of model calls in the configured currency, by application, model and tier",
            self.costs.clone(),
        );
        registry.register(
            "regens_compared",
            "regenerated verdicts, by original label, regenerated label and divergence level",
            self.compared.clone(),
        );
    }
}
