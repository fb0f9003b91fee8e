//! The configuration: defaults, then the TOML file, then `ORACLED_…` variables, then flags.
//!
//! Each section is in the folder of its feature; `daemon/src/config.rs` has the list. The types give the reference,
//! `docs/reference/configuration.md`, and the ranges of values.

pub(crate) mod credentials;
mod load;

use super::telemetry::LogFormat;
use actors_platform::guardian::SupervisionLimits;
use actors_upstream::web::origin_of;
use domain_base::cluster::ConfigDigests;
use domain_base::digest::Sha256Hex;
use domain_base::session_id::SESSION_ID_MAX_CHARS;
use hyper::Uri;
use nix::unistd::{Gid, Group};
use oracled_api::directories::DefaultDirectories;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::Any;
use std::fmt::{Debug, Display};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{self, Path, PathBuf};
use std::time::Duration;
use utoipa::ToSchema;

pub use load::{ignored_variables, load, parse};

/// A part of the configuration: a table, or a value of a feature outside of all tables.
pub trait Section: Any + Debug + Send + Sync {
    /// The key of the part.
    fn key(&self) -> &'static str;

    /// The faults that the schema cannot express.
    fn check(&self, _all: &dyn Configuration) -> Vec<ConfigError> {
        Vec::new()
    }

    /// The faults of values whose limits depend on other values. It is called only if no faulty value was replaced by its
    /// default.
    fn check_limits(&self, _all: &dyn Configuration) -> Vec<ConfigError> {
        Vec::new()
    }

    /// Warnings about allowed but unusual settings. Each start and `oracled check-config` report them.
    fn warnings(&self, _all: &dyn Configuration) -> Vec<String> {
        Vec::new()
    }

    /// Its values that all hosts of a cluster need alike, such as those that decide verdicts; `None` if there are none.
    fn decisions(&self) -> Option<Value> {
        None
    }
}

/// The values of a section without the paths of files, which each host can have elsewhere.
pub(crate) fn without_files(section: &impl Serialize) -> Option<Value> {
    fn remove_files(value: &mut Value) {
        if let Value::Object(members) = value {
            members.retain(|key, _| !key.ends_with("_file"));
            members.values_mut().for_each(remove_files);
        }
    }
    let mut values = serde_json::to_value(section).ok()?;
    remove_files(&mut values);
    Some(values)
}

/// A complete configuration.
pub trait Configuration: Debug + Send + Sync {
    /// All sections.
    fn sections(&self) -> Vec<&dyn Section>;

    /// The directory of the store.
    fn state_dir(&self) -> &Path;

    /// Overrides values by flags. Returns the keys of the overridden paths.
    fn apply_flags(&mut self, flags: &DaemonFlags) -> Vec<&'static str>;

    /// The faults that the schema cannot express. A value whose limits depend on other values is checked only with
    /// `is_complete`: no faulty value was replaced by its default.
    fn check(&self, is_complete: bool) -> Vec<ConfigError>;
}

impl dyn Configuration + '_ {
    /// The section of a feature.
    ///
    /// # Panics
    /// If `sections` does not list it.
    #[must_use]
    pub fn section<S: Section>(&self) -> &S {
        let found = self.sections().into_iter().find_map(|section| (section as &dyn Any).downcast_ref());
        found.expect("a configuration lists each section")
    }

    /// The digest of each section that all hosts of a cluster need alike, by its key.
    #[must_use]
    pub fn decision_digests(&self) -> ConfigDigests {
        let sections = self.sections().into_iter();
        let decisions = sections.filter_map(|section| Some((section.key(), section.decisions()?)));
        let digest = |values: &Value| Sha256Hex::of(values.to_string().as_bytes()).to_string();
        decisions.map(|(key, values)| (key.to_owned(), digest(&values))).collect()
    }
}

/// The variable that names the configuration file; it is not itself a key.
pub const CONFIG_VARIABLE: &str = "ORACLED_CONFIG";

