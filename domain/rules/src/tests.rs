mod definitions;
mod examples;
mod frozen;
mod hostile;
mod transcription;

use super::*;
use std::collections::HashSet;
use strum::VariantArray;

fn check(facts: &[&str]) -> CandidateCheck {
    CandidateCheck {
        facts: facts.iter().map(|fact| (*fact).to_owned()).collect(),
        ..CandidateCheck::default()
    }
}

fn evaluated(text: &str, check: &CandidateCheck) -> RulesEvaluation {
    evaluate(&CandidateText::text(text), check, &FactSet::compile(&check.facts), &RuleSettings::default())
}

/// The result of `rule` alone.
fn applied(rule: RuleId, text: &str, check: &CandidateCheck) -> RuleResult {
    let check = CandidateCheck { rules: Some(vec![rule]), ..check.clone() };
    let [result] = evaluated(text, &check).rules.try_into().expect("one rule was applied");
    result
}

fn failed(evaluation: &RulesEvaluation) -> Vec<&'static str> {
    let failed = evaluation.rules.iter().filter(|rule| rule.verdict == RuleVerdict::Fail);
    failed.map(|rule| rule.rule.into_str()).collect()
}

#[test]
fn supported_text_passes_and_unsupported_text_fails_with_span() {
    let check = check(&["Water boils at 100 C at sea level.", "Ice melts"]);
    let good = evaluated("Water boils at 100 c. ICE MELTS\r\n at 0 C!", &check);
    assert_eq!((good.verdict, good.metrics.claims), (RuleVerdict::Pass, 2));
    let text = "Water boils at 100 C. The moon is cheese.";
    let bad = evaluated(text, &check);
    assert_eq!(failed(&bad), ["RULE-PREC-001", "RULE-PREC-004"]);
    for rule in bad.rules.iter().filter(|rule| rule.verdict == RuleVerdict::Fail) {
        let [violation] = rule.violations.as_slice() else { panic!("{rule:?}") };
        let span = violation.span.clone().expect("the text contains it");
        assert_eq!(&text[span.start..span.end], "The moon is cheese");
        assert_eq!(violation.text, "The moon is cheese");
    }
}

#[test]
fn evaluation_json_is_canonical_and_matches_digest() {
    let mut check = check(&["Ice \"melts\"\u{7f}\u{1}", " "]);
    check.expected.must_find = vec!["é".into()];
    check.expected.contradiction_ids = vec!["true".into(), "nonsense".into()];
    check.constraints = vec!["b > a".into()];
    let evaluation = evaluated("True or false? a > b. \u{10ffff}\u{e000}", &check);
    let text = serde_json::to_string(&evaluation).expect("valid JSON");
    let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    assert_eq!(text, serde_json_canonicalizer::to_string(&value).expect("the value is canonical"));
    let mut unsigned = value;
    unsigned.as_object_mut().expect("an object").remove("sha256");
    let canonical = serde_json_canonicalizer::to_vec(&unsigned).expect("the value is canonical");
    assert_eq!(evaluation.sha256, Sha256Hex::of(&canonical));
    assert_eq!(serde_json::from_str::<RulesEvaluation>(&text).expect("valid JSON"), evaluation);
}

/// Two checks that can have other results have other digests.
#[test]
fn digests_differ_with_each_member_that_changes_the_result() {
    let plain = check(&["Ice melts"]);
    let changed = |change: fn(&mut CandidateCheck)| {
        let mut check = plain.clone();
        change(&mut check);
        check
    };
    let checks = [
        plain.clone(),
        changed(|check| check.facts.push("Tin is grey".into())),
        changed(|check| check.constraints.push("a < b".into())),
        changed(|check| check.expected.must_find.push("ice".into())),
        changed(|check| check.language = TextLanguage::De),
        changed(|check| check.derive = true),
        changed(|check| check.rules = Some(vec![RuleId::Prec013])),
    ];
    let inputs = checks.iter().map(|check| evaluated("Ice melts.", check).input_sha256);
    let requests = checks.iter().map(|check| check.clone().with_request_digest(None, None).request_sha256);
    assert_eq!(inputs.collect::<HashSet<_>>().len(), checks.len());
    assert_eq!(requests.collect::<HashSet<_>>().len(), checks.len());
}

