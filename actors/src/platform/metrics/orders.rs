//! The metrics of orders.

use super::{MetricLabelValue, init_counters};
use jiff::SignedDuration;
use oracled_domain::verdict::order::OrderState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The states in which an order waits.
pub(crate) const WAITING: [OrderState; 3] = [OrderState::Queued, OrderState::Generating, OrderState::Held];
/// The states that an attempt or a limit ends in.
const ENDS: [OrderState; 3] = [OrderState::Delivered, OrderState::Held, OrderState::Failed];

/// The label of an order's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OrderLabels {
    state: MetricLabelValue,
}

impl OrderLabels {
    const fn new(state: OrderState) -> Self {
        Self { state: MetricLabelValue(state.into_str()) }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct OrderMetrics {
    waiting: Family<OrderLabels, Gauge>,
    oldest_age: Gauge,
    ended: Family<OrderLabels, Counter>,
}

impl Default for OrderMetrics {
    fn default() -> Self {
        Self {
            waiting: Family::default(),
            oldest_age: Gauge::default(),
            ended: init_counters(ENDS.map(OrderLabels::new)),
        }
    }
}

impl OrderMetrics {
    /// Sets the number of orders in each of the states of [`WAITING`], and the age of the oldest open order.
    pub(crate) fn set_waiting(&self, counts: [u64; WAITING.len()], oldest_age: SignedDuration) {
        for (state, count) in WAITING.into_iter().zip(counts) {
            let gauge = self.waiting.get_or_create(&OrderLabels::new(state));
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.oldest_age.set(oldest_age.as_secs().max(0));
    }

    /// Counts an order that entered `state`, if that ends it.
    pub(crate) fn count_end(&self, state: OrderState) {
        if ENDS.contains(&state) {
            self.ended.get_or_create(&OrderLabels::new(state)).inc();
        }
    }

    /// Adds the metrics to `registry`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("orders", "orders that wait, by state, updated every 10 s", self.waiting.clone());
        registry.register_with_unit(
            "orders_oldest_age",
            "age of the oldest queued or generating order, updated every 10 s",
            Unit::Seconds,
            self.oldest_age.clone(),
        );
        registry.register("orders_ended", "orders delivered, held or failed", self.ended.clone());
    }
}
