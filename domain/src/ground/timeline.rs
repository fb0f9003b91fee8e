//! The two axes of time: what was valid when, as far as it was known when (seed: `rfc-0002-ground-truth`, "Provenance
//! Chain" and "Query Contract").
//!
//! Nothing is rewritten when a newer release comes. What a run says of a record stays as it is, a [`Statement`]; since
//! when and until when it holds is computed from all statements of that record and the releases of its source:
//!
//! - Releases are in the order of their release, and of their version's text where that is the same; never in the order
//!   in which they arrived. Of several runs that read one version the latest counts, and the others not at all.
//! - A statement holds from its `valid_from` on, which is the time of its release where the record names none. The next
//!   one by `valid_from` ends it.
//! - Of several with one `valid_from` the one of the latest release counts. The others were corrected: they have no
//!   interval ([`Became::Corrected`]). Those that say the same are one, told first by the earliest of them.
//! - Intervals of one content that touch are one version, and the earliest statement stands for it.
//! - A snapshot without the record ends, at its release, what was last seen before it. A later statement begins anew, be
//!   its content the same. Other releases end nothing by what they leave out.
//! - What was withdrawn speaks against nothing that was said afterwards: a statement after the withdrawal that holds from
//!   the same time or an earlier one takes its place.
//! - A release whose record was rejected does not withdraw that record. The former statement stays in force,
//!   unconfirmed by that release. A snapshot with a rejected record that cannot be identified withdraws nothing at all,
//!   since any record that it seems to lack may be that one.
//! - An undo takes a run back from the moment it is committed. An undo can itself be undone.
//! - A question about a time sees only the releases up to that time ([`Scope`]).
//! - An interval that would end before it begins is none. Where that is so because the record itself names a `valid_until`
//!   up to its `valid_from`, the record had expired by then, and so had what it said before.

use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

mod became;
mod changes;
mod release;

pub use became::Became;
pub use changes::{Change, ChangeKind, changes};
pub use release::{Release, Scope};

/// What one run says of one source record: one statement a run at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// The run's number within its source.
    pub run: u32,
    /// Since when it holds, where the record names that.
    pub valid_from: Option<Timestamp>,
    /// From when on it no longer holds, where the record names that.
    pub valid_until: Option<Timestamp>,
    /// The SHA-256 of its content; `None` for a record that was rejected.
    pub content: Option<[u8; 32]>,
}

/// What ends a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Nothing does.
    Open,
    /// The version that the statement with this index stands for.
    Superseded(usize),
    /// The release of this run, a snapshot without the record.
    Withdrawn(u32),
    /// The record says so itself.
    Expired,
}

/// What held of a record from one time to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The index of the statement that stands for it: the one that said it first.
    pub statement: usize,
    /// The SHA-256 of what holds.
    pub content: [u8; 32],
    /// From then on,
    pub valid_from: Timestamp,
    /// and up to then, exclusive; without end where there is none.
    pub valid_until: Option<Timestamp>,
    /// What ends it.
    pub ended_by: End,
    /// The run of the latest visible release that says so. The version's age counts from it.
    pub last_seen: u32,
    /// The run of the latest visible release that could not confirm it, because this record, or one that cannot be
    /// identified, was rejected.
    pub unconfirmed_by: Option<u32>,
}

impl Version {
    /// Whether it holds at `time`.
    #[must_use]
    pub fn holds_at(&self, time: Timestamp) -> bool {
        self.valid_from <= time && self.valid_until.is_none_or(|until| time < until)
    }
}

/// The version that holds at `time`, of some in the order of `valid_from` as [`Knowledge::versions`] gives them.
#[must_use]
pub fn at(versions: &[Version], time: Timestamp) -> Option<&Version> {
    let begun = versions.partition_point(|version| version.valid_from <= time);
    versions.get(begun.checked_sub(1)?).filter(|version| version.holds_at(time))
}

/// The releases of one source that count within a [`Scope`].
///
/// Made once for many records: whatever is asked of it costs the logarithm of the number of releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knowledge {
    /// In the order of release. A release's place here is its rank.
    releases: Vec<Known>,
    /// The runs that count, in ascending order, with the ranks of their releases.
    ranks: Vec<(u32, usize)>,
    /// The ranks of the snapshots that withdraw what they lack, in ascending order.
    snapshots: Vec<usize>,
    /// The ranks of the snapshots that withdraw nothing, since they have rejects without an identity, in ascending
    /// order.
    unidentified: Vec<usize>,
    /// The runs that were undone.
    undone: BTreeSet<u32>,
    /// The runs whose version was read again, with the ranks of its release, in ascending order.
    read_again: Vec<(u32, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    run: u32,
    released_at: Timestamp,
}

