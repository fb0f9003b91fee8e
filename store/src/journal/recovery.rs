//! Failures of the journal, and the recovery from them.

use crate::audit::log::{self, LogTip};
use crate::base::meta;
use crate::journal::opening::open_database;
use crate::journal::{Journal, ORDINARY_BYTES};
use domain_audit::event::LostRow;
use domain_base::session_id::SessionId;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use store_base::error::StoreError;

/// The space that must be free before a failed store is reopened, in bytes, so that it can write again.
const SPACE_TO_REOPEN_BYTES: usize = 4 * 1024 * 1024;

/// Number of calls of [`Journal::sync_pending_work`] (about 10 minutes) between two rebuilds for damage that reads find. If a
/// rebuild does not repair the damage, the segments have it too, and a rebuild each second would stop the service.
pub(super) const REPAIR_PAUSE_CALLS: u32 = 600;

/// The reason why the journal accepts no writes.
#[derive(Debug)]
pub(super) struct JournalFailure {
    pub(super) cause: String,
    condition: RecoveryCondition,
}

/// The condition for accepting writes again.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecoveryCondition {
    /// The database and the segment have space for an ordinary group, and the segment has no remains of the failed one. sled did not
    /// try to write it.
    OrdinaryGroupSpace,
    /// The database was reopened: sled failed, or may have applied only a part of a group.
    Reopening,
}

impl Journal {
    /// Rebuilds the database if a read has found damage.
    pub(super) fn repair_damage(&mut self) {
        self.repair_pause = self.repair_pause.saturating_sub(1);
        if self.failure.is_some() {
            return;
        }
        let Some(damage) = self.engine.take_damage() else { return };
        if self.repair_pause > 0 {
            tracing::error!(damage, "a read has found damage soon after a rebuild of the database");
            return;
        }
        self.rebuild(damage);
        self.repair_pause = REPAIR_PAUSE_CALLS;
    }

    /// Tries to accept writes again after a failed one.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the fault persists. Any other error means that the store is damaged.
    pub fn recover(&mut self) -> Result<(), StoreError> {
        let Some(mend) = self.failure.as_ref().map(|failure| failure.condition) else { return Ok(()) };
        let mended = self.segments.discard_failed().and_then(|()| match mend {
            RecoveryCondition::OrdinaryGroupSpace => self
                .engine
                .reserve_write_space(ORDINARY_BYTES)
                .and_then(|()| self.segments.make_room(ORDINARY_BYTES)),
            RecoveryCondition::Reopening => self.reopen(),
        });
        if let Err(error) = mended {
            let cause = error.to_cause();
            self.failure = Some(JournalFailure { cause, condition: mend });
            return Err(error);
        }
        self.failure = None;
        self.sync_pending_work();
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.probe_space()?;
        self.engine.close_database();
        // a reopened database would have the damage that a read has found
        if let Some(damage) = self.engine.take_damage() {
            tracing::error!(damage, "a read has found damage; the database is rebuilt");
            self.note_damage();
        }
        let opened = open_database(&self.engine, &self.segments, &mut self.mark, true)?;
        let counts = opened.counts;
        self.snapshot_at = counts.entries;
        self.tip =
            LogTip::new(self.store.read(|db, _| log::latest_time_us(db, &self.store, counts.entries))?);
        self.store.forget_all();
        if opened.rebuilt.is_some() {
            // reads have found it in the previous database
            self.engine.take_damage();
        }
        Ok(())
    }

    /// Rejects writes until [`Journal::recover`] has rebuilt the database from the segments. Call this when the database was
    /// found damaged. A start does the same if the process ends before.
    pub fn rebuild(&mut self, damage: String) {
        self.note_damage();
        self.engine.close_database();
        self.fail(StoreError::Unavailable { cause: damage }, RecoveryCondition::Reopening);
    }

    /// Rebuilds the database at once if a read has found damage. Returns whether it did.
    ///
    /// # Errors
    /// As for [`Journal::recover`].
    pub fn repair_now(&mut self) -> Result<bool, StoreError> {
        let Some(damage) = self.engine.take_damage() else { return Ok(false) };
        self.rebuild(damage);
        self.recover().map(|()| true)
    }

    /// The damage for which the opening has rebuilt the database. Later calls return none.
    pub fn take_rebuilt(&mut self) -> Option<String> {
        self.rebuilt.take()
    }

    /// The rows that every copy has lost, and that were not set again.
    #[must_use]
    pub fn lost_rows(&self) -> Vec<LostRow> {
        let lost = if self.engine.has_lost_rows() { self.store.lost_rows() } else { Ok(Vec::new()) };
        lost.unwrap_or_else(|error| {
            tracing::error!(%error, "could not read which rows are lost");
            Vec::new()
        })
    }

    /// The lost rows that no entry of the log names, by their sessions.
    ///
    /// # Errors
    /// The rows or the log cannot be read.
    pub fn unreported_losses(&self) -> Result<BTreeMap<Option<SessionId>, Vec<LostRow>>, StoreError> {
        self.store.unreported_losses()
    }

    /// Checks, after a panic in a caller, that no group was applied only in part.
    ///
    /// # Errors
    /// `Unavailable` if a group was applied in part, or if that cannot be determined. The journal then
    /// rejects all writes until [`Journal::recover`].
    pub fn check_after_panic(&mut self) -> Result<(), StoreError> {
        let counts = self.mark.now.counts.clone();
        match meta::read(&self.engine) {
            Ok(Some((found, tree)))
                if found == counts
                    && tree == self.engine.log_hashes().tree
                    && self.segments.entries() == counts.entries =>
            {
                Ok(())
            }
            Ok(_) => {
                let cause = "a panic interrupted a write".into();
                Err(self.fail(StoreError::Unavailable { cause }, RecoveryCondition::Reopening))
            }
            Err(error) => Err(self.fail(error, RecoveryCondition::Reopening)),
        }
    }

    /// Checks that all committed rows can be read: there was no failure, or only the disk is full.
    pub(super) fn check_readable(&self) -> Result<(), StoreError> {
        match &self.failure {
            Some(JournalFailure { condition: RecoveryCondition::OrdinaryGroupSpace, .. }) => Ok(()),
            _ => self.check_failure(),
        }
    }

    /// Makes the next opening rebuild the database, also if the process ends before.
    fn note_damage(&mut self) {
        self.mark.now.walked = 0;
        if let Err(error) = self.mark.write_synced() {
            tracing::warn!(%error, "could not note the damage of the database");
        }
    }

    pub(super) fn fail(&mut self, error: StoreError, mend: RecoveryCondition) -> StoreError {
        if matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. }) {
            self.note_damage();
        }
        let cause = error.to_cause();
        self.failure = Some(JournalFailure { cause: cause.clone(), condition: mend });
        StoreError::Unavailable { cause }
    }

    /// Checks the free space before a reopening: sled may write while it opens, and if that fails, no reader
    /// can use it.
    fn probe_space(&self) -> Result<(), StoreError> {
        let path = self.engine.dir().join("space_probe");
        let probed = fs::File::create(&path).and_then(|mut file| {
            file.write_all(&vec![0; SPACE_TO_REOPEN_BYTES])?;
            file.sync_all()
        });
        let removed = fs::remove_file(&path);
        probed.and(removed).map_err(|source| StoreError::Io { path, source })
    }
}
