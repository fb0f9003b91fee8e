//! How an oracle's health is watched.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;

/// How an oracle's health is watched. The names and defaults are the seed's; no number may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthConfig {
    /// How often it is probed, in seconds.
    pub health_check_interval_seconds: NonZeroU32,
    /// So many failures in a row make it unhealthy.
    pub failure_threshold: NonZeroU32,
    /// So many successes in a row make it healthy again.
    pub recovery_threshold: NonZeroU32,
    /// Whether an unhealthy oracle is not called for a while.
    pub circuit_breaker_enabled: bool,
    /// For how long, in seconds.
    pub circuit_breaker_reset_seconds: NonZeroU32,
}

impl Default for HealthConfig {
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

/// `value`, which is not 0.
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
    fn the_defaults_are_the_seeds_and_no_number_may_be_0() {
        let read = |text: &str| serde_json::from_str::<HealthConfig>(text);
        let seeds = r#"{"health_check_interval_seconds":60,"failure_threshold":3,"recovery_threshold":2,
            "circuit_breaker_enabled":true,"circuit_breaker_reset_seconds":30}"#;
        assert_eq!(read("{}").expect("all has a default"), read(seeds).expect("it is read"));
        for refused in [r#"{"failure_threshold":0}"#, r#"{"failure_limit":1}"#] {
            read(refused).expect_err(refused);
        }
    }
}
