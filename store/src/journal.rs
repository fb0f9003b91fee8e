//! The journal: the only way to write to the store.

use crate::audit::log::{self, LogTip};
use crate::audit::mirror::{LogMirror, MirrorFault, MirrorSnapshot};
use crate::base::engine::{StoreEngine, StoreOptions, TableReader, lock_state};
use crate::base::error::StoreError;
use crate::base::log_hashes::LogHashes;
use crate::base::meta;
use crate::base::watermark::{StoreCounts, Watermark};
use crate::ground::Store;
use crate::ground::files::GroundFiles;
use crate::journal::check::check;
use crate::journal::record::{CommitReceipt, JournalRecord, RecordRejectedError, TableWrite};
use crate::journal::staged::StagedGroup;
use oracled_domain::audit::log_tree::LogTree;
use std::borrow::Borrow;
use std::fs;
use std::io::Write as _;
use std::sync::Arc;

/// The size of an ordinary group, in bytes. While there is space for one, the journal accepts writes.
const ORDINARY_BYTES: u64 = 64 * 1024;
/// A group accepts records until it has this many bytes. A record of a verification can have megabytes, and a
/// batch is in memory.
const GROUP_BYTES: usize = 16 * 1024 * 1024;
/// The space that must be free before a failed store is reopened, in bytes, so that it can write again.
const SPACE_TO_REOPEN_BYTES: usize = 4 * 1024 * 1024;

/// The journal reopens the database after this number of new entries, or after one in [`RENEWED_AFTER_PART`]
/// of all entries if that is more. sled writes a snapshot of its page table only as it opens, and an opening
/// reads all entries after the snapshot, about 5 µs each. Reopening keeps the next start short, however the
/// process ends. Reads and writes wait for it.
const RENEWED_AFTER_ENTRIES: u64 = 65_536;
const RENEWED_AFTER_PART: u64 = 32;
/// The divisor of that number in a second without a commit, when few callers would wait.
const RENEWED_IDLE_PART: u64 = 8;

/// If a long read prevents the reopening, the journal tries again after this many more entries. Each attempt
/// takes 50 ms.
const POSTPONED_ENTRIES: u64 = 4096;

/// The writer. A store has only one. It accepts records in groups and makes each group durable at once.
#[derive(Debug)]
pub struct Journal {
    store: Store,
    engine: Arc<StoreEngine>,
    mark: Watermark,
    mirror: LogMirror,
    tip: LogTip,
    /// The number of the last entry in sled's snapshot of its page table.
    snapshot_at: u64,
    /// The number of the last entry at the last [`Journal::sync_pending_work`].
    settled_at: u64,
    /// The last entry when a long read kept the database from being reopened.
    postponed_at: u64,
    /// The failure of the last write. No write is tried until [`Journal::recover`].
    failure: Option<JournalFailure>,
}

/// The reason why the journal accepts no writes.
#[derive(Debug)]
struct JournalFailure {
    cause: String,
    condition: RecoveryCondition,
}

/// The condition for accepting writes again.
#[derive(Debug, Clone, Copy)]
enum RecoveryCondition {
    /// Space for an ordinary group. sled did not try to write without it.
    OrdinaryGroupSpace,
    /// A reopening: sled has failed, or may hold half a write.
    Reopening,
}

