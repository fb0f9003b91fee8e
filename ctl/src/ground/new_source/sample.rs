//! The beginning of a payload: its compression, its encoding, its format, and its first records.

use super::table::find_table;
use crate::ground::parquet_rows::open_payload;
use oracled_domain::base::raw::SourceValue;
use oracled_domain::ground::format::{PayloadCompression, PayloadFormat, RecordsPath, TextEncoding};
use oracled_store::ground::decoding::PayloadEncoding;
use oracled_store::ground::slices::{SliceLimits, slice_payload};
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a file that are read.
const SAMPLE_BYTES: u64 = 4 * 1024 * 1024;
/// The most bytes of a JSON document, which is read completely.
const DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The most records of a sample.
const RECORDS_MAX: usize = 10_000;
/// The deepest list of records in a JSON document.
const DEPTH_MAX: usize = 4;

/// The beginning of a payload.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) compression: Option<PayloadCompression>,
    pub(super) encoding: TextEncoding,
    pub(super) format: PayloadFormat,
    /// For an unpivoted table, the format in which the names of the columns are periods.
    pub(super) period: Option<&'static str>,
    pub(super) records: Vec<SourceValue>,
    /// Whether the sample has all records of the file.
    pub(super) is_whole: bool,
}

impl Sample {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no format that can be recognized.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        // the caller names the file
        let unreadable = |error: io::Error| format!("the file cannot be read: {error}");
        let head = read_start(file, SAMPLE_BYTES).map_err(unreadable)?;
        let compression = match head.as_slice() {
            [0x1f, 0x8b, ..] => Some(PayloadCompression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(PayloadCompression::Zstd),
            [b'P', b'K', ..] => {
                return Err(
                    "ZIP archives and spreadsheets are not read; extract the file, or save it as CSV"
                        .to_owned(),
                );
            }
            _ => None,
        };
        let (plain, is_cut) = decode(&head, compression, TextEncoding::Utf8, DOCUMENT_BYTES)?;
        let encoding = detect_encoding(&plain);
        let (text, _) = decode(&head, compression, encoding, DOCUMENT_BYTES)?;
        let mut is_whole = (head.len() as u64) < SAMPLE_BYTES && !is_cut;
        let mut text = String::from_utf8_lossy(&text).into_owned();
        let is_json = text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']);
        if is_json && !is_whole && !is_lines(&text) {
            let all = read_start(file, DOCUMENT_BYTES).map_err(unreadable)?;
            let (all_text, is_cut) = decode(&all, compression, encoding, DOCUMENT_BYTES)?;
            is_whole = (all.len() as u64) < DOCUMENT_BYTES && !is_cut;
            text = String::from_utf8_lossy(&all_text).into_owned();
        } else if !is_whole {
            text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        }
        let (format, period) = match is_json {
            true if is_lines(&text) => (PayloadFormat::Ndjson, None),
            true => (PayloadFormat::Json { records: find_list(&text)? }, None),
            false => find_table(&text)?,
        };
        let slices = slice_payload(&format, text.as_bytes(), SliceLimits::default());
        let slices = slices.map_err(|error| error.to_string())?;
        let records: Vec<_> =
            slices.map_while(Result::ok).filter_map(|slice| slice.record.ok()).take(RECORDS_MAX).collect();
        if records.is_empty() {
            return Err("the file has no records".to_owned());
        }
        is_whole &= records.len() < RECORDS_MAX;
        Ok(Self { compression, encoding, format, period, records, is_whole })
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
    match read {
        Err(error) if plain.is_empty() => Err(error.to_string()),
        read => Ok((plain.clone(), read.is_err() || plain.len() as u64 == bytes_max)),
    }
}

fn detect_encoding(plain: &[u8]) -> TextEncoding {
    match plain {
        [0xff, 0xfe, ..] => TextEncoding::Utf16Le,
        [0xfe, 0xff, ..] => TextEncoding::Utf16Be,
        // the sample can end within a character
        plain if str::from_utf8(plain).is_err_and(|error| error.error_len().is_some()) => {
            TextEncoding::Latin1
        }
        _ => TextEncoding::Utf8,
    }
}

/// Whether the first line that is not blank is a JSON object.
fn is_lines(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    SourceValue::parse_object(first.as_bytes()).is_ok()
        // one document on one line is a list of records if it has one
        && (text.trim().lines().count() > 1 || find_list(text).is_err())
}

/// The path of the first list of objects in a JSON document.
fn find_list(text: &str) -> Result<RecordsPath, String> {
    let document = SourceValue::parse(text.trim_start_matches('\u{feff}').as_bytes())
        .map_err(|error| error.to_string())?;
    let path = list_in(&document, String::new(), 0);
    let path = path.ok_or("the JSON document has no list of objects, whose items would be the records")?;
    RecordsPath::try_from(path).map_err(|error| error.to_string())
}

fn list_in(value: &SourceValue, path: String, depth: usize) -> Option<String> {
    let is_object = |item: &SourceValue| matches!(item, SourceValue::Object(_));
    match value {
        SourceValue::List(items) if !items.is_empty() && items.iter().all(is_object) => Some(path),
        _ if depth == DEPTH_MAX => None,
        SourceValue::List(items) => (0..)
            .zip(items)
            .find_map(|(index, item): (usize, _)| list_in(item, format!("{path}/{index}"), depth + 1)),
        SourceValue::Object(members) => members.iter().find_map(|(name, member)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            list_in(member, format!("{path}/{name}"), depth + 1)
        }),
        _ => None,
    }
}
