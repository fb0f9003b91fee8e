//! Reads requests: the body within limits, and its text into types of the domain.

use crate::platform::api::body::DISCARDED_MAX_BYTES;
use crate::platform::config::LimitsSection;
use crate::platform::problem::Problem;
use crate::platform::schema_check::{check_value, read_text};
use crate::platform::service::DaemonService;
use actors_platform::clock::monotonic;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use domain_base::caller::PeerCredentials;
use domain_base::document::AnyDocument;
use domain_base::payload::DuplicateKeyCheck;
use domain_base::problem::{
    APPLICATION_UNKNOWN, INVALID_DOCUMENT, INVALID_REQUEST, INVALID_SESSION_ID, ProblemCode,
};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::wording::{excerpt, reword_serde_error};
use http_body_util::BodyExt;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Uri};
use oracled_domain::documents::DocumentKind;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::de::SliceRead;
use serde_json::error::Category;
use serde_json::{Map, Value, json};
use serde_path_to_error::Track;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::Parameter;

/// The list of the paths of the routes' socket, for errors.
pub(crate) const PATHS: &str = "/openapi.json; this is the routes' socket";

/// Maximum length of an error text about a body, in characters.
const TOLD_MAX_CHARS: usize = 500;
/// Maximum length of the position in such a text, in characters.
const PLACE_MAX_CHARS: usize = 200;

/// The session id in a path, within the configured length.
pub struct PathSessionId(pub SessionId);

impl FromRequestParts<Arc<DaemonService>> for PathSessionId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<DaemonService>) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, service)
            .await
            // the path has escapes that are not UTF-8
            .map_err(|rejection| Problem::new(INVALID_SESSION_ID, rejection.body_text()))?;
        parse_session_id(text, parts.extensions.get(), &service.limits).map(Self)
    }
}

/// Rejects each request of a process that belongs to no application.
pub(crate) fn require_application(request: &Request) -> Result<(), Problem> {
    if request.extensions().get::<ApplicationName>().is_some() {
        return Ok(());
    }
    let peer = request.extensions().get::<PeerCredentials>().copied();
    let ids = peer.map(|peer| format!("user id {} and group id {}", peer.uid, peer.gid));
    let ids = ids.unwrap_or_else(|| "the caller's user id".into());
    let detail = format!("{ids} belong to no application; add one of them to a table `applications.NAME`");
    Err(Problem::new(APPLICATION_UNKNOWN, detail))
}

/// The configuration key of the longest body, and of the longest line of a batch.
const BODY_BYTES: &str = "limits.body_bytes";

/// The whole body of a request, within the limit and declared as JSON.
pub struct JsonBody {
    text: Vec<u8>,
    /// Its part of the memory for all bodies, until the body is dropped.
    _held: Option<OwnedSemaphorePermit>,
}

impl FromRequest<Arc<DaemonService>> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Arc<DaemonService>) -> Result<Self, Problem> {
        check_media_type(request.headers())?;
        Self::read_any_type(request, service).await
    }
}

impl JsonBody {
    /// The body of `request`, of at most `max_bytes`.
    ///
    /// # Errors
    /// If the body is longer, is not declared as JSON, or does not arrive.
    pub(crate) async fn read_within(
        request: Request,
        service: &DaemonService,
        max_bytes: usize,
    ) -> Result<Self, Problem> {
        check_media_type(request.headers())?;
        Self::read(request.into_body(), service, (max_bytes, None)).await
    }

