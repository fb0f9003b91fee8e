//! A parser of UCUM codes, from left to right (The Unified Code for Units of Measure, sections 1 to 13).

use super::table::{ATOMS, PREFIXES, UnitAtom, UnitDefinition};
use super::{CODE_MAX_BYTES, UnitError, UnitMeasure};
use crate::decimal::Decimal;
use num::BigInt;

/// The maximum nesting of parentheses.
pub const NESTING_MAX: usize = 8;
/// The maximum absolute value of an exponent.
pub const EXPONENT_MAX: i32 = 64;

/// Characters that a unit name contains only in square brackets.
const MARKS: &[u8] = b"\"()+-./=[]{}";

/// Parses `code`, and computes its value.
///
/// # Errors
///
/// If `code` is not a UCUM code, or exceeds the limits.
pub(super) fn measure(code: &str) -> Result<UnitMeasure, UnitError> {
    if code.is_empty() || code.len() > CODE_MAX_BYTES {
        return Err(UnitError::Length { size_bytes: code.len() });
    }
    let mut parser = UcumCodeParser { code, at: 0, nesting: 0 };
    let first =
        if parser.consume_if_next(b'/') { parser.over(&UnitMeasure::one())? } else { parser.component()? };
    let measure = parser.term(first)?;
    if parser.at < code.len() {
        return Err(parser.missing("`.`, `/` or the end"));
    }
    Ok(measure)
}

struct UcumCodeParser<'a> {
    code: &'a str,
    /// The offset of the next byte to read.
    at: usize,
    /// The number of open parentheses.
    nesting: usize,
}

impl<'a> UcumCodeParser<'a> {
    /// Parses the rest of a product that begins with `product`: `a/b.c` is `(a/b).c`.
    fn term(&mut self, mut product: UnitMeasure) -> Result<UnitMeasure, UnitError> {
        loop {
            if self.consume_if_next(b'.') {
                let factor = self.component()?;
                product = self.combined(&product, &factor, UnitMeasure::times)?;
            } else if self.consume_if_next(b'/') {
                product = self.over(&product)?;
            } else {
                return Ok(product);
            }
        }
    }

    /// Divides `dividend` by the next component.
    fn over(&mut self, dividend: &UnitMeasure) -> Result<UnitMeasure, UnitError> {
        let divisor = self.component()?;
        self.combined(dividend, &divisor, UnitMeasure::over)
    }

    /// Combines two measures, which must not be scales.
    fn combined(
        &self,
        left: &UnitMeasure,
        right: &UnitMeasure,
        combine: fn(&UnitMeasure, &UnitMeasure) -> UnitMeasure,
    ) -> Result<UnitMeasure, UnitError> {
        match left.scale().or(right.scale()) {
            Some(scale) => Err(self.scale_in_term(scale)),
            None => self.in_range(combine(left, right)),
        }
    }

    /// Parses one part of a product: a unit with its exponent, a number, an annotation, or a term in parentheses.
    fn component(&mut self) -> Result<UnitMeasure, UnitError> {
        if self.consume_if_next(b'(') {
            return self.parenthesized();
        }
        if self.peek() == Some(b'{') {
            return Ok(UnitMeasure::one().annotated(self.annotation()?));
        }
        let mut simple = self.simple_unit()?;
        if self.peek() == Some(b'{') {
            simple = simple.annotated(self.annotation()?);
        }
        self.in_range(simple)
    }

