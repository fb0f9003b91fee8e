//! The ranges of values: `minimum` and `maximum` of the schema.

use super::{ConfigError, DaemonConfig, not_allowed_error};
use oracled_domain::base::schema::json_schema;
use serde_json::Value;

/// Checks that every number in `values` is within the range that its type declares, also a number in a text, which is
/// the form of all values from variables. Other texts, and values of a wrong type, are not checked.
pub(super) fn check(values: &Value) -> Vec<ConfigError> {
    let schema = json_schema::<DaemonConfig>();
    let mut faults = Vec::new();
    check_table("", values, &schema, &schema, &mut faults);
    faults
}

fn check_table(prefix: &str, values: &Value, table: &Value, root: &Value, faults: &mut Vec<ConfigError>) {
    for (name, value) in values.as_object().into_iter().flatten() {
        let Some(mut schema) = table.pointer(&format!("/properties/{name}")) else { continue };
        let key = format!("{prefix}{name}");
        if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
            schema = root.pointer(path.trim_start_matches('#')).unwrap_or(schema);
        }
        if value.is_object() {
            check_table(&format!("{key}."), value, schema, root, faults);
            continue;
        }
        let (Some(least), Some(most)) = (schema.get("minimum"), schema.get("maximum")) else { continue };
        let (given, number) = match value {
            // JSON has no NaN
            Value::Null => ("not a number".to_owned(), None),
            Value::Number(number) => (number.to_string(), number.as_f64()),
            Value::String(text) => match text.parse() {
                Ok(number) => (text.clone(), Some(number)),
                Err(_) => continue,
            },
            _ => continue,
        };
        if !(least.as_f64()..=most.as_f64()).contains(&number) {
            faults.push(not_allowed_error(key, given, format_args!("{least} to {most}")));
        }
    }
}
