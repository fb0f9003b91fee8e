//! The clients of all configured upstream systems, and their reload.
//!
//! A reload reads all credentials before a client is replaced. The clients have the configuration of the start, and new
//! credentials.

use super::platform::config::credentials::SecretDigests;
use crate::config::DaemonConfig;
use crate::platform::config::ConfigError;
use crate::platform::config::credentials::ClientSetup;
use crate::verdict::upstreams::{ModelClients, ReloadableModel, ServiceClients, cleartext_faults};
use actors_ground::pull::PayloadPuller;
use actors_platform::clock::Clock;
use actors_upstream::oracle::LiveOracle;
use actors_upstream::oracle_health::MonitoredOracle;
use actors_upstream::reloadable::Reloadable;
use actors_upstream::witnesses::Witnesses;
use actors_verdict::generation::ConfiguredModels;
use actors_verdict::rate_limiter::CallLimits;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// The faults that were found. Secrets that would cross a network in clear text without `allow_cleartext` come first.
    pub fn from_config(
        config: &DaemonConfig,
        clock: &Clock,
        allow_cleartext: bool,
    ) -> Result<Self, ConfigError> {
        let mut setup = ClientSetup::new(clock, config.ingestion.to_live_settings(allow_cleartext));
        let ModelClients { models, calls, mut oracles, reloadable } = ModelClients::new(config, &mut setup);
        let allow_local = &setup.network.allow_local;
        setup.cleartext.extend(cleartext_faults(config, allow_local));
        setup.cleartext.extend(config.ingestion.cleartext_faults(allow_local));
        setup.cleartext.extend(config.verification.cleartext_faults(allow_local));
        if !allow_cleartext && !setup.cleartext.is_empty() {
            setup.faults.append(&mut setup.cleartext);
            return Err(ConfigError::Several(setup.faults));
        }
        let services = ServiceClients::new(config, &mut setup);
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
        allow_cleartext: bool,
    ) -> Result<CredentialChange, ConfigError> {
        let new = UpstreamClients::from_config(config, clock, allow_cleartext)?.clients;
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
