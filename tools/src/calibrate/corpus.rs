//! A corpus of model outputs: one `{"tier", "raw", …}` object per line, read one line at a time.

use super::CalibrateError;
use domain_verdict::label::{ProductTier, UnknownWordError};
use oracled_ctl::base::input_lines::{InputLineReader, LineTooLong, json_error_text};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::io::BufRead;

/// A fault in a line. Each message states what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CorpusLineFault {
    /// The line has more bytes than [`LINE_MAX_BYTES`](oracled_ctl::base::input_lines::LINE_MAX_BYTES).
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
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
    UnknownTier(#[from] UnknownWordError),
}

/// One model output to judge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CorpusEntry {
    pub(crate) tier: ProductTier,
    pub(crate) raw: String,
}

/// Reads a corpus, with one line in memory at a time.
pub(crate) struct CorpusReader<R> {
    name: String,
    lines: InputLineReader<R>,
}

impl<R: BufRead> CorpusReader<R> {
    pub(crate) fn new(name: String, input: R) -> Self {
        Self { name, lines: InputLineReader::new(input) }
    }

    /// The next line that is not blank; `None` at the end; an error for an invalid line.
    pub(crate) fn next_entry(&mut self) -> Result<Option<CorpusEntry>, CalibrateError> {
        let file = || self.name.clone();
        let read = self.lines.next_line().map_err(|cause| CalibrateError::Read { file: file(), cause })?;
        let Some(line) = read else { return Ok(None) };
        let read = line.text.map_err(CorpusLineFault::from).and_then(parse_entry);
        read.map(Some).map_err(|fault| CalibrateError::Line { file: file(), line: line.number, fault })
    }
}

/// The two fields that are read; they may not be strings.
#[derive(Deserialize)]
struct CorpusFields<'a> {
    #[serde(borrow)]
    tier: Option<CorpusField<'a>>,
    #[serde(borrow)]
    raw: Option<CorpusField<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CorpusField<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

fn parse_entry(line: &[u8]) -> Result<CorpusEntry, CorpusLineFault> {
    // serde also accepts an array with the fields in their order
    let is_object = line.first() == Some(&b'{');
    let fields: CorpusFields<'_> = match serde_json::from_slice(line) {
        Ok(fields) if is_object => fields,
        Ok(_) => return Err(CorpusLineFault::NotAnObject),
        Err(error) => return Err(line_fault(&error, is_object)),
    };
    let tier = require_text("tier", fields.tier)?;
    let raw = require_text("raw", fields.raw)?;
    Ok(CorpusEntry { tier: tier.parse()?, raw: raw.into_owned() })
}

fn require_text<'a>(
    field: &'static str,
    value: Option<CorpusField<'a>>,
) -> Result<Cow<'a, str>, CorpusLineFault> {
    match value {
        None => Err(CorpusLineFault::Missing { field }),
        Some(CorpusField::Other(_)) => Err(CorpusLineFault::NotText { field }),
        Some(CorpusField::Text(text)) => Ok(text),
    }
}

fn line_fault(error: &serde_json::Error, is_object: bool) -> CorpusLineFault {
    let reason = json_error_text(error);
    if !error.is_data() {
        CorpusLineFault::NotJson { reason, column: error.column() }
    } else if is_object {
        CorpusLineFault::Repeated { reason }
    } else {
        CorpusLineFault::NotAnObject
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oracled_ctl::base::input_lines::LINE_MAX_BYTES;
    use std::io::{self, BufReader, Read};

    fn read(text: impl Read) -> CorpusReader<BufReader<impl Read>> {
        CorpusReader::new("verdicts.ndjson".to_owned(), BufReader::new(text))
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
        let entry = |tier, raw: &str| Some(CorpusEntry { tier, raw: raw.to_owned() });
        assert_eq!(corpus.next_entry().unwrap(), entry(ProductTier::Quick, "{}"));
        assert_eq!(corpus.next_entry().unwrap(), entry(ProductTier::Full, "a\nbé"));
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
        for (line, message) in cases {
            let text = format!("{{\"tier\":\"quick\",\"raw\":\"{{}}\"}}\n\n{line}\n");
            assert_eq!(first_error(text.as_bytes()), format!("verdicts.ndjson, line 3: {message}"));
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
        struct BrokenReader;
        impl Read for BrokenReader {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let error = read(BrokenReader).next_entry().unwrap_err().to_string();
        assert_eq!(error, "cannot read the corpus verdicts.ndjson: the disk is gone");
    }
}
