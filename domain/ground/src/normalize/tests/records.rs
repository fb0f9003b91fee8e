//! Normalization of records: accepted values, results, and reasons for rejection.

use super::*;
use domain_base::raw::RawRecordError;

#[test]
fn axis_type_normalizes_values_to_one_form() {
    let record = json!({
        "id": "a", "count": "007", "amount": "1.50e1", "kind": "two", "flag": "true", "day": "2020-01-31T12:00:00+02:00",
        "name": 7.0, "parts": { "x": { "value": 1 }, "y": { "value": "0.10" } }, "month": "2024-03", "quarter": "2024-Q1",
        "year": 2024,
    });
    let expected = json!({
        "count": "7", "amount": "15", "kind": "two", "flag": true, "day": "2020-01-31T10:00:00Z", "name": "7",
        "parts.x.amount": "1", "parts.y.amount": "0.1", "month": "2024-03", "quarter": "2024-Q1", "year": "2024",
    });
    assert_eq!(axes(definition(), record), expected);
}

#[test]
fn record_with_invalid_axis_value_is_rejected() {
    for (field, value, words) in [
        ("count", json!("7.5"), "whole number"),
        ("count", json!("seven"), "`seven` is not a number"),
        ("count", json!(" 7"), "is not a number"),
        ("count", json!(true), "`true` is not a integer"),
        ("amount", json!("1,5"), "is not a number"),
        ("kind", json!("three"), "one of one, two"),
        ("flag", json!("yes"), "true or false"),
        ("flag", json!(1), "true or false"),
        ("day", json!("31.1.2020"), "`date_parsing`"),
        ("day", json!(false), "`false` is not a date"),
        ("name", json!("x".repeat(64 * 1024 + 1)), "at most 65536 bytes"),
        ("year", json!("2024-03"), "a year such as 2024; the normalizer `date_parsing`"),
        ("quarter", json!("Q1 2024"), "`date_parsing`"),
        ("month", json!("2024-13"), "`date_parsing`"),
    ] {
        assert_rejected(definition(), json!({ "id": "a", field: value }), RecordRule::AxisType, field, words);
    }
    for value in [json!([1]), json!({})] {
        assert_rejected(
            definition(),
            json!({ "id": "a", "count": value }),
            RecordRule::Mapping,
            "count",
            "a list or an object",
        );
    }
}

