//! `/v1/verdicts/{session_id}`.

use hyper::Method;
use oracled_tests::{DaemonWorld, GOOD, document, get, log, post, problem, submission};
use serde_json::json;

/// A verdict whose field order, numbers, escapes and white space would change if any reader parsed and reformatted
/// it.
const PECULIAR: &str = r#"{ "z": 1.10,"summary" : "Honey \u0061nd b\u00e9es, \ud83d\udc1d; a\/b.",  "big": 123456789012345678901234567890, "tiny": 1E-400, "verdict":"GREEN","a":[ 1.0 , -0, 0.30000000000000004 ] }"#;

#[tokio::test]
async fn verdict_is_delivered_once_and_then_replayed() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let first = post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await;
    assert_eq!(first.status, 201);
    let delivered = document(&first);
    assert_eq!(delivered["session_id"], "cs_1");
    assert_eq!(delivered["tier"], "quick");
    assert_eq!(delivered["query"], "Sell honey?");
    assert_eq!(delivered["verdict"]["verdict"], "GREEN");
    assert_eq!(delivered["regen"], false);
    assert_eq!(delivered["decision"]["approved"], true);
    assert!(delivered["cached_at"].is_string() && delivered.get("replayed").is_none());

    let other = r#"{"verdict":"RED","summary":"Quite another verdict."}"#;
    let again = post(routes, "/v1/verdicts/cs_1", &submission(other)).await;
    assert_eq!(again.status, 200);
    let mut expected = delivered.clone();
    expected["replayed"] = json!(true);
    assert_eq!(document(&again), expected, "a repeated submission returns the stored answer");

    for path in ["/v1/verdicts/cs_1", "/cache/cs_1"] {
        let read = get(routes, path).await;
        assert_eq!((read.status.as_u16(), document(&read)), (200, delivered.clone()), "{path}");
    }
    assert_eq!(world.mirror().lines().count(), 3, "the start, the judgment, the caching: {}", world.mirror());
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn delivery_and_its_entries_have_exactly_the_documented_fields() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let answer = post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &submission(GOOD)).await;
    let delivered = document(&answer);
    let mut fields: Vec<_> = delivered.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["cached_at", "decision", "query", "regen", "session_id", "tier", "verdict"]);
    assert_eq!(answer.headers["content-type"], "application/json");

    let entries = log(&mut daemon.control().await, "session=cs_1").await;
    let events: Vec<_> = entries.iter().map(|entry| (&entry["event"], &entry["path"])).collect();
    let (judged, cached, submit) = (json!("tmm_crosscheck"), json!("verdict_cached"), json!("submit"));
    assert_eq!(events, [(&judged, &submit), (&cached, &submit)]);
    assert_eq!(entries[0]["approved"], true);
    assert_eq!(entries[0]["verdict_sha256"], entries[1]["verdict_sha256"]);
}

#[tokio::test]
async fn another_tier_or_query_is_a_mismatch_and_not_judged() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &submission(GOOD)).await.status, 201);
    for (tier, query, what) in
        [("full", "Sell honey?", "tier"), ("quick", "Sell wax?", "query"), ("full", "Sell wax?", "tier")]
    {
        let body = json!({"tier": tier, "query": query, "raw": GOOD});
        let refused = problem(&post(routes, "/v1/verdicts/cs_1", &body).await, 409, "session_mismatch");
        assert_eq!(refused["mismatch"], what);
        assert!(refused["detail"].as_str().unwrap().contains("cs_1"), "{refused}");
    }
    let judged = log(&mut daemon.control().await, "event=tmm_crosscheck").await;
    assert_eq!(judged.len(), 1);
}

