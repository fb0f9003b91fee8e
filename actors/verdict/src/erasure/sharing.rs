//! Removals on a host of a cluster.
//!
//! The removal of rows and the start of an erasure reach all hosts by the shared log. Each host removes the data from its own files,
//! and reports up to which entry it has done that, also for those that began while it was away. When all members have, the host with the
//! turn logs the end. A request that another host served meanwhile may have logged values of the session in between: each host removes these
//! after the end.

use super::{
    EndedErasure, ErasedEntry, ErasureError, ErasureReport, ErasureService, ExpiredSessions, StartedRemovals,
    entries_of, sessions_in,
};
use actors_platform::clock::monotonic;
use actors_platform::host_removals::{HostRemovals, OwnRemovals};
use domain_base::session_id::SessionId;
use oracled_store::{ClusterMarker, LogQuery, Store, StoreError};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The time between two looks at the removals that other hosts have started.
const PAUSE: Duration = Duration::from_secs(2);
/// The time between two looks at the other hosts, while a request waits for them.
const LOOK: Duration = Duration::from_millis(200);
/// How long a request waits for them, in looks: ten minutes.
const LOOKS: usize = 3000;

/// How long a start waits for what the other hosts have removed.
const READ_MAX: Duration = Duration::from_secs(5);

/// The removals that are due in the files of this host.
#[derive(Default)]
pub(super) struct DueRemovals {
    started: StartedRemovals,
    /// Sessions of removals that this host has done already, each with a later entry up to which it has data.
    late: BTreeMap<SessionId, u64>,
    /// The last entry of a removal.
    pub(super) last_seq: u64,
    /// The removals that have ended since then, by the entries with which they have started.
    ended: BTreeSet<u64>,
}

impl DueRemovals {
    /// Leaves out the removals that wait for another host: those after the last one that has ended or that `is_done` accepts.
    fn leave_waiting(&mut self, is_done: impl Fn(u64) -> bool) {
        let is_finished = |seq: &u64| self.ended.contains(seq) || is_done(*seq);
        let last_finished = self.started.seqs().filter(is_finished).max().unwrap_or_default();
        let Some(first) = self.started.seqs().filter(|seq| *seq > last_finished).min() else { return };
        self.started.erasures.retain(|started| started.seq < first);
        self.started.retentions.retain(|started| started.seq < first);
        self.last_seq = self.last_seq.min(first.saturating_sub(1));
    }
}

impl ErasureService {
    /// Does what removals of other hosts need, until the daemon stops.
    pub(super) async fn keep_up(&self, hosts: &HostRemovals) {
        while !self.0.is_stopped.load(Ordering::Relaxed) {
            let done = match self.has_work(hosts).await {
                Ok(false) => Ok(ErasureReport::default()),
                Ok(true) => {
                    let _turn = self.0.turn.lock().await;
                    self.erase_on_this_host(hosts, false).await
                }
                Err(error) => Err(error),
            };
            match done {
                Err(error) if !self.0.is_stopped.load(Ordering::Relaxed) => {
                    tracing::error!(%error, "could not remove data from the files of this host; it is tried again");
                    sleep(super::PAUSE).await;
                }
                _ => sleep(PAUSE).await,
            }
        }
    }

    /// Removes from the files of this host what other hosts have removed while it was away. Until then, its log has the values, so this comes
    /// before it serves. A removal that no member has done yet, or that fails, is done while the host serves, and logged.
    pub async fn catch_up(&self) {
        let Some(hosts) = &self.0.hosts else { return };
        let caught_up = async {
            if self.due(hosts).await?.last_seq > hosts.own.borrow().up_to {
                let mut members = hosts.members.clone();
                // without an answer, it is tried again while this host serves
                drop(timeout(READ_MAX, members.wait_for(|(read_at, _)| read_at.is_some())).await);
                let _turn = self.0.turn.lock().await;
                self.erase_on_this_host(hosts, false).await?;
                let left = self.due(hosts).await?;
                if !left.started.is_empty() || !left.late.is_empty() {
                    tracing::warn!(
                        "this host serves before it has removed all erased data from its files: a removal waits for another host"
                    );
                }
            }
            Ok::<_, ErasureError>(())
        };
        if let Err(error) = caught_up.await {
            tracing::error!(%error, "could not remove data from the files of this host before it serves; it is tried again");
        }
    }