    /// `key` is the configuration key of `max_bytes`, if it has one.
    async fn read(
        mut body: Body,
        service: &DaemonService,
        (max_bytes, key): (usize, Option<&str>),
    ) -> Result<Self, Problem> {
        // a body whose declared length is too large is rejected before it is sent
        if body.size_hint().lower() > max_bytes as u64 {
            return Err(Problem::body_too_large(max_bytes, key));
        }
        let mut text = Vec::new();
        let mut permit: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Problem::body_broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if text.len() + data.len() > max_bytes {
                return Err(Problem::body_too_large(max_bytes, key));
            }
            let more = service.reserve_body(data.len())?;
            match &mut permit {
                Some(permit) => permit.merge(more),
                None => permit = Some(more),
            }
            text.extend_from_slice(&data);
        }
        Ok(Self { text, _held: permit })
    }

    /// A body of any media type, unchanged.
    pub(crate) async fn read_any_type(request: Request, service: &DaemonService) -> Result<Self, Problem> {
        Self::read(request.into_body(), service, (service.limits.body_bytes, Some(BODY_BYTES))).await
    }

    /// The bytes of the body, unchanged.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    #[must_use]
    pub const fn length_bytes(&self) -> usize {
        self.text.len()
    }

    /// Reads the body as a `T`.
    ///
    /// # Errors
    /// `InvalidJson` if the body is not JSON, `InvalidRequest` if it is not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        parse(&self.text)
    }

    /// Reads the body as a `T`, and rejects a name that occurs twice in one object.
    ///
    /// # Errors
    /// `InvalidJson` if the body is not JSON, `InvalidRequest` with the position if it is not such a `T`.
    pub fn parse_strictly<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        parse_strictly(&self.text)
    }
}

/// Reads `text` as a `T`, like [`JsonBody::parse_strictly`].
///
/// # Errors
/// As of [`JsonBody::parse_strictly`].
pub(crate) fn parse_strictly<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    read_strict_json(text, "a request", INVALID_REQUEST)
}

/// Reads `text` as a `T`.
///
/// # Errors
/// `InvalidJson` if the text is not JSON, `InvalidRequest` if it is not a `T`.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let not_json = |error: serde_json::Error| Problem::invalid_json(shorten_error(&error));
    // serde also accepts an array with the fields in their order
    if text.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice::<IgnoredAny>(text).map_err(not_json)?;
        return Err(Problem::new(INVALID_REQUEST, "a request must be an object, not an array"));
    }
    serde_json::from_slice(text).map_err(|error| {
        // serde classifies a value of a wrong type in place of a word as syntax
        let is_json = error.classify() == Category::Data || serde_json::from_slice::<Value>(text).is_ok();
        if is_json {
            Problem::new(INVALID_REQUEST, describe_with_path::<T>(text, &error))
        } else {
            not_json(error)
        }
    })
}

/// The error in `text` with its position. The text is parsed again, since a parser that tracks the position is slower.
fn describe_with_path<T: DeserializeOwned>(text: &[u8], error: &serde_json::Error) -> String {
    let mut json = serde_json::Deserializer::from_slice(text);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Err(error) => shorten_error_with_path(&error),
        // the fault is in the trailing characters
        Ok(_) => shorten_error(&reword_serde_error(&error.to_string())),
    }
}

/// The text of an error, shortened: an unknown name may be as long as the body.
fn shorten_error(error: &impl Display) -> String {
    shorten(&error.to_string(), TOLD_MAX_CHARS)
}

fn shorten(text: &str, chars_max: usize) -> String {
    let end = text.char_indices().nth(chars_max).map(|(end, _)| end);
    end.and_then(|end| text.get(..end)).map_or_else(|| text.to_owned(), |start| format!("{start}…"))
}

/// The same, with the position, which is also shortened, since it may contain an unknown name.
fn shorten_error_with_path(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, message) = (error.path(), shorten_error(&reword_serde_error(&error.inner().to_string())));
    if path.iter().next().is_none() {
        return message;
    }
    format!("{}: {message}", shorten(&path.to_string(), PLACE_MAX_CHARS))
}

fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let essence = essence(headers);
    let is_json =
        essence.eq_ignore_ascii_case("application/json") || essence.to_ascii_lowercase().ends_with("+json");
    if is_json { Ok(()) } else { Err(Problem::unsupported_media_type(&excerpt(essence), "application/json")) }
}

/// The declared media type of a body, without parameters.
fn essence(headers: &HeaderMap) -> &str {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("absent");
    given.split(';').next().unwrap_or_default().trim()
}

