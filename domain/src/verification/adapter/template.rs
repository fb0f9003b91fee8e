//! An endpoint with places for values in it, after RFC 6570's simplest form: what is put in is one part of a path, or of a
//! query, and cannot become anything else.

use super::ENDPOINT_MAX_BYTES;
use crate::base::date::Date;
use crate::base::wording::excerpt;
use crate::ground::value::Value;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The place of what is another text each time.
pub(super) const NONCE: &str = "nonce";
/// The place of the moment that is asked for.
pub(super) const POINT_IN_TIME: &str = "point_in_time";

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// It is too long.
    #[error("it has {size_bytes} bytes; allowed: {ENDPOINT_MAX_BYTES}")]
    TooLong {
        /// How long it is.
        size_bytes: usize,
    },
    /// It holds what no URL holds.
    #[error("it holds {found:?}, which no URL does; allowed: visible ASCII, and %xx for anything else")]
    Letter {
        /// What.
        found: char,
    },
    /// It does not begin as one.
    #[error("it begins with https:// or http://, a host, and `/`")]
    Start,
    /// There are braces in the host or in front of it.
    #[error("nothing is put into the scheme, the host or the port: a question must not say who is asked")]
    Host,
    /// There is a user or a password in it.
    #[error("it has a user or a password in front of the host; allowed: the configuration's credentials")]
    Login,
    /// It has a part for readers.
    #[error("it has a fragment (`#`), which is never sent")]
    Fragment,
    /// A brace has no other.
    #[error("a `{{` and a `}}` belong together, with a name between them")]
    Braces,
    /// It would lead elsewhere than it says.
    #[error("it has `.` or `..` for a part of its path")]
    Dots,
    /// Something is named that is not known.
    #[error("`{{{name}}}` stands for nothing; allowed: {allowed}")]
    Unknown {
        /// What.
        name: String,
        /// What may be named.
        allowed: String,
    },
}

/// Why a source is not asked a question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// It speaks of other things alone: it has no record of this one.
    #[error("it speaks of nothing else than {axis} {value}")]
    Elsewhere {
        /// By which axis.
        axis: String,
        /// Of which value it speaks.
        value: String,
    },
    /// It knows nothing of the past.
    #[error("it is asked about the present alone: neither its endpoint nor its records name a time")]
    Past,
    /// The question does not say enough.
    #[error("`where` does not say which {axis}")]
    Open {
        /// Which axis is missing.
        axis: String,
    },
    /// A value cannot stand where it should.
    #[error("the value of {axis} cannot stand in the endpoint: {fault}")]
    Value {
        /// On which axis.
        axis: String,
        /// Why not.
        fault: &'static str,
    },
    /// The whole is too long.
    #[error("with the values in it the endpoint has {size_bytes} bytes; allowed: {ENDPOINT_MAX_BYTES}")]
    TooLong {
        /// How long it would be.
        size_bytes: usize,
    },
}

/// An endpoint made ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// It as it stands.
    Text(String),
    /// What the name stands for.
    Named(String),
}

impl Template {
    /// The endpoint that is written `text`, in which the places of `axes` may be named.
    pub(super) fn parse(text: &str, axes: &[&str]) -> Result<Self, BadTemplate> {
        if text.len() > ENDPOINT_MAX_BYTES {
            return Err(BadTemplate::TooLong { size_bytes: text.len() });
        }
        if let Some(found) = text.chars().find(|letter| !letter.is_ascii_graphic() || *letter == '\\') {
            return Err(BadTemplate::Letter { found });
        }
        if text.contains('#') {
            return Err(BadTemplate::Fragment);
        }
        let behind = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = behind.and_then(|rest| rest.split_once('/')).map(|(host, _)| host);
        let host = host.filter(|host| !host.is_empty() && !host.contains('?')).ok_or(BadTemplate::Start)?;
        if host.contains(['{', '}']) {
            return Err(BadTemplate::Host);
        }
        if host.contains('@') {
            return Err(BadTemplate::Login);
        }
        let template = Self { parts: parts(text, axes)? };
        // what is put in later is looked at then
        if has_dots(&template.sample()) {
            return Err(BadTemplate::Dots);
        }
        Ok(template)
    }

    /// It with `x` in each place, which is all that can be said of where it leads before anything is asked.
    pub(super) fn sample(&self) -> String {
        self.text(|_| "x")
    }

    /// Whether the place `name` is in it.
    pub(super) fn names(&self, name: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Named(named) if named == name))
    }

    /// The URL by which `thing` is asked for.
    pub(super) fn expand(
        &self,
        thing: &BTreeMap<String, Value>,
        point_in_time: Timestamp,
        nonce: &str,
    ) -> Result<String, Unasked> {
        let mut values = BTreeMap::new();
        for part in &self.parts {
            let Part::Named(name) = part else { continue };
            let value = match name.as_str() {
                NONCE => nonce.to_owned(),
                POINT_IN_TIME => {
                    Date::of_moment(point_in_time).map(|date| date.to_string()).unwrap_or_default()
                }
                axis => {
                    let open = || Unasked::Open { axis: axis.to_owned() };
                    thing.get(axis).ok_or_else(open)?.to_string()
                }
            };
            let fault = |fault| Unasked::Value { axis: name.clone(), fault };
            if value.is_empty() {
                return Err(fault("it is empty"));
            }
            if value.chars().any(char::is_control) {
                return Err(fault("it holds a control character"));
            }
            values.insert(name.as_str(), encoded(&value));
        }
        let url = self.text(|name| values.get(name).map_or("", String::as_str));
        if url.len() > ENDPOINT_MAX_BYTES {
            return Err(Unasked::TooLong { size_bytes: url.len() });
        }
        if has_dots(&url) {
            let axis = values.into_keys().collect::<Vec<_>>().join(", ");
            return Err(Unasked::Value { axis, fault: "`.` and `..` would lead elsewhere" });
        }
        Ok(url)
    }

    /// It with what each name stands for.
    fn text<'v>(&self, value: impl Fn(&str) -> &'v str) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Named(name) => text.push_str(value(name)),
            }
        }
        text
    }
}

/// The parts of `text`: what stands in braces, and what is around that.
fn parts(text: &str, axes: &[&str]) -> Result<Vec<Part>, BadTemplate> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').ok_or(BadTemplate::Braces)?;
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return Err(BadTemplate::Braces);
        }
        if ![NONCE, POINT_IN_TIME].contains(&name) && !axes.contains(&name) {
            let allowed = axes.iter().chain(&[NONCE, POINT_IN_TIME]).map(|name| format!("`{{{name}}}`"));
            let allowed = allowed.collect::<Vec<_>>().join(", ");
            return Err(BadTemplate::Unknown { name: excerpt(name), allowed });
        }
        parts.extend([Part::Text(before.to_owned()), Part::Named(name.to_owned())]);
        rest = behind;
    }
    if rest.contains('}') {
        return Err(BadTemplate::Braces);
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

/// Every byte but those that RFC 3986 does not reserve as `%xx`.
fn encoded(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Whether a part of the path is one that readers of URLs resolve, however it is written.
fn has_dots(url: &str) -> bool {
    let path = url.split('?').next().unwrap_or_default();
    path.split('/').any(|part| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}
