//! Queries of live sources over HTTP, by their adapters, with retries until the timeout.

use super::{LiveAnswer, LiveHttpAnswer, LiveOracle, LiveQuery};
use crate::http::read;
use crate::model_call::{RETRIES_MAX, retry_pauses, retry_wait};
use crate::web::{
    BoundCredential, CredentialHolder, HttpValidators, OutboundRequest, UpstreamCredential, WebClient,
    WebError, WebResponseHead, etag, format_url, is_weak, without_keys,
};
use crate::{BoxFuture, RequestFailure, RequestFailureKind};
use actors_platform::clock::{Clock, monotonic};
use domain_ground::id::SourceId;
use domain_upstream::health::CircuitCallOutcome;
use domain_verification::adapter::{SourceQuestion, UnsupportedQuestionError, ValidatedAdapter};
use domain_verification::{
    AnswerFault, CachedAnswer, CallFailure, CallTimeLimit, CandidateAnswer, OracleReply,
};
use ipnet::IpNet;
use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tracing::warn;

/// Limit for the body of an answer, in bytes. An answer is about one subject.
pub const ANSWER_MAX_BYTES: usize = 256 << 10;
/// A header value that is longer, in bytes, is ignored.
const HEADER_MAX_BYTES: usize = 8 << 10;
/// Random bytes in a nonce.
const NONCE_BYTES: usize = 16;

/// Limits for the connections to live sources.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    /// Networks that may be reached in addition to public addresses.
    pub allow_local: Vec<IpNet>,
    /// Whether secrets may cross a network without encryption.
    pub allow_cleartext: bool,
    /// Timeout for opening a connection.
    pub connect: Duration,
    /// Timeout between the opened connection and the first byte of the answer.
    pub idle: Duration,
}

/// A client of live sources over HTTP.
#[derive(Debug)]
pub struct HttpLiveOracle {
    web: WebClient,
    credentials: BTreeMap<SourceId, BoundCredential>,
    clock: Clock,
    random: SystemRandom,
}

impl HttpLiveOracle {
    /// Creates a client with one credential for each source that needs one. It does not connect yet.
    #[must_use]
    pub fn new(
        settings: &LiveSettings,
        credentials: BTreeMap<SourceId, BoundCredential>,
        clock: Clock,
    ) -> Self {
        let web = WebClient::new(&settings.allow_local, settings.connect, settings.idle, clock.clone())
            .with_cleartext(settings.allow_cleartext);
        Self { web, credentials, clock, random: SystemRandom::new() }
    }

    /// Sends the query, with retries where they may help and time is left.
    async fn query_with_retries(&self, ask: &LiveQuery, began: Instant) -> LiveAnswer {
        let mut pauses = retry_pauses(RETRIES_MAX);
        loop {
            let error = match self.query_once(ask, began).await {
                Ok(answer) => return answer,
                Err(error) => error,
            };
            let left = ask.timeout.saturating_sub(monotonic().duration_since(began));
            let WebError::Failed { failure, .. } = &error else {
                return failed_call_answer(ask, &error, began);
            };
            let Some(wait) = retry_wait(failure, pauses.next(), left) else {
                return failed_call_answer(ask, &error, began);
            };
            let oracle_id = &ask.adapter.adapter().oracle_id;
            warn!(%oracle_id, execution_id = ask.execution_id, %failure, "live source failed; retrying");
            sleep(wait).await;
        }
    }

