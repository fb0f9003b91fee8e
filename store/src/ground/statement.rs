//! A statement as it lies in a sorted file.

use bytes::{Buf, Bytes};
use jiff::Timestamp;
use oracled_domain::ground::timeline::Statement;

/// What one run says of one source record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredStatement {
    /// What the order of time depends on.
    pub time: Statement,
    /// The record's number in the payload.
    pub position: u64,
    /// Where its raw bytes begin in the payload.
    pub offset: u64,
    /// How many there are.
    pub len: u32,
    /// Their SHA-256.
    pub raw_hash: [u8; 32],
    /// Whether its pipeline vouches for it: nothing was noted of it on its way.
    pub verified: bool,
    /// Its canonical JSON; `None` if it was pruned, or the record was rejected.
    pub content: Option<Bytes>,
}

const VERIFIED: u8 = 1;
const PRUNED: u8 = 2;
const FROM: u8 = 4;
const UNTIL: u8 = 8;
const REJECTED: u8 = 16;

impl StoredStatement {
    /// Whether its content was pruned.
    #[must_use]
    pub const fn is_pruned(&self) -> bool {
        self.content.is_none() && self.time.content.is_some()
    }

    /// Its bytes; the run is in the key.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let content = self.content.as_deref().unwrap_or_default();
        let mut bytes = Vec::with_capacity(110 + content.len());
        let Statement { valid_from, valid_until, content: digest, .. } = &self.time;
        let flags = [
            (self.verified, VERIFIED),
            (self.is_pruned(), PRUNED),
            (digest.is_none(), REJECTED),
            (valid_from.is_some(), FROM),
            (valid_until.is_some(), UNTIL),
        ];
        bytes.push(flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag));
        bytes.extend_from_slice(&self.position.to_be_bytes());
        bytes.extend_from_slice(&self.offset.to_be_bytes());
        bytes.extend_from_slice(&self.len.to_be_bytes());
        bytes.extend_from_slice(&self.raw_hash);
        bytes.extend_from_slice(digest.as_ref().map_or(&[], <[u8; 32]>::as_slice));
        for time in [valid_from, valid_until].into_iter().flatten() {
            bytes.extend_from_slice(&time.as_nanosecond().to_be_bytes());
        }
        bytes.extend_from_slice(content);
        bytes
    }

    /// The statement of `run` that `bytes` are, whose content stays where it is; nothing where they are none.
    #[must_use]
    pub fn read(run: u32, mut bytes: Bytes) -> Option<Self> {
        let (&flags, rest) = bytes.split_first()?;
        let (position, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (raw_hash, rest) = rest.split_first_chunk()?;
        let (digest, rest) = if flags & REJECTED == 0 {
            rest.split_first_chunk().map(|(digest, rest)| (Some(*digest), rest))?
        } else {
            (None, rest)
        };
        let (valid_from, rest) = read_time(flags & FROM != 0, rest)?;
        let (valid_until, content) = read_time(flags & UNTIL != 0, rest)?;
        let (content_at, has_content) = (bytes.len() - content.len(), flags & (PRUNED | REJECTED) == 0);
        let mut read = Self {
            time: Statement { run, valid_from, valid_until, content: digest },
            position: u64::from_be_bytes(*position),
            offset: u64::from_be_bytes(*offset),
            len: u32::from_be_bytes(*len),
            raw_hash: *raw_hash,
            verified: flags & VERIFIED != 0,
            content: None,
        };
        bytes.advance(content_at);
        read.content = has_content.then_some(bytes);
        Some(read)
    }
}

/// A time at the start of `bytes`, where one is there, and what follows it.
pub(super) fn read_time(is_there: bool, bytes: &[u8]) -> Option<(Option<Timestamp>, &[u8])> {
    if !is_there {
        return Some((None, bytes));
    }
    let (nanoseconds, rest) = bytes.split_first_chunk()?;
    Some((Some(Timestamp::from_nanosecond(i128::from_be_bytes(*nanoseconds)).ok()?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_reads_back_as_itself() {
        for (valid_from, valid_until, digest, content) in [
            (None, None, Some([3; 32]), Some(Bytes::from_static(b"{}"))),
            (Some(Timestamp::MIN), Some(Timestamp::MAX), Some([3; 32]), Some(Bytes::new())),
            (None, Some(Timestamp::UNIX_EPOCH), Some([3; 32]), None),
            (None, None, None, None),
        ] {
            let time = Statement { run: 7, valid_from, valid_until, content: digest };
            let (position, offset, len, raw_hash) = (u64::MAX, 1 << 40, u32::MAX, [9; 32]);
            let stored = StoredStatement {
                time,
                position,
                offset,
                len,
                raw_hash,
                verified: content.is_some(),
                content,
            };
            let bytes = Bytes::from(stored.to_bytes());
            assert_eq!(StoredStatement::read(7, bytes.clone()), Some(stored.clone()));
            let short = bytes.len() - stored.content.map_or(0, |content| content.len()) - 1;
            assert_eq!(StoredStatement::read(7, bytes.slice(..short)), None);
        }
    }
}
