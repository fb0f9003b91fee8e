//! What has become of what one run says of a record.

use super::{End, Knowledge, Statement, Version, at};

/// What has become of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It stands for this version.
    Version(Version),
    /// It says the same as this version at the time from which it holds, and another statement stands for that.
    Same(Version),
    /// It has no interval, since a later release says something else from the same time on. The statement with this index
    /// stands for that.
    Corrected(usize),
    /// It has no interval, since it had been withdrawn, or had expired, by the time from which it holds.
    Ended(End),
    /// It does not count: its version was read anew, or is not known yet.
    Replaced,
    /// Its run was undone, so it does not count.
    Undone,
}

impl Knowledge {
    /// What has become of the statement at `index` of all `statements` of a record; nothing where there is none.
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
