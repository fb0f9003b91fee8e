//! The file with the sessions whose erasure has not ended. The log may no longer have their ids.

use crate::audit::mirror::erasure::lines_of;
use crate::audit::removal::EntryHead;
use crate::base::engine::TableReader;
use domain_base::session_id::SessionId;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use store_base::error::StoreError;
use store_base::files::{self, sync_dir};

const FILE: &str = "erasures.json";
/// The name of the file while it is written. A killed process can leave it.
const INCOMPLETE: &str = "erasures.json.new";

impl TableReader {
    /// Whether new entries commit to session ids, so that an erasure also removes the ids.
    #[must_use]
    pub fn covers_session_ids(&self) -> bool {
        self.engine().covers_session_ids()
    }

    /// The sessions of the file. If the file is missing or damaged, returns the sessions that the mirror still names in the entries `hidden`,
    /// from which the log has erased them. An erasure replaces the mirror last. So if the mirror does not name a session, none of its
    /// data are left.
    ///
    /// # Errors
    /// `Io` if the file or the mirror cannot be read.
    pub fn pending_erasures(&self, hidden: &BTreeSet<u64>) -> Result<BTreeSet<SessionId>, StoreError> {
        let path = self.dir().join(FILE);
        let json = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(read.map_err(|source| StoreError::Io { path: path.clone(), source })?),
        };
        match json.as_deref().map(serde_json::from_slice) {
            Some(Ok(sessions)) => return Ok(sessions),
            Some(Err(error)) => {
                tracing::warn!(%error, "{FILE} is no list of session ids; the open erasures are read from the log and its mirror");
            }
            None => {}
        }
        if hidden.is_empty() {
            return Ok(BTreeSet::new());
        }
        let lines = lines_of(self.dir(), |seq| hidden.contains(&seq))?;
        let heads = lines.values().filter_map(|line| serde_json::from_str::<EntryHead>(line).ok());
        Ok(heads.flat_map(|head| head.sessions().cloned().collect::<Vec<_>>()).collect())
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
    files::remove_if_exists(path).map_err(|source| StoreError::write_error(path, source))
}
