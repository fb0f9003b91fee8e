//! Erasing the data of sessions from the state directory.
//!
//! The removal of a session's rows and the entry `erasure_started` are one commit. From then on the erasure continues, also after
//! a restart, until `session_erased` is logged.
//!
//! Data that are older than configured are removed by the same steps. `retention_started` names the data. The rows of
//! old sessions are removed in commits with `sessions_expired`. Then the files are rewritten, and `retention_applied`
//! is logged. After an interruption, the files are rewritten for the sessions that were removed; the next run removes
//! the others.
//!
//! Each host of a cluster removes the data from its own files. The end is logged when all have.

mod incomplete;
mod sharing;

use crate::cache::{EraseSession, ExpireSessions, VerdictCache, VerdictCacheError};
use crate::notifier::{
    AwaitMessages, ChangeMessage, HoldMessages, Notifier, OutboxAction, OutboxError, queued_mails,
};
use crate::regen::{AwaitGenerations, RegenActor};
use actors_audit::logger::handle::CommitDecision;
use actors_audit::logger::{CommitError, LoggerHandle};
use actors_platform::actor_handle::{ActorCallError, ActorHandle};
use actors_platform::clock::Clock;
use actors_platform::host_removals::HostRemovals;
use actors_platform::work::InFlight;
use domain_audit::checkpoint::LogKey;
use domain_audit::event::{
    DueData, DueKind, ErasureEndEntry, ErasureStartEntry, RetentionApplied, RetentionEndEntry,
    RetentionStartEntry, RetentionStarted, SessionErased,
};
use domain_base::caller::PeerCredentials;
use domain_base::event::{AuditEvent, read_open};
use domain_base::row::ErasedData;
use domain_base::session_id::SessionId;
use domain_verdict::legal_hold::{ErasureRefused, LegalHold};
use jiff::{SignedDuration, Timestamp};
use oracled_store::{
    ErasureOutcome, ErasureStep, JournalRecord, LogQuery, RemovableEntries, RemovalPlan, RowExpectation,
    RowWrite, Store, StoreError,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// The pause before an interrupted erasure is tried again.
const PAUSE: Duration = Duration::from_secs(60);
/// The longest wait for a repair of the segments.
const REPAIR_TAKES: Duration = Duration::from_secs(30);
/// The pause before the database is replaced, if a long read prevented it.
const FINISH_PAUSE: Duration = Duration::from_millis(200);

/// Why sessions were not erased. An erasure that has started is tried again every minute, and after a restart.
#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Cache(#[from] VerdictCacheError),
    /// Some of the sessions are on legal hold.
    #[error("{}; release a hold with `oraclectl hold --session ID --release --reason …`", list_holds(.0))]
    OnHold(Vec<LegalHold>),
    /// A mail or a webhook of the session is being sent.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    #[error(transparent)]
    Actor(#[from] ActorCallError),
    /// Another backup or an erasure is in progress.
    #[error("another backup, or an erasure, is in progress; wait until it has ended")]
    InProgress,
    /// An erasure has failed, and is tried again.
    #[error("an erasure is not complete; it is tried again every minute; see the service log for the cause")]
    Incomplete,
    /// The sessions are removed, and the files still have data of them.
    #[error(
        "the sessions are removed, and the daemon retries the erasure of their data from the files every minute: {0}"
    )]
    Begun(Box<Self>),
    /// The task that reads and writes the files panicked.
    #[error("the task that reads and writes the files failed: {0}; report this as a bug")]
    Files(String),
}

/// The most holds that an error names.
const NAMED_MAX: usize = 20;

/// The first holds in words, and the number of the others.
fn list_holds(holds: &[LegalHold]) -> String {
    let others = holds.len().saturating_sub(NAMED_MAX);
    let others = (others > 0).then(|| format!("and {others} other sessions are on legal hold"));
    let named = holds.iter().take(NAMED_MAX).map(LegalHold::to_string);
    named.chain(others).collect::<Vec<_>>().join("; ")
}

/// The findings of removals, by the entries with which they have started.
type Found = BTreeMap<u64, FoundData>;

/// The result of an erasure.
#[derive(Debug, Default)]
pub struct ErasureReport {
    /// The erased sessions, with the kinds of data that were found.
    pub sessions: BTreeMap<SessionId, BTreeSet<ErasedData>>,
    /// Files of the log that may still have the data.
    pub unread_files: Vec<PathBuf>,
    /// The hosts of the cluster whose files still have the data. Each removes them by itself.
    pub waiting_hosts: Vec<String>,
    /// Number of completed erasures and retentions.
    removals: usize,
}

