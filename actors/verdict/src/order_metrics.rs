//! The metrics of orders.

use actors_platform::metrics::{AddMetric, ApplicationLabelValue, MetricLabelValue, init_counters, pairs};
use domain_base::series::{MetricSeries, SeriesMeasure, SeriesUnit};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_verdict::order::{Order, OrderState};
use domain_verdict::policy::PolicyAction;
use jiff::SignedDuration;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strum::VariantArray;
use tokio::sync::watch;

/// The states in which an order waits.
pub(super) const WAITING: [OrderState; 3] = [OrderState::Queued, OrderState::Generating, OrderState::Held];
/// The states that an attempt, a limit or a cancellation ends in.
const ENDS: [OrderState; 4] =
    [OrderState::Delivered, OrderState::Held, OrderState::Failed, OrderState::Cancelled];

/// The labels of an order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OrderLabels {
    application: ApplicationLabelValue,
    state: MetricLabelValue,
}

impl OrderLabels {
    const fn new(application: ApplicationName, state: OrderState) -> Self {
        Self { application: ApplicationLabelValue(application), state: MetricLabelValue(state.into_str()) }
    }
}

/// The labels of an action of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    application: ApplicationLabelValue,
    action: MetricLabelValue,
}

impl PolicyLabels {
    const fn new(application: ApplicationName, action: PolicyAction) -> Self {
        Self { application: ApplicationLabelValue(application), action: MetricLabelValue(action.into_str()) }
    }
}

/// The series of orders.
pub const SERIES: &[MetricSeries] = &[
    MetricSeries {
        name: "orders_ended",
        title: "Orders delivered, held, failed or cancelled",
        unit: SeriesUnit::PerMinute,
        metric: "orders_ended_total",
        filter: |_| true,
        by: Some("state"),
        measure: SeriesMeasure::RatePerMinute,
    },
    MetricSeries {
        name: "verdicts_withheld",
        title: "Approved verdicts that the policy held or refused",
        unit: SeriesUnit::PerMinute,
        metric: "policy_decisions_total",
        filter: |_| true,
        by: Some("action"),
        measure: SeriesMeasure::RatePerMinute,
    },
    MetricSeries {
        name: "orders_waiting",
        title: "Orders that wait",
        unit: SeriesUnit::Items,
        metric: "orders",
        filter: |_| true,
        by: Some("state"),
        measure: SeriesMeasure::Highest,
    },
    MetricSeries {
        name: "order_age",
        title: "Age of the oldest order that waits for a model",
        unit: SeriesUnit::Seconds,
        metric: "orders_oldest_age_seconds",
        filter: |_| true,
        by: None,
        measure: SeriesMeasure::Highest,
    },
];

#[derive(Debug, Clone)]
pub struct OrderMetrics {
    waiting: Family<OrderLabels, Gauge>,
    oldest_age: Gauge,
    ended: Family<OrderLabels, Counter>,
    policy: Family<PolicyLabels, Counter>,
}

impl OrderMetrics {
    /// The metrics of orders of `applications`. Others are added with their first order.
    pub fn register(registry: &mut Registry, applications: &[ApplicationName]) -> Self {
        let all = |states| pairs(applications, states).map(|(name, state)| OrderLabels::new(name, state));
        let waiting = Family::<_, Gauge>::default();
        for labels in all(&WAITING) {
            drop(waiting.get_or_create(&labels));
        }
        let policy = pairs(applications, PolicyAction::VARIANTS);
        Self {
            waiting: registry.add(
                "orders",
                "orders that wait, by application and state, updated every 10 s",
                waiting,
            ),
            oldest_age: registry.add_seconds(
                "orders_oldest_age",
                "age of the oldest queued or generating order, updated every 10 s",
                Gauge::default(),
            ),
            ended: registry.add(
                "orders_ended",
                "orders delivered, held, failed or cancelled, by application",
                init_counters(all(&ENDS)),
            ),
            policy: registry.add(
                "policy_decisions",
                "approved verdicts that the policy held or refused, by application",
                init_counters(policy.map(|(name, action)| PolicyLabels::new(name, action))),
            ),
        }
    }

    /// Sets the number of orders of each application in each of the states of [`WAITING`], and the age of the oldest open
    /// order.
    pub(super) fn set_waiting(
        &self,
        counts: Vec<(ApplicationName, OrderState, u64)>,
        oldest_age: SignedDuration,
    ) {
        for (application, state, count) in counts {
            let gauge = self.waiting.get_or_create(&OrderLabels::new(application, state));
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.oldest_age.set(oldest_age.as_secs().max(0));
    }

    /// Counts an order that entered `state`, if that ends it.
    pub(super) fn count_end(&self, application: ApplicationName, state: OrderState) {
        if ENDS.contains(&state) {
            self.ended.get_or_create(&OrderLabels::new(application, state)).inc();
        }
    }

    /// Counts a verdict that the policy held or refused.
    pub(super) fn count_policy(&self, application: ApplicationName, action: PolicyAction) {
        self.policy.get_or_create(&PolicyLabels::new(application, action)).inc();
    }
}

/// The latest state of each order that a request waits for, or has waited for.
#[derive(Debug, Clone, Default)]
pub struct OrderProgress(Arc<Mutex<KnownProgress>>);

#[derive(Debug, Default)]
struct KnownProgress {
    orders: HashMap<SessionId, watch::Sender<Order>>,
    /// The orders that ended since the queue was checked.
    ended: Vec<SessionId>,
}

impl OrderProgress {
    fn known(&self) -> MutexGuard<'_, KnownProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states of an order from now on; `order` is its latest known state.
    pub(crate) fn subscribe(&self, session_id: &SessionId, order: Order) -> watch::Receiver<Order> {
        self.known().orders.entry(session_id.clone()).or_insert_with(|| watch::channel(order).0).subscribe()
    }

    /// Removes an order whose session was removed. Waiting requests end.
    pub(crate) fn remove(&self, session_id: &SessionId) {
        self.known().orders.remove(session_id);
    }

    /// Reports a new state. An order that is not open any longer has no further states.
    pub(crate) fn publish(&self, session_id: &SessionId, order: &Order) {
        let KnownProgress { orders, ended } = &mut *self.known();
        if let Some(sender) = orders.get(session_id) {
            sender.send_replace(order.clone());
        }
        if !order.state.is_open() {
            orders.remove(session_id);
            ended.push(session_id.clone());
        }
    }

    /// The orders that ended since the last call.
    pub(crate) fn take_ended(&self) -> Vec<SessionId> {
        mem::take(&mut self.known().ended)
    }
}
