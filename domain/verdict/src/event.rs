//! The events of verdicts, sessions, orders, mails and webhooks.

use crate::cost::{CostSum, DayCosts, UsedUpBudget, day_of};
use crate::crosscheck::{CrosscheckJudgment, CrosscheckReason};
use crate::divergence::{DivergenceCheck, DivergenceLevel, OriginalLabel, RegenVariance};
use crate::flag::Flag;
use crate::generation::{GenerationOutcome, ModelTokenUsage, VerdictGeneration};
use crate::interaction::OracleInteractionLog;
use crate::label::{ProductTier, VerdictLabel};
use crate::legal_hold::{ErasureRefused, LegalHoldPlaced, LegalHoldReleased};
use crate::lookup::LookupEntry;
use crate::opinion::OrderOpinion;
use crate::order::{Order, OrderState, OrderStopCause};
use crate::outbox::{MessageEntry, MessageId};
use crate::policy::AppliedPolicy;
use crate::query::CustomerQuery;
use crate::recall::{RunRecalled, VerdictRecalled};
use crate::recall_notice::{
    RecallNoticeDiscarded, RecallNoticeRead, RecallNoticeReleased, RecallNoticeWithdrawn,
};
use crate::rejection::AnswerRejection;
use crate::tmm::{OMEGA, PHI};
use crate::webhook::{EndpointFailed, EndpointPaused, EndpointResumed, WebhookAnswer, WebhookId};
use domain_base::caller::PeerCredentials;
use domain_base::decimal::Decimal;
use domain_base::digest::Sha256Hex;
use domain_base::event::{
    AuditEvent, DeliveryRole, EntryMembers, Event, EventClass, EventNotice, EventSeverity, EventType,
    read_open,
};
use domain_base::gate_path::GatePath;
use domain_base::row::SumWrite;
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::upstream_text::UpstreamText;
use domain_upstream::upstream_id::UpstreamId;
use jiff::{Timestamp, civil};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How an order ended.
fn format_end(entry: EntryMembers<'_>, how: &[&str]) -> String {
    let end = format!("{} after {}", entry.words(how), entry.count("attempts", "attempt", "attempts"));
    if entry.text("reason").is_empty() { end } else { format!("{end} {}", entry.by_peer()) }
}

/// Whether and when there is another attempt.
fn format_next_attempt(entry: EntryMembers<'_>) -> String {
    let at = entry.text("next_attempt_at");
    if at.is_empty() { "no further attempt".to_owned() } else { format!("again at {at}") }
}

/// The kind of a message. A webhook also has its id, which its receiver gets.
fn format_message(entry: EntryMembers<'_>) -> String {
    let (kind, id) = (entry.text("kind"), entry.text("message_id"));
    if id.starts_with(WebhookId::PREFIX) { format!("{kind} {id}") } else { kind }
}

/// The answer of an endpoint; empty if there is none.
fn format_answer(entry: EntryMembers<'_>) -> String {
    let status = entry.text_after(": status ", "status");
    if status.is_empty() { status } else { format!("{status} after {} ms", entry.text("latency_ms")) }
}

/// A value before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ValueChange<T> {
    /// The value before the change.
    pub before: T,
    /// The value after the change.
    pub after: T,
}

/// A verdict was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct TmmCrosscheck(pub CrosscheckEntry);

impl Event for TmmCrosscheck {
    const NAME: &'static str = "tmm_crosscheck";
    // a flag can have the name of a member that the model invented
    const ERASABLE: &'static [&'static str] = &["query_preview", "flags"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Evidence;

    fn summary(entry: EntryMembers<'_>) -> String {
        let decided = if entry.is_true("approved") { "approved" } else { "rejected" };
        let score = entry.0.get("coherence_score").and_then(Value::as_f64);
        let score = score.map(|score| format!("C={score:.4}")).unwrap_or_default();
        let (verdict, reason) =
            (entry.words(&["path", "tier", "verdict_label"]), entry.text("crosscheck_reason"));
        format!("{decided} {verdict} {score} {reason} {}", entry.list("flags"))
    }
}

