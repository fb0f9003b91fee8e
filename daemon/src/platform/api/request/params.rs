//! Query parameters. An unknown one is an error on every route, since it may be a misspelled one.

use super::discard_body;
use crate::platform::problem::Problem;
use axum::extract::{FromRequestParts, Query, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::Uri;
use hyper::http::request::Parts;
use oracled_api::base::problem::ProblemCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::error::Error as _;

/// The query parameters of a request.
pub struct QueryParams<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parse_params(&parts.uri).map(Self)
    }
}

fn parse_params<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let params = Query::try_from_uri(uri).map_err(|error| {
        // axum's own text begins with words about its parser
        let fault = error.source().map_or_else(|| error.body_text(), ToString::to_string);
        Problem::new(ProblemCode::InvalidRequest, fault)
    });
    params.map(|Query(params)| params)
}

/// The parameters of a route that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

/// Rejects each request with query parameters: a layer of the routes that have none.
pub(crate) async fn reject_params(request: Request, next: Next) -> Response {
    match parse_params(request.uri()) {
        Ok(NoParams {}) => next.run(request).await,
        Err(problem) => {
            discard_body(&mut request.into_body()).await;
            problem.into_response()
        }
    }
}
