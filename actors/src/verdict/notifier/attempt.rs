//! One attempt to send a mail, if the circuit permits it. The outcome is one commit.

use crate::audit::logger::Log;
use crate::platform::clock::{Clock, monotonic};
use crate::platform::door::Door;
use crate::platform::metrics::{MailOutcome, Metrics};
use crate::upstream::mail::MailService;
use crate::upstream::oracle_health::{Lease, OracleHealth, Permit};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::verdict::health::Outcome;
use oracled_domain::verdict::mail::{Fault, SendFailure, Standing};
use oracled_domain::{Event, EventKind, Mail, MailId, OracleId};
use oracled_store::{Expect, Record, RowKey, Store, Write};
use std::sync::Arc;
use std::time::Duration;

/// The parts that an attempt needs.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pub(super) service: Arc<dyn MailService>,
    /// The mail service's name among the oracles.
    pub(super) oracle_id: OracleId,
    pub(super) oracle_health: Door<OracleHealth>,
    pub(super) store: Store,
    pub(super) log: Log,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    /// Maximum age of a verdict mail that is still retried.
    pub(super) max_age: SignedDuration,
}

/// The state of a mail after an attempt or an administrator's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The next attempt is due at this time.
    Due(Timestamp),
    /// The circuit is not closed: no attempt was made. The mail stays due at this time.
    TurnedAway(Timestamp),
    /// The mail is now a dead letter.
    Died,
    /// The mail was a dead letter, and is now due at this time.
    Revived(Timestamp),
    /// The mail was a dead letter, and is deleted.
    Buried,
    /// The mail is not in the outbox, or the next survey finds it.
    Gone,
}

impl Sender {
    /// Sends a mail if it is due, and commits the outcome.
    pub(super) async fn attempt(&self, mail_id: &MailId) -> End {
        let (mail, revision) = match self.store.mail(mail_id) {
            Ok(Some(found)) => found,
            Ok(None) => return End::Gone,
            Err(error) => {
                tracing::error!(%error, %mail_id, "could not read a mail");
                return End::Gone;
            }
        };
        let now = self.clock.now();
        let Some(due) = mail.standing.due_at(now) else { return End::Gone };
        if due > now {
            return End::Due(due);
        }
        let Some(lease) = self.permit().await else { return End::TurnedAway(due) };
        if lease.is_trial() {
            // some mails have only two attempts: none is used to check whether the service is back
            lease.report(tried(self.service.probe().await));
            return End::TurnedAway(due);
        }
        let began = monotonic();
        // a mail service may quote the recipient's address, and its error texts are logged and shown
        let sent = self.service.send(&mail).await.map_err(|failure| failure.hiding(&mail.standing.to));
        lease.report(health(&sent, &mail.standing, began.elapsed()));
        self.settle(mail, revision, sent).await
    }

    async fn permit(&self) -> Option<Lease> {
        match self.oracle_health.ask(Permit(self.oracle_id.clone())).await {
            Ok(Ok(lease)) => return Some(lease),
            Ok(Err(error)) => tracing::debug!(%error, "no mail is sent for now"),
            Err(error) => tracing::warn!(%error, "no mail is sent for now"),
        }
        None
    }

    /// Commits the outcome of an attempt, and retries until the log accepts the record. Until then the mail stays in
    /// flight. Only a restart of the daemon could send it again.
    async fn settle(&self, mail: Mail, revision: u64, sent: Result<(), SendFailure>) -> End {
        let Standing { mail_id, kind, .. } = mail.standing.clone();
        let now = self.clock.now();
        let (event, write, outcome, mut end) = match sent {
            Ok(()) => (
                was_sent(&mail.standing, now),
                Write::RemoveMail(mail_id.clone()),
                MailOutcome::Sent,
                End::Gone,
            ),
            Err(failure) => {
                let standing = mail.standing.after(&failure, now, self.max_age);
                let (outcome, end) = standing
                    .next_attempt_at
                    .map_or((MailOutcome::Dead, End::Died), |due| (MailOutcome::Failed, End::Due(due)));
                let event = has_failed(&standing, now);
                (event, Write::PutMail(Arc::new(Mail { standing, ..mail })), outcome, end)
            }
        };
        let expect = vec![Expect { row: RowKey::Mail(mail_id), revision: Some(revision) }];
        let events = vec![event];
        let record = Record { expect, events: events.clone(), writes: vec![write], ..Record::default() };
        if self.log.commit_patiently(record).await.is_err() {
            // another mail has replaced this one meanwhile: the new one is checked next, and this attempt is still logged
            let told = self.log.commit_patiently(Record { events, ..Record::default() }).await;
            told.expect("a record that depends on no row is not stale");
            end = End::Due(now);
        }
        self.metrics.sending.ended(kind, outcome);
        end
    }
}

/// The outcome to report for a probe that was made in place of a mail. A service that answers but does not support the
/// probe counts as available. Otherwise no mail would ever be sent again.
fn tried(probed: Outcome) -> Outcome {
    match probed {
        Outcome::Neutral => Outcome::Success { latency_ms: None },
        said => said,
    }
}

/// The effect of an attempt on the mail service's health. A fault of the mail itself has no effect, and neither has a
/// further failure of a mail that failed before: a single mail must not open the circuit for all others.
fn health(sent: &Result<(), SendFailure>, before: &Standing, took: Duration) -> Outcome {
    match sent {
        Ok(()) => Outcome::Success { latency_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)) },
        Err(failure) if failure.fault != Fault::Service || before.attempts > 0 => Outcome::Neutral,
        Err(failure) => Outcome::Failure(failure.cause.clone()),
    }
}

fn was_sent(before: &Standing, now: Timestamp) -> Event {
    Event::new(
        now,
        before.session_id.clone(),
        EventKind::MailSent {
            mail_id: before.mail_id.clone(),
            kind: before.kind,
            attempt: before.attempts.saturating_add(1),
        },
    )
}

fn has_failed(after: &Standing, now: Timestamp) -> Event {
    Event::new(
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
