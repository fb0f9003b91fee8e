//! The delivered verdicts that relied on statements that a source has changed since: their list, reports to applications, and notices
//! to customers.

mod indexer;
mod notices;
mod search;

use crate::mail_content::MailRenderer;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::clock::{Clock, monotonic};
use actors_platform::per_application::PerApplication;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_ground::id::SourceId;
use domain_ground::source::{RecallMode, SourceRegistryEntry};
use domain_ground::source_state::CompletedRun;
use domain_verdict::recall::{RecallProgress, RecalledVerdict, RunRecalled, VerdictRecalled};
use domain_verdict::recall_notice::SourceRecall;
use domain_verdict::session::{ReportedRecall, SessionRecord};
use domain_verdict::wire::{RecallResponse, UnknownReliance};
use indexer::{StatementIndexer, session_of};
use jiff::{SignedDuration, Timestamp};
use notices::NoticeDraft;
pub use notices::{DecideNotice, NoticePreview, RecallNoticeError};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};
pub(crate) use search::RecallSearch;
use search::read_entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::{JoinError, spawn_blocking};

/// The time for which a query applies entries that the index lacks, at most.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
/// The most verdicts that are searched for at once.
const NOTIFIED_AT_ONCE: usize = 100;
/// The time after a run before the verdicts that it touches are reported.
const SETTLING: SignedDuration = SignedDuration::from_secs(10);

/// The statements whose changes are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecallScope {
    /// All statements of the source.
    Source,
    /// Those of records that a run has changed.
    Run(Sha256Hex),
    /// Those of a record.
    Record(String),
    /// Those of records that runs have changed since a time.
    Since(Timestamp),
}

/// A question for delivered verdicts.
#[derive(Debug, Clone)]
pub struct RecallQuery {
    pub oracle_id: SourceId,
    pub scope: RecallScope,
    /// Only verdicts with a later entry.
    pub after: u64,
    /// The most verdicts in the answer.
    pub limit: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    #[error("source {0} is not registered")]
    SourceUnknown(SourceId),
    #[error("run {0} is not a completed run of the source")]
    RunUnknown(Sha256Hex),
    #[error("source {oracle_id} has no record {record_id}")]
    RecordUnknown { oracle_id: SourceId, record_id: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The task that reads the store panicked.
    #[error("could not find the verdicts that a run touches: {0}; report this as a bug")]
    Task(String),
}

impl RecallError {
    fn task(error: JoinError) -> Self {
        Self::Task(error.to_string())
    }
}

/// The service. Clones share the state of the index. Its methods block on disk reads.
#[derive(Debug, Clone)]
pub struct RecallService {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    modes: Arc<PerApplication<RecallMode>>,
    /// `None` if no mail service is configured: no notice is drafted.
    renderer: Option<MailRenderer>,
    indexer: Arc<Mutex<StatementIndexer>>,
    /// Since when reports fail.
    failing_since: Arc<Mutex<Option<Timestamp>>>,
}

impl RecallService {
    #[must_use]
    pub fn new(
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        modes: PerApplication<RecallMode>,
        renderer: Option<MailRenderer>,
    ) -> Self {
        Self {
            store,
            log,
            clock,
            modes: Arc::new(modes),
            renderer,
            indexer: Arc::default(),
            failing_since: Arc::default(),
        }
    }

    /// Whether any application gets reports about statements of `source`.
    fn notifies(&self, source: &SourceRegistryEntry) -> bool {
        let common = source.registration.recall.unwrap_or(self.modes.common);
        [common].iter().chain(self.modes.own.values()).any(|mode| *mode == RecallMode::Notify)
    }

    /// What is done about a verdict: what its application says, else the source, else the configuration.
    fn mode_of(&self, session_id: &SessionId, source: &SourceRegistryEntry) -> RecallMode {
        let own = self.modes.own.get(&session_id.application()).copied();
        own.or(source.registration.recall).unwrap_or(self.modes.common)
    }

    /// Applies the entries that the index lacks, for at most `max`. Returns the last applied entry.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn catch_up(&self, max: Duration) -> Result<u64, StoreError> {
        let mut indexer = self.indexer.lock().unwrap_or_else(PoisonError::into_inner);
        let began = monotonic();
        loop {
            let applied = indexer.apply_step(&self.store)?;
            if applied >= self.store.last_seq() || began.elapsed() >= max {
                return Ok(applied);
            }
        }
    }

