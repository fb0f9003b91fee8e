//! `oraclectl new source` and `oraclectl try`: from a file of one's own to answers.

use oracled_tests::DaemonWorld;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::process::Output;

/// The workflow that verifies the values of the new source.
const WORKFLOW: &str = "workflow_id: air
domain: The quality of the air in a city
ontology: {ontology_id: air-quality, version: \"1\"}
axes: [pm10]
oracles: [air-quality]
oracle_latency: {on_timeout: FAIL_CLOSED_BLOCK}
authority_latency: {authority_latency_budget_ms: 3000, enforcement_mode: INLINE, on_timeout_behavior: ESCALATE}
";

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
    let report = ctl_json(&world, &["--json", "new", "source", &payload, "-o", &documents]);
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

    // the only edit: the trust in the publisher
    let text = fs::read_to_string(&documents).expect("the documents exist");
    let text = text.replace("oracle_tier: unverified", "oracle_tier: secondary");
    file(&world, "air-quality.yaml", text);
    let workflow = file(&world, "workflow.yaml", WORKFLOW);
    ctl(&world, &["apply", "-f", &documents, "-f", &workflow], 0);
    ctl(&world, &["source", "approve", "air-quality"], 0);
    ctl(
        &world,
        &["ingest", "run", "air-quality", &payload, "--version", "1", "--released-at", "2024-02-01"],
        0,
    );
    let answer = ctl_json(&world, &["--json", "query", "air-quality", "city=Genève", "date=2024-01-06"]);
    assert_eq!(answer.pointer("/response/records/0/axes/pm10"), Some(&json!("13.6")), "{answer}");
    let verified =
        ctl_json(&world, &["--json", "verify", "air", "city=Zürich", "date=2024-01-02", "--axes=pm10"]);
    let verified = ["kind", "value"].map(|name| verified.pointer(&format!("/axes/pm10/{name}")).cloned());
    assert_eq!(verified, [Some(json!("authoritative")), Some(json!("10.2"))]);
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
    assert_eq!(texts, [json!("B,2000,x"), json!("A,1999,3"), json!("C,2000")]);

    let text = fs::read_to_string(&documents).expect("the documents exist");
    let faulty = text.replace("target_axis: code", "target_axis: codes").replace("\"0.01\"", "\"7\"");
    let faulty = file(&world, "faulty.yaml", faulty);
    let output = world.ctl(&["try", &faulty, &payload]);
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{lines}");
    assert_eq!(lines.lines().count(), 3, "two faults and the sum: {lines}");
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
}
