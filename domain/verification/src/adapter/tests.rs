//! Tests of adapters: documents, queries and answers.

mod documents;
mod examples;
mod readings;
mod templates;

use super::*;
use crate::stored_state::CachedAnswer;
use crate::verification_record::{CandidateAnswer, OracleVerificationRecord, StatedValue, VerificationTier};
use domain_ground::ontology::Ontology;
use domain_ground::source::SourceRegistration;
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// The point of RFC 8037, appendix A.2.
const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn ontology() -> Arc<Ontology> {
    let axes = json!([
        { "axis": "area", "type": "string", "class": "measured", "identity": true, "description": "x" },
        { "axis": "day", "type": "date", "class": "measured", "identity": true, "description": "x" },
        { "axis": "scheme", "type": "enum", "values": ["one", "two"], "class": "measured", "identity": true,
          "description": "x" },
        { "axis": "rate", "type": "number", "class": "measured", "max_ttl_seconds": 3600, "description": "x" },
        { "axis": "parts.*.amount", "type": "number", "class": "measured", "description": "x" },
        { "axis": "note", "type": "string", "class": "measured", "description": "x" },
    ]);
    let ontology: Ontology =
        serde_json::from_value(json!({ "ontology_id": "rates", "version": "1", "axes": axes })).unwrap();
    ontology.validate().unwrap();
    Arc::new(ontology)
}

fn source() -> SourceRegistration {
    let source = json!({
        "oracle_id": "bank", "oracle_name": "x", "oracle_tier": "primary", "upstream_authority": "x",
        "upstream_url": "https://bank.example", "data_license": "x", "domain": "x",
        "ontology": { "ontology_id": "rates", "version": "1" },
        "axes_provided": ["area", "day", "scheme", "rate", "parts.*.amount", "note"],
        "update_frequency": "daily", "adapter_id": "http", "query_contract": "x"
    });
    serde_json::from_value(source).unwrap()
}

/// An adapter with the features that every source has.
fn plain() -> Json {
    let mapping = |field: &str, axis: &str, required: bool| {
        json!({
            "source_field": field, "target_axis": axis, "cardinality": "one_to_one", "required": required,
        })
    };
    let mut scheme = mapping("scheme", "scheme", false);
    scheme["default_value"] = json!("one");
    let mut rate = mapping("rate", "rate", true);
    rate["definition"] = json!("mid");
    let parts = json!({
        "source_field": "$.parts.*.value", "target_axis": "parts.*.amount", "cardinality": "one_to_many",
        "required": false,
    });
    json!({
        "oracle_id": "bank",
        "endpoint": "https://bank.example/v1/{area}/rates?day={day}",
        "records": "/data",
        "normalization": {
            "normalizer_id": "n", "source_schema_id": "answer", "target_ontology_id": "rates",
            "axis_mappings": [
                mapping("area", "area", true), mapping("day", "day", true), scheme, rate, parts,
                mapping("note", "note", false),
            ],
        },
    })
}

/// The document with `value` at each pointer.
fn with<const N: usize>(changes: [(&str, Json); N]) -> Json {
    let mut document = plain();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match document.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}")) {
            Json::Array(list) => list[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
    }
    document
}

fn validate_adapter(document: Json) -> Result<ValidatedAdapter, AdapterError> {
    let adapter: Adapter = serde_json::from_value(document).unwrap();
    adapter.validate(&source(), ontology())
}

fn sample_subject() -> BTreeMap<String, AxisValue> {
    let of = |text: &str| AxisValue::Text(text.into());
    BTreeMap::from([
        ("area".into(), of("AB")),
        ("day".into(), of("2026-01-31")),
        ("scheme".into(), of("one")),
    ])
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-20T12:00:00Z")
}

/// A cached answer from an hour ago, read by `adapter`.
fn sample_cached_answer(rate: &str, adapter: &ValidatedAdapter) -> CachedAnswer {
    let asked_at = at("2026-11-20T11:00:00Z");
    let stated = StatedValue { value: AxisValue::Text(rate.into()), definition: Some("mid".into()) };
    let record = OracleVerificationRecord {
        oracle_id: "bank".parse().unwrap(),
        oracle_tier: VerificationTier::Primary,
        source_locator: "https://bank.example".into(),
        source_version: None,
        retrieved_at: asked_at,
        verified_at: asked_at,
        verification_method: "x".into(),
        verifier_id: "x".into(),
        evidence_hash: None,
        signature_info: None,
        ttl_seconds: None,
        chain_of_custody: None,
    };
    let candidate = CandidateAnswer {
        subject: sample_subject(),
        values: BTreeMap::from([("rate".into(), stated)]),
        record,
        observed_at: asked_at,
        freshness: Vec::new(),
        deviations: BTreeMap::new(),
        provenance: None,
    };
    let adapter_sha256 = adapter.sha256().clone();
    let issued_at = Some(at("2026-11-20T10:59:00Z"));
    CachedAnswer {
        candidate: Some(candidate),
        point_in_time: None,
        adapter_sha256,
        issued_at,
        invalidation_count: 0,
        etag: None,
    }
}
