//! Erasing the data of a [`RemovalPlan`] from everything that the journal has written: segments, database, `oracle_log.jsonl`.
//!
//! The segments are rewritten, and a new database is built from them beside the present one, since sled keeps removed values in
//! its file. The journal commits meanwhile. At the end it replaces first the database and then `oracle_log.jsonl`, without a
//! commit in between.

use super::Journal;
use super::opening::apply_groups;
use super::opening::create_database;
use crate::audit::erasure::DataEraser;
use crate::audit::mirror::MirrorSnapshot;
use crate::audit::mirror::erasure::{MirrorCopy, erase_from_renamed};
use crate::audit::removal::RemovalPlan;
use crate::base::engine::{NEW_DIR, PREVIOUS_DIR, StoreEngine, StoreOptions, remove_dir};
use crate::base::meta;
use crate::base::row_batch::RowBatch;
use crate::journal::RecoveryCondition;
use crate::journal::backup::remove_links;
use crate::journal::check::check_stop;
use crate::journal::healing::write_snapshot;
use crate::segments::{KEPT_DIR, SegmentsUpTo, WrittenSnapshot};
use domain_base::row::ErasedData;
use domain_base::session_id::SessionId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store_base::disk::DATABASE_DIR;
use store_base::error::StoreError;

/// The journal applies at most this many missing entries to the new database, since commits wait meanwhile.
const APPLIED_AT_END: u64 = if cfg!(test) { 8 } else { 4096 };

/// An erasure in progress.
#[derive(Debug)]
pub struct Erasure {
    state_dir: PathBuf,
    /// The segments from before the erasure, and the numbers of those that it has rewritten.
    original: SegmentsUpTo,
    rewritten: Vec<u64>,
    /// The groups that the new database must have.
    segments: SegmentsUpTo,
    eraser: DataEraser,
    database: Option<Arc<StoreEngine>>,
    /// The last entry in the new database.
    applied: Option<u64>,
    /// The last entry when sled last wrote a snapshot of the new database.
    snapshot_at: u64,
    /// The snapshot in place of the segments that were sealed at the beginning, if entries are dropped.
    snapshot: Option<WrittenSnapshot>,
    unread_files: Vec<PathBuf>,
    mirror: MirrorSource,
    options: StoreOptions,
}

/// The mirror that is to be copied, or its copy.
#[derive(Debug)]
enum MirrorSource {
    Original(Option<MirrorSnapshot>),
    Copied(MirrorCopy),
}

/// The result of an erasure.
#[derive(Debug)]
pub struct ErasureOutcome {
    /// The kinds of data that were found.
    pub data: BTreeMap<SessionId, BTreeSet<ErasedData>>,
    /// Files of the log that may still have the data: they are compressed, cannot be opened, or have lines that are no
    /// entries or have no salts.
    pub unread_files: Vec<PathBuf>,
}

/// The next step after an attempt to finish an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureStep {
    /// The database and `oracle_log.jsonl` were replaced.
    Finished,
    /// It must be prepared again, since many entries were committed meanwhile, or the mirror was rotated.
    ToPrepare,
    /// A long read is in progress; it can be finished later.
    ToRepeat,
}

impl Journal {
    /// Begins to erase the data of `plan`. The rows of its sessions must be removed already.
    ///
    /// # Errors
    /// `Unavailable` if the journal accepts no writes, the next segment cannot be created, or a row was not removed.
    pub fn begin_erasure(&mut self, plan: RemovalPlan) -> Result<Erasure, StoreError> {
        self.check_failure()?;
        let eraser = DataEraser::new(self.engine.dir(), plan, self.engine.covers_session_ids());
        self.engine.with(|db| eraser.check_removed(db))?;
        remove_links(&self.files.work_dir())?;
        // otherwise the next entry would write the last row with the erased values again
        self.tip.end_row();
        self.segments.seal()?;
        let state_dir = self.engine.dir().to_owned();
        let segments = self.segments.up_to_now();
        segments.remove_erased();
        Ok(Erasure {
            segments: segments.after_erasure(),
            original: segments,
            rewritten: Vec::new(),
            eraser,
            database: None,
            applied: None,
            snapshot_at: 0,
            snapshot: None,
            unread_files: Vec::new(),
            mirror: MirrorSource::Original(Some(self.mirror_snapshot()?)),
            options: self.engine.options().clone(),
            state_dir,
        })
    }

