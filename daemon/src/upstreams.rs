//! The clients of all configured upstream systems, and their reload.
//!
//! A reload reads all credentials before a client is replaced. The clients have the configuration of the start, and new
//! credentials.

mod webhooks;

use super::platform::config::credentials::SecretDigests;
use crate::config::DaemonConfig;
use crate::platform::config::credentials::{
    ClientSetup, crosses_in_cleartext, read_configured_secret, read_secret,
};
use crate::platform::config::{
    ConfigError, Configuration, DaemonFlags, LimitsSection, is_cleartext, is_local, redact_url,
};
use crate::verdict::config::applications::{ApplicationSection, ApplicationSections, mail_templates};
use crate::verdict::config::lookup::LookupSection;
use crate::verdict::config::mail::{MailSection, MailTransport};
use crate::verdict::config::models::{FurtherModels, ModelEntry, ModelProvider, ModelSection, model_entries};
use crate::verdict::config::{CommonContact, CostsSection, WebhooksSection};
use actors_ground::pull::PayloadPuller;
use actors_platform::clock::Clock;
use actors_upstream::lookup::LookupClient;
use actors_upstream::mail::{
    FileMailService, HttpMailService, MailService, SmtpMailService, SmtpSettings, SmtpSettingsError, SmtpTls,
};
use actors_upstream::oracle::LiveOracle;
use actors_upstream::oracle_health::{MonitoredOracle, OracleProbe};
use actors_upstream::web::UpstreamCredential;
use actors_upstream::web::webhook::WebhookClient;
use actors_upstream::witnesses::Witnesses;
use actors_upstream::{
    AnthropicClient, BoxFuture, CannedModel, GeminiClient, ModelCallPolicy, ModelCaller, ModelClient,
    OpenAiClient, Reloadable, UpstreamEndpointError,
};
use actors_verdict::generation::{ConfiguredModel, ConfiguredModels};
use actors_verdict::notifier::{NotifierConfig, WebhookConfig};
use actors_verdict::rate_limiter::{CallLimits, ModelCallLimits};
use domain_base::session_id::ApplicationName;
use domain_upstream::health::{CircuitCallOutcome, OracleHealthConfig};
use domain_verdict::lookup::LookupDefinition;
use ipnet::IpNet;
use jiff::SignedDuration;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use webhooks::create_webhooks;

/// The clients of upstream systems.
#[derive(Debug)]
pub struct UpstreamClients {
    pub models: ConfiguredModels,
    pub calls: CallLimits,
    /// The witnesses of the log.
    pub witnesses: Witnesses,
    /// All upstream systems with a health check.
    pub oracles: Vec<MonitoredOracle>,
    /// Secrets that cross a network in clear text, as `--allow-cleartext` permits.
    pub cleartext: Vec<ConfigError>,
    pub clients: ReloadableClients,
}

impl UpstreamClients {
    /// The clients for `config`. No connection is opened yet.
    ///
    /// # Errors
    /// The faults that were found. Secrets that would cross a network in clear text without `--allow-cleartext` come first.
    pub fn from_config(
        config: &DaemonConfig,
        clock: &Clock,
        flags: &DaemonFlags,
    ) -> Result<Self, ConfigError> {
        let DaemonFlags { allow_cleartext, test_mode, .. } = *flags;
        let mut setup = ClientSetup::new(clock, config.ingestion.to_live_settings(allow_cleartext));
        if test_mode {
            setup.faults.extend(config.cluster.host.as_ref().map(|_| cluster_test_fault()));
        } else {
            setup.faults.extend(model_entries(config).iter().filter_map(test_mode_fault));
        }
        let ModelClients { models, calls, mut oracles, reloadable } = ModelClients::new(config, &mut setup);
        let allow_local = &setup.network.allow_local;
        setup.cleartext.extend(cleartext_faults(config, allow_local));
        setup.cleartext.extend(config.ingestion.cleartext_faults(allow_local));
        setup.cleartext.extend(config.verification.cleartext_faults(allow_local));
        if !allow_cleartext && !setup.cleartext.is_empty() {
            setup.faults.append(&mut setup.cleartext);
            return Err(ConfigError::Several(setup.faults));
        }
        let mail_dir = test_mode.then(|| test_mail_dir(&config.state_dir));
        let services = ServiceClients::new(config, mail_dir, &mut setup);
        let puller = config.ingestion.create_puller(&mut setup);
        let live = config.verification.create_live_client(&mut setup);
        let witnesses = config.checkpoints.create_witnesses(&mut setup);
        let ClientSetup { faults, cleartext, digests, .. } = setup;
        let (Some(services), Some(puller), Some(live), Some(witnesses), []) =
            (services, puller, live, witnesses, &faults[..])
        else {
            return Err(ConfigError::Several(faults));
        };
        oracles.extend(services.oracles(config));
        let digests = Mutex::new(digests);
        let clients = ReloadableClients { models: reloadable, services, puller, live, digests };
        Ok(Self { models, calls, witnesses, oracles, cleartext, clients })
    }

