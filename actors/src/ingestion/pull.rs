//! Payloads that the daemon goes and gets by HTTP (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline", `retrieval`).
//!
//! What is asked, and what answers, is not trusted: only public addresses are reached, redirects are followed by hand,
//! and a payload that is not whole is an error.

mod address;
mod body;
mod credential;
mod error;
mod origin;

pub use address::URL_MAX_BYTES;
pub use credential::{BadCredential, ClientCredentials, Credential};
pub use error::{BadAddress, PullError};
pub use origin::{BadOrigin, Bound, Origin};

use crate::clock::{Clock, monotonic};
use crate::upstream::call::{pauses, wait};
use crate::upstream::http::{asked_wait, client, failure, root_cause};
use crate::upstream::{Failure, Kind};
use address::{Reach, shown};
use body::Progress;
use bytes::Bytes;
use domain::ground::id::PipelineId;
use domain::ground::pipeline::Authentication;
use ipnet::IpNet;
use jiff::Timestamp;
use reqwest::header::{
    ACCEPT_ENCODING, ETAG, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION,
};
use reqwest::{Client, Identity, RequestBuilder, Response, StatusCode, Url};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// So many redirects are followed.
pub const REDIRECTS_MAX: usize = 5;
/// So many times an endpoint is asked again that did not answer.
const RETRIES_MAX: u32 = 3;
/// Who wants to be left alone for longer is not asked again within one pull.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);
/// A validator that is longer is not kept, in bytes.
const VALIDATOR_MAX_BYTES: usize = 1024;
/// A coding is named in errors up to so many characters.
const CODING_MAX_CHARS: usize = 40;

/// Within which bounds is pulled.
#[derive(Debug, Clone)]
pub struct PullSettings {
    /// What of one's own network is reached, beside public addresses.
    pub allow_local: Vec<IpNet>,
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

/// What an answer says of itself by which it is known again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// Its `ETag`, with the quotation marks.
    pub etag: Option<String>,
    /// Its `Last-Modified`, as it came.
    pub last_modified: Option<String>,
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
    reach: Reach,
    credentials: BTreeMap<PipelineId, Bound>,
    clock: Clock,
}

/// An answer that is a payload or says that there is no new one, of which the head came.
struct Head {
    url: Url,
    response: Response,
    retrieved_at: Timestamp,
}

impl Puller {
    /// Whoever pulls within `settings`, for each pipeline with its credential. Nothing is connected to yet.
    #[must_use]
    pub fn new(settings: PullSettings, credentials: BTreeMap<PipelineId, Bound>, clock: Clock) -> Self {
        let reach = Reach::new(&settings.allow_local);
        Self { settings, reach, credentials, clock }
    }

