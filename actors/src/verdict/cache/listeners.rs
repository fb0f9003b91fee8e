//! The parts of the daemon to which deliveries are reported after their commit.

use super::metrics::ComparisonMetrics;
use crate::verdict::order_metrics::OrderMetrics;
use crate::verdict::order_progress::OrderProgress;
use oracled_domain::SessionId;
use oracled_domain::verdict::order::Order;

#[derive(Debug, Clone)]
pub(crate) struct DeliveryListeners {
    /// Whether mails are sent.
    pub(crate) mails: bool,
    pub(crate) orders: OrderProgress,
    pub(crate) order_metrics: OrderMetrics,
    pub(crate) comparisons: ComparisonMetrics,
}

impl DeliveryListeners {
    /// Reports the order that a commit stopped or ended.
    pub(super) fn report(&self, session_id: &SessionId, order: &Order) {
        self.order_metrics.count_end(session_id.application(), order.state);
        self.orders.publish(session_id, order);
    }
}
