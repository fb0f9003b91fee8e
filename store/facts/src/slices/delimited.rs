//! CSV and TSV: fields between delimiters, one record a line. A quoted field may contain line ends.
//!
//! This is our own reader, since tolerant readers hide faults: an unclosed quote at the end, text after a
//! closing quote, or a carriage return that only some readers treat as a line end. Strict ones hide others: by RFC 4180, the
//! quotes of a field with a space before it are a part of its value.

use super::{HeaderLineError, MAX_COLUMNS, PayloadSliceError, SliceLimits, UnnumberedSlice};
use crate::slices::{PayloadInput, UnpivotReader};
use domain_base::raw::{RawRecordError, SourceValue};
use domain_base::text_form::{into_nfc, is_blank};
use domain_ground::format::{CommentMark, TableForm};
use memchr::memchr;
use std::collections::HashMap;
use std::io::Read;
use std::str::Utf8Error;

const QUOTE: u8 = b'"';

/// The lines after the header.
#[derive(Debug)]
pub(super) struct DelimitedReader<R> {
    input: PayloadInput<R>,
    row: DelimitedLine,
    comment: Option<CommentMark>,
    /// The names of the columns; blank for a column without a name, as in a file whose lines each end in a delimiter.
    names: Vec<String>,
    unpivot: Option<UnpivotReader>,
}

impl<R> DelimitedReader<R> {
    /// The numbers of the columns without a name, from 1.
    pub(super) fn unnamed_columns(&self) -> Vec<usize> {
        (1..).zip(&self.names).filter(|(_, name)| is_blank(name)).map(|(number, _)| number).collect()
    }

    pub(super) fn columns(&self) -> &[String] {
        self.unpivot.as_ref().map_or(&*self.names, UnpivotReader::columns)
    }
}

impl<R: Read> DelimitedReader<R> {
    /// Skips the lines before the header, and reads it, if the form has no names of columns.
    pub(super) fn open(input: PayloadInput<R>, form: TableForm<'_>) -> Result<Self, PayloadSliceError> {
        let mut lines = Self::before_header(input, form)?;
        let header = if form.columns.is_empty() { lines.row()? } else { None };
        let offset = header.as_ref().map_or(lines.input.offset(), |(offset, _)| *offset);
        lines.names = match header {
            Some((_, bytes)) => lines.row.names(&bytes),
            None if form.columns.is_empty() => Err(HeaderLineError::Missing),
            None => check_names(form.columns.to_vec()),
        }
        .map_err(|cause| PayloadSliceError::Header { offset, cause })?;
        let unpivot = form.unpivot.map(|unpivot| UnpivotReader::new(unpivot, &lines.names)).transpose();
        lines.unpivot = unpivot.map_err(|cause| PayloadSliceError::Header { offset, cause })?;
        Ok(lines)
    }

    fn before_header(input: PayloadInput<R>, form: TableForm<'_>) -> Result<Self, PayloadSliceError> {
        let TableForm { delimiter, quote, skip_lines, comment, .. } = form;
        let row = DelimitedLine { delimiter: delimiter.byte(), quote, ..DelimitedLine::default() };
        let comment = comment.cloned();
        let mut lines = Self { input, row, comment, names: Vec::new(), unpivot: None };
        for _ in 0..skip_lines {
            lines.input.line(&mut Vec::new(), lines.input.offset())?;
        }
        Ok(lines)
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Result<Option<UnnumberedSlice>, PayloadSliceError> {
        loop {
            if let Some(cell) = self.unpivot.as_mut().and_then(UnpivotReader::next_cell) {
                return Ok(Some(cell));
            }
            let Some((offset, bytes)) = self.row()? else { return Ok(None) };
            let slice =
                UnnumberedSlice { offset, record: self.row.record(&self.names, &bytes), bytes: bytes.into() };
            match &mut self.unpivot {
                Some(unpivot) if slice.record.is_ok() => unpivot.begin_row(slice),
                _ => return Ok(Some(slice)),
            }
        }
    }

    /// Reads the next line that is neither a comment nor blank, including further lines of a quoted field. Returns its offset
    /// and its bytes.
    fn row(&mut self) -> Result<Option<(u64, Vec<u8>)>, PayloadSliceError> {
        self.row.clear();
        let mut bytes = Vec::new();
        let mut offset = self.input.offset();
        loop {
            let done = bytes.len();
            let end = self.input.line(&mut bytes, offset)?;
            let is_comment = |mark: &CommentMark| done == 0 && bytes.starts_with(mark.as_str().as_bytes());
            if self.comment.as_ref().is_some_and(is_comment) {
                bytes.clear();
            }
            self.row.feed(bytes.get(done..).unwrap_or_default());
            let is_blank = self.row.is_blank();
            match (end.is_empty(), self.row.in_quotes) {
                (true, true) => return Err(PayloadSliceError::Unclosed { offset }),
                (true, false) if is_blank => return Ok(None),
                (false, true) => {
                    bytes.extend(end);
                    self.row.text.extend(end);
                }
                (false, false) if is_blank => {
                    bytes.clear();
                    offset = self.input.offset();
                    self.row.clear();
                }
                (_, false) => return Ok(Some((offset, bytes))),
            }
        }
    }
}

/// The fields of one line.
#[derive(Debug, Default)]
struct DelimitedLine {
    delimiter: u8,
    quote: bool,
    /// The text of all fields without their quotes, concatenated.
    text: Vec<u8>,
    /// The end of each field in `text`, for the first [`MAX_COLUMNS`] fields.
    ends: Vec<usize>,
    /// Number of fields.
    count: usize,
    /// Whether the last field continues in the next line.
    in_quotes: bool,
    /// Whether a field is quoted.
    has_quoted: bool,
    /// Whether the last field is empty, so that a line of several fields ends in a delimiter.
    ends_in_delimiter: bool,
    /// The first fault in the line.
    fault: Option<RawRecordError>,
}

impl DelimitedLine {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        (self.count, self.in_quotes, self.has_quoted, self.fault) = (0, false, false, None);
    }

