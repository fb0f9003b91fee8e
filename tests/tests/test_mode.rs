//! The test mode: canned answers, and the marks of all that they lead to.

use crate::wording::stable;
use oracled_tests::console::ConsoleProcess;
use oracled_tests::generation::request_order;
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{DaemonWorld, at, document, error_line, eventually, get, log, post};
use serde_json::json;
use std::fs;

const CANNED: &str = "[model]\nprovider = \"canned\"\ncalls_per_minute = 1000000\n";

fn test_world() -> DaemonWorld {
    let mut world = DaemonWorld::with_config(CANNED);
    world.flags.push("--test-mode".to_owned());
    world
}

#[tokio::test]
async fn test_mode_answers_every_query_and_marks_all_that_follows() {
    let world = test_world();
    let daemon = world.serve().await;
    let (mut routes, mut control) = (daemon.routes().await, daemon.control().await);
    let order = json!({"tier": "strategy", "query": "Sell honey?", "customer_email": "a@example.org"});
    let delivered = post(&mut routes, "/v1/verdicts/cs_1", &order).await;
    assert_eq!((delivered.status.as_u16(), at(&delivered, "/verdict/verdict")), (201, json!("GREEN")));
    let mail = world.state().join("test-mail/verdict:cs_1.txt");
    eventually("the mail is a file", async || mail.exists()).await;
    let mail = fs::read_to_string(mail).expect("a text");
    assert!(mail.contains("\nSubject: [test mode] Your verdict: GREEN\n"), "{mail}");

    let held =
        post(&mut routes, "/v1/verdicts/cs_2", &json!({"tier": "quick", "query": "Sell? test:hold"})).await;
    assert_eq!((held.status.as_u16(), at(&held, "/state")), (202, json!("held")), "{}", document(&held));
    let release = json!({"action": "release", "reason": "a test"});
    post(&mut control, "/v1/orders/cs_2", &release).await;
    let released = get(&mut routes, "/v1/verdicts/cs_2").await;
    assert_eq!(released.status, 200);
    assert_eq!(at(&released, "/verdict/held_by_test_mode"), json!(null), "the member is not delivered");

    assert_eq!(at(&get(&mut routes, "/readyz").await, "/test_mode"), json!(true));
    assert_eq!(at(&get(&mut control, "/v1/status").await, "/test_mode"), json!(true));
    let ready = WireConnection::connect(&world.socket()).await.exchange(head("GET", "/healthz", &[])).await;
    let ready = ready.expect("an answer");
    assert_eq!(ready.headers["x-oracled-test-mode"], "true");
    let entries = log(&mut control, "").await;
    assert!(
        entries.len() > 5 && entries.iter().all(|entry| entry["test_mode"] == json!(true)),
        "{entries:?}"
    );
    let mut console = ConsoleProcess::start(&world);
    console.log_in().await;
    for path in ["/", "/inbox", "/sources", "/rules", "/no/such/page"] {
        let page = console.get(path).await.text;
        assert!(page.contains("<div role=\"note\">"), "{path}: {page}");
    }
    assert!(daemon.stop().success());
    let page = console.get("/inbox").await.text;
    assert!(page.contains("<div role=\"note\">"), "the daemon does not answer: {page}");
}

#[tokio::test]
async fn failures_of_one_query_leave_other_queries_unchanged() {
    let world = test_world();
    let daemon = world.serve().await;
    let (mut routes, mut control) = (daemon.routes().await, daemon.control().await);
    let order = |query: &str| json!({"tier": "quick", "query": query});
    let retry = json!({"action": "retry", "reason": "a test"});
    for (session, word, outcome) in
        [("cs_1", "test:down", "model_unavailable"), ("cs_2", "test:400", "request_refused")]
    {
        let placed = request_order(&world.socket(), session, &order(word)).await;
        assert_eq!(placed.status, 202, "{}", document(&placed));
        for attempt in 0..4 {
            let failed = async || {
                let read = get(&mut daemon.routes().await, &format!("/v1/orders/{session}")).await;
                at(&read, &format!("/last_attempts/{attempt}/outcome")) == json!(outcome)
            };
            eventually("an attempt fails", failed).await;
            post(&mut control, &format!("/v1/orders/{session}"), &retry).await;
        }
    }
    let oracles = get(&mut control, "/v1/health/oracles").await;
    assert_eq!(at(&oracles, "/0/consecutive_failures"), json!(0), "{}", document(&oracles));
    let delivered = post(&mut routes, "/v1/verdicts/cs_3", &order("Sell honey?")).await;
    assert_eq!(delivered.status, 201, "{}", document(&delivered));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn mistyped_word_of_the_test_mode_fails_its_order_at_once() {
    let world = test_world();
    let daemon = world.serve().await;
    let order = json!({"tier": "quick", "query": "Sell honey? test:rejct"});
    let failed = post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &order).await;
    assert_eq!((failed.status.as_u16(), at(&failed, "/code")), (422, json!("order_failed")));
    let detail = at(&failed, "/detail").to_string();
    assert!(detail.contains("`test:rejct`") && detail.contains("test:reject,"), "{detail}");
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn state_directory_is_always_or_never_in_test_mode() {
    let mut world = test_world();
    assert!(world.serve().await.stop().success());
    assert!(world.serve().await.stop().success(), "it starts again in test mode");
    world.flags.clear();
    let error = error_line(world.command());
    assert!(error.contains("`model.provider`") && error.contains("--test-mode"), "{error}");
    world.config.clear();
    let error = error_line(world.command());
    insta::assert_snapshot!("state_of_test_mode", stable(&world, &error));

    let mut world = DaemonWorld::default();
    assert!(world.serve().await.stop().success());
    world.flags.push("--test-mode".to_owned());
    let error = error_line(world.command());
    insta::assert_snapshot!("state_without_test_mode", stable(&world, &error));
    let mut dev = world.oracled(&["dev", "--exit", "--state-dir"]);
    dev.arg(world.state());
    let error = error_line(dev);
    assert!(error.contains("--state-dir") && !error.contains("--test-mode"), "{error}");
}
