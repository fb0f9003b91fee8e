//! The configuration: defaults, then the TOML file, then `ORACLED_…` variables, then flags.
//!
//! The types give the reference, `docs/reference/configuration.md`, and the ranges of values.

mod applications;
mod checkpoints;
mod cleartext;
mod costs;
mod error;
mod flags;
mod gate;
mod given;
mod ingestion;
mod keys;
mod load;
mod lookup;
mod mail;
mod model;
mod models;
mod orders;
mod policy;
mod positions;
mod retention;
mod rules;
mod sockets;
mod variables;
mod webhooks;

pub(crate) use applications::application_of;
use applications::check_applications;
pub use applications::{ApplicationSection, ApplicationSections};
pub use checkpoints::{CheckpointsSection, WitnessSection};
use cleartext::check_url;
pub(crate) use cleartext::{has_login, is_cleartext, is_local, redact_url};
pub use costs::CostsSection;
pub(crate) use costs::exact_amount;
pub use error::ConfigError;
pub use flags::{CONFIG_VARIABLE, DaemonFlags};
pub use gate::GateSection;
use ingestion::CredentialKeys;
pub use ingestion::{ConfiguredCredential, ConfiguredSecrets, IngestionSection, SecretOrigin};
pub use lookup::{LookupPreset, LookupSection};
pub use mail::{MailSection, MailTls, MailTransport};
pub use model::{ModelProvider, ModelSection};
pub use models::ModelEntry;
use oracled_api::base::directories::DefaultDirectories;
pub use orders::{OrderLimitAction, OrdersSection};
pub use policy::{ApplicationGateSection, PolicySection};
pub use retention::RetentionSection;
pub use rules::{RuleIds, RulesSection};
pub use sockets::SocketFile;
pub use webhooks::WebhooksSection;

use crate::platform::telemetry::{self, AccessLogLevel, LogFormat};
use oracled_actors::SupervisionLimits;
use oracled_domain::PromptTemplate;
use oracled_domain::ground::id::SourceId;
use oracled_domain::verdict::health::OracleHealthConfig;
use oracled_domain::verdict::template_name::TemplateName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use utoipa::ToSchema;

/// The prefix of every variable. Two underscores separate levels: `ORACLED_LIMITS__BODY_BYTES`.
const PREFIX: &str = "ORACLED";
/// Maximum length of a Unix socket's path, in bytes.
const SOCKET_PATH_MAX_BYTES: usize = 107;

