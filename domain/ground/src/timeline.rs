//! The two axes of time: validity, and the time of knowledge (seed: `rfc-0002-ground-truth`, "Provenance Chain" and
//! "Query Contract").
//!
//! A newer release rewrites nothing. The [`RecordStatement`] of a run about a record never changes. Its
//! validity is computed from all statements of that record and from the releases of its source:
//!
//! - Releases are ordered by release time, then by the text of their version; never by arrival.
//! - A version can be read several times. For each record, the latest reading counts that is certain about it: one that
//!   states the record, or one that lacks it and has no reject without an identity. A reading that rejected the record,
//!   or may have done so, says nothing about it: what was in force before this reading stays in force, and what was not
//!   stays out of force. It is then unconfirmed by that version.
//! - So a release that rejected the record does not withdraw it either, and a release with a reject that cannot be
//!   identified withdraws nothing. Both hold for new versions and for versions that are read again.
//! - A statement is valid from its `valid_from` on, or from the time of its release if the record names none. The next
//!   statement by `valid_from` ends it.
//! - If several statements have the same `valid_from`, the one of the latest release counts. The others were corrected:
//!   they have no interval ([`StatementState::Corrected`]). Statements with the same content are one, represented by
//!   the earliest of them.
//! - Adjacent intervals with the same content are one version, and the earliest statement represents it.
//! - A snapshot without the record ends, at its release, the version that was last seen before it. A later statement
//!   begins a new version, even with the same content. Other releases end nothing by leaving records out.
//! - A withdrawal does not affect later statements. A statement after the withdrawal with the same or an earlier
//!   `valid_from` replaces the withdrawn one.
//! - An undo removes a run from the time of its commit on. An undo can itself be undone.
//! - A query about a time sees only the releases up to that time ([`ReleaseScope`]).
//! - An interval that would end before it begins is dropped. If the record itself names a `valid_until` up to its
//!   `valid_from`, the record had expired by then, and so had its former content.

mod history;

use crate::timeline::history::RecordPlacement;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::IntoStaticStr;

pub use history::{KnownVersion, ReleaseHistory};

/// The statement of one run about one source record; at most one for each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordStatement {
    /// The number of the run within its source.
    pub run: u32,
    /// The start of validity, if the record names it.
    pub valid_from: Option<Timestamp>,
    /// The end of validity, exclusive, if the record names it.
    pub valid_until: Option<Timestamp>,
    /// The SHA-256 of its content; `None` for a record that was rejected.
    pub content: Option<[u8; 32]>,
}

/// How a version ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionEnd {
    /// It has no end.
    Open,
    /// It is superseded by the version that the statement with this index represents.
    Superseded(usize),
    /// It is withdrawn by the release of this run, a snapshot without the record.
    Withdrawn(u32),
    /// It expires at the time that the record itself names.
    Expired,
}

/// A period in which a record has the same content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordVersion {
    /// The index of the statement that represents it: the first one with this content.
    pub statement: usize,
    /// The SHA-256 of the content.
    pub content: [u8; 32],
    /// The start of validity.
    pub valid_from: Timestamp,
    /// The end of validity, exclusive; `None` without an end.
    pub valid_until: Option<Timestamp>,
    /// How it ends.
    pub ended_by: VersionEnd,
    /// The run of the latest visible release that states this content. The version's age is counted from it.
    pub last_seen: u32,
    /// The run of the latest visible release that could not confirm it, because this record, or one that cannot be
    /// identified, was rejected.
    pub unconfirmed_by: Option<u32>,
}

impl RecordVersion {
    /// Whether the version is valid at `time`.
    #[must_use]
    pub fn is_valid_at(&self, time: Timestamp) -> bool {
        self.valid_from <= time && self.valid_until.is_none_or(|until| time < until)
    }
}

/// The version that is valid at `time`. `versions` must be in the order of `valid_from`, as
/// [`VisibleReleases::versions`] returns them.
#[must_use]
pub fn at(versions: &[RecordVersion], time: Timestamp) -> Option<&RecordVersion> {
    let begun = versions.partition_point(|version| version.valid_from <= time);
    versions.get(begun.checked_sub(1)?).filter(|version| version.is_valid_at(time))
}

