//! The lookup tables for a pipeline's mappings and normalizers.

use crate::id::SourceId;
use crate::record::RecordContent;
use domain_base::decimal::{Decimal, DecimalText};
use domain_base::present_member::given;
use domain_base::text_form::to_nfc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The most entries of a table.
pub const ENTRIES_MAX: usize = 100_000;

/// A lookup table of a pipeline or an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LookupTable {
    /// Translates words.
    Words(WordTable),
    /// Translates words by the records of another source. A run uses the records that are valid when it begins; its definition has
    /// them as `words`.
    WordsFrom(WordSource),
    /// Conversion factors by substance, then by source unit; the substance `*` matches every substance.
    Conversions(BTreeMap<String, BTreeMap<String, UnitEquivalent>>),
}

impl LookupTable {
    /// Whether its words were read from the records of a source.
    #[must_use]
    pub fn has_words_of_source(&self) -> bool {
        matches!(self, Self::Words(words) if words.from.is_some())
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        match self {
            Self::Words(words) => words.entries.len(),
            Self::WordsFrom(_) => 0,
            Self::Conversions(substances) => substances.values().map(BTreeMap::len).sum(),
        }
    }
}

/// A table that translates words of the source into words of the ontology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WordTable {
    /// The ontology's term for each term of the source; null for a term that is ignored on purpose.
    pub entries: BTreeMap<String, Option<String>>,
    /// How words without an entry are handled; `reject` by default.
    #[serde(default)]
    pub otherwise: UnknownWordHandling,
    /// The records from which the entries were read; absent if the document has them.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<WordSource>,
}

impl WordTable {
    /// The table with its words in Unicode NFC, as [`Self::find`] looks them up.
    #[must_use]
    pub fn in_nfc(mut self) -> Self {
        if !self.entries.keys().all(|word| word.is_ascii()) {
            let entries = self.entries.into_iter();
            self.entries = entries.map(|(word, term)| (to_nfc(&word).into_owned(), term)).collect();
        }
        self
    }

    /// The translation of `word`, if the table has one: null for a word that is ignored.
    #[must_use]
    pub fn find(&self, word: &str) -> Option<Option<&str>> {
        self.entries.get(&*to_nfc(word)).map(Option::as_deref)
    }
}

/// The records of a registered source that translate words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WordSource {
    /// The source.
    pub oracle_id: SourceId,
    /// The axis with the words of the payload.
    pub key: String,
    /// The axis with the words of the ontology.
    pub value: String,
    /// How words without a record are handled; `reject` by default.
    #[serde(default)]
    pub otherwise: UnknownWordHandling,
}

/// Why records do not translate words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordSourceError {
    /// The source does not have the axis.
    #[error("source {oracle_id} has no axis `{axis}`; its axes are: {known}")]
    Axis { oracle_id: SourceId, axis: String, known: String },
    /// Two records translate a word differently.
    #[error(
        "source {oracle_id} translates `{word}` to `{first}` and to `{second}`; name a `key` whose values are unique"
    )]
    Ambiguous { oracle_id: SourceId, word: String, first: String, second: String },
    /// The source has too many words.
    #[error("source {oracle_id} has more than {ENTRIES_MAX} words, the maximum of a table")]
    TooMany { oracle_id: SourceId },
    /// No record has both axes.
    #[error("no record of source {oracle_id} has both `{key}` and `{value}` now")]
    Empty { oracle_id: SourceId, key: String, value: String },
}

/// The words that are collected from the records of a source.
#[derive(Debug)]
pub struct WordCollector<'s> {
    source: &'s WordSource,
    entries: BTreeMap<String, Option<String>>,
}

impl WordSource {
    /// Checks that a source with the axes `provided` has the axes of the words.
    ///
    /// # Errors
    /// It does not have one of them.
    pub fn check(&self, provided: &[String]) -> Result<(), WordSourceError> {
        let missing = [&self.key, &self.value].into_iter().find(|axis| !provided.contains(axis));
        missing.map_or(Ok(()), |axis| {
            let (oracle_id, axis, known) = (self.oracle_id.clone(), axis.clone(), provided.join(", "));
            Err(WordSourceError::Axis { oracle_id, axis, known })
        })
    }

    /// The table without words, for checks before a run: its words are known when the run begins.
    #[must_use]
    pub fn empty_table(&self) -> WordTable {
        WordTable { entries: BTreeMap::new(), otherwise: self.otherwise, from: None }
    }

    /// Begins to collect words.
    #[must_use]
    pub const fn collector(&self) -> WordCollector<'_> {
        WordCollector { source: self, entries: BTreeMap::new() }
    }
}

impl WordCollector<'_> {
    /// Adds the translation in a record. A record without a value on one of the axes is ignored.
    ///
    /// # Errors
    /// Another record translates the word differently, or there are too many words.
    pub fn add(&mut self, mut record: RecordContent) -> Result<(), WordSourceError> {
        let WordSource { oracle_id, key, value, .. } = self.source;
        let (Some(word), Some(term)) = (record.axes.remove(key), record.axes.remove(value)) else {
            return Ok(());
        };
        let (oracle_id, word, term) = (oracle_id.clone(), word.to_string(), term.to_string());
        let earlier = self.entries.insert(word.clone(), Some(term.clone())).flatten();
        if let Some(first) = earlier.filter(|first| *first != term) {
            return Err(WordSourceError::Ambiguous { oracle_id, word, first, second: term });
        }
        if self.entries.len() > ENTRIES_MAX {
            return Err(WordSourceError::TooMany { oracle_id });
        }
        Ok(())
    }

    /// The table of all words.
    ///
    /// # Errors
    /// There are none: each value would be rejected, dropped, or kept without a translation.
    pub fn into_table(self) -> Result<WordTable, WordSourceError> {
        let source = self.source;
        if self.entries.is_empty() {
            let WordSource { oracle_id, key, value, .. } = source.clone();
            return Err(WordSourceError::Empty { oracle_id, key, value });
        }
        Ok(WordTable { entries: self.entries, otherwise: source.otherwise, from: Some(source.clone()) })
    }
}

/// How a word without an entry is handled: `reject` rejects the record, `warn` drops the value with a warning, `keep` keeps
/// the word unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownWordHandling {
    /// Reject the record.
    #[default]
    Reject,
    /// Drop the value, with a warning.
    Warn,
    /// Keep the word unchanged.
    Keep,
}

/// The equivalent of one source unit for a substance: 1 IU of vitamin D is 0.025 ug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitEquivalent {
    /// The number of target units.
    #[schema(value_type = DecimalText)]
    pub factor: Decimal,
    /// The UCUM code of the target unit.
    pub unit: String,
}
