//! A text without what lays it out and says nothing: the numbers and bullets of lists.

use std::borrow::Cow;
use std::ops::Range;

/// The bullets of lists.
pub(super) const BULLETS: [char; 3] = ['-', '*', '•'];

/// The most digits of a list's number; a year is none.
pub(super) const LIST_NUMBER_MAX_DIGITS: usize = 3;

/// A text without its layout, and where it comes from.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    text: Cow<'a, str>,
    /// Behind which byte something was left out, and how much up to there, in bytes.
    shifts: Vec<(usize, usize)>,
}

impl<'a> Plain<'a> {
    /// `text` without its layout.
    pub(super) fn of(text: &'a str) -> Self {
        let mut plain = Self { text: Cow::Borrowed(""), shifts: Vec::new() };
        let mut from = 0;
        for dropped in heads(text) {
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

    /// The stretch of the text as it came, from the first byte of `range` to its last.
    pub(super) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let behind = |passed: usize| {
            let last = passed.checked_sub(1).and_then(|last| self.shifts.get(last));
            last.map_or(0, |(_, shift_bytes)| *shift_bytes)
        };
        let start = behind(self.shifts.partition_point(|(at, _)| *at <= range.start));
        let end = behind(self.shifts.partition_point(|(at, _)| *at < range.end));
        range.start + start..range.end + end
    }
}

/// Whether a line ends with `character`.
pub(super) const fn is_line_end(character: char) -> bool {
    matches!(character, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What lines begin with before they say anything, one after the other.
fn heads(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    text.split_inclusive(is_line_end).filter_map(move |line| {
        let start = end;
        end += line.len();
        let head = line.len() - behind_head(line)?.len();
        Some(start..start + head)
    })
}

/// What follows in `line` behind the bullet or the number of a list, if it says anything. A number alone is a claim.
fn behind_head(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let behind = line.strip_prefix(BULLETS).or_else(|| behind_number(line))?;
    let text = behind.trim_start();
    (text.len() < behind.len() && text.contains(char::is_alphanumeric)).then_some(text)
}

/// What follows behind the number, or the small letter, of a list.
fn behind_number(line: &str) -> Option<&str> {
    let digits = line.find(|character: char| !character.is_ascii_digit())?;
    let number = match digits {
        0 => usize::from(line.starts_with(|character: char| character.is_ascii_lowercase())),
        _ => digits,
    };
    let is_number = (1..=LIST_NUMBER_MAX_DIGITS).contains(&number);
    is_number.then(|| line.get(number..)?.strip_prefix(['.', ')'])).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_bullets_at_the_beginning_of_a_line_are_left_out() {
        for (text, plain) in [
            ("1. Ice melts.\n 2) Sand\r\n\ta. Salt\u{2028}b) Tin", "Ice melts.\nSand\r\nSalt\u{2028}Tin"),
            ("- Ice\n* Sand\n• Salt", "Ice\nSand\nSalt"),
            ("42.", "42."),
            ("1. ...\n- —", "1. ...\n- —"),
            ("-5 °C\n*Ice\n1.5 kg\n1.Ice", "-5 °C\n*Ice\n1.5 kg\n1.Ice"),
            ("2026. It rained\n123. It did", "2026. It rained\nIt did"),
            ("A. Lincoln\nab. c\né. x", "A. Lincoln\nab. c\né. x"),
            ("1. 2. Ice - sand 3. Salt", "2. Ice - sand 3. Salt"),
        ] {
            assert_eq!(Plain::of(text).text(), plain, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_left_stands_where_it_is_said_to(text in "([-*•>#]|[0-9a]{1,2}[.)]|[ \\n\\r]|[a-zé_~`]){0,30}") {
            let plain = Plain::of(&text);
            for (at, character) in plain.text().char_indices() {
                let origin = plain.origin(at..at + character.len_utf8());
                prop_assert_eq!(&text[origin], character.to_string());
            }
        }
    }
}
