//! Pulls payloads by HTTP (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline", `retrieval`).
//!
//! Endpoints and their answers are not trusted: only public addresses are reached, each redirect is checked
//! before it is followed, and an incomplete payload is an error.
//!
//! Schedules of pulls are cron expressions (`retrieval.schedule`).

use actors_platform::clock::{Clock, monotonic};
use actors_upstream::http::root_cause;
use actors_upstream::model_call::{RETRIES_MAX, retry_pauses, retry_wait};
pub use actors_upstream::web::{
    BoundCredential, ClientCredentials, HttpValidators, URL_MAX_BYTES, UpstreamCredential,
    UpstreamCredentialError, UrlOrigin, UrlOriginError,
};
use actors_upstream::web::{
    CredentialHolder, OutboundRequest, WebClient, WebError, WebResponseHead, format_url, last_modified,
    without_keys,
};
use bytes::Bytes;
use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions, parse_crontab_with};
use domain_ground::id::PipelineId;
use domain_ground::pipeline::{IngestionPipeline, SourceAuthentication};
use ipnet::IpNet;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Response, StatusCode, Url};
use std::collections::BTreeMap;
use std::time::Duration;
use std::{fmt, io};
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

/// Why nothing was pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// There is no answer, or the answer is not a payload.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The payload is too long.
    #[error("the payload has {} bytes (limit {max_bytes}: `ingestion.max_payload_bytes`)", announced_or_many(*announced_bytes))]
    TooLarge {
        /// Its announced length in bytes, if known.
        announced_bytes: Option<u64>,
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// The payload is incomplete.
    #[error("received {received_bytes} of {} bytes: {why}", announced_or_unknown(*announced_bytes))]
    Cut {
        /// Number of bytes received.
        received_bytes: u64,
        /// Announced length in bytes, if known.
        announced_bytes: Option<u64>,
        /// The cause.
        why: String,
    },
    /// The received data could not be stored.
    #[error("could not store the payload: {0}")]
    Keep(io::Error),
}

impl PullError {
    /// The wait that the server requests before a retry, if it requests one.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Web(WebError::Failed { failure, .. }) => failure.retry_after,
            _ => None,
        }
    }
}

fn announced_or_many(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string())
}

fn announced_or_unknown(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string())
}

/// A payload to pull.
#[derive(Debug, Clone)]
pub struct PullRequest {
    /// The pipeline, whose credential is used.
    pub pipeline_id: PipelineId,
    /// The URL of the payload.
    pub endpoint: String,
    /// How the pipeline authenticates.
    pub authentication: SourceAuthentication,
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
        let size_bytes = read_body(&self.settings, response, progress, keep).await?;
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

/// Bytes of a payload that were received, and its announced length if that is known.
#[derive(Debug, Default)]
struct PullProgress {
    received_bytes: u64,
    announced_bytes: Option<u64>,
}

impl PullProgress {
    /// The error for an incomplete payload, with the cause `why`.
    const fn truncation_error(&self, why: String) -> PullError {
        let Self { received_bytes, announced_bytes } = *self;
        PullError::Cut { received_bytes, announced_bytes, why }
    }
}

/// Reads the payload, and passes each piece to `keep`. Returns its length in bytes.
async fn read_body(
    settings: &PullSettings,
    mut response: Response,
    progress: &mut PullProgress,
    mut keep: impl AsyncFnMut(Bytes) -> io::Result<()>,
) -> Result<u64, PullError> {
    let PullSettings { max_payload_bytes: max_bytes, idle, .. } = *settings;
    progress.announced_bytes = response.content_length();
    let announced_bytes = progress.announced_bytes;
    if announced_bytes.is_some_and(|announced| announced > max_bytes) {
        return Err(PullError::TooLarge { announced_bytes, max_bytes });
    }
    loop {
        let Ok(piece) = timeout(idle, response.chunk()).await else {
            let idle_s = idle.as_secs_f64();
            return Err(progress.truncation_error(format!("no data for {idle_s} s (`ingestion.idle_s`)")));
        };
        let Some(piece) = piece.map_err(|error| progress.truncation_error(root_cause(&error)))? else {
            break;
        };
        progress.received_bytes = progress.received_bytes.saturating_add(piece.len() as u64);
        if progress.received_bytes > max_bytes {
            return Err(PullError::TooLarge { announced_bytes, max_bytes });
        }
        keep(piece).await.map_err(PullError::Keep)?;
    }
    // the client reports an error if bytes are missing, and does not read extra bytes
    Ok(progress.received_bytes)
}

/// The longest schedule, in bytes.
pub const SCHEDULE_MAX_BYTES: usize = 256;
/// The fields of a schedule, in order.
const FIELDS: [&str; 5] = ["minute", "hour", "day of the month", "month", "day of the week"];

/// The range of one search. The cron library searches four years ahead, and three days less at the turn of some
/// centuries.
const SEARCH_RANGE: SignedDuration = SignedDuration::from_hours(1458 * 24);
/// The most searches. They cover 44 years, since a 29th of February that is a Sunday can be 40 years away.
const SEARCHES_MAX: u32 = 12;
/// The time that must remain after the start of a search. Otherwise the library would pass the end of all timestamps.
const SEARCH_MARGIN: SignedDuration = SignedDuration::from_hours(5 * 366 * 24);

/// Why a text is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullScheduleError {
    /// The text is too long.
    #[error("the schedule has {size_bytes} bytes; allowed: at most {SCHEDULE_MAX_BYTES}")]
    TooLong {
        /// Its length, in bytes.
        size_bytes: usize,
    },
    /// The number of fields is wrong.
    #[error("the schedule has {found} words; allowed: {}, and optionally a time zone", FIELDS.join(", "))]
    Fields {
        /// Number of words found.
        found: usize,
    },
    /// A field has an unsupported form.
    #[error("the {field} is `{given}`; allowed: numbers and names, with `*`, `,`, `-` and `/`")]
    Form {
        /// The name of the field.
        field: &'static str,
        /// The text of the field.
        given: String,
    },
    /// The value of a field is invalid.
    #[error("the schedule is invalid: {why}")]
    Value {
        /// The fault, and the allowed values.
        why: String,
    },
    /// The time zone is unknown.
    #[error(
        "`{given}` is not a time zone; allowed: names of the IANA database, such as `Europe/Vienna`; the default is `UTC`"
    )]
    Zone {
        /// The text of the time zone.
        given: String,
    },
    /// The schedule is well-formed, but no day matches.
    #[error("the schedule never fires, since no such day exists")]
    Never,
}

