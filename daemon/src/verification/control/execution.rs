//! `GET /v1/executions/{execution_id}`: the decisions of one question with their inputs, from the log only.

use crate::platform::control::control_request::parse_name;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verification::api::verify::read_decisions;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use oracled_api::verification::{ExplainResponse, ExplainedDecision};
use std::sync::Arc;

/// The decisions of an execution, each as it was returned, and whether it can be reproduced.
///
/// # Errors
/// `ExecutionUnknown`; `DecisionAltered` if the logged envelope differs from the one that was returned.
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    execution_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ExplainResponse>, Problem> {
    let decisions = read_decisions(&service.system.store, parse_name(execution_id)?).await?;
    let told = decisions.into_iter().map(|entry| {
        entry.read_envelope()?;
        let reproduced = entry.is_reproduced();
        Ok(ExplainedDecision { inputs: entry.inputs, envelope: entry.envelope, reproduced })
    });
    Ok(Json(ExplainResponse { decisions: told.collect::<Result<_, Problem>>()? }))
}
