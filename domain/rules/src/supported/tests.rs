//! Claims that are made false in one way: none of them passes.

use crate::*;
use fastrand::Rng;
use serde::Deserialize;

const SUBJECTS: [&str; 8] = [
    "red lamp",
    "oak desk",
    "Basel office",
    "night train",
    "Plus plan",
    "solar panel",
    "river boat",
    "Aurora tent",
];
const THINGS: [&str; 8] = ["rooms", "seats", "windows", "doors", "batteries", "cables", "tables", "sensors"];
const PROPERTIES: [&str; 6] =
    ["waterproof", "dimmable", "refundable", "recyclable", "insured", "available in Spain"];
const CONDITIONS: [&str; 4] =
    ["you cancel within 24 hours", "you are over 65", "the order exceeds 100 €", "it snows in April"];
const BENEFITS: [&str; 4] = ["a full refund", "a discount of 10 %", "free parking", "a second key"];
const EXTRAS: [&str; 4] = ["a spare bulb", "a leather bag", "a charging station", "a user manual"];

/// A fact, a claim that it supports, and claims that it does not support.
struct MutantCase {
    facts: Vec<String>,
    claim: String,
    mutants: Vec<String>,
}

fn pick<'a>(random: &mut Rng, from: &[&'a str]) -> &'a str {
    from[random.usize(..from.len())]
}

/// Two different entries.
fn pair<'a>(random: &mut Rng, from: &[&'a str]) -> (&'a str, &'a str) {
    let one = random.usize(..from.len());
    let other = (one + random.usize(1..from.len())) % from.len();
    (from[one], from[other])
}

/// A number, and another one.
fn numbers(random: &mut Rng) -> (u32, u32) {
    let one = random.u32(2..900);
    (one, one + random.u32(1..90))
}

