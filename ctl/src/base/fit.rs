//! Cells broken into lines, so that a table fits the terminal.

use unicode_width::UnicodeWidthStr;

/// What a column of a table takes beside its cells.
const PADDING: usize = 2;

/// The rows of a table, the heading among them, with line breaks so that it takes `columns` of a terminal at the most; a line
/// ends behind one of `ends`. The widest columns give way first. Nothing where the pieces between are too long for that.
pub(crate) fn fitted(rows: &[Vec<String>], columns: u16, ends: &str) -> Option<Vec<Vec<String>>> {
    let count = rows.iter().map(Vec::len).max()?;
    let widest = |width: &dyn Fn(&str) -> usize| {
        let of_column =
            |column: usize| rows.iter().filter_map(move |row| row.get(column)).map(|cell| width(cell)).max();
        (0..count).map(|column| of_column(column).unwrap_or(0)).collect::<Vec<_>>()
    };
    let wanted = widest(&|cell| cell.lines().map(UnicodeWidthStr::width).max().unwrap_or(0));
    let needed =
        widest(&|cell| cell.lines().flat_map(|line| pieces(line, ends)).map(width).max().unwrap_or(0));
    let widths = widths(&wanted, &needed, usize::from(columns))?;
    let broken = |row: &Vec<String>| {
        row.iter().zip(&widths).map(|(cell, width)| broken(cell, *width, ends)).collect::<Vec<_>>()
    };
    Some(rows.iter().map(broken).collect())
}

/// How wide each column is drawn that would like to be as wide as is `wanted`, and must be as wide as is `needed`, where there
/// are so many `columns` for all of them.
fn widths(wanted: &[usize], needed: &[usize], columns: usize) -> Option<Vec<usize>> {
    let drawn =
        |most: usize| wanted.iter().zip(needed).map(move |(wanted, needed)| *wanted.min(&most.max(*needed)));
    let taken = |most: usize| drawn(most).map(|width| width + PADDING).sum::<usize>();
    let most = (0..=columns).rev().find(|most| taken(*most) <= columns)?;
    Some(drawn(most).collect())
}

/// What stands between the places where a line may end, each with the character that it may end behind.
fn pieces<'l>(line: &'l str, ends: &str) -> impl Iterator<Item = &'l str> {
    line.split_inclusive(move |character| ends.contains(character))
}

/// How wide a piece is at the end of a line.
fn width(piece: &str) -> usize {
    piece.trim_end().width()
}

fn broken(cell: &str, columns: usize, ends: &str) -> String {
    let mut lines = Vec::new();
    for line in cell.lines() {
        let mut begun = String::new();
        for piece in pieces(line, ends) {
            if !begun.is_empty() && begun.width() + width(piece) > columns {
                lines.push(std::mem::take(&mut begun).trim_end().to_owned());
            }
            begun.push_str(piece);
        }
        lines.push(begun);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(columns: u16, ends: &str) -> Option<Vec<String>> {
        let row = ["world-bank-population", "it is missing, or empty", "7"].map(str::to_owned).to_vec();
        fitted(&[vec!["source".into(), "reason".into(), "position".into()], row], columns, ends)?.pop()
    }

    #[test]
    fn the_widest_column_gives_way_and_no_word_is_broken() {
        let whole = ["world-bank-population", "it is missing, or empty", "7"].map(str::to_owned).to_vec();
        assert_eq!(cells(200, " "), Some(whole.clone()));
        assert_eq!(cells(58, " "), Some(whole), "21, 23 and 8, and 2 beside each");
        let narrow = ["world-bank-population", "it is\nmissing,\nor empty", "7"].map(str::to_owned).to_vec();
        assert_eq!(cells(43, " "), Some(narrow), "the longest word has 8");
        assert_eq!(cells(42, " "), None);
    }

    #[test]
    fn names_are_broken_at_their_joints_where_that_is_asked_for() {
        let narrow =
            ["world-bank-\npopulation", "it is\nmissing, or\nempty", "7"].map(str::to_owned).to_vec();
        assert_eq!(cells(36, " -"), Some(narrow));
    }

    #[test]
    fn lines_stay_and_what_is_wide_counts_as_wide() {
        assert_eq!(broken("a b\nc", 9, " "), "a b\nc");
        assert_eq!(broken("測定 値", 6, " "), "測定\n値");
    }
}