#[tokio::test]
async fn refused_verdict_returns_the_decision_and_is_not_cached() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let secret = r#"{"verdict":"GREEN","summary":" ","note":"q7x"}"#;
    let refused = post(routes, "/v1/verdicts/cs_1", &submission(secret)).await;
    let refused = problem(&refused, 422, "crosscheck_rejected");
    let detail = refused["detail"].as_str().unwrap();
    for named in ["cs_1", "low_coherence", "short_summary", "unexpected_field:note"] {
        assert!(detail.contains(named), "{detail}");
    }
    assert!(refused.get("contact").is_none(), "none is configured: {refused}");
    let decision = &refused["decision"];
    assert_eq!(decision["approved"], false);
    assert_eq!(decision["crosscheck_reason"], "low_coherence");
    assert_eq!(decision["flags"], json!(["short_summary", "unexpected_field:note"]));
    assert_eq!(decision["verdict_label"], "GREEN");

    problem(&get(routes, "/v1/verdicts/cs_1").await, 404, "session_unknown");
    let entries = log(&mut daemon.control().await, "session=cs_1").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    for field in ["approved", "crosscheck_reason", "coherence_score", "flags", "threshold", "verdict_label"] {
        assert_eq!(entries[0][field], decision[field], "{field}");
    }
    assert!(!world.mirror().contains("q7x"), "{}", world.mirror());

    // the refused verdict did not open the session
    let body = json!({"tier": "quick", "query": "Something else?", "raw": GOOD});
    assert_eq!(post(routes, "/v1/verdicts/cs_1", &body).await.status, 201);
}

#[tokio::test]
async fn detail_of_a_rejection_names_the_fault_of_the_text_and_the_log_does_not() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let mut faults = Vec::new();
    for (session, text) in
        [("cs_1", "```json\n{}\n```"), ("cs_2", "Sure! q7x"), ("cs_3", r#"{"verdict":"q7x"}"#)]
    {
        let refused = post(routes, &format!("/v1/verdicts/{session}"), &submission(text)).await;
        let refused = problem(&refused, 422, "crosscheck_rejected");
        let (_, fault) = refused["detail"].as_str().expect("a text").rsplit_once("): ").expect("a fault");
        faults.push(fault.to_owned());
    }
    insta::assert_snapshot!("faults_of_texts_of_verdicts", faults.join("\n"));
    assert!(!world.mirror().contains("q7x"), "{}", world.mirror());
}

#[tokio::test]
async fn refusal_contains_the_configured_contact() {
    let world = DaemonWorld::with_config("contact = \"help@example.org\"");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let mut checked = submission(GOOD);
    checked["facts"] = json!(["Nothing about the plan."]);
    for (body, code) in [(submission("no"), "crosscheck_rejected"), (checked, "rules_rejected")] {
        let refused = problem(&post(routes, "/v1/verdicts/cs_1", &body).await, 422, code);
        assert_eq!(refused["contact"], "help@example.org");
        assert!(refused["detail"].as_str().unwrap().ends_with(" help@example.org"), "{refused}");
    }
}

#[tokio::test]
async fn read_of_an_unknown_session_is_404() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let missing =
        problem(&get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await, 404, "session_unknown");
    assert!(missing["detail"].as_str().unwrap().contains("cs_1"), "{missing}");
}

#[tokio::test]
async fn verdict_is_a_value_or_text_but_not_both_and_neither_needs_a_model() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let (tier, query) = ("quick", "Sell honey?");
    let value: serde_json::Value = serde_json::from_str(GOOD).unwrap();
    for (session, body) in [
        ("as-value", json!({"tier": tier, "query": query, "verdict": value})),
        ("as-text", json!({"tier": tier, "query": query, "raw": GOOD})),
    ] {
        let answer = post(routes, &format!("/v1/verdicts/{session}"), &body).await;
        assert_eq!((answer.status.as_u16(), &document(&answer)["verdict"]), (201, &value), "{session}");
    }
    let both = json!({"tier": tier, "query": query, "verdict": value, "raw": GOOD});
    let refused = problem(&post(routes, "/v1/verdicts/cs_1", &both).await, 400, "invalid_request");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("`verdict`") && detail.contains("`raw`"), "{detail}");
    let neither = json!({"tier": tier, "query": query});
    problem(&post(routes, "/v1/verdicts/cs_1", &neither).await, 503, "model_unavailable");
}

