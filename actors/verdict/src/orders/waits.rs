//! The causes for which queued orders wait. They are kept in memory: an order is tried again every few seconds.

use domain_base::application::ApplicationName;
use domain_base::session_id::SessionId;
use domain_verdict::order::OrderWait;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

    pub(super) fn set_of_application(&self, application: ApplicationName, wait: OrderWait) {
        self.known().applications.insert(application, wait);
    }

    pub(super) fn set_of_order(&self, session_id: SessionId, wait: OrderWait) {
        self.known().orders.insert(session_id, wait);
    }

    /// Forgets what an order waited for, and returns it.
    pub(super) fn end_of_order(&self, session_id: &SessionId) -> Option<OrderWait> {
        self.known().orders.remove(session_id)
    }

    /// Forgets what the orders of the application of an order waited for, because that order starts.
    pub(super) fn end_of_application(&self, session_id: &SessionId) {
        self.known().applications.remove(&session_id.application());
    }
}
