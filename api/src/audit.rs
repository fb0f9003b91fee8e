//! The audit log.

use crate::base::page::PageLimit;
use jiff::Timestamp;
use serde::Deserialize;

/// The highest number of entries in one answer: 10,000; by default 100.
pub type LogLimit = PageLimit<100, 10_000>;

/// The query of `GET /v1/log` and `GET /v1/log/follow`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogParams {
    /// Only entries of this session.
    pub session: Option<String>,
    /// Only entries of the verification with this execution id.
    pub execution: Option<String>,
    /// Only entries that the request with this id caused.
    pub request_id: Option<String>,
    /// Only events of this name.
    pub event: Option<String>,
    /// Only entries at or after this time.
    pub since: Option<Timestamp>,
    /// Only entries with a higher `seq`; without it, the newest.
    pub after: Option<u64>,
    /// The highest number of entries in the answer.
    #[serde(default)]
    pub limit: LogLimit,
}
