//! `oraclectl new source` and `oraclectl try`: from a file of one's own to answers.

use crate::wording::stable;
use nix::sys::resource::{UsageWho, getrusage};
use oracled_tests::DaemonWorld;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{
    ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::{Field, Row};
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

/// Thirty rows of five cities in Latin-1, with decimal commas, a unit in the header, and one value that is missing.
fn air_quality() -> Vec<u8> {
    let mut text = "City;Date;PM10 (ug/m3);Station\r\n".to_owned();
    for (number, city) in ["Zürich", "Bern", "Basel", "Genève", "Lugano"].into_iter().enumerate() {
        for day in 1..=6 {
            let value =
                if (number, day) == (1, 3) { "n/a".to_owned() } else { format!("{},{day}", 10 + number) };
            write!(text, "{city};{day:02}.01.2024;{value};00{day}\r\n").expect("valid text");
        }
    }
    text.chars().map(|character| u8::try_from(character).expect("a character of Latin-1")).collect()
}

/// An indicator as the World Bank publishes it.
fn indicator() -> String {
    let years = |cell: &dyn Fn(u32) -> String| {
        (1960..2025).map(|year| format!("\"{}\",", cell(year))).collect::<String>()
    };
    let mut text =
        "\"Data Source\",\"World Development Indicators\",\n\n\"Last Updated Date\",\"2026-07-01\",\n\n"
            .to_owned();
    let heading = years(&|year| year.to_string());
    writeln!(text, "\"Country Name\",\"Country Code\",\"Indicator Name\",\"Indicator Code\",{heading}")
        .expect("valid text");
    for (name, code, first) in
        [("Aruba", "ABW", 1960), ("Congo, Dem. Rep.", "COD", 1970), ("Kosovo", "XKX", 1999)]
    {
        let values = years(&|year| if year < first { String::new() } else { format!("{}.5", year * 10) });
        writeln!(text, "\"{name}\",\"{code}\",\"Population density\",\"EN.POP.DNST\",{values}")
            .expect("valid text");
    }
    text
}

#[track_caller]
fn ctl(world: &DaemonWorld, arguments: &[&str], status: i32) -> String {
    let Output { status: ended, stdout, stderr } = world.ctl(arguments);
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert_eq!(ended.code(), Some(status), "{arguments:?}: {text}{}", String::from_utf8_lossy(&stderr));
    text
}

#[track_caller]
fn ctl_json(world: &DaemonWorld, arguments: &[&str]) -> Value {
    serde_json::from_str(&ctl(world, arguments, 0)).expect("JSON")
}

/// Writes a file into the world's folder, and returns its path.
fn file(world: &DaemonWorld, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = world.path(name);
    fs::write(&path, content).expect("the file is written");
    path.display().to_string()
}

#[tokio::test]
async fn own_table_answers_queries_and_verifications_by_new_documents() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let payload = file(&world, "Air Quality.csv", air_quality());
    let documents = world.path("air-quality.yaml").display().to_string();
    let report =
        ctl_json(&world, &["--json", "new", "source", &payload, "-o", &documents, "--tier", "secondary"]);
    assert_eq!(report.get("identity"), Some(&json!(["city", "date"])));
    assert_eq!(report.get("axes"), Some(&json!(["city", "date", "pm10", "station"])));
    ctl(&world, &["new", "source", &payload, "-o", &documents], 5);
    let tried = ctl_json(&world, &["--json", "try", &documents, &payload, "-n", "1"]);
    assert_eq!(tried.pointer("/counts/records"), Some(&json!(30)));
    assert_eq!(tried.pointer("/counts/axes/pm10/records"), Some(&json!(29)));
    assert_eq!(
        tried.pointer("/records/0/axes"),
        Some(&json!({
            "city": "Zürich", "date": "2024-01-01", "pm10": "10.1", "station": "001",
        }))
    );

    // a workflow needs a trusted source
    let text = fs::read_to_string(&documents).expect("the documents exist");
    let untrusted = text.replace("oracle_tier: secondary", "oracle_tier: unverified");
    let untrusted = file(&world, "untrusted.yaml", untrusted);
    let output = world.ctl(&["apply", "-f", &untrusted]);
    let fault = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{fault}");
    // no document is edited
    let applied = world.ctl(&["apply", "-f", &documents]);
    let notes = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(applied.status.success(), "{notes}");
    insta::assert_snapshot!(
        "untrusted_and_unapproved_source_of_a_workflow",
        stable(&world, &(fault + &notes))
    );
    ctl(&world, &["source", "approve", "air-quality"], 0);
    ctl(
        &world,
        &["ingest", "run", "air-quality", &payload, "--version", "1", "--released-at", "2024-02-01"],
        0,
    );
    let answer = ctl_json(&world, &["--json", "query", "air-quality", "city=Genève", "date=2024-01-06"]);
    assert_eq!(answer.pointer("/response/records/0/axes/pm10"), Some(&json!("13.6")), "{answer}");
    let verified = ctl_json(
        &world,
        &["--json", "verify", "air-quality", "city=Zürich", "date=2024-01-02", "--axes=pm10"],
    );
    let verified = ["kind", "value"].map(|name| verified.pointer(&format!("/axes/pm10/{name}")).cloned());
    assert_eq!(verified, [Some(json!("authoritative")), Some(json!("10.2"))]);
    // a record without the value, and no record
    let mut headlines = Vec::new();
    for (city, day) in [("Bern", "2024-01-03"), ("bern", "2024-01-03")] {
        let [city, day] = [format!("city={city}"), format!("date={day}")];
        let shown = ctl(&world, &["verify", "air-quality", &city, &day, "--axes=pm10"], 6);
        headlines.push(shown.lines().next().expect("a headline").to_owned());
    }
    insta::assert_snapshot!("headlines_of_blocked_verifications", headlines.join("\n"));
    let found_nothing = world.ctl(&["query", "air-quality", "city=bern"]);
    let note = String::from_utf8(found_nothing.stderr).expect("valid UTF-8");
    insta::assert_snapshot!("note_on_a_query_that_finds_nothing", note);
    assert!(world.ctl(&["query", "air-quality", "date=2023-01-01"]).stderr.is_empty());
    let record_id = answer.pointer("/response/records/0/record_id").and_then(Value::as_str).expect("an id");
    // the payload is stored as UTF-8
    let provenance = ctl(&world, &["provenance", record_id], 0);
    assert!(provenance.contains("raw record       Genève;06.01.2024;13,6;006\n"), "{provenance}");
    drop(daemon);
}

