//! Queries of live sources over HTTP, by their adapters, with retries until the timeout.

use super::verified::Came;
use super::{LiveAnswer, LiveAsk, LiveOracle};
use crate::platform::clock::{Clock, monotonic};
use crate::upstream::call::{RETRIES_MAX, pauses, wait};
use crate::upstream::http::read;
use crate::upstream::web::{
    Bound, Credential, Errand, Head, Holder, Validators, Web, WebError, shown, without_keys,
};
use crate::upstream::{BoxFuture, Failure, Kind};
use ipnet::IpNet;
use oracled_domain::ground::id::SourceId;
use oracled_domain::verdict::health::Outcome;
use oracled_domain::verification::adapter::{Asked, Ready, Unasked};
use oracled_domain::verification::{self, Candidate, Cut, KeptAnswer, Refusal, Reply};
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
pub struct HttpOracles {
    web: Web,
    credentials: BTreeMap<SourceId, Bound>,
    clock: Clock,
    random: SystemRandom,
}

impl HttpOracles {
    /// Creates a client with one credential for each source that needs one. It does not connect yet.
    #[must_use]
    pub fn new(settings: &LiveSettings, credentials: BTreeMap<SourceId, Bound>, clock: Clock) -> Self {
        let web = Web::new(&settings.allow_local, settings.connect, settings.idle, clock.clone())
            .with_cleartext(settings.allow_cleartext);
        Self { web, credentials, clock, random: SystemRandom::new() }
    }

    /// Sends the query, with retries where they may help and time is left.
    async fn attempts(&self, ask: &LiveAsk, began: Instant) -> LiveAnswer {
        let mut pauses = pauses(RETRIES_MAX);
        loop {
            let error = match self.attempt(ask, began).await {
                Ok(answer) => return answer,
                Err(error) => error,
            };
            let left = ask.within.saturating_sub(monotonic().duration_since(began));
            let WebError::Failed { failure, .. } = &error else { return without_answer(ask, &error, began) };
            let Some(wait) = wait(failure, pauses.next(), left) else {
                return without_answer(ask, &error, began);
            };
            let oracle_id = &ask.adapter.adapter().oracle_id;
            warn!(%oracle_id, execution_id = ask.execution_id, %error, "live source failed; retrying");
            sleep(wait).await;
        }
    }

    /// Sends the query once.
    async fn attempt(&self, ask: &LiveAsk, began: Instant) -> Result<LiveAnswer, WebError> {
        let Some(nonce) = self.nonce() else {
            return Ok(on_this_side("the system returned no random numbers".to_owned()));
        };
        let asked = Asked {
            thing: &ask.thing,
            point_in_time: ask.point_in_time,
            nonce: &nonce,
            asked_at: self.clock.now(),
            kept: ask.kept.as_ref(),
        };
        let url = match ask.adapter.url(&asked) {
            Ok(url) => url,
            Err(unasked) => return Ok(not_asked(&unasked)),
        };
        // the etag is valid only at the URL that returned it
        let is_of_there = |(kept, candidate): &(&KeptAnswer, &Candidate)| {
            ask.adapter.may_be_unchanged()
                && ask.adapter.is_kept(kept, asked.asked_at)
                && candidate.record.source_locator == without_keys(&url)
        };
        let kept = asked.kept.and_then(|kept| Some((kept, kept.candidate.as_ref()?))).filter(is_of_there);
        let known = Validators { etag: kept.and_then(|(kept, _)| kept.etag.clone()), last_modified: None };
        let errand = self.errand(&ask.adapter, &url, &known);
        let (endpoint, credential) = self.begin(&ask.adapter, &errand)?;
        let head = self.web.follow(&errand, endpoint, credential).await?;
        if let Some(kept) = kept.filter(|_| head.response.status() == StatusCode::NOT_MODIFIED) {
            return Ok(LiveAnswer::unchanged(ask, kept, head.retrieved_at, latency_ms(began)));
        }
        head.check_whole()?;
        let Head { url: from, response, retrieved_at } = head;
        let etag = Validators::of(&response).etag;
        let headers = headers(&ask.adapter.headers(), response.headers());
        let failed = |failure| WebError::Failed { url: shown(&from), failure };
        let body = read(response, ANSWER_MAX_BYTES).await.map_err(failed)?;
        let came = Came {
            url: &without_keys(&url),
            body: &body,
            headers: &headers,
            etag,
            retrieved_at,
            at: self.clock.now(),
        };
        Ok(LiveAnswer::of(ask, &asked, came, latency_ms(began)))
    }

