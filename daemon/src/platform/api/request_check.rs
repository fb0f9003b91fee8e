//! A layer that answers requests which a check refuses.
//!
//! The middleware of axum allocates a future and a copy of the service for each request; a check needs neither.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, Ready, ready};
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// The layer with a check. A request that it refuses gets its error as the response.
#[derive(Debug, Clone)]
pub(crate) struct RequestCheck<C>(pub(crate) C);

/// A service with a check before it.
#[derive(Debug, Clone)]
pub(crate) struct CheckedService<C, S> {
    check: C,
    inner: S,
}

impl<C: Clone, S> Layer<S> for RequestCheck<C> {
    type Service = CheckedService<C, S>;

    fn layer(&self, inner: S) -> Self::Service {
        CheckedService { check: self.0.clone(), inner }
    }
}

impl<C, E, S> Service<Request> for CheckedService<C, S>
where
    C: Fn(&Request) -> Result<(), E>,
    E: IntoResponse,
    S: Service<Request, Response = Response>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match (self.check)(&request) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(refused) => Either::Right(ready(Ok(refused.into_response()))),
        }
    }
}
