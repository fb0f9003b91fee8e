//! The rules after the published ones.

use super::definitions::BY_SENTENCES;
use super::*;
use proptest::prelude::*;
use strum::VariantArray;

fn verdict(rule: RuleId, text: &str, facts: &[&str]) -> RuleVerdict {
    applied(rule, text, &check(facts)).verdict
}

/// The texts that the violations quote.
fn offending(rule: RuleId, text: &str, facts: &[&str]) -> Vec<String> {
    let result = applied(rule, text, &check(facts));
    for violation in &result.violations {
        let span = violation.span.clone().expect("the text contains it");
        assert_eq!(text[span.start..span.end], violation.text);
    }
    result.violations.into_iter().map(|violation| violation.text).collect()
}

#[test]
fn abbreviations_do_not_end_sentences() {
    let facts = ["The probe flies at 7.8 km/s", "Use noble gases, e.g. Neon"];
    for (text, unsupported) in [
        ("The probe flies at 7.8 km/s. Use noble gases, e.g. Neon!", vec![]),
        ("Use noble gases, e.g. Argon. The probe flies", vec!["Use noble gases, e.g. Argon."]),
        ("the probe flies at 7. It lands", vec!["the probe flies at 7.", "It lands"]),
        ("“The probe flies!” (Use noble gases…)\n— ... \n", vec![]),
        ("The prob. Use noble gas", vec!["The prob.", "Use noble gas"]),
        ("Is it Neon? No. 5 is", vec!["Is it Neon?", "No. 5 is"]),
        ("e.g.\nNeon", vec![]),
        ("The probe flies at max. 8 AU", vec!["The probe flies at max. 8 AU"]),
        ("Use noble gases for 5 min. 3 Do", vec!["Use noble gases for 5 min.", "3 Do"]),
    ] {
        assert_eq!(offending(RuleId::Prec005, text, &facts), unsupported, "{text}");
    }
}

#[test]
fn list_numbers_and_bullets_are_not_claims() {
    let facts = ["Ice melts at 0 °C", "2) Sand does not"];
    for rule in BY_SENTENCES {
        let text =
            "1. Ice melts.\n  2. Sand does not.\r\na) ice melts\n- Sand\n* does not\n• 1. Ice\n3. Salt.\n42.";
        assert_eq!(offending(rule, text, &facts), ["1.", "Salt.", "42."], "{rule}");
    }
}

#[test]
fn markdown_marks_are_not_claims() {
    let facts = ["The lamp costs 49 € today", "It weighs **1.2** kg now"];
    for rule in BY_SENTENCES {
        let text = "# **The lamp** costs _49_ €!\n> `It` weighs ~~1.2~~ kg. ***It* is cheese.**";
        assert_eq!(offending(rule, text, &facts), ["It* is cheese."], "{rule}");
    }
}

#[test]
fn joined_claims_are_supported_part_by_part() {
    let facts = ["Ice melts at 0 °C", "The flag is black and white", "Mars has 2 moons, Phobos and Deimos."];
    for (text, unsupported) in [
        ("Ice melts at 0 °C and the moon is cheese.", vec!["the moon is cheese."]),
        ("Ice melts, the moon is cheese, with holes", vec!["the moon is cheese", "holes"]),
        ("The flag is black and white, and ice melts", vec![]),
        ("Surely the flag is black and white as ice melts at 0 °C", vec![]),
        ("Black and white ice", vec!["white ice"]),
        ("Mars has 2 moons and Phobos", vec![]),
        (", and with, .", vec![]),
        ("Sand melts", vec!["Sand melts"]),
        ("Ice melts AND 1,000 moons shine", vec!["1,000 moons shine"]),
    ] {
        assert_eq!(offending(RuleId::Prec006, text, &facts), unsupported, "{text}");
    }
    // a fact that is itself a joint joins nothing, nor does a fact that ends with one
    let facts = ["And", "with", "ice melts and", "Ice melts"];
    assert_eq!(offending(RuleId::Prec006, "Ice melts and the moon shines", &facts), ["the moon shines"]);
}

