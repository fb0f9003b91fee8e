//! The changes that a run made to a record.

use super::placement::RecordPlacement;
use super::{RecordStatement, RecordVersion, VersionEnd, VisibleReleases, at};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// How a version changed.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum VersionChangeKind {
    /// The version is new.
    BecameValid,
    /// Another version superseded it, from some time on or, after a correction, completely.
    Superseded,
    /// A snapshot no longer contains the record.
    Withdrawn,
    /// The record now has an end of validity.
    Expired,
    /// The same content is valid from or until another time than before, for example after an older release was
    /// ingested later.
    Moved,
    /// Its source version was read again, and the new reading counts instead.
    Replaced,
    /// The run that stated it was undone.
    Undone,
}

/// A version that a run added or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionChange {
    pub kind: VersionChangeKind,
    /// The version before the change; `None` if it is new.
    pub before: Option<RecordVersion>,
    /// The version after the change. If its statement no longer represents a version, the version that is valid from
    /// its `valid_from` on, if any.
    pub after: Option<RecordVersion>,
}

/// The changes of a record between two states of knowledge of its source. Changed versions come first, then new ones,
/// each in the order of `valid_from`.
///
/// `statements` are all statements of the record, including those that are not known yet in `before`.
#[must_use]
pub fn changes(
    statements: &[RecordStatement],
    before: &VisibleReleases,
    after: &VisibleReleases,
) -> Vec<VersionChange> {
    let earlier = before.versions(statements);
    let later = after.versions(statements);
    let stands = |versions: &[RecordVersion], statement: usize| {
        versions.iter().find(|version| version.statement == statement).copied()
    };
    let mut changes = Vec::new();
    // statements that represent the content of a statement that no longer represents a version
    let mut continued = Vec::new();
    for was in &earlier {
        let remaining = stands(&later, was.statement);
        let now = remaining.or_else(|| at(&later, was.valid_from).copied());
        let same = now.filter(|version| version.content == was.content);
        let kind = match (remaining, same) {
            (Some(is), _) => find_end_change(was, &is),
            (None, same) => {
                continued.extend(same.map(|version| version.statement));
                Some(find_removal_kind(was, statements, after, same.is_some()))
            }
        };
        changes.extend(kind.map(|kind| VersionChange { kind, before: Some(*was), after: now }));
    }
    for is in later {
        if stands(&earlier, is.statement).is_none() && !continued.contains(&is.statement) {
            changes.push(VersionChange {
                kind: VersionChangeKind::BecameValid,
                before: None,
                after: Some(is),
            });
        }
    }
    changes
}

/// The change of a version that its statement still represents. It does not report another superseding version or
/// another withdrawing run: their own changes report this.
fn find_end_change(was: &RecordVersion, is: &RecordVersion) -> Option<VersionChangeKind> {
    let same_way = std::mem::discriminant(&was.ended_by) == std::mem::discriminant(&is.ended_by);
    (was.valid_until != is.valid_until || !same_way).then_some(match (was.ended_by, is.ended_by) {
        (VersionEnd::Open, VersionEnd::Superseded(_)) => VersionChangeKind::Superseded,
        (VersionEnd::Open, VersionEnd::Withdrawn(_)) => VersionChangeKind::Withdrawn,
        (VersionEnd::Open, VersionEnd::Expired) => VersionChangeKind::Expired,
        _ => VersionChangeKind::Moved,
    })
}

/// The change of a version that its statement no longer represents.
fn find_removal_kind(
    was: &RecordVersion,
    statements: &[RecordStatement],
    after: &VisibleReleases,
    said_on: bool,
) -> VersionChangeKind {
    let run = statements.get(was.statement).map(|statement| statement.run);
    if run.is_some_and(|run| after.is_undone(run)) {
        return VersionChangeKind::Undone;
    }
    let placement = RecordPlacement::new(after, statements);
    if placement.entry_of(was.statement).is_none() {
        return VersionChangeKind::Replaced;
    }
    if said_on {
        return VersionChangeKind::Moved;
    }
    let combined = placement.combined();
    let stated = combined.entries.iter().find(|entry| entry.valid_from == was.valid_from);
    match stated.and_then(|entry| after.empty_interval_cause(entry)) {
        Some(VersionEnd::Withdrawn(_)) => VersionChangeKind::Withdrawn,
        Some(VersionEnd::Expired) => VersionChangeKind::Expired,
        _ => VersionChangeKind::Superseded,
    }
}
