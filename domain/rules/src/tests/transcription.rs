//! A second, naive implementation of the published rules: plain loops over plain strings, without any code of the
//! rules. Both must give the same results.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// White space becomes single spaces and is removed at both ends; letters become lower case.
fn normal(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut one_space = String::new();
    for character in text.chars() {
        if !character.is_whitespace() {
            one_space.push(character);
        } else if !one_space.ends_with(' ') {
            one_space.push(' ');
        }
    }
    one_space.trim_matches(' ').to_lowercase()
}

/// The non-blank pieces between `.`, `!` and `?`, each with the offset of its first byte.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut sentences = vec![(0, String::new())];
    for (at, character) in text.char_indices() {
        if character == '.' || character == '!' || character == '?' {
            sentences.push((at + 1, String::new()));
        } else {
            sentences.last_mut().expect("there is one from the start").1.push(character);
        }
    }
    sentences.retain(|(_, sentence)| sentence.chars().any(|character| !character.is_whitespace()));
    for (start, sentence) in &mut sentences {
        *start += sentence.len() - sentence.trim_start().len();
        *sentence = sentence.trim().to_owned();
    }
    sentences
}

/// The index of the first fact that contains the sentence or is contained in it, and whether it contains it.
fn source(sentence: &str, facts: &[String]) -> Option<(u32, bool)> {
    let sentence = normal(sentence);
    for (number, fact) in (0..).zip(facts) {
        let fact = normal(fact);
        if fact.is_empty() {
            continue;
        }
        if fact.contains(&sentence) {
            return Some((number, true));
        }
        if sentence.contains(&fact) {
            return Some((number, false));
        }
    }
    None
}

/// RULE-PREC-001 and RULE-PREC-004: the unsupported sentences, if there are more than `unsupported_max`.
fn unsupported(text: &str, facts: &[String], unsupported_max: u64) -> Vec<(usize, String)> {
    let mut unsupported = sentences(text);
    unsupported.retain(|(_, sentence)| source(sentence, facts).is_none());
    if unsupported.len() as u64 > unsupported_max { unsupported } else { vec![] }
}

/// RULE-PREC-002 if `is_wanted`, else RULE-PREC-003; `None` for an error.
fn patterns(text: &str, patterns: &[String], is_wanted: bool) -> Option<usize> {
    let mut wrong = 0;
    for pattern in patterns {
        if normal(pattern).is_empty() {
            return None;
        }
        if normal(text).contains(&normal(pattern)) != is_wanted {
            wrong += 1;
        }
    }
    Some(wrong)
}

/// The pairs that the ids name, then the check's own.
fn pairs(expected: &CandidateExpectations) -> Vec<(String, String)> {
    let table = "always never true false increase decrease positive negative valid invalid correct incorrect \
                 success failure above below present absent enabled disabled";
    let table: Vec<&str> = table.split(' ').collect();
    let mut known: Vec<(String, String)> =
        table.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    let own: Vec<(String, String)> =
        expected.contradiction_pairs.iter().map(|(one, other)| (normal(one), normal(other))).collect();
    known.extend(own.clone());
    let mut pairs = own;
    for id in &expected.contradiction_ids {
        let id = normal(id);
        for (one, other) in &known {
            if id == *one || id == *other || id == format!("{one}-{other}") || id == format!("{other}-{one}")
            {
                pairs.push((one.clone(), other.clone()));
            }
        }
    }
    pairs
}

/// Whether `term` occurs in `text` outside every occurrence of `opposite`.
fn appears(text: &str, term: &str, opposite: &str) -> bool {
    let starts_at = |at: usize, term: &str| text.is_char_boundary(at) && text[at..].starts_with(term);
    for at in 0..text.len() {
        let mut is_inside = false;
        for from in 0..=at {
            let reaches = from + opposite.len() >= at + term.len();
            is_inside |= starts_at(from, opposite) && reaches;
        }
        if starts_at(at, term) && !is_inside {
            return true;
        }
    }
    false
}

/// RULE-CONT-001: the pairs with both terms in the text.
fn contradictions(text: &str, expected: &CandidateExpectations) -> BTreeSet<BTreeSet<String>> {
    let text = normal(text);
    let mut both = pairs(expected);
    both.retain(|(one, other)| appears(&text, one, other) && appears(&text, other, one));
    both.into_iter().map(|(one, other)| BTreeSet::from([one, other])).collect()
}

