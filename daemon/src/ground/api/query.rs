//! `POST /v1/query`: queries of registered sources.

use crate::platform::api::batch;
use crate::platform::api::request::batch_lines::BatchLine;
use crate::platform::api::request::{JsonBody, parse};
use crate::platform::api::reserved_body::{ReservedBody, json_response};
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use actors_ground::queries::{CallerWaitCheck, QueryAnswerPage, QueryService};
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use domain_ground::query::{OracleQuery, QueryAnswer};
use hyper::StatusCode;
use oracled_api::base::problem::ProblemCode;
use oracled_api::ground::QueryBatchAnswer;
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
    let to_json = |answer: &QueryAnswer| {
        serde_json::to_vec(answer).expect("an answer is plain data with text for keys")
    };
    let body = service.run_work(answer_query(queries, query, still_waiting, to_json));
    Ok(json_response(StatusCode::OK, body.await?))
}

problems!(BatchProblems: STORE; UnsupportedMediaType);

/// Run many queries, one per line.
///
/// Each line is a request as of `POST /v1/query`, for example with its own `point_in_time`. The answer has one line for each, in
/// the same order. An invalid line gets a problem as its answer, and the other lines are still answered.
#[utoipa::path(
    post,
    path = "/v1/query:batch",
    operation_id = "query_sources",
    tag = "ground",
    request_body(content = OracleQuery, content_type = "application/x-ndjson", description = "One query per line"),
    responses(
        BatchProblems,
        (status = 200, description = "One answer per line", body = QueryBatchAnswer, content_type = "application/x-ndjson"),
    ),
)]
pub async fn batch(
    State(service): State<Arc<DaemonService>>,
    Extension(still_waiting): Extension<CallerWaitCheck>,
    request: Request,
) -> Result<Response, Problem> {
    batch::respond(&service, request, |lines, sender| {
        let answering = Arc::clone(&service);
        // one at a time, since an answer can take much memory
        batch::answer_each(Arc::clone(&service), lines, sender, 1, move |line| {
            answer_line(Arc::clone(&answering), line, still_waiting.clone())
        })
    })
}

async fn answer_line(
    service: Arc<DaemonService>,
    BatchLine { number: line, text }: BatchLine,
    still_waiting: CallerWaitCheck,
) -> ReservedBody {
    let to_answer = move |answer: &QueryAnswer| {
        batch::to_line(&QueryBatchAnswer { line, answer: Some(answer), problem: None })
    };
    let answered = match text.and_then(|text| parse::<OracleQuery>(&text)) {
        Ok(query) => {
            let queries = service.system.queries.clone();
            Box::pin(service.run_work_queued(answer_query(queries, query, still_waiting, to_answer))).await
        }
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(|problem| {
        let answer = QueryBatchAnswer { line, answer: None, problem: Some(problem.to_raw()) };
        ReservedBody::new(batch::to_line(&answer), None)
    })
}

/// Runs a query, and writes its answer by `write`.
async fn answer_query(
    queries: QueryService,
    query: OracleQuery,
    still_waiting: CallerWaitCheck,
    write: impl FnOnce(&QueryAnswer) -> Vec<u8> + Send + 'static,
) -> Result<ReservedBody, Problem> {
    let QueryAnswerPage { answer, memory_permit } = queries.page(query, still_waiting).await?;
    if memory_permit.is_none() {
        return Ok(ReservedBody::new(write(&answer), None));
    }
    // serializing a long answer would block other requests
    let body = spawn_blocking(move || ReservedBody::new(write(&answer), memory_permit)).await;
    body.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))
}
