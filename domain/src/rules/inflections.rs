//! Pairs of opposites by whole words, in their inflections: RULE-CONT-004.

use super::candidate::{Place, Subject};
use super::contradiction::{asked_by, first_outside, opposites};
use super::findings::Findings;
use super::words::{Row, row, words};
use std::ops::Range;

/// The published pairs, each side by its term and then what else says the same.
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

/// RULE-CONT-004: of no pair both terms appear as whole words, the published ones in any of their inflections.
pub(super) fn whole_words(subject: &Subject<'_>, findings: &mut Findings) {
    let texts: Vec<Located> = subject.texts().map(Located::of).collect();
    let asked = asked_by(subject, |terms| {
        let [one, other] = sides(terms);
        [(&one, &other), (&other, &one)].map(|(side, opposite)| {
            let mut texts = texts.iter().enumerate();
            texts.find_map(|(part, text)| Some(Place { part, range: text.first(side, opposite)? }))
        })
    });
    // these places are already those of the text as it came
    opposites(subject, findings, &asked, |place| place.range.clone());
}

/// The rows of words that each side of a pair is known by: a published one by its inflections, any other as it is given.
fn sides(terms: [&str; 2]) -> [Vec<String>; 2] {
    let [one, other] = terms;
    let published = INFLECTED.iter().find_map(|[first, second]| {
        match [first, second].map(|side| side.first().copied().unwrap_or_default()) {
            heads if heads == [one, other] => Some([first, second]),
            heads if heads == [other, one] => Some([second, first]),
            _ => None,
        }
    });
    match published {
        Some(sides) => sides.map(|side| side.iter().map(|term| row(term)).collect()),
        None => terms.map(|term| vec![row(term)]),
    }
}

/// A text as a row of words, with where each comes from.
struct Located {
    row: String,
    /// Where a word begins in the row, and where it stands in the text.
    words: Vec<(usize, Range<usize>)>,
}

impl Located {
    fn of(text: &str) -> Self {
        let mut row = Row::default();
        let mut located = Vec::new();
        for (range, word) in words(text) {
            located.push((row.end(), range));
            row.push(word);
        }
        Self { row: row.into_text(), words: located }
    }

    /// Where in the text one of `terms` stands first, outside every occurrence of the first of `opposites`: inflections are
    /// single words, which lie in no other.
    fn first(&self, terms: &[String], opposites: &[String]) -> Option<Range<usize>> {
        let opposite = opposites.first()?;
        // without the space behind it
        let first =
            |term: &String| first_outside(&self.row, term, opposite).map(|at| at..at + term.trim_end().len());
        let found = terms.iter().filter_map(first).min_by_key(|found| found.start)?;
        let word = |at: usize| self.words.partition_point(|(start, _)| *start < at);
        let begin = self.words.get(word(found.start))?;
        let last = self.words.get(word(found.end).checked_sub(1)?)?;
        Some(begin.1.start..last.1.end)
    }
}