/// The session id `text`, within the configured length. A caller of an application names a session without its
/// application, and an administrator with it.
///
/// # Errors
/// `InvalidSessionId`.
pub fn parse_session_id(
    text: String,
    application: Option<&ApplicationName>,
    limits: &LimitsSection,
) -> Result<SessionId, Problem> {
    let max_chars = limits.session_id_chars;
    let invalid = |fault: String| Problem::new(INVALID_SESSION_ID, fault);
    if application.is_some() && text.contains('/') {
        return Err(invalid("the session id contains '/' (only `A-Z a-z 0-9 _ . : -` allowed); an application names only its own sessions, and an \
             operator reads others by `oraclectl session` and `oraclectl export`"
                .into()));
    }
    let id = SessionId::try_from(text).map_err(|error| invalid(error.to_string()))?;
    let chars = id.local().len();
    if chars > max_chars {
        return Err(invalid(format!("the session id has {chars} characters (1 to {max_chars} allowed)")));
    }
    Ok(application.map_or(id.clone(), |application| id.in_application(application)))
}

/// The query parameters of a request. An unknown parameter is an error, since it may be misspelled.
pub struct QueryParams<T>(pub T);

/// A query parameter that a path has.
struct KnownParam {
    name: String,
    schema: Value,
    is_required: bool,
}

/// The query parameters of `T`. They are built at the first request, since building takes longer than the rest of a read.
fn known_params<T: IntoParams + 'static>() -> &'static [KnownParam] {
    static KNOWN: Mutex<BTreeMap<TypeId, &'static [KnownParam]>> = Mutex::new(BTreeMap::new());
    let known = |param: Parameter| KnownParam {
        schema: json!(param.schema),
        is_required: param.required == Required::True,
        name: param.name,
    };
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // at most one list is leaked for each type of parameters
    all.entry(TypeId::of::<T>())
        .or_insert_with(|| T::into_params(|| None).into_iter().map(known).collect::<Vec<_>>().leak())
}

impl<S: Sync, T: DeserializeOwned + IntoParams + 'static> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let params = parse_params(&parts.uri);
        params.map(Self).map_err(|fault| Problem::new(INVALID_REQUEST, fault))
    }
}

/// Reads the parameters as a `T`, whose schemas decide the types of the values.
///
/// # Errors
/// The fault, with the parameter, its value and the allowed values.
fn parse_params<T: DeserializeOwned + IntoParams + 'static>(uri: &Uri) -> Result<T, String> {
    let Query(given) =
        Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| error.body_text())?;
    let known = known_params::<T>();
    let mut values = Map::new();
    for (name, text) in &given {
        let Some(param) = known.iter().find(|param| param.name == *name) else {
            let known: Vec<_> = known.iter().map(|param| format!("`{}`", param.name)).collect();
            let (name, known) = (excerpt(name), known.join(", "));
            return Err(format!("`{name}` is not a query parameter of this path; allowed: {known}"));
        };
        let value = read_text(text, &param.schema);
        check_value(&value, &param.schema)
            .map_err(|allowed| format!("`{name}` is `{}`; allowed: {allowed}", excerpt(text)))?;
        if values.insert(name.clone(), value).is_some() {
            return Err(format!("`{name}` occurs twice; send it once"));
        }
    }
    let is_missing = |name: &str| !values.contains_key(name);
    if let Some(param) = known.iter().find(|param| param.is_required && is_missing(&param.name)) {
        return Err(format!("`{}` is missing; send it as a query parameter", param.name));
    }
    serde_path_to_error::deserialize(Value::Object(values)).map_err(|error| {
        let (name, cause) = (error.path().to_string(), error.inner().to_string());
        let text = given.iter().find(|(given, _)| *given == name).map(|(_, text)| excerpt(text));
        describe_fault(&name, &text.unwrap_or_default(), &cause)
    })
}

/// The fault of a value that its type does not allow.
fn describe_fault(name: &str, text: &str, cause: &str) -> String {
    match cause.rsplit_once(", expected ") {
        Some((_, allowed)) => format!("`{name}` is `{text}`; allowed: {allowed}"),
        // the cause quotes the value
        None if cause.starts_with('`') => format!("`{name}`: {cause}"),
        None => format!("`{name}` is `{text}`: {cause}"),
    }
}

