//! The common parts of the OpenAPI documents of both sockets.
//!
//! Handlers describe themselves with `#[utoipa::path]`, and declare their problem codes with `problems!`.

mod examples;
mod flatten;
pub(crate) mod sets;

use oracled_api::base::openapi::problem_responses;
use std::collections::BTreeMap;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{OpenApi, RefOr, Response};
use utoipa::{IntoResponses, Modify};

/// Declares the problems of an operation: the codes of named sets, and further codes.
macro_rules! problems {
    ($name:ident: $($set:ident)*; $($code:ident)*) => {
        /// The problems of an operation.
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses()
            -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                use oracled_api::base::problem::ProblemCode;
                let sets: &[&[ProblemCode]] = &[
                    $($crate::platform::openapi::sets::$set,)*
                    &[$(ProblemCode::$code,)*],
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
                    add_request_id(response);
                }
            }
            examples::add(operation);
        }
        if let Some(components) = &mut document.components {
            flatten::flatten_all(&mut components.schemas);
        }
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

fn add_request_id(response: &mut Response) {
    let id = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!-~]{1,128}$"));
    let header = HeaderBuilder::new().schema(Some(id));
    let header = header.description(Some("The request's own `X-Request-Id`, or a new id.")).build();
    response.headers.insert("X-Request-Id".to_owned(), header.into());
}

/// A document as JSON.
pub(crate) fn json(document: &OpenApi) -> String {
    let mut json =
        serde_json::to_string_pretty(document).expect("a description is plain data with string keys");
    json.push('\n');
    json
}
