//! The contact of this host with the log that the hosts of its cluster share.

use super::Logger;
use actix::ActorFutureExt;
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use actors_platform::clock::monotonic;
use oracled_store::{FollowedChanges, Journal, RowWrite, StoreError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The time between two reads of the shared log without a request.
pub(super) const FOLLOWED_EVERY: Duration = Duration::from_millis(200);

/// When this host read the shared log up to its end the last time.
#[derive(Debug, Clone)]
pub struct LogContact(Arc<Mutex<Contact>>);

#[derive(Debug)]
struct Contact {
    /// A time at which this host had all groups of the shared log.
    last: Instant,
    /// Why it cannot be read now.
    failure: Option<String>,
}

impl LogContact {
    /// The contact of a host that has just read the shared log.
    pub(super) fn begin() -> Self {
        Self(Arc::new(Mutex::new(Contact { last: monotonic(), failure: None })))
    }

    /// Notes whether all groups up to `asked_at` have been read.
    pub(super) fn note(&self, asked_at: Instant, read: &Result<(), StoreError>) {
        let mut contact = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(()) => *contact = Contact { last: asked_at, failure: None },
            Err(error) => contact.failure = Some(error.to_cause()),
        }
    }

    /// The time since this host had all groups of the shared log.
    #[must_use]
    pub fn age(&self) -> Duration {
        let contact = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        monotonic().duration_since(contact.last)
    }

    /// Why the shared log cannot be read now.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }
}

/// The logger's part in a cluster.
#[derive(Debug)]
pub(super) struct LoggerInCluster {
    pub(super) contact: LogContact,
    /// After a failed call of the shared log, when the next one is made: a call can take seconds, in which the logger answers nothing.
    rests_until: Option<Instant>,
    /// The requests that wait for all groups of the shared log.
    waiting: Vec<oneshot::Sender<Result<(), String>>>,
}

/// Applies the groups of the shared log up to its end at some time since the message.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), String>")]
pub(super) struct FollowSharedLog;

impl LoggerInCluster {
    /// The part of a logger that owns `journal`, whose changes by other hosts `followed` receives; `None` if this is the only host.
    pub(super) fn of(journal: &mut Journal, followed: mpsc::UnboundedSender<Vec<RowWrite>>) -> Option<Self> {
        // without a receiver, the daemon is stopping
        journal.report_followed(FollowedChanges(Box::new(move |changes| drop(followed.send(changes)))));
        let contact = LogContact::begin();
        journal.is_shared().then(|| Self { contact, rests_until: None, waiting: Vec::new() })
    }

    /// Whether the shared log is not called for now.
    pub(super) fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| monotonic() < until)
    }

    /// Notes a call of the shared log that began at `began`.
    pub(super) fn note_call(&mut self, began: Instant, has_failed: bool) {
        let now = monotonic();
        self.rests_until = has_failed.then(|| now + 2 * now.duration_since(began));
    }
}

impl Logger {
    /// Reads the shared log, if there is one, and answers all requests that wait for it.
    pub(super) fn follow(&mut self) {
        let (Some(cluster), Some(journal)) = (&mut self.cluster, &mut self.journal) else { return };
        let asked_at = monotonic();
        let read = match cluster.contact.failure().filter(|_| cluster.rests()) {
            Some(cause) => Err(StoreError::Unavailable { cause }),
            None => {
                let read = journal.follow();
                cluster.note_call(asked_at, read.is_err());
                read
            }
        };
        cluster.contact.note(asked_at, &read);
        let answer = read.as_ref().copied().map_err(StoreError::to_cause);
        for waiting in std::mem::take(&mut cluster.waiting) {
            // the caller may no longer wait
            drop(waiting.send(answer.clone()));
        }
        if let Err(error @ StoreError::Diverged { .. }) = read {
            self.end(&error);
        }
    }
}

impl Handler<FollowSharedLog> for Logger {
    type Result = ResponseFuture<Result<(), String>>;

    fn handle(&mut self, _: FollowSharedLog, ctx: &mut Context<Self>) -> Self::Result {
        let Some(cluster) = &mut self.cluster else { return Box::pin(async { Ok(()) }) };
        if let Some(cause) = cluster.contact.failure() {
            // the next read by itself is soon, and each attempt to connect blocks all others
            return Box::pin(async { Err(cause) });
        }
        let (reply, answer) = oneshot::channel();
        cluster.waiting.push(reply);
        if cluster.waiting.len() == 1 {
            // after the whole mailbox was read, so that one read serves all that wait
            ctx.spawn(async {}.into_actor(self).map(|(), logger, _| logger.follow()));
        }
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err("the logger panicked".to_owned())) })
    }
}
