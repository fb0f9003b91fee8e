//! Sorted files: rows in key order, written once. A lookup is a search in memory and one read.
//!
//! The rows are in blocks of about 4 KiB ([`block`]). The index after the blocks has the first key, the length and the
//! checksum of each block. A footer ends the file. The same rows give the same bytes.

mod block;
mod rows;

use super::file_end::{FOOTER_BYTES, FileOwner, SealedFile, SealedFooter, SealedFormat};
use super::index::{FileIndex, PiecePosition};
use crate::index::put_piece;
use crate::sorted::block::BlockBuilder;
use block::BlockRows;
use bytes::Bytes;
use domain_base::digest::{Sha256Hex, Sha256Stream};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use store_base::error::StoreError;
use store_base::files::sync_dir;
use store_base::ordered_rows::{RowSource as _, check_row, check_size};
use tempfile::TempPath;

pub use block::MAX_KEY_BYTES;
pub use rows::SortedRowRange;

const FORMAT: SealedFormat = SealedFormat { magic: *b"oracledS", version: 3 };

/// The content of a sorted file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedFileSummary {
    /// The number of its rows.
    pub rows: u64,
    /// Its length, in bytes.
    pub size_bytes: u64,
    /// The SHA-256 of its rows and their index, which is also its name.
    pub sha256: Sha256Hex,
}

impl SortedFileSummary {
    fn of(SealedFooter { count: rows, sha256, index_at, index_bytes, .. }: SealedFooter) -> Self {
        Self { rows, size_bytes: index_at + index_bytes + FOOTER_BYTES, sha256 }
    }
}

impl fmt::Display for SortedFileSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, size_bytes, sha256 } = self;
        write!(f, "{rows} rows in {size_bytes} bytes with SHA-256 {sha256}")
    }
}

/// A sorted file that any number of threads can read. Its index is in memory: about 1 % of the file's length
/// if keys are short. A clone reads the same file.
#[derive(Debug, Clone)]
pub struct SortedFile {
    inner: Arc<SharedSortedFile>,
    /// The cache of the blocks that lookups read.
    cache: Option<(BlockCache, u128)>,
}

#[derive(Debug)]
struct SharedSortedFile {
    file: SealedFile,
    index: FileIndex,
    summary: SortedFileSummary,
}

impl SortedFile {
    /// Opens the file at `path` of `owner`. Reads and checks its index.
    ///
    /// # Errors
    /// `SourceFile` if the file is missing or truncated, or its index or footer is damaged; `Newer` if another version
    /// wrote it; `Io` if it cannot be read.
    pub fn open(path: &Path, owner: &FileOwner) -> Result<Self, StoreError> {
        let file = SealedFile::open(path, owner)?;
        let (footer, index) = file.read_index_and_footer(&FORMAT)?;
        let index = FileIndex::read(index, footer.index_at)
            .ok_or_else(|| file.damage_error_at(footer.index_at, "its index does not fit its blocks"))?;
        let summary = SortedFileSummary::of(footer);
        Ok(Self { inner: Arc::new(SharedSortedFile { file, index, summary }), cache: None })
    }

    /// The summary in the footer of the file at `path`, without reading its index.
    ///
    /// # Errors
    /// The errors of [`SortedFile::open`].
    pub fn summary_of(path: &Path, owner: &FileOwner) -> Result<SortedFileSummary, StoreError> {
        Ok(SortedFileSummary::of(SealedFile::open(path, owner)?.footer(&FORMAT)?))
    }

    /// The same file, which has the digest `sha256`, with a cache. Blocks that are read for a lookup or for
    /// the start of a range are kept in `cache`. A cached block was checked when it was read.
    #[must_use]
    pub fn cached(self, cache: &BlockCache, sha256: &Sha256Hex) -> Self {
        let digits = sha256.as_str().get(..32).and_then(|digits| u128::from_str_radix(digits, 16).ok());
        let file = digits.expect("a digest is 64 hexadecimal digits");
        Self { cache: Some((cache.clone(), file)), ..self }
    }

