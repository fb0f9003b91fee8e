//! Problems of the model: each has its status and code for a read, and its outcome for an order. None of them caches a
//! verdict.

use crate::wording::stable;
use jiff::{SignedDuration, Timestamp};
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::generation::{
    KEY, event_names, place_order, read_cached, read_metric, read_verdict, register_session, request_verdict,
    retry_after_s, unreachable_url, wait_for_first_attempt, wait_for_order, world_with_model, x_cache,
};
use oracled_tests::load::field;
use oracled_tests::model::{ModelServer, ScriptedReply};
use oracled_tests::{DaemonProcess, DaemonWorld, at, document, eventually, get, log, post, problem};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A failure of the model and its expected effects.
struct ModelProblemCase {
    reply: ScriptedReply,
    /// Expected status of a read.
    status: u16,
    /// Expected code of a read.
    code: &'static str,
    /// Expected `error_code` of the log entry.
    error_code: &'static str,
    /// Expected outcome of an order's attempt.
    outcome: &'static str,
    /// Expected time until an order's next attempt; `None` if the order fails at the limit of unusable answers.
    pause_s: Option<i64>,
    message: &'static str,
}

/// All failures but the timeout, which needs a short deadline.
fn cases() -> Vec<ModelProblemCase> {
    let unavailable = |reply, error_code, pause_s, message| ModelProblemCase {
        reply,
        status: 503,
        code: "model_unavailable",
        error_code,
        outcome: "model_unavailable",
        pause_s: Some(pause_s),
        message,
    };
    let refused = |answer: &Value, error_code, outcome, message| ModelProblemCase {
        reply: ScriptedReply::json(200, answer),
        status: 502,
        code: "model_refused",
        error_code,
        outcome,
        pause_s: None,
        message,
    };
    let refused_request = |status, error_code, message| ModelProblemCase {
        reply: ScriptedReply::error(status, message),
        status: 502,
        code: "model_refused_request",
        error_code,
        outcome: "request_refused",
        pause_s: Some(5),
        message,
    };
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let empty = json!({"candidates": [{"finishReason": "STOP"}]});
    let stopped = json!({"candidates": [{"finishReason": "MAX_TOKENS"}]});
    vec![
        unavailable(ScriptedReply::error(500, "inside out"), "http_500", 5, "inside out"),
        unavailable(
            ScriptedReply::error(503, "overloaded").header("retry-after", "77"),
            "http_503",
            77,
            "overloaded",
        ),
        unavailable(ScriptedReply::error(429, "quota").header("retry-after", "61"), "http_429", 61, "quota"),
        refused_request(400, "http_400", "bad request"),
        refused_request(401, "http_401", "no such key"),
        refused_request(403, "http_403", "not allowed"),
        refused_request(404, "http_404", "no such model"),
        refused_request(413, "http_413", "too large"),
        refused_request(422, "http_422", "no such option"),
        unavailable(ScriptedReply::hang_up(), "broken", 5, "not available"),
        ModelProblemCase {
            outcome: "unreadable_answer",
            ..unavailable(ScriptedReply::bytes(200, "<html>"), "unreadable", 5, "unusable")
        },
        refused(&blocked, "prompt_blocked", "prompt_blocked", "SAFETY"),
        refused(&stopped, "finish_reason", "stopped_early", "MAX_TOKENS"),
        refused(&empty, "empty_answer", "empty_answer", "gave no verdict"),
        unavailable(ScriptedReply::json(200, &json!({})), "error_answer_500", 5, "`candidates`"),
    ]
}

/// Checks the answer to a read of a lost verdict.
fn check_answer(answer: &DaemonResponse, case: &ModelProblemCase) {
    let document = problem(answer, case.status, case.code);
    let detail = field(&document, "detail").as_str().expect("the problem has a detail");
    assert!(detail.contains(case.message), "{detail}");
    // after the model was called, the session's limit of five minutes applies, whatever the model answered
    let wait = retry_after_s(answer);
    let waits = wait.is_some_and(|wait_s| (290..=300).contains(&wait_s));
    assert_eq!(waits, case.code != "model_refused_request", "{}: {wait:?}", case.error_code);
}

