//! The model client against servers that fail in every way that a server can: which requests are retried, how often,
//! and which errors are reported.

use actors_platform::clock::Clock;
use actors_upstream::{
    AnthropicClient, GeminiClient, ModelCallPolicy, ModelCallPurpose, ModelCallResult, ModelCaller,
    ModelClient, ModelError, ModelHealthEffect, OpenAiClient, RequestFailureKind, UpstreamEndpoint,
};
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::gate_path::GatePath;
use domain_base::session_id::SessionId;
use domain_upstream::event::InteractionStatus;
use domain_verdict::event::OracleInteraction;
use domain_verdict::generation::{GenerationSettings, LOCKED_MODEL, ModelTokenUsage, response_schema};
use domain_verdict::interaction::OracleInteractionLog;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::ModelPrompt;
use oracled_tests::GOOD;
use oracled_tests::generation::built_in_prompt;
use oracled_tests::model::{ModelServer, ScriptedReply, anthropic_answer, gemini_answer, openai_answer};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const KEY: &str = "AIza-not-a-real-key";

fn clock() -> Clock {
    Clock::fixed("2026-11-20T10:00:00Z".parse().expect("a time"))
}

fn gemini_at(base: &str) -> Arc<dyn ModelClient> {
    Arc::new(GeminiClient::new(base, "v1beta".into(), KEY.into(), clock()).expect("a client"))
}

fn openai_at(base: &str) -> Arc<dyn ModelClient> {
    Arc::new(OpenAiClient::new(base, Some(KEY.into()), clock()).expect("a client"))
}

fn anthropic_at(base: &str) -> Arc<dyn ModelClient> {
    Arc::new(AnthropicClient::new(base, KEY.into(), clock()).expect("a client"))
}

/// A client of `server` for each protocol.
fn all_clients(server: &ModelServer) -> [Arc<dyn ModelClient>; 3] {
    [gemini_at(&server.url()), openai_at(&server.openai_url()), anthropic_at(&server.url())]
}

fn caller_of(model: Arc<dyn ModelClient>, policy: ModelCallPolicy) -> ModelCaller {
    ModelCaller::new("tested".parse().expect("an id"), model, policy, clock())
}

fn prompt(query: &str) -> ModelPrompt {
    built_in_prompt(ProductTier::Quick, query)
}

fn settings() -> GenerationSettings {
    GenerationSettings::locked(LOCKED_MODEL.to_owned())
}

fn purpose() -> ModelCallPurpose {
    ModelCallPurpose { session_id: Some("cs_1".parse().expect("an id")), path: GatePath::Regen }
}

async fn call_within(model: Arc<dyn ModelClient>, policy: ModelCallPolicy) -> ModelCallResult {
    let caller = caller_of(model, policy);
    caller.call(&purpose(), &prompt("Sell honey?"), &settings(), async |_| {}, async || true).await
}

async fn call(model: Arc<dyn ModelClient>) -> ModelCallResult {
    call_within(model, ModelCallPolicy::default()).await
}

fn interactions(attempts: &[AuditEvent]) -> Vec<&OracleInteractionLog> {
    attempts.iter().filter_map(|event| Some(&*event.kind.get::<OracleInteraction>()?.0)).collect()
}

fn codes(called: &ModelCallResult) -> Vec<&str> {
    interactions(&called.interactions)
        .into_iter()
        .filter_map(|attempt| attempt.error_code.as_deref())
        .collect()
}

/// The wait that the caller gets from a call that found the model unavailable.
fn retry_wait(called: &ModelCallResult) -> Option<Option<Duration>> {
    match &called.outcome {
        Err(ModelError::Unavailable { retry_after, .. }) => Some(*retry_after),
        Err(ModelError::RefusedRequest { .. } | ModelError::UnreadableAnswer { .. }) => Some(None),
        _ => None,
    }
}

