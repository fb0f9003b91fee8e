//! The form of a table: its delimiter, its comments, its header, and columns that are periods.

use super::notation::{is_missing, is_number, is_number_like, is_season};
use super::remark::SourceRemark;
use domain_base::text_form::{into_nfc, is_blank};
use domain_base::wording::compile_pattern;
use domain_ground::format::{ColumnUnpivot, CommentMark, CsvDelimiter, PayloadFormat, TableForm};
use domain_ground::ontology::AXES_MAX;
use std::collections::{HashMap, HashSet};
use store_facts::slices::{DelimitedRows, SliceLimits};

/// The rows by which the form is recognized.
const ROWS: usize = 500;
/// The marks of comments that are recognized at the beginning of a file.
const COMMENT_MARKS: [&str; 4] = ["#", "//", "%", "!"];
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];
/// Columns that are named by periods: their pattern, the name of the new field, and the format of the periods, if it is not the
/// canonical one.
const PERIODS: [(&str, &str, Option<&str>); 7] = [
    ("[0-9]{4}", "Year", None),
    (r"[0-9]{4} \[YR[0-9]{4}\]", "Year", Some(BRACKETED_YEAR)),
    ("[0-9]{4}-[0-9]{2}", "Month", None),
    ("[0-9]{4}M[0-9]{2}", "Month", Some("%YM%m")),
    ("[0-9]{4}-Q[1-4]", "Quarter", None),
    ("[0-9]{4}Q[1-4]", "Quarter", Some("%YQ%q")),
    ("[0-9]{4} Q[1-4]", "Quarter", Some("%Y Q%q")),
];
/// The years of the World Bank's DataBank. A column with such a name can be nothing else.
const BRACKETED_YEAR: &str = "%Y [YR%Y]";
/// The fewest columns that make a table wide.
const WIDE_COLUMNS: usize = 3;
/// The part of the cells of a column that must be numbers or dates, so that its header can be recognized.
const TYPED_PARTS: (usize, usize) = (9, 10);

/// The form of a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundTable {
    pub(super) format: PayloadFormat,
    /// The format of the names of unpivoted columns if they are periods; `Some(None)` for the canonical form.
    pub(super) period: Option<Option<&'static str>>,
    pub(super) remarks: Vec<SourceRemark>,
}

/// A row of the sample.
#[derive(Debug)]
struct TableRow {
    /// The number of lines before it.
    line: usize,
    fields: Vec<String>,
}

