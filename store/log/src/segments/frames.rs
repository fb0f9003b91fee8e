//! The compressed form of a segment: zstd frames of equal uncompressed length, so that a value is read without the whole segment.
//!
//! A table at the end has the lengths of the frames. It is that of zstd's seekable format, which zstd skips when it decompresses the
//! whole file.

use memchr::memmem;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use store_base::files::StateFile;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::find_frame_compressed_size;

/// The uncompressed length of a frame, in bytes. The last one is shorter.
pub(super) const FRAME_BYTES: usize = if cfg!(test) { 1024 } else { 32 * 1024 };
/// zstd's fastest level: its files are a fifth larger than those of the default level.
const COMPRESSION_LEVEL: i32 = 1;

/// The magic number of a frame.
const FRAME_MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// The magic number of a frame that zstd skips.
const SKIPPED_MAGIC: u32 = 0x184D_2A5E;
/// The magic number at the end of a table.
const TABLE_MAGIC: u32 = 0x8F92_EAB1;
/// The magic number and the length of the frame that has the table.
const TABLE_HEAD_BYTES: usize = 4 + 4;
/// The compressed and the uncompressed length of a frame.
const TABLE_ENTRY_BYTES: usize = 4 + 4;
/// The number of frames, a description of the entries, which is 0, and the magic number.
const TABLE_END_BYTES: usize = 4 + 1 + 4;

/// Compresses what is written to it.
pub(super) struct FramesWriter {
    file: StateFile,
    compressor: Compressor<'static>,
    /// The bytes that are in no frame yet.
    rest: Vec<u8>,
    table: Vec<u8>,
}

impl FramesWriter {
    pub(super) fn new(file: StateFile) -> io::Result<Self> {
        let mut compressor = Compressor::new(COMPRESSION_LEVEL)?;
        compressor.include_checksum(true)?;
        Ok(Self { file, compressor, rest: Vec::new(), table: Vec::new() })
    }

    /// Writes the first `length` bytes of the rest as a frame.
    fn write_frame(&mut self, length: usize) -> io::Result<()> {
        let (frame, _) = self.rest.split_at(length);
        let compressed = self.compressor.compress(frame)?;
        self.file.write_all(&compressed)?;
        for length in [compressed.len(), length] {
            let length = u32::try_from(length).expect("a frame is short");
            self.table.extend_from_slice(&length.to_le_bytes());
        }
        self.rest.drain(..length);
        Ok(())
    }

    /// Writes the last frame and the table.
    pub(super) fn finish(mut self) -> io::Result<StateFile> {
        if !self.rest.is_empty() {
            self.write_frame(self.rest.len())?;
        }
        let number = |value: usize| {
            u32::try_from(value).map(u32::to_le_bytes).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))
        };
        let (count, length) = (self.table.len() / TABLE_ENTRY_BYTES, self.table.len() + TABLE_END_BYTES);
        let head = [SKIPPED_MAGIC.to_le_bytes(), number(length)?];
        let end = [&number(count)?[..], &[0], &TABLE_MAGIC.to_le_bytes()].concat();
        self.file.write_all(&[head.as_flattened(), &self.table, &end].concat())?;
        Ok(self.file)
    }
}