/// Checks that a request has no query parameters.
///
/// # Errors
/// `InvalidRequest` with the name of the first one.
pub(crate) fn check_no_params(uri: &Uri) -> Result<(), Problem> {
    let params = uri.query().unwrap_or_default();
    let Some(first) = params.split('&').find(|param| !param.is_empty()) else { return Ok(()) };
    let name = excerpt(first.split('=').next().unwrap_or_default());
    let fault = format!("`{name}` is not a query parameter of this path, which has none; remove it");
    Err(Problem::new(INVALID_REQUEST, fault))
}

/// Reads `text` as a `T`. `kind` names it in errors (`a request`). A name must not occur twice in one object,
/// even if `T` ignores it: serde alone silently keeps the last of two equal names in a map.
///
/// # Errors
/// `InvalidJson` if the text is not JSON, else a problem with `code` and the position of the fault.
pub(crate) fn read_strict_json<T: DeserializeOwned>(
    text: &[u8],
    kind: &str,
    code: ProblemCode,
) -> Result<T, Problem> {
    read_with(text, kind, code, |json| T::deserialize(json))
}

/// Reads `text` as a document of this kind, as strictly as [`read`].
///
/// # Errors
/// `InvalidJson`, `InvalidDocument`.
pub(crate) fn read_document(text: &[u8], kind: DocumentKind) -> Result<AnyDocument, Problem> {
    read_with(text, "a document", INVALID_DOCUMENT, |json| kind.read(json))
}

fn read_with<T>(
    text: &[u8],
    kind: &str,
    code: ProblemCode,
    read: impl FnOnce(JsonWithPath<'_, '_>) -> Result<T, serde_json::Error>,
) -> Result<T, Problem> {
    let DuplicateKeyCheck = read_as(
        text,
        |json| DuplicateKeyCheck::deserialize(json),
        |error| match error.inner().classify() {
            Category::Data => Problem::new(code, shorten_error_with_path(&error)),
            Category::Io | Category::Syntax | Category::Eof => {
                Problem::invalid_json(shorten_error(error.inner()))
            }
        },
    )?;
    // serde also accepts an array with the fields in their order
    if text.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::new(code, format!("{kind} must be an object, not an array")));
    }
    // the text is JSON, so any error means a wrong type, even if serde classifies the error as syntax
    read_as(text, read, |error| Problem::new(code, shorten_error_with_path(&error)))
}

/// JSON whose errors have the path of the fault.
type JsonWithPath<'a, 'j> =
    serde_path_to_error::Deserializer<'a, 'a, &'a mut serde_json::Deserializer<SliceRead<'j>>>;

fn read_as<T>(
    text: &[u8],
    read: impl FnOnce(JsonWithPath<'_, '_>) -> Result<T, serde_json::Error>,
    not_taken: impl FnOnce(serde_path_to_error::Error<serde_json::Error>) -> Problem,
) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut track = Track::new();
    let value = read(serde_path_to_error::Deserializer::new(&mut json, &mut track));
    let value = value.map_err(|error| not_taken(serde_path_to_error::Error::new(track.path(), error)))?;
    json.end().map_err(|error| Problem::invalid_json(shorten_error(&error)))?;
    Ok(value)
}

/// Maximum number of lines in one batch.
const SOME_LINES: usize = 64;
/// A batch with this many bytes takes no further line: the answers can be a hundred times as long, and are
/// held until the client reads them.
const SOME_BYTES: usize = 16 * 1024;
/// The media types of newline-delimited JSON; none is registered.
const MEDIA_TYPES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/// A line that is not blank.
#[derive(Debug)]
pub(crate) struct BatchLine {
    /// Line number, from 1; blank lines count.
    pub(crate) number: u64,
    pub(crate) text: Result<Vec<u8>, Problem>,
}

