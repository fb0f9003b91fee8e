//! Splits a text into claims.

use super::normal::normalize;
use std::ops::Range;

/// The delimiters at which the published rules split.
pub(super) const DELIMITERS: [char; 3] = ['.', '!', '?'];

/// A range of one part of the candidate, in normalized text or in text without layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CandidateRange {
    pub(super) part: usize,
    pub(super) range: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CandidateClaim {
    /// The index of the part of the candidate.
    pub(super) part: usize,
    /// The range in the text of the part, without surrounding white space.
    pub(super) range: Range<usize>,
    /// The normalized text; never blank.
    pub(super) normal: String,
}

/// The claims of `text`: its non-blank pieces between full stops, exclamation marks and question marks.
pub(super) fn sentences(part: usize, text: &str) -> impl Iterator<Item = CandidateClaim> {
    text.split(DELIMITERS).filter_map(move |piece| claim(part, text, piece))
}

/// The claim in `piece`, which is a slice of `text`; `None` if it is blank.
fn claim(part: usize, text: &str, piece: &str) -> Option<CandidateClaim> {
    let trimmed = piece.trim();
    let start = trimmed.as_ptr().addr() - text.as_ptr().addr();
    let normal = normalize(trimmed);
    (!normal.is_empty()).then(|| CandidateClaim { part, range: start..start + trimmed.len(), normal })
}

/// The range between delimiters that contains byte `at` of `text`, without surrounding white space.
pub(super) fn sentence_around(text: &str, at: usize) -> Range<usize> {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let start = before.rfind(DELIMITERS).map_or(0, |at| at + 1);
    let end = after.find(DELIMITERS).map_or(text.len(), |end| at + end);
    let sentence = text.get(start..end).unwrap_or_default();
    let start = start + sentence.len() - sentence.trim_start().len();
    start..start + sentence.trim().len()
}
