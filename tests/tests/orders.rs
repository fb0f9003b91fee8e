//! Orders: first verdicts that the model generates survive outages, rejections, restarts and kills.

use domain_verdict::label::ProductTier;
use oracled_tests::generation::{
    QUERY, event_names, generation_request, read_order, read_verdict, request_order, request_verdict,
    wait_for_order,
};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{GOOD, at, call, document, eventually, get, log, post, problem};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const UNUSABLE: &str = r#"{"verdict":"GREEN","summary":" "}"#;

#[tokio::test]
async fn async_request_gets_its_order_and_later_its_verdict() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(GOOD).after(Duration::from_millis(300)));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let accepted = request_order(&world.socket(), "cs_1", &generation_request(ProductTier::Quick)).await;
    assert_eq!(accepted.status, 202, "{}", document(&accepted));
    let location = accepted.headers["location"].to_str().expect("a path").to_owned();
    assert_eq!(location, "/v1/orders/cs_1");
    assert!(accepted.headers.contains_key("retry-after"));
    assert_eq!(at(&accepted, "/session_id"), "cs_1");

    let early = read_verdict(routes, "cs_1").await;
    assert_eq!((early.status.as_u16(), at(&early, "/attempts")), (202, json!(1)));
    let order = wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
    let attempt = &order["last_attempts"][0];
    assert_eq!((&attempt["outcome"], &attempt["usage"]["total_tokens"]), (&json!("delivered"), &json!(340)));
    assert_eq!(read_verdict(routes, "cs_1").await.status, 200);
    assert_eq!(at(&request_verdict(routes, "cs_1").await, "/replayed"), true);
    let events = event_names(&mut daemon.control().await, "cs_1").await;
    let expected = [
        "order_placed",
        "order_attempted",
        "oracle_interaction",
        "tmm_crosscheck",
        "verdict_cached",
        "order_delivered",
    ];
    assert_eq!(events, expected);
    problem(&get(routes, "/v1/orders/cs_2").await, 404, "order_unknown");
}

#[tokio::test]
async fn new_order_with_respond_async_gets_202_however_fast_the_model_answers() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::json(200, &json!({"candidates": [{"finishReason": "STOP"}]})));
    let world = model.create_world("[health]\nfailure_threshold = 1000\n[orders]\ngenerations_max = 1");
    let daemon = world.serve().await;
    let (socket, body) = (world.socket(), generation_request(ProductTier::Quick));
    for n in 0..200 {
        let placed = request_order(&socket, &format!("cs_{n}"), &body).await;
        assert_eq!(placed.status, 202, "{}", document(&placed));
    }
    let routes = &mut daemon.routes().await;
    wait_for_order(routes, "cs_199", "failed").await;
    let again = request_order(&socket, "cs_199", &body).await;
    problem(&again, 422, "order_failed");
}

#[tokio::test]
async fn waiting_request_gets_202_at_its_time_limit() {
    let model = ModelServer::start().await;
    model.next([ScriptedReply::with_text(GOOD).after(Duration::from_secs(3))]);
    let limits = "deadline_ms = 900\nhard_timeout_ms = 900\nsoft_timeout_ms = 900\n[limits]\nrequest_s = 2\n[ingestion]\nrefresh_s = 1";
    let world = model.create_world(limits);
    let daemon = world.serve().await;
    let answer = request_verdict(&mut daemon.routes().await, "cs_1").await;
    assert_eq!(
        (answer.status.as_u16(), at(&answer, "/state")),
        (202, json!("queued")),
        "{}",
        document(&answer)
    );
    let order = read_order(&mut daemon.routes().await, "cs_1").await;
    assert_eq!(order["last_attempts"][0]["outcome"], "model_timeout");
    wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await;
}

