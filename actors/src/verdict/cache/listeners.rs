//! The parts of the daemon to which deliveries are reported after their commit.

use super::metrics::ComparisonMetrics;
use crate::platform::actor_handle::ActorHandle;
use crate::verdict::notifier::{Notifier, WakeNotifier};
use crate::verdict::order_metrics::OrderMetrics;
use crate::verdict::order_progress::OrderProgress;
use oracled_domain::verdict::order::Order;
use oracled_domain::{MailId, SessionId};

#[derive(Debug, Clone)]
pub(crate) struct DeliveryListeners {
    /// `None` if no mail is sent.
    pub(crate) notifier: Option<ActorHandle<Notifier>>,
    pub(crate) orders: OrderProgress,
    pub(crate) order_metrics: OrderMetrics,
    pub(crate) comparisons: ComparisonMetrics,
}

impl DeliveryListeners {
    /// Reports the mail that a commit queued, and the order that it stopped or ended.
    pub(super) fn report(&self, session_id: &SessionId, mail_id: Option<MailId>, order: Option<&Order>) {
        if let Some(order) = order {
            self.order_metrics.count_end(session_id.application(), order.state);
            self.orders.publish(session_id, order);
        }
        wake_notifier(self.notifier.as_ref(), mail_id);
    }
}

/// Wakes the notifier for a queued mail, in the background.
fn wake_notifier(notifier: Option<&ActorHandle<Notifier>>, mail_id: Option<MailId>) {
    let (Some(notifier), Some(mail_id)) = (notifier.cloned(), mail_id) else { return };
    actix_rt::spawn(async move {
        if let Err(error) = notifier.ask(WakeNotifier { id: mail_id, receiver: () }).await {
            tracing::debug!(%error, "could not wake the notifier; the mail goes out at its next poll");
        }
    });
}
