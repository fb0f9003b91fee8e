//! A disk is full for a while: nothing is delivered meanwhile, nothing is lost, and the daemon recovers by itself.

use hyper::Method;
use oracled_api::client::{DaemonClient, DaemonResponse};
use oracled_tests::disk::{self, SizeLimitedDisk, TestDisk, TmpfsDisk};
use oracled_tests::load::{
    AnswerLedger, KnownSessionState, LoadConfig, LogContent, check_of, check_served, field, read_log,
};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, document, eventually, get, ground, post, problem, submission,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;

/// Little memory, so that most verdicts are read from the store, and most of the store from the disk.
const LITTLE_MEMORY: &str = "[storage]\nmin_free_bytes = 0\nhot_bytes = 65536\ncache_bytes = 1048576\n";
/// Upper bound on verdicts that a full disk still accepts, because the daemon has reserved space.
const LAST_ONES: usize = 2000;
/// Upper bound on recoveries of the journal on a full disk.
const RECOVERIES_MAX: usize = 10;

async fn load_for(world: &DaemonWorld, name: &str, time: Duration, ledger: &mut AnswerLedger) -> usize {
    let (routes, control) = (world.socket(), world.control_socket());
    let load = LoadConfig { routes, control, name: name.into(), callers: 4, seed: fastrand::u64(..) };
    let (stop, stopped) = watch::channel(false);
    let calls = tokio::spawn(load.run(stopped));
    tokio::time::sleep(time).await;
    stop.send_replace(true);
    let (answered, lost) = calls.await.expect("every answer is valid");
    assert_eq!(lost, 0, "every request is answered");
    let failures = answered.failures;
    ledger.add(answered);
    failures
}

/// A submission of half a megabyte.
fn large() -> Value {
    submission(&json!({"verdict": "GREEN", "summary": "large ".repeat(80_000)}).to_string())
}

fn ordinary() -> Value {
    submission(&json!({"verdict": "GREEN", "summary": "ordinary ".repeat(5_000)}).to_string())
}

