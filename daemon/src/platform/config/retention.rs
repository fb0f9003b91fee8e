//! The configuration of the retention of old data.

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
}

impl RetentionSection {
    /// The days by kind.
    #[must_use]
    pub const fn to_days(self) -> RetentionDays {
        RetentionDays {
            verdicts: self.verdicts_days,
            log_values: self.log_values_days,
            verifications: self.verifications_days,
        }
    }
}
