//! Compares the OpenAPI documents of the sockets with the served routes, and checks that they are complete.

use crate::architecture::rust_files;
use domain_base::problem::PROBLEM_MEDIA_TYPE;
use hyper::Method;
use oracled_domain::problems::problem_codes;
use oracled_tests::described::{self, METHODS, documents, resolve};
use oracled_tests::{DaemonWorld, at, call, document, get, problem};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident};

const EXAMPLES: &str = include_str!("../../docs/openapi-examples.json");
/// The objects that have no members, by their JSON pointers within the schemas.
const MEMBERLESS: [&str; 3] = [
    "InvalidationTrigger/oneOf/1/properties/config",
    "InvalidationTrigger/oneOf/3/properties/config",
    "SourceReviewRequest/oneOf/0/properties/approve",
];

/// Path, method and description of each operation.
fn operations(description: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = description.get("paths").and_then(Value::as_object).expect("the document has paths");
    paths.iter().flat_map(|(path, item)| {
        let operations = METHODS.iter().filter_map(|method| Some((*method, item.get(method)?)));
        operations.map(move |(method, operation)| (path.as_str(), method, operation))
    })
}

/// Status and description of each response of an operation.
fn responses<'d>(description: &'d Value, operation: &'d Value) -> impl Iterator<Item = (&'d str, &'d Value)> {
    let responses = operation["responses"].as_object().expect("an operation has responses");
    responses.iter().map(|(status, response)| (status.as_str(), resolve(description, response)))
}

/// All values within `value`, and itself, each with its JSON pointer.
fn all_within(value: &Value) -> Vec<(String, &Value)> {
    let (mut open, mut all) = (vec![(String::new(), value)], Vec::new());
    while let Some((place, value)) = open.pop() {
        match value {
            Value::Object(members) => {
                let at = |name: &str| format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
                open.extend(members.iter().map(|(name, value)| (at(name), value)));
            }
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(at, value)| (format!("{place}/{at}"), value)));
            }
            _ => {}
        }
        all.push((place, value));
    }
    all
}

#[tokio::test]
async fn described_routes_are_served() {
    let world = DaemonWorld::for_reviewers("");
    let daemon = world.serve().await;
    let clients = [daemon.routes().await, daemon.control().await, daemon.review().await];
    for (mut client, expected) in clients.into_iter().zip(documents()) {
        let answer = get(&mut client, "/openapi.json").await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["content-type"]),
            (200, &"application/json".parse().unwrap())
        );
        assert!(document(&answer) == *expected, "another document is served");
        let described: BTreeSet<_> =
            operations(expected).map(|(path, method, _)| (path.to_owned(), method.to_owned())).collect();
        assert!(described.len() >= 10, "too few operations: {described:?}");
        for (path, method) in described {
            // an answer without end
            if path == "/v1/log/follow" {
                continue;
            }
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path.replace("{session_id}", "cs_1");
            let answer = client.call(method.clone(), &path, None).await.unwrap();
            let code = document(&answer)["code"].clone();
            assert!(code != "not_found" && code != "method_not_allowed", "{method} {path}: {answer:?}");
        }
    }
}

/// Paths that webhooks, probes and scrapers call, which may add parameters of their own.
const TAKES_ANY_PARAMETER: [&str; 4] = ["/v1/signals/{name}", "/healthz", "/readyz", "/metrics"];

#[tokio::test]
async fn unknown_query_parameter_is_rejected_except_from_webhooks_and_probes() {
    let world = DaemonWorld::for_reviewers("");
    let daemon = world.serve().await;
    let clients = [daemon.routes().await, daemon.control().await, daemon.review().await];
    for (mut client, description) in clients.into_iter().zip(documents()) {
        for (path, method, _) in operations(description) {
            if TAKES_ANY_PARAMETER.contains(&path) {
                continue;
            }
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = format!("{}?no_such=1", path.replace("{pipeline_id}", "some-pipeline"));
            let answer = call(&mut client, method.clone(), &path, None).await;
            let refused = problem(&answer, 400, "invalid_request");
            assert!(at(&answer, "/detail").to_string().contains("`no_such`"), "{method} {path}: {refused}");
        }
        assert_eq!(call(&mut client, Method::GET, "/openapi.json?&", None).await.status, 200);
    }
}

#[test]
fn command_prints_the_documents_without_a_daemon() {
    let world = DaemonWorld::default();
    let [routes, control, review] = documents();
    for (arguments, expected) in
        [(&["openapi"][..], routes), (&["openapi", "--control"], control), (&["openapi", "--review"], review)]
    {
        let output = world.oracled(arguments).output().expect("the program runs");
        assert!(output.status.success(), "{output:?}");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
        assert!(printed == *expected, "another document is printed");
    }
}