/// Flags that override the file and the variables.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DaemonFlags {
    /// Configuration file
    ///
    /// The default is oracled.toml in systemd's configuration directory, else in $XDG_CONFIG_HOME/oracled/, if it
    /// exists.
    #[arg(long, value_name = "FILE", env = CONFIG_VARIABLE)]
    pub config: Option<PathBuf>,
    /// Directory of the store and oracle_log.jsonl
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Path of the routes' socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Path of the control socket
    #[arg(long, value_name = "PATH")]
    pub control_socket: Option<PathBuf>,
    /// Format of the service log
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Allow keys, passwords, credentials and mail to cross a network in clear text
    ///
    /// With this flag, each start logs a warning. Without it, such a configuration is an error.
    #[arg(long)]
    pub allow_cleartext: bool,
    /// Serve in test mode: answers, log entries and mails are marked, and mails go to files
    ///
    /// The provider `canned` of a model requires it. A state directory is used either always in test mode, or never.
    #[arg(long)]
    pub test_mode: bool,
}

impl DaemonFlags {
    /// The configuration file: the one that these flags name, else the default one if it exists.
    #[must_use]
    pub fn config_file(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| DefaultDirectories::from_environment().config_file())
    }

    /// Names the file of the start by its absolute path, so that a reload reads the same one and the status names it.
    pub fn fix_config_file(&mut self) {
        self.config = self.config_file().map(|file| path::absolute(&file).unwrap_or(file));
    }
}

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

/// Maximum length of the name of a table, in characters.
pub(crate) const TABLE_NAME_MAX_CHARS: usize = 32;

/// Whether an operator can give a table this name, which is also a part of variables and a label of metrics.
pub(crate) fn is_table_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=TABLE_NAME_MAX_CHARS).contains(&name.len()) && name.bytes().all(is_word)
}

/// The error for a value that is not allowed.
pub(crate) fn not_allowed_error(
    key: impl Into<String>,
    given: impl Display,
    allowed: impl Display,
) -> ConfigError {
    let (given, allowed) = (given.to_string(), allowed.to_string());
    ConfigError::NotAllowed { key: key.into(), variable: None, given, allowed }
}

/// Checks that a value is within a range.
pub(crate) fn check_range<N: PartialOrd + Display>(
    key: &str,
    value: N,
    range: RangeInclusive<N>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(not_allowed_error(key, value, format_args!("{} to {}", range.start(), range.end())))
}

/// Checks that a path is absolute and has at most `max_bytes`. A relative path would depend on the directory in which
/// the daemon starts.
pub(crate) fn check_path(key: &'static str, path: &Path, max_bytes: usize) -> Result<(), ConfigError> {
    let given = match path.as_os_str().len() {
        0 => "empty".to_owned(),
        _ if path.is_relative() => format!("`{}`, which is relative", path.display()),
        bytes if bytes > max_bytes => format!("`{}`, of {bytes} bytes", path.display()),
        _ => return Ok(()),
    };
    let length =
        if max_bytes == usize::MAX { String::new() } else { format!(" of at most {max_bytes} bytes") };
    Err(not_allowed_error(key, given, format!("an absolute path{length}")))
}

/// The IP address that `host` contains, if it is not a name.
pub(crate) fn parse_address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Whether a host is this machine, so that no network is crossed.
pub(crate) fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || parse_address(host).is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// Whether a URL contains a user or a password, which would be visible wherever the URL is shown.
fn has_login(url: &str) -> bool {
    let authority = url.split_once("//").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Checks that `url` is an http or https URL without a login. The error does not quote it.
pub(crate) fn check_url(key: &str, url: &str) -> Result<(), ConfigError> {
    if has_login(url) {
        return Err(not_allowed_error(key, "a URL with a login", "a URL without one"));
    }
    let allowed = "http:// or https://, and a host";
    origin_of(url).map(drop).ok_or_else(|| not_allowed_error(key, "not an http or https URL", allowed))
}

/// The part of `url` that errors and outputs show. What follows the host and port is cut, because it can contain a key.
pub(crate) fn redact_url(url: &str) -> String {
    match origin_of(url) {
        Some(origin) if url.trim_end_matches('/').len() <= origin.len() => origin,
        Some(origin) => format!("{origin}/…"),
        None => "not a URL".into(),
    }
}

/// Whether requests to this URL cross a network without encryption. Addresses for which `is_allowed` is true
/// do not count.
pub(crate) fn is_cleartext(url: &str, is_allowed: impl FnOnce(IpAddr) -> bool) -> bool {
    let url = origin_of(url).and_then(|origin| origin.parse::<Uri>().ok()).unwrap_or_default();
    let host = url.host().unwrap_or_default();
    url.scheme_str() == Some("http") && !is_local(host) && !parse_address(host).is_some_and(is_allowed)
}

/// Maximum length of a Unix socket's path, in bytes.
pub(crate) const SOCKET_PATH_MAX_BYTES: usize = 107;

/// The file of a socket that the daemon binds.
#[derive(Debug, Clone, Copy)]
pub struct SocketFile<'c> {
    /// The configuration key of the path.
    pub key: &'static str,
    pub path: &'c Path,
    pub mode: u32,
    /// The group; `None` for the daemon's own.
    pub group: Option<Gid>,
}