/// RULE-CONT-003: the sentences that assert and then contradict.
fn infirmations(text: &str, expected: &CandidateExpectations) -> BTreeSet<(usize, usize)> {
    let sentences = sentences(text);
    let first = |term: &str, opposite: &str| {
        sentences.iter().find(|(_, sentence)| appears(&normal(sentence), term, opposite)).map(|(at, _)| *at)
    };
    let mut found = BTreeSet::new();
    for (one, other) in pairs(expected) {
        if let (Some(one), Some(other)) = (first(&one, &other), first(&other, &one)) {
            found.insert((one.min(other), one.max(other)));
        }
    }
    found
}

/// RULE-CONT-002's own part: whether the comparisons contradict each other. Words are separated by spaces.
fn has_cycle(texts: &[&str]) -> bool {
    // above, below, and whether the comparison is strict
    let mut steps: Vec<(&str, &str, bool)> = Vec::new();
    for text in texts {
        let words: Vec<&str> = text.split(' ').collect();
        let is_operand = |word: &str| word.chars().all(char::is_alphanumeric) && !word.is_empty();
        let is_beside = |word: Option<&&str>| word.is_some_and(|word| is_operand(word) && *word != "and");
        for (at, three) in words.windows(3).enumerate() {
            let before = at.checked_sub(1).and_then(|before| words.get(before));
            let is_longer = is_beside(before) || is_beside(words.get(at + 3));
            if three[0] == three[2] && is_longer {
                continue;
            }
            if is_operand(three[0]) && is_operand(three[2]) {
                match three[1] {
                    ">" | ">=" => steps.push((three[0], three[2], three[1] == ">")),
                    "<" | "<=" => steps.push((three[2], three[0], three[1] == "<")),
                    _ => {}
                }
            }
        }
    }
    let operands: BTreeSet<&str> = steps.iter().flat_map(|(above, below, _)| [*above, *below]).collect();
    for one in &operands {
        for other in &operands {
            if let (Ok(above), Ok(below)) = (one.parse::<u32>(), other.parse::<u32>())
                && above > below
            {
                steps.push((one, other, true));
            }
        }
    }
    // adds the steps that follow from two steps, until there are no new ones
    loop {
        let mut follows = Vec::new();
        for (above, middle, strict) in &steps {
            for (same, below, as_strict) in &steps {
                let step = (*above, *below, *strict || *as_strict);
                if same == middle && !steps.contains(&step) && !follows.contains(&step) {
                    follows.push(step);
                }
            }
        }
        if follows.is_empty() {
            return steps.iter().any(|(above, below, strict)| above == below && *strict);
        }
        steps.extend(follows);
    }
}

fn result(rule: RuleId, evaluation: &RulesEvaluation) -> &RuleResult {
    evaluation.rules.iter().find(|result| result.rule == rule).expect("every published rule was applied")
}

fn verdict_of(is_passed: bool) -> RuleVerdict {
    if is_passed { RuleVerdict::Pass } else { RuleVerdict::Fail }
}

fn spans(result: &RuleResult) -> Vec<(usize, usize)> {
    let span = |violation: &RuleViolation| violation.span.clone().map(|span| (span.start, span.end));
    result.violations.iter().map(|violation| span(violation).expect("the text contains it")).collect()
}

fn words(
    words: &'static [&'static str],
    most: usize,
    between: &'static str,
) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(words), 0..most).prop_map(|words| words.join(between))
}

const TERMS: &[&str] = &[
    "true", "FALSE", "valid", "inValid", "increase", "decrease", "hot", "not  Hot", "nothot", "é", "É", "in",
    ".", "! ", " ", "\r\n", "x", "correct", "ly", "İ", "abab", "ab",
];

