//! The policy beside the gate: approved verdicts that are held for an operator, or refused.

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use domain_verdict::label::ProductTier;
use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::generation::{
    event_names, generation_request, place_order, purge_verdict, read_cached, read_metric, read_order,
    read_verdict, request_verdict, retry_after_s, wait_for_order, world_with_model,
};
use oracled_tests::model::{ModelServer, ScriptedReply, gemini_answer};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, at, call, document, error_line, eventually, get, log, post, problem,
    submission,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// The summary of [`FLAGGED`], which occurs nowhere else.
const MARK: &str = "q7xHeld7z";
/// An approved verdict with the flag `short_summary`.
const FLAGGED: &str = r#"{"verdict":"GREEN","summary":"q7xHeld7z"}"#;
const HOLD: &str = "[gate]\nhold = [\"short_summary\"]\n";

/// A world without a model that holds flagged verdicts and mails by `mailbox`.
fn holding(mailbox: &ModelServer) -> DaemonWorld {
    mailbox.set_default(ScriptedReply::json(200, &json!({})));
    let url = mailbox.url();
    DaemonWorld::with_config(&format!("{HOLD}[mail]\ntransport = \"http\"\nbase_url = \"{url}\""))
}

async fn submit(daemon: &DaemonProcess<'_>, session: &str, raw: &str) -> DaemonResponse {
    let mut body = submission(raw);
    body["customer_email"] = json!("ann@example.org");
    post(&mut daemon.routes().await, &format!("/v1/verdicts/{session}"), &body).await
}

/// Submits a verdict that is held.
async fn submit_held(daemon: &DaemonProcess<'_>, session: &str) {
    let answer = submit(daemon, session, FLAGGED).await;
    assert_eq!(answer.status, 202, "{}", document(&answer));
    assert_eq!(answer.headers["location"], format!("/v1/orders/{session}").as_str());
    assert_eq!((at(&answer, "/state"), at(&answer, "/stop_cause")), (json!("held"), json!("policy")));
}

async fn decide(control: &mut DaemonClient, session: &str, action: &str) -> DaemonResponse {
    post(control, &format!("/v1/orders/{session}"), &json!({"action": action, "reason": "reviewed"})).await
}

async fn read_held(control: &mut DaemonClient, session: &str) -> DaemonResponse {
    get(control, &format!("/v1/orders/{session}/verdict")).await
}

/// Writes a file with a key, which only its owner may use.
fn write_key(file: &Path, key: impl AsRef<[u8]>) {
    fs::write(file, key).expect("the key is written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("the mode is set");
}

/// Every file below `dir`, as one byte string.
fn bytes_below(dir: &Path) -> Vec<u8> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| if path.is_dir() { bytes_below(&path) } else { fs::read(path).unwrap_or_default() })
        .collect()
}

/// Whether a file of the world has the text of the held verdict, as it is, in hexadecimal or in Base64.
fn is_text_written(world: &DaemonWorld) -> bool {
    let written = [bytes_below(&world.state()), world.service_log().into_bytes()].concat();
    let hex: String = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![MARK.to_owned(), hex.to_uppercase(), hex];
    // the digits that the text has at each of the three offsets, without those that it shares with its neighbors
    for (offset, shared) in [(0, 0), (1, 2), (2, 3)] {
        let encoded = BASE64_STANDARD_NO_PAD.encode([&[0; 2][..offset], MARK.as_bytes()].concat());
        forms.push(encoded[shared..encoded.len() - 2].to_owned());
    }
    forms.iter().any(|form| written.windows(form.len()).any(|part| part == form.as_bytes()))
}

