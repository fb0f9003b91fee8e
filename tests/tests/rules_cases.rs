//! The cases of Oracle-A: each is evaluated as its line wants it. `oraclectl rules eval` reads the same file.

use oracled_domain::rules::{Candidate, Check, Evaluation, FactSet, Settings, Verdict, Violation, evaluate};
use serde_json::Value;
use std::collections::BTreeSet;

const CASES: &str = include_str!("../cases/oracle-a.ndjson");
const CATEGORIES: [&str; 6] =
    ["adversarial", "comparison", "contradiction", "patterns", "precision", "unicode"];
/// A text that is longer is quoted by its beginning.
const QUOTED_MAX_CHARS: usize = 200;

/// One line of the file.
struct Case {
    id: String,
    category: String,
    candidate: String,
    check: Check,
    verdict: Verdict,
    failed: Vec<String>,
}

impl Case {
    fn read(line: &str) -> Self {
        let mut members: serde_json::Map<String, Value> = serde_json::from_str(line).expect("an object");
        let mut take = |name: &str| members.remove(name).unwrap_or_default();
        let mut text = |name: &str| take(name).as_str().expect("it is there and is text").to_owned();
        let (id, category, candidate) = (text("id"), text("category"), text("candidate_output"));
        assert!(!text("note").is_empty(), "{id} says what it shows");
        let mut want = take("want");
        let mut wanted = |name: &str| want.get_mut(name).map(Value::take).unwrap_or_default();
        let verdict = serde_json::from_value(wanted("verdict")).expect("a verdict");
        let failed = serde_json::from_value(wanted("failed")).expect("ids of rules");
        let check: Check = serde_json::from_value(Value::Object(members)).expect("a check");
        check.validate(&Settings::default()).expect("the check can be made");
        Self { id, category, candidate, check, verdict, failed }
    }

    fn evaluated(&self) -> Evaluation {
        let facts = FactSet::compile(&self.check.facts);
        evaluate(&Candidate::text(&self.candidate), &self.check, &facts, &Settings::default())
    }
}

fn cases() -> Vec<Case> {
    CASES.lines().map(Case::read).collect()
}

/// Whether the violation's span cuts out what it quotes.
fn is_where_it_says(candidate: &str, violation: &Violation) -> bool {
    let Some(span) = &violation.span else { return true };
    let cut_out = candidate.get(span.start..span.end).expect("a span is on characters' boundaries");
    match violation.text.strip_suffix('…') {
        Some(beginning) if beginning.chars().count() == QUOTED_MAX_CHARS => cut_out.starts_with(beginning),
        _ => cut_out == violation.text,
    }
}

#[test]
fn every_case_comes_out_as_it_was_worked_out_by_hand() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter_map(|case| {
            let evaluation = case.evaluated();
            let failed = evaluation.rules.iter().filter(|rule| rule.verdict == Verdict::Fail);
            let failed: Vec<&str> = failed.map(|rule| rule.rule.into_str()).collect();
            let is_as_wanted = evaluation.verdict == case.verdict && failed == case.failed;
            let (id, wanted) = (&case.id, (case.verdict, &case.failed));
            (!is_as_wanted).then(|| format!("{id}: {:?} instead of {wanted:?}", (evaluation.verdict, failed)))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_case_that_is_evaluated_twice_gives_the_same_bytes() {
    for case in cases() {
        let [first, second] = [case.evaluated(), case.evaluated()]
            .map(|evaluation| serde_json::to_string(&evaluation).expect("it is JSON"));
        assert_eq!(first, second, "{}", case.id);
    }
}

#[test]
fn every_span_cuts_out_the_text_that_it_is_about() {
    let mut spans = 0;
    for case in cases() {
        for rule in case.evaluated().rules {
            for violation in &rule.violations {
                assert!(is_where_it_says(&case.candidate, violation), "{}: {violation:?}", case.id);
                if let Some(related) = &violation.related {
                    assert!(case.candidate.get(related.start..related.end).is_some(), "{}", case.id);
                }
                spans += usize::from(violation.span.is_some());
            }
            for span in rule.evidence.iter().filter_map(|step| step.output.span.as_ref()) {
                assert!(case.candidate.get(span.start..span.end).is_some(), "{}: {span:?}", case.id);
            }
        }
    }
    assert!(spans > 100, "{spans}");
}

#[test]
fn a_verdict_that_is_wanted_names_the_rules_that_fail() {
    for case in cases() {
        assert_eq!(case.verdict == Verdict::Fail, !case.failed.is_empty(), "{}", case.id);
    }
}

#[test]
fn the_cases_are_of_every_category_and_each_has_its_own_id() {
    let cases = cases();
    let ids: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len());
    assert!(cases.len() >= 60, "{}", cases.len());
    let categories: BTreeSet<&str> = cases.iter().map(|case| case.category.as_str()).collect();
    assert_eq!(categories, BTreeSet::from(CATEGORIES));
    for category in CATEGORIES {
        let in_it = cases.iter().filter(|case| case.category == category).count();
        assert!(in_it >= 10, "{category}: {in_it}");
    }
}
