//! The beginning of a payload: its compression, its encoding, its format, and its first records.

use super::columns::SampleColumn;
use super::remark::SourceRemark;
use super::table::{find_table, unpivot_measured};
use crate::ground::new_source::columns::{TableHints, find_columns};
use crate::ground::parquet::{is_parquet, omitted_columns, open_payload};
use domain_base::raw::SourceValue;
use domain_base::text_form::is_blank;
use domain_ground::format::payload_kind::{compression_of, foreign_kind, utf_16_of};
use domain_ground::format::{ColumnUnpivot, PayloadCompression, PayloadFormat, RecordsPath, TextEncoding};
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
/// Bytes that Windows-1252 does not have.
const NOT_WINDOWS_1252: [u8; 5] = [0x81, 0x8d, 0x8f, 0x90, 0x9d];
/// The refusal of a text in an encoding that is not read.
const OTHER_ENCODING: &str = "it is not UTF-8, and has bytes that Windows-1252 (`latin-1`) does not have, so it has another encoding; convert it \
                              to UTF-8, such as by `iconv -f cp850 -t utf-8 FILE`, `-f windows-1250`, `-f shift_jis` or `-f gb18030`";

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
        if head.is_empty() && is_parquet(file).map_err(unreadable)? {
            return Err("the Parquet file has no rows; name a file with at least one".to_owned());
        }
        let compression = compression_of(&head);
        let (plain, is_cut) = decode(&head, compression, TextEncoding::Utf8, DOCUMENT_BYTES)?;
        refuse(&plain)?;
        let (encoding, is_guess) = detect_encoding(&plain)?;
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
    let found = find_columns(records, TableHints::default(), columns.len())?;
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

/// # Errors
/// A file of this kind holds no records.
fn refuse(start: &[u8]) -> Result<(), String> {
    foreign_kind(start).map_or(Ok(()), |reason| Err(reason.to_owned()))
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
///
/// # Errors
/// It is none of those that are read.
fn detect_encoding(plain: &[u8]) -> Result<(TextEncoding, bool), String> {
    if let Some(found) = utf_16_of(plain) {
        return Ok(found);
    }
    // the sample can end within a character
    let is_utf_8 = !str::from_utf8(plain).is_err_and(|error| error.error_len().is_some());
    match plain.iter().any(|byte| NOT_WINDOWS_1252.contains(byte)) {
        _ if is_utf_8 => Ok((TextEncoding::Utf8, false)),
        true => Err(OTHER_ENCODING.to_owned()),
        false => Ok((TextEncoding::Latin1, true)),
    }
}

/// The deepest list of records in a JSON document.
const DEPTH_MAX: usize = 4;
/// The `jq` filter that turns columns into records.
const COLUMNS_TO_RECORDS: &str = "[to_entries[] | [.key, .value[]]] | transpose | .[0] as $names | .[1:][] | [$names, .] | transpose | map({(.[0]): .[1]}) | add";

/// A list or an object that can hold the records.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FoundList {
    /// The steps to it.
    steps: Vec<String>,
    shape: ListShape,
    /// The number of its records.
    records: usize,
}

/// How a JSON document writes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListShape {
    /// A list of objects, as it is read.
    Objects,
    /// A list of lists, whose names stand elsewhere or in the first of them.
    Rows,
    /// An object of lists of the same length, or of objects with the same numbers as names.
    Columns,
    /// An object whose members are similar objects; their names identify the records.
    Keyed,
}

/// The format of a JSON document or of lines with JSON, and the guesses in it.
///
/// # Errors
/// The document has no records that can be read.
fn find_json_format(text: &str) -> Result<(PayloadFormat, Option<SourceRemark>), String> {
    if begins_with_line(text) {
        return Ok((PayloadFormat::Ndjson, None));
    }
    let text = text.trim_start_matches('\u{feff}');
    let document = match SourceValue::parse(text.as_bytes()) {
        Ok(document) => document,
        // lines in which only some are broken, or that end in carriage returns only
        Err(error) => return Err(unreadable(text, &error.to_string())),
    };
    let is_dataset = |name: &str| document.get(name).is_some();
    if is_dataset("dimension") && is_dataset("value") && is_dataset("size") {
        return Err("it is JSON-stat, which is not read; get the data as CSV".to_owned());
    }
    let mut found = Vec::new();
    collect(&document, &mut Vec::new(), &mut found);
    let has_objects = found.iter().any(|list| list.shape == ListShape::Objects);
    // the members of an object can also be parts of one record
    found.retain(|list| list.shape != ListShape::Keyed || !has_objects);
    let Some(chosen) = found.iter().rev().max_by_key(|list| list.records).cloned() else {
        return one_record(&document);
    };
    if chosen.shape != ListShape::Objects {
        let has_fields = document.members().iter().any(|(_, value)| is_single(value));
        let is_line =
            matches!(chosen.shape, ListShape::Keyed) && has_fields && text.trim().lines().count() == 1;
        return if is_line { Ok((PayloadFormat::Ndjson, None)) } else { Err(chosen.refusal()) };
    }
    let others = found.iter().filter(|list| list.shape == ListShape::Objects && **list != chosen);
    let others: Vec<_> = others.map(FoundList::pointer).collect();
    let remark = (!others.is_empty()).then(|| SourceRemark::OtherLists { chosen: chosen.pointer(), others });
    let records = RecordsPath::try_from(chosen.pointer()).map_err(|error| error.to_string())?;
    Ok((PayloadFormat::Json { records }, remark))
}

