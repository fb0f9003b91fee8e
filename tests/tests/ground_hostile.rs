//! Hostile payloads, definitions and clients: each is rejected with its cause, in bounded memory, and leaves no
//! files.

use crate::wording::without_numbers;
use bytes::Bytes;
use domain_ground::rejection::RecordRule;
use oracled_api::client::DaemonClient;
use oracled_store::Store;
use oracled_tests::disk::{self, SizeLimitedDisk, TestDisk, TmpfsDisk};
use oracled_tests::ground::{
    approve, example_documents, files, ingest, ingest_pieces, named, open_store, put_document, query_all,
    register, register_all, runs_path, started_run, wait_for_run,
};
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, at, document, eventually, get, post, problem, read_whole_log,
    submission,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const SOURCE: &str = "world-bank-population";
const HEADER: &str = "Country Name,Country Code,Year,Value\n";
const MIB: u64 = 1 << 20;
/// Largest growth of a debug daemon's memory during a run: the memory for sorting, and a margin.
const GROWTH_MAX_BYTES: u64 = 112 * MIB;

/// Registers and approves both sources.
async fn register_sources(daemon: &DaemonProcess<'_>) -> DaemonClient {
    let mut control = daemon.control().await;
    register(&mut control, SOURCE).await;
    let (ontology, source, definition) = example_documents("samples");
    register_all(&mut control, &ontology, &source, &definition).await;
    approve(&mut control, SOURCE).await;
    approve(&mut control, "samples").await;
    control
}

/// Ingests `payload` as a version of `pipeline`, and returns the ended run.
async fn run(control: &mut DaemonClient, pipeline: &str, version: &str, payload: impl Into<Bytes>) -> Value {
    let run_id = started_run(&ingest(control, pipeline, version, "2020-01-01", payload).await);
    wait_for_run(control, &run_id).await
}

