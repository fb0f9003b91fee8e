//! The common parts of the OpenAPI documents of both sockets.
//!
//! Handlers describe themselves with `#[utoipa::path]`, and declare their problem codes with `problems!`.

mod examples;
mod flatten;
pub(crate) mod sets;

use oracled_api::base::openapi::{problem_responses, retry_after};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Header, OpenApi, Ref, RefOr, Response};
use utoipa::{IntoResponses, Modify};

/// The header with the id of the request.
const REQUEST_ID: &str = "X-Request-Id";
/// The header with the time before the next attempt.
const RETRY_AFTER: &str = "Retry-After";

/// Declares the problems of an operation: the codes of named sets, and further codes.
macro_rules! problems {
    ($name:ident: $($set:ident)* $(; $($code:ident)+)?) => {
        /// The problems of an operation.
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses()
            -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                use oracled_api::base::problem::ProblemCode;
                let sets: &[&[ProblemCode]] = &[
                    $($crate::platform::openapi::sets::$set,)*
                    &[$($(ProblemCode::$code,)+)?],
                ];
                oracled_api::base::openapi::problem_responses(&sets.concat())
            }
        }
    };
}
pub(crate) use problems;

/// The problems of an operation that has no codes of its own.
pub(crate) struct CommonProblems;

impl IntoResponses for CommonProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problem_responses(&[])
    }
}

/// Completes a document: headers of every response, plain descriptions, flat objects and examples.
pub(crate) struct Complete;

impl Modify for Complete {
    fn modify(&self, document: &mut OpenApi) {
        for operation in operations(document) {
            describe_plainly(operation);
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response {
                    share_headers(response);
                }
            }
            examples::add(operation);
        }
        if let Some(components) = &mut document.components {
            flatten::flatten_all(&mut components.schemas);
            for (name, header) in [(REQUEST_ID, request_id()), (RETRY_AFTER, retry_after())] {
                components.headers.insert(name.to_owned(), header.into());
            }
        }
        remove_unused(document);
    }
}

/// All operations of a document.
fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|item| {
        [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch]
            .into_iter()
            .flatten()
    })
}

/// Removes the period after a summary, and the section about errors, which the responses describe.
fn describe_plainly(operation: &mut Operation) {
    operation.summary = operation.summary.take().map(|summary| summary.trim_end_matches('.').to_owned());
    let description = operation.description.take().map(|description| {
        let described = description.split("# Errors").next().unwrap_or_default();
        described.trim().to_owned()
    });
    operation.description = description.filter(|description| !description.is_empty());
}

/// Replaces headers that many responses have by references, and adds the one that all have.
fn share_headers(response: &mut Response) {
    let shared = |name: &str| RefOr::Ref(Ref::new(format!("#/components/headers/{name}")));
    response.headers.insert(REQUEST_ID.to_owned(), shared(REQUEST_ID));
    if let Some(header) = response.headers.get_mut(RETRY_AFTER) {
        *header = shared(RETRY_AFTER);
    }
}

/// Removes the schemas that nothing refers to, for example those of flattened types.
fn remove_unused(document: &mut OpenApi) {
    let text = |value: serde_json::Result<String>| value.unwrap_or_default();
    let mut open = vec![text(serde_json::to_string(&document.paths))];
    let Some(components) = &mut document.components else { return };
    let mut used = BTreeSet::new();
    while let Some(referring) = open.pop() {
        for part in referring.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap_or_default().to_owned();
            if let Some(schema) = components.schemas.get(&name)
                && used.insert(name)
            {
                open.push(text(serde_json::to_string(schema)));
            }
        }
    }
    components.schemas.retain(|name, _| used.contains(name));
}

/// The header of every response.
fn request_id() -> Header {
    let id = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!-~]{1,128}$"));
    let header = HeaderBuilder::new().schema(Some(id));
    header.description(Some("The request's own `X-Request-Id`, or a new id.")).build()
}

pub(crate) fn json(document: &OpenApi) -> String {
    let json = serde_json::to_string(document).expect("a description is plain data with string keys");
    // docstrings use Rust's word
    json.replace("`None`", "null")
}
