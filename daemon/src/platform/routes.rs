//! Routes that describe themselves with `#[utoipa::path]`.
//!
//! utoipa-axum makes the description together with the router. That took half of the processor time of a start, and most daemons are
//! never asked for their description. Here the first request that needs it makes it.

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
    /// Each adds to a document, in this order.
    descriptions: Vec<fn(&mut OpenApi)>,
}

impl Routes {
    /// No routes, and the description of those that follow. Use `routes!`.
    pub(crate) fn described_by(description: fn(&mut OpenApi)) -> Self {
        Self { router: Router::new(), descriptions: vec![description] }
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
        self.descriptions.push(change);
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
        for describe in &self.descriptions {
            describe(document);
        }
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
    ($($handler:ident $(:: $of_module:ident)?),+ $(,)?) => {{
        #[derive(utoipa::OpenApi)]
        #[openapi(paths($($handler $(:: $of_module)?),+))]
        struct Described;

        $crate::platform::routes::Routes::described_by(|document| {
            document.merge(<Described as utoipa::OpenApi>::openapi());
        })
        $(.handle::<$crate::platform::routes::description_of!($handler $(:: $of_module)?), _>($handler $(:: $of_module)?))+
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
