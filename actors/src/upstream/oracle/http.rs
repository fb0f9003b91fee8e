//! Live sources by HTTP, each by its adapter: as many attempts as may help within the time there is.

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

/// So much of an answer is read, in bytes: it is about one thing.
pub const ANSWER_MAX_BYTES: usize = 256 << 10;
/// A header of an answer that is longer is none, in bytes.
const HEADER_MAX_BYTES: usize = 8 << 10;
/// So many random bytes does a nonce have.
const NONCE_BYTES: usize = 16;

/// Within which bounds live sources are asked.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    /// What of one's own network is reached, beside public addresses.
    pub allow_local: Vec<IpNet>,
    /// Whether secrets may cross a network without encryption.
    pub allow_cleartext: bool,
    /// How long a connection may take to be made.
    pub connect: Duration,
    /// How long it may take, once it is made, until an answer begins.
    pub idle: Duration,
}

/// Whoever asks live sources by HTTP.
#[derive(Debug)]
pub struct HttpOracles {
    web: Web,
    credentials: BTreeMap<SourceId, Bound>,
    clock: Clock,
    random: SystemRandom,
}

impl HttpOracles {
    /// Whoever asks within `settings`, each source with its credential. Nothing is connected to yet.
    #[must_use]
    pub fn new(settings: &LiveSettings, credentials: BTreeMap<SourceId, Bound>, clock: Clock) -> Self {
        let web = Web::new(&settings.allow_local, settings.connect, settings.idle, clock.clone())
            .with_cleartext(settings.allow_cleartext);
        Self { web, credentials, clock, random: SystemRandom::new() }
    }

    /// Asks, and again where that may help and there is time.
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
            warn!(%oracle_id, execution_id = ask.execution_id, %error, "live source failed, and is asked again");
            sleep(wait).await;
        }
    }

    /// Asks once.
    async fn attempt(&self, ask: &LiveAsk, began: Instant) -> Result<LiveAnswer, WebError> {
        let Some(nonce) = self.nonce() else {
            return Ok(on_this_side("the system gives no random numbers".to_owned()));
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
        // what is kept is known by its tag where it was answered
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

    /// A question to the source of `adapter`, as it is asked at `url`.
    fn errand<'a>(&'a self, adapter: &Ready, url: &'a str, known: &'a Validators) -> Errand<'a> {
        let adapter = adapter.adapter();
        Errand {
            holder: Holder::Source(adapter.oracle_id.clone()),
            endpoint: url,
            authentication: adapter.authentication,
            held: self.credentials.get(&adapter.oracle_id),
            known,
            // who is asked is registered, and hands the question on to nobody
            may_leave: false,
        }
    }

    /// Where `errand` leads, and the credential for it.
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

    /// A text that nobody can foresee.
    fn nonce(&self) -> Option<String> {
        let mut bytes = [0; NONCE_BYTES];
        self.random.fill(&mut bytes).ok()?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl LiveOracle for HttpOracles {
    /// Where its endpoint leads, and whether there is the credential.
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

/// The headers in `found` that are called as in `names`, each by its name: those that came once, short and in ASCII.
fn headers(names: &[String], found: &HeaderMap) -> BTreeMap<String, String> {
    let one = |name: &String| {
        let mut values = found.get_all(name.as_str()).into_iter();
        let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        (value.len() <= HEADER_MAX_BYTES).then(|| (name.clone(), value.to_owned()))
    };
    names.iter().filter_map(one).collect()
}

/// What a question comes to that a source is not asked.
fn not_asked(unasked: &Unasked) -> LiveAnswer {
    let cause = unasked.to_string();
    let reply = match unasked {
        Unasked::Elsewhere { .. } => Reply::NoRecord,
        // the others do not decide without it, be it that it cannot say what was
        Unasked::Past | Unasked::Open { .. } | Unasked::Value { .. } | Unasked::TooLong { .. } => {
            Reply::Failed { failure: verification::Failure::Rejected, cause }
        }
    };
    LiveAnswer::bare(reply, Outcome::Neutral)
}

/// Something is wrong here, which says nothing of the source.
fn on_this_side(cause: String) -> LiveAnswer {
    LiveAnswer::bare(Reply::Failed { failure: verification::Failure::Internal, cause }, Outcome::Neutral)
}

/// What a call comes to that ended in `error`.
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
            // the question was wrong, which says nothing of the source
            Kind::Status(400 | 413 | 422) => {
                LiveAnswer { outcome: Outcome::Neutral, ..failed(verification::Failure::Rejected) }
            }
            Kind::Status(_) => failed(verification::Failure::Rejected),
            Kind::TooLarge => {
                LiveAnswer::refused(Refusal::Schema, format!("it has more than {ANSWER_MAX_BYTES} bytes"))
            }
            Kind::Unreadable => failed(verification::Failure::Unavailable),
        },
        WebError::Coded { .. } => {
            LiveAnswer::refused(Refusal::Schema, "it is in a coding that was not asked for".to_owned())
        }
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

/// The source says that it knows nothing of the thing. Of one that signs anybody on the way could say so.
fn no_record(ask: &LiveAsk, began: Instant) -> LiveAnswer {
    if ask.adapter.signature().is_none() {
        return LiveAnswer::bare(Reply::NoRecord, Outcome::Success { latency_ms: Some(latency_ms(began)) });
    }
    let cause = "it says without a signature that it has no record".to_owned();
    LiveAnswer { outcome: Outcome::Neutral, ..LiveAnswer::refused(Refusal::Signature, cause) }
}
