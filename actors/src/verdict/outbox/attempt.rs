//! One attempt to send a message. Its outcome is one commit.

use super::channel::{IdOf, OutboxChannel, OutboxState, OutboxStep, SendOutcome};
use super::metrics::{OutboxMetrics, OutboxOutcome};
use crate::audit::logger::LoggerHandle;
use crate::platform::clock::Clock;
use jiff::Timestamp;
use oracled_domain::AuditEvent;
use oracled_store::{JournalRecord, RowExpectation, Store};
use std::sync::Arc;

/// The state of a message after an attempt or an administrator's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateChange {
    /// The next attempt is due at this time.
    Due(Timestamp),
    /// No attempt was made. The message stays due at this time.
    Paused(Timestamp),
    /// The message is now a dead letter.
    DeadLettered,
    /// The message was a dead letter, and is now due at this time.
    Requeued(Timestamp),
    /// The message was a dead letter, and is deleted.
    Dropped,
    /// The message is not in the outbox, or the next survey finds it.
    Gone,
}

/// The parts that an attempt needs.
#[derive(Debug)]
pub(super) struct OutboxAttempts<C> {
    pub(super) channel: Arc<C>,
    pub(super) store: Store,
    pub(super) log: LoggerHandle,
    pub(super) clock: Clock,
    pub(super) metrics: OutboxMetrics,
}

impl<C> Clone for OutboxAttempts<C> {
    fn clone(&self) -> Self {
        let Self { channel, store, log, clock, metrics } = self;
        let (channel, store, log) = (Arc::clone(channel), store.clone(), log.clone());
        Self { channel, store, log, clock: clock.clone(), metrics: metrics.clone() }
    }
}

impl<C: OutboxChannel> OutboxAttempts<C> {
    /// Sends a message if it is due, and commits the outcome.
    pub(super) async fn attempt(&self, id: &IdOf<C>) -> StateChange {
        let (message, revision) = match C::read(&self.store, id) {
            Ok(Some(found)) => found,
            Ok(None) => return StateChange::Gone,
            Err(error) => {
                tracing::error!(%error, %id, "could not read a {}", C::NAME);
                return StateChange::Gone;
            }
        };
        let now = self.clock.now();
        let Some(due) = C::state(&message).due_at(now) else { return StateChange::Gone };
        if due > now {
            return StateChange::Due(due);
        }
        match self.channel.send(&message).await {
            SendOutcome::Paused => StateChange::Paused(due),
            SendOutcome::Sent => self.commit_outcome(message, revision, None, self.clock.now()).await,
            SendOutcome::Failed { state, at } => {
                self.commit_outcome(message, revision, Some(state), at).await
            }
        }
    }

    /// Commits the outcome of an attempt at `now`: sent, or the state after the failure. Retries until the log accepts the record.
    /// Until then the message stays in flight. Only a restart of the daemon could send it again.
    async fn commit_outcome(
        &self,
        message: C::Message,
        revision: u64,
        failed: Option<C::State>,
        now: Timestamp,
    ) -> StateChange {
        let before = C::state(&message).clone();
        let id = before.id().clone();
        let (event, write, outcome, mut change) = match failed {
            None => {
                let event = C::event(&before, OutboxStep::Sent);
                (event, C::remove(id.clone()), OutboxOutcome::Sent, StateChange::Gone)
            }
            Some(state) => {
                let (outcome, change) =
                    state.due_at(now).map_or((OutboxOutcome::Dead, StateChange::DeadLettered), |due| {
                        (OutboxOutcome::Failed, StateChange::Due(due))
                    });
                (C::event(&state, OutboxStep::Failed), C::put(message, state), outcome, change)
            }
        };
        let events = vec![AuditEvent::new(now, before.session_id(), event)];
        let expect = vec![RowExpectation { row: C::row(id), revision: Some(revision) }];
        let record =
            JournalRecord { expect, events: events.clone(), writes: vec![write], ..JournalRecord::default() };
        if self.log.commit_with_retries(record).await.is_err() {
            // another message has replaced this one meanwhile: the new one is checked next, and this attempt is
            // still logged
            let committed =
                self.log.commit_with_retries(JournalRecord { events, ..JournalRecord::default() }).await;
            committed.expect("a record that depends on no row is not stale");
            change = StateChange::Due(now);
        }
        self.metrics.count_attempt(before.kind(), outcome);
        change
    }
}
