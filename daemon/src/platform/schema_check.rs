//! Values against their JSON Schema: the keys of the configuration and query parameters.

use domain_base::moment::read_moment;
use serde_json::{Number, Value};

/// The value that `text` means for the type of `schema`. A list is separated by commas. If the text does not have the
/// type, the result is the text, which [`check_value`] rejects.
pub(crate) fn read_text(text: &str, schema: &Value) -> Value {
    let value = match type_of(schema) {
        "integer" | "number" => text.parse().ok().map(Value::Number),
        "boolean" => text.parse().ok().map(Value::Bool),
        "array" if text.trim().is_empty() => Some(Value::Array(Vec::new())),
        "array" => Some(text.split(',').map(|item| read_text(item.trim(), items_of(schema))).collect()),
        _ => None,
    };
    value.unwrap_or_else(|| text.into())
}

/// Checks the type, the range and the words of `value`. A schema without a type allows every value.
///
/// # Errors
/// The allowed values, in words.
pub(crate) fn check_value(value: &Value, schema: &Value) -> Result<(), String> {
    let is_allowed = match (type_of(schema), value) {
        // JSON has no NaN: it is null
        ("integer" | "number", Value::Null) => return Err(range(schema).unwrap_or_else(|| "a number".into())),
        ("number", Value::Number(number)) => return check_range(number, schema),
        ("integer", Value::Number(number)) if !number.is_f64() => return check_range(number, schema),
        ("string", Value::String(text)) => {
            let is_word = words(schema).is_none_or(|words| words.contains(&text.as_str()));
            is_word && (!is_time(schema) || read_moment(text).is_some())
        }
        ("array", Value::Array(items)) => {
            items.iter().all(|item| check_value(item, items_of(schema)).is_ok())
        }
        ("boolean", Value::Bool(_)) | ("", _) => true,
        _ => false,
    };
    if is_allowed { Ok(()) } else { Err(describe_allowed(schema)) }
}

/// The type of a value; empty if the schema has none, such as a reference.
pub(crate) fn type_of(schema: &Value) -> &str {
    let types = schema.get("type");
    let mut listed = types.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    types.and_then(Value::as_str).or_else(|| listed.find(|listed| *listed != "null")).unwrap_or_default()
}

/// The schema of the items of a list.
fn items_of(schema: &Value) -> &Value {
    schema.get("items").unwrap_or(&Value::Null)
}

/// The words of an enumeration.
pub(crate) fn words(schema: &Value) -> Option<Vec<&str>> {
    Some(schema.get("enum")?.as_array()?.iter().filter_map(Value::as_str).collect())
}

fn is_time(schema: &Value) -> bool {
    schema.get("format").is_some_and(|format| format == "date-time")
}

fn check_range(number: &Number, schema: &Value) -> Result<(), String> {
    let [least, most] = bounds(schema).map(|bound| bound.and_then(|bound| bound.as_f64()));
    let is_within = number.as_f64().is_some_and(|number| {
        least.is_none_or(|least| least <= number) && most.is_none_or(|most| number <= most)
    });
    if is_within { Ok(()) } else { Err(range(schema).unwrap_or_default()) }
}

/// The minimum and the maximum.
fn bounds(schema: &Value) -> [Option<Number>; 2] {
    let bound = |name: &str| schema.get(name).and_then(Value::as_number).cloned();
    // utoipa calls the type `u32` so
    let of_type = || schema.get("format").is_some_and(|format| format == "int32").then(|| u32::MAX.into());
    [bound("minimum"), bound("maximum").or_else(of_type)]
}

/// The range of a number, in words; `None` if it has no limits.
fn range(schema: &Value) -> Option<String> {
    match bounds(schema) {
        [Some(least), Some(most)] => Some(format!("{least} to {most}")),
        [Some(least), None] => Some(format!("at least {least}")),
        [None, Some(most)] => Some(format!("at most {most}")),
        [None, None] => None,
    }
}

fn describe_allowed(schema: &Value) -> String {
    let with_range = |what: &str, schema: &Value| match range(schema) {
        Some(range) => format!("{what}, {range}"),
        None => what.to_owned(),
    };
    match type_of(schema) {
        "integer" => with_range("an integer", schema),
        "number" => with_range("a number", schema),
        "boolean" => "true, false".into(),
        "string" if is_time(schema) => "a time such as 2026-11-20T10:00:00Z".into(),
        "string" => words(schema).map_or_else(|| "a string".into(), |words| words.join(", ")),
        "array" => match type_of(items_of(schema)) {
            kind @ ("integer" | "number") => with_range(&format!("a list of {kind}s"), items_of(schema)),
            _ => "a list of strings".into(),
        },
        _ => "a table".into(),
    }
}
