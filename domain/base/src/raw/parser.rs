//! A parser of JSON (RFC 8259) that reads the text once, from left to right.

use super::{MAX_DEPTH, RawRecordError, SourceValue};
use crate::payload::find_repeated_name;
use crate::text_form::into_nfc;
use crate::wording::excerpt;

/// Parses `text` as one value.
///
/// # Errors
/// The first fault.
pub(super) fn parse(text: &str) -> Result<SourceValue, RawRecordError> {
    let mut parser = RawRecordParser { text, at: 0 };
    let value = parser.value(MAX_DEPTH)?;
    if parser.next().is_none() { Ok(value) } else { Err(parser.expected("the end")) }
}

struct RawRecordParser<'t> {
    text: &'t str,
    /// The offset of the next byte to read.
    at: usize,
}

impl<'t> RawRecordParser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space, and returns the byte after it.
    fn next(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    fn consume_if_next(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// Parses a value with at most `levels` nested lists and objects.
    fn value(&mut self, levels: usize) -> Result<SourceValue, RawRecordError> {
        match self.next() {
            Some(b'{') => self.object(levels.checked_sub(1).ok_or(RawRecordError::TooDeep)?),
            Some(b'[') => self.list(levels.checked_sub(1).ok_or(RawRecordError::TooDeep)?),
            Some(b'"') => self.string().map(SourceValue::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [
                    ("null", SourceValue::Null),
                    ("true", SourceValue::Bool(true)),
                    ("false", SourceValue::Bool(false)),
                ];
                let rest = self.text.get(self.at..).unwrap_or_default();
                let word = words.into_iter().find(|(word, _)| rest.starts_with(word));
                let (word, value) = word.ok_or_else(|| self.expected("a value"))?;
                self.at += word.len();
                Ok(value)
            }
        }
    }

    fn list(&mut self, levels: usize) -> Result<SourceValue, RawRecordError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.next() == Some(b']') {
            self.at += 1;
            return Ok(SourceValue::List(items));
        }
        loop {
            items.push(self.value(levels)?);
            if self.consume_comma_or_end(b']', "`,` or `]`")? {
                return Ok(SourceValue::List(items));
            }
        }
    }

    fn object(&mut self, levels: usize) -> Result<SourceValue, RawRecordError> {
        self.at += 1;
        let mut members = Vec::new();
        if self.next() == Some(b'}') {
            self.at += 1;
            return Ok(SourceValue::Object(members));
        }
        loop {
            if self.next() != Some(b'"') {
                return Err(self.expected("a name in quotes"));
            }
            let name = into_nfc(self.string()?);
            if self.next() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            members.push((name, self.value(levels)?));
            if self.consume_comma_or_end(b'}', "`,` or `}`")? {
                break;
            }
        }
        match find_repeated_name(&members) {
            Some(name) => Err(RawRecordError::RepeatedName { name: excerpt(name) }),
            None => Ok(SourceValue::Object(members)),
        }
    }

    /// Consumes a comma or `end`, and returns whether it was `end`.
    fn consume_comma_or_end(&mut self, end: u8, missing: &str) -> Result<bool, RawRecordError> {
        self.next();
        if self.consume_if_next(b',') {
            return Ok(false);
        }
        if self.consume_if_next(end) { Ok(true) } else { Err(self.expected(missing)) }
    }

    fn number(&mut self) -> Result<SourceValue, RawRecordError> {
        let from = self.at;
        self.consume_if_next(b'-');
        if !self.consume_if_next(b'0') {
            self.digits()?;
        }
        if self.consume_if_next(b'.') {
            self.digits()?;
        }
        if self.consume_if_next(b'e') || self.consume_if_next(b'E') {
            let _is_signed = self.consume_if_next(b'-') || self.consume_if_next(b'+');
            self.digits()?;
        }
        Ok(SourceValue::Number(self.text.get(from..self.at).unwrap_or_default().to_owned()))
    }

    /// Consumes one or more digits.
    fn digits(&mut self) -> Result<(), RawRecordError> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(self.expected("a digit")) }
    }

    fn string(&mut self) -> Result<String, RawRecordError> {
        self.at += 1;
        let mut content = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.bytes().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)).count();
            self.at += plain;
            content.push_str(rest.get(..plain).unwrap_or_default());
            if self.consume_if_next(b'"') {
                return Ok(content);
            }
            if !self.consume_if_next(b'\\') {
                return Err(self.expected("a quote, or a character other than a control character"));
            }
            content.push(self.escaped()?);
        }
    }

    /// Parses the rest of an escape, after its backslash.
    fn escaped(&mut self) -> Result<char, RawRecordError> {
        let letter = self.peek();
        self.at += 1;
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.unit()?;
                // after the first half of a surrogate pair, read the second one
                let second = if (0xd800..0xdc00).contains(&first) && self.consume_if_next(b'\\') {
                    if !self.consume_if_next(b'u') {
                        return Err(RawRecordError::Surrogate);
                    }
                    Some(self.unit()?)
                } else {
                    None
                };
                let mut letters = char::decode_utf16([first].into_iter().chain(second));
                letters.next().and_then(Result::ok).ok_or(RawRecordError::Surrogate)?
            }
            _ => {
                self.at -= 1;
                return Err(self.expected("an escape"));
            }
        })
    }

    /// Parses four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, RawRecordError> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.expected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }

    /// The error that `missing` is missing at the current offset.
    fn expected(&self, missing: &str) -> RawRecordError {
        let before = self.text.get(..self.at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        RawRecordError::Syntax { cause: format!("expected {missing} at line {line} column {column}") }
    }
}