/// The remaining lines of a body.
#[derive(Debug)]
pub(crate) struct BatchLineReader {
    body: Body,
    /// Bytes that have arrived and are not yet in a batch.
    buffer: Vec<u8>,
    /// Length of the beginning of the buffer without a line end.
    scanned: usize,
    /// Number of lines in batches or skipped so far.
    number: u64,
    /// Whether the rest of an overlong line is still to be skipped.
    skipping: bool,
    ended: bool,
    max_bytes: usize,
    /// Maximum time without new bytes.
    idle: Duration,
    /// Maximum time from the first to the last byte of a line.
    whole: Duration,
    /// When the first byte of an incomplete line was in the buffer; `None` without one.
    started_at: Option<Instant>,
    /// The memory for the buffer and the last batch, as a part of the memory for all bodies.
    permit: Option<OwnedSemaphorePermit>,
}

impl BatchLineReader {
    /// The lines of `request`.
    ///
    /// # Errors
    /// `UnsupportedMediaType` if the body is not declared as newline-delimited JSON.
    pub(crate) fn from_request(request: Request, service: &DaemonService) -> Result<Self, Problem> {
        let given = essence(request.headers());
        if !MEDIA_TYPES.iter().any(|known| given.eq_ignore_ascii_case(known)) {
            return Err(Problem::unsupported_media_type(&excerpt(given), "application/x-ndjson"));
        }
        let limits = &service.limits;
        Ok(Self {
            body: request.into_body(),
            buffer: Vec::new(),
            scanned: 0,
            number: 0,
            skipping: false,
            ended: false,
            max_bytes: limits.body_bytes,
            idle: Duration::from_secs(limits.idle_s),
            whole: Duration::from_secs(limits.request_s),
            started_at: None,
            permit: None,
        })
    }

    /// The next batch of lines that are not blank. Waits for a complete line if none has arrived; `None` at the end.
    /// Releases the memory of the previous batch.
    pub(crate) async fn next_batch(&mut self, service: &DaemonService) -> Option<Vec<BatchLine>> {
        self.release();
        loop {
            let lines = self.take_lines();
            if !lines.is_empty() {
                self.started_at = None;
                return Some(lines);
            }
            if self.ended {
                return None;
            }
            self.started_at =
                if self.buffer.is_empty() { None } else { self.started_at.or_else(|| Some(monotonic())) };
            if let Err(problem) = self.read_more(service).await {
                // further lines cannot be separated, or there is no memory for them
                self.ended = true;
                self.buffer.clear();
                return Some(vec![BatchLine { number: self.number + 1, text: Err(problem) }]);
            }
        }
    }

