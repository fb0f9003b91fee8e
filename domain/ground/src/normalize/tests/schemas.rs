//! JSON Schemas for raw records.

use super::*;
use std::time::{Duration, Instant};

/// The definition with a schema.
fn by(schema: Json) -> Json {
    with([("/pipeline/validation/schema_id", json!("s")), ("/schemas/s", schema)])
}

fn fault(schema: Json) -> String {
    let fault = compile_normalizer(by(schema)).unwrap_err().to_string();
    assert!(fault.starts_with("pipeline.validation.schema_id: "), "{fault}");
    fault
}

#[test]
fn record_that_fails_its_schema_is_rejected_or_warned() {
    let schema = json!({ "properties": { "count": { "type": "integer", "maximum": 5 } } });
    let record = json!({ "id": "a", "count": 6 });
    assert_rejected(by(schema.clone()), record.clone(), RecordRule::Schema, "/count", "maximum");
    let mut marked = by(schema.clone());
    marked["pipeline"]["validation"]["reject_on_schema_fail"] = json!(false);
    let normal = normalized(marked, record).unwrap();
    assert_eq!(normal.warnings.iter().map(|warning| warning.rule).collect::<Vec<_>>(), [RecordRule::Schema]);
    assert!(normalized(by(schema), json!({ "id": "a", "count": 5 })).unwrap().warnings.is_empty());
}

#[test]
fn long_position_of_a_fault_is_cut_off() {
    let definition = by(json!({ "additionalProperties": { "type": "integer" } }));
    let record = json!({ "é".repeat(100_000): "x" });
    let rejection = normalized(definition, record).unwrap_err();
    assert_eq!(rejection.place.map(|location| location.chars().count()), Some(512));
    assert!(rejection.reason.chars().count() <= 500);
}

#[test]
fn schema_part_may_refer_to_any_other_part() {
    for draft in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let schema = json!({
            "$schema": draft,
            "definitions": { "code": { "type": "string", "pattern": "^[A-Z]{2}$" } },
            "properties": {
                "list": { "items": { "required": ["id"], "properties": {
                    "id": { "$ref": "#/definitions/code" },
                    "name": { "$ref": "#/properties/title" },
                } } },
                "title": { "minLength": 2 },
            },
        });
        let definition = with([
            ("/pipeline/validation/schema_id", json!("s#/properties/list/items")),
            ("/schemas/s", schema),
        ]);
        assert!(normalized(definition.clone(), json!({ "id": "AB", "name": "xy" })).is_ok(), "{draft}");
        assert_rejected(
            definition.clone(),
            json!({ "id": "ab" }),
            RecordRule::Schema,
            "/id",
            "does not match",
        );
        assert_rejected(
            definition,
            json!({ "id": "AB", "name": "x" }),
            RecordRule::Schema,
            "/name",
            "shorter",
        );
    }
}

#[test]
fn schema_names_fields_in_any_unicode_form() {
    const NFC: &str = "r\u{e9}gion";
    const NFD: &str = "re\u{301}gion";
    for (defined, published) in [(NFC, NFD), (NFD, NFC), (NFD, NFD)] {
        let text = json!({ "enum": [defined] });
        let schema = json!({ "required": [defined], "properties": { defined: text }, "additionalProperties": { "type": "string" } });
        let schema = CompiledSchema::new(&schema, "").expect("a schema");
        let check = |record: Json| {
            let raw = SourceValue::parse(record.to_string().as_bytes()).expect("valid JSON");
            schema.check(&raw).is_ok()
        };
        assert!(check(json!({ published: published })), "{defined}");
        assert!(!check(json!({ published: "other" })) && !check(json!({})), "{defined}");
    }
}

#[test]
fn schema_of_draft_4_is_read_as_draft_4() {
    let schema = |draft: &str| json!({ "$schema": draft, "properties": { "count": { "minimum": 5, "exclusiveMinimum": true } } });
    let fourth = by(schema("http://json-schema.org/draft-04/schema#"));
    assert_rejected(fourth, json!({ "id": "a", "count": 5 }), RecordRule::Schema, "/count", "5");
    fault(schema("http://json-schema.org/draft-07/schema#"));
}

