//! The examples of `docs/rules.md` and `docs/supported-claims.md`.

use super::*;
use serde_json::{Value, json};
use strum::VariantArray;

const DOCUMENTATION: &str =
    concat!(include_str!("../../../../docs/rules.md"), include_str!("../../../../docs/supported-claims.md"));

#[test]
fn documented_examples_give_documented_results() {
    let mut rule = None;
    let mut shown = Vec::new();
    for line in DOCUMENTATION.lines() {
        if line.starts_with('#') {
            let id = line.strip_prefix("### ").and_then(|heading| heading.split_once(':'));
            rule = id.map(|(id, _)| serde_json::from_value::<RuleId>(json!(id)).expect("the rule is known"));
        }
        let (Some(rule), Some(row)) = (rule, line.strip_prefix("| `")) else { continue };
        let (text, row) = row.split_once("` | `").expect("a candidate, then a check");
        let (against, verdict) = row.split_once("` | ").expect("a check, then a verdict");
        let (verdict, _) = verdict.split_once(" |").expect("a verdict, then why");
        let against: Value = serde_json::from_str(against).unwrap_or_else(|error| panic!("{line}: {error}"));
        let mut whole = if against.is_array() { json!({ "facts": against }) } else { against };
        whole.as_object_mut().expect("a check is an object").entry("facts").or_insert(json!([]));
        let check: CandidateCheck =
            serde_json::from_value(whole).unwrap_or_else(|error| panic!("{line}: {error}"));
        let text = text.replace('␍', "\r").replace('␊', "\n");
        let result = applied(rule, &text, &check);
        assert_eq!(result.verdict.into_str(), verdict, "{rule}: {line}");
        shown.push(rule);
    }
    shown.dedup();
    let mut all = RuleId::PUBLISHED.to_vec();
    all.extend(RuleId::VARIANTS.iter().filter(|rule| !RuleId::PUBLISHED.contains(rule)));
    assert_eq!(shown, all, "every rule has its table");
}

#[test]
fn input_digest_matches_the_documented_json() {
    let shown = DOCUMENTATION.lines().find(|line| line.starts_with(r#"{"candidate_sha256""#));
    let check = CandidateCheck { rules: Some(vec![RuleId::Prec013]), ..check(&["Ice melts"]) };
    let evaluation = evaluated("Ice melts.", &check);
    assert_eq!(evaluation.input_sha256, Sha256Hex::of(shown.expect("the value is shown").as_bytes()));
}