/// The crosscheck failed with an internal error; nothing was approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CrosscheckError {
    /// The path on which the verdict arrived.
    pub path: GatePath,
    /// Always `ERROR`.
    pub level: EventSeverity,
    /// The error.
    pub cause: String,
}

impl Event for CrosscheckError {
    const NAME: &'static str = "crosscheck_error";
    const ERASABLE: &'static [&'static str] = &["cause"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.words(&["path", "cause"])
    }
}

/// The stored check that rejected a session's verdict was discarded to make room for newer ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RejectingCheckDropped {}

impl Event for RejectingCheckDropped {
    const NAME: &'static str = "rejecting_check_dropped";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(_: EntryMembers<'_>) -> String {
        String::new()
    }
}

/// The policy held or refused a verdict that the crosscheck, and the rules if it has a check, approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PolicyApplied {
    /// The action and its causes.
    #[serde(flatten)]
    pub policy: AppliedPolicy,
    /// The SHA-256 of the text.
    pub verdict_sha256: Sha256Hex,
    /// The path on which the verdict arrived.
    pub path: GatePath,
}

impl Event for PolicyApplied {
    const NAME: &'static str = "policy_applied";
    const ERASABLE: &'static [&'static str] = &["causes"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Evidence;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{}: {}", entry.words(&["action", "path"]), entry.list("causes"))
    }
}

/// An approved verdict was stored in the cache and can be delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerdictCached {
    /// The tier of the verdict.
    pub tier: ProductTier,
    /// The top-level verdict.
    pub verdict_label: VerdictLabel,
    /// The SHA-256 of the text.
    pub verdict_sha256: Sha256Hex,
    /// The path on which the verdict arrived.
    pub path: GatePath,
    /// The SHA-256 of the evaluation against facts that permitted the delivery; absent without facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_sha256: Option<Sha256Hex>,
}

impl Event for VerdictCached {
    const NAME: &'static str = "verdict_cached";
    // it can be the digest of a text that can be guessed
    const ERASABLE: &'static [&'static str] = &["evaluation_sha256"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Delivery;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.words(&["path", "tier", "verdict_label"])
    }
}

/// A cached verdict was removed by an administrator; its session stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerdictPurged {
    /// The SHA-256 of the removed text; null if the text was damaged.
    pub verdict_sha256: Option<Sha256Hex>,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for VerdictPurged {
    const NAME: &'static str = "verdict_purged";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// A route or a look-up registered a session, or added details to it, so that a lost verdict can be regenerated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionRegistered {
    /// The tier of the verdict.
    pub tier: ProductTier,
    /// The first 80 Unicode scalar values of the query.
    pub query_preview: String,
    /// The label of the verdict that was delivered first, if known.
    pub original_verdict: OriginalLabel,
    /// Whether the session has an e-mail address.
    pub has_email: bool,
}

impl Event for SessionRegistered {
    const NAME: &'static str = "session_registered";
    const ERASABLE: &'static [&'static str] = &["query_preview"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} original {}", entry.text("tier"), entry.text("original_verdict"))
    }
}

/// An unknown session was looked up at the payment service. If it was found, `session_registered` follows in the same
/// commit, unless another request has registered the session meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SessionLookedUp(pub LookupEntry);

impl Event for SessionLookedUp {
    const NAME: &'static str = "session_looked_up";
    const ERASABLE: &'static [&'static str] = &["response_hash"];
    const CLASS: EventClass = EventClass::Routine;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let call = entry.words(&["oracle_id", "status", "outcome", "error_code"]);
        format!("{call} {} ms", entry.text("latency_ms"))
    }
}

/// The e-mail address of a registered session was set or changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionAddressChanged {
    /// The HMAC-SHA-256 of the previous address under a key that only the store has; null if there was none.
    pub before: Option<Sha256Hex>,
    /// The HMAC-SHA-256 of the new address; null if there is none.
    pub after: Option<Sha256Hex>,
}

