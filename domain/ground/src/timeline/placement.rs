//! The statements of a record that count: for each version, that of the reading that is certain about the record.

use super::{RecordStatement, TimelineEntry, UnconfirmingVersion, VisibleReleases};
use std::cmp::Reverse;

/// What the readings of a source's versions state about one record.
pub(super) struct RecordPlacement<'k> {
    knowledge: &'k VisibleReleases,
    /// The statements that count, each as its own entry, in the order of `valid_from` with the latest release first.
    /// [`RecordPlacement::combined`] leaves one for each `valid_from`.
    pub(super) entries: Vec<TimelineEntry>,
    /// The latest version that could not confirm the record, unless a version after it states the record.
    pub(super) unconfirmed: Option<UnconfirmingVersion>,
    /// The latest version that rejected the record and cannot confirm it.
    rejected: Option<UnconfirmingVersion>,
    /// The greatest rank of a reading that states the record and counts.
    newest: Option<usize>,
    /// The versions of which any reading has the record: the ranks of their latest readings, in ascending order.
    mentioning: Vec<usize>,
    /// The ranks of the readings of those versions that withdraw the record, in ascending order.
    withdrawing: Vec<usize>,
}

/// A statement about the record.
#[derive(Clone, Copy)]
struct RecordMention<'s> {
    index: usize,
    statement: &'s RecordStatement,
    rank: usize,
    /// The rank of the latest reading of its version.
    latest: usize,
}

