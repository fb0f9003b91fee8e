//! Verdicts, sessions, the cache and the outbox; costs, prompt trials, retention and erasure.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::cost::{CostSum, DailyBudget, ModelCost};
use crate::crosscheck::CrosscheckDecision;
use crate::delivery::VerdictDelivery;
use crate::divergence::{DivergenceTable, OriginalLabel, RegenVariance};
use crate::generation::ModelTokenUsage;
use crate::label::{ProductTier, VerdictLabel};
use crate::legal_hold::LegalHold;
use crate::mail::{MailId, MailState};
use crate::mail_template::MailContent;
use crate::order::{Order, OrderAction, OrderState, OrderWait};
use crate::policy::PolicyCause;
use crate::prompt::{PromptTemplate, TemplateRef};
use crate::query::CustomerQuery;
use crate::recall::{RecallResult, RecalledVerdict};
use crate::recall_notice::{RecallNotice, RecallNoticeAction};
use crate::session::{CustomerEmail, SessionRecord};
use crate::webhook::{WebhookId, WebhookReceiver, WebhookType};
use domain_audit::event::DueData;
use domain_audit::wire::{LogBundle, LogEntry};
use domain_base::digest::Sha256Hex;
use domain_base::gate_path::GatePath;
use domain_base::moment::{self, Moment};
use domain_base::page::PageLimit;
use domain_base::payload::{given, object};
use domain_base::row::ErasedData;
use domain_base::session_id::{ApplicationName, SessionId};
use domain_ground::id::{EndpointId, SourceId};
use domain_ground::source_state::PruneReport;
use domain_ground::version_name::WordlistName;
use domain_rules::sourced::FactsFrom;
use domain_rules::{CandidateExpectations, RuleId, TextLanguage};
use domain_upstream::upstream_id::UpstreamId;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// `POST /v1/crosscheck`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CrosscheckRequest {
    /// The session of the verdict.
    #[schema(value_type = SessionId)]
    pub session_id: String,
    /// `quick`, `full` or `strategy`.
    #[schema(value_type = ProductTier)]
    pub tier: String,
    /// The customer's question.
    pub query: String,
    /// The verdict as a JSON value; either this or `raw`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Value)]
    pub verdict: Option<Box<RawValue>>,
    /// The model's text; either this or `verdict`.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub raw: Option<String>,
}

/// `POST /v1/verdicts/{session_id}`. Without `verdict` and `raw` the model is called.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitVerdictRequest {
    /// `quick`, `full` or `strategy`.
    #[schema(value_type = ProductTier)]
    pub tier: String,
    /// The customer's question.
    pub query: String,
    /// The address to which the verdict is mailed.
    #[schema(value_type = Option<CustomerEmail>)]
    pub customer_email: Option<String>,
    /// The verdict as a JSON value; either this or `raw`, or neither.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Value)]
    pub verdict: Option<Box<RawValue>>,
    /// The model's text; either this or `verdict`, or neither.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub raw: Option<String>,
    /// The prompt of the verdict, if it is known; only with `verdict` or `raw`.
    #[serde(default, deserialize_with = "object")]
    pub prompt: Option<SubmittedPrompt>,
    /// Facts. With them, the rules check the text of the verdict.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub facts: Option<Vec<String>>,
    /// Sources of facts, as in `POST /v1/rules/evaluate`. With them, too, the rules check the text.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub facts_from: Option<Vec<FactsFrom>>,
    /// The origin of the verdict. It is part of `input_sha256`; it is neither checked nor logged.
    pub context: Option<String>,
    /// Comparisons that must hold.
    pub constraints: Option<Vec<String>>,
    /// The expected findings, as in `POST /v1/rules/evaluate`.
    #[serde(default, deserialize_with = "object")]
    pub expected: Option<CandidateExpectations>,
    /// The rules to apply; the configured profile if it is absent.
    pub rules: Option<Vec<RuleId>>,
    /// Whether a claim may state a sum, a difference or a change in percent of two facts, for RULE-PREC-013; `false` if it is
    /// absent.
    pub derive: Option<bool>,
    /// The language of the text and its facts, for RULE-PREC-013; if it is absent, that of the word list, or `en`.
    pub language: Option<TextLanguage>,
    /// The registered word list with which the text and its facts are read, for RULE-PREC-013.
    pub wordlist: Option<WordlistName>,
}

