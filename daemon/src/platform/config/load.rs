//! Loads a configuration: merges the file, the `ORACLED_…` variables and the flags, and collects the faults of the result.
//!
//! Variables are keys, misspelled keys, or variables of other programs. For instance, Kubernetes sets `ORACLED_PORT` and
//! `ORACLED_SERVICE_HOST` in every container next to a service called `oracled`.

use super::{CONFIG_VARIABLE, ConfigError, Configuration, DaemonFlags, not_allowed_error};
use crate::platform::schema_check::{check_value, read_text, type_of, words};
use config::{Environment, File, FileFormat};
use domain_base::document::json_schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::num::ParseIntError;
use std::path::Path;
use strsim::osa_distance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use utoipa::ToSchema;

/// The prefix of every variable. Two underscores separate levels: `ORACLED_LIMITS__BODY_BYTES`.
const PREFIX: &str = "ORACLED";
/// The separator of a key's levels in a variable's name.
const LEVEL: &str = "__";

/// Builds a configuration from all its sources and checks it.
///
/// # Errors
/// All unknown keys and all values of a wrong type or out of range, and the first fault of each other check, each
/// with its key. If the file cannot be parsed, only its first fault.
pub fn load<C>(
    flags: &DaemonFlags,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<C, ConfigError>
where
    C: Configuration + Default + Serialize + DeserializeOwned + ToSchema,
{
    let file = flags.config_file();
    let text = file.as_deref().map(read_file).transpose()?.unwrap_or_default();
    assemble(file.as_deref().unwrap_or(Path::new("")), &text, flags, environment)
}

/// The configuration in the text of a file, without variables and flags. Errors have `name` in place of the path.
///
/// # Errors
/// As [`load`].
pub fn parse<C>(name: &str, text: &str) -> Result<C, ConfigError>
where
    C: Configuration + Default + Serialize + DeserializeOwned + ToSchema,
{
    assemble(Path::new(name), text, &DaemonFlags::default(), [])
}

fn assemble<C>(
    path: &Path,
    text: &str,
    flags: &DaemonFlags,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<C, ConfigError>
where
    C: Configuration + Default + Serialize + DeserializeOwned + ToSchema,
{
    let schema = json_schema::<C>();
    let mut values = serde_json::to_value(C::default()).map_err(|error| not_understood(error.to_string()))?;
    let known = KnownKeys::new(&schema, &values);
    let ConfigVariables { keys: variables, mut faults, .. } =
        ConfigVariables::from_environment(environment, &known);
    let mut given = read_given(path, text, &variables)?;
    let variable_for = |key: &str| variables.keys().find(|name| name.eq_ignore_ascii_case(&variable_of(key)));
    let mut check = ValueCheck {
        known: &known,
        root: &schema,
        file: path,
        text,
        variable_for: &variable_for,
        faults: Vec::new(),
    };
    check.check_table("", &mut given, Some(&schema));
    let mut of_values = check.faults;
    // a faulty value has its default here, so that the other faults are found too
    merge(&mut values, Value::Object(given));
    let mut flag_keys = Vec::new();
    let config = match serde_path_to_error::deserialize::<_, C>(values) {
        Ok(mut config) => {
            flag_keys = config.apply_flags(flags);
            let has_default = of_values.iter().any(|fault| matches!(fault, ConfigError::NotAllowed { .. }));
            of_values.extend(config.check(!has_default));
            Some(config)
        }
        Err(error) => {
            of_values.push(not_understood(format!("`{}`: {}", error.path(), error.inner())));
            None
        }
    };
    faults.extend(of_values);
    for fault in &mut faults {
        if let ConfigError::NotAllowed { key, variable, .. } = fault {
            *variable = variable_for(key.as_str()).filter(|_| !flag_keys.contains(&key.as_str())).cloned();
        }
    }
    config.filter(|_| faults.is_empty()).ok_or(ConfigError::Several(faults))
}

/// The names of the `ORACLED_…` variables in `environment` that are ignored, since they do not look like keys.
#[must_use]
pub fn ignored_variables<C: Default + Serialize + ToSchema>(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let defaults = serde_json::to_value(C::default()).unwrap_or_default();
    ConfigVariables::from_environment(environment, &KnownKeys::new(&json_schema::<C>(), &defaults)).ignored
}

/// Puts `given` over `values`: tables are merged, other values are replaced.
fn merge(values: &mut Value, given: Value) {
    match (values, given) {
        (Value::Object(values), Value::Object(given)) => {
            for (name, given) in given {
                merge(values.entry(name).or_insert(Value::Null), given);
            }
        }
        (values, given) => *values = given,
    }
}

fn not_understood(fault: String) -> ConfigError {
    ConfigError::NotUnderstood(fault)
}

/// The values of the file with those of the variables over them, without their types being checked. `text` is that of the
/// file, or empty without one.
fn read_given(
    file: &Path,
    text: &str,
    variables: &HashMap<String, String>,
) -> Result<Map<String, Value>, ConfigError> {
    let environment = Environment::with_prefix(PREFIX).prefix_separator("_").separator("__");
    let merged = ::config::Config::builder()
        .add_source(File::from_str(text, FileFormat::Toml))
        .add_source(environment.source(Some(variables.clone())))
        .build();
    merged
        .and_then(::config::Config::try_deserialize)
        .map_err(|error| not_understood(format!("{}: {}", file.display(), describe_parse_error(&error))))
}

/// The text of the file.
fn read_file(file: &Path) -> Result<String, ConfigError> {
    let unusable = |fault: &str| not_understood(format!("the file {} {fault}", file.display()));
    if !file.is_file() {
        return Err(unusable(if file.exists() { "is not a regular file" } else { "does not exist" }));
    }
    let bytes = fs::read(file).map_err(|error| unusable(&format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid_bytes = error.utf8_error().valid_up_to();
        unusable(&format!("is not UTF-8 after its first {valid_bytes} bytes; save it as UTF-8"))
    })
}

/// Describes a parse error without quoting the file, because a key can be anywhere in it.
fn describe_parse_error(error: &::config::ConfigError) -> String {
    match error {
        // the parser does not report the position
        ::config::ConfigError::FileParse { cause, .. } if cause.is::<ParseIntError>() => {
            "an integer does not fit into 64 bits; use a smaller number".into()
        }
        other => strip_source_lines(&other.to_string()),
    }
}

/// A parser's error without the lines of the file that it quotes.
fn strip_source_lines(error: &str) -> String {
    let is_quoted =
        |line: &&str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    error.lines().filter(|line| !is_quoted(line)).map(str::trim).collect::<Vec<_>>().join(": ")
}

/// The variables with our prefix.
#[derive(Debug, Default)]
struct ConfigVariables {
    /// The variables that are keys, with their values.
    keys: HashMap<String, String>,
    /// The names of the variables of other programs, in alphabetical order.
    ignored: Vec<String>,
    /// The faults: variables that look like keys but are not, and keys with values that are not text.
    faults: Vec<ConfigError>,
}

impl ConfigVariables {
    /// Sorts the variables of `environment`.
    fn from_environment(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        known: &KnownKeys,
    ) -> Self {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        let readable: BTreeMap<String, OsString> = environment.into_iter().filter_map(text).collect();
        let mut variables = Self::default();
        for (name, value) in readable {
            let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('_'));
            let Some(rest) = rest.filter(|_| name != CONFIG_VARIABLE) else { continue };
            let key = rest.to_lowercase().replace(LEVEL, ".");
            if known.contains(&key) && !rest.contains('.') {
                match value.into_string() {
                    Ok(value) => drop(variables.keys.insert(name, value)),
                    Err(_) => variables.faults.push(not_text_error(&name)),
                }
                continue;
            }
            let meant = known.meant_by_variable(&key);
            if meant.is_empty() {
                variables.ignored.push(name);
            } else {
                let names = meant.into_iter().map(|key| format!("`{}`", variable_of(key)));
                let allowed = names.collect::<Vec<_>>().join(", ");
                variables.faults.push(ConfigError::UnknownVariable { variable: name, allowed });
            }
        }
        variables
    }
}

/// The name of the variable that sets `key`.
fn variable_of(key: &str) -> String {
    format!("{PREFIX}_{}", key.replace('.', LEVEL).to_uppercase())
}

fn not_text_error(name: &str) -> ConfigError {
    ConfigError::NotUnderstood(format!("the value of the variable `{name}` is not UTF-8 text"))
}

/// Maximum number of letters by which a misspelled key differs from the key. Two adjacent letters in the
/// wrong order count as one.
const MISSPELLED_LETTERS: usize = 2;
/// The keys of the configuration, as `table.key`.
#[derive(Debug)]
struct KnownKeys {
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
    fn meant_by_variable(&self, key: &str) -> Vec<&str> {
        let near = self.near(key);
        if near.is_empty() { self.of_table(key) } else { near }
    }

    /// The keys that `key` in the file may mean. `key` may be in the wrong table, so keys with the same name in other
    /// tables are included if no key is spelled similarly.
    fn meant_in_file(&self, key: &str) -> Vec<String> {
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
struct ValueCheck<'a> {
    pub(super) known: &'a KnownKeys,
    /// The schema of the configuration.
    pub(super) root: &'a Value,
    /// The configuration file and its text, for errors.
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    /// The variable that sets a key. Its value is a text, which is converted to the type of the key; the types in the
    /// file are strict.
    variable_for: &'a dyn Fn(&str) -> Option<&'a String>,
    pub(super) faults: Vec<ConfigError>,
}

impl<'a> ValueCheck<'a> {
    /// Adds the faults of `values`, and removes the faulty values. `table` is the schema of `values`, if they are of a
    /// known table.
    fn check_table(&mut self, prefix: &str, values: &mut Map<String, Value>, table: Option<&'a Value>) {
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
fn line_of(text: &str, key: &str) -> Option<usize> {
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
