//! A read of an unknown session looks it up at the payment service, and registers it.

use hyper::Method;
use oracled_tests::generation::{QUERY, event_names, read_verdict, x_cache};
use oracled_tests::live::{LOCAL, ScriptedSource, complete_answer, empty};
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonWorld, GOOD, at, document, error_line, get, log, problem};
use serde_json::{Value, json};
use std::env;

const TOKEN: &str = "sk_test_not_a_real_key";
const EMAIL: &str = "ada@example.org";

/// A world with `model` that looks sessions up at `payments`, with these lines in `[lookup]`.
fn world(model: &ModelServer, session_url: &str, lines: &str) -> DaemonWorld {
    model.set_default(ScriptedReply::with_text(GOOD));
    let lookup = format!("[lookup]\npreset = \"stripe\"\nsession_url = \"{session_url}\"\n{lines}");
    let mut world = model.create_world(&format!("{LOCAL}{lookup}"));
    world.variables.push(("LOOKUP_TOKEN".into(), TOKEN.into()));
    world
}

fn session_url(payments: &ScriptedSource) -> String {
    payments.origin() + "/v1/checkout/sessions/{session_id}"
}

/// A checkout session with this status and tier.
fn checkout(payment_status: &str, tier: &str) -> String {
    let session = json!({
        "object": "checkout.session", "payment_status": payment_status,
        "metadata": {"tier": tier, "query": QUERY},
        "customer_details": {"email": EMAIL},
    });
    complete_answer("", &session.to_string())
}

