//! The routes' socket. Each feature declares its routes.

use crate::platform::api::metrics::{FeatureMetrics, ScrapedMetrics};
use crate::platform::api::request::{PATHS, require_application};
use crate::platform::api::request_check::RequestCheck;
use crate::platform::api::{SocketDescription, reject_params, serve_routes};
use crate::platform::openapi::{operations_of, problem_responses};
use crate::platform::routes::Routes;
use crate::platform::service::DaemonService;
use crate::{ground, platform, rules, upstream, verdict, verification};
use axum::{Extension, Router};
use domain_base::problem::{APPLICATION_UNKNOWN, ProblemDocument};
use domain_verdict::wire::CacheResult;
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

/// The description of the routes' socket, without its routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "oracled: routes",
        description = "The Unix socket for application routes: it judges a model's verdicts before delivery. Errors are `application/problem+json` with a stable `code`.",
    ),
    servers((url = "http://oracled", description = "Over the Unix socket `oracled.sock`; the host name is ignored")),
    tags(
        (name = "verdict", description = "Verdicts, sessions and the cache"),
        (name = "rules", description = "Texts checked against facts"),
        (name = "ground", description = "Sources, their records and changes"),
        (name = "verification", description = "Values verified by several sources"),
        (name = "platform", description = "The daemon itself"),
    ),
    components(schemas(ProblemDocument, CacheResult)),
)]
struct RoutesOpenApi;

/// Every route of the routes' socket.
fn routes() -> Routes {
    let of_applications = verdict::api::routes()
        .merge(rules::routes())
        .merge(ground::api::routes())
        .merge(verification::api::routes())
        .merge(upstream::routes())
        .merge(platform::api::routes());
    // webhooks, probes and scrapers may add parameters of their own
    for_applications(reject_params(of_applications))
        .merge(platform::api::open_routes())
        .merge(ground::api::open_routes())
}

/// The routes, for callers of an application only.
fn for_applications(routes: Routes) -> Routes {
    routes.describe_further(describe_refusal).route_layer(RequestCheck(require_application))
}

fn describe_refusal(document: &mut Document) {
    for operation in document.paths.paths.values_mut().flat_map(operations_of) {
        let refused = problem_responses(&[APPLICATION_UNKNOWN]);
        for (status, response) in refused.into_iter().filter(|(status, _)| status == "403") {
            // an operation that declares the status names all of its codes
            operation.responses.responses.entry(status).or_insert(response);
        }
    }
}

/// The description of the routes' socket, as JSON.
#[must_use]
pub fn document() -> &'static str {
    DESCRIPTION.document()
}

static DESCRIPTION: SocketDescription = SocketDescription::new(RoutesOpenApi::openapi, routes);

/// The metrics of each feature.
pub(crate) const METRICS: &[FeatureMetrics] =
    &[upstream::METRICS, ground::METRICS, verification::METRICS, verdict::METRICS];

/// The router of the listener for metrics.
pub(crate) fn metrics_router(service: Arc<DaemonService>) -> Router {
    let router = platform::api::metrics_routes().into_router();
    router.layer(Extension(ScrapedMetrics(METRICS))).with_state(service)
}

/// The router of the routes' socket.
pub fn router(service: Arc<DaemonService>) -> Router {
    serve_routes(routes(), &service, &DESCRIPTION, PATHS)
        .layer(Extension(ScrapedMetrics(METRICS)))
        .fallback(ground::api::handle_other_path)
        .with_state(service)
}
