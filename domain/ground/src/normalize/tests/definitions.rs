//! Faults of a definition, each with its location.

use super::*;

#[track_caller]
fn faulty(definition: Json, location: &str, words: &str) {
    let fault = compile_normalizer(definition).expect_err("the configuration is invalid").to_string();
    assert!(fault.starts_with(&format!("{location}: ")), "{fault}");
    assert!(fault.contains(words), "{fault}");
}

#[test]
fn definition_rejects_inconsistent_parts() {
    let transformation = "pipeline.transformation";
    for (pointer, value, location, words) in [
        (
            "/pipeline/transformation/normalizer_id",
            json!("m"),
            &*format!("{transformation}.normalizer_id"),
            "n",
        ),
        (
            "/pipeline/transformation/output_schema_id",
            json!("things@2"),
            &format!("{transformation}.output_schema_id"),
            "things@1",
        ),
        ("/normalization/target_ontology_id", json!("others"), "normalization.target_ontology_id", "things"),
        ("/pipeline/storage/destination", json!("disk"), "pipeline.storage.destination", "store"),
        (
            "/pipeline/retrieval/format",
            json!({ "csv": { "unpivot": { "columns": "(", "name": "n", "value": "v" } } }),
            "pipeline.retrieval.format.unpivot",
            "`columns`",
        ),
        (
            "/pipeline/retrieval/format",
            json!({ "tsv": { "unpivot": { "columns": "a", "name": "n", "value": "n" } } }),
            "pipeline.retrieval.format.unpivot",
            "two different names",
        ),
        ("/pipeline/audit/provenance_chain", json!(false), "pipeline.audit.provenance_chain", "must be true"),
    ] {
        faulty(with([(pointer, value)]), location, words);
    }
}

#[test]
fn definition_works_without_its_optional_names() {
    let mut short = definition();
    let pipeline = short["pipeline"].as_object_mut().unwrap();
    pipeline.remove("transformation");
    pipeline["storage"].as_object_mut().unwrap().remove("destination");
    pipeline["audit"].as_object_mut().unwrap().remove("provenance_chain");
    let normalization = short["normalization"].as_object_mut().unwrap();
    for name in ["normalizer_id", "source_schema_id", "target_ontology_id"] {
        normalization.remove(name);
    }
    for mapping in normalization["axis_mappings"].as_array_mut().unwrap() {
        let mapping = mapping.as_object_mut().unwrap();
        if mapping["cardinality"] == "one_to_one" {
            mapping.remove("cardinality");
        }
        if mapping["required"] == false {
            mapping.remove("required");
        }
    }
    let audit = PipelineAudit { log_raw_input: true, log_transformations: true, provenance_chain: true };
    let normalizer = compile_normalizer(short.clone()).unwrap();
    assert_eq!(normalizer.transformations(audit), ["things"], "the pipeline's id");
    let record = json!({ "id": "a", "count": "1", "parts": { "x": { "value": 1 } } });
    assert_eq!(normalized(short, record.clone()).unwrap(), normalized(definition(), record).unwrap());
}

