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
pub(super) struct Row(String);

impl Row {
    pub(super) fn push(&mut self, word: &str) {
        self.push_as_it_is(&normalize(word));
    }

    pub(super) fn push_as_it_is(&mut self, word: &str) {
        if self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(word);
        self.0.push(' ');
    }

    /// Where the next word begins, its space before it included.
    pub(super) const fn end(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// The words of `text` in a row.
pub(super) fn row(text: &str) -> String {
    let mut row = Row::default();
    words(text).for_each(|(_, word)| row.push(word));
    row.into_text()
}

/// `text` without what does not count at its ends; empty where nothing is left that has a letter or a digit.
pub(super) fn stripped(text: &str) -> &str {
    let text = text.trim_matches(|character: char| character.is_whitespace() || EDGES.contains(character));
    if text.contains(char::is_alphanumeric) { text } else { "" }
}

/// A claim or a fact as a row of words.
pub(super) fn statement(text: &str) -> String {
    row(stripped(text))
}
