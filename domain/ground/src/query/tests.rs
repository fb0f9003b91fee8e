use super::*;
use crate::record::RecordContent;
use crate::value::TypedValue;
use serde_json::{Value as Json, json};

fn ontology() -> Ontology {
    let axis = |name: &str, kind: &str, identity: bool, indexed: bool| {
        let mut axis = json!({
            "axis": name, "type": kind, "class": "measured", "identity": identity, "indexed": indexed, "description": "x",
        });
        if kind == "enum" {
            axis["values"] = json!(["one", "two"]);
        }
        axis
    };
    let axes = [
        axis("area", "string", true, false),
        axis("year", "integer", true, false),
        axis("amount", "number", false, false),
        axis("name", "string", false, true),
        axis("kind", "enum", false, false),
        axis("flag", "boolean", false, false),
        axis("day", "date", false, false),
        axis("parts.*.amount", "number", false, false),
        axis("hidden", "string", false, false),
    ];
    serde_json::from_value(json!({ "ontology_id": "things", "version": "1", "axes": axes })).unwrap()
}

fn provided(ontology: &Ontology) -> Vec<String> {
    ontology.axes.iter().map(|axis| axis.axis.clone()).filter(|axis| axis != "hidden").collect()
}

fn request(filters: Json) -> QueryRequest {
    serde_json::from_value(json!({ "axes_requested": ["amount"], "filters": filters })).unwrap()
}

fn record() -> BTreeMap<String, AxisValue> {
    serde_json::from_value(json!({
        "area": "ABW", "year": "2000", "amount": "10.5", "name": "Aruba", "kind": "one", "flag": true,
        "day": "2020-01-31", "parts.x.amount": "1", "parts.y.amount": "20",
    }))
    .unwrap()
}

/// The bytes of a row of these values.
fn row(axes: BTreeMap<String, AxisValue>) -> Vec<u8> {
    RecordContent { axes, ..RecordContent::default() }.to_row(0, &ontology()).unwrap()
}

/// Whether the record passes the filter.
fn is_row_match(axis: &str, operator: &str, value: Json) -> Result<bool, String> {
    let ontology = ontology();
    let filters = json!([{ "axis": axis, "operator": operator, "value": value }]);
    let query = ValidatedQuery::new(&request(filters), &ontology, &provided(&ontology));
    let row = row(record());
    query.map(|query| query.is_match(&ContentRow::read(&row).unwrap())).map_err(|error| error.to_string())
}

#[test]
fn operator_compares_by_axis_type() {
    for (axis, operator, value, holds) in [
        ("amount", "eq", json!("10.50"), true),
        ("amount", "eq", json!(10.5), true),
        ("amount", "ne", json!("10.5"), false),
        ("amount", "gt", json!(9), true),
        ("amount", "gt", json!("10.5"), false),
        ("amount", "gte", json!("10.5"), true),
        ("amount", "lt", json!("1e2"), true),
        ("amount", "lte", json!(-1), false),
        ("year", "in", json!([1999, "2000"]), true),
        ("year", "in", json!([1999]), false),
        ("year", "in", json!([2100, "2000", 3, 2000, 20000, 1, 7]), true),
        ("year", "in", json!([2100, "2001", 3, 2001, 20000, 1, 7]), false),
        ("day", "in", json!(["2021-01-31", "2020-01-31", "2019-01-31T00:00:00Z"]), true),
        ("parts.*.amount", "in", json!([30, "20.0", 5]), true),
        ("name", "contains", json!("rub"), true),
        ("name", "contains", json!("RUB"), false),
        ("name", "regex", json!("^A.*a$"), true),
        ("name", "regex", json!("ub"), true),
        ("name", "eq", json!("aruba"), false),
        ("kind", "in", json!(["one", "two"]), true),
        ("flag", "eq", json!(true), true),
        ("flag", "ne", json!("true"), false),
        ("day", "gt", json!("2020-01-30"), true),
        ("day", "lte", json!("2020-01-31T00:00:00Z"), true),
        ("parts.x.amount", "eq", json!(1), true),
        ("parts.*.amount", "gt", json!(19), true),
        ("parts.*.amount", "gt", json!(20), false),
        ("parts.z.amount", "ne", json!(1), false),
    ] {
        assert_eq!(is_row_match(axis, operator, value.clone()), Ok(holds), "{axis} {operator} {value}");
    }
}

