//! The claims on sources: at most one run or upkeep task works on a source at a time.

use super::IngestionError;
use super::progress::{Ending, Progress};
use oracled_domain::Sha256Hex;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::run::Run;
use oracled_domain::ground::run::RunProgress;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The claimed sources.
#[derive(Debug, Default)]
pub(super) struct Flights {
    held: Mutex<HashMap<SourceId, Holder>>,
    /// Notified whenever a claim is released.
    freed: Notify,
    stopping: AtomicBool,
}

/// The holder of a claim.
#[derive(Debug, Clone)]
pub(super) enum Holder {
    /// A run.
    Run(Arc<Progress>),
    /// A prune, rebuild or undo.
    Upkeep,
}

/// A claim on a source, released when it is dropped.
pub(super) struct Claim {
    flights: Arc<Flights>,
    oracle_id: SourceId,
}

impl Claim {
    /// Sets the run that works under this claim from now on.
    pub(super) fn hand_to(&self, run: &Arc<Progress>) {
        self.flights.held().insert(self.oracle_id.clone(), Holder::Run(Arc::clone(run)));
        self.flights.end_if_stopping(run);
    }

    /// Whether the holder may continue.
    pub(super) fn is_to_go_on(&self) -> bool {
        !self.flights.is_stopping()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.flights.held().remove(&self.oracle_id);
        self.flights.freed.notify_waiters();
    }
}

impl Flights {
    /// Claims the source, unless it is claimed already.
    pub(super) fn hold(
        self: &Arc<Self>,
        oracle_id: &SourceId,
        holder: Holder,
    ) -> Result<Claim, IngestionError> {
        let mut held = self.held();
        let oracle_id = oracle_id.clone();
        match held.get(&oracle_id) {
            Some(Holder::Run(other)) => {
                return Err(IngestionError::Busy { oracle_id, run_id: other.run.run_id.clone() });
            }
            Some(Holder::Upkeep) => return Err(IngestionError::Upkeep(oracle_id)),
            None => {}
        }
        held.insert(oracle_id.clone(), holder);
        Ok(Claim { flights: Arc::clone(self), oracle_id })
    }

    /// Claims the source of a run, unless it is claimed already.
    pub(super) fn claim(self: &Arc<Self>, run: &Run) -> Result<(Claim, Arc<Progress>), IngestionError> {
        let progress = Arc::new(Progress::new(run.clone()));
        let claim = self.hold(&run.oracle_id, Holder::Run(Arc::clone(&progress)))?;
        self.end_if_stopping(&progress);
        Ok((claim, progress))
    }

    fn end_if_stopping(&self, run: &Progress) {
        if self.is_stopping() {
            run.end(Ending::Stopping);
        }
    }

    /// Waits until a run has released its source.
    pub(super) async fn until_left(&self, run_id: &Sha256Hex) {
        let is_its = |holder: &Holder| matches!(holder, Holder::Run(run) if run.run.run_id == *run_id);
        self.until(|held| !held.values().any(is_its)).await;
    }

    /// Waits until no run holds the source.
    pub(super) async fn until_no_run(&self, oracle_id: &SourceId) {
        self.until(|held| !matches!(held.get(oracle_id), Some(Holder::Run(_)))).await;
    }

    async fn until(&self, is_so: impl Fn(&HashMap<SourceId, Holder>) -> bool) {
        loop {
            let freed = self.freed.notified();
            if is_so(&self.held()) {
                return;
            }
            freed.await;
        }
    }

    /// The progress of a run that holds its source.
    pub(super) fn run(&self, run_id: &Sha256Hex) -> Option<Arc<Progress>> {
        self.runs().into_iter().find(|run| run.run.run_id == *run_id)
    }

    /// Stops all runs and upkeep tasks, and waits until they have stopped. The next start resumes the runs.
    pub(super) async fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.runs().iter().for_each(|run| run.end(Ending::Stopping));
        self.until(HashMap::is_empty).await;
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> Vec<RunProgress> {
        let mut progress: Vec<_> = self.runs().iter().map(|run| run.report()).collect();
        progress.sort_by(|one, other| one.oracle_id.cmp(&other.oracle_id));
        progress
    }

    fn runs(&self) -> Vec<Arc<Progress>> {
        let run = |holder: &Holder| if let Holder::Run(run) = holder { Some(Arc::clone(run)) } else { None };
        self.held().values().filter_map(run).collect()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SourceId, Holder>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
