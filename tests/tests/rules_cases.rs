//! The cases of Oracle-A: each must have the result that its line expects. `oraclectl rules eval` reads the same
//! file.

use domain_rules::{
    CandidateCheck, CandidateText, FactSet, RuleSettings, RuleVerdict, RuleViolation, RulesEvaluation,
    evaluate,
};
use serde_json::Value;
use std::collections::BTreeSet;

const CASES: &str = include_str!("../cases/oracle-a.ndjson");
const CATEGORIES: [&str; 6] =
    ["adversarial", "comparison", "contradiction", "patterns", "precision", "unicode"];
/// Longest text of a violation, in characters. Longer texts are truncated.
const QUOTED_MAX_CHARS: usize = 200;

/// One line of the file.
struct RulesFileCase {
    id: String,
    category: String,
    candidate: String,
    check: CandidateCheck,
    verdict: RuleVerdict,
    failed: Vec<String>,
}

impl RulesFileCase {
    fn read(line: &str) -> Self {
        let mut members: serde_json::Map<String, Value> = serde_json::from_str(line).expect("an object");
        let mut take = |name: &str| members.remove(name).unwrap_or_default();
        let mut text = |name: &str| take(name).as_str().expect("the file exists and is UTF-8").to_owned();
        let (id, category, candidate) = (text("id"), text("category"), text("candidate_output"));
        assert!(!text("note").is_empty(), "{id} has a note");
        let mut want = take("want");
        let mut take_expected = |name: &str| want.get_mut(name).map(Value::take).unwrap_or_default();
        let verdict = serde_json::from_value(take_expected("verdict")).expect("a verdict");
        let failed = serde_json::from_value(take_expected("failed")).expect("ids of rules");
        let check: CandidateCheck = serde_json::from_value(Value::Object(members)).expect("a check");
        check.validate(&RuleSettings::default()).expect("the check can be made");
        Self { id, category, candidate, check, verdict, failed }
    }

    fn evaluated(&self) -> RulesEvaluation {
        let facts = FactSet::compile(&self.check.facts);
        evaluate(&CandidateText::text(&self.candidate), &self.check, &facts, &RuleSettings::default())
    }
}

fn cases() -> Vec<RulesFileCase> {
    CASES.lines().map(RulesFileCase::read).collect()
}

/// Whether the violation's span contains its text.
fn is_span_correct(candidate: &str, violation: &RuleViolation) -> bool {
    let Some(span) = &violation.span else { return true };
    let cut_out = candidate.get(span.start..span.end).expect("a span is on characters' boundaries");
    match violation.text.strip_suffix('…') {
        Some(beginning) if beginning.chars().count() == QUOTED_MAX_CHARS => cut_out.starts_with(beginning),
        _ => cut_out == violation.text,
    }
}

#[test]
fn every_case_has_its_expected_verdict_and_failed_rules() {
    let wrong: Vec<String> = cases()
        .iter()
        .filter_map(|case| {
            let evaluation = case.evaluated();
            let failed = evaluation.rules.iter().filter(|rule| rule.verdict == RuleVerdict::Fail);
            let failed: Vec<&str> = failed.map(|rule| rule.rule.into_str()).collect();
            let is_as_expected = evaluation.verdict == case.verdict && failed == case.failed;
            let (id, expected) = (&case.id, (case.verdict, &case.failed));
            (!is_as_expected)
                .then(|| format!("{id}: {:?} instead of {expected:?}", (evaluation.verdict, failed)))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn repeated_evaluation_of_a_case_returns_the_same_bytes() {
    for case in cases() {
        let [first, second] = [case.evaluated(), case.evaluated()]
            .map(|evaluation| serde_json::to_string(&evaluation).expect("valid JSON"));
        assert_eq!(first, second, "{}", case.id);
    }
}

#[test]
fn every_span_contains_the_text_of_its_violation() {
    let mut spans = 0;
    for case in cases() {
        for rule in case.evaluated().rules {
            for violation in &rule.violations {
                assert!(is_span_correct(&case.candidate, violation), "{}: {violation:?}", case.id);
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
fn case_that_expects_fail_names_the_failed_rules() {
    for case in cases() {
        assert_eq!(case.verdict == RuleVerdict::Fail, !case.failed.is_empty(), "{}", case.id);
    }
}

#[test]
fn cases_cover_all_categories_and_have_unique_ids() {
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
