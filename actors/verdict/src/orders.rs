//! Orders: first verdicts that the model generates at a route's request.
//!
//! An order is stored with its session before the model is asked, so it survives failures of the model and restarts. Open orders are
//! a kind of [`Work`], whose attempts start one after the other within the limits of model calls. An attempt is committed before the
//! model is called; an attempt that a restart cut off counts as one.

mod attempt;
mod place;

use self::attempt::CommittedOrder;
use crate::cache::{AdmitVerdict, PolicyConfig, VerdictCacheError, VerdictRelease};
use crate::evidence::evidence_of_held;
use crate::generation::{GenerationError, GenerationRunner, PromptTrial, PromptTrialResult, QueueLimit};
use crate::held_key::HeldKeyError;
use crate::order_metrics::{OrderMetrics, OrderProgress, WAITING};
use crate::submission::{GenerationTrace, Submission, SubmissionOutcome};
use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_audit::logger::CommitError;
use actors_platform::clock::Clock;
use actors_platform::work::{
    InFlight, InFlightClaim, RemoveWork, WakeWork, Work, WorkLimits, WorkOutcome, WorkQueue, WorkRunner,
};
use actors_platform::work_turn::WorkTurn;
use domain_base::caller::{DecidingUser, PeerCredentials};
use domain_base::event::{AuditEvent, EventKind};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_verdict::cost::{day_of, time_without_budget};
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::{HeldVerdictRead, OrderCancelled, OrderRetried, OrderStopped};
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::order::{
    OperatorAction, Order, OrderAction, OrderPolicy, OrderPosition, OrderState, OrderStopCause, OrderWait,
};
use domain_verdict::policy::{HeldVerdict, PolicyCause, join_causes};
use domain_verdict::session::{SessionCaller, SessionRecord};
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, OrderQuery, RowExpectation, Store, StoreError};
pub use place::{PlaceOrder, PlacedOrder};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The number of orders that a survey reads at a time.
const AT_ONCE: usize = 100;

/// How long after its deadline an attempt of another host counts as interrupted: longer than the clocks of two hosts may differ, and
/// its commit may take.
const TAKEN_OVER_AFTER: SignedDuration = SignedDuration::from_secs(20);

/// The limits of orders.
#[derive(Debug, Clone)]
pub struct OrdersConfig {
    pub policy: OrderPolicy,
    /// Maximum number of open orders.
    pub queue_max: usize,
    /// That of applications that have a limit of their own.
    pub applications: BTreeMap<ApplicationName, usize>,
    /// The temperatures of the generations after the first one; the last one is also that of all further ones.
    pub further_temperatures: Vec<f64>,
}

impl OrdersConfig {
    /// The temperature of the next generation for `order`, if it is not that of the first one.
    fn temperature_of(&self, order: &Order) -> Option<f64> {
        let further = usize::try_from(order.generations).ok()?.checked_sub(1)?;
        self.further_temperatures.get(further).or(self.further_temperatures.last()).copied()
    }
}

/// The actor that generates first verdicts.
pub type OrdersActor = WorkRunner<OrderWork>;

/// Orders as a kind of [`Work`], and what their attempts need.
#[derive(Debug, Clone)]
pub struct OrderWork {
    runner: Arc<GenerationRunner>,
    config: OrdersConfig,
    gate: PolicyConfig,
    in_flight: InFlight<SessionId>,
    progress: OrderProgress,
    waits: OrderWaits,
    metrics: OrderMetrics,
    turn: WorkTurn,
    /// The requests for orders that the actor handles, each of which may add one.
    placing: Vec<Weak<SessionId>>,
}

impl OrderWork {
    /// `turn` decides whether this host makes the attempts of orders that wait.
    pub fn new(
        runner: Arc<GenerationRunner>,
        (config, turn): (OrdersConfig, WorkTurn),
        gate: PolicyConfig,
        in_flight: InFlight<SessionId>,
        progress: OrderProgress,
        waits: OrderWaits,
        metrics: OrderMetrics,
    ) -> Self {
        Self { runner, config, gate, in_flight, progress, waits, metrics, turn, placing: Vec::new() }
    }

