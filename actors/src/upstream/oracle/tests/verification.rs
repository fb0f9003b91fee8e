//! The verification record of an answer.

use super::*;
use oracled_domain::Sha256Hex;

#[tokio::test]
async fn answer_contains_its_verification_record() {
    let server = ScriptedServer::start(
        "127.0.0.1",
        vec![complete_reply("ETag: W/\"5\"\r\nX-Version: 2026-11\r\n", &body("7.10"))],
    )
    .await;
    let changes = json!({ "version": { "header": "x-version" }, "ttl_seconds": 60 });
    let answer = oracles().ask(live_query(adapter(&endpoint(&server), &changes))).await;
    let keep = answer.answer_to_cache.clone().expect("the answer is cached");
    let candidate = expect_candidate(answer);
    assert_eq!(
        (keep.candidate, keep.etag.as_deref(), keep.issued_at),
        (Some(candidate.clone()), Some("W/\"5\""), None)
    );
    let record = candidate.record;
    assert_eq!(record.oracle_id.as_str(), "bank");
    assert_eq!(record.oracle_tier, oracled_domain::verification::VerificationTier::Primary);
    assert_eq!(record.source_locator, server.url("127.0.0.1", "/rates/AB"));
    assert_eq!(record.source_version.as_deref(), Some("2026-11"));
    assert_eq!((record.retrieved_at, record.verified_at, candidate.observed_at), (now(), now(), now()));
    let custody =
        ["A bank (https://bank.example)".to_owned(), format!("answer from {}", record.source_locator)];
    assert_eq!(record.chain_of_custody.as_deref(), Some(&custody[..]));
    assert_eq!(record.verification_method, "retrieval by http");
    assert_eq!(record.verifier_id, concat!("oracled/", env!("CARGO_PKG_VERSION")));
    assert_eq!(record.evidence_hash, Some(Sha256Hex::of(body("7.10").as_bytes())));
    assert_eq!((record.signature_info, record.ttl_seconds), (None, Some(60)));
    assert!(server.heads()[0].starts_with("get /rates/ab http/1.1\r\n"));
}

#[tokio::test]
async fn observed_at_is_the_issue_time_but_not_after_the_request() {
    let (pair, ours) = key(7, "k-1");
    let changes = signed_by(json!({ "method": "ed25519", "header": "x-signature", "keys": [ours] }));
    for (issued, observed_at) in
        [("2026-11-20T11:58:00Z", "2026-11-20T11:58:00Z"), ("2026-11-20T12:00:30Z", "2026-11-20T12:00:00Z")]
    {
        let body = format!(r#"{{"data":{{"area":"AB","rate":7}},"issued":"{issued}"}}"#);
        let line = format!("X-Signature: {}\r\n", STANDARD.encode(pair.sign(body.as_bytes())));
        let answer = query_scripted_server(vec![complete_reply(&line, &body)], changes.clone()).await.0;
        assert_eq!(answer.answer_to_cache.as_ref().and_then(|cached| cached.issued_at), issued.parse().ok());
        let candidate = expect_candidate(answer);
        assert_eq!(candidate.observed_at, observed_at.parse().expect("a valid time"));
        let record = candidate.record;
        assert_eq!((record.verified_at, record.retrieved_at), (now(), now()));
        assert_eq!(record.verification_method, "retrieval by http, signature of the body (Ed25519)");
    }
}

#[tokio::test]
async fn nonce_is_unique_per_request_and_required_in_the_answer() {
    let echo = || {
        vec![ServerStep::Reply(Box::new(|head| {
            let nonce = head.split("n=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
            let body = format!(r#"{{"data":{{"area":"AB","rate":7}},"nonce":"{nonce}"}}"#);
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
        }))]
    };
    let stale =
        complete_reply("", r#"{"data":{"area":"AB","rate":7},"nonce":"00000000000000000000000000000000"}"#);
    let server = ScriptedServer::start("127.0.0.1", vec![status(503, ""), echo(), echo(), stale]).await;
    let endpoint = server.url("127.0.0.1", "/{area}?n={nonce}");
    let adapter = adapter(&endpoint, &json!({ "nonce": { "path": "nonce" } }));
    for _ in 0..2 {
        expect_candidate(oracles().ask(live_query(Arc::clone(&adapter))).await);
    }
    assert_eq!(expect_refusal(oracles().ask(live_query(adapter)).await).0, AnswerFault::Replay);
    let sent: std::collections::BTreeSet<_> =
        server.heads().iter().filter_map(|head| head.split(' ').nth(1).map(str::to_owned)).collect();
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert!(sent.iter().all(|path| path.len() == "/ab?n=".len() + 32), "{sent:?}");
}
