//! Blocks in memory: reading one from the system's own memory costs a few times what it takes to search it.

use crate::error::StoreError;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a block costs in memory beside its bytes.
const ENTRY_BYTES: u64 = 128;
/// The size by which the number of blocks that fit is guessed.
const TYPICAL_BYTES: u64 = 4096;

/// The blocks of any number of files that are read most, checked, within a bound of bytes. A copy is the same cache.
#[derive(Debug, Clone)]
pub struct BlockCache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    blocks: Cache<(u64, usize), Arc<[u8]>, ByBytes>,
    files: AtomicU64,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<(u64, usize), Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &(u64, usize), block: &Arc<[u8]>) -> u64 {
        block.len() as u64 + ENTRY_BYTES
    }
}

impl BlockCache {
    /// A cache of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        let blocks = usize::try_from(max_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX);
        let blocks = Cache::with_weighter(blocks, max_bytes, ByBytes);
        Self { inner: Arc::new(Inner { blocks, files: AtomicU64::new(0) }) }
    }

    /// A number for a file that no other has.
    pub(super) fn number(&self) -> u64 {
        self.inner.files.fetch_add(1, Ordering::Relaxed)
    }

    /// A block of the file with that number, from memory or by `read`.
    pub(super) fn block(
        &self,
        file: u64,
        block: usize,
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), StoreError>,
    ) -> Result<Arc<[u8]>, StoreError> {
        if let Some(found) = self.inner.blocks.get(&(file, block)) {
            return Ok(found);
        }
        let mut bytes = Vec::new();
        read(&mut bytes)?;
        let bytes = Arc::from(bytes);
        self.inner.blocks.insert((file, block), Arc::clone(&bytes));
        Ok(bytes)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.inner.blocks.iter().map(|(_, block)| block.len()).sum()
    }
}
