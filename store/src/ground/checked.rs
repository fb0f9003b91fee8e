//! The result of the last check of each source.

use crate::ground::tables::Store;
use domain_ground::id::SourceId;
use domain_ground::upkeep::SourceCheck;
use jiff::Timestamp;
use store_base::error::StoreError;

impl Store {
    /// The last completed check of a source.
    #[must_use]
    pub fn source_check(&self, oracle_id: &SourceId) -> Option<SourceCheck> {
        self.engine().checks().of_source(oracle_id)
    }

    /// Stores the result of a check of a source.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub fn put_source_check(&self, oracle_id: &SourceId, check: SourceCheck) -> Result<(), StoreError> {
        self.engine().checks().put_source(oracle_id.clone(), check)
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
            let checked_at = self.source_check(oracle_id).map(|check| check.checked_at);
            // a check after `now` was noted before the clock was set back
            if checked_at.is_none_or(|at| at < since || at > now) {
                unchecked.push((checked_at, oracle_id.clone()));
            }
        }
        unchecked.sort();
        Ok(unchecked.into_iter().map(|(_, oracle_id)| oracle_id).collect())
    }
}