#[tokio::test]
async fn indicator_of_the_world_bank_is_read_without_an_edit() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let payload = file(&world, "API_EN.POP.DNST_DS2_en_csv_v2.csv", indicator());
    let documents = world.path("density.yaml").display().to_string();
    let report =
        ctl_json(&world, &["--json", "new", "source", &payload, "--id", "density", "-o", &documents]);
    assert_eq!(report.get("identity"), Some(&json!(["country_code", "year"])));
    ctl(&world, &["apply", "-f", &documents], 0);
    ctl(&world, &["source", "approve", "density"], 0);
    ctl(&world, &["ingest", "run", "density", &payload, "--version", "1", "--released-at", "2026-07-01"], 0);
    let answer = ctl_json(&world, &["--json", "query", "density", "country_code=COD", "year>=2023"]);
    let values: Vec<_> = (0..3)
        .map(|record| answer.pointer(&format!("/response/records/{record}/axes/value")).cloned())
        .collect();
    assert_eq!(values, [Some(json!("20230.5")), Some(json!("20240.5")), None], "{answer}");
    drop(daemon);
}

#[test]
fn try_reports_all_faults_of_documents_and_rejects_with_their_text() {
    let world = DaemonWorld::default();
    let sample = file(&world, "density.csv", "code,year,value\nA,1999,1\nB,1999,2\nB,2000,2\n");
    let documents = world.path("density.yaml").display().to_string();
    ctl(&world, &["new", "source", &sample, "-o", &documents], 0);
    let rows = "code,year,value\nA,1999,1\nB,1999,2\nB,2000,x\nA,1999,3\nC,2000\n";
    let payload = file(&world, "density.csv", rows);
    let tried = ctl(&world, &["--json", "try", &documents, &payload], 7);
    let tried: Value = serde_json::from_str(&tried).expect("JSON");
    assert_eq!(
        tried.pointer("/counts/rejected_by_rule"),
        Some(&json!({"readable": 1, "axis_type": 1, "duplicate_key": 2}))
    );
    let rejects = tried.get("rejects").and_then(Value::as_array).expect("a list");
    let texts: Vec<_> = rejects.iter().map(|reject| reject.get("raw").cloned().unwrap_or_default()).collect();
    assert_eq!(texts, [json!("A,1999,1"), json!("B,2000,x"), json!("A,1999,3"), json!("C,2000")]);

    let text = fs::read_to_string(&documents).expect("the documents exist");
    let faulty = text.replace("target_axis: code", "target_axis: codes").replace("\"0.01\"", "\"7\"");
    let faulty = file(&world, "faulty.yaml", faulty);
    let output = world.ctl(&["try", &faulty, &payload]);
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{lines}");
    assert_eq!(lines.lines().count(), 3, "two faults and the sum: {lines}");
}