#[tokio::test]
async fn held_submission_is_delivered_once_by_its_release() {
    let mailbox = ModelServer::start().await;
    let world = holding(&mailbox);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    submit_held(&daemon, "cs_1").await;
    assert!(!is_text_written(&world));
    let expected =
        ["tmm_crosscheck", "policy_applied", "order_placed", "order_stopped"].map(str::to_owned).to_vec();
    assert_eq!(event_names(control, "cs_1").await, expected);
    for raw in [FLAGGED, GOOD] {
        let again = submit(&daemon, "cs_1", raw).await;
        assert_eq!((again.status.as_u16(), at(&again, "/stop_cause")), (202, json!("policy")));
    }
    assert_eq!(event_names(control, "cs_1").await, expected, "a repeated request stores nothing");
    let other = json!({"tier": "full", "query": "Sell honey?", "raw": GOOD});
    problem(&post(routes, "/v1/verdicts/cs_1", &other).await, 409, "session_mismatch");
    assert_eq!(read_verdict(routes, "cs_1").await.status, 202);
    problem(&read_cached(routes, "cs_1").await, 404, "verdict_not_cached");
    assert_eq!(mailbox.request_count(), 0);
    let mode = fs::metadata(world.state().join("held.key")).expect("the key is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let released = world.ctl_in_thread(&["order", "release", "cs_1", "--reason", "it is sound"]).await;
    assert!(released.status.success(), "{}", String::from_utf8_lossy(&released.stderr));
    let delivered = read_verdict(routes, "cs_1").await;
    assert_eq!((delivered.status.as_u16(), at(&delivered, "/verdict/summary")), (200, json!(MARK)));
    assert_eq!(at(&delivered, "/decision/flags"), json!(["short_summary"]));
    eventually("it is mailed", async || mailbox.request_count() == 1).await;
    let after = ["order_released", "verdict_cached", "order_delivered", "message_queued", "message_sent"];
    eventually("the mail is logged", async || event_names(control, "cs_1").await.len() == 9).await;
    assert_eq!(event_names(control, "cs_1").await[4..], after);
    assert!(is_text_written(&world), "a delivered verdict is found");
    let entry = log(control, "session=cs_1&event=order_released").await.remove(0);
    assert_eq!((&entry["reason"], entry["peer"]["uid"].is_u64()), (&json!("it is sound"), true));
    problem(&decide(control, "cs_1", "release").await, 409, "order_state_refused");
    problem(&read_held(control, "cs_1").await, 409, "order_state_refused");
    assert_eq!(at(&submit(&daemon, "cs_1", FLAGGED).await, "/replayed"), true);
    assert_eq!(mailbox.request_count(), 1);
    let held = r#"oracled_policy_decisions_total{application="default",action="hold"}"#;
    assert_eq!(read_metric(routes, held).await, 1.0);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn decision_is_explained_in_plain_words_until_its_session_is_erased() {
    let mailbox = ModelServer::start().await;
    let world = holding(&mailbox);
    let daemon = world.serve().await;
    submit_held(&daemon, "cs_1").await;
    // a file of standard output is a card or empty
    let card = world.ctl_in_thread(&["card", "cs_1"]).await;
    assert_eq!((card.status.code(), card.stdout.as_slice()), (Some(4), &b""[..]));
    let release = ["order", "release", "cs_1", "--reason", "it is sound"];
    assert!(world.ctl_in_thread(&release).await.status.success());
    let plain = world.ctl_in_thread(&["explain", "cs_1"]).await;
    assert!(String::from_utf8_lossy(&plain.stdout).contains("fewer than 10 characters"), "{plain:?}");
    let explain = async |language: &str| {
        let output = world.ctl_in_thread(&["explain", "cs_1", "--language", language, "--json"]).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let explained: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        explained["sentences"].as_array().expect("a list").clone()
    };
    let sentences = explain("en").await;
    let has = |words: &str| sentences.iter().any(|one| one.as_str().is_some_and(|one| one.contains(words)));
    for words in [
        "fewer than 10 characters",
        "would have been 1.0000",
        "held the answer for a person",
        "A person released",
    ] {
        assert!(has(words), "{words}: {sentences:?}");
    }
    assert!(!has("it is sound"), "a reason is for operators: {sentences:?}");
    assert_eq!(explain("de").await.len(), sentences.len());
    assert!(world.ctl_in_thread(&["erase", "--session", "cs_1", "--reason", "asked"]).await.status.success());
    let text = format!("{:?}", explain("en").await);
    assert!(text.contains("erased") && !text.contains("10 characters"), "{text}");
    let unknown = world.ctl_in_thread(&["explain", "nobody", "--language", "en"]).await;
    assert_eq!(unknown.status.code(), Some(1));
}

#[tokio::test]
async fn operator_who_reads_a_held_verdict_is_in_the_log() {
    let mailbox = ModelServer::start().await;
    let world = holding(&mailbox);
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    submit_held(&daemon, "cs_1").await;
    let shown = world.ctl_in_thread(&["order", "show", "cs_1", "--text"]).await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains(MARK) && shown.contains("short_summary"), "{shown}");
    let entry = log(control, "session=cs_1&event=held_verdict_read").await.remove(0);
    assert!(entry["peer"]["uid"].is_u64() && entry["verdict_sha256"].is_string(), "{entry}");
    let read = read_held(control, "cs_1").await;
    assert_eq!(
        (at(&read, "/verdict/summary"), at(&read, "/causes")),
        (json!(MARK), json!(["short_summary"]))
    );
    problem(&read_held(control, "cs_2").await, 404, "order_unknown");
}

#[tokio::test]
async fn held_verdict_exits_with_4_and_shows_its_order() {
    let mailbox = ModelServer::start().await;
    let world = holding(&mailbox);
    let daemon = world.serve().await;
    submit_held(&daemon, "cs_1").await;
    let file = world.path("flagged");
    fs::write(&file, FLAGGED).unwrap();
    let submit = ["submit", "cs_1", file.to_str().unwrap(), "--tier", "quick", "--query", "Sell honey?"];
    for verb in [&["verdict", "cs_1"][..], &submit] {
        let shown = world.ctl_in_thread(&[verb, &["--json"]].concat()).await;
        let order: Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!((shown.status.code(), &order["state"]), (Some(4), &json!("held")), "{verb:?}");
        let shown = world.ctl_in_thread(verb).await;
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.status.code() == Some(4) && text.contains("held") && !text.contains(MARK), "{text}");
    }
}

