//! Errors of the configuration.

/// An error of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file, a variable or a flag cannot be parsed.
    #[error("configuration: {0}")]
    NotUnderstood(String),
    /// A variable looks like a key but is not one.
    #[error("configuration: the variable `{variable}` is not a key; unset it, or use {allowed}")]
    UnknownVariable {
        /// The variable's name.
        variable: String,
        /// The keys that are spelled similarly, as variables.
        allowed: String,
    },
    /// The file has an unknown key, or a variable one in a table whose name the operator chooses. `position` is the file
    /// with the line, or the variable.
    #[error("configuration: `{key}` in {position} is not a key; {remedy}")]
    UnknownKey { key: String, position: String, remedy: String },
    /// A secret would cross a network without encryption.
    #[error(
        "configuration: `{key}` is `{given}`: {what} would cross the network in clear text; {remedy}, or start with \
         --allow-cleartext"
    )]
    Cleartext {
        key: String,
        /// The shown part of its value.
        given: String,
        /// The secret.
        what: &'static str,
        /// The protected way.
        remedy: &'static str,
    },
    /// A value is not allowed.
    #[error("configuration: `{key}`{} is {given}; allowed: {allowed}", format_variable(.variable))]
    NotAllowed {
        key: String,
        /// The variable that sets the value, if any.
        variable: Option<String>,
        /// The given value.
        given: String,
        /// The allowed values.
        allowed: String,
    },
    /// Several faults, each on its own line.
    #[error("{}", join_lines(.0))]
    Several(Vec<Self>),
}

impl ConfigError {
    /// The value of `result`. A fault is added to `faults`.
    pub(crate) fn collect<T>(result: Result<T, Self>, faults: &mut Vec<Self>) -> Option<T> {
        result.map_err(|fault| faults.push(fault)).ok()
    }
}

fn format_variable(variable: &Option<String>) -> String {
    variable.iter().map(|variable| format!(" (variable `{variable}`)")).collect()
}

fn join_lines(faults: &[ConfigError]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
