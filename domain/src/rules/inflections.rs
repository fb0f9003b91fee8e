//! Pairs of opposites by whole words and their inflections: RULE-CONT-004.

use super::candidate::RuleContext;
use super::claims::CandidateRange;
use super::contradiction::{find_requested_pairs, first_outside, note_unknown, opposites};
use super::findings::RuleFindings;
use super::words::{WordSequence, row};
use std::ops::Range;

/// The published pairs. Each side begins with its term, followed by its inflections.
pub(super) const INFLECTED: [[&[&str]; 2]; 10] = [
    [&["always"], &["never"]],
    [&["true"], &["false"]],
    [
        &["increase", "increases", "increased", "increasing"],
        &["decrease", "decreases", "decreased", "decreasing"],
    ],
    [&["positive", "positives", "positively"], &["negative", "negatives", "negatively"]],
    [&["valid", "validly"], &["invalid", "invalidly"]],
    [&["correct", "correctly"], &["incorrect", "incorrectly"]],
    [
        &[
            "success",
            "successes",
            "successful",
            "successfully",
            "succeed",
            "succeeds",
            "succeeded",
            "succeeding",
        ],
        &["failure", "failures", "fail", "fails", "failed", "failing", "unsuccessful", "unsuccessfully"],
    ],
    [&["above"], &["below"]],
    [&["present"], &["absent"]],
    [&["enabled", "enable", "enables", "enabling"], &["disabled", "disable", "disables", "disabling"]],
];

/// RULE-CONT-004: the two terms of a pair must not both appear as whole words. Published terms also match in their
/// inflections.
pub(super) fn whole_words(subject: &RuleContext<'_>, findings: &mut RuleFindings) {
    let rows: Vec<WordSequence> = subject.plain().iter().map(|plain| row(plain.text())).collect();
    let requested = find_requested_pairs(subject, |terms| {
        let [one, other] = sides(terms);
        [(&one, &other), (&other, &one)].map(|(side, opposite)| {
            let mut rows = rows.iter().enumerate();
            rows.find_map(|(part, row)| Some(CandidateRange { part, range: first(row, side, opposite)? }))
        })
    });
    opposites(subject, findings, &requested, |range| subject.plain_origin(range.part, range.range.clone()));
    note_unknown(findings, &requested);
}

/// The rows of words that represent each side of a pair: the inflections of a published term, or the given term.
fn sides(terms: [&str; 2]) -> [Vec<String>; 2] {
    let [one, other] = terms;
    let published = INFLECTED.iter().find_map(|[first, second]| {
        match [first, second].map(|side| side.first().copied().unwrap_or_default()) {
            heads if heads == [one, other] => Some([first, second]),
            heads if heads == [other, one] => Some([second, first]),
            _ => None,
        }
    });
    let term = |term: &str| row(term).into_text();
    match published {
        Some(sides) => sides.map(|side| side.iter().copied().map(term).collect()),
        None => terms.map(|one| vec![term(one)]),
    }
}

/// The range of the first of `terms` in the text with the words `row`, outside of every occurrence of the first of
/// `opposites`. The other opposites are single words, which contain no term.
fn first(row: &WordSequence, terms: &[String], opposites: &[String]) -> Option<Range<usize>> {
    let opposite = opposites.first()?;
    // without the space after it
    let first =
        |term: &String| first_outside(row.text(), term, opposite).map(|at| at..at + term.trim_end().len());
    let found = terms.iter().filter_map(first).min_by_key(|found| found.start)?;
    let word = |at: usize| row.words().partition_point(|(start, _)| *start < at);
    let begin = row.words().get(word(found.start))?;
    let last = row.words().get(word(found.end).checked_sub(1)?)?;
    Some(begin.1.start..last.1.end)
}
