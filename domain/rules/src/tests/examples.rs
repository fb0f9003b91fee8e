//! The examples of `docs/rules.md`.

use super::*;
use crate::{claims, quantity};
use serde_json::{Value, json};
use strum::VariantArray;

const DOCUMENTATION: &str = include_str!("../../../../docs/rules.md");

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

/// Words in the form in which the documentation lists them.
fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[test]
fn documented_units_and_abbreviations_match_the_rules() {
    let table = |units: &[quantity::KnownUnit]| {
        let rows = units.iter().map(|unit| {
            let prefixes = if unit.is_prefixed { "yes" } else { "" };
            let row = [&format!("`{}`", unit.name), &listed(unit.symbols), &unit.words.join(", "), prefixes];
            format!("| {} |", row.join(" | "))
        });
        let rows: Vec<String> = rows.collect();
        let head = "| unit | case-sensitive | any case | prefixes |\n| --- | --- | --- | --- |";
        format!("{head}\n{}", rows.join("\n"))
    };
    let prefixes = quantity::PREFIXES
        .map(|(symbol, word, power)| format!("| `{symbol}` | {word} | {power} |"))
        .join("\n");
    let prefixes = format!("| prefix | word | power of ten |\n| --- | --- | --- |\n{prefixes}");
    let abbreviations = format!(
        "| no sentence ends after | |\n| --- | --- |\n| always | {} |\n| before a digit | {} |",
        listed(&claims::ABBREVIATIONS),
        listed(&claims::BEFORE_DIGITS)
    );
    for table in [table(&quantity::UNITS), table(&quantity::COUNTED), prefixes, abbreviations] {
        assert!(DOCUMENTATION.contains(&format!("\n\n{table}\n\n")), "{table}");
    }
}

#[test]
fn input_digest_matches_the_documented_json() {
    let shown = DOCUMENTATION.lines().find(|line| line.starts_with(r#"{"candidate_sha256""#));
    let check = CandidateCheck { rules: Some(vec![RuleId::Prec005]), ..check(&["Ice melts"]) };
    let evaluation = evaluated("Ice melts.", &check);
    assert_eq!(evaluation.input_sha256, Sha256Hex::of(shown.expect("the value is shown").as_bytes()));
}