    /// Whether `request` can be made as far as that is known without making it: where it leads, and whether there is the
    /// credential.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn check(&self, request: &PullRequest) -> Result<(), PullError> {
        self.begin(request).map(drop)
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
        let (endpoint, credential) = self.begin(request)?;
        let Head { url, response, retrieved_at } = self.answer(request, &endpoint, credential).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(Answer::Unchanged { retrieved_at });
        }
        let validators = Validators {
            etag: validator(&response, ETAG),
            last_modified: validator(&response, LAST_MODIFIED),
        };
        body::measure(&url, &response)?;
        let size_bytes = body::read(&self.settings, response, progress, keep).await?;
        let url = if url.origin() == endpoint.origin() { url.to_string() } else { shown(&url) };
        Ok(Answer::Payload(Pulled { url, validators, size_bytes, retrieved_at }))
    }

    /// The endpoint, and the credential for it.
    fn begin(&self, request: &PullRequest) -> Result<(Url, Option<&Credential>), PullError> {
        let url = self.reach.endpoint(&request.endpoint).map_err(PullError::Endpoint)?;
        let (authentication, keys) = match request.authentication {
            None | Some(Authentication::None) => return Ok((url, None)),
            Some(Authentication::ApiKey) => ("api_key", "`header`, and `key_file` or `key_env`"),
            Some(Authentication::Oauth) => {
                let keys = "`token_file` or `token_env`, or `token_url`, `client_id`, and `client_secret_file` or \
                            `client_secret_env`";
                ("oauth", keys)
            }
            Some(Authentication::Mtls) => ("mtls", "`certificate_file` and `key_file`"),
        };
        let held = self.credentials.get(&request.pipeline_id);
        let held =
            held.filter(|held| request.authentication.is_some_and(|wanted| held.credential.is_for(wanted)));
        let none = || {
            let pipeline_id = request.pipeline_id.clone();
            PullError::NoCredential { pipeline_id, authentication, keys }
        };
        let Bound { origin, credential } = held.ok_or_else(none)?;
        if !origin.is_of(&url) {
            let (pipeline_id, origin) = (request.pipeline_id.clone(), origin.to_string());
            return Err(PullError::OtherOrigin { pipeline_id, origin, url: shown(&url) });
        }
        match credential {
            Credential::Certificate(_) if url.scheme() != "https" => {
                return Err(PullError::Exposed { url: shown(&url), allowed: "https, for a certificate" });
            }
            Credential::Client(client) => drop(client.token_url(self)?),
            _ => {}
        }
        self.check_confidential(&url)?;
        Ok((url, Some(credential)))
    }

    fn check_confidential(&self, url: &Url) -> Result<(), PullError> {
        if self.reach.is_confidential(url) {
            return Ok(());
        }
        let allowed = "https, or http to an address in figures that `ingestion.allow_local` names";
        Err(PullError::Exposed { url: shown(url), allowed })
    }

    /// The head of the answer, after as many attempts as may help.
    async fn answer(
        &self,
        request: &PullRequest,
        endpoint: &Url,
        credential: Option<&Credential>,
    ) -> Result<Head, PullError> {
        let began = monotonic();
        let mut pauses = pauses(RETRIES_MAX);
        loop {
            let error = match self.follow(request, endpoint.clone(), credential).await {
                Err(error @ PullError::Failed { .. }) => error,
                outcome => return outcome,
            };
            let left = self.settings.whole.saturating_sub(began.elapsed()).min(RETRY_WAIT_MAX);
            let PullError::Failed { failure, .. } = &error else { return Err(error) };
            let Some(wait) = wait(failure, pauses.next(), left) else { return Err(error) };
            warn!(pipeline_id = %request.pipeline_id, %error, "pull failed, and is tried again");
            sleep(wait).await;
        }
    }

    /// The head of what is at `url`, or wherever it redirects to. The credential goes no further than to its origin.
    async fn follow(
        &self,
        request: &PullRequest,
        mut url: Url,
        mut credential: Option<&Credential>,
    ) -> Result<Head, PullError> {
        for _ in 0..=REDIRECTS_MAX {
            let (retrieved_at, response) = self.ask(request, &url, credential).await?;
            match response.status() {
                StatusCode::OK => return Ok(Head { url, response, retrieved_at }),
                StatusCode::NOT_MODIFIED if request.known != Validators::default() => {
                    return Ok(Head { url, response, retrieved_at });
                }
                status => {
                    let location = redirected(status, &response);
                    let Some(location) = location else { return Err(self.refused(&url, &response)) };
                    let refused = |to| PullError::Redirect { from: shown(&url), to };
                    let next = self.reach.redirect(&url, location).map_err(refused)?;
                    credential = credential.filter(|_| next.origin() == url.origin());
                    url = next;
                }
            }
        }
        Err(PullError::Redirects { last: shown(&url) })
    }

    /// What one address answers; asked once more with a new token where it does not take the one there is.
    async fn ask(
        &self,
        request: &PullRequest,
        url: &Url,
        credential: Option<&Credential>,
    ) -> Result<(Timestamp, Response), PullError> {
        let mut refused = false;
        loop {
            let identity = credential.and_then(Credential::identity);
            let mut asked = self.client(url, identity)?.get(url.clone());
            asked = asked.header(ACCEPT_ENCODING, "identity");
            for (name, value) in
                [(IF_NONE_MATCH, &request.known.etag), (IF_MODIFIED_SINCE, &request.known.last_modified)]
            {
                // what no header can hold is no validator, and then all of it comes
                if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
                    asked = asked.header(name, value);
                }
            }
            asked = match credential {
                Some(Credential::ApiKey(key) | Credential::Token(key)) => key.put_into(asked),
                Some(Credential::Client(client)) => client.token(self, refused).await?.put_into(asked),
                Some(Credential::Certificate(_)) | None => asked,
            };
            let retrieved_at = self.clock.now();
            let response = self.send(url, asked).await?;
            let is_client = matches!(credential, Some(Credential::Client(_)));
            if response.status() != StatusCode::UNAUTHORIZED || !is_client || refused {
                return Ok((retrieved_at, response));
            }
            refused = true;
        }
    }

    /// A client for one request to `url`, with a connection of its own.
    fn client(&self, url: &Url, identity: Option<&Identity>) -> Result<Client, PullError> {
        let mut builder = client(url.scheme() == "https")
            .connect_timeout(self.settings.connect)
            .dns_resolver(Arc::new(self.reach.clone()));
        if let Some(identity) = identity {
            builder = builder.identity(identity.clone());
        }
        builder.build().map_err(|error| PullError::Client(root_cause(&error)))
    }

    /// Sends `request` to `url`, and waits for the head of the answer.
    async fn send(&self, url: &Url, request: RequestBuilder) -> Result<Response, PullError> {
        let limit = self.settings.connect.saturating_add(self.settings.idle);
        let failed = |failure| PullError::Failed { url: shown(url), failure };
        let Ok(sent) = timeout(limit, request.send()).await else {
            let waited = format!("waited for {} ms", limit.as_millis());
            return Err(failed(Failure::new(Kind::Timeout, waited)));
        };
        sent.map_err(|error| match refused_by_resolver(&error) {
            Some(why) => PullError::Name { url: shown(url), why },
            None => failed(failure(&error)),
        })
    }

    /// An answer that is no payload. What its body says is nobody's business.
    fn refused(&self, url: &Url, response: &Response) -> PullError {
        let status = response.status();
        let detail = status.canonical_reason().unwrap_or("a status without a name").to_owned();
        let retry_after = asked_wait(response, &self.clock);
        let failure = Failure { retry_after, ..Failure::new(Kind::Status(status.as_u16()), detail) };
        PullError::Failed { url: shown(url), failure }
    }
}

/// Where a redirect leads.
fn redirected(status: StatusCode, response: &Response) -> Option<&str> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308).then_some(location)
}

/// What the resolver said, if it was the one to refuse.
fn refused_by_resolver(error: &reqwest::Error) -> Option<BadAddress> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(bad) = error.downcast_ref::<BadAddress>() {
            return Some(bad.clone());
        }
        cause = error.source();
    }
    None
}

/// What `response` says of itself by `header`, if that is one short line.
fn validator(response: &Response, header: HeaderName) -> Option<String> {
    let value = response.headers().get(header)?.to_str().ok()?;
    (1..=VALIDATOR_MAX_BYTES).contains(&value.len()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests;