    /// The same file without a cache, for a single read of many rows.
    #[must_use]
    pub fn uncached(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), cache: None }
    }

    /// The summary in the footer. It has not been compared with the rows.
    #[must_use]
    pub fn summary(&self) -> &SortedFileSummary {
        &self.inner.summary
    }

    /// The value at `key`.
    ///
    /// # Errors
    /// `SourceFile` if the block that can hold the key is damaged, `Io` if it cannot be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let only = Bound::Included(key.to_vec());
        let mut rows = SortedRowRange::new(self.clone(), only.clone(), only);
        rows.advance()?;
        Ok(rows.current().map(|(_, value)| value.to_vec()))
    }

    /// The rows whose keys begin with `prefix`, in key order.
    #[must_use]
    pub fn with_prefix(&self, prefix: &[u8]) -> SortedRowRange {
        self.with_prefix_from(prefix, Bound::Included(prefix))
    }

    /// The rows from `start` on whose keys begin with `prefix`, in key order.
    #[must_use]
    pub fn with_prefix_from(&self, prefix: &[u8], start: Bound<&[u8]>) -> SortedRowRange {
        SortedRowRange::new(self.clone(), start.map(<[u8]>::to_vec), prefix_end(prefix))
    }

    /// The number of blocks that can hold rows whose keys begin with `prefix`, computed from the index in memory.
    #[must_use]
    pub fn blocks_with_prefix(&self, prefix: &[u8]) -> usize {
        let first = self.block_of(prefix).unwrap_or_default();
        let end = match prefix_end(prefix) {
            Bound::Excluded(end) => self.block_of(&end).map_or(0, |last| last + 1),
            Bound::Included(_) | Bound::Unbounded => self.inner.index.piece_positions().len(),
        };
        end.saturating_sub(first)
    }

    /// Reads the whole file again and checks it; `read` is called with the length of each block. The caller
    /// compares the result with the committed summary: an intact file in the place of this one has another
    /// digest.
    ///
    /// # Errors
    /// `SourceFile` with the file and the offset of the first damaged block; `Io` if it cannot be read; the error of
    /// `read`.
    pub fn verify(
        &self,
        read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
    ) -> Result<SortedFileSummary, StoreError> {
        let file = Self::open(self.inner.file.path(), self.inner.file.owner())?;
        let SharedSortedFile { file: sealed, index, .. } = file.inner.as_ref();
        let mut sha256 = Sha256Stream::default();
        let (mut rows, mut size_bytes) = (0, 0);
        let (mut block, mut last_key) = (BlockRows::default(), Vec::new());
        for (number, position) in index.piece_positions().iter().enumerate() {
            let bytes = file.read_block(number)?;
            sha256.push(&bytes);
            block.begin(bytes);
            let mut is_first = true;
            while block.advance().map_err(|_| file.malformed(number))? {
                if rows > 0 && block.key() <= last_key.as_slice() {
                    return Err(sealed.damage_error_at(position.at, "its rows are out of order"));
                }
                if is_first && block.key() != index.first_key(position) {
                    return Err(
                        sealed.damage_error_at(position.at, "its first key is not the one in the index")
                    );
                }
                is_first = false;
                last_key.clear();
                last_key.extend_from_slice(block.key());
                rows += 1;
            }
            size_bytes += u64::from(position.len_bytes);
            read(position.len_bytes.into())?;
        }
        sha256.push(index.bytes());
        size_bytes += index.bytes().len() as u64 + FOOTER_BYTES;
        let found = SortedFileSummary { rows, size_bytes, sha256: sha256.finish() };
        if found != *file.summary() {
            let summary = file.summary();
            return Err(sealed.damage_error_at(0, &format!("it holds {found}, and its footer has {summary}")));
        }
        Ok(found)
    }

    fn block_of(&self, key: &[u8]) -> Option<usize> {
        self.inner.index.block_of(key)
    }

    /// The first key of block number `block`; `None` if the block does not exist.
    fn first_key(&self, block: usize) -> Option<&[u8]> {
        let index = &self.inner.index;
        index.piece_position(block).map(|position| index.first_key(position))
    }

    /// Block number `block`, from the cache if it has it.
    fn look_up(&self, block: usize) -> Result<Bytes, StoreError> {
        match &self.cache {
            Some((cache, file)) => cache.block((*file, block), || self.read_block(block)),
            None => self.read_block(block),
        }
    }

    /// Reads and checks block number `block`; empty if the block does not exist.
    fn read_block(&self, block: usize) -> Result<Bytes, StoreError> {
        self.take_block(block, &mut self.read_blocks(block, 0, |_| false)?)
    }

    /// Reads block number `first` and the blocks after it, without checking them. Stops before a block that does not
    /// begin `within` the range, and before the total exceeds `max_bytes`; block `first` is always read. Empty if block
    /// `first` does not exist.
    fn read_blocks(
        &self,
        first: usize,
        max_bytes: u64,
        within: impl Fn(&[u8]) -> bool,
    ) -> Result<Bytes, StoreError> {
        let SharedSortedFile { file, index, .. } = self.inner.as_ref();
        let mut bytes = Vec::new();
        if let Some([begin, rest @ ..]) = index.piece_positions().get(first..) {
            let len_bytes = |end: &PiecePosition| end.at + u64::from(end.len_bytes) - begin.at;
            let is_wanted =
                |next: &&PiecePosition| len_bytes(next) <= max_bytes && within(index.first_key(next));
            let end = rest.iter().take_while(is_wanted).last().unwrap_or(begin);
            // a fault in a later block is reported once that block is needed
            let read = file.read(begin.at, len_bytes(end), &mut bytes);
            read.or_else(|_| file.read(begin.at, len_bytes(begin), &mut bytes))?;
        }
        Ok(bytes.into())
    }

    /// Removes block number `block` from the start of `bytes`, which [`SortedFile::read_blocks`] returned, and checks it.
    fn take_block(&self, block: usize, bytes: &mut Bytes) -> Result<Bytes, StoreError> {
        let Some(position) = self.inner.index.piece_position(block) else { return Ok(Bytes::new()) };
        let first = bytes.split_to(bytes.len().min(position.len_bytes as usize));
        self.inner.file.check(position.at, &first, position.crc)?;
        Ok(first)
    }

    /// The error for a block with a valid checksum whose rows cannot be parsed.
    fn malformed(&self, block: usize) -> StoreError {
        let at = self.inner.index.piece_position(block).map_or(0, |position| position.at);
        self.inner.file.damage_error_at(at, "its rows cannot be read")
    }
}

