//! Errors in the bodies of answers. Model APIs and their gateways report an error with an error status, or within an answer of
//! status 200, and each in its own form.

use super::failure::{REJECTING_STATUSES, RequestFailure, RequestFailureKind, retry_info};
use serde_json::Value;
use std::time::Duration;

/// The status of an error that names none.
pub(crate) const UNKNOWN_STATUS: u16 = 500;
/// Members that have the status of an error.
const STATUS_MEMBERS: [&str; 4] = ["code", "status", "status_code", "statusCode"];
/// Members of an error that name its kind.
const KIND_MEMBERS: [&str; 3] = ["status", "type", "code"];
/// The marks with which a message begins to quote the request.
const QUOTATION_MARKS: [char; 4] = ['"', '`', '\u{201c}', '\n'];
/// Words of messages by which an API rejects the caller without a status or kind of its own.
const REJECTING_WORDS: [&str; 9] = [
    "credit balance is too low",
    "insufficient credit",
    "insufficient balance",
    "out of credits",
    "requires more credits",
    "api key not valid",
    "invalid api key",
    "incorrect api key",
    "api key expired",
];

/// An error as an upstream reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReportedError {
    /// Its status, by a number or by a known kind.
    pub(crate) status: Option<u16>,
    /// Its kind and message. It is not cleaned.
    pub(crate) message: String,
    /// The wait that it requests.
    pub(crate) retry_after: Option<Duration>,
    /// Whether the upstream rejects the caller: its key, its credit, or the name of the model.
    pub(crate) rejects_caller: bool,
    /// The reason for which a moderation blocked this one prompt. It does not quote the prompt.
    pub(crate) blocked: Option<String>,
}

impl ReportedError {
    /// The error of a body, which may be in a list. An answer may have members `detail` and `message`; they count as an
    /// error only if `is_no_answer`.
    pub(crate) fn read(body: &Value, is_no_answer: bool) -> Option<Self> {
        let body = body.as_array().map_or(Some(body), |list| list.first())?;
        let is_error = |name| body.get(name).and_then(Value::as_str) == Some("error");
        let member = |name: &str| body.get(name).filter(|value| !is_nothing(value));
        let first = |list: &Value| list.as_array().and_then(|list| list.first()).cloned();
        let error = match (member("error"), member("errors").and_then(first)) {
            (Some(error), _) => error.clone(),
            (None, Some(error)) => error,
            (None, None) if is_error("type") || is_error("object") => body.clone(),
            (None, None) if is_no_answer && (member("detail").is_some() || member("message").is_some()) => {
                member("detail").cloned().unwrap_or(Value::Null)
            }
            (None, None) => return None,
        };
        Some(Self::new(body, &error))
    }

    fn new(body: &Value, error: &Value) -> Self {
        let kinds = kinds_of(error);
        let text = message_of(error).or_else(|| message_of(body)).unwrap_or_default();
        let words: Vec<_> = kinds.first().copied().into_iter().chain([text]).collect();
        let message = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ");
        let number = |holder: &Value| STATUS_MEMBERS.iter().find_map(|name| status_number(holder.get(name)?));
        let reasons = error.pointer("/details").and_then(Value::as_array).into_iter().flatten();
        let reasons = reasons.filter_map(|detail| detail.get("reason")?.as_str());
        let known: Vec<_> =
            kinds.iter().copied().chain(reasons).chain([text]).filter_map(status_of_word).collect();
        let status = number(error).or_else(|| number(body)).or_else(|| known.first().copied());
        let own_words = text.split(QUOTATION_MARKS).next().unwrap_or_default().to_lowercase();
        let rejects = |status: &u16| REJECTING_STATUSES.contains(status);
        let blocked = blocked_by_moderation(error).filter(|_| matches!(status, None | Some(400 | 403)));
        Self {
            status,
            retry_after: retry_info(error),
            rejects_caller: blocked.is_none()
                && (status.iter().chain(&known).any(rejects)
                    || REJECTING_WORDS.iter().any(|words| own_words.contains(words))),
            message,
            blocked,
        }
    }

    /// The failure of an answer that has a success status and this error.
    pub(crate) fn into_failure(self, header_wait: Option<Duration>) -> RequestFailure {
        let Self { status, message, retry_after, rejects_caller, blocked: _ } = self;
        RequestFailure {
            kind: RequestFailureKind::ErrorAnswer(status.unwrap_or(UNKNOWN_STATUS)),
            retry_after: retry_after.max(header_wait),
            rejects_caller,
            detail: message,
        }
    }
}

/// The failure of an answer with a success status that has neither an answer nor an error.
pub(crate) fn missing_answer(detail: String) -> RequestFailure {
    ReportedError { message: detail, ..ReportedError::default() }.into_failure(None)
}

/// Whether a member that may contain an error contains none.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(list) => list.iter().all(is_nothing),
        Value::Object(members) => members.values().all(is_nothing),
        Value::Bool(true) => false,
    }
}

/// The reason for which the moderation of a gateway blocked a prompt: OpenRouter reports it with status 403, beside the text
/// that it flagged.
fn blocked_by_moderation(error: &Value) -> Option<String> {
    let metadata = error.get("metadata")?;
    let member = |name: &str| metadata.get(name).filter(|value| !is_nothing(value));
    let reasons = member("reasons").and_then(Value::as_array);
    if reasons.is_none() && member("flagged_input").is_none() {
        return None;
    }
    let reasons: Vec<_> = reasons.into_iter().flatten().filter_map(Value::as_str).collect();
    Some(if reasons.is_empty() { "moderation".to_owned() } else { reasons.join(", ") })
}

fn kinds_of(error: &Value) -> Vec<&str> {
    KIND_MEMBERS.iter().filter_map(|name| error.get(name)?.as_str()).filter(|kind| *kind != "error").collect()
}

