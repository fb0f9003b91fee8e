//! Cuts payloads into raw records (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline").
//!
//! A payload of any size is read once, from its beginning to its end. The memory is limited to a few times the longest
//! record. Each record has its offset, so that it can be read again from the archived payload.
//!
//! A fault in one record affects only that record: its [`PayloadSlice`] has the reason, and the run
//! continues. If a fault makes the start of the next record uncertain, it is a [`PayloadSliceError`], and the
//! run fails.

use bytes::Bytes;
use delimited::DelimitedReader;
use domain_base::raw::{RawRecordError, SourceValue};
use domain_ground::format::PayloadFormat;
use input::PayloadInput;
use json::JsonListReader;
use lines::JsonLinesReader;
use std::io::{self, Read};

mod delimited;
mod input;
mod json;
mod lines;
mod unpivot;

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
    let cut = match (format, format.table()) {
        (PayloadFormat::Json { records }, _) => FormatReader::Json(JsonListReader::open(input, records)?),
        (_, Some(form)) => FormatReader::Delimited(Box::new(DelimitedReader::open(input, form)?)),
        (_, None) => FormatReader::Lines(JsonLinesReader::open(input)),
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

#[cfg(test)]
mod tests;
