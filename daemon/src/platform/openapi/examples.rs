//! The examples of requests and responses.

use oracled_api::base::problem::PROBLEM_MEDIA_TYPE;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, RefOr};

/// The examples of each operation by its id: of the request under `request`, of a response under its status.
static EXAMPLES: LazyLock<HashMap<String, HashMap<String, Value>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("valid JSON"));

/// Adds the examples of an operation.
pub(super) fn add(operation: &mut Operation) {
    let Some(examples) = operation.operation_id.as_ref().and_then(|id| EXAMPLES.get(id)) else { return };
    for (part, example) in examples {
        let body = match (part.as_str(), &mut operation.request_body) {
            ("request", Some(RefOr::T(body))) => body.content.values_mut().next(),
            ("request", _) => None,
            (status, _) => match operation.responses.responses.get_mut(status) {
                Some(RefOr::T(response)) => {
                    let mut content = response.content.iter_mut();
                    content.find(|(name, _)| *name != PROBLEM_MEDIA_TYPE).map(|(_, content)| content)
                }
                _ => None,
            },
        };
        if let Some(RefOr::T(Content { example: slot, .. })) = body {
            *slot = Some(example.clone());
        }
    }
}