/// A repeated failure: the reply, the number of attempts, the `error_code` in the log, and the effect on health.
type RepeatedFailure = (ScriptedReply, usize, &'static str, ModelHealthEffect);

fn faults() -> Vec<RepeatedFailure> {
    let mut faults = vec![
        (ScriptedReply::error(429, "slow down"), 4, "http_429", ModelHealthEffect::Neutral),
        (ScriptedReply::error(501, "what is that"), 1, "http_501", ModelHealthEffect::Failed),
        (
            ScriptedReply::bytes(302, "").header("location", "/v1/chat/completions"),
            1,
            "http_302",
            ModelHealthEffect::Failed,
        ),
        (ScriptedReply::hang_up(), 4, "broken", ModelHealthEffect::Failed),
        (ScriptedReply::with_text(GOOD).cut_after(0), 4, "broken", ModelHealthEffect::Failed),
        (ScriptedReply::with_text(GOOD).cut_after(40), 4, "broken", ModelHealthEffect::Failed),
        (ScriptedReply::bytes(200, ""), 1, "unreadable", ModelHealthEffect::Failed),
        (ScriptedReply::bytes(200, "<html>sign in</html>"), 1, "unreadable", ModelHealthEffect::Failed),
        (ScriptedReply::bytes(200, [0xff, 0xfe, 0]), 1, "unreadable", ModelHealthEffect::Failed),
        (
            ScriptedReply::bytes(200, "{\"candidates\": 7, \"choices\": 7, \"content\": 7}"),
            1,
            "unreadable",
            ModelHealthEffect::Failed,
        ),
        (ScriptedReply::bytes(200, "{\"candidates\":[{\"cont"), 1, "unreadable", ModelHealthEffect::Failed),
        (ScriptedReply::bytes(200, vec![b' '; (4 << 20) + 1]), 1, "too_large", ModelHealthEffect::Failed),
        // the body of a good answer is ignored if the status is an error
        (ScriptedReply::json(400, &gemini_answer(GOOD)), 1, "http_400", ModelHealthEffect::Neutral),
        (ScriptedReply::json(400, &openai_answer(GOOD)), 1, "http_400", ModelHealthEffect::Neutral),
    ];
    for (status, code) in [(400, "http_400"), (413, "http_413"), (422, "http_422")] {
        faults.push((ScriptedReply::error(status, "not this"), 1, code, ModelHealthEffect::Neutral));
    }
    for (status, code) in [(401, "http_401"), (403, "http_403"), (404, "http_404"), (402, "http_402")] {
        faults.push((ScriptedReply::error(status, "not you"), 1, code, ModelHealthEffect::Refused));
    }
    for (status, code) in [(408, "http_408"), (500, "http_500"), (502, "http_502"), (503, "http_503")] {
        faults.push((ScriptedReply::error(status, "not now"), 4, code, ModelHealthEffect::Failed));
    }
    faults.push((
        ScriptedReply::bytes(504, "<html>gateway</html>"),
        4,
        "http_504",
        ModelHealthEffect::Failed,
    ));
    faults
}

#[tokio::test]
async fn retryable_failure_is_tried_four_times_and_others_once() {
    let mut calls = JoinSet::new();
    for (reply, expected_calls, code, health) in faults() {
        for wire in 0..3 {
            let reply = reply.clone();
            calls.spawn(async move {
                let server = ModelServer::start().await;
                server.set_default(reply.clone());
                let called = call(all_clients(&server)[wire].clone()).await;
                assert_eq!(server.request_count(), expected_calls, "{reply:?}");
                assert_eq!(codes(&called), vec![code; expected_calls], "{reply:?}");
                assert_eq!(retry_wait(&called), Some(None), "{reply:?}");
                assert_eq!((called.health, called.reached), (health, true), "{reply:?}");
            });
        }
    }
    while let Some(called) = calls.join_next().await {
        called.expect("the assertions hold");
    }
}

#[tokio::test]
async fn cause_of_a_failure_does_not_depend_on_the_number_of_requests() {
    let server = ModelServer::start().await;
    server.set_default(ScriptedReply::error(503, "not now"));
    let client = || all_clients(&server)[0].clone();
    let once = call_within(client(), ModelCallPolicy { max_retries: 0, ..ModelCallPolicy::default() }).await;
    let often = call(client()).await;
    assert_eq!((once.interactions.len(), often.interactions.len()), (1, 4));
    assert!(once.cause.is_some() && once.outcome != often.outcome, "{often:?}");
    assert_eq!(once.cause, often.cause);
}

#[tokio::test]
async fn temporary_failure_is_retried_without_an_error_to_the_caller() {
    for wire in 0..3 {
        let server = ModelServer::start().await;
        server.next([ScriptedReply::error(503, "not now"), ScriptedReply::hang_up()]);
        let called = call(all_clients(&server)[wire].clone()).await;
        assert_eq!(called.outcome.expect("the third attempt succeeds").text, GOOD);
        assert_eq!((called.health, server.request_count()), (ModelHealthEffect::Answered, 3));
        let statuses: Vec<_> =
            interactions(&called.interactions).iter().map(|attempt| attempt.status).collect();
        assert_eq!(
            statuses,
            [InteractionStatus::Error, InteractionStatus::Error, InteractionStatus::Success]
        );
    }
}

#[tokio::test]
async fn wait_requested_by_the_model_is_observed() {
    let retry_info = json!({"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.2s"},
    ]}});
    for busy in [
        ScriptedReply::error(429, "slow down").header("retry-after", "1"),
        ScriptedReply::error(503, "not now").header("retry-after", "Fri, 20 Nov 2026 10:00:01 GMT"),
        ScriptedReply::json(429, &retry_info),
        ScriptedReply::json(429, &retry_info).header("retry-after", "0"),
    ] {
        let server = ModelServer::start().await;
        server.next([busy.clone()]);
        let began = Instant::now();
        let called = call(gemini_at(&server.url())).await;
        assert!(called.outcome.is_ok(), "{:?}", called.outcome);
        assert!(began.elapsed() >= Duration::from_secs(1), "{busy:?}");
        assert_eq!(server.request_count(), 2);
    }
}

