//! Routes that describe themselves with `#[utoipa::path]`.
//!
//! utoipa-axum makes the description together with the router, which took half of the processor time of a start. Here the first request
//! that depends on it makes it.

use super::service::DaemonService;
use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, Route};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use tower::{Layer, Service};
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::HttpMethod;

/// Routes with their descriptions.
pub(crate) struct Routes {
    router: Router<Arc<DaemonService>>,
    descriptions: Vec<RoutesDescription>,
}

/// How some routes are described.
enum RoutesDescription {
    ByUtoipa(fn() -> OpenApi),
    /// The description of these, changed.
    Changed(Vec<RoutesDescription>, fn(&mut OpenApi)),
}

impl RoutesDescription {
    fn add_to(&self, document: &mut OpenApi) {
        match self {
            Self::ByUtoipa(describe) => document.merge(describe()),
            Self::Changed(described, change) => {
                let mut own = OpenApi::default();
                described.iter().for_each(|routes| routes.add_to(&mut own));
                change(&mut own);
                document.merge(own);
            }
        }
    }
}

impl Routes {
    /// No routes, and the description of those that follow. Use `routes!`.
    pub(crate) fn described_by(description: fn() -> OpenApi) -> Self {
        let descriptions = vec![RoutesDescription::ByUtoipa(description)];
        Self { router: Router::new(), descriptions }
    }

    /// Adds a handler, which `P` describes.
    pub(crate) fn handle<P: utoipa::Path, T: 'static>(
        mut self,
        handler: impl Handler<T, Arc<DaemonService>>,
    ) -> Self {
        let methods = P::methods()
            .into_iter()
            .fold(MethodRouter::new(), |router, method| router.on(filter(&method), handler.clone()));
        self.router = self.router.route(&P::path(), methods);
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.descriptions.extend(other.descriptions);
        self
    }

    /// Changes the description of the routes so far.
    pub(crate) fn describe_further(mut self, change: fn(&mut OpenApi)) -> Self {
        self.descriptions = vec![RoutesDescription::Changed(self.descriptions, change)];
        self
    }

    /// Adds a layer to the routes so far.
    pub(crate) fn route_layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request, Error: Into<Infallible> + 'static, Response: IntoResponse + 'static>
            + Clone
            + Send
            + Sync
            + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.router = self.router.route_layer(layer);
        self
    }

    pub(crate) fn into_router(self) -> Router<Arc<DaemonService>> {
        self.router
    }

    /// Adds the descriptions of all routes.
    pub(crate) fn describe(&self, document: &mut OpenApi) {
        self.descriptions.iter().for_each(|routes| routes.add_to(document));
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Routes").finish_non_exhaustive()
    }
}

fn filter(method: &HttpMethod) -> MethodFilter {
    match method {
        HttpMethod::Get => MethodFilter::GET,
        HttpMethod::Post => MethodFilter::POST,
        HttpMethod::Put => MethodFilter::PUT,
        HttpMethod::Delete => MethodFilter::DELETE,
        HttpMethod::Options => MethodFilter::OPTIONS,
        HttpMethod::Head => MethodFilter::HEAD,
        HttpMethod::Patch => MethodFilter::PATCH,
        HttpMethod::Trace => MethodFilter::TRACE,
    }
}

/// The routes of handlers with `#[utoipa::path]`, each named as `handler` or `module::handler`.
macro_rules! routes {
    ($($name:ident $(:: $handler:ident)?),+ $(,)?) => {{
        #[derive(utoipa::OpenApi)]
        #[openapi(paths($($name $(:: $handler)?),+))]
        struct DescribedPaths;

        $crate::platform::routes::Routes::described_by(<DescribedPaths as utoipa::OpenApi>::openapi)
            $(.handle::<$crate::platform::routes::description_of!($name $(:: $handler)?), _>($name $(:: $handler)?))+
    }};
}
pub(crate) use routes;

/// The type that `#[utoipa::path]` declares beside a handler.
macro_rules! description_of {
    ($handler:ident) => {
        pastey::paste! { [<__path_ $handler>] }
    };
    ($module:ident :: $handler:ident) => {
        pastey::paste! { $module :: [<__path_ $handler>] }
    };
}
pub(crate) use description_of;
