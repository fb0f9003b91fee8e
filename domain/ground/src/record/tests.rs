use super::*;
use domain_base::decimal::Decimal;
use domain_base::moment::Date;
use domain_base::text_form::to_nfc;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn ontology() -> Ontology {
    let axis = |(name, kind): (&str, &str)| {
        let mut axis = json!({ "axis": name, "type": kind, "class": "measured", "description": "x" });
        if kind == "enum" {
            axis["values"] = json!(["one", "two"]);
        }
        axis
    };
    let axes = [
        ("name", "string"),
        ("amount", "number"),
        ("count", "integer"),
        ("flag", "boolean"),
        ("day", "date"),
        ("kind", "enum"),
        ("parts.*.amount", "number"),
        ("parts.*.name", "string"),
    ];
    let axes: Vec<_> = axes.into_iter().map(axis).collect();
    serde_json::from_value(json!({ "ontology_id": "things", "version": "1", "axes": axes })).unwrap()
}

fn number() -> impl Strategy<Value = TypedValue> {
    let parts = (any::<bool>(), "[0-9]{1,40}", -40..20_i32);
    parts.prop_map(|(is_negative, digits, exponent)| {
        let sign = if is_negative { "-" } else { "" };
        TypedValue::Number(format!("{sign}{digits}e{exponent}").parse().unwrap())
    })
}

fn date() -> impl Strategy<Value = TypedValue> {
    let moment = (0_i64..4_102_444_800, 0..1_000_000_000_i32);
    (moment, any::<bool>()).prop_map(|((second, nanosecond), is_day)| {
        let moment = Timestamp::new(second, nanosecond).unwrap();
        let day = moment.to_zoned(jiff::tz::TimeZone::UTC).date();
        TypedValue::Date(if is_day { Date::from_day(day) } else { Date::from_moment(moment) }.unwrap())
    })
}

fn content() -> impl Strategy<Value = RecordContent> {
    let text = || any::<String>().prop_map(|text| TypedValue::Text(to_nfc(&text).into_owned()));
    let integer = any::<i64>().prop_map(|number| TypedValue::Number(Decimal::from(number)));
    let group = |path: &'static str| move |key: String| path.replace('*', &key);
    let value = prop_oneof![
        text().prop_map(|value| ("name".to_owned(), value)),
        number().prop_map(|value| ("amount".to_owned(), value)),
        integer.prop_map(|value| ("count".to_owned(), value)),
        any::<bool>().prop_map(|value| ("flag".to_owned(), TypedValue::Bool(value))),
        date().prop_map(|value| ("day".to_owned(), value)),
        prop_oneof![Just("one"), Just("two")]
            .prop_map(|word| ("kind".to_owned(), TypedValue::Text(word.into()))),
        ("[A-Za-z0-9_-]{1,8}".prop_map(group("parts.*.amount")), number()),
        ("[A-Za-z0-9_-]{1,8}".prop_map(group("parts.*.name")), text()),
    ];
    let cells = prop::collection::vec((value, prop::option::of(any::<String>())), 0..12);
    cells.prop_map(|cells| {
        let mut content = RecordContent::default();
        for ((path, value), definition) in cells {
            content.definitions.extend(definition.map(|definition| (path.clone(), definition)));
            content.axes.insert(path, value.into_value());
        }
        content
    })
}

proptest! {
    #[test]
    fn row_round_trips_any_content(content in content()) {
        let (ontology, json) = (ontology(), content.to_json());
        let row = content.to_row(json.len(), &ontology).unwrap();
        let row = ContentRow::read(&row).unwrap();
        let read = row.content(&ontology).unwrap();
        prop_assert_eq!(String::from_utf8(read.to_json()), String::from_utf8(json.clone()));
        prop_assert_eq!((row.json_bytes(), read.digest()), (json.len(), content.digest()));
    }

    #[test]
    fn row_bytes_order_as_values_do(one in number(), other in number(), day in date(), other_day in date()) {
        prop_assert_eq!(one.row_bytes().cmp(&other.row_bytes()), one.cmp(&other));
        prop_assert_eq!(day.row_bytes().cmp(&other_day.row_bytes()), day.cmp(&other_day));
    }
}

#[test]
fn row_requires_paths_and_values_of_ontology() {
    let row = |path: &str, value: AxisValue| {
        let axes = BTreeMap::from([(path.to_owned(), value)]);
        RecordContent { axes, ..RecordContent::default() }.to_row(0, &ontology())
    };
    assert!(row("name", AxisValue::Text("x".into())).is_some());
    assert!(row("other", AxisValue::Text("x".into())).is_none());
    assert!(row("amount", AxisValue::Text("x".into())).is_none());
    assert!(row("flag", AxisValue::Text("maybe".into())).is_none());
}

#[test]
fn damaged_row_or_unknown_axis_gives_no_content() {
    let axes = BTreeMap::from([("parts.a.name".to_owned(), AxisValue::Text("text".into()))]);
    let row = RecordContent { axes, ..RecordContent::default() }.to_row(0, &ontology()).unwrap();
    let read = |bytes: &[u8], ontology: &Ontology| ContentRow::read(bytes)?.content(ontology);
    assert!(read(&row, &ontology()).is_some());
    assert!((0..row.len()).all(|len| read(&row[..len], &ontology()).is_none()));
    let mut older = ontology();
    older.axes.truncate(3);
    assert!(read(&row, &older).is_none());
}

#[test]
fn source_record_ids_of_different_parts_differ() {
    let parts: [&[&str]; 7] =
        [&["a", "b"], &["a/b"], &["a%2Fb"], &["a", "", "b"], &["", "a", "b"], &["a", "b", ""], &["a\nb"]];
    let ids: BTreeSet<_> = parts.iter().map(|parts| source_record_id(parts.iter().copied())).collect();
    assert_eq!(ids.len(), parts.len(), "{ids:?}");
    assert_eq!(source_record_id(["ABW", "1960"]), "ABW/1960");
}
