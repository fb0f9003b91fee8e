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

fn check_cases(cases: impl Iterator<Item = TableCase>, mentioned: &mut [u64]) -> u64 {
    let mut count = 0;
    for case in cases {
        count += 1;
        let envelope = decide(&case.inputs());
        let mut is_told = false;
        for (rule, mentioned) in RULES.iter().zip(mentioned.iter_mut()) {
            if !(rule.when)(&case) {
                continue;
            }
            *mentioned += 1;
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
    count
}

#[test]
fn decision_table_matches_the_rules() {
    let mut mentioned = vec![0; RULES.len()];
    let cases = source_and_time_cases().chain(time_and_budget_cases()).chain(claim_and_reviewer_cases());
    let count = check_cases(cases, &mut mentioned);
    assert!(count > 50_000, "{count} cases");
    for (rule, mentioned) in RULES.iter().zip(mentioned) {
        assert!(mentioned > 0, "the rule applies to no case: {}", rule.description);
    }
}
