//! Files as they are published: what is recognized, which guesses are reported, and what the documents read.

use super::*;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// A file, and what `oraclectl new source` makes of it.
struct SourceCase {
    /// The name of the file without its ending, and of the source.
    name: &'static str,
    ending: &'static str,
    content: Vec<u8>,
    /// The axes with their types, those of the identity first.
    axes: &'static [(&'static str, &'static str)],
    identity: &'static [&'static str],
    /// The codes of the comments, with the axis if they concern one.
    comments: &'static [&'static str],
    omitted: &'static [&'static str],
    records: u64,
    /// A filter that selects one record, and an axis with its value there.
    found: (&'static str, &'static str, Value),
}

impl Default for SourceCase {
    fn default() -> Self {
        Self {
            name: "",
            ending: "csv",
            content: Vec::new(),
            axes: &[],
            identity: &[],
            comments: &[],
            omitted: &[],
            records: 0,
            found: ("", "", Value::Null),
        }
    }
}

fn text(content: &str) -> Vec<u8> {
    content.as_bytes().to_vec()
}

/// Cases with dates, numbers and words.
fn cases_of_values() -> Vec<SourceCase> {
    vec![
        SourceCase {
            name: "year2-dmy",
            content: text("Tag;Betrag\n31.12.24;-12,50\n02.01.25;100,00\n15.01.25;7,25\n"),
            axes: &[("tag", "date"), ("betrag", "number")],
            identity: &["tag"],
            comments: &["tag:two_digit_years"],
            records: 3,
            found: ("tag=2024-12-31", "betrag", json!("-12.5")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "second60",
            content: text("id,at\n1,2020-06-15T12:34:60Z\n2,2020-06-15T12:35:00Z\n"),
            axes: &[("id", "integer"), ("at", "string")],
            identity: &["id"],
            comments: &["at:no_such_date"],
            records: 2,
            found: ("id=1", "at", json!("2020-06-15T12:34:60Z")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "season",
            content: text("season,points\n2008-09,72\n2009-10,75\n2010-11,68\n2011-12,70\n"),
            axes: &[("season", "string"), ("points", "integer")],
            identity: &["season"],
            comments: &["season:season"],
            records: 4,
            found: ("season=2008-09", "points", json!("72")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "odd-marker",
            content: text("Year,Jan,Feb\n2022,.91,.89\n2024,1.25,***\n"),
            axes: &[("year", "year"), ("jan", "number"), ("feb", "number")],
            identity: &["year"],
            comments: &["feb:missing_values", "feb:missing_words"],
            records: 2,
            found: ("year=2022", "feb", json!("0.89")),
            ..SourceCase::default()
        },
    ]
}

/// Cases with sections, signs, units and words.
fn cases_of_words() -> Vec<SourceCase> {
    vec![
        SourceCase {
            name: "section-numbers",
            content: text("section,title\n1.1,A\n1.2,B\n1.10,C\n"),
            axes: &[("section", "string"), ("title", "string")],
            identity: &["section"],
            comments: &["section:section_numbers"],
            records: 3,
            found: ("section=1.10", "title", json!("C")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "affixes",
            content: text(
                "name;eur;usd;code;share;weight;account;bound\nA;12,00 €;$12.50;EUR 12.50;12.5 %;12 kg;(12.50);<0.5\n\
                 B;1.234,50 €;-$3.25;EUR 3.00;3 %;13 kg;3.00;0.7\n",
            ),
            axes: &[
                ("name", "string"),
                ("eur", "number"),
                ("usd", "number"),
                ("code", "number"),
                ("share", "number"),
                ("weight", "number"),
                ("account", "number"),
                ("bound", "string"),
            ],
            identity: &["name"],
            comments: &[
                "account:accounting",
                "bound:bounds",
                "code:affix",
                "eur:affix",
                "share:affix",
                "usd:affix",
                "usd:unit_unknown",
                "weight:affix",
            ],
            records: 2,
            found: ("name=B", "eur", json!("1234.5")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "words",
            content: text("id,flag,at\n1,TRUE,2026-11-26 10:00\n2,FALSE,2026-11-27 09:30\n"),
            axes: &[("id", "integer"), ("flag", "boolean"), ("at", "date")],
            identity: &["id"],
            comments: &["at:local_times", "flag:boolean_words"],
            records: 2,
            found: ("id=2", "flag", json!(false)),
            ..SourceCase::default()
        },
        SourceCase {
            name: "database-null",
            ending: "tsv",
            content: text("id\tname\tn\na\t\\N\t1.5\nb\tx\t\\N\n"),
            axes: &[("id", "string"), ("name", "string"), ("n", "number")],
            identity: &["id"],
            comments: &["n:missing_values", "n:missing_words", "name:missing_values", "name:missing_words"],
            records: 2,
            found: ("id=a", "name", Value::Null),
            ..SourceCase::default()
        },
    ]
}

/// Cases with headers, comments, encodings and other forms of tables.
fn cases_of_tables() -> Vec<SourceCase> {
    vec![
        SourceCase {
            name: "m",
            content: text("id,value\na,1\nb,2\n"),
            axes: &[("id", "string"), ("value", "integer")],
            identity: &["id"],
            records: 2,
            found: ("id=a", "value", json!("1")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "trailing-delimiter",
            content: text("id,value\n1,2,\n2,3,\n3,4,\n"),
            axes: &[("id", "integer"), ("value", "integer")],
            identity: &["id"],
            records: 3,
            found: ("id=1", "value", json!("2")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "header-newline",
            content: text(
                "\"Area or\nregion\",\"People\n(thousands)\",Year\nNorth,\"68,170\",2023\nSouth,\"48,085\",2023\n",
            ),
            axes: &[("area_or_region", "string"), ("year", "year"), ("people_thousands", "number")],
            identity: &["area_or_region", "year"],
            comments: &["people_thousands:decimal_mark", "people_thousands:unit_unknown"],
            records: 2,
            found: ("area_or_region=North", "people_thousands", json!("68170")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "decimal-mark-of-another-field",
            content: text("city;people;area\nBern;1.234;51,6\nBasel;5.678;23,85\n"),
            axes: &[("city", "string"), ("people", "integer"), ("area", "number")],
            identity: &["city"],
            comments: &["people:decimal_mark"],
            records: 2,
            found: ("city=Bern", "people", json!("1234")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "hash-comments",
            content: text(
                "# Source: an agency, monthly, ppm\n# Contact: a, b, c\nyear,month,average\n2024,1,422.8\n2024,2,424.5\n",
            ),
            axes: &[("month", "integer"), ("year", "year"), ("average", "number")],
            identity: &["month", "year"],
            comments: &["comment_lines"],
            records: 2,
            found: ("month=2", "average", json!("424.5")),
            ..SourceCase::default()
        },
    ]
}

/// Cases with first lines and headers that do not fit.
fn cases_of_headers() -> Vec<SourceCase> {
    vec![
        SourceCase {
            name: "encoding-cp1250",
            content: b"miasto,ludnosc\n\xa3\xf3d\x9f,670642\nOpole,127839\n".to_vec(),
            axes: &[("miasto", "string"), ("ludnosc", "integer")],
            identity: &["miasto"],
            comments: &["encoding_guessed"],
            records: 2,
            found: ("miasto=Opole", "ludnosc", json!("127839")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "utf-16-without-mark",
            content: "id;name\n1;Zürich\n2;Genève\n".encode_utf16().flat_map(u16::to_le_bytes).collect(),
            axes: &[("id", "integer"), ("name", "string")],
            identity: &["id"],
            comments: &["encoding_guessed"],
            records: 2,
            found: ("id=1", "name", json!("Zürich")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "spreadsheet-sep",
            content: text("sep=;\r\nid;value\r\na;1,5\r\nb;2,5\r\n"),
            axes: &[("id", "string"), ("value", "number")],
            identity: &["id"],
            records: 2,
            found: ("id=a", "value", json!("1.5")),
            ..SourceCase::default()
        },
        // NOAA's CO2 as a public repository has it: a name is missing in the header
        SourceCase {
            name: "co2-short-header",
            content: text(
                "Date,Decimal Date,Average,Interpolated,Trend,Number of Days\n1958-03,1958.2027,315.71,314.44,-01,-9.99,-0.99\n\
                 1958-04,1958.2877,317.45,315.16,-01,-9.99,-0.99\n2024-03,2024.2083,425.38,423.75,27,1.1,0.4\n",
            ),
            axes: &[
                ("date", "month"),
                ("decimal_date", "number"),
                ("average", "number"),
                ("interpolated", "number"),
                ("trend", "integer"),
                ("number_of_days", "number"),
                ("column_7", "number"),
            ],
            identity: &["date"],
            comments: &["column_7:sentinel", "header_length", "number_of_days:sentinel"],
            records: 3,
            found: ("date=2024-03", "average", json!("425.38")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "short-header-of-r",
            content: text("\"a\",\"b\"\n\"1\",5.5,6\n\"2\",7.5,8\n"),
            axes: &[("a", "integer"), ("b", "number"), ("column_3", "integer")],
            identity: &["a"],
            comments: &["header_length", "measured_identity"],
            records: 2,
            found: ("a=1", "b", json!("5.5")),
            ..SourceCase::default()
        },
    ]
}

/// Cases with structured data.
fn cases_of_structures() -> Vec<SourceCase> {
    vec![
        SourceCase {
            name: "sdmx-identity",
            content: text(
                "DATAFLOW,LAST UPDATE,freq,unit,geo,TIME_PERIOD,OBS_VALUE,OBS_FLAG\n\
                 ESTAT:X(1.0),26/11/26 11:00:00,A,PC,AT,2023,1.5,\nESTAT:X(1.0),26/11/26 11:00:00,A,PC,AT,2024,2.5,p\n\
                 ESTAT:X(1.0),26/11/26 11:00:00,A,PC,DE,2023,3.5,\nESTAT:X(1.0),26/11/26 11:00:00,A,PC,DE,2024,4.5,\n",
            ),
            axes: &[
                ("geo", "string"),
                ("time_period", "year"),
                ("dataflow", "string"),
                ("last_update", "date"),
                ("freq", "string"),
                ("unit", "string"),
                ("obs_value", "number"),
                ("obs_flag", "string"),
            ],
            identity: &["geo", "time_period"],
            comments: &[
                "constant_dimensions",
                "last_update:local_times",
                "last_update:two_digit_years",
                "obs_flag:missing_values",
            ],
            records: 4,
            found: ("geo=DE time_period=2024", "obs_value", json!("4.5")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "sdmx-whole-numbers",
            content: text(
                "KEY,FREQ,CURRENCY,CURRENCY_DENOM,EXR_TYPE,EXR_SUFFIX,TIME_PERIOD,OBS_VALUE,OBS_STATUS\n\
                 EXR.D.USD.EUR.SP00.A,D,USD,EUR,SP00,A,2026-09-28,117,A\nEXR.D.USD.EUR.SP00.A,D,USD,EUR,SP00,A,2026-09-29,118,A\n\
                 EXR.D.JPY.EUR.SP00.A,D,JPY,EUR,SP00,A,2026-09-28,160,A\nEXR.D.JPY.EUR.SP00.A,D,JPY,EUR,SP00,A,2026-09-29,161,A\n",
            ),
            axes: &[
                ("currency", "string"),
                ("time_period", "date"),
                ("key", "string"),
                ("freq", "string"),
                ("currency_denom", "string"),
                ("exr_type", "string"),
                ("exr_suffix", "string"),
                ("obs_value", "integer"),
                ("obs_status", "string"),
            ],
            identity: &["currency", "time_period"],
            comments: &["constant_dimensions"],
            records: 4,
            found: ("currency=JPY time_period=2026-09-29", "obs_value", json!("161")),
            ..SourceCase::default()
        },
    ]
}

/// Cases with lists, objects and many columns.
fn cases_of_groups() -> Vec<SourceCase> {
    vec![
        SourceCase {
            name: "nested",
            ending: "ndjson",
            content: text(
                "{\"sku\":\"A\",\"price\":1.5,\"prices\":[{\"v\":1}],\"tags\":[\"x\"]}\n{\"sku\":\"B\",\"price\":2.5,\"prices\":[],\"tags\":[]}\n",
            ),
            axes: &[("sku", "string"), ("price", "number")],
            identity: &["sku"],
            comments: &["no_axis"],
            omitted: &["prices", "tags"],
            records: 2,
            found: ("sku=B", "price", json!("2.5")),
        },
        SourceCase {
            name: "generic-names",
            ending: "ndjson",
            content: text(
                "{\"city\":\"Bern\",\"geo\":{\"area\":{\"value\":51.6,\"unit\":\"km2\"},\"height\":{\"max\":674}},\"rain\":{\"max\":9.5}}\n\
                 {\"city\":\"Thun\",\"geo\":{\"area\":{\"value\":21.6,\"unit\":\"km2\"},\"height\":{\"max\":1010}},\"rain\":{\"max\":8.5}}\n",
            ),
            axes: &[
                ("city", "string"),
                ("area_value", "number"),
                ("area_unit", "string"),
                ("height_max", "integer"),
                ("rain_max", "number"),
            ],
            identity: &["city"],
            records: 2,
            found: ("city=Thun", "area_value", json!("21.6")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "wide-table",
            content: wide_table(),
            axes: &[("sample", "string"), ("name", "string"), ("value", "number")],
            identity: &["sample", "name"],
            comments: &["unpivoted"],
            records: 600,
            found: ("sample=S2 name=g300", "value", json!("2.3005")),
            ..SourceCase::default()
        },
        SourceCase {
            name: "keyed-group",
            ending: "ndjson",
            content: keyed_group(),
            axes: &[("id", "string"), ("values.*", "number")],
            identity: &["id"],
            comments: &["values.*:group"],
            records: 2,
            found: ("id=B", "values.k299", json!("299.5")),
            ..SourceCase::default()
        },
    ]
}

/// Two rows of 300 measured columns.
fn wide_table() -> Vec<u8> {
    let columns = |cell: &dyn Fn(u32) -> String| {
        (1..=300).map(|number| format!(",{}", cell(number))).collect::<String>()
    };
    let mut text = format!("sample{}\n", columns(&|number| format!("g{number}")));
    for sample in 1..=2 {
        writeln!(text, "S{sample}{}", columns(&|number| format!("{sample}.{number:03}5")))
            .expect("valid text");
    }
    text.into_bytes()
}

/// Two records with an object of 300 members.
fn keyed_group() -> Vec<u8> {
    let line = |id: &str| {
        let values = (0..300).map(|number| (format!("k{number}"), json!(f64::from(number) + 0.5)));
        json!({"id": id, "values": values.collect::<serde_json::Map<_, _>>()}).to_string()
    };
    format!("{}\n{}\n", line("A"), line("B")).into_bytes()
}

/// The documents of a file, with the report on them.
struct NewCase {
    folder: TempDir,
    payload: PathBuf,
    report: Value,
}

impl NewCase {
    /// # Errors
    /// The status with which the command exits, and its message.
    fn new(name: &str, ending: &str, content: &[u8]) -> Result<Self, CtlError> {
        let folder = tempfile::tempdir().expect("a folder");
        let payload = folder.path().join(format!("{name}.{ending}"));
        fs::write(&payload, content).expect("the file is written");
        let output = Some(folder.path().join("new.yaml"));
        let arguments = NewSourceArgs {
            file: payload.clone(),
            id: None,
            tier: Some("primary".to_owned()),
            output,
            force: false,
        };
        let mut printed = Vec::new();
        arguments.run(true, &mut printed)?;
        let report = serde_json::from_slice(&printed).expect("JSON");
        Ok(Self { folder, payload, report })
    }

    fn documents(&self) -> String {
        fs::read_to_string(self.folder.path().join("new.yaml")).expect("the documents exist")
    }

    /// The axes of the records, as a run would read them.
    fn records(&self) -> Vec<Value> {
        let (documents, mut faults) = read_all(&[self.folder.path().join("new.yaml")]).expect("documents");
        let trial = prepare(&documents, &mut faults).pop().expect("a pipeline");
        let (payload, _) = open_payload(&self.payload, "tried", None).expect("the file exists");
        let report = trial.read(payload, TrialLimits { records: TRIED_RECORDS, shown: usize::MAX });
        let records = serde_json::to_value(&report.records).expect("JSON");
        records.as_array().into_iter().flatten().map(|record| record["axes"].clone()).collect()
    }
}

/// The codes of the comments of a report, sorted.
fn codes(report: &Value) -> Vec<String> {
    let comments = report.get("comments").and_then(Value::as_array).expect("a list");
    let code = |comment: &Value| {
        let code = comment.get("code").and_then(Value::as_str).expect("a code");
        comment.get("axis").and_then(Value::as_str).map_or(code.to_owned(), |axis| format!("{axis}:{code}"))
    };
    let mut codes: Vec<_> = comments.iter().map(code).collect();
    codes.sort();
    codes
}

/// The axes of the documents with their types.
fn axes(documents: &str) -> Vec<(String, String)> {
    let axis = |line: &str| {
        let (axis, rest) = line.trim_start().strip_prefix("- {axis: ")?.split_once(", type: ")?;
        Some((axis.to_owned(), rest.split(',').next()?.to_owned()))
    };
    documents.lines().filter_map(axis).collect()
}

fn assert_cases(cases: Vec<SourceCase>) {
    for case in cases {
        let name = case.name;
        let new = NewCase::new(name, case.ending, &case.content).expect("valid documents");
        let (text, report) = (new.documents(), &new.report);
        let expected: Vec<_> =
            case.axes.iter().map(|(axis, kind)| ((*axis).to_owned(), (*kind).to_owned())).collect();
        assert_eq!(axes(&text), expected, "{name}: {text}");
        assert_eq!(report["identity"], json!(case.identity), "{name}: {text}");
        assert_eq!(codes(report), case.comments, "{name}: {text}");
        assert_eq!(report["omitted"], json!(case.omitted), "{name}: {text}");
        let counts = ["records", "rejected", "failure", "breaches"].map(|count| report[count].clone());
        assert_eq!(counts, [json!(case.records), json!(0), Value::Null, json!([])], "{name}: {text}");
        // each comment is in the documents
        for comment in report["comments"].as_array().expect("a list") {
            let comment = comment["text"].as_str().expect("a text");
            assert!(
                text.lines().any(|line| line.contains('#') && line.contains(comment)),
                "{name}: {comment}"
            );
        }
        let (filter, axis, value) = case.found;
        let is_found = |record: &&Value| {
            filter
                .split(' ')
                .filter_map(|part| part.split_once('='))
                .all(|(axis, value)| record[axis] == value)
        };
        let records = new.records();
        let found: Vec<_> = records.iter().filter(is_found).map(|record| record[axis].clone()).collect();
        assert_eq!(found, [value], "{name}: {records:?}");
    }
}

#[test]
fn new_source_recognizes_forms_of_values() {
    assert_cases(cases_of_values());
    assert_cases(cases_of_words());
}

#[test]
fn new_source_recognizes_forms_of_tables() {
    assert_cases(cases_of_tables());
    assert_cases(cases_of_headers());
}

#[test]
fn new_source_recognizes_structured_data() {
    assert_cases(cases_of_structures());
    assert_cases(cases_of_groups());
}

#[test]
fn new_source_rejects_short_year_among_long_ones_year2_mixed() {
    let new = NewCase::new("year2-mixed", "csv", b"d,v\n31.12.2024,1\n02.01.25,2\n03.01.2025,3\n");
    let report = new.expect("valid documents").report;
    assert_eq!(codes(&report), ["d:short_years"]);
    assert_eq!((&report["records"], &report["rejected"]), (&json!(2), &json!(1)));
    assert_eq!(report["breaches"].as_array().map(Vec::len), Some(1), "a run would be held: {report}");
}

#[test]
fn new_source_reads_no_quotes_into_values_space_before_quote() {
    let content = b"\"Name\", \"Sex\", \"Age\"\n\"Al\", \"M\", 41\n\"Bo\", \"F\", 42\n";
    let new = NewCase::new("space-before-quote", "csv", content).expect("valid documents");
    assert_eq!(
        new.records(),
        [json!({"name": "Al", "sex": "M", "age": "41"}), json!({"name": "Bo", "sex": "F", "age": "42"})]
    );
}

#[test]
fn new_source_refuses_files_without_records() {
    for (name, content) in [
        ("lfs", &b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"[..]),
        ("annex", b"/annex/objects/SHA256E-s12--ab.csv\n"),
        ("page", b"\n<!DOCTYPE html>\n<html><body>a,b</body></html>\n"),
        ("page-with-mark", b"\xef\xbb\xbf<html>\n"),
        ("feed", b"<?xml version=\"1.0\"?>\n<a/>\n"),
        ("paper", b"%PDF-1.7\n"),
        ("book", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        ("database", b"SQLite format 3\0rest"),
        ("binary", b"a,b\n\0\x01,2\n"),
        ("aligned", b"year   month  value\n2024   1      2.5\n2024   2      2.6\n"),
    ] {
        let refused = NewCase::new(name, "csv", content).map(|new| new.documents());
        assert!(matches!(refused, Err(CtlError::Verb { exit_code: 5, .. })), "{name}: {refused:?}");
    }
}

#[test]
fn new_source_refuses_files_with_the_fault_and_the_remedy() {
    for (ending, content, reason) in [
        ("csv", "id,value\ra,1\rb,2\r", "tr '\\r' '\\n'"),
        ("csv", "\"id,value\na,1\n", "not closed"),
        ("csv", "id,value\n\"a,1\nb,2\n", "not closed"),
        ("csv", "id,value\na,\"x\"1\nb,\"y\"2\n", "closing quote"),
        ("json", "{\"a\":{\"v\":1},\"b\":{\"v\":2}}", "to_entries"),
        ("json", "{\"id\":[1,2],\"v\":[3,4]}", "transpose"),
        ("ndjson", "{\"v\":[1,2]}\n{\"v\":[3]}\n", "`v`"),
    ] {
        let refused = NewCase::new("refused", ending, content.as_bytes()).map(|new| new.documents());
        let Err(CtlError::Verb { exit_code: 5, message, .. }) = refused else {
            panic!("{content}: {refused:?}")
        };
        assert!(message.contains(reason), "{content}: {message}");
    }
}

#[test]
fn names_of_columns_are_the_same_in_both_unicode_forms() {
    let content = |region: &str, size: &str| format!("{region},{size}\nNorth,5\nSouth,6\n");
    let (composed, decomposed) =
        (content("R\u{e9}gion", "Gr\u{f6}\u{df}e"), content("Re\u{301}gion", "Gro\u{308}\u{df}e"));
    for (sample, other) in [(&composed, &decomposed), (&decomposed, &composed)] {
        let new = NewCase::new("forms", "csv", sample.as_bytes()).expect("valid documents");
        assert_eq!(
            axes(&new.documents()),
            [("region", "string"), ("gro_e", "integer")]
                .map(|(axis, kind)| (axis.to_owned(), kind.to_owned()))
        );
        fs::write(&new.payload, other).expect("the file is written");
        assert_eq!(
            new.records(),
            [json!({"region": "North", "gro_e": "5"}), json!({"region": "South", "gro_e": "6"})]
        );
    }
}

#[test]
fn documents_are_read_again_whatever_the_header_has() {
    for header in [
        "id,null,true",
        "id,yes,~",
        "id,on,off",
        "id,12 a,2024-01-31",
        "id,.nan,1e5",
        "id,a\u{7f}b,c\u{80}\u{9f}",
        "id,\u{85}a,b\u{2028}",
        "id,a\u{fffe}b,\u{ffff}c",
        "id,a: b,- c",
        "id,#a,\\'\"",
    ] {
        let content = format!("{header}\nx,1,p\ny,2,q\n");
        let new = NewCase::new("header", "csv", content.as_bytes()).expect(header);
        assert_eq!((&new.report["records"], &new.report["rejected"]), (&json!(2), &json!(0)), "{header}");
    }
    let new = NewCase::new("words", "csv", b"id,null,true\nx,1,p\ny,2,q\n").expect("valid documents");
    assert_eq!(new.records()[0], json!({"id": "x", "null": "1", "true": "p"}));
}

#[test]
fn text_that_is_neither_utf_8_nor_windows_1252_is_refused() {
    for byte in [0x81, 0x8d, 0x8f, 0x90, 0x9d] {
        let content = [b"id,name\n1,M".as_slice(), &[byte], b"ller\n2,b\n"].concat();
        let refused = NewCase::new("encoding", "csv", &content).map(|new| new.documents());
        let Err(CtlError::Verb { exit_code: 5, message, .. }) = refused else {
            panic!("{byte}: {refused:?}")
        };
        assert!(message.contains("another encoding"), "{message}");
    }
}

#[test]
fn comment_on_a_guessed_encoding_has_no_empty_word_ascii_only() {
    let content: Vec<u8> = "id;name\n1;a\n2;b\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let new = NewCase::new("utf-16", "csv", &content).expect("valid documents");
    assert_eq!(codes(&new.report), ["encoding_guessed"]);
    assert!(!new.documents().contains("``"), "{}", new.documents());
}

#[test]
fn summary_names_numbers_with_two_readings_and_no_comments_that_do_not_exist() {
    for (content, has_comments) in [("id,n\na,1.234\nb,5.678\n", true), ("id,n\na,1.5\nb,2.5\n", false)] {
        let new = NewCase::new("summary", "csv", content.as_bytes()).expect("valid documents");
        let output = Some(new.folder.path().join("new.yaml"));
        let file = new.payload.clone();
        let arguments = NewSourceArgs { file, id: None, tier: None, output, force: true };
        let mut printed = Vec::new();
        arguments.run(false, &mut printed).expect("valid documents");
        let printed = String::from_utf8(printed).expect("UTF-8");
        assert_eq!(printed.contains("`n` can be read in two ways"), has_comments, "{printed}");
        assert_eq!(printed.contains("lines with a comment"), has_comments, "{printed}");
    }
}

#[test]
fn one_bad_row_of_many_is_rejected_by_the_documents() {
    let rows: String = (0..599).map(|row| format!("k{row};{:02}.01.2026;{row},5\n", row % 28 + 1)).collect();
    for last in ["k5;06.01.2026;7,5", ";01.01.2026;7,5", "k599;31.02.2026;7,5"] {
        let content = format!("id;day;n\n{rows}{last}\n;;\n");
        let new = NewCase::new("many", "csv", content.as_bytes()).expect("valid documents");
        assert_eq!(new.report["identity"], json!(["id"]), "{last}");
        let types = axes(&new.documents());
        assert_eq!(types[1], ("day".to_owned(), "date".to_owned()), "{last}");
        let rejected = new.report["rejected"].as_u64().expect("a number");
        assert!((1..=2).contains(&rejected), "{last}: {}", new.report);
        assert_eq!((&new.report["failure"], &new.report["breaches"]), (&Value::Null, &json!([])), "{last}");
    }
}

#[test]
fn codes_with_an_exponent_keep_their_text() {
    let new =
        NewCase::new("codes", "csv", b"code,value\n1E5,1.5\n100000,2.5\n2E3,3.5\n").expect("valid documents");
    assert_eq!(new.report["identity"], json!(["code"]));
    let codes: Vec<_> = new.records().iter().map(|record| record["code"].clone()).collect();
    assert_eq!(codes, ["1E5", "100000", "2E3"]);
}

#[test]
fn file_with_one_record_has_a_comment() {
    let new = NewCase::new("one", "json", b"{\"base\":\"EUR\",\"rates\":{\"USD\":1.1,\"CHF\":0.9}}");
    assert_eq!(codes(&new.expect("valid documents").report), ["one_record"]);
}

#[test]
fn id_is_made_from_the_name_of_the_file_short_name() {
    let id = |name: &str| id_of(Path::new(name)).map(|id| id.to_string());
    for (name, expected) in [
        ("m.csv", "m-data"),
        ("GDP per capita.csv.gz", "gdp-per-capita"),
        (".hidden.csv", "hidden"),
        ("7.csv", "7-data"),
    ] {
        assert_eq!(id(name).as_deref(), Ok(expected));
    }
    assert!(id("数据.csv").is_err());
}

#[test]
fn new_source_writes_no_least_number_of_records() {
    let new = NewCase::new("density", "csv", b"code,value\na,1.5\nb,2.5\n").expect("valid documents");
    let is_gate = |line: &&str| line.trim_start().starts_with("min_records");
    assert_eq!(new.documents().lines().find(is_gate), None, "an older file can have fewer records");
}

#[test]
fn new_source_writes_the_gates_of_each_axis_with_values() {
    let gates = |payload: &[u8]| {
        let new = NewCase::new("gated", "csv", payload).expect("valid documents");
        let documents = new.documents();
        let after = documents.lines().skip_while(|line| !line.starts_with("    axes:")).skip(1);
        after
            .take_while(|line| line.starts_with("      "))
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        gates(b"code,year,people\na,2020,5\na,2021,7\nb,2020,6\nb,2021,9\n"),
        [r#"people: {max_unfilled_ratio: "0.5", max_changed_values_ratio: "0.9"}"#]
    );
    assert_eq!(gates(b"code,people\na,5.5\nb,6.5\n"), [r#"people: {max_unfilled_ratio: "0.5"}"#]);
    assert_eq!(gates(b"code\na\nb\n"), [""; 0]);
}

#[test]
fn example_data_gets_its_identity() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth/data");
    for (file, identity, has_identity) in [
        ("cnf/cnf.ndjson", &["food_code"][..], true),
        ("iso-3166/4.15.0.json", &["alpha_2"], true),
        ("iso-3166/4.20.1.json", &["alpha_2"], true),
        ("iso-4217/4.15.0.json", &["alpha_3"], true),
        ("iso-4217/4.20.1.json", &["alpha_3"], true),
        // with three faults, one of which is a record that occurs twice
        ("un-wpp-population/2019-and-three-faults.tsv", &["country_code", "year"], false),
        ("usda-sr/older.ndjson", &["ndbnumber"], true),
        ("world-bank-population/2017-10-26.csv", &["country_code", "year"], true),
        ("world-bank-population/2020-04-14.csv", &["country_code", "year"], true),
        ("world-bank-population/2023-05-04.csv", &["country_code", "year"], true),
        ("world-bank-population/2026-03-06.csv", &["country_code", "year"], true),
    ] {
        let (name, ending) = file.rsplit_once('.').expect("an ending");
        let content = fs::read(folder.join(file)).expect("the file exists");
        let name = format!("example-{}", name.replace(['/', '.'], "-"));
        let report = NewCase::new(&name, ending, &content).expect("valid documents").report;
        assert_eq!(
            (&report["identity"], &report["has_identity"]),
            (&json!(identity), &json!(has_identity)),
            "{file}"
        );
        assert_eq!(
            (&report["failure"], report["rejected"] == 0),
            (&Value::Null, has_identity),
            "{file}: {report}"
        );
    }
}

#[test]
fn measured_values_identify_a_record_only_without_better_fields() {
    let identity = |content: &str| {
        let report = NewCase::new("measured", "csv", content.as_bytes()).expect("valid documents").report;
        (report["identity"].clone(), codes(&report))
    };
    for (content, expected, code) in [
        ("value,area,city\n1,A,x\n2,A,y\n3,B,x\n", &["area", "city"][..], None),
        ("updated_at,name\n2024-01-01,x\n2024-01-02,y\n", &["name"], None),
        ("name,updated_at,n\nx,2024-01-01,1\nx,2024-01-02,2\n", &["updated_at"], Some("measured_identity")),
        ("x,y\n1,5\n2,5\n", &["x"], Some("measured_identity")),
        ("city,year,n\nA,2024,1\nB,2024,2\n", &["city", "year"], None),
    ] {
        let (found, codes) = identity(content);
        assert_eq!(found, json!(expected), "{content}");
        assert_eq!(
            codes.iter().find(|code| code.ends_with("identity")).map(String::as_str),
            code,
            "{content}"
        );
    }
}