/// The releases of one source that count within a [`ReleaseScope`].
///
/// It is created once for many records. Each query of it takes time logarithmic in the number of releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleReleases {
    /// The readings of the releases in release order. The index of a reading is its rank.
    readings: Vec<VersionReading>,
    /// The runs of the readings, in ascending order, with their ranks.
    ranks: Vec<(u32, usize)>,
    /// The ranks of the readings that withdraw each record that no reading of their version has, in ascending order.
    withdrawing: Vec<usize>,
    /// The snapshots whose latest reading cannot confirm a record that it lacks, in ascending order of their place.
    unidentified: Vec<UnconfirmingVersion>,
    /// The runs that were undone.
    undone: BTreeSet<u32>,
}

/// A run that read a version and was not undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct VersionReading {
    run: u32,
    released_at: Timestamp,
    snapshot: bool,
    has_unidentified: bool,
    /// The rank of the latest reading of the same version. It identifies the version.
    latest: usize,
    /// The rank of the previous reading of the same version.
    previous: Option<usize>,
}

/// A version whose latest reading cannot confirm a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnconfirmingVersion {
    /// The rank of that reading, or of the reading that counts for the record if it is greater.
    place: usize,
    /// The rank of that reading.
    latest: usize,
}

/// All statements of one record with the same `valid_from`, combined.
#[derive(Debug, Clone, Copy)]
struct TimelineEntry {
    /// The first statement with this content.
    statement: usize,
    content: [u8; 32],
    valid_from: Timestamp,
    /// The end of validity according to the latest of the statements.
    valid_until: Option<Timestamp>,
    /// The rank of the latest reading with this content.
    last_seen: usize,
    /// The rank of the first reading of a snapshot after `last_seen` that lacks the record.
    withdrawn: Option<usize>,
    /// Whether a statement after the withdrawal replaces this entry.
    overruled: bool,
}

impl VisibleReleases {
    /// The releases among `releases` that `scope` sees. `releases` must be in the order of their runs.
    #[must_use]
    pub fn new(releases: &[TimelineRun], scope: ReleaseScope) -> Self {
        let mut undone = BTreeSet::new();
        // an undo is later than the run that it undoes, and it counts unless a later undo undoes it
        for release in releases.iter().rev().filter(|release| scope.is_visible(release)) {
            if !undone.contains(&release.run) {
                undone.extend(release.undoes);
            }
        }
        let counts = |release: &&TimelineRun| {
            release.undoes.is_none() && !undone.contains(&release.run) && scope.is_visible(release)
        };
        let mut ordered: Vec<_> = releases.iter().filter(counts).collect();
        ordered.sort_unstable_by_key(|release| (release.released_at, release.version.as_str(), release.run));
        let mut by_version: Vec<_> = ordered.iter().enumerate().collect();
        by_version.sort_unstable_by_key(|(_, release)| (release.version.as_str(), release.run));
        let (mut readings, mut withdrawing, mut unidentified) = (Vec::new(), Vec::new(), Vec::new());
        for version in by_version.chunk_by(|(_, one), (_, other)| one.version == other.version) {
            let Some((latest, last)) = version.last() else { continue };
            let certain = version.iter().rev().find(|(_, release)| !release.has_unidentified);
            withdrawing.extend(certain.filter(|(_, release)| release.snapshot).map(|(rank, _)| *rank));
            if last.snapshot && last.has_unidentified {
                let place = certain.map_or(*latest, |(rank, _)| *rank.max(latest));
                unidentified.push(UnconfirmingVersion { place, latest: *latest });
            }
            let mut previous = None;
            for (rank, release) in version {
                let reading = VersionReading {
                    run: release.run,
                    released_at: release.released_at,
                    snapshot: release.snapshot,
                    has_unidentified: release.has_unidentified,
                    latest: *latest,
                    previous: previous.replace(*rank),
                };
                readings.push((*rank, reading));
            }
        }
        readings.sort_unstable_by_key(|(rank, _)| *rank);
        withdrawing.sort_unstable();
        unidentified.sort_unstable_by_key(|version| version.place);
        let mut ranks: Vec<_> = readings.iter().map(|(rank, reading)| (reading.run, *rank)).collect();
        ranks.sort_unstable();
        let readings = readings.into_iter().map(|(_, reading)| reading).collect();
        Self { readings, ranks, withdrawing, unidentified, undone }
    }

    /// Whether the run with this number counts: it is known, and no later run has read its version again.
    #[must_use]
    pub fn is_counted(&self, run: u32) -> bool {
        self.rank(run).is_some_and(|rank| self.is_latest(rank))
    }

