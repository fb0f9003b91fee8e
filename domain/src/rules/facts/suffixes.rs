//! Where a text stands in another first, without reading the other: by the order of all its suffixes.

use libsais::SuffixArrayConstruction;
use std::ops::Range;

/// What sorting costs for each byte, in bytes that a comparison takes in.
const BYTE: u64 = 16;
/// How many of a level share a place of the level above.
const BLOCK: usize = 64;

/// The suffixes of a text, sorted. The text stays with whoever has it, and comes along with every call.
#[derive(Debug)]
pub(super) struct Suffixes {
    /// Where they begin, in their alphabetical order.
    order: Vec<i32>,
    /// The lowest of each block of `order`; then the lowest of each block of these; and so on.
    lows: Vec<Vec<i32>>,
}

impl Suffixes {
    /// Sorts the suffixes of `text`, in linear time; none if it is too long for that, or memory is short.
    pub(super) fn of(text: &str) -> Option<Self> {
        let sorted = SuffixArrayConstruction::for_text(text.as_bytes()).in_owned_buffer32().single_threaded();
        let order = sorted.run().ok()?.into_vec();
        let mut lows: Vec<Vec<i32>> = Vec::new();
        loop {
            let below = lows.last().unwrap_or(&order);
            if below.len() <= BLOCK {
                return Some(Self { order, lows });
            }
            lows.push(below.chunks(BLOCK).filter_map(|block| block.iter().copied().min()).collect());
        }
    }

    /// What sorting those of `text` costs, in bytes that a comparison takes in.
    pub(super) const fn cost(text: &str) -> u64 {
        (text.len() as u64).saturating_mul(BYTE)
    }

    /// The memory that those of `text` take at the most.
    pub(super) const fn weight_bytes(text: &str) -> u64 {
        // each level is a block's part of the one below
        let places = text.len() + text.len() / (BLOCK - 1) + BLOCK;
        (places * size_of::<i32>()) as u64
    }

    /// Where `part` stands in `text` first.
    pub(super) fn find(&self, text: &str, part: &str) -> Option<usize> {
        let (text, part) = (text.as_bytes(), part.as_bytes());
        let suffix = |at: &i32| usize::try_from(*at).ok().and_then(|at| text.get(at..)).unwrap_or_default();
        let start = self.order.partition_point(|at| suffix(at) < part);
        let from = self.order.get(start..).unwrap_or_default();
        let with_part = from.partition_point(|at| suffix(at).starts_with(part));
        self.lowest(start..start + with_part).and_then(|at| usize::try_from(at).ok())
    }

    /// The lowest of a range of `order`.
    fn lowest(&self, mut range: Range<usize>) -> Option<i32> {
        let low =
            |level: &[i32], range: Range<usize>| level.get(range).and_then(|some| some.iter().copied().min());
        let mut lowest = None;
        let mut level = &self.order;
        for above in &self.lows {
            let blocks = range.start.div_ceil(BLOCK)..range.end / BLOCK;
            if blocks.is_empty() {
                break;
            }
            let ends = [range.start..blocks.start * BLOCK, blocks.end * BLOCK..range.end];
            lowest = ends.into_iter().filter_map(|end| low(level, end)).chain(lowest).min();
            (level, range) = (above, blocks);
        }
        low(level, range).into_iter().chain(lowest).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_weigh_no_more_than_they_say() {
        for size in [0, 1, BLOCK, BLOCK + 1, BLOCK * BLOCK + 1, 1_000_000] {
            let text = "ab".repeat(size / 2);
            let suffixes = Suffixes::of(&text).expect("it is short");
            let places: usize = suffixes.lows.iter().chain([&suffixes.order]).map(Vec::len).sum();
            assert!(
                (places * size_of::<i32>()) as u64 <= Suffixes::weight_bytes(&text),
                "{places} for {size}"
            );
        }
    }
}