    /// Logs a warning for each secret that crosses a network in clear text.
    pub fn warn_of_cleartext(&self) {
        for fault in &self.cleartext {
            tracing::warn!(%fault, "secrets cross the network in clear text: --allow-cleartext");
        }
    }
}

/// The clients that a reload replaces by clients with new credentials.
#[derive(Debug)]
pub struct ReloadableClients {
    models: Vec<ReloadableModel>,
    pub services: ServiceClients,
    /// The client that pulls payloads of sources.
    pub puller: Reloadable<PayloadPuller>,
    /// The client of live sources.
    pub live: Reloadable<dyn LiveOracle>,
    /// The digests of the credentials in use.
    digests: Mutex<SecretDigests>,
}

/// Credentials that were read again, and are not in use yet.
#[derive(Debug)]
pub struct CredentialChange {
    /// The keys of the credentials that changed.
    pub changed: Vec<String>,
    /// The keys of the credentials of models that had none at the start. Only a restart adds these models.
    pub needs_restart: Vec<String>,
    new: ReloadableClients,
}

impl ReloadableClients {
    /// Reads all credentials again. Reads files: call it on a thread that may block.
    ///
    /// # Errors
    /// The credentials that cannot be used. The credentials in use do not change.
    pub fn read_again(
        &self,
        config: &DaemonConfig,
        clock: &Clock,
        flags: &DaemonFlags,
    ) -> Result<CredentialChange, ConfigError> {
        let new = UpstreamClients::from_config(config, clock, flags)?.clients;
        let has = |models: &[ReloadableModel], key: &str| models.iter().any(|model| model.key == key);
        if let Some(model) = self.models.iter().find(|model| !has(&new.models, &model.key)) {
            return Err(ConfigError::NotUnderstood(format!(
                "`{}`: the key of the model is missing",
                model.key
            )));
        }
        let added = new.models.iter().filter(|model| !has(&self.models, &model.key));
        let needs_restart: Vec<_> = added.map(|model| model.key.clone()).collect();
        let mut changed = new.lock_digests().changed_since(&self.lock_digests());
        changed.retain(|key| !needs_restart.contains(key));
        Ok(CredentialChange { changed, needs_restart, new })
    }

    /// Uses the credentials of `change` from now on. Calls in progress end with the earlier ones.
    pub fn apply(&self, change: &CredentialChange) {
        if change.changed.is_empty() {
            return;
        }
        let CredentialChange { new, .. } = change;
        for model in &self.models {
            if let Some(new) = new.models.iter().find(|new| new.key == model.key) {
                model.client.replace_with(&new.client);
            }
        }
        self.services.replace_with(&new.services);
        self.puller.replace_with(&new.puller);
        self.live.replace_with(&new.live);
        let digests = new.lock_digests().clone();
        *self.lock_digests() = digests;
    }

    fn lock_digests(&self) -> MutexGuard<'_, SecretDigests> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clients other than those of models.
#[derive(Debug)]
pub struct ServiceClients {
    pub mail: Option<Reloadable<dyn MailService>>,
    /// The payment service at which unknown sessions are looked up.
    pub lookup: Option<Reloadable<LookupClient>>,
    /// The endpoints of webhooks.
    pub webhooks: Reloadable<WebhookClient>,
}

impl ServiceClients {
    /// The services for `all`; `None` if one cannot be used. No connection is opened yet. In test mode, mails go to files in
    /// `test_mail_dir`.
    fn new(
        all: &dyn Configuration,
        test_mail_dir: Option<PathBuf>,
        setup: &mut ClientSetup<'_>,
    ) -> Option<Self> {
        let mail = match test_mail_dir {
            Some(dir) => Some(Some(Arc::new(FileMailService::new(dir)) as Arc<dyn MailService>)),
            None => {
                let mail = create_mail_service(all, setup);
                setup.collect(mail)
            }
        };
        let lookup = create_lookup_client(all, setup);
        let lookup = setup.collect(lookup);
        let webhooks = create_webhooks(all, setup);
        let webhooks = setup.collect(webhooks)?;
        Some(Self {
            mail: mail?.map(Reloadable::<dyn MailService>::new),
            lookup: lookup?.map(|client| Reloadable::new(Arc::new(client))),
            webhooks,
        })
    }

