//! The orders in flight: at most one attempt at a time for each order.

use oracled_domain::{ApplicationName, SessionId};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::watch;

/// The set of orders in flight. It outlives panics of the actor, because attempts do.
#[derive(Debug, Clone)]
pub(super) struct OrdersInFlight(Arc<watch::Sender<HashSet<SessionId>>>);

impl Default for OrdersInFlight {
    fn default() -> Self {
        Self(Arc::new(watch::channel(HashSet::new()).0))
    }
}

/// Exclusive access to an order, until this is dropped.
#[derive(Debug)]
pub(super) struct OrderClaim {
    session_id: SessionId,
    orders: OrdersInFlight,
}

impl OrdersInFlight {
    /// Marks an order as in flight. `None` if it already is.
    pub(super) fn claim(&self, session_id: &SessionId) -> Option<OrderClaim> {
        let claimed = self.0.send_if_modified(|orders| orders.insert(session_id.clone()));
        claimed.then(|| OrderClaim { session_id: session_id.clone(), orders: self.clone() })
    }

    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(super) fn contains(&self, session_id: &SessionId) -> bool {
        self.0.borrow().contains(session_id)
    }

    pub(super) fn len_of(&self, application: &ApplicationName) -> usize {
        self.0.borrow().iter().filter(|id| id.application() == *application).count()
    }

    pub(super) async fn wait_until_empty(self) {
        // the sender is in `self`, so the channel stays open
        drop(self.0.subscribe().wait_for(HashSet::is_empty).await);
    }
}

impl Drop for OrderClaim {
    fn drop(&mut self) {
        self.orders.0.send_modify(|orders| {
            orders.remove(&self.session_id);
        });
    }
}
