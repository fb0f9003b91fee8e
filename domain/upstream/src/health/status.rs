//! The health of an oracle, as reports show it.

#[cfg(doc)]
use super::ERROR_MAX_CHARS;
use crate::oracle::OracleId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The status of an oracle, in the seed's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OracleHealthLevel {
    /// It answers.
    Healthy,
    /// It failed recently, but not often enough to be unhealthy.
    Degraded,
    /// It fails; if its circuit was open, one call at a time is permitted now.
    Unhealthy,
    /// It is not called.
    CircuitOpen,
    /// It rejects every call since `circuit_opened_at`, because of its key, its credit or its name. First verdicts are not
    /// requested from it until `retry_at`.
    Refusing,
}

impl OracleHealthLevel {
    /// All statuses, the best first.
    pub const ALL: [Self; 5] =
        [Self::Healthy, Self::Degraded, Self::Unhealthy, Self::CircuitOpen, Self::Refusing];

    /// Whether an oracle with this status is called for first verdicts at all times.
    #[must_use]
    pub const fn accepts_calls(self) -> bool {
        !matches!(self, Self::CircuitOpen | Self::Refusing)
    }
}

/// The health of an oracle: the seed's fields, then fields for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OracleHealthStatus {
    /// The oracle.
    pub oracle_id: OracleId,
    /// Its status.
    pub status: OracleHealthLevel,
    /// The time of its last success.
    pub last_success_at: Option<Timestamp>,
    /// The time of its last failure.
    pub last_failure_at: Option<Timestamp>,
    /// The number of consecutive failures.
    pub consecutive_failures: u32,
    /// The median time to an answer over the last 256 successful calls, in milliseconds; 0 while there are none.
    pub latency_p50_ms: u64,
    /// The 99th percentile of the same times, in milliseconds.
    pub latency_p99_ms: u64,
    /// The time at which its circuit was opened, if it is open or half open, or since which it rejects every call.
    pub circuit_opened_at: Option<Timestamp>,
    /// The time of the next call: when its open circuit permits a call, or when the wait that it requested is over
    /// (HTTP 429 or 503 with `Retry-After`). Null if calls are permitted, or an administrator decides.
    pub retry_at: Option<Timestamp>,
    /// Whether an administrator holds its circuit open.
    pub held_open: bool,
    /// Its last error, cut at 200 characters.
    pub last_error: Option<String>,
}

impl OracleHealthStatus {
    /// That the oracle rejects every call, since when and why; `None` unless it does.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let since = self.circuit_opened_at.filter(|_| self.status == OracleHealthLevel::Refusing)?;
        let error = self.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        Some(format!("every call refused since {since:.0}{error}"))
    }
}