#[test]
fn times_compare_and_sort_chronologically() {
    let (axis_index, axis) = (6, &ontology().axes[6]);
    let filter = |operator: &str, value: &str| {
        let filter = json!({ "axis": "day", "operator": operator, "value": value });
        ValidatedFilter::new(&serde_json::from_value(filter).unwrap(), (axis_index, axis), 0).unwrap()
    };
    let (whole, half) = ("2020-01-31T10:00:00Z", "2020-01-31T10:00:00.5Z");
    let record = |day: &str| BTreeMap::from([("day".to_owned(), AxisValue::Text(day.into()))]);
    for (day, operator, value, holds) in
        [(half, "gt", whole, true), (whole, "lt", half, true), (half, "lte", whole, false)]
    {
        let row = row(record(day));
        let filter = filter(operator, value);
        assert_eq!(filter.is_match(&ContentRow::read(&row).unwrap()), holds, "{day} {operator} {value}");
    }
    let key = |day: &str| RecordIdentity::new(vec![TypedValue::from_text(day, axis).unwrap()]).key();
    assert!(
        key("2020-01-31") < key(whole) && key(whole) < key(half) && key(half) < key("2020-01-31T10:00:01Z")
    );
}

#[test]
fn filter_rejects_incomparable_value() {
    for (axis, operator, value, words) in [
        ("amount", "gt", json!("much"), "`much` is not a number"),
        ("name", "gt", json!("A"), "requires an axis of type number, integer, date, month, quarter or year"),
        (
            "kind",
            "lt",
            json!("one"),
            "requires an axis of type number, integer, date, month, quarter or year",
        ),
        ("amount", "contains", json!("1"), "requires an axis of type string or enum"),
        ("amount", "regex", json!("1"), "requires an axis of type string or enum"),
        ("year", "eq", json!("2000.5"), "whole number"),
        ("kind", "eq", json!("three"), "one of one, two"),
        ("flag", "eq", json!("maybe"), "true or false"),
        ("day", "gt", json!("31.1.2020"), "a date of RFC 3339"),
        ("name", "eq", json!(null), "a value of type string is required"),
        ("name", "eq", json!(["Aruba"]), "a value of type string is required"),
        ("name", "in", json!("Aruba"), "a list of 1 to 1000"),
        ("name", "in", json!([]), "a list of 1 to 1000"),
        ("name", "in", json!(vec!["x"; 1001]), "a list of 1 to 1000"),
        ("name", "regex", json!("("), "unclosed"),
        ("name", "regex", json!("(a{1000}){1000}"), "takes more than 524288 bytes"),
        ("name", "regex", json!("a".repeat(1025)), "at most 1024 bytes"),
        ("name", "contains", json!(1), "requires a text"),
        ("hidden", "eq", json!("x"), "`hidden` is not an axis of the source; its axes are: area"),
        ("weight", "eq", json!("x"), "`weight` is not an axis"),
    ] {
        let fault = is_row_match(axis, operator, value).expect_err(operator);
        assert!(fault.contains(words) && fault.contains(&format!("`{axis}`")), "{fault}");
    }
}

#[test]
fn patterns_of_a_query_share_one_memory_limit() {
    let ontology = ontology();
    let filter = |pattern: &str, patterns: usize| {
        let filter = json!({ "axis": "name", "operator": "regex", "value": pattern });
        let filter = serde_json::from_value(filter).expect("a filter");
        let axis = ontology.place("name").expect("the axis exists");
        ValidatedFilter::new(&filter, axis, patterns).map(drop)
    };
    assert!(filter("a{2000}", 1).is_ok());
    assert!(matches!(filter("a{2000}", 31), Err(InvalidQueryError::Filter { .. })));
    assert!(filter("^n.*n$", 64).is_ok());
}