proptest! {
    #[test]
    fn naive_rules_find_same_unsupported_claims(
        text in "[abAB \\n.!?éÉİΣσ\u{a0}]{0,24}",
        facts in prop::collection::vec("[abB .\\tÉiσς]{0,5}", 0..5),
        unsupported_max in 0..3_u64,
    ) {
        let mut all = CandidateCheck { facts, ..CandidateCheck::default() };
        all.expected.max_unsupported_claims = Some(UnsupportedClaimLimit::Number(unsupported_max));
        let naive = unsupported(&text, &all.facts, unsupported_max);
        let naive: Vec<_> = naive.into_iter().map(|(start, claim)| (start, start + claim.len())).collect();
        let evaluation = evaluated(&text, &all);
        for rule in [RuleId::Prec001, RuleId::Prec004] {
            let result = result(rule, &evaluation);
            prop_assert_eq!(result.verdict, verdict_of(naive.is_empty()));
            prop_assert_eq!(&spans(result), &naive);
        }
        let named: Vec<_> = result(RuleId::Prec004, &evaluation).evidence.iter()
            .filter(|step| [EvidenceFinding::Supported, EvidenceFinding::Unsupported].contains(&step.output.finding))
            .map(|step| Some((step.output.fact?, step.output.direction? == SupportDirection::ClaimInFact)))
            .collect();
        let sources: Vec<_> = sentences(&text).iter().map(|(_, claim)| source(claim, &all.facts)).collect();
        prop_assert_eq!(named, sources);
    }

    #[test]
    fn naive_rules_find_same_patterns(
        text in "[abAB \\nÉİΣσ.]{0,16}",
        must_find in prop::collection::vec("[abB Éi.σς]{0,4}", 0..4),
        must_not_find in prop::collection::vec("[abA \\néi]{0,4}", 0..4),
    ) {
        let expected = CandidateExpectations { must_find, must_not_find, ..CandidateExpectations::default() };
        let evaluation = evaluated(&text, &CandidateCheck { expected: expected.clone(), ..CandidateCheck::default() });
        for (rule, naive) in [
            (RuleId::Prec002, patterns(&text, &expected.must_find, true)),
            (RuleId::Prec003, patterns(&text, &expected.must_not_find, false)),
        ] {
            let result = result(rule, &evaluation);
            prop_assert_eq!(result.verdict, naive.map_or(RuleVerdict::Error, |wrong| verdict_of(wrong == 0)));
            prop_assert_eq!(result.violations.len(), naive.unwrap_or(0));
        }
    }

    #[test]
    fn naive_rules_find_same_opposites(
        text in words(TERMS, 8, ""),
        contradiction_ids in prop::collection::vec(prop::sample::select(vec![
            "true-false", "False-True", "VALID", "decrease", "hot", "not hot-hot", "ab", "nonsense", "",
        ]), 0..5),
        contradiction_pairs in prop::collection::vec(prop::sample::select(vec![
            ("hot", "not HOT"), ("Not hot", "hot"), ("ab", "aba"), ("é", "x"), ("true", "in"), ("false", "true"),
        ]), 0..3),
    ) {
        let expected = CandidateExpectations {
            contradiction_ids: contradiction_ids.into_iter().map(String::from).collect(),
            contradiction_pairs: contradiction_pairs.into_iter().map(|(a, b)| (a.into(), b.into())).collect(),
            ..CandidateExpectations::default()
        };
        let evaluation = evaluated(&text, &CandidateCheck { expected: expected.clone(), ..CandidateCheck::default() });
        let naive = contradictions(&text, &expected);
        for rule in [RuleId::Cont001, RuleId::Cont002] {
            let result = result(rule, &evaluation);
            prop_assert_eq!(result.verdict, verdict_of(naive.is_empty()));
            let quoted: BTreeSet<BTreeSet<String>> = result.violations.iter().map(|violation| {
                [&violation.span, &violation.related].map(|span| {
                    let span = span.clone().expect("both sides stand there");
                    normal(&text[span.start..span.end])
                }).into()
            }).collect();
            prop_assert_eq!(&quoted, &naive);
        }
        let result = result(RuleId::Cont003, &evaluation);
        prop_assert_eq!(result.verdict, verdict_of(naive.is_empty()));
        let reported: BTreeSet<_> = result.violations.iter().map(|violation| {
            [&violation.related, &violation.span].map(|span| span.clone().expect("two items").start).into()
        }).collect();
        prop_assert_eq!(reported, infirmations(&text, &expected));
    }

    #[test]
    fn naive_rules_find_same_contradicting_comparisons(
        text in words(&["a", "É", "b", "c", "é", "1", "2", "10", "<", ">", "<=", ">=", ",", "and"], 14, " "),
        constraints in prop::collection::vec(words(&["a", "b", "2", "<", ">", ">="], 5, " "), 0..3),
    ) {
        let evaluation = evaluated(&text, &CandidateCheck { constraints: constraints.clone(), ..CandidateCheck::default() });
        // operands with a sign between each two; a constraint with other text is not used
        let is_whole = |text: &String| {
            let words: Vec<&str> = text.split(' ').collect();
            let is_sign = |word: &str| word.starts_with(['<', '>']);
            words.len() >= 3 && words.len() % 2 == 1
                && words.iter().enumerate().all(|(at, word)| is_sign(word) == (at % 2 == 1))
        };
        let lower: Vec<String> = constraints.iter().map(|text| normal(text)).filter(is_whole).collect();
        let mut all: Vec<&str> = lower.iter().map(String::as_str).collect();
        let in_conflict = has_cycle(&all);
        let text = normal(&text);
        all.push(&text);
        // constraints that contradict each other give no result about the candidate
        let naive = if in_conflict { RuleVerdict::Error } else { verdict_of(!has_cycle(&all)) };
        prop_assert_eq!(result(RuleId::Cont002, &evaluation).verdict, naive);
    }
}
