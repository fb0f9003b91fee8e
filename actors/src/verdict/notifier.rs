//! The notifier: sends the mails in the outbox.
//!
//! Each attempt requests a lease from the mail service's circuit. If the circuit is not closed, no attempt is made.

mod content;
mod send;

pub use content::{MailContentError, find_mail_template};

use crate::audit::logger::{JournalReport, LoggerHandle};
use crate::platform::actor_handle::ActorHandle;
use crate::platform::clock::Clock;
use crate::platform::per_application::PerApplication;
use crate::upstream::mail::MailService;
use crate::upstream::oracle_health::OracleHealth;
use crate::verdict::outbox::{
    ChangeMessage, HeldMessages, ListMessages, OutboxChannel, OutboxMetrics, OutboxSender, OutboxState,
    OutboxStep, SendOutcome, WakeOutbox,
};
use jiff::{SignedDuration, Timestamp};
use oracled_domain::base::row::Row;
use oracled_domain::verdict::event::{MailDropped, MailFailed, MailRequeued, MailSent};
use oracled_domain::verdict::mail::MailState;
use oracled_domain::verdict::template_name::TemplateName;
use oracled_domain::{EventKind, MailId, OracleId, OutboxMail, SessionId};
use oracled_store::{RowName, RowWrite, Store, StoreError};
use std::sync::Arc;

/// The actor that sends mails.
pub type Notifier = OutboxSender<MailChannel>;
pub type ListMails = ListMessages<MailChannel>;
pub type ChangeMail = ChangeMessage<MailChannel>;
pub type HeldMails = HeldMessages<MailChannel>;
pub type WakeNotifier = WakeOutbox<MailChannel>;

/// The settings of the notifier.
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

/// Mails, and the mail service.
#[derive(Debug)]
pub struct MailChannel {
    /// `None` if no mail service is configured.
    sender: Option<MailSender>,
}

/// The parts that an attempt needs.
#[derive(Debug, Clone)]
struct MailSender {
    service: Arc<dyn MailService>,
    /// The mail service's name among the oracles.
    oracle_id: OracleId,
    oracle_health: ActorHandle<OracleHealth>,
    store: Store,
    clock: Clock,
    /// Maximum age of a verdict mail that is retried, and of a notice that is sent.
    max_age: SignedDuration,
    templates: PerApplication<Vec<TemplateName>>,
    contacts: PerApplication<Option<String>>,
}

/// The mails of a session that are still in the outbox.
///
/// # Errors
/// The outbox cannot be read.
///
/// # Panics
/// Never: the ids of sessions are shorter than those of mails.
pub fn queued_mails(store: &Store, session_id: &SessionId) -> Result<Vec<MailId>, StoreError> {
    let verdict = MailId::verdict(session_id);
    let standing = match store.mail_standing(&verdict) {
        Err(StoreError::RowLost { .. }) => None,
        standing => standing?,
    };
    let mut mails: Vec<_> = standing.map(|_| verdict).into_iter().collect();
    let prefix = format!("divergence:{session_id}:");
    let after = MailId::try_from(prefix.clone()).expect("a session id is shorter than the id of a mail");
    store.visit_mails(Some(&after), |standing| {
        let is_of_session = standing.mail_id.as_str().starts_with(&prefix);
        if is_of_session && standing.session_id == *session_id {
            mails.push(standing.mail_id);
        }
        is_of_session
    })?;
    Ok(mails)
}

impl Notifier {
    pub(crate) fn of_config(
        mailing: NotifierConfig,
        oracle_health: ActorHandle<OracleHealth>,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: OutboxMetrics,
    ) -> Self {
        let NotifierConfig { service, max_age, templates, contacts } = mailing;
        let sender = service.map(|service| MailSender {
            oracle_id: service.oracle_id(),
            service,
            oracle_health,
            store: store.clone(),
            clock: clock.clone(),
            max_age,
            templates,
            contacts,
        });
        Self::new(MailChannel { sender }, store, log, clock, metrics)
    }
}

impl OutboxState for MailState {
    type Id = MailId;
    type Receiver = ();

    fn id(&self) -> &MailId {
        &self.mail_id
    }

    fn kind(&self) -> &'static str {
        self.kind.into_str()
    }

    fn receiver(&self) {}

    fn session_id(&self) -> Option<SessionId> {
        Some(self.session_id.clone())
    }

    fn queued_at(&self) -> Timestamp {
        self.queued_at
    }

    fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        Self::due_at(self, now)
    }

    fn requeue(&self, now: Timestamp) -> Self {
        Self::requeue(self, now)
    }
}

impl OutboxChannel for MailChannel {
    const NAME: &'static str = "mail";
    type State = MailState;
    type Message = OutboxMail;

    fn read(store: &Store, id: &MailId) -> Result<Option<(OutboxMail, u64)>, StoreError> {
        store.mail(id)
    }

    fn read_state(store: &Store, id: &MailId) -> Result<Option<(MailState, u64)>, StoreError> {
        store.mail_standing(id)
    }

    fn visit(
        store: &Store,
        after: Option<&MailId>,
        visit: impl FnMut(MailState) -> bool,
    ) -> Result<(), StoreError> {
        store.visit_mails(after, visit)
    }

    fn state(mail: &OutboxMail) -> &MailState {
        &mail.standing
    }

    fn put(mail: OutboxMail, standing: MailState) -> RowWrite {
        RowWrite::put::<OutboxMail>(&OutboxMail { standing, ..mail })
    }

    fn remove(id: MailId) -> RowWrite {
        RowWrite::remove::<OutboxMail>(&id)
    }

    fn row(id: MailId) -> RowName {
        RowName::of::<OutboxMail>(&id)
    }

    fn event(state: &MailState, step: OutboxStep) -> EventKind {
        let (mail_id, kind) = (state.mail_id.clone(), state.kind);
        match step {
            OutboxStep::Sent => MailSent { mail_id, kind, attempt: state.attempts.saturating_add(1) }.into(),
            OutboxStep::Failed => MailFailed {
                mail_id,
                kind,
                attempt: state.attempts,
                cause: state.last_error.clone().unwrap_or_default(),
                next_attempt_at: state.next_attempt_at,
            }
            .into(),
            OutboxStep::Requeued(peer) => MailRequeued { mail_id, peer }.into(),
            OutboxStep::Dropped(peer) => MailDropped { mail_id, peer }.into(),
        }
    }

    fn count(report: &JournalReport) -> u64 {
        report.counts.of(OutboxMail::TABLE.name)
    }

    fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    async fn send(&self, mail: &OutboxMail) -> SendOutcome<MailState> {
        match &self.sender {
            Some(sender) => sender.send(mail).await,
            None => SendOutcome::Paused,
        }
    }
}

crate::platform::actor_handle::handle_actor_calls!(Notifier);

#[cfg(test)]
mod tests;
