use crate::calibrate::*;
use oracled_ctl::base::input::LINE_MAX_BYTES;
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
