//! A text's claims.

use super::normal::normalize;
use std::ops::Range;

/// What the published rules split at.
pub(super) const DELIMITERS: [char; 3] = ['.', '!', '?'];

/// A stretch of one part, in the form in which it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) part: usize,
    pub(super) range: Range<usize>,
}

/// One claim of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// In which part of the candidate.
    pub(super) part: usize,
    /// Where in the part's text, without the white space around it.
    pub(super) range: Range<usize>,
    /// As it is matched; never blank.
    pub(super) normal: String,
}

/// The claims of `text`: what stands between full stops, exclamation marks and question marks, and is not blank.
pub(super) fn sentences(part: usize, text: &str) -> impl Iterator<Item = Claim> {
    text.split(DELIMITERS).filter_map(move |piece| claim(part, text, piece))
}

/// The claim that `piece`, a piece of `text`, makes unless it is blank.
fn claim(part: usize, text: &str, piece: &str) -> Option<Claim> {
    let trimmed = piece.trim();
    let start = trimmed.as_ptr().addr() - text.as_ptr().addr();
    let normal = normalize(trimmed);
    (!normal.is_empty()).then(|| Claim { part, range: start..start + trimmed.len(), normal })
}

/// The stretch between delimiters, without the white space around it, that byte `at` of `text` lies in.
pub(super) fn sentence_around(text: &str, at: usize) -> Range<usize> {
    let (before, behind) = text.split_at_checked(at).unwrap_or((text, ""));
    let start = before.rfind(DELIMITERS).map_or(0, |at| at + 1);
    let end = behind.find(DELIMITERS).map_or(text.len(), |end| at + end);
    let sentence = text.get(start..end).unwrap_or_default();
    let start = start + sentence.len() - sentence.trim_start().len();
    start..start + sentence.trim().len()
}
