//! The walk: what is sent, what must come back, and how both are shown.

use crate::client::{Answer, Client};
use crate::ctl::log::for_people;
use anyhow::Context;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::io::{self, Write};

const GOOD: &str = include_str!("good.json");
/// Praise over five refusals without a word of analysis.
const CONTRADICTING: &str = include_str!("contradicting.json");
/// What a real model said before it reached its token limit.
const TRUNCATED: &str = include_str!("truncated.txt");
const QUERY: &str = "A neighbourhood tool library run by volunteers out of a shipping container.";
const TRUNCATED_QUERY: &str = "Adopt a second rescue dog while working from home three days a week.";
/// So much of a line is shown, in characters.
const SHOWN_CHARS: usize = 150;

/// The events that the walk must leave in the log.
const LOGGED: [&str; 5] =
    ["tmm_crosscheck", "verdict_cached", "tmm_crosscheck", "tmm_crosscheck", "tmm_crosscheck"];

/// One step.
struct Step {
    title: &'static str,
    method: Method,
    path: String,
    body: Option<String>,
    status: StatusCode,
    /// Places in the answer, and what must stand there.
    expected: Vec<(&'static str, Value)>,
}

impl Step {
    /// Hands in `verdict`, under `verdict` if it is a JSON value, else under `raw`.
    fn submit(title: &'static str, session: &str, query: &str, verdict: &str, status: StatusCode) -> Self {
        let is_json = serde_json::from_str::<Value>(verdict).is_ok();
        let member =
            if is_json { format!("\"verdict\":{verdict}") } else { format!("\"raw\":{}", json!(verdict)) };
        let body = Some(format!("{{\"tier\":\"full\",\"query\":{},{member}}}", json!(query)));
        let path = format!("/v1/verdicts/{session}");
        Self { title, method: Method::POST, path, body, status, expected: Vec::new() }
    }

    fn get(title: &'static str, session: &str, status: StatusCode) -> Self {
        let path = format!("/v1/verdicts/{session}");
        Self { title, method: Method::GET, path, body: None, status, expected: Vec::new() }
    }

