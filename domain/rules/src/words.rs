//! Whole words by Unicode's word boundaries (UAX #29), as the rules after the published ones match them.

use super::normalization::normalize;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// Characters that are ignored at both ends of a claim or a fact: stops, other marks, quotation marks and brackets.
pub(super) const EDGES: &str = ".!?…,;:\"'()[]{}“”„‘’‚«»‹›。！？、";

/// The words of `text`, with their ranges. A mark or a symbol is a word of its own.
pub(super) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.split_word_bound_indices()
        .filter(|(_, word)| !word.trim().is_empty())
        .map(|(at, word)| (at..at + word.len(), word))
}

/// Words in lower case with one space before, between and after them, so that a substring search finds whole words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WordSequence {
    text: String,
    words: Vec<(usize, Range<usize>)>,
}

impl WordSequence {
    /// Appends `word`, which is at `range` of the text.
    pub(super) fn push(&mut self, range: Range<usize>, word: &str) {
        self.push_as_it_is(range, &normalize(word));
    }

    /// As [`Self::push`], without changing the case.
    pub(super) fn push_as_it_is(&mut self, range: Range<usize>, word: &str) {
        if self.text.is_empty() {
            self.text.push(' ');
        }
        self.words.push((self.text.len() - 1, range));
        self.text.push_str(word);
        self.text.push(' ');
    }

    /// For each word: its offset in the row, including the space before it, and its range in the text.
    pub(super) fn words(&self) -> &[(usize, Range<usize>)] {
        &self.words
    }

    pub(super) const fn text(&self) -> &str {
        self.text.as_str()
    }

    /// A range of the row as a claim or a fact, without ignored characters at its ends. Empty if no letter or digit is
    /// left.
    pub(super) fn statement(&self, range: Range<usize>) -> String {
        let edge = |character: char| character == ' ' || EDGES.contains(character);
        let text = self.text.get(range).unwrap_or_default().trim_matches(edge);
        if text.contains(char::is_alphanumeric) { format!(" {text} ") } else { String::new() }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

pub(super) fn row(text: &str) -> WordSequence {
    let mut row = WordSequence::default();
    words(text).for_each(|(range, word)| row.push(range, word));
    row
}
