//! Cancelling an order, by its application.

use super::admin::OrderChangeError;
use super::{OrderWork, OrdersActor};
use crate::generation::GenerationError;
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::event::OrderCancelled;
use domain_verdict::session::{SessionCaller, SessionRecord};

/// Cancels an order for its application. A call in progress continues, since it costs the same, and its answer is discarded.
/// Returns the session afterwards, also if the order was cancelled before. Errors have the session's id without its application.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<SessionRecord, OrderChangeError>")]
pub struct CancelOrder {
    pub session_id: SessionId,
    /// The caller of the request.
    pub caller: SessionCaller,
    /// The process of the caller.
    pub peer: PeerCredentials,
}

impl OrderWork {
    async fn cancel(
        &self,
        session_id: &SessionId,
        (caller, peer): (SessionCaller, PeerCredentials),
    ) -> Result<SessionRecord, OrderChangeError> {
        let is_refused = |session: &SessionRecord| session.change_mismatch(caller, None).is_some();
        let changed = self.change_order(session_id, |session, order, now| {
            (!order.state.has_ended() && !is_refused(&session)).then(|| {
                let cancelled = OrderCancelled {
                    from: order.state,
                    attempts: order.attempts,
                    reason: None,
                    user_name: None,
                    peer: Some(peer),
                };
                let event = AuditEvent::new(now, session_id.clone(), cancelled);
                (SessionRecord { order: Some(order.cancelled(now)), ..session }, vec![event])
            })
        });
        if let Some(session) = changed.await? {
            return Ok(session);
        }
        let session = self.store().session(session_id).map_err(GenerationError::from)?;
        let session = session.map(|(session, _)| session);
        let state = session.as_ref().and_then(|session| session.order.as_ref()).map(|order| order.state);
        let local = session_id.clone().into_local();
        match (session, state) {
            (Some(session), Some(_)) if is_refused(&session) => Err(OrderChangeError::OtherOwner(local)),
            (Some(session), Some(_)) if session.is_cancelled() => Ok(session),
            (_, Some(state)) => Err(OrderChangeError::Ended { session_id: local, state }),
            (_, None) => Err(OrderChangeError::Unknown(local)),
        }
    }
}

impl Handler<CancelOrder> for OrdersActor {
    type Result = ResponseFuture<Result<SessionRecord, OrderChangeError>>;

    fn handle(
        &mut self,
        CancelOrder { session_id, caller, peer }: CancelOrder,
        ctx: &mut Context<Self>,
    ) -> Self::Result {
        let (desk, me) = (self.work.clone(), ctx.address());
        Box::pin(async move {
            let session = desk.cancel(&session_id, (caller, peer)).await?;
            desk.leave_queue(&me, session_id);
            Ok(session)
        })
    }
}