#[expect(clippy::too_many_lines, reason = "one list of the kinds of claims")]
fn make(random: &mut Rng) -> MutantCase {
    let (subject, other) = pair(random, &SUBJECTS);
    let (number, wrong) = numbers(random);
    let (thing, second) = pair(random, &THINGS);
    let (property, extra) = (pick(random, &PROPERTIES), pick(random, &EXTRAS));
    let (condition, benefit) = (pick(random, &CONDITIONS), pick(random, &BENEFITS));
    let year = random.u32(1990..2026);
    // true of the other subject
    let distractor = format!("The {other} costs {wrong} €");
    let facts = |fact: String| vec![distractor.clone(), fact];
    match random.u32(..9) {
        0 => MutantCase {
            facts: facts(format!("The {subject} costs {number} €")),
            claim: format!("The {subject} costs EUR {number}."),
            mutants: vec![
                format!("The {subject} costs {wrong} €."),
                format!("The {subject} costs {number} $."),
                format!("The {subject} does not cost {number} €."),
                format!("The {other} costs {number} €."),
                format!("The {subject} costs at least {number} €."),
                format!("The {subject} costs {number} € and comes with {extra}."),
                format!("It is a lie that the {subject} costs {number} €."),
                format!("If {condition}, the {subject} costs {number} €."),
            ],
        },
        1 => MutantCase {
            facts: facts(format!("The {subject} weighs {number} kg")),
            claim: format!("{}000 g: that is what the {subject} weighs.", number)
                .replace(": that is what", " is what"),
            mutants: vec![
                format!("The {subject} weighs {number} g."),
                format!("The {subject} weighs {wrong} kg."),
                format!("The {subject} weighs {number} lb."),
                format!("The {subject} weighs less than {number} kg."),
                format!("The {other} weighs {number} kg."),
                format!("The {subject} may weigh {number} kg."),
            ],
        },
        2 => MutantCase {
            facts: facts(format!("The {subject} has {number} {thing} and {wrong} {second}")),
            claim: format!("The {subject} has {wrong} {second} and {number} {thing}."),
            mutants: vec![
                format!("The {subject} has {wrong} {thing} and {number} {second}."),
                format!("The {subject} has {number} {second}."),
                format!("The {subject} has {wrong} {thing}."),
                format!("The {subject} has no {thing}."),
                format!("The {other} has {number} {thing}."),
                format!("The {subject} has about {thing} and {number} {second}."),
            ],
        },
        3 => MutantCase {
            facts: facts(format!("The {subject} is not {property}")),
            claim: format!("The {subject} is not {property}."),
            mutants: vec![
                format!("The {subject} is {property}."),
                format!("The {other} is not {property}."),
                format!("The {subject} is only {property}."),
                format!("The maker says that the {subject} is not {property}."),
            ],
        },
        4 => MutantCase {
            facts: facts(format!("If {condition}, you get {benefit}")),
            claim: format!("You get {benefit} if {condition}."),
            mutants: vec![
                format!("You get {benefit}."),
                format!("Unless {condition}, you get {benefit}."),
                format!("If {condition}, you do not get {benefit}."),
                format!("You get {benefit} and {extra} if {condition}."),
            ],
        },
        5 => MutantCase {
            facts: facts(format!("Only the {subject} is {property}")),
            claim: format!("Only the {subject} is {property}."),
            mutants: vec![
                format!("The {subject} is {property}."),
                format!("Only the {other} is {property}."),
                format!("Only the {subject} is not {property}."),
            ],
        },
        6 => MutantCase {
            facts: facts(format!("The maker says that the {subject} lasts {number} hours")),
            claim: format!("According to the maker, the {subject} lasts {number} hours."),
            mutants: vec![
                format!("The {subject} lasts {number} hours."),
                format!("The maker says that the {subject} lasts {wrong} hours."),
                format!("The maker says that the {subject} lasts {number} minutes."),
                format!("According to a customer, the {subject} lasts {number} hours."),
            ],
        },
        7 => MutantCase {
            facts: facts(format!("In {year}, the {subject} sold {number} {thing}")),
            claim: format!("The {subject} sold {number} {thing} in {year}."),
            mutants: vec![
                format!("In {}, the {subject} sold {number} {thing}.", year + 1),
                format!("In {year}, the {subject} sold {wrong} {thing}."),
                format!("In {year}, the {subject} sold {number} {second}."),
                format!("In {year}, the {other} sold {number} {thing}."),
                format!("Before {year}, the {subject} sold {number} {thing}."),
                format!("In {year}, the {subject} bought {number} {thing}."),
                format!("In {number}, the {subject} sold {year} {thing}."),
            ],
        },
        _ => MutantCase {
            facts: facts(format!("The {subject} is larger than the {other}")),
            claim: format!("The {subject} is larger than the {other}."),
            mutants: vec![
                format!("The {other} is larger than the {subject}."),
                format!("The {subject} is not larger than the {other}."),
                format!("The {subject} is smaller than the {other}."),
                format!("The {subject} is large."),
            ],
        },
    }
}

/// A labeled case.
#[derive(Deserialize)]
struct Case {
    id: String,
    candidate_output: String,
    facts: Vec<String>,
    #[serde(default)]
    language: TextLanguage,
    want: Want,
}

#[derive(Deserialize)]
struct Want {
    verdict: RuleVerdict,
}

/// The number of cases in which the rule agrees with the label, and those that pass although they must not.
fn judge(cases: &str) -> (usize, usize, Vec<String>) {
    let cases: Vec<Case> = cases.lines().map(|line| serde_json::from_str(line).expect("a case")).collect();
    let (mut agreed, mut false_passes) = (0, Vec::new());
    for case in &cases {
        let check = CandidateCheck {
            facts: case.facts.clone(),
            language: case.language,
            rules: Some(vec![RuleId::Prec013]),
            ..CandidateCheck::default()
        };
        let facts = FactSet::compile(&check.facts);
        let text = CandidateText::text(&case.candidate_output);
        let verdict = evaluate(&text, &check, &facts, &RuleSettings::default()).verdict;
        agreed += usize::from(verdict == case.want.verdict);
        if verdict == RuleVerdict::Pass && case.want.verdict == RuleVerdict::Fail {
            false_passes.push(format!("{}: {}", case.id, case.candidate_output));
        }
    }
    (agreed, cases.len(), false_passes)
}

