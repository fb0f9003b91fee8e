//! Payloads that the daemon goes and gets by HTTP (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline", `retrieval`).
//!
//! What is asked, and what answers, is not trusted: only public addresses are reached, redirects are followed by hand,
//! and a payload that is not whole is an error.

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

/// Who wants to be left alone for longer is not asked again within one pull.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

/// Within which bounds is pulled.
#[derive(Debug, Clone)]
pub struct PullSettings {
    /// What of one's own network is reached, beside public addresses.
    pub allow_local: Vec<IpNet>,
    /// Whether secrets may cross a network without encryption.
    pub allow_cleartext: bool,
    /// The longest payload, in bytes.
    pub max_payload_bytes: u64,
    /// How long a connection may take to be made.
    pub connect: Duration,
    /// How long it may take, once it is made, until an answer begins, and then between two pieces of it.
    pub idle: Duration,
    /// How long a pull may take as a whole.
    pub whole: Duration,
}

/// What is pulled.
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// For which pipeline, whose credential is used.
    pub pipeline_id: PipelineId,
    /// From where.
    pub endpoint: String,
    /// How the pipeline authenticates; not at all without it.
    pub authentication: Option<Authentication>,
    /// What the answer to an earlier pull said of itself: where it still holds, nothing comes.
    pub known: Validators,
}

/// What came of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A payload, which was handed over whole.
    Payload(Pulled),
    /// The same as at the earlier pull.
    Unchanged {
        /// When it was asked for.
        retrieved_at: Timestamp,
    },
}

/// A payload that came whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Where it was in the end. Of another origin than the endpoint's it is without its query, which often is a signature
    /// that lets its holder read.
    pub url: String,
    /// What it says of itself.
    pub validators: Validators,
    /// Its length.
    pub size_bytes: u64,
    /// When it was asked for: it is at least as new.
    pub retrieved_at: Timestamp,
}

/// Whoever pulls payloads.
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
    /// Whoever pulls within `settings`, for each pipeline with its credential. Nothing is connected to yet.
    #[must_use]
    pub fn new(settings: PullSettings, credentials: BTreeMap<PipelineId, Bound>, clock: Clock) -> Self {
        let web = Web::new(&settings.allow_local, settings.connect, settings.idle, clock)
            .with_cleartext(settings.allow_cleartext);
        Self { settings, web, credentials }
    }

    /// Whether `request` can be made as far as that is known without making it: where it leads, and whether there is the
    /// credential.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn check(&self, request: &PullRequest) -> Result<(), PullError> {
        Ok(self.web.begin(&self.errand(request)).map(drop)?)
    }

    /// Pulls what `request` says, and hands each piece of the payload to `keep` as it comes: a part of it may have been
    /// handed over when an error comes. Until the payload begins, an endpoint that does not answer is asked again.
    ///
    /// # Errors
    /// Where nothing came, or not all of it, or `keep` failed.
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
                Err(progress.cut(format!("it took over {whole_s} s (`ingestion.pull_s`)")))
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

    /// `request` as it is run.
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

    /// The head of the answer, after as many attempts as may help.
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
            warn!(pipeline_id = %request.pipeline_id, %error, "pull failed, and is tried again");
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests;