#[test]
fn number_with_too_many_digits_is_kept_as_text() {
    let digits = "7".repeat(100);
    let record =
        |field: &str| SourceValue::parse(format!(r#"{{"id":"a","{field}":{digits}}}"#).as_bytes()).unwrap();
    let normalizer = compile_normalizer(definition()).unwrap();
    assert_eq!(normalizer.normalize(&record("name")).unwrap().content.axes["name"].to_string(), digits);
    let rejection = normalizer.normalize(&record("amount")).unwrap_err();
    assert_eq!(rejection.rule, RecordRule::AxisType);
    assert!(rejection.reason.contains("64"), "{rejection:?}");
}

#[test]
fn null_or_blank_value_is_missing() {
    for nothing in [json!(null), json!(""), json!(" \t\u{a0}")] {
        assert_eq!(axes(definition(), json!({ "id": "a", "name": nothing, "count": nothing })), json!({}));
        assert_rejected(
            definition(),
            json!({ "id": nothing }),
            RecordRule::Mapping,
            "id",
            "`id` is missing, null or blank",
        );
        let required = with([("/pipeline/validation/required_fields", json!(["name"]))]);
        let empty = [nothing, json!([]), json!({})];
        for empty in empty {
            let record = json!({ "id": "a", "name": empty });
            assert_rejected(required.clone(), record, RecordRule::RequiredField, "name", "missing or empty");
        }
    }
}

#[test]
fn required_field_accepts_non_empty_list_or_object() {
    let required = with([("/pipeline/validation/required_fields", json!(["parts"]))]);
    assert!(normalized(required.clone(), json!({ "id": "a", "parts": { "x": {} } })).is_ok());
    assert_rejected(
        required,
        json!({ "id": "a", "parts": {} }),
        RecordRule::RequiredField,
        "parts",
        "missing or empty",
    );
}

#[test]
fn default_value_replaces_missing_value() {
    let mapping = |default: Json| {
        json!({
            "source_field": "count", "target_axis": "count", "cardinality": "one_to_one", "required": false,
            "default_value": default,
        })
    };
    let definition = with([("/normalization/axis_mappings/1", mapping(json!(7)))]);
    assert_eq!(axes(definition.clone(), json!({ "id": "a" })), json!({ "count": "7" }));
    assert_eq!(axes(definition, json!({ "id": "a", "count": 0 })), json!({ "count": "0" }));
}

#[test]
fn default_value_is_checked_but_not_normalized() {
    let defaulted = |axis: &str, default: Json, kind: &str, config: Json| {
        let mut definition = stepped(axis, kind, config);
        let mappings = definition["normalization"]["axis_mappings"].as_array_mut().unwrap();
        let mapping = mappings.iter_mut().find(|mapping| mapping["target_axis"] == axis).unwrap();
        mapping["default_value"] = default;
        definition
    };
    let kilos = json!({ "from_unit": "kg", "to_unit": "g" });
    let words = json!({ "map": { "1": "one" } });
    for (axis, default, kind, config, from_a_record) in [
        ("amount", json!(5), "unit_conversion", kilos.clone(), ("5", "5000")),
        ("kind", json!("one"), "enum_mapping", words, ("1", "one")),
        ("name", json!("None"), "string_normalization", json!({ "case": "upper" }), ("None", "NONE")),
    ] {
        let definition = defaulted(axis, default.clone(), kind, config);
        let value_in = |record: Json| axes(definition.clone(), record)[axis].as_str().unwrap().to_owned();
        let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        assert_eq!(value_in(json!({ "id": "a" })), default);
        let (found, value) = from_a_record;
        assert_eq!(value_in(json!({ "id": "a", axis: found })), value);
    }
    let mut checked = defaulted("amount", json!(5), "unit_conversion", kilos);
    checked["normalization"]["post_normalization_checks"] = json!([
        { "check_type": "range", "axis": "amount", "constraint": { "min": 6 }, "on_failure": "reject" },
    ]);
    assert_rejected(checked, json!({ "id": "a" }), RecordRule::Check, "amount", "5 is below 6");
}

#[test]
fn first_present_field_counts_with_its_own_definition() {
    let mapping = |field: &str, definition: Json| {
        json!({
            "source_field": field, "target_axis": "count", "cardinality": "many_to_one", "required": true,
            "definition": definition,
        })
    };
    let definition = with([
        ("/normalization/axis_mappings/1", mapping("counted", json!("by a count"))),
        ("/normalization/axis_mappings/-", mapping("estimated", json!("by an estimate"))),
    ]);
    for (record, count, by) in [
        (json!({ "id": "a", "counted": 1, "estimated": 2 }), "1", "by a count"),
        (json!({ "id": "a", "counted": null, "estimated": 2 }), "2", "by an estimate"),
    ] {
        let content = normalized(definition.clone(), record).unwrap().content;
        assert_eq!((&*content.axes["count"].to_string(), &*content.definitions["count"]), (count, by));
    }
    assert_rejected(definition, json!({ "id": "a" }), RecordRule::Mapping, "count", "missing");
}

/// A definition with a table of words that maps the kind to the definition of the amounts.
fn defined_by_kind(otherwise: &str) -> Json {
    let by_kind = json!({ "axis": "kind", "table": "methods" });
    with([
        ("/normalization/axis_mappings/2/definition", by_kind.clone()),
        ("/normalization/axis_mappings/7/definition", by_kind),
        ("/tables/methods", json!({ "words": { "entries": { "one": "dry" }, "otherwise": otherwise } })),
    ])
}

#[test]
fn definition_is_looked_up_by_value_of_another_axis() {
    let mut definition = defined_by_kind("reject");
    definition["tables"]["methods"]["words"]["entries"]["two"] = json!(null);
    let defined = |kind: &str| {
        let record = json!({ "id": "a", "kind": kind, "amount": 1, "parts": { "x": { "value": 1 } } });
        let normalized = normalized(definition.clone(), record).unwrap();
        assert_eq!(normalized.warnings, []);
        serde_json::to_value(normalized.content.definitions).unwrap()
    };
    assert_eq!(defined("one"), json!({ "amount": "dry", "parts.x.amount": "dry" }));
    assert_eq!(defined("two"), json!({}));
}

#[test]
fn value_without_definition_is_rejected_or_has_a_warning() {
    let nothing = "`kind`, which selects the definition of the measurement, has no value";
    let check =
        json!({ "check_type": "enum", "axis": "kind", "constraint": ["two"], "on_failure": "nullify" });
    let of = |otherwise: &str, nullified: bool| {
        let mut definition = defined_by_kind(otherwise);
        if nullified {
            definition["normalization"]["post_normalization_checks"] = json!([check]);
        }
        definition
    };
    let unknown = json!({ "id": "a", "kind": "two", "amount": 1 });
    let missing = json!({ "id": "a", "amount": 1 });
    let known = json!({ "id": "a", "kind": "one", "amount": 1 });
    let faults = [
        (&unknown, false, "`two` is not a word of the table"),
        (&missing, false, nothing),
        (&known, true, nothing),
    ];
    for (record, nullified, words) in faults {
        assert_rejected(of("reject", nullified), record.clone(), RecordRule::EnumMapping, "amount", words);
        for otherwise in ["warn", "keep"] {
            let normalized = normalized(of(otherwise, nullified), record.clone()).unwrap();
            assert!(normalized.content.definitions.is_empty());
            let reported =
                normalized.warnings.iter().filter(|warning| warning.rule == RecordRule::EnumMapping);
            let reported: Vec<_> =
                reported.map(|warning| (warning.place.as_deref(), warning.reason.contains(words))).collect();
            let is_kept = otherwise == "keep" && *record == unknown;
            assert_eq!(
                reported,
                if is_kept { vec![] } else { vec![(Some("amount"), true)] },
                "{otherwise} {record}"
            );
        }
    }
    let nothing_to_define = json!({ "id": "a", "kind": "two" });
    assert!(normalized(of("reject", false), nothing_to_define).is_ok());
}

#[test]
fn pipeline_field_mappings_are_applied() {
    let field = |path: &str, axis: &str, transform: &str| json!({ "source_path": path, "target_axis": axis, "transform": transform });
    let mut definition = with([
        ("/pipeline/transformation/field_mappings", json!([])),
        ("/normalization/axis_mappings", json!([])),
    ]);
    definition["pipeline"]["transformation"]["field_mappings"] = json!([
        field("id", "id", "uppercase"),
        field("name", "name", "lowercase"),
        field("kind", "kind", "trim"),
        {
            "source_path": "kilos", "target_axis": "amount", "transform": "trim",
            "unit_conversion": { "from_unit": "KG", "to_unit": "g" },
        },
    ]);
    let record = json!({ "id": "a", "name": "ÄB", "kind": " one\n", "kilos": " 1.5 " });
    assert_eq!(
        axes(definition.clone(), record.clone()),
        json!({ "name": "äb", "kind": "one", "amount": "1500" })
    );
    let normalizer = compile_normalizer(definition).unwrap();
    assert_eq!(normalizer.normalize(&raw(&record)).unwrap().source_record_id, "A");
    assert_eq!(normalizer.transformations, ["n", "amount:unit_conversion"]);
}

#[test]
fn group_keys_come_from_a_field_or_a_table() {
    let group = |key: Json| {
        with([
            ("/normalization/axis_mappings/7/source_field", json!("$.list[*].v")),
            ("/normalization/axis_mappings/7/key", key),
            (
                "/tables/names",
                json!({ "words": { "entries": { "Salz": "salt", "Luft": null }, "otherwise": "warn" } }),
            ),
        ])
    };
    let record = |name: &str| json!({ "id": "a", "list": [{ "n": name, "v": 1 }, { "n": "q", "x": 2 }] });
    let by_field = group(json!({ "field": "$.list[*].n" }));
    assert_eq!(axes(by_field.clone(), record("p-1")), json!({ "parts.p-1.amount": "1" }));
    assert_rejected(
        by_field.clone(),
        record("p.1"),
        RecordRule::Mapping,
        "$.list[*].v",
        "`p.1` cannot be part of a path",
    );
    assert_rejected(
        by_field.clone(),
        record(""),
        RecordRule::Mapping,
        "$.list[*].v",
        "its element 0 has no name",
    );
    let twice = json!({ "id": "a", "list": [{ "n": 1.0, "v": 1 }, { "n": 1, "v": 1 }] });
    assert_rejected(by_field, twice, RecordRule::Mapping, "parts.1.amount", "two elements have this name");
    let by_table = group(json!({ "field": "$.list[*].n", "table": "names" }));
    assert_eq!(axes(by_table.clone(), record("Salz")), json!({ "parts.salt.amount": "1" }));
    let warned = normalized(by_table.clone(), record("Luft")).unwrap().warnings;
    assert_eq!(warned.len(), 1, "an ignored value has no warning: {warned:?}");
    assert!(warned[0].rule == RecordRule::Mapping && warned[0].reason.contains("`q`"), "{warned:?}");
    let unnamed = group(json!(null));
    assert_rejected(unnamed, record("Salz"), RecordRule::Mapping, "$.list[*].v", "has no name");
}

#[test]
fn group_is_limited_and_read_in_linear_time() {
    let record = |count: usize| {
        let parts: serde_json::Map<_, _> =
            (0..count).map(|n| (format!("p{n}"), json!({ "value": n }))).collect();
        json!({ "id": "a", "parts": parts })
    };
    let checks = checked("parts.*.amount", "custom", json!("value >= 0.0 && size(parts) > 0"), "reject");
    let many = normalized(checks.clone(), record(10_000)).unwrap();
    assert_eq!(many.content.axes.len(), 10_001);
    assert_rejected(
        checks,
        record(10_001),
        RecordRule::Mapping,
        "$.parts.*.value",
        "more than 10000 elements",
    );
}

#[test]
fn record_can_name_its_period_of_validity() {
    let valid = json!({ "from_field": "from", "until_field": "until", "formats": ["%d.%m.%Y"] });
    let definition = with([("/normalization/valid_time", valid)]);
    let times = |from: Json, until: Json| {
        let record = json!({ "id": "a", "from": from, "until": until });
        let normalized = normalized(definition.clone(), record)?;
        let shown = |time: Option<Timestamp>| time.map(|time| time.to_string());
        Ok::<_, RecordRejection>((shown(normalized.valid_from), shown(normalized.valid_until)))
    };
    let midnight = |day: &str| Some(format!("{day}T00:00:00Z"));
    assert_eq!(times(json!("31.01.2020"), json!(null)), Ok((midnight("2020-01-31"), None)));
    assert_eq!(
        times(json!("2020-01-31"), json!("1.2.2020")),
        Ok((midnight("2020-01-31"), midnight("2020-02-01")))
    );
    let hour = Some("2020-01-31T11:00:00Z".to_owned());
    assert_eq!(times(json!("2020-01-31T12:00:00+01:00"), json!("")), Ok((hour, None)));
    for (from, until, location) in [
        (json!("soon"), json!(null), "from"),
        (json!("2020-01-31"), json!(false), "until"),
        (json!(["2020-01-31"]), json!(null), "from"),
        (json!("2020-01-31"), json!("2020-01-31"), "from"),
    ] {
        let rejection = times(from, until).unwrap_err();
        assert_eq!(
            (rejection.rule, rejection.place.as_deref()),
            (RecordRule::ValidTime, Some(location)),
            "{rejection:?}"
        );
    }
}

#[test]
fn source_record_id_comes_from_key_or_identity() {
    let keyed = with([("/pipeline/validation/deduplication_key", json!(["id", "$.sub.no"]))]);
    let id = |record: Json| normalized(keyed.clone(), record).map(|normalized| normalized.source_record_id);
    assert_eq!(id(json!({ "id": "a/b", "sub": { "no": 1.0 } })).unwrap(), "a%2Fb/1");
    assert_eq!(id(json!({ "id": "a/b", "sub": { "no": "1.0" } })).unwrap(), "a%2Fb/1.0");
    let missing = id(json!({ "id": "a" })).unwrap_err();
    assert_eq!((missing.rule, missing.place.as_deref()), (RecordRule::RequiredField, Some("$.sub.no")));
    assert_eq!(normalized(definition(), json!({ "id": "a" })).unwrap().source_record_id, "a");
}

#[test]
fn record_without_identity_is_rejected() {
    let words = json!({ "map": { "a": null }, "otherwise": "keep" });
    let definition = stepped("id", "enum_mapping", words);
    assert_rejected(
        definition,
        json!({ "id": "a" }),
        RecordRule::Mapping,
        "id",
        "no value identifies the record's subject",
    );
}

#[test]
fn unit_conversion_is_exact_or_rejects_record() {
    let others = json!({ "from_unit_field": "unit", "to_unit": "g" });
    let amount = |definition: &Json, unit: Json| {
        let record = json!({ "id": "a", "amount": "12.5", "unit": unit });
        normalized(definition.clone(), record).map(|normalized| normalized.content.axes["amount"].to_string())
    };
    let definition = stepped("amount", "unit_conversion", others);
    for (unit, expected) in
        [("MG", "0.0125"), ("kg", "12500"), ("\u{b5}g", "0.0000125"), ("[lb_av]", "5669.904625")]
    {
        for _ in 0..2 {
            assert_eq!(amount(&definition, json!(unit)).as_deref(), Ok(expected), "{unit}");
        }
    }
    for (unit, words) in [
        (json!("furlong"), "furlong"),
        (json!("mL"), "mL"),
        (json!("IU"), "IU"),
        (json!(null), "its unit is not given"),
    ] {
        let rejection = amount(&definition, unit).unwrap_err();
        assert_eq!(
            (rejection.rule, rejection.place.as_deref()),
            (RecordRule::UnitConversion, Some("amount"))
        );
        assert!(rejection.reason.contains(words), "{rejection:?}");
    }
    let third = stepped("amount", "unit_conversion", json!({ "from_unit": "g/3", "to_unit": "g" }));
    insta::assert_snapshot!(
        "rejection_of_a_conversion_without_digits",
        amount(&third, json!(null)).unwrap_err().reason
    );
    let rounded =
        stepped("amount", "unit_conversion", json!({ "from_unit": "g/3", "to_unit": "g", "digits": 2 }));
    assert_eq!(amount(&rounded, json!(null)).as_deref(), Ok("4.17"));
}

#[test]
fn reciprocal_is_exact_up_to_its_digits() {
    let amount = |config: Json, amount: &str| {
        let definition = stepped("amount", "reciprocal", config);
        let normalized = normalized(definition, json!({ "id": "a", "amount": amount }));
        normalized.map(|normalized| normalized.content.axes["amount"].to_string())
    };
    for (number, expected) in [
        ("1.1750", "0.8510638298"),
        ("-8", "-0.125"),
        ("0.00001", "100000"),
        ("3", "0.3333333333"),
        ("6.7e-20", "14925373134328358208.9552238806"),
    ] {
        assert_eq!(amount(json!({ "digits": 10 }), number).as_deref(), Ok(expected), "1/{number}");
    }
    assert_eq!(amount(json!({ "digits": 2 }), "8").as_deref(), Ok("0.12"));
    assert_eq!(amount(json!({ "digits": 2, "mode": "half_up" }), "8").as_deref(), Ok("0.13"));
    for number in ["0", "0.00", "1e12"] {
        let rejection = amount(json!({ "digits": 10 }), number).unwrap_err();
        assert_eq!((rejection.rule, rejection.place.as_deref()), (RecordRule::Reciprocal, Some("amount")));
    }
}

#[test]
fn conversion_table_converts_units_by_substance() {
    let factor = |factor: &str| json!({ "[IU]": { "factor": factor, "unit": "ug" } });
    let mut definition = stepped(
        "parts.*.amount",
        "unit_conversion",
        json!({ "from_unit_field": "$.parts.*.unit", "to_unit": "g", "conversion_table": "iu" }),
    );
    definition["tables"]["iu"] = json!({ "conversions": { "d": factor("0.025"), "*": factor("0.3") } });
    let part = |unit: &str| json!({ "value": 2, "unit": unit });
    let record = |unit: &str| json!({ "id": "a", "parts": { "d": part(unit), "a": part(unit) } });
    let both = |d: &str, a: &str| json!({ "parts.d.amount": d, "parts.a.amount": a });
    assert_eq!(axes(definition.clone(), record("IU")), both("0.00000005", "0.0000006"));
    assert_eq!(axes(definition.clone(), record("mg")), both("0.002", "0.002"));
    let normalizer = compile_normalizer(definition).unwrap();
    for _ in 0..2 {
        assert_eq!(
            normalizer.normalize(&raw(&record("iu"))).unwrap().content.axes["parts.d.amount"].to_string(),
            "0.00000005"
        );
    }
}

#[test]
fn words_are_translated_only_once() {
    let words = |otherwise: &str| json!({ "map": { "1": "2", "2": "1", "x": null }, "otherwise": otherwise });
    let name = |otherwise: &str, name: Json| {
        let definition = stepped("name", "enum_mapping", words(otherwise));
        normalized(definition, json!({ "id": "a", "name": name }))
    };
    let called = |name: Result<NormalizerOutput, RecordRejection>| {
        name.unwrap().content.axes.get("name").map(ToString::to_string)
    };
    assert_eq!(called(name("reject", json!("1"))).as_deref(), Some("2"));
    assert_eq!(
        called(name("reject", json!(2.0))).as_deref(),
        Some("1"),
        "a number is known however it is spelled"
    );
    assert_eq!(called(name("reject", json!("x"))), None);
    assert_eq!(called(name("keep", json!("3"))).as_deref(), Some("3"));
    let unknown = name("reject", json!("3")).unwrap_err();
    assert_eq!((unknown.rule, unknown.place.as_deref()), (RecordRule::EnumMapping, Some("name")));
    assert_eq!(name("warn", json!("3")).unwrap().warnings, [unknown]);
}

#[test]
fn dates_numbers_and_texts_are_normalized() {
    let day = |text: &str| {
        let formats = json!({
            "formats": ["%d.%m.%Y", "%Y%m%d %H:%M", "%s", "%d %b %Y %I %p"], "timezone": "UTC",
        });
        normalized(stepped("day", "date_parsing", formats), json!({ "id": "a", "day": text }))
            .map(|normalized| normalized.content.axes["day"].to_string())
    };
    assert_eq!(day("2020-01-31").as_deref(), Ok("2020-01-31"));
    assert_eq!(day("31.1.2020").as_deref(), Ok("2020-01-31"));
    assert_eq!(day("20200131 10:30").as_deref(), Ok("2020-01-31T10:30:00Z"));
    assert_eq!(day("86400").as_deref(), Ok("1970-01-02T00:00:00Z"));
    assert_eq!(day("31 Jan 2020 11 pm").as_deref(), Ok("2020-01-31T23:00:00Z"));
    for text in ["31/1/2020", "-62167219201", "0000-01-01T00:00:00+02:00"] {
        let refused = day(text).unwrap_err();
        assert_eq!(
            (refused.rule, refused.place.as_deref()),
            (RecordRule::DateParsing, Some("day")),
            "{text}"
        );
    }

    let rounded = |mode: Json, number: &str| {
        let config = stepped("amount", "numeric_precision", mode);
        axes(config, json!({ "id": "a", "amount": number }))["amount"].as_str().unwrap().to_owned()
    };
    assert_eq!(rounded(json!({ "digits": 1 }), "2.25"), "2.2");
    assert_eq!(rounded(json!({ "digits": 1, "mode": "half_up" }), "2.25"), "2.3");
    assert_eq!(rounded(json!({ "digits": -1, "mode": "truncate" }), "-19.9"), "-10");
    let number = stepped("amount", "numeric_precision", json!({ "digits": 1 }));
    assert_rejected(number, json!({ "id": "a", "amount": "x" }), RecordRule::AxisType, "amount", "a number");

    let form = |config: Json, text: &str| {
        axes(stepped("name", "string_normalization", config), json!({ "id": "a", "name": text }))
    };
    assert_eq!(form(json!({ "trim": true, "case": "upper" }), " a  ß "), json!({ "name": "A  SS" }));
    assert_eq!(
        form(json!({ "collapse_whitespace": true, "case": "lower" }), " A\t\u{a0}B "),
        json!({ "name": "a b" })
    );
    assert_eq!(form(json!({}), " a "), json!({ "name": " a " }));
    let same = stepped("name", "identity", json!({}));
    assert_eq!(axes(same, json!({ "id": "a", "name": "b" })), json!({ "name": "b" }));
}

#[test]
fn steps_are_applied_in_order() {
    let upper =
        json!({ "axis": "kind", "normalizer_type": "string_normalization", "config": { "case": "upper" } });
    let words =
        json!({ "axis": "kind", "normalizer_type": "enum_mapping", "config": { "map": { "A": "one" } } });
    let order = |steps: Json| with([("/normalization/value_normalizers", steps)]);
    let record = json!({ "id": "a", "kind": "a" });
    assert_eq!(axes(order(json!([upper, words])), record.clone()), json!({ "kind": "one" }));
    assert_rejected(
        order(json!([words, upper])),
        record,
        RecordRule::EnumMapping,
        "kind",
        "`a` is not a word of the table",
    );
}

#[test]
fn record_above_size_limit_is_rejected() {
    let long = |bytes: usize| "x".repeat(bytes);
    assert!(normalized(definition(), json!({ "id": long(2048) })).is_ok());
    assert_mapping_rejected(
        definition(),
        json!({ "id": long(2049) }),
        "its id has 2049 bytes (at most 2048 allowed)",
    );
    assert_mapping_rejected(definition(), json!({ "id": "/".repeat(700) }), "its id has 2100 bytes");
    // the key comes from another field, but the identity is unchanged
    let words =
        json!({ "axis": "id", "normalizer_type": "enum_mapping", "config": { "map": { "a": long(2049) } } });
    let keyed = with([
        ("/pipeline/validation/deduplication_key", json!(["id"])),
        ("/normalization/value_normalizers", json!([words])),
    ]);
    assert_rejected(keyed, json!({ "id": "a" }), RecordRule::AxisType, "id", "a lookup key");
    let definition = with([("/normalization/axis_mappings/7/definition", json!(long(60)))]);
    let parts = |count: usize| {
        let parts: serde_json::Map<_, _> =
            (0..count).map(|n| (format!("p{n:04}"), json!({ "value": n }))).collect();
        json!({ "id": "a", "parts": parts })
    };
    assert!(normalized(definition.clone(), parts(4_500)).is_ok());
    assert_mapping_rejected(definition, parts(9_000), "at most 524288 allowed");
}

fn assert_mapping_rejected(definition: Json, record: Json, words: &str) {
    let rejection = normalized(definition, record).unwrap_err();
    assert!(rejection.rule == RecordRule::Mapping && rejection.reason.contains(words), "{rejection:?}");
}

#[test]
fn missing_value_word_counts_as_an_absent_field() {
    let mapping = |required: bool| json!({ "source_field": "amount", "target_axis": "amount", "required": required, "missing_values": ["n/a", "-999"] });
    let with_words = with([("/normalization/axis_mappings/2", mapping(false))]);
    for missing in [json!("n/a"), json!(" n/a\t"), json!("-999"), json!(-999)] {
        assert_eq!(axes(with_words.clone(), json!({ "id": "a", "amount": missing })), json!({}));
    }
    assert_eq!(axes(with_words.clone(), json!({ "id": "a", "amount": "-99" })), json!({ "amount": "-99" }));
    assert_rejected(
        with_words,
        json!({ "id": "a", "amount": "N/A" }),
        RecordRule::AxisType,
        "amount",
        "is not a number",
    );
    assert_rejected(
        with([("/normalization/axis_mappings/2", mapping(true))]),
        json!({ "id": "a", "amount": "n/a" }),
        RecordRule::Mapping,
        "amount",
        "missing",
    );
    let group = json!({
        "source_field": "$.parts.*.value", "target_axis": "parts.*.amount", "cardinality": "one_to_many",
        "missing_values": [".."],
    });
    let record = json!({ "id": "a", "parts": { "x": { "value": ".." }, "y": { "value": "2" } } });
    let group = with([("/normalization/axis_mappings/7", group)]);
    assert_eq!(axes(group, record), json!({ "parts.y.amount": "2" }));
}

#[test]
fn number_parsing_reads_the_notation_of_the_source() {
    let german =
        stepped("amount", "number_parsing", json!({ "decimal_mark": ",", "thousands_separator": "." }));
    for (written, expected) in [(json!("1.234,50"), "1234.5"), (json!("0,5"), "0.5"), (json!(1.5), "1.5")] {
        assert_eq!(
            axes(german.clone(), json!({ "id": "a", "amount": written })),
            json!({ "amount": expected })
        );
    }
    assert_rejected(
        german,
        json!({ "id": "a", "amount": "1.5" }),
        RecordRule::NumberParsing,
        "amount",
        "`1.5` is not a number in the notation",
    );
}

#[test]
fn year2_dmy_and_year2_mixed_a_year_has_the_digits_of_its_format() {
    let day = |format: &str, text: &str| {
        let definition = stepped("day", "date_parsing", json!({ "formats": [format] }));
        normalized(definition, json!({ "id": "a", "day": text }))
            .map(|normalized| normalized.content.axes["day"].to_string())
            .map_err(|rejection| rejection.rule)
    };
    for (text, expected) in
        [("31.12.24", "2024-12-31"), ("02.01.25", "2025-01-02"), ("15.01.25", "2025-01-15")]
    {
        assert_eq!(day("%d.%m.%y", text).as_deref(), Ok(expected));
        assert_eq!(day("%d.%m.%Y", text), Err(RecordRule::DateParsing), "{text}");
    }
    assert_eq!(day("%d.%m.%Y", "31.12.2024").as_deref(), Ok("2024-12-31"));
    assert_eq!(day("%d.%m.%y", "31.12.2024"), Err(RecordRule::DateParsing));
}

#[test]
fn second60_and_other_times_that_do_not_exist_are_rejected() {
    let day = |formats: &[&str], text: &str| {
        let config = json!({ "formats": formats, "timezone": "UTC" });
        normalized(stepped("day", "date_parsing", config), json!({ "id": "a", "day": text }))
            .map(|normalized| normalized.content.axes["day"].to_string())
            .map_err(|rejection| rejection.rule)
    };
    let formats = ["%d.%m.%Y %H:%M:%S"];
    assert_eq!(day(&formats, "2020-06-15T12:35:00Z").as_deref(), Ok("2020-06-15T12:35:00Z"));
    assert_eq!(day(&formats, "15.06.2020 12:34:59").as_deref(), Ok("2020-06-15T12:34:59Z"));
    for text in [
        "2020-06-15T12:34:60Z",
        "2020-06-15T12:34:60+02:00",
        "15.06.2020 12:34:60",
        "15.06.2020 24:00:00",
        "30.02.2020 12:00:00",
        "2020-02-30",
        "2020-06-15T24:00:00Z",
    ] {
        assert_eq!(day(&formats, text), Err(RecordRule::DateParsing), "{text}");
        let plain =
            normalized(with([]), json!({ "id": "a", "day": text })).map_err(|rejection| rejection.rule);
        assert_eq!(plain.unwrap_err(), RecordRule::AxisType, "{text}");
    }
}

#[test]
fn local_time_is_read_in_the_declared_zone() {
    let day = |config: &Json, text: &str| {
        normalized(stepped("day", "date_parsing", config.clone()), json!({ "id": "a", "day": text }))
            .map(|normalized| normalized.content.axes["day"].to_string())
            .map_err(|rejection| rejection.rule)
    };
    let vienna = json!({ "formats": ["%Y-%m-%d %H:%M"], "timezone": "Europe/Vienna" });
    let earlier =
        json!({ "formats": ["%Y-%m-%d %H:%M"], "timezone": "Europe/Vienna", "ambiguous": "earlier" });
    let later = json!({ "formats": ["%Y-%m-%d %H:%M"], "timezone": "Europe/Vienna", "ambiguous": "later" });
    for (config, text, expected) in [
        (&vienna, "2026-11-26 10:00", Ok("2026-11-26T09:00:00Z")),
        (&vienna, "2026-07-26 10:00", Ok("2026-07-26T08:00:00Z")),
        (&vienna, "2026-07-26", Ok("2026-07-26")),
        (&vienna, "2026-03-29 02:30", Err(RecordRule::DateParsing)),
        (&earlier, "2026-03-29 02:30", Err(RecordRule::DateParsing)),
        (&vienna, "2026-10-25 02:30", Err(RecordRule::DateParsing)),
        (&earlier, "2026-10-25 02:30", Ok("2026-10-25T00:30:00Z")),
        (&later, "2026-10-25 02:30", Ok("2026-10-25T01:30:00Z")),
    ] {
        assert_eq!(day(config, text).as_deref(), expected.as_ref().copied(), "{text} by {config}");
    }
}

#[test]
fn valid_time_is_read_in_the_declared_zone() {
    let valid = |config: Json, from: &str| {
        let definition = with([("/normalization/valid_time", config)]);
        normalized(definition, json!({ "id": "a", "from": from }))
            .map(|normalized| normalized.valid_from.expect("a start").to_string())
            .map_err(|rejection| rejection.rule)
    };
    let vienna = json!({ "from_field": "from", "formats": ["%d.%m.%Y %H:%M"], "timezone": "Europe/Vienna" });
    let of_days = json!({ "from_field": "from", "timezone": "Europe/Vienna" });
    let utc = json!({ "from_field": "from" });
    for (config, from, expected) in [
        (&vienna, "26.11.2026 10:00", Ok("2026-11-26T09:00:00Z")),
        (&vienna, "2026-11-26T10:00:00Z", Ok("2026-11-26T10:00:00Z")),
        (&vienna, "29.03.2026 02:30", Err(RecordRule::ValidTime)),
        (&vienna, "25.10.2026 02:30", Err(RecordRule::ValidTime)),
        (&vienna, "26.11.26 10:00", Err(RecordRule::ValidTime)),
        (&of_days, "2026-11-26", Ok("2026-11-25T23:00:00Z")),
        (&utc, "2026-11-26", Ok("2026-11-26T00:00:00Z")),
        (&utc, "2026-11-26T10:00:60Z", Err(RecordRule::ValidTime)),
    ] {
        assert_eq!(valid(config.clone(), from).as_deref(), expected.as_ref().copied(), "{from} by {config}");
    }
}

#[test]
fn affixes_cells_with_signs_and_units_are_numbers() {
    let amount = |config: Json, text: &str| {
        normalized(stepped("amount", "number_parsing", config), json!({ "id": "a", "amount": text }))
            .map(|normalized| normalized.content.axes["amount"].to_string())
            .map_err(|rejection| rejection.rule)
    };
    for (config, text, expected) in [
        (json!({ "decimal_mark": ",", "suffix": "€" }), "12,00 €", Ok("12")),
        (json!({ "prefix": "$" }), "$12.50", Ok("12.5")),
        (json!({ "prefix": "EUR" }), "EUR 12.50", Ok("12.5")),
        (json!({ "suffix": "%" }), "12.5 %", Ok("12.5")),
        (json!({ "suffix": "kg" }), "12 kg", Ok("12")),
        (json!({ "suffix": "kg" }), "12 g", Err(RecordRule::NumberParsing)),
        (json!({ "suffix": "kg" }), "12", Err(RecordRule::NumberParsing)),
        (json!({ "accounting": true }), "(12.50)", Ok("-12.5")),
        (json!({}), "(12.50)", Err(RecordRule::NumberParsing)),
        (json!({}), "<0.5", Err(RecordRule::NumberParsing)),
    ] {
        assert_eq!(amount(config.clone(), text).as_deref(), expected.as_ref().copied(), "{text} by {config}");
    }
}

#[test]
fn words_of_other_spellings_are_true_and_false() {
    let map = json!({ "map": { "TRUE": "true", "FALSE": "false", "ja": "true", "N": "false" } });
    let flag =
        |definition: Json, text: &str| axes(definition, json!({ "id": "a", "flag": text }))["flag"].clone();
    for (text, expected) in [("TRUE", true), ("FALSE", false), ("ja", true), ("N", false)] {
        assert_eq!(flag(stepped("flag", "enum_mapping", map.clone()), text), json!(expected), "{text}");
    }
    let lower = json!({ "case": "lower" });
    assert_eq!(flag(stepped("flag", "string_normalization", lower), "True"), json!(true));
    assert_rejected(
        stepped("flag", "enum_mapping", map),
        json!({ "id": "a", "flag": "maybe" }),
        RecordRule::EnumMapping,
        "flag",
        "maybe",
    );
}

const NFC: &str = "C\u{f4}te";
const NFD: &str = "Co\u{302}te";

#[test]
fn nfd_query_texts_are_equal_in_all_their_forms() {
    let read = |definition: Json, record: Json| normalized(definition, record).expect("a valid record");
    let (one, other) = (read(definition(), json!({ "id": NFC })), read(definition(), json!({ "id": NFD })));
    assert_eq!(one.identity.key(), other.identity.key());
    assert_eq!(one.source_record_id, other.source_record_id);
    assert_eq!(one.json, other.json);
    let keyed = with([("/pipeline/validation/deduplication_key", json!(["id", "code"]))]);
    let record_id = |code: &str| read(keyed.clone(), json!({ "id": "a", "code": code })).source_record_id;
    assert_eq!(record_id(NFC), record_id(NFD));
    for (entry, word) in [(NFC, NFD), (NFD, NFC), (NFD, NFD)] {
        let words = stepped("name", "enum_mapping", json!({ "map": { entry: "found" } }));
        assert_eq!(axes(words, json!({ "id": "a", "name": word }))["name"], json!("found"));
    }
}

#[test]
fn field_names_are_equal_in_all_their_forms() {
    for (defined, published) in [(NFC, NFD), (NFD, NFC), (NFD, NFD)] {
        let raw =
            SourceValue::parse(json!({ "id": "a", published: { published: "x" } }).to_string().as_bytes())
                .expect("valid JSON");
        for path in [format!("{defined}.{defined}"), format!("['{defined}']['{defined}']")] {
            let found = RawFieldPath::parse(&path).expect("a path").find(&raw).cloned();
            assert_eq!(found, Some(SourceValue::Text("x".to_owned())), "{path}");
        }
        let list = json!({ "l": [{ published: defined, "n": "x" }] }).to_string();
        let raw = SourceValue::parse(list.as_bytes()).expect("valid JSON");
        let path = RawFieldPath::parse(&format!("l[?@.{defined}=='{published}'].n")).expect("a path");
        assert_eq!(path.find(&raw), Some(&SourceValue::Text("x".to_owned())), "{defined}");
    }
    let twice = format!("{{\"{NFC}\":1,\"{NFD}\":2}}");
    assert!(matches!(SourceValue::parse(twice.as_bytes()), Err(RawRecordError::RepeatedName { .. })));
}

#[test]
fn date_parsing_reads_periods() {
    for (axis, format, written, expected) in [
        ("month", "%YM%m", "2024M03", "2024-03"),
        ("quarter", "Q%q %Y", "Q2 2024", "2024-Q2"),
        ("year", "%d.%m.%Y", "31.12.2023", "2023"),
        ("year", "%d.%m.%Y", "2023", "2023"),
    ] {
        let definition = stepped(axis, "date_parsing", json!({ "formats": [format] }));
        assert_eq!(axes(definition.clone(), json!({ "id": "a", axis: written })), json!({ axis: expected }));
        assert_rejected(
            definition,
            json!({ "id": "a", axis: "soon" }),
            RecordRule::DateParsing,
            axis,
            format,
        );
    }
}
