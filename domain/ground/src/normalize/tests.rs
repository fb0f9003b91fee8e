//! Tests of normalization: the shipped definitions, and a test definition that uses every feature.

mod checks;
mod definitions;
mod examples;
mod properties;
mod records;
mod schemas;

use super::*;
use crate::ontology::Ontology;
use crate::pipeline::PipelineDefinition;
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// An ontology with an axis of every type.
fn ontology() -> Ontology {
    let axis = |name: &str, kind: &str| json!({ "axis": name, "type": kind, "class": "measured", "description": "x" });
    let with = |mut axis: Json, name: &str, value: Json| {
        axis[name] = value;
        axis
    };
    let axes = json!([
        with(axis("id", "string"), "identity", json!(true)),
        axis("count", "integer"),
        with(axis("amount", "number"), "unit", json!("g")),
        with(axis("kind", "enum"), "values", json!(["one", "two"])),
        axis("flag", "boolean"),
        axis("day", "date"),
        axis("name", "string"),
        with(axis("parts.*.amount", "number"), "unit", json!("g")),
        axis("month", "month"),
        axis("quarter", "quarter"),
        axis("year", "year"),
    ]);
    let ontology = json!({ "ontology_id": "things", "version": "1", "axes": axes });
    let ontology: Ontology = serde_json::from_value(ontology).unwrap();
    ontology.validate().unwrap();
    ontology
}

/// A definition that fills every axis from the field of its name, and the group from the members of `parts`.
fn definition() -> Json {
    let mapping = |name: &str| {
        json!({
            "source_field": name, "target_axis": name, "cardinality": "one_to_one", "required": name == "id",
        })
    };
    let mut mappings: Vec<_> =
        ["id", "count", "amount", "kind", "flag", "day", "name"].into_iter().map(mapping).collect();
    mappings.push(json!({
        "source_field": "$.parts.*.value", "target_axis": "parts.*.amount", "cardinality": "one_to_many",
        "required": false,
    }));
    mappings.extend(["month", "quarter", "year"].map(mapping));
    json!({
        "pipeline": {
            "pipeline_id": "things", "oracle_id": "things",
            "retrieval": { "method": "manual_upload", "format": "ndjson" },
            "validation": { "reject_on_schema_fail": true },
            "transformation": { "normalizer_id": "n", "output_schema_id": "things@1" },
            "storage": { "destination": "store", "retention_days": 1 },
            "audit": { "log_raw_input": true, "log_transformations": true, "provenance_chain": true },
        },
        "normalization": {
            "normalizer_id": "n", "source_schema_id": "things", "target_ontology_id": "things",
            "axis_mappings": mappings, "value_normalizers": [], "post_normalization_checks": [],
        },
        "schemas": {},
        "tables": {},
    })
}

/// The definition with `value` at each pointer; a pointer that ends in `/-` appends to a list.
fn with<const N: usize>(changes: [(&str, Json); N]) -> Json {
    let mut definition = definition();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match definition.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}")) {
            Json::Array(list) if name == "-" => list.push(value),
            Json::Array(list) => list[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
    }
    definition
}

/// Compiles `definition`.
fn compile_normalizer(definition: Json) -> Result<RecordNormalizer, PipelineDefinitionErrors> {
    let definition: PipelineDefinition = serde_json::from_value(definition).unwrap();
    let ontology = ontology();
    let provided: Vec<_> = ontology.axes.iter().map(|axis| axis.axis.clone()).collect();
    RecordNormalizer::new(&definition, Arc::new(ontology), &provided)
}

/// The definition with one normalizer.
fn stepped(axis: &str, kind: &str, config: Json) -> Json {
    let normalizer = json!({ "axis": axis, "normalizer_type": kind, "config": config });
    with([("/normalization/value_normalizers/-", normalizer)])
}

/// The definition with one check.
fn checked(axis: &str, kind: &str, constraint: Json, on_failure: &str) -> Json {
    let check =
        json!({ "check_type": kind, "axis": axis, "constraint": constraint, "on_failure": on_failure });
    with([("/normalization/post_normalization_checks/-", check)])
}

fn raw(record: &Json) -> SourceValue {
    SourceValue::parse(record.to_string().as_bytes()).unwrap()
}

fn normalized(definition: Json, record: Json) -> Result<NormalizerOutput, RecordRejection> {
    compile_normalizer(definition).unwrap_or_else(|error| panic!("{error}")).normalize(&raw(&record))
}

/// The content of `record` by `definition`, without its id.
fn axes(definition: Json, record: Json) -> Json {
    let normalized = normalized(definition, record).unwrap_or_else(|error| panic!("{error:?}"));
    let mut axes = serde_json::to_value(normalized.content.axes).unwrap();
    axes.as_object_mut().unwrap().remove("id");
    axes
}

/// Asserts that `definition` rejects `record` by this rule, at this place, with these words in the reason.
#[track_caller]
fn assert_rejected(definition: Json, record: Json, rule: RecordRule, location: &str, words: &str) {
    match normalized(definition, record) {
        Ok(normalized) => panic!("the record is accepted: {normalized:?}"),
        Err(rejection) => {
            assert_eq!((rejection.rule, rejection.place.as_deref()), (rule, Some(location)), "{rejection:?}");
            assert!(rejection.reason.contains(words), "{rejection:?}");
        }
    }
}