/// Checks an order after its first attempt, if `orders.generations_max` is 1.
fn check_order(order: &Value, case: &ModelProblemCase) {
    let attempt = &order["last_attempts"][0];
    assert_eq!((&order["attempts"], &attempt["outcome"]), (&json!(1), &json!(case.outcome)), "{order}");
    assert!(attempt["cause"].as_str().is_some_and(|cause| cause.contains(case.message)), "{order}");
    let time = |name: &str| order[name].as_str()?.parse::<Timestamp>().ok();
    let changed_at = time("changed_at").expect("a time");
    let pause = time("next_attempt_at").map(|due| due.duration_since(changed_at));
    assert_eq!(pause, case.pause_s.map(SignedDuration::from_secs), "{order}");
    let state = if case.pause_s.is_some() { "queued" } else { "failed" };
    assert_eq!(order["state"], state, "{order}");
}

/// An operator's `action` on an order.
async fn change_order(control: &mut DaemonClient, session: &str, action: &str) {
    let body = json!({"action": action, "reason": "test"});
    let answer = post(control, &format!("/v1/orders/{session}"), &body).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
}

/// Ends the wait that the model requested, or its refusal of all calls, so that the next call reaches the model.
async fn end_wait(world: &DaemonWorld, case: &ModelProblemCase) {
    if ["http_429", "http_503", "http_401", "http_403", "http_404"].contains(&case.error_code) {
        let closed = world.ctl_in_thread(&["health", "close", "gemini"]).await;
        assert!(closed.status.success(), "{closed:?}");
    }
}

/// Checks the effects of a failure of the model on an order and on a read, whose sessions get the suffix `n`.
async fn check_case(
    model: &ModelServer,
    world: &DaemonWorld,
    daemon: &DaemonProcess<'_>,
    n: usize,
    case: &ModelProblemCase,
) {
    let (mut routes, mut control) = (daemon.routes().await, daemon.control().await);
    model.set_default(case.reply.clone());
    let (ordered, lost) = (format!("ordered-{n}"), format!("lost-{n}"));
    place_order(world, &ordered).await;
    check_order(&wait_for_first_attempt(&mut routes, &ordered).await, case);
    if case.pause_s.is_some() {
        // the next attempt would interfere with the next case
        change_order(&mut control, &ordered, "fail").await;
    }
    end_wait(world, case).await;
    problem(&read_verdict(&mut routes, &ordered).await, 422, "order_failed");
    assert_eq!(
        event_names(&mut control, &ordered).await,
        ["order_placed", "order_attempted", "oracle_interaction", "order_attempt_failed", "order_stopped"]
    );

    register_session(&mut routes, &lost, None).await;
    check_answer(&read_verdict(&mut routes, &lost).await, case);
    assert_eq!(
        event_names(&mut control, &lost).await,
        ["session_registered", "regen_attempted", "oracle_interaction"]
    );
    for session in [&ordered, &lost] {
        problem(&read_cached(&mut routes, session).await, 404, "verdict_not_cached");
        let attempt =
            log(&mut control, &format!("session={session}&event=oracle_interaction")).await.remove(0);
        assert_eq!(attempt["error_code"], case.error_code);
        let status = if case.code == "model_timeout" { "timeout" } else { "error" };
        assert_eq!(attempt["status"], status);
    }
    problem(&read_verdict(&mut routes, &lost).await, 429, "regen_rate_limited");
    // an order has no such limit
    end_wait(world, case).await;
    model.set_default(ScriptedReply::with_text(oracled_tests::GOOD));
    change_order(&mut control, &ordered, "retry").await;
    wait_for_order(&mut routes, &ordered, "delivered").await;
}

#[tokio::test]
async fn each_model_problem_has_its_status_and_code_and_caches_nothing() {
    let model = ModelServer::start().await;
    let world = model.create_world("[health]\nfailure_threshold = 1000\n[orders]\ngenerations_max = 1");
    let daemon = world.serve().await;
    for (n, case) in cases().iter().enumerate() {
        check_case(&model, &world, &daemon, n, case).await;
    }
    let routes = &mut daemon.routes().await;
    assert_eq!(read_metric(routes, "oracled_cached_verdicts").await, cases().len() as f64);
    for outcome in ["prompt_blocked", "stopped_early", "empty_answer", "unreadable_answer"] {
        for path in ["generate", "regen"] {
            let made = format!(
                "oracled_verdicts_made_total{{application=\"default\",path=\"{path}\",outcome=\"{outcome}\"}}"
            );
            assert_eq!(read_metric(routes, &made).await, 1.0, "{made}");
        }
    }
}

