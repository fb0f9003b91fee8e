//! Checks that rejected verdicts of unknown sessions.

use crate::base::engine::Tables;
use crate::base::error::StoreError;
use crate::base::rows::{self, CHUNK_BYTES, Table};
use oracled_domain::verdict::session::{Refusal, RefusalKey};

/// Separates the session from the user id in the name of a row. No session id contains this character.
const SEPARATOR: char = '/';

/// The size of a stored refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalSize {
    /// The session and the user id.
    pub key: RefusalKey,
    /// The revision; a newer refusal has a higher one.
    pub revision: u64,
    /// The size on the disk, in bytes, rounded up to whole chunks.
    pub bytes: u64,
}

impl Tables {
    /// A refusal with its revision.
    ///
    /// # Errors
    /// The refusal cannot be read.
    pub fn refusal(&self, key: &RefusalKey) -> Result<Option<(Refusal, u64)>, StoreError> {
        self.read_row(Table::Refusals, &refusal_name(key))
    }

    /// The size of a refusal; `None` if it does not exist.
    ///
    /// # Errors
    /// The refusal cannot be read.
    pub fn refusal_size(&self, key: RefusalKey) -> Result<Option<RefusalSize>, StoreError> {
        let name = refusal_name(&key);
        let head = self.read(|db, _| rows::head(db, self.dir(), Table::Refusals, name.as_bytes()))?;
        Ok(head.map(|(revision, chunks)| {
            let bytes = u64::from(chunks) * CHUNK_BYTES as u64;
            RefusalSize { key, revision, bytes }
        }))
    }

    /// The sizes of all refusals.
    ///
    /// # Errors
    /// A refusal cannot be read.
    pub fn refusal_sizes(&self) -> Result<Vec<RefusalSize>, StoreError> {
        let names = self.names(Table::Refusals, rows::all(Table::Refusals), .., usize::MAX)?;
        let size = |name: String| refusal_key(&name).and_then(|key| self.refusal_size(key).transpose());
        names.into_iter().filter_map(size).collect()
    }
}

/// The name of a refusal's row.
pub(crate) fn refusal_name(key: &RefusalKey) -> String {
    let uid = key.owner_uid.map(|uid| uid.to_string()).unwrap_or_default();
    format!("{}{SEPARATOR}{uid}", key.session_id)
}

/// Parses the name of a refusal's row.
fn refusal_key(name: &str) -> Option<RefusalKey> {
    let (session_id, uid) = name.split_once(SEPARATOR)?;
    let owner_uid = if uid.is_empty() { None } else { Some(uid.parse().ok()?) };
    Some(RefusalKey { session_id: session_id.parse().ok()?, owner_uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_key_survives_encoding_and_decoding() {
        for owner_uid in [None, Some(0), Some(u32::MAX)] {
            let key = RefusalKey { session_id: "cs_1:a.b-c".parse().expect("an id"), owner_uid };
            assert_eq!(refusal_key(&refusal_name(&key)), Some(key));
        }
    }
}
