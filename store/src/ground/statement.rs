//! The encoding of a statement in a sorted file.
//!
//! A run can have a base: an earlier run of its source. A record without a row in the run is stated as in the base. A
//! row contains the statement, or marks the record as missing in the run; if only the raw bytes differ, the row has no
//! content.

use super::places::RecordPlace;
use bytes::Bytes;
use domain_base::varint::{put, take};
use domain_ground::record::RecordVerificationStatus;
use domain_ground::timeline::RecordStatement;
use jiff::Timestamp;

/// The statement of one run about one source record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStatement {
    /// The parts of the statement on which validity depends.
    pub time: RecordStatement,
    /// The record's number in the payload.
    pub position: u64,
    /// The offset of the record's raw bytes in the payload.
    pub offset: u64,
    /// The length of the raw bytes.
    pub len: u32,
    /// The SHA-256 of the raw bytes.
    pub raw_hash: [u8; 32],
    /// Whether its pipeline verified it: the record caused no warning.
    pub verified: bool,
    /// Its row (`RecordContent::to_row`); `None` if it was pruned, or the record was rejected.
    pub row: Option<Bytes>,
}

/// The content of a run's row about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatementRow {
    /// The run does not have the record, although its base has it.
    Absent,
    Stated(StoredStatement),
}

/// The parts of an encoded statement. The times are not checked.
#[derive(Debug)]
pub(super) struct EncodedStatement<'b> {
    flags: u8,
    position: u64,
    offset: u64,
    len: u32,
    raw_hash: &'b [u8; 32],
    content: Option<&'b [u8; 32]>,
    valid_from: Option<EncodedTime<'b>>,
    valid_until: Option<EncodedTime<'b>>,
    rest: &'b [u8],
}

/// Nanoseconds since 1970.
type EncodedTime<'b> = &'b [u8; 16];

const VERIFIED: u8 = 1;
const PRUNED: u8 = 2;
const FROM: u8 = 4;
const UNTIL: u8 = 8;
const REJECTED: u8 = 16;
/// The content and the times are those of the base.
const SAME_CONTENT: u8 = 32;
const ABSENT: u8 = 64;

/// The row of a run that does not have a record of its base.
pub(super) const ABSENT_ROW: &[u8] = &[ABSENT];
const NO_HASH: &[u8; 32] = &[0; 32];

impl StoredStatement {
    /// Whether its content was pruned.
    #[must_use]
    pub const fn is_pruned(&self) -> bool {
        self.row.is_none() && self.time.content.is_some()
    }

    /// How it was verified.
    #[must_use]
    pub const fn verification_status(&self) -> RecordVerificationStatus {
        if self.verified {
            RecordVerificationStatus::AutoVerified
        } else {
            RecordVerificationStatus::Unverified
        }
    }

    /// Whether both have the same content and times, and the content is not pruned from only one of them.
    pub(super) fn has_content_of(&self, base: &Self) -> bool {
        let time = RecordStatement { run: self.time.run, ..base.time };
        time.content.is_some() && self.time == time && self.row == base.row
    }

    /// Whether both are equal, except for the run and the place in its payload.
    pub(super) fn confirms(&self, base: &Self) -> bool {
        self.has_content_of(base)
            && (self.len, &self.raw_hash, self.verified) == (base.len, &base.raw_hash, base.verified)
    }

    pub(super) const fn place(&self) -> RecordPlace {
        RecordPlace { position: self.position, offset: self.offset }
    }

    /// Replaces the content of `bytes` by the encoded statement, without the run, which is part of the key. `base` is
    /// the statement of the run's base.
    pub(super) fn write_to(&self, base: Option<&Self>, bytes: &mut Vec<u8>) {
        if base.is_some_and(|base| self.has_content_of(base)) {
            bytes.clear();
            bytes.push(SAME_CONTENT | if self.verified { VERIFIED } else { 0 });
            self.write_raw(bytes);
            return;
        }
        let RecordStatement { valid_from, valid_until, content, .. } = &self.time;
        let flags = [
            (self.verified, VERIFIED),
            (self.is_pruned(), PRUNED),
            (content.is_none(), REJECTED),
            (valid_from.is_some(), FROM),
            (valid_until.is_some(), UNTIL),
        ];
        bytes.clear();
        bytes.push(flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag));
        self.write_raw(bytes);
        bytes.extend_from_slice(content.as_ref().map_or(&[], <[u8; 32]>::as_slice));
        [valid_from, valid_until].into_iter().flatten().for_each(|time| put_time(bytes, time));
        bytes.extend_from_slice(self.row.as_deref().unwrap_or_default());
    }

    fn write_raw(&self, bytes: &mut Vec<u8>) {
        for number in [self.position, self.offset, self.len.into()] {
            put(bytes, number);
        }
        bytes.extend_from_slice(&self.raw_hash);
    }

    /// Parses a row of `run`, whose base has the statement `base`. The content shares memory with `bytes`. `None` if
    /// `bytes` is invalid.
    #[must_use]
    pub(super) fn read(run: u32, bytes: &Bytes, base: Option<&Self>) -> Option<StatementRow> {
        let encoded = EncodedStatement::read(bytes)?;
        if encoded.flags & ABSENT != 0 {
            return Some(StatementRow::Absent);
        }
        let (position, offset, len) = (encoded.position, encoded.offset, encoded.len);
        let (raw_hash, verified) = (*encoded.raw_hash, encoded.flags & VERIFIED != 0);
        if encoded.flags & SAME_CONTENT != 0 {
            let base = base.filter(|base| base.time.content.is_some())?;
            let (time, row) = (RecordStatement { run, ..base.time }, base.row.clone());
            return Some(StatementRow::Stated(Self { time, position, offset, len, raw_hash, verified, row }));
        }
        let time = |time: Option<EncodedTime<'_>>| time.map(read_time);
        let time = RecordStatement {
            run,
            valid_from: time(encoded.valid_from).transpose().ok()?,
            valid_until: time(encoded.valid_until).transpose().ok()?,
            content: encoded.content.copied(),
        };
        let row = encoded.row().map(|row| bytes.slice_ref(row));
        Some(StatementRow::Stated(Self { time, position, offset, len, raw_hash, verified, row }))
    }
}