    /// Whether a removal has to be done, or its end to be logged. Only then a backup has to wait.
    async fn has_work(&self, hosts: &HostRemovals) -> Result<bool, ErasureError> {
        let due = self.due(hosts).await?;
        Ok(due.last_seq > hosts.own.borrow().up_to
            || hosts.turn.is_ours() && !self.common_ends(hosts).await?.is_empty())
    }

    /// Returns the removals that are due on this host.
    pub(super) async fn due(&self, hosts: &HostRemovals) -> Result<DueRemovals, ErasureError> {
        let (store, own) = (self.0.store.clone(), hosts.own.borrow().up_to);
        let erased: BTreeMap<u64, SessionId> = {
            let found = self.0.found.lock().await;
            found.iter().filter_map(|(seq, found)| Some((*seq, found.session_id.clone()?))).collect()
        };
        self.on_files(move || due_since(&store, own, &erased)).await
    }

    /// Removes what is due from the files of this host, and logs the end of what all hosts have removed. A removal that was not begun here
    /// waits until another host has done it: a retention removes its sessions by several commits. Earlier ones do not wait.
    pub(super) async fn erase_on_this_host(
        &self,
        hosts: &HostRemovals,
        is_begun_here: bool,
    ) -> Result<ErasureReport, ErasureError> {
        let own = hosts.own.borrow().up_to;
        let mut due = self.due(hosts).await?;
        if !is_begun_here && !hosts.turn.is_ours() {
            due.leave_waiting(|seq| hosts.is_done_on_one(seq));
        }
        let mut report = ErasureReport::default();
        if !due.started.is_empty() || !due.late.is_empty() {
            let named = due.started.erasures.iter().filter_map(|started| started.session_id.clone());
            let named: BTreeSet<_> = named.collect();
            self.note_pending(named.iter().chain(due.late.keys()).cloned()).await?;
            // otherwise its entries would come after the end of the erasure
            self.await_work(&named).await?;
            let (found, unread_files) = self.remove_from_files(due.started, due.late).await?;
            (report.sessions, report.unread_files) = (sessions_in(&found), unread_files);
            self.0.found.lock().await.extend(found);
        }
        if due.last_seq > own {
            self.note_removed(hosts, due.last_seq).await?;
            self.clear_pending().await?;
            self.0.found.lock().await.retain(|seq, _| !due.ended.contains(seq));
        }
        if hosts.turn.is_ours() {
            report.removals = self.log_common_ends(hosts).await?;
        }
        Ok(report)
    }

    /// Stores up to which entry this host has done all removals, and reports it.
    async fn note_removed(&self, hosts: &HostRemovals, removed_up_to: u64) -> Result<(), ErasureError> {
        let (store, host) = (self.0.store.clone(), hosts.turn.host().unwrap_or_default().to_owned());
        let marker = ClusterMarker::Member { host, removed_up_to };
        self.on_files(move || ClusterMarker::write(Some(&marker), store.dir())).await?;
        hosts.own.send_replace(OwnRemovals { up_to: removed_up_to, at: monotonic() });
        Ok(())
    }

    /// The removals without an end that all members have done, by the entries with which they have started.
    async fn common_ends(&self, hosts: &HostRemovals) -> Result<BTreeSet<u64>, ErasureError> {
        let mut seqs = self.unfinished().await?;
        seqs.retain(|seq| hosts.behind(*seq).is_some_and(|behind| behind.is_empty()));
        Ok(seqs)
    }

    /// The removals without an end, by the entries with which they have started.
    async fn unfinished(&self) -> Result<BTreeSet<u64>, ErasureError> {
        Ok(self.unfinished_removals().await?.seqs().collect())
    }

    /// The removals without an end.
    pub(super) async fn unfinished_removals(&self) -> Result<StartedRemovals, ErasureError> {
        let (store, ended_up_to) = (self.0.store.clone(), self.0.ended_up_to.load(Ordering::Relaxed));
        let read = move || {
            let last_seq = store.last_seq();
            Ok((StartedRemovals::unfinished_since(&store, ended_up_to)?, last_seq))
        };
        let (started, last_seq) = self.on_files(read).await?;
        // the next look begins here
        let all_ended = started.seqs().min().map_or(last_seq, |first| first - 1);
        self.0.ended_up_to.fetch_max(all_ended, Ordering::Relaxed);
        Ok(started)
    }

    /// Logs the end of the removals that all members have done.
    async fn log_common_ends(&self, hosts: &HostRemovals) -> Result<usize, ErasureError> {
        let seqs = self.common_ends(hosts).await?;
        if seqs.is_empty() {
            return Ok(0);
        }
        let found = self.0.found.lock().await.clone();
        // after a restart it is unknown what was found
        let found = seqs.into_iter().map(|seq| (seq, found.get(&seq).cloned().unwrap_or_default()));
        self.log_ends(&found.collect()).await
    }

