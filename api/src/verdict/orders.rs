//! Orders of first verdicts.

use crate::base::page::PageLimit;
use domain_base::application::ApplicationName;
use domain_base::gate_path::GatePath;
use domain_base::moment::{self, Moment};
use domain_base::session_id::SessionId;
use domain_verdict::crosscheck::CrosscheckDecision;
use domain_verdict::label::ProductTier;
use domain_verdict::order::{Order, OrderAction, OrderState, OrderWait};
use domain_verdict::policy::PolicyCause;
use domain_verdict::query::CustomerQuery;
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An order with its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderReport {
    /// The session, which also names the order.
    pub session_id: SessionId,
    /// The tier that was bought.
    pub tier: ProductTier,
    /// The order.
    #[serde(flatten)]
    pub order: Order,
    /// Why the order is not attempted although it is due; missing if it only waits for its turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<OrderWait>,
}

impl OrderReport {
    /// The order of a session; `None` if it has none.
    #[must_use]
    pub fn of(session: SessionRecord) -> Option<Self> {
        let SessionRecord { session_id, tier, order, .. } = session;
        let order = Order { open_rejection: None, attempt_deadline: None, ..order? };
        Some(Self { session_id, tier, order, waiting_for: None })
    }

    /// The report for the application of the session, without the operator.
    #[must_use]
    pub fn into_local(self) -> Self {
        let order = Order { operator_action: None, ..self.order };
        Self { session_id: self.session_id.into_local(), order, ..self }
    }

    /// Why the order waits, or was stopped, in words.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        self.waiting_for.as_ref().map(|wait| wait.detail.clone()).or_else(|| self.order.reason())
    }

    /// The report at the time `now`, if orders like this wait for `wait`.
    #[must_use]
    pub fn waiting_for(self, wait: Option<OrderWait>, now: Timestamp) -> Self {
        let is_due = self.order.due_at(now).is_some_and(|due| due <= now);
        let waits = self.order.state == OrderState::Queued && is_due;
        Self { waiting_for: wait.filter(|_| waits), ..self }
    }
}

/// The query of `GET /v1/orders`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OrdersParams {
    /// Only orders after this position: the `next` of the previous page.
    pub after: Option<String>,
    /// The most orders in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
    /// Only orders in this state.
    pub state: Option<OrderState>,
}

/// The query of `GET /v1/orders` on the control socket.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AllOrdersParams {
    /// Only orders of this application.
    pub application: Option<ApplicationName>,
    /// Only orders after this position: the `next` of the previous page.
    pub after: Option<String>,
    /// The most orders in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
    /// Only orders in this state.
    pub state: Option<OrderState>,
}

/// The query of `GET /v1/orders` on the socket for reviewers.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HeldOrdersParams {
    /// Only orders of this application.
    pub application: Option<ApplicationName>,
    /// Only orders after this position: the `next` of the previous page.
    pub after: Option<String>,
    /// The most orders in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
    /// The only state of orders on this socket, which is also the default.
    #[param(inline)]
    pub state: Option<HeldState>,
}

/// The state of a held order.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldState {
    /// The order waits for a decision.
    Held,
}

/// `POST /v1/orders/{session_id}`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderActionRequest {
    /// `retry`, `fail`, `cancel` or `release`.
    pub action: OrderAction,
    /// The reason, for the log: 1 to 1,024 bytes.
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
    /// The order's `changed_at` on which the decision is based. An order that has changed since is refused.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Moment, required = false)]
    pub changed_at: Option<Timestamp>,
}

/// A verdict that the policy holds.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldVerdictReport {
    /// The session.
    pub session_id: SessionId,
    /// The query.
    pub query: CustomerQuery,
    /// When it was held.
    pub held_at: Timestamp,
    /// The path on which it arrived.
    pub path: GatePath,
    /// Why it is held.
    pub causes: Vec<PolicyCause>,
    /// The verdict, as it would be delivered.
    #[schema(value_type = Value)]
    pub verdict: Box<RawValue>,
    /// The decision of the crosscheck.
    pub decision: CrosscheckDecision,
}
