//! The common parts of the OpenAPI documents of all sockets.
//!
//! Handlers describe themselves with `#[utoipa::path]`, and declare their problem codes with `problems!`.

use domain_audit::leaf::{CALLER, SESSION_IDS};
use domain_base::problem::{
    BODY_BROKEN, BODY_TOO_LARGE, DRAINING, HEADERS_TOO_LARGE, INTERNAL_ERROR, INVALID_DOCUMENT, INVALID_JSON,
    INVALID_REQUEST, INVALID_SESSION_ID, OVERLOADED, PROBLEM_MEDIA_TYPE, ProblemCode, ProblemDocument,
    RECORD_DAMAGED, REQUEST_TIMEOUT, Retry, STORAGE_UNAVAILABLE, UNSUPPORTED_MEDIA_TYPE,
};
use hyper::Method;
use oracled_domain::events::{self, event_type};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::sync::LazyLock;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, AllOfBuilder, ArrayItems, Object, ObjectBuilder, OneOfBuilder, SchemaType,
    Type,
};
use utoipa::openapi::{Content, Header, OpenApi, Ref, RefOr, Response, Schema};
use utoipa::{IntoResponses, Modify};

/// The header with the id of a request, in the request and in its response.
const REQUEST_ID: &str = "X-Request-Id";
/// The header with the time before the next attempt.
const RETRY_AFTER: &str = "Retry-After";

/// The description of a socket. `described` has all that utoipa derives.
pub(crate) fn complete(mut described: OpenApi) -> String {
    Complete.modify(&mut described);
    json(&described)
}

/// Declares the problems of an operation: the codes of named sets, and further codes.
macro_rules! problems {
    ($name:ident: $($set:ident)* $(; $($code:ident)+)?) => {
        /// The problems of an operation.
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses()
            -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::Response>> {
                let codes: &[&[domain_base::problem::ProblemCode]] = &[$($set,)* &[$($($code,)+)?]];
                $crate::platform::openapi::problem_responses(&codes.concat())
            }
        }
    };
}
pub(crate) use problems;

/// A read from the store, or a commit to the log.
pub(crate) const STORE: &[ProblemCode] = &[RECORD_DAMAGED, STORAGE_UNAVAILABLE, DRAINING];
pub(crate) const JSON_BODY: &[ProblemCode] =
    &[INVALID_JSON, BODY_BROKEN, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE];
pub(crate) const DOCUMENT_BODY: &[ProblemCode] =
    &[INVALID_JSON, INVALID_DOCUMENT, BODY_BROKEN, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE];
/// A session id in the path.
pub(crate) const SESSION: &[ProblemCode] = &[INVALID_SESSION_ID];

/// The problems of an operation that has no codes of its own.
pub(crate) struct CommonProblems;

impl IntoResponses for CommonProblems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problem_responses(&[])
    }
}

/// Completes a document: common headers, plain descriptions, schemas that utoipa cannot derive, and examples.
struct Complete;

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
            complete_schemas(&mut components.schemas);
            for (name, header) in [(REQUEST_ID, response_id()), (RETRY_AFTER, retry_after())] {
                components.headers.insert(name.to_owned(), header.into());
            }
            components.parameters.insert(REQUEST_ID.to_owned(), request_id().into());
        }
        share_problems(document);
        // the permissions of the socket are the only ones
        document.security = Some(Vec::new());
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

/// The operations of a socket, with their methods and paths.
pub(crate) fn operations_by_path(document: &OpenApi) -> impl Iterator<Item = ((Method, String), &Operation)> {
    document.paths.paths.iter().flat_map(|(path, item)| {
        let operations = [
            (Method::GET, &item.get),
            (Method::PUT, &item.put),
            (Method::POST, &item.post),
            (Method::DELETE, &item.delete),
            (Method::PATCH, &item.patch),
        ];
        let named =
            operations.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)));
        named.map(move |(method, operation)| ((method, path.clone()), operation))
    })
}