#[tokio::test]
async fn wait_beyond_the_deadline_is_returned_at_once_and_is_at_most_an_hour() {
    for (asks, wait_s) in [
        ("60", 60),
        ("3600", 3600),
        ("3601", 3600),
        ("18446744073709", 3600),
        ("Sun, 20 Nov 2050 10:00:00 GMT", 3600),
    ] {
        let server = ModelServer::start().await;
        server.set_default(ScriptedReply::error(429, "quota").header("retry-after", asks));
        let began = Instant::now();
        let called = call(gemini_at(&server.url())).await;
        assert_eq!(
            (retry_wait(&called), server.request_count()),
            (Some(Some(Duration::from_secs(wait_s))), 1)
        );
        assert!(began.elapsed() < Duration::from_secs(20), "the client does not wait");
    }
}

#[tokio::test]
async fn attempt_without_a_timely_answer_is_retried() {
    let policy = ModelCallPolicy {
        soft_timeout: Duration::from_millis(100),
        hard_timeout: Duration::from_millis(500),
        ..ModelCallPolicy::default()
    };
    let server = ModelServer::start().await;
    server.next([ScriptedReply::silence(), ScriptedReply::with_text(GOOD).after(Duration::from_millis(150))]);
    let called = call_within(gemini_at(&server.url()), policy).await;
    assert!(called.outcome.is_ok(), "{:?}", called.outcome);
    let [silent, slow] = interactions(&called.interactions)[..] else { panic!("two attempts") };
    assert_eq!((silent.status, silent.error_code.as_deref()), (InteractionStatus::Timeout, Some("timeout")));
    assert_eq!((silent.response_timestamp, silent.response_hash.as_ref()), (None, None));
    assert!((500..5000).contains(&silent.latency_ms), "{}", silent.latency_ms);
    assert!(silent.soft_timeout_exceeded && slow.soft_timeout_exceeded, "both took longer than 100 ms");
    assert_eq!(called.latency_ms, slow.latency_ms);

    server.set_default(ScriptedReply::silence());
    let called = call_within(gemini_at(&server.url()), policy).await;
    assert!(matches!(called.outcome, Err(ModelError::Timeout { .. })), "{:?}", called.outcome);
    assert_eq!(
        (called.health, called.reached, server.request_count()),
        (ModelHealthEffect::Failed, true, 2 + 4)
    );
}

#[tokio::test]
async fn deadline_ends_the_current_attempt_and_all_retries() {
    let policy = ModelCallPolicy { deadline: Duration::from_millis(800), ..ModelCallPolicy::default() };
    let server = ModelServer::start().await;
    server.next([ScriptedReply::error(503, "not now"), ScriptedReply::silence()]);
    let began = Instant::now();
    let called = call_within(gemini_at(&server.url()), policy).await;
    assert!(matches!(called.outcome, Err(ModelError::Timeout { .. })), "{:?}", called.outcome);
    assert_eq!(codes(&called), ["http_503", "timeout"]);
    assert!(began.elapsed() >= policy.deadline, "the deadline is used");
    assert!(began.elapsed() < Duration::from_secs(15), "not the timeout of one attempt, 20 s");
    assert_eq!(server.request_count(), 2);
}

#[tokio::test]
async fn unreachable_model_counts_as_not_reached() {
    let unreachable =
        TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let called = call(gemini_at(&format!("http://{unreachable}"))).await;
    assert_eq!(codes(&called), ["connect"; 4]);
    assert_eq!((called.health, called.reached), (ModelHealthEffect::Failed, false));
    assert_eq!(retry_wait(&called), Some(None));
}

#[tokio::test]
async fn server_without_a_valid_certificate_gets_no_request() {
    let server = ModelServer::start().await;
    let model = gemini_at(&server.url().replace("http://", "https://"));
    let called = call_within(model, ModelCallPolicy { max_retries: 0, ..ModelCallPolicy::default() }).await;
    assert_eq!(codes(&called), ["connect"]);
    assert_eq!((called.reached, server.request_count()), (false, 0));
}

#[tokio::test]
async fn only_retries_require_permission() {
    let server = ModelServer::start().await;
    for (reply, leave, asked_for_leave, calls) in [
        (ScriptedReply::error(503, "not now"), false, 1, 1),
        (ScriptedReply::error(503, "not now"), true, 3, 4),
        (ScriptedReply::error(400, "wrong"), true, 0, 1),
        (ScriptedReply::with_text(GOOD), true, 0, 1),
    ] {
        server.set_default(reply);
        let before = server.request_count();
        let mut times = 0;
        let caller = caller_of(gemini_at(&server.url()), ModelCallPolicy::default());
        let ask = async || {
            times += 1;
            leave
        };
        let called = caller.call(&purpose(), &prompt("Sell honey?"), &settings(), async |_| {}, ask).await;
        assert_eq!((times, server.request_count() - before), (asked_for_leave, calls));
        assert_eq!(called.interactions.len(), calls);
    }
}

