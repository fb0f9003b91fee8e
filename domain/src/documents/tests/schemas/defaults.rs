//! Documents without their optional members.

use super::*;
use domain_base::digest::digest_of_json;
use domain_base::document::Document;
use serde::Serialize;

/// Checks that `minimal` and `full`, which has all members with their defaults, are the same document.
#[track_caller]
fn assert_same<T: ToSchema + DeserializeOwned + Serialize>(minimal: Json, full: Json) {
    let digest = |document: &Json| {
        assert!(validator::<T>().is_valid(document), "{document}");
        let read: T = serde_json::from_value(document.clone()).unwrap();
        let written = serde_json::to_value(&read).unwrap();
        let digest = digest_of_json(&read);
        let read_back: T = serde_json::from_value(written).unwrap();
        assert_eq!(digest_of_json(&read_back), digest, "the stored form has the same digest");
        digest
    };
    assert_eq!(digest(&minimal), digest(&full));
}

fn merged(mut document: Json, members: Json) -> Json {
    document.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    document
}

#[test]
fn ontology_digest_ignores_written_defaults() {
    let axis = json!({"axis": "id", "type": "string", "class": "measured", "description": "x"});
    let defaults = json!({"unit": null, "values": [], "identity": false, "indexed": false, "state_sensitive": false,
        "max_ttl_seconds": null, "precision": null, "relative_tolerance": null, "conservative": null});
    let of = |axis: Json| json!({"ontology_id": "things", "version": "1", "axes": [axis]});
    let full = merged(of(merged(axis.clone(), defaults)), json!({"fact_templates": []}));
    assert_same::<Ontology>(of(axis), full);
}

#[test]
fn source_digest_ignores_written_defaults() {
    let minimal = json!({
        "oracle_id": "bank", "oracle_name": "x", "oracle_tier": "primary", "upstream_authority": "x",
        "upstream_url": "https://bank.example", "data_license": "x", "domain": "x",
        "ontology": {"ontology_id": "rates", "version": "1"}, "axes_provided": ["area"],
        "update_frequency": "daily", "adapter_id": "http",
    });
    let full = merged(minimal.clone(), json!({"geographic_scope": null, "snapshot": false}));
    assert_same::<SourceRegistration>(minimal, full);
}

#[test]
fn freshness_digest_ignores_written_defaults() {
    let minimal =
        json!({"oracle_id": "bank", "default_max_age_seconds": 1, "default_stale_behavior": "fail_closed"});
    let full = merged(minimal.clone(), json!({"axis_freshness": {}, "invalidation_triggers": []}));
    assert_same::<FreshnessPolicy>(minimal.clone(), full);
    let requirement =
        json!({"max_age_seconds": 1, "stale_behavior": "fail_closed", "refresh_on_query": true});
    let of = |requirement: Json| merged(minimal.clone(), json!({"axis_freshness": {"rate": requirement}}));
    assert_same::<FreshnessPolicy>(of(requirement.clone()), of(merged(requirement, json!({"axis": "rate"}))));
}

/// A pipeline with only its required members.
fn minimal_pipeline() -> Json {
    json!({"pipeline": {
        "pipeline_id": "things", "oracle_id": "things-source",
        "retrieval": {"method": "manual_upload", "format": "ndjson"},
        "validation": {"reject_on_schema_fail": true},
        "storage": {"retention_days": 1},
        "audit": {"log_raw_input": true, "log_transformations": true},
    }})
}

fn full_pipeline(normalizer_id: &str) -> Json {
    let mut full = minimal_pipeline();
    let pipeline = &mut full["pipeline"];
    pipeline["retrieval"]["format"] = json!("ndjson");
    pipeline["validation"] =
        merged(pipeline["validation"].clone(), json!({"required_fields": [], "deduplication_key": []}));
    pipeline["gates"] = json!({"max_rejected_ratio": "0.010", "max_withdrawn_ratio": "0.05", "min_records": 0,
        "accept_same_payload": false});
    pipeline["transformation"] = json!({"normalizer_id": normalizer_id, "field_mappings": []});
    pipeline["storage"]["destination"] = json!("store");
    pipeline["audit"]["provenance_chain"] = json!(true);
    full["normalization"] = json!({"normalizer_id": normalizer_id, "axis_mappings": [], "value_normalizers": [],
        "post_normalization_checks": []});
    merged(full, json!({"schemas": {}, "tables": {}}))
}