    /// The limits of an order. The time in which a daily budget was used up does not count toward its age.
    fn policy(&self, session_id: &SessionId, order: &Order, now: Timestamp) -> OrderPolicy {
        // a clock that was set ahead makes no order older
        let set_ahead = self.clock().steps_since(order.tried_since);
        let days = self.store().costs(Some(day_of(order.tried_since)), Some(day_of(now)));
        let days = days.unwrap_or_else(|error| {
            // without the costs the order ends earlier, and with an error it would never end
            tracing::error!(%error, "the costs of days cannot be read; the age of an order counts in full");
            Vec::new()
        });
        let waited = time_without_budget(&days, &session_id.application(), order.tried_since, now);
        let max_age = self.config.policy.max_age.saturating_add(waited).saturating_add(set_ahead);
        OrderPolicy { max_age, ..self.config.policy }
    }

    fn store(&self) -> &Store {
        &self.runner.store
    }

    /// When an open order is due. An attempt that this process has not in flight was interrupted, since only it makes attempts, except for
    /// those of other hosts.
    fn due_or_interrupted(&self, order: &Order) -> Option<Timestamp> {
        let interrupted = order.attempt_deadline.map(|_| self.clock().now());
        self.foreign_until(order).or(interrupted).or_else(|| due_of(order, self.clock()))
    }

    /// In a cluster, until when another host may have an attempt in flight.
    fn foreign_until(&self, order: &Order) -> Option<Timestamp> {
        self.turn.host()?;
        Some(order.attempt_deadline?.saturating_add(TAKEN_OVER_AFTER).unwrap_or(Timestamp::MAX))
    }

    /// Reports to the queue when an order is due; `unblocks` is whether a model may be called now for orders that wait for one.
    fn wake(me: &Addr<OrdersActor>, session_id: SessionId, due: Option<Timestamp>, unblocks: bool) {
        me.do_send(WakeWork::<Self> { lane: session_id.application(), id: session_id, due, unblocks });
    }

    /// Removes an order that an operator or its application ended from the queue.
    fn leave_queue(&self, me: &Addr<OrdersActor>, session_id: SessionId) {
        self.waits.end_of_order(&session_id);
        me.do_send(RemoveWork::<Self>(session_id));
    }

    /// Wakes the orders that wait for the key of held verdicts if no verdict is held any longer: a missing key can be created then.
    fn wake_if_none_held(&self, me: &Addr<OrdersActor>) {
        // without an answer of the store, they are tried later
        if PolicyConfig::may_create_key(self.store()).unwrap_or(false) {
            let now = self.clock().now();
            for session_id in self.waits.for_key() {
                Self::wake(me, session_id, Some(now), false);
            }
        }
    }

    /// The limit that permits no further order of `application`, if one is reached.
    fn reached_limit(
        &mut self,
        queue: &WorkQueue<ApplicationName, SessionId>,
        application: &ApplicationName,
    ) -> Option<QueueLimit> {
        self.placing.retain(|placing| placing.strong_count() > 0);
        // an order can be in two of these at once: one in flight is also in the queue after a survey
        let in_flight = &self.in_flight;
        let placing: BTreeSet<_> = self.placing.iter().filter_map(Weak::upgrade).collect();
        let open = |counts: &dyn Fn(&SessionId) -> bool| {
            let counts = |id: &SessionId| counts(id) && !queue.holds(id);
            let placing = placing.iter().filter(|id| counts(id) && !in_flight.contains(id));
            in_flight.count(counts) + placing.count()
        };
        let queue_max = self.config.queue_max;
        if queue.total() + open(&|_| true) >= queue_max {
            return Some(QueueLimit { queue_max, application: None });
        }
        let queue_max = *self.config.applications.get(application)?;
        let open = queue.total_of(application) + open(&|id| id.application() == *application);
        (open >= queue_max).then(|| QueueLimit { queue_max, application: Some(application.clone()) })
    }
}

