//! Properties of the normalization of every record.

use super::*;
use proptest::prelude::*;

/// A definition that uses every normalizer.
fn everything() -> Json {
    let mut definition = with([(
        "/normalization/value_normalizers",
        json!([
            { "axis": "amount", "normalizer_type": "numeric_precision", "config": { "digits": 3 } },
            { "axis": "kind", "normalizer_type": "string_normalization", "config": { "trim": true, "case": "lower" } },
            { "axis": "day", "normalizer_type": "date_parsing", "config": { "formats": ["%d.%m.%Y", "%s"] } },
            { "axis": "name", "normalizer_type": "string_normalization",
              "config": { "collapse_whitespace": true, "case": "upper" } },
            { "axis": "flag", "normalizer_type": "identity" },
        ]),
    )]);
    definition["normalization"]["axis_mappings"][0]["source_field"] = json!("id");
    definition
}

fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,9})?([eE][+-]?[0-9])?"
}

/// Members of a record, each with its value's JSON.
fn members() -> impl Strategy<Value = Vec<(String, String)>> {
    let text = |pattern: &'static str| pattern.prop_map(|text| json!(text).to_string());
    let parts = prop::collection::btree_map("[a-c]", number(), 0..3).prop_map(|parts| {
        let parts: Vec<_> =
            parts.iter().map(|(key, value)| format!(r#""{key}":{{"value":{value}}}"#)).collect();
        format!("{{{}}}", parts.join(","))
    });
    (
        prop_oneof![text("\\PC{1,5}"), number()],
        -999_999..999_999_i64,
        number(),
        prop::sample::select(vec!["\"one\"", "\" TWO \"", "null", "\"three\""]),
        prop::sample::select(vec!["true", "\"false\"", "null"]),
        prop::sample::select(vec![
            "\"2020-01-31\"",
            "\"1.2.2020\"",
            "\"2020-01-31T01:02:03.4+05:00\"",
            "\"99\"",
        ]),
        prop_oneof![text("[ \\t\\PCßİΣ]{0,12}"), number()],
        parts,
    )
        .prop_map(|(id, count, amount, kind, flag, day, name, parts)| {
            let names = ["id", "count", "amount", "kind", "flag", "day", "name", "parts"];
            let values = [id, count.to_string(), amount, kind.into(), flag.into(), day.into(), name, parts];
            names.into_iter().map(str::to_owned).zip(values).collect()
        })
}

fn written(members: &[(String, String)]) -> SourceValue {
    let members: Vec<_> = members.iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
    SourceValue::parse(format!("{{{}}}", members.join(",")).as_bytes()).unwrap()
}

/// The same number in other digits: one more zero after the point, or an exponent.
fn respelled(raw: &mut SourceValue) {
    match raw {
        SourceValue::Number(digits) if digits.contains('.') && !digits.contains(['e', 'E']) => {
            digits.push_str("00");
        }
        SourceValue::Number(digits) => digits.push_str(if digits.contains(['e', 'E']) { "" } else { "E+00" }),
        SourceValue::Object(members) => members.iter_mut().for_each(|(_, value)| respelled(value)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn normalization_is_deterministic(members in members()) {
        let (one, other) = (compile_normalizer(everything()).unwrap(), compile_normalizer(everything()).unwrap());
        let raw = written(&members);
        let first = one.normalize(&raw);
        prop_assert_eq!(&one.normalize(&raw), &first);
        prop_assert_eq!(&other.normalize(&raw), &first);
    }

    #[test]
    fn normalization_ignores_member_order_and_number_spelling(
        (members, shuffled) in members().prop_flat_map(|members| (Just(members.clone()), Just(members).prop_shuffle())),
    ) {
        let normalizer = compile_normalizer(everything()).unwrap();
        let mut other = written(&shuffled);
        respelled(&mut other);
        match (normalizer.normalize(&written(&members)), normalizer.normalize(&other)) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(one.content.digest(), other.content.digest());
                prop_assert_eq!((one.identity, one.source_record_id), (other.identity, other.source_record_id));
            }
            (Err(one), Err(other)) => prop_assert_eq!(one, other),
            (one, other) => prop_assert!(false, "{one:?} {other:?}"),
        }
    }

    #[test]
    fn normalization_is_idempotent(members in members()) {
        let normalizer = compile_normalizer(everything()).unwrap();
        if let Ok(once) = normalizer.normalize(&written(&members)) {
            let mut again = serde_json::Map::new();
            for (path, value) in &once.content.axes {
                let value = serde_json::to_value(value).unwrap();
                match path.split('.').nth(1) {
                    None => drop(again.insert(path.clone(), value)),
                    Some(key) => {
                        let parts = again.entry("parts").or_insert_with(|| json!({}));
                        parts[key] = json!({ "value": value });
                    }
                }
            }
            let twice = normalizer.normalize(&raw(&Json::Object(again))).unwrap();
            prop_assert_eq!(twice.content, once.content);
        }
    }

    #[test]
    fn normalization_never_panics(json in "[\\[\\]{}:,\"a-e0-9.]{0,40}", id in "\\PC{0,3}") {
        let normalizer = compile_normalizer(everything()).unwrap();
        if let Ok(value) = serde_json::from_str::<Json>(&json) {
            for field in ["id", "count", "amount", "day", "parts", "name"] {
                let mut record = json!({ "id": id });
                record[field] = value.clone();
                drop(normalizer.normalize(&raw(&record)));
            }
            if let Ok(raw) = SourceValue::parse(json.as_bytes()) {
                drop(normalizer.normalize(&raw));
            }
        }
    }
}
