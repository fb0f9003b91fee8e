//! The values that the file and the variables give: which are keys, and whether the schema of the configuration allows
//! them.

use super::keys::{KnownKeys, nearest_keys};
use super::positions::line_of;
use super::{ConfigError, not_allowed_error};
use crate::platform::schema_check::{check_value, read_text, type_of, words};
use serde_json::{Map, Value};
use std::path::Path;

/// The check of the given values.
pub(super) struct GivenCheck<'a> {
    pub(super) known: &'a KnownKeys,
    /// The schema of the configuration.
    pub(super) root: &'a Value,
    /// The configuration file and its text, for errors.
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    /// The variable that sets a key. Its value is a text, which is converted to the type of the key; the types in the
    /// file are strict.
    pub(super) variable_for: &'a dyn Fn(&str) -> Option<&'a String>,
    pub(super) faults: Vec<ConfigError>,
}

impl<'a> GivenCheck<'a> {
    /// Adds the faults of `values`, and removes the faulty values. `table` is the schema of `values`, if they are of a
    /// known table.
    pub(super) fn check_table(
        &mut self,
        prefix: &str,
        values: &mut Map<String, Value>,
        table: Option<&'a Value>,
    ) {
        values.retain(|name, value| {
            let key = format!("{prefix}{name}");
            let schema = table.and_then(|table| self.schema_of(table, name));
            let is_known = self.known.contains(&key);
            match (value, schema) {
                (Value::Object(below), Some(schema)) if type_of(schema) == "object" => {
                    let faults = self.faults.len();
                    self.check_table(&format!("{key}."), below, Some(schema));
                    // the rest of a credential has faults only because a key of it was removed
                    !is_known || self.faults.len() == faults
                }
                (Value::Object(below), None) if !is_known && !below.is_empty() => {
                    self.check_table(&format!("{key}."), below, None);
                    false
                }
                (value, Some(schema)) if is_known => self.check_key(key, value, schema),
                _ => {
                    let own = table.and_then(|table| table.get("properties")?.as_object());
                    let own = own.filter(|_| is_known).into_iter().flat_map(Map::keys);
                    let own = own.map(|name| format!("{prefix}{name}")).collect();
                    let fault = self.unknown_key_error(&key, own);
                    self.faults.push(fault);
                    false
                }
            }
        });
    }

    /// Whether `value` is allowed for `key`.
    fn check_key(&mut self, key: String, value: &mut Value, schema: &Value) -> bool {
        let text = value.as_str().filter(|_| (self.variable_for)(&key).is_some());
        if let Some(read) = text.map(|text| read_text(text, schema)) {
            *value = read;
        }
        let fault = match check_value(value, schema) {
            Err(allowed) => not_allowed_error(key, describe(value, schema), allowed),
            Ok(()) if value.as_str().is_some_and(|text| text.contains('\0')) => {
                not_allowed_error(key, "a string with a NUL character", "a string without it")
            }
            Ok(()) => return true,
        };
        self.faults.push(fault);
        false
    }

    /// The schema of the member `name` of a table.
    fn schema_of(&self, table: &'a Value, name: &str) -> Option<&'a Value> {
        let own = table.get("properties").and_then(|members| members.get(name));
        let schema = own.or_else(|| table.get("additionalProperties")).filter(|schema| schema.is_object())?;
        match schema.get("$ref").and_then(Value::as_str) {
            Some(path) => self.root.pointer(path.trim_start_matches('#')),
            None => Some(schema),
        }
    }

    /// The error for an unknown key of the file, with the keys that it may mean. `own` are the keys of its table, if the
    /// operator chooses the name of the table.
    fn unknown_key_error(&self, key: &str, own: Vec<String>) -> ConfigError {
        let mut meant = nearest_keys(key, own.clone());
        if meant.is_empty() {
            meant = if own.is_empty() { self.known.meant_in_file(key) } else { own };
        }
        let meant = meant.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let remedy = if meant.is_empty() { "remove it".into() } else { format!("remove it, or use {meant}") };
        let position = match ((self.variable_for)(key), line_of(self.text, key)) {
            (Some(variable), _) => format!("the variable `{variable}`"),
            (None, Some(line)) => format!("{}, line {line},", self.file.display()),
            (None, None) => self.file.display().to_string(),
        };
        ConfigError::UnknownKey { key: key.to_owned(), position, remedy }
    }
}

/// A value that is not allowed, in words. A text is not quoted, nor a number in place of a text, since it can be a
/// misplaced secret.
fn describe(value: &Value, schema: &Value) -> String {
    match value {
        // JSON has no NaN
        Value::Null => "not a number".into(),
        Value::Number(number) if matches!(type_of(schema), "integer" | "number") => number.to_string(),
        Value::Number(_) => "a number".into(),
        Value::Bool(value) => value.to_string(),
        Value::String(_) if words(schema).is_some() => "an unknown word".into(),
        Value::String(_) => "a string".into(),
        Value::Array(_) if type_of(schema) == "array" => "a list with other values".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a table".into(),
    }
}

/// Puts `given` over `values`: tables are merged, other values are replaced.
pub(super) fn merge(values: &mut Value, given: Value) {
    match (values, given) {
        (Value::Object(values), Value::Object(given)) => {
            for (name, given) in given {
                merge(values.entry(name).or_insert(Value::Null), given);
            }
        }
        (values, given) => *values = given,
    }
}
