//! Parses the comparisons in a text: `L op R` with simple operands.
//!
//! If an operand may be only a part of a longer one, its comparison is skipped. Otherwise a part of the operand would
//! be compared, and could contradict a statement that agrees with it.

use crate::normalization::normalize;
use crate::plain_text::is_space;
use crate::statements::begins_with_unit;
use std::cmp::Ordering;
use std::ops::Range;

/// The maximum length of an operand, in bytes; a longer one is not simple.
const OPERAND_MAX_BYTES: usize = 64;
/// Operators of arithmetic. An operand with one of these next to it, ignoring spaces, is not simple.
const ARITHMETIC: &str = "+-−–*/^×·÷";
/// An operand after one of these characters is not simple.
const BEFORE: &str = ")€$£¥√∑∏∫∂∇∆¬~±≈#@\\";
/// An operand before one of these characters is not simple.
const BEHIND: &str = "(@";
/// An operand is not simple if one of these characters is next to it, with a letter or a digit on the other side.
const WITHIN: &str = "'’:[";
/// The marks at the beginning or the end of an amount, and the marks only at its end.
const MARKS: [&str; 2] = ["$€", "%°"];
/// The word that joins two comparisons and is not part of their operands.
const AND: &str = "and";

/// A comparison in the candidate or in a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OperandComparison {
    pub(super) above: String,
    pub(super) below: String,
    pub(super) strict: bool,
    /// The normalized text, for quotations.
    pub(super) text: String,
    /// The index of the part of the candidate; `None` for a constraint.
    pub(super) part: Option<usize>,
    /// The range in that text.
    pub(super) range: Range<usize>,
}

/// The comparisons in `text`, in their order.
pub(super) fn comparisons(text: &str, part: Option<usize>) -> impl Iterator<Item = OperandComparison> {
    text.match_indices(['<', '>']).filter_map(move |(at, sign)| {
        let read = comparison(text, at, sign)?;
        Some(OperandComparison { part, ..read })
    })
}

/// The comparisons of a constraint, joined by commas, by "and", or to a chain. `None` if the constraint contains
/// anything else.
pub(super) fn constraint(text: &str) -> Option<Vec<OperandComparison>> {
    let text = text.trim();
    let all: Vec<OperandComparison> = comparisons(text, None).collect();
    let mut end = 0;
    for OperandComparison { range, .. } in &all {
        let is_joined = match text.get(end..range.start) {
            Some(gap) if end == 0 => gap.is_empty(),
            Some(gap) => is_joint(gap.trim()),
            // the comparisons of a chain share an operand
            None => true,
        };
        if !is_joined {
            return None;
        }
        end = range.end;
    }
    (!all.is_empty() && end == text.len()).then_some(all)
}

/// Whether `gap` only joins two comparisons.
fn is_joint(gap: &str) -> bool {
    gap == "," || gap.strip_prefix(',').unwrap_or(gap).trim_start().eq_ignore_ascii_case(AND)
}

/// The comparison with `sign` at byte `at` of `text`. Arrows, shifts and the like do not have operands on both sides.
fn comparison(text: &str, at: usize, sign: &str) -> Option<OperandComparison> {
    let (before, after) = (text.get(..at)?, text.get(at + sign.len()..)?);
    let (strict, after) = after.strip_prefix('=').map_or((true, after), |after| (false, after));
    if is_bracket(sign, before, after) || strict && sign == ">" && begins_line(before) {
        return None;
    }
    let (left, right) = (trailing_operand(before.trim_end()), leading_operand(after.trim_start()));
    let (known_left, known_right) = (normalize_operand(left)?, normalize_operand(right)?);
    let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let range = offset(left)..offset(right) + right.len();
    let (before, after) = (text.get(..range.start)?, text.get(range.end..)?);
    let is_same = known_left == known_right;
    if is_part_before(before, left, is_same) || is_part_after(right, after, is_same) {
        return None;
    }
    let (above, below) = if sign == ">" { (known_left, known_right) } else { (known_right, known_left) };
    let text = normalize(text.get(range.clone())?);
    Some(OperandComparison { above, below, strict, text, part: None, range })
}

