//! Clients of the configured upstream systems.

mod credentials;
mod lookup;
mod mail;
mod models;
mod reload;
mod webhooks;
mod witnesses;

use crate::platform::config::{ConfigError, DaemonConfig};
use crate::platform::secret::SecretDigests;
use credentials::read_credentials;
use jiff::SignedDuration;
use models::ModelClients;
use oracled_actors::Clock;
use oracled_actors::ground::pull::PayloadPuller;
use oracled_actors::upstream::lookup::LookupClient;
use oracled_actors::upstream::mail::MailService;
use oracled_actors::upstream::oracle::{HttpLiveOracle, LiveOracle};
use oracled_actors::upstream::oracle_health::MonitoredOracle;
use oracled_actors::upstream::reloadable::Reloadable;
use oracled_actors::upstream::witnesses::Witnesses;
use oracled_actors::verdict::generation::ConfiguredModels;
use oracled_actors::verdict::notifier::NotifierConfig;
use oracled_actors::verdict::rate_limiter::CallLimits;
use oracled_actors::verdict::webhooks::WebhookConfig;
use reload::ServiceClients;
pub use reload::{CredentialChange, ReloadableClients};
use std::sync::Arc;

/// The clients of upstream systems.
#[derive(Debug)]
pub struct UpstreamClients {
    pub models: ConfiguredModels,
    pub calls: CallLimits,
    /// The payment service at which unknown sessions are looked up.
    pub lookup: Option<Reloadable<LookupClient>>,
    /// The mail service.
    pub mailing: NotifierConfig,
    /// The endpoints of webhooks.
    pub webhooks: WebhookConfig,
    /// The client that pulls payloads of sources.
    pub puller: Reloadable<PayloadPuller>,
    /// The client of live sources.
    pub live: Reloadable<dyn LiveOracle>,
    /// The witnesses of the log.
    pub witnesses: Witnesses,
    /// All upstream systems with a health check.
    pub oracles: Vec<MonitoredOracle>,
    /// Secrets that cross a network in clear text, as `--allow-cleartext` permits.
    pub cleartext: Vec<ConfigError>,
    /// The same clients, for reloads.
    pub clients: ReloadableClients,
}

/// Secrets of services other than models that would cross a network in clear text.
fn cleartext_faults(config: &DaemonConfig) -> impl Iterator<Item = ConfigError> {
    let services = mail::cleartext_fault(&config.mail).into_iter().chain(lookup::cleartext_fault(config));
    services.chain(credentials::cleartext_faults(config))
}

/// The mail service and the payment service, as far as they are configured, with their health checks.
fn monitored_services(
    config: &DaemonConfig,
    mail: Option<&Reloadable<dyn MailService>>,
    has_lookup: bool,
) -> Vec<MonitoredOracle> {
    let mail = mail.map(|service| MonitoredOracle {
        id: service.oracle_id(),
        config: config.health,
        probe: Some(Arc::new(service.clone())),
    });
    let lookup = has_lookup.then(|| MonitoredOracle {
        id: LookupClient::oracle_id(),
        config: config.health,
        probe: None,
    });
    mail.into_iter().chain(lookup).collect()
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
        let (mut faults, mut digests) = (Vec::new(), SecretDigests::default());
        let ModelClients { models, calls, mut oracles, mut cleartext, reloadable: reloadable_models } =
            ModelClients::new(config, clock, &mut digests, &mut faults);
        cleartext.extend(cleartext_faults(config));
        if !allow_cleartext && !cleartext.is_empty() {
            faults.append(&mut cleartext);
            return Err(ConfigError::Several(faults));
        }
        let service = mail::create_mail_service(&config.mail, &config.applications, clock, &mut digests);
        let service = ConfigError::collect(service, &mut faults);
        let lookup = lookup::create_lookup_client(config, clock, allow_cleartext, &mut digests);
        let lookup = ConfigError::collect(lookup, &mut faults);
        let of_pipelines =
            read_credentials("ingestion.credentials", &config.ingestion.credentials, &mut digests);
        let of_pipelines = ConfigError::collect(of_pipelines, &mut faults);
        let of_sources =
            read_credentials("verification.credentials", &config.verification.credentials, &mut digests);
        let of_sources = ConfigError::collect(of_sources, &mut faults);
        let webhooks = webhooks::create_webhooks(config, clock, allow_cleartext, &mut digests);
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
        let service = service.map(Reloadable::<dyn MailService>::new);
        let lookup = lookup.map(|client| Reloadable::new(Arc::new(client)));
        oracles.extend(monitored_services(config, service.as_ref(), lookup.is_some()));
        let mailing = NotifierConfig {
            service: service.clone().map(|service| Arc::new(service) as Arc<dyn MailService>),
            max_age: SignedDuration::from_secs(config.mail.max_age_s.into()),
            templates: config.mail_templates(),
            contacts: config.contacts(),
        };
        let settings = config.ingestion.to_pull_settings(allow_cleartext);
        let puller = Reloadable::new(Arc::new(PayloadPuller::new(settings, of_pipelines, clock.clone())));
        let settings = config.ingestion.to_live_settings(allow_cleartext);
        let live = Arc::new(HttpLiveOracle::new(&settings, of_sources, clock.clone()));
        let live = Reloadable::<dyn LiveOracle>::new(live);
        let others = ServiceClients {
            mail: service,
            lookup: lookup.clone(),
            webhooks: webhooks.client.clone(),
            puller: puller.clone(),
            live: live.clone(),
        };
        let clients = ReloadableClients::new(reloadable_models, others, digests);
        Ok(Self {
            models,
            calls,
            lookup,
            mailing,
            webhooks,
            puller,
            live,
            witnesses,
            oracles,
            cleartext,
            clients,
        })
    }

    /// Logs a warning for each secret that crosses a network in clear text.
    pub fn warn_of_cleartext(&self) {
        for fault in &self.cleartext {
            tracing::warn!(%fault, "secrets cross the network in clear text: --allow-cleartext");
        }
    }
}