/// Whether the first of several lines that are not blank is a JSON object.
fn begins_with_line(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_object = lines.next().is_some_and(|line| SourceValue::parse_object(line.as_bytes()).is_ok());
    is_object && lines.next().is_some()
}

/// A document that is one record, which only a line can be.
fn one_record(document: &SourceValue) -> Result<(PayloadFormat, Option<SourceRemark>), String> {
    match document {
        SourceValue::Object(members) if !members.is_empty() => Ok((PayloadFormat::Ndjson, None)),
        _ => Err("the JSON document has no list of objects, whose items would be the records".to_owned()),
    }
}

fn unreadable(text: &str, fault: &str) -> String {
    let has_ends = text.trim().contains('\r') && !text.contains('\n');
    let lines = || text.split(['\r', '\n']).map(str::trim).filter(|line| !line.is_empty());
    let is_line = |line: &str| SourceValue::parse_object(line.as_bytes()).is_ok();
    match has_ends && lines().all(is_line) {
        true => CARRIAGE_RETURNS.to_owned(),
        false => format!("it begins like JSON, and cannot be read: {fault}"),
    }
}

/// The refusal of a file with line ends of old systems.
const CARRIAGE_RETURNS: &str = "its lines end in carriage returns without line feeds, which no format reads; convert it, such as by \
                                           `tr '\\r' '\\n' < FILE`";

const fn is_single(value: &SourceValue) -> bool {
    !matches!(value, SourceValue::List(_) | SourceValue::Object(_))
}

fn collect(value: &SourceValue, steps: &mut Vec<String>, found: &mut Vec<FoundList>) {
    let shape = ListShape::of(value);
    if let Some((shape, records)) = shape {
        found.push(FoundList { steps: steps.clone(), shape, records });
    }
    // lists within one of many records are parts of it
    if steps.len() == DEPTH_MAX || shape.is_some_and(|(_, records)| records > 1) {
        return;
    }
    let items = value.items().iter().enumerate().map(|(index, item)| (index.to_string(), item));
    let members = value.members().iter().map(|(name, member)| (name.clone(), member));
    for (step, inner) in items.chain(members) {
        steps.push(step);
        collect(inner, steps, found);
        steps.pop();
    }
}

impl ListShape {
    /// The shape of a value that can hold records, and their number.
    fn of(value: &SourceValue) -> Option<(Self, usize)> {
        let is_object = |value: &SourceValue| matches!(value, SourceValue::Object(_));
        let is_flat = |value: &SourceValue| matches!(value, SourceValue::List(items) if !items.is_empty() && items.iter().all(is_single));
        let size = |value: &SourceValue| value.items().len().max(value.members().len());
        match value {
            SourceValue::List(items) if items.is_empty() => None,
            SourceValue::List(items) if items.iter().all(is_object) => Some((Self::Objects, items.len())),
            SourceValue::List(items) if items.iter().all(is_flat) => Some((Self::Rows, items.len())),
            SourceValue::Object(members) if members.len() > 1 => {
                let (_, first) = members.first()?;
                let is_column = |value: &SourceValue| {
                    let names = value.members().iter().zip(0_usize..);
                    let is_numbered = is_object(value)
                        && names
                            .clone()
                            .all(|((name, item), number)| *name == number.to_string() && is_single(item));
                    size(value) == size(first) && size(value) > 0 && (is_flat(value) || is_numbered)
                };
                if members.iter().all(|(_, value)| is_column(value)) {
                    return Some((Self::Columns, size(first)));
                }
                let is_similar = |value: &SourceValue| {
                    let shared = value.members().iter().filter(|(name, _)| first.get(name).is_some()).count();
                    shared * 2 > size(first).max(size(value))
                };
                let is_keyed = members.iter().all(|(_, value)| is_object(value) && is_similar(value));
                is_keyed.then_some((Self::Keyed, members.len()))
            }
            _ => None,
        }
    }
}

impl FoundList {
    /// The JSON Pointer.
    fn pointer(&self) -> String {
        self.steps.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
    }

