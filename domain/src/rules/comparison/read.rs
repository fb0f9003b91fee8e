//! Comparisons as they stand in a text: `L op R` over simple operands.
//!
//! What is longer than an operand that is read would be compared by a piece of it, and speak against what it agrees with:
//! so where it is not certain that an operand is whole, nothing is compared.

use crate::rules::normal::normalize;
use crate::rules::number::Number;
use crate::rules::quantity::{begins_with_unit, is_space};
use std::cmp::Ordering;
use std::ops::Range;

/// The longest operand, in bytes; what is longer is no simple one.
const OPERAND_MAX_BYTES: usize = 64;
/// What an operand is calculated with; no simple one has it beside itself, spaces aside.
const ARITHMETIC: &str = "+-−–*/^×·÷";
/// Nor one of these before itself,
const BEFORE: &str = ")€$£¥√∑∏∫∂∇∆¬~±≈#@\\";
/// nor one of these behind.
const BEHIND: &str = "(@";
/// Nor one of these with a letter or a digit beyond it.
const WITHIN: &str = "'’:[";
/// What an amount begins or ends with, and what it only ends with.
const MARKS: [&str; 2] = ["$€", "%°"];
/// What stands between two comparisons, and is no word of their operands.
const AND: &str = "and";

/// One comparison that the candidate makes, or a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) above: String,
    pub(super) below: String,
    pub(super) strict: bool,
    /// As it is quoted.
    pub(super) text: String,
    /// In which part of the candidate; none for a constraint.
    pub(super) part: Option<usize>,
    /// Where in that text.
    pub(super) range: Range<usize>,
}

/// The comparisons of `text`, in its order.
pub(super) fn comparisons(text: &str, part: Option<usize>) -> impl Iterator<Item = Comparison> {
    text.match_indices(['<', '>']).filter_map(move |(at, sign)| {
        let read = comparison(text, at, sign)?;
        Some(Comparison { part, ..read })
    })
}

/// The comparisons that a constraint is made of from end to end, joined by commas or "and" or to a chain; none where
/// anything else is in it.
pub(super) fn constraint(text: &str) -> Option<Vec<Comparison>> {
    let text = text.trim();
    let all: Vec<Comparison> = comparisons(text, None).collect();
    let mut end = 0;
    for Comparison { range, .. } in &all {
        let is_joined = match text.get(end..range.start) {
            Some(gap) if end == 0 => gap.is_empty(),
            Some(gap) => is_joint(gap.trim()),
            // those of a chain share an operand
            None => true,
        };
        if !is_joined {
            return None;
        }
        end = range.end;
    }
    (!all.is_empty() && end == text.len()).then_some(all)
}

/// Whether `gap` joins two comparisons, and says nothing else.
fn is_joint(gap: &str) -> bool {
    gap == "," || gap.strip_prefix(',').unwrap_or(gap).trim_start().eq_ignore_ascii_case(AND)
}

/// The comparison by the `sign` at byte `at` of `text`. Arrows, shifts and the like have no operands on both sides.
fn comparison(text: &str, at: usize, sign: &str) -> Option<Comparison> {
    let (before, behind) = (text.get(..at)?, text.get(at + sign.len()..)?);
    let (strict, behind) = behind.strip_prefix('=').map_or((true, behind), |behind| (false, behind));
    if is_bracket(sign, before, behind) || strict && sign == ">" && begins_line(before) {
        return None;
    }
    let (left, right) = (operand_behind(before.trim_end()), operand_before(behind.trim_start()));
    let (known_left, known_right) = (known(left)?, known(right)?);
    let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let range = offset(left)..offset(right) + right.len();
    let (before, behind) = (text.get(..range.start)?, text.get(range.end..)?);
    let is_same = known_left == known_right;
    if is_part_before(before, left, is_same) || is_part_behind(right, behind, is_same) {
        return None;
    }
    let (above, below) = if sign == ">" { (known_left, known_right) } else { (known_right, known_left) };
    let text = normalize(text.get(range.clone())?);
    Some(Comparison { above, below, strict, text, part: None, range })
}

/// Whether `sign` is one of the brackets around a tag's name or a type's parameter: `<b>`, `</b>`, `Vec<T>`.
fn is_bracket(sign: &str, before: &str, behind: &str) -> bool {
    if sign == "<" {
        behind.strip_prefix(operand_before(behind)).is_some_and(|rest| rest.starts_with('>'))
    } else {
        let rest = before.strip_suffix(operand_behind(before));
        rest.is_some_and(|rest| rest.strip_suffix('/').unwrap_or(rest).ends_with('<'))
    }
}

/// Whether nothing stands before the place on its line, as before the mark of a quotation.
fn begins_line(before: &str) -> bool {
    !before.trim_end_matches(is_space).ends_with(|character: char| !character.is_whitespace())
}

