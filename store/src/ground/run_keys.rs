//! The keys of the rows in a run's own file. A key is the kind of the row and a number.

/// A change. The rows are written in the order of the kinds: changes while records are merged, the others at the end.
pub(super) const CHANGE: u8 = b'c';
/// A series of confirmed records, by its last position.
pub(super) const SEGMENT: u8 = b'd';
/// Such a series, by its last position in the payload of the base.
pub(super) const BASE_SEGMENT: u8 = b'e';
/// The position of a record that has a row.
pub(super) const POSITION_KEY: u8 = b'p';
/// A reject, by its position.
pub(super) const REJECT: u8 = b'r';

pub(super) fn row_key(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}
