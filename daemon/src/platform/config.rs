//! The configuration: defaults, then the TOML file, then `ORACLED_…` variables, then flags.
//!
//! An unknown key, a wrong type or a value out of range is an error with the key and the allowed values. Variables that do
//! not look like a key are ignored and logged. TMM's constants cannot be configured.

mod cleartext;
mod error;
mod flags;
mod ingestion;
mod mail;
mod model;
mod rules;
mod variables;

use cleartext::check_url;
pub(crate) use cleartext::{has_login, is_cleartext, is_local, shown_url};
pub use error::ConfigError;
pub use flags::{CONFIG_VARIABLE, Flags};
pub use ingestion::{Credential, Ingestion, Proof, SecretFrom};
pub use mail::{Mail, Tls as MailTls, Transport as MailTransport};
pub use model::{Model, Provider};
use oracled_api::base::directories::Directories;
pub use rules::Rules;

use crate::platform::telemetry::{self, LogFormat};
use ::config::{Environment, File, FileFormat};
use oracled_domain::UnexpectedFields;
use oracled_domain::ground::id::SourceId;
use oracled_domain::verdict::health::HealthConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use variables::Variables;

/// The prefix of every variable. Two underscores separate levels: `ORACLED_LIMITS__BODY_BYTES`.
const PREFIX: &str = "ORACLED";
/// Maximum length of a Unix socket's path, in bytes.
const SOCKET_PATH_MAX_BYTES: usize = 107;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Directory of the store and `oracle_log.jsonl`.
    pub state_dir: PathBuf,
    /// Path of the routes' socket.
    pub socket: PathBuf,
    /// Path of the administrators' socket.
    pub control_socket: PathBuf,
    /// Mode of the routes' socket, as octal digits.
    pub socket_mode: String,
    /// Group of the routes' socket, by name. The default is the daemon's own group.
    pub socket_group: Option<String>,
    /// Mode of the administrators' socket, as octal digits.
    pub control_socket_mode: String,
    /// Group of the administrators' socket, by name. The default is the daemon's own group.
    pub control_socket_group: Option<String>,
    /// Format of the service log.
    pub log_format: LogFormat,
    /// Level of the service log, as tracing filter directives.
    pub log_level: String,
    /// Contact for customers with a question about a refused verdict. Without it, answers have none.
    pub contact: Option<String>,
    /// Limits of requests and connections.
    pub limits: Limits,
    /// Memory and disk space of the store.
    pub storage: Storage,
    /// When a panicking actor ends the daemon.
    pub supervision: Supervision,
    /// The model and its calls.
    pub model: Model,
    /// Mail to customers.
    pub mail: Mail,
    /// When an upstream system counts as failing, and its circuit opens.
    pub health: HealthConfig,
    /// Delivery of verdicts.
    pub gate: Gate,
    /// The rules for text, and their limits.
    pub rules: Rules,
    /// Limits of ingestion, and the credentials of pipelines.
    pub ingestion: Ingestion,
    /// Limits of verification, and the credentials of live sources.
    pub verification: Verification,
}

/// Delivery of verdicts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// How members of a verdict that were not judged are handled.
    pub unexpected_fields: UnexpectedFields,
}

/// Limits of verification, and the credentials of live sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verification {
    /// Maximum number of verifications in progress.
    pub at_once: usize,
    /// Credentials for live sources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub credentials: BTreeMap<SourceId, Credential>,
}

impl Default for Verification {
    fn default() -> Self {
        Self { at_once: 64, credentials: BTreeMap::new() }
    }
}

/// The limits; each has its own error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Length of a request's body, in bytes.
    pub body_bytes: usize,
    /// Length of all requests' bodies together, as far as they have arrived, in bytes.
    pub bodies_bytes: usize,
    /// Length of a query, in bytes.
    pub query_bytes: usize,
    /// Length of a session id, in characters.
    pub session_id_chars: usize,
    /// Length of all headers of a request together, in bytes.
    pub header_bytes: usize,
    /// Number of headers of a request.
    pub headers: usize,
    /// Number of connections to the routes' socket.
    pub connections: usize,
    /// Number of connections to the administrators' socket.
    pub control_connections: usize,
    /// Number of verdicts in flight.
    pub in_flight: usize,
    /// Time in seconds that a connection may be idle, take for a request's headers, or leave an answer unread.
    pub idle_s: u64,
    /// Time for a whole request, in seconds.
    pub request_s: u64,
    /// Time that a stop waits for requests in flight, in seconds.
    pub shutdown_s: u64,
}

/// Memory and disk space of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// Size of the database's page cache, in bytes.
    pub cache_bytes: u64,
    /// Size of the cache of recent verdicts, in bytes.
    pub hot_bytes: u64,
    /// Size of the cache for the files of the ground-truth layer, in bytes.
    pub facts_cache_bytes: u64,
    /// Minimum free space on the disk of the state directory, in bytes. Below it, new work is rejected.
    pub min_free_bytes: u64,
}

