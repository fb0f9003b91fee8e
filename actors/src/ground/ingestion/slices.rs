//! Raw records out of payloads (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline").
//!
//! A payload of any size is read once, from its beginning to its end, in the memory that a few of its records take. Each
//! record comes with the place where it lies, so that it can be read again from the archived payload.
//!
//! What is wrong with one record is that record's: it comes as a [`Slice`] with the reason, and the run goes on. What makes
//! it uncertain where the next record begins is a [`SliceError`], and the run fails.

use delimited::Delimited;
pub(super) use delimited::is_blank;
use input::Input;
use json::Json;
use lines::Lines;
use oracled_domain::base::raw::{BadRecord, Raw};
use oracled_domain::ground::format::{Delimiter, Format};
use std::io::{self, Read};

mod delimited;
mod input;
mod json;
mod lines;

/// The most columns that a header may name.
pub const MAX_COLUMNS: usize = 4_096;

/// What bounds the memory that reading a payload takes: some times as much as this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest record, header line, and name or value beside a JSON document's records.
    pub max_record_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_record_bytes: 1024 * 1024 }
    }
}

/// One raw record of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Its number in the payload, from 0; those that are broken count too.
    pub position: u64,
    /// Where its first byte is in the payload, a byte-order mark counted.
    pub offset: u64,
    /// It in the payload's own bytes: from `offset` on, without line end, comma or white space around it.
    pub bytes: Vec<u8>,
    /// What it says, always an object; or why it is rejected.
    pub record: Result<Raw, BadRecord>,
}

impl Slice {
    /// How many bytes of the payload it takes.
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        u32::try_from(self.bytes.len()).expect("a record is no longer than its limit, which is 32 bits")
    }
}

/// What is wrong with the header line of a CSV or TSV.
#[derive(Debug, thiserror::Error)]
pub enum BadHeader {
    /// The payload has no line that is not empty.
    #[error("there is none")]
    Missing,
    /// More columns than are taken.
    #[error("it has {columns} columns, and there may be {MAX_COLUMNS}")]
    Columns {
        /// How many there are.
        columns: usize,
    },
    /// Two columns of one name.
    #[error("the columns {first} and {second} have the same name")]
    Repeated {
        /// One of them, from 1.
        first: usize,
        /// The other.
        second: usize,
    },
    /// It is broken as a record would be.
    #[error("{0}")]
    Broken(#[from] BadRecord),
}

/// Why the rest of a payload cannot be read. What it says are places, no words of the payload.
#[derive(Debug, thiserror::Error)]
pub enum SliceError {
    /// The payload itself.
    #[error("the payload cannot be read from byte {offset} on: {source}")]
    Read {
        /// How many bytes of it were read.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// A record, a header line, or a name or value beside the records.
    #[error(
        "what begins at byte {offset} of the payload is longer than {max_bytes} bytes, the most a record may have"
    )]
    TooLong {
        /// Where it begins.
        offset: u64,
        /// How long it may be.
        max_bytes: u32,
    },
    /// The end of the payload within quotes.
    #[error(
        "a quoted field of the line that begins at byte {offset} of the payload is not closed before its end"
    )]
    Unclosed {
        /// Where the line begins.
        offset: u64,
    },
    /// The first line of a CSV or TSV.
    #[error("the header line at byte {offset} of the payload is unfit: {cause}")]
    Header {
        /// Where it begins.
        offset: u64,
        /// What is wrong with it.
        cause: BadHeader,
    },
    /// A JSON document that is none, or whose records have no certain end.
    #[error(
        "the payload is no JSON document that can be read: at its byte {offset} there should be {wanted}"
    )]
    Json {
        /// Where it is broken.
        offset: u64,
        /// What could stand there.
        wanted: &'static str,
    },
    /// A JSON document that is one, and has no records there.
    #[error("the payload has no list at `{path}`: {found} at byte {offset}")]
    NoList {
        /// Where the list should be.
        path: String,
        /// What there is in its place.
        found: &'static str,
        /// Where that is.
        offset: u64,
    },
    /// Readers differ on which of two equal names counts.
    #[error("a name on the path to the records stands a second time in its object, before byte {offset}")]
    RepeatedName {
        /// Where it ends.
        offset: u64,
    },
}

/// The records of a payload, in its order. After an error, and after the end, there are none.
#[derive(Debug)]
pub struct Slices<R> {
    cut: Option<Cut<R>>,
    position: u64,
}

#[derive(Debug)]
enum Cut<R> {
    Json(Json<R>),
    Lines(Lines<R>),
    Delimited(Delimited<R>),
}

/// A record and its place, before it has its number.
struct Piece {
    offset: u64,
    bytes: Vec<u8>,
    record: Result<Raw, BadRecord>,
}

/// Begins to cut the payload that `reader` gives into the records that it has by `format`: it is read up to the first of
/// them. `reader` is read in large pieces and needs no buffer.
///
/// # Errors
/// Where there is something wrong before the first record; with what comes later, the iterator's item.
pub fn slices<R: Read>(format: &Format, reader: R, limits: Limits) -> Result<Slices<R>, SliceError> {
    let input = Input::open(reader, limits.max_record_bytes)?;
    let cut = match format {
        Format::Json { records } => Cut::Json(Json::open(input, records)?),
        Format::Ndjson => Cut::Lines(Lines::open(input)),
        Format::Csv { delimiter, quote } => Cut::Delimited(Delimited::open(input, *delimiter, *quote)?),
        Format::Tsv {} => Cut::Delimited(Delimited::open(input, Delimiter::TAB, false)?),
    };
    Ok(Slices { cut: Some(cut), position: 0 })
}

impl<R> Slices<R> {
    /// The names of the header's columns in their order, if the payload has a header. A column without a name is blank
    /// here and in no record.
    pub fn columns(&self) -> Option<&[String]> {
        match &self.cut {
            Some(Cut::Delimited(delimited)) => Some(delimited.columns()),
            _ => None,
        }
    }
}

impl<R: Read> Iterator for Slices<R> {
    type Item = Result<Slice, SliceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = match self.cut.as_mut()? {
            Cut::Json(json) => json.next(),
            Cut::Lines(lines) => lines.next(),
            Cut::Delimited(delimited) => delimited.next(),
        };
        match piece {
            Ok(Some(Piece { offset, bytes, record })) => {
                let position = self.position;
                self.position += 1;
                Some(Ok(Slice { position, offset, bytes, record }))
            }
            Ok(None) => {
                self.cut = None;
                None
            }
            Err(error) => {
                self.cut = None;
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
