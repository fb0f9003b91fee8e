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
    let lines = [
        "nonsense",
        "{\"tier\":",
        "{} {}",
        "[\"quick\",\"{}\"]",
        "7",
        "null",
        r#"{"tier":"quick"}"#,
        r#"{"raw":"{}"}"#,
        r#"{"tier":"quick","raw":{"verdict":"GREEN"}}"#,
        r#"{"tier":["quick"],"raw":""}"#,
        r#"{"tier":"platinum","raw":"{}"}"#,
        r#"{"tier":"quick","raw":"{}","raw":"[]"}"#,
    ];
    let fault_of = |line: &str| {
        let text = format!("{{\"tier\":\"quick\",\"raw\":\"{{}}\"}}\n\n{line}\n");
        first_error(text.as_bytes())
    };
    let mut faults = Vec::from(lines.map(fault_of));
    faults.push(first_error(b"{\"tier\":\"quick\",\"raw\":\"\xff\"}"));
    insta::assert_snapshot!("faults_of_lines", faults.join("\n"));
}

#[test]
fn overlong_line_is_reported_with_its_number() {
    insta::assert_snapshot!("overlong_line", first_error(&vec![b'x'; LINE_MAX_BYTES + 1]));
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
    insta::assert_snapshot!("corpus_whose_disk_is_gone", error);
}
