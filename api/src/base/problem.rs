//! Errors, as `application/problem+json` (RFC 9457) with a stable code.

use domain_rules::RulesEvaluation;
use domain_verdict::crosscheck::CrosscheckDecision;
use domain_verdict::policy::PolicyCause;
use domain_verdict::session::SessionMismatch;
use hyper::StatusCode;
use serde::Serialize;

/// The media type of an error.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The codes of errors, each with its meaning, HTTP status and remedy. A code never changes, so that programs can rely
/// on it.
macro_rules! problem_codes {
    ($($(#[doc = $doc:literal])* $name:ident = $status:literal: $remedy:literal,)*) => {
        /// The code of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantArray, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[strum(serialize_all = "snake_case")]
        pub enum ProblemCode {
            $($(#[doc = $doc])* $name,)*
        }

        impl ProblemCode {
            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            /// The meaning, for the reference.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc),*).trim_start(),)*
                }
            }

            /// What the client or an operator can do, for the reference.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$name => $remedy,)*
                }
            }
        }
    };
}

problem_codes! {
    /// The body is not JSON.
    InvalidJson = 400: "Send one JSON document.",
    /// The request has a wrong member or parameter.
    InvalidRequest = 400: "Correct the member that `detail` names.",
    /// The tier is none of the three.
    UnknownTier = 400: "Send one of the tiers that `detail` lists.",
    /// The session id is invalid.
    InvalidSessionId = 400: "Send an id that has the length and the characters that `detail` allows.",
    /// The query is longer than `limits.query_bytes`.
    QueryTooLong = 400: "Shorten the query.",
    /// The body did not arrive completely.
    BodyBroken = 400: "Send the request again.",
    /// The payload is not compressed or encoded as the pipeline names it.
    PayloadUndecodable = 400: "Correct `retrieval.compression` or `retrieval.encoding` of the pipeline, or send the payload that it names.",
    /// The question cannot be verified.
    InvalidVerification = 400: "Correct the workflow, the identity or the axes that `detail` names.",
    /// The resolution, revocation or dismissal of a review is invalid.
    InvalidResolution = 400: "Correct the member that `detail` names.",
    /// A document is invalid.
    InvalidDocument = 400: "Correct the document: `detail` has the fault and its position.",
    /// The query is invalid.
    InvalidQuery = 400: "Correct the filter, axis or cursor that `detail` names.",
    /// `known_at`, or the `point_in_time` of a verification, is more than 60 s in the future.
    TimeInFuture = 400: "Send an earlier time.",
    /// The process of the caller belongs to no application.
    ApplicationUnknown = 403: "Add the user id or the group id to a table `applications.NAME` of the configuration.",
    /// The session belongs to another user id. Others may read it and repeat its requests, but not change it.
    SessionNotOwned = 403: "Send the request as the user that registered or ordered the session, or let an operator correct the session.",
    /// The freshness policy has a `secret_file`, and `X-Hub-Signature-256` is not the body's HMAC under it.
    SignalForbidden = 403: "Sign the body with the shared secret.",
    /// The path does not exist.
    NotFound = 404: "Use a path of the API.",
    /// No verdict is cached for the session.
    VerdictNotCached = 404: "Submit the verdict, or read it with `GET /v1/verdicts/{session_id}`, which can regenerate it.",
    /// The oracle does not exist.
    OracleUnknown = 404: "Use an id from `GET /v1/health/oracles`.",
    /// The mail or the webhook is not in the outbox: it was sent, dropped or never queued.
    MailUnknown = 404: "Use an id from `oraclectl outbox` or `oraclectl webhook list`.",
    /// The session is not registered, and the payment service, if one is configured, has no such session.
    SessionUnknown = 404: "Register it with `PUT /v1/sessions/{session_id}`.",
    /// The session has no order.
    OrderUnknown = 404: "Place an order with `POST /v1/verdicts/{session_id}`.",
    /// The ontology is not registered.
    OntologyUnknown = 404: "Register it first.",
    /// The source is not registered.
    SourceUnknown = 404: "Register it first.",
    /// The pipeline is not registered.
    PipelineUnknown = 404: "Register it first.",
    /// The document is not registered.
    DocumentUnknown = 404: "Register it first.",
    /// The workflow is not registered.
    WorkflowUnknown = 404: "Register it first.",
    /// No decision has this execution id.
    ExecutionUnknown = 404: "Use the `execution_id` of an envelope.",
    /// The review does not exist.
    ReviewUnknown = 404: "Use an id from `oraclectl review list`.",
    /// The run does not exist.
    RunUnknown = 404: "Use an id from `oraclectl ingest list`.",
    /// The record does not exist.
    RecordUnknown = 404: "Use the id of a record that a query returned.",
    /// No freshness policy names the path.
    SignalUnknown = 404: "Register a freshness policy with this path.",
    /// The path does not accept the method.
    MethodNotAllowed = 405: "Use a method that the API has for the path.",
    /// The request took longer than `limits.request_s`, or its headers longer than `limits.idle_s`.
    RequestTimeout = 408: "Send the request again.",
    /// The client of a batch reads no answers, and 16 MiB of them (or a quarter of `limits.bodies_bytes` if that is less) are
    /// unread. This is the last line of the response; `answered` has the number of lines that were answered.
    ClientNotReading = 408: "Read the answers while sending the request, or send fewer lines.",
    /// Another request is sending or changing the mail.
    MailInFlight = 409: "Send the request again after a moment.",
    /// The session has another tier, query or original verdict, or its verdict or its order has other facts. `mismatch` names
    /// the difference.
    SessionMismatch = 409: "Use a new session id, or the session's own data.",
    /// The session's first verdict was delivered already.
    DeliveredAlready = 409: "Read the verdict instead.",
    /// The order of the session was cancelled by its application or an operator. The session gets no verdict.
    OrderCancelled = 409: "Use a new session id.",
    /// The state of the order does not permit the change. `detail` names it.
    OrderStateRefused = 409: "Wait until the attempt has ended, or use another action.",
    /// The review is resolved. `detail` has the reviewer and the time.
    ReviewResolved = 409: "Revoke the resolution first.",
    /// The review is dismissed. `detail` has the reviewer and the time.
    ReviewDismissed = 409: "None: the next question opens a new review.",
    /// The review has 50 comments.
    TooManyComments = 409: "None: a review has at most 50 comments.",
    /// The review has no resolution in force.
    ReviewNotInForce = 409: "None: there is no resolution to revoke.",
    /// A registered document cannot be changed in this way.
    DocumentFixed = 409: "Register it under a new version or a new id. If a workflow depends on it, change that workflow first.",
    /// The source cannot be deprecated in its current state.
    ReviewRefused = 409: "Change the state that `detail` names first.",
    /// The source is not marked stale.
    NotInvalidated = 409: "None: there is nothing to confirm.",
    /// Another backup or an erasure is in progress, or an erasure is not complete.
    BackupInProgress = 409: "Wait until it has ended. If an erasure does not end, the service log has the cause.",
    /// Another run of the source is in progress, or the source is being pruned or rebuilt.
    RunBusy = 409: "Wait until it has ended.",
    /// The version was read from another payload, or with another release date.
    VersionKnown = 409: "Send a new version, or `replace=true` to replace it.",
    /// The run is not in progress.
    RunNotRunning = 409: "None: the run has ended.",
    /// The run is not held; only a held run can be approved or discarded.
    RunNotHeld = 409: "Undo a completed run instead.",
    /// 16 runs of the source are held. `detail` names them.
    RunsHeld = 409: "Approve or discard one first.",
    /// The run is not completed, or was undone. Only a completed run that still counts can be undone.
    RunNotInForce = 409: "None: the run has no effect.",
    /// The undo would bring back records whose content was pruned.
    ContentPruned = 409: "Submit the correct release as a new version.",
    /// Another pull of the pipeline is in progress.
    PullBusy = 409: "Wait until it has ended.",
    /// The source is live: it has an adapter, and no stored records and no pipeline.
    SourceLive = 409: "Use `POST /v1/verify`.",
    /// The source does not answer: it is not approved, or its deprecation date has passed.
    SourceSilent = 409: "Read the status of the source: approve it if it is pending, or query another one.",
    /// A decision that facts depend on is not authoritative, or no template fits a record, which `detail` names.
    FactsUnavailable = 409: "Send the request again after `Retry-After`, if it is there. Otherwise add the template.",
    /// Damaged files cannot be rebuilt: the payload of a run, which `detail` names, cannot be read, or the rebuild was
    /// cancelled. The source is unchanged.
    NotRebuilt = 409: "Restore the payload from a backup, or ingest it again.",
    /// The inputs or the envelope of the decision were erased.
    DecisionErased = 410: "Ask again. `oraclectl explain` shows what the log still has of the decision.",
    /// The entry of the log was dropped by `retention.log_days`. `detail` has the first entry that is left.
    EntryDropped = 410: "Read a later entry. An export or a backup from before has the entry.",
    /// The body is longer than the limit that `detail` names.
    BodyTooLarge = 413: "Send a shorter body, or raise the limit.",
    /// The content type is wrong.
    UnsupportedMediaType = 415: "Send the `Content-Type` that `detail` names.",
    /// The verdict did not pass the crosscheck. `decision` has the reason.
    CrosscheckRejected = 422: "Do not deliver the verdict. Submit a verdict that passes, under the same session.",
    /// The verdict did not pass the rules. `evaluation` has the evidence.
    RulesRejected = 422: "Do not deliver the verdict. Submit a verdict that passes, under the same session.",
    /// The verdict passed the crosscheck, and the rules if it has facts, but the policy refused it. `causes` names the flags,
    /// or the minimum coherence.
    PolicyRejected = 422: "Do not deliver the verdict. Submit another one under the same session.",
    /// The order of the session failed: no answer of the model could be delivered. `detail` has the last cause.
    OrderFailed = 422: "Do not deliver a verdict. An operator can retry the order with `oraclectl order retry`.",
    /// The query exceeds the work limit.
    QueryTooCostly = 422: "Fix identity axes or an indexed axis, or use fewer filters.",
    /// The session's verdict was regenerated a short time ago.
    RegenRateLimited = 429: "Wait for `Retry-After`, which is exact.",
    /// More than 10 signals a minute arrive at the path.
    SignalRateLimited = 429: "Wait for `Retry-After`.",
    /// The headers are longer than `limits.header_bytes`, or more than `limits.headers`.
    HeadersTooLarge = 431: "Send fewer or shorter headers.",
    /// An internal error; nothing was approved.
    InternalError = 500: "Read the service log, which has the details under the request id.",
    /// The envelope in the log is not the one that was returned, so none is returned.
    DecisionAltered = 500: "Compare the log with a backup: the entry was changed after it was written.",
    /// A held verdict cannot be encrypted or decrypted: its key, which `detail` names, is missing or another one, or the
    /// verdict is damaged.
    HeldVerdictUnreadable = 500: "Restore the key, or retry or fail the order.",
    /// A file of the source is damaged or missing; `detail` names it. Other sources answer.
    SourceDamaged = 500: "Rebuild the source that `detail` names.",
    /// The row that the answer needs is lost: its segment and the database were damaged. `detail` names it. Others are served.
    RecordDamaged = 500: "Restore a backup, erase the session, or replace the row that `detail` names.",
    /// A segment of the log is damaged or missing, so that a backup could not be restored; `detail` names it.
    StateDamaged = 500: "Keep the earlier backups, and copy the file that `detail` names from the latest one that has it.",
    /// The model blocked the prompt, stopped early, declined, or returned no text.
    ModelRefused = 502: "Send the request again after `Retry-After`, or submit a verdict.",
    /// The model answered 400, 401, 403, 404, 413 or 422, and will reject the same request again. An alert fires.
    ModelRefusedRequest = 502: "Correct the model's configuration: its key, name or URL.",
    /// The payload could not be pulled. `detail` has the cause.
    PullFailed = 502: "Correct the pipeline or its credential, or pull again later.",
    /// The session is unknown, and could not be looked up: the payment service failed, or its circuit is open.
    LookupUnavailable = 503: "Wait for `Retry-After`, or register the session.",
    /// The limit of requests to the model, or of open orders, is reached.
    ModelBusy = 503: "Wait for `Retry-After`, or raise the limit that `detail` names.",
    /// The model cannot be reached, or no model is configured.
    ModelUnavailable = 503: "Wait for `Retry-After`. Without that header, configure a model.",
    /// The configured prompt template is not registered, or has no text for the tier.
    PromptUnavailable = 503: "Register the prompt template, or configure another one as `prompt_template`.",
    /// The daemon is overloaded. Nothing was delivered.
    Overloaded = 503: "Wait for `Retry-After`.",
    /// The daemon is draining. Nothing was delivered.
    Draining = 503: "Wait for `Retry-After`, or end draining with `oraclectl drain --off`.",
    /// The log cannot be written, so nothing is delivered.
    StorageUnavailable = 503: "Wait for `Retry-After`; free space on the disk of the state directory.",
    /// The scan took longer than 5 s.
    QueryStopped = 503: "Send the request again after `Retry-After`, or use fewer filters.",
    /// The source's data is older than its freshness policy allows.
    SourceStale = 503: "Ingest a newer version, or confirm that the data is still valid.",
    /// The session is unknown, and the payment service did not answer within `lookup.timeout_ms`.
    LookupTimeout = 504: "Wait for `Retry-After`.",
    /// The model did not answer within `model.deadline_ms`.
    ModelTimeout = 504: "Wait for `Retry-After`.",
}