/// When the next attempt of a queued order is due, on the clock as it runs now.
fn due_of(order: &Order, clock: &Clock) -> Option<Timestamp> {
    let (now, then) = (clock.now(), clock.now_since(order.changed_at));
    order.due_at(then).map(|due| due.saturating_add(now.duration_since(then)).unwrap_or(due))
}

impl Work for OrderWork {
    const NAME: &'static str = "orders";
    const LIMITS: WorkLimits = WorkLimits {
        // attempts start one after the other, and continue in tasks of their own: the order of arrival is kept
        at_once: 1,
        lane_at_once: 1,
        lane_in_memory: usize::MAX,
        survey_period: None,
    };
    type Id = SessionId;
    type Lane = ApplicationName;

    fn clock(&self) -> &Clock {
        &self.runner.clock
    }

    fn in_flight(&self) -> &InFlight<SessionId> {
        &self.in_flight
    }

    fn is_on(&self, _: &ApplicationName) -> bool {
        self.turn.is_ours()
    }

    fn survey(&self, found: &mut WorkQueue<ApplicationName, SessionId>) -> Result<bool, StoreError> {
        for state in [OrderState::Queued, OrderState::Generating] {
            let mut before = None;
            loop {
                let query = OrderQuery { application: None, state: Some(state), before, limit: AT_ONCE };
                let sessions = self.store().orders(&query)?;
                before = sessions.last().and_then(|session| {
                    session
                        .order
                        .as_ref()
                        .map(|order| OrderPosition::of(&session.session_id, order.placed_at))
                });
                for SessionRecord { session_id, order, .. } in sessions {
                    let Some(order) = order else { continue };
                    if let Some(due) = self.due_or_interrupted(&order) {
                        found.insert(session_id.application(), session_id, due);
                    }
                }
                if before.is_none() {
                    break;
                }
            }
        }
        Ok(true)
    }

    async fn attempt(self, claim: InFlightClaim<SessionId>, runner: Addr<OrdersActor>) -> WorkOutcome {
        self.dispatch(claim, runner).await
    }

    /// Removes orders from the queue that ended outside of it, by a verdict that a route submitted.
    fn tick(&self, queue: &mut WorkQueue<ApplicationName, SessionId>) {
        for session_id in self.progress.take_ended() {
            // most ended by an attempt, which took them out of the queue
            if !queue.contains(&session_id) {
                continue;
            }
            // an operator may have retried it meanwhile
            let session = self.store().session(&session_id).ok().flatten();
            let order = session.and_then(|(session, _)| session.order);
            if order.is_none_or(|order| !order.state.is_open()) {
                queue.remove(&session_id);
                self.waits.end_of_order(&session_id);
            }
        }
    }
}

impl Handler<PlaceOrder> for OrdersActor {
    type Result = ResponseFuture<Result<PlacedOrder, GenerationError>>;

    fn handle(&mut self, PlaceOrder(submission): PlaceOrder, ctx: &mut Context<Self>) -> Self::Result {
        let now = self.work.clock().now();
        let application = submission.session_id.application();
        let full = self.work.reached_limit(&self.queue, &application);
        // a new order may not overtake the orders that wait
        let may_start =
            self.has_surveyed() && self.queue.running() == 0 && self.queue.is_free(&application, now);
        let placing = Arc::new(submission.session_id.clone());
        self.work.placing.push(Arc::downgrade(&placing));
        let (work, me) = (self.work.clone(), ctx.address());
        Box::pin(async move {
            let placed = work.place(submission, full, may_start, me.clone()).await;
            // after its wake-up: until the queue has the order, it counts as one that is placed
            me.do_send(EndPlacing { _placing: placing });
            placed
        })
    }
}

/// Ends the handling of a request for an order.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct EndPlacing {
    _placing: Arc<SessionId>,
}

impl Handler<EndPlacing> for OrdersActor {
    type Result = ();

    fn handle(&mut self, _: EndPlacing, _: &mut Context<Self>) {}
}