/// The files of the sockets.
#[derive(Debug, Clone, Copy)]
pub struct SocketFiles<'c> {
    pub routes: SocketFile<'c>,
    pub control: SocketFile<'c>,
    /// The socket for reviewers; `None` if it has no path.
    pub review: Option<SocketFile<'c>>,
    /// The address of the listener for metrics, if there is one.
    pub metrics: Option<SocketAddr>,
}

/// The configuration keys of a socket's file.
#[derive(Debug, Clone, Copy)]
pub struct SocketKeys<'c> {
    /// The key of the path. Those of the mode and the group begin with it.
    pub key: &'static str,
    pub mode: &'c str,
    pub group: Option<&'c str>,
    /// The power of users who can connect, if not every user of this machine may have it.
    pub power: Option<&'static str>,
}

impl<'c> SocketKeys<'c> {
    /// The file with this path.
    ///
    /// # Errors
    /// If the mode is not three or four octal digits, or lets every user of this machine connect to a socket with `power`. If the
    /// group does not exist.
    pub fn file(&self, path: &'c Path) -> Result<SocketFile<'c>, ConfigError> {
        Ok(SocketFile { key: self.key, path, mode: self.parse_mode()?, group: self.find_group()? })
    }

    /// The permissions of the file.
    pub(crate) fn parse_mode(&self) -> Result<u32, ConfigError> {
        let (key, digits) = (format!("{}_mode", self.key), self.mode);
        let is_octal =
            matches!(digits.len(), 3 | 4) && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        let parsed = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal);
        let Some(mode) = parsed.filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600) else {
            let allowed = "three or four octal digits that let the owner read and write";
            return Err(not_allowed_error(key, format!("`{digits}`"), allowed));
        };
        match self.power {
            Some(power) if mode & 0o002 != 0 => {
                let given = format!("`{digits}`, which lets every user of this machine {power}");
                let allowed = format!(
                    "a mode without write permission for others: 0600, or 0660 with `{}_group`",
                    self.key
                );
                Err(not_allowed_error(key, given, allowed))
            }
            _ => Ok(mode),
        }
    }

    /// The group of the file; `None` for the daemon's own.
    pub(crate) fn find_group(&self) -> Result<Option<Gid>, ConfigError> {
        let Some(name) = self.group else { return Ok(None) };
        let group = Group::from_name(name).ok().flatten();
        let unknown = || {
            let given = format!("`{name}`, which does not exist");
            let allowed = "the name of a group, as `getent group` lists them";
            not_allowed_error(format!("{}_group", self.key), given, allowed)
        };
        group.map(|group| Some(group.gid)).ok_or_else(unknown)
    }
}

