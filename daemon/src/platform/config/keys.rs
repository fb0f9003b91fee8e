//! The keys of the configuration: suggestions for unknown keys, the lines of keys in the file, and the check of values
//! against the schema.

use super::{ConfigError, not_allowed_error};
use crate::platform::schema_check::{check_value, read_text, type_of, words};
use serde_json::{Map, Value};
use std::path::Path;
use strsim::osa_distance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum number of letters by which a misspelled key differs from the key. Two adjacent letters in the
/// wrong order count as one.
const MISSPELLED_LETTERS: usize = 2;
/// The keys of the configuration, as `table.key`.
#[derive(Debug)]
pub(super) struct KnownKeys {
    /// All keys except those of free tables.
    keys: Vec<String>,
    /// Tables whose keys the operator chooses, or that are not among the defaults.
    free_tables: Vec<String>,
}

impl KnownKeys {
    /// The keys of a configuration with this schema and these defaults.
    pub(super) fn new(schema: &Value, defaults: &Value) -> Self {
        let mut keys = Vec::new();
        for (name, value) in defaults.as_object().into_iter().flatten() {
            match value.as_object() {
                Some(table) => keys.extend(table.keys().map(|key| format!("{name}.{key}"))),
                None => keys.push(name.clone()),
            }
        }
        let mut free_tables = Vec::new();
        for (name, table) in members(schema, schema) {
            if table.get("additionalProperties").is_some_and(Value::is_object) {
                free_tables.push(name.clone());
            }
            let below = members(schema, table).filter(|(_, below)| type_of(below) == "object");
            free_tables.extend(below.map(|(key, _)| format!("{name}.{key}")));
        }
        Self { keys, free_tables }
    }

    /// Whether `key` is a key, a free table, or in a free table.
    pub(super) fn contains(&self, key: &str) -> bool {
        let is_within = |table: &String| {
            key.strip_prefix(table).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'.', ..]))
        };
        self.free_tables.iter().any(is_within) || self.keys.iter().any(|known| known == key)
    }

    /// The keys that a variable for `key` may mean: the keys that are spelled similarly, or, if there are none, all
    /// keys with the same first level.
    pub(super) fn meant_by_variable(&self, key: &str) -> Vec<&str> {
        let near = self.near(key);
        if near.is_empty() { self.of_table(key) } else { near }
    }

    /// The keys that `key` in the file may mean. `key` may be in the wrong table, so keys with the same name in other
    /// tables are included if no key is spelled similarly.
    pub(super) fn meant_in_file(&self, key: &str) -> Vec<String> {
        let name = |key: &str| key.rsplit('.').next().map(str::to_owned);
        let mut meant = self.near(key);
        if meant.is_empty() {
            meant = self.all().filter(|known| name(known) == name(key)).collect();
        }
        if meant.is_empty() {
            meant = self.of_table(key);
        }
        meant.into_iter().map(str::to_owned).collect()
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// The keys that are spelled similarly, the nearest first. A key in a table whose name is similar to a free table's may
    /// mean that table.
    fn near(&self, key: &str) -> Vec<&str> {
        let table = key.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        let mut near = nearest_keys(key, self.all());
        near.extend(nearest_keys(&table, self.free_tables.iter().map(String::as_str)));
        near
    }

    /// The keys with the same first level.
    fn of_table(&self, key: &str) -> Vec<&str> {
        let first = |key: &str| key.split('.').next().map(str::to_owned);
        self.all().filter(|known| first(known) == first(key)).collect()
    }
}

/// The `keys` that are spelled like `key`, whatever separates their levels; the nearest first.
fn nearest_keys<K: AsRef<str>>(key: &str, keys: impl IntoIterator<Item = K>) -> Vec<K> {
    let flat = |key: &str| key.replace('.', "_");
    let with_distance = |known: K| (osa_distance(&flat(key), &flat(known.as_ref())), known);
    let mut near: Vec<_> = keys.into_iter().map(with_distance).collect();
    near.retain(|(distance, _)| *distance <= MISSPELLED_LETTERS);
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().map(|(_, known)| known).collect()
}

/// The check of the values in the file and the variables: which are keys, and whether the schema allows them.
pub(super) struct ValueCheck<'a> {
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

impl<'a> ValueCheck<'a> {
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
        resolve(self.root, schema)
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

/// The members of a table, with their schemas.
fn members<'s>(root: &'s Value, table: &'s Value) -> impl Iterator<Item = (&'s String, &'s Value)> {
    let members = table.get("properties").and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, schema)| Some((name, resolve(root, schema)?)))
}

/// The schema that `schema` refers to, or itself.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> Option<&'s Value> {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(path) => root.pointer(path.trim_start_matches('#')),
        None => Some(schema),
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

/// The line of `key` in `text`, counted from 1; `None` if `text` is not TOML, or does not have the key.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let start = find_key(table.get_ref(), key)?;
    Some(1 + text.get(..start)?.matches('\n').count())
}

/// The position of `key` in the text of `table`.
fn find_key(table: &DeTable<'_>, key: &str) -> Option<usize> {
    table.iter().find_map(|(name, value): (&Spanned<_>, &Spanned<_>)| {
        match (key.strip_prefix(name.get_ref().as_ref())?, value.get_ref()) {
            ("", _) => Some(name.span().start),
            (below, DeValue::Table(table)) => find_key(table, below.strip_prefix('.')?),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_a_key_is_found_in_each_form_of_a_table() {
        let text = "# a comment\nsokcet = '/x'\n\n[limit]\nidle_s = 1\n\n[models.a]\nnmae = \"\"\"\n\n\"\"\"\n\
                    mail.hsot = 1\nother = { x.yy = 1 }\n";
        for (key, line) in [
            ("sokcet", Some(2)),
            ("limit", Some(4)),
            ("limit.idle_s", Some(5)),
            ("models.a.nmae", Some(8)),
            ("models.a.mail.hsot", Some(11)),
            ("models.a.other.x.yy", Some(12)),
            ("models.b.nmae", None),
            ("sokcet.a", None),
            ("soc", None),
        ] {
            assert_eq!(line_of(text, key), line, "{key}");
        }
        assert_eq!(line_of("[limits", "limits"), None);
    }
}
