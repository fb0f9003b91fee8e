//! The socket for reviewers: reviews, held orders and notices about recalled verdicts, and nothing else.

use crate::platform::api;
use crate::platform::api::{SocketDescription, reject_params, serve_routes};
use crate::platform::inbox::{self, InboxKind};
use crate::platform::routes::{Routes, routes};
use crate::platform::service::DaemonService;
use crate::{verdict, verification};
use axum::Router;
use domain_base::problem::ProblemDocument;
use domain_base::session_id::ApplicationName;
use std::sync::Arc;
use utoipa::OpenApi;

/// The list of the paths of this socket, for errors.
const PATHS: &str =
    "/openapi.json: this is the socket for reviewers, which has only reviews, held orders and notices";

/// The description of the socket for reviewers, without its routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "oracled: reviews",
        description = "The optional Unix socket for reviewers: reviews, held orders and notices about recalled verdicts, and nothing else. Errors are `application/problem+json` with a stable `code`.",
    ),
    servers((url = "http://oracled", description = "Over the Unix socket `review.sock`; the host name is ignored")),
    tags(
        (name = "platform", description = "This description"),
        (name = "verification", description = "Reviews"),
        (name = "verdict", description = "Held orders, and notices about recalled verdicts"),
    ),
    components(schemas(ApplicationName, ProblemDocument)),
)]
struct ReviewOpenApi;

/// The kinds of items in the inbox of reviewers.
const INBOX: &[&[InboxKind]] = &[verification::control::inbox::INBOX, verdict::control::inbox::REVIEW_INBOX];

/// Every route of the socket for reviewers.
fn routes() -> Routes {
    let routes = verification::control::review_routes()
        .merge(verdict::control::review_routes())
        .merge(inbox::routes(INBOX));
    reject_params(routes.merge(routes![api::read_document]))
}

/// The description of the socket for reviewers, as JSON.
#[must_use]
pub fn document() -> &'static str {
    DESCRIPTION.document()
}

static DESCRIPTION: SocketDescription = SocketDescription::new(ReviewOpenApi::openapi, routes);

/// The router of the socket for reviewers.
pub fn router(service: Arc<DaemonService>) -> Router {
    serve_routes(routes(), &service, &DESCRIPTION, PATHS).with_state(service)
}
