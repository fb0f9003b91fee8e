//! The compiled facts of a check. The form for the published rules is created at once; each form for the later rules is
//! created at its first use and then kept.

use super::facts::SearchableFacts;
use super::form::ComparisonForm;
use super::lines::NormalizedLines;
use super::notes::FactNotes;
use super::parts::JointFacts;
use super::plain::PlainText;
use crate::base::digest::Sha256Hex;
use std::sync::OnceLock;

/// A set of facts, ready to be searched. The results depend only on the facts, so the set can be reused.
#[derive(Debug)]
pub struct FactSet {
    given: SearchableFacts,
    words: DerivedFacts,
    quantities: DerivedFacts,
    with_counted: DerivedFacts,
    notes: OnceLock<FactNotes>,
}

/// The facts in one other form.
#[derive(Debug, Default)]
struct DerivedFacts {
    facts: OnceLock<SearchableFacts>,
    joined: OnceLock<JointFacts>,
}

impl DerivedFacts {
    fn weight_bytes(&self) -> u64 {
        self.facts.get().map_or(0, SearchableFacts::weight_bytes)
            + self.joined.get().map_or(0, JointFacts::weight_bytes)
    }
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
        let (words, quantities, with_counted) = Default::default();
        Self { given, words, quantities, with_counted, notes: OnceLock::new() }
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
        let forms = [&self.words, &self.quantities, &self.with_counted].map(DerivedFacts::weight_bytes);
        let notes = self.notes.get().map_or(0, FactNotes::weight_bytes);
        self.given.weight_bytes() + forms.iter().sum::<u64>() + notes
    }

    /// The facts in the form for the published rules.
    pub(super) const fn published_form(&self) -> &SearchableFacts {
        &self.given
    }

    const fn derived(&self, form: ComparisonForm) -> &DerivedFacts {
        match form {
            ComparisonForm::Words => &self.words,
            ComparisonForm::Quantities => &self.quantities,
            ComparisonForm::Notes => &self.with_counted,
        }
    }

    /// The facts in another form. `facts` must be the original facts that were compiled.
    pub(super) fn in_form(&self, form: ComparisonForm, facts: &[String]) -> &SearchableFacts {
        self.derived(form).facts.get_or_init(|| {
            let statement = |fact: &String| form.statement(PlainText::of(fact).text());
            SearchableFacts::of(NormalizedLines::of(facts.iter().map(statement)), self.sha256().clone())
        })
    }

    pub(super) fn joined(&self, form: ComparisonForm, facts: &[String]) -> &JointFacts {
        self.derived(form).joined.get_or_init(|| JointFacts::of(self.in_form(form, facts)))
    }

    /// The notes among the facts; `None` in a form without notes.
    pub(super) fn notes(&self, form: ComparisonForm, facts: &[String]) -> Option<&FactNotes> {
        matches!(form, ComparisonForm::Notes)
            .then(|| self.notes.get_or_init(|| FactNotes::of(self.in_form(form, facts))))
    }
}
