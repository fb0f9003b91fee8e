//! The end of a file of the ground-truth layer, and the checked reading of its pieces.
//!
//! The data is followed by an index, which has the position and the checksum of each piece, and by a footer:
//!
//! ```text
//! count (8) | SHA-256 (32) | bytes of the index (8) | CRC-32 of the index (4) | version (4) | CRC-32 of the footer so far (4)
//! | magic (8)
//! ```
//!
//! Numbers are big-endian. The SHA-256 identifies the content, and the file is named by it. Each opening
//! compares it with the committed digest, so that an intact file in the place of another one is an error at
//! once. Every flipped bit is found: the index has the checksums of the pieces, the footer has that of the
//! index, and the footer has its own checksum and the magic. A truncated file does not end with a footer.

use domain_base::digest::Sha256Hex;
use domain_ground::id::SourceId;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store_base::error::{SourceFileKind, StoreError};

/// The length of a footer, in bytes.
pub(super) const FOOTER_BYTES: u64 = 68;
/// The longest index, in bytes. It is in memory while its file is open and while the file is written.
pub(super) const MAX_INDEX_BYTES: u64 = 1 << 30;

/// The format of a kind of file.
#[derive(Debug)]
pub(super) struct SealedFormat {
    /// The last bytes of the file.
    pub(super) magic: [u8; 8],
    /// The version that this build writes, and the only one that it reads.
    pub(super) version: u32,
}

/// The content of a footer.
#[derive(Debug)]
pub(super) struct SealedFooter {
    /// The count that the format defines: rows of a sorted file, bytes of a payload.
    pub(super) count: u64,
    /// The digest by which the file is named.
    pub(super) sha256: Sha256Hex,
    /// The offset of the index: the length of the data before it.
    pub(super) index_at: u64,
    pub(super) index_bytes: u64,
    index_crc: u32,
}

impl SealedFormat {
    /// The footer after `index`, for content with this digest.
    pub(super) fn footer(&self, count: u64, sha256: &[u8; 32], index: &[u8]) -> Vec<u8> {
        let mut footer = Vec::new();
        footer.extend_from_slice(&count.to_be_bytes());
        footer.extend_from_slice(sha256);
        footer.extend_from_slice(&(index.len() as u64).to_be_bytes());
        footer.extend_from_slice(&crc32fast::hash(index).to_be_bytes());
        footer.extend_from_slice(&self.version.to_be_bytes());
        footer.extend_from_slice(&crc32fast::hash(&footer).to_be_bytes());
        footer.extend_from_slice(&self.magic);
        footer
    }
}

/// The source and the content of a file, for the error if it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOwner {
    pub oracle_id: SourceId,
    /// The content of the file.
    pub kind: SourceFileKind,
}

impl FileOwner {
    pub fn new(oracle_id: &SourceId, kind: SourceFileKind) -> Self {
        Self { oracle_id: oracle_id.clone(), kind }
    }

    pub fn damage_error(&self, path: &Path, fault: String) -> StoreError {
        let Self { oracle_id, kind } = self.clone();
        StoreError::SourceFile { oracle_id: oracle_id.to_string(), kind, path: path.to_owned(), fault }
    }

    /// The error for a file at `path` that cannot be opened.
    pub(super) fn open_error(&self, path: &Path, source: io::Error) -> StoreError {
        match source.kind() {
            ErrorKind::NotFound => self.damage_error(path, "is missing".into()),
            _ => StoreError::Io { path: path.to_owned(), source },
        }
    }
}

/// A read-only file that is read in pieces.
#[derive(Debug)]
pub(super) struct SealedFile {
    file: File,
    path: PathBuf,
    owner: FileOwner,
}

impl SealedFile {
    pub(super) fn open(path: &Path, owner: &FileOwner) -> Result<Self, StoreError> {
        let not_found = |source| owner.open_error(path, source);
        // opening a named pipe would wait for its writer
        if !fs::metadata(path).map_err(not_found)?.is_file() {
            return Err(owner.damage_error(path, "is not a regular file".into()));
        }
        let file = File::open(path).map_err(not_found)?;
        Ok(Self { file, path: path.to_owned(), owner: owner.clone() })
    }

