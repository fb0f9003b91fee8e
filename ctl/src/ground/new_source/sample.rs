//! The beginning of a payload: its compression, its encoding, its format, and its first records.

use super::columns::SampleColumn;
use super::identity::find_columns;
use super::record_list::{CARRIAGE_RETURNS, begins_with_line, find_json_format};
use super::remark::SourceRemark;
use super::table::{find_table, unpivot_measured};
use crate::ground::parquet::{omitted_columns, open_payload};
use domain_base::blank::is_blank;
use domain_base::raw::SourceValue;
use domain_ground::format::{ColumnUnpivot, PayloadCompression, PayloadFormat, TextEncoding};
use domain_ground::ontology::AXES_MAX;
use std::collections::HashSet;
use std::io::{self, Read};
use std::path::Path;
use store_facts::decoding::PayloadEncoding;
use store_facts::slices::{SliceLimits, slice_payload};

/// The most bytes of a file that are read.
const SAMPLE_BYTES: u64 = 4 * 1024 * 1024;
/// The most bytes of a JSON document, which is read completely.
const DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The most records of a sample.
const RECORDS_MAX: usize = 10_000;
/// The bytes by which UTF-16 without a byte-order mark is recognized.
const UTF_16_BYTES: usize = 1024;
/// Files that hold no records, by their first bytes, and the remedy. A text is compared without case.
const REFUSED: [(&[u8], &str); 17] = [
    (
        b"version https://git-lfs.github.com/spec/",
        "it is a Git LFS pointer, not the data; fetch the file, such as by `git lfs pull`",
    ),
    (b"/annex/objects/", "it is a git-annex pointer, not the data; fetch the file by `git annex get`"),
    (b"../.git/annex/objects/", "it is a git-annex pointer, not the data; fetch the file by `git annex get`"),
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"<head", HTML),
    (b"<body", HTML),
    (b"<?xml", "it is XML, which is not read; export the data as CSV, JSON or NDJSON"),
    (b"<!--", "it is HTML or XML, which is not read; export the data as CSV, JSON or NDJSON"),
    (b"%pdf-", "it is a PDF, which is not read; export the data as CSV, JSON or NDJSON"),
    (b"pk\x03\x04", "ZIP archives and spreadsheets are not read; extract the file, or save it as CSV"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet of Excel is not read; save it as CSV"),
    (b"bzh", "bzip2 is not read; decompress the file"),
    (b"\xfd7zxz", "xz is not read; decompress the file"),
    (b"7z\xbc\xaf\x27\x1c", "7z archives are not read; extract the file"),
    (b"sqlite format 3", "an SQLite database is not read; export a table as CSV"),
    (b"arrow1", "an Arrow file is not read; convert it to Parquet"),
];
const HTML: &str = "it is an HTML page, not the data: probably the address leads to a page for readers or to an error; download the file \
                    that the page links to";

/// The beginning of a payload.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) compression: Option<PayloadCompression>,
    pub(super) encoding: TextEncoding,
    pub(super) format: PayloadFormat,
    /// For an unpivoted table, the format in which the names of the columns are periods; `Some(None)` for the canonical one.
    pub(super) period: Option<Option<&'static str>>,
    pub(super) records: Vec<SourceValue>,
    /// Whether the sample has all records of the file.
    pub(super) is_whole: bool,
    /// Remarks on the format.
    pub(super) remarks: Vec<SourceRemark>,
    /// Columns of the file that no record has.
    pub(super) omitted: Vec<String>,
}

/// The text of the beginning of a file.
struct SampleText {
    compression: Option<PayloadCompression>,
    encoding: TextEncoding,
    text: String,
    is_json: bool,
    is_whole: bool,
    remarks: Vec<SourceRemark>,
}

