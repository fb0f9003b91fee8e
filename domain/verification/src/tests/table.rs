//! The decision table: every combination of what a decision depends on, compared with rules in the words of the
//! specification.
//!
//! A rule defines the cases to which it applies, and their expected outcome. For each case, a rule must give
//! the kind of the envelope, and all applicable rules must hold. Each rule must apply to at least one case.

mod case;
mod rules;

use super::support::*;
use crate::decide;
use case::{TableCase, claim_and_reviewer_cases, source_and_time_cases, time_and_budget_cases};
use rules::{ExpectedOutcome, RULES};
use std::thread;

/// Returns the number of cases, and for each rule whether it applies to one of them.
fn check_cases(cases: impl Iterator<Item = TableCase>) -> (u64, Vec<bool>) {
    let (mut count, mut mentioned) = (0, vec![false; RULES.len()]);
    for case in cases {
        count += 1;
        let envelope = decide(&case.inputs());
        let mut is_told = false;
        for (rule, mentioned) in RULES.iter().zip(mentioned.iter_mut()) {
            if !(rule.when)(&case) {
                continue;
            }
            *mentioned = true;
            is_told |= matches!(rule.then, ExpectedOutcome::Kind(_));
            let is_so = match &rule.then {
                ExpectedOutcome::Kind(kind) => envelope.kind == *kind,
                ExpectedOutcome::Value(value) => case.value_in(&envelope).as_deref() == Some(value(&case)),
                ExpectedOutcome::That(holds) => holds(&case, &envelope),
            };
            assert!(is_so, "{}\n{case:?}\n{envelope:#?}", rule.description);
        }
        assert!(is_told, "no rule gives the kind of {case:?}: {:?}", envelope.kind);
    }
    (count, mentioned)
}

#[test]
fn decision_table_matches_the_rules() {
    let checked = thread::scope(|threads| {
        [
            threads.spawn(|| check_cases(source_and_time_cases())),
            threads.spawn(|| check_cases(time_and_budget_cases())),
            threads.spawn(|| check_cases(claim_and_reviewer_cases())),
        ]
        .map(|cases| cases.join().expect("all cases match"))
    });
    let count: u64 = checked.iter().map(|(count, _)| count).sum();
    assert!(count > 50_000, "{count} cases");
    for (number, rule) in RULES.iter().enumerate() {
        let is_mentioned = checked.iter().any(|(_, mentioned)| mentioned[number]);
        assert!(is_mentioned, "the rule applies to no case: {}", rule.description);
    }
}
