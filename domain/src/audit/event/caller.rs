//! The caller that caused an entry.

use crate::base::trace::{TraceContext, TraceId};
use crate::verdict::application::ApplicationName;
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

/// The process that sent a request, and the id of that request.
///
/// An entry has a caller if a request caused it, and none if the daemon acted on its own: a schedule, a probe, a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RequestCaller {
    /// The process, as the kernel reports it.
    #[serde(flatten)]
    pub peer: PeerCredentials,
    /// The application of the process; absent for a request on the control socket.
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
