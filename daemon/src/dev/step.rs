//! The walk's chapters: the requests that are sent, and the responses that they must get.

use hyper::{Method, StatusCode};
use oracled_api::base::client::Answer;
use serde_json::{Value, json};
use std::time::Duration;

/// The id of a session, document or source of the walk. `before` is the number of the log's last entry; with it, several
/// walks over one store have different ids.
pub(super) fn session(before: u64, name: &str) -> String {
    format!("dev-{before}-{name}")
}

/// The socket that a request is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Socket {
    Routes,
    Control,
}

/// A change of the recorded model before a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    GoesDown,
    ComesBack,
}

/// The expected value at a JSON pointer of a response.
#[derive(Debug)]
pub(super) enum Expected {
    Is(Value),
    /// Any value.
    Present,
}

/// Steps that show one property, under one title.
#[derive(Debug)]
pub(super) struct Chapter {
    pub(super) title: &'static str,
    pub(super) steps: Vec<Step>,
    /// False if the responses cannot be known in advance; they are then shown and not checked.
    pub(super) is_checked: bool,
}

/// A request and its expected response.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) turn: Option<Turn>,
    pub(super) socket: Socket,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<String>,
    /// The request is repeated for this long until its response is as expected.
    pub(super) patience: Duration,
    /// The beginning of the id of the mail that the request causes.
    pub(super) mail: Option<String>,
    status: StatusCode,
    /// A place is a JSON pointer into the body, or a header's name.
    expected: Vec<(&'static str, Expected)>,
}

impl Chapter {
    pub(super) const fn new(title: &'static str, steps: Vec<Step>) -> Self {
        Self { title, steps, is_checked: true }
    }
}

impl Step {
    const fn new(socket: Socket, method: Method, path: String, body: Option<String>) -> Self {
        Self {
            turn: None,
            socket,
            method,
            path,
            body,
            patience: Duration::ZERO,
            mail: None,
            status: StatusCode::OK,
            expected: Vec::new(),
        }
    }

    pub(super) const fn get(socket: Socket, path: String) -> Self {
        Self::new(socket, Method::GET, path, None)
    }

    pub(super) fn post(socket: Socket, path: impl Into<String>, body: &Value) -> Self {
        Self::new(socket, Method::POST, path.into(), Some(body.to_string()))
    }

    /// Registers a document.
    pub(super) fn put(path: String, document: &Value) -> Self {
        Self::new(Socket::Control, Method::PUT, path, Some(document.to_string()))
            .expecting(vec![("/change", is("created"))])
    }

    /// Submits a payload.
    pub(super) fn ingest(path: String, payload: &str) -> Self {
        Self::new(Socket::Control, Method::POST, path, Some(payload.to_owned()))
            .returning(StatusCode::ACCEPTED)
    }

    /// Submits `verdict`, as `verdict` if it is JSON, else as `raw`, to be checked against `facts` if there are any.
    pub(super) fn submit(session: &str, query: &str, verdict: &str, facts: &[&str]) -> Self {
        let is_json = serde_json::from_str::<Value>(verdict).is_ok();
        let member =
            if is_json { format!("\"verdict\":{verdict}") } else { format!("\"raw\":{}", json!(verdict)) };
        let facts = if facts.is_empty() { String::new() } else { format!(",\"facts\":{}", json!(facts)) };
        let body = format!("{{\"tier\":\"full\",\"query\":{},{member}{facts}}}", json!(query));
        Self::new(Socket::Routes, Method::POST, format!("/v1/verdicts/{session}"), Some(body))
    }

    pub(super) fn read(session: &str) -> Self {
        Self::get(Socket::Routes, format!("/v1/verdicts/{session}"))
    }

    pub(super) fn purge(session: &str) -> Self {
        Self::new(Socket::Control, Method::DELETE, format!("/v1/verdicts/{session}"), None)
            .expecting(vec![("/purged", is(true))])
    }

