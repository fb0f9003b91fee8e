//! The forms in which the rules after the published ones compare texts.

use super::words::WordSequence;
use super::{quantity, words};

/// The form in which claims and facts are compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum ComparisonForm {
    /// As rows of words.
    Words,
    /// As rows of words, with quantities in one form.
    Quantities,
    /// The same with counted units; a claim may add words to a note.
    Notes,
}

impl ComparisonForm {
    pub(super) fn row(self, text: &str) -> WordSequence {
        match self {
            Self::Words => words::row(text),
            Self::Quantities => quantity::row(text, &[&quantity::UNIT_SPELLINGS]),
            Self::Notes => quantity::row(text, &[&quantity::UNIT_SPELLINGS, &quantity::COUNTED_SPELLINGS]),
        }
    }

    /// The normalized form of a claim or a fact.
    pub(super) fn statement(self, text: &str) -> String {
        let row = self.row(text);
        row.statement(0..row.text().len())
    }
}
