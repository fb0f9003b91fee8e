//! Handlers of verification on the control socket.

pub mod review;

use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::STORE;
use crate::platform::openapi::{Routes, problems};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verification::api::read_decisions;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_verification::event::VerificationEntry;
use domain_verification::problem::{DECISION_ALTERED, EXECUTION_UNKNOWN};
use domain_verification::replay::LoggedVerification;
use domain_verification::wire::{ExplainResponse, ExplainedDecision};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of reviews, on the control socket and on the socket for reviewers.
pub(crate) fn review_routes() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(review::list_reviews))
        .routes(routes!(review::read_review))
        .routes(routes!(review::read_review_evidence))
        .routes(routes!(review::resolve_review))
        .routes(routes!(review::revoke_review))
        .routes(routes!(review::dismiss_review))
        .routes(routes!(review::comment_on_review))
}

/// The routes of the control socket.
pub(crate) fn routes() -> Routes {
    review_routes().routes(routes!(explain_verification))
}

problems!(ExplainProblems: STORE; EXECUTION_UNKNOWN DECISION_ALTERED);

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
pub async fn explain_verification(
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
