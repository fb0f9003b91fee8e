//! `POST /v1/rules/evaluate:batch`: lines are read and answered concurrently, in order and within limits, and each
//! evaluation is logged.

use crate::wording::is_logged;
use oracled_tests::stream::StreamedRequest;
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{
    DaemonProcess, DaemonWorld, PATIENCE, at, disk, document, eventually, get, log, post, problem,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const BATCH: &str = "/v1/rules/evaluate:batch";
const CASES: &str = include_str!("../cases/oracle-a.ndjson");
const MIB: u64 = 1024 * 1024;

async fn begin(world: &DaemonWorld) -> StreamedRequest {
    StreamedRequest::begin(&world.socket(), BATCH).await
}

fn request(id: &str) -> Value {
    json!({"id": id, "candidate_output": "Ice melts.", "facts": ["Ice melts"]})
}

fn line(id: &str) -> String {
    request(id).to_string() + "\n"
}

/// The answers to a whole body that is sent as one chunk.
async fn post_batch(world: &DaemonWorld, body: impl AsRef<[u8]>) -> Vec<Value> {
    let mut stream = begin(world).await;
    stream.send(body).await.expect("the server listens");
    stream.finish().await.expect("the server listens");
    stream.rest().await
}

/// Line number, id, and verdict or problem code of an answer's line.
fn summarize_line(line: &Value) -> (u64, String, String) {
    let text = |place: &str| line.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let (verdict, code) = (text("/evaluation/verdict"), text("/problem/code"));
    assert!(verdict.is_some() != code.is_some(), "either a verdict or a problem: {line}");
    let number = line.get("line").and_then(Value::as_u64).expect("a line has its number");
    (number, text("/id").unwrap_or_default(), verdict.or(code).unwrap_or_default())
}

fn summarize_lines(lines: &[Value]) -> Vec<(u64, String, String)> {
    lines.iter().map(summarize_line).collect()
}

fn expected(lines: &[(u64, &str, &str)]) -> Vec<(u64, String, String)> {
    lines.iter().map(|(line, id, came_to)| (*line, (*id).into(), (*came_to).into())).collect()
}

async fn evaluations_logged(daemon: &DaemonProcess<'_>) -> usize {
    let mut count = 0;
    let mut after = 0;
    loop {
        let control = &mut daemon.control().await;
        let entries = log(control, &format!("event=rules_evaluated&limit=10000&after={after}")).await;
        let Some(last) = entries.last() else { return count };
        after = last["seq"].as_u64().expect("an entry has its number");
        count += entries.len();
    }
}

async fn status(daemon: &DaemonProcess<'_>, place: &str) -> Value {
    at(&get(&mut daemon.control().await, "/v1/status").await, place)
}

#[tokio::test]
async fn lines_are_answered_in_order_and_an_invalid_line_does_not_end_them() {
    let world = DaemonWorld::with_config("[limits]\nbody_bytes = 2000");
    let daemon = world.serve().await;
    let mut wrong = request("unknown rule");
    wrong["rules"] = json!(["RULE-PREC-999"]);
    let mut failing = request("fails");
    failing["facts"] = json!([]);
    let mut erring = request("errs");
    erring["expected"] = json!({"must_find": [""]});
    let mut long = request("long");
    long["facts"] = json!(["x".repeat(2000)]);
    let body = [
        line("first"),
        "\n".into(),
        "{\"id\":\"cut\",\n".into(),
        format!("{wrong}\r\n"),
        " \t\r\n".into(),
        format!("{long}\n"),
        "[]\n".into(),
        format!("{failing}\r\n"),
        "\u{feff}{}\n".into(),
        format!("{erring}\n"),
        json!({"id": "no text", "facts": []}).to_string() + "\n",
        json!({"id": 7, "candidate_output": "", "facts": []}).to_string() + "\n",
        "\n\n".into(),
        request("last, without an end").to_string(),
    ];
    let lines = post_batch(&world, body.concat()).await;
    let expectation = expected(&[
        (1, "first", "PASS"),
        (3, "", "invalid_json"),
        (4, "unknown rule", "invalid_request"),
        (6, "", "body_too_large"),
        (7, "", "invalid_request"),
        (8, "fails", "FAIL"),
        (9, "", "invalid_json"),
        (10, "errs", "ERROR"),
        (11, "no text", "invalid_request"),
        (12, "", "invalid_request"),
        (15, "last, without an end", "PASS"),
    ]);
    assert_eq!(summarize_lines(&lines), expectation);
    let detail = lines[2]["problem"]["detail"].as_str().expect("the problem has a detail");
    assert!(detail.contains("RULE-PREC-999"), "{detail}");
    assert_eq!(lines[3]["problem"]["status"], 413);
    assert_eq!(evaluations_logged(&daemon).await, 4, "each evaluation is logged");
    // the result does not depend on the chunks of the body
    let whole = body.concat();
    for size in [1, 7, 100] {
        let mut stream = begin(&world).await;
        for piece in whole.as_bytes().chunks(size) {
            stream.send(piece).await.expect("the server listens");
        }
        stream.finish().await.expect("the server listens");
        assert_eq!(stream.rest().await, lines, "{size}");
    }
}

#[tokio::test]
async fn batch_answer_equals_the_single_evaluation() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    let mut stream = begin(&world).await;
    for case in CASES.lines() {
        let mut case: Value = serde_json::from_str(case).expect("a case is JSON");
        let members = case.as_object_mut().expect("a case is an object");
        let expected =
            ["category", "note", "want"].map(|name| members.remove(name)).into_iter().flatten().last();
        stream.send(format!("{case}\n")).await.expect("the server listens");
        let answer = stream.line().await.expect("the server answers");
        assert_eq!(answer["id"], case["id"]);
        let evaluation = &answer["evaluation"];
        assert_eq!(Some(&evaluation["verdict"]), expected.as_ref().map(|want| &want["verdict"]), "{case}");
        assert_eq!(*evaluation, document(&post(routes, "/v1/rules/evaluate", &case).await), "{case}");
    }
    stream.finish().await.expect("the server listens");
    assert_eq!(stream.line().await, None);
    assert_eq!(evaluations_logged(&daemon).await, 2 * CASES.lines().count());
}