    /// Replaces the database and `oracle_log.jsonl` by those of `erasure`, if it is prepared.
    ///
    /// # Errors
    /// `Unavailable` if the journal accepts no writes; `Corrupt` if the new database differs from the present one.
    pub fn finish_erasure(&mut self, erasure: &mut Erasure) -> Result<ErasureStep, StoreError> {
        self.check_failure()?;
        let Erasure {
            database: Some(database),
            mirror: MirrorSource::Copied(copy),
            original,
            rewritten,
            snapshot,
            ..
        } = erasure
        else {
            return Ok(ErasureStep::ToPrepare);
        };
        // notices a rotation
        let present = self.mirror_snapshot()?;
        if !copy.is_of(&self.mirror) {
            erasure.mirror = MirrorSource::Original(Some(present));
            return Ok(ErasureStep::ToPrepare);
        }
        let now = self.segments.up_to_now();
        let missing = now.entries() - erasure.applied.unwrap_or_default();
        let now = erasure.segments.up_to(&now);
        if missing > APPLIED_AT_END {
            erasure.segments = now;
            return Ok(ErasureStep::ToPrepare);
        }
        apply_groups(database, &now, erasure.applied, None, &|| true)??;
        erasure.applied = Some(now.entries());
        let hashes = self.engine.log_hashes();
        if meta::read(database)? != Some((self.mark.now.counts.clone(), hashes.tree.clone())) {
            let detail = "the database that was built from the segments differs from the present one";
            return Err(StoreError::Corrupt { dir: self.engine.dir().to_owned(), detail: detail.to_owned() });
        }
        database.sync()?;
        // a kill or a power cut during the replacement leaves segments and a database that do not belong together
        (self.mark.now.synced, self.mark.now.walked) = (0, 0);
        self.mark.write_synced().map_err(|error| self.io_error(error))?;
        let replaced = self.engine.replace_database(database, || {
            original.put_erased(rewritten)?;
            snapshot.as_ref().map_or(Ok(()), |snapshot| self.segments.replace_by(snapshot))
        });
        self.mark.now.walked = self.mark.now.counts.entries.max(1);
        let replaced = replaced
            .and_then(|replaced| if replaced { self.note_renewed().map(|()| true) } else { Ok(false) });
        match &replaced {
            Ok(true) => {}
            Ok(false) => drop(self.mark.write()),
            Err(_) => self.note_damage(),
        }
        if !replaced.map_err(|error| self.fail(error, RecoveryCondition::Reopening))? {
            return Ok(ErasureStep::ToRepeat);
        }
        erasure.database = None;
        if !self.mirror.replace_by(copy, &mut erasure.eraser)? {
            erasure.unread_files.push(copy.original().to_owned());
        }
        if let Some(first) = erasure.eraser.log_from() {
            // the copy has no lines before it
            self.mirror.first_seq = self.mirror.first_seq.max(first);
            self.note_mirror();
        }
        Ok(ErasureStep::Finished)
    }

    /// Removes what an interrupted erasure left.
    pub(super) fn remove_new_database(state_dir: &Path) -> Result<(), StoreError> {
        let (database, previous) = (state_dir.join(DATABASE_DIR), state_dir.join(PREVIOUS_DIR));
        // after a kill during a replacement
        if !database.exists() && previous.exists() {
            fs::rename(&previous, &database).map_err(|source| StoreError::write_error(&database, source))?;
        }
        [NEW_DIR, PREVIOUS_DIR].iter().try_for_each(|dir| remove_dir(&state_dir.join(dir)))
    }

    pub(super) fn check_failure(&self) -> Result<(), StoreError> {
        let unavailable = |cause: &str| Err(StoreError::Unavailable { cause: cause.to_owned() });
        self.failure().map_or(Ok(()), unavailable)
    }
}

