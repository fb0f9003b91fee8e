//! The state of a source in the database: its entry, its runs, and the files with its data; and the results of its
//! upkeep.

use crate::freshness::FreshnessPolicy;
use crate::id::{PipelineId, SourceId};
use crate::run::{IngestionRun, RunState, SortedFileRef};
use crate::source::{SourceRegistryEntry, VersionRecord};
use crate::timeline::{ReleaseScope, TimelineRun, VisibleReleases};
use domain_base::digest::Sha256Hex;
use domain_base::row::{IndexEntry, KeyedRow, Row, RowData, Table, check_row, not_indexed};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum number of invisible runs that the state of a source lists.
const ATTEMPTS_MAX: usize = 100;
/// The number of payloads whose chunks a new payload of the source can share.
const LATEST_PAYLOADS: usize = 2;

/// A source as stored in the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceState {
    pub entry: SourceRegistryEntry,
    /// The freshness policy, if one was set.
    pub policy: Option<FreshnessPolicy>,
    /// The periods in which its data was declared stale, the oldest first.
    pub invalidations: Vec<StalePeriod>,
    /// The number of invalidations so far. Unlike a timestamp it orders events correctly after the clock was set back.
    pub invalidation_count: u64,
    /// The runs that are visible, in the order of their numbers, from 1.
    pub completed: Vec<CompletedRun>,
    /// For provenance: the transformations of records by each used definition, under the digest of the definition.
    pub transformations: BTreeMap<Sha256Hex, Vec<String>>,
    /// The sorted files with its statements, the oldest first.
    pub files: Vec<SortedFileRef>,
    /// The runs that are not visible, the oldest first.
    pub attempts: Vec<Sha256Hex>,
    /// The runs that are held for an operator's decision, the oldest first.
    pub held: Vec<Sha256Hex>,
}

/// A period in which the data of a source counts as stale. It ends with a confirmation, or with a newer
/// release whose payload was requested after the last declaration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StalePeriod {
    /// When it was first declared.
    pub since: Timestamp,
    /// The number of the first declaration among the invalidations of the source.
    pub first: u64,
    /// When it was last declared.
    pub last_at: Timestamp,
    /// The number of the last declaration.
    pub last: u64,
    /// When an operator confirmed that the data is still valid.
    pub confirmed_at: Option<Timestamp>,
}

/// A visible run, with the values that every reader needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedRun {
    pub run_id: Sha256Hex,
    pub pipeline_id: PipelineId,
    /// The digest of the pipeline's definition.
    pub pipeline_sha256: Sha256Hex,
    /// The payload's SHA-256.
    pub raw_sha256: Sha256Hex,
    /// The URL from which the payload was pulled; `None` for an upload.
    pub source_url: Option<String>,
    /// The release that it read.
    pub release: TimelineRun,
    /// The number of invalidations of the source when the payload was requested or submitted, or the held run
    /// was approved.
    pub invalidation_count: u64,
    /// Number of accepted records.
    pub records: u64,
    /// The file with its rejects, its changes, and the positions of its records.
    pub rows: SortedFileRef,
    /// How its statements are stored.
    pub stated: StatedRecords,
}

/// The statements of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedRecords {
    /// The number of records that it states: accepted ones, and rejected ones with an identity.
    pub records: u64,
    /// The earlier run to which its rows are relative; `None` if it has a row for each record.
    pub base: Option<u32>,
    /// The number of series in which the places of the records without a row are stored.
    pub segments: u64,
}

impl SourceState {
    /// The state of a newly registered source.
    #[must_use]
    pub const fn new(entry: SourceRegistryEntry) -> Self {
        Self {
            entry,
            policy: None,
            invalidations: Vec::new(),
            invalidation_count: 0,
            completed: Vec::new(),
            transformations: BTreeMap::new(),
            files: Vec::new(),
            attempts: Vec::new(),
            held: Vec::new(),
        }
    }

