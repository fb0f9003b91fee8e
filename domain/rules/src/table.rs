//! Tables of Markdown: each cell is a claim about its row and its column.

use std::iter;
use std::ops::Range;

/// One or two lines of a table.
#[derive(Debug)]
pub(super) struct TableRow<'a> {
    /// The range of the lines in the text.
    pub(super) range: Range<usize>,
    /// The claims of its cells. The heads of the columns have none.
    pub(super) claims: Vec<CellClaim<'a>>,
}

/// The claim of a cell.
#[derive(Debug)]
pub(super) struct CellClaim<'a> {
    /// The range of the cell in the text.
    pub(super) range: Range<usize>,
    /// It as a sentence: "Weight of Lamp: 1.2 kg".
    pub(super) sentence: String,
    /// The head of the first column.
    pub(super) head: &'a str,
    /// The ranges of the heads that belong to it.
    pub(super) heads: Vec<Range<usize>>,
    /// Whether its statement cannot be determined.
    pub(super) is_unclear: bool,
}

/// The most bytes of a head. Longer ones would be copied into each claim.
const HEAD_MAX_BYTES: usize = 1_000;

/// A cell, without the white space around it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TableCell<'a> {
    range: Range<usize>,
    text: &'a str,
}

/// The rows of the tables in `text`, in their order. `of` is the word between a property and what has it.
pub(super) fn table_rows<'a>(text: &'a str, of: &str) -> Vec<TableRow<'a>> {
    let mut end = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        end += line.len();
        (end - line.len()..end, line)
    });
    let mut lines = lines.peekable();
    let mut rows = Vec::new();
    while let Some((head_range, head_line)) = lines.next() {
        let heads = cells(head_line, head_range.start);
        let is_delimiter =
            |(range, line): &(Range<usize>, &str)| is_delimiter(line, range.start, heads.len());
        let Some((delimiter, _)) = lines.next_if(|next| head_line.contains('|') && is_delimiter(next)) else {
            continue;
        };
        rows.push(TableRow { range: head_range.start..delimiter.end, claims: Vec::new() });
        rows.extend(iter::from_fn(|| {
            let (range, line) = lines.next_if(|(_, line)| !line.trim().is_empty())?;
            Some(TableRow { claims: claims(&heads, &cells(line, range.start), of), range })
        }));
    }
    rows
}

/// Whether `line` divides the heads of `columns` columns from the rows: `|---|:-:|`.
fn is_delimiter(line: &str, start: usize, columns: usize) -> bool {
    let is_mark = |text: &str| {
        let dashes = text.strip_prefix(':').unwrap_or(text);
        let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    let cells = cells(line, start);
    line.contains('|') && cells.len() == columns && cells.iter().all(|cell| is_mark(cell.text))
}

/// The cells of `line`, which begins at byte `start` of the text: the pieces between `|`, except for `\|`.
fn cells(line: &str, start: usize) -> Vec<TableCell<'_>> {
    let content = line.trim();
    let content = content.strip_prefix('|').unwrap_or(content);
    let content = content.strip_suffix('|').filter(|inner| !inner.ends_with('\\')).unwrap_or(content);
    let mut is_escaped = false;
    let pieces = content.split(|character| {
        let is_end = character == '|' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    });
    pieces
        .map(|piece| {
            let text = piece.trim();
            let at = start + text.as_ptr().addr() - line.as_ptr().addr();
            TableCell { range: at..at + text.len(), text }
        })
        .collect()
}

