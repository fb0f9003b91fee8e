//! `api.md`: every route and problem code, from OpenAPI documents.

use super::markdown::{anchor, code, codes, table};
use super::types::{SchemaTypes, text};
use crate::described::{METHODS, resolve};
use domain_base::problem::{PROBLEM_MEDIA_TYPE, ProblemCode};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A type that has a page of its own.
const EVENT: &str = "EventKind";
/// A header of every response.
const REQUEST_ID: &str = "X-Request-Id";

const INTRODUCTION: &str = "\
The daemon serves two sockets, and a third one for reviewers if it is configured. Each serves its OpenAPI document at `GET /openapi.json`.

Every response has an `X-Request-Id` header: the request's own, or a new id. A problem is an `application/problem+json`
document (RFC 9457) with one of the [problem codes](#problem-codes).

A list is returned in pages of `{items, next}`. `next` is the `after` of the next page, or null on the last one. A page has
at most `limit` items: 1 to 1,000, by default 100.

A request may omit a field whose type includes null. A response may omit it, too. An unknown field is an error unless the
route states otherwise. An unknown query parameter is an error, except on `/v1/signals/…`, `/healthz`, `/readyz` and
`/metrics`.
";

/// The page for these documents, each with the name of its socket.
pub(super) fn page(documents: &[(&str, &Value)]) -> String {
    let schemas = schemas(documents);
    let documents: Vec<_> =
        documents.iter().map(|(socket, document)| (*socket, with_responses(document))).collect();
    let types = SchemaTypes::new(&schemas, "");
    let all = documents.iter().flat_map(|(_, document)| operations(document));
    let problems = all.map(|(_, operation)| operation_problems(types, operation));
    let common = problems.reduce(|common, codes| &common & &codes).unwrap_or_default();
    let mut out = format!("# API\n\n{}\n{INTRODUCTION}", super::GENERATED);
    if !common.is_empty() {
        out += &format!("\nEvery route can return {}.\n", codes(&common));
    }
    for (socket, document) in &documents {
        let description = document.pointer("/info/description").and_then(Value::as_str).unwrap_or_default();
        out += &format!("\n## {socket}\n\n{description}\n\n");
        for (title, operation) in operations(document) {
            out += &operation_section(types, &common, &title, operation);
        }
    }
    out += "## Problem codes\n\n";
    out += &problem_codes();
    out += "## Types\n\n";
    for (name, schema) in &schemas {
        out += &match name.as_str() {
            EVENT => format!("### {name}\n\nAn event of the [audit log](audit-log.md).\n\n"),
            _ => types.section(name, schema),
        };
    }
    out.trim_end().to_owned() + "\n"
}

/// The document with each response in place of a reference to it.
fn with_responses(document: &Value) -> Value {
    let mut whole = document.clone();
    let paths = whole.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let operations = paths.flat_map(|(_, item)| item.as_object_mut().into_iter().flatten());
    for (_, operation) in operations {
        let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
        for (_, response) in responses.into_iter().flatten() {
            *response = resolve(document, response).clone();
        }
    }
    whole
}

/// The operations of a document, each with its method and path.
fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let operations = METHODS.iter().filter_map(|method| Some((method, item.get(method)?)));
        operations.map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
    })
}

/// The codes of all problems of an operation.
fn operation_problems<'a>(types: SchemaTypes<'a>, operation: &'a Value) -> BTreeSet<&'a str> {
    let responses = operation.get("responses").and_then(Value::as_object).into_iter().flatten();
    responses.filter_map(|(_, response)| problems(types, response)).flatten().collect()
}

/// The schemas of all documents.
fn schemas(documents: &[(&str, &Value)]) -> Map<String, Value> {
    let mut all = Map::new();
    for (_, document) in documents {
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        for (name, schema) in schemas.into_iter().flatten() {
            let other = all.insert(name.clone(), schema.clone()).filter(|other| other != schema);
            assert!(other.is_none(), "two types have the schema name {name}");
        }
    }
    all
}

