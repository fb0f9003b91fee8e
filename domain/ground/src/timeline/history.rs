//! The versions of a record on both axes of time.
//!
//! A question about a time T with the knowledge of a time K sees only the releases up to T that were ingested by K. So
//! the answer at (T, K) is not always a version of [`VisibleReleases::versions`] for one scope: a release that ends a
//! version, or corrects its beginning, is visible only from its date on. [`ReleaseHistory`] computes the periods of T
//! and K in which the answer is the same.

use super::{RecordStatement, ReleaseScope, TimelineRun, VisibleReleases};
use crate::timeline::{TimelineEntry, UnconfirmingVersion};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The maximum number of scopes whose releases are kept.
const KEPT_SCOPES_MAX: usize = 4096;
/// The maximum number of releases in all kept scopes. Each takes about 80 bytes.
const KEPT_RELEASES_MAX: usize = 1 << 21;

/// A period of valid time and of system time in which each question about a record gets the same version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownVersion {
    /// The index of the statement that represents the version.
    pub statement: usize,
    /// The period of valid time.
    pub valid_from: Timestamp,
    /// Its end, exclusive; `None` without an end.
    pub valid_until: Option<Timestamp>,
    /// The period of system time.
    pub known_from: Timestamp,
    /// Its end, exclusive; `None` without an end.
    pub known_until: Option<Timestamp>,
    /// The index of the statement whose version follows in valid time.
    pub superseded_by: Option<usize>,
    /// The run of the release that could not confirm the version.
    pub unconfirmed_by: Option<u32>,
}

/// The releases of a source, for the versions of its records on both axes of time.
#[derive(Debug)]
pub struct ReleaseHistory<'r> {
    releases: &'r [TimelineRun],
    steps: Vec<KnowledgeStep>,
    /// The releases in the order of their dates, without undos: date, index, and whether the release can change records
    /// that it does not contain.
    dates: Vec<(Timestamp, usize, bool)>,
    /// The visible releases by the number of known runs and the date of the question.
    scopes: HashMap<(usize, Timestamp), VisibleReleases>,
    /// The number of releases in these scopes, at most.
    kept_releases: usize,
}

/// The effect of the commit of a run.
#[derive(Debug)]
struct KnowledgeStep {
    /// The time from which the run can change answers: the date of its release, or of the one that it undoes.
    from: Timestamp,
    /// The runs whose statements it can change: the run and the earlier ones of its version.
    runs: Vec<u32>,
    /// Whether it can change records without a statement of these runs.
    changes_others: bool,
    /// For the latest of all releases so far, if it is the only one of its version: the run of the release before it.
    follows: Option<u32>,
}

/// A period of valid time with one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ValidPeriod {
    statement: usize,
    from: Timestamp,
    until: Option<Timestamp>,
    unconfirmed_by: Option<u32>,
    superseded_by: Option<usize>,
}

impl<'r> ReleaseHistory<'r> {
    /// The history of `releases`, which must be in the order of their runs.
    #[must_use]
    pub fn new(releases: &'r [TimelineRun]) -> Self {
        let steps =
            (0..releases.len()).filter_map(|index| KnowledgeStep::new(releases.get(..=index)?)).collect();
        let brought = releases.iter().enumerate().filter(|(_, release)| release.undoes.is_none());
        let mut dates: Vec<_> = brought
            .map(|(index, release)| {
                let readings = releases.iter().filter(|other| is_same_version(other, release)).count();
                (release.released_at, index, release.snapshot || release.has_unidentified || readings > 1)
            })
            .collect();
        dates.sort_unstable();
        Self { releases, steps, dates, scopes: HashMap::new(), kept_releases: 0 }
    }

