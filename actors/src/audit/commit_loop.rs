//! The commit loop: read, decide, commit. If a row has changed meanwhile, the loop starts again.

use crate::audit::logger::{CommitError, LoggerHandle};
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
    pub(crate) async fn decide_and_commit<T, E: From<CommitError>>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestSystem, id, logged_events, with_system};
    use oracled_domain::AuditEvent;
    use oracled_domain::SessionRecord;
    use oracled_domain::audit::event::ServiceStopped;
    use oracled_store::{RowExpectation, RowName};

    #[test]
    fn stale_decision_is_made_again_at_most_8_times() {
        with_system(|TestSystem { system, .. }| async move {
            for (fresh_at, expected_attempts, is_committed) in [(1, 1, true), (8, 8, true), (9, 8, false)] {
                let before = logged_events(&system.store).len();
                let mut attempts = 0;
                let committed = system.log.decide_and_commit(|| {
                    attempts += 1;
                    let revision = (attempts < fresh_at).then_some(u64::MAX);
                    let record = JournalRecord {
                        expect: vec![RowExpectation::new::<SessionRecord>(&id("cs_1"), revision)],
                        ..JournalRecord::from(AuditEvent::new(system.clock.now(), None, ServiceStopped {}))
                    };
                    Ok::<_, CommitError>(CommitDecision::Change(attempts, record))
                });
                let committed = committed.await;
                let stale = Err(CommitError::Stale(RowName::of::<SessionRecord>(&id("cs_1"))));
                let result = committed.map(|(attempt, receipt)| (attempt, receipt.is_some()));
                assert_eq!(result, if is_committed { Ok((expected_attempts, true)) } else { stale });
                assert_eq!(attempts, expected_attempts);
                assert_eq!(logged_events(&system.store).len() - before, usize::from(is_committed));
            }
        });
    }
}
