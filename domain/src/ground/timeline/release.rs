//! Releases, and which of them a question sees.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One run, as the release that it brought, or as the undo of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The number of the run within its source, in the order of ingestion.
    pub run: u32,
    /// The source version that it read.
    pub version: String,
    /// When the source released that version.
    pub released_at: Timestamp,
    /// When the run was committed.
    pub ingested_at: Timestamp,
    /// Whether the version holds all records, so that one that it lacks has been withdrawn.
    pub snapshot: bool,
    /// Whether it holds rejected records whose identity could not be read. Such a snapshot withdraws nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_unidentified: bool,
    /// The number of the run that this one takes back. Such a run is no release of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<u32>,
}

/// Which releases a question sees.
///
/// A question about a time sees no later release (`released_by`), whether it was ingested already or not, and, where it
/// asks for what was known at a time (`known_at`), no later ingestion. The default sees all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only what was ingested at or before this time.
    pub known_at: Option<Timestamp>,
    /// Only what its source had released at or before this time.
    pub released_by: Option<Timestamp>,
}

impl Scope {
    /// Whether the release is visible.
    #[must_use]
    pub fn sees(&self, release: &Release) -> bool {
        self.known_at.is_none_or(|at| release.ingested_at <= at)
            && (release.undoes.is_some() || self.released_by.is_none_or(|at| release.released_at <= at))
    }
}

impl Release {
    /// How new what it says is: as new as the release, and never newer than when it was learnt.
    #[must_use]
    pub fn as_of(&self) -> Timestamp {
        self.released_at.min(self.ingested_at)
    }
}