/// What the statements of one record with one `valid_from` come to.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The statement that said it first.
    statement: usize,
    content: [u8; 32],
    valid_from: Timestamp,
    /// As the latest of the statements names it.
    valid_until: Option<Timestamp>,
    /// The rank of the latest release that says so.
    last_seen: usize,
    /// The rank of the first snapshot after that without the record.
    withdrawn: Option<usize>,
    /// Whether something that was said after the withdrawal takes its place.
    overruled: bool,
}

impl Knowledge {
    /// The releases among `releases` that `scope` sees. `releases` must be in the order of their runs.
    #[must_use]
    pub fn new(releases: &[Release], scope: Scope) -> Self {
        let mut undone = BTreeSet::new();
        // an undo is later than what it undoes, and counts only where nothing later undoes it
        for release in releases.iter().rev().filter(|release| scope.sees(release)) {
            if !undone.contains(&release.run) {
                undone.extend(release.undoes);
            }
        }
        let counts = |release: &&Release| {
            release.undoes.is_none() && !undone.contains(&release.run) && scope.sees(release)
        };
        let mut latest = HashMap::<&str, &Release>::new();
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
                move |release: &Release| release.snapshot && release.has_unidentified == unidentified;
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
                .map(|release| Known { run: release.run, released_at: release.released_at })
                .collect(),
        }
    }

    /// Whether what the run with this number says counts: it is known, and no later run has read its version again.
    #[must_use]
    pub fn counts(&self, run: u32) -> bool {
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
    pub fn rejected_by<'s>(&self, statements: impl IntoIterator<Item = &'s Statement>) -> Option<u32> {
        let ranked = statements.into_iter().filter_map(|said| Some((self.rank(said.run)?, said)));
        let (rank, latest) = ranked.max_by_key(|(rank, _)| *rank)?;
        let is_withdrawn = self.snapshots.last().is_some_and(|snapshot| *snapshot > rank);
        (latest.content.is_none() && !is_withdrawn).then_some(latest.run)
    }

    /// All versions of the record of which these are the statements, in the order of `valid_from`.
    ///
    /// Statements of runs that do not count are passed over, so that one list serves whatever is known.
    #[must_use]
    pub fn versions<'s>(&self, statements: impl IntoIterator<Item = &'s Statement>) -> Vec<Version> {
        let mut versions: Vec<_> = self.backwards(statements).collect();
        versions.reverse();
        versions
    }

    /// The version that holds at `time`: the same as [`at`] finds among all, without making those before it.
    #[must_use]
    pub fn valid_at<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s Statement>,
        time: Timestamp,
    ) -> Option<Version> {
        let begun = self.backwards(statements).find(|version| version.valid_from <= time);
        begun.filter(|version| version.holds_at(time))
    }

    fn rank(&self, run: u32) -> Option<usize> {
        let found = self.ranks.binary_search_by_key(&run, |(run, _)| *run).ok()?;
        self.ranks.get(found).map(|(_, rank)| *rank)
    }

    /// The rank of the release that a later run has read again, where this run read it first.
    fn read_again(&self, run: u32) -> Option<usize> {
        let found = self.read_again.binary_search_by_key(&run, |(run, _)| *run).ok()?;
        self.read_again.get(found).map(|(_, rank)| *rank)
    }

    fn release(&self, rank: usize) -> Option<Known> {
        self.releases.get(rank).copied()
    }

    /// The statements that count, each as an entry of its own, in the order of `valid_from`, the latest release first; and
    /// the rank of the latest release that could not confirm the record.
    ///
    /// Where the latest reading of a version rejected the record, what an earlier reading of it said stays.
    fn placed<'s>(&self, statements: impl IntoIterator<Item = &'s Statement>) -> (Vec<Entry>, Option<usize>) {
        let mut placed = Vec::new();
        let mut rejected = Vec::new();
        let mut earlier = Vec::new();
        for (index, said) in statements.into_iter().enumerate() {
            match self.rank(said.run) {
                Some(rank) if said.content.is_none() => rejected.push(rank),
                Some(rank) => placed.extend(self.place(index, said, rank)),
                None => earlier.extend(self.read_again(said.run).map(|rank| (rank, index, said))),
            }
        }
        earlier.sort_unstable_by_key(|(_, _, said)| said.run);
        for rank in &rejected {
            let said = earlier.iter().rev().filter(|(of, _, _)| of == rank);
            placed.extend(said.filter_map(|(_, index, said)| self.place(*index, said, *rank)).next());
        }
        placed.sort_unstable_by_key(|entry| entry.last_seen);
        rejected.sort_unstable();
        let newest = placed.last().map(|entry| entry.last_seen);
        let unidentified = self.unidentified.last().copied().filter(|rank| Some(*rank) > newest);
        let unconfirmed = rejected.last().copied().filter(|rank| Some(*rank) >= newest).max(unidentified);
        // the next release that holds the record, and the first snapshot without it from there on
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

    /// The entry of a statement that the release of this rank makes; none where it rejected the record.
    fn place(&self, index: usize, said: &Statement, last_seen: usize) -> Option<Entry> {
        Some(Entry {
            statement: index,
            content: said.content?,
            valid_from: said.valid_from.or(self.release(last_seen).map(|known| known.released_at))?,
            valid_until: said.valid_until,
            last_seen,
            withdrawn: None,
            overruled: false,
        })
    }

    /// The entries in the order of `valid_from`, one each.
    fn entries<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s Statement>,
    ) -> (Vec<Entry>, Option<usize>) {
        let (mut entries, unconfirmed) = self.placed(statements);
        entries.dedup_by(|earlier_release, kept| {
            let same_time = earlier_release.valid_from == kept.valid_from;
            if same_time && earlier_release.content == kept.content {
                kept.statement = earlier_release.statement;
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

    /// The snapshot that ends what this entry says.
    fn withdrawal(&self, entry: &Entry) -> Option<Known> {
        entry.withdrawn.and_then(|rank| self.release(rank))
    }

    /// Why an entry has no interval; nothing where it has one.
    fn emptied_by(&self, entry: &Entry) -> Option<End> {
        let before_it_began = |known: &Known| entry.overruled || known.released_at <= entry.valid_from;
        let withdrawn = self.withdrawal(entry).filter(before_it_began);
        let expired = entry.valid_until.is_some_and(|until| until <= entry.valid_from);
        withdrawn.map(|known| End::Withdrawn(known.run)).or(expired.then_some(End::Expired))
    }

    /// The versions, the latest first.
    fn backwards<'s>(&self, statements: impl IntoIterator<Item = &'s Statement>) -> Backwards<'_> {
        let (entries, unconfirmed) = self.entries(statements);
        Backwards { knowledge: self, entries, unconfirmed, following: None, pending: None }
    }
}

/// Makes the versions of a record, the latest first.
struct Backwards<'a> {
    knowledge: &'a Knowledge,
    /// Those that are left, in the order of `valid_from`.
    entries: Vec<Entry>,
    /// The rank of the latest release that could not confirm the record.
    unconfirmed: Option<usize>,
    /// What ends the next one, and when.
    following: Option<(Timestamp, End)>,
    /// The version that may still begin earlier, and the rank of the release that saw it last.
    pending: Option<(Version, usize)>,
}

