//! Texts without layout: the numbers and bullets of lists and Markdown's marks are removed.

use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The bullets of list items.
pub(super) const BULLETS: [char; 3] = ['-', '*', '•'];

/// The maximum number of digits in the number of a list item, so that a year is not one.
pub(super) const LIST_NUMBER_MAX_DIGITS: usize = 3;

/// The mark at the beginning of a quoted line.
const QUOTE: char = '>';

/// The mark of a heading, once or more.
const HEADING: char = '#';

/// The maximum level of a heading.
pub(super) const HEADING_MAX: usize = 6;

/// The marks around emphasis, code and deleted text.
pub(super) const MARKS: [&str; 4] = ["*", "_", "`", "~~"];

/// The mark around deleted text.
const DELETED: &str = "~~";

/// A text without its layout, with a map to the original text.
#[derive(Debug, Default)]
pub(super) struct PlainText {
    text: String,
    /// For each removed piece: its offset in `text`, and the number of bytes removed up to there.
    shifts: Vec<(usize, usize)>,
    lines: Vec<PlainLine>,
    /// The offsets in `text` of the marks around deleted text.
    strikes: Vec<usize>,
}

#[derive(Debug)]
struct PlainLine {
    /// Its offset in the text.
    start: usize,
    head: LineHead,
}

/// The marks at the beginning of a line.
#[derive(Debug, Default, PartialEq, Eq)]
struct LineHead {
    bytes: usize,
    /// The number of marks of a heading; 0 if the line is none.
    level: usize,
    /// Whether there is a bullet or a list number.
    is_item: bool,
    /// Whether the line is quoted, an item or indented.
    is_nested: bool,
}

impl PlainText {
    /// Removes the layout of `text`.
    pub(super) fn of(text: &str) -> Self {
        let mut plain = Self::default();
        // the mark at the beginning of a block of code
        let mut fence = "";
        for line in text.split_inclusive(is_line_end) {
            // a line of code that looks like a heading is none
            let own = fence_of(line);
            let head = if fence.is_empty() && own.is_empty() { line_head(line) } else { LineHead::default() };
            if fence.is_empty() {
                fence = own;
            } else if own.starts_with(fence) && own == line.trim() {
                fence = "";
            }
            let content = line.get(head.bytes..).unwrap_or_default();
            plain.remove(head.bytes);
            plain.lines.push(PlainLine { start: plain.text.len(), head });
            let mut from = 0;
            for mark in marks(content) {
                plain.text += content.get(from..mark.start).unwrap_or_default();
                if content.get(mark.clone()).is_some_and(|mark| mark.contains(DELETED)) {
                    plain.strikes.push(plain.text.len());
                }
                plain.remove(mark.len());
                from = mark.end;
            }
            plain.text += content.get(from..).unwrap_or_default();
        }
        plain
    }

    /// Notes that `bytes` bytes of the original text are removed here.
    fn remove(&mut self, bytes: usize) {
        if bytes > 0 {
            let before = self.shifts.last().map_or(0, |(_, before)| *before);
            self.shifts.push((self.text.len(), before + bytes));
        }
    }

    fn line_at(&self, at: usize) -> Option<&PlainLine> {
        let before = self.lines.partition_point(|line| line.start <= at).checked_sub(1)?;
        self.lines.get(before)
    }

    /// The level of the heading whose line has byte `at`; 0 if the line is no heading.
    pub(super) fn heading_level(&self, at: usize) -> usize {
        self.line_at(at).map_or(0, |line| line.head.level)
    }

    /// Whether the line of byte `at` is quoted, an item of a list, or indented.
    pub(super) fn is_nested(&self, at: usize) -> bool {
        self.line_at(at).is_some_and(|line| line.head.is_nested)
    }

    /// Whether a line begins at byte `at`.
    pub(super) fn is_line_start(&self, at: usize) -> bool {
        self.line_at(at).is_some_and(|line| line.start == at)
    }

    /// Whether an item of a list begins at byte `at`.
    pub(super) fn is_item(&self, at: usize) -> bool {
        self.line_at(at).is_some_and(|line| line.head.is_item && line.start == at)
    }

    /// Whether a part of `range` is deleted, or a mark of that is beside it.
    pub(super) fn is_struck(&self, range: &Range<usize>) -> bool {
        let before = self.strikes.partition_point(|at| *at < range.start);
        before % 2 == 1 || self.strikes.get(before).is_some_and(|at| *at <= range.end)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The range of the original text from the first byte of `range` to its last.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let mapped = |passed: usize| {
            let last = passed.checked_sub(1).and_then(|last| self.shifts.get(last));
            last.map_or(0, |(_, shift_bytes)| *shift_bytes)
        };
        let start = mapped(self.shifts.partition_point(|(at, _)| *at <= range.start));
        let end = mapped(self.shifts.partition_point(|(at, _)| *at < range.end));
        range.start + start..range.end + end
    }
}

