//! Loads the configuration: merges all its sources, and collects the faults of the result.

use super::given::{GivenCheck, merge};
use super::keys::KnownKeys;
use super::variables::{ConfigVariables, variable_of};
use super::{ConfigError, DaemonConfig, DaemonFlags, PREFIX};
use ::config::{Environment, File, FileFormat};
use oracled_domain::base::schema::json_schema;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::num::ParseIntError;
use std::path::Path;

impl DaemonConfig {
    /// Builds the configuration from all its sources and checks it.
    ///
    /// # Errors
    /// All unknown keys and all values of a wrong type or out of range, and the first fault of each other check, each
    /// with its key. If the file cannot be parsed, only its first fault.
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
        let file = flags.config_file();
        let known = KnownKeys::new();
        let ConfigVariables { keys: variables, mut faults, .. } =
            ConfigVariables::from_environment(environment, &known);
        let text = file.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let path = file.as_deref().unwrap_or(Path::new(""));
        let mut given = read_given(path, &text, &variables)?;
        let variable_for =
            |key: &str| variables.keys().find(|name| name.eq_ignore_ascii_case(&variable_of(key)));
        let root = json_schema::<Self>();
        let mut check = GivenCheck {
            known: &known,
            root: &root,
            file: path,
            text: &text,
            variable_for: &variable_for,
            faults: Vec::new(),
        };
        check.check_table("", &mut given, Some(&root));
        let mut of_values = check.faults;
        // a faulty value has its default here, so that the other faults are found too
        let mut values =
            serde_json::to_value(Self::default()).map_err(|error| not_understood(error.to_string()))?;
        merge(&mut values, Value::Object(given));
        let mut flag_keys = Vec::new();
        let config = match serde_path_to_error::deserialize::<_, Self>(values) {
            Ok(mut config) => {
                flag_keys = flags.apply_to(&mut config);
                let has_default =
                    of_values.iter().any(|fault| matches!(fault, ConfigError::NotAllowed { .. }));
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
                *variable =
                    variable_for(key.as_str()).filter(|_| !flag_keys.contains(&key.as_str())).cloned();
            }
        }
        config.filter(|_| faults.is_empty()).ok_or(ConfigError::Several(faults))
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
