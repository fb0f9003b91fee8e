//! A reload reads credentials again: all of them, or none.

use crate::wording::is_logged;
use domain_verdict::label::{ProductTier, VerdictLabel};
use oracled_tests::generation::{coherent_answer, request_verdict};
use oracled_tests::model::{ModelServer, ReceivedRequest, ScriptedReply};
use oracled_tests::{DaemonWorld, at, document, eventually, get, log, post, problem};
use serde_json::{Value, json};
use std::fs;

/// Keys of the model that requests had.
fn model_keys(model: &ModelServer) -> Vec<String> {
    let key = |request: &ReceivedRequest| request.header("x-goog-api-key").map(str::to_owned);
    model.requests().iter().filter(|request| request.method == "POST").filter_map(key).collect()
}

async fn model_world(model: &ModelServer) -> DaemonWorld {
    model.set_default(ScriptedReply::with_text(&coherent_answer(ProductTier::Quick, VerdictLabel::Green)));
    let mut world = model.create_world("");
    world.variables.clear();
    let file = world.path("model-key");
    world.config = format!(
        "{}api_key_file = \"{}\"\n[health]\nhealth_check_interval_seconds = 3600\n",
        world.config,
        file.display()
    );
    fs::write(file, "old-s3cret").expect("the file is written");
    world
}

#[tokio::test]
async fn reload_uses_changed_credentials_and_logs_their_keys_only() {
    let (model, endpoint) = (ModelServer::start().await, ModelServer::start().await);
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    let mut world = model_world(&model).await;
    let token = world.path("token");
    fs::write(&token, "old-s3cret").expect("the file is written");
    for table in ["ingestion.credentials.prices", "verification.credentials.census"] {
        world.config +=
            &format!("[{table}]\norigin = \"https://api.example\"\ntoken_file = \"{}\"\n", token.display());
    }
    world.configure_webhooks(None, &endpoint.url());
    world.config = format!("ingestion.allow_local = [\"127.0.0.1/32\"]\n{}", world.config);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let unchanged = post(control, "/v1/reload", &json!({})).await;
    assert_eq!(at(&unchanged, "/changed_credentials"), json!([]), "{}", document(&unchanged));
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);

    for file in ["model-key", "token"] {
        fs::write(world.path(file), "new-s3cret").expect("the file is written");
    }
    let secret = "whsec_bmV3IHMzY3JldCBuZXcgczNjcmV0IG5ldyBzM2NyZXQ=";
    fs::write(world.path("webhook-secret"), secret).expect("the file is written");
    let reloaded = post(control, "/v1/reload", &json!({})).await;
    assert_eq!(reloaded.status, 200, "{}", document(&reloaded));
    let changed = json!([
        "ingestion.credentials.prices.token_file",
        "model.api_key_file",
        "verification.credentials.census.token_file",
        "webhooks.operator_secret_file",
    ]);
    assert_eq!(at(&reloaded, "/changed_credentials"), changed);
    assert_eq!(request_verdict(routes, "cs_2").await.status, 201);
    assert_eq!(model_keys(&model), ["old-s3cret", "new-s3cret"]);

    let actions = log(control, "event=control_action").await;
    let detail = actions.last().expect("the reload is logged")["detail"].as_str().expect("a text").to_owned();
    assert!(detail.contains("model.api_key_file"), "{detail}");
    let again = post(control, "/v1/reload", &json!({})).await;
    assert_eq!(at(&again, "/changed_credentials"), json!([]));
    assert!(daemon.stop().success());
    assert!(!world.written().contains("s3cret"), "{}", world.written());
}

#[tokio::test]
async fn unusable_credential_keeps_all_credentials_and_is_reported() {
    let model = ModelServer::start().await;
    let mut world = model_world(&model).await;
    let token = world.path("token");
    fs::write(&token, "old-s3cret").expect("the file is written");
    world.config += &format!(
        "[ingestion.credentials.prices]\norigin = \"https://api.example\"\ntoken_file = \"{}\"\n",
        token.display()
    );
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    fs::write(world.path("model-key"), "new-s3cret").expect("the file is written");
    fs::write(&token, "").expect("the file is written");
    fs::write(world.path("oracled.toml"), format!("log_level = \"debug\"\n{}", world.config))
        .expect("written");
    let refused = problem(&post(control, "/v1/reload", &json!({})).await, 400, "invalid_request");
    let detail = refused["detail"].as_str().expect("a text");
    assert!(detail.contains("`ingestion.credentials.prices.token_file`"), "{detail}");
    assert_eq!(at(&get(control, "/v1/log-level").await, "/level"), json!("debug"));
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    assert_eq!(model_keys(&model), ["old-s3cret"]);
    let actions = log(control, "event=control_action").await;
    let failed = "failed (ingestion.credentials.prices.token_file)";
    let logged = |action: &Value| action["detail"].as_str().is_some_and(|detail| detail.contains(failed));
    assert!(actions.iter().any(logged), "{actions:?}");
    let named = ["`ingestion.credentials.prices.token_file`"];
    assert!(is_logged(&world, "WARN", &named), "{}", world.service_log());

    fs::write(&token, "new-s3cret").expect("the file is written");
    daemon.signal("HUP");
    eventually("it is reloaded", async || log(control, "event=control_action").await.len() == 2).await;
    eventually("the new key is used", async || {
        let session = format!("later_{}", model.request_count());
        drop(request_verdict(routes, &session).await);
        model_keys(&model).last().is_some_and(|key| key == "new-s3cret")
    })
    .await;
}
