//! Erasing the data of sessions from the state directory.
//!
//! The removal of a session's rows and the entry `erasure_started` are one commit. From then on the erasure continues, also after
//! a restart, until `session_erased` is logged.

use crate::audit::logger::{CommitError, LoggerHandle};
use crate::platform::actor_handle::{ActorCallError, ActorHandle};
use crate::platform::clock::Clock;
use crate::verdict::cache::{EraseSession, VerdictCache, VerdictCacheError};
use crate::verdict::notifier::{Notifier, queued_mails};
use crate::verdict::outbox::{HoldMessages, OutboxAction, OutboxError};
use crate::verdict::webhooks::{ChangeWebhook, WebhookSender};
use oracled_domain::audit::event::{ErasedData, ErasureEndEntry, ErasureStartEntry};
use oracled_domain::{AuditEvent, EventKind, PeerCredentials, SessionId, WebhookId};
use oracled_store::{ErasureOutcome, JournalRecord, LogQuery, Store, StoreError};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The pause before an interrupted erasure is tried again.
const PAUSE: Duration = Duration::from_secs(60);
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
    /// A mail or a webhook of the session is being sent.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    #[error(transparent)]
    Actor(#[from] ActorCallError),
    /// The task that reads and writes the files panicked.
    #[error("the files could not be written: {0}")]
    Files(String),
}

/// The result of an erasure.
#[derive(Debug)]
pub struct ErasureReport {
    /// The erased sessions, with the kinds of data that were found.
    pub sessions: BTreeMap<SessionId, BTreeSet<ErasedData>>,
    /// Compressed files of the log, which still have the data.
    pub unread_files: Vec<PathBuf>,
}

/// Erases sessions, one request at a time.
#[derive(Debug, Clone)]
pub struct ErasureService(Arc<ErasureHandles>);

/// The handles that an erasure needs.
#[derive(Debug)]
pub(crate) struct ErasureHandles {
    pub(crate) store: Store,
    pub(crate) log: LoggerHandle,
    pub(crate) clock: Clock,
    pub(crate) cache: ActorHandle<VerdictCache>,
    pub(crate) notifier: ActorHandle<Notifier>,
    pub(crate) webhooks: ActorHandle<WebhookSender>,
    pub(crate) running: Mutex<()>,
    pub(crate) is_stopped: AtomicBool,
}

/// An entry `erasure_started`.
#[derive(Debug, Deserialize)]
struct StartedErasure {
    seq: u64,
    session_id: SessionId,
    #[serde(flatten)]
    start: ErasureStartEntry,
}

/// An entry `session_erased`.
#[derive(Deserialize)]
struct EndedErasure {
    started_seq: u64,
}

impl ErasureService {
    pub(crate) fn new(handles: ErasureHandles) -> Self {
        Self(Arc::new(handles))
    }

    /// Stops the work on files. The erasure continues at the next start.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Erases the data of sessions, known or not.
    ///
    /// # Errors
    /// The removal failed, or the files cannot be written.
    pub async fn erase(
        &self,
        sessions: Vec<SessionId>,
        reason: String,
        peer: PeerCredentials,
    ) -> Result<ErasureReport, ErasureError> {
        let _running = self.0.running.lock().await;
        for session_id in sessions {
            self.remove(session_id, reason.clone(), peer).await?;
        }
        self.erase_started().await.inspect_err(|_| drop(actix_rt::spawn(self.clone().resume())))
    }