impl<'k> RecordPlacement<'k> {
    pub(super) fn new<'s>(
        knowledge: &'k VisibleReleases,
        statements: impl IntoIterator<Item = &'s RecordStatement>,
    ) -> Self {
        let mention = |(index, statement): (usize, &'s RecordStatement)| {
            let rank = knowledge.rank(statement.run)?;
            Some(RecordMention { index, statement, rank, latest: knowledge.reading(rank)?.latest })
        };
        let mut mentions: Vec<_> = statements.into_iter().enumerate().filter_map(mention).collect();
        mentions.sort_unstable_by_key(|mention| (mention.latest, mention.statement.run));
        let mut placement = Self {
            knowledge,
            entries: Vec::with_capacity(mentions.len()),
            unconfirmed: None,
            rejected: None,
            newest: None,
            mentioning: Vec::with_capacity(mentions.len()),
            withdrawing: Vec::new(),
        };
        for version in mentions.chunk_by(|one, other| one.latest == other.latest) {
            placement.place_version(version);
        }
        placement.withdrawing.sort_unstable();
        placement.entries.sort_unstable_by_key(|entry| entry.last_seen);
        placement.newest = placement.entries.last().map(|entry| entry.last_seen);
        let unidentified = placement.unidentified();
        let unconfirmed = placement.unconfirmed.into_iter().chain(unidentified);
        let unconfirmed = unconfirmed.max_by_key(|version| version.place);
        placement.unconfirmed = unconfirmed.filter(|version| Some(version.place) >= placement.newest);
        placement.find_withdrawals();
        placement.entries.sort_unstable_by_key(|entry| (entry.valid_from, Reverse(entry.last_seen)));
        placement
    }

    /// Places what the latest reading of a version that is certain about the record says. `mentions` are all statements
    /// of the version's readings, in the order of the runs.
    fn place_version(&mut self, mut mentions: &[RecordMention<'_>]) {
        let Some(latest) = mentions.first().map(|mention| mention.latest) else { return };
        self.mentioning.push(latest);
        let (mut certain, mut is_rejected, mut is_stated) = (Some(latest), false, false);
        while let Some(rank) = certain
            && let Some(reading) = self.knowledge.reading(rank)
        {
            let mention = mentions.split_last().filter(|(mention, _)| mention.rank == rank);
            if let Some((mention, earlier)) = mention {
                mentions = earlier;
                is_stated = self.place_statement(mention);
                if is_stated {
                    break;
                }
                is_rejected = true;
            } else if !reading.has_unidentified {
                self.withdrawing.extend(reading.snapshot.then_some(rank));
                break;
            }
            certain = reading.previous;
        }
        // a release that is not a snapshot is not expected to have the record, unless a reading of it had the record
        let is_snapshot = self.knowledge.reading(latest).is_some_and(|reading| reading.snapshot);
        if certain == Some(latest) || !(is_rejected || is_stated || is_snapshot) {
            return;
        }
        let version = UnconfirmingVersion { place: certain.unwrap_or(latest).max(latest), latest };
        let later = |known: Option<UnconfirmingVersion>| {
            known.filter(|known| known.place > version.place).or(Some(version))
        };
        self.unconfirmed = later(self.unconfirmed);
        if is_rejected {
            self.rejected = later(self.rejected);
        }
    }

    /// Adds the entry of a statement. Returns false if the statement is a reject.
    fn place_statement(&mut self, mention: &RecordMention<'_>) -> bool {
        let RecordMention { index, statement, rank, .. } = *mention;
        let released_at = self.knowledge.reading(rank).map(|reading| reading.released_at);
        let (Some(content), Some(valid_from)) = (statement.content, statement.valid_from.or(released_at))
        else {
            return false;
        };
        self.entries.push(TimelineEntry {
            statement: index,
            content,
            valid_from,
            valid_until: statement.valid_until,
            last_seen: rank,
            withdrawn: None,
            overruled: false,
        });
        true
    }

    /// The latest snapshot after `newest` that lacks the record and has a reject without an identity.
    fn unidentified(&self) -> Option<UnconfirmingVersion> {
        let after = |version: &&UnconfirmingVersion| Some(version.place) > self.newest;
        let mut later = self.knowledge.unidentified.iter().rev().take_while(after);
        later.find(|version| !self.is_mentioned(version.latest)).copied()
    }

    fn is_mentioned(&self, latest: usize) -> bool {
        self.mentioning.binary_search(&latest).is_ok()
    }

    /// Sets the withdrawal of each entry. The entries are in the order of `last_seen`.
    fn find_withdrawals(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        let mut next = None;
        for entry in entries.iter_mut().rev() {
            entry.withdrawn = self.withdrawn_after(entry.last_seen, next);
            next = Some((entry.last_seen, entry.withdrawn));
        }
        self.entries = entries;
    }

    /// The first reading after the rank `rank` that withdraws the record. `next` is a later rank with the first
    /// withdrawal after it.
    fn withdrawn_after(&self, rank: usize, next: Option<(usize, Option<usize>)>) -> Option<usize> {
        let after = |ranks: &[usize]| ranks.partition_point(|withdrawing| *withdrawing <= rank);
        let own = self.withdrawing.get(after(&self.withdrawing)).copied();
        let others = &self.knowledge.withdrawing;
        let mut other = None;
        for withdrawing in others.get(after(others)..).unwrap_or_default() {
            match next {
                Some((known, withdrawn)) if known <= *withdrawing => {
                    other = withdrawn;
                    break;
                }
                _ if !self.is_mentioned(self.knowledge.reading(*withdrawing)?.latest) => {
                    other = Some(*withdrawing);
                    break;
                }
                _ => {}
            }
        }
        own.into_iter().chain(other).min()
    }

    /// The rank of the latest reading of the latest version that has the record, if it rejected the record and nothing
    /// withdraws the record after it.
    pub(super) fn rejected_by(&self) -> Option<usize> {
        let rejected = self.rejected.filter(|version| Some(version.place) >= self.newest)?;
        self.withdrawn_after(rejected.place, None).is_none().then_some(rejected.latest)
    }

    /// The entry of the statement with this index, if it counts.
    pub(super) fn entry_of(&self, statement: usize) -> Option<TimelineEntry> {
        self.entries.iter().find(|entry| entry.statement == statement).copied()
    }

    /// The same placement with one entry for each `valid_from`.
    pub(super) fn combined(mut self) -> Self {
        self.entries.dedup_by(|earlier_release, entry| {
            let same_time = earlier_release.valid_from == entry.valid_from;
            if same_time && earlier_release.content == entry.content {
                entry.statement = earlier_release.statement;
            }
            same_time
        });
        let mut seen = None;
        for entry in &mut self.entries {
            entry.overruled = entry.withdrawn.is_some_and(|withdrawn| seen > Some(withdrawn));
            seen = seen.max(Some(entry.last_seen));
        }
        self
    }
}
