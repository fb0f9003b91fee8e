//! Compares the published definitions of the rules with the code of the rules.

use super::*;
use crate::{claims, opposite_pairs};
use serde_json::{Value, json};
use strum::VariantArray;

fn parameters(rule: RuleId) -> Value {
    serde_json::from_str(rule.rule().parameters().get()).expect("valid JSON")
}

#[test]
fn every_definition_is_canonical_and_has_its_own_id() {
    for &rule in RuleId::VARIANTS {
        let definition = rule.rule();
        assert_eq!(definition.id, rule);
        assert_eq!(json!(rule), rule.into_str());
        let text = serde_json::to_string(definition).expect("valid JSON");
        let value: Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(text, serde_json_canonicalizer::to_string(&value).expect("the value is canonical"));
    }
    assert!(RuleId::VARIANTS.is_sorted(), "they are applied in the order of their ids");
    assert!(RuleId::PUBLISHED.iter().all(|rule| RuleId::VARIANTS.contains(rule)));
}

#[test]
fn parameters_match_the_code_of_the_rules() {
    for rule in [RuleId::Prec001, RuleId::Prec004] {
        assert_eq!(parameters(rule)["sentence_delimiters"], json!(claims::DELIMITERS));
    }
    for rule in [RuleId::Cont001, RuleId::Cont002, RuleId::Cont003] {
        assert_eq!(parameters(rule)["pairs"], json!(opposite_pairs::PAIRS));
    }
}

#[test]
fn boundaries_use_unicode_version_named_in_parameters() {
    let (major, minor, patch) = unicode_segmentation::UNICODE_VERSION;
    assert_eq!(parameters(RuleId::Prec013)["unicode"], format!("{major}.{minor}.{patch}"));
}