#[tokio::test]
async fn model_timeout_has_its_status_and_code_and_caches_nothing() {
    let model = ModelServer::start().await;
    let world = model.create_world("deadline_ms = 400");
    let daemon = world.serve().await;
    let case = ModelProblemCase {
        reply: ScriptedReply::silence(),
        status: 504,
        code: "model_timeout",
        error_code: "timeout",
        outcome: "model_timeout",
        pause_s: Some(5),
        message: "in time",
    };
    check_case(&model, &world, &daemon, 0, &case).await;
}

#[tokio::test]
async fn unreachable_model_is_503_for_a_read_and_keeps_an_order_queued() {
    let (_kept, url) = unreachable_url();
    let world = world_with_model(&url, "[health]\nfailure_threshold = 1000");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "lost", None).await;
    let answer = read_verdict(routes, "lost").await;
    problem(&answer, 503, "model_unavailable");
    assert_eq!(retry_after_s(&answer), Some(5));
    place_order(&world, "cs_1").await;
    let order = wait_for_first_attempt(routes, "cs_1").await;
    assert_eq!(
        (&order["state"], &order["last_attempts"][0]["outcome"]),
        (&json!("queued"), &json!("model_unavailable"))
    );
    assert_eq!(read_verdict(routes, "cs_1").await.status, 202);
}

#[tokio::test]
async fn temporary_failure_is_retried_and_each_attempt_is_logged() {
    let model = ModelServer::start().await;
    let world = model.create_world("max_retries = 3");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    model.next([ScriptedReply::error(503, "not now"), ScriptedReply::hang_up()]);
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
    let attempts = log(control, "session=cs_1&event=oracle_interaction").await;
    let outcomes: Vec<_> =
        attempts.iter().map(|entry| (entry["attempt"].as_u64(), entry["status"].as_str())).collect();
    assert_eq!(outcomes, [(Some(1), Some("error")), (Some(2), Some("error")), (Some(3), Some("success"))]);
    assert!(attempts.iter().all(|entry| entry["execution_id"] == attempts[0]["execution_id"]));
    assert_eq!(read_metric(routes, "oracled_model_retries_total").await, 2.0);
    // the health counts the result of all attempts, not each attempt
    assert_eq!(at(&get(routes, "/v1/health/oracles").await, "/0/status"), "healthy");
}

#[tokio::test]
async fn orders_over_the_concurrency_limit_wait_and_reads_get_model_busy() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::silence());
    let world = model.create_world("calls_at_once = 2\nhard_timeout_ms = 20000");
    let daemon = world.serve().await;
    for n in 0..2 {
        place_order(&world, &format!("cs_{n}")).await;
    }
    eventually("two calls are in flight", async || model.request_count() == 2).await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    register_session(routes, "lost", None).await;
    let order = place_order(&world, "cs_2").await;
    assert_eq!((&order["state"], &order["attempts"]), (&json!("queued"), &json!(0)), "{order}");
    let refused = read_verdict(routes, "lost").await;
    let document = problem(&refused, 503, "model_busy");
    insta::assert_snapshot!("refusal_by_the_limit_of_calls_at_once", document["detail"].as_str().unwrap());
    assert_eq!(retry_after_s(&refused), Some(1));
    assert_eq!(event_names(control, "cs_2").await, ["order_placed"]);
    assert_eq!(event_names(control, "lost").await, ["session_registered"]);
    assert_eq!((model.request_count(), model.most_in_flight()), (2, 2));
}

#[tokio::test]
async fn orders_over_the_rate_limit_wait_and_reads_get_retry_after() {
    let model = ModelServer::start().await;
    let world = model.create_world("calls_per_minute = 24");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for n in 0..6 {
        assert_eq!(request_verdict(routes, &format!("cs_{n}")).await.status, 201);
    }
    register_session(routes, "lost", None).await;
    let refused = read_verdict(routes, "lost").await;
    let document = problem(&refused, 503, "model_busy");
    // the detail ends with the wait
    let (limit, _) = document["detail"].as_str().unwrap().split_once("; ").expect("a wait");
    insta::assert_snapshot!("refusal_by_the_limit_of_calls_a_minute", limit);
    let wait_s = retry_after_s(&refused).unwrap();
    // a quarter of the calls is available at once, and the rest is spread over the minute
    assert!((2..=4).contains(&wait_s), "{wait_s}");
    assert_eq!(
        event_names(control, "lost").await,
        ["session_registered"],
        "a refused read does not count as an attempt"
    );
    let order = place_order(&world, "cs_6").await;
    assert_eq!((&order["state"], &order["attempts"]), (&json!("queued"), &json!(0)), "{order}");
    assert_eq!((model.request_count(), x_cache(&read_verdict(routes, "cs_0").await)), (6, Some("HIT")));
    wait_for_order(routes, "cs_6", "delivered").await;
    assert_eq!(model.request_count(), 7);
}

