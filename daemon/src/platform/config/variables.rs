//! `ORACLED_…` variables: keys of the configuration, misspelled keys, and variables of other programs. For instance,
//! Kubernetes sets `ORACLED_PORT` and `ORACLED_SERVICE_HOST` in every container next to a service called `oracled`.

use super::keys::KnownKeys;
use super::{CONFIG_VARIABLE, ConfigError, PREFIX};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;

/// The separator of a key's levels in a variable's name.
const LEVEL: &str = "__";

/// The variables with our prefix.
#[derive(Debug, Default)]
pub(super) struct ConfigVariables {
    /// The variables that are keys, with their values.
    pub(super) keys: HashMap<String, String>,
    /// The names of the variables of other programs, in alphabetical order.
    pub(super) ignored: Vec<String>,
    /// The faults: variables that look like keys but are not, and keys with values that are not text.
    pub(super) faults: Vec<ConfigError>,
}

impl ConfigVariables {
    /// Sorts the variables of `environment`.
    pub(super) fn from_environment(
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
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}_{}", key.replace('.', LEVEL).to_uppercase())
}

fn not_text_error(name: &str) -> ConfigError {
    ConfigError::NotUnderstood(format!("the value of the variable `{name}` is not UTF-8 text"))
}
