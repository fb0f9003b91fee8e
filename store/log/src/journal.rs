//! The journal: the only way to write to the store.

use crate::audit::log::{self, EvidenceEntry, LogTip, RecordCallers};
use crate::audit::mirror::{LogMirror, MirrorFault, MirrorSnapshot};
use crate::audit::segment_log::{LogState, SegmentLog};
use crate::base::engine::{StoreEngine, StoreOptions, TableReader, lock_state};
use crate::base::meta;
use crate::base::row_write::{RowExpectation, RowName, RowWrite};
use crate::base::watermark::{StoreCounts, Watermark};
use crate::journal::check::{check_database, check_segments};
use crate::journal::opening::{OpenedDatabase, open_database, open_segments};
use crate::journal::salvage::continue_with_salvage;
use crate::journal::sharing::SharedJournal;
use crate::journal::staged::{ReadyGroup, StagedGroup};
use crate::journal::upgrade::upgrade;
use crate::segments::{PreparedGroup, SegmentFiles, Segments};
use crate::shared_log::SharedAppend;
use domain_audit::event::LostRow;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use store_base::disk::FreeSpace;
use store_base::error::StoreError;

/// The size of an ordinary group, in bytes. While there is space for one, the journal accepts writes.
const ORDINARY_BYTES: u64 = 64 * 1024;
/// A group accepts records until it has this many bytes. A record of a verification can have megabytes, and a
/// batch is in memory.
const GROUP_BYTES: usize = 16 * 1024 * 1024;
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
    // dropped first: its thread must end before the engine releases the lock of the state directory
    segments: Segments,
    tables: TableReader,
    files: Arc<dyn StateFiles>,
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
    /// The damage for which the opening has rebuilt the database.
    rebuilt: Option<String>,
    /// Number of calls of [`Journal::sync_pending_work`] until damage that a read finds may cause another rebuild.
    repair_pause: u32,
    /// The log that other hosts write, too; `None` if this is the only host.
    shared: Option<SharedJournal>,
}

