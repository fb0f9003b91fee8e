//! Attempts to send a mail. Each requests a lease from the mail service's circuit; if it is not closed, no attempt is made.

use super::SendOutcome;
use actors_platform::actor_handle::ActorHandle;
use actors_platform::caller::run_in_trace;
use actors_platform::clock::{Clock, monotonic};
use actors_platform::per_application::PerApplication;
use actors_upstream::mail::MailService;
use actors_upstream::oracle_health::{CallLease, OracleHealth, RequestCallPermit};
use domain_upstream::health::CircuitCallOutcome;
use domain_upstream::oracle::OracleId;
use domain_verdict::mail::{MailFailureCause, MailSendFailure, OutboxMail};
use domain_verdict::template_name::TemplateName;
use jiff::SignedDuration;
use oracled_store::Store;
use std::sync::Arc;
use std::time::Duration;

/// The settings of mails.
#[derive(Debug, Clone)]
pub struct NotifierConfig {
    /// The mail service. Without one nothing is sent, and the mails stay in the outbox.
    pub service: Option<Arc<dyn MailService>>,
    /// Maximum age of a verdict mail that is still retried.
    pub max_age: SignedDuration,
    /// The names of the mail templates. Without any, mails have the built-in text.
    pub templates: PerApplication<Vec<TemplateName>>,
    /// The contacts for questions.
    pub contacts: PerApplication<Option<String>>,
}

/// The parts that an attempt needs.
#[derive(Debug, Clone)]
pub(super) struct MailSender {
    service: Arc<dyn MailService>,
    /// The mail service's name among the oracles.
    oracle_id: OracleId,
    oracle_health: ActorHandle<OracleHealth>,
    pub(super) store: Store,
    clock: Clock,
    /// Maximum age of a verdict mail that is retried, and of a notice that is sent.
    max_age: SignedDuration,
    pub(super) templates: PerApplication<Vec<TemplateName>>,
    pub(super) contacts: PerApplication<Option<String>>,
}

impl MailSender {
    /// `None` if there is no mail service.
    pub(super) fn of_config(
        mailing: NotifierConfig,
        oracle_health: ActorHandle<OracleHealth>,
        store: Store,
        clock: Clock,
    ) -> Option<Self> {
        let NotifierConfig { service, max_age, templates, contacts } = mailing;
        let service = service?;
        let oracle_id = service.oracle_id();
        Some(Self { service, oracle_id, oracle_health, store, clock, max_age, templates, contacts })
    }

    /// Sends a mail that is due.
    pub(super) async fn send(&self, mail: &OutboxMail) -> SendOutcome {
        let now = self.clock.now();
        // a clock that was set ahead makes no mail older
        let max_age = self.max_age.saturating_add(self.clock.steps_since(mail.standing.tries.tried_since));
        if let Some(expired) = mail.standing.expire(now, max_age) {
            return SendOutcome::Failed { tries: expired.tries, at: now };
        }
        let Some(lease) = self.request_permit().await else { return SendOutcome::Paused };
        if lease.is_trial() {
            // some mails have only two attempts: none is used to check whether the service is back
            lease.report(outcome_of_probe(self.service.probe().await));
            return SendOutcome::Paused;
        }
        let began = monotonic();
        let sent = match self.render(mail).await {
            Ok(content) => run_in_trace(mail.trace.clone(), self.service.send(mail, content.as_ref())).await,
            Err(failure) => Err(failure),
        };
        // a mail service may quote the recipient's address, and its error texts are logged and shown
        let sent = sent.map_err(|failure| failure.hide_address(&mail.standing.to));
        lease.report(outcome_of_attempt(&sent, mail.standing.tries.attempts, began.elapsed()));
        match sent {
            Ok(()) => SendOutcome::Sent,
            Err(failure) => {
                let at = self.clock.now();
                let tries = mail.standing.record_failure(&failure, at, max_age).tries;
                SendOutcome::Failed { tries, at }
            }
        }
    }

    async fn request_permit(&self) -> Option<CallLease> {
        match self.oracle_health.ask(RequestCallPermit(self.oracle_id.clone())).await {
            Ok(Ok(lease)) => return Some(lease),
            Ok(Err(error)) => tracing::debug!(%error, "no mail is sent for now"),
            Err(error) => tracing::warn!(%error, "no mail is sent for now"),
        }
        None
    }
}

/// The outcome to report for a probe that was made in place of a mail. A service that answers but does not support the
/// probe counts as available. Otherwise no mail would ever be sent again.
fn outcome_of_probe(probed: CircuitCallOutcome) -> CircuitCallOutcome {
    match probed {
        CircuitCallOutcome::Neutral => CircuitCallOutcome::Success { latency_ms: None },
        outcome => outcome,
    }
}

/// The effect of an attempt on the mail service's health. A fault of the mail itself has no effect, and neither has a
/// further failure of a mail that failed before: a single mail must not open the circuit for all others.
fn outcome_of_attempt(
    sent: &Result<(), MailSendFailure>,
    attempts_before: u32,
    took: Duration,
) -> CircuitCallOutcome {
    match sent {
        Ok(()) => CircuitCallOutcome::Success {
            latency_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        },
        Err(failure) if failure.fault != MailFailureCause::Service || attempts_before > 0 => {
            CircuitCallOutcome::Neutral
        }
        Err(failure) => CircuitCallOutcome::Failure(failure.cause.clone()),
    }
}
