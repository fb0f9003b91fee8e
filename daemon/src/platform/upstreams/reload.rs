//! Reads the credentials of upstream systems again.
//!
//! All of them are read before a client is replaced. The clients have the configuration of the start, and new credentials.

use super::UpstreamClients;
use crate::platform::config::{ConfigError, DaemonConfig};
use crate::platform::secret::SecretDigests;
use oracled_actors::Clock;
use oracled_actors::ground::pull::PayloadPuller;
use oracled_actors::upstream::ModelClient;
use oracled_actors::upstream::lookup::LookupClient;
use oracled_actors::upstream::mail::MailService;
use oracled_actors::upstream::oracle::LiveOracle;
use oracled_actors::upstream::reloadable::Reloadable;
use oracled_actors::upstream::web::webhook::WebhookClient;
use std::sync::{Mutex, PoisonError};

/// The client of a model, and the configuration key of its API key.
#[derive(Debug)]
pub(super) struct ReloadableModel {
    pub(super) key: String,
    pub(super) client: Reloadable<dyn ModelClient>,
}

/// The clients other than those of models.
#[derive(Debug)]
pub(super) struct ServiceClients {
    pub(super) mail: Option<Reloadable<dyn MailService>>,
    pub(super) lookup: Option<Reloadable<LookupClient>>,
    pub(super) webhooks: Reloadable<WebhookClient>,
    pub(super) puller: Reloadable<PayloadPuller>,
    pub(super) live: Reloadable<dyn LiveOracle>,
}

/// The clients that a reload replaces by clients with new credentials.
#[derive(Debug)]
pub struct ReloadableClients {
    models: Vec<ReloadableModel>,
    others: ServiceClients,
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
    pub(super) const fn new(
        models: Vec<ReloadableModel>,
        others: ServiceClients,
        digests: SecretDigests,
    ) -> Self {
        Self { models, others, digests: Mutex::new(digests) }
    }

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
        let ServiceClients { mail, lookup, webhooks, puller, live } = &self.others;
        if let Some((mail, new)) = mail.as_ref().zip(new.others.mail.as_ref()) {
            mail.replace_with(new);
        }
        if let Some((lookup, new)) = lookup.as_ref().zip(new.others.lookup.as_ref()) {
            lookup.replace_with(new);
        }
        webhooks.replace_with(&new.others.webhooks);
        puller.replace_with(&new.others.puller);
        live.replace_with(&new.others.live);
        let digests = new.lock_digests().clone();
        *self.lock_digests() = digests;
    }

    fn lock_digests(&self) -> std::sync::MutexGuard<'_, SecretDigests> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
