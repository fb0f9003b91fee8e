//! The queue of durable work: mails and webhooks to be sent, and orders of verdicts.
//!
//! Work is in the store, which is authoritative and has no limit. A [`WorkRunner`] keeps the work that is due first in memory, and
//! starts an attempt for each when it is due: within the limits of the kind, each in a task of its own. After a start it surveys the
//! store, so that no work is lost with the process. A kind of work implements [`Work`] beside itself; its attempt commits its outcome.
//!
//! At most one attempt, or one administrator's action, is in flight at a time for each item.

use crate::clock::Clock;
use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised,
    WrapFuture,
};
use domain_base::work::Backoff;
use jiff::{SignedDuration, Timestamp};
use oracled_store::StoreError;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// Interval between checks for due work.
pub const TICK: Duration = Duration::from_secs(1);
/// The pauses after attempts that panicked.
const PANIC_BACKOFF: Backoff = Backoff {
    first_pause: SignedDuration::from_secs(5),
    longest_pause: SignedDuration::from_hours(1),
    longest_wait: SignedDuration::from_hours(1),
};
/// When to try again while something else has the work in flight.
const CLAIM_PAUSE: SignedDuration = SignedDuration::from_millis(100);

/// The limits of a kind of work.
#[derive(Debug, Clone, Copy)]
pub struct WorkLimits {
    /// Maximum number of attempts that are started or running at once.
    pub at_once: usize,
    /// That of one lane.
    pub lane_at_once: usize,
    /// Maximum amount of work of a lane in memory. The rest is found by a further survey.
    pub lane_in_memory: usize,
    /// The time between two surveys, which find work whose wake-up was lost. `None`: no wake-up is lost.
    pub survey_period: Option<SignedDuration>,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The work has left the queue: it is done, ended, or reported by [`WakeWork`] when it is due again.
    Left,
    /// The next attempt is due at this time.
    Due(Timestamp),
    /// No attempt was possible. The work stays due, and nothing of its lane is attempted before the next tick.
    Blocked,
}

/// A kind of durable work.
pub trait Work: Debug + Clone + Send + Unpin + 'static {
    /// The name of the work in log lines.
    const NAME: &'static str;
    const LIMITS: WorkLimits;
    type Id: Debug + Display + Clone + Ord + Hash + Send + Unpin + 'static;
    /// Lanes take turns, and one that is blocked or full delays no other.
    type Lane: Debug + Clone + Ord + Send + Unpin + 'static;

    fn clock(&self) -> &Clock;

    /// The work of this kind that has an attempt, or an administrator's action, in progress.
    fn in_flight(&self) -> &InFlight<Self::Id>;

    /// Whether attempts of a lane may start at all.
    fn is_on(&self, lane: &Self::Lane) -> bool;

    /// Adds all stored work with its due times. Blocks on disk reads. Returns false if the work changed meanwhile in a way that needs
    /// another survey.
    ///
    /// # Errors
    /// The store cannot be read.
    fn survey(&self, found: &mut WorkQueue<Self::Lane, Self::Id>) -> Result<bool, StoreError>;

    /// Makes an attempt of work that is due in memory; in the store it may have ended or have another time. No other attempt of it
    /// runs until `claim` is dropped.
    fn attempt(
        self,
        claim: InFlightClaim<Self::Id>,
        runner: Addr<WorkRunner<Self>>,
    ) -> impl Future<Output = WorkOutcome> + 'static;

    /// Called at each tick and after each survey, before attempts start.
    fn tick(&self, queue: &mut WorkQueue<Self::Lane, Self::Id>);
}

/// Reports when work is due.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeWork<W: Work> {
    pub lane: W::Lane,
    pub id: W::Id,
    /// `None`: not at all, or a further report follows.
    pub due: Option<Timestamp>,
    /// Whether attempts of blocked lanes may be possible now.
    pub unblocks: bool,
}

/// Removes work that ended outside of an attempt.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct RemoveWork<W: Work>(pub W::Id);

/// Takes no further work. Returns when the attempts in flight have ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopWork;

/// Reports the outcome of an attempt.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ReportAttempt<W: Work> {
    work: DueWork<W::Lane, W::Id>,
    /// `None`: it panicked.
    outcome: Option<WorkOutcome>,
}

/// The actor that runs a kind of work.
#[derive(Debug)]
pub struct WorkRunner<W: Work> {
    pub work: W,
    pub queue: WorkQueue<W::Lane, W::Id>,
    /// Whether a survey is running.
    is_surveying: bool,
    /// When the last survey ended.
    surveyed_at: Option<Timestamp>,
    /// The steps of the clock at the last survey.
    clock_steps: u64,
    /// The number of panics in a row of attempts of this work.
    panics: HashMap<W::Id, u32>,
}

