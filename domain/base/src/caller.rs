//! The caller that caused an entry.

use crate::session_id::ApplicationName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest request id, in characters.
pub const REQUEST_ID_MAX_CHARS: usize = 128;
/// The maximum length of the reason that an operator gives for an action, in bytes. Reviews have a limit of their own.
pub const OPERATOR_REASON_MAX_BYTES: usize = 1024;

/// The process that sent a request, as the kernel reports it (`SO_PEERCRED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PeerCredentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Process id; null if the kernel does not report it.
    pub pid: Option<i32>,
}

/// A socket that callers name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallerSocket {
    /// The socket for reviewers.
    Review,
}

/// The user who made a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidingUser {
    /// The process that sent the decision.
    pub peer: PeerCredentials,
    /// The name of the user; `None` if the system has none for the user id.
    pub name: Option<String>,
}

impl From<PeerCredentials> for DecidingUser {
    /// The user without a name.
    fn from(peer: PeerCredentials) -> Self {
        Self { peer, name: None }
    }
}

/// The process that sent a request, and the id of that request.
///
/// An entry has a caller if a request caused it, and none if the daemon acted on its own: a schedule, a probe, a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestCaller {
    /// The process, as the kernel reports it.
    #[serde(flatten)]
    pub peer: PeerCredentials,
    /// The socket of the request, if it is the one for reviewers; absent for the other two.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub socket: Option<CallerSocket>,
    /// The host of the cluster on which the process runs; absent without a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub host: Option<String>,
    /// The application of the process; absent for a request on the control socket or the socket for reviewers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application: Option<ApplicationName>,
    /// The request's `X-Request-Id`: the caller's own, or one that the daemon generated. 1 to 128 visible ASCII
    /// characters.
    pub request_id: String,
    /// The trace of the request, from its `traceparent` (W3C Trace Context), or started by the daemon; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub trace_id: Option<TraceId>,
    /// Whether the trace is recorded. It is passed on to calls, and not logged.
    #[serde(skip)]
    pub is_trace_sampled: bool,
    /// The user id that owns what the request creates; `None` if applications are configured, which own it. It is not logged.
    #[serde(skip)]
    pub owner_uid: Option<u32>,
}

/// The application, or the user, that a verification belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestOwner {
    /// The application.
    pub application: ApplicationName,
    /// The user id of its process; absent if applications were configured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub uid: Option<u32>,
}

impl RequestOwner {
    /// Whether `other` is the same owner. If applications are configured, user ids do not count.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.application == other.application && (self.uid.is_none() || self.uid == other.uid)
    }
}

impl RequestCaller {
    /// The owner of what the request creates; `None` on the control socket and the socket for reviewers.
    #[must_use]
    pub fn owner(&self) -> Option<RequestOwner> {
        Some(RequestOwner { application: self.application.clone()?, uid: self.owner_uid })
    }

    /// The trace of the request, if it has one.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        let trace_id = self.trace_id.clone()?;
        Some(TraceContext { trace_id, is_sampled: self.is_trace_sampled, span_id: None })
    }
}

/// Length of a `traceparent` of version 00.
const TRACEPARENT_CHARS: usize = 55;
const TRACE_ID_DIGITS: usize = 32;
const SPAN_ID_DIGITS: usize = 16;
/// The flag that the caller may have recorded the trace. The other flags are not defined.
const SAMPLED: u8 = 1;

/// The id of a trace: 32 lower-case hexadecimal digits, not all of them 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(pattern = "^[0-9a-f]{32}$")]
pub struct TraceId(String);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TraceId {
    /// The id with this number; `None` for 0.
    #[must_use]
    pub fn new(id: u128) -> Option<Self> {
        (id != 0).then(|| Self(format!("{id:032x}")))
    }

    /// The number of the id.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        // the text has 32 hexadecimal digits, except in a damaged row
        u128::from_str_radix(&self.0, 16).unwrap_or_default().to_be_bytes()
    }
}

/// The id of a span: 16 lower-case hexadecimal digits, not all of them 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpanId(String);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SpanId {
    /// The id with this number; `None` for 0.
    #[must_use]
    pub fn new(id: u64) -> Option<Self> {
        (id != 0).then(|| Self(format!("{id:016x}")))
    }

    /// The number of the id.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 8] {
        // as for the id of a trace
        u64::from_str_radix(&self.0, 16).unwrap_or_default().to_be_bytes()
    }
}

