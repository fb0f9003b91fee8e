//! The bytes of a payload with their offsets.

use super::PayloadSliceError;
use memchr::memchr;
use std::io::{BufRead, BufReader, Chain, Cursor, ErrorKind, Read};

/// The number of bytes that are requested from the reader at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The byte-order mark, which some writers put before UTF-8 text. It is not part of the text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The rest of a payload.
#[derive(Debug)]
pub(super) struct PayloadInput<R> {
    reader: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    offset: u64,
    max_bytes: u32,
}

/// Whether `byte` is white space in JSON.
pub(super) const fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

impl<R: Read> PayloadInput<R> {
    /// Opens `reader`, and skips a byte-order mark. No record may be longer than `max_bytes`.
    pub(super) fn open(mut reader: R, max_bytes: u32) -> Result<Self, PayloadSliceError> {
        let mut start = Vec::new();
        let mark_bytes = BYTE_ORDER_MARK.len() as u64;
        let read = reader.by_ref().take(mark_bytes).read_to_end(&mut start);
        read.map_err(|source| PayloadSliceError::Read { offset: 0, source })?;
        let offset = if start == BYTE_ORDER_MARK { mark_bytes } else { 0 };
        if offset > 0 {
            start.clear();
        }
        let reader = BufReader::with_capacity(CHUNK_BYTES, Cursor::new(start).chain(reader));
        Ok(Self { reader, offset, max_bytes })
    }

    /// Offset of the next byte in the payload.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next buffered bytes; empty only at the end.
    pub(super) fn chunk(&mut self) -> Result<&[u8], PayloadSliceError> {
        loop {
            match self.reader.fill_buf() {
                Ok(_) => return Ok(self.reader.buffer()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(PayloadSliceError::Read { offset: self.offset, source }),
            }
        }
    }

    /// Skips the first `count` bytes of the chunk.
    pub(super) fn skip_bytes(&mut self, count: usize) {
        self.reader.consume(count);
        self.offset += count as u64;
    }

    /// Appends the first `count` bytes of the chunk to `bytes`, which begin at offset `start` of the payload. The total
    /// length may exceed the limit for a record by at most `beyond` bytes.
    pub(super) fn take(
        &mut self,
        count: usize,
        bytes: &mut Vec<u8>,
        start: u64,
        beyond: usize,
    ) -> Result<(), PayloadSliceError> {
        if bytes.len().saturating_add(count) > (self.max_bytes as usize).saturating_add(beyond) {
            return Err(self.too_long(start));
        }
        bytes.extend_from_slice(self.reader.buffer().get(..count).unwrap_or_default());
        self.skip_bytes(count);
        Ok(())
    }

    /// Returns the next byte without consuming it.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, PayloadSliceError> {
        Ok(self.chunk()?.first().copied())
    }

    /// Skips white space, including line ends.
    pub(super) fn skip_white_space(&mut self) -> Result<(), PayloadSliceError> {
        loop {
            let chunk = self.chunk()?;
            let (white, all) = (chunk.iter().take_while(|byte| is_white_space(**byte)).count(), chunk.len());
            self.skip_bytes(white);
            if white < all || all == 0 {
                return Ok(());
            }
        }
    }

    /// Appends the rest of a line without its end (LF or CR LF) to `bytes`, which begin at offset `start` of
    /// the payload. Returns the line end, which is empty if the payload ends without one.
    pub(super) fn line(
        &mut self,
        bytes: &mut Vec<u8>,
        start: u64,
    ) -> Result<&'static [u8], PayloadSliceError> {
        const ENDS: [&[u8]; 2] = [b"\r\n", b"\n"];
        loop {
            let chunk = self.chunk()?;
            let (line_end, count, at_end) = (memchr(b'\n', chunk), chunk.len(), chunk.is_empty());
            self.take(line_end.map_or(count, |index| index + 1), bytes, start, ENDS[0].len())?;
            if line_end.is_none() && !at_end {
                continue;
            }
            // at the end of the payload, a line end in `bytes` may be part of a field
            let end = ENDS.into_iter().find(|end| !at_end && bytes.ends_with(end)).unwrap_or_default();
            bytes.truncate(bytes.len() - end.len());
            return if bytes.len() > self.max_bytes as usize { Err(self.too_long(start)) } else { Ok(end) };
        }
    }

    fn too_long(&self, offset: u64) -> PayloadSliceError {
        PayloadSliceError::TooLong { offset, max_bytes: self.max_bytes }
    }
}
