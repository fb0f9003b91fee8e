//! Webhooks: signed, sent from the outbox, and retried over an outage under one id.

use domain_verdict::label::VerdictLabel;
use oracled_tests::generation::{
    event_names, place_order, read_metric, read_verdict, register_session, wait_for_order,
};
use oracled_tests::model::{ModelServer, ReceivedRequest, ScriptedReply};
use oracled_tests::webhooks::SECRET;
use oracled_tests::{DaemonProcess, DaemonWorld, GOOD, document, eventually, get, log, post};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

const UNUSABLE: &str = r#"{"verdict":"GREEN","summary":" "}"#;

/// Configures an endpoint of applications and one of operators.
fn configure(world: &mut DaemonWorld, applications: &str, operators: &str) {
    world.configure_webhooks(Some(&format!("{applications}/hook?token=secret-token")), operators);
    world.config.push_str("[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n");
}

fn ids(endpoint: &ModelServer) -> BTreeSet<String> {
    let id =
        |request: &ReceivedRequest| request.header("webhook-id").expect("a webhook has an id").to_owned();
    endpoint.requests().iter().map(id).collect()
}

#[tokio::test]
async fn webhook_of_an_order_is_retried_over_outage_and_restart_under_one_id() {
    let (model, endpoint, operators) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(GOOD));
    endpoint.set_default(ScriptedReply::bytes(503, "down"));
    let mut world = model.create_world("");
    configure(&mut world, &endpoint.url(), &operators.url());
    {
        let daemon = world.serve().await;
        place_order(&world, "cs_1").await;
        wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
        eventually("two attempts failed", async || endpoint.request_count() >= 2).await;
        let control = &mut daemon.control().await;
        let failed = log(control, "event=message_failed").await;
        assert_eq!(failed[0]["kind"], "order.delivered");
        assert_eq!(failed[0]["application"], "default");
        let events = event_names(control, "cs_1").await;
        assert!(events.contains(&"message_queued".to_owned()), "{events:?}");
        let queued = &log(control, "event=message_queued").await[0];
        let delivered = &log(control, "event=order_delivered").await[0];
        assert_eq!(queued["timestamp"], delivered["timestamp"], "one commit");
    }
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    eventually("it is sent", async || log(control, "event=message_sent").await.len() == 1).await;
    let events = event_names(control, "cs_1").await;
    assert_eq!(events.last().map(String::as_str), Some("message_sent"), "{events:?}");
    assert_eq!(ids(&endpoint).len(), 1, "all attempts have one id");
    let sent = endpoint.requests().pop().expect("a request arrived");
    assert_eq!(sent.body["type"], "order.delivered");
    assert_eq!(sent.body["data"], json!({"application": "default", "session_id": "cs_1", "attempts": 1}));
    assert!(sent.header("webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
    let routes = &mut daemon.routes().await;
    assert!(
        read_metric(routes, r#"oracled_webhooks_total{kind="order.delivered",outcome="sent"}"#).await > 0.0
    );
    assert_eq!(operators.request_count(), 0);
    for written in [world.service_log(), world.mirror()] {
        assert!(!written.contains("secret-token") && !written.contains("MfKQ9r8"), "{written}");
    }
}

#[tokio::test]
async fn held_and_failed_orders_are_reported_with_their_causes() {
    let (model, endpoint, operators) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(GOOD));
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    let mut world = model.create_world("[gate]\nhold = [\"short_summary\"]\n");
    configure(&mut world, &endpoint.url(), &operators.url());
    model.set_default(ScriptedReply::with_text(r#"{"verdict":"GREEN","summary":"Fine."}"#));
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    place_order(&world, "cs_1").await;
    wait_for_order(routes, "cs_1", "held").await;
    let fail = json!({"action": "fail", "reason": "test"});
    assert_eq!(post(control, "/v1/orders/cs_1", &fail).await.status, 200);
    eventually("both are sent", async || log(control, "event=message_sent").await.len() == 2).await;
    let sent: Vec<_> = endpoint.requests().into_iter().map(|request| request.body).collect();
    let of_type = |name: &str| sent.iter().find(|body| body["type"] == name).expect("it was sent");
    assert_eq!(of_type("order.held")["data"]["cause"], "policy");
    assert_eq!(of_type("order.failed")["data"]["cause"], "operator");
    assert!(sent.iter().all(|body| body["data"]["session_id"] == "cs_1"), "{sent:?}");
}

#[tokio::test]
async fn endpoint_that_is_gone_gets_no_second_attempt() {
    let (model, endpoint, operators) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(UNUSABLE));
    endpoint.set_default(ScriptedReply::bytes(410, ""));
    let mut world = model.create_world("");
    configure(&mut world, &endpoint.url(), &operators.url());
    let daemon = world.serve().await;
    place_order(&world, "cs_1").await;
    let control = &mut daemon.control().await;
    eventually("it is dead", async || log(control, "event=message_failed").await.len() == 1).await;
    let failed = &log(control, "event=message_failed").await[0];
    assert_eq!((&failed["next_attempt_at"], &failed["attempt"]), (&Value::Null, &json!(1)));
    let routes = &mut daemon.routes().await;
    let dead = r#"oracled_webhook_outbox_depth{state="dead"}"#;
    eventually("it is counted", async || read_metric(routes, dead).await > 0.0).await;
    assert_eq!(endpoint.request_count(), 1);
}

/// The first endpoint of the application, and the further one.
async fn endpoints(daemon: &DaemonProcess<'_>) -> [Value; 2] {
    let listed = get(&mut daemon.control().await, "/v1/webhooks/endpoints").await;
    let listed = document(&listed).as_array().cloned().expect("a list");
    let of = |id: Value| listed.iter().find(|one| one["application"] == "default" && one["endpoint"] == id);
    [Value::Null, json!("crm")].map(|id| of(id).cloned().expect("it is configured"))
}

/// Lets two webhooks end as dead letters, the second one after a second.
async fn pause_first_endpoint(world: &DaemonWorld, operators: &ModelServer) {
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    place_order(world, "cs_1").await;
    eventually("it failed", async || log(control, "event=message_failed").await.len() == 1).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    place_order(world, "cs_2").await;
    eventually("it is paused", async || log(control, "event=endpoint_paused").await.len() == 1).await;
    let paused = &log(control, "event=endpoint_paused").await[0];
    let failed = &log(control, "event=message_failed").await[0];
    assert_eq!((&paused["application"], paused.get("endpoint")), (&json!("default"), None));
    assert_eq!(paused["failing_since"], failed["timestamp"]);
    assert_eq!((&failed["status"], failed.get("endpoint")), (&json!(410), None));
    eventually("operators know", async || operators.request_count() == 1).await;
    assert_eq!(operators.requests()[0].body["type"], "endpoint.paused");
    assert_eq!(operators.requests()[0].body["data"]["application"], "default");
}

#[tokio::test]
async fn endpoint_is_paused_after_a_long_outage_and_gets_what_waited_when_it_is_resumed() {
    let (model, endpoint, operators, further) = (
        ModelServer::start().await,
        ModelServer::start().await,
        ModelServer::start().await,
        ModelServer::start().await,
    );
    model.set_default(ScriptedReply::with_text(GOOD));
    // each webhook is a dead letter at once
    endpoint.set_default(ScriptedReply::bytes(410, ""));
    operators.set_default(ScriptedReply::bytes(200, ""));
    further.set_default(ScriptedReply::bytes(202, ""));
    let mut world = model.create_world("");
    world.configure_webhooks(Some(&endpoint.url()), &operators.url());
    world.config.push_str(&format!(
        "pause_after_s = 1\n[webhooks.endpoints.crm]\napplication = \"default\"\nurl = \"{}\"\nsecret_file = \"{}\"\n\
         events = [\"order.delivered\"]\n[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n",
        further.url(),
        world.path("webhook-secret").display()
    ));
    pause_first_endpoint(&world, &operators).await;
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    place_order(&world, "cs_3").await;
    eventually("the further endpoint has all", async || further.request_count() == 3).await;
    assert_eq!(ids(&further).len(), 3);
    assert_eq!(endpoint.request_count(), 2, "it is still paused after a restart");
    let status = document(&get(control, "/v1/status").await);
    assert_eq!(status["paused_endpoints"][0]["application"], "default");
    assert!(ids(&endpoint).is_disjoint(&ids(&further)), "each endpoint has ids of its own");
    let [first, crm] = endpoints(&daemon).await;
    assert_eq!(
        (&first["waiting"], &first["dead"], first["paused_at"].is_string()),
        (&json!(1), &json!(2), true)
    );
    assert_eq!((&crm["waiting"], &crm["events"]), (&json!(0), &json!(["order.delivered"])));
    let of_application = [
        "order.delivered",
        "order.held",
        "order.failed",
        "order.cancelled",
        "verdict.diverged",
        "verdict.recalled",
    ];
    assert_eq!(first["events"], json!(of_application));
    let sent = log(control, "event=message_sent").await;
    let to_crm = sent.iter().find(|entry| entry["endpoint"] == "crm").expect("an attempt");
    assert_eq!((&to_crm["status"], to_crm["latency_ms"].is_u64()), (&json!(202), true));
    let default = json!({"application": "default"});
    assert_eq!(post(control, "/v1/webhooks/resume", &default).await.status, 200);
    let paused = async || log(&mut daemon.control().await, "event=endpoint_paused").await;
    eventually("the next dead letter pauses it again", async || paused().await.len() == 2).await;
    assert_eq!(endpoint.requests()[2].body["data"]["session_id"], "cs_3");
    let paused = paused().await;
    assert_eq!(paused[0]["failing_since"], paused[1]["failing_since"]);
    endpoint.set_default(ScriptedReply::bytes(204, ""));
    place_order(&world, "cs_4").await;
    eventually("the further endpoint has it", async || further.request_count() == 4).await;
    assert_eq!(endpoint.request_count(), 3);
    assert_eq!(post(control, "/v1/webhooks/resume", &default).await.status, 200);
    eventually("it gets what waited", async || endpoint.request_count() == 4).await;
    assert_eq!(endpoint.requests()[3].body["data"]["session_id"], "cs_4");
    let again = post(control, "/v1/webhooks/resume", &default).await;
    assert_eq!((again.status.as_u16(), &document(&again)["code"]), (409, &json!("endpoint_not_paused")));
    let resumed = log(control, "event=endpoint_resumed").await;
    let by_people = resumed.iter().filter(|entry| entry["peer"]["uid"].is_u64()).count();
    assert_eq!(by_people, 2, "{resumed:?}");
    assert_eq!(log(control, "event=endpoint_failed").await.len(), 1);
    let [first, _] = endpoints(&daemon).await;
    assert_eq!(first["paused_at"], Value::Null);
    eventually("the outage has ended", async || endpoints(&daemon).await[0]["failing_since"].is_null()).await;
}

#[tokio::test]
async fn endpoint_that_does_not_answer_does_not_delay_another_one() {
    let (model, endpoint, operators) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(GOOD));
    endpoint.set_default(ScriptedReply::silence());
    operators.set_default(ScriptedReply::bytes(200, ""));
    let mut world = model.create_world("");
    configure(&mut world, &endpoint.url(), &operators.url());
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for number in 0..6 {
        place_order(&world, &format!("cs_{number}")).await;
    }
    eventually("all slots of the endpoint are taken", async || endpoint.request_count() == 4).await;
    let open = json!({"action": "open"});
    assert_eq!(post(control, "/v1/health/oracles/gemini", &open).await.status, 200);
    eventually("the other one is reached", async || log(control, "event=message_sent").await.len() == 1)
        .await;
    assert_eq!((endpoint.request_count(), operators.request_count()), (4, 1));
    assert!(log(control, "event=message_failed").await.is_empty(), "no slot was free in between");
}

#[tokio::test]
async fn divergence_is_reported_to_the_application_and_open_circuit_to_operators() {
    let (model, endpoint, operators) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(GOOD));
    endpoint.set_default(ScriptedReply::bytes(200, ""));
    operators.set_default(ScriptedReply::bytes(200, ""));
    let mut world = model.create_world("");
    configure(&mut world, &endpoint.url(), &operators.url());
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for (session, original) in [("cs_equal", VerdictLabel::Green), ("cs_other", VerdictLabel::Red)] {
        register_session(routes, session, Some(original)).await;
        assert_eq!(read_verdict(routes, session).await.status, 200);
    }
    let open = json!({"action": "open"});
    assert_eq!(post(control, "/v1/health/oracles/gemini", &open).await.status, 200);
    eventually("both are sent", async || log(control, "event=message_sent").await.len() == 2).await;
    let [diverged] = &endpoint.requests()[..] else { panic!("one webhook to the application") };
    assert_eq!(diverged.body["type"], "verdict.diverged");
    let expected = json!({
        "application": "default",
        "session_id": "cs_other",
        "original_verdict": "RED",
        "regen_verdict": "GREEN",
        "divergence_level": "significant",
    });
    assert_eq!(diverged.body["data"], expected);
    let close = json!({"action": "close"});
    assert_eq!(post(control, "/v1/health/oracles/gemini", &close).await.status, 200);
    eventually("operators have both", async || operators.requests().len() == 2).await;
    let told = operators.requests();
    let told =
        told.iter().map(|request| (request.body["type"].clone(), request.body["data"]["oracle_id"].clone()));
    let told: BTreeSet<_> = told.map(|told| format!("{told:?}")).collect();
    let expected =
        ["circuit.closed", "circuit.opened"].map(|name| format!("{:?}", (json!(name), json!("gemini"))));
    assert_eq!(told, expected.into());
}