/// The prompt of a verdict that oracled did not generate: exactly one of the members. A regeneration uses the same prompt if
/// its template or its text is given.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmittedPrompt {
    /// The version of the registered template that it was built from, for the tier and the query of the session.
    #[schema(value_type = Option<TemplateRef>)]
    pub template: Option<String>,
    /// Its text: 1 byte to 256 KiB. The session stores it.
    pub text: Option<String>,
    /// The SHA-256 of its text.
    #[schema(value_type = Option<Sha256Hex>)]
    pub sha256: Option<String>,
}

/// `PUT /v1/sessions/{session_id}`.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterSessionRequest {
    /// `quick`, `full` or `strategy`.
    #[schema(value_type = ProductTier)]
    pub tier: String,
    /// The customer's question.
    pub query: String,
    /// The customer's e-mail address.
    #[schema(value_type = Option<CustomerEmail>)]
    pub customer_email: Option<String>,
    /// The verdict that was delivered without oracled: `GREEN`, `AMBER`, `RED` or `NULL`.
    #[schema(value_type = Option<VerdictLabel>)]
    pub original_verdict: Option<String>,
    /// The prompt of that verdict, if it is known; only with `original_verdict`.
    #[serde(default, deserialize_with = "object")]
    pub prompt: Option<SubmittedPrompt>,
}

/// `POST /cache/{session_id}`, compatible with the service that oracled replaces.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheVerdictRequest {
    /// `quick`, `full` or `strategy`.
    #[schema(value_type = ProductTier)]
    pub tier: String,
    /// The customer's question.
    pub query: String,
    /// The verdict.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Value)]
    pub verdict: Option<Box<RawValue>>,
    /// Accepted and ignored: a client may send back what it has read.
    #[serde(default, rename = "cached_at")]
    #[schema(value_type = Value)]
    pub _cached_at: Option<IgnoredAny>,
    /// Accepted and ignored.
    #[serde(default, rename = "regen")]
    #[schema(value_type = Value)]
    pub _regen: Option<IgnoredAny>,
    /// Accepted and ignored.
    #[serde(default, rename = "regen_reason")]
    #[schema(value_type = Value)]
    pub _regen_reason: Option<IgnoredAny>,
}

/// A session as its application sees it.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RegisterSessionResponse {
    /// Its id.
    pub session_id: SessionId,
    /// The tier that was bought.
    pub tier: ProductTier,
    /// The customer's question.
    pub query: String,
    /// Whether the session has an e-mail address; the address itself is not shown.
    pub has_email: bool,
    /// The verdict that was delivered first; `UNKNOWN` if there is none, or none is known.
    pub original_verdict: OriginalLabel,
}

/// A delivered verdict.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct VerdictResponse {
    /// The stored document.
    #[serde(flatten)]
    pub delivery: VerdictDelivery,
    /// True if the session already had the verdict; otherwise absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub replayed: bool,
    /// With `proof=1`: the entries of the log about the delivery (`tmm_crosscheck` and `verdict_cached`), and the proof that the
    /// log has them. `oraclectl verify-log` verifies `session_id` and the text of `verdict`; it does not verify the other members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<LogBundle>,
}

/// The query of `GET /v1/verdicts/{session_id}`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VerdictParams {
    /// Adds the proof of the delivery.
    #[param(inline)]
    pub proof: Option<VerdictProof>,
    /// Returns the verdict as its card: an HTML page with its entries of the log and their proof, which verifies itself in a
    /// browser.
    #[param(inline)]
    pub card: Option<VerdictPage>,
}

/// Whether a verdict is returned as its card.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
pub enum VerdictPage {
    /// It is.
    #[serde(rename = "1")]
    Card,
}

/// Whether a verdict has its proof.
#[derive(Debug, Clone, Copy, Deserialize, utoipa::ToSchema)]
pub enum VerdictProof {
    /// It has.
    #[serde(rename = "1")]
    Included,
}

