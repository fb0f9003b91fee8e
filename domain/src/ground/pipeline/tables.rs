//! The tables that a pipeline's mappings and normalizers name.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A table: words for words, or factors that no unit knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Table {
    /// Words for words.
    Words(Words),
    /// By the substance, what a unit comes to: `*` stands for every substance.
    Conversions(BTreeMap<String, BTreeMap<String, Amount>>),
}

impl Table {
    /// How many entries it has.
    #[must_use]
    pub fn entries(&self) -> usize {
        match self {
            Self::Words(words) => words.entries.len(),
            Self::Conversions(substances) => substances.values().map(BTreeMap::len).sum(),
        }
    }
}

/// Words for words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// What each is called in the ontology; null for what is knowingly not taken.
    pub entries: BTreeMap<String, Option<String>>,
    /// What becomes of others.
    #[serde(default)]
    pub otherwise: Otherwise,
}

/// What becomes of a word that a table does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Otherwise {
    /// The record is rejected.
    #[default]
    Reject,
    /// It is not taken, with a warning.
    Warn,
    /// It is taken as it is.
    Keep,
}

/// What one of a unit comes to, for a substance: an IU of vitamin D is 0.025 ug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// How many.
    pub factor: crate::base::decimal::Decimal,
    /// Of which unit, by its UCUM code.
    pub unit: String,
}
