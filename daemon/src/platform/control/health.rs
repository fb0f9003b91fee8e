//! `POST /v1/health/oracles/{oracle_id}`: opens or closes an oracle's circuit, or probes it now.

use super::order::named;
use crate::platform::api::request::JsonBody;
use crate::platform::problem::Problem;
use crate::platform::service::{Service, act};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use oracled_actors::upstream::oracle_health::{self, Action, Steer};
use oracled_domain::verdict::health::{HealthStatus, Outcome};
use oracled_domain::{OracleId, Peer};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// `open`, `close` or `probe`.
    pub action: Action,
}

/// What it came to.
#[derive(Debug, Serialize, Deserialize)]
pub struct Steered {
    /// How the oracle is doing now.
    pub oracle: HealthStatus,
    /// How the probe ended; null where none was ordered.
    pub probe: Option<Probed>,
}

/// How a probe ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct Probed {
    /// Whether it succeeded; null where the oracle answered, and not to the question.
    pub succeeded: Option<bool>,
    /// Why not.
    pub error: Option<String>,
}

impl From<oracle_health::Steered> for Steered {
    fn from(steered: oracle_health::Steered) -> Self {
        Self { oracle: steered.status, probe: steered.probe.map(Probed::from) }
    }
}

impl From<Outcome> for Probed {
    fn from(ended: Outcome) -> Self {
        match ended {
            Outcome::Success { .. } => Self { succeeded: Some(true), error: None },
            Outcome::Failure(error) | Outcome::Refusal(error) => {
                Self { succeeded: Some(false), error: Some(error) }
            }
            Outcome::Neutral => Self { succeeded: None, error: None },
        }
    }
}

/// Does it, once its entry is durable.
///
/// # Errors
/// `OracleUnknown`; `Overloaded` where the oracle is being probed already; where the audit entry cannot be committed,
/// and then nothing changes.
pub async fn post(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    oracle_id: Result<Path<String>, PathRejection>,
    body: JsonBody,
) -> Result<Json<Steered>, Problem> {
    let oracle_id: OracleId = named(oracle_id)?;
    let Order { action } = body.parse()?;
    act(async move {
        // a probe takes its time, and changes nothing that another order could cross
        let _turn = if action == Action::Probe { None } else { Some(service.control_turn().await) };
        let steered = service.system.oracle_health.ask(Steer { oracle_id, action, peer }).await??;
        Ok(Json(steered.into()))
    })
    .await
}
