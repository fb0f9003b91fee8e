//! Whole words, as the rules after the published ones match: by Unicode's word boundaries (UAX #29).

use super::normal::normalize;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// What does not count at either end of a claim or a fact: stops and other marks, quotation marks, brackets.
pub(super) const EDGES: &str = ".!?…,;:\"'()[]{}“”„‘’‚«»‹›。！？、";

/// The words of `text`, with where they stand in it. A mark or a symbol is a word of its own.
pub(super) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.split_word_bound_indices()
        .filter(|(_, word)| !word.trim().is_empty())
        .map(|(at, word)| (at..at + word.len(), word))
}

/// Words in a row, in lower case, with one space before, between and behind them: a row of whole words is found in it by
/// looking for a substring.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    text: String,
    words: Vec<(usize, Range<usize>)>,
}

impl Row {
    /// Puts `word`, which stands at `range` of the text, behind the others.
    pub(super) fn push(&mut self, range: Range<usize>, word: &str) {
        self.push_as_it_is(range, &normalize(word));
    }

    /// The same without putting it in lower case.
    pub(super) fn push_as_it_is(&mut self, range: Range<usize>, word: &str) {
        if self.text.is_empty() {
            self.text.push(' ');
        }
        self.words.push((self.text.len() - 1, range));
        self.text.push_str(word);
        self.text.push(' ');
    }

    /// Where each word begins in the row, the space before it included, and where it stands in the text.
    pub(super) fn words(&self) -> &[(usize, Range<usize>)] {
        &self.words
    }

    pub(super) const fn text(&self) -> &str {
        self.text.as_str()
    }

    /// A stretch of the row as a claim or a fact: without what does not count at its ends; empty where nothing is left that
    /// has a letter or a digit.
    pub(super) fn statement(&self, range: Range<usize>) -> String {
        let edge = |character: char| character == ' ' || EDGES.contains(character);
        let text = self.text.get(range).unwrap_or_default().trim_matches(edge);
        if text.contains(char::is_alphanumeric) { format!(" {text} ") } else { String::new() }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The words of `text` in a row.
pub(super) fn row(text: &str) -> Row {
    let mut row = Row::default();
    words(text).for_each(|(range, word)| row.push(range, word));
    row
}
