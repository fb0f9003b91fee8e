//! The compiled facts of a check. The form for the published rules is created at once; the one for supported claims at its
//! first use in a language, and then kept.

use super::facts::SearchableFacts;
use super::normalization::NormalizedLines;
use super::statements::{FactParts, TextLanguage};
use domain_base::digest::Sha256Hex;
use std::sync::OnceLock;

/// A set of facts, ready to be searched. The results depend only on the facts, so the set can be reused.
#[derive(Debug)]
pub struct FactSet {
    given: SearchableFacts,
    /// In each language.
    parts: [OnceLock<FactParts>; 2],
}

impl FactSet {
    /// The SHA-256 of the original facts, as a JSON array.
    #[must_use]
    pub fn sha256_of(facts: &[String]) -> Sha256Hex {
        Sha256Hex::of_json(&facts)
    }

    /// Compiles `facts`, in their order.
    #[must_use]
    pub fn compile(facts: &[String]) -> Self {
        let given = SearchableFacts::of(NormalizedLines::normalized(facts), Self::sha256_of(facts));
        Self { given, parts: Default::default() }
    }

    /// The SHA-256 of the original facts, as a JSON array.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        self.given.sha256()
    }

    /// The number of facts.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.given.len()
    }

    /// Whether there are no facts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The maximum memory use in bytes, including the index, created or not. The forms for the rules after the
    /// published ones count only once they are created.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let parts = self.parts.iter().filter_map(OnceLock::get).map(FactParts::weight_bytes).sum::<u64>();
        parts + self.given.weight_bytes()
    }

    /// The facts in the form for the published rules.
    pub(super) const fn published_form(&self) -> &SearchableFacts {
        &self.given
    }

    /// The facts as parts in a language.
    pub(super) fn parts(&self, facts: &[String], language: TextLanguage) -> &FactParts {
        let [english, german] = &self.parts;
        let parts = match language {
            TextLanguage::En => english,
            TextLanguage::De => german,
        };
        parts.get_or_init(|| FactParts::of(facts, language))
    }
}