/// All rejects of a run, read in pages of 1,000.
fn rejects(store: &Store, run: &Value) -> Vec<domain_ground::rejection::RejectedRecord> {
    let run_id = run["run_id"].as_str().expect("an id").parse().expect("a string");
    let (run, _) = store.run(&run_id).expect("the read succeeds").expect("the run exists");
    let mut all: Vec<domain_ground::rejection::RejectedRecord> = Vec::new();
    loop {
        let after = all.last().map(|last| last.position);
        let page = store.rejects(&run, after, 1000).expect("the read succeeds");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Result of `work`, and the peak growth of the daemon's memory during it, in bytes.
async fn memory_growth<T>(daemon: &DaemonProcess<'_>, work: impl Future<Output = T>) -> (T, u64) {
    let before = daemon.resident_bytes().expect("the system reports the value");
    let done = work.await;
    let most = daemon.most_resident_bytes().expect("the system reports the value");
    (done, most.saturating_sub(before))
}

/// Stops the daemon and checks that the store names every file of ground truth.
fn stop_and_check_files(world: &DaemonWorld, daemon: DaemonProcess<'_>) -> Store {
    assert!(daemon.stop().success(), "{}", world.service_log());
    let (_, store) = open_store(&world.state());
    assert_eq!(files(&world.state()).into_keys().collect::<Vec<_>>(), named(&store));
    store
}

async fn a_long_payload(size_bytes: u64, row_bytes: usize) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let filler = "x".repeat(row_bytes - 60);
    let head = "{\"number\": 0, \"name\": \"begin\"}\n".to_owned();
    let line = |number: u64| {
        format!("{{\"number\": {number:12}, \"size\": {number:12}, \"filler\": \"{filler}\"}}\n")
    };
    let count = (size_bytes - head.len() as u64) / line(1).len() as u64;
    let size = head.len() as u64 + count * line(1).len() as u64;
    let pieces =
        std::iter::once(head.into_bytes()).chain((1..=count).map(|number| line(number).into_bytes()));
    let began = Instant::now();
    let path = runs_path("samples", "1", "2020-01-01");
    let (run, growth) = memory_growth(&daemon, async {
        let run_id = started_run(&ingest_pieces(&world, &path, size, pieces).await);
        wait_for_run(control, &run_id).await
    })
    .await;
    let counts = &run["counts"];
    assert_eq!((&run["state"], &counts["records"]), (&json!("completed"), &json!(count + 1)), "{run}");
    println!("{} MiB, {count} records: {:?}, grew by {} MiB", size / MIB, began.elapsed(), growth / MIB);
    assert!(growth < GROWTH_MAX_BYTES, "{} MiB", growth / MIB);
    stop_and_check_files(&world, daemon);
}

#[tokio::test]
async fn payload_of_64_mib_is_read_in_bounded_memory() {
    a_long_payload(64 * MIB, 16 * 1024).await;
}

#[tokio::test]
#[ignore = "a payload of 1 GiB takes minutes; `just torture`"]
async fn payload_of_1_gib_is_read_in_bounded_memory() {
    a_long_payload(1024 * MIB, 1024).await;
}

#[tokio::test]
async fn invalid_records_are_rejected_one_by_one_with_their_causes() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let nested =
        |depth: usize| format!("{{\"number\": 1, \"name\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    let digits = "7".repeat(400);
    let lines: Vec<(Vec<u8>, RecordRule, &str)> = vec![
        (nested(200).into(), RecordRule::Readable, "more than 64 levels deep"),
        (nested(200_000).into(), RecordRule::Readable, "more than 64 levels deep"),
        (b"{\"number\": 2, \"name\": \"\xff\xfe\"}".into(), RecordRule::Readable, "not UTF-8"),
        (b"{\"number\": 2, \"name\": \"\\ud800\"}".into(), RecordRule::Readable, "surrogate"),
        (b"{\"number\": 2, \"number\": 3}".into(), RecordRule::Readable, "occurs twice"),
        (format!("{{\"number\": 4, \"size\": {digits}}}").into(), RecordRule::AxisType, "at most"),
        (format!("{{\"number\": 4, \"size\": 0.{digits}}}").into(), RecordRule::AxisType, "at most"),
        (b"{\"number\": 4, \"size\": 1e400}".into(), RecordRule::AxisType, "10^400"),
        (b"{\"number\": 4, \"size\": 1e99999999999999999999}".into(), RecordRule::AxisType, ""),
        (b"{\"number\": NaN}".into(), RecordRule::Readable, "not JSON"),
        (b"[]".into(), RecordRule::Readable, "an object"),
        (b"{\"number\": 5".into(), RecordRule::Readable, "not JSON"),
        (
            format!("{{\"number\": 6, \"name\": \"{}\"}}", "n".repeat(600_000)).into(),
            RecordRule::AxisType,
            "at most",
        ),
    ];
    let mut payload = b"{\"number\": 0, \"size\": 1}\n".to_vec();
    for (line, ..) in &lines {
        payload.extend_from_slice(line);
        payload.push(b'\n');
    }
    let run = run(control, "samples", "1", payload).await;
    assert_eq!((&run["state"], &run["counts"]["records"]), (&json!("completed"), &json!(1)), "{run}");
    let store = stop_and_check_files(&world, daemon);
    let rejects = rejects(&store, &run);
    assert_eq!(rejects.len(), lines.len());
    for (reject, (line, rule, message)) in rejects.iter().zip(&lines) {
        let begin = String::from_utf8_lossy(&line[..line.len().min(60)]);
        let rejection = &reject.rejection;
        assert!(rejection.rule == *rule && rejection.reason.contains(message), "{begin}: {rejection:?}");
        assert_eq!(
            (reject.len as usize, reject.raw_hash.clone()),
            (line.len(), domain_base::digest::Sha256Hex::of(line))
        );
    }
}

#[tokio::test]
async fn unreadable_payload_fails_with_its_position_and_changes_nothing() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let first = run(control, SOURCE, "0", format!("{HEADER}Aruba,ABW,1960,54608\n")).await;
    assert_eq!(first["state"], "completed");
    let columns = (0..1_000_000).map(|number| format!("c{number}")).collect::<Vec<_>>().join(",");
    let many = (0..5000).map(|number| format!("c{number}")).collect::<Vec<_>>().join(",");
    let long = format!("{HEADER}{},ABW,1960,1\n", "a".repeat(2 << 20));
    let cases: [(&str, Vec<u8>, &str); 8] = [
        (
            SOURCE,
            format!("{columns}\n1,2\n").into(),
            "the record or value at byte 0 of the payload is longer than 1048576 bytes",
        ),
        (SOURCE, format!("{many}\n1,2\n").into(), "it has 5000 columns (limit 4096)"),
        (SOURCE, b"Country \xffName,Country Code,Year,Value\nA,ABW,1960,1\n".into(), "not UTF-8"),
        (SOURCE, long.into(), "the record or value at byte 37 of the payload is longer than 1048576 bytes"),
        (SOURCE, format!("{HEADER}\"Aruba,ABW,1960,1\n").into(), "is not closed"),
        (SOURCE, Vec::new(), "it is missing"),
        (SOURCE, HEADER.into(), "the payload holds no records"),
        (
            "samples",
            format!("{{\"number\": 1, \"name\": \"{}\"}}\n", "n".repeat(2 << 20)).into(),
            "longer than 1048576",
        ),
    ];
    for (number, (pipeline, payload, message)) in cases.into_iter().enumerate() {
        let run = run(control, pipeline, &format!("v{number}"), payload).await;
        let cause = run["cause"].as_str().unwrap_or_default();
        assert!(run["state"] == "failed" && cause.contains(message), "{run}");
    }
    // a row with a million fields is a single rejected record
    let wide = format!("{HEADER}Aruba{}\nAruba,ABW,1961,55811\n", ",".repeat(999_999));
    let taken = run(control, SOURCE, "wide", wide).await;
    assert_eq!(
        (&taken["state"], &taken["counts"]["rejected_by_rule"]),
        (&json!("completed"), &json!({"readable": 1}))
    );
    let store = stop_and_check_files(&world, daemon);
    assert!(rejects(&store, &taken)[0].rejection.reason.contains("1000000"));
}

