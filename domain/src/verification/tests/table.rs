//! The decision table: every combination of what a decision depends on, compared with rules in the words of the
//! specification.
//!
//! A rule defines the cases to which it applies, and their expected outcome. For each case, a rule must give the kind of
//! the envelope, and all applicable rules must hold. Each rule must apply to at least one case.

mod case;
mod rules;

use super::support::*;
use crate::verification::decide;
use case::{Case, claims_and_people, sources_and_times, times_and_budgets};
use rules::{Expected, RULES};

fn hold(cases: impl Iterator<Item = Case>, mentioned: &mut [u64]) -> u64 {
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
            is_told |= matches!(rule.then, Expected::Kind(_));
            let is_so = match &rule.then {
                Expected::Kind(kind) => envelope.kind == *kind,
                Expected::Value(value) => case.value_in(&envelope).as_deref() == Some(value(&case)),
                Expected::That(holds) => holds(&case, &envelope),
            };
            assert!(is_so, "{}\n{case:?}\n{envelope:#?}", rule.says);
        }
        assert!(is_told, "no rule gives the kind of {case:?}: {:?}", envelope.kind);
    }
    count
}

#[test]
fn decision_table_matches_the_rules() {
    let mut mentioned = vec![0; RULES.len()];
    let cases = sources_and_times().chain(times_and_budgets()).chain(claims_and_people());
    let count = hold(cases, &mut mentioned);
    assert!(count > 50_000, "{count} cases");
    for (rule, mentioned) in RULES.iter().zip(mentioned) {
        assert!(mentioned > 0, "the rule applies to no case: {}", rule.says);
    }
}