#[tokio::test]
async fn answer_that_is_no_verdict_is_refused_and_not_retried() {
    let stopped = |reason: &str| json!({"candidates": [{"finishReason": reason, "content": {"parts": [{"text": GOOD}]}}]});
    let choice = |choice: Value| json!({"choices": [choice]});
    let mut long = "x".repeat(500);
    long.push('\n');
    for (wire, answer, code) in [
        (0, json!({"candidates": [{"finishReason": "STOP"}]}), "empty_answer"),
        (0, json!({"candidates": [{"finishReason": "STOP", "content": {}}]}), "empty_answer"),
        (0, gemini_answer(""), "empty_answer"),
        (0, gemini_answer(" \n"), "empty_answer"),
        (0, gemini_answer("```json\n\n```"), "empty_answer"),
        (0, json!({"promptFeedback": {"blockReason": "SAFETY"}}), "prompt_blocked"),
        (0, stopped("MAX_TOKENS"), "finish_reason"),
        (0, json!({"candidates": [{"finishReason": "MAX_TOKENS"}]}), "finish_reason"),
        (0, stopped("SAFETY"), "finish_reason"),
        (0, stopped("BORED\r\nnew"), "finish_reason"),
        (0, stopped(&long), "finish_reason"),
        (1, openai_answer(""), "empty_answer"),
        (1, choice(json!({"finish_reason": "stop"})), "empty_answer"),
        (1, choice(json!({"finish_reason": "length", "message": {"content": GOOD}})), "finish_reason"),
        (1, choice(json!({"finish_reason": "content_filter"})), "finish_reason"),
        (
            1,
            choice(json!({"finish_reason": "stop", "message": {"refusal": "No.", "content": GOOD}})),
            "declined",
        ),
    ] {
        let server = ModelServer::start().await;
        server.set_default(ScriptedReply::json(200, &answer));
        let called = call(all_clients(&server)[wire].clone()).await;
        let Err(ModelError::Refused { reason }) = &called.outcome else { panic!("{answer}: {called:?}") };
        assert_eq!(reason.error_code(), code, "{answer}");
        assert_eq!((codes(&called), server.request_count()), (vec![code], 1), "{answer}");
        assert_eq!(called.health, ModelHealthEffect::Answered, "an answer of any content counts as healthy");
        let body = Sha256Hex::of(answer.to_string().as_bytes());
        assert_eq!(interactions(&called.interactions)[0].response_hash, Some(body));
    }
}

#[tokio::test]
async fn gemini_request_has_exactly_these_headers_and_body() {
    let server = ModelServer::start().await;
    let prompt = prompt("Sell \"honey\"?\n");
    let caller = caller_of(gemini_at(&server.url()), ModelCallPolicy::default());
    let called = caller.call(&purpose(), &prompt, &settings(), async |_| {}, async || true).await;
    assert!(called.outcome.is_ok());
    let [seen] = &server.requests()[..] else { panic!("one request") };
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("POST", "/v1beta/models/gemini-2.5-flash:generateContent")
    );
    assert_eq!(seen.header("x-goog-api-key"), Some(KEY));
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    let config = json!({
        "temperature": 0.0, "topP": 1.0, "topK": 1, "candidateCount": 1, "responseMimeType": "application/json",
    });
    let body = |config: &Value| {
        json!({
            "contents": [{"role": "user", "parts": [{"text": prompt.text()}]}],
            "generationConfig": config,
        })
    };
    assert_eq!(seen.body, body(&config));

    let called = caller.call(&purpose(), &prompt, &sparing_settings(), async |_| {}, async || true).await;
    assert!(called.outcome.is_ok());
    let config = json!({
        "topP": 0.5, "candidateCount": 1, "maxOutputTokens": 2048, "responseMimeType": "application/json",
        "responseJsonSchema": response_schema(ProductTier::Quick), "thinkingConfig": {"thinkingBudget": 1024},
    });
    assert_eq!(server.requests()[1].body, body(&config));
}

/// Settings of a model that takes no temperature and no top-k, and takes all others.
fn sparing_settings() -> GenerationSettings {
    GenerationSettings {
        temperature: None,
        top_p: Some(0.5),
        top_k: None,
        thinking_budget: Some(1024),
        max_output_tokens: Some(2048),
        response_schema: true,
        ..settings()
    }
}