#[tokio::test]
async fn document_nested_too_deep_around_its_records_fails_with_its_position() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    register(control, "iso-4217").await;
    let lek = r#"[{"alpha_3": "ALL", "name": "Lek", "numeric": "008"}]"#;
    for (number, depth) in [100, 1_000_000].into_iter().enumerate() {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        for payload in [
            format!("{{\"before\": {open}{close}, \"4217\": {lek}}}"),
            format!("{{\"4217\": {lek}, \"behind\": {open}{close}}}"),
        ] {
            let version = format!("{number}-{}", payload.len() % 2);
            let run = run(control, "iso-4217", &version, payload).await;
            assert_eq!(run["state"], "failed", "{run}");
            insta::assert_snapshot!("cause_of_deep_values", without_numbers(&run["cause"].to_string()));
        }
        let answer = post(control, "/v1/sources/iso-4217/review", &json!({})).await;
        problem(&answer, 400, "invalid_document");
        let body = Bytes::from(format!("{{\"before\": {open}{close}}}"));
        let answer = control
            .call(hyper::Method::PUT, "/v1/documents/source/iso-4217", Some(body))
            .await
            .expect("the server answers");
        assert!((400..500).contains(&answer.status.as_u16()), "{answer:?}");
    }
    stop_and_check_files(&world, daemon);
}