#[tokio::test]
async fn try_and_rejects_list_the_same_records_with_repeated_keys() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let sample = file(&world, "keys.csv", "code,value\nA,1\nB,2\nC,3\n");
    let documents = world.path("keys.yaml").display().to_string();
    ctl(&world, &["new", "source", &sample, "-o", &documents], 0);
    ctl(&world, &["apply", "-f", &documents], 0);
    // A differs after it was repeated, B is repeated only, and C differs
    let rows = "code,value\nA,1\nB,2\nC,3\nA,1\nB,2\n,\nC,4\nA,5\nA,1\nD,6\n";
    let payload = file(&world, "keys.csv", rows);
    let tried = ctl(&world, &["--json", "try", &documents, &payload, "-n", "20"], 7);
    let tried: Value = serde_json::from_str(&tried).expect("JSON");
    ctl(&world, &["ingest", "run", "keys", &payload, "--version", "1", "--released-at", "2024-02-01"], 7);
    let runs = ctl_json(&world, &["--json", "ingest", "list", "keys"]);
    let run_id = runs.pointer("/items/0/run/run_id").and_then(Value::as_str).expect("a run");
    let listed = ctl_json(&world, &["--json", "rejects", run_id]);
    let rejects = |report: &Value, raw: &str| -> Vec<_> {
        let rejects = report.get("rejects").and_then(Value::as_array).expect("a list");
        let part = |reject: &Value| {
            [&reject["position"], &reject["rule"], &reject["reason"], &reject[raw]].map(Value::clone)
        };
        rejects.iter().map(part).collect()
    };
    assert_eq!(rejects(&tried, "raw"), rejects(&listed, "raw_text"));
    assert_eq!(tried.pointer("/counts/rejected_by_rule"), listed.get("rejected_by_rule"));
    assert_eq!(tried.pointer("/counts/rejected_by_rule/duplicate_key"), Some(&json!(6)), "{tried}");
    drop(daemon);
}

#[tokio::test]
async fn failed_run_names_the_kind_of_its_file() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let table = "code,value\nA,1\nB,2\n";
    let sample = file(&world, "kinds.csv", table);
    let documents = world.path("kinds.yaml").display().to_string();
    ctl(&world, &["new", "source", &sample, "-o", &documents], 0);
    ctl(&world, &["apply", "-f", &documents], 0);
    let utf_16: Vec<u8> = table.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, content, hint) in [
        ("kinds.csv.gz", b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), "`compression: gzip`"),
        ("kinds.xlsx", b"PK\x03\x04\x14\0\x06\0".to_vec(), "spreadsheets are not read"),
        ("kinds-utf-16.csv", utf_16, "`encoding: utf-16le`"),
    ] {
        let payload = file(&world, name, content);
        let run = ["ingest", "run", "kinds", &payload, "--version", "1", "--released-at", "2024-02-01"];
        for arguments in [&run[..], &["try", &documents, &payload]] {
            let output = world.ctl(arguments);
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(!output.status.success() && text.contains(hint), "{arguments:?}: {text}");
        }
    }
    drop(daemon);
}

#[test]
fn file_that_is_no_table_is_refused_with_the_reason() {
    let world = DaemonWorld::default();
    for (name, content) in [
        ("archive.zip", &b"PK\x03\x04rest"[..]),
        ("data.parquet", b"PAR1rest"),
        ("object.json", b"{\"a\": {\"b\": 1},\n\"c\": [1]}"),
        ("empty.csv", b""),
        ("only-header.csv", b"a,b\n"),
        ("cut.csv.gz", b"\x1f\x8b\x08\0"),
    ] {
        let payload = file(&world, name, content);
        let documents = world.path("new.yaml").display().to_string();
        ctl(&world, &["new", "source", &payload, "-o", &documents], 5);
        assert!(!world.path("new.yaml").exists(), "{name}");
    }
    for arguments in [["new", "source", "nope.csv"], ["try", "nope.yaml", "nope.csv"]] {
        let missing = world.ctl(&arguments);
        let error = String::from_utf8_lossy(&missing.stderr).into_owned();
        assert_eq!((missing.status.code(), error.matches("nope.").count()), (Some(5), 1), "{error}");
    }
}