/// The end of the range of keys that begin with `prefix`: the prefix without its trailing bytes of 255, with
/// the last of the remaining bytes incremented.
fn prefix_end(prefix: &[u8]) -> Bound<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != u8::MAX).map_or(0, |last| last + 1);
    let mut end_key = prefix.get(..end).unwrap_or_default().to_vec();
    match end_key.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end_key)
        }
        None => Bound::Unbounded,
    }
}

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
    fn block(
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

/// The size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes a sorted file row by row. If it is dropped before [`SortedWriter::finish`], it removes the file.
#[derive(Debug)]
pub struct SortedWriter {
    path: TempPath,
    out: BufWriter<File>,
    sha256: Sha256Stream,
    block: BlockBuilder,
    first_key: Vec<u8>,
    index: Vec<u8>,
    rows: u64,
    size_bytes: u64,
}

impl SortedWriter {
    /// Creates the file at `path`, which must not exist.
    ///
    /// # Errors
    /// `Io` if the file exists or cannot be created.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let open = || {
            let file = OpenOptions::new().write(true).create_new(true).open(path)?;
            Ok((TempPath::try_from_path(path)?, file))
        };
        let (path, file) = open().map_err(|source| StoreError::write_error(path, source))?;
        Ok(Self::with_file(path, file))
    }

    fn with_file(path: TempPath, file: File) -> Self {
        Self {
            path,
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            sha256: Sha256Stream::default(),
            block: BlockBuilder::default(),
            first_key: Vec::new(),
            index: Vec::new(),
            rows: 0,
            size_bytes: 0,
        }
    }

    /// Appends a row.
    ///
    /// # Errors
    /// `OutOfOrder` if `key` is not greater than the key of the previous row. `TooLarge` if the key exceeds
    /// [`MAX_KEY_BYTES`] or the row exceeds [`store_base::ordered_rows::MAX_ROW_BYTES`]. After these errors the file is unchanged.
    /// `Unavailable` or `Io` if the file cannot be written; the caller must then drop the writer.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        check_size("a key", key.len(), MAX_KEY_BYTES)?;
        check_row(key, value)?;
        if self.rows > 0 && key <= self.block.last_key() {
            return Err(StoreError::OutOfOrder { path: self.path.to_path_buf(), row: self.rows + 1 });
        }
        if !self.block.fits(key, value) {
            self.write_block()?;
        }
        if self.block.is_empty() {
            self.first_key.clear();
            self.first_key.extend_from_slice(key);
        }
        self.block.push(key, value);
        self.rows += 1;
        Ok(())
    }

    /// Writes the last block, the index and the footer, and syncs the file and its name.
    ///
    /// # Errors
    /// `Unavailable` if the disk is full, `Io` for other write errors. The file is then removed.
    pub fn finish(mut self) -> Result<SortedFileSummary, StoreError> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        let index = std::mem::take(&mut self.index);
        self.write(&index)?;
        let sha256 = std::mem::take(&mut self.sha256).finish_bytes();
        self.write(&FORMAT.footer(self.rows, &sha256, &index))?;
        let synced = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(|source| StoreError::write_error(&self.path, source))?;
        if let Some(dir) = self.path.parent() {
            sync_dir(dir)?;
        }
        self.path.disable_cleanup(true);
        Ok(SortedFileSummary {
            rows: self.rows,
            size_bytes: self.size_bytes,
            sha256: Sha256Hex::from_bytes(&sha256),
        })
    }

    fn write_block(&mut self) -> Result<(), StoreError> {
        let mut block = std::mem::take(&mut self.block);
        let bytes = block.finish();
        put_piece(&mut self.index, &self.first_key, bytes)?;
        self.write(bytes)?;
        self.block = block;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.out.write_all(bytes).map_err(|source| StoreError::write_error(&self.path, source))?;
        self.sha256.push(bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