/// Notes a change of a session by another host.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct NoteForeignOrder(pub(crate) SessionId);

impl Handler<NoteForeignOrder> for OrdersActor {
    type Result = ();

    fn handle(&mut self, change: NoteForeignOrder, ctx: &mut Context<Self>) {
        let NoteForeignOrder(session_id) = change;
        self.queue.remove(&session_id);
        // an own commit may have changed it since
        let session = self.work.store().session(&session_id).ok().flatten();
        let Some(order) = session.and_then(|(session, _)| session.order) else {
            self.work.waits.end_of_order(&session_id);
            return self.work.progress.remove(&session_id);
        };
        self.work.progress.publish(&session_id, &order);
        if !order.state.is_open() {
            self.work.waits.end_of_order(&session_id);
        } else if let Some(due) = self.work.due_or_interrupted(&order) {
            self.queue.insert(session_id.application(), session_id, due);
            self.start_due(&ctx.address());
        }
    }
}

/// Cancels an order for its application. A call in progress continues, since it costs the same, and its answer is discarded.
/// Returns the session afterwards, also if the order was cancelled before. Errors have the session's id without its application.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<SessionRecord, OrderChangeError>")]
pub struct CancelOrder {
    pub session_id: SessionId,
    /// The caller of the request.
    pub caller: SessionCaller,
    /// The process of the caller.
    pub peer: PeerCredentials,
}

impl OrderWork {
    async fn cancel(
        &self,
        session_id: &SessionId,
        (caller, peer): (SessionCaller, PeerCredentials),
    ) -> Result<SessionRecord, OrderChangeError> {
        let is_refused = |session: &SessionRecord| session.change_mismatch(caller, None).is_some();
        let changed = self.change_order(session_id, |session, order, now| {
            (!order.state.has_ended() && !is_refused(&session)).then(|| {
                let cancelled = OrderCancelled {
                    from: order.state,
                    attempts: order.attempts,
                    reason: None,
                    user_name: None,
                    peer: Some(peer),
                };
                let event = AuditEvent::new(now, session_id.clone(), cancelled);
                (SessionRecord { order: Some(order.cancelled(now)), ..session }, vec![event])
            })
        });
        let changed = changed.await.map_err(|error| match error {
            // the reason of a hold is not for an application
            GenerationError::Cache(VerdictCacheError::OnHold(hold)) => {
                OrderChangeError::OnHold(hold.session_id.into_local())
            }
            error => error.into(),
        });
        if let Some(CommittedOrder { session, .. }) = changed? {
            return Ok(session);
        }
        let session = self.store().session(session_id).map_err(GenerationError::from)?;
        let session = session.map(|(session, _)| session);
        let state = session.as_ref().and_then(|session| session.order.as_ref()).map(|order| order.state);
        let local = session_id.clone().into_local();
        match (session, state) {
            (Some(session), Some(_)) if is_refused(&session) => Err(OrderChangeError::OtherOwner(local)),
            (Some(session), Some(_)) if session.is_cancelled() => Ok(session),
            (_, Some(state)) => Err(OrderChangeError::Ended { session_id: local, state }),
            (_, None) => Err(OrderChangeError::Unknown(local)),
        }
    }
}

impl Handler<CancelOrder> for OrdersActor {
    type Result = ResponseFuture<Result<SessionRecord, OrderChangeError>>;

    fn handle(
        &mut self,
        CancelOrder { session_id, caller, peer }: CancelOrder,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        let (work, me) = (self.work.clone(), ctx.address());
        Box::pin(async move {
            let session = work.cancel(&session_id, (caller, peer)).await?;
            work.leave_queue(&me, session_id);
            work.wake_if_none_held(&me);
            Ok(session)
        })
    }
}

/// Reads the verdict that the policy holds, for an operator.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<HeldVerdictText, OrderChangeError>")]
pub struct ReadHeldVerdict {
    pub session_id: SessionId,
    /// The operator.
    pub peer: PeerCredentials,
}

