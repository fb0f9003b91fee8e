//! A parser of JSON (RFC 8259) that reads the text once, from left to right.

use super::{BadRecord, MAX_DEPTH, Raw};
use crate::base::payload::repeated;
use crate::base::wording::excerpt;

/// Parses `text` as one value.
///
/// # Errors
/// The first fault.
pub(super) fn parse(text: &str) -> Result<Raw, BadRecord> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(MAX_DEPTH)?;
    if parser.next().is_none() { Ok(value) } else { Err(parser.expected("the end")) }
}

struct Parser<'t> {
    text: &'t str,
    /// The offset of the next byte to read.
    at: usize,
}

impl<'t> Parser<'t> {
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

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// Parses a value with at most `levels` nested lists and objects.
    fn value(&mut self, levels: usize) -> Result<Raw, BadRecord> {
        match self.next() {
            Some(b'{') => self.object(levels.checked_sub(1).ok_or(BadRecord::TooDeep)?),
            Some(b'[') => self.list(levels.checked_sub(1).ok_or(BadRecord::TooDeep)?),
            Some(b'"') => self.string().map(Raw::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Raw::Null), ("true", Raw::Bool(true)), ("false", Raw::Bool(false))];
                let rest = self.text.get(self.at..).unwrap_or_default();
                let word = words.into_iter().find(|(word, _)| rest.starts_with(word));
                let (word, value) = word.ok_or_else(|| self.expected("a value"))?;
                self.at += word.len();
                Ok(value)
            }
        }
    }

    fn list(&mut self, levels: usize) -> Result<Raw, BadRecord> {
        self.at += 1;
        let mut items = Vec::new();
        if self.next() == Some(b']') {
            self.at += 1;
            return Ok(Raw::List(items));
        }
        loop {
            items.push(self.value(levels)?);
            if self.ends(b']', "`,` or `]`")? {
                return Ok(Raw::List(items));
            }
        }
    }

    fn object(&mut self, levels: usize) -> Result<Raw, BadRecord> {
        self.at += 1;
        let mut members = Vec::new();
        if self.next() == Some(b'}') {
            self.at += 1;
            return Ok(Raw::Object(members));
        }
        loop {
            if self.next() != Some(b'"') {
                return Err(self.expected("a name in quotes"));
            }
            let name = self.string()?;
            if self.next() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            members.push((name, self.value(levels)?));
            if self.ends(b'}', "`,` or `}`")? {
                break;
            }
        }
        match repeated(&members) {
            Some(name) => Err(BadRecord::RepeatedName { name: excerpt(name) }),
            None => Ok(Raw::Object(members)),
        }
    }

    /// Consumes a comma or `end`, and returns whether it was `end`.
    fn ends(&mut self, end: u8, wanted: &str) -> Result<bool, BadRecord> {
        self.next();
        if self.takes(b',') {
            return Ok(false);
        }
        if self.takes(end) { Ok(true) } else { Err(self.expected(wanted)) }
    }

    fn number(&mut self) -> Result<Raw, BadRecord> {
        let from = self.at;
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _is_signed = self.takes(b'-') || self.takes(b'+');
            self.digits()?;
        }
        Ok(Raw::Number(self.text.get(from..self.at).unwrap_or_default().to_owned()))
    }

    /// Consumes one or more digits.
    fn digits(&mut self) -> Result<(), BadRecord> {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(self.expected("a digit")) }
    }

    fn string(&mut self) -> Result<String, BadRecord> {
        self.at += 1;
        let mut content = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = rest.bytes().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)).count();
            self.at += plain;
            content.push_str(rest.get(..plain).unwrap_or_default());
            if self.takes(b'"') {
                return Ok(content);
            }
            if !self.takes(b'\\') {
                return Err(self.expected("a quote, or a character other than a control character"));
            }
            content.push(self.escaped()?);
        }
    }

    /// Parses the rest of an escape, after its backslash.
    fn escaped(&mut self) -> Result<char, BadRecord> {
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
                let second = if (0xd800..0xdc00).contains(&first) && self.takes(b'\\') {
                    if !self.takes(b'u') {
                        return Err(BadRecord::Surrogate);
                    }
                    Some(self.unit()?)
                } else {
                    None
                };
                let mut letters = char::decode_utf16([first].into_iter().chain(second));
                letters.next().and_then(Result::ok).ok_or(BadRecord::Surrogate)?
            }
            _ => {
                self.at -= 1;
                return Err(self.expected("an escape"));
            }
        })
    }

    /// Parses four hexadecimal digits.
    fn unit(&mut self) -> Result<u16, BadRecord> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.expected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }

    /// The error that `wanted` is missing at the current offset.
    fn expected(&self, wanted: &str) -> BadRecord {
        let before = self.text.get(..self.at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        BadRecord::Syntax { cause: format!("expected {wanted} at line {line} column {column}") }
    }
}