/// The erasures and the retentions that have started and not ended.
#[derive(Debug, Default)]
pub struct StartedRemovals {
    pub erasures: Vec<StartedErasure>,
    retentions: Vec<StartedRetention>,
}

impl StartedRemovals {
    /// Those that have not ended.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        Self::unfinished_since(store, 0)
    }

    /// Those that have started after entry `after`, ended or not.
    fn since(store: &Store, after: u64) -> Result<Self, StoreError> {
        Ok(Self {
            erasures: entries_of(store, "erasure_started", after)?,
            retentions: entries_of(store, "retention_started", after)?,
        })
    }

    /// Those that have started after entry `after`, and not ended.
    fn unfinished_since(store: &Store, after: u64) -> Result<Self, StoreError> {
        let mut started = Self::since(store, after)?;
        let mut ended = BTreeSet::new();
        for event in ["session_erased", "retention_applied"] {
            let ends: Vec<EndedErasure> = entries_of(store, event, after)?;
            ended.extend(ends.into_iter().map(|EndedErasure { started_seq }| started_seq));
        }
        started.erasures.retain(|entry| !ended.contains(&entry.seq));
        started.retentions.retain(|entry| !ended.contains(&entry.seq));
        Ok(started)
    }

    /// The entries with which they have started.
    fn seqs(&self) -> impl Iterator<Item = u64> {
        let erasures = self.erasures.iter().map(|started| started.seq);
        erasures.chain(self.retentions.iter().map(|started| started.seq))
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.erasures.is_empty() && self.retentions.is_empty()
    }
}

/// Erases sessions, one request at a time.
#[derive(Debug, Clone)]
pub struct ErasureService(pub Arc<ErasureHandles>);

/// The handles that an erasure needs.
#[derive(Debug)]
pub struct ErasureHandles {
    pub store: Store,
    pub log: LoggerHandle,
    pub clock: Clock,
    pub cache: ActorHandle<VerdictCache>,
    pub notifier: ActorHandle<Notifier>,
    pub regen: ActorHandle<RegenActor>,
    /// The orders with an attempt in progress.
    pub orders_in_flight: InFlight<SessionId>,
    /// Held by an erasure or a backup: the hard links of a backup would keep the segments with the erased values.
    pub turn: Arc<Mutex<()>>,
    /// Held by the loop that completes erasures.
    pub resuming: Mutex<()>,
    pub is_stopped: AtomicBool,
    /// The removals of all hosts of the cluster; `None` if this is the only host.
    pub hosts: Option<HostRemovals>,
    /// The removals of this host whose end is not in its log yet, by the entries with which they have started.
    pub found: Mutex<Found>,
    /// All removals that started up to this entry have ended.
    pub ended_up_to: AtomicU64,
    pub unread: Mutex<UnreadFiles>,
}

/// The files of the log that ended erasures have named, by the sessions; those of sessions whose ids are erased by `None`.
#[derive(Debug, Default)]
pub struct UnreadFiles {
    /// The last entry that was read.
    read_up_to: u64,
    files: BTreeMap<Option<SessionId>, BTreeSet<String>>,
}

/// The data that a removal has found.
#[derive(Debug, Clone, Default)]
pub struct FoundData {
    /// The erased session. The log of this host may have its id no longer.
    session_id: Option<SessionId>,
    data: BTreeSet<ErasedData>,
    /// The number of its sessions, for a retention.
    sessions: u64,
    /// The names of the files of the log that may still have the data.
    unread_files: Vec<String>,
}

/// An entry `erasure_started`.
#[derive(Debug, Deserialize)]
pub struct StartedErasure {
    seq: u64,
    /// `None` if the id is erased already.
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    #[serde(flatten)]
    start: ErasureStartEntry,
}

/// The end of an erasure or a retention.
#[derive(Deserialize)]
struct EndedErasure {
    started_seq: u64,
}

/// An entry `session_erased`.
#[derive(Deserialize)]
struct ErasedEntry {
    seq: u64,
    started_seq: u64,
    /// `None` if the id is erased already.
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    #[serde(default)]
    unread_files: BTreeSet<String>,
}

impl ErasureService {
    pub fn new(handles: ErasureHandles) -> Self {
        Self(Arc::new(handles))
    }