#[test]
fn identity_without_other_axes_gets_no_workflow() {
    let world = DaemonWorld::default();
    let sample = file(&world, "codes.csv", "code\nA\nB\n");
    let documents = world.path("codes.yaml").display().to_string();
    ctl(&world, &["new", "source", &sample, "-o", &documents, "--tier", "primary"], 0);
    let text = fs::read_to_string(&documents).expect("the documents exist");
    assert!(!text.contains("workflow_id"), "{text}");
}

/// The rows of a Parquet file as JSON.
fn parquet_rows(file: &str) -> Vec<Value> {
    let file = fs::File::open(file).expect("the file exists");
    let reader = SerializedFileReader::new(file).expect("valid Parquet");
    let rows = reader.get_row_iter(None).expect("valid Parquet");
    let row = |row: Row| {
        let columns = row.get_column_iter().map(|(name, field)| {
            let value = match field {
                Field::Null => Value::Null,
                Field::Str(text) => json!(text),
                Field::Long(number) | Field::TimestampMicros(number) => json!(number),
                Field::Date(day) => json!(day),
                other => json!(other.to_string()),
            };
            (name.clone(), value)
        });
        Value::Object(columns.collect())
    };
    rows.map(|read| row(read.expect("valid Parquet"))).collect()
}

#[tokio::test]
async fn parquet_export_has_all_versions_with_exact_values_and_both_times() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let first = file(
        &world,
        "heights.csv",
        "city,day,height m,note\nBern,2024-01-01,10.25,\nBasel,2024-01-02,-3,a\n",
    );
    let second =
        file(&world, "later.csv", "city,day,height m,note\nBern,2024-01-01,10.5,\nBasel,2024-01-02,-3,a\n");
    let documents = world.path("heights.yaml").display().to_string();
    ctl(&world, &["new", "source", &first, "-o", &documents], 0);
    ctl(&world, &["apply", "-f", &documents], 0);
    for (path, version) in [(&first, "2024-02-01"), (&second, "2024-03-01")] {
        ctl(&world, &["ingest", "run", "heights", path, "--version", version, "--released-at", version], 0);
    }
    let exported = ctl(&world, &["source", "export", "heights"], 0);
    let lines: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let parquet = world.path("heights.parquet").display().to_string();
    let output = world.ctl(&["source", "export", "heights", "--format", "parquet"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(&parquet, output.stdout).expect("the file is written");
    let rows = parquet_rows(&parquet);
    // the corrected version has two periods of knowledge: without an end, and with the end that the second release brought
    assert_eq!((rows.len(), lines.len()), (4, 4), "{exported}");
    for (row, line) in rows.iter().zip(&lines) {
        let provenance = &line["provenance"];
        let axes = &line["record"]["axes"];
        assert_eq!((&row["city"], &row["note"]), (&axes["city"], &axes["note"]), "{row}");
        // the exact decimal, with the digits of the longest fraction
        let height: f64 = row["height"].as_str().expect("a decimal").parse().expect("a number");
        assert_eq!(height, axes["height"].as_str().expect("text").parse::<f64>().expect("a number"), "{row}");
        for name in ["record_id", "source_version", "raw_hash", "superseded_by", "ingestion_run_id"] {
            assert_eq!(row[name], provenance[name], "{name}: {row}");
        }
        assert_eq!(row["raw_offset"], provenance["raw"]["offset"]);
        assert_eq!(row["pruned"], json!((provenance["pruned"] == true).to_string()), "{row}");
        let micros = |at: &Value| {
            at.as_str().map(|at| at.parse::<jiff::Timestamp>().expect("a time").as_microsecond())
        };
        assert_eq!(row["valid_from"].as_i64(), micros(&provenance["valid_from"]), "{row}");
        assert_eq!(row["valid_until"].as_i64(), micros(&provenance["valid_until"]), "{row}");
        for name in ["valid_from", "valid_until", "known_from", "known_until"] {
            assert_eq!(row[name].as_i64(), micros(&line[name]), "{name}: {row}");
        }
    }
    ctl(&world, &["source", "export", "nowhere", "--format", "parquet"], 1);
    drop(daemon);
}

#[tokio::test]
async fn parquet_payload_is_read_with_exact_values() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let schema = "message records { required binary city (UTF8); required int32 day (DATE); \
                  optional fixed_len_byte_array(16) height (DECIMAL(20,2)); optional double share; }";
    let payload = world.path("heights.parquet");
    write_parquet(&payload, schema);
    let payload = payload.display().to_string();
    let documents = world.path("heights.yaml").display().to_string();
    let report = ctl_json(&world, &["--json", "new", "source", &payload, "-o", &documents]);
    assert_eq!(report.get("axes"), Some(&json!(["city", "day", "height", "share"])), "{report}");
    assert_eq!((&report["records"], &report["failure"]), (&json!(2), &Value::Null), "{report}");
    let tried = ctl_json(&world, &["--json", "try", &documents, &payload]);
    assert_eq!(tried.pointer("/counts/records"), Some(&json!(2)), "{tried}");
    ctl(&world, &["apply", "-f", &documents], 0);
    ctl(&world, &["source", "approve", "heights"], 0);
    ctl(&world, &["ingest", "run", "heights", &payload, "--version", "1", "--released-at", "2024-02-01"], 0);
    let answer = ctl_json(&world, &["--json", "query", "heights", "city=Bern"]);
    let record = answer.pointer("/response/records/0").expect("a record");
    let axes = json!({"city": "Bern", "day": "2024-01-01", "height": "-0.05", "share": "0.1"});
    assert_eq!(record["axes"], axes, "{answer}");
    let basel = ctl_json(&world, &["--json", "query", "heights", "city=Basel"]);
    let basel = &basel["response"]["records"][0]["axes"];
    assert_eq!(
        (&basel["height"], &basel["share"]),
        (&json!("123456789012345678.25"), &Value::Null),
        "{basel}"
    );
    // the lines are UTF-8, so a pipeline with another encoding must not read them
    let text = fs::read_to_string(&documents).expect("the documents exist");
    let latin = text.replace("    format: \"ndjson\"", "    encoding: \"latin-1\"\n    format: \"ndjson\"");
    assert_ne!(latin, text);
    let latin = file(&world, "latin.yaml", latin);
    ctl(&world, &["try", &latin, &payload], 5);
    ctl(&world, &["apply", "-f", &latin], 0);
    ctl(&world, &["ingest", "run", "heights", &payload, "--version", "2", "--released-at", "2024-03-01"], 5);
    ctl(&world, &["apply", "-f", &documents], 0);
    // the provenance leads to the row, and the files are verified against the archive
    ctl(&world, &["source", "verify", "heights"], 0);
    let broken = file(&world, "broken.parquet", b"PAR1 is not all of it");
    ctl(&world, &["ingest", "run", "heights", &broken, "--version", "2", "--released-at", "2024-03-01"], 5);
    ctl(&world, &["try", &documents, &broken], 5);
    ctl(&world, &["new", "source", &broken, "--id", "broken"], 5);
    drop(daemon);
}

