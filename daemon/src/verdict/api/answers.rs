//! Answers that submitting, ordering and reading a verdict share.

use crate::platform::api::reserved_body::json_response;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use crate::verdict::config::models::{ModelProvider, ModelSection};
use actors_verdict::generation::GenerationError;
use actors_verdict::submission::CachedVerdict;
use axum::response::Response;
use bytes::Bytes;
use domain_base::session_id::SessionId;
use hyper::StatusCode;
use oracled_api::base::problem::ProblemCode;

/// The problem of a verdict that cannot be generated.
pub(super) fn generation_problem(
    service: &DaemonService,
    session_id: &SessionId,
    failed: &GenerationError,
) -> Problem {
    match failed {
        GenerationError::NoModel => no_model_problem(service),
        failed => Problem::generation_failed(session_id, failed),
    }
}

/// The reason why no verdict can be generated, and the remedy.
fn no_model_problem(service: &DaemonService) -> Problem {
    let cause = match service.section::<ModelSection>().provider {
        ModelProvider::None => {
            "no model is configured; send `verdict` or `raw`, or configure `model.provider`".to_owned()
        }
        _ => "the model has no key; see `model.api_key_file`".to_owned(),
    };
    Problem::new(ProblemCode::ModelUnavailable, cause)
}

/// 200 with a verdict that the session already had.
pub(super) fn replayed_response(cached: &CachedVerdict) -> Response {
    json_response(StatusCode::OK, mark_replayed(cached))
}

/// The document with `"replayed":true` as its last member.
fn mark_replayed(cached: &CachedVerdict) -> Bytes {
    let members = cached.body.strip_suffix(b"}").expect("the document is an object");
    [members, br#","replayed":true}"#].concat().into()
}