#[tokio::test]
async fn only_named_events_are_queued_and_two_secrets_both_sign() {
    let (model, endpoint, operators) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(GOOD));
    for server in [&endpoint, &operators] {
        server.set_default(ScriptedReply::bytes(200, ""));
    }
    let mut world = model.create_world("");
    world.configure_webhooks(Some(&endpoint.url()), &operators.url());
    world.config.push_str("events = [\"order.delivered\"]\noperator_events = [\"circuit.closed\"]\n");
    world.config.push_str("[ingestion]\nallow_local = [\"127.0.0.1/32\"]\n");
    let both = format!("{SECRET}\nwhsec_bmV3IHMzY3JldCBuZXcgczNjcmV0IG5ldyBzM2NyZXQ=\n");
    fs::write(world.path("webhook-secret"), both).expect("the file is written");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    // it diverges, which is not among the events of the application
    register_session(routes, "cs_other", Some(VerdictLabel::Red)).await;
    assert_eq!(read_verdict(routes, "cs_other").await.status, 200);
    place_order(&world, "cs_1").await;
    wait_for_order(routes, "cs_1", "delivered").await;
    for action in ["open", "close"] {
        let steered = post(control, "/v1/health/oracles/gemini", &json!({"action": action})).await;
        assert_eq!(steered.status, 200, "{action}");
    }
    eventually("both are sent", async || log(control, "event=message_sent").await.len() == 2).await;
    let queued = log(control, "event=message_queued").await;
    let kinds: BTreeSet<_> = queued.iter().filter_map(|entry| entry["kind"].as_str()).collect();
    assert_eq!((queued.len(), kinds), (2, ["circuit.closed", "order.delivered"].into()));
    let sent = endpoint.requests().pop().expect("a request arrived");
    let signatures: Vec<_> = sent.header("webhook-signature").expect("it is signed").split(' ').collect();
    assert!(matches!(&signatures[..], [one, other] if one != other), "{signatures:?}");
    assert!(signatures.iter().all(|signature| signature.starts_with("v1,")), "{signatures:?}");
}

