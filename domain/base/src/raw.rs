//! A raw record: one record of a source, exactly as the source wrote it (seed: `rfc-0002-ground-truth`, "Data Ingestion
//! Pipeline").

use super::text_form::to_nfc;
use crate::payload::find_repeated_name;
use crate::text_form::into_nfc;
use crate::wording::{excerpt, format_count};
use serde_json::{Map, Number, Value};

/// The maximum nesting of lists and objects.
pub const MAX_DEPTH: usize = 64;

/// Why bytes are not a record. The message is stored in the rejects of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RawRecordError {
    /// The record is not UTF-8.
    #[error("the record is not UTF-8 from byte {at_byte} on")]
    NotUtf8 {
        /// The offset of the first invalid byte in the record, from 0.
        at_byte: usize,
    },
    /// The record is not JSON (RFC 8259).
    #[error("the record is not JSON: {cause}")]
    Syntax {
        /// The fault, with line and column in the record.
        cause: String,
    },
    /// An escape in a text is half of a surrogate pair.
    #[error("the record has half of a surrogate pair (`\\ud800` to `\\udfff`), which is not a character")]
    Surrogate,
    /// Lists and objects are nested too deeply.
    #[error("the record nests lists and objects more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// A name occurs twice in one object. Parsers differ on which of the two members counts.
    #[error("the name {name:?} occurs twice in one object of the record")]
    RepeatedName {
        /// The repeated name, truncated if it is long.
        name: String,
    },
    /// The record is JSON, but not an object.
    #[error("the record is {found}, not an object")]
    NotAnObject {
        /// The kind of value found.
        found: &'static str,
    },
    /// The record has more or fewer fields than the header.
    #[error("the record has {}, but the header has {expected}", format_count(.found, "field", "fields"))]
    Fields {
        /// The number of fields found.
        found: usize,
        /// The number of fields in the header.
        expected: usize,
    },
    /// Invisible characters come before the opening quote of a field, which would be a part of its value.
    #[error("field {field} has an invisible character before its opening quote")]
    BeforeQuote {
        /// The number of the field, from 1.
        field: usize,
    },
    /// Characters follow the closing quote of a field.
    #[error("field {field} has characters between its closing quote and the delimiter")]
    AfterQuote {
        /// The number of the field, from 1.
        field: usize,
    },
    /// A field contains a bare carriage return. Some parsers end a line there, others do not.
    #[error("field {field} has a carriage return outside of quotes that does not end a line")]
    CarriageReturn {
        /// The number of the field, from 1.
        field: usize,
    },
}

/// A value as its source wrote it.
///
/// Numbers keep their text, without conversion to a binary float: `7.10` is not `7.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceValue {
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A JSON number, in the source's own digits.
    Number(String),
    /// A text, with its escapes resolved.
    Text(String),
    List(Vec<SourceValue>),
    /// An object, with its members in their original order. Names are unique, and in Unicode NFC, since a publisher may change their
    /// form from one release to the next.
    Object(Vec<(String, SourceValue)>),
}

