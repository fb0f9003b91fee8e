//! The locations of metadata in an answer, parsed.

use super::error::AdapterError;
use super::replay::moment;
use super::{Adapter, AnswerLocation};
use crate::base::raw::SourceValue;
use crate::ground::path::RawFieldPath;
use jiff::Timestamp;
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
            found.map(|raw| moment(&raw).ok_or_else(|| fault(field, MOMENT))).transpose()
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
