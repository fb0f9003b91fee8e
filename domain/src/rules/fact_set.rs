//! The facts of a check, compiled: in the form in which the published rules compare them, and in those of the later ones, each
//! made when it is first asked for, and kept.

use super::facts::Facts;
use super::form::Form;
use super::lines::Lines;
use super::notes::Notes;
use super::parts::Joined;
use super::plain::Plain;
use crate::base::digest::Sha256Hex;
use std::sync::OnceLock;

/// A set of facts, ready to be searched. What it finds depends on nothing but the facts, and it can be kept for as long as
/// they are asked about.
#[derive(Debug)]
pub struct FactSet {
    given: Facts,
    words: Made,
    quantities: Made,
    with_counted: Made,
    notes: OnceLock<Notes>,
}

/// The facts in one more form.
#[derive(Debug, Default)]
struct Made {
    facts: OnceLock<Facts>,
    joined: OnceLock<Joined>,
}

impl Made {
    fn weight_bytes(&self) -> u64 {
        self.facts.get().map_or(0, Facts::weight_bytes) + self.joined.get().map_or(0, Joined::weight_bytes)
    }
}

impl FactSet {
    /// The SHA-256 of facts as they came: of their JSON array.
    #[must_use]
    pub fn sha256_of(facts: &[String]) -> Sha256Hex {
        Sha256Hex::of_json(&facts)
    }

    /// Compiles `facts`, in their order.
    #[must_use]
    pub fn compile(facts: &[String]) -> Self {
        let given = Facts::of(Lines::normalized(facts), Self::sha256_of(facts));
        let (words, quantities, with_counted) = Default::default();
        Self { given, words, quantities, with_counted, notes: OnceLock::new() }
    }

    /// The SHA-256 of the facts as they came: of their JSON array.
    #[must_use]
    pub const fn sha256(&self) -> &Sha256Hex {
        self.given.sha256()
    }

    /// How many facts there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.given.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the set takes at the most, be its index made already or not. The forms that only rules after the
    /// published ones search count once they have been made.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let forms = [&self.words, &self.quantities, &self.with_counted].map(Made::weight_bytes);
        let notes = self.notes.get().map_or(0, Notes::weight_bytes);
        self.given.weight_bytes() + forms.iter().sum::<u64>() + notes
    }

    /// The facts as the published rules compare them.
    pub(super) const fn given(&self) -> &Facts {
        &self.given
    }

    const fn made(&self, form: Form) -> &Made {
        match form {
            Form::Words => &self.words,
            Form::Quantities => &self.quantities,
            Form::Notes => &self.with_counted,
        }
    }

    /// The facts in another form. `facts` are those that were compiled, as they came.
    pub(super) fn in_form(&self, form: Form, facts: &[String]) -> &Facts {
        self.made(form).facts.get_or_init(|| {
            let statement = |fact: &String| form.statement(Plain::of(fact).text());
            Facts::of(Lines::of(facts.iter().map(statement)), self.sha256().clone())
        })
    }

    /// Those of the facts in that form that have joints.
    pub(super) fn joined(&self, form: Form, facts: &[String]) -> &Joined {
        self.made(form).joined.get_or_init(|| Joined::of(self.in_form(form, facts)))
    }

    /// The notes among the facts; `None` in a form without notes.
    pub(super) fn notes(&self, form: Form, facts: &[String]) -> Option<&Notes> {
        matches!(form, Form::Notes).then(|| self.notes.get_or_init(|| Notes::of(self.in_form(form, facts))))
    }
}