#[test]
fn contradicting_comparisons_are_reported_as_a_cycle() {
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
        ("x > 1,5 and x < 7", None),
        ("x > 1,5,00 and x < 1,500", None),
        ("x > 0,123 and x < 100", None),
        ("x > 1,234,567.5 and x < 1234567", Some("x > 1,234,567.5, 1234567.5 > 1234567, x < 1234567")),
        ("2 > 3", Some("2 > 3, 3 > 2")),
        ("x >= 7, x <= 5", Some("7 > 5, x <= 5, x >= 7")),
        ("a >\nb, b\u{a0}>\u{a0}a", Some("a > b, b > a")),
        ("> a\n> b\n> a\n>= c, c > a", Some("c > a, a >= c")),
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
fn only_whole_operands_are_compared() {
    for text in [
        "x < 1/2 and x > 1/4",
        "a > b+c, b > a",
        "a > b ^2, b > a",
        "x > y - 1; y > x",
        "x > y \u{2212} 1; y > x",
        "p - x > y; y > x",
        "2*x > y, y > x",
        "x > f(y), f > x",
        "x > f (y), f > x",
        "f(x) > y, y > x",
        "2(a+b) x > y, y > x",
        "-x > y, y > x",
        "\u{221a}x > y, y > x",
        "latency > 500 ms and latency < 2 s",
        "latency > 500ms and latency < 500ms",
        "500 ms < latency and ms > latency",
        "load < 5 million and load > 7",
        "power > 5mW and power < 5MW",
        "x > 5 %, x < 3",
        "€ 5 > x, x > 7",
        "the new price > price",
        "price > price of old",
        "it's > x, x > s",
        "at 12:30 < x, x < 20",
        "x > a[i], a > x",
        "Jo <jo@x.org>",
        "2x > y, y > 2x",
        "Option<Option<T>>",
        "a <- b, b <- a, a->b, b->a, 5->3, a<-b, a<<5, a =< b, b <=> a",
    ] {
        assert_eq!(applied(RuleId::Cont002, text, &check(&[])).violations, [], "{text}");
    }
    for (text, circle) in [
        ("(x > y), \"Y > X\"", "x > y, y > x"),
        ("- x > y\n- y > x\n* z", "x > y, y > x"),
        ("n>-1, n<-2", "n>-1, -1 > -2, n<-2"),
        ("n > \u{2212}1, n < -2", "n > \u{2212}1, -1 > -2, n < -2"),
        ("a>b,c>d,d>c", "c>d, d>c"),
        ("load < 5% and load > 7%", "load < 5%, load > 7%, 7% > 5%"),
        ("fee < $5, fee > $7.00", "fee < $5, fee > $7.00, $7 > $5"),
        ("fee < 5€, fee > €1,000", "fee < 5€, fee > €1,000, €1000 > €5"),
        ("x > x and y >= y", "x > x"),
        ("the cafe\u{301} > e and E > Cafe\u{301}", "cafe\u{301} > e, e > cafe\u{301}"),
    ] {
        let violations = applied(RuleId::Cont002, text, &check(&[])).violations;
        let messages: Vec<_> = violations.iter().map(|violation| violation.message.as_str()).collect();
        assert_eq!(messages, [format!("these cannot hold together: {circle}")], "{text}");
    }
    for text in ["load < 5% and load > 7", "fee < $5, fee > €7", "x < 5°, x > 7%"] {
        assert_eq!(applied(RuleId::Cont002, text, &check(&[])).verdict, RuleVerdict::Pass, "{text}");
    }
}

#[test]
fn constraint_with_other_text_is_not_used() {
    for (constraint, is_understood) in [
        ("x <= 3", true),
        (" x <=\n3 ", true),
        ("x <= 3, y<2", true),
        ("x <= 3 and y < 2 AND z > 2", true),
        ("x <= 3, y < 2, and z > 2", true),
        ("0 < x <= 3", true),
        ("x <= 3 and y \u{2264} 2", false),
        ("x <= 3 or y < 2", false),
        ("x <= 3 y < 2", false),
        ("x <= 3,, y < 2", false),
        ("x <= 3,", false),
        ("x <= 3 ms", false),
        ("always x <= 3", false),
        ("x <= 3 at night", false),
        ("x <= 3, Vec<T>", false),
        ("x <= 3 - 1", false),
        (", x <= 3", false),
        ("", false),
    ] {
        let all = CandidateCheck { constraints: vec![constraint.into()], ..check(&[]) };
        let result = applied(RuleId::Cont002, "x > 5", &all);
        let not_understood = result
            .evidence
            .iter()
            .any(|step| step.output.finding == EvidenceFinding::ConstraintNotUnderstood);
        assert_eq!(not_understood, !is_understood, "{constraint}");
        assert_eq!(result.verdict == RuleVerdict::Fail, is_understood, "{constraint}");
    }
}

#[test]
fn reversed_pair_counts_as_the_same_pair() {
    let mut all = check(&[]);
    all.expected.contradiction_ids = vec!["always-never".into(), "hot".into()];
    all.expected.contradiction_pairs =
        [("never", "ALWAYS"), ("hot", "cold"), ("Cold", "hot"), ("decrease", "increase")]
            .map(|(one, other)| (one.into(), other.into()))
            .into();
    let text = "It is always hot, never cold; it increases and does not decrease.";
    for rule in [RuleId::Cont001, RuleId::Cont002, RuleId::Cont003] {
        let result = applied(rule, text, &all);
        assert_eq!(result.violations.len(), 3, "{:?}", result.violations);
    }
}

#[test]
fn full_evidence_does_not_change_the_verdict() {
    let mut check = check(&["a > b"]);
    check.constraints = vec!["x < y".into(), "y < x".into()];
    assert_eq!(evaluated("a > b", &check).verdict, RuleVerdict::Error, "constraints alone are in conflict");
    check.expected.contradiction_ids = (0..1000).map(|n| format!("unknown {n}")).collect();
    assert_eq!(evaluated("a > b", &check).verdict, RuleVerdict::Error);
}

#[test]
fn evidence_lists_decisive_steps_before_notes() {
    let mut all = CandidateCheck { facts: vec![" ".into(); 1500], ..check(&[]) };
    all.expected.contradiction_ids = (0..1000).map(|n| format!("unknown {n}")).collect();
    all.expected.contradiction_ids.push("always".into());
    all.constraints = vec!["in words".into(), "x > y".into()];
    let rest: String = (0..1200).map(|n| format!("n{n} > m, ")).collect();
    let text = format!("Always {rest} y > x, never");
    let evaluation = evaluated(&text, &all);
    for (rule, first) in [
        (
            RuleId::Prec001,
            vec![EvidenceFinding::Claims, EvidenceFinding::Unsupported, EvidenceFinding::OverThreshold],
        ),
        (RuleId::Prec004, vec![EvidenceFinding::Unsupported]),
        (RuleId::Cont001, vec![EvidenceFinding::BothAppear]),
        (
            RuleId::Cont002,
            vec![
                EvidenceFinding::BothAppear,
                EvidenceFinding::Incompatible,
                EvidenceFinding::Incompatible,
                EvidenceFinding::Comparison,
                EvidenceFinding::Comparison,
            ],
        ),
        (RuleId::Cont003, vec![EvidenceFinding::BothAppear]),
    ] {
        let result = evaluation.rules.iter().find(|result| result.rule == rule).expect("it is applied");
        let found: Vec<_> =
            result.evidence.iter().map(|step| step.output.finding).take(first.len()).collect();
        assert_eq!((found, result.evidence.len()), (first, 1000), "{rule}");
    }
    let compared = &evaluation.rules[5].evidence[3..5];
    let compared = compared.iter().map(|step| (step.input.text.as_str(), step.output.span.is_some()));
    assert_eq!(compared.collect::<Vec<_>>(), [("x > y", false), ("y > x", true)]);
    // if the constraints contradict each other, their conflict decides
    all.constraints.push("y > x".into());
    let result = applied(RuleId::Cont002, &text, &all);
    assert_eq!(result.evidence[1].output.finding, EvidenceFinding::ConstraintsIncompatible);
}

#[test]
fn evidence_hash_depends_on_candidate_and_facts() {
    let mut all = check(&["ice melts", " "]);
    all.expected.must_find = vec!["ice".into()];
    all.expected.must_not_find = vec!["fire".into()];
    all.expected.contradiction_ids = vec!["true".into()];
    all.constraints = vec!["x > y".into()];
    all.rules = Some(RuleId::VARIANTS.into());
    // notes depend only on the check
    let digests = |text: &str| {
        let steps = evaluated(text, &all).rules.into_iter().flat_map(|rule| rule.evidence);
        let steps = steps.filter(|step| step.output.finding != EvidenceFinding::BlankFact);
        let steps = steps.filter(|step| step.input.text != "x > y" && step.input.text != "0");
        steps.map(|step| (step.rule, step.input_sha256)).collect::<Vec<_>>()
    };
    let (one, other) = (digests("Ice melts, a > b"), digests("Ice melts, a > b."));
    let (claims, others): (Vec<_>, Vec<_>) = one.into_iter().partition(|step| {
        // a comparison of a claim with a fact does not depend on the rest of the candidate
        matches!(step.0, RuleId::Prec004 | RuleId::Prec013)
    });
    assert!(claims.iter().all(|step| other.contains(step)));
    assert!(others.len() >= 9 && others.iter().all(|step| !other.contains(step)), "{others:?}");
    let compatible = |constraint: &str| {
        let check = CandidateCheck { constraints: vec![constraint.into()], ..check(&[]) };
        let evidence = applied(RuleId::Cont002, "a > b", &check).evidence;
        evidence.into_iter().next().expect("the evidence lists the comparisons").input_sha256
    };
    assert_ne!(compatible("x > y"), compatible("y > x"));
}

#[test]
fn unsupported_claims_are_counted_by_applied_rules() {
    let all = check(&["ice melts", "The bridge is long"]);
    let text = "Ice melts. The bridge is long, green and made of cheese. At 7.8 km.";
    for (rules, unsupported) in [
        (vec![RuleId::Prec001], 2),
        (vec![RuleId::Prec004, RuleId::Cont001], 2),
        (vec![RuleId::Prec013], 3),
        (RuleId::VARIANTS.into(), 3),
        (vec![RuleId::Prec002, RuleId::Cont001], 0),
    ] {
        let check = CandidateCheck { rules: Some(rules.clone()), ..all.clone() };
        let metrics = evaluated(text, &check).metrics;
        assert_eq!((metrics.unsupported_claims, metrics.claims), (unsupported, 4), "{rules:?}");
    }
}

#[test]
fn violation_message_is_always_short() {
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
fn text_and_field_with_same_text_are_different_inputs() {
    let (check, settings) = (check(&[]), RuleSettings::default());
    let facts = FactSet::compile(&check.facts);
    let field = evaluate(&CandidateText::fields([("summary", "Ice melts")]), &check, &facts, &settings);
    let text = evaluate(&CandidateText::text(r#"{"summary":"Ice melts"}"#), &check, &facts, &settings);
    assert_eq!(field.candidate_sha256, text.candidate_sha256);
    assert_ne!(field.input_sha256, text.input_sha256);
}
