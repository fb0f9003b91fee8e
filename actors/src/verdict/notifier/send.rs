//! One attempt to send a mail, if the circuit permits it.

use super::MailSender;
use crate::platform::caller::run_in_trace;
use crate::platform::clock::monotonic;
use crate::upstream::oracle_health::{CallLease, RequestCallPermit};
use crate::verdict::outbox::SendOutcome;
use oracled_domain::OutboxMail;
use oracled_domain::upstream::health::CircuitCallOutcome;
use oracled_domain::verdict::mail::{MailFailureCause, MailSendFailure, MailState};
use std::time::Duration;

impl MailSender {
    /// Sends a mail that is due.
    pub(super) async fn send(&self, mail: &OutboxMail) -> SendOutcome<MailState> {
        let now = self.clock.now();
        // a clock that was set ahead makes no mail older
        let max_age = self.max_age.saturating_add(self.clock.steps_since(mail.standing.tried_since));
        if let Some(expired) = mail.standing.expire(now, max_age) {
            return SendOutcome::Failed { state: expired, at: now };
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
        lease.report(outcome_of_attempt(&sent, &mail.standing, began.elapsed()));
        match sent {
            Ok(()) => SendOutcome::Sent,
            Err(failure) => {
                let at = self.clock.now();
                SendOutcome::Failed { state: mail.standing.record_failure(&failure, at, max_age), at }
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
    before: &MailState,
    took: Duration,
) -> CircuitCallOutcome {
    match sent {
        Ok(()) => CircuitCallOutcome::Success {
            latency_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        },
        Err(failure) if failure.fault != MailFailureCause::Service || before.attempts > 0 => {
            CircuitCallOutcome::Neutral
        }
        Err(failure) => CircuitCallOutcome::Failure(failure.cause.clone()),
    }
}