/// A held verdict that was decrypted and judged again.
#[derive(Debug)]
pub struct HeldVerdictText {
    pub held: HeldVerdict,
    pub delivery: VerdictDelivery,
}

impl OrderWork {
    /// Decrypts the held verdict of a session. Deserialization judges it again.
    async fn open_held(&self, session_id: &SessionId) -> Result<(HeldVerdictText, u64), OrderChangeError> {
        let held = self.store().held_verdict(session_id).map_err(GenerationError::from)?;
        let Some((held, revision)) = held else { return Err(self.not_held(session_id)?) };
        let text = self.gate.key.open(session_id, &held.sealed).await?;
        let damaged = |_| OrderChangeError::HeldVerdictDamaged(session_id.clone());
        let delivery = serde_json::from_slice(&text).map_err(damaged)?;
        Ok((HeldVerdictText { held, delivery }, revision))
    }

    /// Why the order of a session has no held verdict.
    fn not_held(&self, session_id: &SessionId) -> Result<OrderChangeError, GenerationError> {
        let session = self.store().session(session_id)?;
        let order = session.and_then(|(session, _)| session.order);
        let session_id = session_id.clone();
        Ok(match order {
            Some(order) => OrderChangeError::NoHeldVerdict { session_id, state: order.state },
            None => OrderChangeError::Unknown(session_id),
        })
    }

    /// Releases the verdict that the policy holds: it is delivered like any other. Returns its session afterwards.
    async fn release(&self, message: ChangeOrder) -> Result<SessionRecord, OrderChangeError> {
        let ChangeOrder { session_id, reason, user, changed_at: known_change, .. } = message;
        let (HeldVerdictText { held, delivery }, held_revision) = self.open_held(&session_id).await?;
        let session = self.store().session(&session_id).map_err(GenerationError::from)?;
        let Some((session, _)) = session else { return Err(OrderChangeError::Unknown(session_id)) };
        // read after the held verdict: each change of it changes the order
        let changed_at = session.order.as_ref().map(|order| order.changed_at);
        if let Some(changed_at) = changed_at.filter(|at| known_change.is_some_and(|known| known != *at)) {
            return Err(OrderChangeError::Changed { session_id, changed_at });
        }
        let evidence = evidence_of_held(self.store(), &held, held_revision).map_err(GenerationError::from)?;
        let trace = |generation| GenerationTrace { generation, interactions: Vec::new() };
        let submission = Submission {
            path: held.path,
            prompt: held.prompt,
            generation_trace: held.generation.map(trace),
            evidence,
            ..Submission::of_order(&session)
        };
        let VerdictDelivery { approved, evaluation_sha256, .. } = delivery;
        let release = Some(VerdictRelease { held_revision, reason, user });
        let admit = AdmitVerdict { submission, approved, judged: Vec::new(), evaluation_sha256, release };
        match self.runner.handles.cache.ask(admit).await {
            Ok(Ok(SubmissionOutcome::Stored(_) | SubmissionOutcome::Regenerated(..))) => {}
            Ok(Ok(SubmissionOutcome::RejectedByPolicy { causes, .. })) => {
                return Err(OrderChangeError::RefusedByPolicy { session_id, causes });
            }
            // another operator has decided meanwhile, or another verdict was refused
            Ok(Ok(_) | Err(VerdictCacheError::Commit(CommitError::Stale(_)))) => {
                let revision = self.store().held_verdict_revision(&session_id);
                if revision.map_err(GenerationError::from)? == Some(held_revision) {
                    return Err(OrderChangeError::CheckInForce(session_id));
                }
                return Err(self.not_held(&session_id)?);
            }
            Ok(Err(error)) => return Err(GenerationError::from(error).into()),
            Err(error) => return Err(GenerationError::from(error).into()),
        }
        self.published(&session_id)?;
        let session = self.store().session(&session_id).map_err(GenerationError::from)?;
        session.map(|(session, _)| session).ok_or(OrderChangeError::Unknown(session_id))
    }

