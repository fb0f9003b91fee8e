//! Orders: first verdicts that the model generates at a route's request.
//!
//! An order is stored with its session before the model is asked, so it survives failures of the model and
//! restarts. The store is authoritative. The actor keeps the open orders in a queue by the time at which they
//! are due, and starts their attempts one after the other within the limits of model calls. Each attempt is a
//! task of its own. It is committed before the model is called; an attempt that a restart cut off counts as one.

mod admin;
mod attempt;
mod cancel;
mod held;
mod place;
mod queue;
mod settle;
mod survey;
mod trial;
mod waits;

pub use admin::{ChangeOrder, OrderChangeError};
pub use cancel::CancelOrder;
pub use held::{HeldVerdictText, ReadHeldVerdict};
pub use place::{PlaceOrder, PlacedOrder};
pub use survey::OrderSurvey;
pub use trial::TryPrompt;
pub use waits::OrderWaits;

use crate::platform::clock::Clock;
use crate::platform::in_flight::InFlight;
use crate::verdict::cache::PolicyConfig;
use crate::verdict::generation::{GenerationError, GenerationRunner, QueueLimit};
use crate::verdict::order_metrics::OrderMetrics;
use crate::verdict::order_progress::OrderProgress;
use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised, WrapFuture,
};
use attempt::DispatchOutcome;
use jiff::Timestamp;
use oracled_domain::verdict::cost::day_of;
use oracled_domain::verdict::cost_budget::time_without_budget;
use oracled_domain::verdict::order::{Order, OrderPolicy, OrderState};
use oracled_domain::verdict::order_position::OrderPosition;
use oracled_domain::{ApplicationName, SessionId};
use oracled_store::{OrderQuery, Store, StoreError};
use queue::OrderQueue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Interval between checks for due orders.
const TICK: Duration = Duration::from_secs(1);
/// Interval between surveys of the orders that wait, for the metrics.
const SURVEY_PERIOD: Duration = Duration::from_secs(10);
/// The number of orders that are read at a time when the queue is loaded.
const AT_ONCE: usize = 100;

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

/// Stops starting attempts. Returns when those in flight have ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopOrders;

/// Puts an order into the queue.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct EnqueueOrder {
    session_id: SessionId,
    due: Timestamp,
    /// Whether an operator retries it. This ends a pause.
    is_retry: bool,
}

/// Removes an order that an operator or its application ended from the queue.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct DequeueOrder(SessionId);

/// Reports that a request for an order was handled.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ReportPlaced(SessionId);

/// Reports that the attempt of an order ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct ReportOrder {
    session_id: SessionId,
    /// When the order is due again; `None` if it is not open any longer.
    due: Option<Timestamp>,
}

/// The parts that the actor shares with its tasks.
#[derive(Debug, Clone)]
pub(crate) struct OrderDesk {
    runner: Arc<GenerationRunner>,
    config: OrdersConfig,
    gate: PolicyConfig,
    in_flight: InFlight<SessionId>,
    progress: OrderProgress,
    waits: OrderWaits,
    metrics: OrderMetrics,
    /// Whether no further attempt is started.
    stopped: Arc<AtomicBool>,
}

impl OrderDesk {
    pub(crate) fn new(
        runner: Arc<GenerationRunner>,
        config: OrdersConfig,
        gate: PolicyConfig,
        in_flight: InFlight<SessionId>,
        progress: OrderProgress,
        waits: OrderWaits,
        metrics: OrderMetrics,
    ) -> Self {
        Self { runner, config, gate, in_flight, progress, waits, metrics, stopped: Arc::default() }
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

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn store(&self) -> &Store {
        &self.runner.store
    }

    fn clock(&self) -> &Clock {
        &self.runner.clock
    }
}

/// The actor.
#[derive(Debug)]
pub struct OrdersActor {
    desk: OrderDesk,
    queue: OrderQueue,
    /// The order whose attempt is being started. One at a time keeps the order of arrival.
    dispatching: Option<SessionId>,
    /// The requests for orders that are being handled, each of which may add one.
    placing: Vec<SessionId>,
    /// Whether the queue was loaded from the store.
    is_loaded: bool,
    /// The steps of the clock when the queue was loaded.
    clock_steps: u64,
}

impl OrdersActor {
    pub(crate) fn new(desk: OrderDesk) -> Self {
        Self {
            clock_steps: desk.clock().step_count(),
            desk,
            queue: OrderQueue::default(),
            dispatching: None,
            placing: Vec::new(),
            is_loaded: false,
        }
    }

