//! `POST /v1/crosscheck`: judges a verdict and logs the judgment, without delivery.

use crate::platform::api::request::{self, JsonBody};
use crate::platform::openapi::problems;
use crate::platform::openapi::{JSON_BODY, STORE};
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::problem::SUBMISSION;
use crate::verdict::request::{parse_payload, parse_query, parse_tier};
use actors_verdict::crosscheck::JudgeVerdict;
use actors_verdict::submission::{Submission, SubmissionOutcome};
use axum::extract::State;
use axum::{Extension, Json};
use domain_base::application::ApplicationName;
use domain_base::gate_path::GatePath;
use domain_base::problem::INTERNAL_ERROR;
use domain_verdict::crosscheck::CrosscheckDecision;
use domain_verdict::session::SessionCaller;
use domain_verdict::wire::CrosscheckRequest;
use std::sync::Arc;

problems!(CheckProblems: JSON_BODY SUBMISSION STORE);

/// Check a verdict without delivery.
///
/// The check is logged. Nothing is delivered.
#[utoipa::path(
    post,
    path = "/v1/crosscheck",
    operation_id = "check_verdict",
    tag = "verdict",
    request_body = CrosscheckRequest,
    responses(
        CheckProblems,
        (status = 200, description = "The decision, approved or not", body = CrosscheckDecision),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(application): Extension<ApplicationName>,
    body: JsonBody,
) -> Result<Json<CrosscheckDecision>, Problem> {
    let CrosscheckRequest { session_id, tier, query, verdict, raw } = body.parse()?;
    let limits = &service.limits;
    let submission = Submission {
        session_id: request::parse_session_id(session_id, Some(&application), limits)?,
        // a check changes no session
        caller: SessionCaller::Daemon,
        tier: parse_tier(&tier)?,
        query: parse_query(query, limits)?,
        payload: Some(parse_payload(verdict.as_deref(), raw.as_deref())?),
        customer_email: None,
        path: GatePath::Check,
        prompt: None,
        generation_trace: None,
        check: None,
    };
    let crosscheck = service.system.crosscheck.clone();
    let outcome =
        service.run_work(async move { Ok(crosscheck.ask(JudgeVerdict(submission)).await??) }).await?;
    match outcome {
        SubmissionOutcome::Checked(decision) => Ok(Json(decision)),
        // the outcome has the verdict, which a problem does not quote
        _ => Err(Problem::new(INTERNAL_ERROR, "a check ended with the outcome of a delivery")),
    }
}
