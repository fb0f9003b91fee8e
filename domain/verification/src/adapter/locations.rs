//! The locations of metadata in an answer, parsed, and the check of this metadata that rejects an answer which was given
//! before (RFC-0002, "Oracle Integrity Requirements": replay detection).

use super::{Adapter, AdapterError, AnswerLocation};
use crate::oracle_call::AnswerFault;
use domain_base::decimal::{Decimal, Rounding};
use domain_base::moment::{CLOCK_SKEW_MAX, Date, format_span, read_http_date};
use domain_base::raw::SourceValue;
use domain_ground::path::RawFieldPath;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The maximum length of the name of a header, in bytes.
const HEADER_MAX_BYTES: usize = 64;
/// The maximum length of a version or a nonce, in bytes.
const WORD_MAX_BYTES: usize = 256;
/// The allowed forms of a version and a nonce, and of the time of an issue or an observation.
const SHORT: &str = "allowed: a text or a number of at most 256 bytes";
const MOMENT: &str = "allowed: a date of RFC 3339 or of HTTP, or seconds since 1970";

#[derive(Debug)]
pub(super) enum ParsedAnswerLocation {
    /// The header of this name, in lower case.
    Header(String),
    /// The path in the body.
    Path(RawFieldPath),
}

/// The locations that an adapter defines.
#[derive(Debug)]
pub(super) struct MetadataLocations {
    pub(super) version: Option<ParsedAnswerLocation>,
    pub(super) observed_at: Option<ParsedAnswerLocation>,
    pub(super) issued_at: Option<ParsedAnswerLocation>,
    pub(super) nonce: Option<ParsedAnswerLocation>,
}

#[derive(Debug)]
pub(super) struct AnswerMetadata {
    pub(super) version: Option<String>,
    pub(super) observed_at: Option<Timestamp>,
    pub(super) issued_at: Option<Timestamp>,
    pub(super) nonce: Option<String>,
}

impl MetadataLocations {
    /// Parses the locations of `adapter`. If answers are signed, the signature must cover all of them.
    pub(super) fn new(adapter: &Adapter) -> Result<Self, AdapterError> {
        let is_signed = adapter.signature.is_some();
        for (field, header) in adapter.signature.iter().flat_map(|policy| policy.headers()) {
            header_name(field, header)?;
        }
        let at = |field, location: &Option<AnswerLocation>| match location {
            None => Ok(None),
            Some(AnswerLocation::Header(_)) if is_signed => Err(AdapterError::Unsigned { field }),
            Some(AnswerLocation::Header(header)) => {
                header_name(field, header).map(ParsedAnswerLocation::Header).map(Some)
            }
            Some(AnswerLocation::Path(path)) => {
                let bad = |fault: String| AdapterError::Place { field, fault };
                let path = RawFieldPath::parse(path).map_err(|error| bad(error.to_string()))?;
                if path.is_group() {
                    return Err(bad(format!("`{}` leads to a group, not to one value", path.as_str())));
                }
                Ok(Some(ParsedAnswerLocation::Path(path)))
            }
        };
        Ok(Self {
            version: at("version", &adapter.version)?,
            observed_at: at("observed_at", &adapter.observed_at)?,
            issued_at: at("issued_at", &adapter.issued_at)?,
            nonce: at("nonce", &adapter.nonce)?,
        })
    }

    /// Reads the metadata of an answer with this body and these headers. A missing time of issue or nonce is
    /// not an error here: the replay check reports it.
    ///
    /// # Errors
    /// If a value is missing or has another form. The message does not quote it.
    pub(super) fn read(
        &self,
        body: &SourceValue,
        headers: &BTreeMap<String, String>,
    ) -> Result<AnswerMetadata, String> {
        let fault = |field: &str, fault: &str| format!("the value at `{field}` is invalid; {fault}");
        let word = |field: &str, at: &Option<ParsedAnswerLocation>| {
            let found = at.as_ref().and_then(|at| at.find(body, headers));
            found.map(|raw| read_short_text(raw).ok_or_else(|| fault(field, SHORT))).transpose()
        };
        let moment = |field: &str, at: &Option<ParsedAnswerLocation>| {
            let found = at.as_ref().and_then(|at| at.find(body, headers));
            found.map(|raw| read_moment(&raw).ok_or_else(|| fault(field, MOMENT))).transpose()
        };
        let of_itself = AnswerMetadata {
            version: word("version", &self.version)?,
            observed_at: moment("observed_at", &self.observed_at)?,
            issued_at: moment("issued_at", &self.issued_at)?,
            nonce: word("nonce", &self.nonce)?,
        };
        let missing = [
            ("version", self.version.is_some() && of_itself.version.is_none()),
            ("observed_at", self.observed_at.is_some() && of_itself.observed_at.is_none()),
        ];
        match missing.into_iter().find(|(_, is_missing)| *is_missing) {
            Some((field, _)) => Err(format!("the value at `{field}` is missing")),
            None => Ok(of_itself),
        }
    }

