//! The forms in which the rules after the published ones compare, and a check's facts in each: made when it is first asked
//! for, and kept with the facts.

use super::facts::FactSet;
use super::parts::Joined;
use super::plain::Plain;
use super::words::Row;
use super::{quantity, words};
use std::sync::OnceLock;

/// In which form claims and facts are compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// As rows of words.
    Words,
    /// As rows of words, with quantities in one form.
    Quantities,
}

impl Form {
    /// The words of `text`.
    pub(super) fn row(self, text: &str) -> Row {
        match self {
            Self::Words => words::row(text),
            Self::Quantities => quantity::row(text),
        }
    }

    /// A claim or a fact as it is matched.
    pub(super) fn statement(self, text: &str) -> String {
        let row = self.row(text);
        row.statement(0..row.text().len())
    }
}

/// The other forms of a set of facts.
#[derive(Debug, Default)]
pub(super) struct Forms {
    words: OnceLock<Box<FactSet>>,
    quantities: OnceLock<Box<FactSet>>,
    joined: OnceLock<Joined>,
}

impl Forms {
    /// The memory that those take that have been made.
    pub(super) fn weight_bytes(&self) -> u64 {
        let sets = [&self.words, &self.quantities].into_iter().filter_map(OnceLock::get);
        let joined = self.joined.get().map_or(0, Joined::weight_bytes);
        sets.map(|facts| facts.weight_bytes()).sum::<u64>() + joined
    }
}

impl FactSet {
    /// These facts in another form. `facts` are those that were compiled, as they came.
    pub(super) fn in_form(&self, form: Form, facts: &[String]) -> &Self {
        let made = match form {
            Form::Words => &self.forms().words,
            Form::Quantities => &self.forms().quantities,
        };
        made.get_or_init(|| Box::new(self.rewritten(facts, |fact| form.statement(Plain::of(fact).text()))))
    }

    /// Those of these facts, which are rows of words, that have joints.
    pub(super) fn joined(&self) -> &Joined {
        self.forms().joined.get_or_init(|| Joined::of(self))
    }
}