    /// Stops the work on files. The erasure continues at the next start.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Prevents erasures until the result is dropped.
    ///
    /// # Errors
    /// An erasure or a backup is in progress; an earlier erasure is not complete; or the log cannot be read.
    pub async fn hold(&self) -> Result<OwnedMutexGuard<()>, ErasureError> {
        // a repair of the segments holds the turn for some seconds, and an erasure for longer
        if self.0.store.segment_damage().is_some() {
            drop(timeout(REPAIR_TAKES, self.wait_for_turn()).await);
        }
        let turn = Arc::clone(&self.0.turn).try_lock_owned().map_err(|_| ErasureError::InProgress)?;
        let is_complete = match &self.0.hosts {
            None => self.started().await?.is_empty(),
            // the data that other hosts have logged meanwhile must be removed, too
            Some(hosts) => self.due(hosts).await?.last_seq <= hosts.own.borrow().up_to,
        };
        if is_complete { Ok(turn) } else { Err(ErasureError::Incomplete) }
    }

    /// Waits until no other erasure and no backup is in progress, and prevents further ones until the result is dropped.
    pub async fn wait_for_turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.0.turn).lock_owned().await
    }

    /// Erases the data of sessions, known or not.
    ///
    /// # Errors
    /// Some are on legal hold, and none is erased; the removal failed, or the files cannot be written.
    pub async fn erase(
        &self,
        turn: OwnedMutexGuard<()>,
        sessions: BTreeSet<SessionId>,
        reason: String,
        peer: PeerCredentials,
    ) -> Result<ErasureReport, ErasureError> {
        self.refuse_on_hold(&sessions, &reason, peer).await?;
        let mut removed = Ok(());
        self.note_pending(sessions.iter().cloned()).await?;
        for session_id in sessions {
            removed = self.remove(session_id, reason.clone(), peer).await;
            if removed.is_err() {
                break;
            }
        }
        // also after an error: the rows of other sessions were removed, and perhaps those of this one
        let erased = self.erase_started_or_resume().await;
        removed?;
        let erased = erased.map_err(|error| ErasureError::Begun(Box::new(error)))?;
        // the end is logged in a turn of its own
        drop(turn);
        let waiting_hosts = self.wait_for_hosts().await?;
        Ok(ErasureReport { waiting_hosts, ..erased })
    }

    /// Refuses an erasure if some of its sessions are on legal hold, and notes that in their holds.
    async fn refuse_on_hold(
        &self,
        sessions: &BTreeSet<SessionId>,
        reason: &str,
        peer: PeerCredentials,
    ) -> Result<(), ErasureError> {
        let ErasureHandles { store, log, clock, .. } = &*self.0;
        let (of_sessions, sessions) = (store.clone(), sessions.clone());
        let read_held = move || {
            let mut held = Vec::new();
            for session_id in sessions {
                if of_sessions.legal_hold(&session_id)?.is_some() {
                    held.push(session_id);
                }
            }
            Ok(held)
        };
        let held: Vec<SessionId> = self.on_files(read_held).await?;
        let mut holds = Vec::new();
        for session_id in &held {
            // a record for each: a later erasure of one must not hide what is about the others
            let refused = log.decide_and_commit(|| {
                let Some((hold, revision)) = store.legal_hold(session_id)? else {
                    return Ok::<_, ErasureError>(CommitDecision::Already(None));
                };
                let now = clock.now();
                let hold = LegalHold { erasure_refused_at: Some(now), ..hold };
                let refused = ErasureRefused { reason: reason.to_owned(), peer };
                let mut record = JournalRecord::from(AuditEvent::new(now, session_id.clone(), refused));
                record.expect.push(RowExpectation::new::<LegalHold>(session_id, Some(revision)));
                record.writes.push(RowWrite::put::<LegalHold>(&hold));
                Ok(CommitDecision::Change(Some(hold), record))
            });
            holds.extend(refused.await?.0);
        }
        if holds.is_empty() { Ok(()) } else { Err(ErasureError::OnHold(holds)) }
    }

    /// Erases the data of what has started. After an error it is tried again later.
    async fn erase_started_or_resume(&self) -> Result<ErasureReport, ErasureError> {
        let erased = self.erase_started().await;
        // a host of a cluster tries again by itself
        if erased.is_err() && self.0.hosts.is_none() {
            tokio::spawn(self.clone().resume());
        }
        erased
    }

    /// The entry up to which this host of a cluster has removed the data of removals from its files.
    #[must_use]
    pub fn removed_up_to(&self) -> Option<u64> {
        self.0.hosts.as_ref().map(|hosts| hosts.own.borrow().up_to)
    }

    /// Completes erasures that have started, and were interrupted by a restart or an error. Returns at once if another call does
    /// that.
    pub async fn resume(self) {
        if let Some(hosts) = &self.0.hosts {
            return self.keep_up(hosts).await;
        }
        let Ok(only) = self.0.resuming.try_lock() else { return };
        loop {
            let turn = self.0.turn.lock().await;
            match self.erase_started().await {
                Ok(ErasureReport { removals: 0, .. }) => {}
                Ok(ErasureReport { unread_files, .. }) => {
                    tracing::info!(?unread_files, "completed the removals that were interrupted");
                }
                Err(error) if self.0.is_stopped.load(Ordering::Relaxed) => {
                    tracing::info!(%error, "an erasure continues at the next start");
                }
                Err(error) => {
                    tracing::error!(%error, "could not complete an erasure; it is tried again in a minute");
                    drop(turn);
                    sleep(PAUSE).await;
                    continue;
                }
            }
            // before the turn ends: an erasure that fails afterwards starts another loop
            drop(only);
            return;
        }
    }

    /// Removes the rows of a session, its mails and its webhooks, and logs the start of its erasure.
    async fn remove(
        &self,
        session_id: SessionId,
        reason: String,
        peer: PeerCredentials,
    ) -> Result<(), ErasureError> {
        let ErasureHandles { store, cache, notifier, regen, orders_in_flight, .. } = &*self.0;
        // an attempt in progress would store data, and log entries, after the erasure
        let order = orders_in_flight.claim_when_free(session_id.clone()).await;
        loop {
            self.drop_webhooks(&session_id, None, peer).await?;
            let mails = queued_mails(store, &session_id)?;
            let mails = if mails.is_empty() { None } else { Some(notifier.ask(HoldMessages(mails)).await??) };
            let (session_id, reason) = (session_id.clone(), reason.clone());
            if cache.ask(EraseSession { session_id, mails, reason, peer }).await?? {
                break;
            }
        }
        drop(order);
        Ok(regen.ask(AwaitGenerations(Some(session_id))).await?)
    }

    /// Waits until the work of these sessions that is in progress on this host has logged its outcome.
    async fn await_work(&self, sessions: &BTreeSet<SessionId>) -> Result<(), ErasureError> {
        let ErasureHandles { notifier, regen, orders_in_flight, .. } = &*self.0;
        for session_id in sessions {
            regen.ask(AwaitGenerations(Some(session_id.clone()))).await?;
        }
        orders_in_flight.wait_for_present(|session_id| sessions.contains(session_id)).await;
        // a webhook does not name its session
        Ok(notifier.ask(AwaitMessages).await?)
    }

    /// Removes the webhooks of a session without sending them: all, or those that were last written up to this entry.
    async fn drop_webhooks(
        &self,
        session_id: &SessionId,
        up_to: Option<u64>,
        peer: PeerCredentials,
    ) -> Result<(), ErasureError> {
        let (store, session_id) = (self.0.store.clone(), session_id.clone());
        let up_to = up_to.unwrap_or(u64::MAX);
        let read = move || {
            let mut found = Vec::new();
            for id in store.webhooks_of(&session_id)? {
                if store.message_state(&id)?.is_some_and(|(_, revision)| revision <= up_to) {
                    found.push(id);
                }
            }
            Ok(found)
        };
        for id in self.on_files(read).await? {
            match self.0.notifier.ask(ChangeMessage { id, action: OutboxAction::Drop, peer }).await? {
                // it was sent meanwhile
                Ok(_) | Err(OutboxError::Unknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Erases the data of all sessions whose erasure has started and not ended, and the data of such retentions.
    pub async fn erase_started(&self) -> Result<ErasureReport, ErasureError> {
        if let Some(hosts) = &self.0.hosts {
            return self.erase_on_this_host(hosts, true).await;
        }
        let started = self.started().await?;
        if started.is_empty() {
            self.clear_pending().await?;
            return Ok(ErasureReport::default());
        }
        let (found, unread_files) = self.remove_from_files(started, BTreeMap::new()).await?;
        let removals = self.log_ends(&found).await?;
        self.clear_pending().await?;
        Ok(ErasureReport {
            sessions: sessions_in(&found),
            unread_files,
            removals,
            ..ErasureReport::default()
        })
    }

    /// Removes the data of `started` from the files of this host, and those of the sessions `late`, each up to an entry.
    async fn remove_from_files(
        &self,
        started: StartedRemovals,
        late: BTreeMap<SessionId, u64>,
    ) -> Result<(Found, Vec<PathBuf>), ErasureError> {
        let ErasureHandles { store, log, .. } = &*self.0;
        let of_pending = store.clone();
        let pending = self.on_files(move || pending_erasures(&of_pending)).await?;
        log.flush().await;
        let StartedRemovals { erasures, retentions } = started;
        let of_retentions = store.clone();
        let read_retentions = move || {
            let mut plan = RemovalPlan { sessions: late, ..RemovalPlan::default() };
            let add =
                |started: StartedRetention| Ok((started.seq, started.add_to(&of_retentions, &mut plan)?));
            let retentions = retentions.into_iter().map(add).collect::<Result<Vec<_>, StoreError>>()?;
            Ok((plan, retentions))
        };
        let (mut plan, retentions) = self.on_files(read_retentions).await?;
        for (session_id, seq, peer) in pending_sessions(&erasures, &pending) {
            // requests in progress may have logged entries after the removal, or stored new data
            let is_new = store.has_session_data(&session_id)?;
            // those that were queued during the removal, also before a restart
            if let Some(peer) = peer {
                self.drop_webhooks(&session_id, is_new.then_some(seq), peer).await?;
            }
            let up_to = if is_new { seq } else { store.last_seq() };
            let known = plan.sessions.entry(session_id).or_default();
            *known = up_to.max(*known);
        }
        let ErasureOutcome { data, unread_files } = self.erase_files(plan).await?;
        let unread = unread_files.iter().filter_map(|path| path.file_name());
        let unread: Vec<_> = unread.map(|name| name.to_string_lossy().into_owned()).collect();
        let mut found = Found::new();
        for StartedErasure { seq, session_id, .. } in erasures {
            let of_session =
                session_id.as_ref().map(|session_id| data.get(session_id).cloned().unwrap_or_default());
            // an entry that was erased before a restart can be that of any pending session
            let data = of_session.unwrap_or_else(|| data.values().flatten().cloned().collect());
            found.insert(seq, FoundData { session_id, data, sessions: 0, unread_files: unread.clone() });
        }
        for (seq, sessions) in retentions {
            found.insert(seq, FoundData { sessions, unread_files: unread.clone(), ..FoundData::default() });
        }
        Ok((found, unread_files))
    }

    /// Logs the end of the removals that started with the entries in `found`. Returns their number.
    async fn log_ends(&self, found: &Found) -> Result<usize, ErasureError> {
        let ErasureHandles { log, clock, .. } = &*self.0;
        // the ids of sessions may be erased by now
        let StartedRemovals { erasures, retentions } = self.started().await?;
        let mut record = JournalRecord::default();
        for StartedErasure { seq, session_id, start } in erasures {
            let Some(FoundData { data, unread_files, .. }) = found.get(&seq).cloned() else { continue };
            let ErasureStartEntry { reason, peer } = start;
            let ended = ErasureEndEntry { started_seq: seq, data, reason, peer, unread_files };
            record.events.push(AuditEvent::new(clock.now(), session_id, SessionErased(ended)));
        }
        for started in retentions {
            let Some(FoundData { sessions, unread_files, .. }) = found.get(&started.seq) else { continue };
            record.events.push(started.end_event(clock.now(), *sessions, unread_files.len() as u64));
        }
        let removals = record.events.len();
        if removals > 0 {
            log.commit(record).await?;
        }
        Ok(removals)
    }

    pub async fn started(&self) -> Result<StartedRemovals, ErasureError> {
        let store = self.0.store.clone();
        self.on_files(move || StartedRemovals::read(&store)).await
    }

    /// Notes the sessions in a file if their ids are erased too: the log may no longer have them when the erasure continues.
    async fn note_pending(&self, sessions: impl Iterator<Item = SessionId>) -> Result<(), ErasureError> {
        let store = self.0.store.clone();
        if !store.covers_session_ids() {
            return Ok(());
        }
        let mut pending: BTreeSet<SessionId> = sessions.collect();
        let added = move || {
            pending.extend(pending_erasures(&store)?);
            store.put_pending_erasures(&pending)
        };
        self.on_files(added).await
    }

    /// Removes the file of pending erasures, also one that a kill has left incomplete.
    async fn clear_pending(&self) -> Result<(), ErasureError> {
        let store = self.0.store.clone();
        self.on_files(move || store.put_pending_erasures(&BTreeSet::new())).await
    }

    async fn erase_files(&self, plan: RemovalPlan) -> Result<ErasureOutcome, ErasureError> {
        let log = &self.0.log;
        let mut erasure = log.begin_erasure(plan).await?;
        let handles = Arc::clone(&self.0);
        erasure = self
            .on_files(move || {
                erasure.rewrite_segments(&|| !handles.is_stopped.load(Ordering::Relaxed))?;
                Ok(erasure)
            })
            .await?;
        loop {
            let handles = Arc::clone(&self.0);
            erasure = self
                .on_files(move || {
                    erasure.prepare(&|| !handles.is_stopped.load(Ordering::Relaxed))?;
                    Ok(erasure)
                })
                .await?;
            let (back, step) = log.finish_erasure(erasure).await?;
            erasure = back;
            match step {
                ErasureStep::Finished => return self.on_files(move || erasure.finish()).await,
                ErasureStep::ToPrepare => {}
                ErasureStep::ToRepeat => sleep(FINISH_PAUSE).await,
            }
        }
    }

    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ErasureError> {
        Ok(spawn_blocking(work).await.map_err(|panic| ErasureError::Files(panic.to_string()))??)
    }
}

/// The erased sessions, with what was found of each.
fn sessions_in(found: &Found) -> BTreeMap<SessionId, BTreeSet<ErasedData>> {
    found.values().filter_map(|found| Some((found.session_id.clone()?, found.data.clone()))).collect()
}

/// The sessions to erase: each with the number of its `erasure_started` and the administrator, if both are known. A retention
/// removes no session with webhooks.
fn pending_sessions(
    started: &[StartedErasure],
    pending: &BTreeSet<SessionId>,
) -> Vec<(SessionId, u64, Option<PeerCredentials>)> {
    let named = started.iter().filter_map(|entry| {
        let session_id = entry.session_id.clone()?;
        Some((session_id, entry.seq, Some(entry.start.peer)))
    });
    // the entry of a pending session can be any of those without a name
    let peer = started.first().map(|entry| entry.start.peer);
    named.chain(pending.iter().map(|session_id| (session_id.clone(), 0, peer))).collect()
}

/// The sessions of unfinished removals whose ids the log may no longer have.
fn pending_erasures(store: &Store) -> Result<BTreeSet<SessionId>, StoreError> {
    let started = StartedRemovals::read(store)?;
    let first = started.seqs().min().unwrap_or(u64::MAX - 1);
    let expired: Vec<ExpiredSessions> = entries_of(store, "sessions_expired", first)?;
    let expired = expired.into_iter().filter(|entry| entry.session_ids.is_none()).map(|entry| entry.seq);
    let erased = started.erasures.iter().filter(|entry| entry.session_id.is_none()).map(|entry| entry.seq);
    store.pending_erasures(&erased.chain(expired).collect())
}

/// The entries of an event after entry `after`.
fn entries_of<T: for<'de> Deserialize<'de>>(
    store: &Store,
    event: &str,
    after: u64,
) -> Result<Vec<T>, StoreError> {
    let lines = store.log(&LogQuery {
        events: vec![event.into()],
        after,
        limit: usize::MAX,
        ..LogQuery::default()
    })?;
    lines.iter().map(|line| store.parse_entry(line)).collect()
}

/// Maximum number of sessions in a commit.
const SESSIONS_AT_ONCE: usize = 100;
/// Maximum number of sessions in a run, since their ids are in memory. The next run removes the others.
const SESSIONS_MAX: usize = 1_000_000;

/// For how many days each kind of data is kept; `None` for forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionDays {
    /// Sessions with their verdicts, after their last change.
    pub verdicts: Option<u32>,
    /// Erasable values of log entries, except those of verifications.
    pub log_values: Option<u32>,
    /// Values of verifications and their reviews in log entries.
    pub verifications: Option<u32>,
    /// Log entries, with their hashes left in the Merkle tree.
    pub log: Option<u32>,
}

/// The result of a retention.
#[derive(Debug)]
pub struct RetentionReport {
    /// The data that were due.
    pub due: DueData,
    /// Files of the log that may still have the data.
    pub unread_files: Vec<PathBuf>,
}

/// An entry `retention_started`.
#[derive(Debug, Deserialize)]
pub(super) struct StartedRetention {
    pub(super) seq: u64,
    #[serde(flatten)]
    start: RetentionStartEntry,
}

/// An entry `sessions_expired`.
#[derive(Deserialize)]
struct ExpiredSessions {
    seq: u64,
    started_seq: u64,
    /// `None` if the ids are erased already.
    #[serde(default, deserialize_with = "read_open")]
    session_ids: Option<Vec<SessionId>>,
}

impl ErasureService {
    /// The data that are older than `days`. Reads all sessions and the log.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn due_data(&self, days: RetentionDays) -> Result<DueData, ErasureError> {
        // a clock that was set ahead makes no data older
        let set_ahead = self.0.clock.steps_since(Timestamp::MIN).max(SignedDuration::ZERO);
        let now = self.0.clock.now();
        let (handles, now) = (Arc::clone(&self.0), now.saturating_sub(set_ahead).unwrap_or(now));
        self.on_files(move || due_data(&handles, days, now)).await
    }

    /// Removes the data that are older than `days`. Logs nothing if none are due. `log_key` is the public key of the log.
    ///
    /// # Errors
    /// The removal failed, or the files cannot be written. A removal that has started is tried again.
    pub async fn apply_retention(
        &self,
        _turn: OwnedMutexGuard<()>,
        days: RetentionDays,
        peer: Option<PeerCredentials>,
        log_key: &LogKey,
    ) -> Result<RetentionReport, ErasureError> {
        let due = self.due_data(days).await?;
        if !due.is_due() {
            return Ok(RetentionReport { due, unread_files: Vec::new() });
        }
        let log_key = due.dropped_up_to().map(|_| log_key.to_string());
        let started = RetentionStarted(RetentionStartEntry { due: due.clone(), peer, log_key });
        let started = AuditEvent::new(self.0.clock.now(), None, started);
        let receipt = self.0.log.commit(started.into()).await?;
        let expired = self.expire_sessions(receipt.last_seq, &due).await;
        // also after an error: some rows were removed
        let erased = self.erase_started_or_resume().await;
        expired?;
        let ErasureReport { unread_files, .. } = erased?;
        Ok(RetentionReport { due, unread_files })
    }

    /// Removes the rows of old sessions.
    pub async fn expire_sessions(&self, started_seq: u64, due: &DueData) -> Result<(), ErasureError> {
        let Some(DueKind { last_seq, count: 1.., .. }) = due.verdicts else { return Ok(()) };
        let store = self.0.store.clone();
        let expired = move || {
            let with_messages = store.sessions_with_messages()?;
            let mut expired = Vec::new();
            store.visit_expired_sessions(last_seq, |sessions| {
                let ids = sessions.into_iter().map(|(session_id, _)| session_id);
                expired.extend(ids.filter(|session_id| !with_messages.contains(session_id)));
                expired.len() < SESSIONS_MAX
            })?;
            Ok(expired)
        };
        let expired: Vec<SessionId> = self.on_files(expired).await?;
        self.note_pending(expired.iter().cloned()).await?;
        for sessions in expired.chunks(SESSIONS_AT_ONCE) {
            if self.0.is_stopped.load(Ordering::Relaxed) {
                return Err(StoreError::Unavailable { cause: "the daemon is stopping".to_owned() }.into());
            }
            let store = self.0.store.clone();
            // a mail can have been queued meanwhile
            let with_messages = self.on_files(move || store.sessions_with_messages()).await?;
            let sessions = sessions.iter().filter(|session_id| !with_messages.contains(*session_id));
            let sessions = sessions.cloned().collect();
            self.0.cache.ask(ExpireSessions { started_seq, last_seq, sessions }).await??;
        }
        Ok(())
    }
}

fn due_data(handles: &ErasureHandles, days: RetentionDays, now: Timestamp) -> Result<DueData, StoreError> {
    let store = &handles.store;
    let kind_of = |days: Option<u32>| {
        let kind = |days: u32| {
            let age = SignedDuration::from_hours(24 * i64::from(days));
            let before = now.saturating_sub(age).unwrap_or(Timestamp::MIN);
            let last_seq = store.last_seq_before(before)?;
            Ok::<_, StoreError>(DueKind { days, before, last_seq, count: 0, oldest: None })
        };
        days.map(kind).transpose()
    };
    let held_from = store.legal_holds()?.iter().map(|hold| hold.first_seq).min();
    let kind_of_entries = |days: Option<u32>| {
        let kind = kind_of(days)?;
        let keep_held = |kind: DueKind| {
            let last_seq =
                held_from.map_or(kind.last_seq, |first| kind.last_seq.min(first.saturating_sub(1)));
            DueKind { last_seq, ..kind }
        };
        Ok::<_, StoreError>(kind.map(keep_held))
    };
    let mut due = DueData {
        verdicts: kind_of(days.verdicts)?,
        log_values: kind_of_entries(days.log_values)?,
        verifications: kind_of_entries(days.verifications)?,
        log: kind_of_entries(days.log)?,
    };
    if let Some(kind) = &mut due.log {
        count_dropped(store, kind)?;
    }
    if let Some(kind) = &mut due.verdicts {
        count_sessions(store, kind)?;
    }
    let is_running = || !handles.is_stopped.load(Ordering::Relaxed);
    let [verifications, log_values] = store.removable_entries(&plan_of_values(store, &due)?, &is_running)?;
    for (kind, RemovableEntries { count, oldest }) in
        [(&mut due.log_values, log_values), (&mut due.verifications, verifications)]
    {
        if let Some(kind) = kind {
            *kind = DueKind { count, oldest, ..kind.clone() };
        }
    }
    Ok(due)
}

/// Counts the entries that are dropped, and sets the last one.
fn count_dropped(store: &Store, kind: &mut DueKind) -> Result<(), StoreError> {
    // the end of a removal names its start
    let started = StartedRemovals::read(store)?.seqs().min().map_or(u64::MAX, |seq| seq - 1);
    kind.last_seq = store.droppable_up_to(kind.last_seq.min(started))?;
    let first = store.first_seq()?;
    kind.count = (kind.last_seq + 1).saturating_sub(first);
    if kind.count > 0 {
        kind.oldest = time_of(store, first)?;
    }
    Ok(())
}

/// The time of entry `seq`; `None` if it was dropped.
fn time_of(store: &Store, seq: u64) -> Result<Option<Timestamp>, StoreError> {
    let query = LogQuery { after: seq - 1, limit: 1, ..LogQuery::default() };
    let lines = store.log(&query)?;
    let entry = lines
        .first()
        .filter(|line| line.seq == seq)
        .map(|line| store.parse_entry::<EntryTime>(line))
        .transpose()?;
    Ok(entry.map(|EntryTime { timestamp }| timestamp))
}

fn count_sessions(store: &Store, kind: &mut DueKind) -> Result<(), StoreError> {
    let with_messages = store.sessions_with_messages()?;
    let mut first_seq = u64::MAX;
    store.visit_expired_sessions(kind.last_seq, |sessions| {
        for (_, latest) in sessions.iter().filter(|(session_id, _)| !with_messages.contains(session_id)) {
            kind.count += 1;
            first_seq = first_seq.min(*latest);
        }
        true
    })?;
    if kind.count > 0 {
        kind.oldest = time_of(store, first_seq)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct EntryTime {
    timestamp: Timestamp,
}

/// The plan without sessions.
fn plan_of_values(store: &Store, due: &DueData) -> Result<RemovalPlan, StoreError> {
    let last_seq = |kind: &Option<DueKind>| kind.as_ref().map(|kind| kind.last_seq);
    Ok(RemovalPlan {
        values_up_to: last_seq(&due.log_values),
        verifications_up_to: last_seq(&due.verifications),
        log_from: due.dropped_up_to().map(|last| last + 1),
        open_reviews: store.open_review_ids()?,
        ..RemovalPlan::default()
    })
}

impl StartedRetention {
    /// Adds the data to remove to `plan`. Returns the number of its sessions.
    pub(super) fn add_to(&self, store: &Store, plan: &mut RemovalPlan) -> Result<u64, StoreError> {
        let of_values = plan_of_values(store, &self.start.due)?;
        plan.values_up_to = plan.values_up_to.max(of_values.values_up_to);
        plan.verifications_up_to = plan.verifications_up_to.max(of_values.verifications_up_to);
        plan.log_from = plan.log_from.max(of_values.log_from);
        plan.open_reviews.extend(of_values.open_reviews);
        let query = LogQuery {
            events: vec!["sessions_expired".to_owned()],
            after: self.seq,
            limit: usize::MAX,
            ..LogQuery::default()
        };
        let mut sessions: BTreeSet<SessionId> = BTreeSet::new();
        for line in store.log(&query)? {
            let ExpiredSessions { seq, started_seq, session_ids } = store.parse_entry(&line)?;
            if started_seq != self.seq {
                continue;
            }
            for session_id in session_ids.unwrap_or_default() {
                let last = plan.sessions.entry(session_id.clone()).or_default();
                *last = seq.max(*last);
                sessions.insert(session_id);
            }
        }
        Ok(sessions.len() as u64)
    }

    /// The event that logs its end.
    fn end_event(self, at: Timestamp, sessions: u64, unread_files: u64) -> AuditEvent {
        let end = RetentionEndEntry { started_seq: self.seq, due: self.start.due, sessions, unread_files };
        AuditEvent::new(at, None, RetentionApplied(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_at_most_20_holds() {
        let hold = LegalHold {
            session_id: serde_json::from_value("cs_1".into()).expect("the id is valid"),
            reason: "a lawsuit".to_owned(),
            placed_at: Timestamp::UNIX_EPOCH,
            peer: PeerCredentials { uid: 0, gid: 0, pid: None },
            first_seq: 1,
            erasure_refused_at: None,
        };
        assert_eq!(list_holds(std::slice::from_ref(&hold)), hold.to_string());
        let all = list_holds(&vec![hold; 23]);
        assert_eq!(all.matches("cs_1").count(), 20, "{all}");
        assert!(all.ends_with("; and 3 other sessions are on legal hold"), "{all}");
    }
}