/// The columns that become records of their own, with the format of their names if they are periods.
type FoundPeriods = (ColumnUnpivot, Option<Option<&'static str>>);

/// The form of a table.
///
/// # Errors
/// It has no header, or no form that can be read.
pub(super) fn find_table(text: &str) -> Result<FoundTable, String> {
    let text = text.trim_start_matches('\u{feff}');
    let named = named_delimiter(text);
    let mut remarks = Vec::new();
    let is_blank_row = |line: &&str, delimiters: &[char]| {
        line.chars().all(|character| character.is_whitespace() || delimiters.contains(&character))
    };
    let mut lines = text.lines().skip(usize::from(named.is_some()));
    let first = lines.find(|line| !is_blank_row(line, &DELIMITERS));
    let first = first.ok_or("the file has no header line")?;
    let mark = COMMENT_MARKS.into_iter().find(|mark| first.starts_with(mark));
    let comment = mark.and_then(|mark| CommentMark::try_from(mark.to_owned()).ok());
    let (delimiter, quote, rows) = find_delimiter(text, named, comment.as_ref())?;
    let mut header = find_header(&rows)?;
    if let (Some(mark), true) = (mark, header.has_uncertain_names())
        && let Some(names) = commented_names(text, mark, delimiter, header.first_line, header.fields)
    {
        // the last comment is the header
        header = FoundHeader { line: names.0, names: names.1, kind: HeaderKind::Line, ..header };
    } else {
        remarks.extend(mark.map(|mark| SourceRemark::CommentLines { mark: mark.to_owned() }));
    }
    let is_comment = |line: &&str| comment.as_ref().is_some_and(|mark| line.starts_with(mark.as_str()));
    let skipped: Vec<_> = text
        .lines()
        .take(header.line)
        .skip(usize::from(named.is_some()))
        .filter(|line| !is_blank_row(line, &[delimiter.into()]))
        .collect();
    let has_other_lines = !skipped.iter().all(is_comment) || header.is_comment(mark);
    if let Some(first) = skipped.first().filter(|_| has_other_lines) {
        let count = u16::try_from(header.line).map_err(|error| error.to_string())?;
        remarks.push(SourceRemark::LinesSkipped { count, first: (*first).to_owned() });
    }
    // comments are skipped as such, whatever their number
    let to_header = if has_other_lines { header.line } else { usize::from(named.is_some()) };
    let comment = comment.filter(|_| !header.is_comment(mark));
    let (columns, skipped, of_header) = header.columns(to_header);
    remarks.extend(of_header);
    let skip_lines = u16::try_from(skipped).map_err(|error| error.to_string())?;
    let wide = find_periods(&header.names);
    let period = wide.as_ref().and_then(|(_, period)| *period);
    let unpivot = wide.map(|(unpivot, _)| unpivot);
    if let Some(unpivot) = &unpivot {
        let columns = compile_pattern(&unpivot.columns)
            .map_or(0, |pattern| header.names.iter().filter(|name| pattern.is_match(name)).count());
        remarks.push(SourceRemark::Unpivoted { columns });
    }
    let format = if delimiter == CsvDelimiter::TAB && !quote {
        PayloadFormat::Tsv { skip_lines, comment, columns, unpivot }
    } else {
        PayloadFormat::Csv { delimiter, quote, skip_lines, comment, columns, unpivot }
    };
    Ok(FoundTable { format, period, remarks })
}

/// The delimiter of a first line such as `sep=;`, as spreadsheets write it.
fn named_delimiter(text: &str) -> Option<CsvDelimiter> {
    let line = text.lines().next()?.trim_matches(|character: char| character == '"' || character == '\r');
    let mut rest = line.strip_prefix("sep=").or_else(|| line.strip_prefix("SEP="))?.chars();
    let delimiter = CsvDelimiter::try_from(rest.next()?).ok()?;
    rest.next().is_none().then_some(delimiter)
}

/// The delimiter by which most rows have the same number of fields, whether it has quotes, and its rows.
fn find_delimiter(
    text: &str,
    named: Option<CsvDelimiter>,
    comment: Option<&CommentMark>,
) -> Result<(CsvDelimiter, bool, Vec<TableRow>), String> {
    let given: Vec<_> = match named {
        Some(delimiter) => vec![delimiter],
        None => {
            DELIMITERS.into_iter().filter_map(|character| CsvDelimiter::try_from(character).ok()).collect()
        }
    };
    let read = |delimiter: CsvDelimiter| {
        let quote = delimiter != CsvDelimiter::TAB || text.contains('"');
        let skip_lines = u16::from(named.is_some());
        let form = TableForm { delimiter, quote, skip_lines, comment, columns: &[], unpivot: None };
        read_rows(text, form).map(|rows| (delimiter, quote, rows))
    };
    // by another delimiter than its own, a row with quotes is broken
    let (mut candidates, mut fault) = (Vec::new(), None);
    for candidate in given.into_iter().map(read) {
        match candidate {
            Ok(candidate) => candidates.push(candidate),
            Err(cause) => drop(fault.get_or_insert(cause)),
        }
    }
    if let Some(fault) = fault.filter(|_| candidates.is_empty()) {
        return Err(fault);
    }
    let score = |rows: &[TableRow]| {
        usual_fields(rows).filter(|(count, _)| *count > 1).map(|(count, rows)| (rows, count))
    };
    let best = candidates.iter().enumerate().filter_map(|(index, (_, _, rows))| Some((score(rows)?, index)));
    let best = best.max_by_key(|(score, index)| (*score, usize::MAX - index)).map(|(_, index)| index);
    if best.is_none() {
        refuse_aligned_columns(text)?;
    }
    // without a delimiter, a table with one column
    candidates.into_iter().nth(best.unwrap_or(0)).ok_or_else(|| "the file has no rows".to_owned())
}

/// The first rows.
///
/// # Errors
/// No row can be read.
fn read_rows(text: &str, form: TableForm<'_>) -> Result<Vec<TableRow>, String> {
    let mut rows = Vec::new();
    let mut fault = None;
    let (mut line, mut done) = (0, 0);
    let found = DelimitedRows::open(text.as_bytes(), form, SliceLimits::default());
    for row in found.map_err(|error| error.to_string())?.take(ROWS) {
        match row.map(|row| (usize::try_from(row.offset), row.fields)) {
            Ok((Ok(offset), Ok(fields))) => {
                let before = text.as_bytes().get(done..offset).unwrap_or_default();
                line += before.iter().filter(|byte| **byte == b'\n').count();
                done = offset;
                rows.push(TableRow { line, fields: fields.into_iter().map(into_nfc).collect() });
            }
            Ok((_, Err(broken))) => drop(fault.get_or_insert(broken.to_string())),
            Ok((Err(_), _)) => {}
            Err(error) => drop(fault.get_or_insert(error.to_string())),
        }
    }
    match fault.filter(|_| rows.is_empty()) {
        Some(fault) => Err(format!("the file has no row that can be read: {fault}")),
        None => Ok(rows),
    }
}

/// The most frequent number of fields, and the number of rows that have it.
fn usual_fields(rows: &[TableRow]) -> Option<(usize, usize)> {
    let mut rows_by_count = HashMap::new();
    for row in rows {
        *rows_by_count.entry(row.fields.len()).or_insert(0_usize) += 1;
    }
    rows_by_count.into_iter().max_by_key(|(count, rows)| (*rows, *count))
}

/// # Errors
/// The columns are aligned by spaces, which no format reads.
fn refuse_aligned_columns(text: &str) -> Result<(), String> {
    let lines: Vec<_> =
        text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).take(ROWS).collect();
    let is_aligned = |line: &&&str| line.trim().contains("  ");
    if lines.len() > 1 && lines.iter().filter(is_aligned).count() * 10 > lines.len() * 9 {
        return Err("its columns are aligned by spaces, which no format reads; convert it, such as by `tr -s ' ' ',' < FILE`".to_owned());
    }
    Ok(())
}