#[tokio::test]
async fn failed_order_destroys_its_held_verdict() {
    let mailbox = ModelServer::start().await;
    let world = holding(&mailbox);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    submit_held(&daemon, "cs_1").await;
    submit_held(&daemon, "cs_2").await;
    assert!(!is_text_written(&world));
    assert_eq!(decide(control, "cs_1", "fail").await.status, 200);
    problem(&read_held(control, "cs_1").await, 409, "order_state_refused");
    problem(&decide(control, "cs_1", "release").await, 409, "order_state_refused");
    let failed = problem(&read_verdict(routes, "cs_1").await, 422, "order_failed");
    assert!(!failed.to_string().contains("reviewed"), "the reason is not for the application: {failed}");
    let listed = document(&get(routes, "/v1/orders?state=failed").await);
    assert_eq!(
        (&listed["items"][0]["session_id"], &listed["items"][0]["operator_action"]),
        (&json!("cs_1"), &Value::Null)
    );
    let removed = call(control, Method::DELETE, "/v1/sessions/cs_2", None).await;
    assert_eq!(removed.status, 200, "{}", document(&removed));
    problem(&read_held(control, "cs_2").await, 404, "order_unknown");
    // another verdict of the session can still be delivered
    assert_eq!(submit(&daemon, "cs_1", GOOD).await.status, 201);
    assert!(daemon.stop().success());
    assert!(!is_text_written(&world));
    // the counts of the store agree
    let daemon = world.serve().await;
    assert_eq!(read_order(&mut daemon.routes().await, "cs_1").await["state"], "delivered");
}

#[tokio::test]
async fn held_answer_of_the_model_is_retried_or_released() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(FLAGGED));
    let world = model.create_world(HOLD);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for session in ["cs_1", "cs_2"] {
        let answer = request_verdict(routes, session).await;
        assert_eq!((answer.status.as_u16(), at(&answer, "/stop_cause")), (202, json!("policy")));
        assert_eq!(at(&answer, "/policy_causes"), json!(["short_summary"]));
        assert_eq!(retry_after_s(&answer), None, "nobody knows when an operator decides");
        assert_eq!(at(&answer, "/last_attempts/0/outcome"), "held");
        assert!(at(&answer, "/last_attempts/0/usage/total_tokens").is_u64());
    }
    assert_eq!(request_verdict(routes, "cs_1").await.status, 202);
    assert_eq!(model.request_count(), 2, "a repeated request calls no model");
    assert!(!is_text_written(&world));

    model.set_default(ScriptedReply::with_text(GOOD));
    assert_eq!(decide(control, "cs_1", "retry").await.status, 200);
    let order = wait_for_order(routes, "cs_1", "delivered").await;
    assert_eq!((&order["attempts"], model.request_count()), (&json!(2), 3));
    problem(&read_held(control, "cs_1").await, 409, "order_state_refused");
    assert_eq!(decide(control, "cs_2", "release").await.status, 200);
    assert_eq!(at(&read_verdict(routes, "cs_2").await, "/verdict/summary"), MARK);
    assert_eq!(
        read_order(routes, "cs_2").await["operator_action"],
        Value::Null,
        "it is not for the application"
    );
    assert_eq!(read_order(control, "cs_2").await["operator_action"]["action"], "release");
    // the session has the prompt and the settings of the held verdict
    purge_verdict(control, "cs_2").await;
    let regenerated = read_verdict(routes, "cs_2").await;
    assert_eq!((regenerated.status.as_u16(), at(&regenerated, "/prompt_changed")), (200, Value::Null));
}

