//! `/openapi.json`: the description of the control socket.

use super::documents;
use crate::audit::control::{backup, log, proofs};
use crate::ground::api::records;
use crate::ground::control::{freshness, ingest, rejects, run, run_changes, source, upkeep, value_history};
use crate::platform::api::oracles;
use crate::platform::api::reserved_body;
use crate::platform::control::{actors, drain, health, log_level, reload, status};
use crate::platform::openapi::{CommonProblems, Complete, json};
use crate::verdict::control::{
    costs, divergence, erasures, orders, outbox, prompts, purge, retention, session, session_export, webhooks,
};
use crate::verification::control::{execution, review, review_evidence};
use axum::response::Response;
use hyper::StatusCode;
use oracled_api::audit::HiddenValue;
use oracled_api::base::problem::ProblemDocument;
use oracled_api::base::service::OpenApiDocument;
use std::sync::LazyLock;
use utoipa::OpenApi;

/// The description of the control socket.
#[derive(Debug, OpenApi)]
#[openapi(
    modifiers(&Complete),
    info(
        title = "oracled: administration",
        description = "The Unix socket for administrators: `oraclectl` uses it. Errors are `application/problem+json` with a stable `code`.",
    ),
    servers((url = "http://localhost", description = "Over the Unix socket `control.sock`; the host name is ignored")),
    tags(
        (name = "platform", description = "The daemon itself"),
        (name = "audit", description = "The audit log"),
        (name = "documents", description = "Registered documents of all kinds"),
        (name = "ground", description = "Sources, pipelines and runs"),
        (name = "verification", description = "Decisions and reviews"),
        (name = "verdict", description = "Sessions, cached verdicts and mail"),
    ),
    components(schemas(ProblemDocument, HiddenValue)),
    paths(
        status::get,
        actors::get,
        oracles::get_with_errors,
        health::post,
        log_level::get,
        log_level::put,
        drain::post,
        reload::post,
        log::get,
        log::follow,
        proofs::checkpoint,
        proofs::tile,
        proofs::prove_entry,
        proofs::prove_continuation,
        backup::post,
        documents::apply,
        documents::list,
        documents::get,
        documents::put,
        source::get,
        source::review,
        source::invalidate,
        source::confirm,
        freshness::get,
        ingest::post,
        upkeep::pull,
        upkeep::prune,
        upkeep::verify,
        upkeep::rebuild,
        upkeep::export,
        value_history::post,
        records::recorded_provenance,
        run::list,
        run::get,
        run::cancel,
        run::approve,
        run::discard,
        run::undo,
        run_changes::get,
        rejects::get,
        review::list,
        review::get,
        review_evidence::get,
        review::resolve,
        review::revoke,
        review::dismiss,
        review::comment,
        execution::get,
        purge::delete,
        session::get,
        session_export::get,
        session::patch,
        session::delete,
        erasures::post,
        retention::get,
        retention::post,
        costs::get,
        divergence::get,
        orders::list,
        orders::get,
        orders::post,
        orders::read_held,
        prompts::post,
        outbox::get,
        outbox::post,
        outbox::delete,
        webhooks::get,
        webhooks::test,
        webhooks::post,
        webhooks::delete,
        get,
    )
)]
struct ControlOpenApi;

/// The description of the control socket, as JSON.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| json(&ControlOpenApi::openapi()));
    &DOCUMENT
}

/// Read the description of this socket.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "read_openapi",
    tag = "platform",
    responses(
        CommonProblems,
        (status = 200, description = "This document", body = OpenApiDocument),
    ),
)]
pub async fn get() -> Response {
    reserved_body::json_response(StatusCode::OK, document())
}
