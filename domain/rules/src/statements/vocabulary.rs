//! The words of a word list, in the form in which texts are read with them.

use domain_base::decimal::Decimal;
use std::collections::HashMap;

/// The words of a caller, beside those of a language.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vocabulary {
    /// The stem of the group, by the stem of each of its words.
    words: HashMap<String, String>,
    /// The stems of the phrases of groups, by their first stem; the longest first.
    phrases: HashMap<String, Vec<Phrase>>,
    /// The words for each abbreviation.
    abbreviations: HashMap<String, String>,
    /// The longest spelling first.
    units: Vec<ListedUnit>,
}

/// A phrase of several words.
#[derive(Debug, Clone)]
pub(super) struct Phrase {
    pub(super) stems: Vec<String>,
    /// The stem of its group.
    pub(super) group: String,
}

#[derive(Debug, Clone)]
struct ListedUnit {
    spelling: String,
    /// The number of base units.
    factor: Decimal,
    base: String,
}

impl Vocabulary {
    /// Adds a group: the stems of each of its words and phrases. The first one represents all.
    pub(crate) fn add_group(&mut self, members: Vec<Vec<String>>) {
        let group = members.first().map(|stems| stems.join(" ")).unwrap_or_default();
        for stems in members {
            match stems.as_slice() {
                [] => {}
                [stem] => {
                    self.words.insert(stem.clone(), group.clone());
                }
                [first, ..] => {
                    let phrases = self.phrases.entry(first.clone()).or_default();
                    let longer = phrases.partition_point(|phrase| phrase.stems.len() >= stems.len());
                    phrases.insert(longer, Phrase { stems, group: group.clone() });
                }
            }
        }
    }

    pub(crate) fn add_abbreviation(&mut self, abbreviation: String, words: String) {
        self.abbreviations.insert(abbreviation, words);
    }

    /// Adds a unit of `factor` times `base`.
    pub(crate) fn add_unit(&mut self, spelling: String, factor: Decimal, base: String) {
        let longer = self.units.partition_point(|unit| unit.spelling.len() >= spelling.len());
        self.units.insert(longer, ListedUnit { spelling, factor, base });
    }

    /// The stem of the group that has the word with this stem.
    pub(super) fn group_of(&self, stem: &str) -> Option<&str> {
        self.words.get(stem).map(String::as_str)
    }

    /// The phrases that begin with this stem, the longest first.
    pub(super) fn phrases_from(&self, stem: &str) -> &[Phrase] {
        self.phrases.get(stem).map_or(&[], Vec::as_slice)
    }

    /// The words for an abbreviation.
    pub(super) fn expand(&self, abbreviation: &str) -> Option<&str> {
        self.abbreviations.get(abbreviation).map(String::as_str)
    }

    pub(super) fn has_no_words(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether no word is replaced by others, and no phrase by a word.
    pub(super) fn replaces_nothing(&self) -> bool {
        self.phrases.is_empty() && self.abbreviations.is_empty()
    }

    /// `value` in base units of the unit at the beginning of `text`, the base, and the length of the unit.
    pub(super) fn leading_unit(&self, value: &Decimal, text: &str) -> Option<(Decimal, String, usize)> {
        let is_end = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-');
        let unit =
            self.units.iter().find(|unit| text.strip_prefix(unit.spelling.as_str()).is_some_and(is_end))?;
        Some((value.checked_mul(&unit.factor).ok()?, unit.base.clone(), unit.spelling.len()))
    }
}