#[tokio::test]
async fn model_name_is_escaped_in_the_path() {
    let server = ModelServer::start().await;
    let caller = caller_of(gemini_at(&server.url()), ModelCallPolicy::default());
    let settings = GenerationSettings::locked("../x?y#z".to_owned());
    let called = caller.call(&purpose(), &prompt(""), &settings, async |_| {}, async || true).await;
    assert!(called.outcome.is_ok());
    assert_eq!(server.requests()[0].path, "/v1beta/models/..%2Fx%3Fy%23z:generateContent");
}

#[tokio::test]
async fn openai_request_has_exactly_these_headers_and_body() {
    let server = ModelServer::start().await;
    let prompt = prompt("Sell honey?");
    let schema = json!({"name": "verdict", "strict": true, "schema": response_schema(ProductTier::Quick)});
    for (key, settings, sent) in [
        (
            Some(KEY),
            settings(),
            json!({"temperature": 0.0, "top_p": 1.0, "top_k": 1, "response_format": {"type": "json_object"}}),
        ),
        (
            None,
            sparing_settings(),
            json!({
                "top_p": 0.5, "max_completion_tokens": 2048,
                "response_format": {"type": "json_schema", "json_schema": schema},
            }),
        ),
    ] {
        let model = OpenAiClient::new(&server.openai_url(), key.map(Into::into), clock()).expect("a client");
        let caller = caller_of(Arc::new(model), ModelCallPolicy::default());
        let called = caller.call(&purpose(), &prompt, &settings, async |_| {}, async || true).await;
        assert!(called.outcome.is_ok());
        let seen = server.requests().pop().expect("a request");
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
        assert_eq!(seen.header("authorization"), key.map(|key| format!("Bearer {key}")).as_deref());
        let mut body = json!({
            "model": LOCKED_MODEL, "messages": [{"role": "user", "content": prompt.text()}], "n": 1, "seed": 0,
        });
        body.as_object_mut().expect("an object").extend(sent.as_object().expect("an object").clone());
        assert_eq!(seen.body, body);
    }
}

#[tokio::test]
async fn anthropic_request_has_exactly_these_headers_and_body() {
    let server = ModelServer::start().await;
    let prompt = prompt("Sell honey?");
    let format = json!({"type": "json_schema", "schema": response_schema(ProductTier::Quick)});
    for (settings, sent) in [
        (settings(), json!({"max_tokens": 8192, "temperature": 0.0, "top_p": 1.0, "top_k": 1})),
        (
            sparing_settings(),
            json!({
                "max_tokens": 2048, "top_p": 0.5, "thinking": {"type": "enabled", "budget_tokens": 1024},
                "output_config": {"format": format},
            }),
        ),
    ] {
        let caller = caller_of(anthropic_at(&server.url()), ModelCallPolicy::default());
        let called = caller.call(&purpose(), &prompt, &settings, async |_| {}, async || true).await;
        assert!(called.outcome.is_ok());
        let seen = server.requests().pop().expect("a request");
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/messages"));
        let headers = ["x-api-key", "anthropic-version", "content-type", "authorization"];
        assert_eq!(
            headers.map(|name| seen.header(name)),
            [Some(KEY), Some("2023-06-01"), Some("application/json"), None]
        );
        let mut body =
            json!({"model": LOCKED_MODEL, "messages": [{"role": "user", "content": prompt.text()}]});
        body.as_object_mut().expect("an object").extend(sent.as_object().expect("an object").clone());
        assert_eq!(seen.body, body);
    }
}

#[tokio::test]
async fn overloaded_anthropic_model_is_retried_and_its_error_is_reported() {
    let server = ModelServer::start().await;
    let error = |kind: &str, message: &str| {
        let error = json!({"type": kind, "message": message});
        json!({"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"})
    };
    let overloaded = ScriptedReply::json(529, &error("overloaded_error", "Overloaded"));
    let refused = ScriptedReply::json(400, &error("invalid_request_error", "max_tokens: Field required"));
    server.next([overloaded, refused]);
    let called = call(anthropic_at(&server.url())).await;
    assert_eq!(codes(&called), ["http_529", "http_400"]);
    let Err(ModelError::RefusedRequest { status: 400, text, .. }) = called.outcome else {
        panic!("{called:?}")
    };
    assert!(text.reveal().contains("invalid_request_error: max_tokens: Field required"), "{text:?}");
}

