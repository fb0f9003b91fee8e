//! The metrics of verdicts that the model makes.

use super::{Word, counters, pairs};
use oracled_domain::verdict::divergence::OriginalLabel;
use oracled_domain::verdict::interaction::{PERMANENT_STATUSES, Status};
use oracled_domain::{DivergenceCheck, DivergenceLevel, Event, EventKind, GatePath, Label};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use strum::{IntoStaticStr, VariantArray};

/// The paths on which the model is called.
const PATHS: [GatePath; 2] = [GatePath::Generate, GatePath::Regen];
/// The kinds of the model's tokens.
const DIRECTIONS: [&str; 2] = ["prompt", "output"];

/// The outcome of a request for a verdict by the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum MadeOutcome {
    Delivered,
    Regenerated,
    Replayed,
    Rejected,
    RefusedByRules,
    SessionMismatch,
    SessionUnknown,
    DeliveredAlready,
    NoModel,
    RateLimited,
    ModelBusy,
    CircuitOpen,
    QuotaWait,
    RequestRefused,
    ModelUnavailable,
    ModelTimeout,
    PromptBlocked,
    StoppedEarly,
    Declined,
    EmptyAnswer,
    StorageFailed,
    Failed,
}

/// The labels of a requested verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct MadeAs {
    path: Word,
    outcome: Word,
}

impl MadeAs {
    const fn new(path: GatePath, outcome: MadeOutcome) -> Self {
        Self { path: Word(path.into_str()), outcome: Word(outcome.into_str()) }
    }
}

/// The labels of an attempt to call the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AttemptAs {
    path: Word,
    status: Word,
}

impl AttemptAs {
    const fn new(path: GatePath, status: Status) -> Self {
        Self { path: Word(path.into_str()), status: Word(status.into_str()) }
    }
}

/// The label of a request that the model refused permanently.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusedWith {
    status: u16,
}

/// The label of a token count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Direction {
    direction: Word,
}

/// The labels of a comparison with the first verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ComparedAs {
    original: Word,
    regenerated: Word,
    level: Word,
}

impl ComparedAs {
    fn new(original: OriginalLabel, regenerated: Label, level: Option<DivergenceLevel>) -> Self {
        Self {
            original: Word(original.as_str()),
            regenerated: Word(regenerated.into_str()),
            level: Word(level.map_or("unknown", Into::into)),
        }
    }

    /// All combinations of labels.
    fn all() -> impl Iterator<Item = Self> {
        let originals: Vec<_> = Label::ALL.map(Some).into_iter().chain([None]).map(OriginalLabel).collect();
        let levels: Vec<_> = DivergenceLevel::ALL.map(Some).into_iter().chain([None]).collect();
        let labels: Vec<_> = pairs(&originals, &Label::ALL).collect();
        let all: Vec<_> = pairs(&labels, &levels).collect();
        all.into_iter().map(|((original, regenerated), level)| Self::new(original, regenerated, level))
    }
}

/// The metrics of requested verdicts and calls of the model.
#[derive(Debug, Clone)]
pub(crate) struct Making {
    made: Family<MadeAs, Counter>,
    attempts: Family<AttemptAs, Counter>,
    retries: Counter,
    attempt_seconds: Histogram,
    tokens: Family<Direction, Counter>,
    refused_requests: Family<RefusedWith, Counter>,
    compared: Family<ComparedAs, Counter>,
}

impl Default for Making {
    fn default() -> Self {
        Self {
            refused_requests: counters(PERMANENT_STATUSES.map(|status| RefusedWith { status })),
            made: counters(
                pairs(&PATHS, MadeOutcome::VARIANTS).map(|(path, outcome)| MadeAs::new(path, outcome)),
            ),
            attempts: counters(
                pairs(&PATHS, Status::VARIANTS).map(|(path, status)| AttemptAs::new(path, status)),
            ),
            retries: Counter::default(),
            attempt_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 13)),
            tokens: counters(DIRECTIONS.map(|direction| Direction { direction: Word(direction) })),
            compared: counters(ComparedAs::all()),
        }
    }
}

impl Making {
    /// Counts a verdict that was requested on `path`, with its outcome.
    pub(crate) fn ended(&self, path: GatePath, outcome: MadeOutcome) {
        self.made.get_or_create(&MadeAs::new(path, outcome)).inc();
    }

    /// Counts a request that the model's service refused permanently with `status`.
    pub(crate) fn refused_request(&self, status: u16) {
        self.refused_requests.get_or_create(&RefusedWith { status }).inc();
    }

    /// Counts the attempts of one call of the model.
    pub(crate) fn called(&self, attempts: &[Event]) {
        for attempt in attempts {
            let EventKind::OracleInteraction(interaction) = &attempt.kind else { continue };
            self.attempts.get_or_create(&AttemptAs::new(interaction.path, interaction.status)).inc();
            self.retries.inc_by(u64::from(interaction.attempt > 1));
            self.attempt_seconds.observe(interaction.latency_ms as f64 / 1000.0);
            let usage = interaction.usage.as_ref();
            let tokens =
                [usage.and_then(|usage| usage.prompt_tokens), usage.and_then(|usage| usage.output_tokens)];
            for (direction, tokens) in DIRECTIONS.into_iter().zip(tokens) {
                let direction = Direction { direction: Word(direction) };
                // the model reports this number; no answer has more tokens, and the counter must not wrap
                let tokens = tokens.unwrap_or_default().min(u64::from(u32::MAX));
                self.tokens.get_or_create(&direction).inc_by(tokens);
            }
        }
    }

    /// Counts a regenerated verdict by its divergence from the first.
    pub(crate) fn compared(&self, check: &DivergenceCheck) {
        let labels = ComparedAs::new(check.original_verdict, check.regen_verdict, check.divergence_level);
        self.compared.get_or_create(&labels).inc();
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "verdicts_made",
            "verdicts requested from the model, by path and outcome",
            self.made.clone(),
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
            "regens_compared",
            "regenerated verdicts, by original label, regenerated label and divergence level",
            self.compared.clone(),
        );
    }
}
