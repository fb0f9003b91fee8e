//! Versions that are read again, undone, rejected and withdrawn: answers of the daemon, and of a plain model.

use histories::{AnswerRecord, DAYS, HistoryStep, SourceHistory, VersionReading};
use oracled_api::client::DaemonClient;
use oracled_tests::ground::{
    approve, example_documents, ingest, query_all, register_all, runs_path, started_run, wait_for_run,
};
use oracled_tests::{DaemonProcess, DaemonWorld, at, call, document, post};
use serde_json::{Value, json};
use std::collections::BTreeSet;

// the generator and the model are shared with the tests of the store
#[path = "../../store/src/ground/testing/histories.rs"]
mod histories;

/// Registers and approves a source of numbered records whose `from` and `until` are their interval of validity.
async fn register_source(control: &mut DaemonClient, source: &str, snapshot: bool) {
    let (ontology, mut registration, mut pipeline) = example_documents(source);
    registration["snapshot"] = json!(snapshot);
    pipeline["normalization"]["valid_time"] =
        json!({"from_field": "from", "until_field": "until", "formats": ["%Y-%m-%d"]});
    register_all(control, &ontology, &registration, &pipeline).await;
    approve(control, source).await;
}

fn date(day: i64) -> String {
    format!("2020-01-{:02}", day + 1)
}

/// The day of a time in an answer.
fn day_of(time: &Value) -> Option<i64> {
    let text = time.as_str()?;
    text.get(8..10).and_then(|day| day.parse::<i64>().ok()).map(|day| day - 1)
}

/// Ingests a payload, for a known version in place of the payload that was read before. Returns the completed run.
async fn read_version(
    control: &mut DaemonClient,
    source: &str,
    version: &str,
    day: i64,
    lines: &str,
) -> Value {
    let path = format!("{}&replace=true", runs_path(source, version, &date(day)));
    let answer = call(control, hyper::Method::POST, &path, Some(lines.to_owned().into())).await;
    let run = wait_for_run(control, &started_run(&answer)).await;
    assert_eq!(run["state"], "completed", "{run}");
    run
}

async fn undo(control: &mut DaemonClient, run_id: &str) -> Value {
    let answer = post(control, &format!("/v1/runs/{run_id}/undo"), &json!({"reason": "a test"})).await;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    at(&answer, "/run")
}

/// The values in force: number, size, and the version that did not confirm it.
async fn values(routes: &mut DaemonClient, source: &str) -> Vec<(i64, String, Value)> {
    let records = query_all(routes, source, &json!({"axes_requested": ["number", "size"]})).await;
    let value = |(record, _): (Value, Value)| {
        let axis = |axis: &str| record["axes"][axis].as_str().unwrap_or_default().to_owned();
        (axis("number").parse().expect("a number"), axis("size"), record["unconfirmed_by"].clone())
    };
    records.into_iter().map(value).collect()
}

/// The payload of a reading. `step` makes it differ from other payloads with the same records.
fn payload(reading: &VersionReading, step: usize) -> String {
    let record = |record: &histories::ReadRecord| {
        let size = record.value.map_or_else(|| json!("none"), |value| json!(value));
        let mut line = json!({"number": record.id, "size": size, "step": step});
        line["from"] = json!(record.from.map(date));
        line["until"] = json!(record.until.map(date));
        format!("{line}\n")
    };
    let mut lines: String = reading.records.iter().map(record).collect();
    if reading.has_unidentified {
        lines.push_str("{\"size\": 1}\n");
    }
    lines
}

/// A record of an answer. The version that stated it last is not part of it.
fn answer_record(record: &Value) -> AnswerRecord {
    let axis =
        |axis: &str| record["axes"][axis].as_str().and_then(|text| text.parse().ok()).expect("a number");
    AnswerRecord {
        id: axis("number"),
        value: axis("size"),
        from: day_of(&record["valid_from"]).expect("a time"),
        until: day_of(&record["valid_until"]),
        seen: 0,
        unconfirmed: record["unconfirmed_by"].as_str().map(|version| version.parse().expect("a number")),
    }
}

