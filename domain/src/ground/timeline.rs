//! The two axes of time: validity, and the time of knowledge (seed: `rfc-0002-ground-truth`, "Provenance Chain" and
//! "Query Contract").
//!
//! A newer release rewrites nothing. The [`RecordStatement`] of a run about a record never changes. Its
//! validity is computed from all statements of that record and from the releases of its source:
//!
//! - Releases are ordered by release time, then by the text of their version; never by arrival. If several runs read
//!   one version, only the latest run counts.
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
//! - A release that rejected the record does not withdraw it. The former statement stays in force, unconfirmed by that
//!   release. A snapshot with a rejected record that cannot be identified withdraws nothing, because any record that
//!   seems to be missing may be that one.
//! - An undo removes a run from the time of its commit on. An undo can itself be undone.
//! - A query about a time sees only the releases up to that time ([`ReleaseScope`]).
//! - An interval that would end before it begins is dropped. If the record itself names a `valid_until` up to its
//!   `valid_from`, the record had expired by then, and so had its former content.

use jiff::Timestamp;
use reverse_versions::ReverseVersionIterator;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

mod changes;
mod release;
mod reverse_versions;
mod statement_state;

pub use changes::{VersionChange, VersionChangeKind, changes};
pub use release::{ReleaseScope, TimelineRun};
pub use statement_state::StatementState;

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
    /// The run of the latest visible release with this content. The version's age is counted from it.
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
    /// The releases in release order. The index of a release is its rank.
    releases: Vec<ReleasedRun>,
    /// The runs that count, in ascending order, with the ranks of their releases.
    ranks: Vec<(u32, usize)>,
    /// The ranks of the snapshots that withdraw missing records, in ascending order.
    snapshots: Vec<usize>,
    /// The ranks of the snapshots that withdraw nothing, because they have rejects without an identity, in ascending
    /// order.
    unidentified: Vec<usize>,
    /// The runs that were undone.
    undone: BTreeSet<u32>,
    /// The runs whose version was read again, with the ranks of its release, in ascending order.
    read_again: Vec<(u32, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReleasedRun {
    run: u32,
    released_at: Timestamp,
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
    /// The rank of the latest release with this content.
    last_seen: usize,
    /// The rank of the first snapshot after `last_seen` that lacks the record.
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
        let mut latest = HashMap::<&str, &TimelineRun>::new();
        for release in releases.iter().filter(counts) {
            let counts = latest.entry(release.version.as_str()).or_insert(release);
            if counts.run < release.run {
                *counts = release;
            }
        }
        let mut ordered: Vec<_> = latest.into_values().collect();
        ordered.sort_unstable_by_key(|release| (release.released_at, release.version.as_str()));
        let mut ranks: Vec<_> =
            ordered.iter().enumerate().map(|(rank, release)| (release.run, rank)).collect();
        ranks.sort_unstable();
        let read_again = releases.iter().filter(counts).filter_map(|release| {
            let rank = ordered.iter().position(|other| other.version == release.version)?;
            ordered.get(rank).filter(|latest| latest.run != release.run).map(|_| (release.run, rank))
        });
        let read_again = read_again.collect();
        let snapshots = |unidentified: bool| {
            let of_kind =
                move |release: &TimelineRun| release.snapshot && release.has_unidentified == unidentified;
            let ranked = ordered.iter().enumerate().filter(move |(_, release)| of_kind(release));
            ranked.map(|(rank, _)| rank).collect()
        };
        Self {
            snapshots: snapshots(false),
            unidentified: snapshots(true),
            undone,
            ranks,
            read_again,
            releases: ordered
                .iter()
                .map(|release| ReleasedRun { run: release.run, released_at: release.released_at })
                .collect(),
        }
    }

    /// Whether the run with this number counts: it is known, and no later run has read its version again.
    #[must_use]
    pub fn is_counted(&self, run: u32) -> bool {
        self.rank(run).is_some()
    }

    /// Whether the run with this number was undone.
    #[must_use]
    pub fn is_undone(&self, run: u32) -> bool {
        self.undone.contains(&run)
    }

    /// The run of the latest release that counts.
    #[must_use]
    pub fn latest(&self) -> Option<u32> {
        self.releases.last().map(|known| known.run)
    }

    /// The run of the latest release that has the record, if it rejected the record and no later snapshot lacks it.
    #[must_use]
    pub fn rejected_by<'s>(&self, statements: impl IntoIterator<Item = &'s RecordStatement>) -> Option<u32> {
        let ranked =
            statements.into_iter().filter_map(|statement| Some((self.rank(statement.run)?, statement)));
        let (rank, latest) = ranked.max_by_key(|(rank, _)| *rank)?;
        let is_withdrawn = self.snapshots.last().is_some_and(|snapshot| *snapshot > rank);
        (latest.content.is_none() && !is_withdrawn).then_some(latest.run)
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

    /// The rank of the release that this run read first and a later run read again.
    fn read_again(&self, run: u32) -> Option<usize> {
        let found = self.read_again.binary_search_by_key(&run, |(run, _)| *run).ok()?;
        self.read_again.get(found).map(|(_, rank)| *rank)
    }

    fn release(&self, rank: usize) -> Option<ReleasedRun> {
        self.releases.get(rank).copied()
    }

    /// The statements that count, each as its own entry, in the order of `valid_from` with the latest release first;
    /// and the rank of the latest release that could not confirm the record.
    ///
    /// If the latest reading of a version rejected the record, the statement of an earlier reading stays.
    fn place_statements<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s RecordStatement>,
    ) -> (Vec<TimelineEntry>, Option<usize>) {
        let mut placed = Vec::new();
        let mut rejected = Vec::new();
        let mut earlier = Vec::new();
        for (index, statement) in statements.into_iter().enumerate() {
            match self.rank(statement.run) {
                Some(rank) if statement.content.is_none() => rejected.push(rank),
                Some(rank) => placed.extend(self.place(index, statement, rank)),
                None => earlier.extend(self.read_again(statement.run).map(|rank| (rank, index, statement))),
            }
        }
        earlier.sort_unstable_by_key(|(_, _, statement)| statement.run);
        for rank in &rejected {
            let candidates = earlier.iter().rev().filter(|(of, _, _)| of == rank);
            placed.extend(
                candidates.filter_map(|(_, index, statement)| self.place(*index, statement, *rank)).next(),
            );
        }
        placed.sort_unstable_by_key(|entry| entry.last_seen);
        rejected.sort_unstable();
        let newest = placed.last().map(|entry| entry.last_seen);
        let unidentified = self.unidentified.last().copied().filter(|rank| Some(*rank) > newest);
        let unconfirmed = rejected.last().copied().filter(|rank| Some(*rank) >= newest).max(unidentified);
        // the next release that has the record, and the first snapshot after it without the record
        let mut next: Option<(usize, Option<usize>)> = None;
        for entry in placed.iter_mut().rev() {
            // a release that rejected the record still has it
            while let Some(rank) = rejected.pop_if(|rank| *rank > entry.last_seen) {
                next = Some((rank, self.withdrawn_after(rank, next)));
            }
            entry.withdrawn = self.withdrawn_after(entry.last_seen, next);
            next = Some((entry.last_seen, entry.withdrawn));
        }
        placed.sort_unstable_by_key(|entry| (entry.valid_from, Reverse(entry.last_seen)));
        (placed, unconfirmed)
    }

    /// The first snapshot after the release of `rank` that lacks a record. `next` is the rank of the next release that
    /// has the record, with the first snapshot after it without the record.
    fn withdrawn_after(&self, rank: usize, next: Option<(usize, Option<usize>)>) -> Option<usize> {
        let after = self.snapshots.partition_point(|snapshot| *snapshot <= rank);
        let snapshot = self.snapshots.get(after).copied();
        match (snapshot, next) {
            (Some(snapshot), Some((holds, withdrawn))) if holds <= snapshot => withdrawn,
            _ => snapshot,
        }
    }

    /// The entry of a statement whose release has the rank `last_seen`; `None` if the release rejected the record.
    fn place(&self, index: usize, statement: &RecordStatement, last_seen: usize) -> Option<TimelineEntry> {
        Some(TimelineEntry {
            statement: index,
            content: statement.content?,
            valid_from: statement.valid_from.or(self.release(last_seen).map(|known| known.released_at))?,
            valid_until: statement.valid_until,
            last_seen,
            withdrawn: None,
            overruled: false,
        })
    }

    /// The entries in the order of `valid_from`, one for each `valid_from`.
    fn entries<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s RecordStatement>,
    ) -> (Vec<TimelineEntry>, Option<usize>) {
        let (mut entries, unconfirmed) = self.place_statements(statements);
        entries.dedup_by(|earlier_release, entry| {
            let same_time = earlier_release.valid_from == entry.valid_from;
            if same_time && earlier_release.content == entry.content {
                entry.statement = earlier_release.statement;
            }
            same_time
        });
        let mut seen = None;
        for entry in &mut entries {
            entry.overruled = entry.withdrawn.is_some_and(|withdrawn| seen > Some(withdrawn));
            seen = seen.max(Some(entry.last_seen));
        }
        (entries, unconfirmed)
    }

    /// The snapshot that withdraws this entry.
    fn withdrawal(&self, entry: &TimelineEntry) -> Option<ReleasedRun> {
        entry.withdrawn.and_then(|rank| self.release(rank))
    }

    /// Why an entry has no interval; `None` if it has one.
    fn empty_interval_cause(&self, entry: &TimelineEntry) -> Option<VersionEnd> {
        let before_it_began = |known: &ReleasedRun| entry.overruled || known.released_at <= entry.valid_from;
        let withdrawn = self.withdrawal(entry).filter(before_it_began);
        let expired = entry.valid_until.is_some_and(|until| until <= entry.valid_from);
        withdrawn.map(|known| VersionEnd::Withdrawn(known.run)).or(expired.then_some(VersionEnd::Expired))
    }

    /// The versions, the latest first.
    fn backwards<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s RecordStatement>,
    ) -> ReverseVersionIterator<'_> {
        let (entries, unconfirmed) = self.entries(statements);
        ReverseVersionIterator { knowledge: self, entries, unconfirmed, following: None, pending: None }
    }
}

#[cfg(test)]
mod tests;
