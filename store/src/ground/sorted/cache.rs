//! Blocks in memory: reading one from the system's own memory costs a few times what it takes to search it.

use crate::base::error::StoreError;
use bytes::Bytes;
use oracled_domain::Sha256Hex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;

/// What a block costs in memory beside its bytes.
const ENTRY_BYTES: u64 = 128;
/// The size by which the number of blocks that fit is guessed.
const TYPICAL_BYTES: u64 = 4096;

/// A file, by the beginning of its digest, and a block in it.
type Place = (u128, usize);

/// The blocks of any number of files that are read most, checked, within a bound of bytes. A copy is the same cache.
///
/// A file is known by its digest: opened again, it finds its blocks. Those of one that was removed make room for others.
#[derive(Debug, Clone)]
pub struct BlockCache {
    blocks: Arc<Cache<Place, Bytes, ByBytes>>,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Place, Bytes> for ByBytes {
    fn weight(&self, _: &Place, block: &Bytes) -> u64 {
        block.len() as u64 + ENTRY_BYTES
    }
}

/// Where the blocks of one file are kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    cache: BlockCache,
    file: u128,
}

impl BlockCache {
    /// A cache of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        let blocks = usize::try_from(max_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self { blocks: Arc::new(Cache::with_weighter(blocks, max_bytes, ByBytes)) }
    }

    /// Lets go of all blocks.
    pub(in crate::ground) fn clear(&self) {
        self.blocks.clear();
    }

    /// For the file of this digest.
    pub(super) fn of(&self, sha256: &Sha256Hex) -> Kept {
        let digits = sha256.as_str().get(..32).and_then(|digits| u128::from_str_radix(digits, 16).ok());
        Kept { cache: self.clone(), file: digits.expect("a digest is 64 hexadecimal digits") }
    }

    #[cfg(test)]
    pub(in crate::ground) fn bytes(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.len()).sum()
    }
}

impl Kept {
    /// A block of the file, from memory or by `read`.
    pub(super) fn block(
        &self,
        block: usize,
        read: impl FnOnce() -> Result<Bytes, StoreError>,
    ) -> Result<Bytes, StoreError> {
        let (blocks, place) = (&self.cache.blocks, (self.file, block));
        if let Some(found) = blocks.get(&place) {
            return Ok(found);
        }
        let bytes = read()?;
        blocks.insert(place, bytes.clone());
        Ok(bytes)
    }
}