#[tokio::test]
async fn body_without_lines_has_an_empty_answer() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for body in ["\n", " ", "\r\n\n \t\r\n", "\n\n\n"] {
        assert_eq!(post_batch(&world, body).await, Vec::<Value>::new(), "{body:?}");
    }
    let mut stream = begin(&world).await;
    stream.finish().await.expect("the server listens");
    assert_eq!(stream.line().await, None);
    assert_eq!(evaluations_logged(&daemon).await, 0);
}

#[tokio::test]
async fn batch_with_another_media_type_is_refused() {
    let world = DaemonWorld::default();
    let _daemon = world.serve().await;
    for media_type in ["application/json", "text/plain", "application/x-www-form-urlencoded"] {
        let headers = [("content-type", media_type), ("content-length", "0")];
        let refused =
            WireConnection::connect(&world.socket()).await.exchange(head("POST", BATCH, &headers)).await;
        problem(&refused.expect("the server answers"), 415, "unsupported_media_type");
    }
}

#[tokio::test]
async fn batch_of_a_disconnected_client_ends() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for sent in ["", "{\"id\":", &line("whole"), &line("many").repeat(2000)] {
        let mut stream = begin(&world).await;
        if !sent.is_empty() {
            stream.send(sent).await.expect("the server listens");
        }
        drop(stream);
    }
    eventually("the daemon counts no connection", async || status(&daemon, "/connections").await == 0).await;
    eventually("no line is in flight", async || status(&daemon, "/in_flight").await == 0).await;
    assert_eq!(summarize_lines(&post_batch(&world, line("after")).await), expected(&[(1, "after", "PASS")]));
}

#[tokio::test]
async fn idle_sender_and_idle_reader_are_disconnected() {
    let world = DaemonWorld::with_config(
        "[limits]\nidle_s = 1\nrequest_s = 2\n[ingestion]\nrefresh_s = 1\n[model]\nprovider = \"none\"",
    );
    let daemon = world.serve().await;
    let mut silent = begin(&world).await;
    silent.send(line("first").repeat(2) + "{").await.expect("the server listens");
    let lines = silent.rest().await;
    assert_eq!(
        summarize_lines(&lines),
        expected(&[(1, "first", "PASS"), (2, "first", "PASS"), (3, "", "request_timeout")]),
        "complete lines are answered"
    );
    let mut deaf = begin(&world).await;
    // much more than the kernel buffers for a client that does not read
    while tokio::time::timeout(Duration::from_millis(500), deaf.send(line("x").repeat(100)))
        .await
        .is_ok_and(|sent| sent.is_ok())
    {}
    eventually("the daemon counts no connection", async || status(&daemon, "/connections").await == 0).await;
    // a slow client that continues may take longer than the time limit of a request
    let mut slow = begin(&world).await;
    for n in 1..=10 {
        slow.send(line("slow")).await.expect("the server listens");
        assert_eq!(slow.line().await.map(|line| summarize_line(&line).0), Some(n));
        sleep(Duration::from_millis(300)).await;
    }
    slow.finish().await.expect("the server listens");
    assert_eq!(slow.line().await, None);
}