    /// Sends the query once.
    async fn query_once(&self, ask: &LiveQuery, began: Instant) -> Result<LiveAnswer, WebError> {
        let Some(nonce) = self.nonce() else {
            return Ok(internal_fault("the system returned no random numbers".to_owned()));
        };
        let question = SourceQuestion {
            subject: &ask.identity,
            point_in_time: ask.point_in_time,
            nonce: &nonce,
            asked_at: self.clock.now(),
            kept: ask.cached_answer.as_ref(),
        };
        let url = match ask.adapter.url(&question) {
            Ok(url) => url,
            Err(unasked) => return Ok(unasked_answer(&unasked)),
        };
        // the etag is valid only at the URL that returned it
        let is_of_endpoint = |(cached, candidate): &(&CachedAnswer, &CandidateAnswer)| {
            ask.adapter.may_be_unchanged()
                && ask.adapter.is_usable(cached, question.asked_at)
                && candidate.record.source_locator == without_keys(&url)
        };
        let cached = question
            .kept
            .and_then(|cached| Some((cached, cached.candidate.as_ref()?)))
            .filter(is_of_endpoint);
        let known_etag = cached.and_then(|(cached, _)| cached.etag.clone());
        let known = HttpValidators { etag: known_etag.filter(|etag| !is_weak(etag)), last_modified: None };
        let request = self.outbound_request(&ask.adapter, &url, &known);
        let (endpoint, credential) = self.check_request(&ask.adapter, &request)?;
        let head = self.web.follow(&request, endpoint, credential).await?;
        if let Some(cached) = cached.filter(|_| head.response.status() == StatusCode::NOT_MODIFIED) {
            return Ok(LiveAnswer::unchanged(ask, cached, head.retrieved_at, latency_ms(began)));
        }
        head.check_complete()?;
        let WebResponseHead { url: from, response, retrieved_at } = head;
        let etag = etag(&response);
        let headers = headers(&ask.adapter.headers(), response.headers());
        let failed = |failure| WebError::Failed { url: format_url(&from), failure };
        let body = read(response, ANSWER_MAX_BYTES).await.map_err(failed)?;
        let received = LiveHttpAnswer {
            url: &without_keys(&url),
            body: &body,
            headers: &headers,
            etag,
            retrieved_at,
            at: self.clock.now(),
        };
        Ok(LiveAnswer::verify_answer(ask, &question, received, latency_ms(began)))
    }

    /// The request to the source of `adapter` at `url`.
    fn outbound_request<'a>(
        &'a self,
        adapter: &ValidatedAdapter,
        url: &'a str,
        known: &'a HttpValidators,
    ) -> OutboundRequest<'a> {
        let adapter = adapter.adapter();
        OutboundRequest {
            holder: CredentialHolder::Source(adapter.oracle_id.clone()),
            endpoint: url,
            authentication: adapter.authentication,
            credential: self.credentials.get(&adapter.oracle_id),
            known,
            // only the registered source may answer: redirects to another origin are not followed
            may_change_origin: false,
        }
    }

    /// The URL of `request`, and the credential for it.
    fn check_request<'a>(
        &self,
        adapter: &ValidatedAdapter,
        request: &OutboundRequest<'a>,
    ) -> Result<(Url, Option<&'a UpstreamCredential>), WebError> {
        let (endpoint, credential) = self.web.check_request(request)?;
        if adapter.signature().is_none() {
            self.web.check_unaltered(&endpoint)?;
        }
        Ok((endpoint, credential))
    }

    /// A random text that cannot be predicted.
    fn nonce(&self) -> Option<String> {
        let mut bytes = [0; NONCE_BYTES];
        self.random.fill(&mut bytes).ok()?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl LiveOracle for HttpLiveOracle {
    /// Checks the adapter's endpoint, and that its credential is configured.
    fn check(&self, adapter: &ValidatedAdapter) -> Result<(), WebError> {
        let (url, known) = (adapter.sample_url(), HttpValidators::default());
        self.check_request(adapter, &self.outbound_request(adapter, &url, &known)).map(drop)
    }

    fn ask(&self, ask: LiveQuery) -> BoxFuture<'_, LiveAnswer> {
        Box::pin(async move {
            match timeout(ask.timeout, self.query_with_retries(&ask, monotonic())).await {
                Ok(answer) => answer,
                Err(_) => LiveAnswer::without_cached_answer(
                    OracleReply::TimedOut { cut: CallTimeLimit::HardTimeout },
                    CircuitCallOutcome::Neutral,
                ),
            }
        })
    }
}

fn latency_ms(began: Instant) -> u64 {
    u64::try_from(monotonic().duration_since(began).as_millis()).unwrap_or(u64::MAX)
}

/// The headers in `found` that are listed in `names`, by name. A header is included only if it occurs once,
/// is short and is ASCII.
fn headers(names: &[String], found: &HeaderMap) -> BTreeMap<String, String> {
    let one = |name: &String| {
        let mut values = found.get_all(name.as_str()).into_iter();
        let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        (value.len() <= HEADER_MAX_BYTES).then(|| (name.clone(), value.to_owned()))
    };
    names.iter().filter_map(one).collect()
}

