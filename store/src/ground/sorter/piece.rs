//! A sorted piece of a sort, in a file without a name: blocks, each behind its length and its checksum.

use crate::base::error::StoreError;
use crate::ground::sorted::{BlockBuilder, BlockRows, MAX_BLOCK_BYTES, Row};
use bytes::Bytes;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// What is read and written of a piece at a time.
const BUFFER_BYTES: usize = 64 * 1024;

/// A piece in the making.
#[derive(Debug)]
pub(super) struct PieceWriter {
    dir: PathBuf,
    out: BufWriter<File>,
    block: BlockBuilder,
    blocks: u64,
}

/// A piece that is whole.
#[derive(Debug)]
pub(super) struct Piece {
    dir: PathBuf,
    file: File,
    blocks: u64,
}

/// The rows of a piece, in their order.
#[derive(Debug)]
pub(super) struct PieceRows {
    dir: PathBuf,
    input: BufReader<File>,
    block: BlockRows,
    blocks_left: u64,
}

impl PieceWriter {
    /// Begins a piece on the disk of `dir`.
    pub(super) fn create(dir: &Path) -> Result<Self, StoreError> {
        let file = tempfile::tempfile_in(dir).map_err(|source| StoreError::unwritten(dir, source))?;
        Ok(Self::over(dir, file))
    }

    pub(super) fn over(dir: &Path, file: File) -> Self {
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        Self { dir: dir.to_owned(), out, block: BlockBuilder::default(), blocks: 0 }
    }

    /// Appends a row; its key is not below the last one's.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if !self.block.fits(key, value) {
            self.write_block().map_err(|source| StoreError::unwritten(&self.dir, source))?;
        }
        self.block.push(key, value);
        Ok(())
    }

    /// The piece, to be read.
    pub(super) fn finish(mut self) -> Result<Piece, StoreError> {
        let dir = self.dir.clone();
        let finish = || {
            if !self.block.is_empty() {
                self.write_block()?;
            }
            let mut file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            Ok((file, self.blocks))
        };
        let (file, blocks) = finish().map_err(|source| StoreError::unwritten(&dir, source))?;
        Ok(Piece { dir, file, blocks })
    }

    fn write_block(&mut self) -> io::Result<()> {
        let block = self.block.finish();
        // no block is longer than 4 MiB and some
        self.out.write_all(&(block.len() as u32).to_be_bytes())?;
        self.out.write_all(&crc32fast::hash(block).to_be_bytes())?;
        self.out.write_all(block)?;
        self.blocks += 1;
        Ok(())
    }
}

impl Piece {
    /// Its rows.
    pub(super) fn rows(self) -> PieceRows {
        let input = BufReader::with_capacity(BUFFER_BYTES, self.file);
        PieceRows { dir: self.dir, input, block: BlockRows::default(), blocks_left: self.blocks }
    }
}

impl PieceRows {
    fn step(&mut self) -> io::Result<bool> {
        while !self.block.advance().map_err(|_| changed())? {
            if self.blocks_left == 0 {
                return Ok(false);
            }
            self.blocks_left -= 1;
            self.block.begin(read_block(&mut self.input)?);
        }
        Ok(true)
    }
}

impl Iterator for PieceRows {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Ok(true) => Some(Ok((self.block.key().to_vec(), self.block.value().to_vec()))),
            Ok(false) => None,
            Err(source) => Some(Err(StoreError::Io { path: self.dir.clone(), source })),
        }
    }
}

fn read_block(input: &mut impl Read) -> io::Result<Bytes> {
    let mut head = [[0; 4]; 2];
    input.read_exact(head.as_flattened_mut())?;
    let [len_bytes, crc] = head.map(u32::from_be_bytes);
    if u64::from(len_bytes) > MAX_BLOCK_BYTES {
        return Err(changed());
    }
    let mut block = vec![0; len_bytes as usize];
    input.read_exact(&mut block)?;
    if crc32fast::hash(&block) == crc { Ok(block.into()) } else { Err(changed()) }
}

fn changed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "a temporary file of a sort does not read as it was written")
}