impl Iterator for Backwards<'_> {
    type Item = Version;

    fn next(&mut self) -> Option<Version> {
        while let Some(entry) = self.entries.pop() {
            if let Some(why) = self.knowledge.emptied_by(&entry) {
                if why == End::Expired {
                    self.following = Some((entry.valid_from, why));
                }
                continue;
            }
            let expired = entry.valid_until.map(|until| (until, End::Expired));
            let withdrawn = self.knowledge.withdrawal(&entry);
            let withdrawn = withdrawn.map(|known| (known.released_at, End::Withdrawn(known.run)));
            // of several at one time the first counts: a version that follows tells more than that this one ended
            let ends = [self.following, expired, withdrawn].into_iter().flatten();
            let end = ends.min_by_key(|(time, _)| *time);
            if let Some(finished) = self.take_in(entry, end) {
                return Some(finished);
            }
        }
        self.pending.take().map(|(version, _)| version)
    }
}

impl Backwards<'_> {
    /// The run that could not confirm a version with this end, if any.
    fn unconfirmed_by(&self, end: Option<(Timestamp, End)>) -> Option<u32> {
        let known = self.knowledge.release(self.unconfirmed?)?;
        let ended_before = match end {
            Some((time, End::Superseded(_) | End::Withdrawn(_))) => time <= known.released_at,
            Some((_, End::Expired | End::Open)) | None => false,
        };
        (!ended_before).then_some(known.run)
    }

    /// Puts `entry` before what is pending: gives that back as finished, or extends it where it says the same.
    fn take_in(&mut self, entry: Entry, end: Option<(Timestamp, End)>) -> Option<Version> {
        self.following = Some((entry.valid_from, End::Superseded(entry.statement)));
        let touched = self.pending.as_mut().filter(|(pending, _)| {
            pending.content == entry.content && end.is_some_and(|(time, _)| time == pending.valid_from)
        });
        if let Some((version, last_seen)) = touched {
            version.statement = entry.statement;
            version.valid_from = entry.valid_from;
            if entry.last_seen > *last_seen {
                *last_seen = entry.last_seen;
                version.last_seen = self.knowledge.release(entry.last_seen)?.run;
            }
            return None;
        }
        let version = Version {
            statement: entry.statement,
            content: entry.content,
            valid_from: entry.valid_from,
            valid_until: end.map(|(time, _)| time),
            ended_by: end.map_or(End::Open, |(_, why)| why),
            last_seen: self.knowledge.release(entry.last_seen)?.run,
            unconfirmed_by: self.unconfirmed_by(end),
        };
        self.pending.replace((version, entry.last_seen)).map(|(finished, _)| finished)
    }
}

#[cfg(test)]
mod tests;
