//! Actions of administrators on messages. Each action and its log entry are one commit.

use super::{Notifier, OutboxWork};
use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::CommitError;
use actors_platform::in_flight::InFlightClaim;
use actors_platform::work::RemoveWork;
use domain_base::caller::PeerCredentials;
use domain_base::event::{AuditEvent, EventKind};
use domain_base::session_id::SessionId;
use domain_verdict::event::{MessageDropped, MessageRequeued};
use domain_verdict::mail::MailId;
use domain_verdict::outbox::{MessageId, MessageState, OutboxMessage};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};

/// Why an administrator's action failed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The outbox has no such message.
    #[error("no {} {id} is in the outbox", id.channel().into_str())]
    Unknown { id: MessageId },
    #[error("{} {id} is being sent, or changed by another request; try again", id.channel().into_str())]
    InFlight { id: MessageId },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// An administrator's action on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxAction {
    /// Requeue the message as if it had just been queued.
    Requeue,
    /// Delete the message without sending it.
    Drop,
}

/// Requeues or deletes a message. Returns its new or last state.
#[derive(Debug, Message)]
#[rtype(result = "Result<MessageState, OutboxError>")]
pub struct ChangeMessage {
    pub id: MessageId,
    pub action: OutboxAction,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Holds messages back, so that the commit that removes their session can remove them, too.
#[derive(Debug, Message)]
#[rtype(result = "Result<HeldMessages, OutboxError>")]
pub struct HoldMessages(pub Vec<MessageId>);

/// Messages that are not sent until this is dropped.
#[derive(Debug)]
pub struct HeldMessages {
    claims: Vec<InFlightClaim<MessageId>>,
    work: OutboxWork,
    notifier: Addr<Notifier>,
}

impl HeldMessages {
    /// Adds the removal of the held messages that are in the outbox to `record`, and returns their last states.
    pub(crate) fn put_removal(
        &self,
        record: &mut JournalRecord,
        peer: PeerCredentials,
        now: Timestamp,
    ) -> Result<Vec<MessageState>, StoreError> {
        let mut removed = Vec::new();
        for InFlightClaim { id, .. } in &self.claims {
            let Some((state, revision)) = self.work.store.message_state(id)? else { continue };
            add_removal(record, (&state, revision), peer, now);
            removed.push(state);
        }
        Ok(removed)
    }

    /// Whether all of these messages are held.
    pub(crate) fn has_all(&self, ids: &[MessageId]) -> bool {
        ids.iter().all(|id| self.claims.iter().any(|claim| claim.id == *id))
    }

    /// Takes messages out of the queue that the commit removed.
    pub(crate) fn end_removed(self, removed: &[MessageState]) {
        removed.iter().for_each(|state| self.work.end_dropped(state, &self.notifier));
    }
}

impl OutboxWork {
    fn claim(&self, id: MessageId) -> Result<InFlightClaim<MessageId>, OutboxError> {
        self.in_flight.claim(id.clone()).ok_or(OutboxError::InFlight { id })
    }

    /// Takes a message out of the queue that was removed from the outbox.
    fn end_dropped(&self, state: &MessageState, notifier: &Addr<Notifier>) {
        self.count_changed(state);
        notifier.do_send(RemoveWork::<Self>(state.entry().message_id));
    }

    fn count_changed(&self, before: &MessageState) {
        if before.tries().is_dead() {
            self.metrics.add_dead(before.entry().message_id.channel(), -1);
        }
    }