impl Journal {
    /// Opens the store in `options.dir`, or creates an empty one, and checks that no committed data is missing. Returns also its
    /// tables, and the files beside the database.
    ///
    /// # Errors
    /// All [`StoreError`]s except `Unavailable`: a damaged store does not open.
    pub fn open<F: StateFiles>(options: StoreOptions) -> Result<(Self, TableReader, Arc<F>), StoreError> {
        let dir = options.dir.clone();
        fs::create_dir_all(&dir).map_err(|source| StoreError::Io { path: dir.clone(), source })?;
        let lock = lock_state(&dir)?;
        tracing::debug!("the store is being opened");
        Self::remove_new_database(&dir)?;
        let segment_files = SegmentFiles::new(&dir);
        let (segments, mut mark) = open_segments(&dir, &segment_files, F::find_existing)?;
        let engine = Arc::new(StoreEngine::new(options, lock, Arc::new(segment_files.clone())));
        let mut mirror =
            LogMirror::open(&dir, mark.now.mirrored, mark.now.mirror_first, engine.checks().mirror())?;
        let mirrored = mirror.last_plausible(mark.now.counts.entries)?;
        let segments = segments.and_then(|found| check_segments(&dir, found, &mark.now, mirrored));
        let segments = upgrade(&engine, segments, &mut mark)?;
        let files = Arc::new(F::open(engine.options(), engine.free())?);
        let tables = TableReader::new(Arc::clone(&engine));
        let (mut segments, mut opened) =
            open_or_salvage(&engine, &segment_files, &mut mark, mirrored, segments, false)?;
        let read_tip = |mirror: &mut LogMirror, counts: &StoreCounts| {
            engine.note_lost_rows(!tables.lost_rows()?.is_empty());
            files.remove_unnamed(&tables, counts)?;
            mirror.skip_to(tables.first_seq()?);
            mirror.check_last_line(&tables)?;
            tables.read(|db, last_seq| log::latest_time_us(db, &tables, last_seq)).map(LogTip::new)
        };
        let mut tip = read_tip(&mut mirror, &opened.counts);
        if let Err(StoreError::Corrupt { detail, .. }) = &tip
            && opened.rebuilt.is_none()
        {
            tracing::error!(detail, "a read has found damage; the database is rebuilt");
            engine.close_database();
            mark.now.walked = 0;
            mark.write_synced().map_err(|source| StoreError::Io { path: dir.clone(), source })?;
            (segments, opened) =
                open_or_salvage(&engine, &segment_files, &mut mark, mirrored, Ok(segments), true)?;
            // it was in the database before
            engine.take_damage();
            tip = read_tip(&mut mirror, &opened.counts);
        }
        let (tip, OpenedDatabase { counts, rebuilt }) = (tip?, opened);
        segments.open_copy();
        tracing::debug!(entries = counts.entries, "the database is open");
        if mirror.found.is_some() {
            // after a kill, an empty file must not count as a rotated one
            mark.now.mirrored = mark.now.mirrored.min(mirror.last_seq);
            mark.write_synced().map_err(|source| StoreError::Io { path: dir.clone(), source })?;
        }
        mirror.repair(&tables, counts.entries);
        let mut journal = Self {
            tables: tables.clone(),
            files: files.clone(),
            engine: Arc::clone(&engine),
            segments,
            mark,
            mirror,
            tip,
            // sled writes no snapshot of a new database before its next opening
            snapshot_at: if rebuilt.is_some() { 0 } else { counts.entries },
            postponed_at: 0,
            settled_at: counts.entries,
            failure: None,
            rebuilt,
            repair_pause: 0,
            shared: None,
        };
        journal.note_mirror();
        engine.reserve_space();
        Ok((journal, tables, files))
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
        self.check_failure()?;
        self.renew_snapshot(1)?;
        self.let_others_append();
        loop {
            let (outcomes, staged) = self.stage(group)?;
            let Some(staged) = staged else { return Ok(outcomes) };
            self.reserve(staged.bytes)?;
            let prepared = self.segments.prepare(staged.counts.entries, &staged.rows);
            let prepared =
                prepared.map_err(|error| self.fail(error, RecoveryCondition::OrdinaryGroupSpace))?;
            if self.append_to_shared(&staged, &prepared)? == SharedAppend::Behind {
                // other hosts have changed the store: the same records are staged again
                self.follow()?;
                continue;
            }
            let committed = group.iter().take(outcomes.len());
            let writes: Vec<_> = committed.flat_map(|record| &record.borrow().writes).collect();
            match self.append(staged, prepared, &writes) {
                Err(error) if self.shared.is_none() => return Err(error),
                // it is in the shared log, from which this host reads it when it has recovered
                _ => return Ok(outcomes),
            }
        }
    }

    /// Stages records, and returns the outcome of each. There is no group if all are rejected.
    #[expect(clippy::type_complexity, reason = "the outcomes are those of a commit")]
    fn stage(
        &mut self,
        group: &[impl Borrow<JournalRecord>],
    ) -> Result<(Vec<Result<CommitReceipt, RecordRejectedError>>, Option<ReadyGroup>), StoreError> {
        let engine = Arc::clone(&self.engine);
        let mut staged =
            StagedGroup::new(&engine, self.mark.now.counts.clone(), self.tip.clone(), self.shared.is_some())?;
        let mut outcomes = Vec::new();
        for record in group {
            let outcome = staged.add(record.borrow());
            outcomes.push(outcome.map_err(|error| self.fail(error, RecoveryCondition::Reopening))?);
            if staged.held_bytes() >= GROUP_BYTES {
                break;
            }
        }
        let ready = (!staged.lines.is_empty()).then(|| staged.finish());
        Ok((outcomes, ready))
    }

    /// Reserves the space of a group of `bytes`.
    fn reserve(&mut self, bytes: u64) -> Result<(), StoreError> {
        let Err(error) = self.engine.reserve_write_space(bytes) else { return Ok(()) };
        // a group that is too large for the remaining space must not block smaller ones
        let fits_others = bytes > ORDINARY_BYTES && self.engine.reserve_write_space(ORDINARY_BYTES).is_ok();
        Err(if fits_others { error } else { self.fail(error, RecoveryCondition::OrdinaryGroupSpace) })
    }

