//! Cuts payloads into raw records (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline").
//!
//! A payload of any size is read once, from its beginning to its end. The memory is limited to a few times the longest
//! record. Each record has its offset, so that it can be read again from the archived payload.
//!
//! A fault in one record affects only that record: its [`PayloadSlice`] has the reason, and the run
//! continues. If a fault makes the start of the next record uncertain, it is a [`PayloadSliceError`], and the
//! run fails.

mod delimited;
mod json;

use bytes::Bytes;
use delimited::DelimitedReader;
use domain_base::raw::{RawRecordError, SourceValue};
use domain_base::text_form::{is_blank, to_nfc};
use domain_ground::format::{ColumnUnpivot, PayloadFormat};
use json::JsonListReader;
use memchr::memchr;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Chain, Cursor, ErrorKind, Read};
use std::{io, vec};

pub use delimited::{DelimitedRow, DelimitedRows};

/// The most columns that a header may name.
pub const MAX_COLUMNS: usize = 4_096;

/// The limits of the memory for reading a payload, which is a small multiple of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceLimits {
    /// The longest record, header line, and name or value outside a JSON document's records.
    pub max_record_bytes: u32,
}

impl Default for SliceLimits {
    fn default() -> Self {
        Self { max_record_bytes: 1024 * 1024 }
    }
}

/// One raw record of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSlice {
    /// Number of the record in the payload, from 0. Broken records count, too.
    pub position: u64,
    /// Offset of the first byte in the payload. A byte-order mark counts.
    pub offset: u64,
    /// The payload's own bytes from `offset` on, without line end, comma or white space around the record.
    pub bytes: Bytes,
    /// The parsed record, always an object; or why it is rejected.
    pub record: Result<SourceValue, RawRecordError>,
}

impl PayloadSlice {
    /// Length of the record in the payload, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a record is no longer than its limit, which is 32 bits")
    }
}

/// The fault in the header line of a CSV or TSV file.
#[derive(Debug, thiserror::Error)]
pub enum HeaderLineError {
    /// The payload has only empty lines.
    #[error("it is missing")]
    Missing,
    /// The header has too many columns.
    #[error("it has {columns} columns (limit {MAX_COLUMNS})")]
    Columns {
        /// Number of columns found.
        columns: usize,
    },
    /// Two columns have the same name.
    #[error("the columns {first} and {second} have the same name")]
    Repeated {
        /// Number of the first of these columns, from 1.
        first: usize,
        /// Number of the second column.
        second: usize,
    },
    /// All names are in quotes that the format does not remove. They would be a part of each value, too.
    #[error(
        "its names are in {quote} quotes, which the format does not remove; `csv` with `quote` removes \" quotes, with a tab as \
         its `delimiter` also those of a TSV file; convert a file with ' quotes"
    )]
    Quoted {
        /// The quote.
        quote: char,
    },
    /// A pipeline unpivots columns, and the header has none of them.
    #[error("no column matches `unpivot.columns`, {pattern}")]
    NoUnpivotedColumn {
        /// The pattern of the definition, or its fault.
        pattern: String,
    },
    /// A field of `unpivot` has the name of a column.
    #[error("it has a column `{name}`; choose another name in `unpivot`")]
    UnpivotName {
        /// The name in the definition.
        name: String,
    },
    /// The line is broken as a record can be.
    #[error("{0}")]
    Broken(#[from] RawRecordError),
}

/// Why the rest of a payload cannot be read. The errors contain offsets, but no text of the payload.
#[derive(Debug, thiserror::Error)]
pub enum PayloadSliceError {
    /// Reading the payload failed.
    #[error("the payload cannot be read from byte {offset} on: {source}")]
    Read {
        /// Number of bytes read so far.
        offset: u64,
        /// The error of the reader.
        source: io::Error,
    },
    /// A record, a header line, or a name or value outside the records is too long.
    #[error(
        "the record or value at byte {offset} of the payload is longer than {max_bytes} bytes, the limit for a record"
    )]
    TooLong {
        /// Offset of its first byte.
        offset: u64,
        /// The limit, in bytes.
        max_bytes: u32,
    },
    /// The payload ends within quotes.
    #[error(
        "a quoted field of the line that begins at byte {offset} is not closed before the end of the payload; close it, or write \
         `quote: false` in a format in which quotes are a part of the values"
    )]
    Unclosed {
        /// Offset of the line.
        offset: u64,
    },
    /// The first line of a CSV or TSV file is invalid.
    #[error("the header line at byte {offset} of the payload is invalid: {cause}")]
    Header {
        /// Offset of the line.
        offset: u64,
        /// The fault in the line.
        cause: HeaderLineError,
    },
    /// The payload is not valid JSON, or a record has no certain end.
    #[error("the payload is not a valid JSON document: at byte {offset}, expected {expected}")]
    Json {
        /// Offset of the fault.
        offset: u64,
        /// The allowed text at this offset.
        expected: &'static str,
    },
    /// The JSON document has no list of records at the path.
    #[error("the payload has no list at `{path}`: found {found} at byte {offset}")]
    NoList {
        /// The path of the list.
        path: String,
        /// The value found instead.
        found: &'static str,
        /// Offset of that value.
        offset: u64,
    },
    /// A name occurs twice; JSON readers differ on which of the two counts.
    #[error("a name on the path to the records occurs a second time in its object, before byte {offset}")]
    RepeatedName {
        /// Offset of the end of the second name.
        offset: u64,
    },
}

