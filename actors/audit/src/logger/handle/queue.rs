//! Entries of reads. They are queued and committed in groups. No request waits for the commit, since a read changes
//! nothing.
//!
//! A full queue makes the reads wait; no entry is dropped. A crash may lose the entries of the last 100 ms.

use crate::logger::{CommitError, LoggerHandle};
use actors_platform::caller;
use domain_base::caller::RequestCaller;
use domain_base::event::AuditEvent;
use oracled_store::{JournalRecord, RecordCallers};
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// The most queued entries, without the group that is being committed.
pub const QUEUED_MAX: usize = 4096;
/// The most entries in a group, which is one row of the log.
pub const GROUP_MAX: usize = 256;
/// How long an entry waits for others to join its group. Including the commit, an entry is on the disk within 100 ms.
pub const GROUP_WAIT: Duration = Duration::from_millis(80);

/// A message to the writer.
#[derive(Debug)]
enum EntryQueueMessage {
    Entry(Box<AuditEvent>, Option<Arc<RequestCaller>>),
    /// Commits all entries before it at once, and reports when they are on the disk.
    Flush(oneshot::Sender<()>),
}

/// The sending side of the queue.
#[derive(Debug, Clone)]
pub(super) struct EntryQueue(mpsc::Sender<EntryQueueMessage>);

/// The entries that wait in the queue.
#[derive(Debug)]
pub struct EntryQueueReceiver(mpsc::Receiver<EntryQueueMessage>);

impl EntryQueue {
    pub(super) fn new() -> (Self, EntryQueueReceiver) {
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        (Self(sender), EntryQueueReceiver(receiver))
    }
}

impl LoggerHandle {
    /// Queues the entry of a read, on behalf of the current caller. Waits while the queue is full, but not for the
    /// commit.
    ///
    /// # Errors
    /// `Unavailable` if the journal does not accept entries. The entry is in the service log then, and nothing may be
    /// delivered.
    pub async fn append(&self, event: AuditEvent) -> Result<(), CommitError> {
        let caller = caller::current_caller();
        let failure = self.report.borrow().failure.as_ref().map(|(cause, _)| cause.clone());
        let refused = match failure {
            Some(cause) => Some((event, cause)),
            None => {
                match self.queue.0.send(EntryQueueMessage::Entry(Box::new(event), caller.clone())).await {
                    Ok(()) => None,
                    Err(mpsc::error::SendError(EntryQueueMessage::Entry(event, _))) => {
                        Some((*event, "the queue of the log is closed".to_owned()))
                    }
                    Err(_) => None,
                }
            }
        };
        let Some((event, cause)) = refused else { return Ok(()) };
        let callers = caller.map_or(RecordCallers::Nobody, RecordCallers::One);
        self.fall_back(&JournalRecord { callers, ..JournalRecord::from(event) }, &cause);
        Err(CommitError::Unavailable(cause))
    }

    /// Commits all queued entries, and waits until they are on the disk or in the service log.
    pub async fn flush(&self) {
        let (reply, flushed) = oneshot::channel();
        if self.queue.0.send(EntryQueueMessage::Flush(reply)).await.is_err() || flushed.await.is_err() {
            tracing::error!("the queue of the log is closed");
        }
    }

    /// Commits the `waiting` entries in groups, for as long as the daemon runs.
    pub async fn commit_queued_entries(self, EntryQueueReceiver(mut waiting): EntryQueueReceiver) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        while waiting.recv_many(&mut group, GROUP_MAX).await > 0 {
            let due = sleep(GROUP_WAIT);
            tokio::pin!(due);
            while group.len() < GROUP_MAX
                && !group.iter().any(|queued| matches!(queued, EntryQueueMessage::Flush(_)))
            {
                let room = GROUP_MAX - group.len();
                tokio::select! {
                    more = waiting.recv_many(&mut group, room) => if more == 0 { break },
                    () = &mut due => break,
                }
            }
            self.write_group(mem::take(&mut group)).await;
        }
    }

    async fn write_group(&self, group: Vec<EntryQueueMessage>) {
        let (mut events, mut callers, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
        for queued in group {
            match queued {
                EntryQueueMessage::Entry(event, caller) => {
                    events.push(*event);
                    callers.push(caller);
                }
                EntryQueueMessage::Flush(reply) => flushed.push(reply),
            }
        }
        if !events.is_empty() {
            let record =
                JournalRecord { events, callers: RecordCallers::Each(callers), ..JournalRecord::default() };
            // entries that are not committed are in the service log
            if let Err(error) = self.commit(record).await {
                tracing::warn!(%error, "could not commit entries of reads");
            }
        }
        for reply in flushed {
            if reply.send(()).is_err() {
                tracing::debug!("the caller of a flush no longer waits");
            }
        }
    }
}