/// Compares the daemon's answers with those of the model. Returns the number of questions.
async fn compare_history(daemon: &DaemonProcess<'_>, seed: u64) -> usize {
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    let history = SourceHistory::random(&mut fastrand::Rng::with_seed(seed));
    let source = format!("history-{seed}");
    register_source(control, &source, history.snapshot).await;
    let mut runs: Vec<Value> = Vec::new();
    for (step, read) in history.steps.iter().enumerate() {
        let run = match read {
            HistoryStep::Read(reading) => {
                let (version, lines) = (reading.version.to_string(), payload(reading, step));
                read_version(control, &source, &version, reading.released, &lines).await
            }
            HistoryStep::Undo(undone) => {
                undo(control, runs[*undone]["run_id"].as_str().expect("an id")).await
            }
        };
        runs.push(run);
    }
    let mut questions = 0;
    for known in 1..=history.steps.len() {
        for day in 0..=DAYS + 5 {
            let request = json!({"axes_requested": ["number", "size"], "known_at": runs[known - 1]["ended_at"],
                "point_in_time": format!("{}T00:00:00Z", date(day))});
            let answer = post(routes, "/v1/query", &json!({"oracle_id": source, "request": request})).await;
            assert_eq!(answer.status, 200, "{}", document(&answer));
            let records = at(&answer, "/response/records");
            let found: Vec<_> = records.as_array().expect("an array").iter().map(answer_record).collect();
            let mut expected = history.answer(known, day);
            let seen: BTreeSet<_> = expected.iter().map(|record| record.seen.to_string()).collect();
            expected.iter_mut().for_each(|record| record.seen = 0);
            assert_eq!(found, expected, "seed {seed}, day {day}, {known} steps of {history:#?}");
            let data_version = at(&answer, "/response/query_metadata/data_version");
            let versions: BTreeSet<_> =
                data_version.as_str().expect("a string").split(", ").map(str::to_owned).collect();
            assert!(found.is_empty() || versions == seen, "seed {seed}, day {day}: {versions:?}, {seen:?}");
            questions += 1;
        }
    }
    questions
}

async fn compare_histories(seeds: std::ops::Range<u64>) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (count, mut questions) = (seeds.end - seeds.start, 0);
    for seed in seeds {
        questions += compare_history(&daemon, seed).await;
    }
    println!("{count} histories, {questions} questions, 0 differences");
}

#[tokio::test]
async fn daemon_agrees_with_model_of_random_histories() {
    compare_histories(0..6).await;
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn daemon_agrees_with_model_of_many_histories() {
    compare_histories(0..300).await;
}

#[tokio::test]
async fn rejected_record_stays_removed_after_a_version_is_read_again() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    for (source, snapshot) in [("removed", true), ("removed-too", false)] {
        register_source(control, source, snapshot).await;
        let read = "{\"number\": 1, \"size\": 1}\n{\"number\": 2, \"size\": 2}\n";
        read_version(control, source, "v1", 1, read).await;
        let gone = read_version(control, source, "v1", 1, "{\"number\": 1, \"size\": 1}\n").await;
        let only_first = [(1, "1".to_owned(), Value::Null)];
        assert_eq!(values(routes, source).await, only_first);
        let rejected = "{\"number\": 1, \"size\": 1}\n{\"number\": 2, \"size\": \"bad\"}\n";
        let run = read_version(control, source, "v1", 1, rejected).await;
        assert_eq!((&run["counts"]["rejected"], &run["counts"]["unidentified"]), (&json!(1), &json!(0)));
        assert_eq!(values(routes, source).await, only_first);
        // the first record is valid in place of the same one of the replaced run
        assert_eq!(run["counts"]["changes"]["became_valid"], 1, "{run}");
        // a replaced run cannot be undone
        let run_id = gone["run_id"].as_str().expect("an id");
        let answer = post(control, &format!("/v1/runs/{run_id}/undo"), &json!({"reason": "a test"})).await;
        assert_eq!(answer.status, 409, "{}", document(&answer));
    }
}

