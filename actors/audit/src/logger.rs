//! The logger: the only writer of rows and entries.
//!
//! It blocks on the disk, so it has its own thread. Records that arrive during a sync wait in the mailbox and form the
//! next group. The more records wait, the fewer syncs each one costs.

mod contact;
pub mod handle;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, WrapFuture,
};
use actors_platform::actor_handle::ActorCallError;
use actors_platform::caller::add_current_caller;
use actors_platform::clock::{Clock, monotonic};
use actors_platform::guardian::EndReason;
use actors_platform::metrics::AddMetric;
use domain_audit::event::{LostRow, MirrorRepaired, StorageRecovered};
use domain_base::event::{AuditEvent, EventKind};
use jiff::Timestamp;
use oracled_store::{
    CommitReceipt, Erasure, ErasureStep, Journal, JournalRecord, MirrorFault, MirrorSnapshot,
    RecordRejectedError, RemovalPlan, RowName, RowWrite, SegmentHealing, StoreBackup, StoreCounts,
    StoreError,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use serde::Serialize;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

pub use contact::LogContact;
use contact::{FOLLOWED_EVERY, LoggerInCluster};
pub use handle::LoggerHandle;

/// The most records in one commit.
const GROUP_MAX: usize = 512;
/// Interval between syncs of the mirror and the high-water mark, and between attempts to reopen a failed journal.
const TICK: Duration = Duration::from_secs(1);

/// Why a record was not committed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A row that the record depends on was changed meanwhile; nothing was written.
    #[error("{0} was changed meanwhile")]
    Stale(RowName),
    /// The disk rejects the record, or the logger panicked while it was committing. Nothing may be delivered.
    #[error("the log cannot be used: {0}")]
    Unavailable(String),
}

/// The state of the journal, for monitoring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct JournalReport {
    /// Numbers of stored entries and rows.
    #[serde(skip)]
    pub counts: StoreCounts,
    /// Why the journal rejects all records now, and since when.
    pub failure: Option<(String, Timestamp)>,
    /// Why the journal rejects new work now (too little free space), and since when. It accepts other records.
    pub low_space: Option<(String, Timestamp)>,
    /// Why `oracle_log.jsonl` lags behind the journal.
    pub mirror_lag: Option<String>,
    /// The damage of the segments that is being repaired, and the time at which it was found.
    pub segment_damage: Option<(String, Timestamp)>,
    /// The segments whose copies could not be written, and why.
    pub missing_copies: Option<String>,
    /// The rows that every copy has lost.
    #[serde(skip)]
    pub lost_rows: Vec<LostRow>,
    /// Number of entries that went to the service log instead.
    pub fallback_entries: u64,
}

/// The metrics of commits.
#[derive(Debug, Clone)]
pub struct LoggerMetrics {
    records: Counter,
    commit_seconds: Histogram,
    group_records: Histogram,
    fallback_entries: Counter,
    mirror_repairs: Counter,
}

impl LoggerMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            records: registry.add("journal_records", "records made durable", Counter::default()),
            commit_seconds: registry.add_seconds(
                "journal_commit",
                "time to make one group of records durable",
                Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            ),
            group_records: registry.add(
                "journal_group_records",
                "records made durable at once",
                Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            ),
            fallback_entries: registry.add(
                "log_fallback_entries",
                "entries that went to the service log because the journal rejected them",
                Counter::default(),
            ),
            mirror_repairs: registry.add(
                "mirror_repairs",
                "times that oracle_log.jsonl differed from the log and was repaired",
                Counter::default(),
            ),
        }
    }
}

/// The actor that owns the journal.
#[derive(Debug)]
pub struct Logger {
    /// `None` after the logger was closed.
    journal: Option<Journal>,
    pending: Vec<PendingRecord>,
    failed_at: Option<Timestamp>,
    low_space: Option<(String, Timestamp)>,
    /// The rows that every copy has lost, as they were at the last tick.
    lost_rows: Vec<LostRow>,
    report: watch::Sender<JournalReport>,
    /// Set to the reason when the store can no longer be trusted.
    abandon: watch::Sender<Option<EndReason>>,
    fallback_entries: Arc<AtomicU64>,
    clock: Clock,
    metrics: LoggerMetrics,
    /// `None` if this is the only host.
    cluster: Option<LoggerInCluster>,
}

#[derive(Debug)]
struct PendingRecord {
    record: Arc<JournalRecord>,
    reply: oneshot::Sender<Result<CommitReceipt, CommitError>>,
}

