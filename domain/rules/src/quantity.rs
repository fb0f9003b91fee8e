//! Numbers with units in one canonical form: RULE-PREC-007 to RULE-PREC-010. "14C", "14.0 °C" and "14 degrees Celsius"
//! become the same word, as do "7.8 km/s" and "7,800 metres per second". Ambiguous text stays unchanged.

mod unit;

use super::number::ExactNumber;
use super::plain_text::is_line_end;
use super::words::{WordSequence, words};
use std::ops::Range;
#[cfg(test)]
pub(super) use unit::{COUNTED, CURRENCIES, KnownUnit, PREFIXES, UNITS};
pub(super) use unit::{COUNTED_SPELLINGS, UNIT_SPELLINGS};
use unit::{QuantityUnit, UnitSpellingTables, leading_unit, leading_words, trailing_currency};

/// The maximum number of digits in a number that is parsed.
pub(super) const DIGITS_MAX: usize = 64;

/// Words that multiply a number, by their powers of ten.
pub(super) const SCALES: [(&str, i32); 4] =
    [("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12)];

/// The separators of thousands: a comma, or a no-break or thin space.
pub(super) const SEPARATORS: [char; 4] = [',', '\u{a0}', '\u{2009}', '\u{202f}'];

/// The characters after which a hyphen or a plus is a sign. After any other character except white space it joins
/// words.
const BEFORE_SIGN: &str = "([{\"'“‘«=<>≤≥~≈±";

/// The characters that make digits directly after them part of a word, a version or a time, as letters and digits do.
const BEFORE_NO_NUMBER: &str = ".,^_/*×·:′";

/// The characters that join a number and its unit: a hyphen and a no-break hyphen.
const HYPHENS: [char; 2] = ['-', '\u{2011}'];

/// The words of `text` in a row. A quantity in a unit of `table` is one word.
pub(super) fn row(text: &str, table: UnitSpellingTables) -> WordSequence {
    let mut row = WordSequence::default();
    let mut from = 0;
    let push_words = |row: &mut WordSequence, from: usize, end: usize| {
        for (range, word) in words(text.get(from..end).unwrap_or_default()) {
            row.push(from + range.start..from + range.end, word);
        }
    };
    for TextQuantity { range, text } in quantities(text, table) {
        push_words(&mut row, from, range.start);
        from = range.end;
        row.push_as_it_is(range, &text);
    }
    push_words(&mut row, from, text.len());
    row
}

/// A number with its unit.
#[derive(Debug, PartialEq, Eq)]
struct TextQuantity {
    range: Range<usize>,
    /// The canonical form: the number, a no-break space, the unit without a prefix.
    text: String,
}

fn quantities(text: &str, table: UnitSpellingTables) -> Vec<TextQuantity> {
    let mut found: Vec<TextQuantity> = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(|c: char| c.is_ascii_digit())) {
        let start = from + at;
        let end = start + digits(text.get(start..).unwrap_or_default()).len();
        let last = found.last().map_or(0, |last| last.range.end);
        from = end;
        if let Some(quantity) = quantity(text, start..end, last, table) {
            from = quantity.range.end;
            found.push(quantity);
        }
    }
    found
}

/// The digits at the beginning of `text`, with the points and separators between them.
fn digits(text: &str) -> &str {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let is_before_digit = characters.peek().is_some_and(|(_, next)| next.is_ascii_digit());
        let is_inside = character.is_ascii_digit()
            || is_before_digit && (character == '.' || SEPARATORS.contains(&character));
        if !is_inside {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// The quantity with the digits at `digits`; `last` is the end of the previous quantity.
fn quantity(
    text: &str,
    digits: Range<usize>,
    last: usize,
    table: UnitSpellingTables,
) -> Option<TextQuantity> {
    let number = number(text.get(digits.clone())?)?;
    let (start, currency) = leading_currency(text, last..digits.start);
    let (start, negative) = leading_sign(text, last..start);
    let before = text.get(..start)?;
    let is_part = if start == digits.start {
        is_part_of_word_or_number(before, text.get(digits.clone())?)
    } else {
        before.ends_with(char::is_alphanumeric)
    };
    if is_part {
        return None;
    }
    let after = text.get(digits.end..)?;
    let (power, after) = leading_scale(after);
    let (unit, after) = match currency {
        Some(currency) => (currency, after),
        None => parse_following_unit(after, table)?,
    };
    let (unit, after) = divide_by_following_unit(unit, after, table);
    let mut next = after.chars();
    let is_whole = match next.next() {
        Some('/' | '*' | '·' | '×' | '^') => !next.next().is_some_and(char::is_alphanumeric),
        Some(next) => !next.is_alphanumeric(),
        None => true,
    };
    let number = number.scaled(power + unit.power);
    let number = if negative { number.negated() } else { number };
    is_whole.then(|| TextQuantity {
        range: start..text.len() - after.len(),
        text: format!("{}\u{a0}{}", number.text(), unit.name),
    })
}

/// Whether digits after `before` are part of a word, a version or a time, or of a number whose thousands are separated
/// by spaces.
fn is_part_of_word_or_number(before: &str, digits: &str) -> bool {
    let mut characters = before.chars().rev();
    match characters.next() {
        Some(last) if is_space(last) => {
            let group = digits.split(|character: char| !character.is_ascii_digit()).next();
            group.is_some_and(|group| group.len() == 3)
                && characters.next().is_some_and(|before| before.is_ascii_digit())
        }
        Some(last) => last.is_alphanumeric() || BEFORE_NO_NUMBER.contains(last),
        None => false,
    }
}

/// Whether `text` begins with a unit, or with a word that multiplies a number.
pub(super) fn begins_with_unit(text: &str) -> bool {
    leading_scale(text).0 != 0 || leading_unit(text, &[&UNIT_SPELLINGS]).is_some()
}

/// Whether the character is a space but not a line end.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() && !is_line_end(character)
}

/// Parses the digits. `None` if there are too many, or if the number has a leading zero.
fn number(digits: &str) -> Option<ExactNumber> {
    let (whole, _) = digits.split_once('.').unwrap_or((digits, ""));
    let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
    let count = digits.bytes().filter(u8::is_ascii_digit).count();
    (count <= DIGITS_MAX && !has_leading_zero).then(|| ExactNumber::parse(digits, &SEPARATORS)).flatten()
}

/// The unit at the beginning of `text`, after a hyphen or spaces, and the rest. "in" is a unit if no word follows, or
/// if it is joined to its number and to nothing else.
fn parse_following_unit<'a>(text: &'a str, table: UnitSpellingTables) -> Option<(QuantityUnit, &'a str)> {
    let hyphened = text.strip_prefix(HYPHENS);
    let spaced = text.trim_start_matches(is_space);
    let spelled = hyphened.unwrap_or(spaced);
    let (unit, rest) = leading_unit(spelled, table)?;
    let is_apart = hyphened.is_none() && spaced.len() < text.len();
    let is_followed = match is_apart {
        true => rest.trim_start_matches(is_space).starts_with(char::is_alphanumeric),
        false => rest.starts_with(HYPHENS),
    };
    let is_in = spelled.strip_suffix(rest) == Some("in");
    (!is_in || !is_followed).then_some((unit, rest))
}

/// The currency at the end of a range of `text`, if there is one, and its start; otherwise the end of the range.
fn leading_currency(text: &str, range: Range<usize>) -> (usize, Option<QuantityUnit>) {
    let before = text.get(range.clone()).unwrap_or_default();
    let before = before.strip_suffix(is_space).unwrap_or(before);
    match trailing_currency(before) {
        Some((before, currency)) => (range.start + before.len(), Some(currency)),
        None => (range.end, None),
    }
}

/// The start of the sign at the end of a range of `text` (without a sign, the end of the range), and whether it is a
/// minus.
fn leading_sign(text: &str, range: Range<usize>) -> (usize, bool) {
    let before = text.get(range.clone()).unwrap_or_default();
    let sign = before.chars().next_back().filter(|sign| "+-−".contains(*sign));
    let Some(sign) = sign else { return (range.end, false) };
    let start = range.end - sign.len_utf8();
    let before = text.get(..start).and_then(|before| before.chars().next_back());
    match before {
        Some(before) if !before.is_whitespace() && !BEFORE_SIGN.contains(before) => (range.end, false),
        _ => (start, sign != '+'),
    }
}

/// The power of ten of a word such as "million" at the beginning of `text`, and the rest.
fn leading_scale(text: &str) -> (i32, &str) {
    let [word, _] = leading_words(text.trim_start_matches(is_space));
    let scale = SCALES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    scale.map_or((0, text), |(_, power)| {
        let rest = text.trim_start_matches(is_space).get(word.len()..).unwrap_or_default();
        (*power, rest)
    })
}

/// `unit` divided by the unit at the beginning of `rest`, if a slash or the word "per" precedes it there.
fn divide_by_following_unit<'a>(
    unit: QuantityUnit,
    rest: &'a str,
    table: UnitSpellingTables,
) -> (QuantityUnit, &'a str) {
    let divisor = rest.strip_prefix('/').or_else(|| {
        let [word, _] = leading_words(rest.trim_start_matches(is_space));
        let per = word.eq_ignore_ascii_case("per");
        let rest = rest.trim_start_matches(is_space).get(word.len()..)?;
        per.then(|| rest.trim_start_matches(is_space))
    });
    match divisor.and_then(|divisor| leading_unit(divisor, table)) {
        Some((divisor, rest)) => {
            let name = format!("{}/{}", unit.name, divisor.name);
            (QuantityUnit { name, power: unit.power - divisor.power }, rest)
        }
        None => (unit, rest),
    }
}
