//! Sessions, their verdicts and orders, held verdicts, costs, regenerations, refusals, and mail.

pub(crate) mod expiry;
pub(crate) mod orders;
pub(crate) mod outbox;
pub(crate) mod sessions;

use crate::base::engine::TableReader;
use crate::base::rows::{self, CHUNK_BYTES};
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::cost_budget::{COSTS, DayCosts, day_name};
use domain_verdict::held::HeldVerdict;
use domain_verdict::regen::RegenAttempt;
use domain_verdict::session::RejectingCheck;
use jiff::civil::Date;
use store_base::error::StoreError;

// The costs of model calls, as one row for each UTC day.
//
// The journal computes the rows from the events of a record, in the commit of the record.

/// The number of days that are read at a time.
const AT_ONCE: usize = 100;

impl TableReader {
    /// The costs of one day.
    pub fn costs_of_day(&self, day: Date) -> Result<DayCosts, StoreError> {
        Ok(self.own_row(COSTS.name, &day_name(day))?.unwrap_or_default())
    }

    /// The costs of all days from `since` to `until`, the earliest day first. Blocks on disk reads.
    pub fn costs(&self, since: Option<Date>, until: Option<Date>) -> Result<Vec<DayCosts>, StoreError> {
        let before = since.and_then(|since| since.yesterday().ok());
        let mut after = before.map(day_name);
        let mut costs = Vec::new();
        loop {
            let names = self.names_after(COSTS.name, after.as_deref(), AT_ONCE)?;
            let Some(last) = names.last() else { return Ok(costs) };
            after = Some(last.clone());
            for name in names {
                if until.is_some_and(|until| name > day_name(until)) {
                    return Ok(costs);
                }
                costs.extend(self.own_row(COSTS.name, &name)?);
            }
        }
    }
}

impl TableReader {
    /// The verdict of a session that the policy holds, with its revision.
    ///
    /// # Errors
    /// The held verdict cannot be read.
    pub fn held_verdict(&self, session_id: &SessionId) -> Result<Option<(HeldVerdict, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The revision of the held verdict of a session, even if the row is damaged.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn held_verdict_revision(&self, session_id: &SessionId) -> Result<Option<u64>, StoreError> {
        let name = session_id.as_str().as_bytes();
        let head = self.read(|db, _| rows::head(db, self.dir(), HeldVerdict::TABLE.name, name))?;
        Ok(head.map(|(revision, _)| revision))
    }

    /// Whether the policy holds any verdict.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn has_held_verdicts(&self) -> Result<bool, StoreError> {
        Ok(!self.names_after(HeldVerdict::TABLE.name, None, 1)?.is_empty())
    }
}

impl TableReader {
    /// The latest attempt of a session, with its revision.
    pub fn regen_attempt(&self, session_id: &SessionId) -> Result<Option<(RegenAttempt, u64)>, StoreError> {
        self.get(session_id)
    }
}

/// The size of a stored rejecting check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectingCheckSize {
    pub session_id: SessionId,
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
        session_id: &SessionId,
    ) -> Result<Option<(RejectingCheck, u64)>, StoreError> {
        self.get(session_id)
    }

    /// The size of a rejecting check; `None` if it does not exist.
    ///
    /// # Errors
    /// The rejecting check cannot be read.
    pub fn rejecting_check_size(
        &self,
        session_id: SessionId,
    ) -> Result<Option<RejectingCheckSize>, StoreError> {
        let name = session_id.as_str().as_bytes();
        let head = self.read(|db, _| rows::head(db, self.dir(), RejectingCheck::TABLE.name, name))?;
        Ok(head.map(|(revision, chunks)| {
            let bytes = u64::from(chunks) * CHUNK_BYTES as u64;
            RejectingCheckSize { session_id, revision, bytes }
        }))
    }

    /// The sizes of all rejecting checks.
    ///
    /// # Errors
    /// A rejecting check cannot be read.
    pub fn rejecting_check_sizes(&self) -> Result<Vec<RejectingCheckSize>, StoreError> {
        let names = self.names(rows::all(RejectingCheck::TABLE.name), .., usize::MAX)?;
        let size = |name: String| {
            name.parse().ok().and_then(|session_id| self.rejecting_check_size(session_id).transpose())
        };
        names.into_iter().filter_map(size).collect()
    }
}