impl Sample {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// The file cannot be read, holds no records, or has no format that can be recognized.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let SampleText { compression, encoding, text, is_json, is_whole, mut remarks } =
            SampleText::read(file)?;
        let (mut format, mut period) = match is_json {
            true => {
                let (format, remark) = find_json_format(&text)?;
                remarks.extend(remark);
                (format, None)
            }
            false => {
                let table = find_table(&text)?;
                remarks.extend(table.remarks);
                (table.format, table.period)
            }
        };
        let (mut records, columns) = read_records(&format, &text)?;
        if let Some(columns) = columns.as_ref().filter(|columns| columns.len() > AXES_MAX) {
            let unpivot = unpivot_wide(columns, &records)?;
            let selected = unpivot.compile()?;
            let count = columns.iter().filter(|name| selected.is_match(name)).count();
            remarks.push(SourceRemark::Unpivoted { columns: count });
            set_unpivot(&mut format, unpivot);
            period = None;
            records = read_records(&format, &text)?.0;
        }
        let is_whole = is_whole && records.len() < RECORDS_MAX;
        if records.len() == 1 {
            remarks.push(SourceRemark::OneRecord);
        }
        if !is_whole {
            remarks.push(SourceRemark::PartialSample { records: records.len() });
        }
        let unnamed = columns.unwrap_or_default();
        let unnamed = (1..).zip(unnamed).filter(|(_, name)| is_blank(name));
        let mut omitted: Vec<_> =
            unnamed.map(|(number, _)| format!("column {number}, without a name")).collect();
        omitted.extend(omitted_columns(file).map_err(|error| error.to_string())?);
        Ok(Self { compression, encoding, format, period, records, is_whole, remarks, omitted })
    }
}

impl SampleText {
    fn read(file: &Path) -> Result<Self, String> {
        // the caller names the file
        let unreadable = |error: io::Error| format!("the file cannot be read: {error}");
        let head = read_start(file, SAMPLE_BYTES).map_err(unreadable)?;
        let compression = match head.as_slice() {
            [0x1f, 0x8b, ..] => Some(PayloadCompression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(PayloadCompression::Zstd),
            _ => None,
        };
        let (plain, is_cut) = decode(&head, compression, TextEncoding::Utf8, DOCUMENT_BYTES)?;
        refuse(&plain)?;
        let (encoding, is_guess) = detect_encoding(&plain);
        let (text, _) = decode(&head, compression, encoding, DOCUMENT_BYTES)?;
        refuse(&text)?;
        let mut is_whole = (head.len() as u64) < SAMPLE_BYTES && !is_cut;
        let mut text = String::from_utf8_lossy(&text).into_owned();
        if text.contains('\0') {
            return Err(
                "it has NUL bytes, so it is no text; export the data as CSV, JSON, NDJSON or Parquet"
                    .to_owned(),
            );
        }
        let is_json = text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']);
        if is_json && !is_whole && !begins_with_line(&text) {
            let all = read_start(file, DOCUMENT_BYTES).map_err(unreadable)?;
            let (all_text, is_cut) = decode(&all, compression, encoding, DOCUMENT_BYTES)?;
            is_whole = (all.len() as u64) < DOCUMENT_BYTES && !is_cut;
            text = String::from_utf8_lossy(&all_text).into_owned();
        } else if !is_json && text.trim_end().contains('\r') && !text.contains('\n') {
            return Err(CARRIAGE_RETURNS.to_owned());
        } else if !is_whole {
            text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        }
        let word = || {
            let mut words =
                text.split(|character: char| !character.is_alphanumeric() && character.is_ascii());
            words.find(|word| !word.is_ascii()).unwrap_or_default().to_owned()
        };
        let remarks = match is_guess {
            true => vec![SourceRemark::EncodingGuessed { encoding, word: word() }],
            false => Vec::new(),
        };
        Ok(Self { compression, encoding, text, is_json, is_whole, remarks })
    }
}

/// The records of a text, and the columns of a table.
///
/// # Errors
/// The text has no records that can be read.
fn read_records(
    format: &PayloadFormat,
    text: &str,
) -> Result<(Vec<SourceValue>, Option<Vec<String>>), String> {
    let slices =
        slice_payload(format, text.as_bytes(), SliceLimits::default()).map_err(|error| error.to_string())?;
    let columns = slices.columns().map(<[String]>::to_vec);
    let (mut records, mut fault) = (Vec::new(), None);
    for slice in slices {
        match slice.map(|slice| slice.record) {
            Ok(Ok(record)) => records.push(record),
            Ok(Err(broken)) => drop(fault.get_or_insert(broken.to_string())),
            // the end of a sample can be within a record
            Err(error) => drop(fault.get_or_insert(error.to_string())),
        }
        if records.len() == RECORDS_MAX {
            break;
        }
    }
    match fault {
        _ if !records.is_empty() => Ok((records, columns)),
        Some(fault) => Err(format!("the file has no record that can be read: {fault}")),
        None => Err("the file has no records".to_owned()),
    }
}

/// The unpivot of a table with more columns than axes: of its numbers, or of all columns but those that identify a record.
fn unpivot_wide(columns: &[String], records: &[SourceValue]) -> Result<ColumnUnpivot, String> {
    let found = find_columns(records, None, columns.len())?;
    let names = |is_measured: &dyn Fn(&SampleColumn) -> bool| -> HashSet<&str> {
        let selected = found.columns.iter().filter(|column| is_measured(column));
        selected.filter_map(|column| column.path.last().map(String::as_str)).collect()
    };
    let numbers = names(&|column| !column.is_identity && column.form.is_number());
    let measured = if columns.len() - numbers.len() <= AXES_MAX / 2 && found.has_identity {
        numbers
    } else {
        names(&|column| !column.is_identity)
    };
    unpivot_measured(columns, &measured)
}

fn set_unpivot(format: &mut PayloadFormat, selected: ColumnUnpivot) {
    if let PayloadFormat::Csv { unpivot, .. } | PayloadFormat::Tsv { unpivot, .. } = format {
        *unpivot = Some(selected);
    }
}

/// Whether a file of this kind holds no records.
///
/// # Errors
/// The reason.
fn refuse(start: &[u8]) -> Result<(), String> {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let is_kind = |kind: &[u8]| start.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind));
    match REFUSED.iter().find(|(kind, _)| is_kind(kind)) {
        Some((_, reason)) => Err((*reason).to_owned()),
        None => Ok(()),
    }
}