impl Event for SessionAddressChanged {
    const NAME: &'static str = "session_address_changed";
    const ERASABLE: &'static [&'static str] = &["before", "after"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let set = |when: &str| if entry.text(when).is_empty() { "none" } else { "set" };
        format!("{} → {}", set("before"), set("after"))
    }
}

/// An administrator corrected a session: its address, its original verdict or its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionCorrected {
    /// The original verdict before and after.
    pub original_verdict: ValueChange<OriginalLabel>,
    /// Whether the address changed; `session_address_changed` has the digests.
    pub address_changed: bool,
    /// The user id that owns the session from now on; absent if that did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub owner_uid: Option<u32>,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for SessionCorrected {
    const NAME: &'static str = "session_corrected";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let label = |when: &str| entry.text(&format!("original_verdict/{when}"));
        let (before, after, owner) = (label("before"), label("after"), entry.text("owner_uid"));
        let changes = [
            (before != after).then(|| format!("original {before} → {after}")),
            entry.is_true("address_changed").then(|| "address".to_owned()),
            (!owner.is_empty()).then(|| format!("owner uid {owner}")),
        ];
        format!("{} {}", changes.into_iter().flatten().collect::<Vec<_>>().join(", "), entry.by_peer())
    }
}

/// An administrator exported everything that is stored about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionExported {
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for SessionExported {
    const NAME: &'static str = "session_exported";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// An administrator removed a session with its cached verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionRemoved {
    /// The SHA-256 of the cached verdict that was removed with it; null if it had none, or if its text was damaged.
    pub verdict_sha256: Option<Sha256Hex>,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for SessionRemoved {
    const NAME: &'static str = "session_removed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// The regeneration of a lost verdict is about to start. This entry is committed before the model is called, so that
/// the limit on regenerations holds after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RegenAttempted {
    /// The tier of the verdict.
    pub tier: ProductTier,
    /// The digest of the prompt, and the settings of the model.
    pub generation: VerdictGeneration,
}

impl Event for RegenAttempted {
    const NAME: &'static str = "regen_attempted";
    // the settings have the digest of the prompt
    const ERASABLE: &'static [&'static str] = &["generation"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Evidence;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.text("tier")
    }
}

/// The regeneration of a lost verdict ended without a verdict that can be delivered. Only hosts of a cluster log it, so that a
/// reader on another host gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RegenFailed {
    /// The outcome.
    pub outcome: GenerationOutcome,
    /// The error.
    pub cause: UpstreamText,
}

impl Event for RegenFailed {
    const NAME: &'static str = "regen_failed";
    const ERASABLE: &'static [&'static str] = &["cause"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{}: {}", entry.text("outcome"), entry.text("cause"))
    }
}

/// A request for a verdict that the model is to generate was accepted, and stored with its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderPlaced {
    /// The tier of the verdict.
    pub tier: ProductTier,
    /// The first 80 Unicode scalar values of the query.
    pub query_preview: String,
    /// Whether the session has an e-mail address.
    pub has_email: bool,
}

impl Event for OrderPlaced {
    const NAME: &'static str = "order_placed";
    const ERASABLE: &'static [&'static str] = &["query_preview"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.text("tier")
    }
}

/// The model is about to be asked for the verdict of an order. This entry is committed before the call, so that the limit
/// on calls holds after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderAttempted {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The digest of the prompt, and the settings of the model.
    pub generation: VerdictGeneration,
    /// The model, by its name among the oracles.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oracle_id: Option<UpstreamId>,
    /// Whether it is the last attempt with this model, because the order is older than `orders.max_age_s`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_last: bool,
}

impl Event for OrderAttempted {
    const NAME: &'static str = "order_attempted";
    // the settings have the digest of the prompt
    const ERASABLE: &'static [&'static str] = &["generation"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Evidence;

    fn summary(entry: EntryMembers<'_>) -> String {
        let last = if entry.is_true("is_last") { "last " } else { "" };
        format!("{last}attempt {}", entry.words(&["attempt", "generation/settings/model"]))
    }
}

