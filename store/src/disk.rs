//! What the file system has to be told beside the files themselves.

use crate::error::StoreError;
use std::fs::File;
use std::path::Path;

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir)
        .and_then(|handle| handle.sync_all())
        .map_err(|source| StoreError::Io { path: dir.to_owned(), source })
}