#[tokio::test]
async fn schema_with_a_remote_reference_is_refused_without_a_fetch() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the system reports the value");
    let file = world.path("schema.json");
    std::fs::write(&file, "{}").expect("the write succeeds");
    for schema in [
        json!({"$ref": format!("http://{address}/schema.json")}),
        json!({"$schema": format!("http://{address}/dialect"), "type": "object"}),
        json!({"$id": format!("http://{address}/"), "$ref": "schema.json"}),
        json!({"$id": format!("http://{address}/"), "properties": {"a": {"$dynamicRef": "other#x"}}}),
        json!({"$ref": format!("file://{}", file.display())}),
        json!({"properties": {"a": {"$ref": "#"}}}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
    ] {
        let (_, _, mut definition) = example_documents("samples");
        definition["schemas"] = json!({"mine": schema});
        definition["pipeline"]["validation"]["schema_id"] = json!("mine");
        let answer = put_document(control, "/v1/documents/pipeline/samples", &definition).await;
        let detail = problem(&answer, 400, "invalid_document")["detail"].to_string();
        assert!(detail.contains("schema"), "{schema}: {detail}");
    }
    let seen = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(seen.is_err(), "no connection was made");
    stop_and_check_files(&world, daemon);
}

#[tokio::test]
async fn expensive_patterns_are_refused_or_matched_in_linear_time() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let with = |place: &str, pattern: &str| {
        let (_, _, mut definition) = example_documents("samples");
        if place == "schema" {
            definition["schemas"] = json!({"mine": {"properties": {"name": {"pattern": pattern}}}});
            definition["pipeline"]["validation"]["schema_id"] = json!("mine");
        } else {
            definition["normalization"]["post_normalization_checks"] = json!([{"check_type": "regex", "axis": "name", "constraint": pattern, "on_failure": "reject"}]);
        }
        definition
    };
    let routes = &mut daemon.routes().await;
    let build_query = |pattern: &str| {
        let filter = json!({"axis": "name", "operator": "regex", "value": pattern});
        json!({"oracle_id": "samples", "request": {"axes_requested": ["name"], "filters": [filter]}})
    };
    let began = Instant::now();
    for bomb in
        ["((a{1000}){1000}){1000}", "(\\w{500}){500}", &"(".repeat(900), "(?=a)b", "(a)\\1", "[", "a{,"]
    {
        for place in ["schema", "check"] {
            let answer = put_document(control, "/v1/documents/pipeline/samples", &with(place, bomb)).await;
            if bomb != "a{," {
                problem(&answer, 400, "invalid_document");
            }
        }
        if bomb != "a{," {
            problem(&post(routes, "/v1/query", &build_query(bomb)).await, 400, "invalid_query");
        }
    }
    let name = "a".repeat(60_000);
    let payload = format!("{{\"number\": 1, \"name\": \"{name}!\"}}\n{{\"number\": 2, \"name\": \"b\"}}\n");
    for (number, place) in ["schema", "check"].into_iter().enumerate() {
        let slow = if place == "schema" { "^((a+)+)+$|^b$" } else { "((a+)+)+|b" };
        assert_eq!(
            put_document(control, "/v1/documents/pipeline/samples", &with(place, slow)).await.status,
            200
        );
        let run = run(control, "samples", &format!("v{number}"), payload.clone()).await;
        assert_eq!((&run["counts"]["records"], &run["counts"]["rejected"]), (&json!(1), &json!(1)), "{run}");
    }
    let (_, _, plain) = example_documents("samples");
    assert_eq!(put_document(control, "/v1/documents/pipeline/samples", &plain).await.status, 200);
    let run = run(control, "samples", "plain", payload).await;
    assert_eq!(run["counts"]["records"], 2, "{run}");
    let answer = post(routes, "/v1/query", &build_query("^((a+)+)+$")).await;
    assert_eq!((answer.status.as_u16(), at(&answer, "/response/records")), (200, json!([])));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    stop_and_check_files(&world, daemon);
}