#[test]
fn quantities_are_compared_by_value() {
    for (fact, text) in [
        ("It boils at 14 °C", "it boils at 14C"),
        ("It boils at 14 °C", "it boils at 14.0 degrees Celsius."),
        ("It boils at −14 ℃", "It boils at -14 deg C"),
        ("The probe flies at 7.8 km/s", "The probe flies at 7,800 metres per second"),
        ("It takes 5 MW", "It takes 5000000 watts"),
        ("It costs $5 million", "It costs $5,000,000"),
        ("It costs 5 €", "It costs €5.00"),
        ("5 cm³ of water", "0.000005 m^3 of water"),
        ("A link of 1 Gbit/s", "a link of 1000 Mbps"),
        ("Between 5%-10%", "between 5 percent-10 per cent"),
        ("It is 12 100 km away", "It is 12 100 km away"),
        ("It is 12\u{202f}100 km away", "It is 12,100 km away"),
        ("0.20 €/kWh", "€0.2 per kWh"),
        ("From -5 °C to +5 °C", "from −5.0 ° C to 5C"),
        ("A 3 µm speck", "a 3 μm speck"),
        ("It flies at 5 km/s", "It flies at 5 m/ms"),
        ("It holds 2 dL", "It holds 0.2 litres"),
        ("It costs EUR 49", "It costs €49"),
        ("It costs EUR49", "It costs 49€"),
        ("It costs USD 49 million", "It costs 49,000,000 USD"),
        ("A 12-inch pan", "a 12″ pan"),
        ("A 12-inch pan", "a 12in pan"),
        ("A pan of 12 in, and a lid", "A pan of 12 inches, and a lid"),
        ("A 5-year warranty", "a 5 year warranty"),
        ("A 60‑W lamp gives 0.8 klm", "a 60 W lamp gives 800 lumens"),
        ("A 5,000 mAh cell", "a 5 Ah cell"),
        ("It is 40 dB loud", "it is 40 decibels loud"),
        ("It weighs 3 lbs, 5 oz at 2 ft", "It weighs 3 lb, 5 ounces at 2 feet"),
        ("It is lit by 500 lx", "It is lit by 0.5 klx"),
        ("A 3 µm speck", "a 0.003 millimeters speck"),
    ] {
        assert_eq!(verdict(RuleId::Prec007, text, &[fact]), RuleVerdict::Pass, "{fact:?} {text:?}");
    }
    for (fact, text) in [
        ("It boils at 14 °C", "it boils at 4 °C"),
        ("It costs USD 49", "It costs $49"),
        ("It costs GBP 49", "It costs £49"),
        ("It weighs 3 lb", "It weighs 3 pounds"),
        ("There are 5 inches", "There are 5 in stock"),
        ("A 5-in-1 tool", "a 5 inches-1 tool"),
        ("An arc of 5°30′15″", "An arc of 5°30′15 inches"),
        ("40 dB loud", "4 bytes loud"),
        ("XEUR 49", "XEUR 49.0"),
        ("It boils at 14 °C", "it boils at 14 °F"),
        ("It boils at 14 °C", "it boils at -14 °C"),
        ("It takes 5 MW", "It takes 5 mW"),
        ("The probe flies at 7.8 km/s", "The probe flies at 7.8 km"),
        ("The probe flies at 7.8 km/s", "The probe flies at 7.8"),
        ("It costs $5 million", "It costs $5"),
        ("Version 1.10 is out", "Version 1.1 is out"),
        ("It weighs 1,5 kg", "It weighs 15 kg"),
        ("It is 3×10^8 m/s fast", "8 m/s"),
        ("1000 requests per minute", "1000 req/min"),
        ("It is 12 100 km away", "100 km away"),
        ("It is 1 000 km away", "0 km away"),
        ("It is 1.2.3 m long", "3 m long"),
        ("At 12:30 h", "30 h"),
        ("Agent 007 m away", "Agent 7 m away"),
        ("It turns at 5 N·m", "It turns at 5 N"),
        ("Area of 5 m²", "Area of 5 m"),
    ] {
        assert_eq!(verdict(RuleId::Prec007, text, &[fact]), RuleVerdict::Fail, "{fact:?} {text:?}");
    }
}

#[test]
fn joined_claims_with_quantities_are_supported_part_by_part() {
    let facts = ["weighs 1.2 kg", "costs 49 €", "runs for 60 s, 120 s and 1,000 hours with one cell"];
    for (text, unsupported) in [
        ("The lamp weighs 1200 g and costs 49 EUR.", vec![]),
        ("The lamp weighs 1200 g and costs 99 €.", vec!["costs 99 €."]),
        ("The lamp weighs 1,300 g, costs 49 EUR", vec!["The lamp weighs 1,300 g"]),
        ("It runs for 60 sec, 0.12 ks and 1000 h with one cell, and weighs 1200 g", vec![]),
        ("Runs for 60 sec, 0.12 ks and 1001 h", vec!["1001 h"]),
        ("It weighs 1200", vec!["It weighs 1200"]),
    ] {
        assert_eq!(offending(RuleId::Prec008, text, &facts), unsupported, "{text}");
    }
    assert_eq!(offending(RuleId::Prec006, "It weighs 1200 g and costs 49 €", &facts), ["It weighs 1200 g"]);
}

#[test]
fn opposites_match_whole_words_and_inflections() {
    let mut all = check(&[]);
    all.expected.contradiction_ids =
        ["increase", "valid", "success-failure", "false", "enabled"].map(String::from).into();
    all.expected.contradiction_pairs = vec![("hot".into(), "not hot".into())];
    for (text, both) in [
        ("It increased, then was decreasing.", Some(("increased", "decreasing"))),
        ("Construe falsehoods: true", None),
        ("It's invalid. Do validate it!", None),
        ("Failing first, it SUCCEEDED", Some(("Failing", "SUCCEEDED"))),
        ("It is not hot", None),
        ("It is not hot but hot", Some(("not hot", "hot"))),
        ("İ enables, I disable", Some(("enables", "disable"))),
        ("__True__ is not\n- _false_", Some(("True", "false"))),
    ] {
        let result = applied(RuleId::Cont004, text, &all);
        let found = result.violations.first().map(|violation| {
            let [related, span] =
                [&violation.related, &violation.span].map(|span| span.clone().expect("both stand there"));
            (&text[related.start..related.end], &text[span.start..span.end])
        });
        assert_eq!(found, both, "{text}");
    }
}