impl SourceValue {
    /// Parses `json` as one JSON value (RFC 8259), with optional white space around it. Names must be unique in each
    /// object, and nesting is at most [`MAX_DEPTH`] levels deep.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse(json: &[u8]) -> Result<Self, RawRecordError> {
        let text =
            str::from_utf8(json).map_err(|error| RawRecordError::NotUtf8 { at_byte: error.valid_up_to() })?;
        parse(text)
    }

    /// Parses `json` like [`SourceValue::parse`], and requires an object.
    ///
    /// # Errors
    /// As for [`SourceValue::parse`], and for any value other than an object.
    pub fn parse_object(json: &[u8]) -> Result<Self, RawRecordError> {
        match Self::parse(json)? {
            object @ Self::Object(_) => Ok(object),
            other => Err(RawRecordError::NotAnObject { found: other.kind() }),
        }
    }

    /// The kind of the value, in words.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// The members of an object, in their original order; empty for any other value.
    #[must_use]
    pub fn members(&self) -> &[(String, Self)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    /// The member `name`; `None` if this is not an object, or has no such member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The items of a list; empty for any other value.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// Converts the value for validation by a JSON Schema, and for no other use: numbers are rounded to 64
    /// bits. A number out of range becomes the largest finite one, so that an upper bound still rejects it. Texts become NFC, as
    /// those of the schema do.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(it) => Value::Bool(*it),
            Self::Number(digits) => digits.parse().unwrap_or_else(|_| greatest(digits)).into(),
            Self::Text(text) => Value::String(to_nfc(text).into_owned()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), value.to_value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

/// The finite number nearest to a number that is out of range.
fn greatest(digits: &str) -> Number {
    let greatest = if digits.starts_with('-') { f64::MIN } else { f64::MAX };
    Number::from_f64(greatest).expect("a JSON number is finite")
}

/// Parses `text` as one value.
///
/// # Errors
/// The first fault.
fn parse(text: &str) -> Result<SourceValue, RawRecordError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(json: &str) -> Result<SourceValue, RawRecordError> {
        SourceValue::parse(json.as_bytes())
    }

    #[test]
    fn parse_reads_every_kind_of_value_in_order() {
        let json = r#" {"b":[1,"x\u0041\n",{}],"a":null,"ü":true,"":false} "#;
        let list = vec![
            SourceValue::Number("1".into()),
            SourceValue::Text("xA\n".into()),
            SourceValue::Object(Vec::new()),
        ];
        let members = vec![
            ("b".into(), SourceValue::List(list)),
            ("a".into(), SourceValue::Null),
            ("ü".into(), SourceValue::Bool(true)),
            (String::new(), SourceValue::Bool(false)),
        ];
        let raw = parse(json).unwrap();
        assert_eq!(raw, SourceValue::Object(members));
        assert_eq!(raw.get("b").unwrap().items().len(), 3);
        assert_eq!(raw.get("c"), None);
        assert_eq!(SourceValue::Null.members(), []);
    }

    #[test]
    fn parse_keeps_the_text_of_a_number() {
        let long = "3".repeat(400);
        for digits in ["7.10", "-0", "1E+05", "0.000", "9007199254740993", "1e999999999999", &long] {
            assert_eq!(parse(digits).unwrap(), SourceValue::Number(digits.into()));
        }
    }

    #[test]
    fn parse_rejects_anything_but_one_strict_document() {
        for bad in [
            "",
            "{",
            "{} {}",
            "{'a':1}",
            "{\"a\":1,}",
            "[1,]",
            "NaN",
            "01",
            "1.",
            "+1",
            "\u{feff}{}",
            "\"\u{1}\"",
        ] {
            assert!(matches!(parse(bad), Err(RawRecordError::Syntax { .. })), "{bad}");
        }
        assert_eq!(SourceValue::parse(b"{\"a\":\"\xff\"}"), Err(RawRecordError::NotUtf8 { at_byte: 6 }));
        for half in [r#"["\ud800"]"#, r#"{"\udfff":1}"#, r#""\ud800\ud800""#] {
            assert_eq!(parse(half), Err(RawRecordError::Surrogate), "{half}");
        }
        assert_eq!(parse(r#""\ud83d\ude00""#), Ok(SourceValue::Text("😀".into())));
    }

    #[test]
    fn syntax_error_has_line_and_column() {
        for (bad, cause) in [
            ("{\n \"ä\" 1}", "expected `:` at line 2 column 6"),
            ("{\"a\":}", "expected a value at line 1 column 6"),
            ("{\"a\":1 \"b\"}", "expected `,` or `}` at line 1 column 8"),
            ("{a:1}", "expected a name in quotes at line 1 column 2"),
            ("[1 2]", "expected `,` or `]` at line 1 column 4"),
            ("[-]", "expected a digit at line 1 column 3"),
            ("1 1", "expected the end at line 1 column 3"),
            (r#""\x""#, "expected an escape at line 1 column 3"),
            (r#""\u00+1""#, "expected four hexadecimal digits at line 1 column 4"),
            ("\"\n\"", "expected a quote, or a character other than a control character at line 1 column 2"),
            ("\"a", "expected a quote, or a character other than a control character at line 1 column 3"),
        ] {
            assert_eq!(parse(bad), Err(RawRecordError::Syntax { cause: cause.into() }), "{bad}");
        }
        for half in [r#""\ud83d\u0041""#, r#""\ud83d\n""#, r#""\ud83dx""#] {
            assert_eq!(parse(half), Err(RawRecordError::Surrogate), "{half}");
        }
    }

    #[test]
    fn repeated_name_in_an_object_is_rejected_and_named() {
        let twice = |name: &str| Err(RawRecordError::RepeatedName { name: name.into() });
        assert_eq!(parse(r#"{"a":{"b":1,"c":2,"\u0062":3}}"#), twice("b"));
        assert!(parse(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
        let long = "n".repeat(1_000);
        assert_eq!(parse(&format!(r#"{{"{long}":1,"{long}":2}}"#)), twice(&"n".repeat(80)));
    }

    #[test]
    fn parse_limits_depth_without_stack_overflow() {
        let lists = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let objects = |depth: usize| r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);
        assert!(parse(&lists(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&lists(MAX_DEPTH + 1)), Err(RawRecordError::TooDeep));
        assert!(parse(&objects(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&objects(MAX_DEPTH + 1)), Err(RawRecordError::TooDeep));
        assert_eq!(parse(&lists(1_000_000)), Err(RawRecordError::TooDeep));
        assert_eq!(parse(&"[".repeat(1_000_000)), Err(RawRecordError::TooDeep));
    }

    #[test]
    fn parse_object_rejects_other_json_values() {
        assert!(SourceValue::parse_object(b"{}").is_ok());
        for other in ["null", "true", "1", "\"{}\"", "[{}]"] {
            assert!(
                matches!(
                    SourceValue::parse_object(other.as_bytes()),
                    Err(RawRecordError::NotAnObject { .. })
                ),
                "{other}"
            );
        }
    }

    #[test]
    fn to_value_clamps_a_number_out_of_range() {
        let value = |json: &str| parse(json).unwrap().to_value();
        assert_eq!(value("18446744073709551615"), Value::from(u64::MAX));
        assert_eq!(value(&format!("-{}", "9".repeat(400))), Value::from(f64::MIN));
        assert_eq!(value("1e400"), Value::from(f64::MAX));
        assert_eq!(value("1e-400"), Value::from(0.0));
    }

    proptest! {
        #[test]
        fn parse_accepts_what_serde_json_accepts(text in "[\\[\\]{}:,\"\\\\a-c0-9eu .+-]{0,24}") {
            // serde_json's own `Value` accepts repeated names, and rejects numbers out of range; in all other
            // cases both must agree
            let theirs = serde_json::from_str::<Value>(&text);
            match (parse(&text), theirs) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours.to_value(), theirs),
                (Err(RawRecordError::RepeatedName { .. }), Ok(_)) | (Err(_), Err(_)) => {}
                (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("out of range"), "{}", error),
                (Err(error), Ok(_)) => prop_assert!(false, "{}", error),
            }
        }
    }
}