    fn parenthesized(&mut self) -> Result<UnitMeasure, UnitError> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(UnitError::Nesting { code: self.code.to_owned() });
        }
        let first = self.component()?;
        let term = self.term(first)?;
        self.nesting -= 1;
        if self.consume_if_next(b')') { Ok(term) } else { Err(self.missing("`.`, `/` or `)`")) }
    }

    /// Parses an annotation, with its braces.
    fn annotation(&mut self) -> Result<&'a str, UnitError> {
        let from = self.at;
        self.at += 1;
        let words = self.run(|byte| byte.is_ascii_graphic() && !b"{}".contains(&byte));
        if words.is_empty() {
            return Err(self.missing("an annotation's text"));
        }
        if !self.consume_if_next(b'}') {
            return Err(self.missing("`}`"));
        }
        Ok(self.code.get(from..self.at).unwrap_or_default())
    }

    /// Parses a unit with its exponent, or a whole number.
    fn simple_unit(&mut self) -> Result<UnitMeasure, UnitError> {
        let from = self.at;
        let mut bracket_end = from;
        loop {
            self.run(|byte| byte.is_ascii_graphic() && !MARKS.contains(&byte));
            if !self.consume_if_next(b'[') {
                break;
            }
            self.run(|byte| byte.is_ascii_graphic() && !b"[]".contains(&byte));
            if !self.consume_if_next(b']') {
                return Err(self.missing("`]`"));
            }
            bracket_end = self.at;
        }
        let text = self.code.get(from..self.at).unwrap_or_default();
        let (bracketed, open) = text.split_at_checked(bracket_end - from).unwrap_or_default();
        let name = bracketed.len() + open.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        match text.split_at_checked(name).unwrap_or_default() {
            ("", "") => Err(self.missing("a unit")),
            ("", digits) => Ok(UnitMeasure::of_integer(digits.parse::<BigInt>().unwrap_or_default())),
            (name, "") => {
                let from = self.at;
                if !self.consume_if_next(b'-') && !self.consume_if_next(b'+') {
                    return self.unit(name);
                }
                if self.run(|byte| byte.is_ascii_digit()).is_empty() {
                    return Err(self.missing("a digit"));
                }
                self.power(name, self.code.get(from..self.at).unwrap_or_default())
            }
            (name, exponent) => self.power(name, exponent),
        }
    }

    fn power(&self, name: &str, exponent: &str) -> Result<UnitMeasure, UnitError> {
        let unit = self.unit(name)?;
        if let Some(scale) = unit.scale() {
            return Err(self.scale_in_term(scale));
        }
        let exponent =
            exponent.parse().ok().filter(|exponent| (-EXPONENT_MAX..=EXPONENT_MAX).contains(exponent));
        exponent
            .map(|exponent| unit.power(exponent))
            .ok_or_else(|| UnitError::Exponent { code: self.code.to_owned() })
    }

    /// The unit `name`, with its prefix if it has one.
    fn unit(&self, name: &str) -> Result<UnitMeasure, UnitError> {
        if let Some(atom) = atom(name) {
            return defined(atom, name);
        }
        let parts = |(prefix, value): &(&str, &'static str)| {
            name.strip_prefix(prefix).and_then(atom).map(|atom| (*value, atom))
        };
        let (code, unit) = (self.code.to_owned(), name.to_owned());
        let mut prefixed = PREFIXES.iter().filter_map(parts).peekable();
        if prefixed.peek().is_none() {
            return Err(UnitError::Unknown { code, unit });
        }
        let (value, atom) =
            prefixed.find(|(_, atom)| atom.is_metric).ok_or(UnitError::Prefix { code, unit })?;
        let unit = defined(atom, name)?;
        Ok(if unit.scale().is_some() { unit } else { number(value).times(&unit) })
    }

    fn in_range(&self, measure: UnitMeasure) -> Result<UnitMeasure, UnitError> {
        if measure.is_in_range() { Ok(measure) } else { Err(UnitError::Range { code: self.code.to_owned() }) }
    }

    fn peek(&self) -> Option<u8> {
        self.code.as_bytes().get(self.at).copied()
    }

    /// Consumes `byte` if it is next, and returns whether it was.
    fn consume_if_next(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Consumes and returns the bytes for which `is_part` is true.
    fn run(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.code.get(self.at..).unwrap_or_default();
        let size = rest.bytes().take_while(|byte| is_part(*byte)).count();
        self.at += size;
        rest.get(..size).unwrap_or_default()
    }

    fn missing(&self, expected: &'static str) -> UnitError {
        UnitError::Syntax { code: self.code.to_owned(), at: self.at, expected }
    }

    fn scale_in_term(&self, scale: &str) -> UnitError {
        UnitError::ScaleInTerm { code: self.code.to_owned(), scale: scale.to_owned() }
    }
}

fn atom(code: &str) -> Option<&'static UnitAtom> {
    ATOMS.iter().find(|atom| atom.code == code)
}

/// The value of `atom`. A scale keeps `name`, which includes its prefix.
fn defined(atom: &UnitAtom, name: &str) -> Result<UnitMeasure, UnitError> {
    match atom.definition {
        UnitDefinition::Base => Ok(UnitMeasure::of_base(atom.code)),
        UnitDefinition::Of(value, unit) => Ok(number(value).times(&measure(unit)?)),
        UnitDefinition::Scale => Ok(UnitMeasure::of_scale(name.to_owned())),
    }
}

fn number(text: &str) -> UnitMeasure {
    UnitMeasure::of(&text.parse::<Decimal>().expect("a test reads the table's numbers"))
}
