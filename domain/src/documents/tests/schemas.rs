use domain_base::document::json_schema;
use domain_ground::freshness::FreshnessPolicy;
use domain_ground::ontology::Ontology;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::source::SourceRegistration;
use domain_verification::adapter::Adapter;
use domain_verification::workflow::Workflow;
use jsonschema::Validator;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use utoipa::ToSchema;

mod defaults;

/// The documents of a folder of the examples whose names end with `suffix`.
fn examples(folder: &str, suffix: &str) -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.to_str().unwrap().ends_with(suffix));
    files.map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap()).collect()
}

/// An ontology with all members.
fn ontology() -> Json {
    json!({
        "ontology_id": "things", "version": "1",
        "axes": [
            {"axis": "id", "type": "string", "class": "measured", "identity": true, "description": "x"},
            {"axis": "kind", "type": "enum", "values": ["a"], "class": "self_reported", "indexed": true, "description": "x"},
            {"axis": "size", "type": "number", "unit": "m", "class": "measured", "state_sensitive": true,
             "max_ttl_seconds": 1, "precision": -1, "relative_tolerance": "+0.50e-1", "conservative": "lower",
             "description": "x"},
        ],
        "fact_templates": [{"template_id": "size", "template": "{size}"}],
    })
}

/// A freshness policy with all members.
fn policy() -> Json {
    json!({
        "oracle_id": "ehr-lab-results",
        "axis_freshness": {
            "inr": {"axis": "inr", "max_age_seconds": 86400, "stale_behavior": "fail_closed", "refresh_on_query": false},
        },
        "default_max_age_seconds": 86400,
        "default_stale_behavior": "serve_stale_with_warning",
        "invalidation_triggers": [
            {"trigger_type": "upstream_signal", "config": {"webhook": "/ehr/invalidate", "secret_file": "/x"}},
            {"trigger_type": "time_based", "config": {"ttl_seconds": 1}},
            {"trigger_type": "version_change", "config": {}},
            {"trigger_type": "manual", "config": {}},
        ],
    })
}

/// A pipeline with the members that no example has.
fn pipeline() -> Json {
    json!({
        "pipeline": {
            "pipeline_id": "things", "oracle_id": "things",
            "retrieval": {"method": "api_pull", "endpoint": "https://things.example", "authentication": "oauth",
                          "schedule": "0 6 * * *", "format": {"csv": {"delimiter": "\t", "quote": false}}},
            "validation": {"schema_id": "thing", "required_fields": ["id"], "reject_on_schema_fail": false,
                           "deduplication_key": ["id"]},
            "gates": {"max_rejected_ratio": "0.10", "max_withdrawn_ratio": ".5", "max_changed_ratio": "1e-1",
                      "min_records": 1, "accept_same_payload": true},
            "transformation": {
                "normalizer_id": "n", "output_schema_id": "things@1",
                "field_mappings": [{"source_path": "id", "target_axis": "id", "transform": "trim",
                                    "unit_conversion": {"from_unit": "m", "to_unit": "m"}}],
            },
            "storage": {"destination": "store", "retention_days": 1},
            "audit": {"log_raw_input": true, "log_transformations": true, "provenance_chain": true},
        },
        "normalization": {
            "normalizer_id": "n", "source_schema_id": "thing", "target_ontology_id": "things",
            "axis_mappings": [
                {"source_field": "$.sizes.*", "target_axis": "sizes.*", "cardinality": "one_to_many", "required": true,
                 "default_value": 1, "key": {"field": "a", "table": "words"}, "definition": "x"},
                {"source_field": "size", "target_axis": "size", "cardinality": "many_to_one", "required": false,
                 "definition": {"axis": "id", "table": "words"}},
            ],
            "value_normalizers": [{"axis": "size", "normalizer_type": "numeric_precision", "config": {"digits": 1}}],
            "post_normalization_checks": [
                {"check_type": "range", "axis": "size", "constraint": {"min": 0}, "on_failure": "nullify"},
            ],
            "valid_time": {"from_field": "a", "until_field": "b", "formats": ["%Y"]},
        },
        "schemas": {"thing": {"type": "object"}, "any": true},
        "tables": {
            "words": {"words": {"entries": {"a": "b", "c": null}, "otherwise": "keep", "from": {"oracle_id": "iso", "key": "a", "value": "b"}}},
            "codes": {"words_from": {"oracle_id": "iso", "key": "alpha2", "value": "alpha3", "otherwise": "warn"}},
            "units": {"conversions": {"*": {"[IU]": {"factor": "0.025", "unit": "ug"}}}},
        },
    })
}

