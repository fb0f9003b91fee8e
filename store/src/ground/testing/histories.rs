//! Random histories of a source, and a plain model that answers questions about them.
//!
//! The model is a reference for the daemon: it uses none of its code. The end-to-end tests include this file, too.

use std::collections::BTreeMap;

/// The ids of the records. The last one is stated by each reading, since a payload without a valid record fails.
pub(crate) const RECORDS: u8 = 5;
/// The days of releases are from 1 to this day.
pub(crate) const DAYS: i64 = 9;
const VERSIONS: u8 = 4;
const VALUES: u8 = 3;
const STEPS_MAX: usize = 9;

/// A source, and its runs in the order of their arrival.
#[derive(Debug, Clone)]
pub(crate) struct SourceHistory {
    pub(crate) snapshot: bool,
    pub(crate) steps: Vec<HistoryStep>,
}

#[derive(Debug, Clone)]
pub(crate) enum HistoryStep {
    /// A version is read, for the first time or again.
    Read(VersionReading),
    /// The step with this index is undone.
    Undo(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct VersionReading {
    pub(crate) version: u8,
    pub(crate) released: i64,
    pub(crate) records: Vec<ReadRecord>,
    /// Whether it has a reject without an identity.
    pub(crate) has_unidentified: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct ReadRecord {
    pub(crate) id: u8,
    /// `None` if the record is rejected.
    pub(crate) value: Option<u8>,
    pub(crate) from: Option<i64>,
    /// Only with `from`, and after it.
    pub(crate) until: Option<i64>,
}

/// A record in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerRecord {
    pub(crate) id: u8,
    pub(crate) value: u8,
    pub(crate) from: i64,
    pub(crate) until: Option<i64>,
    /// The version that stated the value last.
    pub(crate) seen: u8,
    /// The version that could not confirm it.
    pub(crate) unconfirmed: Option<u8>,
}

/// The place of a reading among all releases: its day, its version, and its step.
type ReleasePlace = (i64, u8, usize);

impl SourceHistory {
    /// A random history. An undo concerns a run that can be undone.
    pub(crate) fn random(random: &mut fastrand::Rng) -> Self {
        let snapshot = random.u8(..3) > 0;
        let mut history = Self { snapshot, steps: Vec::new() };
        for _ in 0..random.usize(2..=STEPS_MAX) {
            let undoable: Vec<_> =
                (0..history.steps.len()).filter(|step| history.can_be_undone(*step)).collect();
            let undo = random.choice(&undoable).copied().filter(|_| random.u8(..5) == 0);
            let step =
                undo.map_or_else(|| HistoryStep::Read(history.random_reading(random)), HistoryStep::Undo);
            history.steps.push(step);
        }
        history
    }

    fn random_reading(&self, random: &mut fastrand::Rng) -> VersionReading {
        let version = random.u8(..VERSIONS);
        // most readings of a version have the same day
        let known = self.readings().find(|(_, reading)| reading.version == version);
        let released = match known {
            Some((_, reading)) if random.u8(..6) > 0 => reading.released,
            _ => random.i64(1..=DAYS),
        };
        let mut records: Vec<_> = (0..RECORDS - 1)
            .filter_map(|id| {
                let is_read = random.u8(..10) < 7;
                let from = Some(random.i64(0..DAYS)).filter(|_| random.u8(..10) < 3);
                let until = from.map(|from| from + random.i64(1..5)).filter(|_| random.u8(..10) < 3);
                let value = Some(random.u8(..VALUES)).filter(|_| random.u8(..10) < 7);
                is_read.then_some(ReadRecord { id, value, from, until })
            })
            .collect();
        let last = ReadRecord { id: RECORDS - 1, value: Some(random.u8(..VALUES)), from: None, until: None };
        records.push(last);
        VersionReading { version, released, records, has_unidentified: random.u8(..5) == 0 }
    }

    /// The readings, each with its step.
    fn readings(&self) -> impl DoubleEndedIterator<Item = (usize, &VersionReading)> {
        self.steps.iter().enumerate().filter_map(|(step, read)| match read {
            HistoryStep::Read(reading) => Some((step, reading)),
            HistoryStep::Undo(_) => None,
        })
    }

    /// Whether none of the first `known` steps undoes this step, or that undo was undone.
    fn counts(&self, step: usize, known: usize) -> bool {
        let undoes =
            |later: &usize| matches!(self.steps[*later], HistoryStep::Undo(undone) if undone == step);
        !(step + 1..known).filter(undoes).any(|undo| self.counts(undo, known))
    }

    fn can_be_undone(&self, step: usize) -> bool {
        let known = self.steps.len();
        let is_latest = match &self.steps[step] {
            HistoryStep::Undo(_) => true,
            HistoryStep::Read(reading) => !self.readings().any(|(later, other)| {
                later > step && other.version == reading.version && self.counts(later, known)
            }),
        };
        is_latest && self.counts(step, known)
    }

    /// The answer to a question about `day` that sees the first `known` steps.
    pub(crate) fn answer(&self, known: usize, day: i64) -> Vec<AnswerRecord> {
        (0..RECORDS).filter_map(|id| self.answer_about(id, known, day)).collect()
    }

    fn answer_about(&self, id: u8, known: usize, day: i64) -> Option<AnswerRecord> {
        let seen = |(step, reading): &(usize, &VersionReading)| {
            *step < known && reading.released <= day && self.counts(*step, known)
        };
        let readings: Vec<_> = self.readings().filter(seen).collect();
        let mut certain = Vec::new();
        let mut doubts: Vec<(ReleasePlace, u8)> = Vec::new();
        for version in 0..VERSIONS {
            let of_version: Vec<_> =
                readings.iter().filter(|(_, reading)| reading.version == version).collect();
            let Some((last_step, last)) = of_version.last() else { continue };
            let is_certain = |(_, reading): &&&(usize, &VersionReading)| match reading.record(id) {
                Some(record) => record.value.is_some(),
                None => !reading.has_unidentified,
            };
            let word = of_version.iter().rev().find(is_certain).map(|(step, reading)| (*step, *reading));
            let last_place = last.place(*last_step);
            let place = word.map(|(step, reading)| reading.place(step));
            certain.extend(word.map(|(step, reading)| (reading.place(step), reading.record(id))));
            let mut doubtful =
                of_version.iter().filter(|(step, _)| word.is_none_or(|(word, _)| *step > word));
            let is_in_doubt = doubtful.clone().next().is_some();
            let is_rejected = doubtful.any(|(_, reading)| reading.record(id).is_some());
            let is_kept = word.is_some_and(|(_, reading)| reading.record(id).is_some());
            if is_in_doubt && (is_rejected || is_kept || self.snapshot) {
                doubts.push((place.map_or(last_place, |place| place.max(last_place)), version));
            }
        }
        certain.sort_by_key(|(place, _)| *place);
        let newest = certain.iter().filter(|(_, record)| record.is_some()).map(|(place, _)| *place).max();
        let doubt = doubts.into_iter().max().filter(|(place, _)| Some(*place) >= newest);
        let unconfirmed = doubt.map(|(_, version)| version);
        let period = self
            .periods(&certain)
            .into_iter()
            .find(|period| period.from <= day && period.until.is_none_or(|until| day < until))?;
        let ValuePeriod { from, until, value, seen: (_, seen, _) } = period;
        Some(AnswerRecord { id, value, from, until, seen, unconfirmed })
    }

    /// The periods of values that result from these words about a record, in the order of the releases.
    fn periods(&self, words: &[(ReleasePlace, Option<&ReadRecord>)]) -> Vec<ValuePeriod> {
        // by the start of validity: the value, its own end, and the day of a snapshot that lacks the record
        let mut standing = BTreeMap::<i64, (u8, Option<i64>, Option<i64>, ReleasePlace)>::new();
        for (place, record) in words {
            let released = place.0;
            match record {
                Some(record) => {
                    let from = record.from.unwrap_or(released);
                    // the record is back: what had ended by its absence, from then on, is replaced
                    standing.retain(|begin, (_, _, gone, _)| gone.is_none() || *begin < from);
                    let value = record.value.expect("a certain record has a value");
                    standing.insert(from, (value, record.until, None, *place));
                }
                None if self.snapshot => {
                    standing.values_mut().for_each(|(_, _, gone, _)| *gone = gone.or(Some(released)));
                    standing.retain(|begin, (_, _, gone, _)| gone.is_none_or(|gone| *begin < gone));
                }
                None => {}
            }
        }
        let mut periods: Vec<ValuePeriod> = Vec::new();
        let begins: Vec<i64> = standing.keys().copied().collect();
        for (from, (value, own_until, gone, seen)) in standing {
            let next = begins.iter().copied().find(|begin| *begin > from);
            let until = [next, own_until, gone].into_iter().flatten().min();
            match periods.last_mut().filter(|last| last.until == Some(from) && last.value == value) {
                Some(last) => (last.until, last.seen) = (until, last.seen.max(seen)),
                None => periods.push(ValuePeriod { from, until, value, seen }),
            }
        }
        periods
    }
}

impl VersionReading {
    fn record(&self, id: u8) -> Option<&ReadRecord> {
        self.records.iter().find(|record| record.id == id)
    }

    fn place(&self, step: usize) -> ReleasePlace {
        (self.released, self.version, step)
    }
}

/// A period in which a record has the same value.
struct ValuePeriod {
    from: i64,
    until: Option<i64>,
    value: u8,
    seen: ReleasePlace,
}