/// The header of a table.
#[derive(Debug)]
struct FoundHeader {
    /// The number of lines before it; without a header line, before the first row.
    line: usize,
    /// The number of lines before the first record.
    first_line: usize,
    /// The names of the columns, one for each field of a row.
    names: Vec<String>,
    /// The usual number of fields of a row.
    fields: usize,
    kind: HeaderKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderKind {
    /// A line that is read as the header.
    Line,
    /// A line that is a header or a record.
    Uncertain,
    /// A line with this number of names, which is not the number of fields.
    OtherLength(usize),
    /// The rows have one blank field more, since each ends with a delimiter.
    Trailing,
    None,
}

impl FoundHeader {
    const fn has_uncertain_names(&self) -> bool {
        matches!(self.kind, HeaderKind::Uncertain | HeaderKind::None)
    }

    fn is_comment(&self, mark: Option<&str>) -> bool {
        mark.is_some_and(|mark| self.names.first().is_some_and(|name| name.starts_with(mark)))
    }

    /// The names that the format must have in place of the header, the lines before the header or the first record, and a remark.
    fn columns(&self, to_header: usize) -> (Vec<String>, usize, Option<SourceRemark>) {
        let repeated = {
            let mut seen = HashSet::new();
            self.names.iter().find(|name| !is_blank(name) && !seen.insert(*name))
        };
        match self.kind {
            HeaderKind::Line | HeaderKind::Uncertain if repeated.is_none() => {
                let is_uncertain = self.kind == HeaderKind::Uncertain;
                (Vec::new(), to_header, is_uncertain.then_some(SourceRemark::HeaderUncertain))
            }
            HeaderKind::Trailing if repeated.is_none() => (Vec::new(), to_header, None),
            HeaderKind::OtherLength(names) => {
                let remark = SourceRemark::HeaderLength { names, fields: self.fields };
                (unique(&self.names), self.first_line, Some(remark))
            }
            HeaderKind::None => (unique(&self.names), to_header, Some(SourceRemark::NoHeader)),
            _ => {
                let remark = repeated.map(|name| SourceRemark::RepeatedName { name: name.clone() });
                (unique(&self.names), self.first_line, remark)
            }
        }
    }
}

/// The names, of which no two are the same.
fn unique(names: &[String]) -> Vec<String> {
    let mut seen: HashSet<String> = HashSet::new();
    let free = |name: &String| {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut names = [name.clone()].into_iter().chain(numbered);
        let free = names.find(|name| is_blank(name) || !seen.contains(name)).unwrap_or_default();
        seen.insert(free.clone());
        free
    };
    names.iter().map(free).collect()
}

/// Finds the header above the rows with the usual number of fields.
fn find_header(rows: &[TableRow]) -> Result<FoundHeader, String> {
    let (fields, _) = usual_fields(rows).ok_or("the file has no header line")?;
    let at = rows.iter().position(|row| row.fields.len() == fields).ok_or("the file has no header line")?;
    let first = rows.get(at).ok_or("the file has no header line")?;
    let body: Vec<_> = rows.iter().skip(at + 1).filter(|row| row.fields.len() == fields).collect();
    let next_line = |index: usize| rows.get(index + 1).map_or(first.line + 1, |row| row.line);
    let (has_record, is_certain) = match first_row(first, &body) {
        FirstRow::Header => (false, true),
        FirstRow::Unknown => (false, false),
        FirstRow::Record => (true, true),
    };
    if !has_record {
        let kind = if is_certain { HeaderKind::Line } else { HeaderKind::Uncertain };
        let names = first.fields.clone();
        return Ok(FoundHeader { line: first.line, first_line: next_line(at), names, fields, kind });
    }
    let before = at.checked_sub(1).and_then(|before| rows.get(before)).filter(|row| is_header(row));
    let Some(header) = before else {
        let names = (1..=fields).map(|number| format!("column_{number}")).collect();
        let (line, kind) = (first.line, HeaderKind::None);
        return Ok(FoundHeader { line, first_line: first.line, names, fields, kind });
    };
    let count = header.fields.len();
    let is_last_blank = |row: &&TableRow| row.fields.last().is_some_and(|last| is_blank(last));
    let ends_in_delimiter =
        count + 1 == fields && [first].into_iter().chain(body).all(|row| is_last_blank(&row));
    let mut names = header.fields.clone();
    let kind = if ends_in_delimiter { HeaderKind::Trailing } else { HeaderKind::OtherLength(count) };
    if kind != HeaderKind::Trailing {
        names.truncate(fields);
        names.extend((count + 1..=fields).map(|number| format!("column_{number}")));
    }
    Ok(FoundHeader { line: header.line, first_line: first.line, names, fields, kind })
}

/// Whether the cells of a row can be names of columns.
fn is_header(row: &TableRow) -> bool {
    let names: Vec<_> = row.fields.iter().filter(|field| !is_blank(field)).collect();
    let distinct: HashSet<_> = names.iter().collect();
    names.len() > 1
        && names.len() + 1 >= row.fields.len()
        && distinct.len() == names.len()
        && names.iter().all(|name| CellKind::of(name) == CellKind::Text)
}

/// The kind of the first row with the usual number of fields.
enum FirstRow {
    Header,
    Record,
    /// The table has no numbers and no dates.
    Unknown,
}

fn first_row(first: &TableRow, body: &[&TableRow]) -> FirstRow {
    if find_periods(&first.fields).is_some() {
        return FirstRow::Header;
    }
    let mut is_known = false;
    for (index, name) in first.fields.iter().enumerate() {
        let cells =
            body.iter().filter_map(|row| row.fields.get(index)).map(|cell| (CellKind::of(cell), cell));
        let cells = cells.filter(|(kind, _)| *kind != CellKind::Blank);
        let (kinds, cells): (Vec<_>, Vec<_>) = cells.unzip();
        let typed = kinds.iter().filter(|kind| **kind != CellKind::Text).count();
        if typed == 0 || typed * TYPED_PARTS.1 < kinds.len() * TYPED_PARTS.0 {
            continue;
        }
        match CellKind::of(name) {
            CellKind::Blank => {}
            CellKind::Text => return FirstRow::Header,
            // a year above other numbers
            CellKind::Year if !kinds.contains(&CellKind::Year) => return FirstRow::Header,
            // a text that begins with a number, such as 2019 [YR2019], or a day above numbers
            CellKind::Typed if is_name(name) && cells.iter().all(|cell| is_number(cell.trim())) => {
                return FirstRow::Header;
            }
            CellKind::Year | CellKind::Typed => is_known = true,
        }
    }
    if is_known { FirstRow::Record } else { FirstRow::Unknown }
}

/// Whether a cell is neither a number nor a bound such as `<0.5`.
fn is_name(cell: &str) -> bool {
    cell.trim().starts_with(char::is_alphanumeric) && !is_number(cell.trim())
}

/// Whether a cell is a number or a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    Blank,
    Text,
    Year,
    /// A number, a date or a time, also with a sign or a unit.
    Typed,
}

