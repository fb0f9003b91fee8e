//! The caller of the request that is being handled. It follows the request through actors and tasks into its audit entries.
//!
//! The front of a socket names it with [`called_by`]. A [`Door`](crate::Door) carries it with each message to the
//! actor. A task that is spawned for a request keeps it through [`carried`]. A task that is spawned without it acts for
//! the daemon itself, and its entries have no caller.

use actix::{Message, MessageResult, ResponseFuture};
use oracled_domain::Caller;
use oracled_store::{Callers, Record};
use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static CALLER: Option<Arc<Caller>>;
}

/// Runs `work` on behalf of `caller`.
pub fn called_by<F: Future>(caller: Caller, work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(Some(Arc::new(caller)), work)
}

/// Runs `work`, a task of its own, on behalf of the current caller.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(current(), work)
}

/// The current caller; `None` if the daemon acts on its own.
pub(crate) fn current() -> Option<Arc<Caller>> {
    CALLER.try_with(Clone::clone).ok().flatten()
}

/// The user id of the current caller; `None` if the daemon acts on its own.
pub(crate) fn uid() -> Option<u32> {
    current().map(|caller| caller.peer.uid)
}

/// `record` with the current caller, unless it names callers of its own.
pub(crate) fn of_caller(record: Record) -> Record {
    match (&record.callers, current()) {
        (Callers::Nobody, Some(caller)) => Record { callers: Callers::One(caller), ..record },
        _ => record,
    }
}

/// Calls `handle` on behalf of `caller`.
pub(crate) fn handled<T>(caller: Option<Arc<Caller>>, handle: impl FnOnce() -> T) -> T {
    CALLER.sync_scope(caller, handle)
}

/// The result of a handler. If it is a future, it runs on behalf of the caller of the message.
pub trait Carry {
    /// The same on behalf of `caller`.
    #[must_use]
    fn carry(self, caller: Option<Arc<Caller>>) -> Self;
}

impl<T: 'static> Carry for ResponseFuture<T> {
    fn carry(self, caller: Option<Arc<Caller>>) -> Self {
        if caller.is_some() { Box::pin(CALLER.scope(caller, self)) } else { self }
    }
}

impl<M: Message> Carry for MessageResult<M> {
    fn carry(self, _: Option<Arc<Caller>>) -> Self {
        self
    }
}

impl<T, E> Carry for Result<T, E> {
    fn carry(self, _: Option<Arc<Caller>>) -> Self {
        self
    }
}

impl<T> Carry for Vec<T> {
    fn carry(self, _: Option<Arc<Caller>>) -> Self {
        self
    }
}

impl Carry for () {
    fn carry(self, _: Option<Arc<Caller>>) {}
}
