//! One step of the walk: what is sent, and what must come of it.

use hyper::{Method, StatusCode};
use oracled_api::base::client::Answer;
use serde_json::{Value, json};
use std::time::Duration;

/// How the names of the events begin that tell of mail.
pub(super) const MAIL_EVENTS: &str = "mail_";

/// The sessions of one walk, and what else it names: `before`, the number of the last entry, keeps the walks over one store
/// apart.
pub(super) fn session(before: u64, name: &str) -> String {
    format!("dev-{before}-{name}")
}

/// Which socket something is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Socket {
    Routes,
    Control,
}

/// What becomes of the recorded model before a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    GoesDown,
    ComesBack,
}

/// What must stand at a place.
#[derive(Debug)]
pub(super) enum Expected {
    /// This.
    Is(Value),
    /// Anything, if only it is there.
    There,
}

/// What a step must have done.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: StatusCode,
    /// What stands where: a place is a JSON pointer into the document, or else a header's name.
    pub(super) expected: Vec<(&'static str, Expected)>,
    /// What must be in the log because of it, in whichever order.
    pub(super) events: Vec<&'static str>,
}

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) title: String,
    /// What becomes of the model first.
    pub(super) turn: Option<Turn>,
    pub(super) socket: Socket,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<String>,
    /// For so long it is sent again until the answer is as it should be.
    pub(super) patience: Duration,
    /// How the id begins of the mail that arrives because of it.
    pub(super) mail: Option<String>,
    /// What it must have done; nothing where nobody can know.
    pub(super) outcome: Option<Outcome>,
}

impl Step {
    fn new(title: impl Into<String>, socket: Socket, method: Method, path: String) -> Self {
        let expected = Vec::new();
        let outcome = Outcome { status: StatusCode::OK, expected, events: Vec::new() };
        Self {
            title: title.into(),
            turn: None,
            socket,
            method,
            path,
            body: None,
            patience: Duration::ZERO,
            mail: None,
            outcome: Some(outcome),
        }
    }

    /// Hands in `verdict`, under `verdict` if it is a JSON value, else under `raw`.
    pub(super) fn submit(title: &str, session: &str, query: &str, verdict: &str) -> Self {
        let is_json = serde_json::from_str::<Value>(verdict).is_ok();
        let member =
            if is_json { format!("\"verdict\":{verdict}") } else { format!("\"raw\":{}", json!(verdict)) };
        let body = format!("{{\"tier\":\"full\",\"query\":{},{member}}}", json!(query));
        let path = format!("/v1/verdicts/{session}");
        Self { body: Some(body), ..Self::new(title, Socket::Routes, Method::POST, path) }
    }

    /// Hands in `verdict` to be checked against `facts`, too.
    pub(super) fn submit_with_facts(
        title: &str,
        session: &str,
        query: &str,
        verdict: &str,
        facts: &[&str],
    ) -> Self {
        let mut step = Self::submit(title, session, query, verdict);
        step.body = step.body.map(|body| {
            let members = body.strip_suffix('}').unwrap_or(&body);
            format!("{members},\"facts\":{}}}", json!(facts))
        });
        step
    }

    /// Has a text checked against facts.
    pub(super) fn evaluate(title: &str, body: &Value) -> Self {
        let path = "/v1/rules/evaluate".to_owned();
        Self { body: Some(body.to_string()), ..Self::new(title, Socket::Routes, Method::POST, path) }
    }

    /// Has an administrator register a document.
    pub(super) fn put(title: &str, path: String, document: &Value) -> Self {
        Self { body: Some(document.to_string()), ..Self::new(title, Socket::Control, Method::PUT, path) }
    }

    /// Has an administrator order something.
    pub(super) fn order(title: &str, path: String, order: &Value) -> Self {
        Self { body: Some(order.to_string()), ..Self::new(title, Socket::Control, Method::POST, path) }
    }

    /// Has an administrator hand in a payload.
    pub(super) fn ingest(title: &str, path: &str, payload: &str) -> Self {
        let step = Self::new(title, Socket::Control, Method::POST, path.to_owned());
        Self { body: Some(payload.to_owned()), ..step }
    }

    /// Asks what a source says.
    pub(super) fn query(title: &str, query: &Value) -> Self {
        let path = "/v1/query".to_owned();
        let step = Self::new(title, Socket::Routes, Method::POST, path).logging(&["source_queried"]);
        Self { body: Some(query.to_string()), ..step }
    }

    /// Puts a question to the sources of a workflow.
    pub(super) fn verify(title: &str, question: &Value) -> Self {
        let path = "/v1/verify".to_owned();
        Self { body: Some(question.to_string()), ..Self::new(title, Socket::Routes, Method::POST, path) }
    }

    /// Reads what stands at `path` of the routes' socket.
    pub(super) fn see(title: &str, path: String) -> Self {
        Self::new(title, Socket::Routes, Method::GET, path)
    }

    /// Wants a verdict without handing one in.
    pub(super) fn ask(title: impl Into<String>, session: &str, query: &str, email: Option<&str>) -> Self {
        let mut body = json!({"tier": "full", "query": query});
        if let (Some(members), Some(email)) = (body.as_object_mut(), email) {
            members.insert("customer_email".into(), json!(email));
        }
        let path = format!("/v1/verdicts/{session}");
        Self { body: Some(body.to_string()), ..Self::new(title, Socket::Routes, Method::POST, path) }
    }

