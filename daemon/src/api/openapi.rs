//! `/openapi.json`: the description of the routes' socket.

use crate::ground::api::{changes, query, records, signals, sources};
use crate::platform::api::{health, metrics, oracles};
use crate::rules::api::rules;
use crate::verdict::api::{cache, crosscheck, sessions, verdicts};
use crate::verification::api::verify;
use axum::Json;
use oracled_api::base::problem::PROBLEM_MEDIA_TYPE;
use utoipa::openapi::{Content, RefOr};
use utoipa::{Modify, OpenApi};

/// The media type that utoipa gives to every body by default.
const JSON: &str = "application/json";

/// Replaces the media type of problems: utoipa describes them as plain JSON.
struct MediaTypeModifier;

impl Modify for MediaTypeModifier {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        for item in description.paths.paths.values_mut() {
            let operations = [&mut item.get, &mut item.post, &mut item.put];
            for operation in operations.into_iter().flatten() {
                for response in operation.responses.responses.values_mut() {
                    let RefOr::T(response) = response else { continue };
                    let is_problem = |content: &RefOr<Content>| {
                        let content = serde_json::to_string(content).unwrap_or_default();
                        content.contains("/ProblemDocument\"")
                    };
                    if response.content.get(JSON).is_some_and(is_problem)
                        && let Some(content) = response.content.swap_remove(JSON)
                    {
                        response.content.insert(PROBLEM_MEDIA_TYPE.to_owned(), content);
                    }
                }
            }
        }
    }
}

/// The description of the routes' socket.
#[derive(Debug, OpenApi)]
#[openapi(
    modifiers(&MediaTypeModifier),
    info(
        title = "oracled",
        description = "Judges a model's verdicts before delivery. Errors are `application/problem+json` with a stable `code`; every response has an `X-Request-Id` header.",
    ),
    paths(
        crosscheck::post,
        verdicts::post,
        verdicts::get,
        sessions::put,
        cache::post,
        cache::get,
        rules::list,
        rules::evaluate,
        rules::evaluate_batch,
        query::post,
        verify::post,
        verify::get,
        records::get,
        records::provenance,
        sources::list,
        changes::get,
        signals::post,
        oracles::get,
        health::alive,
        health::ready,
        metrics::get,
        get,
    )
)]
struct OpenApiDescription;

/// The description of each socket, with the name of the socket.
#[must_use]
pub fn documents() -> [(&'static str, utoipa::openapi::OpenApi); 1] {
    [("The routes' socket", OpenApiDescription::openapi())]
}

/// The description, as JSON.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "This document", body = Object)))]
pub async fn get() -> Json<utoipa::openapi::OpenApi> {
    Json(OpenApiDescription::openapi())
}