async fn many_rejects(count: usize) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let first = "{\"number\": 0}\n".to_owned();
    let line = |number: usize| format!("{{\"number\": \"no number {number:9}\"}}\n");
    let size = (first.len() + count * line(0).len()) as u64;
    let lines = std::iter::once(first).chain((0..count).map(line));
    let path = runs_path("samples", "1", "2020-01-01");
    let (run, growth) = memory_growth(&daemon, async {
        let pieces = lines.map(String::into_bytes);
        let run_id = started_run(&ingest_pieces(&world, &path, size, pieces).await);
        wait_for_run(control, &run_id).await
    })
    .await;
    assert_eq!((&run["state"], &run["counts"]["rejected"]), (&json!("completed"), &json!(count)), "{run}");
    println!("{count} rejects, grew by {} MiB", growth / MIB);
    assert!(growth < GROWTH_MAX_BYTES, "{} MiB", growth / MIB);
    let store = stop_and_check_files(&world, daemon);
    let rejects = rejects(&store, &run);
    let positions = rejects.iter().map(|reject| reject.position);
    assert!(positions.eq(1..=count as u64), "every reject is listed in order");
}

#[tokio::test]
async fn twenty_thousand_rejects_use_bounded_memory_and_are_paged() {
    many_rejects(20_000).await;
}

#[tokio::test]
#[ignore = "a million records take minutes; `just torture`"]
async fn million_rejects_use_bounded_memory_and_are_paged() {
    many_rejects(1_000_000).await;
}

async fn one_key(count: usize) {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let mut same = String::new();
    let mut differ = "{\"number\": 8}\n".to_owned();
    for number in 0..count {
        same.push_str("{\"number\": 7, \"size\": 1}\n");
        writeln!(differ, "{{\"number\": 7, \"size\": {number}}}").expect("valid UTF-8");
    }
    let (run_of_same, growth_of_same) = memory_growth(&daemon, run(control, "samples", "same", same)).await;
    let counts = &run_of_same["counts"];
    assert_eq!((&counts["records"], &counts["collapsed"]), (&json!(1), &json!(count - 1)), "{run_of_same}");
    let (run_of_others, growth) = memory_growth(&daemon, run(control, "samples", "differ", differ)).await;
    let counts = &run_of_others["counts"];
    assert_eq!(counts["rejected_by_rule"], json!({"duplicate_key": count}), "{run_of_others}");
    assert_eq!(counts["records"], 1);
    println!("{count} of one key: grew by {} and {} MiB", growth_of_same / MIB, growth / MIB);
    assert!(growth_of_same < GROWTH_MAX_BYTES && growth < GROWTH_MAX_BYTES);
    let store = stop_and_check_files(&world, daemon);
    assert_eq!(rejects(&store, &run_of_others).len(), count);
}

#[tokio::test]
async fn twenty_thousand_records_of_one_key_collapse_or_are_rejected() {
    one_key(20_000).await;
}

#[tokio::test]
#[ignore = "takes half a minute; `just torture`"]
async fn two_hundred_thousand_records_of_one_key_collapse_or_are_rejected() {
    one_key(200_000).await;
}

#[tokio::test]
async fn upload_with_a_wrong_length_leaves_nothing_or_its_declared_bytes() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let path = runs_path(SOURCE, "1", "2020-01-01");
    let rows = format!("{HEADER}Aruba,ABW,1960,54608\nAruba,ABW,1961,55811\n");
    let begin = rows.find("Aruba,ABW,1961").expect("the row exists").to_string();
    let chunked = ("transfer-encoding", "chunked");
    for (headers, body) in [
        (vec![("content-length", "10"), ("content-length", "12")], rows.clone()),
        (vec![("content-length", "-1")], rows.clone()),
        (vec![("content-length", "18446744073709551616")], rows.clone()),
        (vec![chunked], "zz\r\nhello\r\n".to_owned()),
        (vec![chunked], "ffffffffffffffffff\r\nhello\r\n".to_owned()),
        (vec![chunked], "5\r\nhelloworld\r\n0\r\n\r\n".to_owned()),
        (vec![("content-length", "10"), chunked], rows.clone()),
    ] {
        let mut wire = WireConnection::connect(&world.control_socket()).await;
        if let Some(answer) = wire.exchange(head("POST", &path, &headers) + &body).await {
            assert!((400..500).contains(&answer.status.as_u16()), "{headers:?}: {answer:?}");
        }
    }
    eventually("no payload is left", async || files(&world.state()).is_empty()).await;
    assert_eq!(document(&get(control, "/v1/runs").await)["items"], json!([]));
    // bytes after the declared length do not belong to the payload
    let mut wire = WireConnection::connect(&world.control_socket()).await;
    let answer = wire.exchange(head("POST", &path, &[("content-length", &begin)]) + &rows).await;
    let run = wait_for_run(control, &started_run(&answer.expect("the server answers"))).await;
    assert_eq!((&run["counts"]["read"], &run["raw_bytes"].to_string()), (&json!(1), &begin), "{run}");
    stop_and_check_files(&world, daemon);
}