    /// Why it is not read, and how to convert it.
    fn refusal(&self) -> String {
        let (what, filter) = match self.shape {
            ListShape::Rows => ("is a list of lists without names", ".[] | @csv"),
            ListShape::Columns => ("has a list of values for each column", COLUMNS_TO_RECORDS),
            ListShape::Objects | ListShape::Keyed => {
                ("is an object whose members are the records", "to_entries[] | {_key: .key} + .value")
            }
        };
        let option = if self.shape == ListShape::Rows { "-r" } else { "-c" };
        let at = match self.pointer().as_str() {
            "" => "the JSON document".to_owned(),
            pointer => format!("`{pointer}` of the JSON document"),
        };
        let step = |step: &String| match step.parse::<usize>() {
            Ok(index) => format!("[{index}]"),
            Err(_) => format!("[{}]", serde_json::Value::from(step.as_str())),
        };
        let path = self.steps.iter().map(step).collect::<String>();
        let path = if path.is_empty() { String::new() } else { format!(".{path} | ") };
        let ending = if self.shape == ListShape::Rows { "csv" } else { "ndjson" };
        format!(
            "{at} {what}, which no format reads; convert it, such as by `jq {option} '{path}{filter}' FILE > NEW.{ending}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(text: &str) -> Result<String, String> {
        find_json_format(text).map(|(format, _)| match format {
            PayloadFormat::Json { records } => records.as_str().to_owned(),
            _ => "lines".to_owned(),
        })
    }

    #[test]
    fn records_are_found_in_lines_and_in_the_largest_list() {
        for (text, expected) in [
            ("{\"a\":1}\n{\"a\":2}\n", "lines"),
            ("\u{feff}{\"a\":1}\n{\"a\":2}\n", "lines"),
            ("\u{feff}{\"a\":1}", "lines"),
            ("\u{feff}{\"a\":[{\"b\":1}]}", "/a"),
            ("\u{feff}[{\"a\":1}]", ""),
            ("{\n\"a/b\": [{\"c\":1}]\n}", "/a~1b"),
            ("[{\"page\":1},[{\"v\":1},{\"v\":2}]]", "/1"),
            ("{\"schema\":{\"fields\":[{\"n\":1}]},\"data\":[{\"v\":1},{\"v\":2}]}", "/data"),
            ("{\"results\":[{\"rows\":[{\"v\":1},{\"v\":2}]}]}", "/results/0/rows"),
            ("{\"base\":\"EUR\",\"rates\":{\"USD\":1.1,\"CHF\":0.9}}", "lines"),
            ("{\"id\":1,\"parts\":{\"x\":{\"v\":1},\"y\":{\"v\":2}}}", "lines"),
            (
                "{\"meta\":{\"name\":\"x\",\"count\":2},\"data\":{\"name\":\"y\",\"rows\":[{\"v\":1}]}}",
                "/data/rows",
            ),
        ] {
            assert_eq!(pointer(text).as_deref(), Ok(expected), "{text:?}");
        }
        let (_, remark) =
            find_json_format("{\"a\":[{\"v\":1}],\"b\":[{\"v\":1},{\"v\":2}]}").expect("a list");
        let lists = SourceRemark::OtherLists { chosen: "/b".to_owned(), others: vec!["/a".to_owned()] };
        assert_eq!(remark, Some(lists));
    }

    #[test]
    fn document_without_a_list_of_objects_is_refused_with_its_remedy() {
        for (text, remedy) in [
            ("{\"a\":{\"v\":1},\"b\":{\"v\":2}}", "jq -c 'to_entries[] | "),
            ("{\"data\":{\"a\":{\"v\":1},\"b\":{\"v\":2}}}", "jq -c '.[\"data\"] | to_entries[] | "),
            (
                "{\n\"id\":1,\"data\":{\"a\":{\"v\":1},\"b\":{\"v\":2}}}",
                "jq -c '.[\"data\"] | to_entries[] | ",
            ),
            ("{\"a\":{\"tags\":[{\"x\":1}],\"v\":1},\"b\":{\"tags\":[],\"v\":2}}", "jq -c 'to_entries[] | "),
            ("{\"id\":[1,2],\"v\":[3,4]}", "transpose"),
            ("{\"id\":{\"0\":1,\"1\":2},\"v\":{\"0\":3,\"1\":4}}", "transpose"),
            ("{\"columns\":[\"id\",\"v\"],\"data\":[[1,3],[2,4],[5,6]]}", "jq -r '.[\"data\"] | .[] | @csv'"),
            (
                "{\"meta\":{\"columns\":[{\"n\":1}]},\"data\":[[1,3],[2,4]]}",
                "jq -r '.[\"data\"] | .[] | @csv'",
            ),
            ("[[\"id\",\"v\"],[1,3]]", "jq -r '.[] | @csv'"),
            ("{\"id\":[\"geo\"],\"size\":[1],\"dimension\":{},\"value\":[1]}", "as CSV"),
            ("{\"a\":1}\r{\"a\":2}\r", "tr '\\r' '\\n'"),
            ("[1,2]", "no list of objects"),
            ("{}", "no list of objects"),
            ("{\"a\":1,}", "cannot be read"),
        ] {
            let refused = pointer(text).expect_err("no records");
            assert!(refused.contains(remedy), "{text}: {refused}");
        }
    }
}