/// The configuration of `oracled`: defaults, then the TOML file, then variables, then flags. A later source overrides an earlier one.
///
/// `oracled serve --config FILE` reads a file. The default is `oracled.toml` in systemd's configuration directory, else in
/// `$XDG_CONFIG_HOME/oracled/`, if it exists. A key in a table is written `table.key` here. Its variable is `ORACLED_`, the
/// table, two underscores and the key: `ORACLED_LIMITS__BODY_BYTES`. `oracled check-config` prints the resulting
/// configuration, or its errors.
///
/// An unknown key, a wrong type and a value out of range are errors. An unknown variable is an error if it looks like a key:
/// its name differs from a key's in at most two letters, or the part before its first `__` is a table or a key. Other
/// variables that begin with `ORACLED_` are ignored, and listed in the service log and by `oracled check-config`. Container
/// platforms set such variables, for example `ORACLED_PORT` and `ORACLED_SERVICE_HOST` for a service named `oracled`.
///
/// TMM's constants cannot be configured.
///
/// ```toml
/// [model]                                  # Gemini needs only a key: see model.api_key_file
/// provider = "openai"                      # vLLM, llama.cpp, Ollama
/// base_url = "http://127.0.0.1:8000/v1"    # with /v1; Gemini's has no version
/// name = "qwen2.5-7b-instruct"
///
/// [mail]
/// transport = "smtp"
/// smtp_host = "mail.example.org"
/// smtp_user = "oracle"
/// from = "The Oracle <oracle@example.org>"
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DaemonConfig {
    /// Directory of the store and `oracle_log.jsonl`. The default is systemd's state directory, else
    /// `$XDG_STATE_HOME/oracled`. The path must be absolute; only the path of the flag may be relative to the current
    /// directory.
    #[schema(value_type = String)]
    pub state_dir: PathBuf,
    /// Path of the routes' socket, at most 107 bytes long, and absolute as for `state_dir`. The default is
    /// `oracled.sock` in systemd's runtime directory, else in `$XDG_RUNTIME_DIR/oracled/`, else in the default
    /// directory of `state_dir`.
    #[schema(value_type = String)]
    pub socket: PathBuf,
    /// Path of the control socket, at most 107 bytes long, and absolute as for `state_dir`. The default is
    /// `control.sock` in the directory of the default of `socket`.
    #[schema(value_type = String)]
    pub control_socket: PathBuf,
    /// Mode of the routes' socket: 3 or 4 octal digits, with read and write permission for the owner. It has no
    /// effect if systemd binds the socket.
    pub socket_mode: String,
    /// Group of the routes' socket, by name. The default is the daemon's own group. It has no effect if
    /// systemd binds the socket.
    pub socket_group: Option<String>,
    /// Mode of the control socket, as for `socket_mode`. A mode that lets others write is an error. `0660` with
    /// `control_socket_group` lets that group control the daemon.
    pub control_socket_mode: String,
    /// Group of the control socket, as for `socket_group`. The default is the daemon's own group.
    pub control_socket_group: Option<String>,
    /// Path of the socket for reviewers, at most 107 bytes long, and absolute as for `state_dir`. Without it, only systemd
    /// can open this socket.
    #[schema(value_type = Option<String>)]
    pub review_socket: Option<PathBuf>,
    /// Mode of the socket for reviewers, as for `control_socket_mode`.
    pub review_socket_mode: String,
    /// Group of the socket for reviewers, as for `socket_group`. The default is the daemon's own group.
    pub review_socket_group: Option<String>,
    /// Format of the service log: `text` or `json`, one object per line. If systemd runs the daemon, `text`
    /// is written as fields of journald.
    pub log_format: LogFormat,
    /// Level of the service log: `error`, `warn`, `info`, `debug`, `trace`, or tracing's filter directives. A reload
    /// applies it.
    pub log_level: String,
    /// Which requests are in the service log: `off`; `errors`, those with a status of 500 or more, and those without a whole
    /// response; or `all`. The entries have the level `info`. With `errors`, each socket has at most 100 entries in a second.
    pub access_log: AccessLogLevel,
    /// Contact for customers with a question about a rejected verdict. If it is not set, answers have no
    /// contact.
    pub contact: Option<String>,
    /// The applications that use the routes' socket, by name. Each has sessions of its own. Without any, all callers
    /// belong to the application `default`; with some, a caller that belongs to none gets 403.
    pub applications: ApplicationSections,
    /// Prompt template for first verdicts: `ID` for the newest registered version, or `ID@VERSION`. `oraclectl apply`
    /// registers templates. While the template is not registered, orders wait.
    #[schema(value_type = String)]
    pub prompt_template: TemplateName,
    /// Limits of requests and connections.
    pub limits: LimitsSection,
    /// Memory and disk space of the store.
    pub storage: StorageSection,
    /// Signed checkpoints of the log, which the daemon hands out.
    pub checkpoints: CheckpointsSection,
    /// When old data are removed.
    pub retention: RetentionSection,
    /// When a panicking actor ends the daemon, so that systemd restarts it.
    pub supervision: SupervisionSection,
    /// The first model, and its calls.
    pub model: ModelSection,
    /// Further models: `[models.NAME]` has the keys of `[model]`. [`model.fallbacks`](#modelfallbacks) has their order. A model
    /// that is neither there nor in the `models` of an application only regenerates the verdicts that it made. `NAME` is the model's name among the
    /// [oracles](../delivery.md#oracles-and-circuits): 1 to 32 of `a-z 0-9 -`. The variable of a key is
    /// `ORACLED_MODELS__<NAME>__<KEY>`.
    pub models: BTreeMap<String, ModelSection>,
    /// The costs of the models, as computed from their prices.
    pub costs: CostsSection,
    /// Orders: first verdicts that the model generates.
    pub orders: OrdersSection,
    /// The look-up of sessions that are not registered.
    pub lookup: LookupSection,
    /// Mail to customers.
    pub mail: MailSection,
    /// Webhooks to applications and operators.
    pub webhooks: WebhooksSection,
    /// When an oracle (a model, the mail service, the payment service or a live source) counts as failing, and its circuit opens.
    pub health: OracleHealthConfig,
    /// Delivery of verdicts. No key can deliver a verdict that the crosscheck rejects.
    ///
    /// The keys `hold`, `refuse`, `coherence_min` and `rules` are the [policy](../delivery.md#policy-beside-the-gate). They can be in the
    /// tables `[gate]`, `[gate.TIER]`, `[applications.NAME.gate]` and `[applications.NAME.gate.TIER]`; the last of these that
    /// has a key applies.
    pub gate: GateSection,
    /// The rules for text, and their limits.
    pub rules: RulesSection,
    /// Limits of ingestion, and the credentials of pipelines.
    pub ingestion: IngestionSection,
    /// Limits of verification, and the credentials of live sources.
    pub verification: VerificationSection,
}