    /// The mail service and the payment service, as far as they are configured, with their health checks.
    fn oracles(&self, all: &dyn Configuration) -> Vec<MonitoredOracle> {
        let config = *all.section::<OracleHealthConfig>();
        let mail = self.mail.as_ref().map(|service| MonitoredOracle {
            id: service.oracle_id(),
            config,
            probe: Some(Arc::new(service.clone())),
        });
        let lookup = self.lookup.as_ref().map(|_| MonitoredOracle {
            id: LookupClient::oracle_id(),
            config,
            probe: None,
        });
        mail.into_iter().chain(lookup).collect()
    }

    /// The mail service with its limits.
    pub(crate) fn notifier_config(&self, all: &dyn Configuration) -> NotifierConfig {
        let (section, applications) = (all.section::<MailSection>(), all.section::<ApplicationSections>());
        NotifierConfig {
            service: self.mail.clone().map(|service| Arc::new(service) as Arc<dyn MailService>),
            max_age: SignedDuration::from_secs(section.max_age_s.into()),
            templates: mail_templates(applications, section),
            contacts: all.section::<CommonContact>().contacts(applications),
        }
    }

    /// The endpoints of webhooks with their limits.
    pub(crate) fn webhook_config(&self, all: &dyn Configuration) -> WebhookConfig {
        let section = all.section::<WebhooksSection>();
        let [max_age, pause_after] = [section.max_age_s, section.pause_after_s]
            .map(|seconds| SignedDuration::from_secs(seconds.into()));
        WebhookConfig { client: self.webhooks.clone(), max_age, pause_after }
    }

    /// Uses the credentials of `new` from now on. Calls in progress end with the earlier ones.
    fn replace_with(&self, new: &Self) {
        if let Some((mail, new)) = self.mail.as_ref().zip(new.mail.as_ref()) {
            mail.replace_with(new);
        }
        if let Some((lookup, new)) = self.lookup.as_ref().zip(new.lookup.as_ref()) {
            lookup.replace_with(new);
        }
        self.webhooks.replace_with(&new.webhooks);
    }
}

/// The folder of the mails of the test mode.
pub(crate) fn test_mail_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("test-mail")
}

/// The error if a model of the test mode is configured without the test mode.
fn test_mode_fault(entry: &ModelEntry<'_>) -> Option<ConfigError> {
    (entry.section.provider == ModelProvider::Canned).then(|| ConfigError::NotAllowed {
        key: format!("{}.provider", entry.table),
        variable: None,
        given: ModelProvider::Canned.as_str().to_owned(),
        allowed: "a provider with a model; or --test-mode, for `oracled serve` and `oracled check-config`, whose answers come from no model"
            .to_owned(),
    })
}

/// The error for a host of a cluster in test mode.
fn cluster_test_fault() -> ConfigError {
    let allowed = "no value in test mode, which has one host".to_owned();
    ConfigError::NotAllowed {
        key: "cluster.host".to_owned(),
        variable: None,
        given: "set".to_owned(),
        allowed,
    }
}

/// Secrets of services other than models that would cross a network in clear text.
pub(crate) fn cleartext_faults(all: &dyn Configuration, allow_local: &[IpNet]) -> Vec<ConfigError> {
    let lookup = lookup_cleartext_fault(all.section(), allow_local);
    mail_cleartext_fault(all.section()).into_iter().chain(lookup).collect()
}

/// The configured mail service, if there is one. No connection is opened yet.
///
/// # Errors
/// If an address, a password or a file cannot be used.
fn create_mail_service(
    all: &dyn Configuration,
    setup: &mut ClientSetup<'_>,
) -> Result<Option<Arc<dyn MailService>>, ConfigError> {
    let config = all.section::<MailSection>();
    let hard_timeout = Duration::from_millis(config.hard_timeout_ms);
    match config.transport {
        MailTransport::None => Ok(None),
        MailTransport::Http => {
            let service = HttpMailService::new(&config.base_url, hard_timeout, setup.clock.clone());
            Ok(Some(Arc::new(service.map_err(mail_url_error)?)))
        }
        MailTransport::Smtp => {
            let host = config.smtp_host.clone().unwrap_or_default();
            let heading = config.heading();
            let settings = SmtpSettings {
                tls: config.tls_for(&host),
                host,
                port: config.smtp_port,
                login: read_login(config, &mut setup.digests)?,
                headings: all
                    .section::<ApplicationSections>()
                    .iter()
                    .map(|(name, section)| (name.clone(), section.mail_heading(&heading)))
                    .collect(),
                heading,
                hard_timeout,
            };
            Ok(Some(Arc::new(SmtpMailService::new(settings).map_err(smtp_error)?)))
        }
    }
}

