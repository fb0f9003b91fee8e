//! The configuration of health monitoring.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use utoipa::ToSchema;

/// The configuration of an oracle's health monitoring. The names and defaults are the seed's; no number may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OracleHealthConfig {
    /// Interval between probes, which cost no tokens.
    #[schema(value_type = u32, minimum = 1)]
    pub health_check_interval_seconds: NonZeroU32,
    /// Number of consecutive failed calls that open the circuit.
    #[schema(value_type = u32, minimum = 1)]
    pub failure_threshold: NonZeroU32,
    /// Number of consecutive successes that make an oracle healthy again.
    #[schema(value_type = u32, minimum = 1)]
    pub recovery_threshold: NonZeroU32,
    /// Whether calls stop while an oracle fails.
    pub circuit_breaker_enabled: bool,
    /// Time that a circuit stays open before one call at a time is allowed.
    #[schema(value_type = u32, minimum = 1)]
    pub circuit_breaker_reset_seconds: NonZeroU32,
}

impl Default for OracleHealthConfig {
    fn default() -> Self {
        Self {
            health_check_interval_seconds: const { count(60) },
            failure_threshold: const { count(3) },
            recovery_threshold: const { count(2) },
            circuit_breaker_enabled: true,
            circuit_breaker_reset_seconds: const { count(30) },
        }
    }
}

const fn count(value: u32) -> NonZeroU32 {
    match NonZeroU32::new(value) {
        Some(count) => count,
        None => NonZeroU32::MIN,
    }
}

pub(super) fn seconds(seconds: NonZeroU32) -> SignedDuration {
    SignedDuration::from_secs(seconds.get().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_has_defaults_of_the_seed_and_rejects_zero() {
        let read = |text: &str| serde_json::from_str::<OracleHealthConfig>(text);
        let seeds = r#"{"health_check_interval_seconds":60,"failure_threshold":3,"recovery_threshold":2,
            "circuit_breaker_enabled":true,"circuit_breaker_reset_seconds":30}"#;
        assert_eq!(read("{}").expect("all has a default"), read(seeds).expect("valid settings"));
        for refused in [r#"{"failure_threshold":0}"#, r#"{"failure_limit":1}"#] {
            read(refused).expect_err(refused);
        }
    }
}