/// The labels are those of a careful reader who knows only the facts.
#[test]
fn rule_agrees_with_careful_readers_and_passes_nothing_false() {
    let (agreed, cases, false_passes) =
        judge(include_str!("../../../../tests/cases/supported-claims.ndjson"));
    assert_eq!(false_passes, Vec::<String>::new());
    assert!(agreed * 100 >= cases * 79, "{agreed} of {cases}");
}

/// The same with the half that was set aside until the rule was finished.
#[test]
fn rule_passes_nothing_false_of_the_half_set_aside() {
    let (agreed, cases, false_passes) =
        judge(include_str!("../../../../tests/cases/supported-claims-held-out.ndjson"));
    assert_eq!(false_passes, Vec::<String>::new());
    assert!(agreed * 100 >= cases * 75, "{agreed} of {cases}");
}

/// The same with texts that paraphrase freely: the rule fails most of these that are true.
#[test]
fn rule_passes_nothing_false_in_free_prose() {
    let (agreed, cases, false_passes) =
        judge(include_str!("../../../../tests/cases/supported-claims-prose.ndjson"));
    assert_eq!(false_passes, Vec::<String>::new());
    assert!(agreed * 100 >= cases * 60, "{agreed} of {cases}");
}

/// False texts that were written to pass: exchanged roles, lost negations, dropped restrictions, merged words.
#[test]
fn false_text_that_was_written_to_pass_fails() {
    let (_, cases, false_passes) =
        judge(include_str!("../../../../tests/cases/supported-claims-attacks.ndjson"));
    assert_eq!(false_passes, Vec::<String>::new());
    assert!(cases > 1_500, "{cases}");
}

fn passes(text: &str, facts: &[String]) -> bool {
    let check = CandidateCheck {
        facts: facts.to_vec(),
        rules: Some(vec![RuleId::Prec013]),
        ..CandidateCheck::default()
    };
    let result =
        evaluate(&CandidateText::text(text), &check, &FactSet::compile(facts), &RuleSettings::default());
    result.verdict == RuleVerdict::Pass
}

/// Checks `count` claims that were made false, and the true ones from which they were made.
fn check_mutants(seed: u64, count: usize) {
    let mut random = Rng::with_seed(seed);
    let (mut seen, mut supported, mut made) = (0, 0, 0);
    while seen < count {
        let MutantCase { facts, claim, mutants } = make(&mut random);
        made += 1;
        supported += usize::from(passes(&claim, &facts));
        for mutant in mutants {
            assert!(!passes(&mutant, &facts), "{mutant} passes with {facts:?}");
            seen += 1;
        }
    }
    // a rule that rejects everything would pass the checks above
    assert!(supported * 10 >= made * 8, "{supported} of {made} true claims pass");
}

#[test]
fn claim_that_was_made_false_never_passes() {
    check_mutants(13, 3_000);
}

#[test]
#[ignore = "heavy: 100,000 claims"]
fn heavy_claim_that_was_made_false_never_passes() {
    check_mutants(7, 100_000);
}