    /// Completes erasures that have started, and were interrupted by a restart or an error.
    pub(crate) async fn resume(self) {
        loop {
            let running = self.0.running.lock().await;
            match self.erase_started().await {
                Ok(ErasureReport { sessions, .. }) if sessions.is_empty() => {}
                Ok(_) => tracing::info!("completed the erasures that were interrupted"),
                Err(error) if self.0.is_stopped.load(Ordering::Relaxed) => {
                    tracing::info!(%error, "an erasure continues at the next start");
                }
                Err(error) => {
                    tracing::error!(%error, "could not complete an erasure; it is tried again in a minute");
                    drop(running);
                    sleep(PAUSE).await;
                    continue;
                }
            }
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
        let ErasureHandles { store, cache, notifier, webhooks, .. } = &*self.0;
        let (store, of_session) = (store.clone(), session_id.clone());
        let read = spawn_blocking(move || {
            let mut webhooks: Vec<WebhookId> = Vec::new();
            store.visit_webhooks(None, |state| {
                if state.session_id.as_ref() == Some(&of_session) {
                    webhooks.push(state.webhook_id);
                }
                true
            })?;
            Ok::<_, StoreError>((webhooks, queued_mails(&store, &of_session)?))
        });
        let (ids, mails) = read.await.map_err(|panic| ErasureError::Files(panic.to_string()))??;
        for id in ids {
            match webhooks.ask(ChangeWebhook { id, action: OutboxAction::Drop, peer }).await? {
                // it was sent meanwhile
                Ok(_) | Err(OutboxError::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mails = if mails.is_empty() { None } else { Some(notifier.ask(HoldMessages(mails)).await??) };
        Ok(cache.ask(EraseSession { session_id, mails, reason, peer }).await??)
    }

    /// Erases the data of all sessions whose erasure has started and not ended.
    async fn erase_started(&self) -> Result<ErasureReport, ErasureError> {
        let ErasureHandles { store, log, clock, .. } = &*self.0;
        let started = started_erasures(store)?;
        if started.is_empty() {
            return Ok(ErasureReport { sessions: BTreeMap::new(), unread_files: Vec::new() });
        }
        // the entries of a session ascend, so the last one counts
        let up_to: BTreeMap<_, _> =
            started.iter().map(|entry| (entry.session_id.clone(), entry.seq)).collect();
        let ErasureOutcome { mut data, unread_files } = self.erase_files(up_to).await?;
        let mut record = JournalRecord::default();
        for StartedErasure { seq, session_id, start } in started {
            let ErasureStartEntry { reason, peer } = start;
            let data = data.entry(session_id.clone()).or_default().clone();
            let ended = ErasureEndEntry { started_seq: seq, data, reason, peer };
            record.events.push(AuditEvent::new(clock.now(), session_id, EventKind::SessionErased(ended)));
        }
        log.commit(record).await?;
        Ok(ErasureReport { sessions: data, unread_files })
    }

    async fn erase_files(&self, up_to: BTreeMap<SessionId, u64>) -> Result<ErasureOutcome, ErasureError> {
        let log = &self.0.log;
        let mut erasure = log.begin_erasure(up_to).await?;
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
            let (back, is_finished) = log.finish_erasure(erasure).await?;
            erasure = back;
            if is_finished {
                return self.on_files(move || erasure.finish()).await;
            }
            sleep(FINISH_PAUSE).await;
        }
    }

    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ErasureError> {
        Ok(spawn_blocking(work).await.map_err(|panic| ErasureError::Files(panic.to_string()))??)
    }
}

/// The erasures that have started and not ended, in the order of their entries.
fn started_erasures(store: &Store) -> Result<Vec<StartedErasure>, StoreError> {
    let started: Vec<StartedErasure> = entries_of(store, "erasure_started")?;
    let ended: Vec<EndedErasure> = entries_of(store, "session_erased")?;
    let ended: BTreeSet<_> = ended.into_iter().map(|EndedErasure { started_seq }| started_seq).collect();
    Ok(started.into_iter().filter(|entry| !ended.contains(&entry.seq)).collect())
}

fn entries_of<T: for<'de> Deserialize<'de>>(store: &Store, event: &str) -> Result<Vec<T>, StoreError> {
    let lines =
        store.log(&LogQuery { event: Some(event.into()), limit: usize::MAX, ..LogQuery::default() })?;
    lines.iter().map(|line| store.parse_entry(line)).collect()
}