#[test]
fn mapping_requires_valid_path_and_axis_of_source() {
    let at =
        |member: &str, value: Json| with([(&*format!("/normalization/axis_mappings/1/{member}"), value)]);
    let location = |member: &str| format!("normalization.axis_mappings[1]{member}");
    for (member, value, at_member, words) in [
        (
            "target_axis",
            json!("weight"),
            ".target_axis",
            "`weight` is not an axis of the source; its axes are: id, count",
        ),
        ("source_field", json!("a["), ".source_field", "is not a path"),
        ("source_field", json!("$.a[*].b"), ".cardinality", "`one_to_many` is required to map a group"),
        ("cardinality", json!("one_to_many"), ".cardinality", "`one_to_many` is required to map a group"),
        ("key", json!({}), ".key", "only a group has keys"),
        ("default_value", json!("x"), ".default_value", "`x` is not a number"),
        ("default_value", json!(" "), ".default_value", "blank"),
        ("default_value", json!([1]), ".default_value", "a value of type integer is required"),
        ("definition", json!({ "axis": "weight", "table": "t" }), ".definition", "not an axis"),
        (
            "definition",
            json!({ "axis": "kind", "table": "t" }),
            ".definition",
            "table `t` is not in `tables`",
        ),
        ("definition", json!({ "axis": "parts.*.amount", "table": "t" }), ".definition", "is a group"),
    ] {
        faulty(at(member, value), &location(at_member), words);
    }
    let both = with([
        ("/normalization/axis_mappings/1/required", json!(true)),
        ("/normalization/axis_mappings/1/default_value", json!(1)),
    ]);
    faulty(both, &location(""), "`required` has no effect");
    let group =
        |member: &str, value: Json| with([(&*format!("/normalization/axis_mappings/7/{member}"), value)]);
    let key = "normalization.axis_mappings[7].key";
    faulty(group("key", json!({ "field": "name" })), key, "is not in the same group");
    let telling = "is not in the same group as `$.parts.*.value`; use a path that begins with `$.parts.*`";
    faulty(group("key", json!({ "field": "$.others.*.name" })), key, telling);
    faulty(group("key", json!({ "table": "t" })), key, "table `t` is not in `tables`");
    faulty(
        group("default_value", json!(1)),
        "normalization.axis_mappings[7].default_value",
        "a group cannot have a default value",
    );
    let mut words = group("key", json!({ "table": "t" }));
    words["tables"]["t"] = json!({ "words": { "entries": { "a": "b.c" } } });
    faulty(words, key, "`b.c` is not a valid key");
}

#[test]
fn axis_requires_unambiguous_mapping() {
    let mapping = |axis: &str, cardinality: &str| json!({ "source_field": "x", "target_axis": axis, "cardinality": cardinality, "required": false });
    let twice = with([("/normalization/axis_mappings/-", mapping("count", "many_to_one"))]);
    faulty(twice, "normalization.axis_mappings", "`count` is mapped 2 times");
    let field = json!([{ "source_path": "x", "target_axis": "count" }]);
    let mut mixed = with([("/pipeline/transformation/field_mappings", field)]);
    faulty(mixed.clone(), "normalization.axis_mappings", "`count` is mapped 2 times");
    mixed["normalization"]["axis_mappings"][1]["cardinality"] = json!("many_to_one");
    faulty(mixed, "normalization.axis_mappings", "`count` is mapped 2 times");
    let unidentified = with([
        ("/normalization/axis_mappings/0", mapping("name", "many_to_one")),
        ("/normalization/axis_mappings/6", mapping("name", "many_to_one")),
    ]);
    faulty(unidentified, "normalization.axis_mappings", "no field is mapped to the identity axis `id`");
    let group = json!([{ "source_path": "$.a[*].b", "target_axis": "count" }]);
    let location = "pipeline.transformation.field_mappings[0]";
    faulty(with([("/pipeline/transformation/field_mappings", group)]), location, "use `axis_mappings`");
    faulty(
        with([("/pipeline/validation/deduplication_key", json!(["name"]))]),
        "pipeline.validation.deduplication_key",
        "`id` is missing",
    );
    for list in ["required_fields", "deduplication_key"] {
        let group = with([(&*format!("/pipeline/validation/{list}"), json!(["$.a[*]"]))]);
        faulty(group, &format!("pipeline.validation.{list}"), "is a group");
    }
    for (valid_time, words) in [
        (json!({ "from_field": "$.a[*]" }), "is a group"),
        (json!({ "from_field": "a", "until_field": "b[" }), "is not a path"),
        (json!({ "from_field": "a", "formats": ["%Y"] }), "neither a day nor a time"),
    ] {
        faulty(with([("/normalization/valid_time", valid_time)]), "normalization.valid_time", words);
    }
}