/// A schedule of pulls: a cron expression of five fields, followed by the name of a time zone. The default zone is UTC.
///
/// If both the day of the month and the day of the week are given, one of them must match. If one of them begins with
/// `*`, both must match (as in Vixie cron). Names are the first three letters of the English names; 0 and 7 are Sunday.
///
/// At a clock change, a skipped time of day does not fire on that day, and a repeated one fires twice. UTC has no clock
/// changes.
#[derive(Clone)]
pub struct PullSchedule {
    text: String,
    crontab: Crontab,
}

impl PullSchedule {
    /// Parses a schedule.
    ///
    /// # Errors
    /// The text is not a schedule, or the schedule would never fire.
    pub fn parse(text: &str) -> Result<Self, PullScheduleError> {
        if text.len() > SCHEDULE_MAX_BYTES {
            return Err(PullScheduleError::TooLong { size_bytes: text.len() });
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let zone = words.get(FIELDS.len());
        if words.len() != FIELDS.len() + usize::from(zone.is_some()) {
            return Err(PullScheduleError::Fields { found: words.len() });
        }
        for (field, given) in FIELDS.into_iter().zip(&words) {
            if !given.split([',', '-', '/']).all(is_plain) {
                return Err(PullScheduleError::Form { field, given: (*given).to_owned() });
            }
        }
        if let Some(zone) = zone.filter(|zone| TimeZone::get(zone).is_err()) {
            return Err(PullScheduleError::Zone { given: (*zone).to_owned() });
        }
        let text = words.join(" ");
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = parse_crontab_with(&text, options).map_err(|error| parse_schedule_error(&error))?;
        let schedule = Self { text, crontab };
        schedule.next_after(Timestamp::UNIX_EPOCH).ok_or(PullScheduleError::Never)?;
        Ok(schedule)
    }

    /// The first time after `after` at which the schedule fires: a whole minute. `None` near the end of all timestamps.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from = after;
        for _ in 0..SEARCHES_MAX {
            from.checked_add(SEARCH_MARGIN).ok()?;
            if let Ok(next) = self.crontab.find_next(from) {
                return Some(next.timestamp());
            }
            from = from.checked_add(SEARCH_RANGE).ok()?;
        }
        None
    }
}

/// Whether `part` is `*`, a number, or a name of three letters. The library knows more forms (`L`, `15W`,
/// `5#3`), but its `L` fails for December.
fn is_plain(part: &str) -> bool {
    let number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let name = part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    part == "*" || number || name
}

/// Converts an error of the library. Its text points at the fault with `^` in a picture of two lines, followed by the
/// cause.
fn parse_schedule_error(error: &cronexpr::Error) -> PullScheduleError {
    let text = error.to_string();
    let why = text.rsplit_once("^ ").map_or(text.as_str(), |(_, why)| why);
    PullScheduleError::Value { why: why.replace(char::is_control, " ") }
}

impl fmt::Debug for PullSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schedule").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests;
