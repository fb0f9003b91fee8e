//! `GET /v1/executions/{execution_id}`: the decisions of one question with their inputs, from the log only.

use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verification::api::verify::read_decisions;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_verification::event::VerificationEntry;
use domain_verification::logged_verification::LoggedVerification;
use oracled_api::verification::{ExplainResponse, ExplainedDecision};
use std::sync::Arc;

problems!(ExplainProblems: STORE; ExecutionUnknown DecisionAltered);

/// Read the decisions of a verification with their inputs, and whether they can be reproduced.
#[utoipa::path(
    get,
    path = "/v1/executions/{execution_id}",
    operation_id = "explain_verification",
    tag = "verification",
    params(("execution_id" = String, Path, description = "The `execution_id` of the envelope")),
    responses(
        ExplainProblems,
        (status = 200, description = "The decisions, each as it was returned", body = ExplainResponse),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    execution_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ExplainResponse>, Problem> {
    let decisions = read_decisions(&service.system.store, parse_name(execution_id)?).await?;
    let mut explained = ExplainResponse { decisions: Vec::new(), erased: Vec::new() };
    for decision in decisions {
        match decision {
            LoggedVerification::Whole(entry) => {
                entry.read_envelope()?;
                let reproduced = entry.is_reproduced();
                let VerificationEntry { inputs, envelope, .. } = *entry;
                explained.decisions.push(ExplainedDecision { inputs, envelope, reproduced });
            }
            LoggedVerification::Erased(erased) => explained.erased.push(erased),
        }
    }
    Ok(Json(explained))
}