    /// The versions of the record with these statements, in the order of `valid_from` and then of `known_from`. The
    /// statements must be in the order of their runs.
    #[must_use]
    pub fn known_versions(&mut self, statements: &[RecordStatement]) -> Vec<KnownVersion> {
        let mut versions = Vec::new();
        let mut periods: Vec<ValidPeriod> = Vec::new();
        // for each period, since when it is known
        let mut since: Vec<Timestamp> = Vec::new();
        let has_own_dates = statements.iter().any(|statement| statement.valid_from.is_some());
        for index in 0..self.steps.len() {
            let (Some(step), Some(release)) = (self.steps.get(index), self.releases.get(index)) else {
                break;
            };
            if !step.can_change(statements) || step.only_confirms(statements, has_own_dates) {
                continue;
            }
            let (at, from) = (release.ingested_at, step.from);
            let after = self.periods_after(statements, index, from, &periods);
            let known_from = |period: &ValidPeriod| {
                let known = periods.iter().position(|known| known == period);
                known.and_then(|known| since.get(known).copied()).unwrap_or(at)
            };
            let after_since: Vec<_> = after.iter().map(known_from).collect();
            let ended =
                periods.iter().zip(&since).filter(|(period, since)| !after.contains(period) && **since < at);
            versions.extend(ended.map(|(period, since)| period.known(*since, Some(at))));
            (periods, since) = (after, after_since);
        }
        versions.extend(periods.iter().zip(since).map(|(period, since)| period.known(since, None)));
        versions.sort_unstable_by_key(|version| (version.valid_from, version.known_from));
        versions
    }

    /// The periods after the commit of the run with this index, which changes only answers about `from` and later.
    fn periods_after(
        &mut self,
        statements: &[RecordStatement],
        index: usize,
        from: Timestamp,
        before: &[ValidPeriod],
    ) -> Vec<ValidPeriod> {
        let mut periods: Vec<ValidPeriod> = Vec::with_capacity(before.len() + 1);
        for period in before.iter().take_while(|period| period.from < from) {
            let until = period.until.filter(|until| *until <= from).or(Some(from));
            periods.push(ValidPeriod { until, superseded_by: None, ..*period });
        }
        let later = self.dates.partition_point(|(date, ..)| *date <= from);
        let mut starts = vec![from];
        for (date, of, changes_others) in self.dates.get(later..).unwrap_or_default() {
            let Some(release) = self.releases.get(*of).filter(|_| *of <= index) else { continue };
            if (*changes_others || has_statement(statements, release.run)) && starts.last() != Some(date) {
                starts.push(*date);
            }
        }
        for (number, start) in starts.iter().enumerate() {
            let end = starts.get(number + 1).copied();
            for version in self.scope(index, *start).versions(statements) {
                let ends = [version.valid_until, end];
                let period = ValidPeriod {
                    statement: version.statement,
                    from: version.valid_from.max(*start),
                    until: ends.into_iter().flatten().min(),
                    unconfirmed_by: version.unconfirmed_by,
                    superseded_by: None,
                };
                if period.until.is_none_or(|until| period.from < until) {
                    append(&mut periods, period);
                }
            }
        }
        for number in 1..periods.len() {
            if let [earlier, next] = periods.get_mut(number - 1..=number).unwrap_or_default()
                && earlier.until == Some(next.from)
                && earlier.statement != next.statement
            {
                earlier.superseded_by = Some(next.statement);
            }
        }
        periods
    }

    /// The releases that a question about `time` sees after the commit of the run with this index.
    fn scope(&mut self, index: usize, time: Timestamp) -> &VisibleReleases {
        let known = self.releases.get(..=index).unwrap_or_default();
        if !self.scopes.contains_key(&(index, time)) {
            let kept_releases = self.kept_releases + known.len();
            if self.scopes.len() >= KEPT_SCOPES_MAX || kept_releases > KEPT_RELEASES_MAX {
                self.scopes.clear();
                self.kept_releases = 0;
            }
            self.kept_releases += known.len();
        }
        self.scopes.entry((index, time)).or_insert_with(|| {
            VisibleReleases::new(known, ReleaseScope { released_by: Some(time), ..ReleaseScope::default() })
        })
    }
}

/// Adds a period, or extends the last one if the version stays the same.
fn append(periods: &mut Vec<ValidPeriod>, period: ValidPeriod) {
    let same = |last: &&mut ValidPeriod| {
        last.until == Some(period.from)
            && (last.statement, last.unconfirmed_by) == (period.statement, period.unconfirmed_by)
    };
    match periods.last_mut().filter(same) {
        Some(last) => last.until = period.until,
        None => periods.push(period),
    }
}