    /// The verdicts that relied on statements in the scope that differ now.
    ///
    /// # Errors
    /// The source, the run or the record is unknown; the store cannot be read.
    pub fn recall(&self, query: &RecallQuery) -> Result<RecallResponse, RecallError> {
        let last_entry = self.store.last_seq();
        let up_to_entry = self.catch_up(CATCH_UP_MAX)?;
        let RecallQuery { oracle_id, scope, after, limit } = query;
        let view = self.store.view(oracle_id)?;
        let view = view.ok_or_else(|| RecallError::SourceUnknown(oracle_id.clone()))?;
        let mut search = RecallSearch::new(&self.store, &view, self.clock.now());
        search.add_scope(scope)?;
        let off = self.remove_off(&mut search, &view.state.entry)?;
        let mut verdicts = Vec::new();
        let (mut next, mut damaged) = (None, 0);
        for seq in search.entries.range(after + 1..).copied().collect::<Vec<_>>() {
            if verdicts.len() == *limit {
                next = verdicts.last().map(|last: &RecalledVerdict| last.entry.to_string());
                break;
            }
            match search.verdict(seq) {
                Err(error) if error.is_of_one_row() => {
                    tracing::error!(entry = seq, %error, "a recall leaves out a verdict that cannot be read");
                    damaged += 1;
                }
                verdict => verdicts.extend(verdict?),
            }
        }
        let unknown = search.unknown()?;
        let latest = view.known.latest().and_then(|run| view.state.run(run));
        Ok(RecallResponse {
            oracle_id: oracle_id.clone(),
            source_version: latest.map(|run| run.release.version.clone()),
            up_to_entry,
            last_entry,
            first_entry: self.store.first_seq()?,
            total: search.entries.len() as u64,
            off,
            verdicts,
            next,
            unknown: UnknownReliance { damaged: unknown.damaged + damaged, ..unknown },
        })
    }
}

/// Reports to applications.
impl RecallService {
    /// Removes the verdicts of applications with `recall = "off"` from the search, and returns their number.
    fn remove_off(
        &self,
        search: &mut RecallSearch<'_>,
        source: &SourceRegistryEntry,
    ) -> Result<u64, StoreError> {
        if source.registration.recall.is_none() && self.modes.iter().all(|(_, mode)| *mode != RecallMode::Off)
        {
            return Ok(0);
        }
        let mut off = BTreeSet::new();
        for seq in &search.entries {
            let session = read_entry(&self.store, *seq)
                .and_then(|line| line.map(|line| session_of(&self.store, &line)).transpose());
            let session = match session {
                // it is counted when its verdict is read
                Err(error) if error.is_of_one_row() => None,
                session => session?.flatten(),
            };
            if session.is_some_and(|id| self.mode_of(&id, source) == RecallMode::Off) {
                off.insert(*seq);
            }
        }
        search.entries.retain(|seq| !off.contains(seq));
        Ok(off.len() as u64)
    }

    /// Reports the verdicts that completed runs touch, and that were not reported yet. Each is reported once for each run. An error with
    /// one source does not delay the reports of others.
    ///
    /// # Errors
    /// The store cannot be read, or a report cannot be committed.
    pub async fn notify(&self) -> Result<(), RecallError> {
        let notified = self.notify_runs().await;
        let mut failing = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        *failing = notified.as_ref().err().map(|_| failing.unwrap_or_else(|| self.clock.now()));
        notified
    }

