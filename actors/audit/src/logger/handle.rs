//! The handle of the logger, which the other actors use, and the commit loop: read, decide, commit. If a row has
//! changed meanwhile, the loop starts again.

use super::contact::FollowSharedLog;
use super::{
    CloseJournal, CommitError, CommitRecord, JournalReport, LogContact, Logger, LoggerMetrics,
    RebuildDatabase, ReopenMirror, RewriteMirror, SnapshotMirror,
};
use actors_platform::actor_handle::ActorHandle;
use actors_platform::caller;
use actors_platform::span::{Span, SpanKind};
use domain_base::caller::RequestCaller;
use domain_base::event::{AuditEvent, json_members};
use oracled_store::{CommitReceipt, JournalRecord, MirrorFault, MirrorSnapshot, RecordCallers};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, mem};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::sleep;

/// Additions of a feature to the records that other features commit, such as webhooks about their events.
pub trait RecordAdditions: fmt::Debug + Send + Sync {
    /// Returns `record` with the additions. One commit stores both.
    fn add_to(&self, record: JournalRecord) -> JournalRecord;

    /// Reports the additions of a committed record to the feature.
    fn report_committed(&self, record: &JournalRecord);
}

/// The handle of the logger. A failed commit falls back to the service log.
#[derive(Debug, Clone)]
pub struct LoggerHandle {
    pub(super) handle: ActorHandle<Logger>,
    queue: EntryQueue,
    pub(super) report: watch::Receiver<JournalReport>,
    fallback: FallbackLog,
    fallback_entries: Arc<AtomicU64>,
    metrics: LoggerMetrics,
    pub(super) additions: Arc<dyn RecordAdditions>,
    pub(super) contact: Option<LogContact>,
}

impl LoggerHandle {
    /// Returns the handle, and the queued entries, which [`LoggerHandle::commit_queued_entries`] commits.
    pub fn new(
        handle: ActorHandle<Logger>,
        report: watch::Receiver<JournalReport>,
        fallback: FallbackLog,
        fallback_entries: Arc<AtomicU64>,
        metrics: LoggerMetrics,
        additions: Arc<dyn RecordAdditions>,
        contact: Option<LogContact>,
    ) -> (Self, EntryQueueReceiver) {
        let (queue, waiting) = EntryQueue::new();
        (Self { handle, queue, report, fallback, fallback_entries, metrics, additions, contact }, waiting)
    }

    /// Makes `record` durable, on behalf of the current caller. If that fails for another reason than a stale row, its
    /// events go to the service log.
    ///
    /// # Errors
    /// `Stale`: read and decide again. `Unavailable`: nothing may be delivered.
    pub async fn commit(&self, record: JournalRecord) -> Result<CommitReceipt, CommitError> {
        let record = Arc::new(caller::add_current_caller(self.additions.add_to(record)));
        let outcome = self.try_commit(&record).await;
        if let Err(CommitError::Unavailable(cause)) = &outcome {
            self.fall_back(&record, cause);
        }
        outcome
    }

    pub(super) async fn try_commit(&self, record: &Arc<JournalRecord>) -> Result<CommitReceipt, CommitError> {
        let mut span = Span::child(SpanKind::Internal, "journal commit");
        let answer = self.handle.ask(CommitRecord(Arc::clone(record))).await;
        let outcome = answer.unwrap_or_else(|error| Err(CommitError::Unavailable(error.to_string())));
        describe(&mut span, record, &outcome);
        drop(span);
        if outcome.is_ok() {
            self.additions.report_committed(record);
        }
        outcome
    }

    pub(super) fn fall_back(&self, record: &JournalRecord, cause: &str) {
        let entries = self.fallback.write(record, cause);
        self.fallback_entries.fetch_add(entries, Ordering::Relaxed);
        self.metrics.fallback_entries.inc_by(entries);
    }