    /// The headers that are read, in lower case.
    pub(super) fn headers(&self) -> impl Iterator<Item = &str> {
        let locations = [&self.version, &self.observed_at, &self.issued_at, &self.nonce];
        locations.into_iter().flatten().filter_map(|at| match at {
            ParsedAnswerLocation::Header(name) => Some(name.as_str()),
            ParsedAnswerLocation::Path(_) => None,
        })
    }
}

impl ParsedAnswerLocation {
    /// The value at this location in an answer; `None` if it is missing or null.
    fn find(&self, body: &SourceValue, headers: &BTreeMap<String, String>) -> Option<SourceValue> {
        match self {
            Self::Header(name) => headers.get(name).cloned().map(SourceValue::Text),
            Self::Path(path) => path.find(body).filter(|found| **found != SourceValue::Null).cloned(),
        }
    }
}

/// The text or number `raw`, if it is short and has no control character.
fn read_short_text(raw: SourceValue) -> Option<String> {
    let (SourceValue::Text(text) | SourceValue::Number(text)) = raw else { return None };
    let fits = (1..=WORD_MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// `name` in lower case, if it is a valid header name (RFC 9110, 5.6.2).
fn header_name(field: &'static str, name: &str) -> Result<String, AdapterError> {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if (1..=HEADER_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_of_token) {
        return Ok(name.to_ascii_lowercase());
    }
    let fault = format!("not a valid header name; allowed: 1 to {HEADER_MAX_BYTES} letters, digits and `-`");
    Err(AdapterError::Place { field, fault })
}

/// Checks that an answer with this time of issue and this returned nonce is current.
///
/// `sent` is the nonce of the request. `last_issued_at` is the time of issue of the last accepted answer.
///
/// # Errors
/// `AnswerFault::Replay`, with the reason in words. The only content of the answer in it is the time of issue.
pub(super) fn check_replay(
    adapter: &Adapter,
    issued_at: Option<Timestamp>,
    nonce: Option<&str>,
    sent: &str,
    last_issued_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), (AnswerFault, String)> {
    let replay = |cause: String| Err((AnswerFault::Replay, cause));
    if adapter.nonce.is_some() && nonce != Some(sent) {
        return replay("it does not return the nonce that was sent".into());
    }
    if adapter.issued_at.is_none() {
        return Ok(());
    }
    let Some(issued_at) = issued_at else { return replay("its time of issue is missing".into()) };
    if now.saturating_add(CLOCK_SKEW_MAX).is_ok_and(|latest| issued_at > latest) {
        return replay(format!("its time of issue is {issued_at}, which is in the future"));
    }
    let age = now.duration_since(issued_at);
    let is_over = |most_s: &u64| age > SignedDuration::from_secs(i64::try_from(*most_s).unwrap_or(i64::MAX));
    if let Some(most_s) = adapter.max_issue_age_seconds.filter(is_over) {
        let most = format_span(most_s);
        return replay(format!("it was issued at {issued_at}, over {most} ago (`max_issue_age_seconds`)"));
    }
    match last_issued_at.filter(|last| issued_at < *last) {
        Some(last) => {
            replay(format!("it was issued at {issued_at}, before the last accepted answer ({last})"))
        }
        None => Ok(()),
    }
}

/// Parses a time: a date of RFC 3339, a date of HTTP (RFC 9110, 5.6.7), or seconds since 1970 (`NumericDate`
/// of RFC 7519).
fn read_moment(raw: &SourceValue) -> Option<Timestamp> {
    match raw {
        SourceValue::Text(text) => moment_of_text(text),
        SourceValue::Number(digits) => {
            let seconds: Decimal = digits.parse().ok()?;
            let whole = seconds.round(0, Rounding::HalfEven).ok()?;
            Timestamp::from_second(whole.to_i64()?).ok()
        }
        _ => None,
    }
}

/// Parses a time that is a text, as in [`read_moment`].
fn moment_of_text(text: &str) -> Option<Timestamp> {
    let date = Date::read(text).and_then(|date| date.moment());
    date.or_else(|| read_http_date(text))
}