    fn expecting(self, expected: Vec<(&'static str, Value)>) -> Self {
        Self { expected, ..self }
    }

    /// What is not as it should be, if anything.
    fn wrong(&self, answer: &Answer) -> Option<String> {
        if answer.status != self.status {
            return Some(format!("expected status {}", self.status));
        }
        let document: Value = answer.json().unwrap_or_default();
        let differs = |(place, value): &&(&'static str, Value)| document.pointer(place) != Some(value);
        self.expected.iter().find(differs).map(|(place, value)| format!("expected {value} at {place}"))
    }
}

/// The sessions of one walk: `before`, the number of the last entry, keeps the walks over one store apart.
pub(super) fn session(before: u64, name: &str) -> String {
    format!("dev-{before}-{name}")
}

fn steps(before: u64) -> Vec<Step> {
    let session = |name: &str| session(before, name);
    let refused = |reason: &str| {
        vec![("/code", json!("crosscheck_rejected")), ("/decision/crosscheck_reason", json!(reason))]
    };
    let (unprocessable, missing) = (StatusCode::UNPROCESSABLE_ENTITY, StatusCode::NOT_FOUND);
    let good: Value = serde_json::from_str(GOOD).unwrap_or_default();
    vec![
        Step::submit("a coherent verdict is delivered", &session("good"), QUERY, GOOD, StatusCode::CREATED)
            .expecting(vec![("/regen", json!(false)), ("/decision/coherence_score", json!(1.0))]),
        Step::submit("the same again gets the stored answer", &session("good"), QUERY, GOOD, StatusCode::OK)
            .expecting(vec![("/replayed", json!(true)), ("/verdict", good.clone())]),
        Step::submit(
            "a verdict against its own breakdown is refused",
            &session("contradicting"),
            QUERY,
            CONTRADICTING,
            unprocessable,
        )
        .expecting(refused("dimension_conflict")),
        Step::submit(
            "text that is no JSON is refused",
            &session("prose"),
            QUERY,
            "GREEN, I should think!",
            unprocessable,
        )
        .expecting(refused("degenerate_manifold")),
        Step::submit(
            "a real model's answer, cut at its token limit, is refused",
            &session("truncated"),
            TRUNCATED_QUERY,
            TRUNCATED,
            unprocessable,
        )
        .expecting(refused("degenerate_manifold")),
        Step::get("nothing of a refused verdict is kept", &session("truncated"), missing)
            .expecting(vec![("/code", json!("session_unknown"))]),
        Step::get("the delivered one is read from the cache", &session("good"), StatusCode::OK)
            .expecting(vec![("/verdict", good)]),
    ]
}

/// Walks and shows every step; hands back how many were not as they should be.
pub(super) async fn walk(
    out: &mut impl Write,
    colour: bool,
    routes: &mut Client,
    control: &mut Client,
    before: u64,
) -> anyhow::Result<usize> {
    let mut failed = 0;
    let steps = steps(before);
    let count = steps.len() + 1;
    for (number, step) in (1..).zip(steps) {
        let answer = routes.call(step.method.clone(), &step.path, step.body.clone().map(Into::into)).await?;
        let wrong = step.wrong(&answer);
        failed += usize::from(wrong.is_some());
        title(out, colour, &format!("{number}/{count}  {}", step.title), wrong.as_deref())?;
        show(out, &step, &answer)?;
    }
    let answer = control.call(Method::GET, &format!("/v1/log?after={before}"), None).await?;
    let entries = serde_json::Deserializer::from_slice(&answer.body).into_iter();
    let entries: Vec<Value> = entries.collect::<Result<_, _>>()?;
    let events: Vec<_> = entries.iter().filter_map(|entry| entry.get("event")?.as_str()).collect();
    let wrong = (events != LOGGED).then(|| format!("expected the events {LOGGED:?}"));
    failed += usize::from(wrong.is_some());
    let last = format!("{count}/{count}  each judgement is in the log, and was so before it was answered");
    title(out, colour, &last, wrong.as_deref())?;
    for entry in &entries {
        writeln!(out, "       {}", shortened(&for_people(entry)))?;
    }
    writeln!(out)?;
    Ok(failed)
}

/// The number of the last entry in the log.
pub(super) async fn last_seq(control: &mut Client) -> anyhow::Result<u64> {
    let status: Value = control.call(Method::GET, "/v1/status", None).await?.json()?;
    status.get("entries").and_then(Value::as_u64).context("the status does not say how long the log is")
}

fn title(out: &mut impl Write, colour: bool, title: &str, wrong: Option<&str>) -> io::Result<()> {
    let (mark, code) = if wrong.is_some() { ("✗", "31") } else { ("✓", "32") };
    let mark = if colour { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() };
    writeln!(out, "{mark} {title}{}", wrong.map(|wrong| format!(": {wrong}")).unwrap_or_default())
}

fn show(out: &mut impl Write, step: &Step, answer: &Answer) -> io::Result<()> {
    writeln!(out, "  sent {} {}", step.method, step.path)?;
    if let Some(body) = &step.body {
        writeln!(out, "       {}", shortened(body))?;
    }
    writeln!(out, "  came {}", answer.status)?;
    let document: Value = answer.json().unwrap_or_default();
    for (name, place) in [
        ("code", "/code"),
        ("replayed", "/replayed"),
        ("verdict", "/verdict/summary"),
        ("reason", "/decision/crosscheck_reason"),
        ("coherence", "/decision/coherence_score"),
        ("flags", "/decision/flags"),
        ("contact", "/contact"),
    ] {
        if let Some(value) = document.pointer(place) {
            writeln!(out, "       {name:<10} {}", shortened(&value.to_string()))?;
        }
    }
    writeln!(out)
}

/// `text` on one line, cut where it gets too long to read.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(SHOWN_CHARS).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}
