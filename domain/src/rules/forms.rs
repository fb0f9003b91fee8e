//! A check's facts in the forms that the rules after the published ones search: each made when it is first asked for, and
//! kept with the facts.

use super::facts::FactSet;
use super::parts::Joined;
use super::quantity;
use super::words::statement;
use std::sync::OnceLock;

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
    /// These facts as rows of words. `facts` are those that were compiled, as they came.
    pub(super) fn words(&self, facts: &[String]) -> &Self {
        self.forms().words.get_or_init(|| Box::new(self.rewritten(facts, statement)))
    }

    /// These facts as rows of words, with quantities in one form.
    pub(super) fn quantities(&self, facts: &[String]) -> &Self {
        self.forms().quantities.get_or_init(|| Box::new(self.rewritten(facts, quantity::statement)))
    }

    /// Those of these facts that have joints.
    pub(super) fn joined(&self, facts: &[String]) -> &Joined {
        self.forms().joined.get_or_init(|| Joined::of(self.words(facts)))
    }
}
