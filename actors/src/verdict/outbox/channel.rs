//! The differences between the kinds of messages.

use crate::audit::logger::JournalReport;
use jiff::Timestamp;
use oracled_domain::{EventKind, PeerCredentials, SessionId};
use oracled_store::{RowName, RowWrite, Store, StoreError};
use std::fmt::{Debug, Display};
use std::hash::Hash;

/// The state of a message in the outbox.
pub trait OutboxState: Debug + Clone + Send + Unpin + 'static {
    type Id: Debug + Display + Clone + Ord + Hash + Send + Sync + Unpin + 'static;
    /// Messages to one receiver have slots of their own, so that they delay no others.
    type Receiver: Debug + Clone + Ord + Send + Unpin + 'static;

    fn id(&self) -> &Self::Id;
    /// The kind of the message, as the metrics name it.
    fn kind(&self) -> &'static str;
    fn receiver(&self) -> Self::Receiver;
    fn session_id(&self) -> Option<SessionId>;
    /// The time at which it was queued first.
    fn queued_at(&self) -> Timestamp;
    /// The time of the next attempt; `None` for a dead letter.
    fn due_at(&self, now: Timestamp) -> Option<Timestamp>;
    /// The state after it is queued again.
    fn requeue(&self, now: Timestamp) -> Self;
}

/// A change of a message, for its entry in the log.
#[derive(Debug, Clone, Copy)]
pub enum OutboxStep {
    Sent,
    /// The state is that after the failed attempt.
    Failed,
    Requeued(PeerCredentials),
    Dropped(PeerCredentials),
}

/// The result of an attempt.
#[derive(Debug)]
pub enum SendOutcome<S> {
    Sent,
    /// The attempt failed at this time.
    Failed {
        /// The state after it.
        state: S,
        at: Timestamp,
    },
    /// No attempt was made, and none is made for the receiver before the next tick.
    Paused,
}

/// A kind of messages, and how they are sent.
pub trait OutboxChannel: Debug + Send + Sync + Unpin + 'static {
    /// The name of a message in errors.
    const NAME: &'static str;
    type State: OutboxState;
    type Message: Send + Sync + 'static;

    /// # Errors
    /// If the store cannot be read.
    fn read(store: &Store, id: &IdOf<Self>) -> Result<Option<(Self::Message, u64)>, StoreError>;
    /// The state of a message, even if the rest of it is damaged, with its revision.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn read_state(store: &Store, id: &IdOf<Self>) -> Result<Option<(Self::State, u64)>, StoreError>;
    /// Passes the states of the messages after `after` to `visit`, in the order of their ids, until it returns false.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn visit(
        store: &Store,
        after: Option<&IdOf<Self>>,
        visit: impl FnMut(Self::State) -> bool,
    ) -> Result<(), StoreError>;
    fn state(message: &Self::Message) -> &Self::State;
    /// Stores `message` with another state.
    fn put(message: Self::Message, state: Self::State) -> RowWrite;
    fn remove(id: IdOf<Self>) -> RowWrite;
    fn row(id: IdOf<Self>) -> RowName;
    fn event(state: &Self::State, step: OutboxStep) -> EventKind;
    /// The number of messages in the outbox.
    fn count(report: &JournalReport) -> u64;
    /// Whether messages can be sent at all. If not, they stay in the outbox.
    fn is_on(&self) -> bool;
    /// Makes one attempt to send a message that is due.
    fn send(&self, message: &Self::Message) -> impl Future<Output = SendOutcome<Self::State>> + Send;
}

/// The id of a message.
pub type IdOf<C> = <<C as OutboxChannel>::State as OutboxState>::Id;
/// The receiver of a message.
pub type ReceiverOf<C> = <<C as OutboxChannel>::State as OutboxState>::Receiver;