    /// Whether the run with this number was undone.
    #[must_use]
    pub fn is_undone(&self, run: u32) -> bool {
        self.undone.contains(&run)
    }

    /// The run of the latest release that counts.
    #[must_use]
    pub fn latest(&self) -> Option<u32> {
        let latest = (0..self.readings.len()).rev().find(|rank| self.is_latest(*rank))?;
        self.reading(latest).map(|reading| reading.run)
    }

    /// The run of the latest release that has the record, if it rejected the record and no later snapshot lacks it.
    #[must_use]
    pub fn rejected_by<'s>(&self, statements: impl IntoIterator<Item = &'s RecordStatement>) -> Option<u32> {
        let latest = RecordPlacement::new(self, statements).rejected_by()?;
        self.reading(latest).map(|reading| reading.run)
    }

    /// All versions of the record with these statements, in the order of `valid_from`.
    ///
    /// Statements of runs that do not count are skipped, so the same list works for every state of knowledge.
    #[must_use]
    pub fn versions<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s RecordStatement>,
    ) -> Vec<RecordVersion> {
        let mut versions: Vec<_> = self.backwards(statements).collect();
        versions.reverse();
        versions
    }

    /// The version that is valid at `time`. The result is that of [`at`] on all versions, but earlier versions are not
    /// computed.
    #[must_use]
    pub fn valid_at<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s RecordStatement>,
        time: Timestamp,
    ) -> Option<RecordVersion> {
        let begun = self.backwards(statements).find(|version| version.valid_from <= time);
        begun.filter(|version| version.is_valid_at(time))
    }

    fn rank(&self, run: u32) -> Option<usize> {
        let found = self.ranks.binary_search_by_key(&run, |(run, _)| *run).ok()?;
        self.ranks.get(found).map(|(_, rank)| *rank)
    }

    fn reading(&self, rank: usize) -> Option<VersionReading> {
        self.readings.get(rank).copied()
    }

    /// Whether the reading with this rank is the latest one of its version.
    fn is_latest(&self, rank: usize) -> bool {
        self.reading(rank).is_some_and(|reading| reading.latest == rank)
    }

    /// The snapshot that withdraws this entry.
    fn withdrawal(&self, entry: &TimelineEntry) -> Option<VersionReading> {
        entry.withdrawn.and_then(|rank| self.reading(rank))
    }

    /// Why an entry has no interval; `None` if it has one.
    fn empty_interval_cause(&self, entry: &TimelineEntry) -> Option<VersionEnd> {
        let before_it_began =
            |known: &VersionReading| entry.overruled || known.released_at <= entry.valid_from;
        let withdrawn = self.withdrawal(entry).filter(before_it_began);
        let expired = entry.valid_until.is_some_and(|until| until <= entry.valid_from);
        withdrawn.map(|known| VersionEnd::Withdrawn(known.run)).or(expired.then_some(VersionEnd::Expired))
    }

    /// The versions, the latest first.
    fn backwards<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s RecordStatement>,
    ) -> ReverseVersionIterator<'_> {
        let RecordPlacement { entries, unconfirmed, .. } = RecordPlacement::new(self, statements).combined();
        ReverseVersionIterator { knowledge: self, entries, unconfirmed, following: None, pending: None }
    }
}

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

/// Iterator over the versions of a record, the latest first.
struct ReverseVersionIterator<'a> {
    knowledge: &'a VisibleReleases,
    /// The remaining entries, in the order of `valid_from`.
    entries: Vec<TimelineEntry>,
    /// The latest version that could not confirm the record.
    unconfirmed: Option<UnconfirmingVersion>,
    /// The time at which the next version ends, and how.
    following: Option<(Timestamp, VersionEnd)>,
    /// The version that may still begin earlier, and the rank of the reading that saw it last.
    pending: Option<(RecordVersion, usize)>,
}

impl Iterator for ReverseVersionIterator<'_> {
    type Item = RecordVersion;

    fn next(&mut self) -> Option<RecordVersion> {
        while let Some(entry) = self.entries.pop() {
            if let Some(why) = self.knowledge.empty_interval_cause(&entry) {
                if why == VersionEnd::Expired {
                    self.following = Some((entry.valid_from, why));
                }
                continue;
            }
            let expired = entry.valid_until.map(|until| (until, VersionEnd::Expired));
            let withdrawn = self.knowledge.withdrawal(&entry);
            let withdrawn = withdrawn.map(|known| (known.released_at, VersionEnd::Withdrawn(known.run)));
            // the first of several ends at one time is used: a following version is more informative than an expiry or
            // a withdrawal
            let ends = [self.following, expired, withdrawn].into_iter().flatten();
            let end = ends.min_by_key(|(time, _)| *time);
            if let Some(finished) = self.merge_entry(entry, end) {
                return Some(finished);
            }
        }
        self.pending.take().map(|(version, _)| version)
    }
}

