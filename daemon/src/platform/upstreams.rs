//! Clients of the configured upstream systems.

mod credentials;
mod mail;

use crate::platform::config::{Config, ConfigError, Model as ModelConfig, Provider, is_cleartext, shown_url};
use crate::platform::secret::secret;
use credentials::credentials;
use jiff::SignedDuration;
use oracled_actors::Clock;
use oracled_actors::ground::pull::Puller;
use oracled_actors::upstream::oracle::HttpOracles;
use oracled_actors::upstream::oracle_health::{Oracle, Probe};
use oracled_actors::upstream::{BadEndpoint, BoxFuture, CallPolicy, Caller, Gemini, Model, OpenAi};
use oracled_actors::verdict::notifier::Mailing;
use oracled_actors::verdict::rate_limiter::CallLimits;
use oracled_actors::verdict::regen::AskedModel;
use oracled_domain::OracleId;
use oracled_domain::verdict::health::Outcome;
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
pub struct Upstreams {
    /// The model.
    pub model: Option<AskedModel>,
    /// The rate limits of model calls.
    pub calls: CallLimits,
    /// The mail service.
    pub mailing: Mailing,
    /// The client that pulls payloads of sources.
    pub puller: Puller,
    /// The client of live sources.
    pub live: HttpOracles,
    /// All upstream systems with a health check.
    pub oracles: Vec<Oracle>,
    /// Secrets that cross a network in clear text, as `--allow-cleartext` permits.
    pub cleartext: Vec<ConfigError>,
}

impl Upstreams {
    /// The clients for `config`. No connection is opened yet.
    ///
    /// # Errors
    /// If an address, a key or a file cannot be used, or if a secret would cross a network in clear text without
    /// `allow_cleartext`.
    pub fn of(config: &Config, clock: &Clock, allow_cleartext: bool) -> Result<Self, ConfigError> {
        let per_minute = NonZeroU32::new(config.model.calls_per_minute).unwrap_or(NonZeroU32::MIN);
        let calls = CallLimits { per_minute, at_once: config.model.calls_at_once };
        let model = model(&config.model, clock)?;
        let mut cleartext = Vec::from_iter(cleartext_key(&config.model)?);
        cleartext.extend(mail::cleartext(&config.mail));
        cleartext.extend(credentials::cleartext(config));
        if !allow_cleartext && !cleartext.is_empty() {
            return Err(cleartext.remove(0));
        }
        let mut oracles = Vec::new();
        let asked = model.map(|model| {
            let name = config.model.name.clone();
            let oracle_id: OracleId = model.oracle_id().parse().expect("a wire's name is an oracle's");
            let probe: Arc<dyn Probe> = Arc::new(OfModel { model: Arc::clone(&model), name: name.clone() });
            oracles.push(Oracle { id: oracle_id.clone(), config: config.health, probe: Some(probe) });
            let caller = Caller::new(model, policy(&config.model), clock.clone());
            AskedModel::new(oracle_id, caller, name, config.model.original_settings())
        });
        let service = mail::service(&config.mail, clock)?;
        oracles.extend(service.as_ref().map(|service| Oracle {
            id: service.oracle_id(),
            config: config.health,
            probe: Some(Arc::clone(service) as Arc<dyn Probe>),
        }));
        let mailing = Mailing { service, max_age: SignedDuration::from_secs(config.mail.max_age_s.into()) };
        let of_pipelines = credentials("ingestion.credentials", &config.ingestion.credentials)?;
        let puller = Puller::new(config.ingestion.to_settings(allow_cleartext), of_pipelines, clock.clone());
        let of_sources = credentials("verification.credentials", &config.verification.credentials)?;
        let live = HttpOracles::new(&config.ingestion.to_live(allow_cleartext), of_sources, clock.clone());
        Ok(Self { model: asked, calls, mailing, puller, live, oracles, cleartext })
    }

    /// Logs a warning for each secret that crosses a network in clear text.
    pub fn warn_of_cleartext(&self) {
        for fault in &self.cleartext {
            tracing::warn!(%fault, "secrets cross the network in clear text: --allow-cleartext");
        }
    }
}

fn policy(config: &ModelConfig) -> CallPolicy {
    CallPolicy {
        soft_timeout: Duration::from_millis(config.soft_timeout_ms),
        hard_timeout: Duration::from_millis(config.hard_timeout_ms),
        deadline: Duration::from_millis(config.deadline_ms),
        max_retries: config.max_retries,
    }
}

/// The key of the model, if its provider uses one.
fn key(config: &ModelConfig) -> Result<Option<SecretString>, ConfigError> {
    let file = config.api_key_file.as_deref();
    match config.provider {
        Provider::None => Ok(None),
        Provider::Gemini => secret("gemini-api-key", "model.api_key_file", file, "GEMINI_API_KEY"),
        Provider::OpenAi => secret("openai-api-key", "model.api_key_file", file, "OPENAI_API_KEY"),
    }
}

/// The error if the model's key would cross a network in clear text.
fn cleartext_key(config: &ModelConfig) -> Result<Option<ConfigError>, ConfigError> {
    let Some(base) = config.base_url.as_deref().filter(|base| is_cleartext(base, |_| false)) else {
        return Ok(None);
    };
    let (key_of_url, given) = ("model.base_url".to_owned(), shown_url(base));
    let (what, remedy) = ("the model's key", "use https://");
    Ok(key(config)?.map(|_| ConfigError::Cleartext { key: key_of_url, given, what, remedy }))
}

/// The model; `None` if there is none, or if Google's API or OpenAI's own server has no key.
fn model(config: &ModelConfig, clock: &Clock) -> Result<Option<Arc<dyn Model>>, ConfigError> {
    let key = key(config)?;
    let base = |default| config.base_url.as_deref().unwrap_or(default);
    let model: Arc<dyn Model> = match config.provider {
        Provider::None => return Ok(None),
        Provider::Gemini => {
            let Some(key) = key else { return Ok(None) };
            let version = config.version.clone();
            Arc::new(Gemini::new(base(GEMINI_BASE), version, key, clock.clone()).map_err(unusable)?)
        }
        Provider::OpenAi => {
            // a self-hosted server may require no key
            if key.is_none() && config.base_url.is_none() {
                return Ok(None);
            }
            let base = base(OPENAI_BASE);
            Arc::new(OpenAi::new(base, key, config.send_top_k, clock.clone()).map_err(unusable)?)
        }
    };
    Ok(Some(model))
}

fn unusable(error: BadEndpoint) -> ConfigError {
    let what = if matches!(error, BadEndpoint::BadKey) { "the model's key" } else { "`model.base_url`" };
    ConfigError::NotUnderstood(format!("{what}: {error}"))
}

/// Probes whether the model answers.
#[derive(Debug)]
struct OfModel {
    model: Arc<dyn Model>,
    name: String,
}

impl Probe for OfModel {
    fn probe(&self) -> BoxFuture<'_, Outcome> {
        Box::pin(async {
            match self.model.probe(&self.name, PROBE_TIMEOUT).await {
                Ok(()) => Outcome::Success { latency_ms: None },
                Err(failure) => failure.probed(),
            }
        })
    }
}