#[test]
fn openapi_documents_resolve_all_references_and_parameters() {
    for description in documents() {
        let all = all_within(description);
        let references: BTreeSet<_> =
            all.iter().filter_map(|(_, value)| value.get("$ref").and_then(Value::as_str)).collect();
        assert!(!references.is_empty());
        for reference in &references {
            let place = reference.strip_prefix('#').expect("within the document");
            assert!(description.pointer(place).is_some(), "{reference} is not defined");
        }
        for name in description["components"]["schemas"].as_object().unwrap().keys() {
            let reference = format!("#/components/schemas/{name}");
            assert!(references.contains(reference.as_str()), "{name} is not used");
        }
        for (path, method, operation) in operations(description) {
            let is_kept =
                path.starts_with("/v1/") || path.starts_with("/cache/") || path.matches('/').count() == 1;
            assert!(is_kept, "{path} could also be the path of a webhook");
            let parameters = operation["parameters"].as_array();
            let of_path = parameters.into_iter().flatten().filter(|parameter| parameter["in"] == "path");
            let named: Vec<_> = of_path.map(|parameter| parameter["name"].as_str().unwrap()).collect();
            let expected: Vec<_> =
                path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            assert_eq!(named, expected, "{method} {path}");
        }
    }
}

#[test]
fn operations_have_ids_summaries_tags_and_headers() {
    for description in documents() {
        let mut ids = BTreeSet::new();
        let tags: Vec<_> = description["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
        for (path, method, operation) in operations(description) {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is the id of two operations");
            assert!(id.contains('_') && id.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{id}");
            let summary = operation["summary"].as_str().unwrap_or_default();
            assert!(!summary.is_empty() && !summary.contains('\n') && !summary.ends_with('.'), "{id}");
            assert!(tags.contains(&&operation["tags"][0]), "{id}: {}", operation["tags"]);
            let request_id = &description["paths"][path]["parameters"][0]["$ref"];
            assert_eq!(request_id, "#/components/parameters/X-Request-Id", "{path}");
            for (status, response) in responses(description, operation) {
                assert!(response["headers"]["X-Request-Id"].is_object(), "{method} {path} {status}");
                for (name, header) in response["headers"].as_object().expect("headers") {
                    let header = resolve(description, header);
                    let is_always_sent = name != "Retry-After";
                    assert_eq!(
                        header["required"] == true,
                        is_always_sent,
                        "{method} {path} {status}: {name}"
                    );
                }
                let meaning = response["description"].as_str().unwrap_or_default();
                assert!(!meaning.is_empty(), "{method} {path} {status}");
                assert!(response["content"].is_object(), "{method} {path} {status} has no content");
            }
        }
    }
}

#[test]
fn operations_declare_their_problem_codes() {
    let all_codes = problem_codes();
    let code_of = |word: &Value| all_codes.iter().find(|code| *word == code.name);
    for description in documents() {
        for (path, method, operation) in operations(description) {
            let mut all = BTreeSet::new();
            for (status, response) in responses(description, operation) {
                let schema = &response["content"][PROBLEM_MEDIA_TYPE]["schema"];
                let codes = schema["allOf"][1]["properties"]["code"]["enum"].as_array();
                assert!(status < "400" || codes.is_some(), "{method} {path} {status}");
                for word in codes.into_iter().flatten() {
                    let code = code_of(word).expect("a problem code");
                    assert_eq!(code.status.to_string(), status, "{method} {path}: {word}");
                    all.insert(code.name);
                }
            }
            let common =
                ["invalid_request", "request_timeout", "headers_too_large", "internal_error", "overloaded"];
            for code in common {
                assert!(all.contains(code), "{method} {path} lacks {code}");
            }
            let is_json = operation.pointer("/requestBody/content/application~1json").is_some();
            assert_eq!(is_json, all.contains("invalid_json"), "{method} {path}");
        }
    }
}

#[test]
fn schemas_are_not_bare_objects() {
    let mut memberless = BTreeSet::new();
    for description in documents() {
        for (place, value) in all_within(description) {
            let is_example = place.contains("/example");
            if is_example || value.get("type") != Some(&json!("object")) {
                continue;
            }
            let is_described = ["properties", "additionalProperties", "$ref", "oneOf", "allOf"];
            assert!(is_described.iter().any(|name| value.get(name).is_some()), "{place}: {value}");
            if value.get("properties").is_none() && value["additionalProperties"] == false {
                memberless.insert(place.trim_start_matches("/components/schemas/").to_owned());
            }
        }
    }
    assert_eq!(memberless, MEMBERLESS.map(str::to_owned).into(), "describe the members, or list the object");
}

#[test]
fn schemas_name_page_items_and_the_forms_of_a_choice() {
    let mut pages = 0;
    for description in documents() {
        for (name, schema) in description["components"]["schemas"].as_object().unwrap() {
            if let Some(item) = name.strip_prefix("ListPage_") {
                let place = &schema["properties"]["items"]["items"]["$ref"];
                assert_eq!(place, &json!(format!("#/components/schemas/{item}")));
                pages += 1;
            }
            let mut titles = BTreeSet::new();
            for form in schema["oneOf"].as_array().into_iter().flatten() {
                // a form without members or values is a plain text, number or null
                if form.get("properties").or(form.get("enum")).is_some() {
                    let title = form["title"].as_str();
                    assert!(title.is_some_and(|title| titles.insert(title)), "{name}: {form}");
                }
            }
        }
    }
    assert!(pages > 0);
}

#[test]
fn texts_of_the_documents_are_not_only_for_rust() {
    for description in documents() {
        for (place, value) in all_within(description) {
            let text = value.as_str().unwrap_or_default();
            for word in ["`None`", "`Some`", "# Errors", "[`"] {
                assert!(!text.contains(word), "{place}: {text}");
            }
        }
    }
}

#[test]
fn examples_match_their_schemas() {
    let mut unused: Value = serde_json::from_str(EXAMPLES).expect("valid JSON");
    for description in documents() {
        let mut lacking = BTreeSet::new();
        for (path, method, operation) in operations(description) {
            let id = operation["operationId"].as_str().unwrap();
            let request = operation.get("requestBody").map(|body| ("request", body));
            for (part, body) in request.into_iter().chain(responses(description, operation)) {
                for (media_type, content) in body["content"].as_object().unwrap() {
                    let Some(example) = content.get("example") else {
                        if media_type == "application/json" {
                            lacking.insert(format!("{method} {path} {part}"));
                        }
                        continue;
                    };
                    if media_type != PROBLEM_MEDIA_TYPE {
                        unused[id].as_object_mut().and_then(|examples| examples.remove(part));
                    }
                    let validator = described::validator(description, &content["schema"]);
                    let faults: Vec<_> = validator.iter_errors(example).map(|e| e.to_string()).collect();
                    assert!(faults.is_empty(), "{method} {path} {part}: {faults:#?}");
                }
            }
        }
        assert_eq!(lacking, BTreeSet::new(), "these have no example");
    }
    let unused = unused.as_object_mut().expect("an object");
    unused.retain(|_, examples| !matches!(examples, Value::Object(parts) if parts.is_empty()));
    assert!(unused.is_empty(), "no operation has these examples: {unused:?}");
}

#[tokio::test]
#[should_panic(expected = "does not declare 404 Some(\"session_unknown\")")]
async fn answer_with_an_undeclared_code_fails_its_test() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let answer = get(&mut daemon.routes().await, "/v1/verdicts/cs_none").await;
    described::check("get", "/v1/rules", &answer);
}

#[tokio::test]
#[should_panic(expected = "get /v1/nothing does not declare 200")]
async fn answer_of_an_undescribed_path_fails_its_test() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let answer = get(&mut daemon.routes().await, "/v1/rules").await;
    described::check("get", "/v1/nothing", &answer);
}

