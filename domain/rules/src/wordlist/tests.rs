use super::*;
use crate::{
    CandidateCheck, CandidateText, ClaimAspect, ComparisonResult, FactSet, RuleId, RuleSettings, RuleVerdict,
    RulesEvaluation, evaluate,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Version 1 of an English list with these members.
fn wordlist(members: &Value) -> Wordlist {
    let mut list = json!({"wordlist_id": "clinic", "version": 1, "language": "en"});
    let (Some(list_members), Some(members)) = (list.as_object_mut(), members.as_object()) else {
        unreachable!("both are objects")
    };
    list_members.extend(members.clone());
    serde_json::from_value(list).expect("a word list")
}

fn check(list: &Wordlist, facts: &[&str]) -> CandidateCheck {
    CandidateCheck {
        facts: facts.iter().map(|fact| (*fact).to_owned()).collect(),
        language: list.language,
        rules: Some(vec![RuleId::Prec013]),
        wordlist: Some(Arc::new(list.clone().into())),
        ..CandidateCheck::default()
    }
}

fn evaluated(text: &str, check: &CandidateCheck) -> RulesEvaluation {
    evaluate(&CandidateText::text(text), check, &FactSet::compile(&check.facts), &RuleSettings::default())
}

/// Checks each text with its fact, and whether the fact supports it.
fn assert_support(list: &Wordlist, cases: &[(&str, &str, bool)]) {
    for (text, fact, is_supported) in cases {
        let verdict = evaluated(text, &check(list, &[fact])).verdict;
        assert_eq!(verdict == RuleVerdict::Pass, *is_supported, "{text} with {fact}");
    }
}

/// The words of the text and of the fact with this result.
fn compared(evaluation: &RulesEvaluation, result: ComparisonResult) -> Vec<(&str, &str)> {
    let steps = evaluation.rules.iter().flat_map(|rule| &rule.evidence);
    let comparisons = steps.flat_map(|step| &step.output.comparisons);
    let found = comparisons.filter(|found| found.aspect == ClaimAspect::Word && found.result == result);
    found.map(|found| (found.claim.as_str(), found.fact.as_str())).collect()
}

#[test]
fn wordlist_is_rejected_for_each_fault() {
    let group = |words: &[&str]| json!({"synonyms": [words]});
    let unit = |spelling: &str, unit: Value| json!({"units": {spelling: unit}});
    let gram = || json!({"unit": "g"});
    let long = "x".repeat(TEXT_MAX_BYTES + 1);
    let many: Vec<_> = (0..17).map(|_| "x").collect();
    let groups: Vec<_> = (0..=ENTRIES_MAX).map(|_| ["x", "y"]).collect();
    for (members, fault) in [
        (json!({"version": 0}), "`version` is 0"),
        (json!({}), "the list has no entry"),
        (group(&["car"]), "`synonyms[0]` has 1 entry (2 to 16 allowed)"),
        (group(&many), "`synonyms[0]` has 17 entries"),
        (json!({"synonyms": groups}), "`synonyms` has 1001 entries (0 to 1000 allowed)"),
        (group(&["car", ""]), "`synonyms[0][1]` has 0 bytes (1 to 64 allowed)"),
        (group(&["car", &long]), "`synonyms[0][1]` has 65 bytes"),
        (group(&["car", "model 3"]), "`synonyms[0][1]` is `model 3`, with the character `3`"),
        (group(&["car", "car,van"]), "with the character `,`"),
        (group(&["car", "-"]), "`synonyms[0][1]` is `-`, with 0 words (1 to 4 allowed)"),
        (group(&["car", "red car made new here"]), "`made` as a verb, which cannot be part of a phrase"),
        (group(&["car", "big red car key fob"]), "with 5 words"),
        (group(&["car", "cars"]), "`synonyms[0][1]` is `cars`, which is the same word as `synonyms[0][0]`"),
        (json!({"synonyms": [["car", "auto"], ["van", "Autos"]]}), "the same word as `synonyms[0][1]`"),
        (
            json!({"synonyms": [["rate", "bp"]], "abbreviations": {"BP": "pressure"}}),
            "`abbreviations.BP` is `BP`, which is the same word as `synonyms[0][1]`",
        ),
        (group(&["paid", "not"]), "the rule reads `not` as a negation"),
        (group(&["paid", "No longer"]), "the rule reads `No longer` as a negation"),
        (group(&["smoker", "non-smoker"]), "the rule reads `non` as a negation"),
        (group(&["paid", "all"]), "`all` as a quantifier"),
        (group(&["paid", "any"]), "`any` as a quantifier"),
        (group(&["paid", "likely"]), "`likely` as a quantifier or a hedge"),
        (group(&["paid", "unless"]), "`unless` as a condition"),
        (group(&["paid", "according to"]), "`according to` as an attribution"),
        (group(&["paid", "at least"]), "`at least` as a bound"),
        (group(&["paid", "roughly"]), "`roughly` as a word for approximate numbers"),
        (group(&["paid", "or"]), "`or` as a conjunction"),
        (group(&["paid", "date of birth"]), "`of` as a function word"),
        (group(&["paid", "it"]), "`it` as a function word"),
        (group(&["paid", "dozen"]), "`dozen` as a number, a time or a date"),
        (json!({"abbreviations": {"A/C": "air conditioning"}}), "with the character `/`"),
        (json!({"abbreviations": {"B P": "blood pressure"}}), "`abbreviations.B P` is not one word"),
        (json!({"abbreviations": {"IT": "computing"}}), "`it` as a function word"),
        (json!({"abbreviations": {"BP": "no pressure"}}), "`no` as a negation"),
        (json!({"abbreviations": {"BP": ""}}), "`abbreviations.BP` has 0 bytes"),
        (unit("hours", gram()), "`units.hours` is already a unit or a number word"),
        (unit("mg", gram()), "`units.mg` is already a unit or a number word"),
        (unit("k", gram()), "`units.k` is already a unit or a number word"),
        (unit("more", gram()), "the rule reads `more` as a quantifier"),
        (
            unit("dram", json!({"unit": "grain"})),
            "`units.dram.unit` is `grain`, which is not a unit of the rule",
        ),
        (unit("dram", json!({"unit": "g x"})), "`units.dram.unit` is `g x`"),
        (unit("dram", json!({"unit": "g", "factor": "0"})), "`units.dram.factor` is 0"),
        (unit("dram", json!({"unit": "g", "factor": "-1"})), "`units.dram.factor` is -1"),
        (unit("dram", json!({"unit": "g", "factor": "1.0000000000000000000000001"})), "`units.dram.factor`"),
    ] {
        let refused = wordlist(&members).validate().expect_err(fault).to_string();
        assert!(refused.contains(fault), "{refused} for {fault}");
    }
    let german = Wordlist { language: TextLanguage::De, ..wordlist(&group(&["Auto", "nicht"])) };
    let refused = german.validate().expect_err("a negation").to_string();
    assert!(refused.contains("`nicht` as a negation"), "{refused}");
    // a word of the other language is a word
    Wordlist { language: TextLanguage::De, ..wordlist(&group(&["Auto", "not"])) }.validate().expect("valid");
}

#[test]
fn words_of_a_group_compare_as_one() {
    let list = wordlist(&json!({
        "synonyms": [
            ["car", "automobile"],
            ["heart attack", "myocardial infarction", "coronary"],
            ["attack", "assault"],
            ["buy", "purchase"],
            ["customer", "client"],
        ],
    }));
    let cases = [
        ("The automobiles are red.", "The cars are red", true),
        ("The automobile's roof is red.", "The car's roof is red", true),
        ("The van is red.", "The car is red", false),
        ("The automobile is not red.", "The car is red", false),
        ("The heart attack was fatal.", "The myocardial infarction was fatal", true),
        ("The heart-attack was fatal.", "The coronary was fatal", true),
        // the longest phrase is one word
        ("The heart assault was fatal.", "The heart attack was fatal", false),
        ("The assault was fatal.", "The attack was fatal", true),
        ("The assault was fatal.", "The heart attack was fatal", false),
        ("The heart (attack was fatal.", "The coronary was fatal", false),
        ("Anna purchased the lamp.", "Anna bought the lamp", true),
        ("Anna purchases the lamp.", "Anna buys the lamp", true),
        ("The lamp purchased Anna.", "Anna bought the lamp", false),
        ("If the client agrees, the lamp is free.", "The lamp is free if the customer agrees", true),
        ("The fee is 9 € per client.", "The fee is 9 € per customer", true),
        ("The shop has 5 clients.", "The shop has 5 customers", true),
        ("The shop has 6 clients.", "The shop has 5 customers", false),
    ];
    assert_support(&list, &cases);
    let evaluation = evaluated(
        "The automobiles bought coronary cars.",
        &check(&list, &["The cars purchase heart attack cars"]),
    );
    assert_eq!(
        compared(&evaluation, ComparisonResult::Synonym),
        [("automobiles", "cars"), ("bought", "purchase"), ("coronary", "heart attack")]
    );
    let evaluation = evaluated("The automobiles stop.", &check(&list, &["The automobile stops"]));
    assert_eq!(compared(&evaluation, ComparisonResult::Inflected), [("stop", "stops")]);
}

#[test]
fn abbreviation_stands_for_its_words() {
    let list = wordlist(&json!({
        "synonyms": [["arterial tension", "blood pressure"], ["pressure gauge", "manometer"]],
        "abbreviations": {"BP": "blood pressure", "Pt": "patient", "GM": "general manager"},
    }));
    let cases = [
        ("The BP is high.", "The blood pressure is high", true),
        ("The BP is high.", "The arterial tension is high", true),
        ("The blood pressure is high.", "The BP is high", true),
        ("The BP's rise is slow.", "The blood pressure's rise is slow", true),
        ("The bp is high.", "The blood pressure is high", false),
        ("The BP is high.", "The blood is high", false),
        ("The BP gauge is new.", "The blood manometer is new", false),
        ("The GM is ill.", "The general manager is ill", true),
        ("The Pt is ill.", "The patient is ill", true),
    ];
    assert_support(&list, &cases);
    let evaluation = evaluated("The GM's BP is high.", &check(&list, &["The general manager's BP is high"]));
    assert_eq!(evaluation.verdict, RuleVerdict::Pass, "{:?}", evaluation.rules);
    assert_eq!(compared(&evaluation, ComparisonResult::Synonym), [("GM", "general"), ("GM", "manager")]);
    assert_eq!(compared(&evaluation, ComparisonResult::Same), [("BP", "BP"), ("high", "high")]);
}

#[test]
fn unit_is_read_with_its_factor() {
    let list = wordlist(&json!({
        "units": {
            "drams": {"unit": "g", "factor": "1.7718451953125"},
            "stone": {"unit": "kg", "factor": "6.35029318"},
            "stone ton": {"unit": "t"},
            "quid": {"unit": "£"},
        },
    }));
    let cases = [
        ("The pill weighs 16 drams.", "The pill weighs 1 oz", true),
        ("The pill weighs sixteen drams.", "The pill weighs 28.349523125 g", true),
        ("The pill weighs 16 drams.", "The pill weighs 16 g", false),
        ("The pill weighs 16 Drams.", "The pill weighs 1 oz", false),
        ("The pills weigh 8 to 16 drams.", "The pills weigh between 0.5 and 1 oz", true),
        ("The lamb weighs 2 stone.", "The lamb weighs 12,700.58636 g", true),
        ("The lamb weighs 2 stone ton.", "The lamb weighs 2 t", true),
        ("The lamb weighs 2 stones.", "The lamb weighs 12,700.58636 g", false),
        ("The fee is 9 quid per hour.", "The fee is £9 per hour", true),
    ];
    assert_support(&list, &cases);
}

#[test]
fn facts_are_read_again_for_each_list_and_language() {
    let english = wordlist(&json!({"synonyms": [["present", "gift"]]}));
    let german =
        Wordlist { language: TextLanguage::De, ..wordlist(&json!({"synonyms": [["Toxin", "Gift"]]})) };
    let facts = FactSet::compile(&["Gift is here".to_owned()]);
    let without = CandidateCheck { wordlist: None, ..check(&english, &["Gift is here"]) };
    let settings = RuleSettings::default();
    let verdict = |text: &str, check: &CandidateCheck| {
        evaluate(&CandidateText::text(text), check, &facts, &settings).verdict == RuleVerdict::Pass
    };
    for _ in 0..2 {
        assert!(!verdict("Present is here.", &without));
        assert!(verdict("Present is here.", &check(&english, &["Gift is here"])));
        assert!(!verdict("Toxin is here.", &check(&english, &["Gift is here"])));
        assert!(verdict("Toxin is here.", &check(&german, &["Gift is here"])));
        // further lists take the places of earlier ones
        for word in ["a", "b", "c", "d", "e"].map(|letter| letter.repeat(9)) {
            let list = wordlist(&json!({"synonyms": [[word, "gift"]]}));
            assert!(verdict(&format!("{word} is here."), &check(&list, &["Gift is here"])));
        }
    }
}

#[test]
fn evaluation_names_the_list_and_its_digest_changes_with_it() {
    let list = wordlist(&json!({"synonyms": [["gift", "present"]]}));
    let other = wordlist(&json!({"synonyms": [["gift", "donation"]]}));
    let evaluation = |list: &Wordlist| evaluated("Gift is here.", &check(list, &["Gift is here"]));
    assert_eq!(evaluation(&list).wordlist.map(|list| list.to_string()).as_deref(), Some("clinic@1"));
    assert_eq!(evaluation(&list), evaluation(&list));
    assert_ne!(evaluation(&list).input_sha256, evaluation(&other).input_sha256);
    let stored = serde_json::to_string(&check(&list, &["Gift is here"])).expect("JSON");
    let read: CandidateCheck = serde_json::from_str(&stored).expect("a check");
    assert_eq!(read, check(&list, &["Gift is here"]));
    assert_eq!(evaluated("Gift is here.", &read), evaluation(&list));
}

#[test]
fn rule_has_verdict_error_with_a_stored_list_that_is_invalid() {
    let list = wordlist(&json!({"synonyms": [["gift", "not"]]}));
    let evaluation = evaluated("Gift is here.", &check(&list, &["Gift is here"]));
    assert_eq!(evaluation.verdict, RuleVerdict::Error);
    let cause = evaluation.rules.first().and_then(|rule| rule.cause.as_deref()).unwrap_or_default();
    assert!(cause.contains("`not` as a negation"), "{cause}");
}
