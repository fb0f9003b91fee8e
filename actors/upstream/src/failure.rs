//! Faults of a request: their effect on the upstream's health, and whether a retry may help.

use domain_base::moment::read_http_date;
use domain_upstream::event::PERMANENT_STATUSES;
use domain_upstream::health::CircuitCallOutcome;
use jiff::Timestamp;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// The statuses by which an upstream rejects the caller, whatever it asks: its key, its credit, or the name of the model.
pub(crate) const REJECTING_STATUSES: [u16; 4] = [401, 402, 403, 404];
/// Upper limit for a `Retry-After` that is reported, or applied to all calls.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// The kind of a fault.
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
        }
    }
}

/// A request that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}{detail}", if .detail.is_empty() { "" } else { ": " })]
pub struct RequestFailure {
    /// The kind of the fault.
    pub kind: RequestFailureKind,
    /// The wait that the upstream requested.
    pub retry_after: Option<Duration>,
    /// Whether the upstream rejects the caller: its key, its credit, or the name of the model. Further calls are rejected,
    /// too, until an operator acts.
    pub rejects_caller: bool,
    /// Details for people: one short line without secrets.
    pub detail: String,
}

impl RequestFailure {
    pub fn new(kind: RequestFailureKind, detail: String) -> Self {
        let rejects_caller =
            matches!(kind, RequestFailureKind::Status(status) if REJECTING_STATUSES.contains(&status));
        Self { kind, retry_after: None, rejects_caller, detail }
    }

    /// The status of the answer, or of the error in it.
    const fn status(&self) -> Option<u16> {
        match self.kind {
            RequestFailureKind::Status(status) | RequestFailureKind::ErrorAnswer(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the request may have reached the upstream.
    #[must_use]
    pub const fn reached(&self) -> bool {
        !matches!(self.kind, RequestFailureKind::Connect | RequestFailureKind::Shortage)
    }

    /// Whether a retry of the same request may succeed.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self.kind {
            RequestFailureKind::Connect
            | RequestFailureKind::Shortage
            | RequestFailureKind::Timeout
            | RequestFailureKind::Broken => true,
            RequestFailureKind::Status(status) | RequestFailureKind::ErrorAnswer(status) => {
                !self.rejects_caller && matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529)
            }
            RequestFailureKind::TooLarge | RequestFailureKind::Unreadable => false,
        }
    }

    /// The status of an answer that rejects the request itself. The same request is rejected again until the
    /// request, the key or the model changes.
    #[must_use]
    pub fn permanent_status(&self) -> Option<u16> {
        self.status().filter(|status| self.rejects_caller || PERMANENT_STATUSES.contains(status))
    }

    /// The wait that the upstream requests for all calls: with a status that means "busy". At most 1 h.
    #[must_use]
    pub fn requested_wait(&self) -> Option<Duration> {
        let is_busy = !self.rejects_caller && matches!(self.status(), Some(429 | 503 | 529));
        self.retry_after.filter(|_| is_busy).map(|wait| wait.min(RETRY_AFTER_MAX))
    }

    /// Whether the failure counts against the upstream's health. It does not count if the request was wrong,
    /// too large, or exceeded a quota. Other client errors count: with an invalid key, for example, no call
    /// succeeds.
    #[must_use]
    pub const fn is_fault_of_upstream(&self) -> bool {
        match self.kind {
            RequestFailureKind::Status(status) | RequestFailureKind::ErrorAnswer(status) => {
                self.rejects_caller || !matches!(status, 400 | 413 | 422 | 429)
            }
            RequestFailureKind::Shortage => false,
            _ => true,
        }
    }

    /// The effect of a failed probe on the upstream's health. A status from 300 to 499 is neutral: the
    /// upstream is running, and many servers have nothing at the probed path.
    #[must_use]
    pub fn probe_outcome(&self) -> CircuitCallOutcome {
        match self.kind {
            RequestFailureKind::Status(300..=499)
            | RequestFailureKind::TooLarge
            | RequestFailureKind::Shortage => CircuitCallOutcome::Neutral,
            _ => CircuitCallOutcome::Failure(self.to_string()),
        }
    }