#[tokio::test]
async fn answer_is_returned_without_its_fence_and_logged_with_its_metadata() {
    for (wire, version, reason, answer_of) in [
        (0, "v1beta/gemini-2.5-flash", "STOP", gemini_answer as fn(&str) -> Value),
        (1, "gpt-made-up-001", "stop", openai_answer),
        (2, "claude-made-up-001", "end_turn", anthropic_answer),
    ] {
        let server = ModelServer::start().await;
        let fenced = format!("```json\n{GOOD}\n```");
        server.set_default(ScriptedReply::with_text(&fenced));
        let called = call(all_clients(&server)[wire].clone()).await;
        let response_hash = Sha256Hex::of(answer_of(&fenced).to_string().as_bytes());
        let answer = called.outcome.expect("an answer");
        assert_eq!(answer.text, GOOD);

        let usage = ModelTokenUsage {
            prompt_tokens: Some(300),
            output_tokens: Some(40),
            thinking_tokens: None,
            total_tokens: Some(340),
        };
        let at = clock().now();
        let [logged] = <[AuditEvent; 1]>::try_from(called.interactions).expect("one attempt");
        let id =
            interactions(std::slice::from_ref(&logged)).first().map(|logged| logged.execution_id.clone());
        let execution_id = id.expect("an interaction");
        assert!(execution_id.starts_with("m-") && !execution_id.contains("cs_1"), "{execution_id}");
        let expected = OracleInteraction(Box::new(OracleInteractionLog {
            execution_id,
            oracle_id: "tested".into(),
            oracle_version: version.into(),
            request_timestamp: at,
            response_timestamp: Some(at),
            latency_ms: called.latency_ms,
            status: InteractionStatus::Success,
            error_code: None,
            response_hash: Some(response_hash),
            cache_hit: false,
            stale_data_used: false,
            path: GatePath::Regen,
            tier: ProductTier::Quick,
            attempt: 1,
            soft_timeout_exceeded: false,
            prompt_sha256: prompt("Sell honey?").sha256().clone(),
            generation: settings(),
            finish_reason: Some(reason.into()),
            usage: Some(usage),
            cost: None,
        }));
        let session_id: SessionId = "cs_1".parse().expect("an id");
        assert_eq!(logged, AuditEvent::new(at, session_id, expected));
    }
}

#[tokio::test]
async fn attempts_of_one_call_are_numbered_and_share_its_id() {
    let server = ModelServer::start().await;
    server.next([ScriptedReply::error(503, "not now"), ScriptedReply::error(500, "not now")]);
    let called = call(openai_at(&server.openai_url())).await;
    let attempts: Vec<_> = interactions(&called.interactions)
        .iter()
        .map(|logged| (logged.attempt, logged.oracle_version.reveal()))
        .collect();
    assert_eq!(attempts, [(1, LOCKED_MODEL), (2, LOCKED_MODEL), (3, "gpt-made-up-001")]);
    let first = interactions(&called.interactions)[0];
    assert!(
        interactions(&called.interactions).iter().all(|logged| logged.execution_id == first.execution_id)
    );
}

#[tokio::test]
async fn key_is_removed_from_errors_and_logs() {
    let server = ModelServer::start().await;
    server.set_default(ScriptedReply::error(401, &format!("Incorrect API key provided: {KEY}")));
    for model in all_clients(&server) {
        let called = call(Arc::clone(&model)).await;
        let refused = called.outcome.as_ref().expect_err("refused");
        let shown = format!("{model:?} {called:?} {refused} {}", refused.cause().reveal());
        assert!(shown.contains("MADE_UP: Incorrect API key provided: [key]"), "{shown}");
        assert!(!shown.contains(KEY), "{shown}");
    }
    server.set_default(ScriptedReply::json(
        200,
        &json!({"promptFeedback": {"blockReason": KEY}, "modelVersion": KEY}),
    ));
    let shown = format!("{:?}", call(gemini_at(&server.url())).await);
    assert!(!shown.contains(KEY), "{shown}");
}

/// Text of the model must pass the crosscheck, but the text of an error goes to the log and to callers.
#[tokio::test]
async fn unreadable_answer_is_not_quoted() {
    const WORDS: &str = "Nobody has judged this";
    for (answer, how) in [
        (
            json!({"candidates": WORDS, "choices": WORDS, "content": {"text": WORDS}}).to_string(),
            "not in the format of this API, at ",
        ),
        (WORDS.to_owned(), "not JSON, at line 1 column "),
        (format!("{{\n\"{WORDS}\""), "incomplete, at line 2 column "),
    ] {
        let server = ModelServer::start().await;
        server.set_default(ScriptedReply::bytes(200, answer.as_str()));
        for model in all_clients(&server) {
            let called = call(model).await;
            let shown =
                format!("{called:?} {}", called.outcome.as_ref().expect_err("the answer is unreadable"));
            assert!(shown.contains(&format!("{}: {how}", RequestFailureKind::Unreadable)), "{shown}");
            assert!(!shown.contains(WORDS), "{shown}");
        }
    }
}