    async fn read_held(&self, message: ReadHeldVerdict) -> Result<HeldVerdictText, OrderChangeError> {
        let ReadHeldVerdict { session_id, peer } = message;
        let (text, revision) = self.open_held(&session_id).await?;
        let read = HeldVerdictRead { verdict_sha256: text.held.verdict_sha256.clone(), peer };
        let record = JournalRecord {
            expect: vec![RowExpectation::new::<HeldVerdict>(&session_id, Some(revision))],
            ..JournalRecord::from(AuditEvent::new(self.clock().now(), session_id, read))
        };
        self.runner.handles.log.commit(record).await.map_err(GenerationError::from)?;
        Ok(text)
    }
}

impl Handler<ReadHeldVerdict> for OrdersActor {
    type Result = ResponseFuture<Result<HeldVerdictText, OrderChangeError>>;

    fn handle(&mut self, message: ReadHeldVerdict, _: &mut Context<Self>) -> Self::Result {
        let work = self.work.clone();
        Box::pin(async move { work.read_held(message).await })
    }
}

/// Interval between two surveys.
const SURVEY_PERIOD: Duration = Duration::from_secs(10);

/// The orders that wait.
#[derive(Debug, Default)]
pub struct OrderSurvey {
    counts: Vec<(ApplicationName, OrderState, u64)>,
    /// The time at which the oldest open order was placed.
    oldest: Option<Timestamp>,
}

impl OrderSurvey {
    /// Blocks on disk reads.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        let mut survey = Self::default();
        for application in store.applications_with_orders()? {
            for state in WAITING {
                let (count, oldest) = store.count_orders(&application, state)?;
                survey.counts.push((application.clone(), state, count));
                if state != OrderState::Held {
                    survey.oldest = survey.oldest.into_iter().chain(oldest).min();
                }
            }
        }
        Ok(survey)
    }

    /// The number of orders in `state`, which is one of those that wait.
    #[must_use]
    pub fn count(&self, state: OrderState) -> u64 {
        self.counts.iter().filter(|(_, counted, _)| *counted == state).map(|(.., count)| count).sum()
    }
}

impl OrderWork {
    /// Counts the orders that wait for the metrics, for as long as the daemon runs.
    pub async fn survey_waiting(self) {
        loop {
            let store = self.store().clone();
            match spawn_blocking(move || OrderSurvey::read(&store)).await {
                Ok(Ok(OrderSurvey { counts, oldest })) => {
                    let age = oldest.map(|oldest| self.clock().now().duration_since(oldest));
                    self.metrics.set_waiting(counts, age.unwrap_or_default());
                }
                Ok(Err(error)) => tracing::warn!(%error, "could not count the orders"),
                Err(panic) => tracing::error!(%panic, "the survey of orders failed"),
            }
            sleep(SURVEY_PERIOD).await;
        }
    }
}

/// Asks the model once with a prompt template, and judges its answer. Nothing is delivered.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<PromptTrialResult, GenerationError>")]
pub struct TryPrompt(pub PromptTrial);

impl Handler<TryPrompt> for OrdersActor {
    type Result = ResponseFuture<Result<PromptTrialResult, GenerationError>>;

    fn handle(&mut self, TryPrompt(trial): TryPrompt, _: &mut Context<Self>) -> Self::Result {
        let runner = Arc::clone(&self.work.runner);
        Box::pin(async move { runner.try_prompt(trial).await })
    }
}

/// The causes for which orders are not attempted although they are due.
#[derive(Debug, Clone, Default)]
pub struct OrderWaits(Arc<Mutex<KnownWaits>>);

#[derive(Debug, Default)]
struct KnownWaits {
    /// Those of all orders of an application.
    applications: HashMap<ApplicationName, OrderWait>,
    /// Those of single orders.
    orders: HashMap<SessionId, OrderWait>,
}

impl OrderWaits {
    fn known(&self) -> MutexGuard<'_, KnownWaits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cause for which an order waits that is queued and due; `None` if it only waits for its turn.
    #[must_use]
    pub fn of(&self, session_id: &SessionId) -> Option<OrderWait> {
        let known = self.known();
        known.orders.get(session_id).or_else(|| known.applications.get(&session_id.application())).cloned()
    }