#[tokio::test]
async fn retries_count_against_the_budget() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::error(503, "not now"));
    let world = model.create_world("calls_per_minute = 8\nmax_retries = 3");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for session in ["first", "second"] {
        register_session(routes, session, None).await;
    }
    problem(&read_verdict(routes, "first").await, 503, "model_unavailable");
    assert_eq!(model.request_count(), 2, "the first attempt, and the one retry that the budget permits");
    problem(&read_verdict(routes, "second").await, 503, "model_busy");
    assert_eq!(place_order(&world, "cs_1").await["attempts"], 0);
    assert_eq!(model.request_count(), 2);
}

#[tokio::test]
async fn model_deadline_ends_before_the_request_timeout() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::silence());
    let world = model.create_world("deadline_ms = 1000\n[limits]\nrequest_s = 2\n[ingestion]\nrefresh_s = 1");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "lost", None).await;
    let began = Instant::now();
    problem(&read_verdict(routes, "lost").await, 504, "model_timeout");
    assert!(began.elapsed() >= Duration::from_secs(1));
}

/// All output of the daemon, and all that it stores.
async fn read_all_output(world: &DaemonWorld, answers: &[DaemonResponse]) -> String {
    let mut text = world.mirror() + &world.service_log();
    for answer in answers {
        text.push_str(&format!("{:?} {}", answer.headers, String::from_utf8_lossy(&answer.body)));
    }
    for arguments in
        [&["status", "--json"][..], &["health"], &["log", "--json"], &["actors"], &["orders", "--json"]]
    {
        let output = world.ctl(arguments);
        text.push_str(&String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
    let checked = world.oracled(&["check-config", "--config"]).arg(world.config_file()).output();
    let checked = checked.expect("oracled starts");
    assert!(checked.status.success(), "{checked:?}");
    text + &String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat())
}

#[tokio::test]
async fn rejected_key_is_reported_without_its_value() {
    let model = ModelServer::start().await;
    // the server repeats the key wherever it can
    let refused = ScriptedReply::error(401, &format!("the key {KEY} is not valid")).header("x-your-key", KEY);
    model.set_default(refused.clone());
    model.set_probe_reply(refused);
    let mut world = model.create_world("");
    world.config = format!("log_level = \"trace\"\n{}", world.config);
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    register_session(routes, "lost", None).await;
    place_order(&world, "cs_1").await;
    let order = wait_for_first_attempt(routes, "cs_1").await;
    let answers = vec![
        read_verdict(routes, "lost").await,
        get(routes, "/v1/orders/cs_1").await,
        read_verdict(routes, "cs_1").await,
        get(routes, "/metrics").await,
        get(routes, "/v1/health/oracles").await,
        get(routes, "/openapi.json").await,
    ];
    let rejection = problem(&answers[0], 502, "model_refused_request");
    for cause in [&rejection["detail"], &order["last_attempts"][0]["cause"]] {
        assert!(cause.as_str().unwrap().contains("the key [key] is not valid"), "{cause}");
    }
    let probed = world.ctl_in_thread(&["health", "probe", "gemini"]).await;
    let probed = String::from_utf8_lossy(&[probed.stdout, probed.stderr].concat()).into_owned();
    assert!(probed.contains("HTTP status 401") && !probed.contains(KEY), "{probed}");
    let output = read_all_output(&world, &answers).await;
    assert!(
        ["http_401", "[key]", "TRACE"].iter().all(|word| output.contains(word)),
        "the output has the failure"
    );
    assert!(!output.contains(KEY), "the key is sent only to the model");
    assert_eq!(model.requests()[0].header("x-goog-api-key"), Some(KEY));
}

#[tokio::test]
async fn permanent_refusals_are_counted_and_reads_continue() {
    let model = ModelServer::start().await;
    let world = model.create_world("[health]\nfailure_threshold = 2\nhealth_check_interval_seconds = 3600");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for status in [400, 401, 402, 403, 404, 413, 422] {
        let counter = format!("oracled_model_refused_requests_total{{status=\"{status}\"}}");
        let metrics = get(routes, "/metrics").await;
        let shown = String::from_utf8_lossy(&metrics.body).into_owned();
        assert!(shown.contains(&format!("{counter} 0")), "{counter} exists before the first refusal");
        model.next([ScriptedReply::error(status, "no"), ScriptedReply::error(status, "no")]);
        for n in 0..2 {
            let lost = format!("lost-{status}-{n}");
            register_session(routes, &lost, None).await;
            problem(&read_verdict(routes, &lost).await, 502, "model_refused_request");
        }
        assert_eq!(read_metric(routes, &counter).await, 2.0);
    }
    // a read that succeeds proves that the model accepts calls again
    register_session(routes, "found", None).await;
    assert_eq!(read_verdict(routes, "found").await.status, 200);
    assert_eq!(request_verdict(routes, "cs_1").await.status, 201);
}

#[tokio::test]
async fn wait_requested_by_the_model_holds_for_all_sessions() {
    let model = ModelServer::start().await;
    let world = model.create_world("[health]\nhealth_check_interval_seconds = 3600");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for session in ["first", "second", "third"] {
        register_session(routes, session, None).await;
    }
    model.next([ScriptedReply::error(429, "quota").header("retry-after", "61")]);
    problem(&read_verdict(routes, "first").await, 503, "model_unavailable");
    let order = place_order(&world, "cs_1").await;
    assert_eq!((&order["state"], &order["attempts"]), (&json!("queued"), &json!(0)), "{order}");
    for session in ["second", "third"] {
        let answer = read_verdict(routes, session).await;
        problem(&answer, 503, "model_unavailable");
        assert!(retry_after_s(&answer).is_some_and(|wait_s| (50..=61).contains(&wait_s)), "{answer:?}");
    }
    assert_eq!(model.request_count(), 1, "the model is not called");
    let status = at(&get(routes, "/v1/health/oracles").await, "/0");
    assert_eq!((&status["status"], status["retry_at"].is_string()), (&json!("healthy"), true), "{status}");
    // closing the circuit ends the wait, also for the order
    let began = Instant::now();
    let closed = world.ctl_in_thread(&["health", "close", "gemini"]).await;
    assert!(closed.status.success(), "{closed:?}");
    assert_eq!(x_cache(&read_verdict(routes, "second").await), Some("MISS"));
    wait_for_order(routes, "cs_1", "delivered").await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // a 429 without `Retry-After` asks for no wait
    model.next([ScriptedReply::error(429, "quota")]);
    problem(&read_verdict(routes, "third").await, 503, "model_unavailable");
    assert_eq!(request_verdict(routes, "cs_2").await.status, 201);
}

#[tokio::test]
async fn refused_regenerations_carry_the_limiters_retry_after() {
    let model = ModelServer::start().await;
    let world = model.create_world("");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let blocked = ScriptedReply::json(200, &json!({"promptFeedback": {"blockReason": "SAFETY"}}));
    for (session, reply, status) in
        [("cs_1", blocked, 502), ("cs_2", ScriptedReply::with_text("no JSON"), 422)]
    {
        register_session(routes, session, None).await;
        model.next([reply]);
        let answer = read_verdict(routes, session).await;
        assert_eq!(answer.status, status);
        assert!(retry_after_s(&answer).is_some_and(|wait_s| (290..=300).contains(&wait_s)), "{answer:?}");
    }
    model.next([ScriptedReply::with_text("no JSON")]);
    assert_eq!(request_verdict(routes, "cs_3").await.status, 201, "an order has no such limit");
}

/// The order of a session after its first attempt, for which the model gave `reply`.
async fn order_after(reply: ScriptedReply) -> (Value, usize) {
    let model = ModelServer::start().await;
    model.set_default(reply);
    let world = model.create_world("max_retries = 3");
    let daemon = world.serve().await;
    place_order(&world, "cs_1").await;
    let order = wait_for_first_attempt(&mut daemon.routes().await, "cs_1").await;
    (order, model.request_count())
}

#[tokio::test]
async fn case_200_error_lets_the_order_wait_and_shows_the_message() {
    let error = json!({"error": {"code": 429, "message": "Rate limit exceeded"}});
    let (order, calls) = order_after(ScriptedReply::json(200, &error)).await;
    assert_eq!((&order["state"], &order["generations"], calls), (&json!("queued"), &json!(0), 4), "{order}");
    let attempt = &order["last_attempts"][0];
    assert_eq!(attempt["outcome"], "model_unavailable");
    assert!(attempt["cause"].as_str().is_some_and(|cause| cause.contains("Rate limit exceeded")), "{order}");
}

#[tokio::test]
async fn case_retry_after_ms_is_that_wait_after_one_call() {
    let info = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"});
    let in_list = json!([{"error": {"code": 429, "message": "slow", "details": [info]}}]);
    for (reply, wait_s) in [
        (ScriptedReply::error(429, "slow").header("retry-after-ms", "40000"), 40),
        (ScriptedReply::json(429, &in_list), 37),
    ] {
        let (order, calls) = order_after(reply).await;
        let at = |name: &str| order[name].as_str().expect("a time").parse::<Timestamp>().expect("a time");
        let wait = at("next_attempt_at").duration_since(at("changed_at"));
        assert_eq!((calls, wait.as_secs()), (1, wait_s), "{order}");
    }
}

#[tokio::test]
async fn model_that_requested_a_long_wait_is_shown_as_such() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::error(429, "slow").header("retry-after", "3600"));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    place_order(&world, "cs_1").await;
    wait_for_first_attempt(routes, "cs_1").await;
    let degraded = at(&get(routes, "/readyz").await, "/degraded/0");
    assert!(degraded.as_str().is_some_and(|it| it.starts_with("models_unavailable: ")), "{degraded}");
    let status = get(control, "/v1/status").await;
    assert_eq!(at(&status, "/degraded/0"), degraded);
    let oracle = at(&status, "/oracles/0");
    let is_time = |word: &str| word.trim_matches([',', ')']).parse::<Timestamp>().is_ok();
    assert!(oracle.as_str().is_some_and(|it| it.split(' ').any(is_time)), "{oracle}");
    let paused = "oracled_oracle_circuit_state{oracle=\"gemini\",status=\"paused\"}";
    assert_eq!(read_metric(routes, paused).await, 1.0);
    // the next order is not attempted before the wait is over, so its request does not wait either
    let began = Instant::now();
    let answer = request_verdict(routes, "cs_2").await;
    assert!(answer.status == 202 && began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(at(&answer, "/waiting_for/until").is_string(), "{}", document(&answer));
}