/// Whether a verdict was in the cache: the header `X-Cache`.
#[derive(Debug, Clone, Copy, utoipa::ToSchema)]
#[schema(rename_all = "UPPERCASE")]
pub enum CacheResult {
    /// It was stored.
    Hit,
    /// It was regenerated.
    Miss,
}

/// The answer to a purge.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PurgeResponse {
    /// The session.
    #[schema(value_type = SessionId)]
    pub session_id: String,
    /// Always true; if nothing is cached, the answer is `verdict_not_cached`.
    pub purged: bool,
    /// True if the text of the verdict was damaged or lost; otherwise absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// The query of `GET /v1/outbox`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OutboxParams {
    /// Only mails after this id.
    pub after: Option<MailId>,
    /// The most mails in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
    /// Only dead letters.
    #[serde(default)]
    pub dead: bool,
}

/// `POST /v1/outbox/{mail_id}`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailActionRequest {
    /// `requeue`.
    pub action: MailAction,
}

/// A change to a mail in the outbox.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MailAction {
    /// Send it again as if it had just been queued.
    Requeue,
}

/// The query of `GET /v1/webhooks`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WebhookListParams {
    /// Only webhooks after this id.
    pub after: Option<WebhookId>,
    /// The most webhooks in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
    /// Only dead letters.
    #[serde(default)]
    pub dead: bool,
}

/// `POST /v1/webhooks/test` and `POST /v1/webhooks/resume`: the endpoint.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointRequest {
    /// The application whose endpoint is meant; null for operators.
    pub application: Option<ApplicationName>,
    /// The id of a further endpoint in `webhooks.endpoints`; null for the first one.
    pub endpoint: Option<EndpointId>,
}

impl From<EndpointRequest> for WebhookReceiver {
    fn from(EndpointRequest { application, endpoint }: EndpointRequest) -> Self {
        Self { application, endpoint }
    }
}

/// A configured endpoint of webhooks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct EndpointReport {
    /// The receiver.
    #[serde(flatten)]
    pub receiver: WebhookReceiver,
    /// The events that are sent to it.
    pub events: Vec<WebhookType>,
    /// The number of queued webhooks.
    pub waiting: u64,
    /// The number of dead letters.
    pub dead: u64,
    /// When the first attempt failed since the last accepted webhook; null if none did.
    pub failing_since: Option<Timestamp>,
    /// Since when nothing is sent; null if the endpoint is not paused.
    pub paused_at: Option<Timestamp>,
}

/// The result of a test of an endpoint.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WebhookTestResponse {
    /// The id of the test event.
    pub webhook_id: WebhookId,
    /// The status of the answer, if the endpoint accepted the event.
    pub status: Option<u16>,
    /// The time until the answer, in milliseconds, if the endpoint accepted the event.
    pub latency_ms: Option<u64>,
    /// The error, if the endpoint did not accept the event.
    pub error: Option<String>,
}

/// The query of `GET /v1/divergence`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DivergenceParams {
    /// Only regenerations at or after this time.
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub since: Option<Timestamp>,
}

/// How often regenerated verdicts differ from the delivered ones.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DivergenceResponse {
    /// Regenerations by the delivered and the regenerated verdict.
    pub table: DivergenceTable,
    /// The statistics of the latest regenerations.
    pub variance: RegenVariance,
}

/// A session as an administrator sees it.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionReport {
    /// Its id.
    pub session_id: SessionId,
    /// The tier that was bought.
    pub tier: ProductTier,
    /// The customer's question.
    pub query: String,
    /// The user id that owns the session; null if an application is its owner, or if it was only looked up.
    pub owner_uid: Option<u32>,
    /// The customer's e-mail address.
    pub customer_email: Option<CustomerEmail>,
    /// The verdict that was delivered first; `UNKNOWN` if there is none, or none is known.
    pub original_verdict: OriginalLabel,
    /// The template of the prompt of that verdict; null if it is not known.
    pub prompt_template: Option<TemplateRef>,
    /// The SHA-256 of the prompt of that verdict, without the rejection of an earlier answer; null if it is not known.
    pub prompt_sha256: Option<Sha256Hex>,
    /// Whether the prompt of that verdict had the rejection of an earlier answer.
    #[serde(default)]
    pub reasked: bool,
    /// The SHA-256 of the verdict that oracled delivered first.
    pub delivered_sha256: Option<Sha256Hex>,
    /// The SHA-256 of the verdict that was cached last.
    pub cached_sha256: Option<Sha256Hex>,
}

