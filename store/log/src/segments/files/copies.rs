//! The copies of the segments, in a folder of their own.
//!
//! Each group is also written to the copy of its segment, and a sealed segment is compressed into both folders. A segment that is
//! damaged or missing is written again from its copy, and a copy from its segment.

use super::{COMPRESSED, SegmentFiles, SegmentHead, copy_file};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use store_base::error::StoreError;
use store_base::files::{StateFile, create_dir_all, remove_if_exists, rename, sync_dir};

/// Whether the file may be missing or damaged, and not only unreadable now.
const fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Short { .. })
}

impl SegmentFiles {
    /// Writes the copy of segment `number`, which is compressed, again.
    pub(super) fn put_copy(&self, number: u64) -> Result<(), StoreError> {
        self.write_to(&self.copy(), number)
    }

    /// Writes the file of segment `number` to the folder of `to`, where it is the only form of the segment then.
    fn write_to(&self, to: &Self, number: u64) -> Result<(), StoreError> {
        let (plain, compressed) = (self.path(number), self.compressed_path(number));
        let (from, target, other) = if compressed.exists() {
            (compressed, to.compressed_path(number), to.path(number))
        } else {
            (plain, to.path(number), to.compressed_path(number))
        };
        if let Some(dir) = target.parent() {
            create_dir_all(dir).map_err(|source| StoreError::write_error(dir, source))?;
        }
        copy_file(&from, &target)?;
        to.open_segments().clear();
        remove_if_exists(&other).map_err(|source| StoreError::Io { path: other, source })?;
        target.parent().map_or(Ok(()), sync_dir)
    }

    /// Writes the copies of sealed segments that have none, and returns their number. Not those of segments from `last` on.
    pub(in crate::segments) fn put_missing_copies(&self, last: u64) -> Result<u64, StoreError> {
        let mut put = 0;
        for number in self.numbers_up_to(last.saturating_sub(1)) {
            let _replacing = self.lock_replacing();
            let copy = self.copy();
            let is_there = copy.compressed_path(number).exists() || copy.path(number).exists();
            if !is_there && self.compressed_path(number).exists() {
                self.check(number)?;
                self.put_copy(number)?;
                put += 1;
            }
        }
        Ok(put)
    }

    /// Writes segment `number`, which is sealed, again from its copy if it is damaged, or the copy from the segment. Returns whether
    /// one was damaged.
    ///
    /// # Errors
    /// The damage of the segment, if both are damaged.
    pub(in crate::segments) fn heal(&self, number: u64) -> Result<bool, StoreError> {
        let _replacing = self.lock_replacing();
        let copy = self.copy();
        match self.check(number) {
            Ok(()) => match copy.check(number) {
                Err(damage) if is_damage(&damage) => {
                    tracing::warn!(%damage, "the copy of a segment is written again");
                    self.put_copy(number).map(|()| true)
                }
                checked => checked.map(|()| false),
            },
            Err(damage) if is_damage(&damage) && copy.check(number).is_ok() => {
                tracing::warn!(%damage, "a segment is written again from its copy");
                copy.write_to(self, number).map(|()| true)
            }
            Err(damage) => Err(damage),
        }
    }