/// The records of a payload, in order. The iterator ends after the last record or the first error.
#[derive(Debug)]
pub struct PayloadSlices<R> {
    reader: Option<FormatReader<R>>,
    position: u64,
}

#[derive(Debug)]
enum FormatReader<R> {
    Json(JsonListReader<R>),
    Lines(JsonLinesReader<R>),
    Delimited(Box<DelimitedReader<R>>),
}

/// A record with its offset, before it gets its number.
struct UnnumberedSlice {
    offset: u64,
    bytes: Bytes,
    record: Result<SourceValue, RawRecordError>,
}

/// Begins to cut the payload of `reader` into records of `format`, and reads up to the first record. `reader`
/// is read in large pieces and needs no buffer.
///
/// # Errors
/// A fault before the first record. Later faults are items of the iterator.
pub fn slice_payload<R: Read>(
    format: &PayloadFormat,
    reader: R,
    limits: SliceLimits,
) -> Result<PayloadSlices<R>, PayloadSliceError> {
    let input = PayloadInput::open(reader, limits.max_record_bytes)?;
    let cut = match format {
        PayloadFormat::Json { records } => FormatReader::Json(JsonListReader::open(input, records)?),
        PayloadFormat::Ndjson => FormatReader::Lines(JsonLinesReader::open(input)),
        PayloadFormat::Csv { .. } | PayloadFormat::Tsv { .. } => {
            let form = format.table().expect("these formats are tables");
            FormatReader::Delimited(Box::new(DelimitedReader::open(input, form)?))
        }
    };
    Ok(PayloadSlices { reader: Some(cut), position: 0 })
}

impl<R> PayloadSlices<R> {
    /// The numbers of the columns without a name, from 1. No record has them.
    pub fn unnamed_columns(&self) -> Vec<usize> {
        match &self.reader {
            Some(FormatReader::Delimited(delimited)) => delimited.unnamed_columns(),
            _ => Vec::new(),
        }
    }

    /// The names of the columns in their order, if the payload has a header; of an unpivoted table, the fields of its records. The
    /// name of a column without one is blank.
    pub fn columns(&self) -> Option<&[String]> {
        match &self.reader {
            Some(FormatReader::Delimited(delimited)) => Some(delimited.columns()),
            _ => None,
        }
    }
}

impl<R: Read> Iterator for PayloadSlices<R> {
    type Item = Result<PayloadSlice, PayloadSliceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = match self.reader.as_mut()? {
            FormatReader::Json(json) => json.next(),
            FormatReader::Lines(lines) => lines.next(),
            FormatReader::Delimited(delimited) => delimited.next(),
        };
        match piece {
            Ok(Some(UnnumberedSlice { offset, bytes, record })) => {
                let position = self.position;
                self.position += 1;
                Some(Ok(PayloadSlice { position, offset, bytes, record }))
            }
            Ok(None) => {
                self.reader = None;
                None
            }
            Err(error) => {
                self.reader = None;
                Some(Err(error))
            }
        }
    }
}

/// The remaining lines.
#[derive(Debug)]
struct JsonLinesReader<R> {
    input: PayloadInput<R>,
}

impl<R: Read> JsonLinesReader<R> {
    fn open(input: PayloadInput<R>) -> Self {
        Self { input }
    }

    /// The next line that is not blank.
    fn next(&mut self) -> Result<Option<UnnumberedSlice>, PayloadSliceError> {
        self.input.skip_white_space()?;
        if self.input.peek()?.is_none() {
            return Ok(None);
        }
        let offset = self.input.offset();
        let mut bytes = Vec::new();
        self.input.line(&mut bytes, offset)?;
        let trailing = bytes.iter().rev().take_while(|byte| is_white_space(**byte)).count();
        bytes.truncate(bytes.len() - trailing);
        Ok(Some(UnnumberedSlice { offset, record: SourceValue::parse_object(&bytes), bytes: bytes.into() }))
    }
}