/// Makes a record durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<CommitReceipt, CommitError>")]
struct CommitRecord(Arc<JournalRecord>);

/// Reopens `oracle_log.jsonl` after a rotation.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), String>")]
struct ReopenMirror;

/// Requests `oracle_log.jsonl` as it is now, to compare it with the log.
#[derive(Debug, Message)]
#[rtype(result = "Result<MirrorSnapshot, String>")]
struct SnapshotMirror;

/// Writes `oracle_log.jsonl` again if it is still the file in which the fault was found.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), String>")]
struct RewriteMirror(MirrorSnapshot, MirrorFault);

/// Rebuilds the database from the segments, since this damage was found.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), String>")]
struct RebuildDatabase(String);

/// Writes everything to the disk and closes the journal.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct CloseJournal;

impl Logger {
    /// The logger of this journal. In a cluster, `followed` receives the changes by other hosts.
    pub fn new(
        mut journal: Journal,
        followed: mpsc::UnboundedSender<Vec<RowWrite>>,
        report: watch::Sender<JournalReport>,
        abandon: watch::Sender<Option<EndReason>>,
        clock: Clock,
        metrics: LoggerMetrics,
    ) -> Self {
        let cluster = LoggerInCluster::of(&mut journal, followed);
        Self {
            journal: Some(journal),
            cluster,
            pending: Vec::new(),
            failed_at: None,
            low_space: None,
            lost_rows: Vec::new(),
            report,
            abandon,
            fallback_entries: Arc::default(),
            clock,
            metrics,
        }
    }

    /// Commits all pending records, in one or more groups.
    fn flush(&mut self) {
        while !self.pending.is_empty() {
            let rest = self.pending.split_off(self.pending.len().min(GROUP_MAX));
            let mut group = mem::replace(&mut self.pending, rest);
            while !group.is_empty() {
                group = self.commit(group);
            }
        }
        self.publish();
    }

    /// Commits as many records of a group as the journal accepts at once. Returns the rest.
    fn commit(&mut self, mut group: Vec<PendingRecord>) -> Vec<PendingRecord> {
        let Some(journal) = &mut self.journal else {
            for PendingRecord { reply, .. } in group {
                drop(reply.send(Err(CommitError::Unavailable("the daemon is stopping".into()))));
            }
            return Vec::new();
        };
        let records: Vec<_> = group.iter().map(|pending| Arc::clone(&pending.record)).collect();
        let began = monotonic();
        match journal.commit(&records) {
            Ok(outcomes) => {
                let rest = group.split_off(outcomes.len());
                self.metrics.commit_seconds.observe(began.elapsed().as_secs_f64());
                self.metrics
                    .group_records
                    .observe(f64::from(u32::try_from(outcomes.len()).unwrap_or(u32::MAX)));
                self.metrics.records.inc_by(outcomes.len() as u64);
                for (PendingRecord { reply, .. }, outcome) in group.into_iter().zip(outcomes) {
                    // the caller may no longer wait; the record is committed anyway
                    drop(reply.send(outcome.map_err(CommitError::from)));
                }
                return rest;
            }
            // one record may be too large for the free space, so each is committed alone
            Err(_) if journal.failure().is_none() && records.len() > 1 => {
                for pending in group {
                    self.commit(vec![pending]);
                }
            }
            Err(error) => {
                self.note_failure(&error);
                for PendingRecord { reply, .. } in group {
                    drop(reply.send(Err(CommitError::Unavailable(error.to_string()))));
                }
            }
        }
        Vec::new()
    }

    fn note_failure(&mut self, error: &StoreError) {
        let accepts_others = self.journal.as_ref().is_some_and(|journal| journal.failure().is_none());
        if self.failed_at.is_none() && !accepts_others {
            tracing::error!(%error, "the journal failed: no entries can be committed");
            self.failed_at = Some(self.clock.now());
        }
        if let StoreError::Diverged { .. } = error {
            self.end(error);
        }
    }

    /// Ends the daemon: nothing of this store may be served any longer.
    fn end(&self, error: &StoreError) {
        let reason = match error {
            StoreError::Diverged { detail, .. } => EndReason::Fork(detail.clone()),
            error => EndReason::Fault(error.to_string()),
        };
        self.abandon.send_replace(Some(reason));
    }