/// When a panicking actor ends the daemon, so that systemd restarts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supervision {
    /// Maximum number of panics in the window.
    pub max_panics: usize,
    /// Length of the window, in seconds.
    pub window_s: u64,
    /// Maximum pause before an actor is restarted, in milliseconds.
    pub max_pause_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        let dirs = Directories::of_this_process();
        Self {
            socket: dirs.runtime.join("oracled.sock"),
            control_socket: dirs.runtime.join("control.sock"),
            state_dir: dirs.state,
            socket_mode: "0660".into(),
            socket_group: None,
            control_socket_mode: "0600".into(),
            control_socket_group: None,
            log_format: LogFormat::Text,
            log_level: "info".into(),
            contact: None,
            limits: Limits {
                body_bytes: 1024 * 1024,
                bodies_bytes: 64 * 1024 * 1024,
                query_bytes: 32 * 1024,
                session_id_chars: oracled_domain::verdict::session::SESSION_ID_MAX_CHARS,
                header_bytes: 16 * 1024,
                headers: 64,
                connections: 16_384,
                control_connections: 64,
                in_flight: 1024,
                idle_s: 60,
                request_s: 30,
                shutdown_s: 30,
            },
            storage: Storage {
                cache_bytes: 16 * 1024 * 1024,
                hot_bytes: 32 * 1024 * 1024,
                facts_cache_bytes: 64 * 1024 * 1024,
                min_free_bytes: 64 * 1024 * 1024,
            },
            supervision: Supervision { max_panics: 10, window_s: 60, max_pause_ms: 1000 },
            model: Model::default(),
            mail: Mail::default(),
            health: HealthConfig::default(),
            gate: Gate::default(),
            rules: Rules::default(),
            ingestion: Ingestion::default(),
            verification: Verification::default(),
        }
    }
}

impl Config {
    /// Builds the configuration from all its sources and checks it.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub fn load(flags: &Flags) -> Result<Self, ConfigError> {
        Self::from_sources(flags, env::vars_os())
    }

    /// The names of the `ORACLED_…` variables of this process that are ignored, since they do not look like keys.
    #[must_use]
    pub fn ignored_variables() -> Vec<String> {
        Variables::of(env::vars_os()).map(|variables| variables.ignored).unwrap_or_default()
    }

    /// The same with the given variables.
    fn from_sources(
        flags: &Flags,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let not_understood = |error| ConfigError::NotUnderstood(without_values(&error));
        let defaults = ::config::Config::try_from(&Self::default()).map_err(not_understood)?;
        let mut sources = ::config::Config::builder().add_source(defaults);
        if let Some(file) = flags.config.clone().or_else(|| Directories::of_this_process().config_file()) {
            if !file.is_file() {
                let text = format!("the file {} does not exist", file.display());
                return Err(ConfigError::NotUnderstood(text));
            }
            sources = sources.add_source(File::from(file).format(FileFormat::Toml));
        }
        let variables = Variables::of(environment)?;
        let environment = Environment::with_prefix(PREFIX).prefix_separator("_").separator("__");
        sources = sources.add_source(environment.source(Some(variables.keys)));
        let mut config: Self =
            sources.build().and_then(::config::Config::try_deserialize).map_err(not_understood)?;
        flags.put_into(&mut config);
        config.check()?;
        Ok(config)
    }

    /// The mode of the routes' socket.
    ///
    /// # Errors
    /// If the mode is not three or four octal digits.
    pub fn socket_mode(&self) -> Result<u32, ConfigError> {
        mode("socket_mode", &self.socket_mode)
    }

    /// The mode of the administrators' socket.
    ///
    /// # Errors
    /// If the mode is not three or four octal digits, or lets every user of this machine connect.
    pub fn control_socket_mode(&self) -> Result<u32, ConfigError> {
        let mode = mode("control_socket_mode", &self.control_socket_mode)?;
        if mode & 0o002 == 0 {
            return Ok(mode);
        }
        let given = format!(
            "`{}`, which lets every user of this machine control the daemon",
            self.control_socket_mode
        );
        let allowed = "a mode without write permission for others: 0600, or 0660 with `control_socket_group`";
        Err(not_allowed("control_socket_mode", given, allowed))
    }

    fn check(&self) -> Result<(), ConfigError> {
        const KIB: usize = 1024;
        let Limits { body_bytes, query_bytes, session_id_chars, header_bytes, headers, .. } = self.limits;
        let Limits { connections, control_connections, in_flight, idle_s, request_s, shutdown_s, .. } =
            self.limits;
        within("limits.body_bytes", body_bytes, KIB..=64 * KIB * KIB)?;
        within("limits.bodies_bytes", self.limits.bodies_bytes, body_bytes..=1 << 40)?;
        within("limits.query_bytes", query_bytes, 1..=KIB * KIB)?;
        within(
            "limits.session_id_chars",
            session_id_chars,
            1..=oracled_domain::verdict::session::SESSION_ID_MAX_CHARS,
        )?;
        within("limits.header_bytes", header_bytes, KIB..=256 * KIB)?;
        within("limits.headers", headers, 8..=1000)?;
        within("limits.connections", connections, 1..=1_000_000)?;
        within("limits.control_connections", control_connections, 1..=10_000)?;
        within("limits.in_flight", in_flight, 1..=1_000_000)?;
        within("limits.idle_s", idle_s, 1..=3600)?;
        within("limits.request_s", request_s, 1..=3600)?;
        within("limits.shutdown_s", shutdown_s, 0..=3600)?;
        within("storage.cache_bytes", self.storage.cache_bytes, 1 << 20..=1 << 40)?;
        within("storage.hot_bytes", self.storage.hot_bytes, 1 << 16..=1 << 40)?;
        within("storage.facts_cache_bytes", self.storage.facts_cache_bytes, 1 << 20..=1 << 40)?;
        within("storage.min_free_bytes", self.storage.min_free_bytes, 0..=1 << 60)?;
        within("supervision.max_panics", self.supervision.max_panics, 0..=1_000_000)?;
        within("supervision.window_s", self.supervision.window_s, 1..=86_400)?;
        within("supervision.max_pause_ms", self.supervision.max_pause_ms, 0..=60_000)?;
        self.model.check(request_s)?;
        self.mail.check()?;
        self.rules.check()?;
        self.ingestion.check(request_s)?;
        within("verification.at_once", self.verification.at_once, 1..=10_000)?;
        if self.state_dir.as_os_str().is_empty() {
            return Err(not_allowed("state_dir", "empty", "the path of a directory"));
        }
        self.socket_mode()?;
        self.control_socket_mode()?;
        socket_path("socket", &self.socket)?;
        socket_path("control_socket", &self.control_socket)?;
        if self.socket == self.control_socket {
            return Err(not_allowed(
                "control_socket",
                self.control_socket.display(),
                "another path than `socket`",
            ));
        }
        telemetry::filter(&self.log_level).map_err(|error| {
            let allowed = "error, warn, info, debug, trace, or tracing's filter directives";
            not_allowed("log_level", format!("`{}` ({error})", self.log_level), allowed)
        })?;
        Ok(())
    }
}