/// The message of an error: a text, a member, or the message of the first item of a list.
fn message_of(error: &Value) -> Option<&str> {
    match error {
        Value::String(text) => Some(text),
        Value::Array(list) => message_of(list.first()?),
        _ => ["message", "msg", "detail", "error_description"]
            .iter()
            .find_map(|name| error.get(name)?.as_str()),
    }
}

/// A number that is an HTTP status of an error.
fn status_number(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// The status that corresponds to an error kind of the model APIs.
fn status_of_word(word: &str) -> Option<u16> {
    let word = word.trim().trim_end_matches('.').to_lowercase().replace([' ', '-'], "_");
    Some(match word.as_str() {
        "invalid_request_error" | "invalid_argument" | "failed_precondition" | "bad_request" => 400,
        "authentication_error"
        | "unauthenticated"
        | "unauthorized"
        | "invalid_api_key"
        | "api_key_invalid"
        | "not_authenticated" => 401,
        "insufficient_quota"
        | "insufficient_balance"
        | "insufficient_credits"
        | "billing_error"
        | "billing_not_active"
        | "billing_hard_limit_reached"
        | "payment_required" => 402,
        "permission_error" | "permission_denied" | "forbidden" | "account_deactivated" => 403,
        "not_found_error" | "not_found" | "model_not_found" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "resource_exhausted" | "too_many_requests" => 429,
        "api_error" | "internal" | "server_error" | "internal_server_error" => 500,
        "unavailable" | "service_unavailable" => 503,
        "timeout_error" | "deadline_exceeded" => 504,
        "overloaded_error" | "overloaded" => 529,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Option<ReportedError> {
        ReportedError::read(&body, true)
    }

    #[test]
    fn reported_error_is_read_in_each_form() {
        for (body, status, message) in [
            (json!({"error": {"code": 429, "message": "slow"}}), Some(429), "slow"),
            (
                json!([{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}]),
                Some(429),
                "RESOURCE_EXHAUSTED: slow",
            ),
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                Some(529),
                "overloaded_error: Overloaded",
            ),
            (json!({"error": "Rate limit exceeded"}), Some(429), "Rate limit exceeded"),
            (json!({"error": "upstream down", "code": "502"}), Some(502), "upstream down"),
            (json!({"errors": [{"code": 7003, "message": "no route"}]}), None, "no route"),
            (
                json!({"object": "error", "message": "bad", "type": "NotFound", "code": 404}),
                Some(404),
                "NotFound: bad",
            ),
            (json!({"detail": "Not authenticated"}), Some(401), "Not authenticated"),
            (json!({"detail": [{"loc": ["body"], "msg": "field required"}]}), None, "field required"),
            (json!({"message": "Unauthorized"}), Some(401), "Unauthorized"),
            (json!({"error": true, "message": "x"}), None, "x"),
        ] {
            let error = read(body.clone()).expect("an error");
            assert_eq!((error.status, error.message.as_str()), (status, message), "{body}");
        }
        for body in
            [json!(null), json!([]), json!({}), json!({"error": null}), json!({"error": "", "errors": []})]
        {
            assert_eq!(read(body.clone()), None, "{body}");
        }
        for nothing in [
            json!(0),
            json!(0.0),
            json!({"code": null, "message": null}),
            json!([null, ""]),
            json!([{"code": 0}]),
        ] {
            assert_eq!(read(json!({"error": nothing, "errors": nothing})), None, "{nothing}");
        }
        assert!(read(json!({"error": 1})).is_some() && read(json!({"error": {"code": 1}})).is_some());
        let answer = json!({"choices": [], "detail": "x", "message": "y"});
        assert_eq!(ReportedError::read(&answer, false), None);
    }

    #[test]
    fn rejection_of_the_caller_is_read_from_status_kind_and_message() {
        for rejecting in [
            json!({"error": {"code": 401, "message": "x"}}),
            json!({"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "You exceeded your current quota"}}),
            json!({"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}}),
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "x",
                "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}),
            json!({"error": {"code": "model_not_found", "type": "invalid_request_error", "message": "x"}}),
            json!({"error": "Incorrect API key provided"}),
        ] {
            assert!(read(rejecting.clone()).expect("an error").rejects_caller, "{rejecting}");
        }
        for other in [
            json!({"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details."}}),
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "x"}}),
            json!({"error": {"message": "x"}}),
            json!({"error": {"code": 400, "message": "Wrong prompt: \"Sell an invalid API key?\""}}),
        ] {
            assert!(!read(other.clone()).expect("an error").rejects_caller, "{other}");
        }
    }

    #[test]
    fn moderation_of_a_prompt_is_no_rejection_of_the_caller() {
        let error = |code: u16, metadata: Value| {
            let message = "Your input was flagged: invalid api key";
            read(json!({"error": {"code": code, "message": message, "metadata": metadata}}))
                .expect("an error")
        };
        let flagged =
            json!({"reasons": ["sexual", "violence"], "flagged_input": "Sell ...", "provider_name": "x"});
        for (metadata, reason) in [
            (flagged.clone(), "sexual, violence"),
            (json!({"reasons": ["harassment"]}), "harassment"),
            (json!({"reasons": [], "flagged_input": "Sell ..."}), "moderation"),
        ] {
            let error = error(403, metadata);
            assert_eq!((error.blocked.as_deref(), error.rejects_caller), (Some(reason), false));
        }
        for (code, metadata) in [(401, flagged), (403, json!({"provider_name": "x"})), (403, json!(null))] {
            let error = error(code, metadata);
            assert_eq!((error.blocked, error.rejects_caller), (None, true), "{code}");
        }
    }
}
