//! Pulls payloads by HTTP (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline", `retrieval`).
//!
//! Endpoints and their answers are not trusted: only public addresses are reached, each redirect is checked
//! before it is followed, and an incomplete payload is an error.

mod body;
mod error;

pub use crate::upstream::web::{
    BoundCredential, ClientCredentials, HttpValidators, URL_MAX_BYTES, UpstreamCredential,
    UpstreamCredentialError, UrlOrigin, UrlOriginError,
};
pub use error::PullError;

use crate::platform::clock::{Clock, monotonic};
use crate::upstream::call::{RETRIES_MAX, retry_pauses, retry_wait};
use crate::upstream::web::{
    CredentialHolder, OutboundRequest, WebClient, WebError, WebResponseHead, format_url, last_modified,
    without_keys,
};
use body::PullProgress;
use bytes::Bytes;
use ipnet::IpNet;
use jiff::Timestamp;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::pipeline::{IngestionPipeline, SourceAuthentication};
use reqwest::{StatusCode, Url};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// The longest wait before a retry. If a server requests more, the pull is not retried.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

/// The limits of pulls.
#[derive(Debug, Clone)]
pub struct PullSettings {
    /// Local networks that may be reached, in addition to public addresses.
    pub allow_local: Vec<IpNet>,
    /// Whether secrets may cross a network without encryption.
    pub allow_cleartext: bool,
    /// The longest payload, in bytes.
    pub max_payload_bytes: u64,
    /// The longest time to open a connection.
    pub connect: Duration,
    /// The longest time from the connection to the beginning of the answer, and then between two pieces of the answer.
    pub idle: Duration,
    /// The longest time of a pull.
    pub whole: Duration,
}

/// A payload to pull.
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// The pipeline, whose credential is used.
    pub pipeline_id: PipelineId,
    /// The URL of the payload.
    pub endpoint: String,
    /// How the pipeline authenticates; `None` if it does not.
    pub authentication: Option<SourceAuthentication>,
    /// The validators of an earlier answer. If they still match, no payload is sent.
    pub known: HttpValidators,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadFetchOutcome {
    /// A payload, which was passed on completely.
    Payload(FetchedPayload),
    /// The payload has not changed since the earlier pull.
    Unchanged {
        /// The time of the request.
        retrieved_at: Timestamp,
    },
}

/// A payload that was received completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPayload {
    /// The final URL. If its origin differs from the endpoint's, it has no query, since that often contains a signature
    /// that grants access.
    pub url: String,
    /// The validators for later pulls.
    pub validators: HttpValidators,
    /// When the source modified it, as the source reports.
    pub modified: Option<Timestamp>,
    /// Its length, in bytes.
    pub size_bytes: u64,
    /// The time of the request; the payload is at least this new.
    pub retrieved_at: Timestamp,
}

/// The client that pulls payloads.
#[derive(Debug)]
pub struct PayloadPuller {
    settings: PullSettings,
    web: WebClient,
    credentials: BTreeMap<PipelineId, BoundCredential>,
}

impl PullRequest {
    /// The request of `pipeline`. `None` if it does not pull.
    pub(super) fn of(pipeline: &IngestionPipeline, known: HttpValidators) -> Option<Self> {
        let retrieval = &pipeline.retrieval;
        let endpoint = retrieval.endpoint.clone().filter(|_| retrieval.method.is_pull())?;
        let (pipeline_id, authentication) = (pipeline.pipeline_id.clone(), retrieval.authentication);
        Some(Self { pipeline_id, endpoint, authentication, known })
    }
}

impl PayloadPuller {
    /// A client with `settings` and the credential of each pipeline. It opens no connection yet.
    #[must_use]
    pub fn new(
        settings: PullSettings,
        credentials: BTreeMap<PipelineId, BoundCredential>,
        clock: Clock,
    ) -> Self {
        let web = WebClient::new(&settings.allow_local, settings.connect, settings.idle, clock)
            .with_cleartext(settings.allow_cleartext);
        Self { settings, web, credentials }
    }