#[tokio::test]
async fn unusable_answers_fail_or_hold_the_order() {
    for (at_limit, state) in [("fail", "failed"), ("hold", "held")] {
        let model = ModelServer::start().await;
        model.set_default(ScriptedReply::with_text(UNUSABLE));
        let world = model.create_world(&format!("[orders]\nat_limit = \"{at_limit}\""));
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        for _ in 0..2 {
            let answer = request_verdict(routes, "cs_1").await;
            if state == "failed" {
                problem(&answer, 422, "order_failed");
                problem(&read_verdict(routes, "cs_1").await, 422, "order_failed");
            } else {
                assert_eq!((answer.status.as_u16(), at(&answer, "/state")), (202, json!(state)));
                assert!(!answer.headers.contains_key("retry-after"));
            }
        }
        assert_eq!(model.request_count(), 3, "a repeated request calls no model");
        let order = read_order(&mut daemon.routes().await, "cs_1").await;
        assert_eq!((&order["state"], &order["stop_cause"]), (&json!(state), &json!("generations_used_up")));
        let listed = get(control, &format!("/v1/orders?state={state}")).await;
        assert_eq!(at(&listed, "/items/0/session_id"), "cs_1");
        assert_eq!(at(&get(control, "/v1/orders?state=delivered").await, "/items"), json!([]));

        model.set_default(ScriptedReply::with_text(GOOD));
        let retried = post(control, "/v1/orders/cs_1", &json!({"action": "retry", "reason": "mended"})).await;
        assert_eq!(retried.status, 200, "{}", document(&retried));
        assert_eq!(wait_for_order(&mut daemon.routes().await, "cs_1", "delivered").await["attempts"], 4);
        let again = post(control, "/v1/orders/cs_1", &json!({"action": "fail", "reason": "x"})).await;
        problem(&again, 409, "order_state_refused");
        let entry = log(control, "session=cs_1&event=order_retried").await.remove(0);
        assert_eq!((&entry["reason"], entry["peer"]["uid"].is_u64()), (&json!("mended"), true));
    }
}

#[tokio::test]
async fn session_page_has_order_and_history_in_time_order() {
    let model = ModelServer::start().await;
    model.next([ScriptedReply::with_text(UNUSABLE)]);
    model.set_default(ScriptedReply::with_text(GOOD));
    let world = model.create_world("[mail]\ntransport = \"http\"\nbase_url = \"http://127.0.0.1:9\"");
    let daemon = world.serve().await;
    let mut body = generation_request(ProductTier::Quick);
    body["customer_email"] = json!("ann@example.org");
    let routes = &mut daemon.routes().await;
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &body).await.status, 201);
    let control = &mut daemon.control().await;
    let page = document(&get(control, "/v1/sessions/cs_1").await);
    assert_eq!((&page["order"]["state"], &page["order"]["attempts"]), (&json!("delivered"), &json!(2)));
    assert_eq!(
        (&page["customer_email"], &page["mails"][0]["kind"]),
        (&json!("ann@example.org"), &json!("verdict"))
    );
    let history = page["history"].as_array().expect("a list");
    let count = |event: &str| history.iter().filter(|entry| entry["event"] == event).count();
    assert_eq!((count("order_placed"), count("order_attempted"), count("tmm_crosscheck")), (1, 2, 2));
    assert_eq!(
        (count("order_delivered"), count("message_queued"), &page["has_older_entries"]),
        (1, 1, &json!(false))
    );
    assert!(history.is_sorted_by_key(|entry| entry["seq"].as_u64()));
    let shown = world.ctl(&["session", "cs_1"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(
        ["delivered", "order_attempted", "verdict:cs_1"].iter().all(|text| shown.contains(text)),
        "{shown}"
    );
}

#[tokio::test]
async fn rejected_text_is_stored_nowhere() {
    const MARK: &str = "q7x-secret-of-the-refused";
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(&format!("{MARK}: I would rather not.")));
    let world = model.create_world("");
    let daemon = world.serve().await;
    problem(&request_verdict(&mut daemon.routes().await, "cs_1").await, 422, "order_failed");
    assert!(daemon.stop().success());
    assert!(!world.written().contains(MARK));
}

#[tokio::test]
async fn invalid_action_names_its_fault() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    for body in [
        json!({"action": "retry"}),
        json!({"action": "retry", "reason": " "}),
        json!({"action": "retry", "reason": "x".repeat(1025)}),
        json!({"action": "deliver", "reason": "x"}),
    ] {
        problem(&post(control, "/v1/orders/cs_1", &body).await, 400, "invalid_request");
    }
    let unknown = post(control, "/v1/orders/cs_1", &json!({"action": "fail", "reason": "x"})).await;
    problem(&unknown, 404, "order_unknown");
    for query in ["state=lost", "after=x", "limit=0", "owner=1"] {
        problem(&get(control, &format!("/v1/orders?{query}")).await, 400, "invalid_request");
    }
    problem(&call(control, hyper::Method::PUT, "/v1/orders/cs_1", None).await, 405, "method_not_allowed");
}

