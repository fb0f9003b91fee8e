//! The copies of the segments, in a folder of their own.
//!
//! Each group is also written to the copy of its segment, and a sealed segment is compressed into both folders. A segment that is
//! damaged or missing is read from its copy, and soon written again from it, as a damaged copy is from its segment.

use super::{
    COMPRESSED, INCOMPLETE, ReadSegment, ReadableContent, SegmentEnd, SegmentFiles, SegmentHead, copy_file,
    no_damage,
};
use crate::segments::group::{StoredGroup, combine, combine_bytes, find_after, merge};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use store_base::disk::link_if_exists;
use store_base::error::StoreError;
use store_base::files::{StateFile, create_dir_all, remove_if_exists, rename, sync_dir, write_synced};

/// The folder in the state directory of segments that could not be repaired.
pub(crate) const KEPT_DIR: &str = "segments.damaged";

/// The groups that a segment and its copy have together.
struct MergedSegment {
    content: Vec<u8>,
    /// Whether the segment has all of it, at the same place.
    is_own: bool,
    /// Whether one of them has a group that does not follow.
    has_later: bool,
}

impl SegmentFiles {
    /// The result of `read`, which reads segment `number`, for these files; or for their copies if these files are damaged; or for the groups
    /// that are whole in either. The damage is noted, so that it is repaired.
    ///
    /// # Errors
    /// An error other than damage; the damage of these files if the other forms are damaged, too.
    pub(super) fn or_copy<T>(
        &self,
        number: u64,
        mut read: impl FnMut(&Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let damage = match read(self) {
            Err(damage) if damage.damage().is_some() => damage,
            result => return result,
        };
        self.damage.note(&damage);
        if let Some(result) = no_damage(read(&self.copy()))? {
            return Ok(result);
        }
        let Some(merged) = self.merged(number)? else { return Err(damage) };
        no_damage(read(&merged))?.ok_or(damage)
    }

    /// These files with what [`SegmentFiles::merge`] has found of segment `number`.
    fn merged(&self, number: u64) -> Result<Option<Self>, StoreError> {
        let merged = |MergedSegment { content, .. }| Self {
            merged: Some((number, content.into())),
            open: Arc::default(),
            ..self.clone()
        };
        Ok(self.merge(number)?.map(merged))
    }

    /// The head of segment `number`, and its groups that follow each other, from the file and from its copy; `None` if both heads are damaged at
    /// the same bytes. If frames of both are damaged, a group can be in those frames of one that the other lacks. A group that is
    /// damaged in both at different bytes is put together from both. Its checksum must be right then.
    fn merge(&self, number: u64) -> Result<Option<MergedSegment>, StoreError> {
        let read = [self.read_readable(number)?, self.copy().read_readable(number)?];
        let both = match &read {
            [Some(own), Some(other)] if own.is_damaged() => Some(own.clone().or(other)),
            _ => None,
        };
        let contents: Vec<Vec<u8>> =
            read.iter().chain([&both]).flatten().map(ReadableContent::bytes).collect();
        let pair = |at: usize| Some((contents.first()?.get(at..)?, contents.get(1)?.get(at..)?));
        let mut heads = contents.iter().filter_map(|content| SegmentHead::from_bytes(content));
        let combined_head = || {
            let (own, other) = pair(0)?;
            let length = SegmentHead::BYTES as usize;
            Some(combine_bytes(own.get(..length)?, other.get(..length)?, SegmentHead::from_bytes)?.1)
        };
        let head = heads.find(|head| head.number == number).or_else(combined_head);
        let Some(head) = head.filter(|head| head.number == number) else { return Ok(None) };
        let (mut content, mut end) = (head.to_bytes(), head.previous);
        loop {
            let (groups, merged_end) = merge(&contents, end);
            content.extend_from_slice(&groups);
            end = merged_end;
            let both = pair(content.len()).and_then(|(own, other)| combine(own, other, end));
            let Some((group, next)) = both else { break };
            content.extend_from_slice(&group);
            end = next;
        }
        let is_own = read.iter().take(1).flatten().any(|own| own.bytes().starts_with(&content));
        let has_later = contents.iter().any(|content| find_after(content, end.entries).is_some());
        Ok(Some(MergedSegment { content, is_own, has_later }))
    }

    /// Passes the groups of segment `number` to `visit`, and reads the segment to its end, which `check_end` must accept. If the segment is
    /// damaged or has another end, the groups after the last one that was visited are those of its copy.
    ///
    /// # Errors
    /// An error of `visit`, or the damage of the segment if its copy lacks groups, too.
    pub(in crate::segments) fn walk(
        &self,
        number: u64,
        check_end: impl Fn(&ReadSegment) -> Result<(), StoreError>,
        visit: &mut dyn FnMut(StoredGroup<'_>) -> Result<(), StoreError>,
    ) -> Result<ReadSegment, StoreError> {
        let (mut last, mut refused) = (None, None);
        let read = self.or_copy(number, |files| {
            let groups = files.groups(number)?;
            last = last.or(Some(groups.head().previous));
            let read = groups.walk(|group| {
                if last != Some(group.previous) {
                    return Ok(());
                }
                last = Some(group.end);
                visit(group).map_err(|error| {
                    refused = Some(error);
                    StoreError::Stopped
                })
            })?;
            check_end(&read).map(|()| read)
        });
        refused.map_or(read, Err)
    }

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

    /// Writes the copy of segment `number`, which is sealed, if it has none. Returns whether it did.
    ///
    /// # Errors
    /// The segment is damaged, or the copy cannot be written.
    pub(in crate::segments) fn put_missing_copy(&self, number: u64) -> Result<bool, StoreError> {
        let _replacing = self.lock_replacing();
        let copy = self.copy();
        let is_there = copy.compressed_path(number).exists() || copy.path(number).exists();
        // a plain segment is compressed soon
        if is_there || !self.compressed_path(number).exists() {
            return Ok(false);
        }
        self.check(number)?;
        self.put_copy(number).map(|()| true)
    }

    /// Writes segment `number`, which is sealed, and its copy again if one is damaged or they differ. Each group is that of either file; where
    /// they differ, it is the one that an erasure has changed.
    ///
    /// # Errors
    /// The damage of the segment, if a group is damaged in both.
    pub(in crate::segments) fn heal(&self, number: u64) -> Result<(), StoreError> {
        let _replacing = self.lock_replacing();
        self.heal_locked(number)
    }

    /// As [`SegmentFiles::heal`], while the files cannot be replaced.
    pub(super) fn heal_locked(&self, number: u64) -> Result<(), StoreError> {
        let copy = self.copy();
        let damage_of = |checked: Result<(), StoreError>| match checked {
            Err(damage) if damage.damage().is_some() => Ok(Some(damage)),
            checked => checked.map(|()| None),
        };
        let [own, other] = [damage_of(self.check(number))?, damage_of(copy.check(number))?];
        if own.is_none() && other.is_none() && !self.differs_from(&copy, number)? {
            return Ok(());
        }
        let damage = own.as_ref().or(other.as_ref()).and_then(StoreError::damage);
        tracing::warn!(
            segment = number,
            damage,
            "a segment or its copy is damaged or older, and is written again"
        );
        let merged = self.merge(number)?;
        match (merged, own) {
            (Some(MergedSegment { is_own: true, .. }), None) => self.put_copy(number),
            (Some(merged), None) => self.put_merged(number, &merged.content),
            (Some(merged), Some(damage)) => {
                no_damage(self.put_merged(number, &merged.content))?.ok_or(damage)
            }
            (None, own) => Err(own.unwrap_or_else(|| self.missing(number))),
        }
    }

    /// Writes segment `number`, which is sealed, and its copy with this content.
    ///
    /// # Errors
    /// It lacks groups, or a file cannot be written.
    fn put_merged(&self, number: u64, content: &[u8]) -> Result<(), StoreError> {
        let compressed = self.compressed_path(number);
        self.write_compressed(number, &compressed, |file| {
            tracing::warn!(
                segment = number,
                "a segment and its copy are written again from what each has whole"
            );
            file.write_all(content)
                .map(|()| true)
                .map_err(|source| StoreError::write_error(&compressed, source))
        })?;
        self.open_segments().clear();
        self.put_copy(number)?;
        self.remove_plain(number)
    }

    /// Whether segment `number` and its copy in `copy` are both compressed, and are other files.
    pub(super) fn differs_from(&self, copy: &Self, number: u64) -> Result<bool, StoreError> {
        let [own, other] = [self, copy].map(|files| fs::read(files.compressed_path(number)));
        match (own, other) {
            (Ok(own), Ok(other)) => Ok(own != other),
            (Err(source), _) | (_, Err(source)) if source.kind() != ErrorKind::NotFound => {
                Err(self.read_error(number, source))
            }
            _ => Ok(false),
        }
    }

    /// Writes segments or copies again that differ in length: one of the folders has files from before an erasure.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(in crate::segments) fn heal_lengths(&self, last: u64) -> Result<(), StoreError> {
        let copy = self.copy();
        let length =
            |files: &Self, number| fs::metadata(files.compressed_path(number)).map(|found| found.len()).ok();
        for number in self.numbers_up_to(last.saturating_sub(1)) {
            let lengths = length(self, number).zip(length(&copy, number));
            if lengths.is_some_and(|(own, other)| own != other) {
                // a damaged one stays until it is needed
                no_damage(self.heal(number))?;
            }
        }
        Ok(())
    }

    /// Keeps the segments before the last one that cannot be repaired, and their copies, in a folder of their own.
    ///
    /// # Errors
    /// A file cannot be read, or the folder cannot be written.
    pub(crate) fn keep_damaged(&self) -> Result<(), StoreError> {
        let (kept, copy) = (self.state_dir.join(KEPT_DIR), self.copy());
        let existing = &self.existing_numbers()? | &copy.existing_numbers()?;
        let last = existing.iter().rev().nth(1).copied().unwrap_or_default();
        for number in self.numbers_up_to(last) {
            let is_whole = |files: &Self| {
                if number != last {
                    return no_damage(files.check(number)).map(|checked| checked.is_some());
                }
                // the segment after it is new, and has another end of the groups before it
                let read = no_damage(files.groups(number).and_then(|groups| groups.walk(|_| Ok(()))))?;
                Ok(read.is_some_and(|read| read.remains.is_none()))
            };
            if is_whole(self)? || is_whole(&copy)? {
                continue;
            }
            create_dir_all(&kept).map_err(|source| StoreError::write_error(&kept, source))?;
            for path in [self, &copy]
                .into_iter()
                .flat_map(|files| [files.path(number), files.compressed_path(number)])
            {
                let name =
                    path.strip_prefix(&self.state_dir).unwrap_or(&path).to_string_lossy().replace('/', "-");
                // that of an earlier damage has the same name
                remove_if_exists(&kept.join(&name))
                    .map_err(|source| StoreError::write_error(&kept, source))?;
                link_if_exists(&path, &kept.join(name))?;
            }
        }
        if kept.exists() { sync_dir(&kept) } else { Ok(()) }
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
                let last = self.last_number()?.unwrap_or_default();
                (self.snapshot(), last)
            };
            for number in self.numbers_up_to(last.saturating_sub(1)) {
                let replacing = self.lock_replacing();
                // a snapshot has replaced segments meanwhile
                if self.snapshot() != extent {
                    continue 'changed;
                }
                self.check(number)?;
                let copy = self.copy();
                copy.check(number)?;
                if self.differs_from(&copy, number)? {
                    return Err(copy.damaged(number, "it differs from its segment"));
                }
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

    /// Puts the files that an erasure has rewritten, those of the segments `numbers`, in the place of the segments and of their copies.
    /// An interrupted call has replaced copies first, so that the erasure still finds the data in the segments.
    ///
    /// # Errors
    /// A file is missing or cannot be renamed. Some are in place then.
    pub(in crate::segments) fn put_erased(&self, numbers: &[u64]) -> Result<(), StoreError> {
        let _replacing = self.lock_replacing();
        let put = || {
            for files in [&self.copy(), self] {
                for number in numbers {
                    let (erased, compressed) = (files.erased_path(*number), files.compressed_path(*number));
                    rename(&erased, &compressed)
                        .map_err(|source| StoreError::write_error(&compressed, source))?;
                }
                files.sync_dirs_of(numbers)?;
            }
            for files in [&self.copy(), self] {
                for number in numbers {
                    let plain = files.path(*number);
                    remove_if_exists(&plain).map_err(|source| StoreError::Io { path: plain, source })?;
                }
                files.sync_dirs_of(numbers)?;
            }
            Ok(())
        };
        let result = put();
        self.open_segments().clear();
        result
    }

    /// Syncs the folders of the segments `numbers`.
    fn sync_dirs_of(&self, numbers: &[u64]) -> Result<(), StoreError> {
        let dirs: BTreeSet<_> =
            numbers.iter().filter_map(|number| self.path(*number).parent().map(Path::to_owned)).collect();
        dirs.iter().try_for_each(|dir| sync_dir(dir))
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

    /// The file of the copy of segment `number`, to which groups are written; `None` if it cannot be written, which is noted.
    pub(in crate::segments) fn begin_copy(&self, head: SegmentHead) -> Option<StateFile> {
        let copy = self.copy();
        let create = || -> io::Result<StateFile> {
            create_dir_all(copy.dir())?;
            let file = StateFile::create(&copy.path(head.number))?;
            file.write_all_at(&head.to_bytes(), 0)?;
            Ok(file)
        };
        self.damage.note_copy(head.number, create())
    }

    /// Writes the copies of the files 1 to `last`, which are compressed, into their folder, which is created.
    pub(in crate::segments) fn put_copies(&self, last: u64) -> Result<(), StoreError> {
        let to = self.copy();
        create_dir_all(to.dir()).map_err(|source| StoreError::write_error(to.dir(), source))?;
        (1..=last)
            .try_for_each(|number| copy_file(&self.compressed_path(number), &to.compressed_path(number)))
    }

    /// The damage that [`SegmentFiles::restore_missing`] has repaired.
    pub(in crate::segments) fn missing_files(&self) -> StoreError {
        StoreError::Short { dir: self.state_dir.clone(), detail: "segments were missing".to_owned() }
    }

    /// Writes segment `number`, the last one, again with the groups that only its copy has: a group is written to the copy after it was
    /// synced in the segment, so the segment is damaged then. Returns the damage. Both have a group at the same place.
    ///
    /// # Errors
    /// A file cannot be read or written. The damage, if a later group is known that cannot follow.
    pub(in crate::segments) fn restore_last(&self, number: u64) -> Result<Option<StoreError>, StoreError> {
        // another schema version is no damage
        no_damage(self.head(number))?;
        let Some(merged) = self.merge(number)?.filter(|merged| !merged.is_own) else { return Ok(None) };
        let damage = self.damaged(number, "a group is damaged");
        if merged.has_later {
            return Err(damage);
        }
        tracing::error!(
            damage = damage.damage(),
            "the last segment is written again with the groups of its copy"
        );
        let (path, incomplete) = (self.path(number), self.path(number).with_extension(INCOMPLETE));
        write_synced(&incomplete, merged.content.as_slice())
            .and_then(|()| rename(&incomplete, &path))
            .map_err(|source| StoreError::write_error(&path, source))?;
        self.open_segments().clear();
        sync_dir(&self.dir)?;
        Ok(Some(damage))
    }

    /// Opens the copy of segment `number`, the last one, for further groups; its groups end with `end`. It is written again if it has
    /// other groups. `None` if it cannot be written, which is noted.
    pub(in crate::segments) fn open_copy(&self, number: u64, end: SegmentEnd) -> Option<Arc<StateFile>> {
        let copy = self.copy();
        let is_whole = copy.groups(number).and_then(|groups| groups.walk(|_| Ok(()))).is_ok_and(|read| {
            (read.end.len, read.end.group) == (end.len, end.group) && read.remains.is_none()
        });
        let written = if is_whole { Ok(()) } else { self.write_to(&copy, number) };
        let path = copy.path(number);
        let opened = written.and_then(|()| {
            StateFile::open(&path).map(Arc::new).map_err(|source| StoreError::Io { path, source })
        });
        self.damage.note_copy(number, opened)
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
