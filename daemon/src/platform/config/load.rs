//! Loads a configuration: merges the file, the `ORACLED_…` variables and the flags, and collects the faults of the result.
//!
//! Variables are keys, misspelled keys, or variables of other programs. For instance, Kubernetes sets `ORACLED_PORT` and
//! `ORACLED_SERVICE_HOST` in every container next to a service called `oracled`.

use super::keys::{KnownKeys, ValueCheck};
use super::{CONFIG_VARIABLE, ConfigError, Configuration, DaemonFlags};
use ::config::{Environment, File, FileFormat};
use domain_base::schema::json_schema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::num::ParseIntError;
use std::path::Path;
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
    let schema = json_schema::<C>();
    let mut values = serde_json::to_value(C::default()).map_err(|error| not_understood(error.to_string()))?;
    let known = KnownKeys::new(&schema, &values);
    let file = flags.config_file();
    let ConfigVariables { keys: variables, mut faults, .. } =
        ConfigVariables::from_environment(environment, &known);
    let text = file.as_deref().map(read_file).transpose()?.unwrap_or_default();
    let path = file.as_deref().unwrap_or(Path::new(""));
    let mut given = read_given(path, &text, &variables)?;
    let variable_for = |key: &str| variables.keys().find(|name| name.eq_ignore_ascii_case(&variable_of(key)));
    let mut check = ValueCheck {
        known: &known,
        root: &schema,
        file: path,
        text: &text,
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