#[tokio::test]
#[ignore = "ten thousand lines; `just torture`"]
async fn ten_thousand_lines_use_bounded_memory_and_are_all_logged() {
    const LINES: usize = 10_000;
    let world = DaemonWorld::with_config("[storage]\ncache_bytes = 4194304");
    let daemon = world.serve().await;
    // pools and caches have reached their size
    assert_eq!(post_batch(&world, line("x").repeat(500)).await.len(), 500);
    let before = daemon.resident_bytes().expect("the system reports the value");
    let mut stream = begin(&world).await;
    let mut bytes = 0;
    for some in 0..LINES / 100 {
        let text: String = (0..100).map(|n| line(&format!("{}", some * 100 + n))).collect();
        stream.send(text).await.expect("the server listens");
        for n in 0..100 {
            let answer = stream.line().await.expect("the server answers");
            bytes += answer.to_string().len() as u64;
            let number = some * 100 + n;
            assert_eq!(summarize_line(&answer), (number as u64 + 1, number.to_string(), "PASS".into()));
        }
    }
    stream.finish().await.expect("the server listens");
    assert_eq!(stream.line().await, None);
    let most = daemon.most_resident_bytes().expect("the system reports the value");
    println!("{bytes} bytes answered; resident: {before} bytes before, {most} at the most");
    assert!(bytes > 24 * MIB, "the answers are longer than the permitted growth: {bytes}");
    assert!(most < before + 16 * MIB, "{most} bytes, {before} before");
    assert_eq!(evaluations_logged(&daemon).await, LINES + 500);
}

#[tokio::test]
async fn endless_line_is_refused_in_bounded_memory_and_the_next_is_answered() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    assert_eq!(post_batch(&world, line("x").repeat(100)).await.len(), 100);
    let before = daemon.resident_bytes().expect("the system reports the value");
    let mut stream = begin(&world).await;
    let piece = "x".repeat(1_000_000);
    for _ in 0..64 {
        stream.send(&piece).await.expect("the server listens");
    }
    assert_eq!(
        stream.line().await.map(|line| summarize_line(&line)),
        expected(&[(1, "", "body_too_large")]).pop()
    );
    stream.send("\n".to_owned() + &line("next")).await.expect("the server listens");
    assert_eq!(stream.line().await.map(|line| summarize_line(&line)), expected(&[(2, "next", "PASS")]).pop());
    stream.finish().await.expect("the server listens");
    assert_eq!(stream.line().await, None);
    let most = daemon.most_resident_bytes().expect("the system reports the value");
    assert!(most < before + 16 * MIB, "{most} bytes, {before} before");
}

#[tokio::test]
async fn draining_daemon_answers_started_lines_and_refuses_further_ones() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let control = &mut daemon.control().await;
    let mut stream = begin(&world).await;
    stream.send(line("before")).await.expect("the server listens");
    assert_eq!(
        stream.line().await.map(|line| summarize_line(&line)),
        expected(&[(1, "before", "PASS")]).pop()
    );
    assert_eq!(post(control, "/v1/drain", &json!({"draining": true})).await.status, 200);
    stream.send(line("while")).await.expect("the server listens");
    assert_eq!(
        stream.line().await.map(|line| summarize_line(&line)),
        expected(&[(2, "while", "draining")]).pop()
    );
    let headers = [("content-type", "application/x-ndjson"), ("content-length", "0")];
    let refused =
        WireConnection::connect(&world.socket()).await.exchange(head("POST", BATCH, &headers)).await;
    problem(&refused.expect("the server answers"), 503, "draining");
    assert_eq!(post(control, "/v1/drain", &json!({"draining": false})).await.status, 200);
    stream.send(line("after")).await.expect("the server listens");
    assert_eq!(
        stream.line().await.map(|line| summarize_line(&line)),
        expected(&[(3, "after", "PASS")]).pop()
    );
    assert_eq!(evaluations_logged(&daemon).await, 2);
}

