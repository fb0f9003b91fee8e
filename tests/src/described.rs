//! Compares answers with the OpenAPI documents.

use oracled_api::base::client::DaemonResponse;
use serde_json::Value;
use std::sync::LazyLock;

/// The OpenAPI documents of the routes' and of the administrators' socket.
#[must_use]
pub fn documents() -> &'static [Value; 2] {
    static DOCUMENTS: LazyLock<[Value; 2]> = LazyLock::new(|| {
        [oracled::api::openapi::document(), oracled::control::openapi::document()]
            .map(|text| serde_json::from_str(text).expect("valid JSON"))
    });
    &DOCUMENTS
}

/// Codes that an operation does not declare: no operation has the path, or debug builds only.
const WITHOUT_OPERATION: [&str; 2] = ["not_found", "method_not_allowed"];

/// Whether a path is one of a template such as `/v1/runs/{run_id}`.
#[must_use]
pub fn is_of_template(template: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let (expected, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    expected.len() == given.len()
        && expected.iter().zip(&given).all(|(part, other)| part.starts_with('{') || part == other)
}

/// Checks that an operation declares the status and the problem code of `answer`.
///
/// # Panics
/// Panics if one socket has such an operation, and no socket declares the answer.
pub fn check(method: &str, path: &str, answer: &DaemonResponse) {
    let method = method.to_lowercase();
    let paths = documents().iter().filter_map(|document| document.get("paths")?.as_object()).flatten();
    let operations = paths.filter(|(template, _)| is_of_template(template, path));
    let operations: Vec<_> = operations.filter_map(|(_, item)| item.get(&method)).collect();
    let status = answer.status.as_u16();
    let document = crate::document(answer);
    let code = document.get("code").and_then(Value::as_str).filter(|_| status >= 400);
    if operations.is_empty() || code.is_some_and(|code| WITHOUT_OPERATION.contains(&code)) {
        return;
    }
    let declares = |operation: &&Value| {
        let response = operation.pointer(&format!("/responses/{status}"));
        let problem = "/content/application~1problem+json/schema/allOf/1/properties/code/enum";
        match (response, code) {
            (Some(response), Some(code)) => {
                let codes = response.pointer(problem).and_then(Value::as_array);
                codes.into_iter().flatten().any(|word| word == code)
            }
            (response, None) => response.is_some(),
            (None, Some(_)) => false,
        }
    };
    assert!(operations.iter().any(declares), "{method} {path} does not declare {status} {code:?}");
}