/// The rows of a wide table, cell by cell. All records of a row have its offset and its bytes.
#[derive(Debug)]
struct UnpivotReader {
    /// The names of the columns that become records.
    selected: HashSet<String>,
    /// The names of the fields of a record.
    columns: Vec<String>,
    name: String,
    value: String,
    row: Option<UnpivotedRow>,
}

#[derive(Debug)]
struct UnpivotedRow {
    offset: u64,
    bytes: Bytes,
    /// The other columns.
    common: Vec<(String, SourceValue)>,
    /// The cells that are left, with the names of their columns.
    cells: vec::IntoIter<(String, SourceValue)>,
}

impl UnpivotReader {
    /// The reader for a table with the columns `names`.
    fn new(unpivot: &ColumnUnpivot, names: &[String]) -> Result<Self, HeaderLineError> {
        let (name, value) = (to_nfc(&unpivot.name), to_nfc(&unpivot.value));
        let pattern = unpivot.compile().map_err(|pattern| HeaderLineError::NoUnpivotedColumn { pattern })?;
        let is_selected = |column: &String| !is_blank(column) && pattern.is_match(column);
        let selected: HashSet<_> = names.iter().filter(|column| is_selected(column)).cloned().collect();
        if selected.is_empty() {
            return Err(HeaderLineError::NoUnpivotedColumn { pattern: format!("`{}`", unpivot.columns) });
        }
        let is_common = |column: &&String| !selected.contains(*column) && !is_blank(column);
        let mut columns: Vec<_> = names.iter().filter(is_common).cloned().collect();
        if let Some(name) =
            [&name, &value].into_iter().find(|name| columns.iter().any(|column| column == &***name))
        {
            return Err(HeaderLineError::UnpivotName { name: name.to_string() });
        }
        let (name, value) = (name.into_owned(), value.into_owned());
        columns.extend([name.clone(), value.clone()]);
        Ok(Self { selected, columns, name, value, row: None })
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Begins with the cells of the next row.
    fn begin_row(&mut self, row: UnnumberedSlice) {
        let UnnumberedSlice { offset, bytes, record } = row;
        let Ok(SourceValue::Object(members)) = record else { return };
        let (cells, common): (Vec<_>, _) =
            members.into_iter().partition(|(column, _)| self.selected.contains(column));
        self.row = Some(UnpivotedRow { offset, bytes, common, cells: cells.into_iter() });
    }

    /// The record of the next cell that is not blank; `None` at the end of the row.
    fn next_cell(&mut self) -> Option<UnnumberedSlice> {
        let row = self.row.as_mut()?;
        let (column, value) =
            row.cells.find(|(_, value)| !matches!(value, SourceValue::Text(text) if is_blank(text)))?;
        let mut members = row.common.clone();
        members.extend([(self.name.clone(), SourceValue::Text(column)), (self.value.clone(), value)]);
        let record = Ok(SourceValue::Object(members));
        Some(UnnumberedSlice { offset: row.offset, bytes: row.bytes.clone(), record })
    }
}

/// The number of bytes that are requested from the reader at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The byte-order mark, which some writers put before UTF-8 text. It is not part of the text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The rest of a payload.
#[derive(Debug)]
struct PayloadInput<R> {
    reader: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    offset: u64,
    max_bytes: u32,
}

/// Whether `byte` is white space in JSON.
const fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

impl<R: Read> PayloadInput<R> {
    /// Opens `reader`, and skips a byte-order mark. No record may be longer than `max_bytes`.
    fn open(mut reader: R, max_bytes: u32) -> Result<Self, PayloadSliceError> {
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
    const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next buffered bytes; empty only at the end.
    fn chunk(&mut self) -> Result<&[u8], PayloadSliceError> {
        loop {
            match self.reader.fill_buf() {
                Ok(_) => return Ok(self.reader.buffer()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(PayloadSliceError::Read { offset: self.offset, source }),
            }
        }
    }

    /// Skips the first `count` bytes of the chunk.
    fn skip_bytes(&mut self, count: usize) {
        self.reader.consume(count);
        self.offset += count as u64;
    }

    /// Appends the first `count` bytes of the chunk to `bytes`, which begin at offset `start` of the payload. The total
    /// length may exceed the limit for a record by at most `beyond` bytes.
    fn take(
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
    fn peek(&mut self) -> Result<Option<u8>, PayloadSliceError> {
        Ok(self.chunk()?.first().copied())
    }

    /// Skips white space, including line ends.
    fn skip_white_space(&mut self) -> Result<(), PayloadSliceError> {
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
    fn line(&mut self, bytes: &mut Vec<u8>, start: u64) -> Result<&'static [u8], PayloadSliceError> {
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

#[cfg(test)]
mod tests;
