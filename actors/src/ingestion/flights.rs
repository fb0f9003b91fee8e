//! Who works on which source: one at a time.

use super::IngestionError;
use super::progress::{Progress, RunProgress};
use domain::ground::id::SourceId;
use domain::ground::run::Run;
use domain::{Peer, Sha256Hex};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The sources that are worked on, by one at a time.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<SourceId, Holder>>);

/// Who works on a source.
#[derive(Debug, Clone)]
pub(super) enum Holder {
    /// A run.
    Run(Arc<Progress>),
    /// Somebody who writes its files anew.
    Upkeep,
}

/// A source's place among them, given back when it is dropped.
pub(super) struct Claim {
    flights: Arc<Flights>,
    oracle_id: SourceId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.flights.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.oracle_id);
    }
}

impl Flights {
    /// The source's place, unless somebody has it.
    pub(super) fn hold(
        self: &Arc<Self>,
        oracle_id: &SourceId,
        holder: Holder,
    ) -> Result<Claim, IngestionError> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oracle_id = oracle_id.clone();
        match flights.get(&oracle_id) {
            Some(Holder::Run(other)) => {
                return Err(IngestionError::Busy { oracle_id, run_id: other.run.run_id.clone() });
            }
            Some(Holder::Upkeep) => return Err(IngestionError::Upkeep(oracle_id)),
            None => {}
        }
        flights.insert(oracle_id.clone(), holder);
        Ok(Claim { flights: Arc::clone(self), oracle_id })
    }

    /// The place of a run's source, unless somebody has it.
    pub(super) fn claim(self: &Arc<Self>, run: &Run) -> Result<(Claim, Arc<Progress>), IngestionError> {
        let progress = Arc::new(Progress::new(run.clone()));
        let claim = self.hold(&run.oracle_id, Holder::Run(Arc::clone(&progress)))?;
        Ok((claim, progress))
    }

    /// Has a run end; says whether it goes on.
    pub(super) fn cancel(&self, run_id: &Sha256Hex, peer: Peer) -> bool {
        let runs = self.runs();
        let run = runs.iter().find(|run| run.run.run_id == *run_id);
        run.inspect(|run| run.cancel(peer)).is_some()
    }

    pub(super) fn progress(&self) -> Vec<RunProgress> {
        let mut progress: Vec<_> = self.runs().iter().map(|run| run.report()).collect();
        progress.sort_by(|one, other| one.oracle_id.cmp(&other.oracle_id));
        progress
    }

    fn runs(&self) -> Vec<Arc<Progress>> {
        let flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let run = |holder: &Holder| if let Holder::Run(run) = holder { Some(Arc::clone(run)) } else { None };
        flights.values().filter_map(run).collect()
    }
}
