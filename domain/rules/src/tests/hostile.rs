//! Hostile inputs: the time must grow linearly with the size of the input, for all rules.

use super::*;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use strum::VariantArray;

/// The smaller size in bytes, and the factor between the two sizes.
const SMALL: usize = 4 * 1024;
const TIMES: usize = 64;
/// The number of attempts: other programs may slow down one attempt, but a slow rule fails all of them.
const ATTEMPTS: usize = 4;

/// Evaluates the output of `made` in two sizes. Quadratic time would take 4,096 times as long for 64 times the size.
fn grows_with_its_size(build: impl Fn(usize) -> (String, CandidateCheck)) {
    let [small, large] = [SMALL, SMALL * TIMES].map(|size| {
        let (text, check) = build(size);
        (text, CandidateCheck { rules: Some(RuleId::VARIANTS.into()), ..check })
    });
    let time = |(text, check): &(String, CandidateCheck)| {
        let began = spent();
        let evaluation = evaluated(text, check);
        assert_eq!(evaluation.metrics.rules_error, 0);
        spent() - began
    };
    let allowed = |small: Duration| small.max(Duration::from_millis(1)) * TIMES as u32 * 10;
    let mut times = Vec::new();
    let in_proportion = (0..ATTEMPTS).any(|_| {
        let (small, large) = (time(&small), time(&large));
        times.push((small, large));
        large < allowed(small)
    });
    assert!(in_proportion, "for {TIMES} times the size: {times:?}");
}

/// The processor time of this thread, which excludes other programs on the machine.
fn spent() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux counts it").into()
}

fn check(facts: Vec<String>) -> CandidateCheck {
    CandidateCheck { facts, ..CandidateCheck::default() }
}

fn fibonacci(size: usize) -> String {
    let (mut last, mut word) = ("a".to_owned(), "ab".to_owned());
    while word.len() < size {
        let longer = format!("{word}{last}");
        last = std::mem::replace(&mut word, longer);
    }
    word.truncate(size);
    word
}

#[test]
fn text_without_delimiter_with_one_letter_facts_is_linear() {
    let letters = |size| (0..size).map(|at| char::from(b"bcdefghi"[at % 8]).to_string()).collect();
    grows_with_its_size(|size| ("a".repeat(size), check(letters(size / 4))));
}

#[test]
fn many_claims_with_many_and_blank_facts_are_linear() {
    let facts = |size: usize| {
        (0..size / 8).map(|at| if at % 2 == 0 { " ".into() } else { format!("x{at}") }).collect()
    };
    grows_with_its_size(|size| ("ab. ".repeat(size / 4), check(facts(size))));
}

#[test]
fn nested_facts_and_text_with_all_of_them_are_linear() {
    let nested = |size: usize| {
        let short = (1..).scan(0, move |sum, length| {
            *sum += length;
            (*sum < size / 2).then(|| format!("{}b", "a".repeat(length)))
        });
        short.chain([format!("{}c", "a".repeat(size / 2))]).collect()
    };
    grows_with_its_size(|size| ("a".repeat(size), check(nested(size))));
}

#[test]
fn facts_equal_or_similar_to_the_text_are_linear() {
    grows_with_its_size(|size| {
        let word = fibonacci(size);
        (format!("{word}b{word}"), check(vec![format!("{word}a{word}"), format!("a{word}"), word]))
    });
}

#[test]
fn many_claims_in_one_long_fact_are_linear() {
    grows_with_its_size(|size| ("a. b. ".repeat(size / 6), check(vec!["a".repeat(size), "b".repeat(size)])));
}

#[test]
fn steps_are_listed_up_to_four_mebibytes() {
    let evaluation = evaluated(&"a. ".repeat(500), &check(vec!["a".repeat(128 * 1024)]));
    let sourcing = evaluation.rules.iter().find(|rule| rule.rule == RuleId::Prec004).expect("it is applied");
    assert_eq!((sourcing.evidence.len(), sourcing.evidence_omitted), (32, 468));
}

#[test]
fn claims_similar_to_every_fact_are_linear() {
    let facts = |size: usize| (0..size / 64).map(|_| format!("{}b", "a".repeat(63))).collect();
    grows_with_its_size(|size| (format!("{}c. ", "a".repeat(29)).repeat(size / 32), check(facts(size))));
}

