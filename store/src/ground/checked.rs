//! The result of the last check of each source.

use crate::base::error::StoreError;
use crate::base::meta;
use crate::ground::tables::Store;
use jiff::Timestamp;
use oracled_domain::ground::check::SourceCheck;
use oracled_domain::ground::id::SourceId;

impl Store {
    /// The last completed check of a source.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn source_check(&self, oracle_id: &SourceId) -> Result<Option<SourceCheck>, StoreError> {
        let Some(json) = meta::source_check(self.engine(), oracle_id)? else { return Ok(None) };
        // an unreadable result counts as missing: the next check replaces it
        Ok(serde_json::from_slice(&json).ok())
    }

    /// Stores the result of a check of a source.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_source_check(&self, oracle_id: &SourceId, check: SourceCheck) -> Result<(), StoreError> {
        let json = serde_json::to_vec(&check).map_err(|error| StoreError::Corrupt {
            dir: self.dir().to_owned(),
            detail: format!("the check of {oracle_id}: {error}"),
        })?;
        meta::put_source_check(self.engine(), oracle_id, &json)
    }

    /// The sources that were not checked between `since` and `now`. Sources that were never checked come
    /// first, the others in the order of their last check.
    ///
    /// # Errors
    /// The sources cannot be read.
    pub fn unchecked_sources(&self, since: Timestamp, now: Timestamp) -> Result<Vec<SourceId>, StoreError> {
        let mut unchecked = Vec::new();
        for source in self.sources()? {
            let oracle_id = source.entry.oracle_id();
            let checked_at = self.source_check(oracle_id)?.map(|check| check.checked_at);
            // a check after `now` was noted before the clock was set back
            if checked_at.is_none_or(|at| at < since || at > now) {
                unchecked.push((checked_at, oracle_id.clone()));
            }
        }
        unchecked.sort();
        Ok(unchecked.into_iter().map(|(_, oracle_id)| oracle_id).collect())
    }
}