#[test]
fn sentence_ends_after_long_run_of_marks() {
    for unit in [")", " ", "()", ")\u{93e}", "\u{102b}»", " \u{300}"] {
        let run = |chars: usize| unit.chars().cycle().take(chars).collect::<String>();
        // a lower-case letter continues the sentence
        for (chars, claims) in [(64, 1), (65, 2), (500_000, 2)] {
            let result = applied(RuleId::Prec005, &format!("It is a.{}b", run(chars)), &check(&["c"]));
            assert_eq!(result.violations.len(), claims, "{unit:?} {chars}");
        }
    }
}

const PIECES: &[&str] = &[
    "Ice", "melts", "and", "with", ",", ", ", ". ", "! ", "? ", "\n", " ", " ", " ", "e.g.", "Dr.", "No.",
    "7.8", "min.", "EUR", "in", "-", "″", "1,000", "14", "C", "°C", "km/s", "km", "per", "second", "%", "$",
    "€", "million", "(", ")", "“", "\n- ", "\n1. ", "\n2)", "**", "_", "`", "~~", "\n> ", "\n# ", "”", "é",
    "ß", "日本", "。", "'", "U.S.", "5", "0", "²", "_", "…",
];

proptest! {
    #[test]
    fn text_supports_itself(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        let text = pieces.concat();
        for rule in BY_SENTENCES {
            let result = applied(rule, &text, &check(&["Sand, and", &text]));
            prop_assert_eq!(result.verdict, RuleVerdict::Pass, "{} {:?}", rule, result.violations);
        }
    }

    #[test]
    fn rules_never_fail_on_arbitrary_text(text in "\\PC{0,40}", fact in "\\PC{0,10}", term in "\\PC{1,5}") {
        let mut all = check(&["and", &fact]);
        all.expected.contradiction_pairs = vec![(term, "x".into())];
        for &rule in RuleId::VARIANTS {
            prop_assert_ne!(applied(rule, &text, &all).verdict, RuleVerdict::Error);
        }
    }

    #[test]
    fn unit_prefix_scales_number_exactly(number in 0_u64..2_000_000, power in prop::sample::select(vec![
        ("n", -9), ("µ", -6), ("m", -3), ("c", -2), ("d", -1), ("", 0), ("da", 1), ("h", 2), ("k", 3), ("M", 6), ("G", 9), ("T", 12),
    ])) {
        let (prefix, power) = power;
        let nanometres = u128::from(number) * 10_u128.pow(u32::try_from(power + 9).expect("no prefix is below nano"));
        let fact = format!("It is {number}.0 {prefix}m long");
        let result = applied(RuleId::Prec007, &format!("It is {nanometres} nanometres long."), &check(&[&fact]));
        prop_assert_eq!(result.verdict, RuleVerdict::Pass);
        let result = applied(RuleId::Prec007, &format!("It is {} nm long.", nanometres + 1), &check(&[&fact]));
        prop_assert_eq!(result.verdict, RuleVerdict::Fail);
    }
}

#[test]
fn weight_includes_forms_for_later_rules() {
    let facts: Vec<String> = (0..100).map(|number| format!("Ice {number} is black and white")).collect();
    let set = FactSet::compile(&facts);
    let mut weight_bytes = set.weight_bytes();
    for rule in BY_SENTENCES {
        let check =
            CandidateCheck { facts: facts.clone(), rules: Some(vec![rule]), ..CandidateCheck::default() };
        let text = CandidateText::text("Ice 7 is black and white");
        assert_eq!(evaluate(&text, &check, &set, &RuleSettings::default()).verdict, RuleVerdict::Pass);
        assert!(set.weight_bytes() > weight_bytes, "{rule}");
        weight_bytes = set.weight_bytes();
    }
}

#[test]
fn published_pair_has_inflections_in_either_order() {
    for pair in [["increase", "decrease"], ["decrease", "increase"]] {
        let mut check = CandidateCheck { rules: Some(vec![RuleId::Cont004]), ..CandidateCheck::default() };
        check.expected.contradiction_pairs = vec![pair.map(String::from).into()];
        assert_eq!(
            evaluated("It increased while decreasing.", &check).verdict,
            RuleVerdict::Fail,
            "{pair:?}"
        );
    }
}

#[test]
fn unknown_pair_id_is_noted_by_every_pair_rule() {
    for rule in [RuleId::Cont001, RuleId::Cont002, RuleId::Cont003, RuleId::Cont004] {
        let mut check = CandidateCheck { rules: Some(vec![rule]), ..CandidateCheck::default() };
        check.expected.contradiction_ids = vec!["alway-never".into()];
        let evaluation = evaluated("It is always so.", &check);
        let mut steps = evaluation.rules.iter().flat_map(|rule| &rule.evidence);
        assert!(steps.any(|step| step.output.finding == EvidenceFinding::UnknownContradictionId), "{rule}");
    }
}
