//! Query parameters. An unknown parameter is an error, since it may be misspelled.

use super::discard_body;
use crate::platform::problem::Problem;
use axum::extract::{FromRequestParts, Query, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::Uri;
use hyper::http::request::Parts;
use oracled_api::base::problem::ProblemCode;
use oracled_domain::base::wording::excerpt;
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
        // the text of axum's own error begins with a description of its parser
        let fault = error.source().map_or_else(|| error.body_text(), ToString::to_string);
        Problem::new(ProblemCode::InvalidRequest, fault)
    });
    params.map(|Query(params)| params)
}

/// Rejects each request with query parameters. A layer for the routes that take none.
pub(crate) async fn reject_params(request: Request, next: Next) -> Response {
    let params = request.uri().query().unwrap_or_default();
    let Some(first) = params.split('&').find(|param| !param.is_empty()) else {
        return next.run(request).await;
    };
    let name = excerpt(first.split('=').next().unwrap_or_default());
    let fault = format!("`{name}` is not a query parameter of this path, which has none; remove it");
    discard_body(&mut request.into_body()).await;
    Problem::new(ProblemCode::InvalidRequest, fault).into_response()
}
