//! The work in memory. Within a lane it is taken in the order of its due times, and lanes take turns.

use super::{WorkLimits, WorkOutcome};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::mem;
use std::ops::Bound;

/// Work that was taken from the queue.
#[derive(Debug)]
pub(super) struct DueWork<L, I> {
    pub(super) lane: L,
    pub(super) id: I,
    due: Timestamp,
}

/// The work of one lane that is due first. Work that is due after the horizon is only on disk.
#[derive(Debug)]
struct Lane<I> {
    by_due: BTreeSet<(Timestamp, I)>,
    /// The lane has all work that is due up to this time. `None`: it has all of its work.
    horizon: Option<Timestamp>,
    /// Whether nothing is taken until the next tick.
    is_blocked: bool,
    /// The work with an attempt in progress.
    running: Vec<I>,
}

impl<I> Default for Lane<I> {
    fn default() -> Self {
        Self { by_due: BTreeSet::new(), horizon: None, is_blocked: false, running: Vec::new() }
    }
}

/// The work of one kind in memory.
#[derive(Debug)]
pub struct WorkQueue<L, I> {
    limits: WorkLimits,
    lanes: BTreeMap<L, Lane<I>>,
    known: HashMap<I, (L, Timestamp)>,
    /// The lane whose work was taken last, and the one before.
    last: (Option<L>, Option<L>),
    /// During a survey, the work that was added, taken or removed since it began: the survey may have read it before.
    changed: Option<BTreeSet<I>>,
    /// Whether a survey has found all stored work.
    is_surveyed: bool,
}

impl<L: Ord + Clone, I: Ord + Clone + Hash> WorkQueue<L, I> {
    pub fn new(limits: &WorkLimits) -> Self {
        Self {
            limits: *limits,
            lanes: BTreeMap::new(),
            known: HashMap::new(),
            last: (None, None),
            changed: None,
            is_surveyed: false,
        }
    }

    /// Adds work. If it is known, the earlier time counts: an attempt that is too early finds the later one in the store. Work that is
    /// due after the horizon of its lane is left out.
    pub fn insert(&mut self, lane: L, id: I, due: Timestamp) {
        let due = self.known.get(&id).map_or(due, |(_, known)| due.min(*known));
        self.remove(&id);
        let Lane { by_due, horizon, .. } = self.lanes.entry(lane.clone()).or_default();
        if horizon.is_some_and(|horizon| due > horizon) {
            return;
        }
        by_due.insert((due, id.clone()));
        self.known.insert(id, (lane, due));
        if by_due.len() > self.limits.lane_in_memory
            && let Some((latest, id)) = by_due.pop_last()
        {
            self.known.remove(&id);
            *horizon = Some(latest);
        }
    }

    pub fn remove(&mut self, id: &I) {
        self.note_change(id);
        if let Some((id, (lane, due))) = self.known.remove_entry(id)
            && let Some(lane) = self.lanes.get_mut(&lane)
        {
            lane.by_due.remove(&(due, id));
        }
    }

    pub fn contains(&self, id: &I) -> bool {
        self.known.contains_key(id)
    }

    /// Whether the work is known, or has an attempt in progress.
    pub fn holds(&self, id: &I) -> bool {
        self.contains(id) || self.lanes.values().any(|lane| lane.running.contains(id))
    }

    /// The amount of work in memory, with that in progress.
    pub fn total(&self) -> usize {
        self.lanes.values().map(|lane| self.amount(lane)).sum()
    }

    /// That of one lane.
    pub fn total_of(&self, lane: &L) -> usize {
        self.lanes.get(lane).map_or(0, |lane| self.amount(lane))
    }

    /// A survey can have found work again whose attempt is in progress.
    fn amount(&self, lane: &Lane<I>) -> usize {
        lane.by_due.len() + lane.running.iter().filter(|id| !self.contains(id)).count()
    }

    /// Number of attempts in progress.
    pub fn running(&self) -> usize {
        self.lanes.values().map(|lane| lane.running.len()).sum()
    }

    /// The amount of work of the lanes that `counts` selects, with that in progress. `None` if more is on disk, or may be.
    pub fn amount_of(&self, counts: impl Fn(&L) -> bool) -> Option<usize> {
        let mut lanes = self.lanes.iter().filter(|(lane, _)| counts(lane)).map(|(_, lane)| lane);
        let amounts = lanes.by_ref().map(|lane| lane.horizon.is_none().then(|| self.amount(lane)));
        if self.is_surveyed { amounts.sum() } else { None }
    }