/// False sentences that a fact contains word for word, or that contain a fact.
#[test]
fn sentence_that_contains_a_fact_or_stands_in_one_is_read_as_a_whole() {
    for (text, fact) in [
        ("It is a lie that the lamp costs 49 €.", "The lamp costs 49 €"),
        ("Known drug allergies.", "The patient has no known drug allergies"),
        ("Safe for children.", "The toy is not safe for children"),
        ("You get a full refund.", "If you cancel within 24 hours, you get a full refund"),
        ("The flat has a balcony.", "The flat has a balcony only on the plan"),
        ("Sales rose by 5 %.", "Analysts expected that sales rose by 5 %"),
        ("The pool is open.", "The pool is open until 1 September"),
        ("Smoking is allowed.", "Smoking is allowed nowhere in the hotel, except on the roof"),
        ("No one denies that the lamp is safe.", "The lamp is safe"),
        ("The lamp costs 49 € less than the desk.", "The lamp costs 49 €"),
        ("Nobody says that the train is late.", "The train is late"),
        ("The father of Anna lives in Rome.", "Anna lives in Rome"),
        ("Anna lives in Rome.", "The father of Anna lives in Rome"),
        ("Anna hired Bob.", "Anna was hired by Bob"),
        ("The villa is 3 m deep.", "The villa near the lake, which is 3 m deep, has a pool"),
    ] {
        assert!(!passes(text, &[fact.to_owned()]), "{text} with {fact}");
    }
}

/// Each cell of a table is a claim, and its heads are part of it.
#[test]
fn table_passes_only_if_the_facts_have_each_cell() {
    let facts = [
        "The price of the lamp is 49 €",
        "The weight of the lamp is 1,200 g",
        "The price of the oak desk is 89 €",
        "The lamp is waterproof",
        "The coat is red",
    ]
    .map(str::to_owned);
    for (text, is_supported) in [
        (
            "| Product | Price | Weight (kg) |\n|---|--:|--:|\n| Lamp | 49 € | 1.2 |\n| Oak desk | **€89** | |",
            true,
        ),
        ("| | Lamp | Oak desk |\n|---|---|---|\n| Price | 49 € | 89 € |", true),
        ("| Product | Price |\n|---|---|\n| Lamp | 49 € |\nThe lamp is waterproof.", true),
        ("| Features |\n|---|\n| The lamp is waterproof |", true),
        ("| Product | Price |\n|---|---|\n| Lamp | 49 € |\n| Oak desk | 49 € |", false),
        ("| Product | Price |\n|---|---|\n| Oak desk | 49 € |\n| Lamp | 89 € |", false),
        ("| Product | Weight |\n|---|---|\n| Lamp | 49 € |", false),
        ("| Product | Weight (g) |\n|---|---|\n| Lamp | 1.2 |", false),
        ("| Product | Price (with a spare bulb) |\n|---|---|\n| Lamp | 49 € |", false),
        ("| Product | Lowest price |\n|---|---|\n| Lamp | 49 € |", false),
        ("| Product | Price |\n|---|---|\n| Lamp in red | 49 € |", false),
        ("| Product | Price |\n|---|---|\n| The coat is red | |", true),
        ("| Product | Price |\n|---|---|\n| The coat is blue | |", false),
        ("| Product | Price |\n|---|---|\n| Lamp | 49 € | waterproof and red |", false),
        ("| Product | Price |\n|---|---|\n| Lamp | ✗ |", false),
        ("| Product | Price |\n|---|---|\n| Lamp | ~~49 €~~ |", false),
        ("| Myths |\n|---|\n| The lamp is waterproof |", false),
        ("# Not for sale\n| Product | Price |\n|---|---|\n| Lamp | 49 € |", false),
        ("The lamp is waterproof.\n| Product | Price |\n|---|---|\n| It | 49 € |", false),
        ("The coat is red.\n| Product | Price |\n|---|---|\n| Lamp | 49 € |\n\nIt is waterproof.", false),
    ] {
        assert_eq!(passes(text, &facts), is_supported, "{text}");
    }
}

