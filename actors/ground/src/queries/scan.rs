//! The limits of a scan of a source: its work, its time, and the processors that it shares with the rules.

use actors_platform::clock::monotonic;
use oracled_store::ground::query::{RECORDS_SCANNED_MAX, ScanBudget, ScanError, WORK_MAX};
use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// The longest time of a scan.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);
/// The budget of a lookup, which runs on its caller's thread without a scan.
pub(super) const LOOKUP: ScanBudget<'static> =
    ScanBudget { records: 256, work: 16_384, ..ScanBudget::UNLIMITED };

/// Returns whether the caller of a read still waits for its answer.
pub type CallerWaitCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The processors that long evaluations of rules and long scans share. Scans take at most half of them, but at
/// least one, so that a flood of costly queries does not delay verdicts that the rules check.
#[derive(Debug, Clone)]
pub struct ProcessorPool {
    all: Arc<Semaphore>,
    scans: Arc<Semaphore>,
}

impl Default for ProcessorPool {
    fn default() -> Self {
        let count = available_parallelism().map_or(1, usize::from);
        Self { all: Arc::new(Semaphore::new(count)), scans: Arc::new(Semaphore::new((count / 2).max(1))) }
    }
}

impl ProcessorPool {
    /// Waits for a processor for an evaluation.
    pub async fn acquire_for_evaluation(&self) -> Option<SemaphorePermit<'_>> {
        // the semaphore is never closed
        self.all.acquire().await.ok()
    }

    /// Waits for a processor for a scan.
    pub async fn acquire_for_scan(&self) -> ScanPermit {
        let scan = Arc::clone(&self.scans).acquire_owned().await;
        // the permit for scans comes first, so that few scans can queue for a processor before an evaluation
        let processor = Arc::clone(&self.all).acquire_owned().await;
        ScanPermit { _permits: [scan.ok(), processor.ok()] }
    }
}

#[derive(Debug)]
pub struct ScanPermit {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// A scan with its processor.
pub(super) struct SourceScan {
    _permit: ScanPermit,
    still_waiting: CallerWaitCheck,
    deadline: Instant,
}

impl SourceScan {
    /// Starts the time limit.
    pub(super) fn new(permit: ScanPermit, still_waiting: CallerWaitCheck) -> Self {
        Self { _permit: permit, still_waiting, deadline: monotonic() + DEADLINE }
    }

    /// Runs `read` within the limits.
    pub(super) fn run<T>(
        &self,
        read: impl FnOnce(ScanBudget<'_>) -> Result<T, ScanError>,
    ) -> Result<T, ScanError> {
        let go_on = || monotonic() < self.deadline && (self.still_waiting)();
        read(ScanBudget { records: RECORDS_SCANNED_MAX, work: WORK_MAX, proceed: &go_on })
    }
}

impl fmt::Debug for SourceScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
