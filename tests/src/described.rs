//! Compares answers with the OpenAPI documents.

use jsonschema::Validator;
use oracled_api::client::DaemonResponse;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The methods of operations; a path also has members that are not operations.
pub const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The OpenAPI documents of the routes', the administrators' and the reviewers' socket.
#[must_use]
pub fn documents() -> &'static [Value; 3] {
    static DOCUMENTS: LazyLock<[Value; 3]> = LazyLock::new(|| {
        let documents = [oracled::api::document(), oracled::control::document(), oracled::review::document()];
        documents.map(|text| serde_json::from_str(text).expect("valid JSON"))
    });
    &DOCUMENTS
}

/// The object that `value`, a part of `document`, refers to, or is.
///
/// # Panics
/// Panics if it refers to nothing.
#[must_use]
pub fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let place = value.get("$ref").and_then(Value::as_str).and_then(|place| place.strip_prefix('#'));
    place.map_or(value, |place| document.pointer(place).expect("the reference is defined"))
}

/// Adds all schemas that `schema` refers to, directly or indirectly, by name.
///
/// # Panics
/// Panics if it refers to nothing.
pub fn reached<'d>(schema: &Value, description: &'d Value, found: &mut BTreeMap<String, &'d Value>) {
    match schema {
        Value::Object(members) => {
            if let Some(place) = members.get("$ref").and_then(Value::as_str) {
                let name = place.rsplit('/').next().expect("a reference has a name");
                let shape = description
                    .pointer(place.trim_start_matches('#'))
                    .expect("the schema is in the document");
                if found.insert(name.to_owned(), shape).is_none() {
                    reached(shape, description, found);
                }
            }
            members.values().for_each(|value| reached(value, description, found));
        }
        Value::Array(items) => items.iter().for_each(|item| reached(item, description, found)),
        _ => {}
    }
}

/// A validator for a schema of `description`. It compiles no other schemas than those that are needed: there are hundreds.
///
/// # Panics
/// Panics if it is no schema.
#[must_use]
pub fn validator(description: &Value, schema: &Value) -> Validator {
    let mut needed = BTreeMap::new();
    reached(schema, description, &mut needed);
    let schema = json!({"allOf": [schema], "components": {"schemas": needed}});
    jsonschema::options().should_validate_formats(true).build(&schema).expect("a valid schema")
}

/// Codes that no operation declares: they mean that the socket has no operation with this method and path.
const WITHOUT_OPERATION: [&str; 2] = ["not_found", "method_not_allowed"];
/// The route that only debug builds have.
const DEBUG_ONLY: &str = "/v1/inject-fault/";
/// The operation that also serves every other path that a freshness policy names.
const SIGNALS: &str = "/v1/signals/{name}";

/// Whether a path is one of a template such as `/v1/runs/{run_id}`. `{path}` is a path of several parts.
#[must_use]
pub fn is_of_template(template: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    if let Some(start) = template.strip_suffix("{path}") {
        return path.starts_with(start);
    }
    let (expected, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    expected.len() == given.len()
        && expected.iter().zip(&given).all(|(part, other)| part.starts_with('{') || part == other)
}

/// Checks that an operation of a socket declares the status and the problem code of `answer`.
///
/// # Panics
/// Panics if none declares them. An answer that no operation has this method and path needs no operation.
pub fn check(method: &str, path: &str, answer: &DaemonResponse) {
    let status = answer.status.as_u16();
    let document = crate::document(answer);
    let code = document.get("code").and_then(Value::as_str).filter(|_| status >= 400);
    if path.starts_with(DEBUG_ONLY) || code.is_some_and(|code| WITHOUT_OPERATION.contains(&code)) {
        return;
    }
    let paths = documents().iter().flat_map(|document| {
        let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
        paths.map(move |(path, item)| (document, path, item))
    });
    let operations: Vec<_> =
        paths.filter_map(|(document, path, item)| Some((document, path, item.get(method)?))).collect();
    let described = operations.iter().any(|(_, template, _)| is_of_template(template, path));
    let is_called =
        |template: &str| if described { is_of_template(template, path) } else { template == SIGNALS };
    let mut called = operations.into_iter().filter(|(_, template, _)| is_called(template));
    let declares = |(document, _, operation): (&'static Value, &String, &'static Value)| {
        let response = operation.pointer(&format!("/responses/{status}"));
        let response = response.map(|response| resolve(document, response));
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
    assert!(called.any(declares), "{method} {path} does not declare {status} {code:?}");
}
