use super::*;
use domain_ground::format::{ColumnUnpivot, CsvDelimiter, RecordsPath};
use proptest::prelude::*;
use std::io::{ErrorKind, Read};

fn json(path: &str) -> PayloadFormat {
    PayloadFormat::Json { records: RecordsPath::try_from(path.to_owned()).unwrap() }
}

fn csv() -> PayloadFormat {
    PayloadFormat::Csv {
        delimiter: CsvDelimiter::default(),
        quote: true,
        skip_lines: 0,
        comment: None,
        columns: Vec::new(),
        unpivot: None,
    }
}

fn tsv() -> PayloadFormat {
    PayloadFormat::Tsv { skip_lines: 0, comment: None, columns: Vec::new(), unpivot: None }
}

const NFC: &str = "r\u{e9}gion";
const NFD: &str = "re\u{301}gion";

/// Every format, with a path for JSON.
fn formats() -> [PayloadFormat; 4] {
    [json("/data"), PayloadFormat::Ndjson, csv(), tsv()]
}

/// A reader that returns pieces of these sizes in turn, and is interrupted at every third call.
struct ChunkedReader<'p> {
    rest: &'p [u8],
    sizes: Vec<usize>,
    turn: usize,
}

impl Read for ChunkedReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        if self.turn.is_multiple_of(3) {
            return Err(ErrorKind::Interrupted.into());
        }
        let size = self.sizes[self.turn % self.sizes.len()].min(into.len()).min(self.rest.len());
        let (now, rest) = self.rest.split_at(size);
        into[..size].copy_from_slice(now);
        self.rest = rest;
        Ok(size)
    }
}

