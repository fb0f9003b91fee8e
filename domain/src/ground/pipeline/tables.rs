//! The lookup tables for a pipeline's mappings and normalizers.

use crate::base::decimal::{Decimal, DecimalText};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A lookup table of a pipeline or an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LookupTable {
    /// Translates words.
    Words(WordTable),
    /// Conversion factors by substance, then by source unit; the substance `*` matches every substance.
    Conversions(BTreeMap<String, BTreeMap<String, UnitEquivalent>>),
}

impl LookupTable {
    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        match self {
            Self::Words(words) => words.entries.len(),
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