#[test]
fn combining_characters_are_linear() {
    let facts = |size: usize| (0..size / 16).map(|at| format!("Σ\u{301}\u{301}İ{at}\u{200d}😀")).collect();
    grows_with_its_size(|size| (format!("A{}", "\u{301}İ\u{200d}Σ".repeat(size / 8)), check(facts(size))));
}

#[test]
fn text_of_layout_quantities_and_abbreviations_is_linear() {
    for unit in
        ["> ", "*", "*a", "_`~~", "- ", "\n> - # a", "#", "1. ", "5 in ", "EUR 5-", "approx. 5A ", "5   "]
    {
        grows_with_its_size(|size| {
            let text = unit.repeat(size / unit.len());
            let check = check(vec![text.clone(), "5 and 5".into()]);
            (text, check)
        });
    }
}

#[test]
fn tables_and_long_lines_are_linear() {
    for (start, unit) in [
        ("# ", "Ab. "),
        ("- ", "Ab. "),
        ("~~", "Ab. "),
        ("", "a|b\n-|-\n"),
        ("a|b\n-|-\n", "c|d\n"),
        ("a|b\n-|-\n", "\\|"),
        ("", "|-"),
        ("", "|a"),
        ("", "```\n"),
    ] {
        grows_with_its_size(|size| {
            let text = format!("{start}{}", unit.repeat(size / unit.len()));
            (text, check(vec!["Price of c: d".into()]))
        });
    }
}

/// The long head of a table, or the long beginning of a list, is not read again with each row or item.
#[test]
fn long_heads_and_leads_are_linear() {
    for (start, end, row) in [
        ("| x | ", " |\n|---|---|\n", "| x | y |\n"),
        ("| ", " |\n|---|\n", "| y |\n"),
        ("The plan includes ", ":\n", "- b\n"),
        ("- ", ":\n", "- b:\n"),
    ] {
        grows_with_its_size(|size| {
            let rows = row.repeat(size / 2 / row.len());
            (format!("{start}{}{end}{rows}", "a".repeat(size / 2)), check(vec!["y of x: z".into()]))
        });
    }
}

#[test]
fn nested_patterns_are_linear() {
    grows_with_its_size(|size| {
        let patterns = |last: &str| {
            (1..=size / 128).map(|length| format!("{}{last}", "a".repeat(length % 64))).collect()
        };
        let expected = CandidateExpectations {
            must_find: patterns("a"),
            must_not_find: patterns("b"),
            ..CandidateExpectations::default()
        };
        ("a".repeat(size), CandidateCheck { expected, ..check(vec![]) })
    });
}

#[test]
fn many_comparisons_are_linear() {
    for unit in ["a > b, ", "<a>", "5 million > ", "- x > "] {
        grows_with_its_size(|size| (unit.repeat(size / unit.len()), check(vec![])));
    }
    grows_with_its_size(|size| {
        let (space, word) = (" ".repeat(size / 8), "x".repeat(size / 8));
        (format!("a >{space}b{space}> c {word} > {space}{word} > 5 {word}"), check(vec![]))
    });
    grows_with_its_size(|size| {
        let text = (0..size / 16).map(|at| format!("n{at} > n{}, ", at + 1)).collect::<String>();
        (format!("{text} n{} > n0", size / 16), check(vec![]))
    });
}

#[test]
fn one_mebibyte_with_100_000_facts_is_evaluated() {
    let facts = (0..100_000).map(|at| char::from(b"abcdefgh"[at % 8]).to_string()).collect();
    let evaluation = evaluated(&"i".repeat(1024 * 1024), &check(facts));
    assert_eq!((evaluation.verdict, evaluation.metrics.unsupported_claims), (RuleVerdict::Fail, 1));
}

#[test]
fn text_of_only_quantities_is_linear() {
    grows_with_its_size(|size| ("5% ".repeat(size / 3), check(vec!["5% 5%".into()])));
    grows_with_its_size(|size| ("5 ampere hours/s ".repeat(size / 17), check(vec!["5% 5%".into()])));
}