    /// Whether the first work of `lane` that is added now would overtake no other.
    pub fn is_free(&self, lane: &L, now: Timestamp) -> bool {
        let own = self.lanes.get(lane).and_then(|lane| lane.by_due.first());
        self.next_due(now, &|_| true).is_none() && own.is_none_or(|(due, _)| *due > now)
    }

    /// Takes the work that is due first, of the next lane that has some and for which `is_on` returns true.
    pub(super) fn take_due(&mut self, now: Timestamp, is_on: impl Fn(&L) -> bool) -> Option<DueWork<L, I>> {
        if self.running() >= self.limits.at_once {
            return None;
        }
        let name = self.next_due(now, &is_on)?.clone();
        let lane = self.lanes.get_mut(&name)?;
        let (due, id) = lane.by_due.pop_first()?;
        lane.running.push(id.clone());
        self.known.remove(&id);
        self.note_change(&id);
        self.last = (Some(name.clone()), self.last.0.take());
        Some(DueWork { lane: name, id, due })
    }

    /// Ends the attempt of work that was taken. A lane that is blocked by it keeps its turn.
    pub(super) fn end(&mut self, DueWork { lane, id, due }: DueWork<L, I>, outcome: WorkOutcome) {
        if let Some(lane) = self.lanes.get_mut(&lane) {
            // once: work that is taken again during its attempt is in it twice
            if let Some(at) = lane.running.iter().position(|running| *running == id) {
                lane.running.swap_remove(at);
            }
            lane.is_blocked |= outcome == WorkOutcome::Blocked;
        }
        match outcome {
            WorkOutcome::Left => {}
            WorkOutcome::Due(due) => self.insert(lane, id, due),
            WorkOutcome::Blocked => {
                self.insert(lane, id, due);
                self.last.0 = self.last.1.clone();
            }
        }
    }

    /// Lets the work of blocked lanes be taken again.
    pub(super) fn unblock(&mut self) {
        self.lanes.values_mut().for_each(|lane| lane.is_blocked = false);
    }

    /// Notes that a survey begins.
    pub(super) fn begin_survey(&mut self) {
        self.changed = Some(BTreeSet::new());
    }

    fn note_change(&mut self, id: &I) {
        if let Some(changed) = &mut self.changed {
            changed.insert(id.clone());
        }
    }

    /// Replaces the work by that of a survey, except for what was added, taken or removed since it began.
    pub(super) fn replace(&mut self, mut survey: Self) {
        let changed = self.changed.take().unwrap_or_default();
        changed.iter().for_each(|id| survey.remove(id));
        let older = mem::replace(&mut self.known, survey.known);
        self.is_surveyed = true;
        for lane in self.lanes.values_mut() {
            (lane.by_due, lane.horizon) = (BTreeSet::new(), None);
        }
        for (name, found) in survey.lanes {
            let lane = self.lanes.entry(name).or_default();
            (lane.by_due, lane.horizon) = (found.by_due, found.horizon);
        }
        for (id, (lane, due)) in older {
            if changed.contains(&id) {
                self.insert(lane, id, due);
            }
        }
    }

    /// Whether more work is on disk, and at least half of the memory for its lane is free.
    pub(super) fn is_running_low(&self) -> bool {
        let half = self.limits.lane_in_memory / 2;
        self.lanes.values().any(|lane| lane.horizon.is_some() && lane.by_due.len() <= half)
    }

    /// The first lane after the last one, in a circle, whose first work is due and may be taken.
    fn next_due(&self, now: Timestamp, is_on: &impl Fn(&L) -> bool) -> Option<&L> {
        let is_due = |(name, lane): &(&L, &Lane<I>)| {
            let is_open = !lane.is_blocked && lane.running.len() < self.limits.lane_at_once;
            is_open && lane.by_due.first().is_some_and(|(due, _)| *due <= now) && is_on(name)
        };
        let after = self.last.0.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut turns = self.lanes.range((after, Bound::Unbounded)).chain(&self.lanes);
        turns.find(is_due).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests;
