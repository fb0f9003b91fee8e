//! Whole words by Unicode's word boundaries (UAX #29).

use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The words of `text`, with their ranges. A mark or a symbol is a word of its own.
pub(super) fn words(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.split_word_bound_indices()
        .filter(|(_, word)| !word.trim().is_empty())
        .map(|(at, word)| (at..at + word.len(), word))
}
