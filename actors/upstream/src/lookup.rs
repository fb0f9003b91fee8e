//! The client of the payment service, at which unknown sessions are looked up.

use super::http::read;
use super::web::{
    BoundCredential, CredentialHolder, HttpValidators, OutboundRequest, UpstreamCredential, WebClient,
    WebError, WebResponseHead, format_url, origin_of,
};
use super::{RequestFailure, RequestFailureKind};
use crate::oracle::LiveSettings;
use actors_platform::clock::Clock;
use domain_base::digest::Sha256Hex;
use domain_base::session_id::SessionId;
use domain_ground::pipeline::SourceAuthentication;
use domain_upstream::event::InteractionStatus;
use domain_upstream::health::CircuitCallOutcome;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::lookup::{LookedUpSession, LookupDefinition, LookupOutcome, LookupReadError};
use domain_verification::adapter::UnsupportedQuestionError;
use std::time::Duration;
use tokio::time::timeout;

/// Limit for the body of an answer, in bytes.
const ANSWER_MAX_BYTES: usize = 256 << 10;
/// The validators of an answer: none, because no answer is kept.
static NO_VALIDATORS: HttpValidators = HttpValidators { etag: None, last_modified: None };

/// The client.
#[derive(Debug)]
pub struct LookupClient {
    web: WebClient,
    definition: LookupDefinition,
    credential: Option<BoundCredential>,
    timeout: Duration,
}

/// Why a look-up found no session.
#[derive(Debug, thiserror::Error)]
pub enum LookupCallError {
    /// The payment service does not have the session.
    #[error("the payment service does not have it (HTTP status 404)")]
    Unknown,
    /// The id does not fit into the URL.
    #[error(transparent)]
    Id(UnsupportedQuestionError),
    /// The answer is not a session that can be registered.
    #[error("the payment service: {0}")]
    Read(LookupReadError),
    /// The call failed, or the answer is no complete JSON document.
    #[error("the payment service failed: {0}")]
    Failed(WebError),
    #[error("the payment service did not answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
}

/// The result of one call.
#[derive(Debug)]
pub struct LookupAnswer {
    pub result: Result<LookedUpSession, LookupCallError>,
    /// The SHA-256 of the body, if it arrived.
    pub response_hash: Option<Sha256Hex>,
}