    /// Reads the rest of the body without keeping it: at most [`DISCARDED_MAX_BYTES`], within the time of a request.
    pub(crate) async fn discard_rest(&mut self, service: &DaemonService) {
        (self.buffer, self.ended) = (Vec::new(), true);
        self.release();
        let mut stopping = service.subscribe_stop();
        let body = &mut self.body;
        let discard = async {
            let mut bytes = 0;
            while bytes < DISCARDED_MAX_BYTES
                && let Some(Ok(frame)) = body.frame().await
            {
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        tokio::select! {
            biased;
            _ = timeout(self.whole, discard) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }

    /// Releases the part of the memory for all bodies that is no longer in the buffer.
    fn release(&mut self) {
        if let Some(permit) = &mut self.permit {
            drop(permit.split(permit.num_permits().saturating_sub(self.buffer.len())));
        }
    }

    /// Reads the next bytes into the buffer.
    async fn read_more(&mut self, service: &DaemonService) -> Result<(), Problem> {
        let mut stopping = service.subscribe_stop();
        let left = self.started_at.map(|started_at| self.whole.saturating_sub(started_at.elapsed()));
        let patience = left.map_or(self.idle, |left| left.min(self.idle));
        let frame = tokio::select! {
            biased;
            frame = timeout(patience, self.body.frame()) => frame,
            // lines that have arrived are answered; waiting for further lines would block the stop of the daemon
            _ = stopping.wait_for(|stopping| *stopping) => return Err(Problem::draining()),
        };
        let has_stalled = patience == self.idle;
        let timed_out = || {
            if has_stalled { Problem::body_stalled(self.idle) } else { Problem::request_timeout(self.whole) }
        };
        let frame = frame.map_err(|_| timed_out())?;
        match frame {
            None => self.ended = true,
            Some(frame) => {
                let frame = frame.map_err(|error| Problem::body_broken(error.to_string()))?;
                let Ok(data) = frame.into_data() else { return Ok(()) };
                let more = service.reserve_body(data.len())?;
                match &mut self.permit {
                    Some(permit) => permit.merge(more),
                    None => self.permit = Some(more),
                }
                self.buffer.extend_from_slice(&data);
            }
        }
        Ok(())
    }

    /// Takes lines out of the buffer: the complete ones, the last one at the end of the body, and an overlong
    /// one as soon as it exceeds the limit.
    fn take_lines(&mut self) -> Vec<BatchLine> {
        let (mut lines, mut bytes, mut from) = (Vec::new(), 0, 0);
        while lines.len() < SOME_LINES && bytes < SOME_BYTES {
            let rest = self.buffer.get(from..).unwrap_or_default();
            let unseen = rest.get(self.scanned..).unwrap_or_default();
            let Some(length) = unseen.iter().position(|byte| *byte == b'\n') else {
                self.scanned = rest.len();
                break;
            };
            let length = self.scanned + length;
            let line = rest.get(..length).unwrap_or_default();
            lines.extend(parse_line(line, &mut self.number, mem::take(&mut self.skipping), self.max_bytes));
            (from, bytes, self.scanned) = (from + length + 1, bytes + length, 0);
        }
        self.buffer.drain(..from);
        let open = self.scanned == self.buffer.len();
        if open && self.buffer.len() > self.max_bytes && !self.skipping {
            self.number += 1;
            let problem = Problem::body_too_large(self.max_bytes, Some(BODY_BYTES));
            lines.push(BatchLine { number: self.number, text: Err(problem) });
            self.skipping = true;
        }
        if open && (self.skipping || self.ended) {
            let last = mem::take(&mut self.buffer);
            self.scanned = 0;
            if !self.skipping {
                lines.extend(parse_line(&last, &mut self.number, false, self.max_bytes));
            }
        }
        if self.skipping {
            // a line that is skipped holds no memory
            self.release();
        }
        lines
    }
}

/// The line with `text`; `None` if it is blank, or the end of an overlong line.
fn parse_line(text: &[u8], number: &mut u64, skipped: bool, max_bytes: usize) -> Option<BatchLine> {
    if skipped {
        return None;
    }
    *number += 1;
    if text.trim_ascii().is_empty() {
        return None;
    }
    let text = if text.len() > max_bytes {
        Err(Problem::body_too_large(max_bytes, Some(BODY_BYTES)))
    } else {
        Ok(text.to_vec())
    };
    Some(BatchLine { number: *number, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_audit::wire::LogParams;
    use domain_ground::wire::{RunsParams, UploadParams};
    use domain_verdict::wire::OutboxParams;
    use serde_json::{Value, json};

    fn parse<T: DeserializeOwned + IntoParams + 'static>(query: &str) -> Result<T, String> {
        parse_params(&format!("/v1/path?{query}").parse().expect("a valid URI"))
    }

    fn check_faults<T: DeserializeOwned + IntoParams + 'static>(faults: &[(&str, &[&str])]) {
        for (query, named) in faults {
            let fault = parse::<T>(query).err().expect("the parameters are refused");
            assert!(named.iter().all(|named| fault.contains(named)), "{query}: {fault}");
        }
    }

    #[test]
    fn query_parameter_fault_names_parameter_value_and_what_is_allowed() {
        check_faults::<LogParams>(&[
            ("limit=many", &["`limit`", "`many`", "1 to 10000"]),
            ("limit=0", &["`limit`", "`0`", "1 to 10000"]),
            ("limit=1.5", &["`limit`", "`1.5`", "1 to 10000"]),
            ("limit=99999999999999999999", &["`limit`", "1 to 10000"]),
            ("limit=", &["`limit`", "1 to 10000"]),
            ("limit=1&limit=2", &["`limit`", "twice"]),
            ("after=-1", &["`after`", "`-1`", "at least 0"]),
            ("since=yesterday", &["`since`", "`yesterday`", "2026-11-20T10:00:00Z"]),
            ("colour=blue", &["`colour`", "`session`", "`limit`"]),
        ]);
        check_faults::<OutboxParams>(&[
            ("dead=maybe", &["`dead`", "`maybe`", "true, false"]),
            ("after=a%20b", &["`after`", "`a b`", "1 to 384"]),
        ]);
        check_faults::<RunsParams>(&[("oracle_id=A%20B", &["`oracle_id`", "`A B`", "a-z 0-9 -"])]);
        check_faults::<UploadParams>(&[
            ("version=1", &["`released_at`", "missing"]),
            ("version=1&released_at=9999-12-31", &["`released_at`", "`9999-12-31`", "9999-12-30"]),
        ]);
    }

    #[test]
    fn query_parameters_are_read_by_the_types_of_their_schemas() {
        let params =
            parse::<LogParams>("limit=5&after=18446744073709551615&since=2026-01-01T00:00:00Z&event=1");
        let params = params.expect("valid parameters");
        assert_eq!((*params.limit, params.after, params.event.as_deref()), (5, Some(u64::MAX), Some("1")));
        let params = parse::<UploadParams>("version=2024&released_at=2026-11-20&replace=true");
        let params = params.expect("valid parameters");
        assert_eq!((params.version.as_str(), params.replace), ("2024", true));
        assert_eq!(*parse::<LogParams>("").expect("all have defaults").limit, 100);
    }

    fn read_error<T: DeserializeOwned>(text: &str) -> (&'static str, String) {
        let problem = read_strict_json::<T>(text.as_bytes(), "a request", INVALID_REQUEST);
        let problem = problem.err().expect("the body is rejected");
        (problem.document.code.name, problem.to_string())
    }

    #[test]
    fn repeated_name_is_reported_with_its_position() {
        for (text, prefix) in [
            (r#"{"a": 1, "a": 1}"#, "the name `a` "),
            (r#"{"a": [0, {"b": 1, "c": {}, "b": 2}]}"#, "a[1]: the name `b` "),
            (r#"{"a": {"b": {"x": 1}, "\u0062": null}}"#, "a: the name `b` "),
        ] {
            let (code, message) = read_error::<Value>(text);
            assert_eq!(code, "invalid_request", "{message}");
            assert!(
                message.starts_with(prefix) && message.contains("occurs twice in one object"),
                "{message}"
            );
        }
        let text = br#"{"a": {"b": 1}, "b": [{"a": 1}, {"a": 1.5}]}"#;
        let read: Value =
            read_strict_json(text, "a request", INVALID_REQUEST).expect("no name occurs twice in one object");
        assert_eq!(read, json!({"a": {"b": 1}, "b": [{"a": 1}, {"a": 1.5}]}));
    }

    #[test]
    fn unknown_name_is_reported_with_its_position() {
        use domain_ground::ontology::Ontology;
        let text = r#"{"ontology_id": "ab", "version": "1", "axes": [
            {"axis": "x", "type": "number", "class": "measured", "unti": "g", "description": "x"}]}"#;
        let (code, message) = read_error::<Ontology>(text);
        assert_eq!(code, "invalid_request", "{message}");
        assert!(message.starts_with("axes[0].unti: ") && message.contains("`unti`"), "{message}");
    }

    #[test]
    fn text_that_is_not_json_is_invalid_json() {
        for text in ["", "{", "{} {}", "{'a': 1}", "\u{feff}{}"] {
            assert_eq!(read_error::<Value>(text).0, "invalid_json", "{text}");
        }
        assert_eq!(read_error::<Value>("[1]").0, "invalid_request");
    }
}