#[tokio::test]
async fn check_config_rejects_secret_or_address_that_cannot_be_used() {
    let mut world = DaemonWorld::with_config("");
    let secret = world.path("webhook-secret");
    let plain = world.config.clone();
    for (text, url, is_good) in [
        (SECRET, "https://example.org/hook", true),
        ("s3cret", "https://example.org/hook", false),
        (SECRET, "http://example.org/hook", false),
        (SECRET, "https://10.0.0.1/hook", false),
    ] {
        fs::write(&secret, text).expect("the file is written");
        let secret = secret.display();
        world.config = format!("{plain}\n[webhooks]\nurl = \"{url}\"\nsecret_file = \"{secret}\"\n");
        let output = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output();
        let output = output.expect("the command runs");
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), is_good, "{url}: {shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[tokio::test]
async fn check_config_rejects_events_that_are_never_sent() {
    let mut world = DaemonWorld::with_config("");
    let plain = world.config.clone();
    for (events, is_good) in [
        ("events = [\"order.held\"]\noperator_events = [\"circuit.opened\"]", true),
        ("events = [\"circuit.opened\"]", false),
        ("events = [\"webhook.test\"]", false),
        ("events = [\"order.unknown\"]", false),
        ("events = []", false),
        ("operator_events = [\"order.held\"]", false),
        (
            "events = [\"order.held\"]\n[applications.shop]\nuids = [1]\nwebhook_events = [\"run.held\"]",
            false,
        ),
    ] {
        world.config.clone_from(&plain);
        world.configure_webhooks(Some("https://example.org/hook"), "https://ops.example.org/hook");
        world.config.push_str(&format!("{events}\n"));
        let checked = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output();
        let checked = checked.expect("the command runs");
        let shown = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.status.success(), is_good, "{events}: {shown}");
    }
    let endpoint = |table: &str| {
        let secret = world.path("webhook-secret");
        format!("{plain}\n[webhooks.endpoints.crm]\nsecret_file = \"{}\"\n{table}\n", secret.display())
    };
    let url = "url = \"https://crm.example.org/hook\"";
    for (table, is_good) in [
        (format!("{url}\napplication = \"default\"\nevents = [\"order.held\"]"), true),
        (url.to_owned(), true),
        (format!("{url}\nevents = [\"order.held\"]"), false),
        (format!("{url}\napplication = \"shpo\""), false),
        ("url = \"http://crm.example.org/hook\"".to_owned(), false),
        (String::new(), false),
    ] {
        let config = endpoint(&table);
        let file = world.path("endpoint.toml");
        fs::write(&file, config).expect("the file is written");
        let checked = world.oracled(&["check-config", "--config"]).arg(&file).output();
        let checked = checked.expect("the command runs");
        let shown = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.status.success(), is_good, "{table}: {shown}");
    }
    world.config = format!("{plain}\n[webhooks]\nevents = [\"order.held\"]\n");
    let checked = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output();
    assert!(!checked.expect("the command runs").status.success(), "there is no endpoint");
}

