//! Listing the outbox, and actions of administrators. Each action and its log entry are one commit.

use super::attempt::StateChange;
use super::channel::{IdOf, OutboxChannel, OutboxState, OutboxStep};
use super::{OutboxSender, ReportState};
use crate::audit::commit_loop::CommitDecision;
use crate::audit::logger::CommitError;
use crate::platform::in_flight::InFlightClaim;
use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use jiff::Timestamp;
use oracled_domain::{AuditEvent, PeerCredentials};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};
use tokio::task::spawn_blocking;

/// Why an administrator's action failed. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The outbox has no such message.
    #[error("no {0} is in the outbox")]
    Unknown(String),
    #[error("{0} is being sent, or changed by another request; try again")]
    InFlight(String),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The task that reads the outbox panicked.
    #[error("the outbox could not be read: {0}")]
    Reading(String),
}

impl OutboxError {
    fn unknown<C: OutboxChannel>(id: &IdOf<C>) -> Self {
        Self::Unknown(format!("{} {id}", C::NAME))
    }

    fn in_flight<C: OutboxChannel>(id: &IdOf<C>) -> Self {
        Self::InFlight(format!("{} {id}", C::NAME))
    }
}

/// Returns messages in the order of their ids.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<C::State>, OutboxError>")]
pub struct ListMessages<C: OutboxChannel> {
    /// Only messages whose id is greater than this one.
    pub after: Option<IdOf<C>>,
    /// Maximum number of messages.
    pub limit: usize,
    /// Only dead letters.
    pub dead_only: bool,
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
#[rtype(result = "Result<C::State, OutboxError>")]
pub struct ChangeMessage<C: OutboxChannel> {
    pub id: IdOf<C>,
    pub action: OutboxAction,
    /// The administrator.
    pub peer: PeerCredentials,
}

/// Holds messages back, so that the commit that removes their session can remove them, too.
#[derive(Debug, Message)]
#[rtype(result = "Result<HeldMessages<C>, OutboxError>")]
pub struct HoldMessages<C: OutboxChannel>(pub Vec<IdOf<C>>);

/// Messages that are not sent until this is dropped.
#[derive(Debug)]
pub struct HeldMessages<C: OutboxChannel> {
    claims: Vec<InFlightClaim<IdOf<C>>>,
    sender: Addr<OutboxSender<C>>,
}

/// A message that was removed from the outbox.
#[derive(Debug)]
pub(crate) struct RemovedMessage<C: OutboxChannel> {
    state: C::State,
    was_dead: bool,
}

impl<C: OutboxChannel> HeldMessages<C> {
    /// Adds the removal of the held messages that are in the outbox to `record`, and returns them.
    pub(crate) fn put_removal(
        &self,
        record: &mut JournalRecord,
        store: &Store,
        peer: PeerCredentials,
        now: Timestamp,
    ) -> Result<Vec<RemovedMessage<C>>, StoreError> {
        let mut removed = Vec::new();
        for InFlightClaim { id, .. } in &self.claims {
            let Some((state, revision)) = C::read_state(store, id)? else { continue };
            let was_dead = state.due_at(now).is_none();
            add_change::<C>(
                record,
                (&state, revision),
                OutboxStep::Dropped(peer),
                C::remove(id.clone()),
                now,
            );
            removed.push(RemovedMessage { state, was_dead });
        }
        Ok(removed)
    }

    /// Whether all of these messages are held.
    pub(crate) fn has_all(&self, ids: &[IdOf<C>]) -> bool {
        ids.iter().all(|id| self.claims.iter().any(|claim| claim.id == *id))
    }

