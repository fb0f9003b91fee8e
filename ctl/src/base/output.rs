//! Printing: JSON for programs, tables for people.

use super::output_stream::{Output, print_note};
use super::output_style::{OutputStyle, table_text};
use crate::base::error::CtlError;
use domain_base::digest::Sha256Hex;
use domain_base::visible::{visible_json, visible_line};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};

/// Shown for a record whose validity has no known end.
pub const NO_END: &str = "no end";
/// Digits of a run's id that are shown.
const DIGITS: usize = 12;

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

/// A number with its noun, singular or plural.
pub fn format_count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
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
    run_id.as_str().chars().take(DIGITS).collect()
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
}
