//! The progress of open orders, for the requests that wait for them.

use domain_base::session_id::SessionId;
use domain_verdict::order::Order;
use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

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
