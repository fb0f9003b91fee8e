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
    let mut limits = HeadingLimits::default();
    let mut lead = Lead::default();
    let mut pass =
        |range: Range<usize>, mut sentence: Sentence, heads: &[Range<usize>], limit: Option<&'static str>| {
            if let Some(reason) = limit {
                sentence.set_undecidable(reason);
            }
            if heads.iter().chain([&range]).any(|range| plain.is_struck(range)) {
                sentence.set_undecidable("the text is struck out");
            }
            found(range, sentence);
        };
    let ranges = sentences(text);
    for (index, range) in ranges.iter().enumerate() {
        let heading = (!limits.levels.is_empty()).then_some(HEADING);
        while let Some(row) = rows.next_if(|row| row.range.start <= range.start) {
            rows_end = row.range.end;
            for claim in row.claims {
                // "it" before, in and after a table means nothing in particular
                reader.forget_subject();
                let mut sentence = reader.read(&claim.sentence);
                reader.forget_subject();
                let unclear = claim.is_unclear.then_some("the meaning of the cell is unclear");
                let limit = heading.or(lead.limit).or(unclear);
                let limit = limit.or_else(|| is_limiting(claim.head).then_some(HEADING));
                sentence.compose(claim.sentence, claim.range.len());
                pass(claim.range, sentence, &claim.heads, limit);
            }
        }
        let own = text.get(range.clone()).unwrap_or_default();
        if range.start < rows_end || !has_content(own) {
            continue;
        }
        let level = plain.heading_level(range.start);
        let is_new = plain.is_line_start(range.start) && !plain.is_nested(range.start);
        if is_new {
            lead = Lead::default();
        }
        if level > 0 {
            limits.add(level, is_new, is_limiting(own));
            continue;
        }
        let is_item = plain.is_item(range.start);
        let start = if is_item { lead.text.clone() } else { String::new() };
        let mut sentence = reader.read(&format!("{start}{own}"));
        let rest = lead.limit.or((!is_item && !lead.text.is_empty()).then_some(LEAD));
        let after = ranges.get(index + 1..).unwrap_or_default();
        let next = after.iter().find(|next| text.get((*next).clone()).is_some_and(has_content));
        let is_before_item = next.is_some_and(|next| plain.is_item(next.start));
        let row_start = rows.peek().map(|row| row.range.start);
        let is_before_row = row_start.zip(next).is_some_and(|(row, next)| row <= next.start);
        if let Some(before) = own.trim_end().strip_suffix(':').filter(|_| is_before_item || is_before_row) {
            let is_continued = is_before_item && lead.can_be_followed_by(before, &sentence);
            let is_limited = !is_continued
                && (sentence.is_limiting || !lead.text.is_empty() || before.len() > LEAD_MAX_BYTES);
            lead = Lead {
                text: if is_continued { continued(before) } else { String::new() },
                limit: rest.or((is_limited || plain.is_struck(range)).then_some(LEAD)),
            };
            if is_continued {
                continue;
            }
        }
        sentence.remove_lead(start.len());
        pass(range.clone(), sentence, &[], heading.or(rest));
    }
}

/// The headings that limit what is under them.
#[derive(Default)]
struct HeadingLimits {
    levels: Vec<usize>,
}

impl HeadingLimits {
    /// Adds a sentence of a heading of `level`. If it `is_new`, it ends the others of its level and below. A heading within a
    /// quotation or an item does not end what is around it.
    fn add(&mut self, level: usize, is_new: bool, is_limiting: bool) {
        if is_new {
            self.levels.retain(|above| *above < level);
        }
        if is_limiting {
            self.levels.push(level);
        }
    }
}

/// A sentence such as "The plan includes:" before a list or a table.
#[derive(Default)]
struct Lead {
    /// It, if each item continues it.
    text: String,
    /// Why nothing after it can be decided.
    limit: Option<&'static str>,
}

impl Lead {
    /// Whether items can continue `before`, the text of `sentence` before ":".
    fn can_be_followed_by(&self, before: &str, sentence: &Sentence) -> bool {
        self.text.is_empty()
            && before.len() <= LEAD_MAX_BYTES
            && sentence.parts.iter().any(|part| part.has_verb)
    }
}

/// The beginning of a sentence that an item continues.
fn continued(before: &str) -> String {
    let question = before.trim_start().split_once(' ').filter(|(what, _)| matches!(*what, "What" | "Was"));
    format!("{} ", question.map_or(before, |(_, rest)| rest))
}

/// The most bytes of a sentence that items continue. A longer one would be read again with each of them.
const LEAD_MAX_BYTES: usize = 1_000;
const HEADING: &str = "a heading above limits the sentence";
const LEAD: &str = "the sentence before the list limits it";

/// Whether `text` has a letter, a digit, or a mark with a meaning of its own.
fn has_content(text: &str) -> bool {
    let is_line = |next: char| ",;:–—=~+|".contains(next);
    text.contains(|next: char| next.is_alphanumeric() || is_symbol(next) && !is_line(next))
}