impl CellKind {
    fn of(cell: &str) -> Self {
        let cell = cell.trim();
        let is_year = cell.len() == 4 && cell.bytes().all(|byte| byte.is_ascii_digit());
        match is_number_like(cell) {
            _ if is_blank(cell) || is_missing(cell) => Self::Blank,
            _ if is_year && ("1000".."2300").contains(&cell) => Self::Year,
            true => Self::Typed,
            false => Self::Text,
        }
    }
}

/// The names in the last comment before the line `first_line`, if it has this number of them, with its line.
fn commented_names(
    text: &str,
    mark: &str,
    delimiter: CsvDelimiter,
    first_line: usize,
    fields: usize,
) -> Option<(usize, Vec<String>)> {
    let lines: Vec<_> = text.lines().take(first_line).collect();
    let line = lines.iter().rposition(|line| line.starts_with(mark))?;
    let form =
        TableForm { delimiter, quote: true, skip_lines: 0, comment: None, columns: &[], unpivot: None };
    let row = read_rows(lines.get(line)?, form).ok()?.into_iter().next()?;
    (row.fields.len() == fields && fields > 1 && is_header(&row)).then_some((line, row.fields))
}

/// The columns of a header that are named by periods.
fn find_periods(header: &[String]) -> Option<FoundPeriods> {
    PERIODS.into_iter().find_map(|(pattern, name, format)| {
        let whole = compile_pattern(pattern).ok()?;
        let selected: Vec<_> = header.iter().filter(|column| whole.is_match(column.trim())).collect();
        let fewest = if format == Some(BRACKETED_YEAR) { 1 } else { WIDE_COLUMNS };
        if selected.len() < fewest {
            return None;
        }
        let is_padded = selected.iter().any(|column| column.trim() != column.as_str());
        let columns = if is_padded { format!(r"\s*{pattern}\s*") } else { pattern.to_owned() };
        let (name, period) = match selected.iter().all(|column| is_season(column)) {
            true => ("Season", None),
            false => (name, Some(format)),
        };
        Some((unpivot_to(header, columns, name), period))
    })
}