    /// Reads the open orders from the store.
    fn load(&mut self, ctx: &mut Context<Self>) {
        let desk = self.desk.clone();
        let load = spawn_blocking(move || read_open_orders(desk.store(), desk.clock())).into_actor(self);
        ctx.spawn(load.map(|loaded, orders, ctx| {
            match loaded.map_err(|panic| panic.to_string()).and_then(|read| read.map_err(|e| e.to_string())) {
                Ok(open) => {
                    for (due, session_id) in open {
                        orders.queue.insert(due, session_id);
                    }
                    orders.is_loaded = true;
                    orders.dispatch(ctx);
                }
                Err(error) => {
                    tracing::error!(error, "could not read the open orders; trying again");
                    ctx.run_later(TICK, |orders, ctx| orders.load(ctx));
                }
            }
        }));
    }

    /// Starts the attempts that became due. If the clock was set, the times in the queue are wrong, so it is loaded again.
    fn check_due(&mut self, ctx: &mut Context<Self>) {
        let steps = self.desk.clock().step_count();
        if self.is_loaded && steps != self.clock_steps {
            tracing::warn!("the clock was set; loading the queue of orders again");
            self.reset();
            self.load(ctx);
            self.clock_steps = steps;
        }
        self.remove_ended();
        self.dispatch(ctx);
    }

    /// Removes orders from the queue that ended outside of the actor, by a verdict that a route submitted.
    fn remove_ended(&mut self) {
        for session_id in self.desk.progress.take_ended() {
            // most ended by an attempt, which took them out of the queue
            if !self.queue.contains(&session_id) {
                continue;
            }
            // an operator may have retried it meanwhile
            let session = self.desk.store().session(&session_id).ok().flatten();
            let order = session.and_then(|(session, _)| session.order);
            if order.is_none_or(|order| !order.state.is_open()) {
                self.queue.remove(&session_id);
                self.desk.waits.end_of_order(&session_id);
            }
        }
    }

    fn reset(&mut self) {
        self.queue = OrderQueue::default();
        self.is_loaded = false;
    }

    /// Starts the attempt of the next order, if the limits permit it.
    fn dispatch(&mut self, ctx: &mut Context<Self>) {
        let now = self.desk.clock().now();
        if self.dispatching.is_some() || self.desk.is_stopped() {
            return;
        }
        let Some((due, session_id)) = self.queue.take_due(now) else { return };
        self.dispatching = Some(session_id.clone());
        let (desk, me, id) = (self.desk.clone(), ctx.address(), session_id.clone());
        let dispatched = async move { desk.dispatch(&id, me).await }.into_actor(self);
        ctx.spawn(dispatched.map(move |outcome, orders, ctx| {
            orders.dispatching = None;
            let now = orders.desk.clock().now();
            match outcome {
                DispatchOutcome::Left => {}
                DispatchOutcome::Due(due) => orders.queue.insert(due, session_id),
                DispatchOutcome::Blocked(wait) => orders.queue.put_back((due, session_id), now, wait),
            }
            orders.dispatch(ctx);
        }));
    }