fn assert_unavailable(answer: &DaemonResponse) {
    problem(answer, 503, "storage_unavailable");
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

/// The entries in the service log that could not be written to the journal.
fn fallback_lines(world: &DaemonWorld) -> Vec<Value> {
    let log = world.service_log();
    let marked = log.lines().filter(|line| line.contains("log_fallback"));
    marked.map(|line| serde_json::from_str(line).expect("a marked line is JSON")).collect()
}

fn names(object: &Value) -> BTreeSet<&str> {
    object.as_object().into_iter().flat_map(|members| members.keys()).map(String::as_str).collect()
}

/// Submits verdicts until the disk is full: first large ones, then ordinary ones, which fit for longer. Returns the
/// last session that was refused.
async fn submit_until_full(routes: &mut DaemonClient, name: &str, ledger: &mut AnswerLedger) -> String {
    let mut rejected_session = None;
    for (size, verdict) in [("large", large()), ("ordinary", ordinary())] {
        rejected_session = None;
        for n in 0..LAST_ONES {
            let session = format!("{name}-{size}-{n}");
            let answer = post(routes, &format!("/v1/verdicts/{session}"), &verdict).await;
            if answer.status != 201 {
                assert_unavailable(&answer);
                rejected_session = Some(session);
                break;
            }
            ledger.sessions.insert(session, KnownSessionState::Cached(answer.body));
        }
    }
    rejected_session.expect("the disk becomes full")
}

/// Submits verdicts until the disk stays full: the journal can recover with the space of a segment that was being prepared, or
/// compressed. Returns the last session that was refused.
async fn submit_until_full_for_good(
    daemon: &DaemonProcess<'_>,
    disk: &impl TestDisk,
    name: &str,
    ledger: &mut AnswerLedger,
) -> String {
    let routes = &mut daemon.routes().await;
    for n in 0.. {
        assert!(n < RECOVERIES_MAX, "the disk does not stay full");
        let rejected_session = submit_until_full(routes, &format!("{name}-{n}"), ledger).await;
        disk.take_freed_space();
        // the journal tries every second
        tokio::time::sleep(Duration::from_millis(1500)).await;
        if get(routes, "/readyz").await.status == 503 {
            return rejected_session;
        }
    }
    unreachable!("the loop ends with a result or a failed assertion")
}

/// Checks a daemon on a full disk.
async fn check_full(
    world: &DaemonWorld,
    daemon: &DaemonProcess<'_>,
    ledger: &AnswerLedger,
    rejected_session: &str,
) {
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let small = post(routes, "/v1/verdicts/small", &submission(GOOD)).await;
    assert_unavailable(&small);
    let refused = post(routes, "/v1/verdicts/refused", &submission("{}")).await;
    assert_unavailable(&refused);
    assert_unavailable(&post(routes, "/v1/crosscheck", &check_of("check")).await);
    let some_session =
        ledger.sessions.iter().find(|(_, state)| matches!(state, KnownSessionState::Cached(_)));
    let path = format!("/v1/verdicts/{}", some_session.expect("at least one").0);
    assert_unavailable(&control.call(Method::DELETE, &path, None).await.expect("the server answers"));
    for session in [rejected_session, "small", "refused", "check"] {
        assert_eq!(get(routes, &format!("/v1/verdicts/{session}")).await.status, 404, "{session}");
    }

    let log = read_log(control).await;
    let chronicle = LogContent::read(log.lines());
    let sessions: Vec<_> = ledger.sessions.keys().collect();
    ledger.check_answers(routes, &chronicle, &sessions).await;
    assert_eq!(get(routes, "/healthz").await.status, 200);
    let ready = get(routes, "/readyz").await;
    assert_eq!((ready.status.as_u16(), field(&document(&ready), "ready")), (503, &json!(false)));
    let reason = document(&ready)
        .pointer("/reasons/0")
        .unwrap_or(&Value::Null)
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(reason.starts_with("storage_unavailable since "), "{reason}");

    let logged: Value = log
        .lines()
        .find(|line| line.contains(r#""event":"tmm_crosscheck""#))
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .expect("something was judged");
    let mut expected = names(&logged);
    // the journal gives the number and the salts
    expected.retain(|name| !["seq", "salts"].contains(name));
    expected.extend(["log_fallback", "fallback_cause"]);
    let lines = fallback_lines(world);
    let is_of_read =
        |line: &Value| field(line, "event") == "operator_read" && field(line, "subject") == "log";
    assert!(lines.iter().any(is_of_read), "the read of the log was answered all the same: {lines:?}");
    for (session, approved) in
        [(rejected_session, true), ("small", true), ("refused", false), ("check", true)]
    {
        let of_session =
            |line: &&Value| field(line, "event") == "tmm_crosscheck" && field(line, "session_id") == session;
        let line = lines.iter().find(of_session).expect("the judgment is in the service log");
        assert_eq!(names(line), expected);
        assert_eq!(
            (field(line, "log_fallback"), field(line, "approved")),
            (&json!(true), &json!(approved)),
            "{line}"
        );
    }
}

/// Runs a daemon on a disk that becomes full, empty and full again. Returns the recorded answers; the daemon is
/// stopped.
async fn a_full_disk(world: &DaemonWorld, disk: &impl TestDisk) -> AnswerLedger {
    let daemon = world.serve().await;
    let mut ledger = AnswerLedger::default();
    assert_eq!(load_for(world, "before", Duration::from_millis(700), &mut ledger).await, 0);
    disk.fill(&daemon);
    let rejected_session = submit_until_full_for_good(&daemon, disk, "last", &mut ledger).await;
    check_full(world, &daemon, &ledger, &rejected_session).await;
    // long enough for several attempts to write again
    let failures = load_for(world, "full", Duration::from_millis(2500), &mut ledger).await;
    assert!(failures > 0, "the disk was full");
    check_full(world, &daemon, &ledger, &rejected_session).await;

    disk.empty(&daemon);
    let routes = &mut daemon.routes().await;
    eventually("the daemon is ready again", async || get(routes, "/readyz").await.status == 200).await;
    let lines = fallback_lines(world).len();
    let log = read_log(&mut daemon.control().await).await;
    let entries: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let recovered = entries.iter().filter(|entry| field(entry, "event") == "storage_recovered");
    let counted: u64 = recovered.filter_map(|entry| field(entry, "fallback_entries").as_u64()).sum();
    assert_eq!(counted, lines as u64);
    assert_eq!(entries.last().map(|entry| field(entry, "event")), Some(&json!("storage_recovered")));
    let answer = post(routes, &format!("/v1/verdicts/{rejected_session}"), &large()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    ledger.sessions.insert(rejected_session, KnownSessionState::Cached(answer.body));
    assert_eq!(load_for(world, "after", Duration::from_millis(300), &mut ledger).await, 0);
    check_served(&mut daemon.control().await, &disk.state()).await;
    assert!(daemon.stop().success());
    assert_eq!(fallback_lines(world).len(), lines, "no further entry went to the service log");

    println!("{failures} answers of 503, {lines} entries in the service log");
    ledger.check_store(&disk.state());
    let daemon = world.serve().await;
    let chronicle = check_served(&mut daemon.control().await, &disk.state()).await;
    let sessions: Vec<_> = ledger.sessions.keys().collect();
    ledger.check_answers(&mut daemon.routes().await, &chronicle, &sessions).await;

    // a daemon that is stopped on a full disk ends normally
    disk.fill(&daemon);
    submit_until_full(&mut daemon.routes().await, "stop", &mut ledger).await;
    assert!(daemon.stop().success(), "{}", world.service_log());
    ledger
}

/// Starts a daemon that finds no space and ends with one line that states so.
fn refused_for_space(world: &DaemonWorld) {
    let failed = world.run_until_exit();
    let stderr_text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{stderr_text}");
    let line = stderr_text
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("oracled: "))
        .expect("the last line is an error");
    assert_eq!(line.matches("No space left on device").count(), 1, "{stderr_text}");
    assert!(!stderr_text.contains("panicked"), "{stderr_text}");
}

#[tokio::test]
async fn first_start_on_full_disk_fails_or_serves_after_space_is_freed() {
    // the start gets further with more space
    for left in [0, 4096, 8192, 12288, 100_000] {
        let mut world = DaemonWorld::with_config("[storage]\nmin_free_bytes = 0\n");
        let Some(disk) = TmpfsDisk::mount(&world) else {
            println!("skipped: this machine cannot mount a tmpfs");
            return;
        };
        world.wrapper = disk.wrapper();
        disk.put_ballast(left);
        let mut daemon = world.spawn();
        while daemon.exit_status().is_none() && !world.is_answering().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if daemon.exit_status().is_some() {
            assert_eq!(daemon.wait().code(), Some(1));
            refused_for_space(&world);
            disk.remove_ballast();
            daemon = world.serve().await;
        } else {
            let routes = &mut daemon.routes().await;
            assert_eq!(get(routes, "/readyz").await.status, 503);
            assert_unavailable(&post(routes, "/v1/verdicts/small", &submission(GOOD)).await);
            disk.remove_ballast();
            eventually("it is ready", async || get(routes, "/readyz").await.status == 200).await;
        }
        check_served(&mut daemon.control().await, &disk.state()).await;
    }
}

#[tokio::test]
async fn disk_with_a_file_size_limit_stops_only_writes() {
    let mut world = DaemonWorld::with_config(LITTLE_MEMORY);
    if !disk::can_be_filled(&mut world) {
        println!("skipped: prlimit not found");
        return;
    }
    // the limit has ended with the daemon's process
    a_full_disk(&world, &SizeLimitedDisk(world.state())).await.check_store(&world.state());
}

/// Starts on a full disk, after a stop and after a kill, and checks that the stored data is served.
async fn starts_on_a_full_disk(world: &DaemonWorld, disk: &TmpfsDisk, ledger: &AnswerLedger) {
    // the ballast has taken the space that the last daemon left
    disk.remove_ballast();
    let daemon = world.serve().await;
    assert_eq!(post(&mut daemon.routes().await, "/v1/verdicts/last-words", &ordinary()).await.status, 201);
    daemon.kill();
    for start in 0..2 {
        disk.put_ballast(0);
        let daemon = world.serve().await;
        let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
        assert_eq!(get(routes, "/v1/verdicts/last-words").await.status, 200);
        // the reserve was released, so there may be space for more
        let path = format!("/v1/verdicts/start-{start}");
        let taken = post(routes, &path, &submission(GOOD)).await.status;
        let read = get(routes, &path).await.status;
        assert!([(201, 200), (503, 404)].contains(&(taken.as_u16(), read.as_u16())), "{taken} {read}");
        let log = read_log(control).await;
        let sessions: Vec<_> = ledger.sessions.keys().collect();
        ledger.check_answers(routes, &LogContent::read(log.lines()), &sessions).await;
        assert_eq!(get(routes, "/metrics").await.status, 200);
        disk.remove_ballast();
        eventually("the daemon is ready again", async || get(routes, "/readyz").await.status == 200).await;
        assert!(daemon.stop().success());
    }
}

#[tokio::test]
async fn payload_of_a_run_that_could_not_start_is_removed() {
    let mut world = DaemonWorld::with_config("[storage]\nmin_free_bytes = 0\n");
    if !disk::can_be_filled(&mut world) {
        println!("skipped: prlimit not found");
        return;
    }
    let disk = SizeLimitedDisk(world.state());
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    let (ontology, source, pipeline) = ground::example_documents("samples");
    ground::register_all(control, &ontology, &source, &pipeline).await;
    disk.fill(&daemon);
    submit_until_full(routes, "last", &mut AnswerLedger::default()).await;
    let record = "{\"number\": 1}\n";
    assert_unavailable(&ground::ingest(control, "samples", "1", "2020-01-01", record).await);
    disk.empty(&daemon);
    eventually("the daemon is ready again", async || get(routes, "/readyz").await.status == 200).await;
    let archived =
        || std::fs::read_dir(world.state().join("ground/raw")).expect("the archive exists").count();
    eventually("the payload is removed", async || archived() == 0).await;
    let started = ground::ingest(control, "samples", "1", "2020-01-01", record).await;
    let run = ground::wait_for_run(control, &ground::started_run(&started)).await;
    assert_eq!((&run["state"], archived()), (&json!("completed"), 1));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn low_disk_space_refuses_new_work_and_serves_reads() {
    let mut world = DaemonWorld::default();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_eq!(post(routes, "/v1/verdicts/before", &submission(GOOD)).await.status, 201);
    let (ontology, source, pipeline) = ground::example_documents("before");
    ground::register_all(control, &ontology, &source, &pipeline).await;
    assert!(daemon.stop().success());

    world.config = "[storage]\nmin_free_bytes = 1152921504606846976\n".into();
    let daemon = world.serve().await;
    let (routes, control) = (&mut daemon.routes().await, &mut daemon.control().await);
    assert_unavailable(&post(routes, "/v1/verdicts/after", &submission(GOOD)).await);
    assert_unavailable(&post(routes, "/v1/verdicts/after", &submission(GOOD)).await);
    assert_eq!(get(routes, "/v1/verdicts/before").await.status, 200);
    assert_eq!(get(routes, "/v1/verdicts/after").await.status, 404);
    assert_eq!(post(routes, "/v1/crosscheck", &check_of("check")).await.status, 200);
    assert_eq!(get(control, "/v1/documents/source").await.status, 200);
    let started = ground::ingest(control, "before", "1", "2020-01-01T00:00:00Z", Vec::new()).await;
    assert_unavailable(&started);
    let ready = get(routes, "/readyz").await;
    assert_eq!(ready.status, 503);
    let metrics = get(routes, "/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for sample in ["oracled_storage_low 1", "oracled_journal_failed 0"] {
        assert!(metrics.lines().any(|line| line == sample), "{metrics}");
    }
    for name in [
        "oracled_storage_bytes{part=\"segments\"}",
        "oracled_storage_free_bytes",
        "oracled_storage_min_free_bytes",
    ] {
        let sample = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        assert!(sample.is_some_and(|bytes| bytes > 0), "{name}: {metrics}");
    }
    assert!(daemon.stop().success());
}

#[tokio::test]
#[ignore = "the disk does not always stay full: the journal frees space when it compresses segments or rebuilds the database"]
async fn full_tmpfs_stops_only_writes() {
    let mut world = DaemonWorld::with_config(LITTLE_MEMORY);
    let Some(disk) = TmpfsDisk::mount(&world) else {
        println!("skipped: this machine cannot mount a tmpfs");
        return;
    };
    world.wrapper = disk.wrapper();
    let ledger = a_full_disk(&world, &disk).await;

    starts_on_a_full_disk(&world, &disk, &ledger).await;
    ledger.check_store(&disk.state());
    let daemon = world.serve().await;
    check_served(&mut daemon.control().await, &disk.state()).await;
}
