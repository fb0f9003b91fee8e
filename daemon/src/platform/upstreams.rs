//! Clients of the configured upstream systems.

mod credentials;
mod mail;

use crate::platform::config::{
    ConfigError, DaemonConfig, ModelProvider, ModelSection as ModelConfig, is_cleartext, redact_url,
};
use crate::platform::secret::read_secret;
use credentials::read_credentials;
use jiff::SignedDuration;
use oracled_actors::Clock;
use oracled_actors::ground::pull::PayloadPuller;
use oracled_actors::upstream::oracle::HttpLiveOracle;
use oracled_actors::upstream::oracle_health::{MonitoredOracle, OracleProbe};
use oracled_actors::upstream::{
    BoxFuture, GeminiClient, ModelCallPolicy, ModelCaller, ModelClient, OpenAiClient, UpstreamEndpointError,
};
use oracled_actors::verdict::generation::ConfiguredModel;
use oracled_actors::verdict::notifier::NotifierConfig;
use oracled_actors::verdict::rate_limiter::ModelCallLimits;
use oracled_domain::OracleId;
use oracled_domain::verdict::health::CircuitCallOutcome;
use secrecy::SecretString;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Base URL of Google's API.
const GEMINI_BASE: &str = "https://generativelanguage.googleapis.com";
/// Base URL of OpenAI's API.
const OPENAI_BASE: &str = "https://api.openai.com/v1";
/// Time limit of a probe. `oracle_health` has the same limit.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The clients of upstream systems.
#[derive(Debug)]
pub struct UpstreamClients {
    pub model: Option<ConfiguredModel>,
    /// The rate limits of model calls.
    pub calls: ModelCallLimits,
    /// The mail service.
    pub mailing: NotifierConfig,
    /// The client that pulls payloads of sources.
    pub puller: PayloadPuller,
    /// The client of live sources.
    pub live: HttpLiveOracle,
    /// All upstream systems with a health check.
    pub oracles: Vec<MonitoredOracle>,
    /// Secrets that cross a network in clear text, as `--allow-cleartext` permits.
    pub cleartext: Vec<ConfigError>,
}

impl UpstreamClients {
    /// The clients for `config`. No connection is opened yet.
    ///
    /// # Errors
    /// If an address, a key or a file cannot be used, or if a secret would cross a network in clear text without
    /// `allow_cleartext`.
    pub fn from_config(
        config: &DaemonConfig,
        clock: &Clock,
        allow_cleartext: bool,
    ) -> Result<Self, ConfigError> {
        let per_minute = NonZeroU32::new(config.model.calls_per_minute).unwrap_or(NonZeroU32::MIN);
        let own = config
            .applications
            .iter()
            .filter_map(|(name, section)| Some((name.clone(), NonZeroU32::new(section.calls_per_minute?)?)));
        let calls =
            ModelCallLimits { per_minute, at_once: config.model.calls_at_once, applications: own.collect() };
        let model = create_model(&config.model, clock)?;
        let mut cleartext = Vec::from_iter(cleartext_key_fault(&config.model)?);
        cleartext.extend(mail::cleartext_fault(&config.mail));
        cleartext.extend(credentials::cleartext_faults(config));
        if !allow_cleartext && !cleartext.is_empty() {
            return Err(cleartext.remove(0));
        }
        let mut oracles = Vec::new();
        let model = model.map(|model| {
            let name = config.model.name.clone();
            let oracle_id: OracleId = model.oracle_id().parse().expect("a valid oracle id");
            let probe: Arc<dyn OracleProbe> =
                Arc::new(ModelProbe { model: Arc::clone(&model), name: name.clone() });
            oracles.push(MonitoredOracle {
                id: oracle_id.clone(),
                config: config.health,
                probe: Some(probe),
            });
            let caller = ModelCaller::new(model, call_policy(&config.model), clock.clone());
            ConfiguredModel::new(oracle_id, caller, name, config.model.original_settings())
        });
        let service = mail::create_mail_service(&config.mail, &config.applications, clock)?;
        oracles.extend(service.as_ref().map(|service| MonitoredOracle {
            id: service.oracle_id(),
            config: config.health,
            probe: Some(Arc::clone(service) as Arc<dyn OracleProbe>),
        }));
        let mailing =
            NotifierConfig { service, max_age: SignedDuration::from_secs(config.mail.max_age_s.into()) };
        let of_pipelines = read_credentials("ingestion.credentials", &config.ingestion.credentials)?;
        let puller = PayloadPuller::new(
            config.ingestion.to_pull_settings(allow_cleartext),
            of_pipelines,
            clock.clone(),
        );
        let of_sources = read_credentials("verification.credentials", &config.verification.credentials)?;
        let live = HttpLiveOracle::new(
            &config.ingestion.to_live_settings(allow_cleartext),
            of_sources,
            clock.clone(),
        );
        Ok(Self { model, calls, mailing, puller, live, oracles, cleartext })
    }

