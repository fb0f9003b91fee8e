//! Failures and other outcomes of a query over HTTP.

use super::*;
use crate::web::{UpstreamCredential, WebAddressError};
use actors_platform::clock::monotonic;
use domain_upstream::health::CircuitCallOutcome;
use domain_verification::adapter::UnsupportedQuestionError;
use domain_verification::{CallFailure, CallTimeLimit};

fn failed(answer: LiveAnswer) -> (CallFailure, String) {
    match answer.reply {
        OracleReply::Failed { failure, cause } => {
            assert!(!cause.contains("s3cret"), "{cause}");
            (failure, cause)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn failed_query_is_retried_only_where_that_may_help() {
    let (answer, times) = query_scripted_server(
        vec![status(503, ""), send_text(""), status(502, ""), complete_reply("", &body("7.10"))],
        json!({}),
    )
    .await;
    assert_eq!((rate_of(&expect_candidate(answer)).as_str(), times), ("7.1", 4));
    for (code, failure, speaks_against, expected) in [
        (500, CallFailure::Unavailable, true, 4),
        (503, CallFailure::Unavailable, true, 4),
        (429, CallFailure::Unavailable, true, 4),
        (401, CallFailure::Rejected, true, 1),
        (403, CallFailure::Rejected, true, 1),
        (400, CallFailure::Rejected, false, 1),
        (422, CallFailure::Rejected, false, 1),
        (204, CallFailure::Rejected, true, 1),
        (304, CallFailure::Rejected, true, 1),
    ] {
        let (answer, times) = query_scripted_server(vec![status(code, "")], json!({})).await;
        assert_eq!(matches!(answer.outcome, CircuitCallOutcome::Failure(_)), speaks_against, "{code}");
        let (found, cause) = failed(answer);
        assert_eq!((found, times), (failure, expected), "{code}");
        assert!(cause.contains(&format!("HTTP status {code}: ")), "{cause}");
    }
}

#[tokio::test]
async fn query_is_retried_after_a_truncated_body() {
    let cut = || send_text("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{");
    let (answer, times) = query_scripted_server(vec![cut(), complete_reply("", &body("7"))], json!({})).await;
    assert_eq!((rate_of(&expect_candidate(answer)).as_str(), times), ("7", 2));
    let (answer, times) = query_scripted_server(vec![cut()], json!({})).await;
    assert!(matches!(answer.outcome, CircuitCallOutcome::Failure(_)));
    assert_eq!((failed(answer).0, times), (CallFailure::Unavailable, 4));
}

#[tokio::test]
async fn retry_after_is_respected_within_the_timeout() {
    let (answer, times) = query_scripted_server(vec![status(429, "Retry-After: 60\r\n")], json!({})).await;
    assert_eq!((failed(answer).0, times), (CallFailure::Unavailable, 1), "it is left alone");
    let began = monotonic();
    let (answer, times) = query_scripted_server(
        vec![status(503, "Retry-After: 1\r\n"), complete_reply("", &body("7"))],
        json!({}),
    )
    .await;
    assert_eq!((rate_of(&expect_candidate(answer)).as_str(), times), ("7", 2));
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn slow_answer_is_a_timeout() {
    let mut drips = send_text("HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n");
    for _ in 0..600 {
        drips.extend([ServerStep::Wait(Duration::from_millis(50)), ServerStep::Send(b"x".into())]);
    }
    for script in [drips, vec![ServerStep::Wait(Duration::from_secs(60))]] {
        let server = ScriptedServer::start("127.0.0.1", vec![script]).await;
        let adapter = adapter(&endpoint(&server), &json!({}));
        let began = monotonic();
        let answer =
            oracles().ask(LiveQuery { timeout: Duration::from_millis(300), ..live_query(adapter) }).await;
        assert!((300..2000).contains(&began.elapsed().as_millis()));
        assert_eq!(answer.reply, OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout });
        assert!(matches!(answer.outcome, CircuitCallOutcome::Neutral), "{answer:?}");
    }
}

#[tokio::test]
async fn refused_connection_is_unavailable() {
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let adapter = adapter(&format!("http://127.0.0.1:{port}/{{area}}"), &json!({}));
    let answer = oracles().ask(live_query(adapter)).await;
    assert!(matches!(answer.outcome, CircuitCallOutcome::Failure(_)), "{answer:?}");
    assert_eq!(failed(answer).0, CallFailure::Unavailable);
}

#[tokio::test]
async fn private_address_is_not_queried_unless_allowed() {
    for host in ["127.0.0.2", "10.0.0.1", "[::1]", "169.254.169.254"] {
        let answer = oracles().ask(live_query(adapter(&format!("http://{host}/{{area}}"), &json!({})))).await;
        assert_eq!(answer.outcome, CircuitCallOutcome::Neutral);
        let (failure, cause) = failed(answer);
        assert!(failure == CallFailure::Internal && cause.contains("ingestion.allow_local"), "{cause}");
    }
}

#[tokio::test]
async fn unsigned_answer_over_cleartext_http_is_not_requested() {
    let plainly = "http://bank.example/{area}";
    let answer = oracles().ask(live_query(adapter(plainly, &json!({})))).await;
    assert_eq!(answer.outcome, CircuitCallOutcome::Neutral);
    let (failure, cause) = failed(answer);
    assert_eq!(failure, CallFailure::Internal, "{cause}");
    let error = oracles().check(&adapter(plainly, &json!({}))).expect_err("it is not requested");
    assert!(matches!(error, WebError::Alterable { .. }), "{error}");
    insta::assert_snapshot!(cause);
    let signed = signed_by(json!({ "method": "jws", "keys": [key(7, "k-1").1] }));
    assert!(oracles().check(&adapter(plainly, &signed)).is_ok());
    assert!(oracles().check(&adapter("https://bank.example/{area}", &json!({}))).is_ok());
}

#[tokio::test]
async fn check_reports_an_unusable_endpoint_or_credential() {
    let endpoints =
        ["http://10.0.0.1/{area}", "http://bank.example/{area}", "https://bank.example:99999/{area}"];
    let authenticating = adapter("https://bank.example/{area}", &json!({ "authentication": "mtls" }));
    let adapters =
        endpoints.map(|endpoint| adapter(endpoint, &json!({}))).into_iter().chain([authenticating]);
    let errors: Vec<_> =
        adapters.map(|adapter| oracles().check(&adapter).expect_err("it is unusable")).collect();
    let [
        WebError::Endpoint(WebAddressError::NotPublic { .. }),
        WebError::Alterable { .. },
        WebError::Endpoint(WebAddressError::NotUrl { .. }),
        WebError::NoCredential { .. },
    ] = &errors[..]
    else {
        panic!("{errors:?}")
    };
    insta::assert_snapshot!(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn redirect_is_followed_only_within_the_origin() {
    let far = ScriptedServer::start("127.0.0.1", vec![complete_reply("", &body("8"))]).await;
    for location in
        [far.url("127.0.0.1", "/"), "http://10.0.0.1/".to_owned(), "file:///etc/passwd".to_owned()]
    {
        let (answer, times) =
            query_scripted_server(vec![status(302, &format!("Location: {location}\r\n"))], json!({})).await;
        assert_eq!((expect_refusal(answer).0, times), (AnswerFault::Identity, 1), "{location}");
    }
    assert!(far.heads().is_empty());
    let (answer, times) = query_scripted_server(
        vec![status(307, "Location: /other\r\n"), complete_reply("", &body("7"))],
        json!({}),
    )
    .await;
    assert_eq!((rate_of(&expect_candidate(answer)).as_str(), times), ("7", 2));
    let (answer, times) = query_scripted_server(vec![status(302, "Location: /again\r\n")], json!({})).await;
    assert_eq!((failed(answer).0, times), (CallFailure::Unavailable, 6));
}

#[tokio::test]
async fn answer_over_the_size_limit_is_refused() {
    let padded = |size_bytes: usize| body("7") + &" ".repeat(size_bytes - body("7").len());
    let (answer, _) =
        query_scripted_server(vec![complete_reply("", &padded(ANSWER_MAX_BYTES))], json!({})).await;
    assert_eq!(rate_of(&expect_candidate(answer)), "7");
    let (answer, times) =
        query_scripted_server(vec![complete_reply("", &padded(ANSWER_MAX_BYTES + 1))], json!({})).await;
    assert_eq!((expect_refusal(answer).0, times), (AnswerFault::Schema, 1));
}

#[tokio::test]
async fn unreadable_answer_is_refused_and_counts_against_the_source() {
    let unended = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_owned() + &body("7");
    let mut latin = complete_reply("", "{\"data\":\"s3cret?\"}");
    latin[0] = ServerStep::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\"\xe9\"".into());
    for script in [
        complete_reply("Content-Type: text/html\r\n", "<html>s3cret</html>"),
        complete_reply("", r#"{"data":{"area":"AB","rate":1,"rate":2}}"#),
        complete_reply("", r#"{"data":{"area":"AB","rate":"s3cret"}}"#),
        complete_reply("", ""),
        complete_reply("Content-Encoding: gzip\r\n", "s3cret"),
        send_text(&unended),
        latin,
    ] {
        let (answer, times) = query_scripted_server(vec![script], json!({})).await;
        assert_eq!((expect_refusal(answer).0, times), (AnswerFault::Schema, 1));
    }
}

#[tokio::test]
async fn answer_about_another_subject_is_refused_and_neutral_for_health() {
    let (answer, _) =
        query_scripted_server(vec![complete_reply("", r#"{"data":{"area":"s3cret","rate":1}}"#)], json!({}))
            .await;
    assert_eq!(answer.outcome, CircuitCallOutcome::Neutral);
    assert_eq!(expect_refusal(answer).0, AnswerFault::Identity);
}

#[tokio::test]
async fn no_record_and_several_records_are_successful_replies() {
    for script in [status(404, ""), complete_reply("", r#"{"data":[]}"#)] {
        let (answer, times) = query_scripted_server(vec![script], json!({})).await;
        assert!(matches!(answer.outcome, CircuitCallOutcome::Success { latency_ms: Some(_) }), "{answer:?}");
        assert_eq!((answer.reply, times), (OracleReply::NoRecord, 1));
    }
    let two = r#"{"data":[{"area":"AB","rate":1},{"area":"AB","rate":2}]}"#;
    assert_eq!(
        query_scripted_server(vec![complete_reply("", two)], json!({})).await.0.reply,
        OracleReply::Several { records: 2 }
    );
}

#[tokio::test]
async fn status_410_is_a_failure_and_not_a_missing_record() {
    let (answer, times) = query_scripted_server(vec![status(410, "")], json!({})).await;
    assert!(matches!(answer.outcome, CircuitCallOutcome::Failure(_)), "{answer:?}");
    assert_eq!((failed(answer).0, times), (CallFailure::Rejected, 1));
}

#[tokio::test]
async fn query_that_the_adapter_cannot_ask_is_not_sent() {
    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", &body("7"))]).await;
    let adapter = adapter(&endpoint(&server), &json!({}));
    let past = LiveQuery { point_in_time: Some(now()), ..live_query(Arc::clone(&adapter)) };
    let (failure, cause) = failed(oracles().ask(past).await);
    assert!(
        failure == CallFailure::Rejected && cause.starts_with(&UnsupportedQuestionError::Past.to_string()),
        "{cause}"
    );
    let identity = BTreeMap::from([("area".into(), AxisValue::Text("..".into()))]);
    let answer = oracles().ask(LiveQuery { identity, ..live_query(Arc::clone(&adapter)) }).await;
    assert_eq!((answer.outcome, failed(answer).0), (CircuitCallOutcome::Neutral, CallFailure::Rejected));
    let open = LiveQuery { identity: BTreeMap::new(), ..live_query(adapter) };
    assert_eq!(failed(oracles().ask(open).await).0, CallFailure::Rejected);
    assert!(server.heads().is_empty());
}

#[tokio::test]
async fn cached_answer_is_revalidated_by_its_etag() {
    let tagged = complete_reply("ETag: \"v1\"\r\n", &body("7"));
    let server =
        ScriptedServer::start("127.0.0.1", vec![tagged, send_text("HTTP/1.1 304 Not Modified\r\n\r\n")])
            .await;
    let adapter = adapter(&endpoint(&server), &json!({}));
    let first = oracles().ask(live_query(Arc::clone(&adapter))).await;
    let cached = first.answer_to_cache.clone().expect("the answer is cached");
    assert_eq!(
        (cached.etag.as_deref(), expect_candidate(first).record.source_version.as_deref()),
        (Some("\"v1\""), Some("\"v1\""))
    );
    let mut earlier = cached.clone();
    let an_hour_ago = "2026-11-20T11:00:00Z".parse().expect("a valid time");
    let candidate = earlier.candidate.as_mut().expect("the answer is cached");
    (candidate.record.retrieved_at, candidate.record.verified_at) = (an_hour_ago, an_hour_ago);
    candidate.observed_at = an_hour_ago;
    let again = oracles()
        .ask(LiveQuery { cached_answer: Some(earlier.clone()), ..live_query(Arc::clone(&adapter)) })
        .await;
    assert!(server.heads()[1].contains("if-none-match: \"v1\"\r\n"), "{:?}", server.heads());
    assert_eq!(
        (again.answer_to_cache.as_ref(), expect_candidate(again.clone())),
        (Some(&cached), cached.candidate.clone().expect("the answer is cached"))
    );

    let long_ago: Timestamp = "2026-10-01T11:00:00Z".parse().expect("a valid time");
    earlier.candidate.as_mut().expect("the answer is cached").record.retrieved_at = long_ago;
    let elsewhere = super::adapter(&server.url("127.0.0.1", "/other/{area}"), &json!({}));
    for (cached, adapter) in [(earlier, adapter), (cached, elsewhere)] {
        let answer = oracles().ask(LiveQuery { cached_answer: Some(cached), ..live_query(adapter) }).await;
        assert!(
            server.heads().last().is_some_and(|head| !head.contains("if-none-match")),
            "it is not known there"
        );
        assert_eq!(failed(answer).0, CallFailure::Rejected, "no conditional request was sent");
    }
}

#[tokio::test]
async fn credential_is_sent_only_to_its_origin_and_never_shown() {
    let server = ScriptedServer::start("127.0.0.1", vec![complete_reply("", &body("7"))]).await;
    let credential = |origin: String| {
        let credential = UpstreamCredential::api_key("X-Api-Key", "s3cret".into()).expect("a key");
        let bound = BoundCredential { origin: origin.parse().expect("an origin"), credential };
        oracle_with_credentials(BTreeMap::from([("bank".parse().expect("a valid id"), bound)]))
    };
    let adapter = adapter(&endpoint(&server), &json!({ "authentication": "api_key" }));
    let answer = credential(server.url("127.0.0.1", "")).ask(live_query(Arc::clone(&adapter))).await;
    let shown = serde_json::to_string(&expect_candidate(answer)).expect("a candidate has a JSON");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(server.heads()[0].contains("x-api-key: s3cret\r\n"));
    let other = credential("http://127.0.0.1:1".to_owned()).ask(live_query(Arc::clone(&adapter))).await;
    assert!(failed(other).1.contains("http://127.0.0.1:1,"));
    let none = oracles().ask(live_query(adapter)).await;
    assert!(failed(none).1.contains("`verification.credentials.bank`"));
    assert_eq!(server.heads().len(), 1);
}
