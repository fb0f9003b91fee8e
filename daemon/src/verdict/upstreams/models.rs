//! Clients of the configured models.

use crate::platform::config::credentials::ClientSetup;
use crate::platform::config::secrets::{read_configured_secret, read_secret};
use crate::platform::config::{ConfigError, Configuration, is_cleartext, redact_url};
use crate::verdict::config::CostsSection;
use crate::verdict::config::applications::{ApplicationSection, ApplicationSections};
use crate::verdict::config::models::{FurtherModels, ModelEntry, ModelProvider, ModelSection, model_entries};
use actors_platform::clock::Clock;
use actors_upstream::oracle_health::{MonitoredOracle, OracleProbe};
use actors_upstream::reloadable::Reloadable;
use actors_upstream::{
    AnthropicClient, BoxFuture, GeminiClient, ModelCallPolicy, ModelCaller, ModelClient, OpenAiClient,
    UpstreamEndpointError,
};
use actors_verdict::generation::{ConfiguredModel, ConfiguredModels};
use actors_verdict::rate_limiter::{CallLimits, ModelCallLimits};
use domain_base::application::ApplicationName;
use domain_upstream::health::{CircuitCallOutcome, OracleHealthConfig};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

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
pub(crate) struct ReloadableModel {
    pub(crate) key: String,
    pub(crate) client: Reloadable<dyn ModelClient>,
}

/// The clients of all models.
#[derive(Debug, Default)]
pub(crate) struct ModelClients {
    pub(crate) models: ConfiguredModels,
    pub(crate) calls: CallLimits,
    pub(crate) oracles: Vec<MonitoredOracle>,
    /// The clients that a reload replaces.
    pub(crate) reloadable: Vec<ReloadableModel>,
}

impl ModelClients {
    /// The clients for `all`: none if the first model has no key. Adds the faults of all models to `setup`, and keys that
    /// would cross a network in clear text.
    pub(crate) fn new(all: &dyn Configuration, setup: &mut ClientSetup<'_>) -> Self {
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
        let probe = ModelProbe { model: client.clone(), name: section.name.clone() };
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
        ModelProvider::None => return Ok(None),
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
    let unusable = |error| unusable_error(&entry.table, &error);
    let client: Arc<dyn ModelClient> = match (config.provider, key) {
        (ModelProvider::None, _) | (ModelProvider::Gemini | ModelProvider::Anthropic, None) => {
            return Ok(None);
        }
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

fn unusable_error(table: &str, error: &UpstreamEndpointError) -> ConfigError {
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
