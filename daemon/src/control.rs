//! The control socket. Each feature declares its routes.
//!
//! Every change is an audit event with the peer's uid, gid and pid, committed before the change takes effect.
//! No handler regenerates a verdict, changes a constant or approves a verdict.

mod documents;
pub mod reload;
pub mod status;

use crate::audit::control::backup;
use crate::ground::control::{ingest, upkeep};
use crate::platform::api::serving::{reject_params, serve_routes};
use crate::platform::control::control_request::PATHS;
use crate::platform::openapi::{Routes, describe};
use crate::platform::service::DaemonService;
use crate::verdict::control::{erasures, retention};
use crate::{audit, ground, platform, verdict, verification};
use axum::{Extension, Router};
use hyper::Request;
use oracled_api::audit::HiddenValue;
use oracled_api::base::problem::ProblemDocument;
use reload::DaemonStart;
use std::sync::{Arc, LazyLock};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The description of the control socket, without its routes.
#[derive(OpenApi)]
#[openapi(
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
)]
struct ControlOpenApi;

/// Every route of the control socket.
fn routes() -> Routes {
    let routes = OpenApiRouter::new()
        .routes(routes!(status::get))
        .routes(routes!(reload::post))
        .merge(platform::control::routes())
        .merge(audit::control::routes())
        .merge(documents::routes())
        .merge(ground::control::routes())
        .merge(verification::control::routes())
        .merge(verdict::control::routes());
    reject_params(routes)
}

/// The description of the control socket, as JSON.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| describe(ControlOpenApi::openapi(), routes()));
    &DOCUMENT
}

/// The router of the control socket.
pub fn router(service: Arc<DaemonService>, start: Arc<DaemonStart>) -> Router {
    let router = serve_routes(routes(), document(), PATHS).layer(Extension(start));
    // not described: builds with debug assertions have it, for tests
    #[cfg(debug_assertions)]
    let router =
        router.route("/v1/inject-panic/{actor}", axum::routing::post(platform::control::inject_panic::post));
    router.with_state(service)
}

/// Whether a request has no time limit, because its work is only limited by the size of the disk.
pub fn has_no_time_limit<B>(request: &Request<B>) -> bool {
    ingest::is_upload(request)
        || backup::has_no_time_limit(request)
        || upkeep::has_no_time_limit(request)
        || erasures::has_no_time_limit(request)
        || retention::has_no_time_limit(request)
}