/// A schema with this reference.
fn referring_to(reference: &str) -> Json {
    json!({ "properties": { "id": { "$ref": reference } } })
}

/// Definitions whose `schema_id` leads to no schema.
fn definitions_without_their_schema() -> [Json; 2] {
    [
        with([("/pipeline/validation/schema_id", json!("s#/a")), ("/schemas/s", json!({}))]),
        with([("/pipeline/validation/schema_id", json!("t"))]),
    ]
}

#[test]
fn schema_with_external_reference_is_rejected() {
    for reference in [
        "http://127.0.0.1:9/schema.json",
        "https://json-schema.org/draft/2020-12/schema",
        "file:///etc/passwd",
        "other.json#/a",
        "#anchor",
        "#/definitions/none",
    ] {
        let message = fault(referring_to(reference));
        let of_another = fault(referring_to("other.json#/a"));
        assert_eq!(message.replace(reference, ""), of_another.replace("other.json#/a", ""));
        assert!(message.contains(reference), "{message}");
    }
    assert!(fault(json!({ "$dynamicRef": "#/a", "a": {} })).contains("`$dynamicRef`"));
    assert!(fault(json!({ "$schema": "http://127.0.0.1:9/draft" })).contains("127.0.0.1"));
}

/// Schemas that are too large, or are so once their references are expanded.
fn large_schemas() -> [Json; 6] {
    // each of these refers to the next one twice
    let double = |n: usize| {
        (
            format!("d{n}"),
            json!({ "allOf": [{ "$ref": format!("#/d/d{}", n + 1) }, { "$ref": format!("#/d/d{}", n + 1) }] }),
        )
    };
    let mut doubles: serde_json::Map<_, _> = (0..20).map(double).collect();
    doubles.insert("d20".into(), json!({}));
    let mut unevaluated = json!({ "properties": { "a": {} } });
    for _ in 0..20 {
        unevaluated = json!({ "allOf": [unevaluated], "unevaluatedProperties": { "type": "string" } });
    }
    [
        json!({ "$ref": "#" }),
        json!({ "properties": { "a": { "$ref": "#" } } }),
        json!({ "allOf": [{ "$ref": "#/a" }], "a": { "anyOf": [{ "$ref": "#" }] } }),
        json!({ "enum": (0..20_000).collect::<Vec<_>>() }),
        json!({ "$ref": "#/d/d0", "d": doubles }),
        unevaluated,
    ]
}

/// A schema with more patterns than are allowed.
fn schema_of_many_patterns() -> Json {
    let patterns: serde_json::Map<_, _> = (0..65).map(|n| (format!("^a{n}"), json!({}))).collect();
    json!({ "patternProperties": patterns })
}

#[test]
fn expensive_schema_is_rejected_quickly() {
    let start = Instant::now();
    let faults = large_schemas().map(fault);
    assert!(faults.iter().all(|fault| *fault == faults[0]), "{faults:?}");
    fault(schema_of_many_patterns());
    for bomb in ["(a{1000}){1000}", "((((a{99}){99}){99}){99}"] {
        fault(json!({ "properties": { "id": { "pattern": bomb } } }));
    }
    fault(json!({ "properties": { "id": { "pattern": "(a)\\1" } } }));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let slow = by(json!({ "properties": { "id": { "pattern": "^(a+)+$" } } }));
    let id = "a".repeat(60_000) + "!";
    assert_rejected(slow, json!({ "id": id }), RecordRule::Schema, "/id", "does not match");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn schema_checks_unicode_patterns_and_formats() {
    let flag = by(json!({ "properties": { "name": { "pattern": "^[\u{1f1e6}-\u{1f1ff}]{2}$" } } }));
    assert!(normalized(flag.clone(), json!({ "id": "a", "name": "\u{1f1e6}\u{1f1fc}" })).is_ok());
    assert_rejected(
        flag,
        json!({ "id": "a", "name": "\u{1f1e6}" }),
        RecordRule::Schema,
        "/name",
        "does not match",
    );
    let date = by(json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "day": { "format": "date" } },
    }));
    assert!(normalized(date.clone(), json!({ "id": "a", "day": "2020-02-29" })).is_ok());
    assert_rejected(date, json!({ "id": "a", "day": "2021-02-29" }), RecordRule::Schema, "/day", "date");
}

