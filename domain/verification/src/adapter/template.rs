//! An endpoint with variables, in the simplest form of RFC 6570: an inserted value is one part of a path or
//! of a query, and cannot change anything else in the URL.

use super::ENDPOINT_MAX_BYTES;
use domain_base::moment::Date;
use domain_base::wording::excerpt;
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The variable for a text that is different in each request.
pub const NONCE: &str = "nonce";
/// The variable for the requested time.
pub const POINT_IN_TIME: &str = "point_in_time";

/// Why an endpoint is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("it has {size_bytes} bytes; allowed: {ENDPOINT_MAX_BYTES}")]
    TooLong {
        /// The length of the endpoint, in bytes.
        size_bytes: usize,
    },
    /// A character is not allowed in a URL.
    #[error(
        "it contains {found:?}, which is not allowed in a URL; allowed: visible ASCII, and %xx for other bytes"
    )]
    Letter {
        /// The character.
        found: char,
    },
    /// The scheme, the host or the path is missing.
    #[error("it does not begin with https:// or http://, a host, and `/`")]
    Start,
    /// A variable is in the host or before it.
    #[error(
        "a variable is not allowed in the scheme, the host or the port: a question must not select the server"
    )]
    Host,
    /// The URL contains a user name or a password.
    #[error("it has a user or a password before the host; allowed: the configuration's credentials")]
    Login,
    /// The URL has a fragment.
    #[error("it has a fragment (`#`), which is never sent")]
    Fragment,
    /// A brace has no counterpart, or no name in between.
    #[error("a `{{` and a `}}` belong together, with a name between them")]
    Braces,
    /// A part of the path would be resolved to another path.
    #[error("a part of its path is `.` or `..`")]
    Dots,
    /// A variable is unknown.
    #[error("`{{{name}}}` is unknown; allowed: {allowed}")]
    Unknown {
        /// The variable.
        name: String,
        /// The known variables.
        allowed: String,
    },
}

/// Why a source is not queried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedQuestionError {
    /// The adapter only covers another subject, so it has no record of this one.
    #[error("this adapter only covers {axis} = {value}")]
    Elsewhere {
        /// The identity axis.
        axis: String,
        /// The only value that the adapter covers.
        value: String,
    },
    /// The adapter cannot answer about the past.
    #[error("this adapter only covers the present: neither its endpoint nor its records have a time")]
    Past,
    /// The question leaves an identity axis open.
    #[error("`where` has no value for {axis}")]
    Open {
        /// The missing axis.
        axis: String,
    },
    /// A value cannot be inserted into the endpoint.
    #[error("the value of {axis} cannot be inserted into the endpoint: {fault}")]
    Value {
        /// The axis of the value.
        axis: String,
        fault: &'static str,
    },
    /// The endpoint with its values is too long.
    #[error("the endpoint with its values has {size_bytes} bytes; allowed: {ENDPOINT_MAX_BYTES}")]
    TooLong {
        /// The length with all values, in bytes.
        size_bytes: usize,
    },
}

/// A parsed endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointTemplate {
    parts: Vec<EndpointPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum EndpointPart {
    /// Literal text.
    Text(String),
    Variable(String),
}

impl EndpointTemplate {
    /// Parses an endpoint. Its variables can be `axes`, `nonce` and `point_in_time`.
    pub fn parse(text: &str, axes: &[&str]) -> Result<Self, EndpointError> {
        if text.len() > ENDPOINT_MAX_BYTES {
            return Err(EndpointError::TooLong { size_bytes: text.len() });
        }
        if let Some(found) = text.chars().find(|letter| !letter.is_ascii_graphic() || *letter == '\\') {
            return Err(EndpointError::Letter { found });
        }
        if text.contains('#') {
            return Err(EndpointError::Fragment);
        }
        let tail = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = tail.and_then(|rest| rest.split_once('/')).map(|(host, _)| host);
        let host = host.filter(|host| !host.is_empty() && !host.contains('?')).ok_or(EndpointError::Start)?;
        if host.contains(['{', '}']) {
            return Err(EndpointError::Host);
        }
        if host.contains('@') {
            return Err(EndpointError::Login);
        }
        let template = Self { parts: parts(text, axes)? };
        // inserted values are checked by `expand`
        if has_dots(&template.sample()) {
            return Err(EndpointError::Dots);
        }
        Ok(template)
    }