    /// Since when reports fail; `None` if the last ones were made.
    #[must_use]
    pub fn failing_since(&self) -> Option<Timestamp> {
        *self.failing_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn notify_runs(&self) -> Result<(), RecallError> {
        let store = self.store.clone();
        let sources = spawn_blocking(move || store.sources()).await.map_err(RecallError::task)??;
        let (now, mut notified) = (self.clock.now(), Ok(()));
        for source in sources.into_iter().filter(|source| self.notifies(&source.entry)) {
            // a verdict whose facts were collected before a run may be delivered a moment after it
            let is_settled = |run: &&CompletedRun| now.duration_since(run.release.ingested_at) >= SETTLING;
            for run in source.completed.iter().take_while(is_settled) {
                match self.notify_run(source.entry.oracle_id(), run).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        notified = notified.and(Err(error));
                        break;
                    }
                }
            }
        }
        notified
    }

    /// Reports the verdicts that a run touches. Returns false if the index is too far behind.
    async fn notify_run(&self, oracle_id: &SourceId, run: &CompletedRun) -> Result<bool, RecallError> {
        let (progress, revision) = self.store.get::<RecallProgress>(oracle_id)?.unzip();
        if progress.is_some_and(|progress| progress.run >= run.release.run) {
            return Ok(true);
        }
        let (mut after, mut ended) = (0, None);
        while ended.is_none() {
            let (scope, service) = (RecallScope::Run(run.run_id.clone()), self.clone());
            let query = RecallQuery { oracle_id: oracle_id.clone(), scope, after, limit: NOTIFIED_AT_ONCE };
            let answer =
                spawn_blocking(move || service.recall(&query)).await.map_err(RecallError::task)??;
            if answer.is_behind() {
                return Ok(false);
            }
            after = answer.verdicts.last().map_or(after, |verdict| verdict.entry);
            ended = answer.next.is_none().then_some(answer.total);
            let (service, reported_run) = (self.clone(), run.clone());
            let reports = spawn_blocking(move || service.build_reports(&reported_run, answer));
            for report in reports.await.map_err(RecallError::task)?? {
                self.log.commit(report).await?;
            }
        }
        self.withdraw_notices(oracle_id).await?;
        let (oracle_id, run_id) = (oracle_id.clone(), run.run_id.clone());
        let progress = RecallProgress { oracle_id: oracle_id.clone(), run: run.release.run };
        let ended = RunRecalled { oracle_id, run_id, verdicts: ended.unwrap_or_default() };
        let mut record = JournalRecord::from(AuditEvent::new(self.clock.now(), None, ended));
        record.expect.push(RowExpectation::new::<RecallProgress>(&progress.oracle_id, revision));
        record.writes.push(RowWrite::put(&progress));
        self.log.commit(record).await?;
        Ok(true)
    }

    /// The reports about the verdicts of `answer`: a record for each session, since an erasure hides what its entries name.
    fn build_reports(
        &self,
        run: &CompletedRun,
        answer: RecallResponse,
    ) -> Result<Vec<JournalRecord>, StoreError> {
        // without the source, there is nothing to report
        let Some(view) = self.store.view(&answer.oracle_id)? else { return Ok(Vec::new()) };
        let mut by_session = BTreeMap::<SessionId, Vec<RecalledVerdict>>::new();
        for verdict in answer.verdicts {
            if self.mode_of(&verdict.session_id, &view.state.entry) == RecallMode::Notify {
                by_session.entry(verdict.session_id.clone()).or_default().push(verdict);
            }
        }
        let mut search = RecallSearch::new(&self.store, &view, self.clock.now());
        let mut reports = Vec::new();
        for (session_id, verdicts) in by_session {
            let report = self.build_report(run, &session_id, verdicts, &mut search);
            match report {
                Err(error) if error.is_of_one_row() => {
                    tracing::error!(%session_id, %error, "a recalled verdict is not reported, since it cannot be read");
                }
                report => reports.extend(report?),
            }
        }
        Ok(reports)
    }

    /// The entries about the verdicts of a session that were not reported for the run, and the draft of a notice; `None` if there are none.
    fn build_report(
        &self,
        run: &CompletedRun,
        session_id: &SessionId,
        verdicts: Vec<RecalledVerdict>,
        search: &mut RecallSearch<'_>,
    ) -> Result<Option<JournalRecord>, StoreError> {
        // it can be removed meanwhile
        let Some((mut session, revision)) = self.store.session(session_id)? else { return Ok(None) };
        let oracle_id = search.oracle_id().clone();
        let reported = session.reported_recalls.get(&oracle_id).copied().unwrap_or_default();
        let (mut record, mut draft, now) = (JournalRecord::default(), None, self.clock.now());
        for verdict in verdicts {
            let this = ReportedRecall { run: run.release.run, entry: verdict.entry };
            if this <= reported {
                continue;
            }
            session.reported_recalls.insert(oracle_id.clone(), this);
            let (oracle_id, run_id) = (oracle_id.clone(), run.run_id.clone());
            let RecalledVerdict { entry: evaluation, result, .. } = verdict;
            let recall = SourceRecall { oracle_id: oracle_id.clone(), run_id: run_id.clone(), verdict };
            let notice_drafted = self.draft_notice(&mut draft, search, recall, now)?;
            let event = VerdictRecalled { oracle_id, run_id, evaluation, result, notice_drafted };
            record.events.push(AuditEvent::new(now, session_id.clone(), event));
        }
        if record.events.is_empty() {
            return Ok(None);
        }
        record.expect.push(RowExpectation::new::<SessionRecord>(session_id, Some(revision)));
        record.writes.push(RowWrite::put::<SessionRecord>(&session));
        draft.into_iter().for_each(|draft: NoticeDraft| draft.add_to(&mut record));
        Ok(Some(record))
    }
}