    fn tick(&mut self) {
        if self.failed_at.is_some() && !self.cluster.as_ref().is_some_and(LoggerInCluster::rests) {
            self.recover();
        }
        self.check_space();
        if let Some(journal) = &mut self.journal {
            journal.sync_pending_work();
            self.lost_rows = journal.lost_rows();
            // reopening the database may have failed
            if let Some(cause) = journal.failure().map(String::from) {
                self.note_failure(&StoreError::Unavailable { cause });
            }
        }
        self.publish();
    }

    /// Checks the free space for new work. When enough space is free again, logs an entry with the start of the
    /// shortage.
    fn check_space(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        let now = self.clock.now();
        match (journal.low_space(), self.low_space.take()) {
            (Some(cause), None) => {
                tracing::error!(cause, "new work is rejected: too little free disk space");
                self.low_space = Some((cause, now));
            }
            (Some(cause), Some((_, since))) => self.low_space = Some((cause, since)),
            (None, Some((cause, failed_at))) if self.failed_at.is_none() => {
                tracing::info!("new work is accepted again: enough free disk space");
                self.log_recovery(cause, failed_at);
            }
            (None, _) => {}
        }
    }

    fn log_recovery(&mut self, cause: String, failed_at: Timestamp) {
        let fallback_entries = self.fallback_entries.load(Ordering::Relaxed);
        let recovered = StorageRecovered { cause, failed_at, fallback_entries, lost_rows: None };
        if self.commit_own(recovered.into()).is_ok() {
            self.fallback_entries.fetch_sub(fallback_entries, Ordering::Relaxed);
        }
    }

    /// Logs the rows that the opening has found lost: an entry for each session, which an erasure of the session concerns.
    fn log_losses(&mut self) {
        let lost = match self.journal.as_ref().map(Journal::unreported_losses) {
            None => return,
            Some(Ok(lost)) => lost,
            Some(Err(error)) => {
                tracing::error!(%error, "could not read which rows are lost");
                return;
            }
        };
        let (now, fallback_entries) = (self.clock.now(), 0);
        for (session_id, lost) in lost {
            let cause = "a segment was damaged like its copy".to_owned();
            let kind = StorageRecovered { cause, failed_at: now, fallback_entries, lost_rows: Some(lost) };
            if self.commit_event(AuditEvent::new(now, session_id, kind)).is_err() {
                return;
            }
        }
        self.lost_rows = self.journal.as_ref().map(Journal::lost_rows).unwrap_or_default();
    }

    /// Logs the upgrades of the store that the log does not name yet.
    fn log_upgrades(&mut self) {
        let upgrades = self.journal.as_ref().map(Journal::unreported_upgrades);
        let logged = upgrades.unwrap_or_else(|| Ok(Vec::new())).and_then(|upgrades| {
            upgrades.into_iter().try_for_each(|upgrade| self.commit_own(upgrade.into()))
        });
        if let Err(error) = logged {
            tracing::error!(%error, "could not log the upgrade of the store; the next start does it");
        }
    }

    fn log_mirror_fault(&mut self, MirrorFault { seq, offset }: MirrorFault) -> Result<(), StoreError> {
        tracing::error!(
            damaged_seq = seq,
            offset,
            "oracle_log.jsonl differs from the log; it is written again"
        );
        self.metrics.mirror_repairs.inc();
        self.commit_own(MirrorRepaired { damaged_seq: seq, offset }.into())
    }

    /// Commits an event of the journal itself.
    fn commit_own(&mut self, kind: EventKind) -> Result<(), StoreError> {
        self.commit_event(AuditEvent::new(self.clock.now(), None, kind))
    }