#[tokio::test]
async fn further_endpoint_is_tested_by_its_id_alone() {
    let crm = ModelServer::start().await;
    crm.set_default(ScriptedReply::bytes(202, ""));
    let mut world = DaemonWorld::with_config("[applications.shop]\nuids = [1]\n");
    world.configure_webhooks(None, "https://ops.example.org/hook");
    world.config.push_str(&format!(
        "[webhooks.endpoints.crm]\napplication = \"shop\"\nurl = \"{}\"\nsecret_file = \"{}\"\n\
         [ingestion]\nallow_local = [\"127.0.0.1/32\"]\n",
        crm.url(),
        world.path("webhook-secret").display()
    ));
    let _daemon = world.serve().await;
    let tested = world.ctl_in_thread(&["webhook", "test", "--endpoint", "crm"]).await;
    assert!(tested.status.success(), "{tested:?}");
    assert_eq!(crm.request_count(), 1);
    let unknown = world.ctl_in_thread(&["webhook", "test", "--endpoint", "nope"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
}

#[tokio::test]
async fn webhook_admin_tests_lists_requeues_and_drops() {
    let (model, endpoint, operators) =
        (ModelServer::start().await, ModelServer::start().await, ModelServer::start().await);
    model.set_default(ScriptedReply::with_text(GOOD));
    endpoint.set_default(ScriptedReply::bytes(410, ""));
    operators.set_default(ScriptedReply::bytes(202, ""));
    let mut world = model.create_world("");
    configure(&mut world, &endpoint.url(), &operators.url());
    let daemon = world.serve().await;
    let ctl = async |arguments: &[&str]| {
        let output = world.ctl_in_thread(&[arguments, &["--json"]].concat()).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str::<Value>(&text)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&output.stderr)))
    };
    let tested = ctl(&["webhook", "test", "--operator"]).await;
    assert_eq!((&tested["status"], &tested["error"]), (&json!(202), &Value::Null));
    assert_eq!(operators.requests()[0].body["type"], "webhook.test");
    assert!(ctl(&["webhook", "test", "--application", "shpo"]).await.to_string().contains("invalid_request"));
    for unknown in [&["--application", "shpo"], &["--endpoint", "nope"]] {
        let shown = ctl(&[&["webhook", "log"], &unknown[..]].concat()).await;
        assert!(shown.to_string().contains("`oraclectl webhook endpoints`"), "{shown}");
    }
    let failed = ctl(&["webhook", "test"]).await;
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("410")), "{failed}");

    place_order(&world, "cs_1").await;
    let dead = async || ctl(&["webhook", "list", "--dead"]).await["items"][0]["webhook_id"].clone();
    eventually("it is dead", async || dead().await.is_string()).await;
    let id = dead().await.as_str().expect("an id").to_owned();
    assert_eq!(ctl(&["webhook", "requeue", &id]).await["webhook_id"], id);
    eventually("it is dead again", async || endpoint.request_count() == 3 && dead().await.is_string()).await;
    assert_eq!(ctl(&["webhook", "drop", &id]).await["webhook_id"], id);
    let attempts = world.ctl_in_thread(&["webhook", "log", "--failed", "--json"]).await;
    let attempts = String::from_utf8_lossy(&attempts.stdout).into_owned();
    let attempts: Vec<Value> =
        attempts.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect();
    let statuses: Vec<_> = attempts.iter().map(|attempt| &attempt["status"]).collect();
    assert_eq!(statuses, [410, 410], "{attempts:?}");
    assert_eq!(ctl(&["webhook", "list"]).await["items"], json!([]));
    assert!(ctl(&["webhook", "drop", &id]).await.to_string().contains("mail_unknown"));
    let control = &mut daemon.control().await;
    for event in ["message_requeued", "message_dropped"] {
        assert_eq!(log(control, &format!("event={event}")).await[0]["message_id"], id);
    }
}

/// Tests against standardwebhooks, a third-party library, which `tests/standardwebhooks.sh` starts.
#[tokio::test]
#[ignore = "needs a receiver with standardwebhooks: run tests/standardwebhooks.sh"]
async fn standardwebhooks_verifies_requests_and_their_retries() {
    let url = std::env::var("ORACLED_TEST_WEBHOOK_URL").expect("tests/standardwebhooks.sh sets it");
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let mut world = model.create_world("");
    configure(&mut world, &url, &url);
    let daemon = world.serve().await;
    place_order(&world, "cs_1").await;
    let control = &mut daemon.control().await;
    eventually("it is sent", async || !log(control, "event=message_sent").await.is_empty()).await;
    assert_eq!(log(control, "event=message_sent").await[0]["attempt"], 2);
    assert_eq!(log(control, "event=message_failed").await.len(), 1);
}
