//! The parts of the daemon to which deliveries are reported after their commit.

use super::metrics::ComparisonMetrics;
use crate::order_metrics::OrderMetrics;
use crate::order_progress::OrderProgress;
use domain_base::session_id::SessionId;
use domain_verdict::order::Order;

#[derive(Debug, Clone)]
pub struct DeliveryListeners {
    /// Whether mails are sent.
    pub mails: bool,
    pub orders: OrderProgress,
    pub order_metrics: OrderMetrics,
    pub comparisons: ComparisonMetrics,
}

impl DeliveryListeners {
    /// Reports the order that a commit stopped or ended.
    pub(super) fn report(&self, session_id: &SessionId, order: &Order) {
        self.order_metrics.count_end(session_id.application(), order.state);
        self.orders.publish(session_id, order);
    }
}
