//! The changes that a run made to a record.

use super::{End, Knowledge, Statement, Version, at};
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
#[schema(as = RecordChangeKind)]
pub enum ChangeKind {
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
pub struct Change {
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The version before the change; `None` if it is new.
    pub before: Option<Version>,
    /// The version after the change. If its statement no longer represents a version, the version that is valid from
    /// its `valid_from` on, if any.
    pub after: Option<Version>,
}

/// The changes of a record between two states of knowledge of its source. Changed versions come first, then new ones,
/// each in the order of `valid_from`.
///
/// `statements` are all statements of the record, including those that are not known yet in `before`.
#[must_use]
pub fn changes(statements: &[Statement], before: &Knowledge, after: &Knowledge) -> Vec<Change> {
    let earlier = before.versions(statements);
    let later = after.versions(statements);
    let stands = |versions: &[Version], statement: usize| {
        versions.iter().find(|version| version.statement == statement).copied()
    };
    let mut changes = Vec::new();
    // statements that represent the content of a statement that no longer represents a version
    let mut continued = Vec::new();
    for was in &earlier {
        let kept = stands(&later, was.statement);
        let now = kept.or_else(|| at(&later, was.valid_from).copied());
        let same = now.filter(|version| version.content == was.content);
        let kind = match (kept, same) {
            (Some(is), _) => ended(was, &is),
            (None, same) => {
                continued.extend(same.map(|version| version.statement));
                Some(gone(was, statements, after, same.is_some()))
            }
        };
        changes.extend(kind.map(|kind| Change { kind, before: Some(*was), after: now }));
    }
    for is in later {
        if stands(&earlier, is.statement).is_none() && !continued.contains(&is.statement) {
            changes.push(Change { kind: ChangeKind::BecameValid, before: None, after: Some(is) });
        }
    }
    changes
}

/// The change of a version that its statement still represents. It does not report another superseding version or
/// another withdrawing run: their own changes report this.
fn ended(was: &Version, is: &Version) -> Option<ChangeKind> {
    let same_way = std::mem::discriminant(&was.ended_by) == std::mem::discriminant(&is.ended_by);
    (was.valid_until != is.valid_until || !same_way).then_some(match (was.ended_by, is.ended_by) {
        (End::Open, End::Superseded(_)) => ChangeKind::Superseded,
        (End::Open, End::Withdrawn(_)) => ChangeKind::Withdrawn,
        (End::Open, End::Expired) => ChangeKind::Expired,
        _ => ChangeKind::Moved,
    })
}

/// The change of a version that its statement no longer represents.
fn gone(was: &Version, statements: &[Statement], after: &Knowledge, said_on: bool) -> ChangeKind {
    let run = statements.get(was.statement).map(|statement| statement.run);
    if run.is_some_and(|run| after.is_undone(run)) {
        return ChangeKind::Undone;
    }
    if !run.is_some_and(|run| after.counts(run)) {
        return ChangeKind::Replaced;
    }
    if said_on {
        return ChangeKind::Moved;
    }
    let (entries, _) = after.entries(statements);
    let stated = entries.iter().find(|entry| entry.valid_from == was.valid_from);
    match stated.and_then(|entry| after.emptied_by(entry)) {
        Some(End::Withdrawn(_)) => ChangeKind::Withdrawn,
        Some(End::Expired) => ChangeKind::Expired,
        _ => ChangeKind::Superseded,
    }
}