#[tokio::test]
async fn probe_requests_the_models_route_only() {
    let server = ModelServer::start().await;
    let patience = Duration::from_secs(10);
    let paths = ["/v1beta/models/gemini-2.5-flash", "/v1/models", "/v1/models/gemini-2.5-flash"];
    for (model, path) in all_clients(&server).into_iter().zip(paths) {
        assert_eq!(model.probe(LOCKED_MODEL, patience).await, Ok(()));
        assert_eq!(server.probes().pop().expect("a probe").path, path);
        server.set_probe_reply(ScriptedReply::error(404, "no such model"));
        let failure = model.probe(LOCKED_MODEL, patience).await.expect_err("an error");
        assert_eq!(
            (failure.kind, failure.text.reveal()),
            (RequestFailureKind::Status(404), "MADE_UP: no such model")
        );
        server.set_probe_reply(ScriptedReply::silence());
        let failure = model.probe(LOCKED_MODEL, Duration::from_millis(100)).await.expect_err("no answer");
        assert_eq!(failure.kind, RequestFailureKind::Timeout);
        server.set_probe_reply(ScriptedReply::bytes(200, "whatever"));
    }
    assert_eq!(server.request_count(), 0);
}

#[tokio::test]
#[ignore = "ten thousand calls; `just torture`"]
async fn ten_thousand_calls_are_answered_and_counted() {
    const CALLS: usize = 10_000;
    const AT_ONCE: usize = 64;
    let server = ModelServer::start().await;
    let caller = caller_of(gemini_at(&server.url()), ModelCallPolicy::default());
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        if calls.len() >= AT_ONCE {
            calls.join_next().await.expect("some are left").expect("the call succeeds");
        }
        let caller = caller.clone();
        calls.spawn(async move {
            let called = caller.call(&purpose(), &prompt(""), &settings(), async |_| {}, async || true).await;
            assert!(called.outcome.is_ok(), "{:?}", called.outcome);
        });
    }
    while let Some(called) = calls.join_next().await {
        called.expect("the call succeeds");
    }
    assert_eq!(server.request_count(), CALLS);
    assert!((2..=AT_ONCE).contains(&server.most_in_flight()), "{}", server.most_in_flight());
}

/// Sets llmock's answers to the next requests.
async fn script(llmock: &UpstreamEndpoint, behaviors: Value) {
    let request = llmock.post(&["_llmock", "scenario"], &json!({"behaviors": behaviors}));
    let reply = llmock.send(request, Duration::from_secs(10)).await.expect("llmock answers");
    assert_eq!(reply.status, 201, "{:?}", reply.body);
}

/// Tests against llmock, a third-party server. `tests/llmock.sh` starts it, and reads its report afterwards.
#[tokio::test]
#[ignore = "needs a running llmock: run tests/llmock.sh"]
async fn llmock_reports_no_errors() {
    let url = std::env::var("ORACLED_TEST_LLMOCK").expect("tests/llmock.sh sets ORACLED_TEST_LLMOCK");
    let llmock = UpstreamEndpoint::new(&url, None, clock()).expect("a URL");
    let models = [
        gemini_at(&format!("{url}/gemini")),
        openai_at(&format!("{url}/v1")),
        anthropic_at(&format!("{url}/anthropic")),
    ];
    let fail = |status: u16, times: u32| json!([{"type": "fail", "status": status, "times": times}]);
    // a wait beyond the deadline is left out: the client returns it at once, which llmock reports as giving up
    let mut cases = vec![
        ("good", json!([{"type": "reply", "text": GOOD}]), Ok(())),
        (
            "busy",
            json!([{"type": "fail", "status": 429, "retry_after": 1, "times": 2}, {"type": "reply", "text": GOOD}]),
            Ok(()),
        ),
        ("slow", json!([{"type": "delay", "seconds": 3}, {"type": "reply", "text": GOOD}]), Ok(())),
        (
            "stuck",
            json!([{"type": "delay", "seconds": 8}, {"type": "reply", "text": "late"}, {"type": "reply", "text": GOOD}]),
            Ok(()),
        ),
        (
            "filtered",
            json!([{"type": "reply", "text": "{}", "finish_reason": "content_filter"}]),
            Err("of the protocol"),
        ),
        ("cut", json!([{"type": "reply", "text": "{}", "finish_reason": "length"}]), Err("finish_reason")),
        ("empty", json!([{"type": "reply", "text": ""}]), Err("empty_answer")),
    ];
    for (status, code) in
        [(400, "http_400"), (401, "http_401"), (403, "http_403"), (404, "http_404"), (422, "http_422")]
    {
        cases.push(("never", fail(status, 1), Err(code)));
    }
    for (status, code) in
        [(408, "http_408"), (500, "http_500"), (502, "http_502"), (503, "http_503"), (504, "http_504")]
    {
        cases.push(("down", fail(status, 4), Err(code)));
    }
    let policy = ModelCallPolicy { hard_timeout: Duration::from_secs(5), ..ModelCallPolicy::default() };
    // llmock has no route for a single model of Gemini and Anthropic, so only the other client is probed
    assert_eq!(models[1].probe(LOCKED_MODEL, Duration::from_secs(10)).await, Ok(()));
    // Anthropic's API reports a filtered answer as a refusal
    for (model, filtered) in models.into_iter().zip(["finish_reason", "finish_reason", "declined"]) {
        for (number, (name, behaviors, expected)) in cases.iter().enumerate() {
            script(&llmock, behaviors.clone()).await;
            let caller = caller_of(Arc::clone(&model), policy);
            let prompt = prompt(&format!("{name} {number}"));
            let called = caller.call(&purpose(), &prompt, &settings(), async |_| {}, async || true).await;
            let code =
                codes(&called).last().map(|code| code.split(':').next().unwrap_or_default().to_owned());
            let got = called.outcome.as_ref().map(drop).map_err(|_| code.as_deref().unwrap_or_default());
            let expected = if *name == "filtered" { Err(filtered) } else { *expected };
            assert_eq!(got, expected, "{name} {number}: {called:?}");
        }
    }
}

