//! How far a run is, and whether it is to go on.

use oracled_domain::ground::run::RunPhase;
use oracled_domain::ground::run::RunProgress;
use oracled_domain::ground::run::{Run, RunState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// What is shared with whoever asks.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) bytes_read: AtomicU64,
    pub(super) read: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) merged: AtomicU64,
    pub(super) run: Run,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    phase: RunPhase,
    /// Why it is to end before it is done, if it is.
    ending: Option<Ending>,
}

/// Why a run is to end before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was cancelled, and stands so in the store.
    Cancelled,
    /// The daemon stops; the next start goes on with it.
    Stopping,
}

impl Progress {
    pub(super) fn new(run: Run) -> Self {
        let state = Mutex::new(State { phase: RunPhase::Waiting, ending: None });
        let (bytes_read, read, rejected, merged, ended) = Default::default();
        Self { bytes_read, read, rejected, merged, run, state, ended }
    }

    pub(super) fn enter(&self, phase: RunPhase) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).phase = phase;
    }

    /// Whether it is completed, and read again since its source is rebuilt.
    pub(super) fn is_again(&self) -> bool {
        self.run.state == RunState::Completed
    }

    /// Has it end before it is done.
    pub(super) fn end(&self, why: Ending) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ending = Some(why);
        self.ended.notify_one();
    }

    /// Why it is to end before it is done, if it is.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ending
    }

    /// Waits until it is to end before it is done.
    pub(super) async fn until_ended(&self) -> Ending {
        loop {
            if let Some(ending) = self.ending() {
                return ending;
            }
            self.ended.notified().await;
        }
    }

    pub(super) fn report(&self) -> RunProgress {
        let Run { run_id, oracle_id, pipeline_id, input, started_at, raw_bytes, .. } = &self.run;
        RunProgress {
            run_id: run_id.clone(),
            oracle_id: oracle_id.clone(),
            pipeline_id: pipeline_id.clone(),
            version: input.version.clone(),
            started_at: *started_at,
            phase: self.state.lock().unwrap_or_else(PoisonError::into_inner).phase,
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes: *raw_bytes,
            read: self.read.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            merged: self.merged.load(Ordering::Relaxed),
        }
    }
}