/// Writes a file with a column that is left out.
fn write_spans(path: &Path, cities: &[ByteArray]) {
    let schema =
        "message records { required binary city (UTF8); required fixed_len_byte_array(12) span (INTERVAL); }";
    let schema = Arc::new(parse_message_type(schema).expect("a valid schema"));
    let target = fs::File::create(path).expect("the file is created");
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(target, schema, properties).expect("the file is written");
    let mut group = writer.next_row_group().expect("the file is written");
    let mut column = group.next_column().expect("the file is written").expect("a column");
    column.typed::<ByteArrayType>().write_batch(cities, None, None).expect("the file is written");
    column.close().expect("the file is written");
    let mut column = group.next_column().expect("the file is written").expect("a column");
    let spans = vec![FixedLenByteArray::from(vec![0; 12]); cities.len()];
    column.typed::<FixedLenByteArrayType>().write_batch(&spans, None, None).expect("the file is written");
    column.close().expect("the file is written");
    group.close().expect("the file is written");
    writer.close().expect("the file is written");
}

#[test]
fn new_source_names_omitted_columns_once_and_a_parquet_file_without_rows() {
    let world = DaemonWorld::default();
    let payload = world.path("spans.parquet");
    let documents = world.path("spans.yaml").display().to_string();
    for (cities, status, note) in
        [(&["Bern".into(), "Basel".into()][..], 0, "left out"), (&[], 5, "has no rows")]
    {
        write_spans(&payload, cities);
        let read = world.ctl(&["new", "source", &payload.display().to_string(), "--force", "-o", &documents]);
        let notes = String::from_utf8_lossy(&read.stderr).into_owned();
        assert_eq!((read.status.code(), notes.matches(note).count()), (Some(status), 1), "{notes}");
    }
}