/// Whether an operation reads the store, or commits to the log.
pub(crate) fn has_store_problems(operation: &Operation) -> bool {
    let status = STORAGE_UNAVAILABLE.status.to_string();
    let name = format!("`{}`", STORAGE_UNAVAILABLE.name);
    matches!(operation.responses.responses.get(&status), Some(RefOr::T(response)) if response.description.contains(&name))
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

/// Moves the responses that are only a problem to the components: most of them are those of many operations.
fn share_problems(document: &mut OpenApi) {
    let mut shared = BTreeMap::new();
    for operation in operations(document) {
        for response in operation.responses.responses.values_mut() {
            if let Some(name) = problem_name(response) {
                let reference = Ref::new(format!("#/components/responses/{name}"));
                shared.insert(name, mem::replace(response, RefOr::Ref(reference)));
            }
        }
    }
    if let Some(components) = &mut document.components {
        components.responses = shared;
    }
}

/// The name of a response that is only a problem: its codes, which determine it. They are the words before the meanings.
fn problem_name(response: &RefOr<Response>) -> Option<String> {
    let RefOr::T(response) = response else { return None };
    let is_problem = response.content.len() == 1 && response.content.contains_key(PROBLEM_MEDIA_TYPE);
    let meanings = response.description.split("\n\n").filter(|_| is_problem);
    let codes: Vec<_> = meanings.filter_map(|meaning| meaning.strip_prefix('`')?.split('`').next()).collect();
    (!codes.is_empty()).then(|| codes.join("."))
}

/// Removes the schemas that nothing refers to, for example those of flattened types.
fn remove_unused(document: &mut OpenApi) {
    let text = |value: serde_json::Result<String>| value.unwrap_or_default();
    let mut open = vec![text(serde_json::to_string(&document.paths))];
    let Some(components) = &mut document.components else { return };
    open.push(text(serde_json::to_string(&components.responses)));
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
static EXAMPLES: LazyLock<HashMap<String, HashMap<String, Value>>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../docs/openapi-examples.json")).expect("valid JSON")
});

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

/// Corrects what utoipa derives, and adds what it does not.
fn complete_schemas(schemas: &mut Schemas) {
    oracled_domain::problems::complete_schemas(schemas);
    events::complete_schemas(schemas);
    name_page_items(schemas);
    flatten_all(schemas);
    schemas.values_mut().for_each(title_forms);
    require_alternatives(schemas);
    allow_hidden_values(schemas);
}

/// Allows a hash in place of each value of a log entry that can be erased or withheld.
fn allow_hidden_values(schemas: &mut Schemas) {
    if let Some(RefOr::T(Schema::OneOf(kinds))) = schemas.get_mut("EventKind") {
        for kind in &mut kinds.items {
            let RefOr::T(Schema::Object(kind)) = kind else { continue };
            let erasable = kind.title.as_deref().and_then(event_type).map_or(&[][..], |kind| kind.erasable);
            for member in erasable.iter().chain(&SESSION_IDS) {
                allow_hidden_value(kind, member);
            }
        }
    }
    if let Some(RefOr::T(Schema::AllOf(entry))) = schemas.get_mut("LogEntry") {
        for part in &mut entry.items {
            if let RefOr::T(Schema::Object(part)) = part {
                for member in SESSION_IDS.into_iter().chain([CALLER]) {
                    allow_hidden_value(part, member);
                }
            }
        }
    }
}

fn allow_hidden_value(object: &mut Object, member: &str) {
    let hidden = Ref::from_schema_name("HiddenValue");
    match object.properties.get_mut(member) {
        Some(RefOr::T(Schema::OneOf(choice))) => choice.items.push(hidden.into()),
        Some(value) => {
            // it describes the member in both forms
            let description = match value {
                RefOr::T(Schema::Object(object)) => object.description.take(),
                RefOr::T(Schema::Array(list)) => list.description.take(),
                _ => None,
            };
            let choice = OneOfBuilder::new().item(value.clone()).item(hidden).description(description);
            *value = Schema::OneOf(choice.build()).into();
        }
        None => {}
    }
}

/// Makes a schema of its own of the items of each page: utoipa describes them within the page.
fn name_page_items(schemas: &mut Schemas) {
    let mut items = Schemas::new();
    for (page_name, page) in schemas.iter_mut() {
        if let Some(name) = page_name.strip_prefix("ListPage_")
            && let RefOr::T(Schema::Object(page)) = page
            && let Some(RefOr::T(Schema::Array(list))) = page.properties.get_mut("items")
            && let ArrayItems::RefOrSchema(item) = &mut list.items
        {
            items.insert(name.to_owned(), mem::replace(item, Ref::from_schema_name(name).into()));
        }
    }
    schemas.extend(items);
}

