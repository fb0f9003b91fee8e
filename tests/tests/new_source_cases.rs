//! Documents of `oraclectl new source` in the daemon: files as they are published are ingested without an edit.

use oracled_tests::DaemonWorld;
use serde_json::{Value, json};
use std::fs;

fn ctl(world: &DaemonWorld, arguments: &[&str]) -> String {
    let output = world.ctl(arguments);
    let (out, fault) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {out}{fault}");
    out.into_owned()
}

/// Writes the file of a case. Returns its path, and the path of its documents.
fn write_case(world: &DaemonWorld, name: &str, content: &[u8]) -> (String, String) {
    let payload = world.path(name);
    fs::write(&payload, content).expect("the file is written");
    (payload.display().to_string(), world.path(&format!("{name}.yaml")).display().to_string())
}

#[tokio::test]
async fn new_documents_are_registered_and_ingested_without_an_edit() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let group: serde_json::Map<_, _> = (0..300).map(|number| (format!("k{number}"), json!(number))).collect();
    let group = format!("{}\n{}\n", json!({"id": "A", "values": group}), json!({"id": "B", "values": group}));
    let affixes = "name;eur;usd;share;weight;account;flag;at\nA;12,00 €;$12.50;12.5 %;12 kg;(12.50);TRUE;2026-11-26 10:00\n";
    let short = "Date,Average,Days\n1958-03,315.71,-9.99,-0.99\n1958-04,317.45,-9.99,-0.99\n";
    for (name, content, filter, axis, value) in [
        ("affixes.csv", affixes, "name=A", "account", json!("-12.5")),
        (
            "comments.csv",
            "# a, b\n# c\nyear,month,ppm\n2024,1,422.8\n2024,2,424.5\n",
            "month=2",
            "ppm",
            json!("424.5"),
        ),
        ("short-header.csv", short, "date=1958-04", "average", json!("317.45")),
        (
            "years.csv",
            "Tag;Betrag\n31.12.24;-12,50\n02.01.25;100,00\n",
            "tag=2024-12-31",
            "betrag",
            json!("-12.5"),
        ),
        ("group.ndjson", &group, "id=B", "values.k299", json!("299")),
    ] {
        let (payload, documents) = write_case(&world, name, content.as_bytes());
        let report =
            ctl(&world, &["--json", "new", "source", &payload, "-o", &documents, "--tier", "secondary"]);
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let id = report["oracle_id"].as_str().expect("an id");
        ctl(&world, &["apply", "-f", &documents]);
        ctl(&world, &["source", "approve", id]);
        ctl(&world, &["ingest", "run", id, &payload, "--version", "1", "--released-at", "2026-11-01"]);
        let answer = ctl(&world, &["--json", "query", id, filter]);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["response"]["records"][0]["axes"][axis], value, "{name}: {answer}");
    }
    drop(daemon);
}

#[tokio::test]
async fn smaller_older_vintage_is_not_held_by_new_documents() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let vintage = |rows: u32| {
        (1..=rows).fold("code,value\n".to_owned(), |text, row| text + &format!("c{row},{row}.5\n"))
    };
    let (newer, documents) = write_case(&world, "vintages.csv", vintage(100).as_bytes());
    let (older, _) = write_case(&world, "vintages-2017.csv", vintage(30).as_bytes());
    ctl(&world, &["new", "source", &newer, "-o", &documents]);
    ctl(&world, &["apply", "-f", &documents]);
    for (payload, version) in [(&newer, "2026-01-01"), (&older, "2017-01-01")] {
        ctl(&world, &["ingest", "run", "vintages", payload, "--version", version, "--released-at", version]);
    }
    drop(daemon);
}
