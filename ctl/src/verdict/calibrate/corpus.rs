//! A corpus of model outputs: one `{"tier", "raw", …}` object per line, read one line at a time.

use super::CalibrateError;
use crate::base::lines::{Lines, TooLong, reason};
use oracled_domain::Tier;
use oracled_domain::verdict::label::UnknownWord;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::io::BufRead;

/// A fault in a line. Each message says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineFault {
    /// The line has more bytes than [`LINE_MAX_BYTES`](crate::base::lines::LINE_MAX_BYTES).
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The line is not a JSON document.
    #[error("not JSON ({reason}, column {column}); a line is one {{\"tier\", \"raw\", …}} object")]
    NotJson {
        /// The message of the JSON parser.
        reason: String,
        /// Column, from 1, in bytes.
        column: usize,
    },
    /// The line is JSON, but not an object.
    #[error("not a JSON object; a line is one {{\"tier\", \"raw\", …}} object")]
    NotAnObject,
    /// A field occurs twice. This program does not choose which one to judge.
    #[error("{reason}; `tier` and `raw` occur once each")]
    Repeated {
        /// The message of the JSON parser, with the field.
        reason: String,
    },
    /// A required field is missing.
    #[error("`{field}` is missing; a line has `tier` (quick, full or strategy) and `raw` (the model's text)")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field is not a string.
    #[error("`{field}` is not a string; `tier` is quick, full or strategy, `raw` the model's text")]
    NotText {
        /// The field.
        field: &'static str,
    },
    /// The tier is unknown.
    #[error(transparent)]
    UnknownTier(#[from] UnknownWord),
}

/// One model output to judge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) tier: Tier,
    pub(crate) raw: String,
}

/// Reads a corpus, with one line in memory at a time.
pub(crate) struct Corpus<R> {
    name: String,
    lines: Lines<R>,
}

impl<R: BufRead> Corpus<R> {
    pub(crate) fn new(name: String, input: R) -> Self {
        Self { name, lines: Lines::new(input) }
    }

    /// The next line that is not blank; `None` at the end; an error for an invalid line.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, CalibrateError> {
        let file = || self.name.clone();
        let read = self.lines.next_line().map_err(|cause| CalibrateError::Read { file: file(), cause })?;
        let Some(line) = read else { return Ok(None) };
        let read = line.text.map_err(LineFault::from).and_then(entry);
        read.map(Some).map_err(|fault| CalibrateError::Line { file: file(), line: line.number, fault })
    }
}

/// The two fields that are read; they may not be strings.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    tier: Option<Field<'a>>,
    #[serde(borrow)]
    raw: Option<Field<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Field<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

fn entry(line: &[u8]) -> Result<Entry, LineFault> {
    // serde also accepts an array with the fields in their order
    let is_object = line.first() == Some(&b'{');
    let fields: Fields<'_> = match serde_json::from_slice(line) {
        Ok(fields) if is_object => fields,
        Ok(_) => return Err(LineFault::NotAnObject),
        Err(error) => return Err(unread(&error, is_object)),
    };
    let tier = text("tier", fields.tier)?;
    let raw = text("raw", fields.raw)?;
    Ok(Entry { tier: tier.parse()?, raw: raw.into_owned() })
}

fn text<'a>(field: &'static str, value: Option<Field<'a>>) -> Result<Cow<'a, str>, LineFault> {
    match value {
        None => Err(LineFault::Missing { field }),
        Some(Field::Other(_)) => Err(LineFault::NotText { field }),
        Some(Field::Text(text)) => Ok(text),
    }
}

