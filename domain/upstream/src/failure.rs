//! The kinds of failures of a request to an upstream.

use std::borrow::Cow;
use std::fmt;

/// The kind of a fault: all that is known of it without the texts of the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFailureKind {
    /// No connection could be opened: the request was not sent.
    Connect,
    /// The daemon lacks file descriptors, memory or ports. The request was not sent, so the upstream's health
    /// does not change.
    Shortage,
    /// The whole answer did not arrive in time.
    Timeout,
    /// The answer has this status, which is not a success.
    Status(u16),
    /// The answer has a success status, but contains an error, which corresponds to this status.
    ErrorAnswer(u16),
    /// The connection broke before the whole answer arrived.
    Broken,
    /// The answer is longer than the limit.
    TooLarge,
    /// The answer is complete and has a success status, but its body cannot be parsed.
    Unreadable,
    /// The mail server replied with this status.
    SmtpStatus(u16),
    /// There is no usable answer; the value is the declared name of the reason.
    Unusable(&'static str),
}

impl fmt::Display for RequestFailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("no connection"),
            Self::Shortage => f.write_str("no resources for a connection"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::Status(status) => write!(f, "HTTP status {status}"),
            Self::ErrorAnswer(status) => {
                write!(f, "an error in an answer with a success status, as HTTP status {status}")
            }
            Self::Broken => f.write_str("the connection broke"),
            Self::TooLarge => f.write_str("the answer is too long"),
            Self::Unreadable => f.write_str("the answer cannot be read"),
            Self::SmtpStatus(status) => write!(f, "SMTP status {status}"),
            Self::Unusable(reason) => write!(f, "no usable answer ({reason})"),
        }
    }
}

impl RequestFailureKind {
    /// The kind as a code for the log's `error_code`.
    #[must_use]
    pub fn error_code(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Connect => "connect",
            Self::Shortage => "shortage",
            Self::Timeout => "timeout",
            Self::Status(status) => return Cow::Owned(format!("http_{status}")),
            Self::ErrorAnswer(status) => return Cow::Owned(format!("error_answer_{status}")),
            Self::Broken => "broken",
            Self::TooLarge => "too_large",
            Self::Unreadable => "unreadable",
            Self::SmtpStatus(status) => return Cow::Owned(format!("smtp_{status}")),
            Self::Unusable(reason) => reason,
        })
    }
}