    /// Reads all sealed segments and their copies. Calls `proceed` after each; returns false if `proceed` stopped the check.
    ///
    /// # Errors
    /// `Corrupt` if a segment or a copy is damaged, `Short` if one is missing.
    pub(in crate::segments) fn check_sealed(
        &self,
        proceed: &mut dyn FnMut() -> bool,
    ) -> Result<bool, StoreError> {
        'changed: loop {
            let (extent, last) = {
                let _replacing = self.lock_replacing();
                let last = self.check_names()?.unwrap_or_default();
                (self.snapshot(), last)
            };
            for number in self.numbers_up_to(last.saturating_sub(1)) {
                let replacing = self.lock_replacing();
                // a snapshot has replaced segments meanwhile
                if self.snapshot() != extent {
                    continue 'changed;
                }
                self.check(number)?;
                self.copy().check(number)?;
                drop(replacing);
                if !proceed() {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
    }

    /// Writes the segments, and the files of the snapshot, that only the copies have. Returns whether there were any.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(in crate::segments) fn restore_missing(&self) -> Result<bool, StoreError> {
        let copy = self.copy();
        let last = |files: &Self| Ok(files.snapshot_folders()?.into_iter().map(|(number, _)| number).max());
        let replaced = last(self)?.max(last(&copy)?);
        let mut is_restored = false;
        if let Some(replaces) = replaced {
            is_restored |= restore_files(&copy.snapshot_dir(replaces), &self.snapshot_dir(replaces), 0)?;
        }
        is_restored |= restore_files(&copy.dir, &self.dir, replaced.unwrap_or_default())?;
        if is_restored {
            tracing::warn!("missing segments were written again from their copies");
        }
        Ok(is_restored)
    }

    /// Puts the files that an erasure has rewritten in the place of the segments up to `last`, and of their copies. An interrupted call
    /// has replaced a copy first, so that the erasure still finds the data in the segment.
    pub(in crate::segments) fn put_erased(&self, last: u64) -> Result<(), StoreError> {
        let _replacing = self.lock_replacing();
        for number in self.numbers_up_to(last) {
            for files in [&self.copy(), self] {
                let (erased, compressed) = (files.erased_path(number), files.compressed_path(number));
                match rename(&erased, &compressed) {
                    Err(source) if source.kind() == ErrorKind::NotFound => continue,
                    renamed => renamed.map_err(|source| StoreError::write_error(&compressed, source))?,
                }
                erased.parent().map_or(Ok(()), sync_dir)?;
                files.remove_plain(number)?;
            }
        }
        self.open_segments().clear();
        Ok(())
    }

    /// Removes the files of an erasure that was not finished.
    pub(in crate::segments) fn remove_erased(&self, last: u64) {
        for number in self.numbers_up_to(last) {
            for erased in [self.copy().erased_path(number), self.erased_path(number)] {
                if erased.exists() {
                    self.remove_unused(&erased);
                }
            }
        }
    }

    /// The file of the copy of segment `number`, to which groups are written; `None` if it cannot be written: the segment then has no
    /// copy until it is sealed.
    pub(in crate::segments) fn begin_copy(&self, head: SegmentHead) -> Option<StateFile> {
        let copy = self.copy();
        let create = || {
            create_dir_all(copy.dir())?;
            let file = StateFile::create(&copy.path(head.number))?;
            file.write_all_at(&head.to_bytes(), 0)?;
            Ok(file)
        };
        create()
            .inspect_err(|error: &std::io::Error| {
                tracing::warn!(%error, segment = head.number, "the segment has no copy until it is sealed");
            })
            .ok()
    }
}

impl SegmentFiles {
    /// Copies the files 1 to `last`, which are compressed, to the folder `dir`, which is created.
    pub(in crate::segments) fn copy_to(&self, dir: &Path, last: u64) -> Result<(), StoreError> {
        create_dir_all(dir).map_err(|source| StoreError::write_error(dir, source))?;
        let to = self.in_folder(dir);
        (1..=last)
            .try_for_each(|number| copy_file(&self.compressed_path(number), &to.compressed_path(number)))
    }

    /// The damage that [`SegmentFiles::restore_missing`] has repaired.
    pub(in crate::segments) fn missing_files(&self) -> StoreError {
        StoreError::Short { dir: self.state_dir.clone(), detail: "segments were missing".to_owned() }
    }

    /// Writes segment `number`, the last one, again if its copy has more groups: a group is written to the copy after it was synced in
    /// the segment, so the segment is damaged then. Returns the damage.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(in crate::segments) fn restore_last(&self, number: u64) -> Result<Option<StoreError>, StoreError> {
        let copy = self.copy();
        let end = |files: &Self| {
            files.groups(number).and_then(|groups| groups.walk(|_| Ok(()))).map(|read| read.end)
        };
        let (found, in_copy) = (end(self), end(&copy));
        let Ok(in_copy) = in_copy else { return Ok(None) };
        let damage = match found {
            Ok(found) if found.len >= in_copy.len => return Ok(None),
            Ok(found) => self.damaged_group(number, found),
            Err(damage) if is_damage(&damage) => damage,
            Err(error) => return Err(error),
        };
        tracing::error!(%damage, "the last segment is written again from its copy");
        copy.write_to(self, number)?;
        Ok(Some(damage))
    }

    /// Opens the copy of segment `number`, the last one, for further groups; its groups end at byte `len`. It is written again if it has
    /// other groups. `None` if it cannot be written.
    pub(in crate::segments) fn open_copy(&self, number: u64, len: u64) -> Option<Arc<StateFile>> {
        let copy = self.copy();
        let is_whole = copy
            .groups(number)
            .and_then(|groups| groups.walk(|_| Ok(())))
            .is_ok_and(|read| read.end.len == len && read.remains.is_none());
        let written = if is_whole { Ok(()) } else { self.write_to(&copy, number) };
        let path = copy.path(number);
        let opened = written.and_then(|()| {
            StateFile::open(&path).map(Arc::new).map_err(|source| StoreError::Io { path, source })
        });
        opened
            .inspect_err(|error| tracing::warn!(%error, segment = number, "the segment has no copy until it is sealed"))
            .ok()
    }
}

/// Copies the segments with numbers after `after` that the folder `from` has, and `to` does not.
fn restore_files(from: &Path, to: &Path, after: u64) -> Result<bool, StoreError> {
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(|source| StoreError::Io { path: from.to_owned(), source })?,
    };
    let mut is_restored = false;
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_segment = path.extension().is_none_or(|extension| extension == COMPRESSED);
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        let Some(name) =
            path.file_name().filter(|_| is_segment && number.is_some_and(|number| number > after))
        else {
            continue;
        };
        let target = to.join(name);
        if target.with_extension("").exists() || target.with_extension(COMPRESSED).exists() {
            continue;
        }
        create_dir_all(to).map_err(|source| StoreError::write_error(to, source))?;
        copy_file(&path, &target)?;
        is_restored = true;
    }
    Ok(is_restored)
}
