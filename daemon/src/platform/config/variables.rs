//! `ORACLED_…` variables: keys of the configuration, misspelled keys, and variables of other programs. For instance,
//! Kubernetes sets `ORACLED_PORT` and `ORACLED_SERVICE_HOST` in every container next to a service called `oracled`.

use super::{CONFIG_VARIABLE, ConfigError, DaemonConfig, PREFIX};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use strsim::osa_distance;

/// The separator of a key's levels in a variable's name.
const LEVEL: &str = "__";
/// Maximum number of letters by which a misspelled key differs from the key. Two adjacent letters in the
/// wrong order count as one.
const MISSPELLED_LETTERS: usize = 2;
/// Tables whose keys the user names.
const FREE_TABLES: [&str; 2] = ["ingestion__credentials__", "verification__credentials__"];

/// The variables with our prefix.
#[derive(Debug, Default)]
pub(super) struct ConfigVariables {
    /// The variables that are keys, with their values.
    pub(super) keys: HashMap<String, String>,
    /// The names of the others, in alphabetical order.
    pub(super) ignored: Vec<String>,
}

impl ConfigVariables {
    /// Sorts the variables of `environment`.
    ///
    /// # Errors
    /// The first variable that looks like a key but is not one, or that is a key with a value that is not text.
    pub(super) fn from_environment(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        let readable: BTreeMap<String, OsString> = environment.into_iter().filter_map(text).collect();
        let known = all_keys();
        let mut variables = Self::default();
        for (name, value) in readable {
            let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('_'));
            let Some(key) = rest.filter(|_| name != CONFIG_VARIABLE).map(str::to_lowercase) else { continue };
            let is_free = FREE_TABLES.iter().any(|table| key.starts_with(table));
            if is_free || known.contains(&key) {
                let value = value.into_string().map_err(|_| not_text_error(&name))?;
                variables.keys.insert(name, value);
                continue;
            }
            let meant = similar_keys(&key, &known);
            if !meant.is_empty() {
                let names = meant.iter().map(|key| format!("`{PREFIX}_{}`", key.to_uppercase()));
                let allowed = names.collect::<Vec<_>>().join(", ");
                return Err(ConfigError::UnknownVariable { variable: name, allowed });
            }
            variables.ignored.push(name);
        }
        Ok(variables)
    }
}

/// The keys that a misspelled `key` may mean: keys that are spelled similarly, or otherwise all keys under its first
/// level.
fn similar_keys<'a>(key: &str, known: &'a [String]) -> Vec<&'a str> {
    let flat = |key: &str| key.replace(LEVEL, "_");
    let is_near = |known: &&str| osa_distance(&flat(key), &flat(known)) <= MISSPELLED_LETTERS;
    let known = known.iter().map(String::as_str);
    let near: Vec<&str> = known.clone().filter(is_near).collect();
    if !near.is_empty() {
        return near;
    }
    let first = |key: &str| key.split(LEVEL).next().map(str::to_owned);
    known.filter(|known| first(known) == first(key)).collect()
}

/// All keys but those of free tables, with their levels separated as in variables.
fn all_keys() -> Vec<String> {
    let defaults = serde_json::to_value(DaemonConfig::default()).unwrap_or_default();
    let mut keys = Vec::new();
    for (name, value) in defaults.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(table) => keys.extend(table.keys().map(|key| format!("{name}{LEVEL}{key}"))),
            None => keys.push(name.clone()),
        }
    }
    keys
}

fn not_text_error(name: &str) -> ConfigError {
    ConfigError::NotUnderstood(format!("the value of the variable `{name}` is not UTF-8 text"))
}
