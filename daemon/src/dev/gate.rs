//! What the walk shows of the gate: what passes, what is refused, and what is kept.

use super::step::{Expected, Step, is, session};
use hyper::StatusCode;
use serde_json::Value;

pub(super) const GOOD: &str = include_str!("good.json");
/// Praise over five refusals without a word of analysis.
const CONTRADICTING: &str = include_str!("contradicting.json");
/// What a real model said before it reached its token limit.
const TRUNCATED: &str = include_str!("truncated.txt");
pub(super) const QUERY: &str = "A neighbourhood tool library run by volunteers out of a shipping container.";
const TRUNCATED_QUERY: &str = "Adopt a second rescue dog while working from home three days a week.";

/// Steps that ask nobody outside.
pub(super) fn steps(before: u64) -> Vec<Step> {
    let session = |name: &str| session(before, name);
    let refused = |step: Step, reason: &str| {
        step.coming(StatusCode::UNPROCESSABLE_ENTITY).logging(&["tmm_crosscheck"]).expecting(vec![
            ("/code", is("crosscheck_rejected")),
            ("/decision/crosscheck_reason", is(reason)),
        ])
    };
    let good = || Expected::Is(serde_json::from_str(GOOD).unwrap_or(Value::Null));
    vec![
        Step::submit("a coherent verdict is delivered", &session("good"), QUERY, GOOD)
            .coming(StatusCode::CREATED)
            .expecting(vec![("/regen", is(false)), ("/decision/coherence_score", is(1.0))])
            .logging(&["tmm_crosscheck", "verdict_cached"]),
        Step::submit("the same again gets the stored answer", &session("good"), QUERY, GOOD)
            .expecting(vec![("/replayed", is(true)), ("/verdict", good())]),
        refused(
            Step::submit(
                "a verdict against its own breakdown is refused",
                &session("contradicting"),
                QUERY,
                CONTRADICTING,
            ),
            "dimension_conflict",
        ),
        refused(
            Step::submit(
                "text that is no JSON is refused",
                &session("prose"),
                QUERY,
                "GREEN, I should think!",
            ),
            "degenerate_manifold",
        ),
        refused(
            Step::submit(
                "a real model's answer, cut at its token limit, is refused",
                &session("truncated"),
                TRUNCATED_QUERY,
                TRUNCATED,
            ),
            "degenerate_manifold",
        ),
        Step::read("nothing of a refused verdict is kept", &session("truncated"))
            .coming(StatusCode::NOT_FOUND)
            .expecting(vec![("/code", is("session_unknown"))]),
        Step::read("the delivered one is read from the cache", &session("good"))
            .expecting(vec![("/verdict", good()), ("x-cache", is("HIT"))]),
    ]
}