    /// Reads and checks only the footer.
    pub(super) fn footer(&self, format: &SealedFormat) -> Result<SealedFooter, StoreError> {
        let size_bytes = self.file.metadata().map_err(|source| self.read_error(0, source))?.len();
        let Some(footer_at) = size_bytes.checked_sub(FOOTER_BYTES) else {
            return Err(self.damage_error_at(size_bytes, "it ends before its footer"));
        };
        let mut bytes = Vec::new();
        self.read(footer_at, FOOTER_BYTES, &mut bytes)?;
        let Some((mut footer, version)) = split_footer(format, &bytes) else {
            return Err(self.damage_error_at(footer_at, "its footer is damaged, or the file was cut"));
        };
        if version != format.version {
            let (dir, known) = (self.path.clone(), format.version);
            return Err(StoreError::Newer { dir, found: version, known });
        }
        let is_bounded = footer.index_bytes <= MAX_INDEX_BYTES;
        let Some(index_at) = footer_at.checked_sub(footer.index_bytes).filter(|_| is_bounded) else {
            return Err(self.damage_error_at(footer_at, "its index is longer than the limit"));
        };
        footer.index_at = index_at;
        Ok(footer)
    }

    /// Reads and checks the index and the footer.
    pub(super) fn read_index_and_footer(
        &self,
        format: &SealedFormat,
    ) -> Result<(SealedFooter, Vec<u8>), StoreError> {
        let footer = self.footer(format)?;
        let mut index = Vec::new();
        self.read_checked(footer.index_at, footer.index_bytes, footer.index_crc, &mut index)?;
        Ok((footer, index))
    }

    /// Reads `len_bytes` bytes from offset `at`, and checks their checksum.
    pub(super) fn read_checked(
        &self,
        at: u64,
        len_bytes: u64,
        crc: u32,
        into: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        self.read(at, len_bytes, into)?;
        self.check(at, into, crc)
    }

    /// Checks the checksum of `bytes`, which were read from offset `at`.
    pub(super) fn check(&self, at: u64, bytes: &[u8], crc: u32) -> Result<(), StoreError> {
        if crc32fast::hash(bytes) != crc {
            return Err(self.damage_error_at(at, &format!("the checksum of {} bytes is wrong", bytes.len())));
        }
        Ok(())
    }

    /// Reads `len_bytes` bytes from offset `at`. The caller has checked the length.
    pub(super) fn read(&self, at: u64, len_bytes: u64, into: &mut Vec<u8>) -> Result<(), StoreError> {
        into.resize(usize::try_from(len_bytes).expect("lengths were checked against bounds"), 0);
        self.file.read_exact_at(into, at).map_err(|source| self.read_error(at, source))
    }

    /// The error for damage at offset `at`.
    pub(super) fn damage_error_at(&self, at: u64, what: &str) -> StoreError {
        self.owner.damage_error(&self.path, format!("is damaged at byte {at}: {what}"))
    }

    /// The error for an intact file with another digest, `found`.
    pub(super) fn digest_mismatch_error(&self, found: &Sha256Hex) -> StoreError {
        self.owner.damage_error(&self.path, format!("is another file: its content has SHA-256 {found}"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn owner(&self) -> &FileOwner {
        &self.owner
    }

    fn read_error(&self, at: u64, source: io::Error) -> StoreError {
        if StoreError::is_damage(&source) {
            return self.damage_error_at(at, "the file ends too early");
        }
        StoreError::Io { path: self.path.clone(), source }
    }
}

/// The footer's content and its version; `None` if `footer` is invalid.
fn split_footer(format: &SealedFormat, footer: &[u8]) -> Option<(SealedFooter, u32)> {
    let (footer, magic) = footer.split_last_chunk::<8>()?;
    let (footer, crc) = footer.split_last_chunk()?;
    if *magic != format.magic || crc32fast::hash(footer) != u32::from_be_bytes(*crc) {
        return None;
    }
    let (count, rest) = footer.split_first_chunk()?;
    let (sha256, rest) = rest.split_first_chunk()?;
    let (index_bytes, rest) = rest.split_first_chunk()?;
    let (index_crc, version) = rest.split_first_chunk()?;
    let footer = SealedFooter {
        count: u64::from_be_bytes(*count),
        sha256: Sha256Hex::from_bytes(sha256),
        index_at: 0,
        index_bytes: u64::from_be_bytes(*index_bytes),
        index_crc: u32::from_be_bytes(*index_crc),
    };
    Some((footer, u32::from_be_bytes(*version.first_chunk()?)))
}
