//! The configuration of the daemon: the sections of the platform and of all features.

use super::verdict::config::GateSection;
use crate::audit::checkpoints::CheckpointsSection;
use crate::ground::config::IngestionSection;
use crate::platform::cluster::ClusterSection;
use crate::platform::config::{
    self, ConfigError, Configuration, DaemonFlags, LimitsSection, SOCKET_PATH_MAX_BYTES, Section,
    SocketFiles, SocketKeys, StorageSection, SupervisionSection, check_path, not_allowed_error,
};
use crate::platform::metrics_listener::MetricsSection;
use crate::platform::telemetry::{self, AccessLogLevel, LogFormat};
use crate::platform::traces::TracesSection;
use crate::rules::RulesSection;
use crate::verdict::config::applications::ApplicationSections;
use crate::verdict::config::lookup::LookupSection;
use crate::verdict::config::mail::MailSection;
use crate::verdict::config::models::ModelSection;
use crate::verdict::config::{
    CommonContact, CommonPromptTemplate, CommonRecallMode, CostsSection, OrdersSection, WebhooksSection,
};
use crate::verdict::retention::RetentionSection;
use crate::verification::VerificationSection;
use domain_ground::source::RecallMode;
use domain_upstream::health::OracleHealthConfig;
use domain_verdict::policy::DeliveryPolicies;
use oracled_api::directories::DefaultDirectories;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::env;
use std::path::{self, Path, PathBuf};
use utoipa::ToSchema;

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
    #[schema(value_type = Option<String>)]
    pub contact: CommonContact,
    /// The applications that use the routes' socket, by name. Each has sessions of its own. Without any, all callers
    /// belong to the application `default`; with some, a caller that belongs to none gets 403.
    pub applications: ApplicationSections,
    /// Prompt template for first verdicts: `ID` for the newest registered version, or `ID@VERSION`. `oraclectl apply`
    /// registers templates. While the template is not registered, orders wait.
    #[schema(value_type = String)]
    pub prompt_template: CommonPromptTemplate,
    /// What is done about delivered verdicts that relied on statements that differ now ([recall](../recall.md)): `off`, nothing;
    /// `list`, they are listed on request; `notify`, each is also reported by the webhook `verdict.recalled`, and a notice to the customer
    /// is drafted if the mail template has one.
    #[schema(value_type = RecallMode)]
    pub recall: CommonRecallMode,
    /// Limits of requests and connections.
    pub limits: LimitsSection,
    /// Memory and disk space of the store.
    pub storage: StorageSection,
    /// Signed checkpoints of the log, which the daemon hands out.
    pub checkpoints: CheckpointsSection,
    /// How the metrics can be read, beside `/metrics` on the routes' socket.
    pub metrics: MetricsSection,
    /// The collector of traces.
    pub traces: TracesSection,
    /// The cluster of this host: several daemons share one log in PostgreSQL.
    pub cluster: ClusterSection,
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
            contact: CommonContact::default(),
            applications: ApplicationSections::default(),
            prompt_template: CommonPromptTemplate::default(),
            recall: CommonRecallMode::default(),
            limits: LimitsSection::default(),
            storage: StorageSection::default(),
            checkpoints: CheckpointsSection::default(),
            metrics: MetricsSection::default(),
            traces: TracesSection::default(),
            cluster: ClusterSection::default(),
            retention: RetentionSection::default(),
            supervision: SupervisionSection::default(),
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

impl Configuration for DaemonConfig {
    fn sections(&self) -> Vec<&dyn Section> {
        vec![
            &self.limits,
            &self.storage,
            &self.supervision,
            &self.costs,
            &self.mail,
            &self.rules,
            &self.orders,
            &self.retention,
            &self.model,
            &self.models,
            &self.ingestion,
            &self.verification,
            &self.health,
            &self.webhooks,
            &self.contact,
            &self.applications,
            &self.prompt_template,
            &self.recall,
            &self.lookup,
            &self.gate,
            &self.checkpoints,
            &self.metrics,
            &self.traces,
            &self.cluster,
        ]
    }

    fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    fn apply_flags(&mut self, flags: &DaemonFlags) -> Vec<&'static str> {
        self.log_format = flags.log_format.unwrap_or(self.log_format);
        let mut keys = Vec::new();
        for (key, flag, value) in self.paths_with_flags(flags) {
            if let Some(flag) = flag {
                // an empty path has no absolute form, and is rejected later
                *value = path::absolute(flag).unwrap_or_else(|_| flag.clone());
                keys.push(key);
            }
        }
        keys
    }

    fn check(&self, is_complete: bool) -> Vec<ConfigError> {
        let sockets = self.sockets();
        let review = self.review_socket.as_ref().map(|path| ("review_socket", path));
        let paths =
            [("socket", &self.socket), ("control_socket", &self.control_socket)].into_iter().chain(review);
        let checks = paths.map(|(key, path)| check_path(key, path, SOCKET_PATH_MAX_BYTES));
        let checks = checks.chain(sockets.iter().map(|socket| socket.parse_mode().map(drop)));
        let checks = checks.chain(sockets.iter().map(|socket| socket.find_group().map(drop)));
        let checks =
            checks.chain([check_path("state_dir", &self.state_dir, usize::MAX), self.check_log_level()]);
        let mut faults: Vec<_> = checks.filter_map(Result::err).collect();
        let sections = self.sections();
        faults.extend(sections.iter().flat_map(|section| section.check(self)));
        if is_complete {
            faults.extend(self.check_distinct_sockets().err());
            faults.extend(sections.iter().flat_map(|section| section.check_limits(self)));
        }
        faults
    }
}

impl DaemonConfig {
    /// Warnings about settings that are allowed but unusual.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.sections().iter().flat_map(|section| section.warnings(self)).collect()
    }

    /// Builds the configuration from all its sources and checks it.
    ///
    /// # Errors
    /// All unknown keys and all values of a wrong type or out of range, and the first fault of each other check, each
    /// with its key. If the file cannot be parsed, only its first fault.
    pub fn load(flags: &DaemonFlags) -> Result<Self, ConfigError> {
        config::load(flags, env::vars_os())
    }

    /// The policies beside the gate.
    #[must_use]
    pub fn policies(&self, is_test_mode: bool) -> DeliveryPolicies {
        let policies = self.gate.to_policies(&self.applications);
        if is_test_mode { policies.with_test_hold() } else { policies }
    }

    /// The names of the `ORACLED_…` variables of this process that are ignored, since they do not look like keys.
    #[must_use]
    pub fn ignored_variables() -> Vec<String> {
        config::ignored_variables::<Self>(env::vars_os())
    }

    /// The paths that have a flag: the key, the flag, and the value.
    pub(crate) fn paths_with_flags<'a>(
        &'a mut self,
        flags: &'a DaemonFlags,
    ) -> [(&'static str, &'a Option<PathBuf>, &'a mut PathBuf); 3] {
        [
            ("state_dir", &flags.state_dir, &mut self.state_dir),
            ("socket", &flags.socket, &mut self.socket),
            ("control_socket", &flags.control_socket, &mut self.control_socket),
        ]
    }

    /// The files of the sockets.
    ///
    /// # Errors
    /// If a mode is not three or four octal digits, or lets every user of this machine connect to the control socket or the
    /// socket for reviewers. If a group does not exist.
    pub fn socket_files(&self) -> Result<SocketFiles<'_>, ConfigError> {
        let [routes, control, review] = self.sockets();
        Ok(SocketFiles {
            routes: routes.file(&self.socket)?,
            control: control.file(&self.control_socket)?,
            review: self.review_socket.as_deref().map(|path| review.file(path)).transpose()?,
            metrics: self.metrics.address()?,
        })
    }

    /// The routes' socket, the control socket and the socket for reviewers.
    fn sockets(&self) -> [SocketKeys<'_>; 3] {
        [
            SocketKeys {
                key: "socket",
                mode: &self.socket_mode,
                group: self.socket_group.as_deref(),
                power: None,
            },
            SocketKeys {
                key: "control_socket",
                mode: &self.control_socket_mode,
                group: self.control_socket_group.as_deref(),
                power: Some("control the daemon"),
            },
            SocketKeys {
                key: "review_socket",
                mode: &self.review_socket_mode,
                group: self.review_socket_group.as_deref(),
                power: Some("decide reviews"),
            },
        ]
    }

    fn check_distinct_sockets(&self) -> Result<(), ConfigError> {
        let differ = |key: &str, path: &Path, other: &str| {
            Err(not_allowed_error(key, path.display(), format_args!("another path than `{other}`")))
        };
        match self.review_socket.as_deref() {
            _ if self.socket == self.control_socket => {
                differ("control_socket", &self.control_socket, "socket")
            }
            Some(path) if path == self.socket => differ("review_socket", path, "socket"),
            Some(path) if path == self.control_socket => differ("review_socket", path, "control_socket"),
            _ => Ok(()),
        }
    }

    fn check_log_level(&self) -> Result<(), ConfigError> {
        telemetry::parse_filter(&self.log_level).map(drop).map_err(|error| {
            let allowed = "off, error, warn, info, debug, trace, or tracing's filter directives";
            not_allowed_error("log_level", format!("`{}` ({error})", self.log_level), allowed)
        })
    }
}

#[cfg(test)]
mod tests;