    /// The longest payload, in bytes.
    #[must_use]
    pub const fn max_payload_bytes(&self) -> u64 {
        self.settings.max_payload_bytes
    }

    /// Checks `request` without sending it: its address, and whether the credential exists.
    ///
    /// # Errors
    /// The fault in the request, and the allowed values.
    pub fn check(&self, request: &PullRequest) -> Result<(), PullError> {
        Ok(self.web.check_request(&self.outbound_request(request)).map(drop)?)
    }

    /// Pulls the payload of `request`, and passes each piece to `keep` as it arrives. If an error follows, part of the
    /// payload may already be passed on. A request without an answer is retried until the payload begins.
    ///
    /// # Errors
    /// The payload was not received completely, or `keep` failed.
    pub async fn pull(
        &self,
        request: &PullRequest,
        keep: impl AsyncFnMut(Bytes) -> io::Result<()>,
    ) -> Result<PayloadFetchOutcome, PullError> {
        let mut progress = PullProgress::default();
        let all = Box::pin(self.pull_within_limits(request, &mut progress, keep));
        match timeout(self.settings.whole, all).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let whole_s = self.settings.whole.as_secs_f64();
                Err(progress
                    .truncation_error(format!("the pull took more than {whole_s} s (`ingestion.pull_s`)")))
            }
        }
    }

    async fn pull_within_limits(
        &self,
        request: &PullRequest,
        progress: &mut PullProgress,
        keep: impl AsyncFnMut(Bytes) -> io::Result<()>,
    ) -> Result<PayloadFetchOutcome, PullError> {
        let (endpoint, credential) = self.web.check_request(&self.outbound_request(request))?;
        let head = self.request_with_retries(request, &endpoint, credential).await?;
        if head.response.status() == StatusCode::NOT_MODIFIED {
            return Ok(PayloadFetchOutcome::Unchanged { retrieved_at: head.retrieved_at });
        }
        head.check_complete()?;
        let WebResponseHead { url, response, retrieved_at } = head;
        let (validators, modified) = (HttpValidators::of(&response), last_modified(&response));
        let size_bytes = body::read(&self.settings, response, progress, keep).await?;
        let url =
            if url.origin() == endpoint.origin() { without_keys(url.as_str()) } else { format_url(&url) };
        Ok(PayloadFetchOutcome::Payload(FetchedPayload {
            url,
            validators,
            modified,
            size_bytes,
            retrieved_at,
        }))
    }

    /// The HTTP request for `request`.
    fn outbound_request<'a>(&'a self, request: &'a PullRequest) -> OutboundRequest<'a> {
        OutboundRequest {
            holder: CredentialHolder::Pipeline(request.pipeline_id.clone()),
            endpoint: &request.endpoint,
            authentication: request.authentication,
            credential: self.credentials.get(&request.pipeline_id),
            known: &request.known,
            may_change_origin: true,
        }
    }

    /// The head of the answer, after retries if necessary.
    async fn request_with_retries(
        &self,
        request: &PullRequest,
        endpoint: &Url,
        credential: Option<&UpstreamCredential>,
    ) -> Result<WebResponseHead, WebError> {
        let (began, outbound) = (monotonic(), self.outbound_request(request));
        let mut pauses = retry_pauses(RETRIES_MAX);
        loop {
            let error = match self.web.follow(&outbound, endpoint.clone(), credential).await {
                Err(error @ WebError::Failed { .. }) => error,
                outcome => return outcome,
            };
            let left = self.settings.whole.saturating_sub(began.elapsed()).min(RETRY_WAIT_MAX);
            let WebError::Failed { failure, .. } = &error else { return Err(error) };
            let Some(wait) = retry_wait(failure, pauses.next(), left) else { return Err(error) };
            warn!(pipeline_id = %request.pipeline_id, %error, "pull failed; retrying");
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests;