    /// The fault as a code for the log's `error_code`.
    #[must_use]
    pub fn error_code(&self) -> String {
        match self.kind {
            RequestFailureKind::Connect => "connect".to_owned(),
            RequestFailureKind::Shortage => "shortage".to_owned(),
            RequestFailureKind::Timeout => "timeout".to_owned(),
            RequestFailureKind::Status(status) => format!("http_{status}"),
            RequestFailureKind::ErrorAnswer(status) => format!("error_answer_{status}"),
            RequestFailureKind::Broken => "broken".to_owned(),
            RequestFailureKind::TooLarge => "too_large".to_owned(),
            RequestFailureKind::Unreadable => "unreadable".to_owned(),
        }
    }
}

/// The wait that a `Retry-After` header requests, in seconds or as a date. `None` if the header is neither.
pub(crate) fn retry_after(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Some(wait) = seconds(header) {
        return Some(wait);
    }
    let date = read_http_date(header)?;
    // a date in the past means no wait
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

/// The wait in a header that has it in milliseconds.
pub(crate) fn retry_after_ms(header: &str) -> Option<Duration> {
    Some(seconds(header.trim())? / 1000)
}

/// The wait in the `RetryInfo` of a Google error, for example `3.5s`.
pub(crate) fn retry_info(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let named = |detail: &&Value| {
        detail.get("@type").and_then(Value::as_str) == Some("type.googleapis.com/google.rpc.RetryInfo")
    };
    let delay = details.iter().find(named)?.get("retryDelay")?.as_str()?;
    seconds(delay.strip_suffix('s')?)
}

/// A number of seconds. RFC 9110 requires a whole number, but some servers send fractions.
fn seconds(text: &str) -> Option<Duration> {
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    Duration::try_from_secs_f64(text.parse().ok().filter(|_| numeric)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failure_is_retryable_only_if_a_retry_may_succeed() {
        let retryable = |kind| RequestFailure::new(kind, String::new()).is_retryable();
        let statuses: Vec<u16> =
            (100..600).filter(|status| retryable(RequestFailureKind::Status(*status))).collect();
        assert_eq!(statuses, [408, 429, 500, 502, 503, 504, 529]);
        for kind in [RequestFailureKind::Connect, RequestFailureKind::Timeout, RequestFailureKind::Broken] {
            assert!(retryable(kind), "{kind}");
        }
        for kind in [RequestFailureKind::TooLarge, RequestFailureKind::Unreadable] {
            assert!(!retryable(kind), "{kind}");
        }
    }

    #[test]
    fn only_request_faults_are_neutral_for_health() {
        let blames = |kind| RequestFailure::new(kind, String::new()).is_fault_of_upstream();
        let forgiven: Vec<u16> =
            (100..600).filter(|status| !blames(RequestFailureKind::Status(*status))).collect();
        assert_eq!(forgiven, [400, 413, 422, 429]);
        for kind in [
            RequestFailureKind::Connect,
            RequestFailureKind::Timeout,
            RequestFailureKind::Broken,
            RequestFailureKind::TooLarge,
            RequestFailureKind::Unreadable,
        ] {
            assert!(blames(kind), "{kind}");
        }
    }

    #[test]
    fn probe_fails_on_missing_answers_and_server_errors() {
        let probed = |kind| RequestFailure::new(kind, "x".into()).probe_outcome();
        for kind in [
            RequestFailureKind::Status(404),
            RequestFailureKind::Status(401),
            RequestFailureKind::Status(429),
            RequestFailureKind::Status(302),
            RequestFailureKind::TooLarge,
        ] {
            assert_eq!(probed(kind), CircuitCallOutcome::Neutral, "{kind}");
        }
        for kind in [
            RequestFailureKind::Connect,
            RequestFailureKind::Timeout,
            RequestFailureKind::Broken,
            RequestFailureKind::Status(500),
            RequestFailureKind::Status(503),
        ] {
            assert_eq!(probed(kind), CircuitCallOutcome::Failure(format!("{kind}: x")));
        }
    }

    #[test]
    fn shortage_of_the_daemon_does_not_blame_the_upstream() {
        let shortage = RequestFailure::new(RequestFailureKind::Shortage, "Too many open files".into());
        assert!(!shortage.is_fault_of_upstream() && !shortage.reached() && shortage.is_retryable());
        assert_eq!(shortage.probe_outcome(), CircuitCallOutcome::Neutral);
    }

    #[test]
    fn request_without_a_connection_has_not_reached_the_upstream() {
        for (kind, reached) in [
            (RequestFailureKind::Connect, false),
            (RequestFailureKind::Timeout, true),
            (RequestFailureKind::Broken, true),
        ] {
            assert_eq!(RequestFailure::new(kind, String::new()).reached(), reached, "{kind}");
        }
    }

    #[test]
    fn retry_after_is_parsed_as_seconds_or_as_a_date() {
        let now = "2026-11-20T10:00:00Z".parse().expect("a valid time");
        for (header, wait_ms) in [
            ("0", Some(0)),
            (" 7 ", Some(7000)),
            ("0.5", Some(500)),
            ("Fri, 20 Nov 2026 10:00:30 GMT", Some(30_000)),
            ("Mon, 20 Nov 2026 10:00:30 GMT", None),
            ("Fri, 20 Nov 26 10:00:30 GMT", None),
            ("Fri, 20 Nov 2026 10:00:60 GMT", None),
            ("Fri, 20 Nov 2026 09:00:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("NaN", None),
            ("inf", None),
            ("1e9", None),
            ("99999999999999999999999", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after(header, now), wait_ms.map(Duration::from_millis), "{header:?}");
        }
        assert!(retry_after("18446744073709", now).is_some(), "long, and no overflow");
    }

    #[test]
    fn wait_in_milliseconds_is_read_and_applies_to_all_calls() {
        assert_eq!(retry_after_ms(" 40000 "), Some(Duration::from_secs(40)));
        assert_eq!([retry_after_ms("-1"), retry_after_ms("soon"), retry_after_ms("")], [None; 3]);
        let asks = |status| {
            let failure = RequestFailure::new(RequestFailureKind::Status(status), String::new());
            RequestFailure { retry_after: Some(Duration::from_secs(9000)), ..failure }.requested_wait()
        };
        assert_eq!([429, 503, 529].map(asks), [Some(RETRY_AFTER_MAX); 3]);
        assert_eq!([302, 400, 401, 500].map(asks), [None; 4]);
    }

    #[test]
    fn rejected_caller_is_a_permanent_fault_of_the_model() {
        for status in [401, 402, 403, 404] {
            let failure = RequestFailure::new(RequestFailureKind::Status(status), String::new());
            assert_eq!((failure.rejects_caller, failure.permanent_status()), (true, Some(status)));
        }
        let quota = RequestFailure::new(RequestFailureKind::ErrorAnswer(429), String::new());
        assert!(quota.is_retryable() && !quota.is_fault_of_upstream() && quota.permanent_status().is_none());
        let no_credit = RequestFailure { rejects_caller: true, ..quota };
        assert!(!no_credit.is_retryable() && no_credit.is_fault_of_upstream());
        assert_eq!(no_credit.permanent_status(), Some(429));
    }

    #[test]
    fn retry_info_is_ignored_where_it_is_malformed() {
        let info = |delay: Value| {
            let help = json!({"@type": "type.googleapis.com/google.rpc.Help"});
            let info = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay});
            retry_info(&json!({"details": [help, info]}))
        };
        assert_eq!(info(json!("3.5s")), Some(Duration::from_millis(3500)));
        assert_eq!(info(json!("59s")), Some(Duration::from_secs(59)));
        for unsound in [json!("3.5"), json!("-1s"), json!(3), json!(null), json!("s"), json!("é")] {
            assert_eq!(info(unsound.clone()), None, "{unsound}");
        }
        for body in [json!(null), json!({"details": {}}), json!({"details": [1]})] {
            assert_eq!(retry_info(&body), None, "{body}");
        }
    }
}
