//! Rules for notes, counted units and line ends: at least one rule must accept each good text and reject each bad one.

use super::*;
use crate::registry::RuleCheckType;
use strum::VariantArray;

/// The rules of one check type that pass a text with a flaw or fail a text without one, depending on `want`.
fn rules_with(
    check_type: RuleCheckType,
    want: RuleVerdict,
    text: &str,
    check: &CandidateCheck,
) -> Vec<RuleId> {
    let of_type = |rule: &RuleId| rule.rule().check_type == check_type;
    let is_expected = |rule: &RuleId| applied(*rule, text, check).verdict == want;
    RuleId::VARIANTS.iter().copied().filter(of_type).filter(is_expected).collect()
}

#[test]
fn some_rule_supports_a_sentence_that_adds_is_to_a_note() {
    let check = check(&["No maintenance scheduled"]);
    let supporting = |text| rules_with(RuleCheckType::PatternMatch, RuleVerdict::Pass, text, &check);
    assert_ne!(supporting("No maintenance is scheduled."), []);
}

#[test]
fn some_rule_compares_abbreviated_rates_by_value() {
    let check = check(&["The limit of the service: 1,000 requests per minute"]);
    let supporting = |text| rules_with(RuleCheckType::PatternMatch, RuleVerdict::Pass, text, &check);
    assert_ne!(supporting("The limit of the service: 1000 req/min"), []);
}

#[test]
fn some_rule_rejects_cr_lf_where_lf_is_required() {
    let mut required = check(&[]);
    required.expected.must_find = vec!["Name:\nAge:".into()];
    assert_ne!(rules_with(RuleCheckType::MustFind, RuleVerdict::Fail, "Name:\r\nAge:", &required), []);
    let mut forbidden = check(&[]);
    forbidden.expected.must_not_find = vec!["\r\n".into()];
    assert_ne!(rules_with(RuleCheckType::MustNotFind, RuleVerdict::Fail, "Name:\r\nAge:", &forbidden), []);
}

#[test]
fn sentence_completes_a_note_only_with_is_or_are() {
    for (note, text) in [
        ("No maintenance scheduled", "No maintenance is scheduled."),
        ("no incidents open", "**No incidents are open**"),
        ("Refunds possible within 30 days", "Refunds are possible within 30 days"),
        ("Check-in from 15:00", "Check-in is from 15:00"),
        ("Uptime 99.9 % in May", "Uptime is 99.9% in May"),
        ("Rate limit: 500 req/min", "Rate limit: is 500 requests per minute"),
        ("Closed in May and June", "The moon shines. Closed is in May and June"),
        (
            "Maintenance scheduled for May, and off in June",
            "Maintenance is scheduled for May, and is off in June",
        ),
    ] {
        for rule in [RuleId::Prec009, RuleId::Prec010] {
            let facts = check(&["The moon shines", note]);
            assert_eq!(applied(rule, text, &facts).verdict, RuleVerdict::Pass, "{rule} {note:?} {text:?}");
            assert_eq!(applied(RuleId::Prec007, text, &facts).verdict, RuleVerdict::Fail, "{text:?}");
        }
    }
    for (fact, text) in [
        ("No maintenance scheduled", "Maintenance is scheduled"),
        ("No maintenance scheduled", "No maintenance is not scheduled"),
        ("No maintenance scheduled", "No maintenance was scheduled"),
        ("No maintenance scheduled", "No maintenance will be scheduled"),
        ("No maintenance scheduled", "It is false that no maintenance is scheduled"),
        ("Scheduled for May", "Is scheduled is for May"),
        ("No maintenance scheduled in May", "No maintenance is scheduled"),
        ("Refunds possible", "No refunds are possible"),
        ("Refunds possible", "Refunds are not possible"),
        ("Refunds possible", "Refunds are possible for some"),
        ("Users who left are unhappy", "Users who are left unhappy"),
        ("Users served are happy", "Users are served happy"),
        ("The bank charged 5 €", "The bank is charged 5 €"),
        ("The bank sold the house", "The bank is sold the house"),
        ("The bank charged and paid 5 €", "The bank is charged and paid 5 €"),
    ] {
        for rule in [RuleId::Prec009, RuleId::Prec010] {
            assert_eq!(
                applied(rule, text, &check(&[fact])).verdict,
                RuleVerdict::Fail,
                "{rule} {fact:?} {text:?}"
            );
        }
    }
}

#[test]
fn note_in_the_evidence_is_the_first_that_the_claim_completes() {
    let facts = check(&["Doors open wide", "Doors open", "doors open."]);
    let text = "The lamp hangs. Doors are open!";
    let result = applied(RuleId::Prec010, text, &facts);
    let output = &result.evidence[1].output;
    assert_eq!((output.finding, output.fact), (EvidenceFinding::Supported, Some(1)));
    assert_eq!(output.direction, Some(SupportDirection::FactInClaim));
    let [violation] = result.violations.as_slice() else { panic!("{result:?}") };
    assert_eq!(violation.text, "The lamp hangs.");
}

