//! Parts of a Markdown page.

use std::fmt::Display;

/// A table, or nothing if it has no rows. Columns without any text are left out.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let is_used =
        |column: &usize| rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()));
    let columns: Vec<usize> = (0..N).filter(is_used).collect();
    let line = |cells: [&str; N]| {
        let cells = columns.iter().filter_map(|column| cells.get(*column));
        let cells = cells.map(|cell| cell.replace('|', "\\|").replace("\n\n", "<br>").replace('\n', " "));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    if rows.is_empty() {
        return String::new();
    }
    let body: String = rows.iter().map(|row| line(row.each_ref().map(String::as_str))).collect();
    format!("{}{}{body}\n", line(head), line(["---"; N]))
}

/// A text as code.
pub(super) fn code(text: impl Display) -> String {
    format!("`{text}`")
}

/// Texts as code, separated by commas.
pub(super) fn codes<T: Display>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

/// The anchor of a heading, as GitHub and mdBook make it.
pub(super) fn anchor(heading: &str) -> String {
    let letters = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    letters.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// A number with a comma between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let (rest, group) = (number / 1000, number % 1000);
    if rest == 0 { group.to_string() } else { format!("{},{group:03}", grouped(rest)) }
}