#[tokio::test]
async fn retry_of_a_held_submission_needs_a_model() {
    let mailbox = ModelServer::start().await;
    let world = holding(&mailbox);
    let daemon = world.serve().await;
    submit_held(&daemon, "cs_1").await;
    let control = &mut daemon.control().await;
    problem(&decide(control, "cs_1", "retry").await, 503, "model_unavailable");
    assert_eq!(read_held(control, "cs_1").await.status, 200, "it is still held");
    assert!(daemon.stop().success());

    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD));
    let with_model = world_with_model(&model.url(), HOLD);
    let daemon = with_model.serve().await;
    submit_held(&daemon, "cs_1").await;
    assert_eq!(decide(&mut daemon.control().await, "cs_1", "retry").await.status, 200);
    wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
}

#[tokio::test]
async fn refused_verdict_is_stored_nowhere() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(FLAGGED));
    for policy in ["hold = [\"short_summary\"]\nrefuse = [\"short_summary\"]", "coherence_min = 0.99"] {
        let world = model.create_world(&format!("[gate]\n{policy}"));
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        let cause = if policy.contains("min") { "coherence_min:0.99" } else { "short_summary" };
        let refused = problem(&submit(&daemon, "cs_1", FLAGGED).await, 422, "policy_rejected");
        assert_eq!((&refused["causes"], &refused["decision"]["approved"]), (&json!([cause]), &json!(true)));
        let entry = log(control, "session=cs_1&event=policy_applied").await.remove(0);
        assert_eq!((&entry["action"], &entry["causes"]), (&json!("refuse"), &json!([cause])));
        assert_eq!(submit(&daemon, "cs_1", GOOD).await.status, 201);
        problem(&request_verdict(routes, "cs_2").await, 422, "order_failed");
        let order = read_order(routes, "cs_2").await;
        assert_eq!((&order["generations"], &order["stop_cause"]), (&json!(3), &json!("generations_used_up")));
        assert_eq!(order["last_attempts"][0]["outcome"], "refused_by_policy");
        let refused = r#"oracled_policy_decisions_total{application="default",action="refuse"}"#;
        assert_eq!(read_metric(routes, refused).await, 4.0);
        assert!(daemon.stop().success());
        assert!(!is_text_written(&world));
    }
}

#[tokio::test]
async fn regenerated_verdict_is_refused_instead_of_held() {
    let model = ModelServer::start().await;
    let world = model.create_world(HOLD);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(submit(&daemon, "cs_1", GOOD).await.status, 201);
    purge_verdict(control, "cs_1").await;
    model.set_default(ScriptedReply::with_text(FLAGGED));
    let refused = problem(&read_verdict(routes, "cs_1").await, 422, "policy_rejected");
    assert_eq!(refused["causes"], json!(["short_summary"]));
    problem(&submit(&daemon, "cs_1", FLAGGED).await, 422, "policy_rejected");
    // a verdict that was released once is delivered again
    submit_held(&daemon, "cs_2").await;
    assert_eq!(decide(control, "cs_2", "release").await.status, 200);
    purge_verdict(control, "cs_2").await;
    assert_eq!(submit(&daemon, "cs_2", FLAGGED).await.status, 201);
    purge_verdict(control, "cs_2").await;
    assert_eq!(read_verdict(routes, "cs_2").await.status, 200);
}

#[tokio::test]
async fn policy_of_the_application_and_the_tier_takes_precedence() {
    let mut world = DaemonWorld::default();
    let uid = fs::metadata(world.path("")).expect("the directory is there").uid();
    world.config = format!(
        "{HOLD}[gate.quick]\nhold = []\n[applications.shop]\nuids = [{uid}]\n\
         [applications.shop.gate.quick]\nrefuse = [\"short_summary\"]"
    );
    let daemon = world.serve().await;
    problem(&submit(&daemon, "cs_1", FLAGGED).await, 422, "policy_rejected");
    assert!(daemon.stop().success());
    world.config = format!("{HOLD}[applications.shop]\nuids = [{uid}]\n[applications.shop.gate]\nhold = []");
    let daemon = world.serve().await;
    assert_eq!(submit(&daemon, "cs_1", FLAGGED).await.status, 201);
}

