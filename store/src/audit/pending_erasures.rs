//! The sessions whose erasure is not complete, in a file, if an erasure also removes session ids: the log may no longer have them
//! when the erasure continues.

use crate::base::engine::TableReader;
use domain_base::session_id::SessionId;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use store_base::disk::sync_dir;
use store_base::error::StoreError;

const FILE: &str = "erasures.json";
/// The file while it is written. A kill can leave it.
const INCOMPLETE: &str = "erasures.json.new";

impl TableReader {
    /// Whether new entries commit to session ids, so that an erasure also removes the ids.
    #[must_use]
    pub fn covers_session_ids(&self) -> bool {
        self.engine().covers_session_ids()
    }

    /// The sessions of the file; none if it does not exist.
    ///
    /// # Errors
    /// `Io` if the file cannot be read, `Corrupt` if it is not a list of session ids.
    pub fn pending_erasures(&self) -> Result<BTreeSet<SessionId>, StoreError> {
        let path = self.dir().join(FILE);
        let json = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            read => read.map_err(|source| StoreError::Io { path: path.clone(), source })?,
        };
        serde_json::from_slice(&json).map_err(|error| {
            let detail = format!(
                "{FILE} is not a list of session ids: {error}; remove it, and erase the sessions again"
            );
            StoreError::Corrupt { dir: self.dir().to_owned(), detail }
        })
    }

    /// Stores the sessions in the file, and removes the file if there are none.
    ///
    /// # Errors
    /// The file cannot be written or removed.
    pub fn put_pending_erasures(&self, sessions: &BTreeSet<SessionId>) -> Result<(), StoreError> {
        let dir = self.dir();
        let (path, incomplete) = (dir.join(FILE), dir.join(INCOMPLETE));
        if sessions.is_empty() {
            for file in [&incomplete, &path] {
                remove_if_exists(file)?;
            }
            return sync_dir(dir);
        }
        let json = serde_json::to_vec(sessions).expect("session ids are texts");
        let written = File::create(&incomplete).and_then(|mut file| {
            file.write_all(&json)?;
            file.sync_all()?;
            fs::rename(&incomplete, &path)
        });
        written.map_err(|source| StoreError::write_error(&path, source))?;
        sync_dir(dir)
    }
}

fn remove_if_exists(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| StoreError::write_error(path, source)),
    }
}