    /// Whether an order waits for the key of held verdicts.
    fn is_for_key(&self, session_id: &SessionId) -> bool {
        self.known().orders.get(session_id).is_some_and(is_for_key)
    }

    /// The orders that wait for the key of held verdicts.
    fn for_key(&self) -> Vec<SessionId> {
        let known = self.known();
        let waiting = known.orders.iter().filter(|(_, wait)| is_for_key(wait));
        waiting.map(|(session_id, _)| session_id.clone()).collect()
    }

    fn set_of_application(&self, application: ApplicationName, wait: OrderWait) {
        self.known().applications.insert(application, wait);
    }

    fn set_of_order(&self, session_id: SessionId, wait: OrderWait) {
        self.known().orders.insert(session_id, wait);
    }

    /// Forgets what an order waited for, and returns it.
    fn end_of_order(&self, session_id: &SessionId) -> Option<OrderWait> {
        self.known().orders.remove(session_id)
    }

    /// Forgets what the orders of the application of an order waited for, because that order starts.
    fn end_of_application(&self, session_id: &SessionId) {
        self.known().applications.remove(&session_id.application());
    }
}

fn is_for_key(wait: &OrderWait) -> bool {
    wait.cause == GenerationOutcome::HeldKeyUnusable
}

/// Changes an order. Returns its session afterwards.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<SessionRecord, OrderChangeError>")]
pub struct ChangeOrder {
    pub session_id: SessionId,
    pub action: OrderAction,
    /// The operator's reason.
    pub reason: String,
    /// Whether the order must be held.
    pub held_only: bool,
    /// The time of the order's last change, if the decision is based on it.
    pub changed_at: Option<Timestamp>,
    /// The operator.
    pub user: DecidingUser,
}

/// Why an order was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OrderChangeError {
    /// The session has no order.
    #[error("session {0} has no order")]
    Unknown(SessionId),
    /// The order is in a state in which the change is not possible.
    #[error(
        "the order of session {session_id} is {}; only a queued, held or failed order can be retried, and only a queued or \
         held one can be failed", .state.into_str()
    )]
    State { session_id: SessionId, state: OrderState },
    /// The order has ended, and cannot be cancelled.
    #[error(
        "the order of session {session_id} is {}; only a queued, generating or held order can be cancelled", .state.into_str()
    )]
    Ended { session_id: SessionId, state: OrderState },
    /// The change would remove a text of a session on legal hold.
    #[error("session {0} is on legal hold, so its order cannot be cancelled")]
    OnHold(SessionId),
    /// The session belongs to another user id.
    #[error("the session {0} belongs to another user id")]
    OtherOwner(SessionId),
    /// The order is not the one on which the decision is based.
    #[error(
        "the order of session {session_id} has changed at {changed_at}; look at it again before you decide"
    )]
    Changed { session_id: SessionId, changed_at: Timestamp },
    /// The policy holds no verdict of the session.
    #[error(
        "the policy holds no verdict of session {session_id}, whose order is {}; only such a verdict can be read or \
         released", .state.into_str()
    )]
    NoHeldVerdict { session_id: SessionId, state: OrderState },
    /// The held verdict was decrypted, but the crosscheck does not approve it.
    #[error("the held verdict of session {0} is damaged; retry or fail the order")]
    HeldVerdictDamaged(SessionId),
    /// The rules have refused another verdict of the session since.
    #[error(
        "the rules have refused another verdict of session {0} since this one was held, and it was not checked against \
         the facts of that one; retry or fail the order"
    )]
    CheckInForce(SessionId),
    /// The held verdict was not decrypted.
    #[error(transparent)]
    HeldKey(#[from] HeldKeyError),
    /// The policy now refuses the held verdict.
    #[error(
        "the policy refuses the held verdict of session {session_id}: {}; retry or fail the order, or change `gate` and restart",
        join_causes(.causes)
    )]
    RefusedByPolicy { session_id: SessionId, causes: Vec<PolicyCause> },
    /// The change could not be stored.
    #[error(transparent)]
    Failed(#[from] GenerationError),
}