    /// Appends a group, with these writes of its records, to the segment, and applies it to the database. It is committed then, if no
    /// shared log has it already.
    fn append(
        &mut self,
        mut group: ReadyGroup,
        prepared: PreparedGroup,
        writes: &[&RowWrite],
    ) -> Result<(), StoreError> {
        if let Err(error) = self.segments.append_prepared(prepared, &mut group.rows) {
            let condition = match self.shared {
                Some(_) => RecoveryCondition::Following,
                None => RecoveryCondition::OrdinaryGroupSpace,
            };
            return Err(self.fail(error, condition));
        }
        self.apply(group, writes);
        Ok(())
    }

    /// Applies a group that the segment has.
    fn apply(&mut self, group: ReadyGroup, writes: &[&RowWrite]) {
        let ReadyGroup { rows, counts, tip, hashes, lines, replaced, .. } = group;
        let (first_seq, last_seq) = (self.mark.now.counts.entries + 1, counts.entries);
        let (engine, tree) = (Arc::clone(&self.engine), hashes.tree.clone());
        // even if the database fails now, its reopening applies the group
        engine.note_replaced(&replaced);
        let files = Arc::clone(&self.files);
        // a reader opens views under the same lock: before the rows change, or after it
        let views = files.lock_views(writes);
        // the hashes first: the proofs of the entries need them
        engine.set_log_hashes(hashes);
        let applied = engine.apply_group(rows, last_seq);
        drop(views);
        if let Err(error) = applied {
            tracing::error!(%error, "the database failed; it is reopened and brought up to date");
            if error.is_out_of_space() {
                self.fail(error, RecoveryCondition::Reopening);
            } else {
                // it may hold half the group
                self.rebuild(error.to_string());
            }
            drop(files.lock_views(writes));
        }
        self.tip = tip;
        self.mark.now.set_log(counts, &tree);
        engine.set_committed(&self.mark.now.counts);
        files.note_committed(writes);
        if let Err(error) = self.mark.write() {
            tracing::error!(%error, "cannot write the high-water mark");
        }
        self.mirror.append(&self.tables, &lines, first_seq, last_seq);
    }

    /// Lets new entries commit to session ids, and erasures remove the ids.
    pub fn cover_session_ids(&self) {
        self.engine.cover_session_ids();
    }

    /// Marks new entries as those of a daemon in test mode.
    pub fn mark_test_mode(&self) {
        self.engine.mark_test_mode();
    }

