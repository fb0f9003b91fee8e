//! A raw record: what one record of a source says, as the source wrote it (seed: `rfc-0002-ground-truth`, "Data Ingestion
//! Pipeline").

mod parser;

use serde_json::{Map, Number, Value};

/// So deep may lists and objects lie in one another.
pub const MAX_DEPTH: usize = 64;

/// Why some bytes are no record. What is said goes into the rejects of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// Bytes that are no text.
    #[error("the record is no UTF-8 from its byte {at_byte} on")]
    NotUtf8 {
        /// Where the first of them is in the record, from 0.
        at_byte: usize,
    },
    /// No JSON by RFC 8259.
    #[error("the record is no JSON: {cause}")]
    Syntax {
        /// What is wrong, with line and column in the record.
        cause: String,
    },
    /// An escape in a text stands for no character.
    #[error("the record holds half of a surrogate pair (`\\ud800` to `\\udfff`), which is no character")]
    Surrogate,
    /// Lists and objects in one another.
    #[error("the record has lists and objects more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// Readers differ on which of two equal names counts.
    #[error("the name {name:?} stands twice in one object of the record")]
    RepeatedName {
        /// The first such name, cut where it is long.
        name: String,
    },
    /// JSON, and something else than an object.
    #[error("the record is {found}, and a record is an object")]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
    /// More or fewer fields than the header has.
    #[error("the record has {found} fields, and the header {wanted}")]
    Fields {
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// Something follows the quote that ends a field.
    #[error("in field {field} something stands between the closing quote and the delimiter")]
    AfterQuote {
        /// Which field, from 1.
        field: usize,
    },
    /// Some readers end a line there, others do not.
    #[error("field {field} holds a carriage return that ends no line, outside of quotes")]
    CarriageReturn {
        /// Which field, from 1.
        field: usize,
    },
}

/// A value as its source wrote it.
///
/// Numbers keep their text: no binary float is on the way, and `7.10` is not `7.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number of JSON's grammar, in its source's digits.
    Number(String),
    /// A text, with its escapes resolved.
    Text(String),
    /// A list.
    List(Vec<Raw>),
    /// An object, its members in the order they came. No name stands twice.
    Object(Vec<(String, Raw)>),
}

impl Raw {
    /// Reads `json`, with white space around it or without, as one JSON value: by RFC 8259, no name twice in one object, and
    /// at most [`MAX_DEPTH`] levels deep.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(json: &[u8]) -> Result<Self, BadRecord> {
        let text =
            str::from_utf8(json).map_err(|error| BadRecord::NotUtf8 { at_byte: error.valid_up_to() })?;
        parser::parse(text)
    }

    /// Reads `json` as [`Raw::parse`] does, where it is an object.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_object(json: &[u8]) -> Result<Self, BadRecord> {
        match Self::parse(json)? {
            object @ Self::Object(_) => Ok(object),
            other => Err(BadRecord::NotAnObject { found: other.kind() }),
        }
    }

    /// What kind of value it is, in words.
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

    /// The members of an object, in the order they came; nothing for any other value.
    #[must_use]
    pub fn members(&self) -> &[(String, Self)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    /// The member called `name`, where this is an object that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The items of a list; nothing for any other value.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    /// The value for validation by a JSON Schema, and for nothing else: its numbers are as near to the source's as 64 bits
    /// go. One that is greater than all of those is the greatest, so that bounds hold it off as they should.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(it) => Value::Bool(*it),
            Self::Number(digits) => digits.parse().unwrap_or_else(|_| greatest(digits)).into(),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), value.to_value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

