//! Where an answer says something of itself, made ready.

use super::error::BadAdapter;
use super::replay::moment;
use super::{Adapter, Place};
use crate::base::raw::Raw;
use crate::ground::path::Path;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The longest name of a header, in bytes.
const HEADER_MAX_BYTES: usize = 64;
/// The longest version or nonce, in bytes.
const WORD_MAX_BYTES: usize = 256;
/// What a version and a nonce are, and what the time of an issue or an observation is.
const SHORT: &str = "allowed: a text or a number of at most 256 bytes";
const MOMENT: &str = "allowed: a date of RFC 3339 or of HTTP, or seconds since 1970";

/// A place made ready.
#[derive(Debug)]
pub(super) enum At {
    /// In the header of this name, in lower case.
    Header(String),
    /// There in the body.
    Path(Path),
}

/// The places that an adapter names.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) version: Option<At>,
    pub(super) observed_at: Option<At>,
    pub(super) issued_at: Option<At>,
    pub(super) nonce: Option<At>,
}

/// What an answer says of itself.
#[derive(Debug)]
pub(super) struct OfItself {
    pub(super) version: Option<String>,
    pub(super) observed_at: Option<Timestamp>,
    pub(super) issued_at: Option<Timestamp>,
    pub(super) nonce: Option<String>,
}

impl Places {
    /// Those of `adapter`, each of which can be found, and which are signed where anything is.
    pub(super) fn new(adapter: &Adapter) -> Result<Self, BadAdapter> {
        let is_signed = adapter.signature.is_some();
        for (field, header) in adapter.signature.iter().flat_map(|policy| policy.headers()) {
            header_name(field, header)?;
        }
        let at = |field, place: &Option<Place>| match place {
            None => Ok(None),
            Some(Place::Header(_)) if is_signed => Err(BadAdapter::Unsigned { field }),
            Some(Place::Header(header)) => header_name(field, header).map(At::Header).map(Some),
            Some(Place::Path(path)) => {
                let bad = |fault: String| BadAdapter::Place { field, fault };
                let path = Path::parse(path).map_err(|error| bad(error.to_string()))?;
                if path.is_group() {
                    return Err(bad(format!("`{}` leads to a group, and not to one place", path.as_str())));
                }
                Ok(Some(At::Path(path)))
            }
        };
        Ok(Self {
            version: at("version", &adapter.version)?,
            observed_at: at("observed_at", &adapter.observed_at)?,
            issued_at: at("issued_at", &adapter.issued_at)?,
            nonce: at("nonce", &adapter.nonce)?,
        })
    }

    /// What stands at the places in an answer with this body and these headers. An issue and a nonce may be missing: that is
    /// for the guard against replays to say.
    ///
    /// # Errors
    /// Where something else stands there, in words that do not quote it.
    pub(super) fn read(&self, body: &Raw, headers: &BTreeMap<String, String>) -> Result<OfItself, String> {
        let fault = |field: &str, fault: &str| format!("what stands at `{field}`: {fault}");
        let word = |field: &str, at: &Option<At>| {
            let found = at.as_ref().and_then(|at| at.find(body, headers));
            found.map(|raw| short(raw).ok_or_else(|| fault(field, SHORT))).transpose()
        };
        let moment = |field: &str, at: &Option<At>| {
            let found = at.as_ref().and_then(|at| at.find(body, headers));
            found.map(|raw| moment(&raw).ok_or_else(|| fault(field, MOMENT))).transpose()
        };
        let of_itself = OfItself {
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
            Some((field, _)) => Err(format!("nothing stands at `{field}`")),
            None => Ok(of_itself),
        }
    }

    /// The headers that are read, in lower case.
    pub(super) fn headers(&self) -> impl Iterator<Item = &str> {
        let places = [&self.version, &self.observed_at, &self.issued_at, &self.nonce];
        places.into_iter().flatten().filter_map(|at| match at {
            At::Header(name) => Some(name.as_str()),
            At::Path(_) => None,
        })
    }
}

impl At {
    /// What stands there in an answer with this body and these headers; nothing where there is none.
    fn find(&self, body: &Raw, headers: &BTreeMap<String, String>) -> Option<Raw> {
        match self {
            Self::Header(name) => headers.get(name).cloned().map(Raw::Text),
            Self::Path(path) => path.find(body).filter(|found| **found != Raw::Null).cloned(),
        }
    }
}

/// The text or the number that `raw` is, where it is short and of one line.
fn short(raw: Raw) -> Option<String> {
    let (Raw::Text(text) | Raw::Number(text)) = raw else { return None };
    let fits = (1..=WORD_MAX_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// `name` in lower case, where a header can be called so (RFC 9110, 5.6.2).
fn header_name(field: &'static str, name: &str) -> Result<String, BadAdapter> {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if (1..=HEADER_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_of_token) {
        return Ok(name.to_ascii_lowercase());
    }
    let fault = format!("no header is called so; allowed: 1 to {HEADER_MAX_BYTES} letters, digits and `-`");
    Err(BadAdapter::Place { field, fault })
}