#[test]
fn invalid_schema_reports_its_fault() {
    let message = fault(json!({ "type": "thing" }));
    assert!(message.contains("\"thing\"") && message.contains("`/type`"), "{message}");
    assert!(fault(json!({ "properties": { "id": { "pattern": "(" } } })).contains('('));
    fault(json!({ "required": "id" }));
    fault(json!("schema"));
}

#[test]
fn schema_failure_of_a_long_value_has_a_reason() {
    let schema = json!({ "properties": { "name": { "maxLength": 1 } } });
    let name = "x".repeat(10_000);
    assert_rejected(by(schema), json!({ "id": "a", "name": name }), RecordRule::Schema, "/name", "longer");
}

/// A schema whose reference is written with an escape.
fn schema_with_an_escaped_reference() -> Json {
    let circle = json!({ "allOf": [{ "$ref": "#/d/a%62" }] });
    json!({ "$ref": "#/d/a%62", "d": { "a%62": {}, "ab": circle } })
}

/// Schemas with a name or a draft of their own within them.
fn schemas_within_others() -> [Json; 3] {
    let nested =
        json!({ "$id": "urn:nested", "$ref": "#/d", "d": { "properties": { "a": { "$ref": "#/d" } } } });
    [
        json!({ "d": {}, "properties": { "a": nested } }),
        json!({ "d": {}, "properties": { "a": { "$schema": "http://json-schema.org/draft-04/schema#" } } }),
        json!({ "$schema": "http://json-schema.org/draft-04/schema#", "d": {}, "items": { "id": "urn:nested" } }),
    ]
}

#[test]
fn references_that_bypass_the_size_count_are_rejected() {
    assert!(fault(schema_with_an_escaped_reference()).contains("`#/d/a%62`"));
    let [by_id, by_draft, by_old_id] = schemas_within_others().map(fault);
    assert!(by_id.contains("`$id`") && by_draft.contains("`$schema`"), "{by_id} {by_draft}");
    assert!(by_old_id.contains("`id`"), "{by_old_id}");
    // also above the used part
    let above = json!({ "a": { "$id": "urn:nested", "b": { "$ref": "#/c" }, "c": {} }, "c": {} });
    let above = with([("/pipeline/validation/schema_id", json!("s#/a/b")), ("/schemas/s", above)]);
    assert_eq!(compile_normalizer(above).unwrap_err().to_string(), by_id);
    assert!(
        compile_normalizer(by(json!({ "$id": "urn:mine", "properties": { "$id": { "type": "string" } } })))
            .is_ok()
    );
}

#[test]
fn fault_of_a_schema_is_worded_as_in_the_snapshot() {
    let of_references = [referring_to("other.json#/a"), schema_with_an_escaped_reference()].map(fault);
    let of_size = [large_schemas()[0].clone(), schema_of_many_patterns()].map(fault);
    let of_nesting = schemas_within_others().map(fault);
    let missing = definitions_without_their_schema();
    let missing = missing.map(|definition| compile_normalizer(definition).unwrap_err().to_string());
    insta::assert_snapshot!([&of_references[..], &of_size, &of_nesting, &missing].concat().join("\n"));
}

#[test]
fn record_that_needs_too_much_schema_work_is_rejected() {
    let branches: Vec<_> = (0..2000).map(|n| json!({ "required": [format!("f{n}")] })).collect();
    let definition = by(json!({ "properties": { "list": { "items": { "anyOf": branches } } } }));
    let record = |items: usize| json!({ "id": "a", "list": vec![json!({ "f1999": 1 }); items] });
    assert!(normalized(definition.clone(), record(100)).is_ok());
    let rejection = normalized(definition, record(5000)).unwrap_err();
    assert_eq!((rejection.rule, rejection.place), (RecordRule::Schema, None));
    assert!(rejection.reason.contains("20000000"), "the limit: {}", rejection.reason);
}
