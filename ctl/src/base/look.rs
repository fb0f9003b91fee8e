//! What suits the terminal: how wide to draw, and whether in colour.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};
use std::env;
use std::io::{self, IsTerminal, Write};

/// The widest that anything is drawn, in columns; lines beyond this are hard to follow with the eye.
const WIDTH_MAX: u16 = 100;
/// The narrowest: below this the terminal wraps, which is better than tables of broken words.
const WIDTH_MIN: u16 = 60;
/// Below this there is not room for everything.
const WIDTH_OF_ALL: u16 = 80;

/// The room that a column of data needs, in columns of the terminal.
const COLUMN_MIN: usize = 10;

/// How wide to draw, and whether in colour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u16,
    /// How wide the terminal is: tables of data use all of it.
    pub(crate) columns: u16,
    pub(crate) colour: bool,
    /// Nobody's eye follows the lines: what others wrote is neither cut nor broken to fit.
    pub(crate) is_whole: bool,
}

impl Look {
    /// What suits standard output: as wide as `COLUMNS` says, else as the terminal is; colour unless `NO_COLOR` is set.
    pub(crate) fn of_stdout() -> Self {
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let said =
            env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
        let columns = said.or_else(|| Table::new().width());
        let look = Self::new(columns.unwrap_or(WIDTH_MAX), io::stdout().is_terminal() && !no_color);
        Self { is_whole: columns.is_none(), ..look }
    }

    pub(crate) fn new(columns: u16, colour: bool) -> Self {
        Self { width: columns.clamp(WIDTH_MIN, WIDTH_MAX), columns, colour, is_whole: false }
    }

    /// Whether the less important columns have to give way, before words break.
    pub(crate) const fn is_narrow(self) -> bool {
        self.width < WIDTH_OF_ALL
    }

    /// An empty table of this look. Columns hold numbers, which stand right, save the `text` columns, whose
    /// words are never broken.
    pub(crate) fn table(self, header: &[&str], text: &[usize]) -> Table {
        let mut table = self.empty(header);
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

    /// In green what is good, in red what is not.
    pub(crate) fn painted(self, text: &str, is_good: bool) -> String {
        let code = if is_good { 32 } else { 31 };
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// A table of data as wide as the terminal; `None` if the terminal has not enough room for so many columns.
    pub(crate) fn data(self, header: &[&str], rows: Vec<Vec<String>>) -> Option<Table> {
        let mut table = self.empty(header);
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

    fn empty(self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table
            .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(header.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table
    }
}

/// The lines of a table, without the white space behind them.
pub(crate) fn text(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Writes a table below its title; the title alone where there is nothing in it.
pub(crate) fn section(out: &mut dyn Write, title: &str, table: &Table) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "{}", text(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let rows =
            vec![["world-bank-population", "it is missing, or it is empty", "7"].map(str::to_owned).to_vec()];
        let drawn = |columns| Look::new(columns, false).data(&["source", "reason", "position"], rows.clone());
        for columns in [200, 80, 60, 50, 30] {
            let drawn = text(&drawn(columns).expect("10 columns each"));
            assert!(drawn.lines().all(|line| line.chars().count() <= usize::from(columns)), "{drawn}");
        }
        assert!(drawn(29).is_none());
    }

    #[test]
    fn nothing_is_broken_where_nobody_has_said_how_wide_it_may_be() {
        let look = Look { is_whole: true, ..Look::new(10, false) };
        let drawn =
            look.data(&["a"], vec![vec!["many words in one line, more than there is room for".into()]]);
        assert_eq!(drawn.map(|table| table.lines().count()), Some(3));
    }
}
