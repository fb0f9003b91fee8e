//! Pulls payloads by HTTP (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline", `retrieval`).
//!
//! Endpoints and their answers are not trusted: only public addresses are reached, each redirect is checked before it is
//! followed, and an incomplete payload is an error.

mod body;
mod error;

pub use crate::upstream::web::{
    BadCredential, BadOrigin, Bound, ClientCredentials, Credential, Origin, URL_MAX_BYTES, Validators,
};
pub use error::PullError;

use crate::platform::clock::{Clock, monotonic};
use crate::upstream::call::{RETRIES_MAX, pauses, wait};
use crate::upstream::web::{Errand, Head, Holder, Web, WebError, shown, without_keys};
use body::Progress;
use bytes::Bytes;
use ipnet::IpNet;
use jiff::Timestamp;
use oracled_domain::ground::id::PipelineId;
use oracled_domain::ground::pipeline::{Authentication, IngestionPipeline};
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
    pub authentication: Option<Authentication>,
    /// The validators of an earlier answer. If they still match, no payload is sent.
    pub known: Validators,
}

/// The outcome of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A payload, which was passed on completely.
    Payload(Pulled),
    /// The payload has not changed since the earlier pull.
    Unchanged {
        /// The time of the request.
        retrieved_at: Timestamp,
    },
}

/// A payload that was received completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The final URL. If its origin differs from the endpoint's, it has no query, since that often contains a signature
    /// that grants access.
    pub url: String,
    /// The validators of the payload.
    pub validators: Validators,
    /// Its length, in bytes.
    pub size_bytes: u64,
    /// The time of the request; the payload is at least this new.
    pub retrieved_at: Timestamp,
}

/// The client that pulls payloads.
#[derive(Debug)]
pub struct Puller {
    settings: PullSettings,
    web: Web,
    credentials: BTreeMap<PipelineId, Bound>,
}

impl PullRequest {
    /// The request of `pipeline`. `None` if it does not pull.
    pub(super) fn of(pipeline: &IngestionPipeline, known: Validators) -> Option<Self> {
        let retrieval = &pipeline.retrieval;
        let endpoint = retrieval.endpoint.clone().filter(|_| retrieval.method.is_pull())?;
        let (pipeline_id, authentication) = (pipeline.pipeline_id.clone(), retrieval.authentication);
        Some(Self { pipeline_id, endpoint, authentication, known })
    }
}

impl Puller {
    /// A client with `settings` and the credential of each pipeline. It opens no connection yet.
    #[must_use]
    pub fn new(settings: PullSettings, credentials: BTreeMap<PipelineId, Bound>, clock: Clock) -> Self {
        let web = Web::new(&settings.allow_local, settings.connect, settings.idle, clock)
            .with_cleartext(settings.allow_cleartext);
        Self { settings, web, credentials }
    }

    /// Checks `request` without sending it: its address, and whether the credential exists.
    ///
    /// # Errors
    /// The fault in the request, and the allowed values.
    pub fn check(&self, request: &PullRequest) -> Result<(), PullError> {
        Ok(self.web.begin(&self.errand(request)).map(drop)?)
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
    ) -> Result<Answer, PullError> {
        let mut progress = Progress::default();
        let all = Box::pin(self.within_bounds(request, &mut progress, keep));
        match timeout(self.settings.whole, all).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let whole_s = self.settings.whole.as_secs_f64();
                Err(progress.cut(format!("the pull took more than {whole_s} s (`ingestion.pull_s`)")))
            }
        }
    }

    async fn within_bounds(
        &self,
        request: &PullRequest,
        progress: &mut Progress,
        keep: impl AsyncFnMut(Bytes) -> io::Result<()>,
    ) -> Result<Answer, PullError> {
        let (endpoint, credential) = self.web.begin(&self.errand(request))?;
        let head = self.answer(request, &endpoint, credential).await?;
        if head.response.status() == StatusCode::NOT_MODIFIED {
            return Ok(Answer::Unchanged { retrieved_at: head.retrieved_at });
        }
        head.check_whole()?;
        let Head { url, response, retrieved_at } = head;
        let validators = Validators::of(&response);
        let size_bytes = body::read(&self.settings, response, progress, keep).await?;
        let url = if url.origin() == endpoint.origin() { without_keys(url.as_str()) } else { shown(&url) };
        Ok(Answer::Payload(Pulled { url, validators, size_bytes, retrieved_at }))
    }

    /// The HTTP request for `request`.
    fn errand<'a>(&'a self, request: &'a PullRequest) -> Errand<'a> {
        Errand {
            holder: Holder::Pipeline(request.pipeline_id.clone()),
            endpoint: &request.endpoint,
            authentication: request.authentication,
            held: self.credentials.get(&request.pipeline_id),
            known: &request.known,
            may_leave: true,
        }
    }

    /// The head of the answer, after retries if necessary.
    async fn answer(
        &self,
        request: &PullRequest,
        endpoint: &Url,
        credential: Option<&Credential>,
    ) -> Result<Head, WebError> {
        let (began, errand) = (monotonic(), self.errand(request));
        let mut pauses = pauses(RETRIES_MAX);
        loop {
            let error = match self.web.follow(&errand, endpoint.clone(), credential).await {
                Err(error @ WebError::Failed { .. }) => error,
                outcome => return outcome,
            };
            let left = self.settings.whole.saturating_sub(began.elapsed()).min(RETRY_WAIT_MAX);
            let WebError::Failed { failure, .. } = &error else { return Err(error) };
            let Some(wait) = wait(failure, pauses.next(), left) else { return Err(error) };
            warn!(pipeline_id = %request.pipeline_id, %error, "pull failed; retrying");
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests;