#[tokio::test]
async fn pages_of_orders_have_each_order_once() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for n in 0..5 {
        assert_eq!(request_verdict(routes, &format!("cs_{n}")).await.status, 201);
    }
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = document(&get(control, &format!("/v1/orders?limit=2{after}")).await);
        let items = page["items"].as_array().expect("a list");
        found.extend(items.iter().map(|item| item["session_id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(found, ["cs_4", "cs_3", "cs_2", "cs_1", "cs_0"]);
    let listed = world.ctl_in_thread(&["orders", "--state", "delivered", "--json", "-n", "2"]).await;
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
    let shown = world.ctl_in_thread(&["order", "show", "cs_3", "--json"]).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&shown["session_id"], &shown["state"]), (&json!("cs_3"), &json!("delivered")));
}

#[tokio::test]
async fn orders_that_match_are_changed_by_one_command() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(UNUSABLE));
    let world = model.create_world("[orders]\nat_limit = \"hold\"");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for n in 0..3 {
        assert_eq!(request_verdict(routes, &format!("cs_{n}")).await.status, 202);
    }
    let change = async |arguments: &str, code: i32| {
        let arguments: Vec<_> = arguments.split(' ').collect();
        let output = world.ctl_in_thread(&[&["--json", "order"], &arguments[..]].concat()).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    let all = "--state held --cause generations_used_up --since 1h";
    assert_eq!(change(&format!("cancel {all} --dry-run"), 0).await.as_array().map(Vec::len), Some(3));
    let none = change("cancel --state held --cause policy --reason over", 0).await;
    assert_eq!(none, json!({"matched": 0, "changed": [], "failed": []}));
    // only what the policy holds can be released
    assert_eq!(change(&format!("release {all} --dry-run"), 0).await, json!([]));
    assert_eq!(change(&format!("release {all} --reason over"), 0).await, none);
    assert_eq!(change(&format!("cancel {all} --reason="), 2).await, json!(null));
    let done = change(&format!("cancel {all} --reason over"), 0).await;
    assert_eq!(done, json!({"matched": 3, "changed": ["cs_2", "cs_1", "cs_0"], "failed": []}));
    assert_eq!(change(&format!("cancel {all} --reason over"), 0).await["matched"], 0);
    let entries = log(control, "event=order_cancelled&after=0").await;
    assert_eq!((entries.len(), &entries[0]["reason"]), (3, &json!("over")));
    for arguments in ["cancel --reason over", "cancel cs_1 --state held --reason over", "cancel --state held"]
    {
        change(arguments, 2).await;
    }
}

#[tokio::test]
async fn options_for_many_orders_are_refused_for_one_order() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(UNUSABLE));
    let world = model.create_world("[orders]\nat_limit = \"hold\"");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(request_verdict(routes, "cs_1").await.status, 202);
    let before = wait_for_order(routes, "cs_1", "held").await;
    let options = [
        "--dry-run",
        "--cause=generations_used_up",
        "--application=default",
        "--since=1h",
        "--changed-before=2020-01-01T00:00:00Z",
    ];
    for verb in ["release", "retry", "fail", "cancel"] {
        for option in options {
            let output = world.ctl_in_thread(&["order", verb, "cs_1", option, "--reason=over"]).await;
            assert_eq!(output.status.code(), Some(2), "{verb} {option}: {output:?}");
        }
    }
    assert_eq!(read_order(routes, "cs_1").await, before);
}

#[tokio::test]
async fn repeated_retry_leaves_out_orders_that_are_held_again() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::with_text(UNUSABLE));
    let world = model.create_world("[orders]\nat_limit = \"hold\"");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for n in 0..2 {
        assert_eq!(request_verdict(routes, &format!("cs_{n}")).await.status, 202);
    }
    let retry = async |more: &[&str]| {
        let all = ["--json", "order", "retry", "--state", "held"];
        let output = world.ctl_in_thread(&[&all, more].concat()).await;
        assert!(output.status.success(), "{output:?}");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (printed, String::from_utf8(output.stderr).expect("valid UTF-8"))
    };
    let (done, note) = retry(&["--reason", "mended"]).await;
    assert_eq!(done["matched"], 2, "{done}");
    let (_, after) = note.split_once("--changed-before ").expect("the time is printed");
    let (before, _) = after.split_once('`').expect("it ends");
    for session in ["cs_0", "cs_1"] {
        eventually("it is held again", async || {
            let entries = log(control, &format!("session={session}&event=order_stopped&after=0")).await;
            entries.len() == 2
        })
        .await;
    }
    assert_eq!(retry(&["--dry-run"]).await.0.as_array().map(Vec::len), Some(2));
    assert_eq!(retry(&["--changed-before", before, "--dry-run"]).await.0, json!([]));
    let (again, _) = retry(&["--changed-before", before, "--reason", "mended"]).await;
    assert_eq!(again, json!({"matched": 0, "changed": [], "failed": []}));
}

