//! The ranges of values: `minimum` and `maximum` of the schema.

use super::{ConfigError, DaemonConfig, not_allowed_error};
use oracled_domain::base::schema::json_schema;
use serde_json::Value;

/// Checks that every number in `config` is within the range that its type declares.
pub(super) fn check(config: &DaemonConfig) -> Result<(), ConfigError> {
    let schema = json_schema::<DaemonConfig>();
    let values = serde_json::to_value(config).unwrap_or_default();
    check_table("", &values, &schema, &schema)
}

fn check_table(prefix: &str, values: &Value, table: &Value, root: &Value) -> Result<(), ConfigError> {
    for (name, value) in values.as_object().into_iter().flatten() {
        let Some(mut schema) = table.pointer(&format!("/properties/{name}")) else { continue };
        let key = format!("{prefix}{name}");
        if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
            schema = root.pointer(path.trim_start_matches('#')).unwrap_or(schema);
        }
        if value.is_object() {
            check_table(&format!("{key}."), value, schema, root)?;
        } else if let (Some(least), Some(most)) = (schema.get("minimum"), schema.get("maximum"))
            && !(least.as_f64()..=most.as_f64()).contains(&value.as_f64())
        {
            // JSON has no NaN
            let given = if value.is_null() { "not a number".to_owned() } else { value.to_string() };
            return Err(not_allowed_error(key, given, format_args!("{least} to {most}")));
        }
    }
    Ok(())
}
