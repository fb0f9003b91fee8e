//! Removing data that are older than configured, by the steps of an erasure.
//!
//! `retention_started` names the data. The rows of old sessions are removed in commits with `sessions_expired`. Then the files are
//! rewritten, and `retention_applied` is logged. After an interruption, the files are rewritten for the sessions that were removed;
//! the next run removes the others.

use super::{ErasureError, ErasureHandles, ErasureReport, ErasureService, StartedRemovals};
use crate::cache::ExpireSessions;
use domain_audit::checkpoint::LogKey;
use domain_audit::event::{
    DueData, DueKind, RetentionApplied, RetentionEndEntry, RetentionStartEntry, RetentionStarted,
};
use domain_base::caller::PeerCredentials;
use domain_base::event::{AuditEvent, read_open};
use domain_base::session_id::SessionId;
use jiff::{SignedDuration, Timestamp};
use oracled_store::{LogQuery, RemovableEntries, RemovalPlan, Store, StoreError};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::OwnedMutexGuard;

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
        let erased = self.erase_started().await;
        if erased.is_err() {
            tokio::spawn(self.clone().resume());
        }
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
    let mut due = DueData {
        verdicts: kind_of(days.verdicts)?,
        log_values: kind_of(days.log_values)?,
        verifications: kind_of(days.verifications)?,
        log: kind_of(days.log)?,
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
    let started = StartedRemovals::read(store)?.first_seq().map_or(u64::MAX, |seq| seq - 1);
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
            event: Some("sessions_expired".to_owned()),
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
    pub(super) fn end_event(self, at: Timestamp, sessions: u64, unread_files: u64) -> AuditEvent {
        let end = RetentionEndEntry { started_seq: self.seq, due: self.start.due, sessions, unread_files };
        AuditEvent::new(at, None, RetentionApplied(end))
    }
}
