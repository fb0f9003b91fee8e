//! How far a check of a source is, and whether it continues.

use crate::error::StoreError;
use serde::{Deserialize, Serialize};

/// After so many steps the caller is asked whether to continue.
const STEPS_MAX: u32 = 512;
/// After so many bytes the caller is asked whether to continue.
const BYTES_MAX: u64 = 256 * 1024;

/// How far a check of a source is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckProgress {
    /// Bytes that were read so far.
    pub bytes_read: u64,
    /// Bytes to read in all: those of the files of facts twice, and those of the uncompressed payloads.
    pub bytes: u64,
}

/// Counts what a check reads, and asks its caller now and then whether to continue.
pub struct Meter<'p> {
    progress: CheckProgress,
    proceed: &'p mut dyn FnMut(CheckProgress) -> bool,
    /// Since the caller was last asked.
    steps: u32,
    /// Since the caller was last asked.
    bytes: u64,
    is_stopped: bool,
}

impl<'p> Meter<'p> {
    pub(super) fn new(bytes: u64, proceed: &'p mut dyn FnMut(CheckProgress) -> bool) -> Self {
        let progress = CheckProgress { bytes_read: 0, bytes };
        Self { progress, proceed, steps: 0, bytes: 0, is_stopped: false }
    }

    /// Counts a step that read so many bytes.
    ///
    /// # Errors
    /// `Stopped` where the caller says so.
    pub(super) fn step(&mut self, bytes: u64) -> Result<(), StoreError> {
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
