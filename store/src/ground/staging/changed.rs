//! What a run has changed, as it lies in the run's own file.

use crate::ground::view::{Record, source_record_id_in};
use domain::ground::timeline::{Change, ChangeKind, End, Version};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What became of a version of a record. Records are told by run and position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeEntry {
    /// What happened.
    pub kind: ChangeKind,
    /// The run that read the record.
    pub run: u32,
    /// The record's position in that run's payload.
    pub position: u64,
    /// What the source knows it by.
    pub source_record_id: String,
    /// From when on it is valid, or was before this.
    pub valid_from: Timestamp,
    /// Until when it is valid; nothing while it is.
    pub valid_until: Option<Timestamp>,
    /// The record that has taken its place.
    pub superseded_by: Option<(u32, u64)>,
}

impl ChangeEntry {
    pub(super) fn of(change: &Change, record: &Record) -> Self {
        let at = |statement: usize| {
            record.statements.get(statement).map(|stored| (stored.time.run, stored.position))
        };
        let by = |version: &Version| match version.ended_by {
            End::Superseded(by) => at(by),
            End::Open | End::Withdrawn(_) | End::Expired => None,
        };
        let subject = change.before.or(change.after);
        let (run, position) = subject.and_then(|version| at(version.statement)).unwrap_or_default();
        let stands =
            change.after.filter(|after| subject.is_some_and(|subject| subject.statement == after.statement));
        let other = change.after.filter(|_| stands.is_none()).and_then(|after| at(after.statement));
        Self {
            kind: change.kind,
            run,
            position,
            source_record_id: source_record_id_in(&record.key).unwrap_or_default(),
            valid_from: subject.map_or(Timestamp::MIN, |version| version.valid_from),
            valid_until: match stands {
                Some(version) => version.valid_until,
                None => subject.and_then(|version| version.valid_until),
            },
            superseded_by: stands.as_ref().and_then(by).or(other),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a change is plain data")
    }
}
