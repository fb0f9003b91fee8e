//! What a run changed of a record.

use super::{End, Knowledge, Statement, Version, at};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// What happened to a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ChangeKind {
    /// It is new.
    BecameValid,
    /// Another one has taken its place, from some time on or, where it was corrected, altogether.
    Superseded,
    /// A snapshot does not hold the record any more.
    Withdrawn,
    /// The record now says until when it holds.
    Expired,
    /// The same holds from or until another time than was known, as where an older release arrives later.
    Moved,
    /// Its source version was read again, and that counts in its stead.
    Replaced,
    /// The run that brought it was undone.
    Undone,
}

/// A version that a run has made or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The version as it was; none where it is new.
    pub before: Option<Version>,
    /// The version as it is. Where its statement no longer stands for one, what holds from its `valid_from` on instead,
    /// if anything does.
    pub after: Option<Version>,
}

/// What became of a record between two states of knowledge of its source: what was known and has changed, in the order of
/// `valid_from`, and then what is new, in that order.
///
/// `statements` are all statements of the record, those that are not known yet `before` included.
#[must_use]
pub fn changes(statements: &[Statement], before: &Knowledge, after: &Knowledge) -> Vec<Change> {
    let earlier = before.versions(statements);
    let later = after.versions(statements);
    let stands = |versions: &[Version], statement: usize| {
        versions.iter().find(|version| version.statement == statement).copied()
    };
    let mut changes = Vec::new();
    // what says on what a statement that no longer stands said
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

/// What happened to a version whose statement still stands for it. By which version it is superseded, or by which run
/// withdrawn, is not looked at: what becomes of those is told of them.
fn ended(was: &Version, is: &Version) -> Option<ChangeKind> {
    let same_way = std::mem::discriminant(&was.ended_by) == std::mem::discriminant(&is.ended_by);
    (was.valid_until != is.valid_until || !same_way).then_some(match (was.ended_by, is.ended_by) {
        (End::Open, End::Superseded(_)) => ChangeKind::Superseded,
        (End::Open, End::Withdrawn(_)) => ChangeKind::Withdrawn,
        (End::Open, End::Expired) => ChangeKind::Expired,
        _ => ChangeKind::Moved,
    })
}

/// What happened to a version whose statement stands for none any more.
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
