//! The walk's chapters about the gate.

use super::step::{Chapter, Step, is, session};
use hyper::StatusCode;
use serde_json::Value;

pub(super) const GOOD: &str = include_str!("good.json");
/// GREEN with a positive summary, over five RED dimensions without analyses.
const CONTRADICTING: &str = include_str!("contradicting.json");
/// The answer of a real model, cut at its token limit.
const TRUNCATED: &str = include_str!("truncated.txt");
pub(super) const QUERY: &str = "A neighbourhood tool library run by volunteers out of a shipping container.";
const TRUNCATED_QUERY: &str = "Adopt a second rescue dog while working from home three days a week.";

pub(super) fn chapters(before: u64) -> Vec<Chapter> {
    let session = |name: &str| session(before, name);
    let good = || is(serde_json::from_str::<Value>(GOOD).unwrap_or_default());
    let rejected = |name: &str, query: &str, verdict: &str, reason: &str| {
        Step::submit(&session(name), query, verdict, &[])
            .returning(StatusCode::UNPROCESSABLE_ENTITY)
            .expecting(vec![
                ("/code", is("crosscheck_rejected")),
                ("/decision/crosscheck_reason", is(reason)),
            ])
    };
    vec![
        Chapter::new(
            "a coherent verdict is delivered",
            vec![
                Step::submit(&session("good"), QUERY, GOOD, &[])
                    .returning(StatusCode::CREATED)
                    .expecting(vec![("/regen", is(false)), ("/decision/coherence_score", is(1.0))]),
                Step::submit(&session("good"), QUERY, GOOD, &[])
                    .expecting(vec![("/replayed", is(true)), ("/verdict", good())]),
                Step::read(&session("good")).expecting(vec![("/verdict", good()), ("x-cache", is("HIT"))]),
            ],
        ),
        Chapter::new(
            "a verdict that contradicts itself, is not JSON or is cut off is rejected",
            vec![
                rejected("contradicting", QUERY, CONTRADICTING, "dimension_conflict"),
                rejected("prose", QUERY, "GREEN, I should think!", "degenerate_manifold"),
                rejected("truncated", TRUNCATED_QUERY, TRUNCATED, "degenerate_manifold"),
                Step::read(&session("truncated"))
                    .returning(StatusCode::NOT_FOUND)
                    .expecting(vec![("/code", is("session_unknown"))]),
            ],
        ),
    ]
}