/// Whether `character` ends a line.
pub(super) const fn is_line_end(character: char) -> bool {
    matches!(character, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether the character is a space but not a line end.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() && !is_line_end(character)
}

/// The marks with which `line` begins or ends a block of code; empty if it does not.
fn fence_of(line: &str) -> &str {
    let line = line.trim();
    let of = |mark: char| {
        let (marks, rest) = line.split_at(line.len() - line.trim_start_matches(mark).len());
        (marks.len() > 2 && !rest.contains(mark)).then_some(marks)
    };
    of('`').or_else(|| of('~')).unwrap_or("")
}

/// The quotation marks, a bullet or list number, and a heading mark at the beginning of `line`. None if the rest has no letter
/// or digit. A number alone is a claim.
fn line_head(line: &str) -> LineHead {
    let mut text = line.trim_start();
    while let Some(rest) = strip_quote_mark(text) {
        text = rest;
    }
    let mut strip = |length: fn(&str) -> Option<usize>| {
        let bytes = length(text)?;
        let rest = text.get(bytes..).filter(|rest| rest.starts_with(char::is_whitespace))?;
        text = rest.trim_start();
        Some(bytes)
    };
    let is_item = strip(item).is_some();
    if is_item {
        strip(done_task);
    }
    let level = strip(heading).unwrap_or(0);
    let is_nested = is_item || line.starts_with([QUOTE, ' ', '\t']);
    let head = LineHead { bytes: line.len() - text.len(), level, is_item, is_nested };
    if text.contains(char::is_alphanumeric) { head } else { LineHead { is_nested, ..LineHead::default() } }
}

/// The rest after a quotation mark. Before a number, `>` is a comparison.
fn strip_quote_mark(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(QUOTE)?;
    let text = rest.trim_start();
    let is_number = text.chars().take(2).any(|character| character.is_ascii_digit());
    (text.len() < rest.len() && !is_number).then_some(text)
}

/// The length of the mark of a task that is done. An open task is no claim, and keeps its mark.
fn done_task(line: &str) -> Option<usize> {
    ["[x]", "[X]"].iter().find(|mark| line.starts_with(**mark)).map(|mark| mark.len())
}

/// The length of the heading mark at the beginning of `line`.
fn heading(line: &str) -> Option<usize> {
    let level = line.len() - line.trim_start_matches(HEADING).len();
    (1..=HEADING_MAX).contains(&level).then_some(level)
}

/// The marks within a line, except for marks between white space, which are text, and marks within a word.
fn marks(line: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let is_first = |character| MARKS.iter().any(|mark| mark.starts_with(character));
    for (at, _) in line.match_indices(is_first) {
        let rest = line.get(at..).unwrap_or_default();
        let end = MARKS.iter().find(|mark| rest.starts_with(**mark)).map(|mark| at + mark.len());
        match (runs.last_mut(), end) {
            (Some(run), Some(end)) if run.end == at => run.end = end,
            (Some(run), _) if at < run.end => {}
            (_, Some(end)) => runs.push(at..end),
            (_, None) => {}
        }
    }
    runs.retain(|run| {
        let before = line.get(..run.start).and_then(|before| before.chars().next_back());
        let after = line.get(run.end..).and_then(|after| after.chars().next());
        let is_blank = |side: Option<char>| side.is_none_or(char::is_whitespace);
        let is_word = |side: Option<char>| side.is_some_and(is_of_word);
        !(is_blank(before) && is_blank(after) || is_word(before) && is_word(after))
    });
    runs
}

/// Whether `character` belongs to the word next to it.
fn is_of_word(character: char) -> bool {
    let goes_on = || String::from_iter(['a', character]).split_word_bounds().count() == 1;
    character.is_alphanumeric() || !character.is_ascii() && goes_on()
}

/// The length of the bullet at the beginning of `line`, or of the list number or small letter with its point or
/// parenthesis.
fn item(line: &str) -> Option<usize> {
    let first = line.chars().next()?;
    if BULLETS.contains(&first) {
        return Some(first.len_utf8());
    }
    let digits = line.find(|character: char| !character.is_ascii_digit())?;
    let number = if first.is_ascii_lowercase() { 1 } else { digits };
    let is_number = (1..=LIST_NUMBER_MAX_DIGITS).contains(&number);
    (is_number && line.get(number..)?.starts_with(['.', ')'])).then_some(number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_text_omits_layout_and_keeps_content() {
        for (text, plain) in [
            ("1. Ice melts.\n 2) Sand\r\n\ta. Salt\u{2028}b) Tin", "Ice melts.\nSand\r\nSalt\u{2028}Tin"),
            ("- Ice\n* Sand\n• Salt", "Ice\nSand\nSalt"),
            ("42.", "42."),
            ("1. ...\n- —", "1. ...\n- —"),
            ("-5 °C\n•Ice\n1.5 kg\n1.Ice", "-5 °C\n•Ice\n1.5 kg\n1.Ice"),
            ("2026. It rained\n123. It did", "2026. It rained\nIt did"),
            ("A. Lincoln\nab. c\né. x", "A. Lincoln\nab. c\né. x"),
            ("> **Ice** melts\n> > # `Sand`\n>Salt", "Ice melts\nSand\n>Salt"),
            ("> 5 kg\n> -5 kg\n> 1. Tin", "> 5 kg\n> -5 kg\n> 1. Tin"),
            ("# Ice\n- ## Sand\n####### Salt\n#Tin", "Ice\nSand\n####### Salt\n#Tin"),
            ("__Ice__, ***sand***; ~~**salt**~~ (`tin`)", "Ice, sand; salt (tin)"),
            ("a * b, 5*3, snake_case, ~5, 2**3", "a * b, 5*3, snake_case, ~5, 2**3"),
            ("e\u{301}*b a*\u{301}b **~5** `49`€ *", "e\u{301}*b a*\u{301}b ~5 49€ *"),
            ("1. 2. Ice - sand 3. Salt", "2. Ice - sand 3. Salt"),
        ] {
            assert_eq!(PlainText::of(text).text(), plain, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn plain_text_origin_returns_each_original_character(text in "([-*•>#_]|~~|[0-9a]{1,2}[.)]|[ \\n\\r]|[a-zé_~`]){0,30}") {
            let plain = PlainText::of(&text);
            for (at, character) in plain.text().char_indices() {
                let origin = plain.origin(at..at + character.len_utf8());
                prop_assert_eq!(&text[origin], character.to_string());
            }
        }
    }
}