#[test]
fn normalizer_rejects_invalid_configuration() {
    let units = |from: Json| json!({ "from_unit": from, "to_unit": "g" });
    for (axis, kind, config, words) in [
        ("name", "unit_conversion", units(json!("kg")), "cannot be applied to an axis of type string"),
        ("count", "unit_conversion", units(json!("kg")), "the unit of `count` is none"),
        ("amount", "unit_conversion", units(json!("stone")), "stone"),
        ("amount", "unit_conversion", units(json!("mL")), "does not convert"),
        ("amount", "unit_conversion", units(json!("g{dry}")), "does not convert"),
        ("amount", "unit_conversion", units(json!("/g")), "`reciprocal`"),
        ("amount", "reciprocal", json!({}), "missing field `digits`"),
        ("amount", "reciprocal", json!({ "digits": 31 }), "-30 to 30"),
        ("name", "reciprocal", json!({ "digits": 4 }), "cannot be applied to an axis"),
        (
            "amount",
            "unit_conversion",
            json!({ "from_unit": "kg", "to_unit": "kg" }),
            "the unit of `amount` is g",
        ),
        ("amount", "unit_conversion", json!({ "to_unit": "g" }), "one of `from_unit` and `from_unit_field`"),
        (
            "amount",
            "unit_conversion",
            json!({ "from_unit_field": "$.a[*].u", "to_unit": "g" }),
            "is not in the same group as `amount`; use a path without a `*`",
        ),
        (
            "amount",
            "unit_conversion",
            json!({ "from_unit": "kg", "to_unit": "g", "digits": 31 }),
            "-30 to 30",
        ),
        (
            "amount",
            "unit_conversion",
            json!({ "from_unit": "kg", "to_unit": "g", "conversion_table": "t" }),
            "table `t` is not in `tables`",
        ),
        ("amount", "unit_conversion", json!({ "from_unit": "kg", "to_unit": "g", "factor": 1 }), "factor"),
        ("amount", "numeric_precision", json!({ "digits": -31 }), "-30 to 30"),
        (
            "amount",
            "numeric_precision",
            json!({ "digits": 1.5 }),
            "`digits`: invalid type: number `1.5`, expected a whole",
        ),
        ("amount", "numeric_precision", json!({ "digits": 1, "mode": "up" }), "half_even"),
        ("name", "numeric_precision", json!({ "digits": 1 }), "cannot be applied to an axis"),
        ("kind", "enum_mapping", json!({}), "either `table`"),
        ("kind", "enum_mapping", json!({ "table": "t", "map": {} }), "either `table`"),
        ("kind", "enum_mapping", json!({ "table": "t", "otherwise": "keep" }), "either `table`"),
        ("kind", "enum_mapping", json!({ "map": { "a": "three" } }), "`a`: `three` is not one of one, two"),
        ("name", "enum_mapping", json!({ "map": { "a": " " } }), "blank"),
        ("name", "date_parsing", json!({ "formats": [] }), "cannot be applied to an axis"),
        ("day", "date_parsing", json!({ "formats": ["%Q!"] }), "%Q!"),
        ("day", "date_parsing", json!({ "formats": ["%H:%M"] }), "neither a day nor a time"),
        ("day", "date_parsing", json!({ "formats": ["%F %T %z", "%F %T %Q"] }), "`%F %T %Q`"),
        ("day", "date_parsing", json!({ "formats": ["%:Q %s"] }), "names of time zones"),
        ("day", "date_parsing", json!({ "formats": ["%F %T %_9:Q"] }), "`%F %T %_9:Q`"),
        ("day", "date_parsing", json!({ "formats": ["%F %T %Z"] }), "neither a day nor a time"),
        ("count", "string_normalization", json!({ "trim": true }), "cannot be applied to an axis"),
        ("name", "string_normalization", json!({ "case": "title" }), "title"),
        ("name", "identity", json!({ "x": 1 }), "x"),
    ] {
        faulty(stepped(axis, kind, config), "normalization.value_normalizers[0].config", words);
    }
    faulty(stepped("weight", "identity", json!({})), "normalization.value_normalizers[0].axis", "`weight`");
}