/// An adapter with all members. `signature` is its method.
fn adapter(signature: Json) -> Json {
    let mut document = examples("live", ".adapter.json").remove(0);
    for (name, value) in [
        ("authentication", json!("mtls")),
        ("issued_at", json!({"header": "Date"})),
        ("max_issue_age_seconds", json!(60)),
        ("nonce", json!({"path": "nonce"})),
        ("signature", signature),
        ("keep_seconds", json!(60)),
    ] {
        document[name] = value;
    }
    document
}

fn adapters() -> Vec<Json> {
    let key = json!({"kid": "1", "kty": "OKP", "crv": "Ed25519", "x": "AA", "alg": "EdDSA", "use": "sig"});
    let other = json!({"kid": "2", "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "alg": "ES256"});
    let third = json!({"kid": "3", "kty": "RSA", "n": "AA", "e": "AQAB", "alg": "RS256"});
    let signed = json!({"method": "ed25519", "header": "a", "key_id_header": "b", "keys": [key]});
    let detached = json!({"method": "jws", "header": "a", "keys": [other, third]});
    [adapter(signed), adapter(detached)].into_iter().chain(examples("live", ".adapter.json")).collect()
}

/// A workflow with all members.
fn workflow() -> Json {
    json!({
        "workflow_id": "doses", "domain": "x", "ontology": {"ontology_id": "clinic", "version": "1"},
        "axes": ["dose"], "oracles": ["lab-a"],
        "conflict_resolution": {
            "default_strategy": "most_recent", "same_tier_strategy": "dispute_summary",
            "escalation_delta_threshold": 0.1, "escalation_ratio_threshold": "0.10", "suspicious_ratio": 2,
            "axis_thresholds": {"dose": {"escalation_delta_threshold": 1, "escalation_ratio_threshold": "1"}},
            "always_human_axes": ["dose"], "recency_window_seconds": 60,
            "scope": {"granularity": "oracle", "cascade_limit": 1, "partial_conflict_behavior": "invalidate_all"},
        },
        "min_sources": 2,
        "deviation_limits": {"dose": {"max_change": 1, "max_change_ratio": "0.5"}},
        "oracle_latency": {"soft_timeout_ms": 1, "hard_timeout_ms": 2, "on_timeout": "SERVE_STALE",
                           "stale_tolerance_seconds": 1},
        "authority_latency": {"authority_latency_budget_ms": 1, "enforcement_mode": "INLINE",
                              "on_timeout_behavior": "FAIL_CLOSED"},
    })
}

/// Real documents of each kind, and one with all members.
fn documents(kind: &str) -> Vec<Json> {
    let with = |mut documents: Vec<Json>, document: Json| {
        documents.push(document);
        documents
    };
    let found = match kind {
        "ontology" => with(examples("ontologies", ".json"), ontology()),
        "source" => [examples("sources", ".json"), examples("live", ".source.json")].concat(),
        "freshness" => vec![policy()],
        "pipeline" => with(examples("pipelines", ".json"), pipeline()),
        "adapter" => adapters(),
        _ => with(examples("workflows", ".json"), workflow()),
    };
    assert!(!found.is_empty(), "{kind}");
    found
}

fn validator<T: ToSchema>() -> Validator {
    jsonschema::draft202012::new(&json_schema::<T>()).expect("a schema is valid")
}

/// The JSON pointers to the values in `document`. Of values that differ only in a list index, only the first
/// is included.
fn pointers(document: &Json) -> Vec<String> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut open = vec![(document, String::new(), String::new())];
    while let Some((value, pointer, pattern)) = open.pop() {
        if !seen.insert(pattern.clone()) {
            continue;
        }
        match value {
            Json::Object(members) => {
                // tables have thousands of entries
                open.extend(members.iter().take(30).map(|(name, member)| {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    (member, format!("{pointer}/{name}"), format!("{pattern}/{name}"))
                }));
            }
            Json::Array(items) => {
                let items = items.iter().enumerate();
                open.extend(items.map(|(index, item)| {
                    let pattern = if item.is_object() { index.to_string() } else { "*".into() };
                    (item, format!("{pointer}/{index}"), format!("{pointer}/{pattern}"))
                }));
            }
            _ => {}
        }
        found.push(pointer);
    }
    found
}

/// The variants of `document` that differ from it in the value at `pointer`.
fn variants(document: &Json, pointer: &str) -> Vec<Json> {
    let changed = |value: Json| {
        let mut changed = document.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let value = document.pointer(pointer).unwrap();
    let other = [json!(null), json!(true), json!(7), json!(-1), json!(1.5), json!("?"), json!({})];
    let mut variants: Vec<_> = other.into_iter().map(changed).collect();
    if let Json::Object(members) = value {
        let mut more = members.clone();
        more.insert("unknown_member".into(), json!("a"));
        variants.push(changed(Json::Object(more)));
        for name in members.keys().take(30) {
            let mut fewer = members.clone();
            fewer.remove(name);
            variants.push(changed(Json::Object(fewer)));
        }
    } else {
        // serde reads a struct from a list, too, which no schema allows
        variants.push(changed(json!([])));
    }
    variants
}

/// Checks the schema of `T` against serde, which reads the documents.
fn assert_matches_serde<T: ToSchema + DeserializeOwned>(kind: &str) {
    let validator = validator::<T>();
    let mut refused = 0;
    for document in documents(kind) {
        for pointer in pointers(&document) {
            for variant in variants(&document, &pointer) {
                let read = serde_json::from_value::<T>(variant.clone()).map(|_| ());
                let value = variant.pointer(&pointer).unwrap();
                assert_eq!(
                    validator.is_valid(&variant),
                    read.is_ok(),
                    "{kind}, {pointer}: {value} ({read:?})"
                );
                refused += usize::from(read.is_err());
            }
        }
    }
    assert!(refused > 100, "{kind}: {refused}");
}

macro_rules! for_each_kind {
    ($check:ident) => {
        $check::<Ontology>("ontology");
        $check::<SourceRegistration>("source");
        $check::<FreshnessPolicy>("freshness");
        $check::<PipelineDefinition>("pipeline");
        $check::<Adapter>("adapter");
        $check::<Workflow>("workflow");
    };
}
#[test]
fn schema_accepts_real_documents() {
    fn check<T: ToSchema + DeserializeOwned>(kind: &str) {
        for mut document in documents(kind) {
            serde_json::from_value::<T>(document.clone()).unwrap_or_else(|error| panic!("{kind}: {error}"));
            document["$schema"] = json!("https://oracled.example/schema.json");
            document["kind"] = json!(kind);
            if let Err(error) = validator::<T>().validate(&document) {
                panic!("{kind}: {error} at {}", error.instance_path());
            }
        }
    }
    for_each_kind!(check);
}

#[test]
fn schema_rejects_an_unknown_member_of_a_document() {
    fn check<T: ToSchema>(kind: &str) {
        for mut document in documents(kind) {
            document["unknown_member"] = json!("a");
            assert!(!validator::<T>().is_valid(&document), "{kind}");
        }
    }
    for_each_kind!(check);
}

#[test]
fn schema_rejects_an_unknown_word_of_an_enum() {
    #[track_caller]
    fn check<T: ToSchema>(mut document: Json, pointer: &str) {
        *document.pointer_mut(pointer).unwrap() = json!("no_such_word");
        assert!(!validator::<T>().is_valid(&document), "{pointer}");
    }
    check::<Ontology>(ontology(), "/axes/0/type");
    check::<SourceRegistration>(documents("source").remove(0), "/update_frequency");
    check::<FreshnessPolicy>(policy(), "/invalidation_triggers/0/trigger_type");
    check::<PipelineDefinition>(pipeline(), "/normalization/axis_mappings/0/cardinality");
    check::<Adapter>(adapters().remove(0), "/signature/method");
    check::<Workflow>(workflow(), "/oracle_latency/on_timeout");
}

#[test]
fn schema_accepts_what_serde_accepts() {
    for_each_kind!(assert_matches_serde);
}

#[test]
fn schema_is_self_contained_and_described() {
    fn references<'s>(schema: &'s Json, found: &mut Vec<&'s str>) {
        match schema {
            Json::Object(members) => {
                found.extend(members.get("$ref").and_then(Json::as_str));
                members.values().for_each(|member| references(member, found));
            }
            Json::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    fn check<T: ToSchema>(kind: &str) {
        let schema = json_schema::<T>();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert!(schema["title"].is_string() && schema["description"].is_string(), "{kind}");
        let mut found = Vec::new();
        references(&schema, &mut found);
        for reference in found {
            assert!(schema.pointer(reference.trim_start_matches('#')).is_some(), "{kind}: {reference}");
        }
        let root = kind.to_owned();
        let types = schema["$defs"].as_object().unwrap().iter().chain([(&root, &schema)]);
        for (name, definition) in types {
            assert!(definition["description"].is_string(), "{kind}: {name}");
            for (member, schema) in definition["properties"].as_object().into_iter().flatten() {
                let described = schema["description"].is_string()
                    || schema.get("$ref").is_some()
                    || schema.get("oneOf").is_some();
                assert!(described, "{kind}: {name}.{member}");
            }
        }
    }
    for_each_kind!(check);
}
