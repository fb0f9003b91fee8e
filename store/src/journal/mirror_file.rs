//! The journal's control of `oracle_log.jsonl`.

use super::Journal;
use crate::audit::mirror::{MirrorFault, MirrorSnapshot};
use store_base::error::StoreError;

impl Journal {
    /// Opens `oracle_log.jsonl` by its name again, after it was rotated.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened; the mirror then continues in the previous file.
    pub fn reopen_mirror(&mut self) -> Result<(), StoreError> {
        self.sync_pending_work();
        self.mirror.reopen()?;
        self.note_mirror();
        self.mirror.repair(&self.store, self.mark.now.counts.entries);
        Ok(())
    }

    /// The fault of `oracle_log.jsonl` that the opening found and repaired. Later calls return none.
    pub fn take_mirror_fault(&mut self) -> Option<MirrorFault> {
        self.mirror.found.take()
    }

    /// `oracle_log.jsonl` as it is now, for [`TableReader::check_mirror`].
    ///
    /// # Errors
    /// `Io` if the file cannot be opened.
    pub fn mirror_snapshot(&mut self) -> Result<MirrorSnapshot, StoreError> {
        let snapshot = self.mirror.snapshot();
        self.note_mirror();
        snapshot
    }

    /// Moves `oracle_log.jsonl` aside, and writes it again from the log. The file is complete after some calls of
    /// [`Journal::sync_pending_work`].
    ///
    /// # Errors
    /// `Io` if the file cannot be moved.
    pub fn rewrite_mirror(&mut self) -> Result<(), StoreError> {
        // after a kill in between, an empty file must not count as a rotated one
        self.mark.now.mirrored = self.mirror.first_seq.saturating_sub(1);
        let path = self.engine.dir().to_owned();
        self.mark.write_synced().map_err(|source| StoreError::Io { path, source })?;
        self.mirror.move_aside()?;
        self.note_mirror();
        self.mirror.repair(&self.store, self.mark.now.counts.entries);
        Ok(())
    }

    /// Whether `snapshot` is of the file that is written now.
    #[must_use]
    pub const fn is_mirror(&self, snapshot: &MirrorSnapshot) -> bool {
        self.mirror.is_current(snapshot)
    }

    /// Stores the first entry of the mirror in the mark, and the identity of its file.
    pub(super) fn note_mirror(&mut self) {
        let (checks, identity) = (self.engine.checks(), self.mirror.identity);
        if checks.mirror() != Some(identity)
            && let Err(error) = checks.put_mirror(identity)
        {
            tracing::warn!(%error, "could not note the file oracle_log.jsonl; if it is emptied, a start takes it for a new one");
        }
        if self.mark.now.mirror_first == self.mirror.first_seq {
            return;
        }
        self.mark.now.mirror_first = self.mirror.first_seq;
        if let Err(error) = self.mark.write_synced() {
            tracing::warn!(%error, "could not write the high-water mark; oracle_log.jsonl may be written again");
        }
    }
}