/// Tests against llmposter, a third-party server for the protocols. `tests/llmposter.sh` starts it with the answers
/// expected here.
#[tokio::test]
#[ignore = "needs a running llmposter: run tests/llmposter.sh"]
async fn llmposter_is_understood_by_all_clients() {
    let url =
        std::env::var("ORACLED_TEST_LLMPOSTER").expect("tests/llmposter.sh sets ORACLED_TEST_LLMPOSTER");
    let policy = ModelCallPolicy { hard_timeout: Duration::from_millis(500), ..ModelCallPolicy::default() };
    let mut expected = vec![
        ("a good question".to_owned(), 1, Ok(())),
        ("one that passes".to_owned(), 2, Ok(())),
        ("a slow one".to_owned(), 4, Err("timeout".to_owned())),
        ("a garbled one".to_owned(), 1, Err("unreadable".to_owned())),
        ("a cut one".to_owned(), 1, Err("finish_reason".to_owned())),
    ];
    // its 429 requests a wait of one minute, which exceeds the deadline
    for (status, attempts) in [(400, 1), (401, 1), (403, 1), (404, 1), (429, 1), (500, 4), (502, 4), (503, 4)]
    {
        expected.push((format!("one of status {status}"), attempts, Err(format!("http_{status}"))));
    }
    for model in [gemini_at(&url), openai_at(&format!("{url}/v1")), anthropic_at(&url)] {
        for (query, attempts, outcome) in &expected {
            let caller = caller_of(Arc::clone(&model), policy);
            let called =
                caller.call(&purpose(), &prompt(query), &settings(), async |_| {}, async || true).await;
            let code = codes(&called).last().and_then(|code| code.split(':').next()).map(str::to_owned);
            let got = called.outcome.as_ref().map(drop).map_err(|_| code.unwrap_or_default());
            let name = format!("{query} by {model:?}");
            assert_eq!((called.interactions.len(), &got), (*attempts, outcome), "{name}: {called:?}");
        }
        println!("{model:?}: {} queries answered as expected", expected.len());
    }
}

/// Tests against LiteLLM, a third-party gateway that translates the protocols. `tests/litellm.sh` starts it with the models
/// named here.
#[tokio::test]
#[ignore = "needs a running LiteLLM: run tests/litellm.sh"]
async fn litellm_is_understood_by_all_clients() {
    let url = std::env::var("ORACLED_TEST_LITELLM").expect("tests/litellm.sh sets ORACLED_TEST_LITELLM");
    let policy = ModelCallPolicy { hard_timeout: Duration::from_secs(5), ..ModelCallPolicy::default() };
    let expected = [
        ("good", 1, Ok(GOOD)),
        ("down", 4, Err("http_500".to_owned())),
        ("unknown", 1, Err("http_400".to_owned())),
    ];
    for model in [gemini_at(&url), openai_at(&format!("{url}/v1")), anthropic_at(&url)] {
        for (name, attempts, outcome) in &expected {
            let caller = caller_of(Arc::clone(&model), policy);
            let settings = GenerationSettings::locked((*name).to_owned());
            let called =
                caller.call(&purpose(), &prompt("Sell honey?"), &settings, async |_| {}, async || true).await;
            let code = codes(&called).last().and_then(|code| code.split(':').next()).map(str::to_owned);
            let got = called
                .outcome
                .as_ref()
                .map(|answer| answer.text.as_str())
                .map_err(|_| code.unwrap_or_default());
            let name = format!("{name} by {model:?}");
            assert_eq!((called.interactions.len(), &got), (*attempts, outcome), "{name}: {called:?}");
            let usage = called.interactions.last().and_then(OracleInteraction::usage_of);
            let is_counted = usage.is_some_and(|usage| usage.output_tokens > Some(0));
            assert_eq!(is_counted, outcome.is_ok(), "{name}: {called:?}");
        }
        println!("{model:?}: {} models answered as expected", expected.len());
    }
}
