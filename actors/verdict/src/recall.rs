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
use domain_ground::source_state::{CompletedRun, SourceState};
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::{JoinError, spawn_blocking};

/// The time for which a query applies entries that the index lacks, at most.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
/// The most verdicts that are searched for at once.
const NOTIFIED_AT_ONCE: usize = 100;
/// The time after a run before the verdicts that it touches are reported.
const SETTLING: SignedDuration = SignedDuration::from_secs(10);
/// The time for which the reports of a run wait for verdicts that cannot be read, and that a repair may restore; also that for which drafts
/// that cannot be compared with their source count as a failure.
const REPAIR_MAX: SignedDuration = SignedDuration::from_hours(1);

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
    notify_state: Arc<Mutex<NotifyState>>,
}

/// The state of reports that is not stored.
#[derive(Debug, Default)]
struct NotifyState {
    /// Since when the reports of a run wait for verdicts that cannot be read.
    unread_since: BTreeMap<(SourceId, u32), Timestamp>,
    /// The last run of each source with which its drafts were compared.
    compared: BTreeMap<SourceId, u32>,
    /// Since when drafts about a source cannot be compared with it.
    uncompared_since: BTreeMap<SourceId, Timestamp>,
}

impl NotifyState {
    /// Notes that the drafts about a source were compared with its `run`, except for one with an error. Returns the error for an hour, so
    /// that the comparison is repeated.
    fn note_comparison(
        &mut self,
        oracle_id: &SourceId,
        run: u32,
        uncompared: Option<StoreError>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(error) = uncompared {
            let since = *self.uncompared_since.entry(oracle_id.clone()).or_insert(now);
            if now.duration_since(since) < REPAIR_MAX {
                return Err(error);
            }
        } else {
            self.uncompared_since.remove(oracle_id);
        }
        self.compared.insert(oracle_id.clone(), run);
        Ok(())
    }
}

/// The verdicts of a run that cannot be read now, and that a repair may restore.
#[derive(Debug, Default)]
struct UnreadVerdicts {
    /// Whether the reports of the run end without them.
    is_last_try: bool,
    /// Their sessions. A session stores only its last reported entry, so its further verdicts wait, too.
    sessions: BTreeSet<SessionId>,
    /// The first entry whose session is unknown. All later verdicts wait, since they can be of its session.
    first: Option<u64>,
    /// The first error.
    error: Option<StoreError>,
}

impl UnreadVerdicts {
    fn add(&mut self, seq: u64, session_id: Option<SessionId>, error: StoreError) {
        if !error.is_repairable() {
            return;
        }
        if self.is_last_try {
            tracing::error!(entry = seq, %error, "a recalled verdict is not reported: it could not be read for an hour");
            return;
        }
        match session_id {
            Some(session_id) => {
                self.sessions.insert(session_id);
            }
            None => self.first = Some(self.first.map_or(seq, |first| first.min(seq))),
        }
        self.error = self.error.take().or(Some(error));
    }

