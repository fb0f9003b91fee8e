//! Health of the oracles, and its control.

use hyper::Method;
use oracled_tests::model::ModelServer;
use oracled_tests::{DaemonWorld, document, eventually, get, post, problem, read_whole_log};
use serde_json::{Value, json};

#[tokio::test]
async fn both_sockets_list_the_health_of_oracles() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for client in [&mut daemon.routes().await, &mut daemon.control().await] {
        let answer = get(client, "/v1/health/oracles").await;
        assert_eq!((answer.status.as_u16(), document(&answer)), (200, json!([])), "none is configured");
    }
}

#[tokio::test]
async fn unknown_oracle_is_refused_without_a_log_entry() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for action in ["open", "close", "probe"] {
        let answer = post(control, "/v1/health/oracles/model", &json!({"action": action})).await;
        let refused = problem(&answer, 404, "oracle_unknown");
        assert!(refused["detail"].as_str().unwrap().contains("`model`"), "{refused}");
    }
    for (order, message) in [
        (json!({"action": "restart"}), "`open`, `close`, `probe`"),
        (json!({}), "action"),
        (json!({"action": "open", "force": true}), "force"),
    ] {
        let answer = post(control, "/v1/health/oracles/model", &order).await;
        let refused = problem(&answer, 400, "invalid_request");
        assert!(refused["detail"].as_str().unwrap().contains(message), "{refused}");
    }
    for name in ["%FF", "a%20b", "a%2Fb", &"x".repeat(81)] {
        let path = format!("/v1/health/oracles/{name}");
        problem(&post(control, &path, &json!({"action": "open"})).await, 400, "invalid_request");
    }
    assert_eq!(read_whole_log(control).await.len(), 1, "only the start is logged");
}

#[tokio::test]
async fn known_oracle_is_opened_closed_and_probed_with_log_entries() {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    let world = model.create_world(&format!(
        "[health]\nhealth_check_interval_seconds = 3600\n[mail]\ntransport = \"http\"\nbase_url = \"{}\"",
        mailbox.url()
    ));
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let known: Vec<_> = document(&get(control, "/v1/health/oracles").await)
        .as_array()
        .expect("an array")
        .iter()
        .map(|oracle| oracle["oracle_id"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(known, ["gemini", "mail"]);
    eventually("each was probed at the start", async || {
        [&model, &mailbox].iter().all(|server| server.probes().len() == 1)
    })
    .await;
    for (oracle, server) in known.iter().zip([&model, &mailbox]) {
        let mut steered = Vec::new();
        let probed = server.probes().len();
        for action in ["open", "probe", "close", "probe"] {
            let path = format!("/v1/health/oracles/{oracle}");
            let answer = post(control, &path, &json!({"action": action})).await;
            assert_eq!(answer.status, 200, "{}", document(&answer));
            let response = document(&answer);
            steered.push((response["oracle"]["status"].clone(), response["oracle"]["held_open"].clone()));
            let succeeded = (action == "probe").then_some(&Value::Bool(true));
            assert_eq!(response.pointer("/probe/succeeded"), succeeded, "{response}");
        }
        let (open, closed) = ((json!("circuit_open"), json!(true)), (json!("healthy"), json!(false)));
        assert_eq!(
            steered,
            [open.clone(), open, closed.clone(), closed],
            "a probe does not close the circuit"
        );
        assert_eq!(server.probes().len(), probed + 2);
    }

    let (uid, mut expected) = (json!(nix::unistd::getuid().as_raw()), Vec::new());
    for oracle in &known {
        let probe = json!(["control_action", "probe_oracle", oracle, uid]);
        let changed = |to: &str| json!(["oracle_health_changed", oracle, to, uid]);
        expected.extend([changed("circuit_open"), probe.clone(), changed("healthy"), probe]);
    }
    let change = |entry: &Value| {
        let named =
            if entry["event"] == "control_action" { ["action", "detail"] } else { ["oracle_id", "to"] };
        json!([entry["event"], entry[named[0]], entry[named[1]], entry["peer"]["uid"]])
    };
    let entries = read_whole_log(control).await;
    assert_eq!(entries.iter().skip(1).map(change).collect::<Vec<_>>(), expected, "entries after the start");
}

#[tokio::test]
async fn routes_socket_cannot_control_an_oracle() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let answer = post(routes, "/v1/health/oracles/model", &json!({"action": "open"})).await;
    problem(&answer, 404, "not_found");
    let answer = routes.call(Method::POST, "/v1/health/oracles", Some("{}".into())).await.unwrap();
    problem(&answer, 405, "method_not_allowed");
}

#[tokio::test]
async fn oraclectl_shows_and_controls_oracles() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    let shown = world.ctl(&["health"]);
    assert!(shown.status.success(), "{shown:?}");
    insta::assert_snapshot!("health_without_oracles", String::from_utf8_lossy(&shown.stdout));
    let shown = world.ctl(&["health", "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&shown.stdout).unwrap(), json!([]));
    for action in ["open", "close", "probe"] {
        let refused = world.ctl(&["health", action, "model"]);
        assert_eq!(refused.status.code(), Some(1), "{action}");
        let stderr_text = String::from_utf8_lossy(&refused.stderr);
        insta::assert_snapshot!("unknown_oracle_of_oraclectl_health", stderr_text);
    }
    assert_eq!(world.ctl(&["health", "open"]).status.code(), Some(2), "the name of the oracle is required");
}