fn read_start(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (payload, bar) = open_payload(file, "read", None)?;
    let mut start = Vec::new();
    payload.take(bytes_max).read_to_end(&mut start)?;
    bar.finish_and_clear();
    Ok(start)
}

/// The decoded beginning of a file, and whether it is cut off.
fn decode(
    head: &[u8],
    compression: Option<PayloadCompression>,
    encoding: TextEncoding,
    bytes_max: u64,
) -> Result<(Vec<u8>, bool), String> {
    let mut plain = Vec::new();
    let decoded =
        PayloadEncoding::new(compression, encoding).decode(head).map_err(|error| error.to_string())?;
    let read = decoded.take(bytes_max).read_to_end(&mut plain);
    let is_cut = read.is_err() || plain.len() as u64 == bytes_max;
    match read {
        Err(error) if plain.is_empty() => Err(error.to_string()),
        _ => Ok((plain, is_cut)),
    }
}

/// The encoding of a text, and whether it is a guess.
fn detect_encoding(plain: &[u8]) -> (TextEncoding, bool) {
    let start = plain.get(..UTF_16_BYTES).unwrap_or(plain);
    let nuls = |first: usize| start.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (nuls(0), nuls(1));
    match plain {
        [0xff, 0xfe, ..] => (TextEncoding::Utf16Le, false),
        [0xfe, 0xff, ..] => (TextEncoding::Utf16Be, false),
        // most characters of a table are ASCII
        _ if even == 0 && odd * 4 > start.len() => (TextEncoding::Utf16Le, true),
        _ if odd == 0 && even * 4 > start.len() => (TextEncoding::Utf16Be, true),
        // the sample can end within a character
        plain if str::from_utf8(plain).is_err_and(|error| error.error_len().is_some()) => {
            (TextEncoding::Latin1, true)
        }
        _ => (TextEncoding::Utf8, false),
    }
}