    /// Whether the line is empty or has only delimiters, which spreadsheets write for an empty row. A quoted field is a value,
    /// even an empty one.
    fn is_blank(&self) -> bool {
        self.text.is_empty() && !self.has_quoted && self.fault.is_none()
    }

    /// Reads a line without its end. If the last line ended within quotes, this line continues it.
    fn feed(&mut self, line: &[u8]) {
        let mut rest = line;
        loop {
            let mut quoted = self.in_quotes;
            if let Some(tail) = self.opening_quote(rest).filter(|_| !quoted) {
                (quoted, rest) = (true, tail);
            }
            if quoted {
                let Some(tail) = self.unquote(rest) else { return };
                rest = tail;
            }
            let end = memchr(self.delimiter, rest);
            let (bare, tail) = rest.split_at(end.unwrap_or(rest.len()));
            self.close(bare, quoted);
            let [_, tail @ ..] = tail else { return };
            rest = tail;
        }
    }

    /// The text after the quote that opens a field, if one does. Spaces and tabs before it are not a part of the field.
    fn opening_quote<'r>(&self, field: &'r [u8]) -> Option<&'r [u8]> {
        let spaces = field.iter().take_while(|byte| self.is_padding(**byte)).count();
        field.get(spaces..)?.strip_prefix(&[QUOTE]).filter(|_| self.quote)
    }

    const fn is_padding(&self, byte: u8) -> bool {
        matches!(byte, b' ' | b'\t') && byte != self.delimiter
    }

    /// Whether only characters that print as nothing, such as a second byte-order mark, are before the first quote.
    fn has_hidden_quote(&self, bare: &[u8]) -> bool {
        let is_suspect = self.quote && bare.first().is_some_and(|byte| !byte.is_ascii_graphic());
        let before = memchr(QUOTE, bare).filter(|_| is_suspect).and_then(|quote_at| bare.get(..quote_at));
        before.is_some_and(|before| str::from_utf8(before).is_ok_and(is_blank))
    }

    /// Reads the rest of a quoted field. Returns the text after the closing quote; `None` if the field is not closed.
    fn unquote<'r>(&mut self, mut rest: &'r [u8]) -> Option<&'r [u8]> {
        loop {
            let Some(quote_at) = memchr(QUOTE, rest) else {
                self.text.extend(rest);
                self.in_quotes = true;
                return None;
            };
            let (inside, tail) = rest.split_at(quote_at);
            self.text.extend(inside);
            match tail {
                [_, QUOTE, tail @ ..] => {
                    self.text.push(QUOTE);
                    rest = tail;
                }
                _ => {
                    self.in_quotes = false;
                    return tail.get(1..);
                }
            }
        }
    }

    /// Ends a field with its text outside of quotes.
    fn close(&mut self, bare: &[u8], quoted: bool) {
        self.count += 1;
        self.has_quoted |= quoted;
        let field = self.count;
        if !quoted {
            if memchr(b'\r', bare).is_some() {
                self.fault.get_or_insert(RawRecordError::CarriageReturn { field });
            } else if self.has_hidden_quote(bare) {
                self.fault.get_or_insert(RawRecordError::BeforeQuote { field });
            }
            self.text.extend(bare);
        } else if !bare.iter().all(|byte| self.is_padding(*byte)) {
            self.fault.get_or_insert(RawRecordError::AfterQuote { field });
        }
        self.ends_in_delimiter = bare.is_empty() && !quoted;
        if self.ends.len() < MAX_COLUMNS {
            self.ends.push(self.text.len());
        }
    }

    /// The fields of the line `bytes`, whatever their number.
    fn fields(&mut self, bytes: &[u8]) -> Result<impl Iterator<Item = &str>, RawRecordError> {
        let not_utf8 = |error: Utf8Error| RawRecordError::NotUtf8 { at_byte: error.valid_up_to() };
        // checks `bytes` first, since the offset in the error must refer to the record
        str::from_utf8(bytes).map_err(not_utf8)?;
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let text = str::from_utf8(&self.text).map_err(not_utf8)?;
        let mut start = 0;
        Ok(self.ends.iter().map(move |end| {
            let field = text.get(start..*end).unwrap_or_default();
            start = *end;
            field
        }))
    }

    /// Converts the line `bytes` to an object of texts.
    fn record(&mut self, names: &[String], bytes: &[u8]) -> Result<SourceValue, RawRecordError> {
        let (found, expected) = (self.count, names.len());
        // some writers end each line in a delimiter, except the header
        let ends_beyond = found == expected + 1 && self.ends_in_delimiter;
        let fields = self.fields(bytes)?;
        if found != expected && !ends_beyond {
            return Err(RawRecordError::Fields { found, expected });
        }
        let mut members = Vec::with_capacity(expected);
        let named = names.iter().zip(fields).filter(|(name, _)| !is_blank(name));
        members.extend(named.map(|(name, field)| (name.clone(), SourceValue::Text(field.to_owned()))));
        Ok(SourceValue::Object(members))
    }

    /// Converts the line `bytes` to the names of a header.
    fn names(&mut self, bytes: &[u8]) -> Result<Vec<String>, HeaderLineError> {
        let columns = self.count;
        if columns > MAX_COLUMNS {
            return Err(HeaderLineError::Columns { columns });
        }
        let quotes = if self.quote { "'" } else { "'\"" };
        let names: Vec<_> = self.fields(bytes)?.map(str::to_owned).collect();
        let named = || names.iter().filter(|name| !is_blank(name));
        let are_in = |quote: &char| {
            let is_in = |name: &String| name.len() > 1 && name.starts_with(*quote) && name.ends_with(*quote);
            named().all(is_in) && named().next().is_some()
        };
        if let Some(quote) = quotes.chars().find(are_in) {
            return Err(HeaderLineError::Quoted { quote });
        }
        check_names(names)
    }
}

