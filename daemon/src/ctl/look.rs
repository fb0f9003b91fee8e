//! What suits the terminal: how wide to draw, and whether in colour.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle,
};
use std::io::{self, IsTerminal, Write};

/// The widest that anything is drawn, in columns; lines beyond this are hard to follow with the eye.
const WIDTH_MAX: u16 = 100;
/// The narrowest: below this the terminal wraps, which is better than tables of broken words.
const WIDTH_MIN: u16 = 60;
/// Below this there is not room for everything.
const WIDTH_OF_ALL: u16 = 80;

/// How wide to draw, and whether in colour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) width: u16,
    pub(super) colour: bool,
    /// Nobody's eye follows the lines: what others wrote is neither cut nor broken to fit.
    pub(super) is_whole: bool,
}

impl Look {
    /// What suits standard output: a terminal's own width, and colour unless `NO_COLOR` is set.
    pub(super) fn of_stdout() -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let look = Self::new(Table::new().width().unwrap_or(WIDTH_MAX), is_terminal && !no_color);
        Self { is_whole: !is_terminal, ..look }
    }

    pub(super) fn new(width: u16, colour: bool) -> Self {
        Self { width: width.clamp(WIDTH_MIN, WIDTH_MAX), colour, is_whole: false }
    }

    /// Whether the less important columns have to give way, before words break.
    pub(super) const fn is_narrow(self) -> bool {
        self.width < WIDTH_OF_ALL
    }

    /// An empty table of this look. Columns hold numbers, which stand right, save the `text` columns, whose
    /// words are never broken.
    pub(super) fn table(self, header: &[&str], text: &[usize]) -> Table {
        let mut table = Table::new();
        table
            .load_style(TableStyle::new().header_separator(LineStyle::none().fill('─')))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width)
            .set_header(header.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            if text.contains(&index) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// Writes a table below its title; the title alone where there is nothing in it.
pub(super) fn section(out: &mut dyn Write, title: &str, table: &Table) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
