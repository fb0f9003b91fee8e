//! Checks that rejected verdicts of unknown sessions.

use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::rows::{self, CHUNK_BYTES, TableId};
use oracled_domain::verdict::session::{RejectingCheck, RejectingCheckKey};

/// Separates the session from the user id in the name of a row. No session id contains this character.
const SEPARATOR: char = '/';

/// The size of a stored rejecting check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectingCheckSize {
    /// The session and the user id.
    pub key: RejectingCheckKey,
    /// The revision; a newer rejecting check has a higher one.
    pub revision: u64,
    /// The size on the disk, in bytes, rounded up to whole chunks.
    pub bytes: u64,
}

impl TableReader {
    /// A rejecting check with its revision.
    ///
    /// # Errors
    /// The rejecting check cannot be read.
    pub fn rejecting_check(
        &self,
        key: &RejectingCheckKey,
    ) -> Result<Option<(RejectingCheck, u64)>, StoreError> {
        self.read_row(TableId::Refusals, &rejecting_check_name(key))
    }

    /// The size of a rejecting check; `None` if it does not exist.
    ///
    /// # Errors
    /// The rejecting check cannot be read.
    pub fn rejecting_check_size(
        &self,
        key: RejectingCheckKey,
    ) -> Result<Option<RejectingCheckSize>, StoreError> {
        let name = rejecting_check_name(&key);
        let head = self.read(|db, _| rows::head(db, self.dir(), TableId::Refusals, name.as_bytes()))?;
        Ok(head.map(|(revision, chunks)| {
            let bytes = u64::from(chunks) * CHUNK_BYTES as u64;
            RejectingCheckSize { key, revision, bytes }
        }))
    }

    /// The sizes of all rejecting checks.
    ///
    /// # Errors
    /// A rejecting check cannot be read.
    pub fn rejecting_check_sizes(&self) -> Result<Vec<RejectingCheckSize>, StoreError> {
        let names = self.names(TableId::Refusals, rows::all(TableId::Refusals), .., usize::MAX)?;
        let size = |name: String| {
            parse_rejecting_check_name(&name).and_then(|key| self.rejecting_check_size(key).transpose())
        };
        names.into_iter().filter_map(size).collect()
    }
}

/// The name of a rejecting check's row.
pub(crate) fn rejecting_check_name(key: &RejectingCheckKey) -> String {
    let uid = key.owner_uid.map(|uid| uid.to_string()).unwrap_or_default();
    format!("{}{SEPARATOR}{uid}", key.session_id)
}

/// Parses the name of a rejecting check's row.
fn parse_rejecting_check_name(name: &str) -> Option<RejectingCheckKey> {
    let (session_id, uid) = name.split_once(SEPARATOR)?;
    let owner_uid = if uid.is_empty() { None } else { Some(uid.parse().ok()?) };
    Some(RejectingCheckKey { session_id: session_id.parse().ok()?, owner_uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_key_survives_encoding_and_decoding() {
        for owner_uid in [None, Some(0), Some(u32::MAX)] {
            let key = RejectingCheckKey { session_id: "cs_1:a.b-c".parse().expect("a valid id"), owner_uid };
            assert_eq!(parse_rejecting_check_name(&rejecting_check_name(&key)), Some(key));
        }
    }
}