#[tokio::test]
async fn concurrent_uploads_of_a_source_start_one_run_and_leave_no_payload() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let mut rows = HEADER.to_owned();
    for number in 0..5000 {
        let letters =
            [number / 676 % 26, number / 26 % 26, number % 26].map(|letter| char::from(b'A' + letter as u8));
        writeln!(rows, "Land,{},1990,{number}", String::from_iter(letters)).expect("valid UTF-8");
    }
    // all clients submit the same payload, or each a different one
    for is_same in [true, false] {
        let calls = (0..8).map(|caller| {
            let (socket, mut rows) = (world.control_socket(), rows.clone());
            tokio::spawn(async move {
                if !is_same {
                    rows.push_str(&format!("Land,ZZZ,2000,{caller}\n"));
                }
                let mut control = DaemonClient::connect(&socket).await.expect("the socket is served");
                ingest(&mut control, SOURCE, &format!("of-{is_same}"), "2020-01-01", rows).await
            })
        });
        let mut started_runs = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            let answer = call.await.expect("the task does not panic");
            match answer.status.as_u16() {
                202 => started_runs.push(at(&answer, "/run/run_id").as_str().expect("an id").to_owned()),
                409 => drop(problem(&answer, 409, "run_busy")),
                200 => assert!(is_same, "{}", document(&answer)),
                _ => panic!("{}", document(&answer)),
            }
        }
        assert!(!started_runs.is_empty());
        for run_id in &started_runs {
            let run = wait_for_run(control, run_id).await;
            assert_eq!(run["state"], "completed", "{run}");
        }
    }
    stop_and_check_files(&world, daemon);
}

#[tokio::test]
async fn payload_that_another_source_keeps_is_not_removed() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let (ontology, source, mut definition) = example_documents("forgets");
    definition["pipeline"]["audit"]["log_raw_input"] = json!(false);
    register_all(control, &ontology, &source, &definition).await;
    let payload = "{\"number\": 1, \"size\": 2}\n";
    let alone = run(control, "forgets", "1", "{\"number\": 1}\n").await;
    let stored = run(control, "samples", "1", payload).await;
    let discarded = run(control, "forgets", "2", payload).await;
    for run in [&alone, &stored, &discarded] {
        assert_eq!(run["state"], "completed", "{run}");
    }
    // payloads are removed after the end of a run, before the next run of the source begins
    eventually("the next run begins", async || {
        ingest(control, "forgets", "3", "2020-01-01", "{\"number\": 3, \"size\": 2}\n").await.status == 202
    })
    .await;
    let stored = format!("raw/{}.raw", stored["raw_sha256"].as_str().expect("a string"));
    let is_raw = |name: &String| name.starts_with("raw/");
    eventually("only the kept payload exists", async || {
        files(&world.state()).into_keys().filter(is_raw).eq([stored.clone()])
    })
    .await;
    assert!(daemon.stop().success());
}

