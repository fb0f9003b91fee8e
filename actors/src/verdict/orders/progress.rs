//! The progress of open orders, for the requests that wait for them.

use oracled_domain::SessionId;
use oracled_domain::verdict::order::Order;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The latest state of each order that a request waits for, or has waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct OrderProgress(Arc<Mutex<HashMap<SessionId, watch::Sender<Order>>>>);

impl OrderProgress {
    fn orders(&self) -> MutexGuard<'_, HashMap<SessionId, watch::Sender<Order>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states of an order from now on; `order` is its latest known state.
    pub(super) fn subscribe(&self, session_id: &SessionId, order: Order) -> watch::Receiver<Order> {
        let mut orders = self.orders();
        orders.entry(session_id.clone()).or_insert_with(|| watch::channel(order).0).subscribe()
    }

    /// Removes an order whose session was removed. Waiting requests end.
    pub(super) fn remove(&self, session_id: &SessionId) {
        self.orders().remove(session_id);
    }

    /// Reports a new state. An order that is not open any longer has no further states.
    pub(super) fn publish(&self, session_id: &SessionId, order: &Order) {
        let mut orders = self.orders();
        if let Some(sender) = orders.get(session_id) {
            sender.send_replace(order.clone());
        }
        if !order.state.is_open() {
            orders.remove(session_id);
        }
    }
}