/// The error if mail or its password would cross a network in clear text.
fn mail_cleartext_fault(config: &MailSection) -> Option<ConfigError> {
    let host = config.smtp_host.as_deref().unwrap_or_default();
    let by_smtp = config.tls_for(host) == SmtpTls::None && !is_local(host);
    let (key, given, what, remedy) = match config.transport {
        MailTransport::Http if is_cleartext(&config.base_url, |_| false) => (
            "mail.base_url",
            redact_url(&config.base_url),
            "customers' addresses and verdicts",
            "use https://",
        ),
        MailTransport::Smtp if by_smtp => {
            let what = match &config.smtp_user {
                Some(_) => "the mail server's password",
                None => "customers' addresses and verdicts",
            };
            ("mail.smtp_tls", "none".to_owned(), what, "use starttls or implicit")
        }
        _ => return None,
    };
    Some(ConfigError::Cleartext { key: key.to_owned(), given, what, remedy })
}

/// User and password, if the server requires them.
fn read_login(
    config: &MailSection,
    digests: &mut SecretDigests,
) -> Result<Option<(String, SecretString)>, ConfigError> {
    let Some(user) = config.smtp_user.clone() else { return Ok(None) };
    match read_secret(
        "smtp-password",
        "mail.password_file",
        config.password_file.as_deref(),
        "SMTP_PASSWORD",
    )? {
        Some(password) => {
            digests.record("mail.password_file", &password);
            Ok(Some((user, password)))
        }
        None => Err(ConfigError::NotUnderstood(
            "`mail.smtp_user` is set without a password; set systemd's credential oracled_smtp-password, \
             `mail.password_file` or the variable SMTP_PASSWORD"
                .into(),
        )),
    }
}

fn mail_url_error(error: UpstreamEndpointError) -> ConfigError {
    ConfigError::NotUnderstood(format!("`mail.base_url`: {error}"))
}

fn smtp_error(error: SmtpSettingsError) -> ConfigError {
    ConfigError::NotUnderstood(format!("`mail`: {error}"))
}

/// The client of the payment service, if unknown sessions are looked up. No connection is opened yet.
///
/// # Errors
/// If the URL or the token cannot be used.
fn create_lookup_client(
    all: &dyn Configuration,
    setup: &mut ClientSetup<'_>,
) -> Result<Option<LookupClient>, ConfigError> {
    let section = all.section::<LookupSection>();
    if !section.is_on() {
        return Ok(None);
    }
    let definition = LookupDefinition::new(&section.to_settings(all.section::<LimitsSection>().query_bytes));
    let definition = definition.map_err(|error| unusable_error("lookup", error))?;
    let file = section.token_file.as_deref();
    let token = read_secret("lookup-token", "lookup.token_file", file, "LOOKUP_TOKEN")?;
    if let Some(token) = &token {
        setup.digests.record("lookup.token_file", token);
    }
    let token = token.map(UpstreamCredential::token).transpose();
    let token = token.map_err(|error| unusable_error("lookup.token_file", error))?;
    if token.is_none() && section.preset.is_some() {
        return Err(unusable_error(
            "lookup.token_file",
            "the payment service requires a token; set this key, systemd's credential oracled_lookup-token or the variable \
             LOOKUP_TOKEN",
        ));
    }
    let timeout = Duration::from_millis(section.timeout_ms);
    let client = LookupClient::new(definition, token, &setup.network, timeout, setup.clock.clone());
    client.map(Some).map_err(|error| unusable_error("lookup.session_url", error))
}

/// The error if customers' data would cross a network in clear text.
fn lookup_cleartext_fault(section: &LookupSection, allow_local: &[IpNet]) -> Option<ConfigError> {
    let url = section.session_url.as_deref()?;
    crosses_in_cleartext(url, allow_local).then(|| ConfigError::Cleartext {
        key: "lookup.session_url".to_owned(),
        given: redact_url(url),
        what: "customers' addresses and queries",
        remedy: "use https://, or a numeric address within `ingestion.allow_local`",
    })
}

