//! Results of the upkeep of a source: checks, pruning, rebuilding.

use super::id::SourceId;
use domain_base::digest::Sha256Hex;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The last check of all files and payloads of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceCheck {
    /// The time when it ended.
    pub checked_at: Timestamp,
    /// The number of faults that it found.
    pub fault_count: u64,
}

/// The progress of a check of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceCheckProgress {
    /// Bytes read so far.
    pub bytes_read: u64,
    /// All bytes to read: those of the files of facts twice, and those of the uncompressed payloads.
    pub bytes: u64,
}

/// The result of a check of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceCheckReport {
    /// The source.
    pub oracle_id: SourceId,
    /// The number of rows in its files.
    pub rows: u64,
    /// The fault in its files; null if there is none.
    pub file_fault: Option<String>,
    /// Its runs, in the order in which they became visible.
    pub runs: Vec<RunCheckReport>,
}

/// The result of a check of a run's payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunCheckReport {
    /// The run.
    pub run_id: Sha256Hex,
    /// The version of the source.
    pub version: String,
    /// The number of raw records that were compared with their digests.
    pub records: u64,
    /// The number of payload bytes that were read.
    pub payload_bytes: u64,
    /// Whether the payload exists or should exist; false if it was removed on purpose, so that there is nothing to check.
    pub has_payload: bool,
    /// The number of faults.
    pub fault_count: u64,
    /// The first of the faults.
    pub faults: Vec<String>,
}

/// The result of pruning a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PruneOutcome {
    /// Content that ceased to hold before this time was removed.
    pub before: Timestamp,
    /// The number of record versions that lost their content; their provenance stays.
    pub versions: u64,
    /// The payloads that were removed.
    pub payloads: Vec<Sha256Hex>,
    /// The number of bytes that this freed.
    pub freed_bytes: u64,
}

/// The content and payloads that a retention removes from a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourcePruning {
    /// The source.
    pub oracle_id: SourceId,
    #[serde(flatten)]
    pub outcome: PruneOutcome,
}

/// The content and payloads that a retention removes from all sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PruneReport {
    /// The sources with such content.
    pub sources: Vec<SourcePruning>,
    /// The sources that could not be pruned. The next retention tries it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpruned: Vec<UnprunedSource>,
}

/// A source that could not be pruned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UnprunedSource {
    /// The source.
    pub oracle_id: SourceId,
    /// The reason.
    pub cause: String,
}

/// The result of rebuilding the files of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RebuildOutcome {
    /// The source.
    pub oracle_id: SourceId,
    /// The number of runs whose payloads were read again; 0 if all files are intact.
    pub runs: u64,
    /// The number of prunings that were repeated.
    pub prunings: u64,
    /// The digests of the rebuilt files.
    pub files: Vec<Sha256Hex>,
}

impl SourceCheckReport {
    /// The number of faults in the files and the runs.
    #[must_use]
    pub fn fault_count(&self) -> u64 {
        u64::from(self.file_fault.is_some()) + self.runs.iter().map(|run| run.fault_count).sum::<u64>()
    }
}
