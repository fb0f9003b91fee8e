//! Loads the configuration: merges all its sources, and collects the faults of the result.

use super::keys::KnownKeys;
use super::variables::{ConfigVariables, variable_of};
use super::{ConfigError, DaemonConfig, DaemonFlags, PREFIX, ranges};
use ::config::{Environment, File, FileFormat};
use oracled_api::base::directories::DefaultDirectories;
use serde_json::Value;
use std::env;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::Path;

impl DaemonConfig {
    /// Builds the configuration from all its sources and checks it.
    ///
    /// # Errors
    /// All unknown keys, all numbers out of range, and the first fault of each other check, each with its key. If a
    /// source cannot be parsed, only the first fault.
    pub fn load(flags: &DaemonFlags) -> Result<Self, ConfigError> {
        Self::from_sources(flags, env::vars_os())
    }

    /// The names of the `ORACLED_…` variables of this process that are ignored, since they do not look like keys.
    #[must_use]
    pub fn ignored_variables() -> Vec<String> {
        ConfigVariables::from_environment(env::vars_os(), &KnownKeys::new()).ignored
    }

    /// The same as [`Self::load`], with these variables as the environment.
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
        let config = match merged.try_deserialize::<Self>() {
            Ok(mut config) => {
                flags.apply_to(&mut config);
                of_values.extend(config.check());
                Some(config)
            }
            Err(error) => {
                // a number that does not fit into its type is also out of its range
                of_values.extend(ranges::check(&values));
                if of_values.is_empty() {
                    of_values.push(unreadable(error));
                }
                None
            }
        };
        faults.extend(of_values);
        for fault in &mut faults {
            if let ConfigError::NotAllowed { key, variable, .. } = fault {
                let is_of_key = |name: &&String| name.eq_ignore_ascii_case(&variable_of(key));
                *variable = variables.keys().find(is_of_key).filter(|_| !flags.sets(key)).cloned();
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
            // the parser does not report the position
            format!("an integer in {file} does not fit into 64 bits; use a smaller number")
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
