//! The progress of a check of a source, and whether the check continues.

use domain_ground::upkeep::SourceCheckProgress;
use store_base::error::StoreError;

/// The number of steps between two calls of `proceed`, at most.
const STEPS_MAX: u32 = 512;
/// The bytes after which `proceed` is called.
const BYTES_MAX: u64 = 256 * 1024;

/// Counts the bytes that a check reads, and asks the caller at intervals whether to continue.
pub struct CheckMeter<'p> {
    progress: SourceCheckProgress,
    proceed: &'p mut dyn FnMut(SourceCheckProgress) -> bool,
    /// Steps since the last call of `proceed`.
    steps: u32,
    /// Bytes since the last call of `proceed`.
    bytes: u64,
    is_stopped: bool,
}

impl<'p> CheckMeter<'p> {
    pub(super) fn new(bytes: u64, proceed: &'p mut dyn FnMut(SourceCheckProgress) -> bool) -> Self {
        let progress = SourceCheckProgress { bytes_read: 0, bytes };
        Self { progress, proceed, steps: 0, bytes: 0, is_stopped: false }
    }

    /// Counts a step that read this number of bytes.
    ///
    /// # Errors
    /// `Stopped` if `proceed` returned false.
    pub(in crate::ground) fn step(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.progress.bytes_read += bytes;
        self.bytes += bytes;
        self.steps += 1;
        if self.steps < STEPS_MAX && self.bytes < BYTES_MAX {
            return Ok(());
        }
        (self.steps, self.bytes) = (0, 0);
        self.is_stopped = self.is_stopped || !(self.proceed)(self.progress);
        if self.is_stopped { Err(StoreError::Stopped) } else { Ok(()) }
    }

    /// Whether the caller has stopped the check.
    pub(super) const fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}