    /// The endpoint with `x` for each variable: the URL as far as it is known before a query.
    pub fn sample(&self) -> String {
        self.text(|_| "x")
    }

    /// Whether the endpoint contains the variable `name`.
    pub fn has_variable(&self, name: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, EndpointPart::Variable(named) if named == name))
    }

    /// The URL of a query about `subject`.
    pub fn expand(
        &self,
        subject: &BTreeMap<String, AxisValue>,
        point_in_time: Timestamp,
        nonce: &str,
    ) -> Result<String, UnsupportedQuestionError> {
        let mut values = BTreeMap::new();
        for part in &self.parts {
            let EndpointPart::Variable(name) = part else { continue };
            let value = match name.as_str() {
                NONCE => nonce.to_owned(),
                POINT_IN_TIME => {
                    Date::from_moment(point_in_time).map(|date| date.to_string()).unwrap_or_default()
                }
                axis => {
                    let open = || UnsupportedQuestionError::Open { axis: axis.to_owned() };
                    subject.get(axis).ok_or_else(open)?.to_string()
                }
            };
            let fault = |fault| UnsupportedQuestionError::Value { axis: name.clone(), fault };
            if value.is_empty() {
                return Err(fault("it is empty"));
            }
            if value.chars().any(char::is_control) {
                return Err(fault("it contains a control character"));
            }
            values.insert(name.as_str(), encoded(&value));
        }
        let url = self.text(|name| values.get(name).map_or("", String::as_str));
        if url.len() > ENDPOINT_MAX_BYTES {
            return Err(UnsupportedQuestionError::TooLong { size_bytes: url.len() });
        }
        if has_dots(&url) {
            let axis = values.into_keys().collect::<Vec<_>>().join(", ");
            return Err(UnsupportedQuestionError::Value {
                axis,
                fault: "`.` and `..` would change the path",
            });
        }
        Ok(url)
    }

    /// The endpoint with the value of each variable.
    fn text<'v>(&self, value: impl Fn(&str) -> &'v str) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                EndpointPart::Text(part) => text.push_str(part),
                EndpointPart::Variable(name) => text.push_str(value(name)),
            }
        }
        text
    }
}

/// Splits `text` into variables and literal text.
fn parts(text: &str, axes: &[&str]) -> Result<Vec<EndpointPart>, EndpointError> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or(EndpointError::Braces)?;
        if before.contains('}') || name.is_empty() || name.contains('{') {
            return Err(EndpointError::Braces);
        }
        if ![NONCE, POINT_IN_TIME].contains(&name) && !axes.contains(&name) {
            let allowed = axes.iter().chain(&[NONCE, POINT_IN_TIME]).map(|name| format!("`{{{name}}}`"));
            let allowed = allowed.collect::<Vec<_>>().join(", ");
            return Err(EndpointError::Unknown { name: excerpt(name), allowed });
        }
        parts.extend([EndpointPart::Text(before.to_owned()), EndpointPart::Variable(name.to_owned())]);
        rest = after;
    }
    if rest.contains('}') {
        return Err(EndpointError::Braces);
    }
    parts.push(EndpointPart::Text(rest.to_owned()));
    Ok(parts)
}

/// Percent-encodes all bytes except the unreserved characters of RFC 3986.
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

/// Whether a part of the path is `.` or `..`, also if it is percent-encoded: URL parsers resolve it.
fn has_dots(url: &str) -> bool {
    let path = url.split('?').next().unwrap_or_default();
    path.split('/').any(|part| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}