/// Whether `sign` is a bracket around the name of a tag or a type parameter: `<b>`, `</b>`, `Vec<T>`.
fn is_bracket(sign: &str, before: &str, after: &str) -> bool {
    if sign == "<" {
        after.strip_prefix(leading_operand(after)).is_some_and(|rest| rest.starts_with('>'))
    } else {
        let rest = before.strip_suffix(trailing_operand(before));
        rest.is_some_and(|rest| rest.strip_suffix('/').unwrap_or(rest).ends_with('<'))
    }
}

/// Whether only white space precedes the position on its line, as before a quotation mark `>`.
fn begins_line(before: &str) -> bool {
    !before.trim_end_matches(is_space).ends_with(|character: char| !character.is_whitespace())
}

/// Whether the text before the left operand belongs to it. `is_same` is true if both operands are equal.
fn is_part_before(before: &str, left: &str, is_same: bool) -> bool {
    let near = before.trim_end_matches(is_space);
    let Some(last) = near.chars().next_back() else { return false };
    if ARITHMETIC.contains(last) {
        // unless it is the bullet of a list item
        let has_space = near.len() < before.len();
        return !(has_space && near.strip_suffix(last).is_some_and(begins_line));
    }
    BEFORE.contains(last)
        || last.is_ascii_digit() && begins_with_unit(left)
        || is_within(before.chars().rev())
        || is_same && is_word(near.rsplit(|character: char| !character.is_alphanumeric()).next())
}

/// Whether the text after the right operand belongs to it. `is_same` is true if both operands are equal.
fn is_part_after(right: &str, rest: &str, is_same: bool) -> bool {
    let near = rest.trim_start_matches(is_space);
    near.starts_with(|next| ARITHMETIC.contains(next) || BEHIND.contains(next))
        || right.ends_with(|last: char| last.is_ascii_digit()) && begins_with_unit(near)
        || is_within(rest.chars())
        // a type parameter that itself has one of the same name
        || is_same && rest.starts_with('<')
        || is_same && is_word(near.split(|character: char| !character.is_alphanumeric()).next())
}

/// Whether the characters next to an operand make it part of a longer word, as in "it's", "12:30" and `x[i]`.
fn is_within(mut adjacent: impl Iterator<Item = char>) -> bool {
    adjacent.next().is_some_and(|next| WITHIN.contains(next))
        && adjacent.next().is_some_and(char::is_alphanumeric)
}

/// Whether the word next to an operand may be a part of it: "the new price > price" is about two prices.
fn is_word(adjacent: Option<&str>) -> bool {
    adjacent.is_some_and(|word| !word.is_empty() && !word.eq_ignore_ascii_case(AND))
}

/// The operand at the end of `text`.
fn trailing_operand(text: &str) -> &str {
    let mut start = text.len();
    let mut after = None;
    for (at, character) in text.char_indices().rev() {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        if !is_of_operand(before, character, after) || text.len() - at > OPERAND_MAX_BYTES + 4 {
            break;
        }
        (start, after) = (at, Some(character));
    }
    text.get(start..).unwrap_or_default()
}

/// The operand at the beginning of `text`.
fn leading_operand(text: &str) -> &str {
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    let mut end = 0;
    while let Some((at, character)) = characters.next() {
        let after = characters.peek().map(|(_, character)| *character);
        if !is_of_operand(before, character, after) || at > OPERAND_MAX_BYTES {
            break;
        }
        (end, before) = (at + character.len_utf8(), Some(character));
    }
    text.get(..end).unwrap_or_default()
}

/// Whether the character is part of an operand. These are letters with their marks, digits and their marks, points and
/// hyphens between two of these, commas between two digits, and a sign before a digit.
fn is_of_operand(before: Option<char>, character: char, after: Option<char>) -> bool {
    let word = |character: char| {
        character.is_alphanumeric()
            || matches!(character, '_' | '%' | '°' | '$' | '€' | '\u{300}'..='\u{36f}')
    };
    let digit = |character: char| character.is_ascii_digit();
    let joined = before.is_some_and(word) && after.is_some_and(word);
    let signs = !before.is_some_and(word) && after.is_some_and(digit);
    match character {
        '.' => joined,
        ',' => before.is_some_and(digit) && after.is_some_and(digit),
        '-' => joined || signs,
        '−' => signs,
        _ => word(character),
    }
}