    /// Reopens `oracle_log.jsonl` after a rotation.
    ///
    /// # Errors
    /// The text of the error that occurred while the file was opened.
    pub async fn reopen_mirror(&self) -> Result<(), String> {
        self.handle.ask(ReopenMirror).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// `oracle_log.jsonl` as it is now, to compare it with the log.
    ///
    /// # Errors
    /// The text of the error: the file cannot be opened.
    pub async fn mirror_snapshot(&self) -> Result<MirrorSnapshot, String> {
        self.handle.ask(SnapshotMirror).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Logs the fault that was found in `snapshot`, moves the file aside, and writes it again from the log. Does nothing if
    /// the file was rotated meanwhile.
    ///
    /// # Errors
    /// The text of the error: the entry cannot be committed, or the file cannot be moved.
    pub async fn rewrite_mirror(&self, snapshot: MirrorSnapshot, fault: MirrorFault) -> Result<(), String> {
        let rewritten = self.handle.ask(RewriteMirror(snapshot, fault)).await;
        rewritten.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Rebuilds the database from the segments, since `damage` was found. Until it is rebuilt, reads fail and commits wait.
    ///
    /// # Errors
    /// The text of the error: the disk cannot be written. It is tried again every second.
    pub async fn rebuild_database(&self, damage: String) -> Result<(), String> {
        self.handle.ask(RebuildDatabase(damage)).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Writes everything to the disk, queued entries included. The log accepts no more entries.
    pub async fn close(&self) {
        self.flush().await;
        if let Err(error) = self.handle.ask(CloseJournal).await {
            tracing::error!(%error, "could not close the logger");
        }
    }

    /// The journal's latest report, and a way to wait for the next.
    #[must_use]
    pub fn report(&self) -> watch::Receiver<JournalReport> {
        self.report.clone()
    }

    /// The actor's handle, for its report.
    #[must_use]
    pub fn actor_handle(&self) -> &ActorHandle<Logger> {
        &self.handle
    }
}

impl LoggerHandle {
    /// The contact with the shared log; `None` if this is the only host.
    #[must_use]
    pub const fn contact(&self) -> Option<&LogContact> {
        self.contact.as_ref()
    }

    /// Waits until the store has everything that any host had committed before the call. Returns at once if this is the only host.
    ///
    /// # Errors
    /// `Unavailable`: the shared log does not answer, so other hosts may have changed what is read now.
    pub async fn catch_up(&self) -> Result<(), CommitError> {
        if self.contact.is_none() {
            return Ok(());
        }
        let answer = self.handle.ask(FollowSharedLog).await;
        answer.unwrap_or_else(|error| Err(error.to_string())).map_err(CommitError::Unavailable)
    }
}

// Entries of reads. They are queued and committed in groups. No request waits for the commit, since a read changes
// nothing.
//
// A full queue makes the reads wait; no entry is dropped. A crash may lose the entries of the last 100 ms.

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
struct EntryQueue {
    sender: mpsc::Sender<EntryQueueMessage>,
    urgent: Arc<Notify>,
}

/// The entries that wait in the queue.
#[derive(Debug)]
pub struct EntryQueueReceiver {
    waiting: mpsc::Receiver<EntryQueueMessage>,
    /// Notified when a whole group waits, or when a flush does.
    urgent: Arc<Notify>,
}

impl EntryQueue {
    fn new() -> (Self, EntryQueueReceiver) {
        let (sender, waiting) = mpsc::channel(QUEUED_MAX);
        let urgent = Arc::<Notify>::default();
        (Self { sender, urgent: Arc::clone(&urgent) }, EntryQueueReceiver { waiting, urgent })
    }

    /// To be called after an entry was queued.
    fn note_length(&self) {
        if self.sender.max_capacity() - self.sender.capacity() >= GROUP_MAX {
            self.urgent.notify_one();
        }
    }
}

/// Describes a commit in its span.
fn describe(span: &mut Span, record: &JournalRecord, outcome: &Result<CommitReceipt, CommitError>) {
    span.set("oracled.entries", record.events.len() as u64);
    span.set("oracled.rows", record.writes.len() as u64);
    match outcome {
        Ok(receipt) => span.set("oracled.last_seq", receipt.last_seq),
        Err(CommitError::Stale(_)) => span.fail("stale"),
        Err(CommitError::Unavailable(_)) => span.fail("unavailable"),
    }
}

/// Whether a group is committed at once: it is full, or a flush waits for it.
fn is_complete(group: &[EntryQueueMessage]) -> bool {
    group.len() >= GROUP_MAX || group.iter().any(|queued| matches!(queued, EntryQueueMessage::Flush(_)))
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
                let entry = EntryQueueMessage::Entry(Box::new(event), caller.clone());
                match self.queue.sender.send(entry).await {
                    Ok(()) => {
                        self.queue.note_length();
                        None
                    }
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
        let sent = self.queue.sender.send(EntryQueueMessage::Flush(reply)).await;
        self.queue.urgent.notify_one();
        if sent.is_err() || flushed.await.is_err() {
            tracing::error!("the queue of the log is closed");
        }
    }

    /// Commits the `waiting` entries in groups, for as long as the daemon runs.
    pub async fn commit_queued_entries(self, EntryQueueReceiver { mut waiting, urgent }: EntryQueueReceiver) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        while waiting.recv_many(&mut group, GROUP_MAX).await > 0 {
            let mut is_due = false;
            let due = sleep(GROUP_WAIT);
            tokio::pin!(due);
            while !is_complete(&group) && !is_due {
                // until then, entries wake no thread
                tokio::select! {
                    () = urgent.notified() => {}
                    () = &mut due => is_due = true,
                }
                while group.len() < GROUP_MAX
                    && let Ok(queued) = waiting.try_recv()
                {
                    let is_flush = matches!(queued, EntryQueueMessage::Flush(_));
                    group.push(queued);
                    if is_flush {
                        break;
                    }
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

/// Writes one line to the service log.
type FallbackLineSink = dyn Fn(&str) + Send + Sync;

/// The writer of the fallback lines.
#[derive(Clone)]
pub struct FallbackLog(Arc<FallbackLineSink>);

/// The start of a line, before the members of the entry: the marker and the cause.
#[derive(Serialize)]
struct FallbackHead<'e> {
    log_fallback: bool,
    /// Not named `cause`, because some entries have a field `cause`.
    fallback_cause: &'e str,
}

/// The end of a line, after the members of the entry.
#[derive(Serialize)]
struct FallbackEnd<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'e RequestCaller>,
}

impl FallbackLog {
    /// Standard error, which journald reads under systemd.
    #[must_use]
    pub fn stderr() -> Self {
        use std::io::Write;
        // eprintln! panics if standard error is closed, and there is nowhere else to report that
        Self::new(|line| drop(writeln!(std::io::stderr(), "{line}")))
    }

    /// Passes each line to `write`.
    #[must_use]
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Writes the events of `record` that have happened although the commit failed. Returns their number.
    pub(crate) fn write(&self, record: &JournalRecord, cause: &str) -> u64 {
        let mut entries = 0;
        for (index, entry) in record.events.iter().enumerate().filter(|(_, event)| !event.kind.needs_commit())
        {
            let head = json_members(&FallbackHead { log_fallback: true, fallback_cause: cause });
            let end = json_members(&FallbackEnd { caller: record.callers.of(index) });
            let entry = entry.members();
            let comma = if end.is_empty() { "" } else { "," };
            (self.0)(&format!("{{{head},{entry}{comma}{end}}}"));
            entries += 1;
        }
        entries
    }
}

impl fmt::Debug for FallbackLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fallback")
    }
}

/// Maximum number of attempts for one decision.
const ATTEMPTS_MAX: usize = 8;

/// The result of a decision.
pub enum CommitDecision<T> {
    /// There is nothing to commit.
    Already(T),
    /// The record must be committed.
    Change(T, JournalRecord),
}

impl LoggerHandle {
    /// Decides and commits. If a row on which the record depends has changed, `decide` is called again: it
    /// reads the rows itself. Returns the result of the decision, and the receipt if there was a commit.
    ///
    /// # Errors
    /// The error of `decide`; `Unavailable`; `Stale` if a row has changed during each of 8 attempts.
    pub async fn decide_and_commit<T, E: From<CommitError>>(
        &self,
        mut decide: impl FnMut() -> Result<CommitDecision<T>, E>,
    ) -> Result<(T, Option<CommitReceipt>), E> {
        let mut attempt = 1;
        loop {
            let (result, record) = match decide()? {
                CommitDecision::Already(result) => return Ok((result, None)),
                CommitDecision::Change(result, record) => (result, record),
            };
            match self.commit(record).await {
                Ok(receipt) => return Ok((result, Some(receipt))),
                Err(CommitError::Stale(_)) if attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
