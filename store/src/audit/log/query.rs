//! Queries of the log.

use domain_base::event::read_open;
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::Deserialize;

/// Which entries to read. Without any field set, the whole log.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Only entries of this session.
    pub session: Option<SessionId>,
    /// Only entries of the verification with this execution id.
    pub execution: Option<String>,
    /// Only entries that the request with this id caused.
    pub request_id: Option<String>,
    /// Only events of this name.
    pub event: Option<String>,
    /// Only entries at or after this time.
    pub since: Option<Timestamp>,
    /// Only entries with a higher number.
    pub after: u64,
    /// The most entries to return.
    pub limit: usize,
    /// Return the last matching entries instead of the first; in ascending order in both cases.
    pub newest: bool,
}

/// The fields of an entry that a query reads.
#[derive(Deserialize)]
pub(super) struct LogEntryFields {
    pub(super) seq: u64,
    event: String,
    #[serde(default, deserialize_with = "read_open")]
    session_id: Option<SessionId>,
    execution_id: Option<String>,
    /// The id of a review is the `execution_id` of its decision.
    review_id: Option<String>,
    caller: Option<LogCallerFields>,
    pub(super) timestamp: Timestamp,
}

/// The fields of an entry's caller that a query reads.
#[derive(Deserialize)]
struct LogCallerFields {
    /// Missing if the caller was erased.
    request_id: Option<String>,
}

impl LogQuery {
    /// The query for the entries after `seq`, with `found` entries subtracted from its limit.
    pub(super) fn after(&self, seq: u64, found: usize) -> Self {
        Self { after: seq, limit: self.limit.saturating_sub(found), newest: false, ..self.clone() }
    }

    pub(super) fn matches(&self, fields: &LogEntryFields) -> bool {
        fields.seq > self.after
            && self.session.as_ref().is_none_or(|session| fields.session_id.as_ref() == Some(session))
            && self.execution.as_ref().is_none_or(|execution| {
                fields.execution_id.as_ref().or(fields.review_id.as_ref()) == Some(execution)
            })
            && self.request_id.as_ref().is_none_or(|request_id| {
                fields.caller.as_ref().is_some_and(|caller| caller.request_id.as_ref() == Some(request_id))
            })
            && self.event.as_ref().is_none_or(|event| fields.event == *event)
            && self.since.is_none_or(|since| fields.timestamp >= since)
    }
}