    /// Reports to the sender that messages were removed.
    pub(crate) fn report_removed(self, removed: Vec<RemovedMessage<C>>) {
        let Self { claims, sender } = self;
        drop(claims);
        for RemovedMessage { state, was_dead } in removed {
            let change = if was_dead { StateChange::Dropped } else { StateChange::Gone };
            sender.do_send(ReportState::<C>::of(&state, change));
        }
    }
}

/// Adds a change of a message, and its entry, to `record`.
fn add_change<C: OutboxChannel>(
    record: &mut JournalRecord,
    (state, revision): (&C::State, u64),
    step: OutboxStep,
    write: RowWrite,
    now: Timestamp,
) {
    record.expect.push(RowExpectation { row: C::row(state.id().clone()), revision: Some(revision) });
    record.events.push(AuditEvent::new(now, state.session_id(), C::event(state, step)));
    record.writes.push(write);
}

const fn state_change(action: OutboxAction, was_dead: bool, now: Timestamp) -> StateChange {
    match (action, was_dead) {
        (OutboxAction::Requeue, true) => StateChange::Requeued(now),
        (OutboxAction::Requeue, false) => StateChange::Due(now),
        (OutboxAction::Drop, true) => StateChange::Dropped,
        (OutboxAction::Drop, false) => StateChange::Gone,
    }
}

impl<C: OutboxChannel> Handler<ListMessages<C>> for OutboxSender<C> {
    type Result = ResponseFuture<Result<Vec<C::State>, OutboxError>>;

    fn handle(&mut self, list: ListMessages<C>, _: &mut Context<Self>) -> Self::Result {
        let (store, now) = (self.parts.store.clone(), self.parts.clock.now());
        Box::pin(async move {
            let read = spawn_blocking(move || {
                let mut messages = Vec::new();
                if list.limit > 0 {
                    C::visit(&store, list.after.as_ref(), |state| {
                        if !list.dead_only || state.due_at(now).is_none() {
                            messages.push(state);
                        }
                        messages.len() < list.limit
                    })?;
                }
                Ok(messages)
            });
            read.await.map_err(|panic| OutboxError::Reading(panic.to_string()))?
        })
    }
}

impl<C: OutboxChannel> Handler<ChangeMessage<C>> for OutboxSender<C> {
    type Result = ResponseFuture<Result<C::State, OutboxError>>;

    fn handle(&mut self, request: ChangeMessage<C>, ctx: &mut Context<Self>) -> Self::Result {
        let ChangeMessage { id, action, peer } = request;
        let (claim, parts, me) = (self.in_flight.claim(id.clone()), self.parts.clone(), ctx.address());
        Box::pin(async move {
            let claim = claim.ok_or_else(|| OutboxError::in_flight::<C>(&id))?;
            let done = parts.log.decide_and_commit(|| {
                let now = parts.clock.now();
                let unknown = || OutboxError::unknown::<C>(&id);
                let mut record = JournalRecord::default();
                let (state, was_dead) = match action {
                    OutboxAction::Requeue => {
                        let (message, revision) = C::read(&parts.store, &id)?.ok_or_else(unknown)?;
                        let was_dead = C::state(&message).due_at(now).is_none();
                        let state = C::state(&message).requeue(now);
                        let write = C::put(message, state.clone());
                        add_change::<C>(
                            &mut record,
                            (&state, revision),
                            OutboxStep::Requeued(peer),
                            write,
                            now,
                        );
                        (state, was_dead)
                    }
                    OutboxAction::Drop => {
                        let (state, revision) = C::read_state(&parts.store, &id)?.ok_or_else(unknown)?;
                        let write = C::remove(id.clone());
                        add_change::<C>(
                            &mut record,
                            (&state, revision),
                            OutboxStep::Dropped(peer),
                            write,
                            now,
                        );
                        let was_dead = state.due_at(now).is_none();
                        (state, was_dead)
                    }
                };
                let change = state_change(action, was_dead, now);
                Ok::<_, OutboxError>(CommitDecision::Change((state, change), record))
            });
            let (state, change) = done.await?.0;
            drop(claim);
            me.do_send(ReportState::<C>::of(&state, change));
            Ok(state)
        })
    }
}

impl<C: OutboxChannel> Handler<HoldMessages<C>> for OutboxSender<C> {
    type Result = Result<HeldMessages<C>, OutboxError>;

    fn handle(&mut self, HoldMessages(ids): HoldMessages<C>, ctx: &mut Context<Self>) -> Self::Result {
        let take =
            |id: IdOf<C>| self.in_flight.claim(id.clone()).ok_or_else(|| OutboxError::in_flight::<C>(&id));
        let claims = ids.into_iter().map(take).collect::<Result<_, _>>()?;
        Ok(HeldMessages { claims, sender: ctx.address() })
    }
}