/// The library takes the memory that a header names before it reads the data. What is read must not take more than 1 GiB.
#[test]
fn parquet_file_of_few_bytes_cannot_take_gigabytes_of_memory() {
    let world = DaemonWorld::default();
    for (name, compression) in [("snappy", Compression::SNAPPY), ("lz4", Compression::LZ4_RAW)] {
        let bomb = world.path(&format!("{name}.parquet"));
        write_bomb(&bomb, compression);
        let bytes = fs::metadata(&bomb).expect("it was written").len();
        assert!(bytes < 1024, "{bytes}");
        ctl(&world, &["new", "source", &bomb.display().to_string(), "--id", "bomb"], 5);
    }
    let largest_bytes = 1024 * getrusage(UsageWho::RUSAGE_CHILDREN).expect("it is known").max_rss();
    assert!(largest_bytes < 1200 << 20, "{largest_bytes}");
}

/// Writes a file with one page of 10 bytes, whose header names 2 GiB.
fn write_bomb(path: &Path, compression: Compression) {
    // in Thrift's compact protocol: a data page, its uncompressed and its compressed length, and a header of 1 plain value
    let page = [
        &[0x15, 0x00, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 20, 0x2c][..],
        &[0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0x00, 0x00],
        &[7; 10],
    ]
    .concat();
    let chunk = path.with_extension("chunk");
    fs::write(&chunk, &page).expect("the file is written");
    let schema = Arc::new(parse_message_type("message rows { required int32 n; }").expect("a valid schema"));
    let target = fs::File::create(path).expect("the file is created");
    let mut writer = SerializedFileWriter::new(target, schema, Arc::default()).expect("the file is written");
    let column = writer.schema_descr().column(0);
    let bytes = i64::try_from(page.len()).expect("a short page");
    let metadata = ColumnChunkMetaData::builder(column)
        .set_compression(compression)
        .set_encodings(vec![Encoding::PLAIN])
        .set_num_values(1)
        .set_total_compressed_size(bytes)
        .set_total_uncompressed_size(bytes)
        .set_data_page_offset(0)
        .build()
        .expect("valid metadata");
    let mut group = writer.next_row_group().expect("the file is written");
    let close = ColumnCloseResult {
        bytes_written: page.len() as u64,
        rows_written: 1,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    group.append_column(&fs::File::open(chunk).expect("it was written"), close).expect("the file is written");
    group.close().expect("the file is written");
    writer.close().expect("the file is written");
}

/// Writes two rows: Bern with -0.05, and Basel with a decimal of twenty digits and without a share.
fn write_parquet(path: &Path, schema: &str) {
    let schema = Arc::new(parse_message_type(schema).expect("a valid schema"));
    let target = fs::File::create(path).expect("the file is created");
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer =
        SerializedFileWriter::new(target, schema, Arc::new(properties)).expect("the file is written");
    let mut group = writer.next_row_group().expect("the file is written");
    let mut number = 0;
    while let Some(mut column) = group.next_column().expect("the file is written") {
        let decimal = |unscaled: i128| FixedLenByteArray::from(unscaled.to_be_bytes().to_vec());
        let written = match number {
            0 => column.typed::<ByteArrayType>().write_batch(&["Bern".into(), "Basel".into()], None, None),
            1 => column.typed::<Int32Type>().write_batch(&[19_723, 19_724], None, None),
            2 => {
                let values = [decimal(-5), decimal(12_345_678_901_234_567_825)];
                column.typed::<FixedLenByteArrayType>().write_batch(&values, Some(&[1, 1]), None)
            }
            _ => column.typed::<DoubleType>().write_batch(&[0.1], Some(&[1, 0]), None),
        };
        written.expect("the file is written");
        column.close().expect("the file is written");
        number += 1;
    }
    group.close().expect("the file is written");
    writer.close().expect("the file is written");
}