    /// Whether the report of the verdict of entry `seq` waits for one of these.
    fn delays(&self, session_id: &SessionId, seq: u64) -> bool {
        self.sessions.contains(session_id) || self.first.is_some_and(|first| first < seq)
    }
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
            notify_state: Arc::default(),
        }
    }

    /// Whether any application gets reports about statements of `source`.
    fn notifies(&self, source: &SourceRegistryEntry) -> bool {
        let common = source.registration.recall.unwrap_or(self.modes.common);
        [common].iter().chain(self.modes.own.values()).any(|mode| *mode == RecallMode::Notify)
    }

    /// The mode for a verdict: that of its application, else of the source, else of the configuration.
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
        let (answer, _) = self.find_verdicts(query)?;
        Ok(answer)
    }

    /// As [`Self::recall`], with the entries of the page whose verdicts cannot be read.
    fn find_verdicts(
        &self,
        query: &RecallQuery,
    ) -> Result<(RecallResponse, Vec<(u64, StoreError)>), RecallError> {
        let last_entry = self.store.last_seq();
        let up_to_entry = self.catch_up(CATCH_UP_MAX)?;
        let RecallQuery { oracle_id, scope, after, limit } = query;
        let view = self.store.view(oracle_id)?;
        let view = view.ok_or_else(|| RecallError::SourceUnknown(oracle_id.clone()))?;
        let mut search = RecallSearch::new(&self.store, &view, self.clock.now());
        search.add_scope(scope)?;
        let off = self.remove_off(&mut search, &view.state.entry)?;
        let mut verdicts = Vec::new();
        let (mut next, mut unread) = (None, Vec::new());
        for seq in search.entries.range(after + 1..).copied().collect::<Vec<_>>() {
            if verdicts.len() == *limit {
                next = verdicts.last().map(|last: &RecalledVerdict| last.entry.to_string());
                break;
            }
            match search.verdict(seq) {
                Err(error) if error.is_of_one_row() => {
                    tracing::error!(entry = seq, %error, "a recall leaves out a verdict that cannot be read");
                    unread.push((seq, error));
                }
                verdict => verdicts.extend(verdict?),
            }
        }
        let unknown = search.unknown()?;
        let latest = view.known.latest().and_then(|run| view.state.run(run));
        let damaged = unknown.damaged + unread.len() as u64;
        let answer = RecallResponse {
            oracle_id: oracle_id.clone(),
            source_version: latest.map(|run| run.release.version.clone()),
            up_to_entry,
            last_entry,
            first_entry: self.store.first_seq()?,
            total: search.entries.len() as u64,
            off,
            verdicts,
            next,
            unknown: UnknownReliance { damaged, ..unknown },
        };
        Ok((answer, unread))
    }
}