impl<W: Work> WorkRunner<W> {
    pub fn new(work: W) -> Self {
        let clock_steps = work.clock().step_count();
        let queue = WorkQueue::new(&W::LIMITS);
        Self { work, queue, is_surveying: false, surveyed_at: None, clock_steps, panics: HashMap::new() }
    }

    /// Whether a survey has found all stored work since the start.
    pub const fn has_surveyed(&self) -> bool {
        self.surveyed_at.is_some()
    }

    pub fn tick(&mut self, ctx: &mut Context<Self>) {
        self.queue.unblock();
        self.survey_if_due(ctx);
        self.work.tick(&mut self.queue);
        self.start_due(&ctx.address());
    }

    /// Starts a survey after a start or a step of the clock, and if the memory runs low or the last survey is too old.
    fn survey_if_due(&mut self, ctx: &mut Context<Self>) {
        let (now, steps) = (self.work.clock().now(), self.work.clock().step_count());
        let is_recent = self.surveyed_at.is_some_and(|at| {
            // the absolute difference: a clock that was set back must not delay the survey
            W::LIMITS.survey_period.is_none_or(|period| now.duration_since(at).abs() < period)
        });
        let was_set = steps != self.clock_steps;
        if self.is_surveying || (is_recent && !was_set && !self.queue.is_running_low()) {
            return;
        }
        if was_set {
            tracing::warn!("the clock was set; surveying the {} again", W::NAME);
        }
        self.is_surveying = true;
        self.queue.begin_survey();
        let work = self.work.clone();
        let survey = spawn_blocking(move || {
            let mut found = WorkQueue::new(&W::LIMITS);
            work.survey(&mut found).map(|is_current| (found, is_current))
        });
        ctx.spawn(survey.into_actor(self).map(move |survey, runner, ctx| {
            runner.is_surveying = false;
            match survey.map_err(|panic| panic.to_string()).and_then(|found| found.map_err(|e| e.to_string()))
            {
                Ok((found, is_current)) => {
                    runner.queue.replace(found);
                    runner.clock_steps = steps;
                    runner.surveyed_at = is_current.then(|| runner.work.clock().now());
                    runner.work.tick(&mut runner.queue);
                    runner.start_due(&ctx.address());
                }
                Err(error) => tracing::error!(error, "could not survey the {}; trying again", W::NAME),
            }
        }));
    }

    /// Starts attempts of the work that is due, within the limits.
    pub fn start_due(&mut self, me: &Addr<Self>) {
        if self.work.in_flight().is_stopped() {
            return;
        }
        let now = self.work.clock().now();
        while let Some(due) = self.queue.take_due(now, |lane| self.work.is_on(lane)) {
            let Some(claim) = self.work.in_flight().claim(due.id.clone()) else {
                let later = now.saturating_add(CLAIM_PAUSE).unwrap_or(Timestamp::MAX);
                self.queue.end(due, WorkOutcome::Due(later));
                continue;
            };
            let me = me.clone();
            // a task of its own: the attempt must be completed even if the actor panics
            let attempt = actix_rt::spawn(self.work.clone().attempt(claim, me.clone()));
            actix_rt::spawn(async move {
                let outcome = attempt.await.inspect_err(|panic| {
                    tracing::error!(id = %due.id, %panic, "an attempt of the {} panicked", W::NAME);
                });
                let outcome = outcome.ok();
                me.do_send(ReportAttempt::<W> { work: due, outcome });
            });
        }
    }
}

impl<W: Work> Actor for WorkRunner<W> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.tick(ctx);
        ctx.run_interval(TICK, Self::tick);
    }
}

impl<W: Work> Supervised for WorkRunner<W> {
    fn restarting(&mut self, _: &mut Context<Self>) {
        // `started` runs again after this, and attempts in flight continue
        (self.is_surveying, self.surveyed_at) = (false, None);
    }
}

crate::handle_actor_calls!(WorkRunner<W>, W: Work);

impl<W: Work> Handler<WakeWork<W>> for WorkRunner<W> {
    type Result = ();

    fn handle(&mut self, WakeWork { lane, id, due, unblocks }: WakeWork<W>, ctx: &mut Context<Self>) {
        if unblocks {
            self.queue.unblock();
        }
        if let Some(due) = due {
            self.queue.insert(lane, id, due);
        }
        self.start_due(&ctx.address());
    }
}

impl<W: Work> Handler<RemoveWork<W>> for WorkRunner<W> {
    type Result = ();

    fn handle(&mut self, RemoveWork(id): RemoveWork<W>, _: &mut Context<Self>) {
        self.queue.remove(&id);
    }
}

impl<W: Work> Handler<ReportAttempt<W>> for WorkRunner<W> {
    type Result = ();