#[test]
fn unit_is_converted_once_at_most() {
    let config = json!({ "from_unit": "kg", "to_unit": "g" });
    let convert = json!({ "axis": "amount", "normalizer_type": "unit_conversion", "config": config });
    let twice = with([("/normalization/value_normalizers", json!([convert, convert]))]);
    faulty(twice, "normalization.value_normalizers[0].config", "converted twice");
}

#[test]
fn table_must_have_the_required_kind() {
    let amount = |factor: &str, unit: &str| json!({ "conversions": { "x": { "[IU]": { "factor": factor, "unit": unit } } } });
    let words = json!({ "words": { "entries": {} } });
    let convert = json!({ "from_unit": "kg", "to_unit": "g", "conversion_table": "t" });
    for (axis, kind, config, table, location, fault) in [
        (
            "kind",
            "enum_mapping",
            json!({ "table": "t" }),
            amount("1", "g"),
            "normalization.value_normalizers[0].config",
            "has no `words`",
        ),
        (
            "amount",
            "unit_conversion",
            convert.clone(),
            words,
            "normalization.value_normalizers[0].config",
            "has no `conversions`",
        ),
        ("amount", "unit_conversion", convert.clone(), amount("0", "g"), "tables.t", "is not positive"),
        ("amount", "unit_conversion", convert, amount("1", "stone"), "tables.t", "stone"),
        ("name", "identity", json!({}), json!({ "words": { "entries": { "a": "" } } }), "tables.t", "blank"),
    ] {
        let mut definition = stepped(axis, kind, config);
        definition["tables"]["t"] = table;
        faulty(definition, location, fault);
    }
}

#[test]
fn check_rejects_invalid_constraint() {
    for (axis, kind, constraint, words) in [
        ("amount", "range", json!({}), "`min` or `max` is missing"),
        ("amount", "range", json!({ "min": 2, "max": "1.5" }), "`min` is above `max`"),
        ("amount", "range", json!({ "min": "x" }), "`x` is not a number"),
        ("amount", "range", json!({ "low": 1 }), "low"),
        ("count", "enum", json!([]), "list of values"),
        ("count", "enum", json!(["1.5"]), "whole number"),
        ("name", "regex", json!("("), "unclosed"),
        ("name", "regex", json!("(a{1000}){1000}"), "size limit"),
        ("name", "regex", json!(7), "a text of 1 to 1024 bytes"),
        ("name", "regex", json!("a)|(b"), "unopened"),
    ] {
        faulty(
            checked(axis, kind, constraint, "reject"),
            "normalization.post_normalization_checks[0].constraint",
            words,
        );
    }
    let identity = checked("id", "regex", json!("a"), "nullify");
    faulty(identity, "normalization.post_normalization_checks[0].on_failure", "cannot be nullified");
    faulty(
        checked("weight", "regex", json!("a"), "warn"),
        "normalization.post_normalization_checks[0].axis",
        "`weight`",
    );
}

