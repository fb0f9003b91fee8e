//! `POST /v1/query`: queries of registered sources.

use crate::platform::api::request::JsonBody;
use crate::platform::api::reserved_body::ReservedBody;
use crate::platform::api::reserved_body::json_response;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use oracled_actors::ground::queries::{CallerWaitCheck, QueryAnswerPage};
use oracled_api::base::problem::ProblemCode;
use oracled_domain::ground::query::{OracleQuery, QueryAnswer};
use std::sync::Arc;
use tokio::task::spawn_blocking;

problems!(QueryProblems: JSON_BODY QUERY);

/// Query a source.
///
/// The answer has the freshness of the data. In the `axes` of a record every requested axis is present, as null where the
/// record has no value.
#[utoipa::path(
    post,
    path = "/v1/query",
    operation_id = "query_source",
    tag = "ground",
    request_body = OracleQuery,
    responses(
        QueryProblems,
        (status = 200, description = "The records that match", body = QueryAnswer),
    ),
)]
pub async fn post(
    State(service): State<Arc<DaemonService>>,
    Extension(still_waiting): Extension<CallerWaitCheck>,
    body: JsonBody,
) -> Result<Response, Problem> {
    let query = body.parse::<OracleQuery>()?;
    let queries = service.system.queries.clone();
    let body = service.run_work(async move {
        let QueryAnswerPage { answer, memory_permit } = queries.page(query, still_waiting).await?;
        if memory_permit.is_none() {
            return Ok(ReservedBody::new(to_json_bytes(&answer), None));
        }
        // serializing a long answer would block other requests
        let body = spawn_blocking(move || ReservedBody::new(to_json_bytes(&answer), memory_permit)).await;
        body.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))
    });
    Ok(json_response(StatusCode::OK, body.await?))
}

fn to_json_bytes(answer: &QueryAnswer) -> Vec<u8> {
    serde_json::to_vec(answer).expect("an answer is plain data with text for keys")
}
