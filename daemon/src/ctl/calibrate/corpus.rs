//! A corpus of model outputs: one `{"tier", "raw", …}` object a line, read one line at a time.

use super::CalibrateError;
use domain::Tier;
use domain::verdict::UnknownWord;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::io::{self, BufRead, Read};

/// A line may have so many bytes, its end not counted.
pub const LINE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// What can be wrong with a line; each message says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// More bytes than [`LINE_MAX_BYTES`].
    #[error("longer than 4 MiB, the most a line may have")]
    TooLong,
    /// The line is not a JSON document.
    #[error("not JSON ({reason}, column {column}); a line is one {{\"tier\", \"raw\", …}} object")]
    NotJson {
        /// What the reader stumbled over.
        reason: String,
        /// Where, from 1, in bytes.
        column: usize,
    },
    /// The line is JSON, but no object.
    #[error("not a JSON object; a line is one {{\"tier\", \"raw\", …}} object")]
    NotAnObject,
    /// A field that stands twice: which one to judge is not for this program to choose.
    #[error("{reason}; `tier` and `raw` stand once each")]
    Repeated {
        /// Which one.
        reason: String,
    },
    /// A field that must be there is not.
    #[error("`{field}` is missing; a line has `tier` (quick, full or strategy) and `raw` (the model's text)")]
    Missing {
        /// Which one.
        field: &'static str,
    },
    /// A field is there, but is no string.
    #[error("`{field}` is not a string; `tier` is quick, full or strategy, `raw` the model's text")]
    NotText {
        /// Which one.
        field: &'static str,
    },
    /// The tier is none of the three.
    #[error(transparent)]
    UnknownTier(#[from] UnknownWord),
}

/// One model output to judge.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) tier: Tier,
    pub(super) raw: String,
}

/// A corpus being read. It holds one line at a time.
pub(super) struct Corpus<R> {
    name: String,
    input: R,
    line: Vec<u8>,
    line_number: u64,
}

impl<R: BufRead> Corpus<R> {
    pub(super) fn new(name: String, input: R) -> Self {
        Self { name, input, line: Vec::new(), line_number: 0 }
    }

    /// The next line that is not blank; nothing at the end; an error for a line that is no entry.
    pub(super) fn next_entry(&mut self) -> Result<Option<Entry>, CalibrateError> {
        loop {
            let more = self.read_line().map_err(|cause| self.unreadable(cause))?;
            if !more {
                return Ok(None);
            }
            let text = self.line.trim_ascii();
            if self.line.len() > LINE_MAX_BYTES {
                return Err(self.bad(LineFault::TooLong));
            }
            if !text.is_empty() {
                return entry(text).map(Some).map_err(|fault| self.bad(fault));
            }
        }
    }

    /// Reads one line without its end; of one that is too long, only as much as shows it to be.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.line_number += 1;
        let most = LINE_MAX_BYTES as u64 + 1;
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        Ok(read > 0)
    }

    fn unreadable(&self, cause: io::Error) -> CalibrateError {
        CalibrateError::Read { file: self.name.clone(), cause }
    }

    fn bad(&self, fault: LineFault) -> CalibrateError {
        CalibrateError::Line { file: self.name.clone(), line: self.line_number, fault }
    }
}

/// The fields that are looked at, not yet known to be strings.
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
    // serde would take an array for the fields in their order
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
    // serde_json counts lines within this one: always line 1, which would only mislead
    let message = error.to_string();
    let reason = message.split(" at line ").next().unwrap_or_default().to_owned();
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
    use std::io::BufReader;

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
    fn lines_are_read_whatever_else_they_hold_and_blank_ones_skipped() {
        let text = "\n{\"tier\":\"quick\",\"raw\":\"{}\"}\r\n  \t\n \
                    {\"raw\":\"a\\nb\\u00e9\",\"id\":7,\"x\":{\"raw\":1},\"tier\":\"full\"}";
        let mut corpus = read(text.as_bytes());
        let entry = |tier, raw: &str| Some(Entry { tier, raw: raw.to_owned() });
        assert_eq!(corpus.next_entry().unwrap(), entry(Tier::Quick, "{}"));
        assert_eq!(corpus.next_entry().unwrap(), entry(Tier::Full, "a\nbé"));
        assert_eq!(corpus.next_entry().unwrap(), None);
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong_and_what_is_allowed() {
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
                "duplicate field `raw`; `tier` and `raw` stand once each".into(),
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
    fn a_line_may_have_exactly_the_limit() {
        let frame = "{\"tier\":\"quick\",\"raw\":\"\"}";
        let line = |bytes: usize| frame.replace("\"\"", &format!("\"{}\"", "x".repeat(bytes - frame.len())));
        let both = format!("{}\n{}\n", line(LINE_MAX_BYTES), line(LINE_MAX_BYTES + 1));
        let mut corpus = read(both.as_bytes());
        assert!(corpus.next_entry().unwrap().is_some());
        let error = corpus.next_entry().unwrap_err().to_string();
        assert_eq!(error, "verdicts.ndjson, line 2: longer than 4 MiB, the most a line may have");
    }

    #[test]
    fn a_line_without_end_is_refused_in_bounded_memory() {
        for endless in [b' ', b'x'] {
            let mut corpus = read(io::repeat(endless));
            let error = corpus.next_entry().unwrap_err().to_string();
            assert_eq!(error, "verdicts.ndjson, line 1: longer than 4 MiB, the most a line may have");
            assert!(corpus.line.capacity() <= 2 * (LINE_MAX_BYTES + 1), "{}", corpus.line.capacity());
        }
    }

    #[test]
    fn an_input_that_fails_is_named() {
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
