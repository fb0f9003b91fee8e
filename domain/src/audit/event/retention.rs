//! The entries of a retention: the removal of old data.

use super::PeerCredentials;
use crate::verdict::session::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A removal of old data started. It continues after a restart until its end is logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionStartEntry {
    /// The data to remove.
    pub due: DueData,
    /// The administrator's process; null for the daily run.
    pub peer: Option<PeerCredentials>,
    /// The public key of the log if entries are dropped: the last entry that names it can be one of them. Null otherwise.
    pub log_key: Option<String>,
}

/// The rows of old sessions were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionExpiryEntry {
    /// The number of the entry with which the removal started.
    pub started_seq: u64,
    /// The removed sessions.
    pub session_ids: Vec<SessionId>,
}

/// Old data were removed from all files of the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionEndEntry {
    /// The number of the entry with which the removal started.
    pub started_seq: u64,
    /// The data that were due when it started.
    pub due: DueData,
    /// Number of sessions that were removed.
    pub sessions: u64,
    /// Number of rotated files of `oracle_log.jsonl` that may still have the data.
    pub unread_files: u64,
}

/// The data that are older than configured, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DueData {
    /// Sessions with their verdicts; null if they are kept forever.
    pub verdicts: Option<DueKind>,
    /// Log entries with callers or other erasable values, except those of verifications; null if the values are kept forever.
    pub log_values: Option<DueKind>,
    /// Log entries with values of verifications and their reviews; null if the values are kept forever.
    pub verifications: Option<DueKind>,
    /// Log entries that are dropped; null if all are kept forever. `last_seq` is the last one: it can be earlier than `before`
    /// allows, since the log is dropped in blocks.
    pub log: Option<DueKind>,
}

/// The data of a kind that are older than configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DueKind {
    /// The configured number of days.
    pub days: u32,
    /// The data are older than this time.
    pub before: Timestamp,
    /// The last entry of the log before this time.
    pub last_seq: u64,
    /// Number of sessions or entries.
    pub count: u64,
    /// The time of the oldest one; null if there is none.
    pub oldest: Option<Timestamp>,
}

impl DueData {
    /// Whether any data are due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        [&self.verdicts, &self.log_values, &self.verifications, &self.log]
            .into_iter()
            .flatten()
            .any(|kind| kind.count > 0)
    }

    /// The last entry of the log that is dropped; `None` if no entry is due.
    #[must_use]
    pub fn dropped_up_to(&self) -> Option<u64> {
        self.log.as_ref().filter(|kind| kind.count > 0).map(|kind| kind.last_seq)
    }
}