impl Erasure {
    /// Rewrites the segments that have data of the plan.
    ///
    /// # Errors
    /// A segment is damaged, or cannot be written. Each is rewritten as a whole or not at all. `Unavailable` if `proceed`
    /// returned false.
    pub fn rewrite_segments(&mut self, proceed: &dyn Fn() -> bool) -> Result<(), StoreError> {
        if self.eraser.needs_versions() {
            let mut noted = Ok(());
            self.original.replay(None, |_, group| {
                noted = self.eraser.note_versions(&group);
                noted.is_ok() && proceed()
            })?;
            noted?;
            check_stop(proceed)?;
        }
        let eraser = std::cell::RefCell::new(&mut self.eraser);
        self.rewritten = self.original.change_rows(
            |after, content| eraser.borrow().is_concerned(after, content),
            |entries, rows| eraser.borrow_mut().erase_from_rows(entries, rows),
            proceed,
        )?;
        check_stop(proceed)?;
        tracing::info!(rewritten = self.rewritten.len(), "segments were rewritten by an erasure");
        Ok(())
    }

    /// Brings the new database and the copy of the mirror up to date, and erases the data from the files that the mirror was
    /// renamed to. The first call takes the time of a rebuild.
    ///
    /// # Errors
    /// The segments cannot be read, or the disk cannot be written. `Unavailable` if `proceed` returned false.
    pub fn prepare(&mut self, proceed: &dyn Fn() -> bool) -> Result<(), StoreError> {
        let database = match &self.database {
            Some(database) => Arc::clone(database),
            None => self.create_database()?,
        };
        let log_from = self.eraser.log_from().filter(|_| self.applied.is_none());
        apply_groups(&database, &self.segments, self.applied, log_from, proceed)??;
        check_stop(proceed)?;
        if let Some(first) = log_from {
            let mut rows = RowBatch::default();
            meta::put_first_seq(&mut rows, first);
            database.apply(rows)?;
            let (counts, tree) = meta::read(&database)?.unwrap_or_default();
            self.snapshot = Some(write_snapshot(&database, &self.segments, &counts, &tree, proceed)?);
        }
        self.applied = Some(self.segments.entries());
        database.sync()?;
        // an opening without a snapshot reads the whole database, and commits would wait for it at the end
        if self.segments.entries() - self.snapshot_at > APPLIED_AT_END && database.renew()? {
            self.snapshot_at = self.segments.entries();
        }
        if let MirrorSource::Original(mirror) = &mut self.mirror
            && let Some(mirror) = mirror.take()
        {
            self.unread_files = erase_from_renamed(&self.state_dir, &mut self.eraser)?;
            let copy = MirrorCopy::write(&self.state_dir, mirror, &mut self.eraser)?;
            self.mirror = MirrorSource::Copied(copy);
        }
        Ok(())
    }

    fn create_database(&mut self) -> Result<Arc<StoreEngine>, StoreError> {
        let is_written = self.eraser.log_from().is_some();
        let database = create_database(&self.options, self.segments.files(), is_written)?;
        self.database = Some(Arc::clone(&database));
        Ok(database)
    }

    /// Removes what is left of the erasure, and the segments that could not be repaired, which can have erased data.
    ///
    /// # Errors
    /// A folder cannot be removed.
    pub fn finish(mut self) -> Result<ErasureOutcome, StoreError> {
        [NEW_DIR, KEPT_DIR].iter().try_for_each(|dir| remove_dir(&self.state_dir.join(dir)))?;
        let data = std::mem::take(&mut self.eraser.found);
        Ok(ErasureOutcome { data, unread_files: std::mem::take(&mut self.unread_files) })
    }
}

impl Drop for Erasure {
    /// Frees the space of an erasure that failed.
    fn drop(&mut self) {
        if let Some(database) = self.database.take() {
            database.close_database();
        }
        self.original.remove_erased();
        if let Err(error) = remove_dir(&self.state_dir.join(NEW_DIR)) {
            tracing::warn!(%error, "could not remove the new database of an erasure; the next start removes it");
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