    fn handle(&mut self, ReportAttempt { work, outcome }: ReportAttempt<W>, ctx: &mut Context<Self>) {
        let outcome = match outcome {
            Some(outcome) => {
                self.panics.remove(&work.id);
                outcome
            }
            None => {
                let panics = self.panics.entry(work.id.clone()).or_default();
                let pause = PANIC_BACKOFF.pause(*panics);
                *panics += 1;
                WorkOutcome::Due(self.work.clock().now().saturating_add(pause).unwrap_or(Timestamp::MAX))
            }
        };
        self.queue.end(work, outcome);
        self.start_due(&ctx.address());
    }
}

impl<W: Work> Handler<StopWork> for WorkRunner<W> {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: StopWork, _: &mut Context<Self>) -> Self::Result {
        self.work.in_flight().stop();
        Box::pin(self.work.in_flight().clone().wait_until_empty())
    }
}

/// Work that was taken from the queue.
#[derive(Debug)]
struct DueWork<L, I> {
    lane: L,
    id: I,
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
    fn take_due(&mut self, now: Timestamp, is_on: impl Fn(&L) -> bool) -> Option<DueWork<L, I>> {
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
    fn end(&mut self, DueWork { lane, id, due }: DueWork<L, I>, outcome: WorkOutcome) {
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
    fn unblock(&mut self) {
        self.lanes.values_mut().for_each(|lane| lane.is_blocked = false);
    }

    /// Notes that a survey begins.
    fn begin_survey(&mut self) {
        self.changed = Some(BTreeSet::new());
    }

    fn note_change(&mut self, id: &I) {
        if let Some(changed) = &mut self.changed {
            changed.insert(id.clone());
        }
    }

    /// Replaces the work by that of a survey, except for what was added, taken or removed since it began.
    fn replace(&mut self, mut survey: Self) {
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
    fn is_running_low(&self) -> bool {
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

/// The set of items in flight. It outlives panics of its actor, because attempts do.
#[derive(Debug)]
pub struct InFlight<I> {
    ids: Arc<watch::Sender<HashSet<I>>>,
    /// Whether no further attempt may start.
    is_stopped: Arc<AtomicBool>,
}

/// Exclusive access to an item, until this is dropped.
#[derive(Debug)]
pub struct InFlightClaim<I: Eq + Hash> {
    pub id: I,
    in_flight: InFlight<I>,
}

impl<I> Default for InFlight<I> {
    fn default() -> Self {
        Self { ids: Arc::new(watch::channel(HashSet::new()).0), is_stopped: Arc::default() }
    }
}

impl<I> Clone for InFlight<I> {
    fn clone(&self) -> Self {
        Self { ids: Arc::clone(&self.ids), is_stopped: Arc::clone(&self.is_stopped) }
    }
}

impl<I: Eq + Hash + Clone> InFlight<I> {
    /// Marks an item as in flight. `None` if it already is.
    pub fn claim(&self, id: I) -> Option<InFlightClaim<I>> {
        self.claim_below(id, usize::MAX)
    }

    /// Marks an item as in flight. `None` if it already is, or if `most` items are.
    pub fn claim_below(&self, id: I, most: usize) -> Option<InFlightClaim<I>> {
        let claimed = self.ids.send_if_modified(|ids| ids.len() < most && ids.insert(id.clone()));
        claimed.then(|| InFlightClaim { id, in_flight: self.clone() })
    }

    /// Waits until an item is no longer in flight, and then marks it as in flight.
    pub async fn claim_when_free(&self, id: I) -> InFlightClaim<I> {
        let mut changes = self.ids.subscribe();
        loop {
            if let Some(claim) = self.claim(id.clone()) {
                return claim;
            }
            // the sender is in `self`, so the channel stays open
            drop(changes.wait_for(|ids| !ids.contains(&id)).await);
        }
    }

    pub fn contains(&self, id: &I) -> bool {
        self.ids.borrow().contains(id)
    }

    /// The number of items in flight for which `counts` returns true.
    pub fn count(&self, counts: impl Fn(&I) -> bool) -> usize {
        self.ids.borrow().iter().filter(|id| counts(id)).count()
    }

    /// Lets no further attempt start.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Waits until the items that are in flight now and for which `waits` returns true have ended.
    pub async fn wait_for_present(&self, waits: impl Fn(&I) -> bool) {
        let present: Vec<I> = self.ids.borrow().iter().filter(|id| waits(id)).cloned().collect();
        // the sender is in `self`, so the channel stays open
        drop(self.ids.subscribe().wait_for(|ids| present.iter().all(|id| !ids.contains(id))).await);
    }

    pub async fn wait_until_empty(self) {
        // the sender is in `self`, so the channel stays open
        drop(self.ids.subscribe().wait_for(HashSet::is_empty).await);
    }
}

impl<I: Eq + Hash> Drop for InFlightClaim<I> {
    fn drop(&mut self) {
        self.in_flight.ids.send_modify(|ids| {
            ids.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests;
