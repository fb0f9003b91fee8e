//! Clients of upstream systems that a reload replaces by clients with new credentials.

use super::mail::MailService;
use super::oracle::{LiveAnswer, LiveOracle, LiveQuery};
use super::oracle_health::OracleProbe;
use super::web::WebError;
use super::{BoxFuture, ModelAttempt, ModelClient, RequestFailure};
use domain_upstream::health::CircuitCallOutcome;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::generation::GenerationSettings;
use domain_verdict::mail::{MailSendFailure, OutboxMail};
use domain_verdict::mail_template::MailContent;
use domain_verdict::prompt::ModelPrompt;
use domain_verification::adapter::ValidatedAdapter;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A client that can be replaced. Clones share it. A call in progress ends with the client with which it began.
pub struct Reloadable<C: ?Sized>(Arc<RwLock<Arc<C>>>);

impl<C: ?Sized> Reloadable<C> {
    #[must_use]
    pub fn new(client: Arc<C>) -> Self {
        Self(Arc::new(RwLock::new(client)))
    }

    #[must_use]
    pub fn get(&self) -> Arc<C> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the client by that of `other`.
    pub fn replace_with(&self, other: &Self) {
        let client = other.get();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = client;
    }
}

impl<C: ?Sized> Clone for Reloadable<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: fmt::Debug + ?Sized> fmt::Debug for Reloadable<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reloadable").field(&self.get()).finish()
    }
}

impl ModelClient for Reloadable<dyn ModelClient> {
    fn oracle_version(&self, settings: &GenerationSettings) -> String {
        self.get().oracle_version(settings)
    }

    fn attempt<'a>(
        &'a self,
        prompt: &'a ModelPrompt,
        settings: &'a GenerationSettings,
        timeout: Duration,
    ) -> BoxFuture<'a, ModelAttempt> {
        let client = self.get();
        Box::pin(async move { client.attempt(prompt, settings, timeout).await })
    }

    fn probe<'a>(&'a self, model: &'a str, timeout: Duration) -> BoxFuture<'a, Result<(), RequestFailure>> {
        let client = self.get();
        Box::pin(async move { client.probe(model, timeout).await })
    }
}

impl MailService for Reloadable<dyn MailService> {
    fn oracle_id(&self) -> UpstreamId {
        self.get().oracle_id()
    }

    fn send<'a>(
        &'a self,
        mail: &'a OutboxMail,
        content: Option<&'a MailContent>,
    ) -> BoxFuture<'a, Result<(), MailSendFailure>> {
        let service = self.get();
        Box::pin(async move { service.send(mail, content).await })
    }
}

impl OracleProbe for Reloadable<dyn MailService> {
    fn probe(&self) -> BoxFuture<'_, CircuitCallOutcome> {
        let service = self.get();
        Box::pin(async move { service.probe().await })
    }
}

impl LiveOracle for Reloadable<dyn LiveOracle> {
    fn check(&self, adapter: &ValidatedAdapter) -> Result<(), WebError> {
        self.get().check(adapter)
    }

    fn ask(&self, ask: LiveQuery) -> BoxFuture<'_, LiveAnswer> {
        let client = self.get();
        Box::pin(async move { client.ask(ask).await })
    }
}
