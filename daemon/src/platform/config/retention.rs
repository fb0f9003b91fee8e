//! The configuration of the retention of old data.

use super::{ConfigError, not_allowed_error};
use oracled_actors::verdict::erasure::RetentionDays;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// After how many days data are removed from all files of the state directory. Without a key, data of its kind are kept forever.
/// The daemon removes due data once a day, and 5 minutes after a start. [Retention](../operations.md#retention) has the details.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionSection {
    /// Days after the last change of a session. Then everything that `oraclectl erase` removes is removed.
    #[schema(minimum = 1, maximum = 36_500)]
    pub verdicts_days: Option<u32>,
    /// Days after a log entry. Then its caller and its erasable values are replaced by their hashes, except values of
    /// verifications. The session itself stays.
    #[schema(minimum = 1, maximum = 36_500)]
    pub log_values_days: Option<u32>,
    /// Days after a log entry about a verification or its review. Then its erasable values are replaced by their hashes, except its
    /// caller. Open reviews keep their values.
    #[schema(minimum = 1, maximum = 36_500)]
    pub verifications_days: Option<u32>,
    /// Days after a log entry. Then the entry is dropped from the log, and only its hash in the Merkle tree stays, so that all
    /// proofs of other entries stay valid. Sessions, verdicts and all other state stay. The log is dropped in blocks of some
    /// hundred entries.
    #[schema(minimum = 1, maximum = 36_500)]
    pub log_days: Option<u32>,
    /// Days after content of a source ceased to be valid. Then it is removed as by `oraclectl source prune`, with the payloads that
    /// no content needs; its provenance stays. A pipeline with a longer `storage.retention_days` keeps its content longer.
    #[schema(minimum = 1, maximum = 36_500)]
    pub payloads_days: Option<u32>,
}

impl RetentionSection {
    /// The age of a session is known from the log.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match (self.log_days, self.verdicts_days) {
            (Some(log), Some(verdicts)) if log < verdicts => Err(not_allowed_error(
                "retention.log_days",
                log,
                format!(
                    "at least `retention.verdicts_days` ({verdicts}), since the log has the ages of sessions"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The days by kind.
    #[must_use]
    pub const fn to_days(self) -> RetentionDays {
        RetentionDays {
            verdicts: self.verdicts_days,
            log_values: self.log_values_days,
            verifications: self.verifications_days,
            log: self.log_days,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_days_below_verdicts_days_are_refused() {
        for (log, verdicts, is_allowed) in [(10, 20, false), (20, 20, true), (30, 20, true)] {
            let section = RetentionSection {
                log_days: Some(log),
                verdicts_days: Some(verdicts),
                ..RetentionSection::default()
            };
            let checked = section.check();
            assert_eq!(checked.is_ok(), is_allowed, "{checked:?}");
        }
    }
}
