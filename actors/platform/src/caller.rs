//! The caller of the request that is being handled. It follows the request through actors and tasks into its
//! audit entries.
//!
//! The front of a socket sets it by [`run_as_caller`]. An [`ActorHandle`](crate::actor_handle::ActorHandle)
//! passes it to the actor with each message. [`spawn_for_caller`] and [`run_as_current_caller`] pass it to a task that is spawned
//! for a request.
//! A task that is spawned without it acts for the daemon itself, and its entries have no caller.
//!
//! The trace of the request follows it in the same way. Orders and messages of the outbox keep the trace of the request that placed
//! or queued them, and [`run_in_trace`] continues it: later, and after a restart.

use actix::{Message, MessageResult, ResponseFuture};
use domain_base::caller::{RequestCaller, TraceContext};
use domain_base::session_id::ApplicationName;
use oracled_store::{JournalRecord, RecordCallers};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinHandle;

tokio::task_local! {
    static SCOPE: WorkScope;
}

/// The caller and the trace of work.
#[derive(Debug, Clone, Default)]
pub struct WorkScope {
    /// `None` if the daemon acts on its own.
    caller: Option<Arc<RequestCaller>>,
    /// The trace of the work. `None`: that of the caller.
    trace: Option<Arc<TraceContext>>,
}

impl WorkScope {
    fn is_empty(&self) -> bool {
        self.caller.is_none() && self.trace.is_none()
    }
}

/// Returns whether the caller of a read still waits for its answer.
pub type CallerWaitCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Runs `work` on behalf of `caller`, as a part of `trace`. Without one, the work is a part of the caller's trace.
pub fn run_as_caller<F: Future>(
    caller: RequestCaller,
    trace: Option<TraceContext>,
    work: F,
) -> impl Future<Output = F::Output> {
    SCOPE.scope(WorkScope { caller: Some(Arc::new(caller)), trace: trace.map(Arc::new) }, work)
}

/// Runs `work`, a task of its own, on behalf of the current caller.
pub fn run_as_current_caller<F: Future>(work: F) -> impl Future<Output = F::Output> {
    SCOPE.scope(current_scope(), work)
}

/// Spawns `work` on behalf of the current caller. All tasks have one type: each further type compiles tokio's task again.
pub fn spawn_for_caller(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(work);
    tokio::spawn(run_as_current_caller(work))
}

/// The scope of the current work, for another task or actor.
pub fn current_scope() -> WorkScope {
    SCOPE.try_with(Clone::clone).unwrap_or_default()
}

/// The current caller; `None` if the daemon acts on its own.
pub fn current_caller() -> Option<Arc<RequestCaller>> {
    SCOPE.try_with(|scope| scope.caller.clone()).ok().flatten()
}

/// The application of the current caller; `None` on the control socket, and if the daemon acts on its own.
#[must_use]
pub fn current_application() -> Option<ApplicationName> {
    current_caller()?.application.clone()
}

/// The trace of which the current work is a part.
pub fn current_trace() -> Option<TraceContext> {
    let WorkScope { caller, trace } = current_scope();
    trace.map(Arc::unwrap_or_clone).or_else(|| caller?.trace())
}

/// Runs `work` as a part of `trace`. Without one, the trace stays as it is.
pub fn run_in_trace<F: Future>(trace: Option<TraceContext>, work: F) -> impl Future<Output = F::Output> {
    let current = current_scope();
    let trace = trace.map(Arc::new).or(current.trace);
    SCOPE.scope(WorkScope { trace, ..current }, work)
}

/// `record` with the current caller, unless it names callers of its own. If the daemon acts on its own, it has the trace that the work
/// continues.
pub fn add_current_caller(mut record: JournalRecord) -> JournalRecord {
    if record.callers == RecordCallers::Nobody {
        record.callers = match current_caller() {
            Some(caller) => RecordCallers::One(caller),
            None => {
                current_trace().map_or(RecordCallers::Nobody, |trace| RecordCallers::Trace(trace.trace_id))
            }
        };
    }
    record
}

/// Calls `handle` in `scope`.
pub fn handle_in_scope<T>(scope: WorkScope, handle: impl FnOnce() -> T) -> T {
    SCOPE.sync_scope(scope, handle)
}

/// The result of a handler. If it is a future, it runs on behalf of the caller of the message.
pub trait CallerScope {
    /// The same in `scope`.
    #[must_use]
    fn run_in_scope(self, scope: WorkScope) -> Self;
}

impl<T: 'static> CallerScope for ResponseFuture<T> {
    fn run_in_scope(self, scope: WorkScope) -> Self {
        if scope.is_empty() { self } else { Box::pin(SCOPE.scope(scope, self)) }
    }
}

impl<M: Message> CallerScope for MessageResult<M> {
    fn run_in_scope(self, _: WorkScope) -> Self {
        self
    }
}

impl<T, E> CallerScope for Result<T, E> {
    fn run_in_scope(self, _: WorkScope) -> Self {
        self
    }
}

impl<T> CallerScope for Vec<T> {
    fn run_in_scope(self, _: WorkScope) -> Self {
        self
    }
}

impl CallerScope for () {
    fn run_in_scope(self, _: WorkScope) {}
}