fn unusable_error(key: &str, why: impl Display) -> ConfigError {
    ConfigError::NotUnderstood(format!("`{key}`: {why}"))
}

/// Base URL of Google's API.
const GEMINI_BASE: &str = "https://generativelanguage.googleapis.com";
/// Base URL of OpenAI's API.
const OPENAI_BASE: &str = "https://api.openai.com/v1";
/// Base URL of Anthropic's API.
const ANTHROPIC_BASE: &str = "https://api.anthropic.com";
/// Time limit of a probe. `oracle_health` has the same limit.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The client of a model, and the configuration key of its API key.
#[derive(Debug)]
struct ReloadableModel {
    key: String,
    client: Reloadable<dyn ModelClient>,
}

/// The clients of all models.
#[derive(Debug, Default)]
struct ModelClients {
    models: ConfiguredModels,
    calls: CallLimits,
    oracles: Vec<MonitoredOracle>,
    /// The clients that a reload replaces.
    reloadable: Vec<ReloadableModel>,
}

impl ModelClients {
    /// The clients for `all`: none if the first model has no key. Adds the faults of all models to `setup`, and keys that
    /// would cross a network in clear text.
    fn new(all: &dyn Configuration, setup: &mut ClientSetup<'_>) -> Self {
        let mut clients = Self::default();
        let applications = all.section::<ApplicationSections>();
        let own = applications.iter();
        let own = own
            .filter_map(|(name, section)| Some((name.clone(), NonZeroU32::new(section.calls_per_minute?)?)));
        clients.calls.applications = own.collect();
        for entry in model_entries(all) {
            let Some(key) = setup.collect(read_model_key(&entry)) else { continue };
            if let Some(key) = &key {
                setup.digests.record(format!("{}.api_key_file", entry.table), key);
            }
            setup.cleartext.extend(cleartext_key_fault(&entry, key.as_ref()));
            match create_client(&entry, key, setup.clock) {
                Ok(Some(client)) => clients.add(all, &entry, client, setup.clock),
                Ok(None) if all.section::<FurtherModels>().is_empty() => {}
                Ok(None) => setup.faults.push(no_key_error(&entry)),
                Err(fault) => setup.faults.push(fault),
            }
        }
        clients.models.own_orders = clients.own_orders(applications);
        clients
    }

    /// The models of the applications that name some. There are none without a first model.
    fn own_orders(
        &self,
        applications: &ApplicationSections,
    ) -> BTreeMap<ApplicationName, Vec<Arc<ConfiguredModel>>> {
        let all = || self.models.order.iter().chain(&self.models.others);
        let find = |name: &String| all().find(|model| model.oracle_id().as_str() == name).cloned();
        let models = |names: &[String]| names.iter().filter_map(find).collect::<Vec<_>>();
        let names = |section: &ApplicationSection| models(section.models.as_deref().unwrap_or_default());
        let own = applications.iter().map(|(name, section)| (name.clone(), names(section)));
        own.filter(|(_, models)| !models.is_empty()).collect()
    }

    fn add(
        &mut self,
        all: &dyn Configuration,
        entry: &ModelEntry<'_>,
        client: Arc<dyn ModelClient>,
        clock: &Clock,
    ) {
        let ModelEntry { oracle_id: id, section, is_in_order, .. } = entry;
        let client = Reloadable::new(client);
        let key = format!("{}.api_key_file", entry.table);
        self.reloadable.push(ReloadableModel { key, client: client.clone() });
        let probe = ModelProbe { model: client.clone(), name: section.model_name().to_owned() };
        let probe: Option<Arc<dyn OracleProbe>> = Some(Arc::new(probe));
        self.oracles.push(MonitoredOracle {
            id: id.clone(),
            config: *all.section::<OracleHealthConfig>(),
            probe,
        });
        let per_minute = NonZeroU32::new(section.calls_per_minute).unwrap_or(NonZeroU32::MIN);
        self.calls.models.insert(id.clone(), ModelCallLimits { per_minute, at_once: section.calls_at_once });
        let caller = ModelCaller::new(id.clone(), Arc::new(client), call_policy(section), clock.clone());
        let caller = caller.with_prices(section.prices(&all.section::<CostsSection>().currency));
        let model = Arc::new(ConfiguredModel::new(caller, section.original_settings()));
        if *is_in_order { self.models.order.push(model) } else { self.models.others.push(model) }
    }
}

