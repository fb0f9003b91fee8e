//! The check that the hosts of a cluster call a model once: at most one call for each attempt in the log, and at most one attempt to
//! regenerate the verdict of a session in its window.

use domain_verdict::regen::REGEN_PERIOD;
use jiff::Timestamp;
use oracled_tests::model::ReceivedRequest;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The calls of the model for a session, and the entries of the log about them.
#[derive(Debug, Default)]
pub(crate) struct SessionCalls<'l> {
    pub(crate) calls: usize,
    entries: Vec<&'l Value>,
}

impl SessionCalls<'_> {
    fn of(&self, events: &[&str]) -> impl Iterator<Item = &Value> {
        self.entries.iter().copied().filter(move |entry| events.iter().any(|event| entry["event"] == *event))
    }

    /// The number of attempts to call the model.
    pub(crate) fn attempts(&self) -> usize {
        self.of(&["order_attempted", "regen_attempted"]).count()
    }

    /// The times of regenerations whose window has another one before.
    fn repeated(&self) -> Vec<Timestamp> {
        let (mut begun, mut repeated): (Option<Timestamp>, _) = (None, Vec::new());
        for entry in self.of(&["regen_attempted", "oracle_interaction"]) {
            let at: Timestamp = entry["timestamp"].as_str().and_then(|at| at.parse().ok()).expect("a time");
            if entry["event"] == "oracle_interaction" {
                // an attempt that has not reached the model does not count
                let code = entry["error_code"].as_str();
                begun = begun.filter(|_| !matches!(code, Some("connect" | "shortage")));
            } else if begun.is_some_and(|begun| at.duration_since(begun) < REGEN_PERIOD) {
                repeated.push(at);
            } else {
                begun = Some(at);
            }
        }
        repeated
    }

    /// Why the model was called more than once for an order, or in a window of regenerations; `None` if it was not. An attempt of a
    /// host that was stopped or killed meanwhile has no end.
    fn causes(&self) -> Option<Vec<&str>> {
        let windows = self.of(&["regen_attempted"]).count() - self.repeated().len();
        let ends = self.of(&["order_attempt_failed", "regen_failed"]);
        (self.calls > windows.max(1)).then(|| ends.filter_map(|end| end["outcome"].as_str()).collect())
    }
}

/// The calls for each session, whose query is `Query of SESSION.`, and its entries.
pub(crate) fn calls_by_session<'l>(
    log: &'l [Value],
    requests: &[ReceivedRequest],
) -> BTreeMap<String, SessionCalls<'l>> {
    let mut sessions: BTreeMap<String, SessionCalls<'l>> = BTreeMap::new();
    for request in requests {
        let text = request.body.to_string();
        let (_, query) = text.split_once("Query of ").expect("the query");
        sessions.entry(query.split('.').next().expect("a session").to_owned()).or_default().calls += 1;
    }
    for entry in log {
        if let Some(session) = entry["session_id"].as_str() {
            sessions.entry(session.to_owned()).or_default().entries.push(entry);
        }
    }
    sessions
}

/// The calls for which the log has no attempt, and the regenerations that are too many.
pub(crate) fn call_faults(sessions: &BTreeMap<String, SessionCalls<'_>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (session, of_session) in sessions {
        let (calls, attempts) = (of_session.calls, of_session.attempts());
        if calls > attempts {
            faults.push(format!("{session}: {calls} calls, {attempts} attempts"));
        }
        let repeated = of_session.repeated();
        faults.extend(repeated.iter().map(|at| format!("{session} was regenerated again at {at}")));
    }
    faults
}

/// The number of sessions for which the model was called more than once, by the ends of their attempts.
pub(crate) fn further_calls(sessions: &BTreeMap<String, SessionCalls<'_>>) -> BTreeMap<String, usize> {
    let mut further = BTreeMap::new();
    for of_session in sessions.values() {
        let Some(causes) = of_session.causes() else { continue };
        let kind =
            if of_session.of(&["regen_attempted"]).next().is_some() { "regeneration" } else { "order" };
        *further.entry(format!("{kind} {}", causes.join(", "))).or_default() += 1;
    }
    further
}

#[test]
fn calls_without_an_attempt_and_regenerations_in_one_window_are_reported() {
    let entry = |event: &str, at: &str| {
        let at = format!("2026-11-20T10:{at}Z");
        json!({"event": event, "session_id": "r1", "timestamp": at, "error_code": "connect"})
    };
    let attempt = |at| entry("regen_attempted", at);
    let unreached = entry("oracle_interaction", "01:00");
    let request = ReceivedRequest {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers: Vec::new(),
        body: json!("Query of r1."),
    };
    let counts = |calls: usize, log: &[Value]| {
        let sessions = calls_by_session(log, &vec![request.clone(); calls]);
        (call_faults(&sessions).len(), further_calls(&sessions).len())
    };
    assert_eq!(counts(1, &[attempt("00:00")]), (0, 0));
    assert_eq!(counts(2, &[attempt("00:00"), attempt("05:00")]), (0, 0), "the next window");
    assert_eq!(counts(1, &[attempt("00:00"), unreached, attempt("02:00")]), (0, 0));
    assert_eq!(counts(2, &[attempt("00:00"), attempt("04:59")]), (1, 1));
    assert_eq!(counts(2, &[attempt("00:00")]), (1, 1));
    let order = |at| entry("order_attempted", at);
    assert_eq!(counts(2, &[order("00:00"), order("01:00")]), (0, 1), "an attempt after an interruption");
}
