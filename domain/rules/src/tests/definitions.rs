//! Compares the published definitions of the rules with the code of the rules.

use super::*;
use crate::{claims, contradiction, fact_set, joint_claims, opposite_pairs, plain_text, quantity, words};
use serde_json::{Value, json};
use strum::VariantArray;

/// The rules that compare Unicode's sentences, or their parts, with facts.
pub(super) const BY_SENTENCES: [RuleId; 6] =
    [RuleId::Prec005, RuleId::Prec006, RuleId::Prec007, RuleId::Prec008, RuleId::Prec009, RuleId::Prec010];

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
    let dropped = json!({
        "bullets": plain_text::BULLETS,
        "heading_max": plain_text::HEADING_MAX,
        "list_number_max_digits": plain_text::LIST_NUMBER_MAX_DIGITS,
        "marks": plain_text::MARKS,
        "quote": plain_text::QUOTE,
    });
    for rule in BY_SENTENCES {
        let parameters = parameters(rule);
        assert_eq!(parameters["abbreviations"], json!(claims::ABBREVIATIONS));
        assert_eq!(parameters["abbreviations_before_digits"], json!(claims::BEFORE_DIGITS.as_slice()));
        assert_eq!(parameters["behind_stop_max_chars"], json!(claims::BEHIND_STOP_MAX_CHARS));
        assert_eq!(parameters["dropped"], dropped);
        assert_eq!(parameters["edges"], json!(words::EDGES));
    }
    for rule in [RuleId::Prec006, RuleId::Prec008, RuleId::Prec010] {
        assert_eq!(parameters(rule)["joints"], json!(joint_claims::JOINTS));
    }
    let listed =
        |known: &quantity::KnownUnit| json!([known.name, known.symbols, known.words, known.is_prefixed]);
    let units: Vec<_> = quantity::UNITS.iter().map(listed).collect();
    let counted: Vec<_> = quantity::COUNTED.iter().map(listed).collect();
    let quantities = json!({
        "currencies": quantity::CURRENCIES,
        "digits_max": quantity::DIGITS_MAX,
        "prefixes": quantity::PREFIXES,
        "scales": quantity::SCALES,
        "separators": quantity::SEPARATORS,
        "units": units,
    });
    for rule in [RuleId::Prec007, RuleId::Prec008, RuleId::Prec009, RuleId::Prec010] {
        assert_eq!(parameters(rule)["quantities"], quantities);
    }
    for rule in [RuleId::Prec009, RuleId::Prec010] {
        assert_eq!(parameters(rule)["quantities_counted"], json!(counted));
        let notes = json!({"added": fact_set::ADDED, "prepositions": fact_set::PREPOSITIONS.as_slice()});
        assert_eq!(parameters(rule)["notes"], notes);
    }
    assert_eq!(parameters(RuleId::Cont004)["dropped"], dropped);
    assert_eq!(parameters(RuleId::Cont004)["pairs"], json!(contradiction::INFLECTED));
}

#[test]
fn boundaries_use_unicode_version_named_in_parameters() {
    let (major, minor, patch) = unicode_segmentation::UNICODE_VERSION;
    for rule in BY_SENTENCES.into_iter().chain([RuleId::Cont004]) {
        assert_eq!(parameters(rule)["unicode"], format!("{major}.{minor}.{patch}"));
    }
}

#[test]
fn inflected_pairs_match_published_pairs() {
    let first = |side: &[&'static str]| side[0];
    let terms = contradiction::INFLECTED.map(|[one, other]| (first(one), first(other)));
    assert_eq!(terms, opposite_pairs::PAIRS);
}

#[test]
fn every_spelling_has_one_unit() {
    let mut spellings = std::collections::BTreeMap::new();
    for known in quantity::UNITS.iter().chain(&quantity::COUNTED) {
        let prefixes = quantity::PREFIXES.iter().filter(|_| known.is_prefixed);
        let prefixes: Vec<_> = prefixes.copied().chain([("", "", 0)]).collect();
        for (symbol, word, power) in prefixes {
            // the decibel is found before the tenth of a byte
            let is_decibel = known.name == "B" && symbol == "d";
            let symbols =
                known.symbols.iter().filter(|_| !is_decibel).map(|spelling| format!("{symbol}{spelling}"));
            for spelling in symbols.chain(known.words.iter().map(|spelling| format!("{word}{spelling}"))) {
                let meaning = (known.name, power);
                let other = *spellings.entry(spelling.clone()).or_insert(meaning);
                assert_eq!(other, meaning, "{spelling}");
            }
        }
    }
}