#[test]
fn filter_number_is_exact_or_rejected() {
    let ontology = ontology();
    let eq = |value: &str, amount: &str| {
        let filter = format!(r#"{{"axis": "amount", "operator": "eq", "value": {value}}}"#);
        let filter = serde_json::from_str::<QueryFilter>(&filter).map_err(|error| error.to_string())?;
        let filter =
            ValidatedFilter::new(&filter, (2, &ontology.axes[2]), 0).map_err(|error| error.to_string())?;
        let row = row(BTreeMap::from([("amount".to_owned(), AxisValue::Text(amount.into()))]));
        Ok::<_, String>(filter.is_match(&ContentRow::read(&row).unwrap()))
    };
    for (value, amount) in [
        ("10.50", "10.5"),
        ("0.1", "0.1"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("18446744073709551615", "18446744073709551615"),
        ("\"36893488147419103233\"", "36893488147419103233"),
        ("\"0.1000000000000000055511151231257827\"", "0.1000000000000000055511151231257827"),
    ] {
        assert_eq!(eq(value, amount), Ok(true), "{value}");
    }
    for value in [
        "36893488147419103233",
        "0.1000000000000000055511151231257827",
        "9007199254740993.0",
        "1e-400",
        &format!("0.{}", "1".repeat(70)),
    ] {
        let fault = eq(value, "0").unwrap_err();
        let quoted: String = value.chars().take(80).collect();
        assert!(fault.contains(&quoted), "{fault}");
    }
    let list = r#"{"axis": "amount", "operator": "in", "value": [1, "x", 36893488147419103233]}"#;
    let fault = serde_json::from_str::<QueryFilter>(list).unwrap_err().to_string();
    assert!(fault.contains("36893488147419103233"), "{fault}");
    assert!(eq("1e400", "0").is_err());
}

#[test]
fn query_limits_axes_filters_and_results() {
    let ontology = ontology();
    let provided = provided(&ontology);
    let fault = |change: fn(&mut QueryRequest)| {
        let mut request = request(json!([]));
        change(&mut request);
        ValidatedQuery::new(&request, &ontology, &provided).unwrap_err()
    };
    assert_eq!(fault(|request| request.axes_requested.clear()), InvalidQueryError::Axes(0));
    assert_eq!(
        fault(|request| request.axes_requested = vec!["amount".into(); 257]),
        InvalidQueryError::Axes(257)
    );
    assert_eq!(fault(|request| request.max_results = Some(0)), InvalidQueryError::MaxResults(0));
    assert_eq!(fault(|request| request.max_results = Some(10_001)), InvalidQueryError::MaxResults(10_001));
    let many = fault(|request| {
        let filter = QueryFilter { axis: "amount".into(), operator: FilterOperator::Gt, value: json!(1) };
        request.filters = vec![filter; 65];
    });
    assert_eq!(many, InvalidQueryError::Filters(65));
    let plain = request(json!([]));
    assert_eq!(ValidatedQuery::new(&plain, &ontology, &provided).unwrap().max_results, MAX_RESULTS_DEFAULT);
}

#[test]
fn equality_filters_fix_leading_identity_axes() {
    let ontology = ontology();
    let provided = provided(&ontology);
    let eq = |axis: &str, value: Json| json!({ "axis": axis, "operator": "eq", "value": value });
    let fixed = |filters: Json| {
        let request = request(filters);
        let query = ValidatedQuery::new(&request, &ontology, &provided).unwrap();
        (query.identity.values().len(), query.identity_is_whole, query.identity.key())
    };
    let whole = fixed(json!([eq("year", json!("2000.0")), eq("area", json!("ABW"))]));
    assert_eq!((whole.0, whole.1), (2, true));
    let prefix = fixed(json!([eq("area", json!("ABW"))]));
    assert_eq!((prefix.0, prefix.1), (1, false));
    assert!(whole.2.starts_with(&prefix.2), "records of one area lie together");
    assert_eq!(fixed(json!([eq("year", json!(2000))])).0, 0, "a later axis alone fixes nothing");
    let above = json!([{ "axis": "area", "operator": "gte", "value": "A" }]);
    assert!(ValidatedQuery::new(&request(above), &ontology, &provided).is_err());
    let any = json!([{ "axis": "area", "operator": "in", "value": ["ABW"] }]);
    assert_eq!(fixed(any).0, 0);
}

#[test]
fn index_serves_only_equality_filters() {
    let ontology = ontology();
    let provided = provided(&ontology);
    let indexed = |axis: &str, operator: &str| {
        let request = request(json!([{ "axis": axis, "operator": operator, "value": "Aruba" }]));
        let query = ValidatedQuery::new(&request, &ontology, &provided).unwrap();
        let found = query.filters[0].indexed().map(|(axis, value)| (axis.axis.clone(), value.clone()));
        (found, query.filters[0].describe())
    };
    assert_eq!(
        indexed("name", "eq"),
        (Some(("name".into(), TypedValue::Text("Aruba".into()))), "name eq".into())
    );
    assert_eq!(indexed("name", "ne").0, None);
    assert_eq!(indexed("area", "eq").0, None);
}

#[test]
fn answer_has_requested_axes_and_identity() {
    let ontology = ontology();
    let provided = provided(&ontology);
    let chosen = |axes: Json| {
        let request: QueryRequest = serde_json::from_value(json!({ "axes_requested": axes })).unwrap();
        let query = ValidatedQuery::new(&request, &ontology, &provided).unwrap();
        let record = record();
        query
            .select_values(&ontology, &record)
            .into_iter()
            .map(|(path, _)| path.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(chosen(json!(["name"])), ["area", "name", "year"]);
    assert_eq!(chosen(json!(["parts.x.amount"])), ["area", "parts.x.amount", "year"]);
    assert_eq!(chosen(json!(["parts.*.amount"])), ["area", "parts.x.amount", "parts.y.amount", "year"]);
}

#[test]
fn requested_axis_without_a_value_is_null() {
    let ontology = ontology();
    let provided = provided(&ontology);
    let chosen = |axes: Json| {
        let request: QueryRequest = serde_json::from_value(json!({ "axes_requested": axes })).unwrap();
        let query = ValidatedQuery::new(&request, &ontology, &provided).unwrap();
        let mut record = record();
        record.retain(|path, _| matches!(path.as_str(), "area" | "year" | "parts.x.amount"));
        let without_group =
            BTreeMap::from_iter(record.clone().into_iter().filter(|(path, _)| !path.contains('.')));
        let empty = |axes: &BTreeMap<String, AxisValue>| {
            let chosen = query.select_values(&ontology, axes).into_iter();
            chosen.filter(|(_, value)| value.is_none()).map(|(path, _)| path.to_owned()).collect::<Vec<_>>()
        };
        (empty(&record), empty(&without_group))
    };
    let both = |path: &str| (vec![path.to_owned()], vec![path.to_owned()]);
    assert_eq!(chosen(json!(["name"])), both("name"));
    assert_eq!(chosen(json!(["parts.y.amount"])), both("parts.y.amount"));
    assert_eq!(chosen(json!(["parts.*.amount"])), (vec![], vec!["parts.*.amount".to_owned()]));
    assert_eq!(chosen(json!(["area", "year"])), (vec![], vec![]));
}

#[test]
fn query_rejects_unknown_or_missing_members() {
    let read = |request: Json| serde_json::from_value::<OracleQuery>(request);
    let request =
        json!({ "axes_requested": ["a"], "filters": [{ "axis": "a", "operator": "eq", "value": 1 }] });
    assert!(read(json!({ "oracle_id": "things", "request": request })).is_ok());
    for bad in [
        json!({ "oracle_id": "things", "request": { "axes_requested": ["a"], "limit": 3 } }),
        json!({ "oracle_id": "things", "request": { "axes_requested": ["a"], "filters": [{ "axis": "a", "operator": "like", "value": 1 }] } }),
        json!({ "oracle_id": "Things", "request": { "axes_requested": ["a"] } }),
        json!({ "request": { "axes_requested": ["a"] } }),
    ] {
        assert!(read(bad.clone()).is_err(), "{bad}");
    }
}
