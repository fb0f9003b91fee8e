//! Changes that operators make to an order, and the errors of all changes.

use super::{OrderWork, OrdersActor};
use crate::generation::GenerationError;
use crate::held_key::HeldKeyError;
use actix::{AsyncContext, Context, Handler, Message, ResponseFuture};
use actors_platform::work::Work;
use domain_base::caller::DecidingUser;
use domain_base::event::{AuditEvent, EventKind};
use domain_base::session_id::SessionId;
use domain_verdict::event::{OrderCancelled, OrderRetried, OrderStopped};
use domain_verdict::order::{OperatorAction, Order, OrderAction, OrderState, OrderStopCause};
use domain_verdict::policy::{PolicyCause, join_causes};
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;

/// Changes an order. Returns its session afterwards.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<SessionRecord, OrderChangeError>")]
pub struct ChangeOrder {
    pub session_id: SessionId,
    pub action: OrderAction,
    /// The operator's reason.
    pub reason: String,
    /// Whether the order must be held.
    pub held_only: bool,
    /// The time of the order's last change, if the decision is based on it.
    pub changed_at: Option<Timestamp>,
    /// The operator.
    pub user: DecidingUser,
}

/// Why an order was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OrderChangeError {
    /// The session has no order.
    #[error("session {0} has no order")]
    Unknown(SessionId),
    /// The order is in a state in which the change is not possible.
    #[error(
        "the order of session {session_id} is {}; only a queued, held or failed order can be retried, and only a queued or \
         held one can be failed", .state.into_str()
    )]
    State { session_id: SessionId, state: OrderState },
    /// The order has ended, and cannot be cancelled.
    #[error(
        "the order of session {session_id} is {}; only a queued, generating or held order can be cancelled", .state.into_str()
    )]
    Ended { session_id: SessionId, state: OrderState },
    /// The session belongs to another user id.
    #[error("the session {0} belongs to another user id")]
    OtherOwner(SessionId),
    /// The order is not the one on which the decision is based.
    #[error(
        "the order of session {session_id} has changed at {changed_at}; look at it again before you decide"
    )]
    Changed { session_id: SessionId, changed_at: Timestamp },
    /// The policy holds no verdict of the session.
    #[error(
        "the policy holds no verdict of session {session_id}, whose order is {}; only such a verdict can be read or \
         released", .state.into_str()
    )]
    NoHeldVerdict { session_id: SessionId, state: OrderState },
    /// The held verdict was decrypted, but the crosscheck does not approve it.
    #[error("the held verdict of session {0} is damaged; retry or fail the order")]
    HeldVerdictDamaged(SessionId),
    /// The rules have refused another verdict of the session since.
    #[error(
        "the rules have refused another verdict of session {0} since this one was held, and it was not checked against \
         the facts of that one; retry or fail the order"
    )]
    CheckInForce(SessionId),
    /// The held verdict was not decrypted.
    #[error(transparent)]
    HeldKey(#[from] HeldKeyError),
    /// The policy now refuses the held verdict.
    #[error(
        "the policy refuses the held verdict of session {session_id}: {}; retry or fail the order, or change `gate` and restart",
        join_causes(.causes)
    )]
    RefusedByPolicy { session_id: SessionId, causes: Vec<PolicyCause> },
    /// The change could not be stored.
    #[error(transparent)]
    Failed(#[from] GenerationError),
}

/// The entry about the change of an order, which was in the state `from`, by an operator.
fn event_of(
    action: OrderAction,
    from: OrderState,
    &Order { state, attempts, .. }: &Order,
    reason: String,
    DecidingUser { peer, name: user_name }: DecidingUser,
) -> EventKind {
    match action {
        OrderAction::Retry => OrderRetried { reason, user_name, peer }.into(),
        OrderAction::Cancel => {
            let (reason, peer) = (Some(reason), Some(peer));
            OrderCancelled { from, attempts, reason, user_name, peer }.into()
        }
        OrderAction::Fail | OrderAction::Release => {
            let (cause, reason, peer) = (OrderStopCause::Operator, Some(reason), Some(peer));
            OrderStopped { state, cause, attempts, reason, user_name, peer }.into()
        }
    }
}

impl Handler<ChangeOrder> for OrdersActor {
    type Result = ResponseFuture<Result<SessionRecord, OrderChangeError>>;

    fn handle(&mut self, message: ChangeOrder, ctx: &mut Context<Self>) -> Self::Result {
        let (desk, me) = (self.work.clone(), ctx.address());
        Box::pin(async move {
            // an attempt in progress ends first
            let is_possible: fn(OrderState) -> bool = match message.action {
                OrderAction::Release => return desk.release(message).await,
                OrderAction::Retry => {
                    |state| matches!(state, OrderState::Queued | OrderState::Held | OrderState::Failed)
                }
                OrderAction::Fail => |state| matches!(state, OrderState::Queued | OrderState::Held),
                // the answer of an attempt in progress is discarded
                OrderAction::Cancel => |state| !state.has_ended(),
            };
            let known_change = message.changed_at;
            let ChangeOrder { session_id, action, reason, held_only, user, .. } = message;
            let DecidingUser { peer, name } = user;
            // a retry destroys the held verdict, so another one must be possible
            if action == OrderAction::Retry
                && desk.store().held_verdict_revision(&session_id).map_err(GenerationError::from)?.is_some()
            {
                desk.runner.require_model()?;
            }
            let changed = desk.change_order(&session_id, |session, order, now| {
                let is_open_to_user = (!held_only || order.state == OrderState::Held)
                    && known_change.is_none_or(|at| at == order.changed_at);
                (is_open_to_user && is_possible(order.state)).then(|| {
                    let reason = reason.clone();
                    let user_name = name.clone();
                    let made = OperatorAction {
                        action,
                        at: now,
                        uid: peer.uid,
                        user_name: user_name.clone(),
                        reason: reason.clone(),
                    };
                    let from = order.state;
                    let order = order.changed_by_operator(made);
                    let user = DecidingUser { peer, name: user_name };
                    let event = event_of(action, from, &order, reason, user);
                    let event = AuditEvent::new(now, session_id.clone(), event);
                    (SessionRecord { order: Some(order), ..session }, vec![event])
                })
            });
            let Some(session) = changed.await? else {
                let session = desk.store().session(&session_id).map_err(GenerationError::from)?;
                let session = session.map(|(session, _)| session);
                let is_cancellation = action == OrderAction::Cancel && !held_only;
                if let Some(session) =
                    session.clone().filter(|session| is_cancellation && session.is_cancelled())
                {
                    return Ok(session);
                }
                return Err(match session.and_then(|session| session.order) {
                    Some(Order { changed_at, state, .. })
                        if known_change.is_some_and(|at| at != changed_at)
                            && (!held_only || state == OrderState::Held) =>
                    {
                        OrderChangeError::Changed { session_id, changed_at }
                    }
                    Some(Order { state, .. }) if is_cancellation => {
                        OrderChangeError::Ended { session_id, state }
                    }
                    Some(order) => OrderChangeError::State { session_id, state: order.state },
                    None => OrderChangeError::Unknown(session_id),
                });
            };
            if action == OrderAction::Retry {
                OrderWork::wake(&me, session_id, Some(desk.clock().now()), true);
            } else {
                desk.leave_queue(&me, session_id);
            }
            Ok(session)
        })
    }
}
