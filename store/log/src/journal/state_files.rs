//! The files of a state directory beside the segments and the database.

use crate::audit::log_state::LogState;
use crate::audit::segment_log::SegmentLog;
use crate::base::engine::{StoreOptions, TableReader};
use crate::base::row_write::RowWrite;
use crate::base::watermark::StoreCounts;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use store_base::disk::FreeSpace;
use store_base::error::StoreError;

/// The files that rows name, in folders of their own. The journal tells them what it commits; it does not know what they hold.
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
    fn lock_views<'f>(&'f self, writes: &mut dyn Iterator<Item = &RowWrite>) -> Option<Box<dyn Debug + 'f>>;

    /// Closes all files that readers have opened.
    fn forget_views(&self);

    /// Notes that `writes` are committed: they name files.
    fn note_committed(&self, writes: &mut dyn Iterator<Item = &RowWrite>);

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
