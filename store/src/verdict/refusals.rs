//! Checks that refused verdicts of sessions that are not known.

use crate::base::engine::Tables;
use crate::base::error::StoreError;
use crate::base::rows::{self, CHUNK_BYTES, Table};
use oracled_domain::verdict::session::{Refusal, RefusalKey};

/// Separates the session from the user id in the name of a row. No session id holds this character.
const SEPARATOR: char = '/';

/// The size of a stored refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalSize {
    /// Its session and user id.
    pub key: RefusalKey,
    /// Its revision; a newer refusal has a higher one.
    pub revision: u64,
    /// Its bytes on the disk, rounded up.
    pub bytes: u64,
}

impl Tables {
    /// The refusal with that key, and its revision.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn refusal(&self, key: &RefusalKey) -> Result<Option<(Refusal, u64)>, StoreError> {
        self.read_row(Table::Refusals, &refusal_name(key))
    }

    /// The size of the refusal with that key, if there is one.
    ///
    /// # Errors
    /// Where it cannot be read.
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
    /// Where one cannot be read.
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

/// The key of the row with that name.
fn refusal_key(name: &str) -> Option<RefusalKey> {
    let (session_id, uid) = name.split_once(SEPARATOR)?;
    let owner_uid = if uid.is_empty() { None } else { Some(uid.parse().ok()?) };
    Some(RefusalKey { session_id: session_id.parse().ok()?, owner_uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_a_refusal_is_read_back_from_its_name() {
        for owner_uid in [None, Some(0), Some(u32::MAX)] {
            let key = RefusalKey { session_id: "cs_1:a.b-c".parse().expect("an id"), owner_uid };
            assert_eq!(refusal_key(&refusal_name(&key)), Some(key));
        }
    }
}