fn operation_section<'a>(
    types: SchemaTypes<'a>,
    common: &BTreeSet<&str>,
    title: &str,
    operation: &'a Value,
) -> String {
    let mut out = format!("### {title}\n\n");
    for part in ["summary", "description"] {
        let words = text(operation, part);
        if !words.is_empty() {
            out += &format!("{}\n\n", words.trim_end());
        }
    }
    let parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
    let rows: Vec<_> = parameters.map(|parameter| parameter_row(types, parameter)).collect();
    out += &table(["parameter", "in", "type", "meaning"], &rows);
    if let Some(body) = operation.get("requestBody") {
        let meaning = text(body, "description");
        let separator = if meaning.is_empty() { "" } else { ". " };
        out += &format!("Request: {}{separator}{meaning}\n\n", content(types, body));
    }
    let responses = operation.get("responses").and_then(Value::as_object).into_iter().flatten();
    let rows: Vec<_> =
        responses.filter_map(|(status, response)| response_row(types, common, status, response)).collect();
    out + &table(["status", "response", "headers", "meaning"], &rows)
}

fn parameter_row<'a>(types: SchemaTypes<'a>, parameter: &'a Value) -> [String; 4] {
    let schema = parameter.get("schema").unwrap_or(&Value::Null);
    let is_required = parameter.get("required") == Some(&Value::Bool(true));
    let optional = if is_required { "" } else { "; optional" };
    let meaning = match text(parameter, "description") {
        "" => types.meaning(schema),
        own => own,
    };
    let kind = format!("{}{optional}", types.words(schema));
    [code(text(parameter, "name")), text(parameter, "in").to_owned(), kind, meaning.to_owned()]
}

/// The row of a response; `None` if every route can return it.
fn response_row<'a>(
    types: SchemaTypes<'a>,
    common: &BTreeSet<&str>,
    status: &str,
    response: &'a Value,
) -> Option<[String; 4]> {
    let headers = response.get("headers").and_then(Value::as_object).into_iter().flatten();
    let headers = codes(headers.map(|(name, _)| name).filter(|name| *name != REQUEST_ID));
    let has_others =
        response.get("content").and_then(Value::as_object).is_some_and(|content| content.len() > 1);
    let (body, meaning) = match problems(types, response).filter(|_| !has_others) {
        Some(own) => {
            let own: Vec<_> = own.into_iter().filter(|code| !common.contains(code)).collect();
            if own.is_empty() {
                return None;
            }
            (problem_link(), codes(own))
        }
        None => (content(types, response), text(response, "description").trim_end().to_owned()),
    };
    Some([status.to_owned(), body, headers, meaning])
}

/// The codes of a response that is a problem. The table of all codes has their meanings.
fn problems<'a>(types: SchemaTypes<'a>, response: &'a Value) -> Option<Vec<&'a str>> {
    let schema = response.get("content")?.get(PROBLEM_MEDIA_TYPE)?.get("schema")?;
    let code = types.fields(schema).into_iter().rfind(|field| field.name == "code")?;
    let codes: Vec<_> = code.schema.get("enum")?.as_array()?.iter().filter_map(Value::as_str).collect();
    (!codes.is_empty()).then_some(codes)
}

/// A problem in place of a type.
fn problem_link() -> String {
    format!("[problem](#{})", anchor("Problem codes"))
}

/// The media types of a body with their types.
fn content<'a>(types: SchemaTypes<'a>, body: &'a Value) -> String {
    let media = body.get("content").and_then(Value::as_object).into_iter().flatten();
    let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, media) in media {
        let schema = media.get("schema").unwrap_or(&Value::Null);
        let kind = if name == PROBLEM_MEDIA_TYPE { problem_link() } else { types.words(schema) };
        kinds.entry(kind).or_default().push(name);
    }
    let kinds = kinds.into_iter().map(|(kind, names)| match names.as_slice() {
        ["application/json" | PROBLEM_MEDIA_TYPE] => kind,
        names => format!("{kind} ({})", codes(names)),
    });
    kinds.collect::<Vec<_>>().join(" or ")
}

fn problem_codes() -> String {
    let row = |code: ProblemCode| {
        let wait =
            code.retry_after_s().map(|seconds| format!(" `Retry-After` is {seconds} s.")).unwrap_or_default();
        let (name, status) = (super::markdown::code(code.name), code.status.to_string());
        [name, status, code.meaning.to_owned(), format!("{}{wait}", code.remedy)]
    };
    let rows: Vec<_> = oracled_domain::problems::problem_codes().into_iter().map(row).collect();
    table(["code", "status", "meaning", "remedy"], &rows)
}
