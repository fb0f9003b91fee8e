//! The caller of the request that is being handled. It follows the request through actors and tasks into its
//! audit entries.
//!
//! The front of a socket sets it by [`run_as_caller`]. An [`ActorHandle`](crate::platform::actor_handle::ActorHandle)
//! passes it to the actor with each message. [`run_as_current_caller`] passes it to a task that is spawned for a request.
//! A task that is spawned without it acts for the daemon itself, and its entries have no caller.

use actix::{Message, MessageResult, ResponseFuture};
use oracled_domain::{ApplicationName, RequestCaller};
use oracled_store::{JournalRecord, RecordCallers};
use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static CALLER: Option<Arc<RequestCaller>>;
}

/// Runs `work` on behalf of `caller`.
pub fn run_as_caller<F: Future>(caller: RequestCaller, work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(Some(Arc::new(caller)), work)
}

/// Runs `work`, a task of its own, on behalf of the current caller.
pub fn run_as_current_caller<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(current_caller(), work)
}

/// The current caller; `None` if the daemon acts on its own.
pub(crate) fn current_caller() -> Option<Arc<RequestCaller>> {
    CALLER.try_with(Clone::clone).ok().flatten()
}

/// The application of the current caller; `None` on the control socket, and if the daemon acts on its own.
#[must_use]
pub fn current_application() -> Option<ApplicationName> {
    current_caller()?.application.clone()
}

/// `record` with the current caller, unless it names callers of its own.
pub(crate) fn add_current_caller(record: JournalRecord) -> JournalRecord {
    match (&record.callers, current_caller()) {
        (RecordCallers::Nobody, Some(caller)) => {
            JournalRecord { callers: RecordCallers::One(caller), ..record }
        }
        _ => record,
    }
}

/// Calls `handle` on behalf of `caller`.
pub(crate) fn handle_as_caller<T>(caller: Option<Arc<RequestCaller>>, handle: impl FnOnce() -> T) -> T {
    CALLER.sync_scope(caller, handle)
}

/// The result of a handler. If it is a future, it runs on behalf of the caller of the message.
pub trait CallerScope {
    /// The same on behalf of `caller`.
    #[must_use]
    fn run_on_behalf_of(self, caller: Option<Arc<RequestCaller>>) -> Self;
}

impl<T: 'static> CallerScope for ResponseFuture<T> {
    fn run_on_behalf_of(self, caller: Option<Arc<RequestCaller>>) -> Self {
        if caller.is_some() { Box::pin(CALLER.scope(caller, self)) } else { self }
    }
}

impl<M: Message> CallerScope for MessageResult<M> {
    fn run_on_behalf_of(self, _: Option<Arc<RequestCaller>>) -> Self {
        self
    }
}

impl<T, E> CallerScope for Result<T, E> {
    fn run_on_behalf_of(self, _: Option<Arc<RequestCaller>>) -> Self {
        self
    }
}

impl<T> CallerScope for Vec<T> {
    fn run_on_behalf_of(self, _: Option<Arc<RequestCaller>>) -> Self {
        self
    }
}

impl CallerScope for () {
    fn run_on_behalf_of(self, _: Option<Arc<RequestCaller>>) {}
}