#[test]
fn pipeline_digest_ignores_written_defaults() {
    assert_same::<PipelineDefinition>(minimal_pipeline(), full_pipeline("things"));
    let mapping = json!({"source_field": "id", "target_axis": "id"});
    let step = json!({"axis": "id", "normalizer_type": "identity"});
    let table = json!({"words": {"entries": {}}});
    let of = |mapping: Json, step: Json, table: Json| {
        let normalization = json!({"axis_mappings": [mapping], "value_normalizers": [step]});
        merged(minimal_pipeline(), json!({"normalization": normalization, "tables": {"t": table}}))
    };
    let full = of(
        merged(mapping.clone(), json!({"cardinality": "one_to_one", "required": false})),
        merged(step.clone(), json!({"config": {}})),
        json!({"words": {"entries": {}, "otherwise": "reject"}}),
    );
    assert_same::<PipelineDefinition>(of(mapping, step, table), full);
}

#[test]
fn pipeline_digest_does_not_depend_on_normalizer_notation() {
    for pointer in ["/pipeline/transformation", "/normalization"] {
        let mut one = full_pipeline("n");
        one.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove("normalizer_id");
        assert_same::<PipelineDefinition>(one, full_pipeline("n"));
    }
}

#[test]
fn pipeline_keeps_its_references_to_an_ontology() {
    let pinned = json!({"normalizer_id": "n", "output_schema_id": "things@1"});
    let mut document = full_pipeline("n");
    document["pipeline"]["transformation"] = pinned.clone();
    let read: PipelineDefinition = serde_json::from_value(document).unwrap();
    assert_eq!(serde_json::to_value(&read.pipeline.transformation).unwrap(), pinned);
}

#[test]
fn adapter_digest_ignores_written_defaults() {
    let minimal = json!({"oracle_id": "bank", "endpoint": "https://bank.example/{area}", "records": "",
        "normalization": {"axis_mappings": [{"source_field": "area", "target_axis": "area"}]}});
    let mut full = merged(
        minimal.clone(),
        json!({"authentication": "none", "schema_id": null, "required_fields": [], "schemas": {}, "tables": {},
            "version": null, "observed_at": null, "issued_at": null, "max_issue_age_seconds": null, "nonce": null,
            "signature": null, "ttl_seconds": null, "keep_seconds": 2_592_000}),
    );
    full["normalization"] = json!({"normalizer_id": "bank", "value_normalizers": [], "post_normalization_checks": [],
        "valid_time": null, "axis_mappings": [{"source_field": "area", "target_axis": "area",
            "cardinality": "one_to_one", "required": false}]});
    assert_same::<Adapter>(minimal, full);
}

#[test]
fn workflow_digest_ignores_written_defaults() {
    let minimal = json!({
        "workflow_id": "doses", "domain": "x", "ontology": {"ontology_id": "clinic", "version": "1"},
        "axes": ["dose"], "oracles": ["lab-a"],
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {"authority_latency_budget_ms": 5000, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "ESCALATE"},
    });
    let full = merged(
        minimal.clone(),
        json!({
            "min_sources": 1, "deviation_limits": {},
            "conflict_resolution": {
                "default_strategy": "higher_tier_wins", "same_tier_strategy": "require_human", "axis_thresholds": {},
                "always_human_axes": [],
                "scope": {"granularity": "axis", "cascade_limit": 3, "partial_conflict_behavior": "isolate"},
            },
            "oracle_latency": {"soft_timeout_ms": 2000, "hard_timeout_ms": 5000, "on_timeout": "FAIL_CLOSED_BLOCK",
                               "stale_tolerance_seconds": null},
        }),
    );
    assert_same::<Workflow>(minimal, full);
}

/// Documents that an earlier version of the daemon stored keep their digests. The expected digest was
/// computed with Python.
#[test]
fn digest_of_a_full_document_is_stable() {
    let digest = |document: Json| serde_json::from_value::<PipelineDefinition>(document).unwrap().digest();
    let example = include_str!("../../../../../examples/ground-truth/pipelines/iso-4217.json");
    let expected = "17f004b17512d30a6db42a0b5da3f047c84925102c0420dd00414e23678f3f8b";
    assert_eq!(digest(serde_json::from_str(example).unwrap()).as_str(), expected);
}

#[test]
fn null_is_not_an_absent_member() {
    fn is_read<T: DeserializeOwned>(mut document: Json, pointer: &str) -> bool {
        *document.pointer_mut(pointer).unwrap() = Json::Null;
        serde_json::from_value::<T>(document).is_ok()
    }
    for pointer in [
        "/pipeline/transformation/normalizer_id",
        "/pipeline/transformation/output_schema_id",
        "/pipeline/storage/destination",
        "/normalization/source_schema_id",
        "/normalization/target_ontology_id",
    ] {
        assert!(!is_read::<PipelineDefinition>(pipeline(), pointer), "{pointer}");
    }
    assert!(!is_read::<SourceRegistration>(documents("source").remove(0), "/query_contract"));
    assert!(!is_read::<FreshnessPolicy>(policy(), "/axis_freshness/inr/axis"));
}