impl LookupClient {
    /// Creates a client. `token` is sent as a bearer token. `settings` has the networks that may be reached. It does not
    /// connect yet.
    ///
    /// # Errors
    /// If the URL may not be requested, or the token may not be sent to it.
    pub fn new(
        definition: LookupDefinition,
        token: Option<UpstreamCredential>,
        settings: &LiveSettings,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Self, WebError> {
        let web = WebClient::new(&settings.allow_local, settings.connect, settings.idle, clock)
            .with_cleartext(settings.allow_cleartext);
        let sample = definition.sample_url();
        // an http or https URL has an origin
        let origin = origin_of(&sample).and_then(|origin| origin.parse().ok());
        let credential = token.zip(origin).map(|(credential, origin)| BoundCredential { origin, credential });
        let client = Self { web, definition, credential, timeout };
        client.web.check_request(&client.request(&sample))?;
        Ok(client)
    }

    /// The payment service's name among the oracles.
    ///
    /// # Panics
    /// Never: the name is valid.
    #[must_use]
    pub fn oracle_id() -> UpstreamId {
        "lookup".parse().expect("a valid oracle id")
    }

    /// The URL of a session.
    ///
    /// # Errors
    /// If the id does not fit into it.
    pub fn url(&self, session_id: &SessionId) -> Result<String, LookupCallError> {
        self.definition.url(session_id).map_err(LookupCallError::Id)
    }

    /// Reads the session at `url`. There is no retry, because a caller waits and can ask again.
    pub async fn call(&self, url: &str) -> LookupAnswer {
        let late = |_| {
            let result = Err(LookupCallError::TimedOut(self.timeout));
            LookupAnswer { result, response_hash: None }
        };
        timeout(self.timeout, self.call_without_limit(url)).await.unwrap_or_else(late)
    }

    async fn call_without_limit(&self, url: &str) -> LookupAnswer {
        let body = match self.body(url).await {
            Ok(body) => body,
            Err(error) => return LookupAnswer { result: Err(error.into()), response_hash: None },
        };
        let result = self.definition.read(&body).map_err(LookupCallError::Read);
        LookupAnswer { result, response_hash: Some(Sha256Hex::of(&body)) }
    }

    async fn body(&self, url: &str) -> Result<bytes::Bytes, WebError> {
        let request = self.request(url);
        let (endpoint, credential) = self.web.check_request(&request)?;
        let head = self.web.follow(&request, endpoint, credential).await?;
        head.check_complete()?;
        let WebResponseHead { url, response, .. } = head;
        let failed = |failure| WebError::Failed { url: format_url(&url), failure };
        read(response, ANSWER_MAX_BYTES).await.map_err(failed)
    }

    fn request<'a>(&'a self, url: &'a str) -> OutboundRequest<'a> {
        OutboundRequest {
            holder: CredentialHolder::Lookup,
            endpoint: url,
            authentication: match self.credential {
                Some(_) => SourceAuthentication::Oauth,
                None => SourceAuthentication::None,
            },
            credential: self.credential.as_ref(),
            known: &NO_VALIDATORS,
            // only the configured service may answer
            may_change_origin: false,
        }
    }
}

impl From<WebError> for LookupCallError {
    fn from(error: WebError) -> Self {
        match error {
            WebError::Failed {
                failure: RequestFailure { kind: RequestFailureKind::Status(404), .. },
                ..
            } => Self::Unknown,
            error => Self::Failed(error),
        }
    }
}

impl LookupCallError {
    #[must_use]
    pub fn outcome(&self) -> LookupOutcome {
        match self {
            Self::Unknown | Self::Id(_) => LookupOutcome::Unknown,
            Self::Read(error) => error.outcome(),
            Self::Failed(_)
                if self.failure().is_some_and(|failure| failure.kind == RequestFailureKind::Timeout) =>
            {
                LookupOutcome::TimedOut
            }
            Self::Failed(_) => LookupOutcome::Failed,
            Self::TimedOut(_) => LookupOutcome::TimedOut,
        }
    }

    /// Whether the service answered that there is no such session to register.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        matches!(
            self.outcome(),
            LookupOutcome::Unknown | LookupOutcome::NotFulfilled | LookupOutcome::Unusable
        )
    }

    /// The failure of the request, if it is the cause.
    #[must_use]
    pub const fn failure(&self) -> Option<&RequestFailure> {
        match self {
            Self::Failed(WebError::Failed { failure, .. }) => Some(failure),
            _ => None,
        }
    }

    /// The effect on the health of the payment service.
    pub fn health_outcome(&self, latency_ms: u64) -> CircuitCallOutcome {
        if self.is_negative() {
            return CircuitCallOutcome::Success { latency_ms: Some(latency_ms) };
        }
        if self.failure().is_some_and(|failure| !failure.is_fault_of_upstream()) {
            return CircuitCallOutcome::Neutral;
        }
        CircuitCallOutcome::Failure(self.kind())
    }

    pub fn status(&self) -> InteractionStatus {
        match self.outcome() {
            LookupOutcome::TimedOut => InteractionStatus::Timeout,
            _ => InteractionStatus::Error,
        }
    }

    /// The kind of the fault, without the URL, which has the id of the session, and without texts of the service.
    #[must_use]
    pub fn kind(&self) -> RequestFailureKind {
        match self {
            Self::Failed(WebError::Failed { failure, .. }) => failure.kind,
            Self::Read(LookupReadError::NotJson(_)) => RequestFailureKind::Unreadable,
            Self::TimedOut(_) => RequestFailureKind::Timeout,
            _ => RequestFailureKind::Unusable(self.outcome().into()),
        }
    }

    /// The fault as a code for the log's `error_code`.
    pub fn error_code(&self) -> String {
        match self {
            Self::TimedOut(_) => <&str>::from(self.outcome()).to_owned(),
            _ => self.kind().error_code().into_owned(),
        }
    }
}