/// The trace that work belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    pub trace_id: TraceId,
    /// Whether the trace is recorded: by the caller, or by the daemon.
    pub is_sampled: bool,
    /// The span of this daemon that the work belongs to; absent if the daemon exports no span of the trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub span_id: Option<SpanId>,
}

/// The value of a `traceparent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    pub trace: TraceContext,
    /// The id of the caller's span.
    pub parent_id: SpanId,
}

impl TraceParent {
    /// Parses a header. `None` if it is invalid. Of a version after 00, the fields of version 00 are used.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        if header.len() < TRACEPARENT_CHARS {
            return None;
        }
        let mut fields = header.split('-');
        let version = fields.next().filter(|version| is_hex(version, 2) && *version != "ff")?;
        let trace_id = fields.next().filter(|id| is_id(id, TRACE_ID_DIGITS))?;
        let parent_id = fields.next().filter(|id| is_id(id, SPAN_ID_DIGITS))?;
        let flags = fields.next().filter(|flags| is_hex(flags, 2))?;
        if version == "00" && fields.next().is_some() {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok()?;
        let (trace_id, is_sampled) = (TraceId(trace_id.to_owned()), flags & SAMPLED != 0);
        let trace = TraceContext { trace_id, is_sampled, span_id: None };
        Some(Self { trace, parent_id: SpanId(parent_id.to_owned()) })
    }
}

impl TraceContext {
    /// The `traceparent` of a call in the span `span_id`.
    #[must_use]
    pub fn traceparent(&self, span_id: &SpanId) -> String {
        format!("00-{}-{span_id}-{:02x}", self.trace_id, u8::from(self.is_sampled))
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    #[test]
    fn traceparent_of_version_00_and_later_ones_is_read() {
        for (header, is_sampled) in [
            (format!("00-{TRACE}-{PARENT}-01"), true),
            (format!("00-{TRACE}-{PARENT}-00"), false),
            (format!("00-{TRACE}-{PARENT}-fe"), false),
            (format!("cc-{TRACE}-{PARENT}-03"), true),
            (format!("cc-{TRACE}-{PARENT}-01-what-the-future-adds"), true),
            (format!("cc-{TRACE}-{PARENT}-01-"), true),
        ] {
            let read = TraceParent::parse(&header).expect("a valid header");
            assert_eq!(
                (read.trace.is_sampled, &*read.parent_id.to_string()),
                (is_sampled, PARENT),
                "{header}"
            );
            assert_eq!(read.trace.trace_id.to_string(), TRACE, "{header}");
        }
    }

    #[test]
    fn invalid_traceparent_is_ignored() {
        for header in [
            String::new(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-0"),
            format!("00-{TRACE}-{PARENT}-0x"),
            format!("00-{TRACE}-{PARENT}-01-"),
            format!("00-{TRACE}-{PARENT}-01-more"),
            format!("00-{TRACE}-{PARENT}-011"),
            format!(" 00-{TRACE}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", PARENT.to_uppercase()),
            format!("00-{}-{PARENT}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("0-{TRACE}-{PARENT}-01"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("FE-{TRACE}-{PARENT}-01"),
            format!("cc-{TRACE}-{PARENT}-01.more"),
            format!("00-{TRACE}-{PARENT}-\u{e9}"),
        ] {
            assert_eq!(TraceParent::parse(&header), None, "{header:?}");
        }
    }

    proptest! {
        #[test]
        fn traceparent_of_a_call_keeps_the_trace(id in 1_u128.., span_id in 1_u64.., is_sampled: bool) {
            let trace_id = TraceId::new(id).expect("not 0");
            prop_assert_eq!(trace_id.to_bytes(), id.to_be_bytes());
            let trace = TraceContext { trace_id, is_sampled, span_id: None };
            let span_id = SpanId::new(span_id).expect("not 0");
            let read = TraceParent::parse(&trace.traceparent(&span_id)).expect("a valid header");
            prop_assert_eq!((read.trace, read.parent_id), (trace, span_id));
        }
    }
}
