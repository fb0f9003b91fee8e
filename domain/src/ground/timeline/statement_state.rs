//! The current state of the statement of a run.

use super::placement::RecordPlacement;
use super::{RecordStatement, RecordVersion, VersionEnd, VisibleReleases, at};

/// The current state of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementState {
    /// It represents this version.
    Version(RecordVersion),
    /// It has the content of this version at its `valid_from`, but another statement represents the version.
    Same(RecordVersion),
    /// It has no interval, because a later release states other content from the same time on. The statement with this
    /// index represents that content.
    Corrected(usize),
    /// It has no interval, because it was withdrawn or had expired by its `valid_from`.
    Ended(VersionEnd),
    /// It does not count: its version was read again, or is not known yet.
    Replaced,
    /// Its run was undone, so it does not count.
    Undone,
}

impl VisibleReleases {
    /// The state of the statement at `index` of all `statements` of a record; `None` if there is no such statement.
    #[must_use]
    pub fn statement_state(&self, statements: &[RecordStatement], index: usize) -> Option<StatementState> {
        let statement = statements.get(index)?;
        if self.is_undone(statement.run) {
            return Some(StatementState::Undone);
        }
        let versions = self.versions(statements);
        if let Some(version) = versions.iter().find(|version| version.statement == index) {
            return Some(StatementState::Version(*version));
        }
        let placement = RecordPlacement::new(self, statements);
        let Some(own) = placement.entry_of(index) else { return Some(StatementState::Replaced) };
        let combined = placement.combined();
        let counts = combined.entries.iter().find(|entry| entry.valid_from == own.valid_from)?;
        let version = at(&versions, own.valid_from).filter(|version| version.content == counts.content);
        if counts.content != own.content {
            return Some(StatementState::Corrected(
                version.map_or(counts.statement, |version| version.statement),
            ));
        }
        version
            .map(|version| StatementState::Same(*version))
            .or_else(|| self.empty_interval_cause(counts).map(StatementState::Ended))
    }
}
