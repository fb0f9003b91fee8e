//! What is counted of verdicts that oracled has made.

use super::Word;
use crate::upstream::failure::PERMANENT_STATUSES;
use crate::upstream::{Called, ModelError};
use domain::interaction::Status;
use domain::{DivergenceCheck, GatePath};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The labels of a verdict that was to be made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct MadeAs {
    path: Word,
    outcome: Word,
}

/// The labels of an attempt to call the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AttemptAs {
    path: Word,
    status: Word,
}

/// The label of a request that the model refused for good.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusedWith {
    status: u16,
}

/// The label of tokens.
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

/// All of them.
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
        let refused_requests = Family::default();
        for status in PERMANENT_STATUSES {
            // an alert on an increase needs the counter before the first refusal
            drop(refused_requests.get_or_create(&RefusedWith { status }));
        }
        Self {
            refused_requests,
            made: Family::default(),
            attempts: Family::default(),
            retries: Counter::default(),
            attempt_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 13)),
            tokens: Family::default(),
            compared: Family::default(),
        }
    }
}

impl Making {
    /// Counts a verdict that was to be made on `path`, and what became of it.
    pub(crate) fn ended(&self, path: GatePath, outcome: &'static str) {
        let (path, outcome) = (Word(path.as_str()), Word(outcome));
        self.made.get_or_create(&MadeAs { path, outcome }).inc();
    }

    /// Counts the attempts of one call of the model.
    pub(crate) fn called(&self, called: &Called) {
        if let Err(ModelError::RefusedRequest { status, .. }) = &called.outcome {
            self.refused_requests.get_or_create(&RefusedWith { status: *status }).inc();
        }
        for interaction in &called.interactions {
            let status = match interaction.status {
                Status::Success => "success",
                Status::Timeout => "timeout",
                Status::Error => "error",
                Status::Conflict => "conflict",
            };
            let path = Word(interaction.path.as_str());
            self.attempts.get_or_create(&AttemptAs { path, status: Word(status) }).inc();
            self.retries.inc_by(u64::from(interaction.attempt > 1));
            self.attempt_seconds.observe(interaction.latency_ms as f64 / 1000.0);
            let usage = interaction.usage.as_ref();
            for (direction, tokens) in [
                ("prompt", usage.and_then(|usage| usage.prompt_tokens)),
                ("output", usage.and_then(|usage| usage.output_tokens)),
            ] {
                let direction = Direction { direction: Word(direction) };
                // a model's word; no answer has more, and a counter must not wrap
                let tokens = tokens.unwrap_or_default().min(u64::from(u32::MAX));
                self.tokens.get_or_create(&direction).inc_by(tokens);
            }
        }
    }

    /// Counts a regenerated verdict by how far it is from the first.
    pub(crate) fn compared(&self, check: &DivergenceCheck) {
        let level = check.divergence_level.map_or("unknown", domain::DivergenceLevel::as_str);
        let labels = ComparedAs {
            original: Word(check.original_verdict.as_str()),
            regenerated: Word(check.regen_verdict.as_str()),
            level: Word(level),
        };
        self.compared.get_or_create(&labels).inc();
    }

    /// Adds them to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "verdicts_made",
            "verdicts that the model was to make, by path and what became of them",
            self.made.clone(),
        );
        registry.register(
            "model_attempts",
            "requests to the model, by path and how they ended",
            self.attempts.clone(),
        );
        registry.register(
            "model_retries",
            "requests to the model behind the first of a call",
            self.retries.clone(),
        );
        registry.register(
            "model_refused_requests",
            "calls that the model refused for good, by HTTP status",
            self.refused_requests.clone(),
        );
        registry.register_with_unit(
            "model_attempt",
            "time of a request to the model",
            Unit::Seconds,
            self.attempt_seconds.clone(),
        );
        registry.register("model_tokens", "tokens that the model has read and written", self.tokens.clone());
        registry.register(
            "regens_compared",
            "regenerated verdicts, by the first verdict, their own, and how far they are apart",
            self.compared.clone(),
        );
    }
}
