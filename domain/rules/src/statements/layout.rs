//! Reads a text with its layout: headings, lists and what they continue, tables, deleted text.

use super::language::LanguageTables;
use super::sentence::{Sentence, TextReader};
use super::tokens::is_symbol;
use crate::claims::sentences;
use crate::plain_text::PlainText;
use crate::table::table_rows;
use std::ops::Range;

/// Passes each sentence of `plain` and its range to `found`, in order. Headings are not passed, but can limit the text below them.
pub(crate) fn read_text(
    plain: &PlainText,
    language: &LanguageTables,
    mut found: impl FnMut(Range<usize>, Sentence),
) {
    let text = plain.text();
    let mut rows = table_rows(text, language.of).into_iter().peekable();
    let mut rows_end = 0;
    let mut reader = TextReader::new(language);
    let is_limiting = |heading: &str| TextReader::new(language).read(heading).is_limiting;
    // the levels of the headings that limit what is under them
    let mut limits: Vec<usize> = Vec::new();
    // "The plan includes:", which each item of the list after it continues
    let mut lead = String::new();
    let mut pass = |range: Range<usize>, mut sentence: Sentence, is_limited: bool| {
        if is_limited {
            sentence.set_undecidable("a heading above limits the sentence");
        }
        if plain.is_struck(&range) {
            sentence.set_undecidable("the text is struck out");
        }
        found(range, sentence);
    };
    let ranges = sentences(text);
    for (index, range) in ranges.iter().enumerate() {
        let range = range.clone();
        while let Some(row) = rows.next_if(|row| row.range.start <= range.start) {
            rows_end = row.range.end;
            for claim in row.claims {
                // "it" before, in and after a table means nothing in particular
                reader.forget_subject();
                let mut sentence = reader.read(&claim.sentence);
                reader.forget_subject();
                sentence.compose(claim.sentence, claim.range.len());
                pass(claim.range, sentence, !limits.is_empty() || is_limiting(claim.head));
            }
        }
        let own = text.get(range.clone()).unwrap_or_default();
        if range.start < rows_end || !has_content(own) {
            continue;
        }
        let level = plain.heading_level(range.start);
        if level > 0 {
            limits.retain(|above| *above < level);
            if is_limiting(own) {
                limits.push(level);
            }
            continue;
        }
        if !plain.is_item(range.start) {
            lead.clear();
        }
        let mut sentence = reader.read(&format!("{lead}{own}"));
        let after = ranges.get(index + 1..).unwrap_or_default();
        let next = after.iter().find(|next| text.get((*next).clone()).is_some_and(has_content));
        let is_before_item = next.is_some_and(|next| plain.is_item(next.start));
        let before_items = own.trim_end().strip_suffix(':').filter(|_| is_before_item);
        if let Some(before) = before_items.filter(|_| sentence.parts.iter().any(|part| part.has_verb)) {
            let question =
                before.trim_start().split_once(' ').filter(|(what, _)| matches!(*what, "What" | "Was"));
            lead = format!("{} ", question.map_or(before, |(_, rest)| rest));
            continue;
        }
        sentence.remove_lead(lead.len());
        pass(range, sentence, !limits.is_empty());
    }
}

/// Whether `text` has a letter, a digit, or a mark with a meaning of its own.
fn has_content(text: &str) -> bool {
    let is_line = |next: char| ",;:–—=~+|".contains(next);
    text.contains(|next: char| next.is_alphanumeric() || is_symbol(next) && !is_line(next))
}
