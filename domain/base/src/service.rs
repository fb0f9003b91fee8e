//! The daemon itself: health, draining, log level, reloads, and reports on supervised actors.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The answer of `/healthz`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LivenessResponse {
    /// Always `alive`.
    pub status: &'static str,
    /// The daemon's version.
    pub version: &'static str,
}

/// The answer of `/readyz`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ReadinessResponse {
    /// Whether verdicts are accepted.
    pub ready: bool,
    /// Why not; empty if they are accepted.
    pub reasons: Vec<String>,
    /// What does not work although verdicts are accepted, such as `models_unavailable`: no model can answer, so orders wait.
    pub degraded: Vec<String>,
    /// True in test mode, else absent: verdicts can be canned, and mails go to files.
    #[serde(skip_serializing_if = "is_false")]
    pub test_mode: bool,
}

/// Whether a member that is true or absent is absent.
#[must_use]
pub const fn is_false(value: &bool) -> bool {
    !*value
}

/// Whether a count that is left out of the JSON if it is 0 is left out.
#[must_use]
pub const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The OpenAPI 3.1 document of a socket.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct OpenApiDocument {
    /// The version of the OpenAPI Specification.
    #[schema(example = "3.1.0")]
    pub openapi: String,
    /// The title and the version of the API.
    pub info: Value,
    /// The operations, by path and method.
    pub paths: Value,
    /// The schemas.
    pub components: Value,
}

/// `POST /v1/drain`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// True to reject new work and begin no scheduled pull, false to accept both again.
    pub draining: bool,
}

/// The state of draining.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DrainResponse {
    /// Whether new work is rejected.
    pub draining: bool,
    /// Verdicts that are still being judged.
    pub in_flight: usize,
}

/// The level of the service log.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LogLevel {
    /// The level, as filter directives of tracing.
    pub level: String,
}

/// The result of a reload.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReloadResponse {
    /// The log level in force.
    pub log_level: String,
    /// Changed configuration keys that need a restart.
    pub needs_restart: Vec<String>,
    /// Configuration keys whose credentials changed, and are in use from now on.
    pub changed_credentials: Vec<String>,
}

/// The last panic of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActorPanic {
    /// The panic message.
    pub message: String,
    /// The time of the panic.
    pub at: Timestamp,
}

/// The state of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActorReport {
    /// The actor's name.
    pub name: String,
    /// The number of restarts after a panic.
    pub restarts: u64,
    /// The last panic.
    pub last_panic: Option<ActorPanic>,
    /// The number of answered messages.
    pub handled: u64,
    /// The number of messages in the queue.
    pub queue_depth: u64,
    /// The median time from sending a message to its answer over the last one to two minutes, in microseconds.
    pub latency_p50_us: u64,
    /// The 99th percentile of the same time, in microseconds.
    pub latency_p99_us: u64,
    /// The maximum of the same time, in microseconds.
    pub latency_max_us: u64,
}