#[tokio::test]
async fn reject_without_identity_withdraws_nothing_from_a_version_that_is_read_again() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    for (source, snapshot) in [("unidentified", true), ("unidentified-too", false)] {
        register_source(control, source, snapshot).await;
        let read = "{\"number\": 1, \"size\": 1}\n{\"number\": 2, \"size\": 2}\n";
        read_version(control, source, "v1", 1, read).await;
        let again =
            read_version(control, source, "v1", 1, "{\"number\": 1, \"size\": 1}\n{\"size\": 2}\n").await;
        assert_eq!(
            (&again["counts"]["unidentified"], &again["counts"]["effect"]["withdrawn"]),
            (&json!(1), &json!(0))
        );
        let kept = [(1, "1".to_owned(), Value::Null), (2, "2".to_owned(), json!("v1"))];
        assert_eq!(values(routes, source).await, kept);
        let run_id = again["run_id"].as_str().expect("an id");
        let answer = world.ctl(&["--json", "query", source, "number=2"]);
        let answer: Value = serde_json::from_slice(&answer.stdout).expect("the output is JSON");
        let record_id = answer["response"]["records"][0]["record_id"].as_str().expect("an id");
        let shown = world.ctl(&["provenance", record_id]);
        let shown = String::from_utf8(shown.stdout).expect("valid UTF-8");
        assert!(shown.contains("\nunconfirmed "), "{shown}");
        let both = world.ctl(&["--json", "query", source, "--csv"]);
        assert_eq!(both.status.code(), Some(2), "{both:?}");
        let history = world.ctl(&["--json", "query", source, "number=2", "--axes", "size", "--history"]);
        let history: Value = serde_json::from_slice(&history.stdout).expect("the output is JSON");
        assert_eq!(
            (&history["values"][0]["value"], &history["values"][0]["record_id"]),
            (&json!("2"), &json!(record_id))
        );
        let shown = world.ctl(&["ingest", "show", run_id]);
        let shown = String::from_utf8(shown.stdout).expect("valid UTF-8");
        assert!(shown.contains("\nnote "), "{shown}");
        if snapshot {
            let answer = ingest(
                control,
                source,
                "v2",
                "2020-03-01",
                "{\"number\": 1, \"size\": 1, \"step\": 1}\n{\"size\": 2}\n",
            )
            .await;
            wait_for_run(control, &started_run(&answer)).await;
            let kept = [(1, "1".to_owned(), Value::Null), (2, "2".to_owned(), json!("v2"))];
            assert_eq!(values(routes, source).await, kept);
        }
    }
}

#[tokio::test]
async fn replacement_that_brings_back_a_pruned_value_is_held() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    let (ontology, mut registration, mut pipeline) = example_documents("pruned");
    registration["snapshot"] = json!(false);
    pipeline["pipeline"]["storage"]["retention_days"] = json!(30);
    register_all(control, &ontology, &registration, &pipeline).await;
    approve(control, "pruned").await;
    let both =
        |size: i64| format!("{{\"number\": 1, \"size\": {size}}}\n{{\"number\": 2, \"size\": {size}}}\n");
    read_version(control, "pruned", "v1", 1, &both(1)).await;
    read_version(control, "pruned", "v2", 11, &both(2)).await;
    let pruned = post(control, "/v1/sources/pruned/prune", &json!({"before": "2020-02-01"})).await;
    assert_eq!(at(&pruned, "/versions"), 2, "{}", document(&pruned));
    let in_force = [(1, "2".to_owned(), Value::Null), (2, "2".to_owned(), Value::Null)];
    let path = format!("{}&replace=true", runs_path("pruned", "v2", &date(11)));
    let lines = "{\"number\": 1, \"size\": 5}\n";
    let answer = call(control, hyper::Method::POST, &path, Some(lines.into())).await;
    let run = wait_for_run(control, &started_run(&answer)).await;
    assert_eq!(
        (&run["state"], &run["breaches"][0]["gate"]),
        (&json!("held"), &json!("pruned_content")),
        "{run}"
    );
    assert_eq!(run["breaches"][0]["records"], 1);
    assert_eq!(values(routes, "pruned").await, in_force);

    // an approval accepts it, and the answer reports the record
    let approval = format!("/v1/runs/{}/approve", run["run_id"].as_str().expect("an id"));
    post(control, &approval, &json!({"reason": "it never existed"})).await;
    wait_for_run(control, run["run_id"].as_str().expect("an id")).await;
    assert_eq!(values(routes, "pruned").await, [(1, "5".to_owned(), Value::Null)]);

    // the pruned value is stated again
    read_version(control, "pruned", "v2", 11, &both(1)).await;
    let again = [(1, "1".to_owned(), Value::Null), (2, "1".to_owned(), Value::Null)];
    assert_eq!(values(routes, "pruned").await, again);
}
