//! Live sources over real connections: which answers are accepted, and which are rejected.

mod asking;
mod signatures;

use super::*;
use crate::web::BoundCredential;
use actors_platform::clock::Clock;
use actors_testing::server::{ScriptedServer, ServerStep, complete_reply, send_text, status};
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain_base::digest::Sha256Hex;
use domain_ground::id::SourceId;
use domain_ground::ontology::Ontology;
use domain_ground::source::SourceRegistration;
use domain_verification::adapter::{Adapter, AdapterError};
use domain_verification::{AnswerFault, CandidateAnswer};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value as Json, json};

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().expect("a valid time")
}

fn ontology() -> Arc<Ontology> {
    let axes = json!([
        { "axis": "area", "type": "string", "class": "measured", "identity": true, "description": "x" },
        { "axis": "rate", "type": "number", "class": "measured", "description": "x" },
    ]);
    Arc::new(
        serde_json::from_value(json!({ "ontology_id": "rates", "version": "1", "axes": axes }))
            .expect("an ontology"),
    )
}

fn source() -> SourceRegistration {
    let source = json!({
        "oracle_id": "bank", "oracle_name": "x", "oracle_tier": "primary", "upstream_authority": "x",
        "upstream_url": "https://bank.example", "data_license": "x", "domain": "x",
        "ontology": { "ontology_id": "rates", "version": "1" }, "axes_provided": ["area", "rate"],
        "update_frequency": "daily", "adapter_id": "http", "query_contract": "x"
    });
    serde_json::from_value(source).expect("a registration")
}

/// The adapter of a source at `endpoint`, with `changes` to its members.
fn adapter(endpoint: &str, changes: &Json) -> Arc<ValidatedAdapter> {
    Arc::new(prepare_adapter(endpoint, changes).expect("the settings are valid"))
}

/// Like [`adapter`], but returns the validation error.
fn prepare_adapter(endpoint: &str, changes: &Json) -> Result<ValidatedAdapter, AdapterError> {
    let mapping = |name: &str| json!({ "source_field": name, "target_axis": name, "cardinality": "one_to_one", "required": true });
    let mut document = json!({
        "oracle_id": "bank", "endpoint": endpoint, "records": "/data",
        "normalization": {
            "normalizer_id": "n", "source_schema_id": "answer", "target_ontology_id": "rates",
            "axis_mappings": [mapping("area"), mapping("rate")],
        },
    });
    for (name, value) in changes.as_object().expect("members") {
        document[name] = value.clone();
    }
    let adapter: Adapter = serde_json::from_value(document).expect("an adapter");
    adapter.validate(&source(), ontology())
}

fn live_query(adapter: Arc<ValidatedAdapter>) -> LiveQuery {
    LiveQuery {
        authority: "A bank (https://bank.example)".into(),
        adapter,
        oracle_tier: OracleTier::Primary,
        identity: BTreeMap::from([("area".into(), AxisValue::Text("AB".into()))]),
        point_in_time: None,
        cached_answer: None,
        timeout: Duration::from_secs(5),
        execution_id: "e-1".into(),
    }
}

fn oracles() -> HttpLiveOracle {
    oracle_with_credentials(BTreeMap::new())
}

fn oracle_with_credentials(credentials: BTreeMap<SourceId, BoundCredential>) -> HttpLiveOracle {
    let settings = LiveSettings {
        allow_local: vec!["127.0.0.1/32".parse().expect("a range")],
        allow_cleartext: false,
        connect: Duration::from_secs(2),
        idle: Duration::from_millis(400),
    };
    HttpLiveOracle::new(&settings, credentials, Clock::fixed(now()))
}

fn endpoint(server: &ScriptedServer) -> String {
    server.url("127.0.0.1", "/rates/{area}")
}

/// The answer of a source with these adapter `changes` whose server follows `scripts`, and the number of requests.
async fn query_scripted_server(scripts: Vec<Vec<ServerStep>>, changes: Json) -> (LiveAnswer, usize) {
    let server = ScriptedServer::start("127.0.0.1", scripts).await;
    let answer = oracles().ask(live_query(adapter(&endpoint(&server), &changes))).await;
    (answer, server.heads().len())
}

fn body(rate: &str) -> String {
    format!(r#"{{"data":{{"area":"AB","rate":{rate}}},"issued":"2026-11-20T11:59:00Z"}}"#)
}

/// The candidate in a successful answer.
fn expect_candidate(answer: LiveAnswer) -> CandidateAnswer {
    assert!(matches!(answer.outcome, CircuitCallOutcome::Success { latency_ms: Some(_) }), "{answer:?}");
    match answer.reply {
        OracleReply::Answered { candidate } => *candidate,
        other => panic!("{other:?}"),
    }
}

fn rate_of(candidate: &CandidateAnswer) -> String {
    candidate.values["rate"].value.to_string()
}

/// Why the answer was refused. Checks that the refusal counts against the source (unless it is about
/// identity) and caches nothing.
fn expect_refusal(answer: LiveAnswer) -> (AnswerFault, String) {
    assert!(answer.answer_to_cache.is_none(), "{answer:?}");
    match answer.reply {
        OracleReply::Refused { refusal, cause } => {
            match answer.outcome {
                CircuitCallOutcome::Neutral => assert_eq!(refusal, AnswerFault::Identity),
                outcome => assert!(
                    refusal != AnswerFault::Identity && matches!(outcome, CircuitCallOutcome::Failure(_))
                ),
            }
            assert!(!cause.contains("s3cret"), "{cause}");
            (refusal, cause)
        }
        other => panic!("{other:?}"),
    }
}

/// A signing key, and its public key as in an adapter document.
fn key(seed: u8, kid: &str) -> (Ed25519KeyPair, Json) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("32 bytes");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    (pair, json!({ "kid": kid, "kty": "OKP", "crv": "Ed25519", "x": x }))
}

/// The members that an adapter needs for a source that signs under this policy.
fn signed_by(policy: Json) -> Json {
    json!({ "signature": policy, "issued_at": { "path": "issued" }, "max_issue_age_seconds": 300 })
}

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
    assert_eq!(record.oracle_tier, domain_verification::VerificationTier::Primary);
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
