//! Texts without layout: the numbers and bullets of lists and Markdown's marks are removed.

use std::borrow::Cow;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// The bullets of list items.
pub(super) const BULLETS: [char; 3] = ['-', '*', '•'];

/// The maximum number of digits in the number of a list item, so that a year is not one.
pub(super) const LIST_NUMBER_MAX_DIGITS: usize = 3;

/// The mark at the beginning of a quoted line.
pub(super) const QUOTE: char = '>';

/// The mark of a heading, once or more.
pub(super) const HEADING: char = '#';

/// The maximum level of a heading.
pub(super) const HEADING_MAX: usize = 6;

/// The marks around emphasis, code and deleted text.
pub(super) const MARKS: [&str; 4] = ["*", "_", "`", "~~"];

/// A text without its layout, with a map to the original text.
#[derive(Debug)]
pub(super) struct PlainText<'a> {
    text: Cow<'a, str>,
    /// For each removed piece: its offset in `text`, and the number of bytes removed up to there.
    shifts: Vec<(usize, usize)>,
}

impl<'a> PlainText<'a> {
    /// Removes the layout of `text`.
    pub(super) fn of(text: &'a str) -> Self {
        let mut plain = Self { text: Cow::Borrowed(""), shifts: Vec::new() };
        let mut from = 0;
        for dropped in layout(text) {
            plain.text += text.get(from..dropped.start).unwrap_or_default();
            from = dropped.end;
            plain.shifts.push((plain.text.len(), from - plain.text.len()));
        }
        plain.text += text.get(from..).unwrap_or_default();
        plain
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

/// The ranges of the marks at the beginnings of lines and within them, in their order.
fn layout(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    text.split_inclusive(is_line_end).flat_map(move |line| {
        let start = end;
        end += line.len();
        let content = strip_line_head(line).unwrap_or(line);
        let head = start..end - content.len();
        let marks = marks(content).into_iter();
        let marks = marks.map(move |mark| end - content.len() + mark.start..end - content.len() + mark.end);
        (!head.is_empty()).then_some(head).into_iter().chain(marks)
    })
}

/// The rest of `line` after a quotation mark, a bullet or list number, and a heading mark. `None` if the rest has no
/// letter or digit. A number alone is a claim.
fn strip_line_head(line: &str) -> Option<&str> {
    let mut text = line.trim_start();
    while let Some(rest) = strip_quote_mark(text) {
        text = rest;
    }
    for head in [item, heading] {
        let rest = head(text).and_then(|head| text.get(head..)).unwrap_or_default();
        if rest.starts_with(char::is_whitespace) {
            text = rest.trim_start();
        }
    }
    text.contains(char::is_alphanumeric).then_some(text)
}

/// The rest after a quotation mark. Before a number, `>` is a comparison.
fn strip_quote_mark(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(QUOTE)?;
    let text = rest.trim_start();
    let is_number = text.chars().take(2).any(|character| character.is_ascii_digit());
    (text.len() < rest.len() && !is_number).then_some(text)
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