/// The limits; each has its own error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Maximum length of a request's body.
    #[schema(minimum = 1024, maximum = 67_108_864)]
    pub body_bytes: usize,
    /// Memory for the bodies of all requests together; at least `limits.body_bytes`. The responses of the rules and the
    /// pages of queries each have a limit of the same size.
    ///
    /// A request whose body does not fit is answered with 503. A response of the rules keeps its memory until the client
    /// has read it. A page of a query reserves twice its maximum size, and is answered with 503 if that memory does not
    /// become free within 5 s. While requests wait for this memory, a client is disconnected if it leaves its response
    /// unread for 2 s, or reads less than 1 MiB/s for 2 s.
    #[schema(minimum = 1024, maximum = 1_099_511_627_776u64)]
    pub bodies_bytes: usize,
    /// Maximum length of a query.
    #[schema(minimum = 1, maximum = 1_048_576)]
    pub query_bytes: usize,
    /// Maximum length of a session id.
    #[schema(minimum = 1, maximum = 255)]
    pub session_id_chars: usize,
    /// Maximum length of all headers of a request together. A request that exceeds twice this limit, and
    /// 64 KiB, gets 431 without a problem document, and its connection ends.
    #[schema(minimum = 1024, maximum = 262_144)]
    pub header_bytes: usize,
    /// Maximum number of headers of a request. A request that exceeds twice this limit gets 431 without a
    /// problem document, and its connection ends.
    #[schema(minimum = 8, maximum = 1000)]
    pub headers: usize,
    /// Maximum number of connections to the routes' socket. A further one gets 503, or is closed at once while 32 such
    /// responses are being written. Each socket accepts at most 16 connections in 5 ms; others wait in the kernel's
    /// backlog.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub connections: usize,
    /// Maximum number of connections to the control socket and, counted separately, to the socket for reviewers, as for `limits.connections`.
    #[schema(minimum = 1, maximum = 10_000)]
    pub control_connections: usize,
    /// Maximum number of verdicts in flight.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub in_flight: usize,
    /// Time that a connection may be idle, may take for a request's headers, or (on the routes' socket) may leave a
    /// response unread. A client that is sending may leave it unread for 10 times as long.
    #[schema(minimum = 1, maximum = 3600)]
    pub idle_s: u64,
    /// Time limit of a whole request.
    #[schema(minimum = 1, maximum = 3600)]
    pub request_s: u64,
    /// Time that a stop waits for requests in flight, which include the generation of verdicts
    /// (`model.deadline_ms`).
    #[schema(minimum = 0, maximum = 3600)]
    pub shutdown_s: u64,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            bodies_bytes: 64 * 1024 * 1024,
            query_bytes: 32 * 1024,
            session_id_chars: SESSION_ID_MAX_CHARS,
            header_bytes: 16 * 1024,
            headers: 64,
            connections: 16_384,
            control_connections: 64,
            in_flight: 1024,
            idle_s: 60,
            request_s: 30,
            shutdown_s: 30,
        }
    }
}

impl Section for LimitsSection {
    fn key(&self) -> &'static str {
        "limits"
    }

    fn check_limits(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        let checked = check_range("limits.bodies_bytes", self.bodies_bytes, self.body_bytes..=1 << 40);
        checked.err().into_iter().collect()
    }
}

/// Memory and disk space of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageSection {
    /// Size of the database's page cache.
    #[schema(minimum = 1_048_576, maximum = 1_099_511_627_776u64)]
    pub cache_bytes: u64,
    /// Size of the cache of recent verdicts.
    #[schema(minimum = 65_536, maximum = 1_099_511_627_776u64)]
    pub hot_bytes: u64,
    /// Size of the cache of facts of sources, for lookups of single facts.
    #[schema(minimum = 1_048_576, maximum = 1_099_511_627_776u64)]
    pub facts_cache_bytes: u64,
    /// Minimum free space on the disk of the state directory. Below it, new work is answered with 503
    /// `storage_unavailable`; reads continue.
    #[schema(minimum = 0, maximum = 1_152_921_504_606_846_976u64)]
    pub min_free_bytes: u64,
    /// Whether `oraclectl erase` also erases the ids of sessions, and the links between their entries, in log entries that are
    /// written from now on. Set it before the first session.
    pub erase_session_ids: bool,
}

impl Default for StorageSection {
    fn default() -> Self {
        Self {
            cache_bytes: 16 * 1024 * 1024,
            hot_bytes: 32 * 1024 * 1024,
            facts_cache_bytes: 64 * 1024 * 1024,
            min_free_bytes: 64 * 1024 * 1024,
            erase_session_ids: false,
        }
    }
}

impl Section for StorageSection {
    fn key(&self) -> &'static str {
        "storage"
    }
}

/// When a panicking actor ends the daemon, so that systemd restarts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SupervisionSection {
    /// Maximum number of panics of one actor in the window. One more ends the daemon with a failure.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub max_panics: usize,
    /// Length of the window.
    #[schema(minimum = 1, maximum = 86_400)]
    pub window_s: u64,
    /// Maximum pause before an actor is restarted.
    #[schema(minimum = 0, maximum = 60_000)]
    pub max_pause_ms: u64,
}

impl Default for SupervisionSection {
    fn default() -> Self {
        Self { max_panics: 10, window_s: 60, max_pause_ms: 1000 }
    }
}

impl Section for SupervisionSection {
    fn key(&self) -> &'static str {
        "supervision"
    }
}

impl SupervisionSection {
    /// The limits of supervision.
    #[must_use]
    pub const fn to_limits(&self) -> SupervisionLimits {
        SupervisionLimits {
            max_panics: self.max_panics,
            window: Duration::from_secs(self.window_s),
            max_pause: Duration::from_millis(self.max_pause_ms),
        }
    }
}