impl ReverseVersionIterator<'_> {
    /// The run that could not confirm a version with this end, if any.
    fn unconfirmed_by(&self, end: Option<(Timestamp, VersionEnd)>) -> Option<u32> {
        let UnconfirmingVersion { place, latest } = self.unconfirmed?;
        let released_at = self.knowledge.reading(place)?.released_at;
        let ended_before = match end {
            Some((time, VersionEnd::Superseded(_) | VersionEnd::Withdrawn(_))) => time <= released_at,
            Some((_, VersionEnd::Expired | VersionEnd::Open)) | None => false,
        };
        if ended_before { None } else { self.knowledge.reading(latest).map(|reading| reading.run) }
    }

    /// Puts `entry` before the pending version. Returns the pending version as finished, or extends it if the content
    /// is the same.
    fn merge_entry(
        &mut self,
        entry: TimelineEntry,
        end: Option<(Timestamp, VersionEnd)>,
    ) -> Option<RecordVersion> {
        self.following = Some((entry.valid_from, VersionEnd::Superseded(entry.statement)));
        let touched = self.pending.as_mut().filter(|(pending, _)| {
            pending.content == entry.content && end.is_some_and(|(time, _)| time == pending.valid_from)
        });
        if let Some((version, last_seen)) = touched {
            version.statement = entry.statement;
            version.valid_from = entry.valid_from;
            if entry.last_seen > *last_seen {
                *last_seen = entry.last_seen;
                version.last_seen = self.knowledge.reading(entry.last_seen)?.run;
            }
            return None;
        }
        let version = RecordVersion {
            statement: entry.statement,
            content: entry.content,
            valid_from: entry.valid_from,
            valid_until: end.map(|(time, _)| time),
            ended_by: end.map_or(VersionEnd::Open, |(_, why)| why),
            last_seen: self.knowledge.reading(entry.last_seen)?.run,
            unconfirmed_by: self.unconfirmed_by(end),
        };
        self.pending.replace((version, entry.last_seen)).map(|(finished, _)| finished)
    }
}

/// The current state of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementState {
    /// It represents this version.
    Version(RecordVersion),
    /// It has the content of this version at its `valid_from`, but another statement represents the version.
    Same(RecordVersion),
    /// It has no interval, because a later release states other content from the same time on. The statement with this
    /// index represents that content.
    Corrected(usize),
    /// It has no interval, because it was withdrawn or had expired by its `valid_from`.
    Ended(VersionEnd),
    /// It does not count: its version was read again, or is not known yet.
    Replaced,
    /// Its run was undone, so it does not count.
    Undone,
}

impl VisibleReleases {
    /// The state of the statement at `index` of all `statements` of a record; `None` if there is no such statement.
    #[must_use]
    pub fn statement_state(&self, statements: &[RecordStatement], index: usize) -> Option<StatementState> {
        let statement = statements.get(index)?;
        if self.is_undone(statement.run) {
            return Some(StatementState::Undone);
        }
        let versions = self.versions(statements);
        if let Some(version) = versions.iter().find(|version| version.statement == index) {
            return Some(StatementState::Version(*version));
        }
        let placement = RecordPlacement::new(self, statements);
        let Some(own) = placement.entry_of(index) else { return Some(StatementState::Replaced) };
        let combined = placement.combined();
        let counts = combined.entries.iter().find(|entry| entry.valid_from == own.valid_from)?;
        let version = at(&versions, own.valid_from).filter(|version| version.content == counts.content);
        if counts.content != own.content {
            return Some(StatementState::Corrected(
                version.map_or(counts.statement, |version| version.statement),
            ));
        }
        version
            .map(|version| StatementState::Same(*version))
            .or_else(|| self.empty_interval_cause(counts).map(StatementState::Ended))
    }
}

