//! Clients of the configured upstream systems.

mod credentials;
mod lookup;
mod mail;
mod models;
mod webhooks;
mod witnesses;

use crate::platform::config::{ConfigError, DaemonConfig};
use credentials::read_credentials;
use jiff::SignedDuration;
use models::ModelClients;
use oracled_actors::Clock;
use oracled_actors::ground::pull::PayloadPuller;
use oracled_actors::upstream::lookup::LookupClient;
use oracled_actors::upstream::oracle::HttpLiveOracle;
use oracled_actors::upstream::oracle_health::{MonitoredOracle, OracleProbe};
use oracled_actors::upstream::witnesses::Witnesses;
use oracled_actors::verdict::generation::ConfiguredModels;
use oracled_actors::verdict::notifier::NotifierConfig;
use oracled_actors::verdict::rate_limiter::CallLimits;
use oracled_actors::verdict::webhooks::WebhookConfig;
use std::sync::Arc;

/// The clients of upstream systems.
#[derive(Debug)]
pub struct UpstreamClients {
    pub models: ConfiguredModels,
    pub calls: CallLimits,
    /// The payment service at which unknown sessions are looked up.
    pub lookup: Option<LookupClient>,
    /// The mail service.
    pub mailing: NotifierConfig,
    /// The endpoints of webhooks.
    pub webhooks: WebhookConfig,
    /// The client that pulls payloads of sources.
    pub puller: PayloadPuller,
    /// The client of live sources.
    pub live: HttpLiveOracle,
    /// The witnesses of the log.
    pub witnesses: Witnesses,
    /// All upstream systems with a health check.
    pub oracles: Vec<MonitoredOracle>,
    /// Secrets that cross a network in clear text, as `--allow-cleartext` permits.
    pub cleartext: Vec<ConfigError>,
}

impl UpstreamClients {
    /// The clients for `config`. No connection is opened yet.
    ///
    /// # Errors
    /// The faults that were found. Secrets that would cross a network in clear text without `allow_cleartext` come first.
    pub fn from_config(
        config: &DaemonConfig,
        clock: &Clock,
        allow_cleartext: bool,
    ) -> Result<Self, ConfigError> {
        let mut faults = Vec::new();
        let ModelClients { models, calls, mut oracles, mut cleartext } =
            ModelClients::new(config, clock, &mut faults);
        cleartext.extend(mail::cleartext_fault(&config.mail));
        cleartext.extend(lookup::cleartext_fault(config));
        cleartext.extend(credentials::cleartext_faults(config));
        if !allow_cleartext && !cleartext.is_empty() {
            faults.append(&mut cleartext);
            return Err(ConfigError::Several(faults));
        }
        let service = mail::create_mail_service(&config.mail, &config.applications, clock);
        let service = ConfigError::collect(service, &mut faults);
        let lookup = lookup::create_lookup_client(config, clock, allow_cleartext);
        let lookup = ConfigError::collect(lookup, &mut faults);
        let of_pipelines = read_credentials("ingestion.credentials", &config.ingestion.credentials);
        let of_pipelines = ConfigError::collect(of_pipelines, &mut faults);
        let of_sources = read_credentials("verification.credentials", &config.verification.credentials);
        let of_sources = ConfigError::collect(of_sources, &mut faults);
        let webhooks = webhooks::create_webhooks(config, clock, allow_cleartext);
        let webhooks = ConfigError::collect(webhooks, &mut faults);
        let witnesses = witnesses::create_witnesses(config, clock, allow_cleartext);
        let witnesses = ConfigError::collect(witnesses, &mut faults);
        let (
            Some(service),
            Some(lookup),
            Some(of_pipelines),
            Some(of_sources),
            Some(webhooks),
            Some(witnesses),
            [],
        ) = (service, lookup, of_pipelines, of_sources, webhooks, witnesses, &faults[..])
        else {
            return Err(ConfigError::Several(faults));
        };
        oracles.extend(service.as_ref().map(|service| MonitoredOracle {
            id: service.oracle_id(),
            config: config.health,
            probe: Some(Arc::clone(service) as Arc<dyn OracleProbe>),
        }));
        oracles.extend(lookup.as_ref().map(|_| MonitoredOracle {
            id: LookupClient::oracle_id(),
            config: config.health,
            probe: None,
        }));
        let mailing = NotifierConfig {
            service,
            max_age: SignedDuration::from_secs(config.mail.max_age_s.into()),
            templates: config.mail_templates(),
            contacts: config.contacts(),
        };
        let puller = PayloadPuller::new(
            config.ingestion.to_pull_settings(allow_cleartext),
            of_pipelines,
            clock.clone(),
        );
        let live = HttpLiveOracle::new(
            &config.ingestion.to_live_settings(allow_cleartext),
            of_sources,
            clock.clone(),
        );
        Ok(Self { models, calls, lookup, mailing, webhooks, puller, live, witnesses, oracles, cleartext })
    }

    /// Logs a warning for each secret that crosses a network in clear text.
    pub fn warn_of_cleartext(&self) {
        for fault in &self.cleartext {
            tracing::warn!(%fault, "secrets cross the network in clear text: --allow-cleartext");
        }
    }
}