/// Reports to applications.
impl RecallService {
    /// Removes the verdicts of applications with `recall = "off"` from the search, and returns the number of those that would be listed.
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
        for seq in search.entries.union(&search.pruned) {
            // one that cannot be read is counted when its verdict is read
            let session = self.session_of_entry(*seq)?;
            if session.is_some_and(|id| self.mode_of(&id, source) == RecallMode::Off) {
                off.insert(*seq);
            }
        }
        let listed = search.entries.len();
        search.entries.retain(|seq| !off.contains(seq));
        search.pruned.retain(|seq| !off.contains(seq));
        Ok((listed - search.entries.len()) as u64)
    }

    /// The session of an entry; `None` if the entry cannot be read, or if its session is erased.
    fn session_of_entry(&self, seq: u64) -> Result<Option<SessionId>, StoreError> {
        let session = read_entry(&self.store, seq)
            .and_then(|line| line.map(|line| session_of(&self.store, &line)).transpose());
        match session {
            Err(error) if error.is_of_one_row() => Ok(None),
            session => Ok(session?.flatten()),
        }
    }

    /// Reports the verdicts that completed runs touch, and that were not reported yet. Each is reported once for each run. An error with
    /// one source does not delay the reports of others. If a verdict cannot be read, and a repair may restore it, the reports of the run do
    /// not end before then, or for an hour.
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
        let mut notified = Ok(());
        for source in sources {
            let done = if self.notifies(&source.entry) {
                self.notify_source(&source).await
            } else {
                self.compare_drafts(&source).await
            };
            notified = notified.and(done);
        }
        notified
    }

    /// Reports the verdicts that the runs of a source touch.
    async fn notify_source(&self, source: &SourceState) -> Result<(), RecallError> {
        let now = self.clock.now();
        // a verdict whose facts were collected before a run may be delivered a moment after it
        let is_settled = |run: &&CompletedRun| now.duration_since(run.release.ingested_at) >= SETTLING;
        for run in source.completed.iter().take_while(is_settled) {
            if !self.notify_run(source.entry.oracle_id(), run).await? {
                break;
            }
        }
        self.compare_drafts(source).await
    }

    /// Compares the drafts about a source with it, once for each of its runs. A source without reports can have some from the time when it
    /// had reports.
    async fn compare_drafts(&self, source: &SourceState) -> Result<(), RecallError> {
        let Some(last) = source.completed.last() else { return Ok(()) };
        let oracle_id = source.entry.oracle_id();
        if self.lock_notify_state().compared.get(oracle_id) == Some(&last.release.run) {
            return Ok(());
        }
        let uncompared = self.withdraw_notices(oracle_id).await?;
        let (run, now) = (last.release.run, self.clock.now());
        Ok(self.lock_notify_state().note_comparison(oracle_id, run, uncompared, now)?)
    }

    fn lock_notify_state(&self) -> MutexGuard<'_, NotifyState> {
        self.notify_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the verdicts that a run touches. Returns false if the index is too far behind.
    async fn notify_run(&self, oracle_id: &SourceId, run: &CompletedRun) -> Result<bool, RecallError> {
        let (progress, revision) = self.store.get::<RecallProgress>(oracle_id)?.unzip();
        if progress.is_some_and(|progress| progress.run >= run.release.run) {
            return Ok(true);
        }
        let (mut after, mut ended, mut unread) = (0, None, self.begin_reports(oracle_id, run));
        while ended.is_none() {
            let (scope, service) = (RecallScope::Run(run.run_id.clone()), self.clone());
            let query = RecallQuery { oracle_id: oracle_id.clone(), scope, after, limit: NOTIFIED_AT_ONCE };
            let found = spawn_blocking(move || service.find_verdicts(&query)).await;
            let (answer, unread_now) = found.map_err(RecallError::task)??;
            if answer.is_behind() {
                return Ok(false);
            }
            after = answer.verdicts.last().map_or(after, |verdict| verdict.entry);
            ended = answer.next.is_none().then_some(answer.total);
            let (service, reported_run) = (self.clone(), run.clone());
            let built =
                spawn_blocking(move || service.build_reports(&reported_run, answer, unread_now, unread))
                    .await;
            let (reports, still_unread) = built.map_err(RecallError::task)??;
            unread = still_unread;
            for report in reports {
                self.log.commit(report).await?;
            }
        }
        self.end_reports(oracle_id, run, unread)?;
        if self.withdraw_notices(oracle_id).await?.is_none() {
            self.lock_notify_state().compared.insert(oracle_id.clone(), run.release.run);
        }
        let (oracle_id, run_id) = (oracle_id.clone(), run.run_id.clone());
        let progress = RecallProgress { oracle_id: oracle_id.clone(), run: run.release.run };
        let ended = RunRecalled { oracle_id, run_id, verdicts: ended.unwrap_or_default() };
        let mut record = JournalRecord::from(AuditEvent::new(self.clock.now(), None, ended));
        record.expect.push(RowExpectation::new::<RecallProgress>(&progress.oracle_id, revision));
        record.writes.push(RowWrite::put(&progress));
        self.log.commit(record).await?;
        Ok(true)
    }

    /// The state before the first verdict of a run is reported.
    fn begin_reports(&self, oracle_id: &SourceId, run: &CompletedRun) -> UnreadVerdicts {
        let since = self.lock_notify_state().unread_since.get(&(oracle_id.clone(), run.release.run)).copied();
        let is_last_try = since.is_some_and(|since| self.clock.now().duration_since(since) >= REPAIR_MAX);
        UnreadVerdicts { is_last_try, ..UnreadVerdicts::default() }
    }

    /// Notes whether the reports of a run wait for verdicts.
    ///
    /// # Errors
    /// The reason of the first of them.
    fn end_reports(
        &self,
        oracle_id: &SourceId,
        run: &CompletedRun,
        unread: UnreadVerdicts,
    ) -> Result<(), StoreError> {
        let (key, now) = ((oracle_id.clone(), run.release.run), self.clock.now());
        let mut state = self.lock_notify_state();
        match unread.error {
            Some(error) => {
                state.unread_since.entry(key).or_insert(now);
                Err(error)
            }
            None => {
                state.unread_since.remove(&key);
                Ok(())
            }
        }
    }

    /// The reports about the verdicts of `answer`, without those that wait for unread ones: a record for each session, since an erasure hides
    /// what its entries name. Adds the unread verdicts of the page to `unread`.
    fn build_reports(
        &self,
        run: &CompletedRun,
        answer: RecallResponse,
        unread_now: Vec<(u64, StoreError)>,
        mut unread: UnreadVerdicts,
    ) -> Result<(Vec<JournalRecord>, UnreadVerdicts), StoreError> {
        // without the source, there is nothing to report
        let Some(view) = self.store.view(&answer.oracle_id)? else { return Ok((Vec::new(), unread)) };
        let is_reported =
            |session_id: &SessionId| self.mode_of(session_id, &view.state.entry) == RecallMode::Notify;
        for (seq, error) in unread_now {
            let session_id = self.session_of_entry(seq)?;
            if session_id.as_ref().is_none_or(is_reported) {
                unread.add(seq, session_id, error);
            }
        }
        let mut by_session = BTreeMap::<SessionId, Vec<RecalledVerdict>>::new();
        for verdict in answer.verdicts {
            if is_reported(&verdict.session_id) && !unread.delays(&verdict.session_id, verdict.entry) {
                by_session.entry(verdict.session_id.clone()).or_default().push(verdict);
            }
        }
        let mut search = RecallSearch::new(&self.store, &view, self.clock.now());
        let mut reports = Vec::new();
        for (session_id, verdicts) in by_session {
            let first = verdicts.first().map_or(0, |verdict| verdict.entry);
            let report = self.build_report(run, &session_id, verdicts, &mut search);
            match report {
                Err(error) if error.is_of_one_row() => {
                    tracing::error!(%session_id, %error, "a recalled verdict is not reported, since it cannot be read");
                    unread.add(first, Some(session_id), error);
                }
                report => reports.extend(report?),
            }
        }
        Ok((reports, unread))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn corrupt() -> StoreError {
        StoreError::Corrupt { dir: PathBuf::new(), detail: "a row is damaged".to_owned() }
    }

    fn session(id: &str) -> SessionId {
        serde_json::from_value(id.into()).expect("the id is valid")
    }

    #[test]
    fn unread_verdict_delays_only_those_that_can_be_of_its_session() {
        let mut unread = UnreadVerdicts::default();
        unread.add(3, None, StoreError::RowLost { row: "sessions/cs_1".to_owned(), entry: 2 });
        assert!(unread.error.is_none() && !unread.delays(&session("cs_1"), 4), "a lost row is final");
        unread.add(5, Some(session("cs_1")), corrupt());
        assert!(unread.delays(&session("cs_1"), 6) && !unread.delays(&session("cs_2"), 6));
        unread.add(7, None, corrupt());
        assert!(unread.delays(&session("cs_2"), 8) && !unread.delays(&session("cs_2"), 6));
        assert!(unread.error.is_some(), "the reports of the run do not end");
    }

    #[test]
    fn unread_verdict_delays_nothing_after_an_hour() {
        let mut unread = UnreadVerdicts { is_last_try: true, ..UnreadVerdicts::default() };
        unread.add(5, None, corrupt());
        assert!(unread.error.is_none() && !unread.delays(&session("cs_1"), 6));
    }

    #[test]
    fn drafts_that_cannot_be_compared_are_a_failure_for_an_hour() {
        let mut state = NotifyState::default();
        let source: SourceId = "lab".parse().expect("a valid id");
        let began: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        let mut note = |run, uncompared, minutes| {
            let now = began + SignedDuration::from_mins(minutes);
            (
                state.note_comparison(&source, run, uncompared, now).is_ok(),
                state.compared.get(&source).copied(),
            )
        };
        assert_eq!(note(1, Some(corrupt()), 0), (false, None));
        assert_eq!(note(1, Some(corrupt()), 59), (false, None));
        assert_eq!(note(1, Some(corrupt()), 60), (true, Some(1)));
        assert_eq!(note(2, Some(corrupt()), 61), (true, Some(2)), "a later run begins no further hour");
        assert_eq!(note(3, None, 62), (true, Some(3)));
        assert_eq!(note(4, Some(corrupt()), 63), (false, Some(3)), "another damage does");
    }
}