/// What comes nearest to a number that is out of range.
fn greatest(digits: &str) -> Number {
    let greatest = if digits.starts_with('-') { f64::MIN } else { f64::MAX };
    Number::from_f64(greatest).expect("it is finite")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(json: &str) -> Result<Raw, BadRecord> {
        Raw::parse(json.as_bytes())
    }

    #[test]
    fn every_kind_of_value_is_read_in_its_order() {
        let json = r#" {"b":[1,"x\u0041\n",{}],"a":null,"ü":true,"":false} "#;
        let list = vec![Raw::Number("1".into()), Raw::Text("xA\n".into()), Raw::Object(Vec::new())];
        let members = vec![
            ("b".into(), Raw::List(list)),
            ("a".into(), Raw::Null),
            ("ü".into(), Raw::Bool(true)),
            (String::new(), Raw::Bool(false)),
        ];
        let raw = parse(json).unwrap();
        assert_eq!(raw, Raw::Object(members));
        assert_eq!(raw.get("b").unwrap().items().len(), 3);
        assert_eq!(raw.get("c"), None);
        assert_eq!(Raw::Null.members(), []);
    }

    #[test]
    fn a_number_keeps_its_sources_own_text() {
        let long = "3".repeat(400);
        for digits in ["7.10", "-0", "1E+05", "0.000", "9007199254740993", "1e999999999999", &long] {
            assert_eq!(parse(digits).unwrap(), Raw::Number(digits.into()));
        }
    }

    #[test]
    fn anything_but_one_strict_document_is_refused_with_its_reason() {
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
            assert!(matches!(parse(bad), Err(BadRecord::Syntax { .. })), "{bad}");
        }
        assert_eq!(Raw::parse(b"{\"a\":\"\xff\"}"), Err(BadRecord::NotUtf8 { at_byte: 6 }));
        for half in [r#"["\ud800"]"#, r#"{"\udfff":1}"#, r#""\ud800\ud800""#] {
            assert_eq!(parse(half), Err(BadRecord::Surrogate), "{half}");
        }
        assert_eq!(parse(r#""\ud83d\ude00""#), Ok(Raw::Text("😀".into())));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_column() {
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
            ("\"\n\"", "expected a quote, or a character that is none of control at line 1 column 2"),
            ("\"a", "expected a quote, or a character that is none of control at line 1 column 3"),
        ] {
            assert_eq!(parse(bad), Err(BadRecord::Syntax { cause: cause.into() }), "{bad}");
        }
        for half in [r#""\ud83d\u0041""#, r#""\ud83d\n""#, r#""\ud83dx""#] {
            assert_eq!(parse(half), Err(BadRecord::Surrogate), "{half}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_in_one_object_is_named() {
        let twice = |name: &str| Err(BadRecord::RepeatedName { name: name.into() });
        assert_eq!(parse(r#"{"a":{"b":1,"c":2,"\u0062":3}}"#), twice("b"));
        assert!(parse(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
        let long = "n".repeat(1_000);
        assert_eq!(parse(&format!(r#"{{"{long}":1,"{long}":2}}"#)), twice(&"n".repeat(80)));
    }

    #[test]
    fn depth_is_bounded_without_overflowing_the_stack() {
        let lists = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let objects = |depth: usize| r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);
        assert!(parse(&lists(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&lists(MAX_DEPTH + 1)), Err(BadRecord::TooDeep));
        assert!(parse(&objects(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&objects(MAX_DEPTH + 1)), Err(BadRecord::TooDeep));
        assert_eq!(parse(&lists(1_000_000)), Err(BadRecord::TooDeep));
        assert_eq!(parse(&"[".repeat(1_000_000)), Err(BadRecord::TooDeep));
    }

    #[test]
    fn only_an_object_is_read_as_one() {
        assert!(Raw::parse_object(b"{}").is_ok());
        for other in ["null", "true", "1", "\"{}\"", "[{}]"] {
            assert!(
                matches!(Raw::parse_object(other.as_bytes()), Err(BadRecord::NotAnObject { .. })),
                "{other}"
            );
        }
    }

    #[test]
    fn a_number_out_of_range_is_the_greatest_to_a_schema() {
        let value = |json: &str| parse(json).unwrap().to_value();
        assert_eq!(value("18446744073709551615"), Value::from(u64::MAX));
        assert_eq!(value(&format!("-{}", "9".repeat(400))), Value::from(f64::MIN));
        assert_eq!(value("1e400"), Value::from(f64::MAX));
        assert_eq!(value("1e-400"), Value::from(0.0));
    }

    proptest! {
        #[test]
        fn reading_agrees_with_serde_json_on_what_is_a_document(text in "[\\[\\]{}:,\"\\\\a-c0-9eu .+-]{0,24}") {
            // serde_json's own value takes repeated names and no numbers out of range; everything else must agree
            let theirs = serde_json::from_str::<Value>(&text);
            match (parse(&text), theirs) {
                (Ok(ours), Ok(theirs)) => prop_assert_eq!(ours.to_value(), theirs),
                (Err(BadRecord::RepeatedName { .. }), Ok(_)) | (Err(_), Err(_)) => {}
                (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("out of range"), "{}", error),
                (Err(error), Ok(_)) => prop_assert!(false, "{}", error),
            }
        }
    }
}
