//! The oracles' health, from outside.

use harness::{World, document, get, post, problem, whole_log};
use hyper::Method;
use serde_json::json;

#[tokio::test]
async fn both_sockets_tell_how_the_oracles_are_doing() {
    let world = World::default();
    let daemon = world.serve().await;
    for client in [&mut daemon.routes().await, &mut daemon.control().await] {
        let answer = get(client, "/v1/health/oracles").await;
        assert_eq!((answer.status.as_u16(), document(&answer)), (200, json!([])), "none is configured");
    }
}

#[tokio::test]
async fn an_oracle_that_there_is_not_is_not_steered_and_nothing_is_logged() {
    let world = World::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for action in ["open", "close", "probe"] {
        let answer = post(control, "/v1/health/oracles/model", &json!({"action": action})).await;
        let refused = problem(&answer, 404, "oracle_unknown");
        assert_eq!(refused["detail"], "there is no oracle `model`; known: none");
    }
    for (order, told) in [
        (json!({"action": "restart"}), "`open`, `close`, `probe`"),
        (json!({}), "action"),
        (json!({"action": "open", "force": true}), "force"),
    ] {
        let answer = post(control, "/v1/health/oracles/model", &order).await;
        let refused = problem(&answer, 400, "invalid_request");
        assert!(refused["detail"].as_str().unwrap().contains(told), "{refused}");
    }
    for name in ["%FF", "a%20b", "a%2Fb", &"x".repeat(65)] {
        let path = format!("/v1/health/oracles/{name}");
        problem(&post(control, &path, &json!({"action": "open"})).await, 400, "invalid_request");
    }
    assert_eq!(whole_log(control).await.len(), 1, "the start alone");
}

#[tokio::test]
async fn routes_steer_no_oracle() {
    let world = World::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let answer = post(routes, "/v1/health/oracles/model", &json!({"action": "open"})).await;
    problem(&answer, 404, "not_found");
    let answer = routes.call(Method::POST, "/v1/health/oracles", Some("{}".into())).await.unwrap();
    problem(&answer, 405, "method_not_allowed");
}

#[tokio::test]
async fn oraclectl_shows_and_steers_the_oracles() {
    let world = World::default();
    let _daemon = world.serve().await;
    let shown = world.ctl(&["health"]);
    assert!(
        shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("no oracles"),
        "{shown:?}"
    );
    let shown = world.ctl(&["health", "--json"]);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&shown.stdout).unwrap(), json!([]));
    for action in ["open", "close", "probe"] {
        let refused = world.ctl(&["health", action, "model"]);
        assert_eq!(refused.status.code(), Some(1), "{action}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(said, "oraclectl: there is no oracle `model`; known: none (oracle_unknown)\n");
    }
    assert_eq!(world.ctl(&["health", "open"]).status.code(), Some(2), "which one?");
}
