//! Releases, and the scope of a query.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A run, either the release that it read or the undo of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineRun {
    /// The number of the run within its source, in the order of ingestion.
    pub run: u32,
    /// The source version that it read.
    pub version: String,
    /// When the source released that version.
    pub released_at: Timestamp,
    /// When the run was committed.
    pub ingested_at: Timestamp,
    /// Whether the version contains all records of the source, so that a missing record is withdrawn.
    pub snapshot: bool,
    /// Whether it has rejected records whose identity could not be read. Such a release withdraws nothing that was in
    /// force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_unidentified: bool,
    /// The number of the run that this one undoes. Such a run is not a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u32>,
}

/// The releases that a query sees.
///
/// A query about a time sees no release after that time (`released_by`), ingested or not. A query with `known_at` sees
/// no ingestion after that time. The default sees all releases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReleaseScope {
    /// Only releases that were ingested at or before this time.
    pub known_at: Option<Timestamp>,
    /// Only versions that the source had released at or before this time.
    pub released_by: Option<Timestamp>,
}

impl ReleaseScope {
    /// Whether the release is visible.
    #[must_use]
    pub fn is_visible(&self, release: &TimelineRun) -> bool {
        self.known_at.is_none_or(|at| release.ingested_at <= at)
            && (release.undoes.is_some() || self.released_by.is_none_or(|at| release.released_at <= at))
    }
}

impl TimelineRun {
    /// The time from which the age of its data is counted: the release time, or the time of ingestion if that is
    /// earlier.
    #[must_use]
    pub fn as_of(&self) -> Timestamp {
        self.released_at.min(self.ingested_at)
    }
}