fn unread(error: &serde_json::Error, is_object: bool) -> LineFault {
    let reason = reason(error);
    if !error.is_data() {
        LineFault::NotJson { reason, column: error.column() }
    } else if is_object {
        LineFault::Repeated { reason }
    } else {
        LineFault::NotAnObject
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::lines::LINE_MAX_BYTES;
    use std::io::{self, BufReader, Read};

    fn read(text: impl Read) -> Corpus<BufReader<impl Read>> {
        Corpus::new("verdicts.ndjson".to_owned(), BufReader::new(text))
    }

    fn first_error(text: &[u8]) -> String {
        let mut corpus = read(text);
        loop {
            match corpus.next_entry() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("no error in {text:?}"),
                Err(error) => return error.to_string(),
            }
        }
    }

    #[test]
    fn corpus_ignores_other_fields_and_blank_lines() {
        let text = "\n{\"tier\":\"quick\",\"raw\":\"{}\"}\r\n  \t\n \
                    {\"raw\":\"a\\nb\\u00e9\",\"id\":7,\"x\":{\"raw\":1},\"tier\":\"full\"}";
        let mut corpus = read(text.as_bytes());
        let entry = |tier, raw: &str| Some(Entry { tier, raw: raw.to_owned() });
        assert_eq!(corpus.next_entry().unwrap(), entry(Tier::Quick, "{}"));
        assert_eq!(corpus.next_entry().unwrap(), entry(Tier::Full, "a\nbé"));
        assert_eq!(corpus.next_entry().unwrap(), None);
    }

    #[test]
    fn invalid_line_is_reported_with_its_fault_and_what_is_allowed() {
        let object = "a line is one {\"tier\", \"raw\", …} object";
        let cases: [(&str, String); 12] = [
            ("nonsense", format!("not JSON (expected ident, column 2); {object}")),
            ("{\"tier\":", format!("not JSON (EOF while parsing a value, column 8); {object}")),
            ("{} {}", format!("not JSON (trailing characters, column 4); {object}")),
            ("[\"quick\",\"{}\"]", format!("not a JSON object; {object}")),
            ("7", format!("not a JSON object; {object}")),
            ("null", format!("not a JSON object; {object}")),
            (
                r#"{"tier":"quick"}"#,
                "`raw` is missing; a line has `tier` (quick, full or strategy) and `raw` (the model's text)"
                    .into(),
            ),
            (
                r#"{"raw":"{}"}"#,
                "`tier` is missing; a line has `tier` (quick, full or strategy) and `raw` (the model's text)"
                    .into(),
            ),
            (
                r#"{"tier":"quick","raw":{"verdict":"GREEN"}}"#,
                "`raw` is not a string; `tier` is quick, full or strategy, `raw` the model's text".into(),
            ),
            (
                r#"{"tier":["quick"],"raw":""}"#,
                "`tier` is not a string; `tier` is quick, full or strategy, `raw` the model's text".into(),
            ),
            (
                r#"{"tier":"platinum","raw":"{}"}"#,
                "`platinum` is not a tier; allowed: quick, full, strategy".into(),
            ),
            (
                r#"{"tier":"quick","raw":"{}","raw":"[]"}"#,
                "duplicate field `raw`; `tier` and `raw` occur once each".into(),
            ),
        ];
        for (line, wrong) in cases {
            let text = format!("{{\"tier\":\"quick\",\"raw\":\"{{}}\"}}\n\n{line}\n");
            assert_eq!(first_error(text.as_bytes()), format!("verdicts.ndjson, line 3: {wrong}"));
        }
        assert_eq!(
            first_error(b"{\"tier\":\"quick\",\"raw\":\"\xff\"}"),
            format!("verdicts.ndjson, line 1: not JSON (invalid unicode code point, column 24); {object}")
        );
    }

    #[test]
    fn overlong_line_is_reported_with_its_number() {
        let error = first_error(&vec![b'x'; LINE_MAX_BYTES + 1]);
        assert_eq!(error, "verdicts.ndjson, line 1: the line is longer than 4 MiB, the maximum");
    }

    #[test]
    fn failed_read_is_reported_with_the_file() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let error = read(Broken).next_entry().unwrap_err().to_string();
        assert_eq!(error, "cannot read the corpus verdicts.ndjson: the disk is gone");
    }
}