#[tokio::test]
async fn verdict_is_delivered_byte_for_byte() {
    let world = DaemonWorld::with_config("[gate]\nunexpected_fields = \"deliver\"");
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let member = format!("\"verdict\":{PECULIAR},\"cached_at\"");
    let as_value = format!(r#"{{"tier":"quick","query":"?","verdict":{PECULIAR}}}"#);
    let as_text = json!({"tier": "quick", "query": "?", "raw": PECULIAR}).to_string();
    for (session, body) in [("as-value", as_value), ("as-text", as_text)] {
        let path = format!("/v1/verdicts/{session}");
        let answer = routes.call(Method::POST, &path, Some(body.into())).await.unwrap();
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        assert!(str::from_utf8(&answer.body).unwrap().contains(&member), "{:?}", answer.body);
    }
    assert!(daemon.stop().success());

    let daemon = world.serve().await;
    for session in ["as-value", "as-text"] {
        let answer = get(&mut daemon.routes().await, &format!("/v1/verdicts/{session}")).await;
        assert!(str::from_utf8(&answer.body).unwrap().contains(&member), "{:?}", answer.body);
    }
}

#[tokio::test]
async fn verdict_of_nearly_1_mib_survives_a_restart() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    // all pieces differ, so that a lost or swapped one is detected
    let summary: String = (0..).map(|n: u32| format!("{n:08} ")).take(115_000).collect();
    let body = json!({"tier": "quick", "query": "?", "verdict": {"verdict": "GREEN", "summary": summary}});
    assert!((1_030_000..1024 * 1024).contains(&body.to_string().len()), "{}", body.to_string().len());
    let delivered = post(&mut daemon.routes().await, "/v1/verdicts/cs_1", &body).await;
    assert_eq!(delivered.status, 201);
    assert!(daemon.stop().success());

    let daemon = world.serve().await;
    let read = get(&mut daemon.routes().await, "/v1/verdicts/cs_1").await;
    assert_eq!(read.status, 200);
    assert!(read.body == delivered.body, "the same bytes");
    assert_eq!(document(&read)["verdict"]["summary"], summary);
}

#[tokio::test]
async fn invalid_customer_email_is_refused() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let with = |email: &serde_json::Value| {
        let mut body = submission(GOOD);
        body["customer_email"] = email.clone();
        body
    };
    for bad in ["", "sister", "@42sisters.ai", "a@", "a b@c.d", "a@b@c", "a@b\r\nBcc: all@c.d"] {
        let answer = post(routes, "/v1/verdicts/cs_1", &with(&json!(bad))).await;
        let refused = problem(&answer, 400, "invalid_request");
        assert!(refused["detail"].as_str().unwrap().contains("customer_email"), "{refused}");
    }
    problem(&post(routes, "/v1/verdicts/cs_1", &with(&json!(42))).await, 400, "invalid_request");
    for (session, good) in [("cs_2", json!("sister@42sisters.ai")), ("cs_3", json!(null))] {
        let answer = post(routes, &format!("/v1/verdicts/{session}"), &with(&good)).await;
        assert_eq!(answer.status, 201, "{good}");
        assert!(document(&answer).get("customer_email").is_none(), "an address is not part of the answer");
    }
}

#[tokio::test]
async fn unknown_field_is_refused_with_its_name() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for path in ["/v1/verdicts/cs_1", "/v1/crosscheck", "/cache/cs_1"] {
        let mut body = submission(GOOD);
        body["customer_mail"] = json!("a@b");
        let refused = problem(&post(routes, path, &body).await, 400, "invalid_request");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("`customer_mail`") || path == "/cache/cs_1", "{path}: {detail}");
    }
}

#[tokio::test]
async fn concurrent_submissions_all_return_the_same_verdict() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut submitted = Vec::new();
    for number in 0..16 {
        let mut routes = daemon.routes().await;
        let raw = format!(r#"{{"verdict":"GREEN","summary":"This is version {number}."}}"#);
        let task =
            tokio::spawn(async move { post(&mut routes, "/v1/verdicts/cs_1", &submission(&raw)).await });
        submitted.push(task);
    }
    let mut created = Vec::new();
    let mut replayed = Vec::new();
    for answer in submitted {
        let answer = answer.await.unwrap();
        let group = if answer.status == 201 { &mut created } else { &mut replayed };
        assert!(answer.status == 201 || answer.status == 200, "{answer:?}");
        group.push(document(&answer));
    }
    assert_eq!(created.len(), 1, "{created:?}");
    for other in replayed {
        assert_eq!(other["replayed"], true);
        assert_eq!(other["verdict"], created[0]["verdict"]);
    }
    assert_eq!(log(&mut daemon.control().await, "event=verdict_cached").await.len(), 1);
}