    /// Reads the verdict of a session.
    pub(super) fn read(title: &str, session: &str) -> Self {
        Self::new(title, Socket::Routes, Method::GET, format!("/v1/verdicts/{session}"))
    }

    /// Has an administrator purge the verdict of a session.
    pub(super) fn purge(title: &str, session: &str) -> Self {
        Self::new(title, Socket::Control, Method::DELETE, format!("/v1/verdicts/{session}"))
            .expecting(vec![("/purged", is(true))])
            .logging(&["verdict_purged"])
    }

    /// Reads what stands at `path` of the administrators' socket.
    pub(super) fn look(title: &str, path: String) -> Self {
        Self::new(title, Socket::Control, Method::GET, path)
    }

    /// Puts what `answer`, the one before, calls by the name that stands in braces in the path in its place.
    pub(super) fn fill_in(&mut self, answer: &Value) {
        let Some((head, rest)) = self.path.split_once('{') else { return };
        let Some((name, rest)) = rest.split_once('}') else { return };
        let value = answer.get(name).and_then(Value::as_str).unwrap_or_default();
        self.path = format!("{head}{value}{rest}");
    }

    pub(super) fn coming(self, status: StatusCode) -> Self {
        self.must(|outcome| outcome.status = status)
    }

    pub(super) fn expecting(self, expected: Vec<(&'static str, Expected)>) -> Self {
        self.must(|outcome| outcome.expected = expected)
    }

    pub(super) fn logging(self, events: &[&'static str]) -> Self {
        self.must(|outcome| outcome.events = events.to_vec())
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

    /// The same step, of which nobody can know what comes.
    pub(super) fn unforeseen(self) -> Self {
        Self { outcome: None, patience: Duration::ZERO, ..self }
    }

    /// The same step where mail goes its own way.
    pub(super) fn without_mail(self) -> Self {
        Self { mail: None, ..self }
            .must(|outcome| outcome.events.retain(|event| !event.starts_with(MAIL_EVENTS)))
    }

    fn must(mut self, say: impl FnOnce(&mut Outcome)) -> Self {
        self.outcome.as_mut().map(say);
        self
    }
}

impl Outcome {
    /// What of `answer` is not as it should be, if anything.
    pub(super) fn wrong(&self, answer: &Answer) -> Option<String> {
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
                Expected::There if found.is_none() => Some(format!("expected something at {place}")),
                _ => None,
            }
        })
    }

    /// What of the entries in the log is not as it should be, if anything.
    pub(super) fn wrong_in_log(&self, entries: &[Value]) -> Option<String> {
        let mut found: Vec<_> = entries.iter().filter_map(|entry| entry.get("event")?.as_str()).collect();
        let mut expected = self.events.clone();
        found.sort_unstable();
        expected.sort_unstable();
        (found != expected).then(|| format!("expected the events {:?}", self.events))
    }
}

/// That `value` must stand there.
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

    fn outcome(expected: Vec<(&'static str, Expected)>, events: &[&'static str]) -> Outcome {
        Outcome { status: StatusCode::OK, expected, events: events.to_vec() }
    }

    #[test]
    fn an_answer_is_wrong_by_its_status_a_place_or_a_header() {
        let ok = answer(StatusCode::OK, r#"{"a":{"b":1},"none":null}"#);
        let right = || vec![("/a/b", is(1)), ("/a", Expected::There), ("retry-after", is("5"))];
        assert_eq!(outcome(right(), &[]).wrong(&ok), None);
        let other = answer(StatusCode::CREATED, r#"{"a":{"b":1}}"#);
        assert_eq!(outcome(right(), &[]).wrong(&other).as_deref(), Some("expected status 200 OK"));
        for (place, expected) in [
            ("/a/b", is(2)),
            ("/c", is(1)),
            ("/c", Expected::There),
            ("/none", Expected::There),
            ("retry-after", is("6")),
            ("x-cache", Expected::There),
        ] {
            let wrong = outcome(vec![("/a/b", is(1)), (place, expected)], &[]).wrong(&ok);
            assert!(wrong.as_ref().is_some_and(|wrong| wrong.ends_with(place)), "{place}: {wrong:?}");
        }
        let unreadable = answer(StatusCode::OK, "no JSON");
        assert!(outcome(vec![("/a", Expected::There)], &[]).wrong(&unreadable).is_some());
    }

    #[test]
    fn a_path_is_filled_in_from_the_answer_before() {
        let filled = |path: &str| {
            let mut step = Step::see("", path.into());
            step.fill_in(&json!({"review_id": "v-1", "other": 2}));
            step.path
        };
        assert_eq!(filled("/v1/reviews/{review_id}/resolve"), "/v1/reviews/v-1/resolve");
        assert_eq!(filled("/v1/reviews"), "/v1/reviews");
        assert_eq!(filled("/v1/reviews/{other}"), "/v1/reviews/");
    }

    #[test]
    fn the_log_is_wrong_if_it_lacks_an_event_or_has_one_more() {
        let entries =
            |events: &[&str]| events.iter().map(|event| json!({"event": event})).collect::<Vec<_>>();
        let outcome = outcome(Vec::new(), &["b", "a", "a"]);
        assert_eq!(outcome.wrong_in_log(&entries(&["a", "b", "a"])), None, "in whichever order");
        for wrong in [&["a", "b"][..], &["a", "b", "b"], &["a", "a", "b", "c"], &[]] {
            assert!(outcome.wrong_in_log(&entries(wrong)).is_some(), "{wrong:?}");
        }
    }
}