    /// The row counts of the store.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        self.mark.now.counts.clone()
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
        // first of all: a damaged database must not be renewed
        self.repair_damage();
        if self.failure.is_none()
            && let Err(error) = self.check_lost_rows()
        {
            tracing::error!(%error, "this host accepts no writes");
        }
        let is_idle = self.failure.is_none() && self.settled_at == self.mark.now.counts.entries;
        self.settled_at = self.mark.now.counts.entries;
        if is_idle {
            if let Err(error) = self.renew_snapshot(RENEWED_IDLE_PART) {
                tracing::error!(%error, "could not reopen the database");
            }
            self.sync_database();
        }
        if self.failure.is_none() {
            self.segments.retry_copies();
        }
        self.segments.sync_copy();
        self.mirror.repair(&self.tables, self.mark.now.counts.entries);
        self.engine.reserve_space();
        let mirrored = self.mirror.sync().and_then(|mirrored| {
            if self.mark.now.mirrored == mirrored {
                return Ok(());
            }
            self.mark.now.mirrored = mirrored;
            self.mark.write()
        });
        for (settled, what) in [(mirrored, "oracle_log.jsonl"), (self.mark.sync(), "the high-water mark")] {
            if let Err(error) = settled {
                tracing::warn!(%error, what, "could not sync a file");
            }
        }
    }

    /// Syncs the database, so that a power cut does not require its rebuild.
    fn sync_database(&mut self) {
        let entries = self.mark.now.counts.entries;
        if self.mark.now.synced == entries || self.failure.is_some() {
            return;
        }
        match self.engine.sync() {
            Ok(()) => self.mark.now.synced = entries,
            // after a failed sync, the page cache can differ from the disk
            Err(error) => self.rebuild(format!("the database could not be synced: {error}")),
        }
        if let Err(error) = self.mark.write_synced() {
            tracing::warn!(%error, "could not write the high-water mark; the next start may rebuild the database");
        }
    }

    /// Reopens the database to renew sled's snapshot if enough entries are new: the usual number divided by `part`.
    fn renew_snapshot(&mut self, part: u64) -> Result<(), StoreError> {
        let entries = self.mark.now.counts.entries;
        let many = RENEWED_AFTER_ENTRIES.max(entries / RENEWED_AFTER_PART) / part;
        // the new snapshot needs space
        if entries.saturating_sub(self.snapshot_at) < many
            || part == 1 && entries.saturating_sub(self.postponed_at) < POSTPONED_ENTRIES
            || self.engine.free().check().is_err()
        {
            return Ok(());
        }
        // a power cut during the reopening leaves a database that is not known to be whole
        self.mark.now.synced = 0;
        let renewed = self.mark.write_synced().map_err(|error| self.io_error(error));
        match renewed.and_then(|()| self.engine.renew()) {
            // a long read is in progress, and no caller has to wait for it: a later call renews the snapshot
            Ok(false) => {
                self.postponed_at = entries;
                return Ok(());
            }
            Ok(true) => self.note_renewed(),
            Err(error) => Err(error),
        }
        .map_err(|error| self.fail(error, RecoveryCondition::Reopening))
    }

    /// Checks the database after its snapshot was renewed, and stores the id of the snapshot.
    fn note_renewed(&mut self) -> Result<(), StoreError> {
        // first of all: after a kill in between, the next start would reject the new snapshot as a wrong one
        self.mark.now.snapshot = self.engine.snapshot();
        self.mark.write_synced().map_err(|error| self.io_error(error))?;
        let counts = self.mark.now.counts.clone();
        check_database(&self.engine, &counts, &self.mark.now)?;
        (self.snapshot_at, self.mark.now.walked) = (counts.entries, counts.entries.max(1));
        Ok(())
    }

    fn io_error(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.engine.dir().to_owned(), source }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.sync_pending_work();
        self.sync_database();
    }
}

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod erasure;
pub(crate) mod healing;
pub(crate) mod opening;
mod salvage;
mod sharing;
pub use sharing::FollowedChanges;
pub(crate) mod staged;
mod upgrade;

/// Opens the database of `segments`. If they, or the segments that it needs, are damaged like their copies, builds a new one from what is
/// readable. The mirror has the entries up to `mirrored`. This process has closed the database if it
/// `is_reopened`.
fn open_or_salvage(
    engine: &Arc<StoreEngine>,
    files: &SegmentFiles,
    mark: &mut Watermark,
    mirrored: u64,
    segments: Result<Segments, StoreError>,
    is_reopened: bool,
) -> Result<(Segments, OpenedDatabase), StoreError> {
    let open = |segments, mark: &mut _| {
        open_database(engine, &segments, mark, is_reopened).map(|opened| (segments, opened))
    };
    match segments.and_then(|segments| open(segments, mark)) {
        Err(damage) if damage.damage().is_some() => {
            open(continue_with_salvage(engine, files, mark, mirrored, damage)?, mark)
        }
        opened => opened,
    }
}

impl Journal {
    /// Opens `oracle_log.jsonl` by its name again, after it was rotated.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened; the mirror then continues in the previous file.
    pub fn reopen_mirror(&mut self) -> Result<(), StoreError> {
        self.sync_pending_work();
        self.mirror.reopen()?;
        self.note_mirror();
        self.mirror.repair(&self.tables, self.mark.now.counts.entries);
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
        self.mirror.repair(&self.tables, self.mark.now.counts.entries);
        Ok(())
    }

