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
    #[error("configuration: `{key}` is {given}; allowed: {allowed}")]
    NotAllowed {
        key: String,
        /// The given value.
        given: String,
        /// The allowed values.
        allowed: String,
    },
}