    /// The record that makes a change, with the state before it and after it.
    fn build_change(
        &self,
        ChangeMessage { id, action, peer }: &ChangeMessage,
    ) -> Result<(MessageState, MessageState, JournalRecord), OutboxError> {
        let now = self.clock.now();
        let unknown = || OutboxError::Unknown { id: id.clone() };
        let mut record = JournalRecord::default();
        let (before, after) = match action {
            OutboxAction::Requeue => {
                let (message, revision) = self.store.message(id)?.ok_or_else(unknown)?;
                let before = message.state();
                let message = message.with_tries(before.tries().requeued(now));
                let requeued = MessageRequeued { message: before.entry(), peer: *peer };
                add_change(&mut record, (&before, revision), requeued, RowWrite::put(&message), now);
                (before, message.state())
            }
            OutboxAction::Drop => {
                let (before, revision) = self.store.message_state(id)?.ok_or_else(unknown)?;
                add_removal(&mut record, (&before, revision), *peer, now);
                (before.clone(), before)
            }
        };
        // the id of a webhook also has the form of a mail's
        if before.entry().message_id == *id { Ok((before, after, record)) } else { Err(unknown()) }
    }
}

/// Adds the removal of a message, and its entry, to `record`.
fn add_removal(
    record: &mut JournalRecord,
    (state, revision): (&MessageState, u64),
    peer: PeerCredentials,
    now: Timestamp,
) {
    let message = state.entry();
    let write = RowWrite::remove::<OutboxMessage>(&message.message_id);
    add_change(record, (state, revision), MessageDropped { message, peer }, write, now);
}

/// Adds a change of a message, and its entry, to `record`.
fn add_change(
    record: &mut JournalRecord,
    (state, revision): (&MessageState, u64),
    event: impl Into<EventKind>,
    write: RowWrite,
    now: Timestamp,
) {
    let id = state.entry().message_id;
    record.expect.push(RowExpectation::new::<OutboxMessage>(&id, Some(revision)));
    record.events.push(AuditEvent::new(now, state.session_id().cloned(), event));
    record.writes.push(write);
}

/// The mails of a session that are still in the outbox.
///
/// # Errors
/// The outbox cannot be read.
///
/// # Panics
/// Never: the ids of sessions are shorter than those of mails.
pub fn queued_mails(store: &Store, session_id: &SessionId) -> Result<Vec<MessageId>, StoreError> {
    let verdict = MessageId::Mail(MailId::verdict(session_id));
    let state = match store.message_state(&verdict) {
        Err(StoreError::RowLost { .. }) => None,
        state => state?,
    };
    let mut mails: Vec<_> = state.map(|_| verdict).into_iter().collect();
    let prefix = format!("divergence:{session_id}:");
    let after = MailId::try_from(prefix.clone()).expect("a session id is shorter than the id of a mail");
    store.visit_messages(None, Some(&after.into()), |state| {
        let id = state.entry().message_id;
        let has_prefix = id.to_string().starts_with(&prefix);
        if has_prefix && state.session_id() == Some(session_id) {
            mails.push(id);
        }
        has_prefix
    })?;
    Ok(mails)
}

impl Handler<ChangeMessage> for Notifier {
    type Result = ResponseFuture<Result<MessageState, OutboxError>>;

    fn handle(&mut self, change: ChangeMessage, ctx: &mut Context<Self>) -> Self::Result {
        let me = ctx.address();
        let (claim, work) = (self.work.claim(change.id.clone()), self.work.clone());
        Box::pin(async move {
            let claim = claim?;
            let decide = || {
                let (before, after, record) = work.build_change(&change)?;
                Ok::<_, OutboxError>(CommitDecision::Change((before, after), record))
            };
            let (before, after) = work.log.decide_and_commit(decide).await?.0;
            match change.action {
                OutboxAction::Requeue => work.count_changed(&before),
                OutboxAction::Drop => work.end_dropped(&before, &me),
            }
            drop(claim);
            Ok(after)
        })
    }
}

impl Handler<HoldMessages> for Notifier {
    type Result = Result<HeldMessages, OutboxError>;

    fn handle(&mut self, HoldMessages(ids): HoldMessages, ctx: &mut Context<Self>) -> Self::Result {
        let claims = ids.into_iter().map(|id| self.work.claim(id)).collect::<Result<_, _>>()?;
        Ok(HeldMessages { claims, work: self.work.clone(), notifier: ctx.address() })
    }
}