/// The normal form of an operand: an amount by its value, any other by its letters. A text such as "1,5", "2x" or
/// "5mW", which begins like a number but is none, is not a simple operand.
fn normalize_operand(operand: &str) -> Option<String> {
    if operand.len() > OPERAND_MAX_BYTES || !operand.contains(char::is_alphanumeric) {
        return None;
    }
    let digits = operand.trim_start_matches(['-', '−', '$', '€']);
    if digits.starts_with(|first: char| first.is_ascii_digit()) {
        return MarkedNumber::parse(operand).map(|amount| amount.text());
    }
    Some(normalize(operand))
}

/// A number with its mark of a currency, per cent or degrees, if any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MarkedNumber {
    pub(super) mark: Option<char>,
    number: ExactNumber,
}

impl MarkedNumber {
    /// Parses a number, with commas between thousands, and a mark at either end.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let [either, last] = MARKS;
        let first = text.chars().next().filter(|mark| either.contains(*mark));
        let is_last = |mark: &char| either.contains(*mark) || last.contains(*mark);
        let mark = first.or_else(|| text.chars().next_back().filter(is_last));
        let digits = match mark {
            Some(mark) => text.strip_prefix(mark).or_else(|| text.strip_suffix(mark))?,
            None => text,
        };
        Some(Self { mark, number: ExactNumber::parse(digits, &[','])? })
    }

    /// The text with its mark in the usual position.
    fn text(&self) -> String {
        let Self { mark, number } = self;
        let number = number.text();
        match mark {
            Some(mark) if MARKS.first().is_some_and(|either| either.contains(*mark)) => {
                format!("{mark}{number}")
            }
            Some(mark) => format!("{number}{mark}"),
            None => number,
        }
    }

    /// Compares the marks, then the numbers.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.mark.cmp(&other.mark).then_with(|| self.number.cmp(&other.number))
    }
}

/// A number with all of its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExactNumber {
    negative: bool,
    /// Without leading zeros.
    whole: String,
    /// Without trailing zeros.
    fraction: String,
}

impl ExactNumber {
    /// Parses digits with a decimal point, with one kind of `separators` between thousands, and with a hyphen or minus
    /// as the sign.
    pub(super) fn parse(text: &str, separators: &[char]) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix(['-', '−']) {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = ungrouped(whole, separators)?;
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !all_digits(&whole) || !all_digits(fraction) {
            return None;
        }
        Some(Self::of(negative, &whole, fraction))
    }

    /// The number as text, without superfluous zeros and without separators.
    pub(super) fn text(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let whole = if self.whole.is_empty() { "0" } else { &self.whole };
        let point = if self.fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{}", self.fraction)
    }

    fn of(negative: bool, whole: &str, fraction: &str) -> Self {
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let negative = negative && !(whole.is_empty() && fraction.is_empty());
        Self { negative, whole: whole.to_owned(), fraction: fraction.to_owned() }
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        let size = |number: &Self| (number.whole.len(), number.whole.clone(), number.fraction.clone());
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
        }
    }
}

/// `whole` without its separators, if the same separator precedes every group of three digits. "1,5" and "0,123" are
/// rejected, because they may be fractions.
fn ungrouped(whole: &str, separators: &[char]) -> Option<String> {
    let Some(separator) = whole.chars().find(|character| separators.contains(character)) else {
        return Some(whole.to_owned());
    };
    let mut groups = whole.split(separator);
    let is_first = |group: &str| (1..=3).contains(&group.len()) && !group.starts_with('0');
    let is_grouped = groups.next().is_some_and(is_first) && groups.all(|group| group.len() == 3);
    is_grouped.then(|| whole.replace(separator, ""))
}
