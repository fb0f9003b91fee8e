//! Circuits of upstream systems.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::health::{CircuitAction, CircuitCallOutcome, OracleHealthStatus};
use serde::{Deserialize, Serialize};

/// `POST /v1/health/oracles/{oracle_id}`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CircuitRequest {
    /// `open`, `close` or `probe`.
    pub action: CircuitAction,
}

/// The result of a change to a circuit.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CircuitResponse {
    /// The health of the oracle now.
    pub oracle: OracleHealthStatus,
    /// The result of the probe; null if none was requested.
    pub probe: Option<ProbeReport>,
}

/// The result of a probe.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProbeReport {
    /// Whether the probe succeeded; null if the answer shows neither success nor failure.
    pub succeeded: Option<bool>,
    /// The kind of its failure.
    pub error: Option<String>,
}

impl From<CircuitCallOutcome> for ProbeReport {
    fn from(outcome: CircuitCallOutcome) -> Self {
        match outcome {
            CircuitCallOutcome::Success { .. } => Self { succeeded: Some(true), error: None },
            CircuitCallOutcome::Failure(error) | CircuitCallOutcome::Refusal(error) => {
                Self { succeeded: Some(false), error: Some(error.to_string()) }
            }
            CircuitCallOutcome::Neutral => Self { succeeded: None, error: None },
        }
    }
}