impl ProblemCode {
    /// The code in `snake_case`, as in an answer.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The default of `Retry-After` in seconds; `None` if a retry does not help or the time depends on the case.
    #[must_use]
    pub const fn retry_after_s(self) -> Option<u64> {
        match self {
            Self::Overloaded => Some(1),
            Self::StorageUnavailable
            | Self::Draining
            | Self::RunBusy
            | Self::PullBusy
            | Self::QueryStopped => Some(5),
            _ => None,
        }
    }

    /// Whether the answer can have `Retry-After`, always or in some cases.
    #[must_use]
    pub const fn has_retry_after(self) -> bool {
        self.retry_after_s().is_some()
            || matches!(
                self,
                Self::FactsUnavailable
                    | Self::CrosscheckRejected
                    | Self::RulesRejected
                    | Self::PolicyRejected
                    | Self::RegenRateLimited
                    | Self::SignalRateLimited
                    | Self::ModelRefused
                    | Self::ModelBusy
                    | Self::ModelUnavailable
                    | Self::ModelTimeout
                    | Self::LookupUnavailable
                    | Self::LookupTimeout
            )
    }
}

/// An error.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ProblemDocument {
    /// `urn:oracled:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The meaning of the status in general.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The fault, its value, and what is allowed.
    pub detail: String,
    /// The code, for programs.
    pub code: ProblemCode,
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
    /// With `client_not_reading`: the number of lines of the batch that were answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub answered: Option<u64>,
}

impl ProblemDocument {
    /// Creates an error with this code.
    #[must_use]
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        let status = code.status();
        let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        Self {
            kind: format!("urn:oracled:problem:{}", code.as_str()),
            title: title.unwrap_or_default().to_owned(),
            status,
            detail: detail.into(),
            code,
            decision: None,
            evaluation: None,
            causes: None,
            contact: None,
            mismatch: None,
            answered: None,
        }
    }
}
