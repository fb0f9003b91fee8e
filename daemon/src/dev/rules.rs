//! What the walk shows of the rules: text that is checked against facts, and a verdict that is.

use super::gate::{GOOD, QUERY};
use super::step::{Step, is, session};
use hyper::StatusCode;
use oracled_domain::rules::Verdict;
use serde_json::json;

/// What is known of the plan that the verdict speaks of.
const FACTS: [&str; 7] = [
    "A modest plan with committed people, low fixed costs and a clear first step.",
    "Rent is low and the volunteers know each other.",
    "Lost and broken tools will need a deposit scheme.",
    "Growth is limited by the container, which helps.",
    "Opening takes a permit, shelves and a list.",
    "Each member makes the next one easier to win.",
    "The container stands on a lease of two years.",
];

/// Steps that ask nobody outside.
pub(super) fn steps(before: u64) -> Vec<Step> {
    let session = session(before, "checked");
    let evaluate = |title: &str, text: &str, came_to: Verdict| {
        let body = json!({
            "candidate_output": text,
            "facts": FACTS,
            "expected": {"must_not_find": ["guaranteed"], "contradiction_ids": ["always-never"]},
        });
        Step::evaluate(title, &body)
            .logging(&["rules_evaluated"])
            .expecting(vec![("/verdict", is(came_to.into_str()))])
    };
    let (last, known) = FACTS.split_last().unwrap_or((&"", &[]));
    vec![
        evaluate(
            "text that its facts support passes the rules",
            "Rent is LOW and the volunteers know each other.",
            Verdict::Pass,
        ),
        evaluate(
            "a sentence that no fact supports does not, and opposites beside each other neither",
            "Rent is low and the volunteers know each other. Success is always certain, and never in doubt.",
            Verdict::Fail,
        ),
        Step::submit_with_facts(
            "a verdict that says what no fact supports is refused",
            &session,
            QUERY,
            GOOD,
            &[last],
        )
        .coming(StatusCode::UNPROCESSABLE_ENTITY)
        .logging(&["tmm_crosscheck", "rules_evaluated"])
        .expecting(vec![
            ("/code", is("rules_rejected")),
            ("/evaluation/rules/0/violations/0/span/field", is("summary")),
        ]),
        Step::submit_with_facts(
            "with the facts that it speaks of it is delivered",
            &session,
            QUERY,
            GOOD,
            known,
        )
        .coming(StatusCode::CREATED)
        .logging(&["tmm_crosscheck", "rules_evaluated", "verdict_cached"]),
    ]
}