/// Describes a parse error without quoting the file or the variable, because a key can be anywhere in it.
fn without_values(error: &::config::ConfigError) -> String {
    use ::config::ConfigError as Fault;
    let place = |key: &Option<String>, origin: &Option<String>| {
        let key = key.iter().map(|key| format!(" for key `{key}`"));
        key.chain(origin.iter().map(|origin| format!(" in {origin}"))).collect::<String>()
    };
    match error {
        Fault::Type { expected, key, origin, .. } => {
            format!("the value is of the wrong type, expected {expected}{}", place(key, origin))
        }
        Fault::At { error, key, origin } => without_values(error) + &place(key, origin),
        Fault::Message(told) => match told.rsplit_once(", expected ") {
            // serde quotes the value before the expected type
            Some((found, expected)) if found.starts_with("invalid ") => {
                format!("the value is of the wrong type, expected {expected}")
            }
            _ => told.clone(),
        },
        other => without_source(&other.to_string()),
    }
}

/// A parser's error without the lines of the file that it quotes.
fn without_source(error: &str) -> String {
    let is_quoted =
        |line: &&str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
    error.lines().filter(|line| !is_quoted(line)).map(str::trim).collect::<Vec<_>>().join(": ")
}

fn not_allowed(key: &'static str, given: impl Display, allowed: impl Display) -> ConfigError {
    ConfigError::NotAllowed { key, given: given.to_string(), allowed: allowed.to_string() }
}

fn within<N: PartialOrd + Display>(
    key: &'static str,
    value: N,
    range: RangeInclusive<N>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(not_allowed(key, value, format_args!("{} to {}", range.start(), range.end())))
}

fn mode(key: &'static str, digits: &str) -> Result<u32, ConfigError> {
    let parsed = u32::from_str_radix(digits, 8).ok().filter(|_| matches!(digits.len(), 3 | 4));
    parsed
        .filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600)
        .ok_or_else(|| not_allowed(key, format!("`{digits}`"), "three or four octal digits, from 0600 on"))
}

fn socket_path(key: &'static str, path: &Path) -> Result<(), ConfigError> {
    let bytes = path.as_os_str().len();
    if (1..=SOCKET_PATH_MAX_BYTES).contains(&bytes) {
        return Ok(());
    }
    let given = format!("`{}`, of {bytes} bytes", path.display());
    Err(not_allowed(key, given, format!("a path of 1 to {SOCKET_PATH_MAX_BYTES} bytes")))
}

#[cfg(test)]
mod tests;