#[tokio::test]
async fn read_of_paid_session_registers_it_and_generates_its_verdict() {
    let (model, payments) = (ModelServer::start().await, ScriptedSource::start().await);
    let world = world(&model, &session_url(&payments), "");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    payments.set_answer(checkout("paid", "quick"));
    let head = routes.call(Method::HEAD, "/v1/verdicts/cs_1", None).await.expect("the daemon answers");
    assert_eq!(head.status, 404);
    assert_eq!(payments.heads().len(), 0, "HEAD looks nothing up");

    let first = read_verdict(routes, "cs_1").await;
    assert_eq!((first.status.as_u16(), x_cache(&first)), (200, Some("MISS")));
    assert_eq!((at(&first, "/query"), at(&first, "/original_verdict")), (json!(QUERY), json!("UNKNOWN")));
    assert_eq!(x_cache(&read_verdict(routes, "cs_1").await), Some("HIT"));
    let heads = payments.heads();
    assert_eq!(heads.len(), 1);
    assert!(heads[0].starts_with("GET /v1/checkout/sessions/cs_1 HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[0].contains(&format!("authorization: Bearer {TOKEN}\r\n")), "{}", heads[0]);

    assert_eq!(at(&get(control, "/v1/sessions/cs_1").await, "/customer_email"), EMAIL);
    let names = event_names(control, "cs_1").await;
    assert_eq!(names[..2], ["session_looked_up", "session_registered"]);
    // case stripe-free: a session of a free order
    payments.set_answer(checkout("no_payment_required", "quick"));
    assert_eq!(read_verdict(routes, "cs_free").await.status, 200);
    let entry = &log(control, "event=session_looked_up").await[0];
    assert_eq!((&entry["oracle_id"], &entry["outcome"]), (&json!("lookup"), &json!("found")));
    assert_eq!(entry["response_hash"].as_str().map(str::len), Some(64));
    let oracles = document(&get(routes, "/v1/health/oracles").await);
    let is_healthy = |oracle: &Value| oracle["oracle_id"] == "lookup" && oracle["status"] == "healthy";
    assert!(oracles.as_array().is_some_and(|all| all.iter().any(is_healthy)), "{oracles}");
    let metrics = get(routes, "/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("oracled_session_lookups_total{outcome=\"found\"} 2\n"), "{metrics}");
    for secret in [EMAIL, TOKEN] {
        assert!(!world.mirror().contains(secret) && !world.service_log().contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn unregistered_session_gets_404_or_retry_after_by_the_answer_of_the_service() {
    let (model, payments) = (ModelServer::start().await, ScriptedSource::start().await);
    let world = world(&model, &session_url(&payments), "timeout_ms = 1500\n");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let cases = [
        (checkout("unpaid", "quick"), 404, "session_unknown"),
        (String::new(), 503, "lookup_unavailable"),
        (checkout("paid", "gold"), 404, "session_unknown"),
        (empty("500 Broken", ""), 503, "lookup_unavailable"),
        (empty("404 Not Found", ""), 404, "session_unknown"),
        (complete_answer("", "{\"payment_status\":"), 503, "lookup_unavailable"),
        (checkout("canceled", "quick"), 404, "session_unknown"),
        (empty("302 Found", "location: http://127.0.0.1:1/x\r\n"), 503, "lookup_unavailable"),
    ];
    for (number, (answer, status, code)) in cases.into_iter().enumerate() {
        payments.set_answer(answer);
        let read = read_verdict(routes, &format!("cs_{number}")).await;
        let refused = problem(&read, status, code);
        assert!(!refused.to_string().contains(EMAIL), "{refused}");
        assert_eq!(read.headers.contains_key("retry-after"), status == 503, "{refused}");
    }
    payments.set_answer(empty("429 Slow", "retry-after: 20\r\n"));
    for _ in 0..2 {
        let read = read_verdict(routes, "cs_busy").await;
        problem(&read, 503, "lookup_unavailable");
        let wait = read.headers["retry-after"].to_str().expect("a number").parse::<u64>().expect("a number");
        assert!((15..=20).contains(&wait), "{wait}");
    }
    assert_eq!((payments.heads().len(), model.request_count()), (9, 0));
}

#[tokio::test]
async fn application_without_look_up_gets_session_unknown_without_a_call() {
    let (model, payments) = (ModelServer::start().await, ScriptedSource::start().await);
    let mut world = world(&model, &session_url(&payments), "");
    let uid = nix::unistd::getuid();
    world.config += &format!(
        "[applications.help]\nuids = [{uid}]\n[applications.shop]\nuids = [4000000000]\nlookup = true\n"
    );
    let daemon = world.serve().await;
    payments.set_answer(checkout("paid", "quick"));
    problem(&read_verdict(&mut daemon.routes().await, "cs_1").await, 404, "session_unknown");
    assert_eq!(payments.heads().len(), 0);
}

#[tokio::test]
async fn look_up_that_cannot_work_is_an_error_of_the_configuration() {
    let model = ModelServer::start().await;
    let local = "http://127.0.0.1:1/{session_id}";
    let check = |world: &DaemonWorld| {
        let file = world.config_file();
        error_line(world.oracled(&["check-config", "--config", &file.to_string_lossy()]))
    };
    let mut without_permission = world(&model, local, "");
    without_permission.config = without_permission.config.replace(LOCAL, "");
    let error = check(&without_permission);
    assert!(error.contains("`lookup.session_url`") && error.contains("ingestion.allow_local"), "{error}");
    let error = check(&world(&model, "http://pay.example/{session_id}", ""));
    assert!(error.contains("`lookup.session_url`") && error.contains("https"), "{error}");
    let mut without_token = world(&model, local, "");
    without_token.variables.retain(|(name, _)| name != "LOOKUP_TOKEN");
    let error = check(&without_token);
    assert!(error.contains("lookup.token_file") && error.contains("LOOKUP_TOKEN"), "{error}");
    let error = check(&world(&model, local, "query_paths = [\"a[\"]\n"));
    assert!(error.contains("lookup.query_paths"), "{error}");
}

/// Tests against localstripe, a third-party imitation of Stripe, which `tests/localstripe.sh` starts. It has no checkout
/// sessions, so payment intents take their place.
#[tokio::test]
#[ignore = "needs a running localstripe: run tests/localstripe.sh"]
async fn localstripe_payment_is_registered_only_if_it_is_paid() {
    let variable = |name: &str| env::var(name).expect("tests/localstripe.sh sets it");
    let (paid, unpaid) = (variable("ORACLED_TEST_STRIPE_PAID"), variable("ORACLED_TEST_STRIPE_UNPAID"));
    let url = variable("ORACLED_TEST_STRIPE_URL") + "/v1/payment_intents/{session_id}";
    let model = ModelServer::start().await;
    let world = world(&model, &url, "required_path = \"$.status\"\nrequired_value = \"succeeded\"\n");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let read = read_verdict(routes, &paid).await;
    assert_eq!((read.status.as_u16(), at(&read, "/query")), (200, json!(QUERY)));
    problem(&read_verdict(routes, &unpaid).await, 404, "session_unknown");
    problem(&read_verdict(routes, "pi_unknown").await, 404, "session_unknown");
    let entries = log(&mut daemon.control().await, "event=session_looked_up").await;
    let outcomes: Vec<_> = entries.iter().map(|entry| &entry["outcome"]).collect();
    assert_eq!(outcomes, ["found", "not_fulfilled", "unknown"]);
}