impl Journal {
    /// Opens the store in `options.dir`, or creates an empty one, and checks that no committed data is missing.
    ///
    /// # Errors
    /// All [`StoreError`]s except `Unavailable`: a damaged store does not open.
    pub fn open(options: StoreOptions) -> Result<(Self, Store), StoreError> {
        let (dir, facts_cache_bytes) = (options.dir.clone(), options.facts_cache_bytes);
        fs::create_dir_all(&dir).map_err(|source| StoreError::Io { path: dir.clone(), source })?;
        let lock = lock_state(&dir)?;
        if StoreEngine::is_new(&dir)
            && let Some(existing) = GroundFiles::find_existing_file(&dir)?
        {
            let detail = format!("the database is missing, and {} exists", existing.display());
            return Err(StoreError::Short { dir, detail });
        }
        tracing::debug!("the store is being opened");
        let mark = Watermark::open(&dir)?;
        let (engine, is_read_again) =
            StoreEngine::open(options, mark.as_ref().map(|mark| mark.snapshot), lock)?;
        let engine = Arc::new(engine);
        tracing::debug!("the database is open");
        let files = GroundFiles::open(&dir, facts_cache_bytes, engine.free().clone())?;
        let store = Store::new(TableReader::new(Arc::clone(&engine)), files);
        let (counts, tree) = meta::open(&engine)?;
        let mut mark = match mark {
            Some(mark) => mark,
            None if counts == StoreCounts::default() => Watermark::create(&dir, meta::store_id(&engine)?)?,
            None => {
                let detail = "its high-water mark is missing, and the log has entries".to_owned();
                return Err(StoreError::Short { dir, detail });
            }
        };
        let mut mirror = LogMirror::open(&dir, mark.mirrored, mark.mirror_first)?;
        let looked_at_before = meta::walked(&engine)? > 0 && !is_read_again;
        check(&engine, counts, &mark, mirror.last_seq)?;
        tracing::debug!(entries = counts.entries, "the log is checked");
        engine.set_opened_counts(counts, tree.clone());
        engine.set_log_hashes(LogHashes::read(&store, tree)?);
        if !looked_at_before && let Err(error) = store.audit_all() {
            meta::put_walked(&engine, 0)?;
            return Err(error);
        }
        store.remove_unnamed_files(counts)?;
        mirror.check_last_line(&store)?;
        if mirror.found.is_some() {
            // after a kill, an empty file must not count as a rotated one
            mark.mirrored = mark.mirrored.min(mirror.last_seq);
            mark.write_both().map_err(|source| StoreError::Io { path: dir.clone(), source })?;
        }
        mirror.repair(&store, counts.entries);
        let tip = LogTip::new(store.read(|db, last_seq| log::latest_time_us(db, &store, last_seq))?);
        let mut journal = Self {
            store: store.clone(),
            engine: Arc::clone(&engine),
            mark,
            mirror,
            tip,
            snapshot_at: counts.entries,
            postponed_at: 0,
            settled_at: counts.entries,
            failure: None,
        };
        journal.mark.counts = counts;
        journal.note_mirror();
        journal.note_snapshot();
        engine.reserve_space();
        Ok((journal, store))
    }

    /// Applies a group of records and makes it durable. Returns the result of each record. Of a group of many
    /// megabytes only the first records are applied, at least one. The result covers only those; the caller
    /// passes the others to the next call.
    ///
    /// Each record is applied or rejected as a whole. It is checked against the state after the records before it.
    ///
    /// # Errors
    /// `Unavailable` if the disk cannot be written; no record of the group is committed then. Afterwards the journal
    /// rejects all writes until [`Journal::recover`], unless the group was only too large for the remaining space.
    pub fn commit(
        &mut self,
        group: &[impl Borrow<JournalRecord>],
    ) -> Result<Vec<Result<CommitReceipt, RecordRejectedError>>, StoreError> {
        if let Some(JournalFailure { cause, .. }) = &self.failure {
            return Err(StoreError::Unavailable { cause: cause.clone() });
        }
        self.renew_snapshot(1)?;
        let engine = Arc::clone(&self.engine);
        let mut staged = StagedGroup::new(&engine, self.mark.counts, self.tip.clone());
        let mut outcomes = Vec::new();
        for record in group {
            let outcome = staged.add(record.borrow());
            outcomes.push(outcome.map_err(|error| self.fail(error, RecoveryCondition::Reopening))?);
            if staged.held_bytes() >= GROUP_BYTES {
                break;
            }
        }
        let committed = group.iter().take(outcomes.len());
        if staged.lines.is_empty() {
            return Ok(outcomes);
        }
        let first_seq = self.mark.counts.entries + 1;
        let bytes = staged.bytes() as u64;
        let StagedGroup { mut batch, counts, tip, hashes, lines, replaced, before, .. } = staged;
        meta::put_counts(&mut batch, counts, &hashes.tree);
        if let Err(error) = engine.reserve_write_space(bytes) {
            // a group that is too large for the remaining space must not block smaller ones
            let fits_others = bytes > ORDINARY_BYTES && engine.reserve_write_space(ORDINARY_BYTES).is_ok();
            return Err(if fits_others {
                error
            } else {
                self.fail(error, RecoveryCondition::OrdinaryGroupSpace)
            });
        }
        engine.note_replaced(&replaced);
        engine.keep_previous_rows(before);
        engine.apply(batch).map_err(|error| self.fail(error, RecoveryCondition::Reopening))?;
        self.tip = tip;
        engine.set_log_hashes(hashes);
        self.mark.counts = counts;
        engine.set_durable_seq(counts.entries);
        self.forget_changed_views(committed.flat_map(|record| &record.borrow().writes));
        if let Err(error) = self.mark.write() {
            tracing::error!(%error, "cannot write the high-water mark");
        }
        self.mirror.append(&self.store, &lines, first_seq, counts.entries);
        Ok(outcomes)
    }