    /// Whether `snapshot` is of the file that is written now.
    #[must_use]
    pub const fn is_mirror(&self, snapshot: &MirrorSnapshot) -> bool {
        self.mirror.is_current(snapshot)
    }

    /// Stores the first entry of the mirror in the mark, and the identity of its file.
    fn note_mirror(&mut self) {
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

/// Events and changes that are committed together: all of them, or none.
///
/// A record is plain data, and applying one to equal stores gives equal stores, except for the salts in its entries and the
/// hashes of these, which the links of a delivery have. It contains its own times, and its entry numbers depend only on the order of the records.
#[derive(Debug, Clone, Default)]
pub struct JournalRecord {
    /// The rows on which the record depends, with their revisions.
    pub expect: Vec<RowExpectation>,
    /// The events for the audit log, in this order.
    pub events: Vec<AuditEvent>,
    /// The entries of earlier records from which its delivery follows, besides its own entries before the delivery.
    pub evidence: Vec<EvidenceEntry>,
    /// The changes of the tables.
    pub writes: Vec<RowWrite>,
    /// Whether the record ends accepted work. Low disk space then does not reject its new rows.
    pub ends_work: bool,
    /// The callers that caused the events. No table depends on them.
    pub callers: RecordCallers,
}

impl From<AuditEvent> for JournalRecord {
    fn from(event: AuditEvent) -> Self {
        Self { events: vec![event], ..Self::default() }
    }
}

/// Confirms that a record is on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitReceipt {
    /// The number of its first entry.
    pub first_seq: u64,
    /// The number of its last entry, which is also the revision of every row it wrote.
    pub last_seq: u64,
    /// Its entries that a later delivery can name.
    pub evidence: Vec<EvidenceEntry>,
}

/// The reason why the store rejected a record. No part of it was applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRejectedError {
    /// A row is no longer as the record expects. The caller must read it again and decide again.
    #[error("the row {0} was changed by another record meanwhile")]
    Stale(RowName),
    /// The record is new work, and too little disk space is free.
    #[error("{0}")]
    LowSpace(String),
    /// The record changes state without an event that reports the change.
    #[error("the record has no event")]
    Unlogged,
    /// The delivery of the record names this entry.
    #[error("entry {0} is not an earlier entry of the session that the record delivers to")]
    ForeignEvidence(u64),
}

/// The space that must be free before a failed store is reopened, in bytes, so that it can write again.
const SPACE_TO_REOPEN_BYTES: usize = 4 * 1024 * 1024;

/// Number of calls of [`Journal::sync_pending_work`] (about 10 minutes) between two rebuilds for damage that reads find. If a
/// rebuild does not repair the damage, the segments have it too, and a rebuild each second would stop the service.
const REPAIR_PAUSE_CALLS: u32 = 600;

/// The reason why the journal accepts no writes.
#[derive(Debug)]
struct JournalFailure {
    cause: String,
    condition: RecoveryCondition,
}

/// The condition for accepting writes again. A later one includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RecoveryCondition {
    /// The database and the segment have space for an ordinary group, and the segment has no remains of the failed one. sled did not
    /// try to write it.
    OrdinaryGroupSpace,
    /// The same, and this host has applied all groups of the shared log: it may have some that this host lacks.
    Following,
    /// The database was reopened: sled failed, or may have applied only a part of a group.
    Reopening,
    /// None: the shared log has other groups than this host.
    Never,
}