    /// Waits until all hosts have removed what has started. Returns the hosts that have not: they are away, or need more than ten minutes.
    pub(super) async fn wait_for_hosts(&self) -> Result<Vec<String>, ErasureError> {
        let Some(hosts) = &self.0.hosts else { return Ok(Vec::new()) };
        let mut behind = Vec::new();
        for _ in 0..LOOKS {
            let unfinished = self.unfinished().await?;
            if let Some(found) = hosts.behind(unfinished.last().copied().unwrap_or_default()) {
                behind = found;
                let all_away = !behind.is_empty() && behind.iter().all(|member| member.is_away);
                if unfinished.is_empty() || all_away || self.0.is_stopped.load(Ordering::Relaxed) {
                    break;
                }
            }
            sleep(LOOK).await;
        }
        Ok(behind.into_iter().map(|member| member.host).collect())
    }
}

/// The removals due on a host that has done all up to entry `own`. `erased` are the sessions whose ids the log may have no longer, by
/// the entries with which their erasures have started.
fn due_since(store: &Store, own: u64, erased: &BTreeMap<u64, SessionId>) -> Result<DueRemovals, StoreError> {
    let started = StartedRemovals::since(store, own)?;
    let last_seq = started.seqs().max().unwrap_or(own);
    let mut due = DueRemovals { last_seq, started, ..DueRemovals::default() };
    for ErasedEntry { seq, started_seq, session_id, .. } in entries_of(store, "session_erased", own)? {
        due.last_seq = due.last_seq.max(seq);
        due.ended.insert(started_seq);
        // a removal that started later covers the log up to its present end
        if started_seq <= own
            && let Some(session_id) = session_id.or_else(|| erased.get(&started_seq).cloned())
            && !store.has_session_data(&session_id)?
            && has_entries(store, &session_id, started_seq, seq)?
        {
            due.late.insert(session_id, seq);
        }
    }
    for EndedErasure { started_seq } in entries_of(store, "retention_applied", own)? {
        due.ended.insert(started_seq);
    }
    for ExpiredSessions { seq, started_seq, session_ids } in entries_of(store, "sessions_expired", own)? {
        due.last_seq = due.last_seq.max(seq);
        if started_seq <= own {
            due.late.extend(session_ids.unwrap_or_default().into_iter().map(|session_id| (session_id, seq)));
        }
    }
    Ok(due)
}

#[derive(Deserialize)]
struct EntryEvent {
    event: String,
}

/// Whether the log has entries of a session between two, besides those of its erasure.
fn has_entries(store: &Store, session_id: &SessionId, after: u64, before: u64) -> Result<bool, StoreError> {
    let query =
        LogQuery { session: Some(session_id.clone()), after, limit: usize::MAX, ..LogQuery::default() };
    for line in store.log(&query)?.iter().take_while(|line| line.seq < before) {
        let EntryEvent { event } = store.parse_entry(line)?;
        if !matches!(event.as_str(), "erasure_started" | "session_erased") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::StartedErasure;
    use super::*;
    use domain_audit::event::ErasureStartEntry;
    use domain_base::caller::PeerCredentials;

    fn started(seq: u64) -> StartedErasure {
        let peer = PeerCredentials { uid: 0, gid: 0, pid: None };
        StartedErasure { seq, session_id: None, start: ErasureStartEntry { reason: "test".to_owned(), peer } }
    }

    #[test]
    fn only_removals_that_no_member_has_done_wait() {
        // (done by a member up to, ended, left, last entry)
        for (done, ended, left, last_seq) in [
            (20, None, vec![10, 20], 25),
            (10, None, vec![10], 19),
            (0, Some(10), vec![10], 19),
            (0, None, vec![], 9),
        ] {
            let started =
                StartedRemovals { erasures: vec![started(10), started(20)], ..StartedRemovals::default() };
            let ended: BTreeSet<u64> = ended.into_iter().collect();
            let mut due =
                DueRemovals { started, last_seq: 25, ended: ended.clone(), ..DueRemovals::default() };
            due.leave_waiting(|seq| seq <= done);
            let seqs: Vec<_> = due.started.seqs().collect();
            assert_eq!((seqs, due.last_seq), (left, last_seq), "{done} {ended:?}");
        }
    }
}