    /// Replaces a JSON pointer in braces in the path by its value in `answer`, the response to the previous step.
    pub(super) fn fill_in(&mut self, answer: &Value) {
        let Some((head, rest)) = self.path.split_once('{') else { return };
        let Some((place, rest)) = rest.split_once('}') else { return };
        let value = answer.pointer(place).and_then(Value::as_str).unwrap_or_default();
        self.path = format!("{head}{value}{rest}");
    }

    pub(super) fn returning(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn expecting(self, expected: Vec<(&'static str, Expected)>) -> Self {
        Self { expected, ..self }
    }

    pub(super) fn mailing(self, id: String) -> Self {
        Self { mail: Some(id), ..self }
    }

    pub(super) fn after(self, turn: Turn) -> Self {
        Self { turn: Some(turn), ..self }
    }

    pub(super) fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The first difference between `answer` and the expected response.
    pub(super) fn fault(&self, answer: &Answer) -> Option<String> {
        if answer.status != self.status {
            return Some(format!("expected status {}", self.status));
        }
        let document: Value = answer.json().unwrap_or_default();
        self.expected.iter().find_map(|(place, expected)| {
            let found = if place.starts_with('/') {
                document.pointer(place).filter(|value| !value.is_null()).cloned()
            } else {
                answer.headers.get(*place).and_then(|value| value.to_str().ok()).map(Value::from)
            };
            match expected {
                Expected::Is(value) if found.as_ref() != Some(value) => {
                    Some(format!("expected {value} at {place}"))
                }
                Expected::Present if found.is_none() => Some(format!("expected a value at {place}")),
                _ => None,
            }
        })
    }
}

pub(super) fn is(value: impl Into<Value>) -> Expected {
    Expected::Is(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;
    use hyper::header::RETRY_AFTER;

    fn answer(status: StatusCode, body: &'static str) -> Answer {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, "5".parse().expect("a header"))]);
        Answer { status, headers, body: body.into() }
    }

    fn step(expected: Vec<(&'static str, Expected)>) -> Step {
        Step::get(Socket::Routes, "/v1/status".into()).expecting(expected)
    }

    #[test]
    fn fault_reports_a_wrong_status_value_or_header() {
        let ok = answer(StatusCode::OK, r#"{"a":{"b":1},"none":null}"#);
        let right = || vec![("/a/b", is(1)), ("/a", Expected::Present), ("retry-after", is("5"))];
        assert_eq!(step(right()).fault(&ok), None);
        let other = answer(StatusCode::CREATED, r#"{"a":{"b":1}}"#);
        assert_eq!(step(right()).fault(&other).as_deref(), Some("expected status 200 OK"));
        for (place, expected) in [
            ("/a/b", is(2)),
            ("/c", is(1)),
            ("/c", Expected::Present),
            ("/none", Expected::Present),
            ("retry-after", is("6")),
            ("x-cache", Expected::Present),
        ] {
            let fault = step(vec![("/a/b", is(1)), (place, expected)]).fault(&ok);
            assert!(fault.as_ref().is_some_and(|fault| fault.ends_with(place)), "{place}: {fault:?}");
        }
        let unreadable = answer(StatusCode::OK, "no JSON");
        assert!(step(vec![("/a", Expected::Present)]).fault(&unreadable).is_some());
    }

    #[test]
    fn fill_in_replaces_a_pointer_by_its_value() {
        let filled = |path: &str| {
            let mut step = Step::get(Socket::Routes, path.into());
            step.fill_in(&json!({"review": {"id": "v-1"}, "other": 2}));
            step.path
        };
        assert_eq!(filled("/v1/reviews/{/review/id}/resolve"), "/v1/reviews/v-1/resolve");
        assert_eq!(filled("/v1/reviews"), "/v1/reviews");
        assert_eq!(filled("/v1/reviews/{/other}"), "/v1/reviews/");
    }
}