/// An attempt brought no verdict that can be delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderAttemptFailed {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The outcome.
    pub outcome: GenerationOutcome,
    /// The error.
    pub cause: UpstreamText,
    /// The faults for which the crosscheck or the rules rejected the answer; absent if they did not.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_open")]
    #[schema(nullable = false)]
    pub rejection: Option<AnswerRejection>,
    /// The time of the next attempt; null if the order was stopped or cancelled.
    pub next_attempt_at: Option<Timestamp>,
}

impl Event for OrderAttemptFailed {
    const NAME: &'static str = "order_attempt_failed";
    const ERASABLE: &'static [&'static str] = &["cause", "rejection"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let [attempt, outcome, cause] = ["attempt", "outcome", "cause"].map(|name| entry.text(name));
        format!("attempt {attempt} {outcome}: {cause}; {}", format_next_attempt(entry))
    }
}

/// A limit, the policy, an operator or different opinions of the models stopped an order. It is held or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderStopped {
    /// The new state: `held` or `failed`.
    pub state: OrderState,
    /// Why it was stopped.
    pub cause: OrderStopCause,
    /// The number of attempts.
    pub attempts: u32,
    /// The operator's reason; null if no operator stopped the order.
    pub reason: Option<String>,
    /// The name of the operator; absent if the system had none, or if no operator stopped the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The operator's process; null if no operator stopped the order.
    pub peer: Option<PeerCredentials>,
}

impl OrderStopped {
    /// The entry of an order that a limit, the policy or the opinions of the models stopped.
    #[must_use]
    pub const fn without_operator(order: &Order, cause: OrderStopCause) -> Self {
        let Order { state, attempts, .. } = *order;
        Self { state, cause, attempts, reason: None, user_name: None, peer: None }
    }
}

impl Event for OrderStopped {
    const NAME: &'static str = "order_stopped";
    const ERASABLE: &'static [&'static str] = &["reason", "user_name"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Evidence;

    fn summary(entry: EntryMembers<'_>) -> String {
        format_end(entry, &["state", "cause"])
    }

    fn notice(&self, session_id: Option<&SessionId>) -> Option<EventNotice> {
        let kind = if self.state == OrderState::Held { "order.held" } else { "order.failed" };
        let data = json!({ "cause": self.cause, "attempts": self.attempts });
        Some(EventNotice::to_application(session_id?, kind, data))
    }
}

/// An operator retried an order. Its limits count from now on. If the policy held its verdict, the text was destroyed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderRetried {
    /// The operator's reason.
    pub reason: String,
    /// The name of the operator; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The operator's process.
    pub peer: PeerCredentials,
}

impl Event for OrderRetried {
    const NAME: &'static str = "order_retried";
    const ERASABLE: &'static [&'static str] = &["reason", "user_name"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// An operator released the verdict that the policy held. `verdict_cached` and `order_delivered` are in the same
/// commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderReleased {
    /// The SHA-256 of the text.
    pub verdict_sha256: Sha256Hex,
    /// The operator's reason.
    pub reason: String,
    /// The name of the operator; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The operator's process.
    pub peer: PeerCredentials,
}

impl Event for OrderReleased {
    const NAME: &'static str = "order_released";
    const ERASABLE: &'static [&'static str] = &["reason", "user_name"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Evidence;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// An operator read the text of a verdict that the policy holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HeldVerdictRead {
    /// The SHA-256 of the text.
    pub verdict_sha256: Sha256Hex,
    /// The operator's process.
    pub peer: PeerCredentials,
}

impl Event for HeldVerdictRead {
    const NAME: &'static str = "held_verdict_read";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
}

/// The verdict of an order was delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderDelivered {
    /// The path on which the verdict arrived.
    pub path: GatePath,
    /// The number of attempts.
    pub attempts: u32,
}

impl Event for OrderDelivered {
    const NAME: &'static str = "order_delivered";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Effect;

    fn summary(entry: EntryMembers<'_>) -> String {
        format_end(entry, &["path"])
    }

    fn notice(&self, session_id: Option<&SessionId>) -> Option<EventNotice> {
        Some(EventNotice::to_application(
            session_id?,
            "order.delivered",
            json!({ "attempts": self.attempts }),
        ))
    }
}

