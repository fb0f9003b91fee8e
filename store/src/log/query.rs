//! Which entries of the log are read.

use domain::SessionId;
use jiff::Timestamp;
use serde::Deserialize;

/// Which entries to read. Without any field set, the whole log.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Only entries that speak of this session.
    pub session: Option<SessionId>,
    /// Only entries of the verification of this execution id.
    pub execution: Option<String>,
    /// Only entries that the request of this id caused.
    pub request_id: Option<String>,
    /// Only events of this name.
    pub event: Option<String>,
    /// Only entries at or after this time.
    pub since: Option<Timestamp>,
    /// Only entries with a higher number.
    pub after: u64,
    /// The most entries to give.
    pub limit: usize,
    /// The last ones of those that match instead of the first; either way the lowest number comes first.
    pub newest: bool,
}

/// What a query looks at in an entry.
#[derive(Deserialize)]
pub(super) struct Looked {
    pub(super) seq: u64,
    event: String,
    session_id: Option<SessionId>,
    execution_id: Option<String>,
    /// A review has the name of the decision that it comes of.
    review_id: Option<String>,
    caller: Option<LookedCaller>,
    timestamp: Timestamp,
}

/// What a query looks at in the caller of an entry.
#[derive(Deserialize)]
struct LookedCaller {
    request_id: String,
}

impl LogQuery {
    pub(super) fn matches(&self, looked: &Looked) -> bool {
        looked.seq > self.after
            && self.session.as_ref().is_none_or(|session| looked.session_id.as_ref() == Some(session))
            && self.execution.as_ref().is_none_or(|execution| {
                looked.execution_id.as_ref().or(looked.review_id.as_ref()) == Some(execution)
            })
            && self.request_id.as_ref().is_none_or(|request_id| {
                looked.caller.as_ref().is_some_and(|caller| caller.request_id == *request_id)
            })
            && self.event.as_ref().is_none_or(|event| looked.event == *event)
            && self.since.is_none_or(|since| looked.timestamp >= since)
    }
}