impl<'b> EncodedStatement<'b> {
    /// The parts of `bytes`; `None` if they are too short.
    pub(super) fn read(mut bytes: &'b [u8]) -> Option<Self> {
        let flags = *bytes.split_off_first()?;
        if flags & ABSENT != 0 {
            let (raw_hash, content, valid_from, valid_until) = (NO_HASH, None, None, None);
            let (position, offset, len) = (0, 0, 0);
            return Some(Self {
                flags,
                position,
                offset,
                len,
                raw_hash,
                content,
                valid_from,
                valid_until,
                rest: bytes,
            });
        }
        let (position, offset) = (take(&mut bytes)?, take(&mut bytes)?);
        let len = u32::try_from(take(&mut bytes)?).ok()?;
        let raw_hash = take_array(&mut bytes)?;
        let content =
            if flags & (REJECTED | SAME_CONTENT) == 0 { Some(take_array(&mut bytes)?) } else { None };
        let valid_from = if flags & FROM == 0 { None } else { Some(take_array(&mut bytes)?) };
        let valid_until = if flags & UNTIL == 0 { None } else { Some(take_array(&mut bytes)?) };
        Some(Self { flags, position, offset, len, raw_hash, content, valid_from, valid_until, rest: bytes })
    }

    /// The content in the row; `None` if it was pruned, the record was rejected, or the content is that of the base.
    pub(super) const fn row(&self) -> Option<&'b [u8]> {
        if self.flags & (PRUNED | REJECTED | SAME_CONTENT | ABSENT) == 0 { Some(self.rest) } else { None }
    }

    /// Whether its content was pruned.
    pub(super) const fn is_pruned(&self) -> bool {
        self.flags & PRUNED != 0
    }
}

/// Appends a time.
pub(super) fn put_time(bytes: &mut Vec<u8>, time: &Timestamp) {
    bytes.extend_from_slice(&time.as_nanosecond().to_be_bytes());
}

/// Reads a time from the start of `bytes` and removes it; `None` if `bytes` is too short or the time is invalid.
pub(super) fn take_time(bytes: &mut &[u8]) -> Option<Timestamp> {
    read_time(take_array(bytes)?).ok()
}

fn read_time(bytes: EncodedTime<'_>) -> Result<Timestamp, jiff::Error> {
    Timestamp::from_nanosecond(i128::from_be_bytes(*bytes))
}

fn take_array<'b, const N: usize>(bytes: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    bytes.split_off(..N)?.first_chunk()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_row_has_no_statement() {
        let bytes = Bytes::from_static(ABSENT_ROW);
        assert_eq!(StoredStatement::read(7, &bytes, None), Some(StatementRow::Absent));
        let encoded = EncodedStatement::read(&bytes).expect("the bytes are complete");
        assert_eq!((encoded.row(), encoded.is_pruned()), (None, false));
    }

    #[test]
    fn statement_survives_encoding_and_decoding() {
        for (valid_from, valid_until, content, row) in [
            (None, None, Some([3; 32]), Some(Bytes::from_static(b"{}"))),
            (Some(Timestamp::MIN), Some(Timestamp::MAX), Some([3; 32]), Some(Bytes::new())),
            (None, Some(Timestamp::UNIX_EPOCH), Some([3; 32]), None),
            (None, None, None, None),
        ] {
            let time = RecordStatement { run: 7, valid_from, valid_until, content };
            let (position, offset, len, raw_hash) = (u64::MAX, 1 << 40, u32::MAX, [9; 32]);
            let verified = row.is_some();
            let stored = StoredStatement { time, position, offset, len, raw_hash, verified, row };
            let mut bytes = vec![1; 3];
            stored.write_to(None, &mut bytes);
            let bytes = Bytes::from(bytes);
            assert_eq!(StoredStatement::read(7, &bytes, None), Some(StatementRow::Stated(stored.clone())));
            // the same content from another raw record
            let base =
                StoredStatement { time: RecordStatement { run: 3, ..stored.time }, len: 5, ..stored.clone() };
            let mut short = Vec::new();
            stored.write_to(Some(&base), &mut short);
            let is_same = content.is_some();
            assert_eq!(short.len() < bytes.len(), is_same && bytes.len() > 60);
            let short = Bytes::from(short);
            let read = StoredStatement::read(7, &short, Some(&base));
            assert_eq!(read, Some(StatementRow::Stated(stored.clone())));
            assert_eq!(StoredStatement::read(7, &short, None).is_none(), is_same);
            let encoded = EncodedStatement::read(&bytes).expect("the bytes are complete");
            let content = (encoded.row(), encoded.is_pruned());
            assert_eq!(content, (stored.row.as_deref(), stored.is_pruned()));
            let short = bytes.len() - stored.row.map_or(0, |row| row.len()) - 1;
            assert_eq!(StoredStatement::read(7, &bytes.slice(..short), None), None);
        }
    }
}