impl Write for FramesWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let space = FRAME_BYTES.saturating_sub(self.rest.len());
        let (fitting, _) = bytes.split_at(bytes.len().min(space));
        self.rest.extend_from_slice(fitting);
        if self.rest.len() >= FRAME_BYTES {
            self.write_frame(FRAME_BYTES)?;
        }
        Ok(fitting.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A compressed file whose frames are read singly.
#[derive(Debug)]
pub(super) struct Frames {
    file: File,
    /// The end of each frame in the file.
    ends: Vec<u64>,
    /// The uncompressed length of the last frame.
    last_bytes: usize,
}

thread_local! {
    // a new one takes as long as a frame
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn damaged(fault: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, fault.to_owned())
}

impl Frames {
    /// Reads the table of `file`.
    ///
    /// # Errors
    /// `InvalidData` if it is damaged or missing.
    pub(super) fn open(file: File) -> io::Result<Self> {
        Self::read_table(&file)?
            .map(|(ends, last_bytes)| Self { file, ends, last_bytes })
            .ok_or_else(|| damaged("the table of its frames is damaged"))
    }

    /// The ends of the frames, and the uncompressed length of the last one.
    fn read_table(file: &File) -> io::Result<Option<(Vec<u64>, usize)>> {
        let length = file.metadata()?.len();
        let mut end = [0; TABLE_END_BYTES];
        let Some(at) = length.checked_sub(TABLE_END_BYTES as u64) else { return Ok(None) };
        file.read_exact_at(&mut end, at)?;
        let Some((count, [0, magic @ ..])) = end.split_first_chunk() else { return Ok(None) };
        let count = u32::from_le_bytes(*count) as usize;
        let table_bytes = TABLE_HEAD_BYTES + count * TABLE_ENTRY_BYTES + TABLE_END_BYTES;
        let start = length.checked_sub(table_bytes as u64);
        let Some(start) = start.filter(|_| magic == TABLE_MAGIC.to_le_bytes()) else { return Ok(None) };
        let mut table = vec![0; table_bytes - TABLE_END_BYTES];
        file.read_exact_at(&mut table, start)?;
        let (head, entries) = table.split_at(TABLE_HEAD_BYTES);
        let expected = [SKIPPED_MAGIC, (table_bytes - TABLE_HEAD_BYTES) as u32].map(u32::to_le_bytes);
        let (mut ends, mut position, mut last_bytes) = (Vec::new(), 0, FRAME_BYTES);
        for [compressed, uncompressed] in entries.as_chunks().0.as_chunks().0 {
            // all frames before the last one are full
            if last_bytes != FRAME_BYTES {
                return Ok(None);
            }
            position += u64::from(u32::from_le_bytes(*compressed));
            ends.push(position);
            last_bytes = u32::from_le_bytes(*uncompressed) as usize;
        }
        let is_whole = head == expected.as_flattened() && position == start && last_bytes <= FRAME_BYTES;
        Ok(is_whole.then_some((ends, last_bytes)))
    }

    /// The number of the frame that has the uncompressed byte `at`, and the position of that byte in it.
    pub(super) const fn place_of(at: u64) -> (u64, usize) {
        (at / FRAME_BYTES as u64, (at % FRAME_BYTES as u64) as usize)
    }

    /// The content of frame `number`.
    ///
    /// # Errors
    /// `InvalidData` if it is damaged, or there is no such frame.
    pub(super) fn read(&self, number: u64) -> io::Result<Vec<u8>> {
        let index = usize::try_from(number).ok();
        let end = index.and_then(|index| self.ends.get(index)).ok_or_else(|| damaged("it ends too early"))?;
        let start = index.and_then(|index| self.ends.get(index.checked_sub(1)?)).copied().unwrap_or_default();
        let length = usize::try_from(end - start).map_err(|_| damaged("a frame is too long"))?;
        let expected = if number + 1 == self.ends.len() as u64 { self.last_bytes } else { FRAME_BYTES };
        // an incompressible frame is a little longer than its content
        if length > 2 * FRAME_BYTES {
            return Err(damaged("a frame is too long"));
        }
        let mut compressed = vec![0; length];
        self.file.read_exact_at(&mut compressed, start)?;
        decompress(&compressed, expected).and_then(|content| {
            if content.len() == expected { Ok(content) } else { Err(damaged("a frame has another length")) }
        })
    }
}

/// The content of a frame, at most `max` bytes.
fn decompress(compressed: &[u8], max: usize) -> io::Result<Vec<u8>> {
    let content = DECOMPRESSOR.with_borrow_mut(|decompressor| match decompressor {
        Some(decompressor) => decompressor.decompress(compressed, max),
        None => decompressor.insert(Decompressor::new()?).decompress(compressed, max),
    });
    content.map_err(|error| damaged(&error.to_string()))
}

/// The content of the frames in `file`, at most `frames_max`; `None` for each that is damaged. The table of frames is not needed.
pub(super) fn readable_frames(file: &[u8], frames_max: usize) -> Vec<Option<Vec<u8>>> {
    let (mut frames, mut rest) = (Vec::new(), file);
    while !rest.is_empty() && !rest.starts_with(&SKIPPED_MAGIC.to_le_bytes()) && frames.len() < frames_max {
        let length = find_frame_compressed_size(rest).ok();
        let split = length.and_then(|length| rest.split_at_checked(length));
        let content = split.and_then(|(frame, _)| decompress(frame, FRAME_BYTES).ok());
        let is_known = |(_, next): &(_, &[u8])| content.is_some() || next.starts_with(&FRAME_MAGIC);
        // damage can hide the length of the frame
        let next = || memmem::find(rest.get(1..)?, &FRAME_MAGIC).and_then(|at| rest.get(at + 1..));
        rest = split.filter(is_known).map(|(_, next)| next).or_else(next).unwrap_or_default();
        frames.push(content);
    }
    frames
}

/// Reads all frames, one after the other.
pub(super) struct FramesReader {
    frames: Frames,
    next: u64,
    content: Vec<u8>,
    /// The number of bytes of the content that were read.
    read: usize,
}

impl FramesReader {
    pub(super) const fn new(frames: Frames) -> Self {
        Self { frames, next: 0, content: Vec::new(), read: 0 }
    }
}

impl Read for FramesReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.content.len() && self.next < self.frames.ends.len() as u64 {
            (self.content, self.read) = (self.frames.read(self.next)?, 0);
            self.next += 1;
        }
        let mut rest = self.content.get(self.read..).unwrap_or_default();
        let count = rest.read(into)?;
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn compressed(content: &[u8]) -> File {
        let dir = tempfile::tempdir().expect("a directory");
        let file = StateFile::create(&dir.path().join("frames")).expect("the file is created");
        let mut writer = FramesWriter::new(file).expect("zstd starts");
        writer.write_all(content).expect("the write succeeds");
        let written = writer.finish().expect("the write succeeds");
        written.reader().try_clone().expect("a descriptor")
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 7) as u8).collect()
    }

    fn bytes_of(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; file.metadata().expect("a length").len() as usize];
        file.read_exact_at(&mut bytes, 0).expect("the file is readable");
        bytes
    }

    #[test]
    fn frames_are_read_singly_and_as_a_whole() {
        for length in [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 5 * FRAME_BYTES + 300] {
            let (content, file) = (content(length), compressed(&content(length)));
            // as other programs read it
            assert_eq!(zstd::decode_all(&bytes_of(&file)[..]).expect("zstd reads it"), content, "{length}");
            let frames = Frames::open(file).expect("the table is whole");
            for (number, part) in (0..).zip(content.chunks(FRAME_BYTES)) {
                assert_eq!(frames.read(number).expect("the frame is whole"), part, "{length}");
            }
            frames.read(content.len().div_ceil(FRAME_BYTES) as u64).expect_err("there are no more frames");
            let mut all = Vec::new();
            FramesReader::new(frames).read_to_end(&mut all).expect("the frames are whole");
            assert_eq!(all, content, "{length}");
        }
    }

    proptest! {
        #[test]
        fn changed_file_is_damaged_or_has_the_same_content(at: prop::sample::Index, change in 1u8.., length in 0_usize..4000) {
            let (content, file) = (content(length), compressed(&content(length)));
            let mut bytes = bytes_of(&file);
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            file.write_all_at(&bytes, 0).expect("the write succeeds");
            let mut all = Vec::new();
            let read = Frames::open(file).and_then(|frames| FramesReader::new(frames).read_to_end(&mut all));
            prop_assert!(read.is_err() || all == content);
        }
    }
}