#[tokio::test]
async fn held_verdict_survives_a_kill_and_waits_for_its_key() {
    let mailbox = ModelServer::start().await;
    let mut world = holding(&mailbox);
    let daemon = world.serve().await;
    submit_held(&daemon, "cs_1").await;
    daemon.kill();
    let file = world.state().join("held.key");
    let key = fs::read(&file).expect("the key is there");
    fs::remove_file(&file).expect("the key is removed");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    problem(&decide(control, "cs_1", "release").await, 500, "held_verdict_unreadable");
    // a new key could not decrypt the first one
    problem(&submit(&daemon, "cs_2", FLAGGED).await, 500, "held_verdict_unreadable");
    assert_eq!(submit(&daemon, "cs_3", GOOD).await.status, 201);
    write_key(&file, BASE64_STANDARD_NO_PAD.encode([7; 32]) + "=");
    problem(&decide(control, "cs_1", "release").await, 500, "held_verdict_unreadable");
    write_key(&file, "not a key");
    problem(&read_held(control, "cs_1").await, 500, "held_verdict_unreadable");
    assert!(daemon.stop().success());

    let provided = world.path("provided.key");
    write_key(&provided, key);
    world.config = format!("[gate]\nheld_key_file = {provided:?}\nrefuse = [\"short_summary\"]");
    let daemon = world.serve().await;
    let refused =
        problem(&decide(&mut daemon.control().await, "cs_1", "release").await, 422, "policy_rejected");
    assert_eq!(refused["causes"], json!(["short_summary"]), "a release is subject to the policy of now");
    assert!(daemon.stop().success());
    world.config = format!("[gate]\nheld_key_file = {provided:?}");
    let daemon = world.serve().await;
    assert_eq!(decide(&mut daemon.control().await, "cs_1", "release").await.status, 200);
    assert_eq!(read_verdict(&mut daemon.routes().await, "cs_1").await.status, 200);
}

#[tokio::test]
async fn order_waits_for_the_key_of_held_verdicts_before_the_model_is_asked() {
    let model = ModelServer::start().await;
    let mut world = model.create_world("");
    world.config.push_str(HOLD);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let key = world.state().join("held.key");
    write_key(&key, "not a key");
    assert_eq!(place_order(&world, "cs_1").await["state"], "queued");
    let waiting = async |routes: &mut DaemonClient| read_order(routes, "cs_1").await["waiting_for"].clone();
    eventually("the order waits", async || waiting(routes).await["cause"] == "held_key_unusable").await;
    assert_eq!((model.request_count(), waiting(routes).await["until"].is_null()), (0, true));
    fs::remove_file(&key).expect("the key is removed");
    assert_eq!(decide(control, "cs_1", "retry").await.status, 200);
    wait_for_order(routes, "cs_1", "delivered").await;
    assert_eq!((model.request_count(), waiting(routes).await.is_null()), (1, true));
    assert!(daemon.stop().success());

    // a provided key is never created
    write_key(&world.path("provided.key"), "not a key");
    let config = world.path("unusable.toml");
    fs::write(&config, format!("[gate]\nheld_key_file = {:?}", world.path("provided.key")))
        .expect("it is written");
    let refused = error_line(world.oracled(&["check-config", "--config", &config.to_string_lossy()]));
    assert!(refused.contains("`gate.held_key_file`"), "{refused}");
}

#[tokio::test]
async fn address_of_a_repeated_request_is_stored_while_its_verdict_is_held() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::json(200, &gemini_answer(FLAGGED)));
    let mut world = model.create_world("");
    world.config.push_str(HOLD);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    place_order(&world, "cs_1").await;
    wait_for_order(routes, "cs_1", "held").await;
    let mut again = generation_request(ProductTier::Quick);
    again["customer_email"] = json!("ann@example.org");
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &again).await.status, 202);
    assert_eq!(log(control, "session=cs_1&event=session_address_changed").await.len(), 1);
    // a submitted verdict, and one with facts of a source, are answered before there is an order to repeat
    let mut submitted = submission(FLAGGED);
    assert_eq!(post(routes, "/v1/verdicts/cs_2", &submitted).await.status, 202);
    submitted["customer_email"] = json!("ann@example.org");
    for _ in 0..2 {
        assert_eq!(post(routes, "/v1/verdicts/cs_2", &submitted).await.status, 202);
    }
    assert_eq!(log(control, "session=cs_2&event=session_address_changed").await.len(), 1);
}

#[tokio::test]
async fn cache_write_is_held_too() {
    let world = DaemonWorld::with_config(HOLD);
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let body =
        json!({"tier": "quick", "query": "Sell honey?", "verdict": {"verdict": "GREEN", "summary": MARK}});
    let answer = post(routes, "/cache/cs_1", &body).await;
    assert_eq!((answer.status.as_u16(), at(&answer, "/state")), (202, json!("held")));
    assert_eq!(decide(control, "cs_1", "release").await.status, 200);
    assert_eq!(read_cached(routes, "cs_1").await.status, 200);
}