impl Journal {
    /// Rebuilds the database if a read has found damage.
    fn repair_damage(&mut self) {
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
            RecoveryCondition::OrdinaryGroupSpace | RecoveryCondition::Following => self
                .engine
                .reserve_write_space(ORDINARY_BYTES)
                .and_then(|()| self.segments.make_room(ORDINARY_BYTES)),
            RecoveryCondition::Reopening => self.reopen(),
            RecoveryCondition::Never => Err(self.diverged_error()),
        });
        // the failure of a group that is read from the shared log replaces that of before
        self.failure = None;
        if let Err(error) = mended.and_then(|()| self.follow()).and_then(|()| self.check_lost_rows()) {
            let condition = match self.shared {
                // it is unknown which groups this host lacks
                Some(_) => mend.max(RecoveryCondition::Following),
                None => mend,
            };
            self.failure.get_or_insert(JournalFailure { cause: error.to_cause(), condition });
            return Err(error);
        }
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
        let opened = match open_database(&self.engine, &self.segments, &mut self.mark, true) {
            Err(damage) if damage.damage().is_some() => {
                let (files, entries) = (self.segments.files().clone(), self.mark.now.counts.entries);
                self.segments = continue_with_salvage(&self.engine, &files, &mut self.mark, entries, damage)?;
                open_database(&self.engine, &self.segments, &mut self.mark, true)
            }
            opened => opened,
        }?;
        let counts = opened.counts;
        self.snapshot_at = counts.entries;
        self.tip =
            LogTip::new(self.tables.read(|db, _| log::latest_time_us(db, &self.tables, counts.entries))?);
        self.files.forget_views();
        self.engine.note_lost_rows(!self.tables.lost_rows()?.is_empty());
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
        let lost = if self.engine.has_lost_rows() { self.tables.lost_rows() } else { Ok(Vec::new()) };
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
        self.tables.unreported_losses()
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
    fn check_readable(&self) -> Result<(), StoreError> {
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

    fn fail(&mut self, error: StoreError, mend: RecoveryCondition) -> StoreError {
        if error.damage().is_some() {
            self.note_damage();
        }
        let cause = error.to_cause();
        let before = self.failure.as_ref().map(|failure| failure.condition);
        let condition = before.into_iter().fold(mend, RecoveryCondition::max);
        self.failure = Some(JournalFailure { cause: cause.clone(), condition });
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

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;

/// The files that rows name, in folders of their own. The journal reports commits to them; it never interprets their content.
pub trait StateFiles: Debug + Send + Sync + 'static {
    /// The first file in the state directory `dir` that belongs to an earlier store; `None` if there is none.
    ///
    /// # Errors
    /// `Io` if a folder cannot be read.
    fn find_existing(dir: &Path) -> Result<Option<PathBuf>, StoreError>
    where
        Self: Sized;

    /// Opens the folders, and removes incomplete files of an earlier process. `free` is the free space of their disk.
    ///
    /// # Errors
    /// `Io` if the folders cannot be created or emptied.
    fn open(options: &StoreOptions, free: &FreeSpace) -> Result<Self, StoreError>
    where
        Self: Sized;

    /// Removes the files that no row names, since a kill has interrupted the work that made them. The tables must have the rows
    /// that `expected` counts.
    ///
    /// # Errors
    /// `Short` if rows are missing, or if this store did not make a file. No file is removed then.
    fn remove_unnamed(&self, tables: &TableReader, expected: &StoreCounts) -> Result<(), StoreError>;

    /// Closes the files that readers have opened by the rows that `writes` change. While the lock exists, no reader opens one: a
    /// reader that already sees the changed rows must not get the earlier files. `None` if no such row is changed.
    fn lock_views<'f>(&'f self, writes: &[&RowWrite]) -> Option<Box<dyn Debug + 'f>>;

    /// Closes all files that readers have opened.
    fn forget_views(&self);

    /// Notes that `writes` are committed: they name files.
    fn note_committed(&self, writes: &[&RowWrite]);

    /// The folder of temporary files, which [`Self::open`] empties.
    fn work_dir(&self) -> PathBuf;

    /// Links the files that rows name into the state directory `dir`.
    ///
    /// # Errors
    /// The rows cannot be read, or `Io` if a file cannot be linked.
    fn link_to(&self, tables: &TableReader, dir: &Path) -> Result<(), StoreError>;

    /// Reads the whole log of a copy of the state directory, passes its end to `check_end`, and then compares the files of the copy
    /// with the rows in the log.
    ///
    /// # Errors
    /// The log is damaged, the error of `check_end`, or `SourceFile` if a file is missing or differs.
    fn verify_copy(
        &self,
        log: &SegmentLog,
        check_end: &dyn Fn(&LogState) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;
}