/// The schema names of types that derive `ToSchema`, each with the file of the type.
#[derive(Default)]
struct SchemaNames {
    file: String,
    files: BTreeMap<String, Vec<String>>,
}

impl SchemaNames {
    fn note(&mut self, attributes: &[Attribute], ident: &Ident) {
        let of =
            |name: &'static str| attributes.iter().filter(move |attribute| attribute.path().is_ident(name));
        let derives = |attribute: &Attribute| {
            attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("ToSchema"))
        };
        if !of("derive").any(derives) {
            return;
        }
        let mut name = ident.to_string();
        for attribute in of("schema") {
            let tokens = attribute.meta.require_list().expect("an array").tokens.to_string();
            if let Some(own) = tokens.split("as = ").nth(1) {
                name = own.split([' ', ',']).next().unwrap_or_default().to_owned();
            }
        }
        self.files.entry(name).or_default().push(self.file.clone());
    }
}

impl<'ast> Visit<'ast> for SchemaNames {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.note(&item.attrs, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.note(&item.attrs, &item.ident);
        visit::visit_item_enum(self, item);
    }
}

/// utoipa would silently describe only one of two types with the same name.
#[test]
fn types_have_different_schema_names() {
    let mut names = SchemaNames::default();
    for folder in ["domain", "api", "actors", "daemon"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        for file in rust_files(&root) {
            let within = file.strip_prefix(&root).expect("the path is below the root");
            names.file = Path::new(folder).join(within).display().to_string();
            if !names.file.contains("tests") {
                let source = fs::read_to_string(&file).expect("the read succeeds");
                names.visit_file(&syn::parse_file(&source).expect("valid Rust"));
            }
        }
    }
    assert!(names.files.len() > 200, "{}", names.files.len());
    names.files.retain(|_, files| files.len() > 1);
    assert_eq!(names.files, BTreeMap::new(), "rename one of the types");
}
