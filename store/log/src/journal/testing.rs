//! A store without files beside the segments and the database, for tests.

use super::Journal;
use super::StateFiles;
use crate::audit::segment_log::LogState;
use crate::audit::segment_log::SegmentLog;
use crate::base::engine::{StoreOptions, TableReader};
use crate::base::row_batch::RowBatch;
use crate::base::row_write::RowWrite;
use crate::base::watermark::StoreCounts;
use crate::segments::{SegmentFiles, StoredGroup, read_segments};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use store_base::disk::FreeSpace;
use store_base::error::StoreError;

/// Passes the rows of each group in the segments of `dir` to `visit`.
pub(crate) fn visit_groups(dir: &Path, mut visit: impl FnMut(&RowBatch)) -> Result<(), StoreError> {
    let files = SegmentFiles::new(dir);
    let numbers = files.check_names()?.map(|last| files.numbers_up_to(last));
    let visit_group = |_, group: StoredGroup<'_>| {
        visit(&group.rows().expect("the rows are whole"));
        Ok(true)
    };
    read_segments(&files, numbers.into_iter().flatten(), |_| Ok(()), visit_group, |_, _| {}).map(drop)
}

/// Only the folder of temporary files.
#[derive(Debug)]
struct WorkDir(PathBuf);

impl StateFiles for WorkDir {
    fn find_existing(_: &Path) -> Result<Option<PathBuf>, StoreError> {
        Ok(None)
    }

    fn open(options: &StoreOptions, _: &FreeSpace) -> Result<Self, StoreError> {
        let path = options.dir.join("work");
        fs::create_dir_all(&path).expect("the folder is created");
        Ok(Self(path))
    }

    fn remove_unnamed(&self, _: &TableReader, _: &StoreCounts) -> Result<(), StoreError> {
        Ok(())
    }

    fn lock_views<'f>(&'f self, _: &[&RowWrite]) -> Option<Box<dyn Debug + 'f>> {
        None
    }

    fn forget_views(&self) {}

    fn note_committed(&self, _: &[&RowWrite]) {}

    fn work_dir(&self) -> PathBuf {
        self.0.clone()
    }

    fn link_to(&self, _: &TableReader, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn verify_copy(
        &self,
        log: &SegmentLog,
        check_end: &dyn Fn(&LogState) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        check_end(&log.read_state(None, |_| true, |_| {})?)
    }
}

/// Opens a store without other files.
pub(crate) fn open_with(options: StoreOptions) -> Result<(Journal, TableReader), StoreError> {
    Journal::open::<WorkDir>(options).map(|(journal, tables, _)| (journal, tables))
}
