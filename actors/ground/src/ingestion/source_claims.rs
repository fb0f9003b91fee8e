//! The claims on sources: at most one run or upkeep task works on a source at a time.

use super::IngestionError;
use crate::ingestion::{RunStopReason, RunTracker};
use actors_platform::work_turn::WorkLease;
use domain_base::digest::Sha256Hex;
use domain_ground::id::SourceId;
use domain_ground::run::{IngestionRun, RunProgress};
use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The claimed sources.
#[derive(Debug, Default)]
pub(super) struct SourceClaims {
    claims: Mutex<HashMap<SourceId, ClaimHolder>>,
    /// Notified whenever a claim is released.
    released: Notify,
    stopping: AtomicBool,
    stop_requested: Notify,
}

#[derive(Debug, Clone)]
pub(super) enum ClaimHolder {
    Run(Arc<RunTracker>),
    /// A prune, rebuild or undo.
    Upkeep,
}

/// A claim on a source, released when it is dropped.
pub(super) struct SourceClaim {
    claims: Arc<SourceClaims>,
    oracle_id: SourceId,
    /// The same claim in the cluster.
    pub(super) lease: Option<WorkLease>,
}

impl SourceClaim {
    /// Sets the run that works under this claim from now on.
    pub(super) fn assign_to_run(&self, run: &Arc<RunTracker>) {
        self.claims.lock_claims().insert(self.oracle_id.clone(), ClaimHolder::Run(Arc::clone(run)));
        self.claims.end_if_stopping(run);
    }

    /// Whether the holder may continue.
    pub(super) fn is_allowed_to_continue(&self) -> bool {
        !self.claims.is_stopping() && self.is_held()
    }

    /// A future that ends when another host may have taken the source.
    pub(super) fn lost(&self) -> impl Future<Output = ()> + use<> {
        let lost = self.lease.as_ref().map(WorkLease::lost);
        async move {
            match lost {
                Some(lost) => lost.await,
                None => pending().await,
            }
        }
    }

    /// Whether no other host can have taken the source.
    pub(super) fn is_held(&self) -> bool {
        self.lease.as_ref().is_none_or(WorkLease::is_held)
    }
}

impl Drop for SourceClaim {
    fn drop(&mut self) {
        // first: the next claim on this host takes the lease again
        drop(self.lease.take());
        self.claims.lock_claims().remove(&self.oracle_id);
        self.claims.released.notify_waiters();
    }
}

impl SourceClaims {
    /// Claims the source, unless it is claimed already.
    pub(super) fn claim_for(
        self: &Arc<Self>,
        oracle_id: &SourceId,
        holder: ClaimHolder,
    ) -> Result<SourceClaim, IngestionError> {
        let mut held = self.lock_claims();
        let oracle_id = oracle_id.clone();
        match held.get(&oracle_id) {
            Some(ClaimHolder::Run(other)) => {
                return Err(IngestionError::Busy { oracle_id, run_id: other.run.run_id.clone() });
            }
            Some(ClaimHolder::Upkeep) => return Err(IngestionError::Upkeep(oracle_id)),
            None => {}
        }
        held.insert(oracle_id.clone(), holder);
        Ok(SourceClaim { claims: Arc::clone(self), oracle_id, lease: None })
    }

    /// Claims the source of a run, unless it is claimed already.
    pub(super) fn claim_for_run(
        self: &Arc<Self>,
        run: &IngestionRun,
    ) -> Result<(SourceClaim, Arc<RunTracker>), IngestionError> {
        let progress = Arc::new(RunTracker::new(run.clone()));
        let claim = self.claim_for(&run.oracle_id, ClaimHolder::Run(Arc::clone(&progress)))?;
        self.end_if_stopping(&progress);
        Ok((claim, progress))
    }

    fn end_if_stopping(&self, run: &RunTracker) {
        if self.is_stopping() {
            run.request_stop(RunStopReason::Stopping);
        }
    }

    /// Waits until a run has released its source.
    pub(super) async fn wait_until_released(&self, run_id: &Sha256Hex) {
        let is_its =
            |holder: &ClaimHolder| matches!(holder, ClaimHolder::Run(run) if run.run.run_id == *run_id);
        self.wait_until(|held| !held.values().any(is_its)).await;
    }

    /// Waits until no run holds the source.
    pub(super) async fn wait_until_no_run(&self, oracle_id: &SourceId) {
        self.wait_until(|held| !matches!(held.get(oracle_id), Some(ClaimHolder::Run(_)))).await;
    }

    async fn wait_until(&self, is_so: impl Fn(&HashMap<SourceId, ClaimHolder>) -> bool) {
        loop {
            let freed = self.released.notified();
            if is_so(&self.lock_claims()) {
                return;
            }
            freed.await;
        }
    }

    /// Runs `work` unless a source is claimed. No source is claimed meanwhile.
    pub(super) fn run_if_unclaimed<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let held = self.lock_claims();
        held.is_empty().then(work)
    }

    /// The progress of a run that holds its source.
    pub(super) fn run(&self, run_id: &Sha256Hex) -> Option<Arc<RunTracker>> {
        self.runs().into_iter().find(|run| run.run.run_id == *run_id)
    }

    /// Stops all runs and upkeep tasks, and waits until they have stopped. The next start resumes the runs.
    pub(super) async fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.stop_requested.notify_waiters();
        self.runs().iter().for_each(|run| run.request_stop(RunStopReason::Stopping));
        self.wait_until(HashMap::is_empty).await;
    }

    /// Waits until the daemon stops.
    pub(super) async fn wait_for_stop(&self) {
        let requested = self.stop_requested.notified();
        // a `Notified` gets the notifications since it was made
        if !self.is_stopping() {
            requested.await;
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> Vec<RunProgress> {
        let mut progress: Vec<_> = self.runs().iter().map(|run| run.report()).collect();
        progress.sort_by(|one, other| one.oracle_id.cmp(&other.oracle_id));
        progress
    }

    fn runs(&self) -> Vec<Arc<RunTracker>> {
        let run = |holder: &ClaimHolder| {
            if let ClaimHolder::Run(run) = holder { Some(Arc::clone(run)) } else { None }
        };
        self.lock_claims().values().filter_map(run).collect()
    }

    fn lock_claims(&self) -> MutexGuard<'_, HashMap<SourceId, ClaimHolder>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn wait_for_stop_ends_at_a_stop_during_it_or_before() {
        let claims = SourceClaims::default();
        let waits = async {
            tokio::join!(claims.wait_for_stop(), claims.stop());
            claims.wait_for_stop().await;
        };
        timeout(Duration::from_secs(10), waits).await.expect("the waits end");
    }
}