/// Answers every request with `body`, like a source without a newer release.
async fn serve_for_ever(listener: TcpListener, body: &'static str) {
    loop {
        let (mut stream, _) = listener.accept().await.expect("the system permits the change");
        tokio::spawn(async move {
            let mut request = [0; 4096];
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            if stream.read(&mut request).await.is_ok() {
                drop(stream.write_all((head + body).as_bytes()).await);
            }
        });
    }
}

#[tokio::test]
async fn pulled_payload_without_changes_is_removed() {
    let world = DaemonWorld::with_config("[ingestion]\nallow_local = [\"127.0.0.0/8\"]");
    let daemon = world.serve().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the system reports the value");
    tokio::spawn(serve_for_ever(listener, "{\"number\": 1, \"size\": 2}\n"));
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    let (ontology, source, mut definition) = example_documents("pulled");
    definition["pipeline"]["retrieval"] =
        json!({"method": "api_pull", "endpoint": format!("http://{address}/samples"), "format": "ndjson"});
    definition["pipeline"]["audit"]["log_raw_input"] = json!(false);
    register_all(control, &ontology, &source, &definition).await;
    approve(control, "pulled").await;
    let mut policy = at(&get(control, "/v1/sources/pulled/freshness").await, "/policy");
    policy["default_max_age_seconds"] = json!(1);
    policy["default_stale_behavior"] = json!("block_until_fresh");
    let set = put_document(control, "/v1/documents/freshness_policy/pulled", &policy).await;
    assert_eq!(set.status, 200, "{}", document(&set));
    let query = json!({"oracle_id": "pulled", "request": {"axes_requested": ["size"]}});
    let first = post(routes, "/v1/query", &query).await;
    assert_eq!((first.status.as_u16(), at(&first, "/response/records/0/axes/size")), (200, json!("2")));
    tokio::time::sleep(Duration::from_secs(3)).await;
    // the source returns the same payload as before, so its release stays as old as it was
    problem(&post(routes, "/v1/query", &query).await, 503, "source_stale");
    assert_eq!(document(&get(control, "/v1/runs").await)["items"].as_array().map(Vec::len), Some(1));
    eventually("no payload is left", async || {
        files(&world.state()).keys().all(|name| !name.starts_with("raw/"))
    })
    .await;
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn requests_in_random_order_do_not_block_a_valid_run() {
    let mut rng = fastrand::Rng::new();
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (control, routes) = (&mut daemon.control().await, &mut daemon.routes().await);
    let (ontology, source, definition) = example_documents("samples");
    let query = json!({"oracle_id": "samples", "request": {"axes_requested": ["size"]}});
    for round in 0..40 {
        let mut steps: Vec<usize> = (0..10).collect();
        rng.shuffle(&mut steps);
        for step in steps {
            let answer = match step {
                0 => put_document(control, "/v1/documents/ontology/samples@1", &ontology).await,
                1 => put_document(control, "/v1/documents/source/samples", &source).await,
                2 => put_document(control, "/v1/documents/pipeline/samples", &definition).await,
                3 => {
                    let payload = format!("{{\"number\": {round}}}\n");
                    ingest(control, "samples", &format!("v{round}"), "2020-01-01", payload).await
                }
                4 => post(control, "/v1/sources/samples/review", &json!({"approve": {}})).await,
                5 => post(control, "/v1/sources/samples/invalidate", &json!({"reason": "why not"})).await,
                6 => get(control, "/v1/sources/samples/freshness").await,
                7 => get(control, "/v1/runs?oracle_id=samples").await,
                8 => post(routes, "/v1/query", &query).await,
                _ => post(control, "/v1/runs/0123456789abcdef/cancel", &json!({})).await,
            };
            // a source without a usable release may be stale
            let status = answer.status.as_u16();
            assert!(status < 500 || (step == 8 && status == 503), "step {step}: {}", document(&answer));
        }
    }
    eventually("no run is running", async || {
        !get(control, "/v1/runs").await.body.windows(9).any(|some| some == b"\"running\"")
    })
    .await;
    let run = run(control, "samples", "last", "{\"number\": 1, \"size\": 2}\n").await;
    assert_eq!(run["state"], "completed", "{run}");
    read_whole_log(control).await;
    stop_and_check_files(&world, daemon);
}

/// Fills the disk in the middle of a run, and then frees it.
async fn a_disk_that_gets_full(world: &DaemonWorld, disk: &impl TestDisk) {
    let daemon = world.serve().await;
    let control = &mut register_sources(&daemon).await;
    let before = run(control, "samples", "1", "{\"number\": 1, \"name\": \"first\"}\n").await;
    assert_eq!(before["state"], "completed");
    let held = files(&disk.state());
    let mut rng = fastrand::Rng::with_seed(7);
    let mut payload = String::new();
    for number in 0..30_000 {
        let name: String = (0..40).map(|_| rng.alphanumeric()).collect();
        writeln!(payload, "{{\"number\": {number}, \"name\": \"{name}\"}}").expect("valid UTF-8");
    }
    let run_id = started_run(&ingest(control, "samples", "2", "2021-01-01", payload.clone()).await);
    let path = format!("/v1/runs/{run_id}");
    eventually("the run reads records", async || {
        at(&get(control, &path).await, "/progress/read").as_u64() > Some(100)
    })
    .await;
    disk.fill(&daemon);
    let routes = &mut daemon.routes().await;
    // a full disk does not stop reads: stored data is served
    assert_eq!(get(routes, "/healthz").await.status, 200);
    let known = query_all(routes, "samples", &json!({"axes_requested": ["name"]})).await;
    assert_eq!(known.len(), 1);
    // all records are read, then the files are written, which fails
    eventually("the run has read all records", async || {
        let read = at(&get(control, &path).await, "/progress/read").as_u64();
        read.is_none_or(|read| read == 30_000)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    disk.empty(&daemon);
    let failed = wait_for_run(control, &run_id).await;
    assert_eq!(failed["state"], "failed", "{failed}");
    let cause = failed["cause"].as_str().unwrap_or_default();
    println!("{cause}");
    assert!(["No space left", "File too large"].iter().any(|message| cause.contains(message)), "{failed}");
    let verdict = post(routes, "/v1/verdicts/after", &submission(GOOD)).await;
    assert_eq!(verdict.status, 201, "{}", document(&verdict));
    let known = query_all(routes, "samples", &json!({"axes_requested": ["name"]})).await;
    assert_eq!(known.len(), 1, "no record of the failed run is visible");
    let mut there = files(&disk.state());
    there.retain(|name, _| !held.contains_key(name));
    assert_eq!(
        there.into_keys().collect::<Vec<_>>(),
        Vec::<String>::new(),
        "no payload and no rejects are left"
    );

    let next = run(control, "samples", "2", payload).await;
    assert_eq!((&next["state"], &next["counts"]["records"]), (&json!("completed"), &json!(30_000)), "{next}");
    read_whole_log(control).await;
    assert!(daemon.stop().success(), "{}", world.service_log());
}

#[tokio::test]
async fn run_fails_at_a_file_size_limit_and_the_next_run_completes() {
    let mut world = DaemonWorld::with_config("[storage]\nmin_free_bytes = 0\n");
    if !disk::can_be_filled(&mut world) {
        println!("skipped: prlimit not found");
        return;
    }
    a_disk_that_gets_full(&world, &SizeLimitedDisk(world.state())).await;
}

#[tokio::test]
async fn run_fails_on_a_full_tmpfs_and_the_next_run_completes() {
    let mut world = DaemonWorld::with_config("[storage]\nmin_free_bytes = 0\n");
    let Some(disk) = TmpfsDisk::mount(&world) else {
        println!("skipped: this machine cannot mount a tmpfs");
        return;
    };
    world.wrapper = disk.wrapper();
    a_disk_that_gets_full(&world, &disk).await;
}
