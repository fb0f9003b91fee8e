//! The width and the colors of the output.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};
use std::env;
use std::io::{self, IsTerminal, Write};

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
