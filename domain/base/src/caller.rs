//! The caller that caused an entry.

use crate::application::ApplicationName;
use crate::trace::{TraceContext, TraceId};
use serde::{Deserialize, Serialize};

/// The longest request id, in characters.
pub const REQUEST_ID_MAX_CHARS: usize = 128;

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
    /// The application of the process; absent for a request on the control socket or the socket for reviewers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application: Option<ApplicationName>,
    /// The request's `X-Request-Id`: the caller's own, or one that the daemon generated. 1 to 128 visible ASCII
    /// characters.
    pub request_id: String,
    /// The trace of the request, from its `traceparent` (W3C Trace Context); absent without a valid one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub trace_id: Option<TraceId>,
    /// Whether the `traceparent` has the flag that the trace is recorded. It is passed on to calls, and not logged.
    #[serde(skip)]
    pub is_trace_sampled: bool,
}

impl RequestCaller {
    /// The trace of the request, if it has one.
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        let trace_id = self.trace_id.clone()?;
        Some(TraceContext { trace_id, is_sampled: self.is_trace_sampled })
    }
}
