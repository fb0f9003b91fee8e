//! A table of the faults of texts.

use super::complaint::RuleComplaint;
use crate::base::output::shorten_line;
use crate::base::output_style::{OutputStyle, table_text};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use std::io::{self, Write};

/// Maximum length of each column before the complaints on a terminal, in characters.
const NAME_MAX_CHARS: [usize; 2] = [24, 16];
/// The same without a terminal.
const WHOLE_NAME_MAX_CHARS: usize = 255;
/// Maximum length of the offending words on a terminal, in characters.
const WORDS_MAX_CHARS: usize = 120;
/// Maximum length of a note on a terminal, in characters.
const NOTE_MAX_CHARS: usize = 200;

/// The table, row by row.
pub(crate) struct ComplaintTable {
    table: Table,
    look: OutputStyle,
    /// Number of columns before the complaints.
    names: usize,
}

impl ComplaintTable {
    /// An empty table with these columns before the complaints.
    pub(crate) fn new(names: &[&str], look: OutputStyle) -> Self {
        let header = [names, &["rule", "complaint"]].concat();
        let last = header.len() - 1;
        let mut table = look.table(&header, &(0..last).collect::<Vec<_>>());
        if look.is_whole {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        if let Some(column) = table.column_mut(last) {
            column.set_cell_alignment(CellAlignment::Left);
        }
        Self { table, look, names: names.len() }
    }

    /// Adds a row for each complaint, for the number of omitted ones, and for the note. The first row begins
    /// with `names`.
    pub(crate) fn add_complaints(
        &mut self,
        names: &[&str],
        complaints: &[RuleComplaint],
        omitted: u64,
        note: Option<&str>,
    ) {
        let limits = NAME_MAX_CHARS.map(|max| if self.look.is_whole { WHOLE_NAME_MAX_CHARS } else { max });
        let shown = names.iter().zip(limits).map(|(name, max)| shorten_line(name, max));
        let mut names: Vec<String> = shown.take(self.names).collect();
        let rows = complaints.iter().map(|complaint| self.complaint_row(complaint));
        let more = (omitted > 0).then(|| [String::new(), format!("{omitted} more")]);
        let note = note.map(|note| [String::new(), self.note_text(note)]);
        for row in rows.chain(more).chain(note).collect::<Vec<_>>() {
            self.table.add_row(names.iter().cloned().chain(row));
            names.iter_mut().for_each(String::clear);
        }
    }

    fn complaint_row(&self, RuleComplaint { about, message, words }: &RuleComplaint) -> [String; 2] {
        // on a terminal the rules are listed vertically, since width is scarce
        let between = if self.look.is_whole { ", " } else { ",\n" };
        let words = words.as_ref().map(|words| {
            let words = if self.look.is_whole { words.clone() } else { shorten_line(words, WORDS_MAX_CHARS) };
            format!("\n»{words}«")
        });
        [about.join(between), format!("{message}{}", words.unwrap_or_default())]
    }

    fn note_text(&self, note: &str) -> String {
        let note = if self.look.is_whole { note.to_owned() } else { shorten_line(note, NOTE_MAX_CHARS) };
        format!("note: {note}")
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", table_text(&self.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(look: OutputStyle) -> String {
        let mut complaint = RuleComplaint::new("RULE-PREC-001", "no fact supports this claim");
        complaint.about.push("RULE-PREC-004".into());
        complaint.words = Some("word ".repeat(60));
        let mut table = ComplaintTable::new(&["case"], look);
        table.add_complaints(&[&"x".repeat(60)], &[complaint], 3, Some(&"note ".repeat(60)));
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_fits_the_terminal_width() {
        for width in [60, 80, 100] {
            let text = shown(OutputStyle::new(width, false));
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            for part in ["xxx…", "RULE-PREC-001, ", "RULE-PREC-004 ", "…«", "3 more", "note: note"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn table_without_a_terminal_is_neither_cut_nor_wrapped() {
        let text = shown(OutputStyle { is_whole: true, ..OutputStyle::new(60, false) });
        for part in [
            &"x".repeat(60),
            "RULE-PREC-001, RULE-PREC-004  no fact supports this claim",
            &"word ".repeat(60),
            "3 more",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains(&format!("note: {}", "note ".repeat(60).trim_end())), "{text}");
    }
}
