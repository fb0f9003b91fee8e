//! One attempt to send a mail, if the circuit permits it. The outcome is one commit.

use crate::audit::logger::LoggerHandle;
use crate::platform::actor_handle::ActorHandle;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::metrics::{ActorMetrics, MailOutcome};
use crate::platform::per_application::PerApplication;
use crate::upstream::mail::MailService;
use crate::upstream::oracle_health::{CallLease, OracleHealth, RequestCallPermit};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::verdict::health::CircuitCallOutcome;
use oracled_domain::verdict::mail::{MailFailureCause, MailSendFailure, MailState};
use oracled_domain::verdict::template_name::TemplateName;
use oracled_domain::{AuditEvent, EventKind, MailId, OracleId, OutboxMail};
use oracled_store::{JournalRecord, RowExpectation, RowKey, Store, TableWrite};
use std::sync::Arc;
use std::time::Duration;

/// The parts that an attempt needs.
#[derive(Debug, Clone)]
pub(super) struct MailSender {
    pub(super) service: Arc<dyn MailService>,
    /// The mail service's name among the oracles.
    pub(super) oracle_id: OracleId,
    pub(super) oracle_health: ActorHandle<OracleHealth>,
    pub(super) store: Store,
    pub(super) log: LoggerHandle,
    pub(super) clock: Clock,
    pub(super) metrics: ActorMetrics,
    /// Maximum age of a verdict mail that is retried, and of a notice that is sent.
    pub(super) max_age: SignedDuration,
    pub(super) templates: PerApplication<Vec<TemplateName>>,
    pub(super) contacts: PerApplication<Option<String>>,
}

/// The state of a mail after an attempt or an administrator's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MailStateChange {
    /// The next attempt is due at this time.
    Due(Timestamp),
    /// The circuit is not closed: no attempt was made. The mail stays due at this time.
    CircuitNotClosed(Timestamp),
    /// The mail is now a dead letter.
    DeadLettered,
    /// The mail was a dead letter, and is now due at this time.
    Requeued(Timestamp),
    /// The mail was a dead letter, and is deleted.
    Dropped,
    /// The mail is not in the outbox, or the next survey finds it.
    Gone,
}

impl MailSender {
    /// Sends a mail if it is due, and commits the outcome.
    pub(super) async fn attempt(&self, mail_id: &MailId) -> MailStateChange {
        let (mail, revision) = match self.store.mail(mail_id) {
            Ok(Some(found)) => found,
            Ok(None) => return MailStateChange::Gone,
            Err(error) => {
                tracing::error!(%error, %mail_id, "could not read a mail");
                return MailStateChange::Gone;
            }
        };
        let now = self.clock.now();
        let Some(due) = mail.standing.due_at(now) else { return MailStateChange::Gone };
        if due > now {
            return MailStateChange::Due(due);
        }
        if let Some(expired) = mail.standing.expire(now, self.max_age) {
            return self.commit_attempt_outcome(mail, revision, Err(expired), now).await;
        }
        let Some(lease) = self.request_permit().await else { return MailStateChange::CircuitNotClosed(due) };
        if lease.is_trial() {
            // some mails have only two attempts: none is used to check whether the service is back
            lease.report(outcome_of_probe(self.service.probe().await));
            return MailStateChange::CircuitNotClosed(due);
        }
        let began = monotonic();
        let sent = match self.render(&mail).await {
            Ok(content) => self.service.send(&mail, content.as_ref()).await,
            Err(failure) => Err(failure),
        };
        // a mail service may quote the recipient's address, and its error texts are logged and shown
        let sent = sent.map_err(|failure| failure.hide_address(&mail.standing.to));
        lease.report(outcome_of_attempt(&sent, &mail.standing, began.elapsed()));
        let now = self.clock.now();
        let outcome = sent.map_err(|failure| mail.standing.record_failure(&failure, now, self.max_age));
        self.commit_attempt_outcome(mail, revision, outcome, now).await
    }

    async fn request_permit(&self) -> Option<CallLease> {
        match self.oracle_health.ask(RequestCallPermit(self.oracle_id.clone())).await {
            Ok(Ok(lease)) => return Some(lease),
            Ok(Err(error)) => tracing::debug!(%error, "no mail is sent for now"),
            Err(error) => tracing::warn!(%error, "no mail is sent for now"),
        }
        None
    }

    /// Commits the outcome at `now` of an attempt: sent, or the state after the failure. Retries until the log accepts the record. Until then the mail stays in
    /// flight. Only a restart of the daemon could send it again.
    async fn commit_attempt_outcome(
        &self,
        mail: OutboxMail,
        revision: u64,
        sent: Result<(), MailState>,
        now: Timestamp,
    ) -> MailStateChange {
        let MailState { mail_id, kind, .. } = mail.standing.clone();
        let (event, write, outcome, mut end) = match sent {
            Ok(()) => (
                mail_sent_event(&mail.standing, now),
                TableWrite::RemoveMail(mail_id.clone()),
                MailOutcome::Sent,
                MailStateChange::Gone,
            ),
            Err(standing) => {
                let (outcome, end) = standing
                    .next_attempt_at
                    .map_or((MailOutcome::Dead, MailStateChange::DeadLettered), |due| {
                        (MailOutcome::Failed, MailStateChange::Due(due))
                    });
                let event = mail_failed_event(&standing, now);
                (event, TableWrite::PutMail(Arc::new(OutboxMail { standing, ..mail })), outcome, end)
            }
        };
        let expect = vec![RowExpectation { row: RowKey::Mail(mail_id), revision: Some(revision) }];
        let events = vec![event];
        let record =
            JournalRecord { expect, events: events.clone(), writes: vec![write], ..JournalRecord::default() };
        if self.log.commit_with_retries(record).await.is_err() {
            // another mail has replaced this one meanwhile: the new one is checked next, and this attempt is
            // still logged
            let committed =
                self.log.commit_with_retries(JournalRecord { events, ..JournalRecord::default() }).await;
            committed.expect("a record that depends on no row is not stale");
            end = MailStateChange::Due(now);
        }
        self.metrics.mail.count_mail_attempt(kind, outcome);
        end
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

fn mail_sent_event(before: &MailState, now: Timestamp) -> AuditEvent {
    AuditEvent::new(
        now,
        before.session_id.clone(),
        EventKind::MailSent {
            mail_id: before.mail_id.clone(),
            kind: before.kind,
            attempt: before.attempts.saturating_add(1),
        },
    )
}

fn mail_failed_event(after: &MailState, now: Timestamp) -> AuditEvent {
    AuditEvent::new(
        now,
        after.session_id.clone(),
        EventKind::MailFailed {
            mail_id: after.mail_id.clone(),
            kind: after.kind,
            attempt: after.attempts,
            cause: after.last_error.clone().unwrap_or_default(),
            next_attempt_at: after.next_attempt_at,
        },
    )
}
