//! The current state of the statement of a run.

use super::{End, Knowledge, Statement, Version, at};

/// The current state of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It represents this version.
    Version(Version),
    /// It has the content of this version at its `valid_from`, but another statement represents the version.
    Same(Version),
    /// It has no interval, because a later release states other content from the same time on. The statement with this
    /// index represents that content.
    Corrected(usize),
    /// It has no interval, because it was withdrawn or had expired by its `valid_from`.
    Ended(End),
    /// It does not count: its version was read again, or is not known yet.
    Replaced,
    /// Its run was undone, so it does not count.
    Undone,
}

impl Knowledge {
    /// The state of the statement at `index` of all `statements` of a record; `None` if there is no such statement.
    #[must_use]
    pub fn became(&self, statements: &[Statement], index: usize) -> Option<Became> {
        let said = statements.get(index)?;
        if self.is_undone(said.run) {
            return Some(Became::Undone);
        }
        let versions = self.versions(statements);
        if let Some(version) = versions.iter().find(|version| version.statement == index) {
            return Some(Became::Version(*version));
        }
        let own = self.rank(said.run).and_then(|rank| self.place(index, said, rank));
        let Some(own) = own else { return Some(Became::Replaced) };
        let (entries, _) = self.entries(statements);
        let counts = entries.iter().find(|entry| entry.valid_from == own.valid_from)?;
        let version = at(&versions, own.valid_from).filter(|version| version.content == counts.content);
        if counts.content != own.content {
            return Some(Became::Corrected(version.map_or(counts.statement, |version| version.statement)));
        }
        version.map(|version| Became::Same(*version)).or_else(|| self.emptied_by(counts).map(Became::Ended))
    }
}
