//! Descriptions of problems, derived from their codes.

use domain_base::problem::{
    HEADERS_TOO_LARGE, INTERNAL_ERROR, INVALID_REQUEST, OVERLOADED, PROBLEM_MEDIA_TYPE, ProblemCode,
    ProblemDocument, REQUEST_TIMEOUT, Retry,
};
use std::collections::BTreeMap;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Content, Header, Ref, RefOr, Response, Schema};

/// The codes that every operation of all sockets can return. For example, an unknown query parameter is reported as
/// `invalid_request`.
const COMMON: [ProblemCode; 5] =
    [INVALID_REQUEST, REQUEST_TIMEOUT, HEADERS_TOO_LARGE, INTERNAL_ERROR, OVERLOADED];

/// The responses of an operation that can return `codes`, by HTTP status. The codes that every operation can return are
/// added.
pub(crate) fn problem_responses(codes: &[ProblemCode]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<ProblemCode>> = BTreeMap::new();
    for code in codes.iter().chain(&COMMON) {
        let of_status = by_status.entry(code.status).or_default();
        if !of_status.contains(code) {
            of_status.push(*code);
        }
    }
    by_status.into_iter().map(|(status, codes)| (status.to_string(), RefOr::T(response(&codes)))).collect()
}

/// The response with one of `codes`, which have the same status.
fn response(codes: &[ProblemCode]) -> Response {
    let meanings = codes.iter().map(|code| {
        let meaning = code.meaning.trim_end_matches('.');
        format!("`{}`: {meaning}.", code.name)
    });
    let mut content = Content::new(Some(problem_schema(codes)));
    content.example = codes.first().and_then(|code| {
        let problem = ProblemDocument::new(*code, code.meaning);
        serde_json::to_value(problem).ok()
    });
    let mut response = Response::new(meanings.collect::<Vec<_>>().join("\n\n"));
    response.content.insert(PROBLEM_MEDIA_TYPE.to_owned(), content.into());
    if codes.iter().any(|code| code.retry != Retry::Never) {
        response.headers.insert("Retry-After".to_owned(), retry_after().into());
    }
    response
}

/// The schema of a problem with one of `codes`.
fn problem_schema(codes: &[ProblemCode]) -> Schema {
    let words = codes.iter().map(|code| code.name);
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words));
    let object = ObjectBuilder::new().property("code", code).required("code");
    AllOfBuilder::new().item(Ref::from_schema_name("ProblemDocument")).item(object).into()
}

/// The header with the time before the next attempt.
pub(crate) fn retry_after() -> Header {
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
    let header = HeaderBuilder::new().schema(Some(seconds));
    header.description(Some("The time before the next attempt, in seconds; absent if it is unknown, or a retry does not help.")).build()
}
