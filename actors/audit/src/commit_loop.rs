//! The commit loop: read, decide, commit. If a row has changed meanwhile, the loop starts again.

use crate::logger::{CommitError, LoggerHandle};
use oracled_store::{CommitReceipt, JournalRecord};

/// Maximum number of attempts for one decision.
const ATTEMPTS_MAX: usize = 8;

/// The result of a decision.
pub enum CommitDecision<T> {
    /// There is nothing to commit.
    Already(T),
    /// The record must be committed.
    Change(T, JournalRecord),
}

impl LoggerHandle {
    /// Decides and commits. If a row on which the record depends has changed, `decide` is called again: it
    /// reads the rows itself. Returns the result of the decision, and the receipt if there was a commit.
    ///
    /// # Errors
    /// The error of `decide`; `Unavailable`; `Stale` if a row has changed during each of 8 attempts.
    pub async fn decide_and_commit<T, E: From<CommitError>>(
        &self,
        mut decide: impl FnMut() -> Result<CommitDecision<T>, E>,
    ) -> Result<(T, Option<CommitReceipt>), E> {
        let mut attempt = 1;
        loop {
            let (result, record) = match decide()? {
                CommitDecision::Already(result) => return Ok((result, None)),
                CommitDecision::Change(result, record) => (result, record),
            };
            match self.commit(record).await {
                Ok(receipt) => return Ok((result, Some(receipt))),
                Err(CommitError::Stale(_)) if attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