/// A session with everything that happened to it.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionPage {
    /// Its own data.
    #[serde(flatten)]
    pub session: SessionReport,
    /// The order of its first verdict; null if the model was not to generate it.
    pub order: Option<Order>,
    /// Why the order is not attempted although it is due; missing if it only waits for its turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<OrderWait>,
    /// Its legal hold; null if there is none.
    #[serde(default)]
    pub legal_hold: Option<LegalHold>,
    /// Its mails that are not sent yet.
    pub mails: Vec<MailState>,
    /// The costs of all its model calls, one for each currency; empty if the models have no prices.
    pub costs: Vec<ModelCost>,
    /// Its log entries, the oldest first; at most the latest 1,000.
    #[schema(value_type = Vec<LogEntry>)]
    pub history: Vec<Value>,
    /// Whether the log has older entries of the session.
    pub has_older_entries: bool,
}

/// Everything that the daemon stores about a session, except its log entries.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionExport {
    /// The session as it is stored: its query, its address, the first verdict's label and prompt, the facts of its check, and its
    /// order; null if only other data of it are stored.
    pub session: Option<Value>,
    /// The cached verdict, as in the answer with it; null if there is none.
    #[schema(value_type = Option<VerdictDelivery>)]
    pub verdict: Option<Value>,
    /// The verdict that the policy holds; null if there is none.
    pub held_verdict: Option<HeldVerdictReport>,
    /// Its mails that are not sent yet, with their verdicts.
    pub mails: Vec<Value>,
    /// The stored check with which the rules rejected a verdict of the session; null if there is none.
    pub rejecting_check: Option<Value>,
    /// Its other rows, by the names of their tables.
    pub others: BTreeMap<String, Value>,
}

/// `PATCH /v1/sessions/{session_id}`. A member that is absent leaves its value unchanged.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CorrectSessionRequest {
    /// The new address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CustomerEmail>)]
    pub customer_email: Option<String>,
    /// The verdict that was delivered without oracled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<VerdictLabel>)]
    pub original_verdict: Option<String>,
    /// The user id that owns the session from now on. It has no effect while applications are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_uid: Option<u32>,
}

impl From<SessionRecord> for RegisterSessionResponse {
    fn from(session: SessionRecord) -> Self {
        let SessionRecord { session_id, tier, query, customer_email, original, .. } = session;
        Self {
            session_id: session_id.into_local(),
            tier,
            query: query.as_str().to_owned(),
            has_email: customer_email.is_some(),
            original_verdict: OriginalLabel(original.map(|original| original.verdict_label)),
        }
    }
}

impl From<SessionRecord> for SessionReport {
    fn from(session: SessionRecord) -> Self {
        let prompt = session.original.as_ref().and_then(|original| original.prompt.clone());
        let reasked = session.original.as_ref().is_some_and(|original| original.reasked);
        Self {
            reasked,
            session_id: session.session_id,
            tier: session.tier,
            query: session.query.as_str().to_owned(),
            owner_uid: session.owner_uid,
            customer_email: session.customer_email,
            original_verdict: OriginalLabel(session.original.map(|original| original.verdict_label)),
            prompt_template: prompt.as_ref().and_then(|prompt| prompt.template.clone()),
            prompt_sha256: prompt.map(|prompt| prompt.sha256),
            delivered_sha256: session.delivered_sha256,
            cached_sha256: session.cached_sha256,
        }
    }
}

/// `POST /v1/prompts/try`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptTryRequest {
    /// The template, which need not be registered. Without it, the configured template is tried.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub template: Option<PromptTemplate>,
    /// `quick`, `full` or `strategy`.
    pub tier: ProductTier,
    /// The query.
    pub query: String,
    /// Only check that the request can be tried, without a call of the model. The answer then has neither a decision nor a failure.
    #[serde(default)]
    pub check_only: bool,
}