/// Whether what stands before the left operand belongs to it; `is_same` is the right one.
fn is_part_before(before: &str, left: &str, is_same: bool) -> bool {
    let near = before.trim_end_matches(is_space);
    let Some(last) = near.chars().next_back() else { return false };
    if ARITHMETIC.contains(last) {
        // unless it is the mark of a list's item
        let has_space = near.len() < before.len();
        return !(has_space && near.strip_suffix(last).is_some_and(begins_line));
    }
    BEFORE.contains(last)
        || last.is_ascii_digit() && begins_with_unit(left)
        || is_within(before.chars().rev())
        || is_same && is_word(near.rsplit(|character: char| !character.is_alphanumeric()).next())
}

/// Whether what stands behind the right operand belongs to it; `is_same` is the left one.
fn is_part_behind(right: &str, behind: &str, is_same: bool) -> bool {
    let near = behind.trim_start_matches(is_space);
    near.starts_with(|next| ARITHMETIC.contains(next) || BEHIND.contains(next))
        || right.ends_with(|last: char| last.is_ascii_digit()) && begins_with_unit(near)
        || is_within(behind.chars())
        // a type's parameter that has one of the same name
        || is_same && behind.starts_with('<')
        || is_same && is_word(near.split(|character: char| !character.is_alphanumeric()).next())
}

/// Whether the characters beside an operand make it a part of a longer word: as in "it's", "12:30" and `x[i]`.
fn is_within(mut beside: impl Iterator<Item = char>) -> bool {
    beside.next().is_some_and(|next| WITHIN.contains(next))
        && beside.next().is_some_and(char::is_alphanumeric)
}

/// Whether this is a word that an operand may be of: "the new price > price" is about two prices.
fn is_word(beside: Option<&str>) -> bool {
    beside.is_some_and(|word| !word.is_empty() && !word.eq_ignore_ascii_case(AND))
}

/// The operand that `text` ends with.
fn operand_behind(text: &str) -> &str {
    let mut start = text.len();
    let mut behind = None;
    for (at, character) in text.char_indices().rev() {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        if !is_of_operand(before, character, behind) || text.len() - at > OPERAND_MAX_BYTES + 4 {
            break;
        }
        (start, behind) = (at, Some(character));
    }
    text.get(start..).unwrap_or_default()
}

/// The operand that `text` begins with.
fn operand_before(text: &str) -> &str {
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    let mut end = 0;
    while let Some((at, character)) = characters.next() {
        let behind = characters.peek().map(|(_, character)| *character);
        if !is_of_operand(before, character, behind) || at > OPERAND_MAX_BYTES {
            break;
        }
        (end, before) = (at + character.len_utf8(), Some(character));
    }
    text.get(..end).unwrap_or_default()
}

/// Letters with their marks, digits and what belongs to them; points and hyphens between two of these, commas between two
/// digits; a sign before a digit.
fn is_of_operand(before: Option<char>, character: char, behind: Option<char>) -> bool {
    let word = |character: char| {
        character.is_alphanumeric()
            || matches!(character, '_' | '%' | '°' | '$' | '€' | '\u{300}'..='\u{36f}')
    };
    let digit = |character: char| character.is_ascii_digit();
    let joined = before.is_some_and(word) && behind.is_some_and(word);
    let signs = !before.is_some_and(word) && behind.is_some_and(digit);
    match character {
        '.' => joined,
        ',' => before.is_some_and(digit) && behind.is_some_and(digit),
        '-' => joined || signs,
        '−' => signs,
        _ => word(character),
    }
}

/// An operand as it is known: an amount by its value, all else by its letters. What begins as a number and is none, as
/// "1,5", "2x" or "5mW", is no simple operand.
fn known(operand: &str) -> Option<String> {
    if operand.len() > OPERAND_MAX_BYTES || !operand.contains(char::is_alphanumeric) {
        return None;
    }
    let digits = operand.trim_start_matches(['-', '−', '$', '€']);
    if digits.starts_with(|first: char| first.is_ascii_digit()) {
        return Amount::parse(operand).map(|amount| amount.text());
    }
    Some(normalize(operand))
}

/// A number with the mark that it has of a currency, per cent or degrees.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) mark: Option<char>,
    number: Number,
}

impl Amount {
    /// Reads a number, thousands separated by commas, and the mark at either end.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let [either, last] = MARKS;
        let first = text.chars().next().filter(|mark| either.contains(*mark));
        let is_last = |mark: &char| either.contains(*mark) || last.contains(*mark);
        let mark = first.or_else(|| text.chars().next_back().filter(is_last));
        let digits = match mark {
            Some(mark) => text.strip_prefix(mark).or_else(|| text.strip_suffix(mark))?,
            None => text,
        };
        Some(Self { mark, number: Number::parse(digits, &[','])? })
    }

    /// With its mark where it is written.
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

    /// By the mark, then by the number.
    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.mark.cmp(&other.mark).then_with(|| self.number.cmp(&other.number))
    }
}