    /// Logs a warning for each secret that crosses a network in clear text.
    pub fn warn_of_cleartext(&self) {
        for fault in &self.cleartext {
            tracing::warn!(%fault, "secrets cross the network in clear text: --allow-cleartext");
        }
    }
}

fn call_policy(config: &ModelConfig) -> ModelCallPolicy {
    ModelCallPolicy {
        soft_timeout: Duration::from_millis(config.soft_timeout_ms),
        hard_timeout: Duration::from_millis(config.hard_timeout_ms),
        deadline: Duration::from_millis(config.deadline_ms),
        max_retries: config.max_retries,
    }
}

/// The key of the model, if its provider uses one.
fn read_model_key(config: &ModelConfig) -> Result<Option<SecretString>, ConfigError> {
    let file = config.api_key_file.as_deref();
    match config.provider {
        ModelProvider::None => Ok(None),
        ModelProvider::Gemini => read_secret("gemini-api-key", "model.api_key_file", file, "GEMINI_API_KEY"),
        ModelProvider::OpenAi => read_secret("openai-api-key", "model.api_key_file", file, "OPENAI_API_KEY"),
    }
}

/// The error if the model's key would cross a network in clear text.
fn cleartext_key_fault(config: &ModelConfig) -> Result<Option<ConfigError>, ConfigError> {
    let Some(base) = config.base_url.as_deref().filter(|base| is_cleartext(base, |_| false)) else {
        return Ok(None);
    };
    let (key_of_url, given) = ("model.base_url".to_owned(), redact_url(base));
    let (what, remedy) = ("the model's key", "use https://");
    Ok(read_model_key(config)?.map(|_| ConfigError::Cleartext { key: key_of_url, given, what, remedy }))
}

/// The model; `None` if there is none, or if Google's API or OpenAI's own server has no key.
fn create_model(config: &ModelConfig, clock: &Clock) -> Result<Option<Arc<dyn ModelClient>>, ConfigError> {
    let key = read_model_key(config)?;
    let base = |default| config.base_url.as_deref().unwrap_or(default);
    let model: Arc<dyn ModelClient> = match config.provider {
        ModelProvider::None => return Ok(None),
        ModelProvider::Gemini => {
            let Some(key) = key else { return Ok(None) };
            let version = config.version.clone();
            Arc::new(
                GeminiClient::new(base(GEMINI_BASE), version, key, clock.clone()).map_err(unusable_error)?,
            )
        }
        ModelProvider::OpenAi => {
            // a self-hosted server may require no key
            if key.is_none() && config.base_url.is_none() {
                return Ok(None);
            }
            let base = base(OPENAI_BASE);
            Arc::new(OpenAiClient::new(base, key, config.send_top_k, clock.clone()).map_err(unusable_error)?)
        }
    };
    Ok(Some(model))
}

fn unusable_error(error: UpstreamEndpointError) -> ConfigError {
    let what =
        if matches!(error, UpstreamEndpointError::BadKey) { "the model's key" } else { "`model.base_url`" };
    ConfigError::NotUnderstood(format!("{what}: {error}"))
}

/// Probes whether the model answers.
#[derive(Debug)]
struct ModelProbe {
    model: Arc<dyn ModelClient>,
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