#[tokio::test]
async fn model_that_refuses_every_call_is_shown_as_such() {
    let model = ModelServer::start().await;
    model.set_default(ScriptedReply::error(401, "no such key"));
    let world = model.create_world("");
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    for session in ["cs_1", "cs_2", "cs_3"] {
        place_order(&world, session).await;
        if session == "cs_1" {
            wait_for_first_attempt(routes, session).await;
        }
    }
    let oracle = document(&get(control, "/v1/health/oracles").await)[0].clone();
    assert_eq!((&oracle["status"], &oracle["consecutive_failures"]), (&json!("refusing"), &json!(1)));
    let status = at(&get(control, "/v1/status").await, "/oracles/0");
    insta::assert_snapshot!("status_of_a_model_that_refuses_calls", stable(&world, status.as_str().unwrap()));
    let ready = get(routes, "/readyz").await;
    let degraded = at(&ready, "/degraded/0");
    assert_eq!((ready.status.as_u16(), at(&ready, "/ready")), (200, json!(true)));
    assert!(degraded.as_str().is_some_and(|it| it.starts_with("models_unavailable since ")), "{degraded}");
    assert_eq!(at(&get(control, "/v1/status").await, "/degraded/0"), degraded);
    let waits = document(&get(routes, "/v1/orders/cs_3").await);
    assert_eq!(waits["waiting_for"]["cause"], "request_refused", "{waits}");
    assert!(
        !waits["waiting_for"].to_string().contains("no such key"),
        "only operators see the answer: {waits}"
    );
    let metrics = String::from_utf8_lossy(&get(routes, "/metrics").await.body).into_owned();
    assert!(
        metrics.contains("oracled_oracle_circuit_state{oracle=\"gemini\",status=\"refusing\"} 1"),
        "{metrics}"
    );
    assert_eq!(model.request_count(), 1);
    // an operator who has corrected the key ends the wait
    model.set_default(ScriptedReply::with_text(oracled_tests::GOOD));
    assert_eq!(post(control, "/v1/health/oracles/gemini", &json!({"action": "close"})).await.status, 200);
    wait_for_order(routes, "cs_3", "delivered").await;
    assert_eq!(at(&get(routes, "/readyz").await, "/degraded"), json!([]));
}
