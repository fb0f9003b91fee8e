//! Random bodies for every POST route of one daemon.

use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::strategies::{bytes, model_text};
use oracled_tests::{DaemonWorld, at, document, get, read_whole_log};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use std::cell::Cell;

/// Number of bodies for all routes together, unless the variable `PROPTEST_CASES` sets another.
const CASES: u32 = 400;

#[derive(Debug, Clone)]
struct FuzzRequest {
    path: String,
    body: Vec<u8>,
}

/// Requests to the routes that take a body. There are few session ids, so that some sessions exist already.
fn requests() -> impl Strategy<Value = FuzzRequest> {
    let session = || prop_oneof![8 => "s-[0-9a-f]{3}", 1 => "[A-Za-z0-9_.:%-]{0,4}"];
    let raw =
        model_text().prop_map(|text| json!({"tier": "full", "query": "?", "raw": text}).to_string().into());
    prop_oneof![
        2 => bytes(true).prop_map(|body| FuzzRequest { path: "/v1/crosscheck".into(), body }),
        3 => (session(), prop_oneof![3 => bytes(false), 1 => raw])
            .prop_map(|(session, body)| FuzzRequest { path: format!("/v1/verdicts/{session}"), body }),
        2 => (session(), bytes(false))
            .prop_map(|(session, body)| FuzzRequest { path: format!("/cache/{session}"), body }),
    ]
}

/// Checks that the answer is documented. Returns true if the request was judged.
fn judged(request: &FuzzRequest, answer: &DaemonResponse) -> Result<bool, TestCaseError> {
    let status = answer.status.as_u16();
    let check = request.path == "/v1/crosscheck";
    let documented: &[u16] = if check { &[200, 400] } else { &[200, 201, 400, 404, 409, 422] };
    // a request without a verdict asks the model, and the daemon has none
    let no_model = !check && at(answer, "/code") == "model_unavailable";
    prop_assert!(documented.contains(&status) || (no_model && status == 503), "{answer:?}");
    prop_assert!(answer.headers.contains_key("x-request-id"));
    prop_assert!(answer.json::<Value>().is_ok(), "{answer:?}");
    let content_type = answer.headers.get("content-type").map(|value| value.as_bytes());
    if status >= 400 {
        prop_assert_eq!(content_type, Some(&b"application/problem+json"[..]));
        prop_assert!(at(answer, "/code").as_str().is_some_and(|code| !code.is_empty()), "{:?}", answer);
        prop_assert_eq!(at(answer, "/status"), status);
        prop_assert_eq!(status == 422, at(answer, "/decision/approved") == false, "{:?}", answer);
    } else {
        prop_assert_eq!(content_type, Some(&b"application/json"[..]));
        let approved = at(answer, if check { "/approved" } else { "/decision/approved" });
        prop_assert!(approved.as_bool().is_some_and(|approved| check || approved), "{:?}", answer);
    }
    Ok((check && status == 200) || status == 201 || status == 422)
}

async fn send(client: &mut DaemonClient, request: &FuzzRequest) -> Result<DaemonResponse, TestCaseError> {
    let answer = client.call(Method::POST, &request.path, Some(request.body.clone().into())).await;
    answer.map_err(|error| TestCaseError::fail(format!("no answer: {error}")))
}

#[test]
fn random_bodies_get_documented_answers_and_log_entries() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = DaemonWorld::default();
    let daemon = runtime.block_on(world.serve());
    let count = Cell::new((0_usize, 0_usize));
    let config = Config { failure_persistence: None, ..Config::default() };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { CASES };
    let mut runner = TestRunner::new(Config { cases, ..config });
    let held = runner.run(&requests(), |request| {
        let answer = runtime.block_on(async { send(&mut daemon.routes().await, &request).await })?;
        let (judgments, deliveries) = count.get();
        let was_judged = judged(&request, &answer)?;
        count.set((judgments + usize::from(was_judged), deliveries + usize::from(answer.status == 201)));
        Ok(())
    });
    if let Err(error) = held {
        panic!("{error}\n{}", world.service_log());
    }
    let (judgments, deliveries) = count.get();
    println!("{cases} bodies: {judgments} judged, {deliveries} delivered");
    assert!(deliveries > 0 && judgments > deliveries, "some bodies are valid and some are delivered");

    runtime.block_on(async {
        let control = &mut daemon.control().await;
        // before the read of the log, which adds entries
        let status = document(&get(control, "/v1/status").await);
        let entries = read_whole_log(control).await;
        assert_eq!(status["entries"], entries.len());
        let of = |event: &str| entries.iter().filter(|entry| entry["event"] == event).count();
        assert_eq!(of("tmm_crosscheck"), judgments, "one entry for each judgment");
        assert_eq!((of("verdict_cached"), &status["verdicts"]), (deliveries, &json!(deliveries)));
        assert_eq!(of("crosscheck_error"), 0);
        let reports = document(&get(control, "/v1/actors").await);
        assert!(reports.as_array().unwrap().iter().all(|report| report["restarts"] == 0), "{reports}");
    });
    assert!(daemon.stop().success());
    assert!(!world.service_log().contains("ERROR"), "{}", world.service_log());
}
