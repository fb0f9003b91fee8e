//! Finds the first occurrence of a text in another one without reading the other, by the order of all its suffixes.

use libsais::SuffixArrayConstruction;
use std::ops::Range;

/// The cost of sorting each byte, in units of one compared byte.
const BYTE: u64 = 16;
/// The number of places of a level that share one place of the level above.
const BLOCK: usize = 64;

/// The sorted suffixes of a text. The text is not stored; callers pass it to every call.
#[derive(Debug)]
pub(super) struct SuffixArray {
    /// The offsets of the suffixes, in alphabetical order.
    order: Vec<i32>,
    /// The lowest offset of each block of `order`, then the lowest of each block of these, and so on.
    lows: Vec<Vec<i32>>,
}

impl SuffixArray {
    /// Sorts the suffixes of `text` in linear time; `None` if the text is too long or memory is short.
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

    /// The cost of sorting the suffixes of `text`, in units of one compared byte.
    pub(super) const fn cost(text: &str) -> u64 {
        (text.len() as u64).saturating_mul(BYTE)
    }

    /// The maximum memory for the suffixes of `text`, in bytes.
    pub(super) const fn weight_bytes(text: &str) -> u64 {
        // each level has one place for each block of the level below
        let places = text.len() + text.len() / (BLOCK - 1) + BLOCK;
        (places * size_of::<i32>()) as u64
    }

    /// The offset of the first occurrence of `part` in `text`.
    pub(super) fn find(&self, text: &str, part: &str) -> Option<usize> {
        let (text, part) = (text.as_bytes(), part.as_bytes());
        let suffix = |at: &i32| usize::try_from(*at).ok().and_then(|at| text.get(at..)).unwrap_or_default();
        let start = self.order.partition_point(|at| suffix(at) < part);
        let from = self.order.get(start..).unwrap_or_default();
        let with_part = from.partition_point(|at| suffix(at).starts_with(part));
        self.lowest(start..start + with_part).and_then(|at| usize::try_from(at).ok())
    }

    /// The lowest offset in a range of `order`.
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
    fn suffixes_use_at_most_their_declared_memory() {
        for size in [0, 1, BLOCK, BLOCK + 1, BLOCK * BLOCK + 1, 1_000_000] {
            let text = "ab".repeat(size / 2);
            let suffixes = SuffixArray::of(&text).expect("the text is short");
            let places: usize = suffixes.lows.iter().chain([&suffixes.order]).map(Vec::len).sum();
            assert!(
                (places * size_of::<i32>()) as u64 <= SuffixArray::weight_bytes(&text),
                "{places} for {size}"
            );
        }
    }
}