    /// The limit that permits no further order of `application`, if one is reached.
    fn reached_limit(&self, application: &ApplicationName) -> Option<QueueLimit> {
        // an order can be in two of these at once: one in flight is also in the queue after the queue was loaded
        let in_flight = &self.desk.in_flight;
        let starting: BTreeSet<_> = self.dispatching.iter().chain(&self.placing).collect();
        let open = |counts: &dyn Fn(&SessionId) -> bool| {
            let counts = |id: &SessionId| counts(id) && !self.queue.contains(id);
            let starting = starting.iter().filter(|id| counts(id) && !in_flight.contains(id));
            in_flight.count(counts) + starting.count()
        };
        let queue_max = self.desk.config.queue_max;
        if self.queue.len() + open(&|_| true) >= queue_max {
            return Some(QueueLimit { queue_max, application: None });
        }
        let queue_max = *self.desk.config.applications.get(application)?;
        let open = self.queue.len_of(application) + open(&|id| id.application() == *application);
        (open >= queue_max).then(|| QueueLimit { queue_max, application: Some(application.clone()) })
    }
}

/// When the next attempt of a queued order is due, on the clock as it runs now.
fn due_of(order: &Order, clock: &Clock) -> Option<Timestamp> {
    let (now, then) = (clock.now(), clock.now_since(order.changed_at));
    order.due_at(then).map(|due| due.saturating_add(now.duration_since(then)).unwrap_or(due))
}

/// The open orders, each with the time at which it is due. Blocks on disk reads.
fn read_open_orders(store: &Store, clock: &Clock) -> Result<Vec<(Timestamp, SessionId)>, StoreError> {
    let mut open = Vec::new();
    for state in [OrderState::Queued, OrderState::Generating] {
        let mut before = None;
        loop {
            let query = OrderQuery { application: None, state: Some(state), before, limit: AT_ONCE };
            let sessions = store.orders(&query)?;
            before = sessions.last().and_then(|session| {
                session.order.as_ref().map(|order| OrderPosition::of(&session.session_id, order.placed_at))
            });
            open.extend(sessions.into_iter().filter_map(|session| {
                let due = due_of(&session.order?, clock).unwrap_or_else(|| clock.now());
                Some((due, session.session_id))
            }));
            if before.is_none() {
                break;
            }
        }
    }
    Ok(open)
}

impl Actor for OrdersActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.load(ctx);
        ctx.run_interval(TICK, Self::check_due);
        self.survey(ctx);
        ctx.run_interval(SURVEY_PERIOD, Self::survey);
    }
}

impl Supervised for OrdersActor {
    fn restarting(&mut self, _: &mut Context<Self>) {
        // `started` loads the queue again; attempts in flight continue
        self.reset();
        (self.dispatching, self.placing) = (None, Vec::new());
    }
}

impl Handler<PlaceOrder> for OrdersActor {
    type Result = ResponseFuture<Result<PlacedOrder, GenerationError>>;

    fn handle(&mut self, PlaceOrder(submission): PlaceOrder, ctx: &mut Context<Self>) -> Self::Result {
        let now = self.desk.clock().now();
        let session_id = submission.session_id.clone();
        let application = session_id.application();
        let full = self.reached_limit(&application);
        // a new order may not overtake the orders that wait
        let may_start = self.is_loaded && self.dispatching.is_none() && self.queue.is_free(&application, now);
        self.placing.push(session_id.clone());
        let (desk, me) = (self.desk.clone(), ctx.address());
        Box::pin(async move {
            let placed = desk.place(submission, full, may_start, me.clone()).await;
            me.do_send(ReportPlaced(session_id));
            placed
        })
    }
}

impl Handler<EnqueueOrder> for OrdersActor {
    type Result = ();

    fn handle(&mut self, message: EnqueueOrder, ctx: &mut Context<Self>) {
        let EnqueueOrder { session_id, due, is_retry } = message;
        if is_retry {
            self.queue.resume();
        }
        self.queue.insert(due, session_id);
        self.dispatch(ctx);
    }
}

impl Handler<DequeueOrder> for OrdersActor {
    type Result = ();

    fn handle(&mut self, DequeueOrder(session_id): DequeueOrder, _: &mut Context<Self>) {
        self.queue.remove(&session_id);
        self.desk.waits.end_of_order(&session_id);
    }
}

impl Handler<ReportPlaced> for OrdersActor {
    type Result = ();

    fn handle(&mut self, ReportPlaced(session_id): ReportPlaced, _: &mut Context<Self>) {
        if let Some(index) = self.placing.iter().position(|id| *id == session_id) {
            self.placing.swap_remove(index);
        }
    }
}

impl Handler<ReportOrder> for OrdersActor {
    type Result = ();

    fn handle(&mut self, ReportOrder { session_id, due }: ReportOrder, ctx: &mut Context<Self>) {
        if let Some(due) = due {
            self.queue.insert(due, session_id);
        }
        // the slot of the attempt is free
        self.queue.resume();
        self.dispatch(ctx);
    }
}

impl Handler<StopOrders> for OrdersActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: StopOrders, _: &mut Context<Self>) -> Self::Result {
        self.desk.stopped.store(true, Ordering::Relaxed);
        Box::pin(self.desk.in_flight.clone().wait_until_empty())
    }
}

crate::platform::actor_handle::handle_actor_calls!(OrdersActor);

#[cfg(test)]
mod tests;
