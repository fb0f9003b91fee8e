//! The walk's chapters about rules: a text and a verdict are checked against facts.

use super::gate::{GOOD, QUERY};
use super::step::{Chapter, Socket, Step, is, session};
use hyper::StatusCode;
use serde_json::json;

/// Facts about the plan that the verdict is about.
const FACTS: [&str; 7] = [
    "A modest plan with committed people, low fixed costs and a clear first step.",
    "Rent is low and the volunteers know each other.",
    "Lost and broken tools will need a deposit scheme.",
    "Growth is limited by the container, which helps.",
    "Opening takes a permit, shelves and a list.",
    "Each member makes the next one easier to win.",
    "The container stands on a lease of two years.",
];

pub(super) fn chapters(before: u64) -> Vec<Chapter> {
    let session = session(before, "checked");
    let evaluate = |text: &str, verdict: &str| {
        let body = json!({
            "candidate_output": text,
            "facts": FACTS,
            "expected": {"must_not_find": ["guaranteed"], "contradiction_ids": ["always-never"]},
        });
        Step::post(Socket::Routes, "/v1/rules/evaluate", &body).expecting(vec![("/verdict", is(verdict))])
    };
    let (last, known) = FACTS.split_last().unwrap_or((&"", &[]));
    vec![
        Chapter::new(
            "a text is checked against facts",
            vec![
                evaluate("Rent is LOW and the volunteers know each other.", "PASS"),
                evaluate(
                    "Rent is low and the volunteers know each other. Success is always certain, and never in doubt.",
                    "FAIL",
                ),
            ],
        ),
        Chapter::new(
            "a verdict that its facts do not support is rejected",
            vec![
                Step::submit(&session, QUERY, GOOD, &[last])
                    .returning(StatusCode::UNPROCESSABLE_ENTITY)
                    .expecting(vec![
                        ("/code", is("rules_rejected")),
                        ("/evaluation/rules/0/violations/0/span/field", is("summary")),
                    ]),
                Step::submit(&session, QUERY, GOOD, known).returning(StatusCode::CREATED),
            ],
        ),
    ]
}
