//! The progress of a run, and whether it must end early.

use domain_ground::run::{IngestionRun, RunPhase, RunProgress, RunState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The state of a run that its readers share.
#[derive(Debug)]
pub(super) struct RunTracker {
    pub(super) bytes_read: AtomicU64,
    pub(super) read: AtomicU64,
    pub(super) rejected: AtomicU64,
    pub(super) merged: AtomicU64,
    pub(super) run: IngestionRun,
    state: Mutex<RunTrackerState>,
    ended: Notify,
}

#[derive(Debug)]
struct RunTrackerState {
    phase: RunPhase,
    /// Why the run must end early, if it must.
    stop_reason: Option<RunStopReason>,
}

/// Why a run must end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunStopReason {
    /// The run was cancelled, and the store has this state.
    Cancelled,
    /// The daemon is stopping; the next start resumes the run.
    Stopping,
}

impl RunTracker {
    pub(super) fn new(run: IngestionRun) -> Self {
        let state = Mutex::new(RunTrackerState { phase: RunPhase::Waiting, stop_reason: None });
        let (bytes_read, read, rejected, merged, ended) = Default::default();
        Self { bytes_read, read, rejected, merged, run, state, ended }
    }

    pub(super) fn set_phase(&self, phase: RunPhase) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).phase = phase;
    }

    /// Whether the run is completed, and is read again to rebuild its source.
    pub(super) fn is_rebuild(&self) -> bool {
        self.run.state == RunState::Completed
    }

    /// Makes the run end early.
    pub(super) fn request_stop(&self, why: RunStopReason) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop_reason = Some(why);
        self.ended.notify_one();
    }

    /// Why the run must end early; `None` if it continues.
    pub(super) fn stop_reason(&self) -> Option<RunStopReason> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop_reason
    }

    /// Waits until the run must end early.
    pub(super) async fn wait_for_stop(&self) -> RunStopReason {
        loop {
            if let Some(ending) = self.stop_reason() {
                return ending;
            }
            self.ended.notified().await;
        }
    }

    pub(super) fn report(&self) -> RunProgress {
        let IngestionRun { run_id, oracle_id, pipeline_id, input, started_at, raw_bytes, .. } = &self.run;
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
