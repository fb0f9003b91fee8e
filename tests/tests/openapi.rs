//! Compares `/openapi.json` with the served routes.

use hyper::Method;
use oracled_tests::{DaemonWorld, document, get};
use serde_json::Value;
use std::collections::BTreeSet;

/// Path and method of each route, from the source of the routes' socket.
fn served_routes() -> BTreeSet<(String, String)> {
    let source = include_str!("../../daemon/src/api.rs");
    let routes = source.split(".fallback(").next().unwrap_or_default().split(".route(").skip(1);
    let mut served = BTreeSet::new();
    for route in routes {
        let mut quoted = route.splitn(3, '"').skip(1);
        let (path, handlers) = (quoted.next().expect("a path"), quoted.next().expect("a path ends"));
        for method in ["get", "post", "put", "patch", "delete"] {
            if handlers.contains(&format!("{method}(")) {
                // a wildcard parameter is described like any other parameter
                served.insert((path.replace("{*", "{"), method.to_owned()));
            }
        }
    }
    served
}

/// Path and method of each described operation.
fn described_routes(description: &Value) -> BTreeSet<(String, String)> {
    let paths = description.get("paths").and_then(Value::as_object).expect("it has paths");
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("a path has operations").keys();
        methods.map(move |method| (path.clone(), method.clone()))
    });
    operations.collect()
}

#[tokio::test]
async fn described_routes_equal_served_routes() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let answer = get(routes, "/openapi.json").await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let described = described_routes(&document(&answer));
    assert_eq!(described, served_routes());
    let problem = "/paths/~1v1~1crosscheck/post/responses/4XX/content/application~1problem+json";
    assert!(document(&answer).pointer(problem).is_some(), "a problem has its media type");
    assert!(described.len() >= 9, "too few operations: {described:?}");
    for (path, method) in described {
        let method: Method = method.to_uppercase().parse().unwrap();
        let answer = routes.call(method.clone(), &path.replace("{session_id}", "cs_1"), None).await.unwrap();
        let code = document(&answer)["code"].clone();
        assert!(code != "not_found" && code != "method_not_allowed", "{method} {path}: {answer:?}");
    }
}

#[tokio::test]
async fn openapi_document_resolves_all_references_and_parameters() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let description = document(&get(&mut daemon.routes().await, "/openapi.json").await);
    let mut references = BTreeSet::new();
    let mut open = vec![&description];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                references.extend(members.get("$ref").and_then(Value::as_str));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    assert!(!references.is_empty());
    for reference in references {
        let place = reference.strip_prefix('#').expect("within the document");
        assert!(description.pointer(place).is_some(), "{reference} is not defined");
    }
    for (path, item) in description["paths"].as_object().unwrap() {
        let is_kept =
            path.starts_with("/v1/") || path.starts_with("/cache/") || path.matches('/').count() == 1;
        assert!(is_kept, "{path} could also be the path of a webhook");
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array();
            let of_path = parameters.into_iter().flatten().filter(|parameter| parameter["in"] == "path");
            let named: Vec<_> = of_path.map(|parameter| parameter["name"].as_str().unwrap()).collect();
            let expected: Vec<_> =
                path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            assert_eq!(named, expected, "{method} {path}");
            assert_eq!(
                operation.get("requestBody").is_some(),
                ["post", "put"].contains(&method.as_str()) && path != "/v1/signals/{name}",
                "{method} {path}"
            );
            assert!(!operation["responses"].as_object().unwrap().is_empty(), "{method} {path}");
        }
    }
}
