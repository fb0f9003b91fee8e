//! The caller of the request that is being handled. It follows the request through actors and tasks into its
//! audit entries.
//!
//! The front of a socket sets it by [`run_as_caller`]. An [`ActorHandle`](crate::actor_handle::ActorHandle)
//! passes it to the actor with each message. [`spawn_for_caller`] and [`run_as_current_caller`] pass it to a task that is spawned
//! for a request.
//! A task that is spawned without it acts for the daemon itself, and its entries have no caller.
//!
//! The trace of the request is part of its caller. A message of the outbox keeps the trace of the request that queued it.

use actix::{Message, MessageResult, ResponseFuture};
use domain_base::caller::{RequestCaller, TraceContext};
use domain_base::session_id::ApplicationName;
use oracled_store::{JournalRecord, RecordCallers};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinHandle;

tokio::task_local! {
    static CALLER: Option<Arc<RequestCaller>>;
    /// The trace of a message of the outbox while it is sent. It replaces that of the caller.
    static MESSAGE_TRACE: Option<TraceContext>;
}

/// Returns whether the caller of a read still waits for its answer.
pub type CallerWaitCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Runs `work` on behalf of `caller`.
pub fn run_as_caller<F: Future>(caller: RequestCaller, work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(Some(Arc::new(caller)), work)
}

/// Runs `work`, a task of its own, on behalf of the current caller.
pub fn run_as_current_caller<F: Future>(work: F) -> impl Future<Output = F::Output> {
    CALLER.scope(current_caller(), work)
}

/// Spawns `work` on behalf of the current caller. All tasks have one type: each further type compiles tokio's task again.
pub fn spawn_for_caller(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work);
    tokio::spawn(run_as_current_caller(work))
}

/// The current caller; `None` if the daemon acts on its own.
pub fn current_caller() -> Option<Arc<RequestCaller>> {
    CALLER.try_with(Clone::clone).ok().flatten()
}

/// The application of the current caller; `None` on the control socket, and if the daemon acts on its own.
#[must_use]
pub fn current_application() -> Option<ApplicationName> {
    current_caller()?.application.clone()
}

/// The trace of which the current work is a part.
pub fn current_trace() -> Option<TraceContext> {
    MESSAGE_TRACE.try_with(Clone::clone).unwrap_or_else(|_| current_caller()?.trace())
}

/// Runs `work`, which sends a message of the outbox, as a part of the trace of the message.
pub fn run_in_trace<F: Future>(trace: Option<TraceContext>, work: F) -> impl Future<Output = F::Output> {
    MESSAGE_TRACE.scope(trace, work)
}

/// The trace of the current caller, for a message that the work queues.
pub fn caller_trace() -> Option<TraceContext> {
    current_caller()?.trace()
}

/// `record` with the current caller, unless it names callers of its own.
pub fn add_current_caller(mut record: JournalRecord) -> JournalRecord {
    if let (RecordCallers::Nobody, Some(caller)) = (&record.callers, current_caller()) {
        record.callers = RecordCallers::One(caller);
    }
    record
}

/// Calls `handle` on behalf of `caller`.
pub fn handle_as_caller<T>(caller: Option<Arc<RequestCaller>>, handle: impl FnOnce() -> T) -> T {
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
