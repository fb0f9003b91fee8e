//! Live sources over real connections: which answers are accepted, and which are rejected.

mod asking;
mod signatures;
mod verification;

use super::*;
use crate::platform::clock::Clock;
use crate::upstream::web::BoundCredential;
use crate::upstream::web::testing::{ScriptedServer, ServerStep, complete_reply, send_text, status};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::ontology::Ontology;
use oracled_domain::ground::source::SourceRegistration;
use oracled_domain::verification::adapter::{Adapter, AdapterError};
use oracled_domain::verification::{AnswerFault, CandidateAnswer};
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