/// The history of an order in the log: each attempt has one end, and the last entry agrees with the order.
fn check_history(order: &Value, entries: &[Value]) {
    let named = |event: &str| entries.iter().filter(|entry| entry["event"] == event).count() as u64;
    let attempts = order["attempts"].as_u64().expect("a number");
    assert_eq!((named("order_placed"), named("order_attempted")), (1, attempts), "{order} {entries:?}");
    let delivered = u64::from(order["state"] == "delivered");
    assert_eq!(
        (named("order_delivered"), named("verdict_cached"), named("message_queued")),
        (delivered, delivered, delivered),
        "{order} {entries:?}"
    );
    assert_eq!(named("order_attempt_failed"), attempts - delivered, "{order} {entries:?}");
    assert_eq!(named("order_stopped"), u64::from(order["state"] == "failed"), "{order} {entries:?}");
}

/// Orders `count` verdicts from a model that is down for `down`, then slow, then refuses a tenth, and kills the daemon
/// `kills` times meanwhile. Each order must end, with one delivery and one mail at most.
async fn check_outage(count: usize, kills: usize, down: Duration) {
    let (model, mailbox) = (ModelServer::start().await, ModelServer::start().await);
    mailbox.set_default(ScriptedReply::json(200, &json!({})));
    model.set_default(ScriptedReply::error(503, "overloaded"));
    let world = model.create_world(&format!(
        "max_retries = 0\n[health]\nfailure_threshold = 1000000\n\
         [mail]\ntransport = \"http\"\nbase_url = \"{}\"",
        mailbox.url()
    ));
    let mut daemon = world.serve().await;
    for n in 0..count {
        let body = json!({
            "tier": "quick", "query": format!("{QUERY} number {n} of all"), "customer_email": format!("c{n}@example.org"),
        });
        let accepted = request_order(&world.socket(), &format!("cs_{n}"), &body).await;
        assert_eq!(accepted.status, 202, "{}", document(&accepted));
    }
    let phases = [
        ScriptedReply::error(503, "overloaded"),
        ScriptedReply::with_text(GOOD).after(Duration::from_millis(200)),
        ScriptedReply::with_text(GOOD),
    ];
    for kill in 0..kills {
        let phase = phases[kill * phases.len() / kills].clone();
        model.set_default(phase);
        model.next((0..count / 10 / kills.max(1) + 1).map(|_| ScriptedReply::with_text(UNUSABLE)));
        sleep(down / u32::try_from(kills).expect("few")).await;
        daemon.kill();
        daemon = world.serve().await;
    }
    model.set_default(ScriptedReply::with_text(GOOD));
    // an order does not leave these states
    let ended = async |state: &str| {
        let listed = get(&mut daemon.control().await, &format!("/v1/orders?state={state}&limit=1000")).await;
        at(&listed, "/items").as_array().map_or(0, Vec::len)
    };
    let limit = std::time::Instant::now() + Duration::from_secs(400);
    while ended("delivered").await + ended("failed").await < count {
        assert!(std::time::Instant::now() < limit, "the orders end");
        sleep(Duration::from_millis(200)).await;
    }
    let control = &mut daemon.control().await;
    for n in 0..count {
        let order = read_order(&mut daemon.routes().await, &format!("cs_{n}")).await;
        assert!(order["state"] == "delivered" || order["state"] == "failed", "{order}");
        let entries = log(control, &format!("session=cs_{n}&limit=10000")).await;
        check_history(&order, &entries);
        let asked = |request: &oracled_tests::model::ReceivedRequest| {
            request.body.to_string().contains(&format!("{QUERY} number {n} of all"))
        };
        let calls = model.requests().iter().filter(|request| asked(request)).count() as u64;
        assert!(calls <= order["attempts"].as_u64().expect("a number"), "{calls} {order}");
        assert!(order["generations"].as_u64() <= Some(3), "{order}");
    }
    eventually("the mails are sent", async || {
        at(&get(&mut daemon.control().await, "/v1/outbox").await, "/items") == json!([])
    })
    .await;
}

#[tokio::test]
async fn orders_survive_an_outage_and_kills() {
    check_outage(12, 3, Duration::from_secs(3)).await;
}

#[tokio::test]
#[ignore = "takes several minutes; `just torture` runs it"]
async fn two_hundred_orders_survive_an_outage_and_ten_kills() {
    check_outage(200, 10, Duration::from_secs(120)).await;
}
