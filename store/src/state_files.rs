//! The files of a state directory besides the segments, compared with the segments, without the database.

use crate::ground::offline::{LoggedSources, VerifiedSourceFiles};
use domain_base::row::Row;
use domain_verdict::policy::HeldVerdict;
use std::collections::BTreeSet;
use store_base::error::StoreError;
use store_log::{LogState, RowComparison, SegmentEntry, SegmentLog, rows};

/// The state at the end of a log, as far as files depend on it.
#[derive(Debug, PartialEq)]
pub struct LoggedState {
    /// The state of the log itself.
    pub log: LogState,
    /// The sessions with a verdict that the policy holds, which is encrypted.
    pub held: BTreeSet<String>,
    sources: LoggedSources,
}

/// The files that were compared with the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifiedStateFiles {
    /// The files of sources.
    pub sources: VerifiedSourceFiles,
    /// The number of entries of the high-water mark, if it is less than the log has.
    pub mark_behind: Option<u64>,
}

impl LoggedState {
    /// Reads all entries as [`SegmentLog::read`] does, and with them the state that the other files depend on. `compared` gets the
    /// rows.
    ///
    /// # Errors
    /// The errors of [`SegmentLog::read`].
    pub fn read(
        log: &SegmentLog,
        compared: Option<&mut RowComparison>,
        visit: impl FnMut(SegmentEntry<'_>) -> bool,
    ) -> Result<Self, StoreError> {
        let mut held = BTreeSet::new();
        let (state, sources) = LoggedSources::read(log, compared, visit, |batch| {
            for (name, is_held) in rows::changed(batch, HeldVerdict::TABLE.name) {
                let session_id = String::from_utf8_lossy(name).into_owned();
                if is_held {
                    held.insert(session_id);
                } else {
                    held.remove(&session_id);
                }
            }
        })?;
        Ok(Self { log: state, held, sources })
    }

    /// Compares the files of sources and the high-water mark with the state at the end of `log`.
    ///
    /// # Errors
    /// `SourceFile` with the first file of a source that is missing or differs; `Corrupt` if the high-water mark is not that of
    /// the log, or one of its bytes was changed.
    pub fn verify_files(&self, log: &SegmentLog) -> Result<VerifiedStateFiles, StoreError> {
        let mark_behind = log.verify_mark(&self.log)?;
        let sources = match self.sources.verify_files(log.dir()) {
            Err(error @ StoreError::SourceFile { .. }) => self.verify_again(log, error)?,
            verified => verified?,
        };
        Ok(VerifiedStateFiles { sources, mark_behind })
    }

    /// Verifies the files of sources again if a daemon has replaced them meanwhile; otherwise returns `error`.
    fn verify_again(&self, log: &SegmentLog, error: StoreError) -> Result<VerifiedSourceFiles, StoreError> {
        let now = Self::read(&SegmentLog::open(log.dir())?, None, |_| true)?;
        if now.sources.rows == self.sources.rows { Err(error) } else { now.sources.verify_files(log.dir()) }
    }
}