/// The entry about the change of an order, which was in the state `from`, by an operator.
fn event_of(
    action: OrderAction,
    from: OrderState,
    &Order { state, attempts, .. }: &Order,
    reason: String,
    DecidingUser { peer, name: user_name }: DecidingUser,
) -> EventKind {
    match action {
        OrderAction::Retry => OrderRetried { reason, user_name, peer }.into(),
        OrderAction::Cancel => {
            let (reason, peer) = (Some(reason), Some(peer));
            OrderCancelled { from, attempts, reason, user_name, peer }.into()
        }
        OrderAction::Fail | OrderAction::Release => {
            let (cause, reason, peer) = (OrderStopCause::Operator, Some(reason), Some(peer));
            OrderStopped { state, cause, attempts, reason, user_name, peer }.into()
        }
    }
}

impl Handler<ChangeOrder> for OrdersActor {
    type Result = ResponseFuture<Result<SessionRecord, OrderChangeError>>;

    fn handle(&mut self, message: ChangeOrder, ctx: &mut Context<Self>) -> Self::Result {
        let (work, me) = (self.work.clone(), ctx.address());
        Box::pin(async move {
            if message.action == OrderAction::Release {
                let released = work.release(message).await?;
                work.wake_if_none_held(&me);
                return Ok(released);
            }
            let known_change = message.changed_at;
            let ChangeOrder { session_id, action, reason, held_only, user, .. } = message;
            let DecidingUser { peer, name } = user;
            // a retry destroys the held verdict, so another one must be possible
            if action == OrderAction::Retry
                && work.store().held_verdict_revision(&session_id).map_err(GenerationError::from)?.is_some()
            {
                work.runner.require_model()?;
            }
            let changed = work.change_order(&session_id, |session, order, now| {
                let is_open_to_user = (!held_only || order.state == OrderState::Held)
                    && known_change.is_none_or(|at| at == order.changed_at);
                (is_open_to_user && order.allows(action)).then(|| {
                    let reason = reason.clone();
                    let user_name = name.clone();
                    let made = OperatorAction {
                        action,
                        at: now,
                        uid: peer.uid,
                        user_name: user_name.clone(),
                        reason: reason.clone(),
                    };
                    let from = order.state;
                    let order = order.changed_by_operator(made);
                    let user = DecidingUser { peer, name: user_name };
                    let event = event_of(action, from, &order, reason, user);
                    let event = AuditEvent::new(now, session_id.clone(), event);
                    (SessionRecord { order: Some(order), ..session }, vec![event])
                })
            });
            let Some(CommittedOrder { session, .. }) = changed.await? else {
                let session = work.store().session(&session_id).map_err(GenerationError::from)?;
                let session = session.map(|(session, _)| session);
                let is_cancellation = action == OrderAction::Cancel && !held_only;
                if let Some(session) =
                    session.clone().filter(|session| is_cancellation && session.is_cancelled())
                {
                    return Ok(session);
                }
                return Err(match session.and_then(|session| session.order) {
                    Some(Order { changed_at, state, .. })
                        if known_change.is_some_and(|at| at != changed_at)
                            && (!held_only || state == OrderState::Held) =>
                    {
                        OrderChangeError::Changed { session_id, changed_at }
                    }
                    Some(Order { state, .. }) if is_cancellation => {
                        OrderChangeError::Ended { session_id, state }
                    }
                    Some(order) => OrderChangeError::State { session_id, state: order.state },
                    None => OrderChangeError::Unknown(session_id),
                });
            };
            if action == OrderAction::Retry {
                OrderWork::wake(&me, session_id, Some(work.clock().now()), true);
            } else {
                work.leave_queue(&me, session_id);
            }
            work.wake_if_none_held(&me);
            Ok(session)
        })
    }
}