/// A claim that follows from two facts passes only where the check allows it.
#[test]
#[expect(clippy::too_many_lines, reason = "one list of claims")]
fn derived_quantity_passes_only_if_the_check_allows_it() {
    let facts = [
        "The lamp costs 49 €",
        "The desk costs 89 €",
        "The inn has 3 rooms",
        "The villa has 5 rooms",
        "The rent was 500 € in 2020",
        "The rent was 550 € in 2021",
        "The fee was 300 € in 2020",
        "The fee was 200 € in 2021",
        "The bill was 9 $ in 2020",
        "The bill was 18 € in 2021",
        "The sofa cost 109 €",
        "It was 1 °C in 2020",
        "The water was 1 °C in 2020",
        "The water was 2 °C in 2021",
        "The toll was 10 € in 2020",
        "The toll was 11 € in 2021",
        "The toll was 14 € in 2021",
        "The share was 50 % in 2020",
        "The share was 55 % in 2021",
    ]
    .map(str::to_owned);
    for (text, follows) in [
        ("The desk costs 40 € more than the lamp.", true),
        ("The lamp costs 40 € less than the desk.", true),
        ("The lamp costs 40 € more than the desk.", false),
        ("The desk costs 41 € more than the lamp.", false),
        ("The desk costs 40 $ more than the lamp.", false),
        ("The desk does not cost 40 € more than the lamp.", false),
        ("The desk may cost 40 € more than the lamp.", false),
        ("The villa has 2 more rooms than the inn.", true),
        ("The inn has 2 fewer rooms than the villa.", true),
        ("The villa has 2 more rooms than the lamp.", false),
        ("The lamp and the desk cost 138 € together.", true),
        ("The lamp and the desk cost 137 € together.", false),
        ("The lamp and the villa cost 138 € together.", false),
        ("The inn and the villa have 8 rooms together.", false),
        ("The rent rose by 10 % from 2020 to 2021.", true),
        ("The rent rose by 11 % from 2020 to 2021.", false),
        ("The rent fell by 10 % from 2020 to 2021.", false),
        ("The rent rose by 10 % from 2019 to 2021.", false),
        ("The fee fell by 33.3 % from 2020 to 2021.", true),
        ("The fee fell by 33.4 % from 2020 to 2021.", false),
        ("The bill rose by 100 % from 2020 to 2021.", false),
        ("The toll rose by 10 % from 2020 to 2021.", false),
        ("The sofa costs 60 € more than the lamp.", false),
        ("The sofa cost 60 € more than the lamp.", false),
        ("The desk cost 40 € more than the lamp.", false),
        ("The water rose by 100 % from 2020 to 2021.", false),
        ("The desk costs more than 40 € more than the lamp.", false),
        ("The rent rose by less than 10 % from 2020 to 2021.", false),
        ("The rent never rose by 10 % from 2020 to 2021.", false),
        ("The rent grew the budget by 10 % from 2020 to 2021.", false),
        ("The rent rose by 50 % by 10 % from 2020 to 2021.", false),
        ("The desk costs 40 € more than the lamp because the rent rose by 10 % from 2020 to 2021.", false),
        ("The share rose by 10 % from 2020 to 2021.", false),
        ("The rent rose by 10 % from 2021 to 2020.", false),
        ("The lamp and the lamp cost 98 € together.", false),
        ("The lamp costs -40 € more than the desk.", false),
    ] {
        let verdict = |derive: bool| {
            let rules = Some(vec![RuleId::Prec013]);
            let check = CandidateCheck { facts: facts.to_vec(), rules, derive, ..CandidateCheck::default() };
            let facts = FactSet::compile(&facts);
            evaluate(&CandidateText::text(text), &check, &facts, &RuleSettings::default())
        };
        assert_eq!(verdict(false).verdict, RuleVerdict::Fail, "{text}");
        let derived = verdict(true);
        assert_eq!(derived.verdict == RuleVerdict::Pass, follows, "{text}: {:?}", derived.rules);
        let steps = derived.rules.iter().flat_map(|rule| &rule.evidence);
        assert_eq!(steps.filter(|step| step.output.derived_with.is_some()).count(), usize::from(follows));
    }
}