/// The unpivot of some columns, with names of new fields that no column has.
fn unpivot_to(header: &[String], columns: String, name: &str) -> ColumnUnpivot {
    let free = |name: &str| {
        let mut name = name.to_owned();
        while header.contains(&name) {
            name.push('_');
        }
        name
    };
    ColumnUnpivot { columns, name: free(name), value: free("Value") }
}

/// The unpivot of the columns `measured` of a table with more columns than axes.
///
/// # Errors
/// No short pattern selects these columns and no others.
pub(super) fn unpivot_measured(header: &[String], measured: &HashSet<&str>) -> Result<ColumnUnpivot, String> {
    let is_measured = |name: &&String| measured.contains(name.as_str());
    let is_sound = |pattern: &String| {
        compile_pattern(pattern).is_ok_and(|whole| {
            header.iter().all(|name| whole.is_match(name) == measured.contains(name.as_str()))
        })
    };
    let pattern = [false, true].into_iter().map(|with_letters| {
        let shapes: HashSet<_> =
            header.iter().filter(is_measured).map(|name| shape(name, with_letters)).collect();
        let mut shapes: Vec<_> = shapes.into_iter().collect();
        shapes.sort();
        shapes.join("|")
    });
    let pattern = pattern.into_iter().find(is_sound).ok_or_else(|| {
        format!(
            "the table has {} columns (at most {AXES_MAX} axes allowed), and no short pattern selects the measured ones; rename them, \
             such as to `m_NAME`, so that `unpivot` with `m_.*` turns each cell into a record",
            header.len()
        )
    })?;
    Ok(unpivot_to(header, pattern, "Name"))
}

/// A pattern for a name that matches any digits in place of its digits and, with `with_letters`, any letters in place
/// of its letters.
fn shape(name: &str, with_letters: bool) -> String {
    let mut pattern = String::new();
    for character in name.chars() {
        let class = match character {
            '0'..='9' => Some("[0-9]+"),
            'A'..='Z' | 'a'..='z' if with_letters => Some("[A-Za-z]+"),
            _ => None,
        };
        match class {
            Some(class) if pattern.ends_with(class) => {}
            Some(class) => pattern.push_str(class),
            None if character.is_control() => pattern.push('.'),
            // `\<` and `\>` are the ends of words
            None if character.is_ascii_punctuation() && !matches!(character, '_' | '<' | '>') => {
                pattern.extend(['\\', character]);
            }
            None => pattern.push(character),
        }
    }
    pattern
}

#[cfg(test)]
mod tests;