/// Limits of verification, and the credentials of live sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerificationSection {
    /// Maximum number of concurrent questions to sources. Further ones wait within the latency budget of their workflow.
    #[schema(minimum = 1, maximum = 10_000)]
    pub at_once: usize,
    /// The credential for each live source, by its `oracle_id`. `ingestion.allow_local`, `ingestion.connect_s` and
    /// `ingestion.idle_s` also apply to live sources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, CredentialKeys>)]
    pub credentials: BTreeMap<SourceId, ConfiguredCredential>,
}

impl Default for VerificationSection {
    fn default() -> Self {
        Self { at_once: 64, credentials: BTreeMap::new() }
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
    /// Maximum length of all headers of a request together. A request that exceeds twice this limit gets 431
    /// without a problem document, and its connection ends.
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
    /// Whether `oraclectl erase` also erases the ids of sessions, in log entries that are written from now on. Set it before the
    /// first session.
    pub erase_session_ids: bool,
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

impl Default for DaemonConfig {
    fn default() -> Self {
        let dirs = DefaultDirectories::from_environment();
        Self {
            socket: dirs.runtime.join("oracled.sock"),
            control_socket: dirs.runtime.join("control.sock"),
            state_dir: dirs.state,
            socket_mode: "0660".into(),
            socket_group: None,
            control_socket_mode: "0600".into(),
            control_socket_group: None,
            review_socket: None,
            review_socket_mode: "0600".into(),
            review_socket_group: None,
            log_format: LogFormat::Text,
            log_level: "info".into(),
            access_log: AccessLogLevel::Errors,
            contact: None,
            applications: ApplicationSections::new(),
            prompt_template: PromptTemplate::built_in_name(),
            limits: LimitsSection {
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
            storage: StorageSection {
                cache_bytes: 16 * 1024 * 1024,
                hot_bytes: 32 * 1024 * 1024,
                facts_cache_bytes: 64 * 1024 * 1024,
                min_free_bytes: 64 * 1024 * 1024,
                erase_session_ids: false,
            },
            checkpoints: CheckpointsSection::default(),
            retention: RetentionSection::default(),
            supervision: SupervisionSection { max_panics: 10, window_s: 60, max_pause_ms: 1000 },
            model: ModelSection::default(),
            models: BTreeMap::new(),
            costs: CostsSection::default(),
            orders: OrdersSection::default(),
            lookup: LookupSection::default(),
            mail: MailSection::default(),
            webhooks: WebhooksSection::default(),
            health: OracleHealthConfig::default(),
            gate: GateSection::default(),
            rules: RulesSection::default(),
            ingestion: IngestionSection::default(),
            verification: VerificationSection::default(),
        }
    }
}

impl DaemonConfig {
    /// The faults that the schema cannot express. A value whose limits depend on other values is checked only with
    /// `is_complete`: no faulty value was replaced by its default.
    fn check(&self, is_complete: bool) -> Vec<ConfigError> {
        let mut checks = vec![
            check_path("state_dir", &self.state_dir, usize::MAX),
            self.check_log_level(),
            self.costs.check(),
            self.mail.check(),
            self.rules.check(),
            self.orders.check(),
        ];
        if is_complete {
            let LimitsSection { body_bytes, bodies_bytes, request_s, .. } = self.limits;
            let models = self.models.values().chain([&self.model]);
            let deadline_ms = models.map(|model| model.deadline_ms).max().unwrap_or_default();
            checks.extend([
                self.check_distinct_sockets(),
                check_range("limits.bodies_bytes", bodies_bytes, body_bytes..=1 << 40),
                self.mail.check_smtp(),
                self.retention.check(),
                self.check_models(request_s),
                self.ingestion.check(request_s),
                self.lookup.check(request_s, deadline_ms),
            ]);
        }
        let faults = self.check_sockets().into_iter().chain(checks).filter_map(Result::err);
        faults
            .chain(check_applications(&self.applications))
            .chain(self.check_prompt_templates())
            .chain(self.lookup.check_applications(&self.applications))
            .chain(self.gate.check(&self.applications))
            .chain(self.checkpoints.check(&self.state_dir).into_iter().filter(|_| is_complete))
            .collect()
    }

    fn check_log_level(&self) -> Result<(), ConfigError> {
        telemetry::parse_filter(&self.log_level).map(drop).map_err(|error| {
            let allowed = "error, warn, info, debug, trace, or tracing's filter directives";
            not_allowed_error("log_level", format!("`{}` ({error})", self.log_level), allowed)
        })
    }
}

fn not_allowed_error(key: impl Into<String>, given: impl Display, allowed: impl Display) -> ConfigError {
    let (given, allowed) = (given.to_string(), allowed.to_string());
    ConfigError::NotAllowed { key: key.into(), variable: None, given, allowed }
}

fn check_range<N: PartialOrd + Display>(
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
fn check_path(key: &'static str, path: &Path, max_bytes: usize) -> Result<(), ConfigError> {
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

#[cfg(test)]
mod tests;