/// The records up to the first error, and that error. Each record is compared with its range of the payload.
fn cut_in(
    format: &PayloadFormat,
    payload: &[u8],
    sizes: &[usize],
) -> (Vec<PayloadSlice>, Option<PayloadSliceError>) {
    let reader = ChunkedReader { rest: payload, sizes: sizes.to_vec(), turn: 0 };
    let mut records = match slice_payload(format, reader, SliceLimits::default()) {
        Ok(records) => records,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut found = Vec::new();
    while let Some(record) = records.next() {
        let slice = match record {
            Ok(slice) => slice,
            Err(error) => {
                assert!(records.next().is_none(), "nothing follows an error");
                return (found, Some(error));
            }
        };
        let start = usize::try_from(slice.offset).unwrap();
        assert_eq!(&payload[start..start + slice.len_bytes() as usize], slice.bytes);
        assert_eq!(slice.position, found.len() as u64);
        found.push(slice);
    }
    assert!(records.next().is_none());
    (found, None)
}

/// All records of a valid payload, which must not depend on the sizes of the pieces.
fn cut(format: &PayloadFormat, payload: &[u8]) -> Vec<PayloadSlice> {
    let (found, error) = cut_in(format, payload, &[usize::MAX]);
    assert!(error.is_none(), "{}: {error:?}", payload.escape_ascii());
    for size in [1, 2, 7] {
        let again = cut_in(format, payload, &[size]);
        assert_eq!(again.0, found, "by {size}");
        assert!(again.1.is_none());
    }
    found
}

/// The number of records before the error and its text, which must not depend on the sizes of the pieces.
fn failure(format: &PayloadFormat, payload: &[u8]) -> (usize, String) {
    let say = |size| {
        let (found, error) = cut_in(format, payload, &[size]);
        (found.len(), error.expect("it cannot be read").to_string())
    };
    let outcome = say(usize::MAX);
    assert_eq!(say(1), outcome);
    outcome
}

fn texts(slices: &[PayloadSlice]) -> Vec<String> {
    slices.iter().map(|slice| slice.bytes.escape_ascii().to_string()).collect()
}

fn places(slices: &[PayloadSlice]) -> Vec<u64> {
    slices.iter().map(|slice| slice.offset).collect()
}

/// A record of texts.
fn parsed_record(members: &[(&str, &str)]) -> Result<SourceValue, RawRecordError> {
    let member = |(name, text): &(&str, &str)| ((*name).to_owned(), SourceValue::Text((*text).to_owned()));
    Ok(SourceValue::Object(members.iter().map(member).collect()))
}

#[test]
fn ndjson_line_is_a_record_unless_it_is_blank() {
    let found = cut(&PayloadFormat::Ndjson, b"\n{\"a\":1}\r\n \t\r\n\n  {\"b\":[]} \n{}");
    assert_eq!(texts(&found), [r#"{\"a\":1}"#, r#"{\"b\":[]}"#, "{}"]);
    assert_eq!(places(&found), [1, 17, 27]);
    assert_eq!(found[0].record, Ok(SourceValue::Object(vec![("a".into(), SourceValue::Number("1".into()))])));
    assert_eq!(cut(&PayloadFormat::Ndjson, b""), []);
    assert_eq!(cut(&PayloadFormat::Ndjson, b" \n\n "), []);
}

#[test]
fn broken_ndjson_line_is_rejected_and_reading_continues() {
    let payload = b"{}\n{\"a\":1,\"a\":2}\nnot json\n[1]\n{\"a\":\"\xff\"}\n{} {}\n{\"b\":1}\n";
    let found = cut(&PayloadFormat::Ndjson, payload);
    let reasons: Vec<_> = found.iter().map(|slice| slice.record.as_ref().err()).collect();
    assert!(matches!(
        reasons[..],
        [
            None,
            Some(RawRecordError::RepeatedName { .. }),
            Some(RawRecordError::Syntax { .. }),
            Some(RawRecordError::NotAnObject { found: "a list" }),
            Some(RawRecordError::NotUtf8 { at_byte: 6 }),
            Some(RawRecordError::Syntax { .. }),
            None,
        ]
    ));
}

#[test]
fn byte_order_mark_is_skipped_but_counts_in_offsets() {
    for (format, payload, offset) in [
        (PayloadFormat::Ndjson, "\u{feff}{}", 3),
        (json(""), "\u{feff}[{}]", 4),
        (csv(), "\u{feff}a\n1", 5),
        (tsv(), "\u{feff}a\n1", 5),
    ] {
        let found = cut(&format, payload.as_bytes());
        assert_eq!(places(&found), [offset], "{format:?}");
        assert!(found[0].record.is_ok());
    }
    let twice = cut(&PayloadFormat::Ndjson, "\u{feff}\u{feff}{}".as_bytes());
    assert!(twice[0].record.is_err(), "a second one is data");
}

#[test]
fn csv_line_is_an_object_of_texts_by_column_name() {
    let payload = "Country Name,Value\r\n\"Korea, \"\"South\"\"\",51\r\n\r\n\"two\r\nlines\",\n \t,\"\"\nÅland,5\" high";
    let found = cut(&csv(), payload.as_bytes());
    let records: Vec<_> = found.iter().map(|slice| slice.record.clone()).collect();
    let row = |name, value| parsed_record(&[("Country Name", name), ("Value", value)]);
    assert_eq!(
        records,
        [row("Korea, \"South\"", "51"), row("two\r\nlines", ""), row(" \t", ""), row("Åland", "5\" high")]
    );
    assert_eq!(found[1].bytes, &b"\"two\r\nlines\","[..]);
    assert_eq!(found[3].offset + u64::from(found[3].len_bytes()), payload.len() as u64);
}

#[test]
fn csv_delimiter_and_quoting_are_configurable() {
    let semicolon = |quote| PayloadFormat::Csv {
        delimiter: CsvDelimiter::try_from(';').unwrap(),
        quote,
        skip_lines: 0,
        comment: None,
        columns: Vec::new(),
        unpivot: None,
    };
    let payload = b"a;b\n\"1;2\";3\n";
    assert_eq!(cut(&semicolon(true), payload)[0].record, parsed_record(&[("a", "1;2"), ("b", "3")]));
    let wrong = &cut(&semicolon(false), payload)[0].record;
    assert_eq!(*wrong, Err(RawRecordError::Fields { found: 3, expected: 2 }));
    let tsv = cut(&tsv(), b"a\tb\n\"1\t2\"\n\t \n");
    assert_eq!(tsv[0].record, parsed_record(&[("a", "\"1"), ("b", "2\"")]));
    assert_eq!(tsv[1].record, parsed_record(&[("a", ""), ("b", " ")]), "a tab is no white space");
}

#[test]
fn broken_csv_line_is_rejected_with_its_reason_and_reading_continues() {
    let payload = b"a,b\n1\n1,2,3\n\"1\"x,2\n1,\xff\n1\r,2\n\"1\r\",2\n";
    let records: Vec<_> = cut(&csv(), payload).into_iter().map(|slice| slice.record).collect();
    let expected = [
        Err(RawRecordError::Fields { found: 1, expected: 2 }),
        Err(RawRecordError::Fields { found: 3, expected: 2 }),
        Err(RawRecordError::AfterQuote { field: 1 }),
        Err(RawRecordError::NotUtf8 { at_byte: 2 }),
        Err(RawRecordError::CarriageReturn { field: 1 }),
        parsed_record(&[("a", "1\r"), ("b", "2")]),
    ];
    assert_eq!(records, expected);
}

#[test]
fn missing_or_invalid_header_fails() {
    for (payload, named) in [
        ("", "it is missing"),
        ("\n\r\n", "it is missing"),
        ("a,,,a\n", "columns 1 and 4"),
        ("a,b,\"a\"\n", "columns 1 and 3"),
        ("a,\"b\"c\n", "field 2"),
        ("a,b\rc,d\n", "field 2"),
    ] {
        let (before, message) = failure(&csv(), payload.as_bytes());
        assert!(before == 0 && message.contains(named), "{payload:?}: {message}");
    }
    assert!(failure(&csv(), b"a,\xff\n").1.contains("UTF-8"));
    assert_eq!(cut(&csv(), b"\na\n"), [], "empty lines before it are skipped, and no record is no error");
}

#[test]
fn row_is_blank_if_it_has_only_delimiters() {
    let row = |a, b| parsed_record(&[("a", a), ("b", b)]);
    for end in ["", "\n", "\r\n", "\n,\n,,,\n"] {
        let payload = format!(",\r\n,,,\na,b\n,\n1,2\n,,,,\n\"\",\n, \n,3{end}");
        let found = cut(&csv(), payload.as_bytes());
        let records: Vec<_> = found.iter().map(|slice| slice.record.clone()).collect();
        assert_eq!(records, [row("1", "2"), row("", ""), row("", " "), row("", "3")], "{end:?}");
        for slice in found {
            let start = usize::try_from(slice.offset).unwrap();
            assert_eq!(&payload.as_bytes()[start..start + slice.bytes.len()], &*slice.bytes, "{end:?}");
        }
    }
    let broken: Vec<_> = cut(&csv(), b"a,b\n\"\"x,\n").into_iter().map(|slice| slice.record).collect();
    assert_eq!(broken, [Err(RawRecordError::AfterQuote { field: 1 })]);
    assert_eq!(cut(&csv(), b"a,b\n,"), [], "without a line end");
    assert_eq!(cut(&tsv(), b"a\tb\n\t\n\t\t\n"), []);
}

#[test]
fn row_of_empty_quoted_fields_is_a_record() {
    let records = |payload: &str| -> Vec<_> {
        cut(&csv(), payload.as_bytes()).into_iter().map(|slice| slice.record).collect()
    };
    let a = |value| parsed_record(&[("a", value)]);
    for end in ["", "\n", "\r\n", "\n\n"] {
        assert_eq!(
            records(&format!("a\n1\n\n\"\"\n2\n\"\"{end}")),
            [a("1"), a(""), a("2"), a("")],
            "{end:?}"
        );
        let rows = records(&format!("a,b\n\"\",\"\"{end}"));
        assert_eq!(rows, [parsed_record(&[("a", ""), ("b", "")])], "{end:?}");
        let short = Err(RawRecordError::Fields { found: 1, expected: 2 });
        assert_eq!(records(&format!("a,b\n\"\"{end}")), [short], "{end:?}");
    }
}

#[test]
fn space_before_quote_is_not_a_part_of_the_field() {
    let payload = "\"Name\", \"Sex\",\t\"Age\"\n\"Al\", \"M\", 41\n  \"a, b\" ,\"\"\t,\" \"\n";
    let found: Vec<_> = cut(&csv(), payload.as_bytes()).into_iter().map(|slice| slice.record).collect();
    let row = |name, sex, age| parsed_record(&[("Name", name), ("Sex", sex), ("Age", age)]);
    assert_eq!(found, [row("Al", "M", " 41"), row("a, b", "", " ")]);
    let tabs = PayloadFormat::Csv {
        delimiter: CsvDelimiter::TAB,
        quote: true,
        skip_lines: 0,
        comment: None,
        columns: Vec::new(),
        unpivot: None,
    };
    let found = cut(&tabs, b"a\t\"b\"\n \"1\"\t\t\n\"1\" \t \"2\"\n");
    assert_eq!(found[0].record, parsed_record(&[("a", "1"), ("b", "")]), "a tab is the delimiter");
    assert_eq!(found[1].record, parsed_record(&[("a", "1"), ("b", "2")]));
}

#[test]
fn quote_in_a_field_is_right_or_the_record_is_rejected() {
    for (line, expected) in [
        ("5\" high,x", parsed_record(&[("a", "5\" high"), ("b", "x")])),
        ("Al \"Fox\" S,x", parsed_record(&[("a", "Al \"Fox\" S"), ("b", "x")])),
        ("'Al','x'", parsed_record(&[("a", "'Al'"), ("b", "'x'")])),
        ("'s-Hage,x", parsed_record(&[("a", "'s-Hage"), ("b", "x")])),
        ("\"say \"\"hi\"\"\", \"\"\"\"", parsed_record(&[("a", "say \"hi\""), ("b", "\"")])),
        ("\"Al\" Fox,x", Err(RawRecordError::AfterQuote { field: 1 })),
        ("x, \"Al\".", Err(RawRecordError::AfterQuote { field: 2 })),
        ("\u{feff}\"Al\",x", Err(RawRecordError::BeforeQuote { field: 1 })),
        ("x,\u{a0}\"Al\"", Err(RawRecordError::BeforeQuote { field: 2 })),
        ("x,\u{200b}\u{200b} \"Al\"", Err(RawRecordError::BeforeQuote { field: 2 })),
        ("x,\u{a0}y \"Al\"", parsed_record(&[("a", "x"), ("b", "\u{a0}y \"Al\"")])),
        ("'a, b',x", Err(RawRecordError::Fields { found: 3, expected: 2 })),
        ("Al \"a, b\",x", Err(RawRecordError::Fields { found: 3, expected: 2 })),
    ] {
        let found = cut(&csv(), format!("\u{feff}\"a\",b\n{line}\n").as_bytes());
        assert_eq!(found[0].record, expected, "{line}");
    }
    let found = cut(&csv(), b"a,b\n\"1,2\n\"3\",4\n5,6\n");
    let records: Vec<_> = found.into_iter().map(|slice| slice.record).collect();
    assert_eq!(
        records,
        [Err(RawRecordError::AfterQuote { field: 1 }), parsed_record(&[("a", "5"), ("b", "6")])],
        "an unclosed quote ends at the next one"
    );
}

#[test]
fn header_in_quotes_that_the_format_keeps_fails() {
    let bare = PayloadFormat::Csv {
        delimiter: CsvDelimiter::default(),
        quote: false,
        skip_lines: 0,
        comment: None,
        columns: Vec::new(),
        unpivot: None,
    };
    for (format, payload) in [
        (csv(), "'a','b'\n'1','2'\n"),
        (csv(), "'a',\n'1',\n"),
        (bare.clone(), "\"a\",\"b\"\n\"1\",\"2\"\n"),
        (tsv(), "\"a\"\t\"b\"\n\"1\"\t\"2\"\n"),
        (tsv(), "'a'\n1\n"),
    ] {
        let error = slice_payload(&format, payload.as_bytes(), SliceLimits::default()).unwrap_err();
        assert!(
            matches!(error, PayloadSliceError::Header { cause: HeaderLineError::Quoted { .. }, .. }),
            "{payload:?}: {error:?}"
        );
    }
    for payload in ["'s,b\n1,2\n", "'a',b\n1,2\n", "\"'a'\",b\n1,2\n"] {
        assert_eq!(cut(&csv(), payload.as_bytes()).len(), 1, "{payload:?}");
    }
}

#[test]
fn trailing_delimiter_beyond_the_header_is_no_field() {
    let row = |id, value| parsed_record(&[("id", id), ("value", value)]);
    let records = |payload: &str| -> Vec<_> {
        cut(&csv(), payload.as_bytes()).into_iter().map(|slice| slice.record).collect()
    };
    let fields = |found| Err(RawRecordError::Fields { found, expected: 2 });
    let found = records("id,value\n1,2,\n2,3,\n3,4,\n");
    assert_eq!(found, [row("1", "2"), row("2", "3"), row("3", "4")]);
    let found = records("id,value\n1,2,,\n1,2,3\n1,2,\"\"\n1,2, \n1,\n1,2\n");
    assert_eq!(found, [fields(4), fields(3), fields(3), fields(3), row("1", ""), row("1", "2")]);
}

#[test]
fn header_newline_in_quotes_is_a_part_of_the_name() {
    for end in ["\n", "\r\n"] {
        let payload = "\"Area or\nregion\",\"People\n(thousands)\",Year\nNorth,\"68,170\",2023\nSouth,\"48,085\",2023\n";
        let payload = payload.replace('\n', end);
        let (area, people) = (format!("Area or{end}region"), format!("People{end}(thousands)"));
        let row = |name, count| parsed_record(&[(&area, name), (&people, count), ("Year", "2023")]);
        let found: Vec<_> = cut(&csv(), payload.as_bytes()).into_iter().map(|slice| slice.record).collect();
        assert_eq!(found, [row("North", "68,170"), row("South", "48,085")]);
    }
}

/// The shape of the ECB's `eurofxref-hist.csv`: each line ends in a delimiter.
const RATES: &str = "Date,USD,JPY,CYP,\n2026-01-02,1.17,183.4,N/A,\n2025-12-31,1.175,184.09,N/A,\n";

#[test]
fn column_without_name_is_in_no_record() {
    let rates = |date, usd, jpy| parsed_record(&[("Date", date), ("USD", usd), ("JPY", jpy), ("CYP", "N/A")]);
    let open = slice_payload(&csv(), RATES.as_bytes(), SliceLimits::default()).unwrap();
    assert_eq!(open.columns().unwrap(), ["Date", "USD", "JPY", "CYP", ""]);
    let records: Vec<_> = open.map(|slice| slice.unwrap().record).collect();
    assert_eq!(records, [rates("2026-01-02", "1.17", "183.4"), rates("2025-12-31", "1.175", "184.09")]);
    let several = cut(&csv(), b",a,\" \",,b\n1,2,3,4,5\n");
    assert_eq!(several[0].record, parsed_record(&[("a", "2"), ("b", "5")]));
    let line = cut(&csv(), b"a,\n1\n1,2,3\n1,\n");
    let records: Vec<_> = line.into_iter().map(|slice| slice.record).collect();
    let expected = [
        Err(RawRecordError::Fields { found: 1, expected: 2 }),
        Err(RawRecordError::Fields { found: 3, expected: 2 }),
        parsed_record(&[("a", "1")]),
    ];
    assert_eq!(records, expected);
}

#[test]
fn list_is_found_by_its_path_and_other_values_are_skipped() {
    let whole = br#" {"info" : {"n": [1, -2.5e3, "}\"]", null, []], "e": {}}, "da/ta": [ [0], [{"a": 1} , {"b":"]\\"},{}] ], "z":true } "#;
    let found = cut(&json("/da~1ta/1"), whole);
    assert_eq!(texts(&found), [r#"{\"a\": 1}"#, r#"{\"b\":\"]\\\\\"}"#, "{}"]);
    assert!(found.iter().all(|slice| slice.record.is_ok()));
    assert_eq!(texts(&cut(&json(""), b"[{},{\"a\":[{}]}\n,{}]\n")), ["{}", r#"{\"a\":[{}]}"#, "{}"]);
    assert_eq!(cut(&json("/data"), br#"{"data":[]}"#), []);
}

#[test]
fn iso_code_list_is_read_as_published() {
    let payload = r#"{
  "3166-1": [
    {
      "alpha_2": "AW",
      "flag": "🇦🇼",
      "numeric": "533"
    },
    {
      "alpha_2": "AF",
      "flag": "🇦🇫",
      "numeric": "004"
    }
  ]
}
"#;
    let found = cut(&json("/3166-1"), payload.as_bytes());
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].record.as_ref().unwrap().get("numeric"), Some(&SourceValue::Text("004".into())));
    assert!(found[0].bytes.starts_with(b"{\n") && found[0].bytes.ends_with(b"    }"));
}

#[test]
fn broken_record_of_a_document_is_rejected_alone() {
    let deep = "[".repeat(65) + &"]".repeat(65);
    let list = format!(
        r#"[{{"a":NaN}},{{"a":1,"a":1}},{{"a":{deep}}},7,"x",[{{}}],null,{{"a":tru}},{{"a",1}},{{}}]"#
    );
    let found = cut(&json(""), list.as_bytes());
    assert_eq!(found.len(), 10);
    assert!(found[..9].iter().all(|slice| slice.record.is_err()));
    assert!(found[9].record.is_ok());
    let found = cut(&json(""), b"[{\"a\":\"\xff\"},{}]");
    assert_eq!(found[0].record, Err(RawRecordError::NotUtf8 { at_byte: 6 }));
    assert!(found[1].record.is_ok());
}

#[test]
fn document_broken_outside_a_record_fails_with_the_offset() {
    for (payload, before, offset) in [
        ("", 0, 0),
        ("{\"data\":[{}", 1, 11),
        ("{\"data\":[{},]}", 1, 12),
        ("{\"data\":[,{}]}", 0, 9),
        ("{\"data\":[{} {}]}", 1, 12),
        ("{\"data\":[{}]", 1, 12),
        ("{\"data\":[{}]} {}", 1, 14),
        ("{\"data\":[{}],}", 1, 13),
        ("{\"data\":[{}],\"z\":tru}", 1, 17),
        ("{\"a\":01,\"data\":[{}]}", 0, 5),
        ("{\"a\":\"\\x\",\"data\":[{}]}", 0, 5),
        ("{\"a\":[1,2},\"data\":[{}]}", 0, 9),
        ("{\"a\" 1,\"data\":[{}]}", 0, 5),
        ("{a:1,\"data\":[{}]}", 0, 1),
        ("{\"data\":[{\"a\":[}]},{}]}", 0, 15),
        ("{\"data\":[{\"a\":1],{}]}", 0, 15),
        ("{\"data\":[{\"a\":\"x},{\"b\":\"y\"}]}", 0, 20),
    ] {
        let (found, message) = failure(&json("/data"), payload.as_bytes());
        assert_eq!(found, before, "{payload}: {message}");
        assert!(message.contains(&format!("byte {offset}, expected")), "{payload}: {message}");
    }
}

#[test]
fn path_without_a_list_fails_with_the_path() {
    for (path, payload) in [
        ("/data", "{\"dat\":[]}"),
        ("/data", "{\"data\":{}}"),
        ("/data", "{\"data\":\"[]\"}"),
        ("/data", "[1]"),
        ("/0/1", "[[[]]]"),
        ("/01", "[[],[]]"),
        ("", "{}"),
        ("", "7"),
    ] {
        let (_, message) = failure(&json(path), payload.as_bytes());
        assert!(message.contains(&format!("`{path}`")), "{payload}: {message}");
    }
}

#[test]
fn second_list_under_the_same_name_fails() {
    let (before, message) = failure(&json("/a/b"), br#"{"a":{"b":[{}],"\u0062":[{}]}}"#);
    assert_eq!(before, 1, "{message}");
    insta::assert_snapshot!(message);
}

#[test]
fn values_beside_the_list_have_a_depth_limit() {
    let nested =
        |levels: usize| format!("{{\"a\":{}{},\"data\":[]}}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(cut(&json("/data"), nested(63).as_bytes()), []);
    let messages = [64, 1_000_000].map(|levels| failure(&json("/data"), nested(levels).as_bytes()).1);
    insta::assert_snapshot!(messages.join("\n"));
}

/// The beginning of a payload, then the same byte without end. It counts the bytes that were read.
struct EndlessReader<'p> {
    start: &'p [u8],
    then: u8,
    read_bytes: u64,
}

impl Read for EndlessReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let size = self.start.read(into)?;
        into[size..].fill(self.then);
        self.read_bytes += into.len() as u64;
        Ok(into.len())
    }
}

#[test]
fn endless_record_fails_at_the_limit() {
    let limits = SliceLimits { max_record_bytes: 100_000 };
    for (format, start, then, offset) in [
        (PayloadFormat::Ndjson, "{}\n{\"a\":\"", b'x', 3),
        (PayloadFormat::Ndjson, "{}\n", b'[', 3),
        (json("/data"), "{\"data\":[{},", b'[', 12),
        (json("/data"), "{\"data\":[{},\"", b'x', 12),
        (json("/data"), "{\"data\":[{},", b'1', 12),
        (json("/data"), "{\"z\":\"", b'x', 5),
        (json("/data"), "{\"", b'x', 1),
        (csv(), "a\n1\n", b',', 4),
        (csv(), "a\n1\n\"", b'\n', 4),
        (csv(), "a\n1\n\"", b'"', 4),
        (csv(), "", b'a', 0),
        (tsv(), "a\n1\n", b'\t', 4),
    ] {
        let mut reader = EndlessReader { start: start.as_bytes(), then, read_bytes: 0 };
        let error = match slice_payload(&format, &mut reader, limits) {
            Ok(records) => records.last().expect("an error").expect_err("no record is that long"),
            Err(error) => error,
        };
        assert!(
            matches!(error, PayloadSliceError::TooLong { offset: at, max_bytes: 100_000 } if at == offset),
            "{start}: {error:?}"
        );
        assert!(reader.read_bytes < 300_000, "{start}: {} bytes were read", reader.read_bytes);
    }
}

#[test]
fn record_longer_than_the_limit_fails() {
    let fits = |format: &PayloadFormat, payload: &[u8]| {
        let limits = SliceLimits { max_record_bytes: 10 };
        slice_payload(format, payload, limits).and_then(Iterator::collect::<Result<Vec<_>, _>>).is_ok()
    };
    for (format, ten, eleven) in [
        (PayloadFormat::Ndjson, "{\"a\":1234}\r\n", "{\"a\":12345}\n"),
        (json(""), "[{\"a\":1234}]", "[{\"a\":12345}]"),
        (csv(), "a\n1234567890\r\n", "a\n12345678901"),
        (csv(), "a\n\"12\r\n5678\"\r\n", "a\n\"12\r\n56789\"\r\n"),
    ] {
        assert!(fits(&format, ten.as_bytes()), "{ten}");
        assert!(!fits(&format, eleven.as_bytes()), "{eleven}");
    }
}

#[test]
fn columns_are_limited_and_extra_fields_reject_only_one_record() {
    let header = |columns: usize| (1..columns).fold("c0".to_owned(), |names, n| format!("{names},c{n}"));
    assert!(slice_payload(&csv(), header(MAX_COLUMNS).as_bytes(), SliceLimits::default()).is_ok());
    let error =
        slice_payload(&csv(), header(MAX_COLUMNS + 1).as_bytes(), SliceLimits::default()).unwrap_err();
    assert!(error.to_string().contains("4097"), "{error}");
    let payload = format!("a,b\nx{}\n1,2\n", ",".repeat(1_000_000));
    let found: Vec<_> = slice_payload(&csv(), payload.as_bytes(), SliceLimits::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(found[0].record, Err(RawRecordError::Fields { found: 1_000_001, expected: 2 }));
    assert!(found[1].record.is_ok());
}

#[test]
fn payload_that_ends_within_quotes_fails() {
    let (before, message) = failure(&csv(), b"a,b\n1,2\n3,\"4\n5,6\n");
    assert_eq!(before, 1, "{message}");
    insta::assert_snapshot!(message + "\n" + &failure(&csv(), b"a\n\"1\r\n").1);
}

#[test]
fn read_error_is_reported_with_the_offset() {
    struct FailingReader;
    impl Read for FailingReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
    }
    for (format, start) in formats().into_iter().zip(["{\"data\":[{},", "{}\n{}\n", "a\n1\n2\n", "a\n1\n2\n"])
    {
        let reader = start.as_bytes().chain(FailingReader);
        let last = slice_payload(&format, reader, SliceLimits::default()).unwrap().last();
        assert!(
            matches!(last, Some(Err(PayloadSliceError::Read { offset, .. })) if offset == start.len() as u64),
            "{format:?}: {last:?}"
        );
    }
}

/// The texts of the fields of each record.
type FieldRows = Vec<Vec<String>>;

fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

/// A payload of `rows`, with the expected bytes of each record.
fn rendered(format: &PayloadFormat, rows: &FieldRows, end: &str) -> (Vec<u8>, Vec<String>) {
    let object = |row: &Vec<String>| {
        let members = row.iter().enumerate();
        let members: Vec<_> =
            members.map(|(n, text)| format!("\"c{n}\":{}", serde_json::json!(text))).collect();
        format!("{{{}}}", members.join(", "))
    };
    let records: Vec<String> = match format {
        PayloadFormat::Json { .. } | PayloadFormat::Ndjson => rows.iter().map(object).collect(),
        PayloadFormat::Csv { .. } => rows
            .iter()
            .map(|row| row.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(","))
            .collect(),
        PayloadFormat::Tsv { .. } => rows.iter().map(|row| row.join("\t")).collect(),
    };
    let payload = match format {
        PayloadFormat::Json { .. } => {
            format!("{{\"a\":[{end}],\"data\":[{end}{}]}}{end}", records.join(&format!("{end},")))
        }
        PayloadFormat::Ndjson => records.join(end),
        PayloadFormat::Csv { .. } => format!("c0,\"c1\",c2{end}{}", records.join(end)),
        PayloadFormat::Tsv { .. } => format!("c0\tc1\tc2{end}{}", records.join(end)),
    };
    (payload.into_bytes(), records)
}

proptest! {
    #[test]
    fn written_records_are_read_back_in_pieces_of_any_size(
        rows in prop::collection::vec(prop::collection::vec("[a-c,;\"\\\\{}\\[\\] é\r\n😀]{0,9}", 3), 0..9),
        sizes in prop::collection::vec(1_usize..40, 1..5),
        windows in any::<bool>(),
    ) {
        let end = if windows { "\r\n" } else { "\n" };
        for format in formats() {
            // TSV cannot contain a line end within a field
            let plain = |field: &String| field.replace(['\r', '\n'], " ");
            let rows = match format {
                PayloadFormat::Tsv { .. } => rows.iter().map(|row| row.iter().map(plain).collect()).collect(),
                _ => rows.clone(),
            };
            // in a TSV, a row without any text is blank; the fields of the CSV are quoted
            let is_tsv = matches!(format, PayloadFormat::Tsv { .. });
            let has_text = |row: &Vec<String>| row.iter().any(|field| !field.is_empty());
            let rows: FieldRows = rows.into_iter().filter(|row| !is_tsv || has_text(row)).collect();
            let (payload, records) = rendered(&format, &rows, end);
            let (found, error) = cut_in(&format, &payload, &sizes);
            prop_assert!(error.is_none(), "{:?}: {:?}", format, error);
            let bytes: Vec<_> = found.iter().map(|slice| str::from_utf8(&slice.bytes).unwrap()).collect();
            prop_assert_eq!(bytes, records);
            for (slice, row) in found.iter().zip(&rows) {
                let members: Vec<_> = ["c0", "c1", "c2"].into_iter().zip(row.iter().map(String::as_str)).collect();
                prop_assert_eq!(&slice.record, &parsed_record(&members));
            }
        }
    }

    #[test]
    fn result_for_any_bytes_does_not_depend_on_the_pieces(
        payload in prop::collection::vec(prop::sample::select(b"[]{}:,\"\\a1 \t\r\n\xff\xef\xbb\xbf".to_vec()), 0..60),
        sizes in prop::collection::vec(1_usize..9, 1..5),
    ) {
        for format in formats().into_iter().chain([json("")]) {
            let (whole, pieces) = (cut_in(&format, &payload, &[usize::MAX]), cut_in(&format, &payload, &sizes));
            prop_assert_eq!(whole.0, pieces.0);
            prop_assert_eq!(whole.1.map(|error| error.to_string()), pieces.1.map(|error| error.to_string()));
        }
    }

    #[test]
    fn accepted_document_is_read_as_serde_json_reads_it(text in "[\\[\\]{}:,\"a-b1e .]{0,20}") {
        let payload = format!("[{text}]");
        let (found, error) = cut_in(&json(""), payload.as_bytes(), &[3]);
        let theirs = serde_json::from_str::<Vec<Box<serde_json::value::RawValue>>>(&payload);
        match theirs {
            Ok(items) => {
                prop_assert!(error.is_none(), "{:?}", error);
                let ours: Vec<_> = found.iter().map(|slice| str::from_utf8(&slice.bytes).unwrap()).collect();
                prop_assert_eq!(ours, items.iter().map(|item| item.get()).collect::<Vec<_>>());
            }
            Err(_) => prop_assert!(error.is_some() || found.iter().any(|slice| slice.record.is_err())),
        }
    }
}

fn wide(skip_lines: u16, columns: &str) -> PayloadFormat {
    let unpivot = ColumnUnpivot { columns: columns.into(), name: "Year".into(), value: "Value".into() };
    PayloadFormat::Csv {
        delimiter: CsvDelimiter::default(),
        quote: true,
        skip_lines,
        comment: None,
        columns: Vec::new(),
        unpivot: Some(unpivot),
    }
}

/// The fields of the records, each as `name=value`.
fn fields(slices: &[PayloadSlice]) -> Vec<String> {
    let field = |(name, value): &(String, SourceValue)| match value {
        SourceValue::Text(text) => format!("{name}={text}"),
        other => panic!("{other:?}"),
    };
    let record = |slice: &PayloadSlice| match &slice.record {
        Ok(SourceValue::Object(members)) => members.iter().map(field).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    };
    slices.iter().map(record).collect()
}

#[test]
fn unpivot_makes_a_record_of_each_cell_after_a_preamble() {
    let payload = b"\"Data Source\",\"World \"\"Bank\"\nLast Updated\n\n\"Code\",\"1960\",\"1961\",\"Note\",\n\"AFG\",\"1.5\",\"\",\"a\",\nALB,2,3,,\n";
    let format = wide(3, "[0-9]{4}");
    let slices = cut(&format, payload);
    assert_eq!(
        fields(&slices),
        [
            "Code=AFG Note=a Year=1960 Value=1.5",
            "Code=ALB Note= Year=1960 Value=2",
            "Code=ALB Note= Year=1961 Value=3"
        ]
    );
    assert_eq!(slices.iter().map(|slice| slice.position).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(slices[1].offset, slices[2].offset);
    assert_eq!(slices[2].bytes, &b"ALB,2,3,,"[..]);
    let reader = slice_payload(&format, &payload[..], SliceLimits::default()).expect("a valid header");
    assert_eq!(reader.unnamed_columns(), [5]);
    assert_eq!(reader.columns().expect("a header"), ["Code", "Note", "Year", "Value"]);
}

#[test]
fn names_of_the_format_and_of_the_payload_are_equal_in_all_unicode_forms() {
    for (defined, published) in [(NFC, NFD), (NFD, NFC), (NFD, NFD)] {
        let document = format!("{{\"{published}\":[{{}}]}}");
        assert_eq!(cut(&json(&format!("/{defined}")), document.as_bytes()).len(), 1);
        let table = format!("Code,{published} 1\na,2\n");
        let found = fields(&cut(&wide(0, &format!("{defined} [0-9]")), table.as_bytes()));
        assert_eq!(found, [format!("Code=a Year={NFC} 1 Value=2")]);
        assert_eq!(
            cut(&csv(), table.as_bytes())[0].record,
            parsed_record(&[("Code", "a"), (format!("{NFC} 1").as_str(), "2")])
        );
    }
    let (_, message) = failure(&csv(), format!("{NFC},b,{NFD}\n1,2,3\n").as_bytes());
    insta::assert_snapshot!(message);
}

#[test]
fn row_that_cannot_be_unpivoted_is_one_record() {
    let slices = cut(&wide(0, "[0-9]{4}"), b"Code,1960,1961\nAFG,1\nALB,1,2\nDZA,,\n");
    assert_eq!(slices.len(), 3);
    assert_eq!(slices[0].record, Err(RawRecordError::Fields { found: 2, expected: 3 }));
}

#[test]
fn header_without_unpivoted_columns_is_refused() {
    let cause = |format: &PayloadFormat, payload: &str| match cut_in(format, payload.as_bytes(), &[64]) {
        (_, Some(PayloadSliceError::Header { cause, .. })) => cause,
        other => panic!("{other:?}"),
    };
    assert!(matches!(cause(&wide(0, "[0-9]{4}"), "Code,A1960\n"), HeaderLineError::NoUnpivotedColumn { .. }));
    assert!(matches!(cause(&wide(0, "("), "Code,1960\n"), HeaderLineError::NoUnpivotedColumn { .. }));
    assert!(matches!(cause(&wide(0, "[0-9]{4}"), "Year,1960\n"), HeaderLineError::UnpivotName { .. }));
    assert!(matches!(cause(&wide(2, "[0-9]{4}"), "Code,1960\n"), HeaderLineError::Missing));
}

#[test]
fn comment_lines_are_skipped_and_keep_the_places_of_records() {
    let format: PayloadFormat = serde_json::from_str(r##"{"csv":{"comment":"#"}}"##).expect("a format");
    let payload = b"# \"open\n#,\"a\n\nid,note\n1,\"x\n# y\"\n#2,z\n3,#\n# end";
    let slices = cut(&format, payload);
    assert_eq!(fields(&slices), ["id=1 note=x\n# y", "id=3 note=#"]);
    assert_eq!(slices[1].bytes, &b"3,#"[..]);
}

#[test]
fn columns_of_the_format_replace_a_header_line() {
    let format: PayloadFormat =
        serde_json::from_str(r#"{"csv":{"skip_lines":1,"columns":["a","b",""]}}"#).expect("a format");
    let slices = cut(&format, b"a,b\n1,2,x\n3,4\n");
    assert_eq!(fields(&slices[..1]), ["a=1 b=2"]);
    assert_eq!(slices[1].record, Err(RawRecordError::Fields { found: 2, expected: 3 }));
    let reader = slice_payload(&format, &b""[..], SliceLimits::default()).expect("an empty payload");
    assert_eq!((reader.unnamed_columns(), reader.columns().map(<[_]>::len)), (vec![3], Some(3)));
    let repeated: PayloadFormat = serde_json::from_str(r#"{"csv":{"columns":["a","a"]}}"#).expect("a format");
    assert!(matches!(
        cut_in(&repeated, b"1,2\n", &[64]).1,
        Some(PayloadSliceError::Header { cause: HeaderLineError::Repeated { first: 1, second: 2 }, .. })
    ));
}

#[test]
fn rows_of_an_unknown_form_have_any_number_of_fields() {
    let format: PayloadFormat =
        serde_json::from_str(r##"{"csv":{"delimiter":";","comment":"#"}}"##).expect("a format");
    let form = format.table().expect("a table");
    let rows = DelimitedRows::open(&b"# c\ntitle\n\na;b\n1;\"2\n\";3\n"[..], form, SliceLimits::default());
    let rows: Vec<_> = rows.expect("a table").map(|row| row.expect("readable")).collect();
    let rows: Vec<_> = rows.into_iter().map(|row| (row.offset, row.fields.expect("fields"))).collect();
    let expected = [(4, vec!["title"]), (11, vec!["a", "b"]), (15, vec!["1", "2\n", "3"])];
    assert_eq!(rows, expected.map(|(at, row)| (at, row.into_iter().map(str::to_owned).collect())));
}