/// The answer for a query that the adapter cannot ask.
fn unasked_answer(unasked: &UnsupportedQuestionError) -> LiveAnswer {
    let cause = unasked.to_string();
    let reply = match unasked {
        UnsupportedQuestionError::Elsewhere { .. } => OracleReply::NoRecord,
        // the other sources do not decide without this one, even if its adapter cannot ask the question
        UnsupportedQuestionError::Past
        | UnsupportedQuestionError::Open { .. }
        | UnsupportedQuestionError::Value { .. }
        | UnsupportedQuestionError::TooLong { .. } => {
            OracleReply::Failed { failure: CallFailure::Rejected, cause }
        }
    };
    LiveAnswer::without_cached_answer(reply, CircuitCallOutcome::Neutral)
}

/// A fault of the daemon, which has no effect on the source's health.
fn internal_fault(cause: String) -> LiveAnswer {
    LiveAnswer::without_cached_answer(
        OracleReply::Failed { failure: CallFailure::Internal, cause },
        CircuitCallOutcome::Neutral,
    )
}

/// The answer for a call that ended in `error`.
fn failed_call_answer(ask: &LiveQuery, error: &WebError, began: Instant) -> LiveAnswer {
    let failed = |failure| {
        let cause = error.to_string();
        LiveAnswer::without_cached_answer(
            OracleReply::Failed { failure, cause },
            CircuitCallOutcome::Failure(error.kind()),
        )
    };
    match error {
        WebError::Failed { failure: RequestFailure { kind, .. }, .. } => match kind {
            RequestFailureKind::Status(404) => no_record(ask, began),
            RequestFailureKind::Shortage => internal_fault(error.to_string()),
            RequestFailureKind::Status(408 | 429 | 500..)
            | RequestFailureKind::Connect
            | RequestFailureKind::Timeout
            | RequestFailureKind::Broken => failed(CallFailure::Unavailable),
            // the request was wrong, which is no fault of the source
            RequestFailureKind::Status(400 | 413 | 422) => {
                LiveAnswer { outcome: CircuitCallOutcome::Neutral, ..failed(CallFailure::Rejected) }
            }
            RequestFailureKind::Status(_) | RequestFailureKind::ErrorAnswer(_) => {
                failed(CallFailure::Rejected)
            }
            RequestFailureKind::TooLarge => LiveAnswer::refused(
                AnswerFault::Schema,
                format!("the answer has more than {ANSWER_MAX_BYTES} bytes"),
            ),
            RequestFailureKind::Unreadable
            | RequestFailureKind::SmtpStatus(_)
            | RequestFailureKind::Unusable(_) => failed(CallFailure::Unavailable),
        },
        WebError::Coded { .. } => LiveAnswer::refused(
            AnswerFault::Schema,
            "the answer has an unsupported content or transfer coding".to_owned(),
        ),
        WebError::Endless { .. } => LiveAnswer::refused(AnswerFault::Schema, error.to_string()),
        WebError::Leaves { .. } | WebError::Redirect { .. } => {
            LiveAnswer::refused(AnswerFault::Identity, error.to_string())
        }
        WebError::Name { .. } | WebError::Redirects { .. } => failed(CallFailure::Unavailable),
        WebError::Endpoint(_)
        | WebError::TokenUrl(_)
        | WebError::NoCredential { .. }
        | WebError::OtherOrigin { .. }
        | WebError::Exposed { .. }
        | WebError::Alterable { .. }
        | WebError::Client(_) => internal_fault(error.to_string()),
    }
}

/// The source has no record of the subject. If the source signs its answers, a status 404 is rejected,
/// because it has no signature and could be forged in transit.
fn no_record(ask: &LiveQuery, began: Instant) -> LiveAnswer {
    if ask.adapter.signature().is_none() {
        return LiveAnswer::without_cached_answer(
            OracleReply::NoRecord,
            CircuitCallOutcome::Success { latency_ms: Some(latency_ms(began)) },
        );
    }
    let cause = "the source reported without a signature that it has no record".to_owned();
    LiveAnswer { outcome: CircuitCallOutcome::Neutral, ..LiveAnswer::refused(AnswerFault::Signature, cause) }
}
