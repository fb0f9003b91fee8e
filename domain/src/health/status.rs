//! How an oracle is doing, as it is shown.

#[cfg(doc)]
use super::ERROR_MAX_CHARS;
use crate::oracle::OracleId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How an oracle is doing, in the seed's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It answers.
    Healthy,
    /// It failed lately, and not often enough to be unhealthy.
    Degraded,
    /// It fails; if its circuit was open, one call at a time is let through now.
    Unhealthy,
    /// It is not called.
    CircuitOpen,
}

impl Status {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::Healthy, Self::Degraded, Self::Unhealthy, Self::CircuitOpen];

    /// The status' name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
            Self::CircuitOpen => "circuit_open",
        }
    }
}

/// An oracle's health on one page: the seed's fields, and behind them what an operator needs beside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthStatus {
    /// Which oracle.
    pub oracle_id: OracleId,
    /// How it is doing.
    pub status: Status,
    /// When it last did what it was asked to.
    pub last_success_at: Option<Timestamp>,
    /// When it last failed.
    pub last_failure_at: Option<Timestamp>,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// Time to an answer, median of the last 256 successful calls, in milliseconds; 0 while there are none.
    pub latency_p50_ms: u64,
    /// The same, 99th percentile.
    pub latency_p99_ms: u64,
    /// Since when its circuit is open, or was before it became half open.
    pub circuit_opened_at: Option<Timestamp>,
    /// When it is called again: its open circuit lets a call through, or the wait is over that it asked for (HTTP 429 with
    /// `Retry-After`). Null where no call is held back, or an administrator decides.
    pub retry_at: Option<Timestamp>,
    /// Whether an administrator holds its circuit open.
    pub held_open: bool,
    /// What it failed with last, cut at [`ERROR_MAX_CHARS`].
    pub last_error: Option<String>,
}