/// The claims of a row. The first cell is the subject of the others. Without a head of its own, it is a property of the
/// subjects in the other heads.
fn claims<'a>(heads: &[TableCell<'a>], cells: &[TableCell<'a>], of: &str) -> Vec<CellClaim<'a>> {
    let (Some(corner), Some(first)) = (heads.first(), cells.first()) else { return Vec::new() };
    let has_more = cells.len() > heads.len();
    let mut filled = iter::zip(heads, cells).skip(1).filter(|(_, cell)| !cell.text.is_empty()).peekable();
    let head = if corner.text.len() > HEAD_MAX_BYTES { "" } else { corner.text };
    let is_long = |cell: &TableCell<'_>| cell.text.len() > HEAD_MAX_BYTES;
    if filled.peek().is_none() || has_more {
        return vec![CellClaim {
            range: first.range.clone(),
            sentence: first.text.to_owned(),
            head,
            heads: vec![corner.range.clone()],
            is_unclear: has_more || is_long(corner),
        }];
    }
    filled
        .map(|(column, cell)| {
            let (property, subject) = if corner.text.is_empty() { (first, column) } else { (column, first) };
            let is_named = |cell: &TableCell<'_>| cell.text.contains(char::is_alphanumeric);
            let is_clear = [property, subject].into_iter().all(is_named) && is_clear(cell.text);
            let is_unclear = !is_clear || [corner, property, subject].into_iter().any(is_long);
            let (property, addition) = split_addition(property.text);
            let sentence = if is_unclear {
                cell.text.to_owned()
            } else {
                format!("{property} {of} {}: {}{addition}", subject.text, cell.text)
            };
            let heads = [corner, column, first].map(|cell| cell.range.clone()).to_vec();
            CellClaim { range: cell.range.clone(), sentence, head, heads, is_unclear }
        })
        .collect()
}

/// Whether a cell states something. "- 5 €" and "(49 €)" can be a loss.
fn is_clear(cell: &str) -> bool {
    let is_sign = cell.starts_with(['-', '–', '—', '−', '.', '(', '/', '…']);
    cell.contains(|next: char| next.is_alphanumeric())
        && !(is_sign && cell.contains(|next: char| next.is_ascii_digit()))
}

/// A head such as "Weight (kg)", and what it adds to its values: " kg".
fn split_addition(head: &str) -> (&str, String) {
    let split = head.strip_suffix(')').and_then(|inner| inner.rsplit_once(" ("));
    split.map_or((head, String::new()), |(property, addition)| (property, format!(" {addition}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sentences(text: &str) -> Vec<Vec<String>> {
        let of_row = |row: TableRow<'_>| row.claims.into_iter().map(|claim| claim.sentence).collect();
        table_rows(text, "of").into_iter().map(of_row).collect()
    }

    #[test]
    fn table_rows_of_a_table_have_a_claim_for_each_cell() {
        let text = "Prices:\n\n| Product | Price | Weight (kg) |\n|:--|--:|:-:|\n| Lamp | 49 € | 1.2 |\n| Desk \\| oak | | 30|\n\nEnd.";
        let expected: [&[&str]; 3] =
            [&[], &["Price of Lamp: 49 €", "Weight of Lamp: 1.2 kg"], &["Weight of Desk \\| oak: 30 kg"]];
        assert_eq!(sentences(text), expected);
    }

    #[test]
    fn table_rows_without_a_first_head_name_properties() {
        let text = "| | Lamp | Desk |\n|---|---|---|\n| Weight (kg) | 1.2 | 30 |";
        let expected: [&[&str]; 2] = [&[], &["Weight of Lamp: 1.2 kg", "Weight of Desk: 30 kg"]];
        assert_eq!(sentences(text), expected);
    }

    #[test]
    fn table_rows_with_one_cell_keep_their_head() {
        let text = "Myths |\n--- |\nThe lamp is red |\n | \nno row";
        let rows = table_rows(text, "of");
        let claims: Vec<_> = rows.iter().flat_map(|row| &row.claims).collect();
        assert_eq!((&*claims[0].sentence, claims[0].head), ("The lamp is red", "Myths"));
    }

    #[test]
    fn table_rows_of_other_lines_are_none() {
        for text in [
            "a | b\nc | d",
            "a | b\n---\nc | d",
            "a | b\n--- | --- | ---\n",
            "a\n---\nb",
            "a | b\n- | x\n",
            "",
        ] {
            assert_eq!(sentences(text), Vec::<Vec<String>>::new(), "{text:?}");
        }
        // with more cells than heads, it is not clear which belongs where
        let rows = table_rows("a | b\n- | -\nc | d | e\nf | g", "of");
        let unclear: Vec<bool> =
            rows.iter().flat_map(|row| &row.claims).map(|claim| claim.is_unclear).collect();
        assert_eq!(unclear, [true, false]);
    }

    proptest! {
        #[test]
        fn table_rows_keep_each_cell_in_its_range(text in "([|\\-:\\\\ a.é]|\\n|-\\|-\\n|a\\|b\\n){0,40}") {
            let rows = table_rows(&text, "of");
            prop_assert!(rows.is_sorted_by(|one, next| one.range.end <= next.range.start));
            for row in rows {
                for claim in row.claims {
                    prop_assert!(row.range.start <= claim.range.start && claim.range.end <= row.range.end);
                    prop_assert!(claim.sentence.contains(&text[claim.range]));
                }
            }
        }
    }
}