/// The application or an operator cancelled an order. If the model was asked, its answer is discarded, and
/// `order_attempt_failed` follows when the call ends. If the policy held its verdict, the text was destroyed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderCancelled {
    /// The state of the order before: `queued`, `generating` or `held`.
    pub from: OrderState,
    /// The number of attempts.
    pub attempts: u32,
    /// The operator's reason; absent if the application cancelled the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The name of the operator; absent if the system had none, or if the application cancelled the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The process of the application or the operator; absent if the log is older than this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerCredentials>,
}

impl Event for OrderCancelled {
    const NAME: &'static str = "order_cancelled";
    const ERASABLE: &'static [&'static str] = &["reason", "user_name"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format_end(entry, &["from"])
    }

    fn notice(&self, session_id: Option<&SessionId>) -> Option<EventNotice> {
        Some(EventNotice::to_application(
            session_id?,
            "order.cancelled",
            json!({ "attempts": self.attempts }),
        ))
    }
}

/// One request was sent to the model. The entry has details of the call.
///
/// The entries of a call are committed when the call ends, after its retries, so they can be older than the entries before
/// them. A kill loses those of calls in progress; `order_attempted` and `regen_attempted` are committed before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct OracleInteraction(pub Box<OracleInteractionLog>);

impl OracleInteraction {
    /// The tokens of the model call that the event is about.
    #[must_use]
    pub fn usage_of(event: &AuditEvent) -> Option<ModelTokenUsage> {
        event.kind.get::<Self>()?.0.usage
    }

    /// The cost of the model call that the event is about.
    #[must_use]
    pub fn cost_of(event: &AuditEvent) -> Option<CostSum> {
        event.kind.get::<Self>()?.0.cost_sum(event.timestamp, event.session_id.as_ref())
    }
}

impl Event for OracleInteraction {
    const NAME: &'static str = "oracle_interaction";
    const ERASABLE: &'static [&'static str] =
        &["oracle_version", "response_hash", "prompt_sha256", "finish_reason"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let (path, version, attempt) =
            (entry.text("path"), entry.text("oracle_version"), entry.text("attempt"));
        let outcome = entry.words(&["status", "error_code", "finish_reason"]);
        format!("{path} {version} request {attempt} {outcome} {} ms", entry.text("latency_ms"))
    }

    fn sums(&self, timestamp: Timestamp, session_id: Option<&SessionId>) -> Option<SumWrite> {
        let costs = DayCosts { sums: vec![self.0.cost_sum(timestamp, session_id)?], used_up: Vec::new() };
        Some(costs.to_sum(day_of(timestamp)))
    }
}

/// A regenerated verdict was compared with the verdict that was delivered first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct RegenDivergenceCheck(pub DivergenceCheck);

impl Event for RegenDivergenceCheck {
    const NAME: &'static str = "regen_divergence_check";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
    const DELIVERY_ROLE: DeliveryRole = DeliveryRole::Effect;

    fn summary(entry: EntryMembers<'_>) -> String {
        let [original, regenerated, level] =
            ["original_verdict", "regen_verdict", "divergence_level"].map(|name| entry.text(name));
        let level = if level.is_empty() { "not compared".to_owned() } else { level };
        format!("{original} → {regenerated} {level}")
    }

    fn notice(&self, session_id: Option<&SessionId>) -> Option<EventNotice> {
        let DivergenceCheck { original_verdict, regen_verdict, divergence_level, .. } = &self.0;
        divergence_level.filter(|level| *level != DivergenceLevel::None)?;
        let data = json!({
            "original_verdict": original_verdict,
            "regen_verdict": regen_verdict,
            "divergence_level": divergence_level,
        });
        Some(EventNotice::to_application(session_id?, "verdict.diverged", data))
    }
}

