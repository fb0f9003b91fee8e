//! The changes of a run, as stored in the run's own file.

use crate::ground::statement::{put_time, take_time};
use crate::ground::view::{RecordStatements, source_record_id_in};
use domain_base::varint::{put, take};
use domain_ground::timeline::{RecordVersion, VersionChange, VersionChangeKind, VersionEnd};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The kinds of changes, by their codes.
const KINDS: [VersionChangeKind; 7] = [
    VersionChangeKind::BecameValid,
    VersionChangeKind::Superseded,
    VersionChangeKind::Withdrawn,
    VersionChangeKind::Expired,
    VersionChangeKind::Moved,
    VersionChangeKind::Replaced,
    VersionChangeKind::Undone,
];
const UNTIL: u8 = 1;
const SUPERSEDED: u8 = 2;

/// A change of a version of a record. A record is identified by run and position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChangeEntry {
    pub kind: VersionChangeKind,
    /// The run that read the record.
    pub run: u32,
    /// The record's position in that run's payload.
    pub position: u64,
    /// The source's id of the record.
    pub source_record_id: String,
    /// The start of the interval in which it is valid after the change. If nothing continues it, the start of its
    /// former interval.
    pub valid_from: Timestamp,
    /// The end of that interval; `None` if it is open.
    pub valid_until: Option<Timestamp>,
    /// The run and the position of the record that replaced it.
    pub superseded_by: Option<(u32, u64)>,
}

impl RunChangeEntry {
    pub(super) fn of(change: &VersionChange, record: &RecordStatements) -> Self {
        let at = |statement: usize| {
            record.statements.get(statement).map(|stored| (stored.time.run, stored.position))
        };
        let by = |version: &RecordVersion| match version.ended_by {
            VersionEnd::Superseded(by) => at(by),
            VersionEnd::Open | VersionEnd::Withdrawn(_) | VersionEnd::Expired => None,
        };
        let subject = change.before.or(change.after);
        let (run, position) = subject.and_then(|version| at(version.statement)).unwrap_or_default();
        let stands =
            change.after.filter(|after| subject.is_some_and(|subject| subject.statement == after.statement));
        let other = change.after.filter(|_| stands.is_none()).and_then(|after| at(after.statement));
        // the version that continues this one is not reported as new, so its interval is reported here
        let continued =
            change.after.filter(|after| subject.is_some_and(|subject| subject.content == after.content));
        let shown = stands.or(continued).or(subject);
        Self {
            kind: change.kind,
            run,
            position,
            source_record_id: source_record_id_in(&record.key).unwrap_or_default(),
            valid_from: shown.map_or(Timestamp::MIN, |version| version.valid_from),
            valid_until: shown.and_then(|version| version.valid_until),
            superseded_by: stands.as_ref().and_then(by).or(other),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.source_record_id.len());
        let flags = [(self.valid_until.is_some(), UNTIL), (self.superseded_by.is_some(), SUPERSEDED)];
        let code = KINDS.iter().position(|kind| *kind == self.kind);
        bytes.push(code.and_then(|code| u8::try_from(code).ok()).expect("each kind is listed"));
        bytes.push(flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag));
        for (run, position) in [Some((self.run, self.position)), self.superseded_by].into_iter().flatten() {
            put(&mut bytes, run.into());
            put(&mut bytes, position);
        }
        [Some(&self.valid_from), self.valid_until.as_ref()]
            .into_iter()
            .flatten()
            .for_each(|time| put_time(&mut bytes, time));
        bytes.extend_from_slice(self.source_record_id.as_bytes());
        bytes
    }

    /// Parses a change; `None` if `bytes` is invalid.
    pub(in crate::ground) fn read(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let (kind, flags) = (*bytes.split_off_first()?, *bytes.split_off_first()?);
        let (run, position) = take_record(bytes)?;
        let superseded_by = if flags & SUPERSEDED == 0 { None } else { Some(take_record(bytes)?) };
        let valid_from = take_time(bytes)?;
        let valid_until = if flags & UNTIL == 0 { None } else { Some(take_time(bytes)?) };
        let (kind, source_record_id) =
            (*KINDS.get(usize::from(kind))?, String::from_utf8(bytes.to_vec()).ok()?);
        Some(Self { kind, run, position, source_record_id, valid_from, valid_until, superseded_by })
    }
}

/// A run's number and a position in its payload.
fn take_record(bytes: &mut &[u8]) -> Option<(u32, u64)> {
    Some((u32::try_from(take(bytes)?).ok()?, take(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_entry_survives_encoding_and_decoding() {
        for (code, kind) in (0..).zip(KINDS) {
            let change = RunChangeEntry {
                kind,
                run: u32::MAX,
                position: 7,
                source_record_id: "ABW/1960".into(),
                valid_from: Timestamp::MIN,
                valid_until: (code % 2 == 0).then_some(Timestamp::MAX),
                superseded_by: (code % 3 == 0).then_some((3, u64::MAX)),
            };
            let bytes = change.to_bytes();
            assert_eq!(RunChangeEntry::read(&bytes), Some(change));
            assert_eq!(RunChangeEntry::read(&bytes[..20]), None);
        }
        assert_eq!(RunChangeEntry::read(&[u8::MAX; 64]), None);
    }
}