/// How a version changed.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum VersionChangeKind {
    /// The version is new, or represented by another statement than before.
    BecameValid,
    /// Another version superseded it, from some time on or, after a correction, completely.
    Superseded,
    /// A snapshot no longer contains the record.
    Withdrawn,
    /// The record now has an end of validity.
    Expired,
    /// It has another end than before, or another statement now represents its content, for example one of an older release
    /// that was ingested later.
    Moved,
    /// Its source version was read again, and the new reading counts instead.
    Replaced,
    /// The run that stated it was undone.
    Undone,
}

/// A version that a run added or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionChange {
    pub kind: VersionChangeKind,
    /// The version before the change; `None` if it is new.
    pub before: Option<RecordVersion>,
    /// The version after the change. If its statement no longer represents a version, the version that is valid from
    /// its `valid_from` on, if any.
    pub after: Option<RecordVersion>,
}

impl VersionChange {
    /// The changed version, as it is after the change; `None` if its statement no longer represents a version.
    #[must_use]
    pub fn remaining(&self) -> Option<RecordVersion> {
        let subject = self.before.or(self.after)?.statement;
        self.after.filter(|after| after.statement == subject)
    }
}

/// The changes of a record between two states of knowledge of its source. Changed versions come first, then new ones,
/// each in the order of `valid_from`.
///
/// Each statement whose version begins, ends or changes its interval has one change. So the changes since the beginning give
/// the intervals of all statements: the last change of a statement has its interval, or none.
///
/// `statements` are all statements of the record, including those that are not known yet in `before`.
#[must_use]
pub fn changes(
    statements: &[RecordStatement],
    before: &VisibleReleases,
    after: &VisibleReleases,
) -> Vec<VersionChange> {
    let earlier = before.versions(statements);
    let later = after.versions(statements);
    let stands = |versions: &[RecordVersion], statement: usize| {
        versions.iter().find(|version| version.statement == statement).copied()
    };
    let mut changes = Vec::new();
    for was in &earlier {
        let remaining = stands(&later, was.statement);
        let now = remaining.or_else(|| at(&later, was.valid_from).copied());
        let same = now.filter(|version| version.content == was.content);
        let kind = match (remaining, same) {
            (Some(is), _) => find_end_change(was, &is),
            (None, same) => Some(find_removal_kind(was, statements, after, same.is_some())),
        };
        changes.extend(kind.map(|kind| VersionChange { kind, before: Some(*was), after: now }));
    }
    for is in later {
        if stands(&earlier, is.statement).is_none() {
            changes.push(VersionChange {
                kind: VersionChangeKind::BecameValid,
                before: None,
                after: Some(is),
            });
        }
    }
    changes
}

/// The change of a version that its statement still represents. It does not report another superseding version or
/// another withdrawing run: their own changes report this.
fn find_end_change(was: &RecordVersion, is: &RecordVersion) -> Option<VersionChangeKind> {
    let same_way = std::mem::discriminant(&was.ended_by) == std::mem::discriminant(&is.ended_by);
    (was.valid_until != is.valid_until || !same_way).then_some(match (was.ended_by, is.ended_by) {
        (VersionEnd::Open, VersionEnd::Superseded(_)) => VersionChangeKind::Superseded,
        (VersionEnd::Open, VersionEnd::Withdrawn(_)) => VersionChangeKind::Withdrawn,
        (VersionEnd::Open, VersionEnd::Expired) => VersionChangeKind::Expired,
        _ => VersionChangeKind::Moved,
    })
}

/// The change of a version that its statement no longer represents.
fn find_removal_kind(
    was: &RecordVersion,
    statements: &[RecordStatement],
    after: &VisibleReleases,
    said_on: bool,
) -> VersionChangeKind {
    let run = statements.get(was.statement).map(|statement| statement.run);
    if run.is_some_and(|run| after.is_undone(run)) {
        return VersionChangeKind::Undone;
    }
    let placement = RecordPlacement::new(after, statements);
    if placement.entry_of(was.statement).is_none() {
        return VersionChangeKind::Replaced;
    }
    if said_on {
        return VersionChangeKind::Moved;
    }
    let combined = placement.combined();
    let stated = combined.entries.iter().find(|entry| entry.valid_from == was.valid_from);
    match stated.and_then(|entry| after.empty_interval_cause(entry)) {
        Some(VersionEnd::Withdrawn(_)) => VersionChangeKind::Withdrawn,
        Some(VersionEnd::Expired) => VersionChangeKind::Expired,
        _ => VersionChangeKind::Superseded,
    }
}

#[cfg(test)]
mod tests;
