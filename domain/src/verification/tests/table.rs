//! The decision table: every combination of what a decision depends on, held against rules in the words of the specification.
//!
//! A rule says of which cases it speaks and what must come of them. Every case has to be one of which a rule tells the kind of
//! the envelope, every rule that speaks of a case has to be right, and every rule has to speak of some case.

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
        assert!(is_told, "no rule tells what becomes of {case:?}: {:?}", envelope.kind);
    }
    count
}

#[test]
fn table_of_sources_times_and_people_matches_the_rules() {
    let mut mentioned = vec![0; RULES.len()];
    let cases = sources_and_times().chain(times_and_budgets()).chain(claims_and_people());
    let count = hold(cases, &mut mentioned);
    assert!(count > 50_000, "{count} cases");
    for (rule, mentioned) in RULES.iter().zip(mentioned) {
        assert!(mentioned > 0, "the rule speaks of no case: {}", rule.says);
    }
}
