//! Loading: the merge of all sources, and the faults of the result.

use super::keys::KnownKeys;
use super::variables::{ConfigVariables, variable_of};
use super::{ConfigError, DaemonConfig, DaemonFlags, PREFIX, ranges};
use ::config::{Environment, File, FileFormat};
use oracled_api::base::directories::DefaultDirectories;
use serde_json::Value;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::num::ParseIntError;
use std::path::Path;

impl DaemonConfig {
    /// Builds the configuration from all its sources and checks it.
    ///
    /// # Errors
    /// All faults of keys and values, each with its key. If a source cannot be parsed, only its first fault.
    pub fn load(flags: &DaemonFlags) -> Result<Self, ConfigError> {
        Self::from_sources(flags, env::vars_os())
    }

    /// The names of the `ORACLED_…` variables of this process that are ignored, since they do not look like keys.
    #[must_use]
    pub fn ignored_variables() -> Vec<String> {
        ConfigVariables::from_environment(env::vars_os(), &KnownKeys::new()).ignored
    }

    /// The same with the given variables.
    pub(super) fn from_sources(
        flags: &DaemonFlags,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let unreadable = |error| ConfigError::NotUnderstood(describe_without_values(&error));
        let defaults = ::config::Config::try_from(&Self::default()).map_err(unreadable)?;
        let mut sources = ::config::Config::builder().add_source(defaults);
        let file = flags.config.clone().or_else(|| DefaultDirectories::from_environment().config_file());
        if let Some(file) = &file {
            check_file(file)?;
            sources = sources.add_source(File::from(file.clone()).format(FileFormat::Toml));
        }
        let known = KnownKeys::new();
        let ConfigVariables { keys: variables, mut faults, .. } =
            ConfigVariables::from_environment(environment, &known);
        let environment = Environment::with_prefix(PREFIX).prefix_separator("_").separator("__");
        sources = sources.add_source(environment.source(Some(variables.clone())));
        let merged = sources.build().map_err(unreadable)?;
        let values: Value = merged.clone().try_deserialize().map_err(unreadable)?;
        // the variables and the defaults have only known keys
        let mut of_values = unknown_keys(&known, &values, file.as_deref().unwrap_or(Path::new("")));
        of_values.extend(ranges::check(&values));
        let config = match merged.try_deserialize::<Self>() {
            Ok(mut config) => {
                flags.apply_to(&mut config);
                of_values.extend(config.check(of_values.is_empty()));
                Some(config)
            }
            Err(error) => {
                if of_values.is_empty() {
                    of_values.push(unreadable(error));
                }
                None
            }
        };
        faults.extend(of_values);
        for fault in &mut faults {
            if let ConfigError::NotAllowed { key, variable, .. } = fault {
                let name = variable_of(key);
                *variable = (variables.contains_key(&name) && !flags.sets(key)).then_some(name);
            }
        }
        config.filter(|_| faults.is_empty()).ok_or(ConfigError::Several(faults))
    }
}

fn check_file(file: &Path) -> Result<(), ConfigError> {
    if file.is_file() {
        return Ok(());
    }
    let fault = if file.exists() { "is not a regular file" } else { "does not exist" };
    Err(ConfigError::NotUnderstood(format!("the file {} {fault}", file.display())))
}

/// The unknown keys of `file`, each with the keys that it may mean.
fn unknown_keys(known: &KnownKeys, values: &Value, file: &Path) -> Vec<ConfigError> {
    let describe = |key: String| {
        let meant = known.meant_in_file(&key).into_iter().map(|key| format!("`{key}`"));
        let meant = meant.collect::<Vec<_>>().join(", ");
        let remedy = if meant.is_empty() { "remove it".into() } else { format!("remove it, or use {meant}") };
        ConfigError::UnknownKey { key, file: file.display().to_string(), remedy }
    };
    known.unknown_in(values).into_iter().map(describe).collect()
}

/// Describes a parse error without quoting the file or the variable, because a key can be anywhere in it.
fn describe_without_values(error: &::config::ConfigError) -> String {
    use ::config::ConfigError as Fault;
    let format_origin = |key: &Option<String>, origin: &Option<String>| {
        let key = key.iter().map(|key| format!(" for key `{key}`"));
        key.chain(origin.iter().map(|origin| format!(" in {origin}"))).collect::<String>()
    };
    match error {
        Fault::Type { expected, key, origin, .. } => {
            format!("the value is of the wrong type, expected {expected}{}", format_origin(key, origin))
        }
        Fault::At { error, key, origin } => describe_without_values(error) + &format_origin(key, origin),
        Fault::Message(message) => match message.rsplit_once(", expected ") {
            // serde quotes the value before the expected type
            Some((found, expected)) if found.starts_with("invalid ") => {
                format!("the value is of the wrong type, expected {expected}")
            }
            _ => message.clone(),
        },
        Fault::FileParse { uri: Some(file), cause } if cause.is::<ParseIntError>() => {
            let key = fs::read_to_string(file).ok().and_then(|toml| find_long_integer(&toml));
            let key = key.map_or_else(|| "an integer".to_owned(), |key| format!("`{key}`"));
            format!("{key} in {file} does not fit into 64 bits; use a smaller number")
        }
        other => strip_source_lines(&other.to_string()),
    }
}

/// The key of the first integer in a TOML file that does not fit into 64 bits, if it is on a line of its own. The parser
/// does not report its position.
fn find_long_integer(toml: &str) -> Option<String> {
    let mut table = String::new();
    for line in toml.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((key, value)) = line.split_once('=') {
            let digits = value.trim().replace('_', "");
            let is_integer = digits.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
            if is_integer && digits.parse::<i64>().is_err() {
                return Some(format!("{table}{}", key.trim()));
            }
        }
    }
    None
}

/// A parser's error without the lines of the file that it quotes.
fn strip_source_lines(error: &str) -> String {
    let is_quoted =
        |line: &&str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    error.lines().filter(|line| !is_quoted(line)).map(str::trim).collect::<Vec<_>>().join(": ")
}