    fn commit_event(&mut self, event: AuditEvent) -> Result<(), StoreError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.commit(&[JournalRecord::from(event)]).map(drop).inspect_err(|error| self.note_failure(error))
    }

    /// Reopens the journal and logs the gap.
    fn recover(&mut self) {
        let (Some(journal), Some(failed_at)) = (&mut self.journal, self.failed_at) else { return };
        let cause = journal.failure().unwrap_or_default().to_owned();
        let fallback_entries = self.fallback_entries.load(Ordering::Relaxed);
        let recovered = StorageRecovered { cause, failed_at, fallback_entries, lost_rows: None };
        let began = monotonic();
        let done = journal.recover().and_then(|()| self.commit_own(recovered.into()));
        if let Some(cluster) = &mut self.cluster {
            cluster.note_call(began, done.is_err());
        }
        match done {
            Ok(()) => {
                tracing::info!(fallback_entries, "the journal accepts entries again");
                self.failed_at = None;
                self.fallback_entries.fetch_sub(fallback_entries, Ordering::Relaxed);
                self.log_upgrades();
                self.log_losses();
            }
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Io { .. })) => {
                tracing::debug!(%error, "the journal is still unavailable");
            }
            // the reopened store lacks acknowledged data: none of it may be served
            Err(error) => self.end(&error),
        }
    }

    fn damaged_since(&self) -> Option<Timestamp> {
        self.report.borrow().segment_damage.as_ref().map(|(_, since)| *since)
    }

    fn publish(&self) {
        let Some(journal) = &self.journal else { return };
        let report = JournalReport {
            counts: journal.counts(),
            failure: journal.failure().map(String::from).zip(self.failed_at),
            low_space: self.low_space.clone(),
            mirror_lag: journal.mirror_lag().map(String::from),
            segment_damage: journal
                .segment_damage()
                .map(|damage| (damage, self.damaged_since().unwrap_or_else(|| self.clock.now()))),
            missing_copies: journal.missing_copies(),
            lost_rows: self.lost_rows.clone(),
            fallback_entries: self.fallback_entries.load(Ordering::Relaxed),
        };
        self.report.send_if_modified(|last| {
            let changed = *last != report;
            *last = report;
            changed
        });
    }
}

impl From<RecordRejectedError> for CommitError {
    fn from(refused: RecordRejectedError) -> Self {
        match refused {
            RecordRejectedError::Stale(row) => Self::Stale(row),
            RecordRejectedError::LowSpace(cause) => Self::Unavailable(cause),
            RecordRejectedError::Unlogged | RecordRejectedError::ForeignEvidence(_) => {
                Self::Unavailable(refused.to_string())
            }
        }
    }
}

impl JournalReport {
    /// Why new work is rejected, and since when.
    #[must_use]
    pub const fn new_work_rejection(&self) -> Option<&(String, Timestamp)> {
        match &self.failure {
            Some(failure) => Some(failure),
            None => self.low_space.as_ref(),
        }
    }
}

impl Actor for Logger {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.check_space();
        self.log_upgrades();
        if let Some(damage) = self.journal.as_mut().and_then(Journal::take_rebuilt) {
            self.log_recovery(format!("the database was rebuilt: {damage}"), self.clock.now());
        }
        self.log_losses();
        let fault = self.journal.as_mut().and_then(Journal::take_mirror_fault);
        if let Some(Err(error)) = fault.map(|fault| self.log_mirror_fault(fault)) {
            tracing::error!(%error, "could not log the repair of oracle_log.jsonl");
        }
        self.publish();
        ctx.run_interval(TICK, |logger, _| logger.tick());
        if self.cluster.is_some() {
            ctx.run_interval(FOLLOWED_EVERY, |logger, _| logger.follow());
        }
    }
}

impl actix::Supervised for Logger {
    fn restarting(&mut self, _: &mut Context<Self>) {
        // dropping a reply makes the call of its record fail
        self.pending.clear();
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.check_after_panic()
        {
            self.note_failure(&error);
        }
    }
}

impl Handler<CommitRecord> for Logger {
    type Result = ResponseFuture<Result<CommitReceipt, CommitError>>;

    fn handle(&mut self, CommitRecord(record): CommitRecord, ctx: &mut Context<Self>) -> Self::Result {
        let (reply, outcome) = oneshot::channel();
        self.pending.push(PendingRecord { record, reply });
        if self.pending.len() == 1 {
            // actix polls this after it has read the whole mailbox, so all waiting records join the group
            ctx.spawn(async {}.into_actor(self).map(|(), logger, _| logger.flush()));
        }
        Box::pin(async move {
            outcome.await.unwrap_or_else(|_| {
                Err(CommitError::Unavailable("the logger panicked during the commit".into()))
            })
        })
    }
}

impl Handler<ReopenMirror> for Logger {
    type Result = Result<(), String>;

    fn handle(&mut self, _: ReopenMirror, _: &mut Context<Self>) -> Self::Result {
        let reopened = self.journal.as_mut().map_or(Ok(()), Journal::reopen_mirror);
        reopened.map_err(|error| error.to_string())
    }
}

impl Handler<SnapshotMirror> for Logger {
    type Result = Result<MirrorSnapshot, String>;

    fn handle(&mut self, _: SnapshotMirror, _: &mut Context<Self>) -> Self::Result {
        let journal = self.journal.as_mut().ok_or("the daemon is stopping")?;
        journal.mirror_snapshot().map_err(|error| error.to_string())
    }
}

impl Handler<RewriteMirror> for Logger {
    type Result = Result<(), String>;