/// Gives a title to each form of a choice, for generated clients.
fn title_forms(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::OneOf(choice)) = schema else { return };
    for form in &mut choice.items {
        if let RefOr::T(Schema::Object(form)) = form
            && form.title.is_none()
        {
            form.title = form_name(form);
        }
    }
}

/// The name of a form: the only value of the form or of its tag, or the name of its only member.
fn form_name(form: &Object) -> Option<String> {
    let only_value = |object: &Object| match object.enum_values.as_deref() {
        Some([Value::String(value)]) => Some(value.clone()),
        _ => None,
    };
    let tag = form.properties.values().find_map(|member| match member {
        RefOr::T(Schema::Object(member)) => only_value(member),
        _ => None,
    });
    let only_member = form.properties.keys().next().filter(|_| form.properties.len() == 1);
    only_value(form).or(tag).or_else(|| only_member.cloned())
}

/// Declares that a request has one of two members: at least one, or at most one.
fn require_alternatives(schemas: &mut Schemas) {
    let any = |one: &str, other: &str| ("anyOf", json!([{"required": [one]}, {"required": [other]}]));
    // a validator requires that the members are described where they are required
    let not_both = |one: &str, other: &str| {
        ("not", json!({"properties": {one: {}, other: {}}, "required": [one, other]}))
    };
    for (name, conditions) in [
        ("CrosscheckRequest", vec![any("verdict", "raw"), not_both("verdict", "raw")]),
        ("SubmitVerdictRequest", vec![not_both("verdict", "raw")]),
        ("EvaluateTextRequest", vec![any("facts", "facts_from")]),
    ] {
        if let Some(RefOr::T(Schema::Object(request))) = schemas.get_mut(name) {
            // utoipa has neither keyword for an object, and writes extensions as they are
            request.extensions = Some(conditions.into_iter().collect());
        }
    }
}

/// The schemas of a document, by their names.
type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Replaces combinations of objects by one object, and closes objects without members.
///
/// utoipa describes a struct with a flattened field as `allOf` both. If one of them denies unknown fields, no
/// value is valid for both.
fn flatten_all(schemas: &mut Schemas) {
    let all = schemas.clone();
    for schema in schemas.values_mut() {
        flatten(schema, &all);
        close(schema);
    }
}

/// Declares that objects without members have no members, in `schema` and in its parts.
fn close(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            let is_object = object.schema_type == SchemaType::Type(Type::Object);
            if is_object && object.properties.is_empty() && object.additional_properties.is_none() {
                object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
            object.properties.values_mut().for_each(close);
        }
        RefOr::T(Schema::OneOf(choice)) => choice.items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Merges all objects that `schema` combines. A choice between forms stays as it is, without closed objects.
fn flatten(schema: &mut RefOr<Schema>, all: &Schemas) {
    match schema {
        RefOr::T(Schema::OneOf(choice)) => choice.items.iter_mut().for_each(|form| flatten(form, all)),
        RefOr::T(Schema::AllOf(parts)) => {
            let mut object = Object::default();
            let mut others = Vec::new();
            for part in mem::take(&mut parts.items) {
                merge(part, all, &mut object, &mut others);
            }
            object.description = parts.description.take();
            if others.is_empty() {
                *schema = RefOr::T(Schema::Object(object));
            } else {
                let mut combined = AllOf::new();
                combined.description = object.description.take();
                others.push(RefOr::T(Schema::Object(object)));
                combined.items = others;
                *schema = RefOr::T(Schema::AllOf(combined));
            }
        }
        _ => {}
    }
}

/// Adds the members of `part` to `object`. A part that is not an object is added to `others`.
fn merge(part: RefOr<Schema>, all: &Schemas, object: &mut Object, others: &mut Vec<RefOr<Schema>>) {
    let resolved = match &part {
        RefOr::Ref(reference) => {
            let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
            all.get(name).cloned()
        }
        RefOr::T(_) => Some(part.clone()),
    };
    match resolved {
        Some(RefOr::T(Schema::Object(inner))) if inner.enum_values.is_none() => {
            object.properties.extend(inner.properties);
            object.required.extend(inner.required);
        }
        Some(RefOr::T(Schema::AllOf(inner))) => {
            for part in inner.items {
                merge(part, all, object, others);
            }
        }
        _ => others.push(part),
    }
}

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
