//! What the database keeps of a source: its entry, what was ingested, and which files hold it.

use super::sealed::Owner;
use crate::error::FileKind;
use domain::Sha256Hex;
use domain::ground::freshness::FreshnessPolicy;
use domain::ground::id::PipelineId;
use domain::ground::run::{FileRef, Run};
use domain::ground::source::{SourceRegistryEntry, VersionRecord};
use domain::ground::timeline::Release;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// So many runs that have come to nothing are remembered of a source.
const ATTEMPTS_MAX: usize = 100;

/// A source as it stands in the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceState {
    /// Its entry in the registry.
    pub entry: SourceRegistryEntry,
    /// How old its answers may be, where that was set.
    pub policy: Option<FreshnessPolicy>,
    /// When what it has said was last declared stale, and no run was begun since that is visible.
    pub invalidated_at: Option<Timestamp>,
    /// The runs that are visible, in the order of their numbers, from 1.
    pub completed: Vec<Completed>,
    /// What records go through by each definition that one of them has used, by its digest: as provenance tells of it.
    pub transformations: BTreeMap<Sha256Hex, Vec<String>>,
    /// The sorted files that hold their statements, the oldest first.
    pub files: Vec<FileRef>,
    /// The runs that are not visible, the oldest first.
    pub attempts: Vec<Sha256Hex>,
}

/// A run that is visible, as far as every reader needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// Its id.
    pub run_id: Sha256Hex,
    /// By which pipeline.
    pub pipeline_id: PipelineId,
    /// By which definition of it.
    pub pipeline_sha256: Sha256Hex,
    /// The payload's digest.
    pub raw_sha256: Sha256Hex,
    /// Where the payload was pulled from.
    pub source_url: Option<String>,
    /// The release that it has read.
    pub release: Release,
    /// The file that holds its rejects, its changes, and where each of its records is.
    pub rows: FileRef,
}

impl SourceState {
    /// A source that was just registered.
    #[must_use]
    pub const fn new(entry: SourceRegistryEntry) -> Self {
        Self {
            entry,
            policy: None,
            invalidated_at: None,
            completed: Vec::new(),
            transformations: BTreeMap::new(),
            files: Vec::new(),
            attempts: Vec::new(),
        }
    }

    /// Its sorted files: those with its statements, and each run's own.
    pub fn sorted_files(&self) -> impl Iterator<Item = &FileRef> {
        self.files.iter().chain(self.completed.iter().map(|completed| &completed.rows))
    }

    /// The owner of its files of this kind.
    pub(super) fn owner(&self, kind: FileKind) -> Owner {
        Owner::new(self.entry.oracle_id(), kind)
    }

    /// The number of the next run.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        u32::try_from(self.completed.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The visible run with this number.
    #[must_use]
    pub fn run(&self, number: u32) -> Option<&Completed> {
        self.completed.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The releases, in the order of the runs.
    #[must_use]
    pub fn releases(&self) -> Vec<Release> {
        self.completed.iter().map(|completed| completed.release.clone()).collect()
    }

    /// The run that counts for a version: the latest that has read it.
    #[must_use]
    pub fn read_as(&self, version: &str) -> Option<&Completed> {
        self.completed.iter().rev().find(|completed| completed.release.version == version)
    }

    /// The same source with a run among those that are not visible.
    #[must_use]
    pub fn with_attempt(mut self, run_id: &Sha256Hex) -> Self {
        self.attempts.retain(|known| known != run_id);
        self.attempts.push(run_id.clone());
        let over = self.attempts.len().saturating_sub(ATTEMPTS_MAX);
        self.attempts.drain(..over);
        self
    }

    /// The same source with a run that has become visible, whose records went through `transformations`, and whose
    /// statements are in `files`.
    ///
    /// What was declared stale is so no longer, where the run began after that and its release is the newest.
    #[must_use]
    pub fn with_completed(
        mut self,
        run: &Run,
        completed: Completed,
        transformations: Vec<String>,
        files: Vec<FileRef>,
    ) -> Self {
        let is_newest =
            self.completed.iter().all(|other| other.release.released_at <= completed.release.released_at);
        // what was declared stale after the payload was asked for, or handed in, is so still
        let begun_at = run.retrieved_at.unwrap_or(run.started_at);
        self.invalidated_at = self.invalidated_at.filter(|at| !is_newest || begun_at < *at);
        self.transformations.insert(completed.pipeline_sha256.clone(), transformations);
        self.attempts.retain(|known| *known != completed.run_id);
        self.entry = self.entry.with_version(VersionRecord {
            version: run.input.version.clone(),
            released_at: run.input.released_at,
            ingested_at: completed.release.ingested_at,
            record_count: Some(run.counts.records),
            checksum: completed.raw_sha256.clone(),
            changelog_url: None,
        });
        self.completed.push(completed);
        self.files = files;
        self
    }
}
