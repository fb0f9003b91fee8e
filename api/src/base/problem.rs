//! Errors, as `application/problem+json` (RFC 9457) with a stable code.

use hyper::StatusCode;
use oracled_domain::Decision;
use oracled_domain::rules::Evaluation;
use oracled_domain::verdict::session::Mismatch;
use serde::Serialize;

/// The media type of an error.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The codes of errors, each with its HTTP status and meaning. A code never changes, so that programs can rely on it.
macro_rules! problem_codes {
    ($($(#[doc = $doc:literal])* $name:ident = $status:literal,)*) => {
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
        }
    };
}

problem_codes! {
    /// The body is not JSON.
    InvalidJson = 400,
    /// The request has a wrong member or parameter.
    InvalidRequest = 400,
    /// The tier is none of the three.
    UnknownTier = 400,
    /// The session id is invalid.
    InvalidSessionId = 400,
    /// The query is too long.
    QueryTooLong = 400,
    /// The body did not arrive completely.
    BodyBroken = 400,
    /// The question cannot be verified.
    InvalidVerification = 400,
    /// The resolution, revocation or dismissal of a review is invalid.
    InvalidResolution = 400,
    /// A document is invalid.
    InvalidDocument = 400,
    /// The query is invalid.
    InvalidQuery = 400,
    /// The request names a time in the future.
    TimeInFuture = 400,
    /// The signature of a signal is missing or wrong.
    SignalForbidden = 403,
    /// The path does not exist.
    NotFound = 404,
    /// No verdict is cached for the session.
    VerdictNotCached = 404,
    /// The oracle does not exist.
    OracleUnknown = 404,
    /// The mail is not in the outbox.
    MailUnknown = 404,
    /// The session is not registered.
    SessionUnknown = 404,
    /// The ontology is not registered.
    OntologyUnknown = 404,
    /// The source is not registered.
    SourceUnknown = 404,
    /// The pipeline is not registered.
    PipelineUnknown = 404,
    /// The document is not registered.
    DocumentUnknown = 404,
    /// The workflow is not registered.
    WorkflowUnknown = 404,
    /// No decision has this execution id.
    ExecutionUnknown = 404,
    /// The review does not exist.
    ReviewUnknown = 404,
    /// The run does not exist.
    RunUnknown = 404,
    /// The record does not exist.
    RecordUnknown = 404,
    /// No freshness policy names the signal.
    SignalUnknown = 404,
    /// The path does not accept the method.
    MethodNotAllowed = 405,
    /// The request took too long.
    RequestTimeout = 408,
    /// Another request is sending or changing the mail.
    MailInFlight = 409,
    /// The session has another tier, query, original verdict, owner or other facts.
    SessionMismatch = 409,
    /// The session's verdict was delivered already.
    DeliveredAlready = 409,
    /// The review is resolved.
    ReviewResolved = 409,
    /// The review is dismissed.
    ReviewDismissed = 409,
    /// The review has no resolution in force.
    ReviewNotInForce = 409,
    /// A registered document cannot be changed in this way.
    DocumentFixed = 409,
    /// The source cannot be approved or deprecated in its current state.
    ReviewRefused = 409,
    /// The source is not marked stale.
    NotInvalidated = 409,
    /// Another run of the source is in progress.
    RunBusy = 409,
    /// The version was read from another payload.
    VersionKnown = 409,
    /// The run is not in progress.
    RunNotRunning = 409,
    /// The run is not held.
    RunNotHeld = 409,
    /// Too many runs of the source are held.
    RunsHeld = 409,
    /// The run is not completed, or was undone.
    RunNotInForce = 409,
    /// The undo would bring back records whose content was pruned.
    ContentPruned = 409,
    /// Another pull of the pipeline is in progress.
    PullBusy = 409,
    /// The source is live: it has no stored records.
    SourceLive = 409,
    /// The source does not answer, since it is not approved or is retired.
    SourceSilent = 409,
    /// The sources give too few facts that may be used.
    FactsUnavailable = 409,
    /// Damaged files cannot be rebuilt.
    NotRebuilt = 409,
    /// The body is too long.
    BodyTooLarge = 413,
    /// The content type is wrong.
    UnsupportedMediaType = 415,
    /// The verdict did not pass the crosscheck.
    CrosscheckRejected = 422,
    /// The verdict did not pass the rules.
    RulesRejected = 422,
    /// The query exceeds the work limit.
    QueryTooCostly = 422,
    /// The session's verdict was regenerated a short time ago.
    RegenRateLimited = 429,
    /// Too many signals arrive at a path.
    SignalRateLimited = 429,
    /// The headers are too long, or too many.
    HeadersTooLarge = 431,
    /// An internal error; the service log has details.
    InternalError = 500,
    /// The log has another envelope than was returned.
    DecisionAltered = 500,
    /// A file of the source is damaged or missing.
    SourceDamaged = 500,
    /// The model answered without a verdict.
    ModelRefused = 502,
    /// The model rejected the request, and will reject it again.
    ModelRefusedRequest = 502,
    /// The payload could not be pulled.
    PullFailed = 502,
    /// The limit on calls of the model is reached.
    ModelBusy = 503,
    /// The model is not available.
    ModelUnavailable = 503,
    /// The daemon is overloaded.
    Overloaded = 503,
    /// The daemon is draining.
    Draining = 503,
    /// The log cannot be written, so nothing is delivered.
    StorageUnavailable = 503,
    /// The scan reached its deadline.
    QueryStopped = 503,
    /// The source's data is too old.
    SourceStale = 503,
    /// The model did not answer in time.
    ModelTimeout = 504,
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
    #[schema(value_type = String)]
    pub code: ProblemCode,
    /// With `crosscheck_rejected`: the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub decision: Option<Decision>,
    /// With `rules_rejected`: the result of the rules, with its evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub evaluation: Option<Evaluation>,
    /// With `crosscheck_rejected` and `rules_rejected`: the address for the customer's questions, if one is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// With `session_mismatch`: `tier`, `query`, `original_verdict`, `owner` or `facts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub mismatch: Option<Mismatch>,
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
            contact: None,
            mismatch: None,
        }
    }
}