/// The result of one trial.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PromptTryResponse {
    /// The version of the template that was tried.
    pub template: TemplateRef,
    /// The model that was asked: the first configured one, by its name among the oracles.
    pub oracle_id: UpstreamId,
    /// The name of this model at its provider.
    pub model: String,
    /// The decision on the model's answer; null if there is no answer that can be judged, or the model was not called.
    pub decision: Option<CrosscheckDecision>,
    /// Why there is no such answer; null if there is one, or the model was not called.
    pub failure: Option<String>,
    /// The tokens used, with retries; null if the model did not report them.
    pub usage: Option<ModelTokenUsage>,
    /// The cost, with retries; null if the model has no prices, or reported no tokens.
    pub cost: Option<ModelCost>,
}

/// The query of `GET /v1/costs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CostsParams {
    /// Only costs of the UTC day of this time and of later days.
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub since: Option<Timestamp>,
    /// Only costs of the UTC day of this time and of earlier days.
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub until: Option<Timestamp>,
}

/// The costs of the models.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostsResponse {
    /// The costs by UTC day, application, model and tier, the earliest day first.
    pub costs: Vec<CostSum>,
    /// The daily budgets: that of all model calls, and those of applications.
    pub budgets: Vec<DailyBudget>,
}

/// `PUT` and `DELETE /v1/legal-holds/{session_id}`
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LegalHoldRequest {
    /// The reason, 1 to 1,024 bytes. The audit log keeps it.
    pub reason: String,
}

/// `DELETE /v1/legal-holds/{session_id}`: the hold that has ended.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReleasedLegalHold {
    /// The session.
    pub session_id: SessionId,
}

/// `GET /v1/legal-holds`
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LegalHolds {
    /// The holds, by session.
    pub holds: Vec<LegalHold>,
}

/// `GET` and `POST /v1/retention`: the data that are due, or that were removed.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionResponse {
    /// The data by kind.
    pub due: DueData,
    /// The legal holds. The data of these sessions stay, and so do all log entries from the first one of them on.
    #[serde(default)]
    pub legal_holds: Vec<LegalHold>,
    /// Rotated files of `oracle_log.jsonl` in the state directory that may still have the data: they are compressed, cannot be
    /// read, or have lines that are not entries of the log. Empty for `GET`.
    pub unread_files: Vec<String>,
    /// The content of sources that is pruned; null if it is kept forever.
    pub payloads: Option<PayloadRetention>,
}

/// The content and the payloads of sources that are older than configured.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PayloadRetention {
    /// The configured number of days.
    pub days: u32,
    /// The sources by result.
    #[serde(flatten)]
    pub report: PruneReport,
}

/// `POST /v1/erasures`: either a session, or all sessions that have an address, or had it when they were removed.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ErasureRequest {
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionId>)]
    pub session_id: Option<String>,
    /// The address. Upper and lower case count as the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CustomerEmail>)]
    pub customer_email: Option<String>,
    /// The reason, 1 to 1,024 bytes. The audit log keeps it.
    pub reason: String,
}

/// The result of an erasure.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureResponse {
    /// The erased sessions. They can include sessions of an earlier erasure that was interrupted.
    pub sessions: Vec<ErasedSession>,
    /// Sessions that had the address before it was corrected. They were not erased.
    pub former_sessions: BTreeSet<SessionId>,
    /// Rotated files of `oracle_log.jsonl` in the state directory that may still have the data: they are compressed, cannot be
    /// read, or have lines that are not entries of the log.
    pub unread_files: Vec<String>,
    /// The hosts of the cluster whose files still have the data: they are away, or need more than ten minutes. Each removes them by itself.
    #[serde(default)]
    pub waiting_hosts: Vec<String>,
}

/// A session that was erased.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasedSession {
    /// The id of the session.
    pub session_id: SessionId,
    /// The kinds of data that were found.
    pub data: BTreeSet<ErasedData>,
}

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
        let (open_rejection, open_opinions) = (None, Vec::new());
        let order = Order { open_rejection, open_opinions, attempt_deadline: None, trace: None, ..order? };
        Some(Self { session_id, tier, order, waiting_for: None })
    }

    /// The report for the application of the session, without the operator and the opinions of several models.
    #[must_use]
    pub fn into_local(self) -> Self {
        let order = Order { operator_action: None, opinions: None, ..self.order };
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

/// The query of `GET /v1/recalls`. At most one of `run`, `record` and `since` is given; without them, it is about all statements of
/// the source.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RecallParams {
    /// The source.
    pub oracle_id: SourceId,
    /// Only statements from before this run, about records that it changed: the run's id, or 8 or more of its first digits.
    pub run: Option<String>,
    /// Only statements about the record with this id.
    pub record: Option<String>,
    /// Only statements from before runs since this time, about records that they changed.
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub since: Option<Timestamp>,
    /// Only verdicts after this entry, the `next` of an earlier answer.
    pub after: Option<u64>,
    /// The most verdicts in the answer: 1 to 1000, by default 20.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit<20>,
}

