//! The common parts of the OpenAPI documents of all sockets.
//!
//! Handlers describe themselves with `#[utoipa::path]`, and declare their problem codes with `problems!`.

pub(crate) mod problem_sets;
mod schemas;

use super::service::DaemonService;
use oracled_api::base::openapi::{problem_responses, retry_after};
use oracled_api::base::problem::PROBLEM_MEDIA_TYPE;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::{Arc, LazyLock};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::{Content, Header, OpenApi, Ref, RefOr, Response};
use utoipa::{IntoResponses, Modify};
use utoipa_axum::router::OpenApiRouter;

/// The header with the id of a request, in the request and in its response.
const REQUEST_ID: &str = "X-Request-Id";
/// The header with the time before the next attempt.
const RETRY_AFTER: &str = "Retry-After";

/// Routes with their descriptions.
pub(crate) type Routes = OpenApiRouter<Arc<DaemonService>>;

/// The description of a socket with these routes, as JSON. `head` is the description without them.
pub(crate) fn describe(mut head: OpenApi, routes: Routes) -> String {
    head.merge(routes.into_openapi());
    Complete.modify(&mut head);
    json(&head)
}

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
                    $($crate::platform::openapi::problem_sets::$set,)*
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

/// Completes a document: common headers, plain descriptions, schemas that utoipa cannot derive, and examples.
pub(crate) struct Complete;

impl Modify for Complete {
    fn modify(&self, document: &mut OpenApi) {
        // a parameter that may contain slashes is described like any other
        let paths = mem::take(&mut document.paths.paths);
        document.paths.paths =
            paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
        for operation in operations(document) {
            describe_plainly(operation);
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response {
                    share_headers(response);
                }
            }
            add_examples(operation);
        }
        for item in document.paths.paths.values_mut() {
            let request_id = Ref::new(format!("#/components/parameters/{REQUEST_ID}"));
            item.parameters.get_or_insert_default().push(RefOr::Ref(request_id));
        }
        if let Some(components) = &mut document.components {
            schemas::complete(&mut components.schemas);
            for (name, header) in [(REQUEST_ID, response_id()), (RETRY_AFTER, retry_after())] {
                components.headers.insert(name.to_owned(), header.into());
            }
            components.parameters.insert(REQUEST_ID.to_owned(), request_id().into());
        }
        remove_unused(document);
    }
}

/// All operations of a document.
fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(operations_of)
}

/// The operations of a path.
pub(crate) fn operations_of(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
}

/// Removes the period after a summary, and an empty description.
fn describe_plainly(operation: &mut Operation) {
    operation.summary = operation.summary.take().map(|summary| summary.trim_end_matches('.').to_owned());
    operation.description = operation.description.take().filter(|description| !description.is_empty());
}

/// Replaces headers that many responses have by references, and adds the one that all have. Every header but `Retry-After`
/// is always sent.
fn share_headers(response: &mut Response) {
    let shared = |name: &str| RefOr::Ref(Ref::new(format!("#/components/headers/{name}")));
    for (name, header) in &mut response.headers {
        match header {
            header if name == RETRY_AFTER => *header = shared(RETRY_AFTER),
            RefOr::T(header) => require(header),
            RefOr::Ref(_) => {}
        }
    }
    response.headers.insert(REQUEST_ID.to_owned(), shared(REQUEST_ID));
}

/// Declares that a header is always sent. utoipa has no such member, and writes extensions as they are.
fn require(header: &mut Header) {
    header.extensions = Some(Extensions::from_iter([("required", true)]));
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

/// The id of a request.
fn id() -> Object {
    ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!-~]{1,128}$")).build()
}

/// The header that every request may have.
fn request_id() -> Parameter {
    let parameter = ParameterBuilder::new().name(REQUEST_ID).parameter_in(ParameterIn::Header);
    parameter
        .schema(Some(id()))
        .description(Some(
            "The id of the request, for logs. Without an id of this form, the request gets a new id.",
        ))
        .build()
}

/// The header of every response.
fn response_id() -> Header {
    let header = HeaderBuilder::new().schema(Some(id()));
    let mut header = header.description(Some("The request's own `X-Request-Id`, or a new id.")).build();
    require(&mut header);
    header
}

pub(crate) fn json(document: &OpenApi) -> String {
    serde_json::to_string(document).expect("a description is plain data with string keys")
}

/// The examples of each operation by its id: of the request under `request`, of a response under its status.
static EXAMPLES: LazyLock<HashMap<String, HashMap<String, Value>>> =
    LazyLock::new(|| serde_json::from_str(include_str!("openapi/examples.json")).expect("valid JSON"));

/// Adds the examples of an operation.
fn add_examples(operation: &mut Operation) {
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