/// More than 5 % of the last 100 regenerated verdicts (of 20 at least) differ from the verdicts that were delivered
/// first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InfrastructureVariance {
    /// The number of regenerations, and how many of them differed.
    #[serde(flatten)]
    pub variance: RegenVariance,
    /// The rate that was exceeded.
    pub threshold: f64,
    /// Always `ESCALATION`.
    pub level: EventSeverity,
}

impl Event for InfrastructureVariance {
    const NAME: &'static str = "infrastructure_variance";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} of {} regenerated verdicts differ", entry.text("diverged"), entry.text("regens"))
    }
}

/// The costs of a UTC day have reached a daily budget. No further verdict that it applies to is generated on this day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DailyBudgetReached {
    /// The application that has the budget; missing for the budget of all model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationName>,
    /// The day.
    #[schema(value_type = String, format = Date)]
    pub day: civil::Date,
    /// The budget.
    pub budget: Decimal,
    /// The costs of the day.
    pub costs: Decimal,
    /// The currency of both.
    pub currency: String,
    /// Always `ESCALATION`.
    pub level: EventSeverity,
}

impl Event for DailyBudgetReached {
    const NAME: &'static str = "daily_budget_reached";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let [day, costs, budget] = ["day", "costs", "budget"].map(|name| entry.text(name));
        format!("{day}: {costs} of {budget} {}", entry.words(&["currency", "application"]))
    }

    fn sums(&self, timestamp: Timestamp, _: Option<&SessionId>) -> Option<SumWrite> {
        let Self { application, budget, .. } = self;
        let used_up = UsedUpBudget { application: application.clone(), daily: budget.clone(), at: timestamp };
        let costs = DayCosts { sums: Vec::new(), used_up: vec![used_up] };
        Some(costs.to_sum(day_of(timestamp)))
    }
}

/// A mail or a webhook was put into the outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct MessageQueued(pub MessageEntry);

impl Event for MessageQueued {
    const NAME: &'static str = "message_queued";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format_message(entry)
    }
}

/// The mail service, or the endpoint of a webhook, accepted a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageSent {
    #[serde(flatten)]
    pub message: MessageEntry,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// How the endpoint of a webhook answered; absent for a mail.
    #[serde(flatten)]
    pub answer: Option<WebhookAnswer>,
}

impl Event for MessageSent {
    const NAME: &'static str = "message_sent";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} at attempt {}{}", format_message(entry), entry.text("attempt"), format_answer(entry))
    }
}

/// An attempt to send a message failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageFailed {
    #[serde(flatten)]
    pub message: MessageEntry,
    /// The number of the attempt, from 1. For a notice that became too old, the number of its attempts until then.
    pub attempt: u32,
    /// How the endpoint of a webhook answered; absent for a mail, and without an answer.
    #[serde(flatten)]
    pub answer: Option<WebhookAnswer>,
    /// The error.
    pub cause: UpstreamText,
    /// The time of the next attempt; null if the message is now a dead letter.
    pub next_attempt_at: Option<Timestamp>,
}

impl Event for MessageFailed {
    const NAME: &'static str = "message_failed";
    const ERASABLE: &'static [&'static str] = &["cause"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let (message, attempt, cause) = (format_message(entry), entry.text("attempt"), entry.text("cause"));
        format!("{message} at attempt {attempt}: {cause}; {}", format_next_attempt(entry))
    }

    fn notice(&self, _: Option<&SessionId>) -> Option<EventNotice> {
        let Self {
            message: MessageEntry { message_id: MessageId::Mail(mail_id), kind, .. }, attempt, ..
        } = self
        else {
            // a webhook about a webhook would fail, too
            return None;
        };
        self.next_attempt_at.is_none().then(|| {
            let data = json!({ "mail_id": mail_id, "kind": kind, "attempts": attempt });
            EventNotice::to_operators("mail.dead_letter", data)
        })
    }
}

/// An administrator requeued a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageRequeued {
    #[serde(flatten)]
    pub message: MessageEntry,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for MessageRequeued {
    const NAME: &'static str = "message_requeued";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} {}", entry.text("message_id"), entry.by_peer())
    }
}

/// An administrator removed an unsent message from the outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageDropped {
    #[serde(flatten)]
    pub message: MessageEntry,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