#[tokio::test]
async fn endless_stream_does_not_delay_shutdown() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    let mut stream = begin(&world).await;
    stream.send(line("first")).await.expect("the server listens");
    assert_eq!(
        stream.line().await.map(|line| summarize_line(&line)),
        expected(&[(1, "first", "PASS")]).pop()
    );
    daemon.signal("TERM");
    assert_eq!(
        summarize_lines(&stream.rest().await),
        expected(&[(2, "", "draining")]),
        "the last line has the reason"
    );
    assert!(daemon.wait().success(), "{}", world.service_log());
    assert!(!is_logged(&world, "WARN", &["in_flight", "bound_s"]), "{}", world.service_log());
    let began = Instant::now();
    let daemon = world.serve().await;
    let mut stream = begin(&world).await;
    // lines that were read before the stop are answered
    stream.send(line("x").repeat(500)).await.expect("the server listens");
    stream.finish().await.expect("the server listens");
    assert!(stream.line().await.is_some());
    daemon.signal("TERM");
    let rest: Vec<_> = stream.rest().await.iter().map(|line| summarize_line(line).2).collect();
    let answered = rest.iter().take_while(|outcome| *outcome == "PASS").count();
    let unanswered: Vec<_> = rest.iter().skip(answered).collect();
    assert!(answered == 499 || unanswered == ["draining"], "{answered} answered, then {unanswered:?}");
    assert!(daemon.wait().success(), "{}", world.service_log());
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn lines_are_errors_while_the_log_cannot_be_written() {
    let mut world = DaemonWorld::default();
    if !disk::can_be_filled(&mut world) {
        println!("skipped: prlimit not found");
        return;
    }
    let daemon = world.serve().await;
    let mut stream = begin(&world).await;
    stream.send(line("before")).await.expect("the server listens");
    assert_eq!(stream.line().await.map(|line| summarize_line(&line).2), Some("PASS".into()));
    disk::fill(&daemon, &world.state());
    let (mut evaluated, mut rejected) = (1, 0);
    while rejected < 100 {
        stream.send(line("while").repeat(50)).await.expect("the server listens");
        for _ in 0..50 {
            match summarize_line(&stream.line().await.expect("the server answers")).2.as_str() {
                "PASS" => evaluated += 1,
                "storage_unavailable" => rejected += 1,
                other => unreachable!("{other}"),
            }
        }
        assert!(evaluated < 100_000, "the disk becomes full");
    }
    assert_eq!(evaluations_logged(&daemon).await, evaluated, "each answered line was logged");
    disk::empty(&daemon);
    eventually("the daemon is ready again", async || {
        get(&mut daemon.routes().await, "/readyz").await.status == 200
    })
    .await;
    stream.send(line("after")).await.expect("the server listens");
    assert_eq!(stream.line().await.map(|line| summarize_line(&line).2), Some("PASS".into()));
    stream.finish().await.expect("the server listens");
    assert_eq!(stream.line().await, None);
    assert_eq!(evaluations_logged(&daemon).await, evaluated + 1);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn unread_answers_use_bounded_memory() {
    let world = DaemonWorld::with_config("[limits]\nbodies_bytes = 2097152");
    let daemon = world.serve().await;
    assert_eq!(post_batch(&world, line("x").repeat(100)).await.len(), 100);
    let before = daemon.resident_bytes().expect("the system reports the value");
    // the answer to each line is several hundred times as long
    let amplifying = json!({"candidate_output": "b.\n".repeat(1000), "facts": ["a"]}).to_string() + "\n";
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = begin(&world).await;
        stream.send(amplifying.repeat(2)).await.expect("the server listens");
        streams.push(stream);
    }
    sleep(Duration::from_secs(2)).await;
    let most = daemon.most_resident_bytes().expect("the system reports the value");
    println!("resident: {before} bytes before, {most} at the most");
    assert!(most < before + 64 * MIB, "{most} bytes, {before} before");
    // the daemon runs, and a client gets answers or an error; the connection of one that has not read for 2 s can be cut
    assert_eq!(get(&mut daemon.routes().await, "/healthz").await.status, 200);
    let readers = streams.into_iter().map(|mut stream| {
        tokio::spawn(async move {
            let mut responses = Vec::new();
            while responses.len() < 2
                && let Some(line) = stream.line().await
            {
                responses.push(summarize_line(&line).2);
            }
            responses
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        for response in reader.await.expect("the reader succeeds") {
            assert!(["FAIL", "overloaded"].contains(&response.as_str()), "{response}");
        }
    }
    assert_eq!(post_batch(&world, line("x").repeat(100)).await.len(), 100);
}

#[tokio::test]
async fn incomplete_line_times_out() {
    let world = DaemonWorld::with_config(
        "[limits]\nrequest_s = 2\n[ingestion]\nrefresh_s = 1\n[model]\nprovider = \"none\"\ndeadline_ms = 1000\nhard_timeout_ms = 1000\nsoft_timeout_ms = 500",
    );
    let _daemon = world.serve().await;
    let mut stream = begin(&world).await;
    for _ in 0..100 {
        if stream.send("x").await.is_err() {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(
        stream.line().await.map(|line| summarize_line(&line)),
        expected(&[(1, "", "request_timeout")]).pop()
    );
    assert_eq!(stream.line().await, None);
}