    fn handle(
        &mut self,
        RewriteMirror(snapshot, fault): RewriteMirror,
        _: &mut Context<Self>,
    ) -> Self::Result {
        if !self.journal.as_ref().is_some_and(|journal| journal.is_mirror(&snapshot)) {
            return Ok(());
        }
        // first of all: a file is never replaced without an entry
        let logged = self.log_mirror_fault(fault);
        let rewritten = logged.and_then(|()| self.journal.as_mut().map_or(Ok(()), Journal::rewrite_mirror));
        self.publish();
        rewritten.map_err(|error| error.to_string())
    }
}

impl Handler<RebuildDatabase> for Logger {
    type Result = Result<(), String>;

    fn handle(&mut self, RebuildDatabase(damage): RebuildDatabase, _: &mut Context<Self>) -> Self::Result {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.rebuild(damage.clone());
        self.note_failure(&StoreError::Unavailable { cause: damage });
        self.publish();
        self.recover();
        self.publish();
        self.journal.as_ref().and_then(Journal::failure).map_or(Ok(()), |failure| Err(failure.to_owned()))
    }
}

impl Handler<CloseJournal> for Logger {
    type Result = MessageResult<CloseJournal>;

    fn handle(&mut self, _: CloseJournal, _: &mut Context<Self>) -> Self::Result {
        self.flush();
        self.journal = None;
        MessageResult(())
    }
}

actors_platform::handle_actor_calls!(Logger);

/// The error for a call that the actor did not answer.
fn unavailable(error: &ActorCallError) -> StoreError {
    StoreError::Unavailable { cause: error.to_string() }
}

/// The error after the journal was closed.
fn stopping() -> StoreError {
    StoreError::Unavailable { cause: "the daemon is stopping".to_owned() }
}

impl Logger {
    pub fn contact(&self) -> Option<LogContact> {
        self.cluster.as_ref().map(|cluster| cluster.contact.clone())
    }

    pub fn fallback_entries(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.fallback_entries)
    }
}

/// Links the files of the store as they are after the last commit.
#[derive(Debug, Message)]
#[rtype(result = "Result<StoreBackup, StoreError>")]
struct BeginBackup;

impl Handler<BeginBackup> for Logger {
    type Result = Result<StoreBackup, StoreError>;

    fn handle(&mut self, _: BeginBackup, _: &mut Context<Self>) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.begin_backup()
    }
}

impl LoggerHandle {
    /// Links the files of the store as they are after the last commit. Commits wait meanwhile.
    ///
    /// # Errors
    /// `Unavailable` while the journal accepts no writes, `Io` if a file cannot be linked.
    pub async fn begin_backup(&self) -> Result<StoreBackup, StoreError> {
        let begun = self.handle.ask(BeginBackup).await;
        begun.unwrap_or_else(|error| Err(unavailable(&error)))
    }
}

/// Begins to write damaged segments again from their copies.
#[derive(Debug, Message)]
#[rtype(result = "Result<SegmentHealing, StoreError>")]
struct BeginHealing;

/// Notes that a repair of the segments, which had this damage, is complete.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), StoreError>")]
struct FinishHealing(SegmentHealing, String);

impl LoggerHandle {
    /// Begins to write damaged segments again from their copies.
    ///
    /// # Errors
    /// As for `Journal::begin_healing`.
    pub async fn begin_healing(&self) -> Result<SegmentHealing, StoreError> {
        let begun = self.handle.ask(BeginHealing).await;
        begun.unwrap_or_else(|error| Err(unavailable(&error)))
    }

    /// Logs that `healing` has repaired the segments, which had the damage `damage`.
    ///
    /// # Errors
    /// `Unavailable` if the daemon is stopping.
    pub async fn finish_healing(&self, healing: SegmentHealing, damage: String) -> Result<(), StoreError> {
        let finished = self.handle.ask(FinishHealing(healing, damage)).await;
        finished.unwrap_or_else(|error| Err(unavailable(&error)))
    }
}

impl Handler<BeginHealing> for Logger {
    type Result = Result<SegmentHealing, StoreError>;

    fn handle(&mut self, _: BeginHealing, _: &mut Context<Self>) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.begin_healing()
    }
}

impl Handler<FinishHealing> for Logger {
    type Result = Result<(), StoreError>;

    fn handle(
        &mut self,
        FinishHealing(healing, damage): FinishHealing,
        _: &mut Context<Self>,
    ) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.finish_healing(healing);
        let since = self.damaged_since().unwrap_or_else(|| self.clock.now());
        self.log_recovery(format!("the segments were repaired: {damage}"), since);
        self.publish();
        Ok(())
    }
}

