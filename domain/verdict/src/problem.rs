//! The codes of errors of verdicts, sessions, orders and mails, and the members that they add to a problem.

use crate::crosscheck::CrosscheckDecision;
use crate::policy::PolicyCause;
use crate::session::SessionMismatch;
use domain_base::problem_codes;
use domain_rules::RulesEvaluation;
use serde::Serialize;

problem_codes! {
    /// The tier is none of the three.
    UNKNOWN_TIER = 400: "Send one of the tiers that `detail` lists.",
    /// The query is longer than `limits.query_bytes`.
    QUERY_TOO_LONG = 400: "Shorten the query.",
    /// The session belongs to another user id. Others may read it and repeat its requests, but not change it.
    SESSION_NOT_OWNED = 403: "Send the request as the user that registered or ordered the session, or let an operator correct the session.",
    /// No verdict is cached for the session.
    VERDICT_NOT_CACHED = 404: "Submit the verdict, or read it with `GET /v1/verdicts/{session_id}`, which can regenerate it.",
    /// The mail or the webhook is not in the outbox: it was sent, dropped or never queued.
    MAIL_UNKNOWN = 404: "Use an id from `oraclectl outbox` or `oraclectl webhook list`.",
    /// The session is not registered, and the payment service, if one is configured, has no such session.
    SESSION_UNKNOWN = 404: "Register it with `PUT /v1/sessions/{session_id}`.",
    /// The session is not on legal hold.
    NOT_ON_HOLD = 404: "Use a session that `oraclectl hold` lists.",
    /// No notice about the session is drafted: none was, or it was released, discarded or withdrawn.
    RECALL_NOTICE_UNKNOWN = 404: "Use a session that `oraclectl notice list` lists.",
    /// The session has no order.
    ORDER_UNKNOWN = 404: "Place an order with `POST /v1/verdicts/{session_id}`.",
    /// Another request is sending or changing the mail.
    MAIL_IN_FLIGHT = 409: "Send the request again after a moment.",
    /// The endpoint of webhooks is not paused.
    ENDPOINT_NOT_PAUSED = 409: "Use an endpoint that is paused: see `oraclectl webhook endpoints`.",
    /// The session has another tier, query or original verdict, or its verdict or its order has other facts. `mismatch` names
    /// the difference.
    SESSION_MISMATCH = 409: "Use a new session id, or the session's own data.",
    /// The session's first verdict was delivered already.
    DELIVERED_ALREADY = 409: "Read the verdict instead.",
    /// The order of the session was cancelled by its application or an operator. The session gets no verdict.
    ORDER_CANCELLED = 409: "Use a new session id.",
    /// The session is on legal hold: nothing of it can be removed. `detail` has the reason of the hold, except for an application.
    SESSION_ON_HOLD = 409: "Release the hold with `oraclectl hold --session ID --release --reason …`, or wait until it is released.",
    /// The state of the order does not permit the change. `detail` names it.
    ORDER_STATE_REFUSED = 409: "Wait until the attempt has ended, or use another action.",
    /// The notice was changed, released or discarded since it was read, or its session was changed at the same moment.
    RECALL_NOTICE_CHANGED = 409: "Read the notice again before you decide.",
    /// The notice cannot be sent: there is no mail service, no address, no stored verdict, or no template that can be rendered. `detail`
    /// names the cause.
    RECALL_NOTICE_UNSENDABLE = 409: "Remove the cause, or discard the notice.",
    /// The verdict did not pass the crosscheck. `decision` has the reason.
    CROSSCHECK_REJECTED = 422 retry Sometimes: "Do not deliver the verdict. Submit a verdict that passes, under the same session.",
    /// The verdict did not pass the rules. `evaluation` has the evidence.
    RULES_REJECTED = 422 retry Sometimes: "Do not deliver the verdict. Submit a verdict that passes, under the same session.",
    /// The verdict passed the crosscheck, and the rules if it has facts, but the policy refused it. `causes` names the flags,
    /// or the minimum coherence.
    POLICY_REJECTED = 422 retry Sometimes: "Do not deliver the verdict. Submit another one under the same session.",
    /// The order of the session failed: no answer of the model could be delivered. `detail` has the last cause.
    ORDER_FAILED = 422: "Do not deliver a verdict. An operator can retry the order with `oraclectl order retry`.",
    /// The session's verdict was regenerated a short time ago.
    REGEN_RATE_LIMITED = 429 retry Sometimes: "Wait for `Retry-After`, which is exact.",
    /// A held verdict cannot be encrypted or decrypted: its key, which `detail` names, is missing or another one, or the
    /// verdict is damaged.
    HELD_VERDICT_UNREADABLE = 500: "Restore the key, or retry or fail the order.",
    /// The model blocked the prompt, stopped early, declined, or returned no text.
    MODEL_REFUSED = 502 retry Sometimes: "Send the request again after `Retry-After`, or submit a verdict.",
    /// The model answered 400, 401, 402, 403, 404, 413 or 422, or that its credit is used up, and will reject the same request again. An
    /// alert fires.
    MODEL_REFUSED_REQUEST = 502: "Correct the model's configuration (its key, name or URL), or buy credit.",
    /// The session is unknown, and could not be looked up: the payment service failed, or its circuit is open.
    LOOKUP_UNAVAILABLE = 503 retry Sometimes: "Wait for `Retry-After`, or register the session.",
    /// The limit of requests to the model, or of open orders, is reached.
    MODEL_BUSY = 503 retry Sometimes: "Wait for `Retry-After`, or raise the limit that `detail` names.",
    /// The model cannot be reached, or no model is configured.
    MODEL_UNAVAILABLE = 503 retry Sometimes: "Wait for `Retry-After`. Without that header, configure a model.",
    /// The configured prompt template is not registered, or has no text for the tier.
    PROMPT_UNAVAILABLE = 503: "Register the prompt template, or configure another one as `prompt_template`.",
    /// The session is unknown, and the payment service did not answer within `lookup.timeout_ms`.
    LOOKUP_TIMEOUT = 504 retry Sometimes: "Wait for `Retry-After`.",
    /// The model did not answer within `model.deadline_ms`.
    MODEL_TIMEOUT = 504 retry Sometimes: "Wait for `Retry-After`.",
}

/// The members that an error of a verdict can have.
#[derive(Debug, Clone, Default, Serialize, utoipa::ToSchema)]
pub struct VerdictProblem {
    /// With `crosscheck_rejected` and `policy_rejected`: the decision of the crosscheck.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub decision: Option<CrosscheckDecision>,
    /// With `rules_rejected`: the result of the rules, with its evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub evaluation: Option<RulesEvaluation>,
    /// With `policy_rejected`: why the policy refused the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub causes: Option<Vec<PolicyCause>>,
    /// With `crosscheck_rejected`, `rules_rejected` and `policy_rejected`: the address for the customer's questions, if one is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub contact: Option<String>,
    /// With `session_mismatch` and `session_not_owned`: what differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub mismatch: Option<SessionMismatch>,
}
