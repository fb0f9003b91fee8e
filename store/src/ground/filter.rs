//! Which things a file may tell of: so that a lookup does not read files that tell of others (a Bloom filter).

use super::sorted::SortedFile;
use crate::base::error::StoreError;

/// The key of the row that holds it; behind all other rows of a file.
pub(super) const FILTER: &[u8] = b"~";
/// So many bits for each thing, of which so many are set: one lookup in a hundred is led astray.
const BITS: u64 = 10;
const SET_BITS: u64 = 5;
/// The longest filter, in bytes; of more things than that is made for, more lookups are led astray.
const MAX_BYTES: u64 = 2 << 20;

/// Which things a file may tell of.
#[derive(Debug)]
pub(super) struct Filter {
    bytes: Vec<u8>,
}

impl Filter {
    /// One that takes at most so many things.
    pub(super) fn new(things: u64) -> Self {
        let bytes = (things.saturating_mul(BITS) / 8 + 1).min(MAX_BYTES);
        Self { bytes: vec![0; usize::try_from(bytes).expect("it is bounded")] }
    }

    /// That of a file.
    pub(super) fn of(file: &SortedFile) -> Result<Self, StoreError> {
        Ok(Self { bytes: file.get(FILTER)?.unwrap_or_default() })
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the thing with this key.
    pub(super) fn add(&mut self, identity: &[u8]) {
        for bit in bits(identity, self.bytes.len()) {
            if let Some(byte) = self.bytes.get_mut(bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
    }

    /// Whether the thing with this key may be among those that it has taken; always where there is no filter.
    pub(super) fn may_hold(&self, identity: &[u8]) -> bool {
        let is_set = |bit: usize| self.bytes.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
        self.bytes.is_empty() || bits(identity, self.bytes.len()).all(is_set)
    }
}

/// The bits of a key in a filter of so many bytes. They are in files: the way to them does not change.
fn bits(key: &[u8], len_bytes: usize) -> impl Iterator<Item = usize> {
    // FNV-1a, mixed so that every bit of the key moves every bit of the sum
    let sum = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (sum ^ (sum >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ (mixed >> 29);
    let (begin, step) = (mixed >> 32, (mixed & 0xffff_ffff) | 1);
    let all = len_bytes.max(1) as u64 * 8;
    (0..SET_BITS).map(move |turn| ((begin + turn * step) % all) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_always_found_and_little_else() {
        const THINGS: u64 = 20_000;
        let mut filter = Filter::new(THINGS);
        let key = |thing: u64| format!("C{thing:06}").into_bytes();
        (0..THINGS).for_each(|thing| filter.add(&key(thing)));
        assert!((0..THINGS).all(|thing| filter.may_hold(&key(thing))));
        let astray = (THINGS..2 * THINGS).filter(|thing| filter.may_hold(&key(*thing))).count();
        assert!(astray < 500, "{astray} of {THINGS}");
        assert!(!Filter::new(0).may_hold(b"a") && Filter { bytes: Vec::new() }.may_hold(b"a"));
    }
}