/// Begins to erase the data of a plan.
#[derive(Debug, Message)]
#[rtype(result = "Result<Erasure, StoreError>")]
struct BeginErasure(RemovalPlan);

/// Replaces the database and `oracle_log.jsonl` by those of a prepared erasure. Returns the erasure, and the next step.
#[derive(Debug, Message)]
#[rtype(result = "Result<(Erasure, ErasureStep), StoreError>")]
struct FinishErasure(Erasure);

impl LoggerHandle {
    /// Begins to erase the data of a plan.
    ///
    /// # Errors
    /// As for `Journal::begin_erasure`.
    pub async fn begin_erasure(&self, plan: RemovalPlan) -> Result<Erasure, StoreError> {
        self.handle.ask(BeginErasure(plan)).await.unwrap_or_else(|error| Err(unavailable(&error)))
    }

    /// Finishes a prepared erasure. Returns it, and the next step.
    ///
    /// # Errors
    /// As for `Journal::finish_erasure`.
    pub async fn finish_erasure(&self, erasure: Erasure) -> Result<(Erasure, ErasureStep), StoreError> {
        self.handle.ask(FinishErasure(erasure)).await.unwrap_or_else(|error| Err(unavailable(&error)))
    }
}

impl Handler<BeginErasure> for Logger {
    type Result = Result<Erasure, StoreError>;

    fn handle(&mut self, BeginErasure(plan): BeginErasure, _: &mut Context<Self>) -> Self::Result {
        self.journal.as_mut().ok_or_else(stopping)?.begin_erasure(plan)
    }
}

impl Handler<FinishErasure> for Logger {
    type Result = Result<(Erasure, ErasureStep), StoreError>;

    fn handle(&mut self, FinishErasure(mut erasure): FinishErasure, _: &mut Context<Self>) -> Self::Result {
        let finished = self.journal.as_mut().ok_or_else(stopping)?.finish_erasure(&mut erasure);
        if let Some(cause) = self.journal.as_ref().and_then(Journal::failure).map(String::from) {
            self.note_failure(&StoreError::Unavailable { cause });
            self.publish();
        }
        Ok((erasure, finished?))
    }
}

/// The shortest pause before a rejected record is committed again.
const COMMIT_PAUSE: Duration = Duration::from_secs(1);

/// A record that is not committed yet, and why the journal rejected it. If this is dropped, the record falls
/// back to the service log.
struct UncommittedRecord<'l> {
    log: &'l LoggerHandle,
    record: Arc<JournalRecord>,
    cause: Option<String>,
}

impl Drop for UncommittedRecord<'_> {
    fn drop(&mut self) {
        if let Some(cause) = &self.cause {
            self.log.fall_back(&self.record, cause);
        }
    }
}

impl LoggerHandle {
    /// Makes `record` durable, and retries without a limit while the journal is unavailable. In a cluster the answer of a commit can be
    /// lost, so it is not retried once the log has it, which `is_logged` shows. Its events go to the service log only if the future is
    /// dropped, as when the daemon ends.
    ///
    /// # Errors
    /// The stale row: read and decide again.
    pub async fn commit_with_retries(
        &self,
        record: JournalRecord,
        is_logged: impl Fn() -> bool,
    ) -> Result<(), RowName> {
        let mut untaken = UncommittedRecord {
            log: self,
            record: Arc::new(add_current_caller(self.additions.add_to(record))),
            cause: None,
        };
        loop {
            let outcome = self.try_commit(&untaken.record).await;
            untaken.cause = None;
            match outcome {
                Ok(_) => return Ok(()),
                Err(CommitError::Stale(_)) if is_logged() => return Ok(()),
                Err(CommitError::Stale(row)) => return Err(row),
                Err(CommitError::Unavailable(cause)) => {
                    tracing::warn!(cause, "could not commit events that have happened; retrying");
                    untaken.cause = Some(cause);
                    self.wait_until_available().await;
                    if is_logged() {
                        untaken.cause = None;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Waits for the pause, and then until the journal accepts entries.
    async fn wait_until_available(&self) {
        sleep(COMMIT_PAUSE).await;
        let back = self.report().wait_for(|report| report.failure.is_none()).await.map(drop);
        if back.is_err() {
            // the logger has stopped, and the daemon is about to stop
            std::future::pending::<()>().await;
        }
    }
}