    /// The request to the source of `adapter` at `url`.
    fn errand<'a>(&'a self, adapter: &Ready, url: &'a str, known: &'a Validators) -> Errand<'a> {
        let adapter = adapter.adapter();
        Errand {
            holder: Holder::Source(adapter.oracle_id.clone()),
            endpoint: url,
            authentication: adapter.authentication,
            held: self.credentials.get(&adapter.oracle_id),
            known,
            // only the registered source may answer: redirects to another origin are not followed
            may_leave: false,
        }
    }

    /// The URL of `errand`, and the credential for it.
    fn begin<'a>(
        &self,
        adapter: &Ready,
        errand: &Errand<'a>,
    ) -> Result<(Url, Option<&'a Credential>), WebError> {
        let (endpoint, credential) = self.web.begin(errand)?;
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

impl LiveOracle for HttpOracles {
    /// Checks the adapter's endpoint, and that its credential is configured.
    fn check(&self, adapter: &Ready) -> Result<(), WebError> {
        let (url, known) = (adapter.sample_url(), Validators::default());
        self.begin(adapter, &self.errand(adapter, &url, &known)).map(drop)
    }

    fn ask(&self, ask: LiveAsk) -> BoxFuture<'_, LiveAnswer> {
        Box::pin(async move {
            match timeout(ask.within, self.attempts(&ask, monotonic())).await {
                Ok(answer) => answer,
                Err(_) => LiveAnswer::bare(Reply::TimedOut { cut: Cut::HardTimeout }, Outcome::Neutral),
            }
        })
    }
}

fn latency_ms(began: Instant) -> u64 {
    u64::try_from(monotonic().duration_since(began).as_millis()).unwrap_or(u64::MAX)
}

/// The headers in `found` that are listed in `names`, by name. A header is included only if it occurs once, is short and is
/// ASCII.
fn headers(names: &[String], found: &HeaderMap) -> BTreeMap<String, String> {
    let one = |name: &String| {
        let mut values = found.get_all(name.as_str()).into_iter();
        let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        (value.len() <= HEADER_MAX_BYTES).then(|| (name.clone(), value.to_owned()))
    };
    names.iter().filter_map(one).collect()
}

/// The answer for a query that the adapter cannot ask.
fn not_asked(unasked: &Unasked) -> LiveAnswer {
    let cause = unasked.to_string();
    let reply = match unasked {
        Unasked::Elsewhere { .. } => Reply::NoRecord,
        // the other sources do not decide without this one, even if its adapter cannot ask the question
        Unasked::Past | Unasked::Open { .. } | Unasked::Value { .. } | Unasked::TooLong { .. } => {
            Reply::Failed { failure: verification::Failure::Rejected, cause }
        }
    };
    LiveAnswer::bare(reply, Outcome::Neutral)
}

/// A fault of the daemon, which has no effect on the source's health.
fn on_this_side(cause: String) -> LiveAnswer {
    LiveAnswer::bare(Reply::Failed { failure: verification::Failure::Internal, cause }, Outcome::Neutral)
}

/// The answer for a call that ended in `error`.
fn without_answer(ask: &LiveAsk, error: &WebError, began: Instant) -> LiveAnswer {
    let failed = |failure| {
        let cause = error.to_string();
        LiveAnswer::bare(Reply::Failed { failure, cause: cause.clone() }, Outcome::Failure(cause))
    };
    match error {
        WebError::Failed { failure: Failure { kind, .. }, .. } => match kind {
            Kind::Status(404) => no_record(ask, began),
            Kind::Shortage => on_this_side(error.to_string()),
            Kind::Status(408 | 429 | 500..) | Kind::Connect | Kind::Timeout | Kind::Broken => {
                failed(verification::Failure::Unavailable)
            }
            // the request was wrong, which is no fault of the source
            Kind::Status(400 | 413 | 422) => {
                LiveAnswer { outcome: Outcome::Neutral, ..failed(verification::Failure::Rejected) }
            }
            Kind::Status(_) => failed(verification::Failure::Rejected),
            Kind::TooLarge => LiveAnswer::refused(
                Refusal::Schema,
                format!("the answer has more than {ANSWER_MAX_BYTES} bytes"),
            ),
            Kind::Unreadable => failed(verification::Failure::Unavailable),
        },
        WebError::Coded { .. } => LiveAnswer::refused(
            Refusal::Schema,
            "the answer has an unsupported content or transfer coding".to_owned(),
        ),
        WebError::Endless { .. } => LiveAnswer::refused(Refusal::Schema, error.to_string()),
        WebError::Leaves { .. } | WebError::Redirect { .. } => {
            LiveAnswer::refused(Refusal::Identity, error.to_string())
        }
        WebError::Name { .. } | WebError::Redirects { .. } => failed(verification::Failure::Unavailable),
        WebError::Endpoint(_)
        | WebError::TokenUrl(_)
        | WebError::NoCredential { .. }
        | WebError::OtherOrigin { .. }
        | WebError::Exposed { .. }
        | WebError::Alterable { .. }
        | WebError::Client(_) => on_this_side(error.to_string()),
    }
}

/// The source has no record of the subject. If the source signs its answers, a status 404 is rejected, because it has no
/// signature and could be forged in transit.
fn no_record(ask: &LiveAsk, began: Instant) -> LiveAnswer {
    if ask.adapter.signature().is_none() {
        return LiveAnswer::bare(Reply::NoRecord, Outcome::Success { latency_ms: Some(latency_ms(began)) });
    }
    let cause = "the source reported without a signature that it has no record".to_owned();
    LiveAnswer { outcome: Outcome::Neutral, ..LiveAnswer::refused(Refusal::Signature, cause) }
}