    /// All its sorted files: those with its statements, and each run's own file.
    pub fn sorted_files(&self) -> impl Iterator<Item = &SortedFileRef> {
        self.files.iter().chain(self.completed.iter().map(|completed| &completed.rows))
    }

    /// The number of the next run.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        u32::try_from(self.completed.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The current time for questions about the source: `now`, or the time of its last run if that is later.
    /// After the clock was set back, the newest data thus stays in force.
    #[must_use]
    pub fn present(&self, now: Timestamp) -> Timestamp {
        self.completed.last().map_or(now, |last| last.release.ingested_at.max(now))
    }

    /// The visible run with this number.
    #[must_use]
    pub fn run(&self, number: u32) -> Option<&CompletedRun> {
        self.completed.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The latest visible run, if it has become visible since the held `run` was read: the changes of `run` are those to the data
    /// before it.
    #[must_use]
    pub fn run_since(&self, run: &IngestionRun) -> Option<&CompletedRun> {
        self.completed.last().filter(|last| run.state == RunState::Held && last.release.run >= run.number)
    }

    /// The releases, in the order of the runs.
    #[must_use]
    pub fn releases(&self) -> Vec<TimelineRun> {
        self.completed.iter().map(|completed| completed.release.clone()).collect()
    }

    /// The run that counts for a version: the latest that read it and was not undone.
    #[must_use]
    pub fn run_of_version(&self, version: &str) -> Option<&CompletedRun> {
        self.counting_runs().into_iter().rev().find(|completed| completed.release.version == version)
    }

    /// The runs that brought a release and were not undone, in the order of their numbers.
    #[must_use]
    pub fn counting_runs(&self) -> Vec<&CompletedRun> {
        let known = VisibleReleases::new(&self.releases(), ReleaseScope::default());
        let brings = |completed: &&CompletedRun| {
            completed.release.undoes.is_none() && !known.is_undone(completed.release.run)
        };
        self.completed.iter().filter(brings).collect()
    }

    /// The payloads of the latest runs, the latest first. The next payload probably shares most with them.
    #[must_use]
    pub fn latest_payloads(&self) -> Vec<Sha256Hex> {
        let runs = self.completed.iter().rev().filter(|completed| completed.release.undoes.is_none());
        runs.take(LATEST_PAYLOADS).map(|completed| completed.raw_sha256.clone()).collect()
    }

    /// The run that undid the run with this number, if any.
    #[must_use]
    pub fn undone_by(&self, number: u32) -> Option<&CompletedRun> {
        let undoes = |completed: &&CompletedRun| completed.release.undoes == Some(number);
        let is_undone = || VisibleReleases::new(&self.releases(), ReleaseScope::default()).is_undone(number);
        self.completed.iter().rev().find(undoes).filter(|_| is_undone())
    }

    /// The run that undid the run with this id, if any.
    #[must_use]
    pub fn run_undone_by(&self, run_id: &Sha256Hex) -> Option<&CompletedRun> {
        let completed = self.completed.iter().rev().find(|completed| completed.run_id == *run_id)?;
        self.undone_by(completed.release.run)
    }

    /// The time since which the source's data counts as stale, for a question that sees `scope`. Only the
    /// releases in `scope` end an invalidation. A question about the past counts the invalidations and
    /// confirmations up to that time. A question about the present counts all of them, even if the clock was set back.
    #[must_use]
    pub fn invalidated_at(&self, past: Option<Timestamp>, scope: ReleaseScope) -> Option<Timestamp> {
        // a shortcut, since each query calls this and most sources have no invalidations
        if self.invalidations.is_empty() {
            return None;
        }
        let is_before = |at: Timestamp| past.is_none_or(|past| at <= past);
        let newest = self.newest_invalidation_count(scope);
        self.invalidations.iter().rev().find_map(|invalidation| {
            let StalePeriod { since, first, last_at, last, confirmed_at } = *invalidation;
            let (at, number) = if is_before(last_at) { (last_at, last) } else { (since, first) };
            let lasts = is_before(at) && newest < number && !confirmed_at.is_some_and(is_before);
            lasts.then_some(at)
        })
    }

    /// The number of invalidations when the payload of the newest release in `scope` was requested or
    /// submitted, or its held run was approved.
    fn newest_invalidation_count(&self, scope: ReleaseScope) -> u64 {
        let newest = VisibleReleases::new(&self.releases(), scope).latest();
        newest.and_then(|run| self.run(run)).map_or(0, |completed| completed.invalidation_count)
    }

    /// When it was last declared stale, if it still is.
    #[must_use]
    pub fn stale_since(&self) -> Option<Timestamp> {
        self.invalidated_at(None, ReleaseScope::default())
    }

    /// The same source, declared stale.
    #[must_use]
    pub fn invalidated(mut self, at: Timestamp) -> Self {
        let lasts = self.stale_since().is_some();
        self.invalidation_count += 1;
        let (number, confirmed_at) = (self.invalidation_count, None);
        match self.invalidations.last_mut().filter(|last| lasts && last.confirmed_at.is_none()) {
            Some(last) => (last.last_at, last.last) = (at, number),
            None => {
                let (since, last_at, first, last) = (at, at, number, number);
                self.invalidations.push(StalePeriod { since, first, last_at, last, confirmed_at });
            }
        }
        self
    }

    /// The same source, no longer stale.
    #[must_use]
    pub fn confirmed(mut self, at: Timestamp) -> Self {
        let newest = self.newest_invalidation_count(ReleaseScope::default());
        for invalidation in &mut self.invalidations {
            if newest < invalidation.last {
                invalidation.confirmed_at.get_or_insert(at);
            }
        }
        self
    }

    /// The same source, with a run added to the runs that are not visible.
    #[must_use]
    pub fn with_attempt(mut self, run_id: &Sha256Hex) -> Self {
        self.held.retain(|held| held != run_id);
        self.attempts.retain(|known| known != run_id);
        self.attempts.push(run_id.clone());
        let over = self.attempts.len().saturating_sub(ATTEMPTS_MAX);
        self.attempts.drain(..over);
        self
    }

    /// The same source, with a held run added.
    #[must_use]
    pub fn with_held(self, run_id: &Sha256Hex) -> Self {
        let mut state = self.with_attempt(run_id);
        state.held.push(run_id.clone());
        state
    }

    /// The same source, with a run that has become visible. Its records went through `transformations`, and
    /// all statements of the source are now in `files`.
    #[must_use]
    pub fn with_completed(
        mut self,
        completed: CompletedRun,
        transformations: Vec<String>,
        files: Vec<SortedFileRef>,
    ) -> Self {
        if completed.release.undoes.is_none() {
            self.transformations.insert(completed.pipeline_sha256.clone(), transformations);
        }
        self.attempts.retain(|known| *known != completed.run_id);
        self.completed.push(completed);
        self.files = files;
        self.entry = self.entry.with_versions(self.version_history());
        self
    }

    /// The versions whose records count.
    fn version_history(&self) -> Vec<VersionRecord> {
        let mut versions = BTreeMap::new();
        for CompletedRun { release, records, raw_sha256, .. } in self.counting_runs() {
            let record = VersionRecord {
                version: release.version.clone(),
                released_at: release.released_at,
                ingested_at: release.ingested_at,
                record_count: Some(*records),
                checksum: raw_sha256.clone(),
            };
            versions.insert(release.version.clone(), record);
        }
        versions.into_values().collect()
    }
}

impl Row for SourceState {
    type Key = SourceId;
    const TABLE: &'static Table = &Table {
        name: "sources",
        bundle: None,
        data: RowData::Impersonal,
        is_new_work: true,
        names_files: true,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl KeyedRow for SourceState {
    fn key(&self) -> SourceId {
        self.entry.oracle_id().clone()
    }
}

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
