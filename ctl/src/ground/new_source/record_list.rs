//! The records of a JSON document: which of its lists they are, and why it has none.

use super::remark::SourceRemark;
use domain_base::raw::SourceValue;
use domain_ground::format::{PayloadFormat, RecordsPath};

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
pub(super) fn find_json_format(text: &str) -> Result<(PayloadFormat, Option<SourceRemark>), String> {
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
pub(super) fn begins_with_line(text: &str) -> bool {
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
pub(super) const CARRIAGE_RETURNS: &str = "its lines end in carriage returns without line feeds, which no format reads; convert it, such as by \
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