/// The names of columns in Unicode NFC, as definitions name them.
fn check_names(names: Vec<String>) -> Result<Vec<String>, HeaderLineError> {
    let names: Vec<_> = names.into_iter().map(into_nfc).collect();
    if names.len() > MAX_COLUMNS {
        return Err(HeaderLineError::Columns { columns: names.len() });
    }
    let mut seen = HashMap::new();
    for (column, name) in (1..).zip(&names).filter(|(_, name)| !is_blank(name)) {
        if let Some(first) = seen.insert(name, column) {
            return Err(HeaderLineError::Repeated { first, second: column });
        }
    }
    Ok(names)
}

/// The rows of a table whose form is not known yet: also those of its header and the lines before it.
#[derive(Debug)]
pub struct DelimitedRows<R>(DelimitedReader<R>);

/// A row with any number of fields.
#[derive(Debug)]
pub struct DelimitedRow {
    /// Offset of the first byte in the payload.
    pub offset: u64,
    pub fields: Result<Vec<String>, RawRecordError>,
}

impl<R: Read> DelimitedRows<R> {
    /// Begins to read the rows after the lines that `form` skips. Its names of columns are not used.
    ///
    /// # Errors
    /// A fault before the first row. Later faults are items of the iterator.
    pub fn open(reader: R, form: TableForm<'_>, limits: SliceLimits) -> Result<Self, PayloadSliceError> {
        let input = PayloadInput::open(reader, limits.max_record_bytes)?;
        DelimitedReader::before_header(input, form).map(Self)
    }
}

impl<R: Read> Iterator for DelimitedRows<R> {
    type Item = Result<DelimitedRow, PayloadSliceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = &mut self.0;
        let row = reader.row().transpose()?;
        Some(row.map(|(offset, bytes)| {
            let fields = reader.row.fields(&bytes).map(|fields| fields.map(str::to_owned).collect());
            DelimitedRow { offset, fields }
        }))
    }
}