/// The delivered verdicts that relied on statements of a source that differ now.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallResponse {
    /// The source.
    pub oracle_id: SourceId,
    /// The version of the source that is compared with; null if it has none.
    pub source_version: Option<String>,
    /// The last entry of the log that is included.
    pub up_to_entry: u64,
    /// The last entry of the log at the request. If it is after `up_to_entry`, later verdicts may be missing: ask again.
    pub last_entry: u64,
    /// The first entry of the log. Verdicts that were evaluated before are not known.
    pub first_entry: u64,
    /// The number of verdicts on all pages.
    pub total: u64,
    /// The number of further verdicts that are not listed, because `recall` is `off` for their applications.
    pub off: u64,
    /// The verdicts of this page, in the order of their entries.
    pub verdicts: Vec<RecalledVerdict>,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<String>,
    /// The delivered verdicts with facts of the source of which it is not known on which statements they relied.
    pub unknown: UnknownReliance,
}

impl RecallResponse {
    /// Whether entries of the log are not included yet.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.up_to_entry < self.last_entry
    }
}

/// The query of `GET /v1/recall-notices`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecallNoticesParams {
    /// Only notices after that of this session.
    pub after: Option<SessionId>,
    /// Only the notice of this session.
    pub session: Option<SessionId>,
    /// The most notices in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

/// A drafted notice in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallNoticeSummary {
    /// The session.
    pub session_id: SessionId,
    /// The time of its facts.
    pub drafted_at: Timestamp,
    /// The gravest result of its recalls.
    pub result: RecallResult,
    /// The sources of its recalls.
    pub sources: Vec<SourceId>,
}

impl RecallNoticeSummary {
    /// The summary of a notice.
    #[must_use]
    pub fn of(notice: &RecallNotice) -> Self {
        Self {
            session_id: notice.session_id.clone(),
            drafted_at: notice.drafted_at,
            result: notice.result(),
            sources: notice.recalls.iter().map(|recall| recall.oracle_id.clone()).collect(),
        }
    }
}

/// A drafted notice with the mail that the customer would get.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RecallNoticeReport {
    /// The notice.
    #[serde(flatten)]
    pub notice: RecallNotice,
    /// The mail, rendered with the present template; null if it cannot be sent.
    pub mail: Option<MailContent>,
    /// Why it cannot be sent; null if it can.
    pub fault: Option<String>,
}

/// `POST /v1/recall-notices/{session_id}`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecallNoticeRequest {
    /// `release` or `discard`.
    pub action: RecallNoticeAction,
    /// The reason, for the log: 1 to 1,024 bytes.
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
    /// The notice's `drafted_at` on which the decision is based; required for `release`. A notice that has changed since is refused.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Moment, required = false)]
    pub drafted_at: Option<Timestamp>,
}

/// A notice that was released or discarded.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DecidedRecallNotice {
    /// The session.
    pub session_id: SessionId,
    /// The decision.
    pub action: RecallNoticeAction,
    /// The id of its mail in the outbox; null if it was discarded.
    pub mail_id: Option<MailId>,
}

/// Delivered verdicts of which it is not known on which statements they relied, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UnknownReliance {
    /// They relied on more statements than their entries list.
    pub not_listed: u64,
    /// The values of their entries were erased. Their facts can be of another source.
    pub erased: u64,
    /// Entries of the log that cannot be read, which can be about such verdicts, and the verdicts of this page whose rows or records cannot
    /// be read. `total` includes the latter.
    pub damaged: u64,
    /// The content of their statements was pruned, so it is not known whether the source states the same now.
    pub pruned: u64,
}