    /// Removes the cached views of sources that durable `writes` changed, and the marks of payloads that they name.
    fn forget_changed_views<'w>(&self, writes: impl Iterator<Item = &'w TableWrite>) {
        let mut changed = Vec::new();
        for write in writes {
            match write {
                TableWrite::PutSource(state) => changed.push(state.entry.oracle_id()),
                TableWrite::PutRun(run) => self.store.files().unmark(&run.input.raw_sha256),
                _ => {}
            }
        }
        self.store.forget(&changed);
    }

    /// The row counts of the store.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        self.mark.counts
    }

    /// The failure of the last write, while the journal rejects writes.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.cause.as_str())
    }

    /// The reason why new work is rejected while too little space is free. Writes that follow from accepted
    /// work continue.
    #[must_use]
    pub fn low_space(&self) -> Option<String> {
        self.engine.free().check().err().map(|error| error.to_string())
    }

    /// The error that keeps `oracle_log.jsonl` from having all entries; `None` if the file is complete.
    #[must_use]
    pub fn mirror_lag(&self) -> Option<&str> {
        self.mirror.lag.as_deref()
    }

    /// Does the work that may lag: syncs the mirror and the high-water mark, and renews sled's snapshot if
    /// the journal is idle. Call it about once a second.
    pub fn sync_pending_work(&mut self) {
        let is_idle = self.failure.is_none() && self.settled_at == self.mark.counts.entries;
        self.settled_at = self.mark.counts.entries;
        if is_idle && let Err(error) = self.renew_snapshot(RENEWED_IDLE_PART) {
            tracing::error!(%error, "could not reopen the database");
        }
        self.mirror.repair(&self.store, self.mark.counts.entries);
        self.engine.reserve_space();
        let mirrored = self.mirror.sync().and_then(|mirrored| {
            if self.mark.mirrored == mirrored {
                return Ok(());
            }
            self.mark.mirrored = mirrored;
            self.mark.write()
        });
        for (settled, what) in [(mirrored, "oracle_log.jsonl"), (self.mark.sync(), "the high-water mark")] {
            if let Err(error) = settled {
                tracing::warn!(%error, what, "could not sync a file");
            }
        }
    }

    /// Opens `oracle_log.jsonl` by its name again, after it was rotated.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened; the mirror then continues in the previous file.
    pub fn reopen_mirror(&mut self) -> Result<(), StoreError> {
        self.sync_pending_work();
        self.mirror.reopen()?;
        self.note_mirror();
        self.mirror.repair(&self.store, self.mark.counts.entries);
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
        self.mark.mirrored = self.mirror.first_seq.saturating_sub(1);
        let path = self.engine.dir().to_owned();
        self.mark.write_both().map_err(|source| StoreError::Io { path, source })?;
        self.mirror.move_aside()?;
        self.mirror.repair(&self.store, self.mark.counts.entries);
        Ok(())
    }

    /// Whether `snapshot` is of the file that is written now.
    #[must_use]
    pub const fn is_mirror(&self, snapshot: &MirrorSnapshot) -> bool {
        self.mirror.is_current(snapshot)
    }

    /// Stores the first entry of the mirror in the mark.
    fn note_mirror(&mut self) {
        if self.mark.mirror_first == self.mirror.first_seq {
            return;
        }
        self.mark.mirror_first = self.mirror.first_seq;
        if let Err(error) = self.mark.write_both() {
            tracing::warn!(%error, "could not write the high-water mark; oracle_log.jsonl may be written again");
        }
    }

    /// Tries to accept writes again after a failed one.
    ///
    /// # Errors
    /// `Unavailable` or `Io` if the fault persists. Any other error means that the store is damaged.
    pub fn recover(&mut self) -> Result<(), StoreError> {
        let Some(mend) = self.failure.as_ref().map(|failure| failure.condition) else { return Ok(()) };
        let mended = match mend {
            RecoveryCondition::OrdinaryGroupSpace => self.engine.reserve_write_space(ORDINARY_BYTES),
            RecoveryCondition::Reopening => self.reopen(),
        };
        if let Err(error) = mended {
            let cause = error.to_string();
            self.failure = Some(JournalFailure { cause, condition: mend });
            return Err(error);
        }
        self.failure = None;
        self.sync_pending_work();
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.probe_space()?;
        self.engine.reopen()?;
        let (counts, tree) = self.check_reopened()?;
        // the effects of the failed write, if any, become visible below, so they must be durable first
        self.engine.sync()?;
        self.tip =
            LogTip::new(self.store.read(|db, _| log::latest_time_us(db, &self.store, counts.entries))?);
        self.mark.counts = counts;
        self.engine.set_opened_counts(counts, tree.clone());
        self.engine.set_log_hashes(LogHashes::read(&self.store, tree)?);
        self.store.forget_all();
        Ok(())
    }

    /// Checks the reopened database, and stores the id of its snapshot.
    fn check_reopened(&mut self) -> Result<(StoreCounts, LogTree), StoreError> {
        // first of all: after a kill in between, the next start would reject the new snapshot as a wrong one
        self.note_snapshot();
        let (counts, tree) = meta::open(&self.engine)?;
        check(&self.engine, counts, &self.mark, self.mirror.last_seq)?;
        self.snapshot_at = counts.entries;
        Ok((counts, tree))
    }

    /// Reopens the database to renew sled's snapshot if enough entries are new: the usual number divided by `part`.
    fn renew_snapshot(&mut self, part: u64) -> Result<(), StoreError> {
        let entries = self.mark.counts.entries;
        let many = RENEWED_AFTER_ENTRIES.max(entries / RENEWED_AFTER_PART) / part;
        // the new snapshot needs space
        if entries.saturating_sub(self.snapshot_at) < many
            || part == 1 && entries.saturating_sub(self.postponed_at) < POSTPONED_ENTRIES
            || self.engine.free().check().is_err()
        {
            return Ok(());
        }
        match self.engine.renew() {
            // a long read is in progress, and no caller has to wait for it: a later call renews the snapshot
            Ok(false) => {
                self.postponed_at = entries;
                return Ok(());
            }
            Ok(true) => self.check_reopened().map(drop),
            Err(error) => Err(error),
        }
        .map_err(|error| self.fail(error, RecoveryCondition::Reopening))
    }

    /// Makes the next opening check the whole store before it serves. Called when damage was found.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn mark_damaged(&mut self) -> Result<(), StoreError> {
        meta::put_audited(&self.engine, &LogTree::default())?;
        meta::put_walked(&self.engine, 0)
    }

    /// Checks, after a panic in a caller, that no group was applied only in part.
    ///
    /// # Errors
    /// `Unavailable` if a group was applied in part, or if that cannot be determined. The journal then
    /// rejects all writes until [`Journal::recover`].
    pub fn check_after_panic(&mut self) -> Result<(), StoreError> {
        match meta::open(&self.engine) {
            Ok((counts, tree)) if counts == self.mark.counts && tree == self.engine.log_hashes().tree => {
                Ok(())
            }
            Ok(_) => {
                let cause = "a panic interrupted a write".into();
                Err(self.fail(StoreError::Unavailable { cause }, RecoveryCondition::Reopening))
            }
            Err(error) => Err(self.fail(error, RecoveryCondition::Reopening)),
        }
    }

    /// Stores the id of sled's snapshot of its page table in the mark, where sled cannot lose it. Without the
    /// id, the next opening reads the whole database.
    fn note_snapshot(&mut self) {
        let snapshot = self.engine.snapshot();
        if self.mark.snapshot == snapshot {
            return;
        }
        self.mark.snapshot = snapshot;
        if let Err(error) = self.mark.write_both() {
            tracing::warn!(%error, "could not write the high-water mark; the next start takes longer");
        }
    }

    fn fail(&mut self, error: StoreError, mend: RecoveryCondition) -> StoreError {
        let cause = match error {
            StoreError::Unavailable { cause } => cause,
            other => other.to_string(),
        };
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

impl Drop for Journal {
    fn drop(&mut self) {
        self.sync_pending_work();
    }
}

pub(crate) mod check;
pub(crate) mod preview;
pub(crate) mod record;
pub(crate) mod staged;
#[cfg(test)]
mod tests;