/// The JSON reader has converted the numbers of a definition to binary before it is compiled.
#[test]
fn definition_rejects_inexact_numbers() {
    for number in ["0.5", "1.00000000000000000001", "1e3", "18446744073709551616"] {
        let bound = serde_json::from_str(&format!(r#"{{"min":{number}}}"#)).unwrap();
        let location = "normalization.post_normalization_checks[0].constraint";
        faulty(checked("amount", "range", bound, "reject"), location, "of more than 64 bits, as a text");
    }
    let exact = json!({ "min": u64::MAX, "max": "18446744073709551615.00000000000000000001" });
    assert_rejected(
        checked("amount", "range", exact, "reject"),
        json!({ "id": "a", "amount": "18446744073709551615.00000000000000000002" }),
        RecordRule::Check,
        "amount",
        "is above",
    );
}

#[test]
fn definition_limits_its_number_of_parts() {
    let many = json!(vec!["id"; 1025]);
    faulty(
        with([("/pipeline/validation/required_fields", many)]),
        "pipeline.validation.required_fields",
        "at most 1024",
    );
    let entries: serde_json::Map<_, _> = (0..100_001).map(|n| (n.to_string(), json!("x"))).collect();
    faulty(with([("/tables/t", json!({ "words": { "entries": entries } }))]), "tables.t", "at most 100000");
}

#[test]
fn definition_error_names_unknown_member() {
    let read =
        |definition: Json| serde_json::from_value::<PipelineDefinition>(definition).unwrap_err().to_string();
    assert!(read(with([("/pipeline/validation/strict", json!(true))])).contains("`strict`"));
    assert!(read(with([("/normalization/checks", json!([]))])).contains("`checks`"));
}

#[test]
fn normalizer_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<RecordNormalizer>();
}

#[test]
fn definition_error_names_all_faults() {
    let mut definition = stepped("amount", "numeric_precision", json!({ "digits": 99 }));
    definition["normalization"]["axis_mappings"][1]["target_axis"] = json!("number");
    definition["normalization"]["axis_mappings"][2]["target_axis"] = json!("weight");
    definition["pipeline"]["gates"] = json!({ "max_rejected_ratio": "2" });
    let PipelineDefinitionErrors(faults) = compile_normalizer(definition).expect_err("four faults");
    let locations: Vec<_> =
        faults.iter().map(|fault| fault.to_string().split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(
        locations,
        [
            "pipeline.gates.max_rejected_ratio",
            "normalization.axis_mappings[1].target_axis",
            "normalization.axis_mappings[2].target_axis",
            "normalization.value_normalizers[0].config",
        ]
    );
}

#[test]
fn normalizer_of_times_and_numbers_rejects_invalid_configuration() {
    for (axis, kind, config, words) in [
        ("month", "date_parsing", json!({ "formats": ["%Y"] }), "does not name a month such as 2024-03"),
        ("quarter", "date_parsing", json!({ "formats": ["Q%q"] }), "does not name a quarter"),
        ("day", "date_parsing", json!({ "formats": ["%F %T"] }), "`timezone` is required"),
        ("day", "date_parsing", json!({ "formats": ["%F %T"], "timezone": "CEST" }), "CEST"),
        ("day", "date_parsing", json!({ "formats": ["%F %T%z"], "timezone": "UTC" }), "no effect"),
        ("day", "date_parsing", json!({ "formats": ["%F"], "timezone": "UTC" }), "no effect"),
        ("day", "date_parsing", json!({ "formats": ["%F"], "ambiguous": "later" }), "no effect"),
        ("day", "date_parsing", json!({ "formats": ["%C%y-%m-%d"] }), "%C"),
        ("day", "date_parsing", json!({ "formats": ["%5Y-%m-%d"] }), "%5Y"),
        ("month", "date_parsing", json!({ "formats": ["%Y %m"], "timezone": "UTC" }), "no time zone"),
        ("name", "number_parsing", json!({}), "cannot be applied to an axis"),
        ("amount", "number_parsing", json!({ "decimal_mark": ";" }), "`.` or `,` allowed"),
        ("amount", "number_parsing", json!({ "decimal_mark": ",", "thousands_separator": "," }), "both `,`"),
        ("amount", "number_parsing", json!({ "prefix": "-" }), "`prefix` is `-`"),
        ("name", "enum_mapping", json!({ "map": { "\u{f4}": "a", "o\u{302}": "b" } }), "listed twice"),
        ("amount", "number_parsing", json!({ "suffix": "0" }), "`suffix` is `0`"),
    ] {
        faulty(stepped(axis, kind, config), "normalization.value_normalizers[0].config", words);
    }
}
