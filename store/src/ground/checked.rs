//! What the last check of each source found.

use crate::engine::Store;
use crate::error::StoreError;
use crate::meta;
use domain::ground::id::SourceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The last check of all files and payloads of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCheck {
    /// The time when it ended.
    pub checked_at: Timestamp,
    /// The number of faults that it found.
    pub fault_count: u64,
}

impl Store {
    /// The last check of a source that came to its end.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn source_check(&self, oracle_id: &SourceId) -> Result<Option<SourceCheck>, StoreError> {
        let Some(json) = meta::source_check(self.engine(), oracle_id)? else { return Ok(None) };
        // one that cannot be read is made again
        Ok(serde_json::from_slice(&json).ok())
    }

    /// Notes what a check of a source found.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn put_source_check(&self, oracle_id: &SourceId, check: SourceCheck) -> Result<(), StoreError> {
        let json = serde_json::to_vec(&check).map_err(|error| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: format!("the check of {oracle_id}: {error}"),
        })?;
        meta::put_source_check(self.engine(), oracle_id, &json)
    }

    /// The sources that were not checked between `since` and `now`: those that were never checked first, then by the time of
    /// the last check.
    ///
    /// # Errors
    /// Where the sources cannot be read.
    pub fn unchecked_sources(&self, since: Timestamp, now: Timestamp) -> Result<Vec<SourceId>, StoreError> {
        let mut unchecked = Vec::new();
        for source in self.sources()? {
            let oracle_id = source.entry.oracle_id();
            let checked_at = self.source_check(oracle_id)?.map(|check| check.checked_at);
            // the clock may have been set back since
            if checked_at.is_none_or(|at| at < since || at > now) {
                unchecked.push((checked_at, oracle_id.clone()));
            }
        }
        unchecked.sort();
        Ok(unchecked.into_iter().map(|(_, oracle_id)| oracle_id).collect())
    }
}