impl Event for MessageDropped {
    const NAME: &'static str = "message_dropped";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} {}", entry.text("message_id"), entry.by_peer())
    }
}

/// The events of the feature.
pub const EVENTS: &[&EventType] = &[
    TmmCrosscheck::TYPE,
    CrosscheckError::TYPE,
    RejectingCheckDropped::TYPE,
    PolicyApplied::TYPE,
    VerdictCached::TYPE,
    VerdictPurged::TYPE,
    SessionRegistered::TYPE,
    SessionLookedUp::TYPE,
    SessionAddressChanged::TYPE,
    SessionCorrected::TYPE,
    SessionExported::TYPE,
    SessionRemoved::TYPE,
    LegalHoldPlaced::TYPE,
    LegalHoldReleased::TYPE,
    ErasureRefused::TYPE,
    RegenAttempted::TYPE,
    RegenFailed::TYPE,
    OrderPlaced::TYPE,
    OrderAttempted::TYPE,
    OrderAttemptFailed::TYPE,
    OrderOpinion::TYPE,
    OrderStopped::TYPE,
    OrderRetried::TYPE,
    OrderReleased::TYPE,
    HeldVerdictRead::TYPE,
    OrderDelivered::TYPE,
    OrderCancelled::TYPE,
    OracleInteraction::TYPE,
    RegenDivergenceCheck::TYPE,
    VerdictRecalled::TYPE,
    RunRecalled::TYPE,
    RecallNoticeRead::TYPE,
    RecallNoticeReleased::TYPE,
    RecallNoticeDiscarded::TYPE,
    RecallNoticeWithdrawn::TYPE,
    InfrastructureVariance::TYPE,
    DailyBudgetReached::TYPE,
    MessageQueued::TYPE,
    MessageSent::TYPE,
    MessageFailed::TYPE,
    MessageRequeued::TYPE,
    MessageDropped::TYPE,
    EndpointFailed::TYPE,
    EndpointPaused::TYPE,
    EndpointResumed::TYPE,
];

/// The seed's "Log Entry", with the mapping's variables, the path and the verdict's digest in addition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CrosscheckEntry {
    /// The tier for which the verdict was judged.
    pub tier: ProductTier,
    /// The first 80 Unicode scalar values of the query.
    pub query_preview: String,
    /// The top-level verdict; null if it is invalid.
    pub verdict_label: Option<VerdictLabel>,
    /// The coherence score C.
    pub coherence_score: f64,
    /// The threshold Ω.
    pub threshold: f64,
    /// The constant Φ.
    pub phi: f64,
    /// Whether the verdict was approved.
    pub approved: bool,
    /// The flags that were found.
    pub flags: Vec<Flag>,
    /// The reason for the approval or the rejection.
    pub crosscheck_reason: CrosscheckReason,
    /// The total value.
    pub v_t: f64,
    /// The resonant value.
    pub v_r: f64,
    /// The decoherence energy.
    pub e_d: f64,
    /// The path on which the verdict arrived.
    pub path: GatePath,
    /// The SHA-256 of the judged text. The text of a rejected verdict is not stored.
    pub verdict_sha256: Sha256Hex,
}

impl CrosscheckEntry {
    /// The entry for `judgment` of a verdict that arrived on `path`.
    #[must_use]
    pub fn of(judgment: &CrosscheckJudgment, query: &CustomerQuery, path: GatePath) -> Self {
        let CrosscheckJudgment { tier, inspection, decision, sha256, .. } = judgment;
        Self {
            tier: *tier,
            query_preview: query.preview(),
            verdict_label: decision.verdict_label,
            coherence_score: decision.coherence_score,
            threshold: OMEGA,
            phi: PHI,
            approved: decision.approved,
            flags: decision.flags.clone(),
            crosscheck_reason: decision.crosscheck_reason,
            v_t: inspection.v_t,
            v_r: inspection.v_r,
            e_d: inspection.e_d,
            path,
            verdict_sha256: sha256.clone(),
        }
    }
}