fn call_policy(config: &ModelSection) -> ModelCallPolicy {
    ModelCallPolicy {
        soft_timeout: Duration::from_millis(config.soft_timeout_ms),
        hard_timeout: Duration::from_millis(config.hard_timeout_ms),
        deadline: Duration::from_millis(config.deadline_ms),
        max_retries: config.max_retries,
    }
}

/// The key of a model, if it has one.
fn read_model_key(entry: &ModelEntry<'_>) -> Result<Option<SecretString>, ConfigError> {
    let ModelEntry { oracle_id, table, section, is_first_of_provider, .. } = entry;
    let (credential, variable) = match section.provider {
        ModelProvider::None | ModelProvider::Canned => return Ok(None),
        ModelProvider::Gemini => ("gemini-api-key", "GEMINI_API_KEY"),
        ModelProvider::OpenAi => ("openai-api-key", "OPENAI_API_KEY"),
        ModelProvider::Anthropic => ("anthropic-api-key", "ANTHROPIC_API_KEY"),
    };
    let (key, file) = (format!("{table}.api_key_file"), section.api_key_file.as_deref());
    if table == "model" {
        return read_secret(credential, &key, file, variable);
    }
    match read_configured_secret(&format!("{oracle_id}-api-key"), &key, file)? {
        None if *is_first_of_provider => read_secret(credential, &key, None, variable),
        own => Ok(own),
    }
}

/// The error if the model's key would cross a network in clear text.
fn cleartext_key_fault(entry: &ModelEntry<'_>, secret: Option<&SecretString>) -> Option<ConfigError> {
    let base = entry.section.base_url.as_deref().filter(|base| is_cleartext(base, |_| false))?;
    let (key, given) = (format!("{}.base_url", entry.table), redact_url(base));
    let (what, remedy) = ("the model's key", "use https://");
    secret.map(|_| ConfigError::Cleartext { key, given, what, remedy })
}

/// The error for a model without a key, if several models are configured.
fn no_key_error(entry: &ModelEntry<'_>) -> ConfigError {
    ConfigError::NotAllowed {
        key: format!("{}.api_key_file", entry.table),
        variable: None,
        given: "not set".into(),
        allowed: format!(
            "a file with the API key of this model, or the systemd credential `oracled_{}-api-key`",
            entry.oracle_id
        ),
    }
}

/// The client of a model; `None` if the API of Google or Anthropic, or OpenAI's own server, has no key.
fn create_client(
    entry: &ModelEntry<'_>,
    key: Option<SecretString>,
    clock: &Clock,
) -> Result<Option<Arc<dyn ModelClient>>, ConfigError> {
    let config = entry.section;
    let base = |default| config.base_url.as_deref().unwrap_or(default);
    let unusable = |error| unusable_model(&entry.table, &error);
    let client: Arc<dyn ModelClient> = match (config.provider, key) {
        (ModelProvider::None, _) | (ModelProvider::Gemini | ModelProvider::Anthropic, None) => {
            return Ok(None);
        }
        (ModelProvider::Canned, _) => Arc::new(CannedModel::default()),
        // a self-hosted server may require no key
        (ModelProvider::OpenAi, None) if config.base_url.is_none() => return Ok(None),
        (ModelProvider::Gemini, Some(key)) => {
            let version = config.version.clone();
            Arc::new(GeminiClient::new(base(GEMINI_BASE), version, key, clock.clone()).map_err(unusable)?)
        }
        (ModelProvider::OpenAi, key) => {
            Arc::new(OpenAiClient::new(base(OPENAI_BASE), key, clock.clone()).map_err(unusable)?)
        }
        (ModelProvider::Anthropic, Some(key)) => {
            Arc::new(AnthropicClient::new(base(ANTHROPIC_BASE), key, clock.clone()).map_err(unusable)?)
        }
    };
    Ok(Some(client))
}

fn unusable_model(table: &str, error: &UpstreamEndpointError) -> ConfigError {
    let what = match error {
        UpstreamEndpointError::BadKey => "the model's key".to_owned(),
        _ => format!("`{table}.base_url`"),
    };
    ConfigError::NotUnderstood(format!("{what}: {error}"))
}

/// Probes whether the model answers.
#[derive(Debug)]
struct ModelProbe {
    model: Reloadable<dyn ModelClient>,
    name: String,
}

impl OracleProbe for ModelProbe {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        Box::pin(async {
            match self.model.probe(&self.name, PROBE_TIMEOUT).await {
                Ok(()) => CircuitCallOutcome::Success { latency_ms: None },
                Err(failure) => failure.probe_outcome(),
            }
        })
    }
}