fn is_same_version(one: &TimelineRun, other: &TimelineRun) -> bool {
    one.undoes.is_none() && one.version == other.version
}

fn has_statement(statements: &[RecordStatement], run: u32) -> bool {
    statements.binary_search_by_key(&run, |statement| statement.run).is_ok()
}

/// The run of the last of `releases` by date, if it counts, and is the latest reading of its version. A reading of a
/// version that was read again with an earlier date can still count for some records.
fn last_release(releases: &[TimelineRun]) -> Option<u32> {
    let place = |release: &&TimelineRun| (release.released_at, release.version.clone());
    let read = releases.iter().filter(|release| release.undoes.is_none());
    if read.clone().count() < releases.len() {
        let latest = VisibleReleases::new(releases, ReleaseScope::default()).latest()?;
        let last = releases.iter().find(|release| release.run == latest).as_ref().map(place);
        return read.map(|release| place(&release)).all(|other| Some(other) <= last).then_some(latest);
    }
    // without undos, the releases need no order
    let last = read.max_by(|one, other| {
        (one.released_at, &one.version, one.run).cmp(&(other.released_at, &other.version, other.run))
    })?;
    let latest_reading = releases.iter().rev().find(|other| is_same_version(other, last))?;
    (latest_reading.run == last.run).then_some(last.run)
}

impl KnowledgeStep {
    /// The step of the last of `releases`; `None` if there are none.
    fn new(releases: &[TimelineRun]) -> Option<Self> {
        let (release, earlier) = releases.split_last()?;
        let mut base = release;
        while let Some(undone) = base.undoes
            && let Some(of) = earlier.iter().find(|release| release.run == undone)
        {
            base = of;
        }
        let of_version = || releases.iter().filter(|other| is_same_version(other, base));
        let is_before = |other: &TimelineRun| {
            other.undoes.is_some()
                || (other.released_at, &other.version) < (release.released_at, &release.version)
        };
        let is_latest = release.undoes.is_none() && earlier.iter().all(is_before);
        let can_follow = is_latest && of_version().count() == 1;
        Some(Self {
            from: base.released_at,
            runs: of_version().map(|release| release.run).collect(),
            changes_others: of_version().any(|release| release.snapshot || release.has_unidentified),
            follows: if can_follow { last_release(earlier) } else { None },
        })
    }

    fn can_change(&self, statements: &[RecordStatement]) -> bool {
        self.changes_others || self.runs.iter().any(|run| has_statement(statements, *run))
    }

    /// Whether the run only confirms what the release before it states about the record.
    /// `has_own_dates` is whether any statement names its start. Such a statement of an earlier release may begin between
    /// the two releases, so only a statement with the same start confirms then.
    fn only_confirms(&self, statements: &[RecordStatement], has_own_dates: bool) -> bool {
        let (Some(follows), [run]) = (self.follows, &self.runs[..]) else { return false };
        let Ok(own) = statements.binary_search_by_key(run, |statement| statement.run) else { return false };
        let before = own.checked_sub(1).and_then(|before| statements.get(before));
        before.zip(statements.get(own)).is_some_and(|(before, own)| {
            let is_same = RecordStatement { run: own.run, ..*before } == *own;
            before.run == follows
                && is_same
                && own.content.is_some()
                && own.valid_until.is_none()
                && (own.valid_from.is_some() || !has_own_dates)
        })
    }
}

impl ValidPeriod {
    const fn known(&self, known_from: Timestamp, known_until: Option<Timestamp>) -> KnownVersion {
        KnownVersion {
            statement: self.statement,
            valid_from: self.from,
            valid_until: self.until,
            known_from,
            known_until,
            superseded_by: self.superseded_by,
            unconfirmed_by: self.unconfirmed_by,
        }
    }
}