#[test]
fn counted_units_have_one_spelling() {
    for (fact, text) in [
        ("It serves 1,000 requests per minute", "it serves 1000 req/min"),
        ("It serves 1,000 requests/minute", "it serves 1000.0 reqs per min"),
        ("It takes 5 thousand messages per second", "It takes 5000 msg/s"),
        ("It does 200 operations per second", "It does 200 ops/s"),
        ("It settles 7 txn/s", "It settles 7 transactions per second"),
        ("It shows 60 frames per second", "It shows 60 fps"),
        ("It has 30 connections per hour", "It has 30 conns/h"),
        ("It costs 0.20 € per request", "It costs €0.2/req"),
    ] {
        assert_eq!(
            applied(RuleId::Prec009, text, &check(&[fact])).verdict,
            RuleVerdict::Pass,
            "{fact:?} {text:?}"
        );
        assert_eq!(applied(RuleId::Prec007, text, &check(&[fact])).verdict, RuleVerdict::Fail, "{text:?}");
    }
    for (fact, text) in [
        ("It serves 1,000 requests per minute", "It serves 1000 req/s"),
        ("It serves 1,000 requests per minute", "It serves 100 req/min"),
        ("It serves 1,000 requests per minute", "It serves 1000 requests"),
        ("It serves 1,000 requests per minute", "It serves 1000 min/req"),
        ("It serves 1,000 requests per minute", "It serves 1000 msg/min"),
        ("It serves 60 requests per minute", "It serves 1 req/s"),
        ("It takes 5 operations", "It takes 5 drops"),
        ("It takes 500 operations", "It takes 5 hops"),
    ] {
        assert_eq!(
            applied(RuleId::Prec009, text, &check(&[fact])).verdict,
            RuleVerdict::Fail,
            "{fact:?} {text:?}"
        );
    }
}

#[test]
fn line_ends_of_patterns_count_only_for_later_rules() {
    let verdict = |rule: RuleId, pattern: &str, text: &str| {
        let mut check = check(&[]);
        let CandidateExpectations { must_find, must_not_find, .. } = &mut check.expected;
        let list = if rule == RuleId::Prec011 { must_find } else { must_not_find };
        list.push(pattern.into());
        applied(rule, text, &check).verdict
    };
    for (pattern, text, is_found, is_free) in [
        ("a\nb", "A\nB", true, false),
        ("a\nb", "a\r\nb", false, true),
        ("a\nb", "a\rb", false, true),
        ("a\nb", "a \nb", false, true),
        ("a\nb", "a b", false, true),
        ("a\r\nb", "x a\r\nb", true, false),
        ("a\r\nb", "a\nb", false, true),
        ("\n", "a\nb", true, false),
        ("\n", "a\r\nb", false, false),
        ("\r\n", "a\nb\r\nc", true, false),
        ("\r\n", "a\nb", false, true),
        ("\r", "a\r\nb", false, false),
        ("\r", "a\rb", true, false),
        ("\r", "a\nb", false, true),
        ("\n\n", "a\n\nb", true, false),
        ("a\tb  c\nd", "A b c\nd", true, false),
        // a pattern without a line end is compared as by the published rules
        ("a b", "a\r\nb", true, false),
        ("a\nb", "a\u{4}b", false, true),
        ("\u{4}\n", "\u{3}\n", true, false),
    ] {
        let expected_result =
            [is_found, is_free].map(|passes| if passes { RuleVerdict::Pass } else { RuleVerdict::Fail });
        let given = [RuleId::Prec011, RuleId::Prec012].map(|rule| verdict(rule, pattern, text));
        assert_eq!(given, expected_result, "{pattern:?} {text:?}");
    }
    assert_eq!(verdict(RuleId::Prec011, " \t", "a\nb"), RuleVerdict::Error);
}

#[test]
fn pattern_with_line_end_is_quoted_at_its_place() {
    let mut check = check(&[]);
    check.expected.must_not_find = ["lamp", "\r\n", "x\ny", "é"].map(String::from).into();
    let text = "İ é\n\tend  \r\n X\nY lamp";
    let result = applied(RuleId::Prec012, text, &check);
    let quoted: Vec<&str> = result.violations.iter().map(|violation| violation.text.as_str()).collect();
    assert_eq!(quoted, ["lamp", "\r\n", "X\nY", "é"]);
    for violation in &result.violations {
        let span = violation.span.clone().expect("the text contains it");
        assert_eq!(text[span.start..span.end], violation.text);
        assert!(!violation.message.contains(['\r', '\n']), "{}", violation.message);
    }
    check.expected.must_find = std::mem::take(&mut check.expected.must_not_find);
    check.expected.must_find.push("X\r\nY".into());
    let missing = applied(RuleId::Prec011, text, &check).violations;
    assert_eq!(missing.iter().map(|violation| violation.text.as_str()).collect::<Vec<_>>(), ["X\r\nY"]);
}
