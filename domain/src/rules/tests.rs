mod definitions;
mod examples;
mod frozen;
mod hostile;
mod later;
mod transcription;

use super::*;

fn check(facts: &[&str]) -> Check {
    Check { facts: facts.iter().map(|fact| (*fact).to_owned()).collect(), ..Check::default() }
}

fn evaluated(text: &str, check: &Check) -> Evaluation {
    evaluate(&Candidate::text(text), check, &FactSet::compile(&check.facts), &Settings::default())
}

/// What `rule` alone says.
fn applied(rule: RuleId, text: &str, check: &Check) -> RuleResult {
    let check = Check { rules: Some(vec![rule]), ..check.clone() };
    let [result] = evaluated(text, &check).rules.try_into().expect("one rule was applied");
    result
}

fn failed(evaluation: &Evaluation) -> Vec<&'static str> {
    let failed = evaluation.rules.iter().filter(|rule| rule.verdict == Verdict::Fail);
    failed.map(|rule| rule.rule.as_str()).collect()
}

#[test]
fn a_text_that_its_facts_support_passes_and_another_fails_with_its_span() {
    let check = check(&["Water boils at 100 C at sea level.", "Ice melts"]);
    let good = evaluated("Water boils at 100 c. ICE MELTS\r\n at 0 C!", &check);
    assert_eq!((good.verdict, good.metrics.claims), (Verdict::Pass, 2));
    let text = "Water boils at 100 C. The moon is cheese.";
    let bad = evaluated(text, &check);
    assert_eq!(failed(&bad), ["RULE-PREC-001", "RULE-PREC-004"]);
    for rule in bad.rules.iter().filter(|rule| rule.verdict == Verdict::Fail) {
        let [violation] = rule.violations.as_slice() else { panic!("{rule:?}") };
        let span = violation.span.clone().expect("it stands somewhere");
        assert_eq!(&text[span.start..span.end], "The moon is cheese");
        assert_eq!(violation.text, "The moon is cheese");
    }
}

#[test]
fn serdes_json_is_the_canonical_one_and_the_digest_is_its() {
    let mut check = check(&["Ice \"melts\"\u{7f}\u{1}", " "]);
    check.expected.must_find = vec!["é".into()];
    check.expected.contradiction_ids = vec!["true".into(), "nonsense".into()];
    check.constraints = vec!["b > a".into()];
    let evaluation = evaluated("True or false? a > b. \u{10ffff}\u{e000}", &check);
    let text = serde_json::to_string(&evaluation).expect("it is JSON");
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(text, serde_json_canonicalizer::to_string(&value).expect("it is canonical"));
    let mut unsigned = value;
    unsigned.as_object_mut().expect("an object").remove("sha256");
    let canonical = serde_json_canonicalizer::to_vec(&unsigned).expect("it is canonical");
    assert_eq!(evaluation.sha256, Sha256Hex::of(&canonical));
    assert_eq!(serde_json::from_str::<Evaluation>(&text).expect("it reads back"), evaluation);
}

#[test]
fn comparisons_that_cannot_hold_together_are_named_in_their_circle() {
    for (text, circle) in [
        ("X > Y and also y > x.", Some("x > y, y > x")),
        ("a >= b, b >= c, c >= a", None),
        ("a >= b, b >= c, c > a", Some("c > a, a >= b, b >= c")),
        ("load < 5 and load > 7", Some("load < 5, load > 7, 7 > 5")),
        ("load < 7.0 and load > 5", None),
        ("x > 1,000 but x < 999.50", Some("x > 1,000, 1000 > 999.5, x < 999.50")),
        ("a -> b <- a => b << a >> b <> a", None),
        ("<b>b</b>, <x>y</x>, <y>x</y>, Vec<T> t", None),
        ("n > -1, n < -2", Some("n > -1, -1 > -2, n < -2")),
        ("2 > 3", Some("2 > 3, 3 > 2")),
        ("x >= 7, x <= 5", Some("7 > 5, x <= 5, x >= 7")),
        ("a >\nb, b > a", None),
    ] {
        let all = check(&[]);
        let evaluation = evaluated(text, &all);
        let rule = evaluation.rules.iter().find(|rule| rule.rule == RuleId::Cont002).expect("it is applied");
        let messages: Vec<_> = rule.violations.iter().map(|violation| violation.message.as_str()).collect();
        let expected: Vec<_> =
            circle.iter().map(|circle| format!("these cannot hold together: {circle}")).collect();
        assert_eq!(messages, expected, "{text}");
    }
}

#[test]
fn what_fills_the_evidence_does_not_change_the_verdict() {
    let mut check = check(&["a > b"]);
    check.constraints = vec!["x < y".into(), "y < x".into()];
    assert_eq!(evaluated("a > b", &check).verdict, Verdict::Error, "constraints alone are in conflict");
    check.expected.contradiction_ids = (0..1000).map(|n| format!("unknown {n}")).collect();
    assert_eq!(evaluated("a > b", &check).verdict, Verdict::Error);
}

#[test]
fn a_message_is_short_whatever_it_is_about() {
    let mut check = check(&[]);
    check.expected.must_not_find = vec!["x".repeat(5000)];
    let circle: String = (0..500).map(|n| format!("n{n} > n{} ", (n + 1) % 500)).collect();
    let evaluation = evaluated(&format!("{circle}{}", "x".repeat(5000)), &check);
    assert_eq!(failed(&evaluation), ["RULE-PREC-001", "RULE-PREC-003", "RULE-PREC-004", "RULE-CONT-002"]);
    for violation in evaluation.rules.iter().flat_map(|rule| &rule.violations) {
        assert!(violation.message.chars().count() < 300, "{}", violation.message);
    }
}

#[test]
fn a_text_and_a_field_with_that_text_are_not_the_same_input() {
    let (check, settings) = (check(&[]), Settings::default());
    let facts = FactSet::compile(&check.facts);
    let field = evaluate(&Candidate::fields([("summary", "Ice melts")]), &check, &facts, &settings);
    let text = evaluate(&Candidate::text(r#"{"summary":"Ice melts"}"#), &check, &facts, &settings);
    assert_eq!(field.candidate_sha256, text.candidate_sha256);
    assert_ne!(field.input_sha256, text.input_sha256);
}
