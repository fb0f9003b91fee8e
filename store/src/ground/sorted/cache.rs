//! Blocks in memory: reading one from the system's own memory costs a few times what it takes to search it.

use crate::base::error::StoreError;
use bytes::Bytes;
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

    /// A block, from memory or by `read`.
    pub(super) fn block(
        &self,
        place: Place,
        read: impl FnOnce() -> Result<Bytes, StoreError>,
    ) -> Result<Bytes, StoreError> {
        if let Some(found) = self.blocks.get(&place) {
            return Ok(found);
        }
        let bytes = read()?;
        self.blocks.insert(place, bytes.clone());
        Ok(bytes)
    }

    #[cfg(test)]
    pub(in crate::ground) fn bytes(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.len()).sum()
    }
}