/// The statements, rejections and withdrawals of a source's versions about one record.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAYS: i64 = 9;

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + day * 86_400).expect("a valid time")
    }

    fn hour(hour: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hour * 3_600).expect("a valid time")
    }

    /// Runs with their statements: releases in any order, readings of one version, snapshots, rejects and undos.
    fn histories() -> impl Strategy<Value = (Vec<TimelineRun>, Vec<RecordStatement>)> {
        let moment = || prop::option::weighted(0.3, 0..DAYS);
        let content = prop::option::weighted(0.85, 0..3_u8);
        let stated = prop::option::weighted(0.75, (moment(), prop::option::weighted(0.2, 0..DAYS), content));
        let kind = (
            prop::bool::weighted(0.4),
            prop::bool::weighted(0.15),
            prop::option::weighted(0.2, any::<u32>()),
        );
        prop::collection::vec((0..DAYS, kind, 0..6_u8, stated), 1..9).prop_map(|runs| {
            let (mut releases, mut statements) = (Vec::<TimelineRun>::new(), Vec::new());
            for (run, (released, (snapshot, has_unidentified, undoes), version, stated)) in (1..).zip(runs) {
                let undone = undoes.filter(|_| run > 1).map(|of| 1 + of % (run - 1));
                let of = undone.and_then(|of| releases.iter().find(|release| release.run == of));
                releases.push(TimelineRun {
                    run,
                    version: of.map_or(version.to_string(), |of| of.version.clone()),
                    released_at: of.map_or(day(released), |of| of.released_at),
                    ingested_at: hour(run.into()),
                    snapshot,
                    has_unidentified,
                    undoes: undone,
                });
                let stated = stated.filter(|_| undone.is_none());
                statements.extend(stated.map(|(from, until, content)| RecordStatement {
                    run,
                    valid_from: from.map(day),
                    valid_until: until.map(day),
                    content: content.map(|content| [content; 32]),
                }));
            }
            (releases, statements)
        })
    }

    #[test]
    fn history_keeps_a_limited_number_of_releases() {
        let release = |run: u32| TimelineRun {
            run,
            version: run.to_string(),
            released_at: day(run.into()),
            ingested_at: hour(run.into()),
            snapshot: true,
            has_unidentified: false,
            undoes: None,
        };
        let releases: Vec<_> = (1..4).map(release).collect();
        let mut history = ReleaseHistory::new(&releases);
        for (index, time, kept) in [(2, 3, (1, 3)), (1, 2, (2, 5)), (1, 2, (2, 5))] {
            assert!(history.scope(index, day(time)).latest().is_some());
            assert_eq!((history.scopes.len(), history.kept_releases), kept);
        }
        history.kept_releases = KEPT_RELEASES_MAX;
        assert!(history.scope(0, day(1)).latest().is_some());
        assert_eq!((history.scopes.len(), history.kept_releases), (1, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 2_000 } else { 200_000 }))]

        #[test]
        fn known_versions_answer_each_question_as_its_own_scope((releases, statements) in histories()) {
            let found = ReleaseHistory::new(&releases).known_versions(&statements);
            for (time, known) in (-1..=DAYS).flat_map(|at| (0..10).map(move |known| (day(at), hour(known)))) {
                let scope = ReleaseScope { known_at: Some(known), released_by: Some(time) };
                let expected = VisibleReleases::new(&releases, scope).valid_at(&statements, time);
                let contains = |version: &&KnownVersion| {
                    version.valid_from <= time && version.valid_until.is_none_or(|until| time < until)
                        && version.known_from <= known && version.known_until.is_none_or(|until| known < until)
                };
                let answers: Vec<_> = found.iter().filter(contains).collect();
                prop_assert!(answers.len() <= 1, "{:?}", answers);
                let answer = answers.first().map(|version| (version.statement, version.unconfirmed_by));
                let expected = expected.map(|version| (version.statement, version.unconfirmed_by));
                prop_assert_eq!(answer, expected, "at {} as known at {}", time, known);
            }
        }

        #[test]
        fn known_versions_are_no_smaller_than_necessary((releases, statements) in histories()) {
            let found = ReleaseHistory::new(&releases).known_versions(&statements);
            for (one, other) in found.iter().flat_map(|one| found.iter().map(move |other| (one, other))) {
                let shown = |version: &KnownVersion| (version.statement, version.unconfirmed_by);
                let same_knowledge =
                    (one.known_from, one.known_until) == (other.known_from, other.known_until);
                prop_assert!(
                    shown(one) != shown(other) || !same_knowledge || one.valid_until != Some(other.valid_from)
                );
            }
        }
    }
}
