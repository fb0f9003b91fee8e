//! The metrics of verdicts that the model makes.

use actors_platform::metrics::{AddMetric, ApplicationLabelValue, MetricLabelValue, init_counters, pairs};
use domain_base::application::ApplicationName;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_upstream::interaction::{InteractionStatus, PERMANENT_STATUSES};
use domain_upstream::oracle::OracleId;
use domain_verdict::event::OracleInteraction;
use domain_verdict::generation_outcome::GenerationOutcome;
use domain_verdict::label::ProductTier;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
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
struct GenerationLabels {
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
struct ModelAttemptLabels {
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
struct RefusedRequestLabels {
    status: u16,
}

/// The labels of a cost.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CostLabels {
    /// Empty for a trial of a prompt.
    application: Option<ApplicationLabelValue>,
    model: String,
    tier: MetricLabelValue,
}

/// The label of a token count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    direction: MetricLabelValue,
}

/// The metrics of requested verdicts and calls of the model.
#[derive(Debug, Clone)]
pub struct GenerationMetrics {
    outcomes: Family<GenerationLabels, Counter>,
    attempts: Family<ModelAttemptLabels, Counter>,
    retries: Counter,
    attempt_seconds: Histogram,
    tokens: Family<TokenLabels, Counter>,
    costs: Family<CostLabels, Counter<f64, AtomicU64>>,
    refused_requests: Family<RefusedRequestLabels, Counter>,
}

impl GenerationMetrics {
    /// The metrics of verdicts of `applications` by models. The costs of `models` begin at 0. Other applications and models
    /// are added with their first verdict.
    pub fn register<'a>(
        registry: &mut Registry,
        applications: &[ApplicationName],
        models: impl Iterator<Item = &'a OracleId>,
    ) -> Self {
        let outcomes: Vec<_> = pairs(&PATHS, GenerationOutcome::VARIANTS).collect();
        let costs = Family::default();
        for oracle_id in models {
            for (application, tier) in pairs(applications, &ProductTier::ALL) {
                let (application, model) = (Some(ApplicationLabelValue(application)), oracle_id.to_string());
                let tier = MetricLabelValue(tier.into_str());
                drop(costs.get_or_create(&CostLabels { application, model, tier }));
            }
        }
        Self {
            outcomes: registry.add(
                "verdicts_made",
                "verdicts requested from the model, by application, path and outcome",
                init_counters(
                    pairs(applications, &outcomes).map(|(application, (path, outcome))| {
                        GenerationLabels::new(application, path, outcome)
                    }),
                ),
            ),
            attempts: registry.add(
                "model_attempts",
                "requests to the model, by path and status",
                init_counters(
                    pairs(&CALL_PATHS, InteractionStatus::VARIANTS)
                        .map(|(path, status)| ModelAttemptLabels::new(path, status)),
                ),
            ),
            retries: registry.add(
                "model_retries",
                "requests to the model after the first of a call",
                Counter::default(),
            ),
            refused_requests: registry.add(
                "model_refused_requests",
                "requests that the model refused permanently, by HTTP status",
                init_counters(PERMANENT_STATUSES.map(|status| RefusedRequestLabels { status })),
            ),
            attempt_seconds: registry.add_seconds(
                "model_attempt",
                "time of a request to the model",
                Histogram::new(exponential_buckets(0.01, 2.0, 13)),
            ),
            tokens: registry.add(
                "model_tokens",
                "tokens that the model read and wrote",
                init_counters(
                    DIRECTIONS.map(|direction| TokenLabels { direction: MetricLabelValue(direction) }),
                ),
            ),
            costs: registry.add(
                "model_cost",
                "cost of model calls in the configured currency, by application, model and tier",
                costs,
            ),
        }
    }

    /// Counts a verdict that was requested on `path` for `application`, with its outcome.
    pub(super) fn count_outcome(
        &self,
        application: ApplicationName,
        path: GatePath,
        outcome: GenerationOutcome,
    ) {
        self.outcomes.get_or_create(&GenerationLabels::new(application, path, outcome)).inc();
    }

    /// Counts a request that the model's service refused permanently with `status`.
    pub(super) fn count_refused_request(&self, status: u16) {
        self.refused_requests.get_or_create(&RefusedRequestLabels { status }).inc();
    }

    /// Counts the attempts of one call of the model.
    pub(super) fn count_attempts(&self, attempts: &[AuditEvent]) {
        for attempt in attempts {
            let Some(OracleInteraction(interaction)) = attempt.kind.get() else { continue };
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
}
