//! Orders: first verdicts that the model generates at a route's request.
//!
//! An order is stored with its session before the model is asked, so it survives failures of the model and restarts. Open orders are
//! a kind of [`Work`], whose attempts start one after the other within the limits of model calls. An attempt is committed before the
//! model is called; an attempt that a restart cut off counts as one.

mod admin;
mod attempt;
mod cancel;
mod held;
mod place;
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

use crate::cache::PolicyConfig;
use crate::generation::{GenerationError, GenerationRunner, QueueLimit};
use crate::order_metrics::OrderMetrics;
use crate::order_progress::OrderProgress;
use actix::{Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_platform::clock::Clock;
use actors_platform::in_flight::{InFlight, InFlightClaim};
use actors_platform::work::{RemoveWork, WakeWork, Work, WorkLimits, WorkOutcome, WorkQueue, WorkRunner};
use domain_base::application::ApplicationName;
use domain_base::session_id::SessionId;
use domain_verdict::cost::day_of;
use domain_verdict::cost_budget::time_without_budget;
use domain_verdict::order::{Order, OrderPolicy, OrderState};
use domain_verdict::order_position::OrderPosition;
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;
use oracled_store::{OrderQuery, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// The number of orders that a survey reads at a time.
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
    /// The requests for orders that the actor handles, each of which may add one.
    placing: Vec<Weak<SessionId>>,
}

impl OrderWork {
    pub fn new(
        runner: Arc<GenerationRunner>,
        config: OrdersConfig,
        gate: PolicyConfig,
        in_flight: InFlight<SessionId>,
        progress: OrderProgress,
        waits: OrderWaits,
        metrics: OrderMetrics,
    ) -> Self {
        Self { runner, config, gate, in_flight, progress, waits, metrics, placing: Vec::new() }
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

    /// Reports to the queue when an order is due; `unblocks` is whether a model may be called now for orders that wait for one.
    fn wake(me: &Addr<OrdersActor>, session_id: SessionId, due: Option<Timestamp>, unblocks: bool) {
        me.do_send(WakeWork::<Self> { lane: session_id.application(), id: session_id, due, unblocks });
    }

    /// Removes an order that an operator or its application ended from the queue.
    fn leave_queue(&self, me: &Addr<OrdersActor>, session_id: SessionId) {
        self.waits.end_of_order(&session_id);
        me.do_send(RemoveWork::<Self>(session_id));
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
        true
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
                    // an attempt that this process has not in flight was interrupted: only it makes attempts
                    let interrupted = order.attempt_deadline.map(|_| self.clock().now());
                    if let Some(due) = interrupted.or_else(|| due_of(&order, self.clock())) {
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
        let (desk, me) = (self.work.clone(), ctx.address());
        Box::pin(async move {
            let placed = desk.place(submission, full, may_start, me.clone()).await;
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
