//! A cache of blocks. Reading a block from the system's page cache takes a few times as long as searching it.

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;
use store_base::error::StoreError;

/// The memory of a cached block in addition to its bytes.
const ENTRY_BYTES: u64 = 128;
/// The typical size of a block, for an estimate of how many blocks fit.
const TYPICAL_BYTES: u64 = 4096;

/// The start of a file's digest, and the number of a block in it.
type BlockId = (u128, usize);

/// The checked blocks that are read most, from any number of files, with a limit in bytes. A clone is the same cache.
///
/// A file is identified by its digest, so that it finds its blocks when it is opened again. Blocks of a
/// removed file are evicted over time.
#[derive(Debug, Clone)]
pub struct BlockCache {
    blocks: Arc<Cache<BlockId, Bytes, BlockWeighter>>,
}

#[derive(Debug, Clone)]
struct BlockWeighter;

impl Weighter<BlockId, Bytes> for BlockWeighter {
    fn weight(&self, _: &BlockId, block: &Bytes) -> u64 {
        block.len() as u64 + ENTRY_BYTES
    }
}

impl BlockCache {
    /// A cache of at most `max_bytes` bytes.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        let blocks = usize::try_from(max_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        Self { blocks: Arc::new(Cache::with_weighter(blocks, max_bytes, BlockWeighter)) }
    }

    /// Removes all blocks.
    pub fn clear(&self) {
        self.blocks.clear();
    }

    /// A block from the cache, or from `read`.
    pub(super) fn block(
        &self,
        block_id: BlockId,
        read: impl FnOnce() -> Result<Bytes, StoreError>,
    ) -> Result<Bytes, StoreError> {
        if let Some(found) = self.blocks.get(&block_id) {
            return Ok(found);
        }
        let bytes = read()?;
        self.blocks.insert(block_id, bytes.clone());
        Ok(bytes)
    }

    /// The size of all blocks.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.len()).sum()
    }
}
