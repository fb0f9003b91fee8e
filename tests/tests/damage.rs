//! Damaged state: a daemon serves everything that was acknowledged, or refuses to start with one clear line.

use oracled_api::client::DaemonClient;
use oracled_tests::load::{AnswerLedger, KnownSessionState, LoadConfig, check_served};
use oracled_tests::{
    DaemonProcess, DaemonWorld, GOOD, PATIENCE, copy_dir, document, eventually, get, post, submission,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Longest time until a daemon that finds damage while it serves has repaired it, or has ended.
const REPAIR: Duration = Duration::from_secs(10);

/// An undamaged state directory, with the answers that a daemon gave from it.
struct UndamagedState {
    world: DaemonWorld,
    /// Lines of its log.
    log: String,
    /// Documents of all sessions that ever had a verdict; `None` if the verdict was purged.
    documents: BTreeMap<String, Option<Vec<u8>>>,
}

impl UndamagedState {
    /// Creates a state under load, with a restart in between.
    async fn create() -> Self {
        let world = DaemonWorld::default();
        let mut ledger = AnswerLedger::default();
        for name in ["one", "two"] {
            let daemon = world.serve().await;
            let (stop, stopped) = watch::channel(false);
            let (routes, control) = (world.socket(), world.control_socket());
            let load = LoadConfig { routes, control, name: name.into(), callers: 3, seed: fastrand::u64(..) };
            let calls = tokio::spawn(load.run(stopped));
            tokio::time::sleep(Duration::from_millis(250)).await;
            stop.send_replace(true);
            ledger.add(calls.await.expect("every answer is valid").0);
            assert!(daemon.stop().success());
        }
        ledger.check_store(&world.state());
        let documents = ledger.sessions.into_iter().map(|(session, state)| match state {
            KnownSessionState::Cached(document) => (session, Some(document.to_vec())),
            KnownSessionState::Purged | KnownSessionState::Unsure(_) => (session, None),
        });
        let (log, documents) = (world.mirror(), documents.collect());
        Self { world, log, documents }
    }

    /// Copies the state to a new world.
    fn copy_to_new_world(&self) -> DaemonWorld {
        let world = DaemonWorld::default();
        copy_dir(&self.world.state(), &world.state());
        world
    }

    /// Compares all answers of a daemon with the expected ones; the error names the first difference.
    async fn compare_answers(&self, world: &DaemonWorld) -> Result<(), String> {
        let connected =
            async |socket: PathBuf| DaemonClient::connect(&socket).await.map_err(|error| error.to_string());
        let mut routes = connected(world.socket()).await?;
        let mut control = connected(world.control_socket()).await?;
        for (session, expected) in &self.documents {
            let path = format!("/v1/verdicts/{session}");
            let answer =
                routes.call(hyper::Method::GET, &path, None).await.map_err(|error| error.to_string())?;
            match (answer.status.as_u16(), expected) {
                (200, Some(expected)) if *expected == answer.body => {}
                (404, None) => {}
                (status, _) => return Err(format!("{session}: {status} {}", document(&answer))),
            }
        }
        let lines: Vec<_> = self.log.lines().collect();
        for question in
            ["limit=10000", "event=tmm_crosscheck", "event=verdict_cached", "event=verdict_purged"]
        {
            let path = format!("/v1/log?after=0&limit=10000&{}", question.trim_start_matches("limit=10000"));
            let answer =
                control.call(hyper::Method::GET, &path, None).await.map_err(|error| error.to_string())?;
            let event = question.strip_prefix("event=").unwrap_or_default();
            let logged_lines = lines.iter().filter(|line| line.contains(&format!(r#""event":"{event}"#)));
            let text = String::from_utf8_lossy(&answer.body);
            let mut answered = text.lines();
            // entries that the daemon itself has logged since then follow
            if answer.status != 200 || !logged_lines.into_iter().all(|line| answered.next() == Some(line)) {
                return Err(format!("{question}: {} {}", answer.status, text.lines().count()));
            }
        }
        Ok(())
    }
}

/// Result of starting a daemon on a damaged state.
#[derive(Debug, PartialEq, Eq)]
enum StartOutcome {
    /// The daemon serves everything.
    Serves,
    /// The daemon has ended with this line.
    Refuses(String),
}

/// Starts a daemon on `world` and checks that it either serves everything or refuses with one line.
async fn start_outcome(whole: &UndamagedState, world: &DaemonWorld, what: &str) -> StartOutcome {
    let mut daemon = world.spawn();
    let began = Instant::now();
    loop {
        if daemon.exit_status().is_some() {
            return refusal_outcome(world, daemon, what);
        }
        assert!(
            began.elapsed() < PATIENCE,
            "{what}: the daemon neither serves nor refuses: {}",
            world.service_log()
        );
        if world.is_answering().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let began = Instant::now();
    while daemon.exit_status().is_none() {
        let Err(wrong) = whole.compare_answers(world).await else { return StartOutcome::Serves };
        assert!(
            began.elapsed() < REPAIR,
            "{what}: the daemon continues to serve, although {wrong}: {}",
            world.service_log()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    refusal_outcome(world, daemon, what)
}

fn refusal_outcome(world: &DaemonWorld, daemon: DaemonProcess<'_>, what: &str) -> StartOutcome {
    let log_text = world.service_log();
    assert_eq!(daemon.wait().code(), Some(1), "{what}: {log_text}");
    // entries of the audit log that the damaged store could not take are not the reason
    let is_logged = |line: &&str| line.starts_with("20") || line.starts_with(r#"{"log_fallback":true"#);
    let mut plain = log_text.lines().filter(|line| !is_logged(line));
    let line = plain.next().and_then(|line| line.strip_prefix("oracled: ")).unwrap_or_default();
    assert!(
        !line.is_empty() && plain.next().is_none(),
        "{what}: expected one line with the reason: {log_text}"
    );
    for noise in ["panicked", "backtrace", "place="] {
        assert!(!log_text.contains(noise), "{what}: {noise}: {log_text}");
    }
    let instructions = ["restore a backup with `oraclectl restore`", "must be readable and writable"];
    let newer = "run the oracled that wrote it";
    assert!(instructions.iter().chain([&newer]).any(|words| line.contains(words)), "{what}: {line}");
    StartOutcome::Refuses(line.to_owned())
}

fn write(world: &DaemonWorld, file: &str, content: impl AsRef<[u8]>) {
    fs::write(world.state().join(file), content).expect("the write succeeds");
}

fn read(world: &DaemonWorld, file: &str) -> Vec<u8> {
    fs::read(world.state().join(file)).expect("the read succeeds")
}

fn remove(world: &DaemonWorld, file: &str) {
    let path = world.state().join(file);
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
        .expect("the removal succeeds");
}

/// Flips a byte or truncates a file of the database or of the segments, at a random position in its used part. Returns what it has
/// done.
fn damage(world: &DaemonWorld, rng: &mut fastrand::Rng) -> String {
    let dir = world.state().join(if rng.bool() { "store" } else { "segments" });
    let entries = fs::read_dir(dir).expect("the read succeeds");
    let files: Vec<_> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()).collect();
    let file = rng.choice(&files).expect("the folder has files");
    let bytes = fs::read(file).expect("the read succeeds");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("the file is not empty");
    let place = rng.usize(0..=end);
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let opened = OpenOptions::new().write(true).open(file).expect("the file opens");
    if rng.u8(0..4) == 0 {
        opened.set_len(place as u64).expect("the file is truncated");
        return format!("{name} cut at {place} of {end}");
    }
    let flip = rng.u8(1..);
    let byte = bytes.get(place).expect("the place is within") ^ flip;
    opened.write_all_at(&[byte], place as u64).expect("the write succeeds");
    format!("{name} byte {place} of {end} flipped by {flip:#04x}")
}

async fn damage_anywhere(places: usize) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let whole = UndamagedState::create().await;
    let (mut served, mut found) = (0, 0);
    // with few random positions, it can happen that none has an effect
    while served < places || found == 0 && served < 10 * places {
        let world = whole.copy_to_new_world();
        let what = damage(&world, &mut rng);
        assert_eq!(start_outcome(&whole, &world, &what).await, StartOutcome::Serves, "{what}");
        served += 1;
        found += usize::from(world.service_log().contains("damaged"));
    }
    println!("{served} places: all served completely, {found} found to be damaged");
    assert!(found > 0, "some damage is found");
}

#[tokio::test]
async fn damage_at_random_positions_is_never_silent() {
    damage_anywhere(16).await;
}

#[tokio::test]
#[ignore = "200 daemons on 200 damaged databases; `just torture`"]
async fn damage_at_200_random_positions_is_never_silent() {
    damage_anywhere(200).await;
}

/// Expected result of a change to a state.
enum ExpectedStart {
    Serves,
    /// The daemon refuses with a line that contains this text.
    Refuses(&'static str),
    /// The older mark may name the same snapshot of the database, or another one.
    ServesOrRefuses(&'static str),
}
use ExpectedStart::{Refuses, Serves, ServesOrRefuses};

/// A change to a state. The second world has an older copy of the same state.
type TamperFn = fn(&DaemonWorld, &DaemonWorld);

/// The cases: name, change and expected result.
const TAMPERED: [(&str, TamperFn, ExpectedStart); 29] = [
    ("nothing", |_, _| {}, Serves),
    ("no database", |now, _| remove(now, "store/db"), Serves),
    ("an empty database", |now, _| write(now, "store/db", ""), Serves),
    ("something else as database", |now, _| write(now, "store/db", [b'?'; 9000]), Serves),
    (
        "a folder as database",
        |now, _| {
            remove(now, "store/db");
            fs::create_dir(now.state().join("store/db")).expect("the directory is created");
        },
        Refuses("store"),
    ),
    ("no store", |now, _| remove(now, "store"), Serves),
    ("no settings of the database", |now, _| remove(now, "store/conf"), Serves),
    ("no snapshot of the database", |now, _| remove(now, &snapshot(now)), Serves),
    (
        "an older store",
        |now, before| {
            remove(now, "store");
            copy_dir(&before.state().join("store"), &now.state().join("store"));
        },
        Serves,
    ),
    ("no segments", |now, _| remove(now, "segments"), Serves),
    ("an empty segment", |now, _| write(now, &last_segment(now), ""), Serves),
    ("a foreign segment", |now, _| write(now, &last_segment(now), [b'?'; 9000]), Serves),
    ("older segments", |now, before| replace_segments(now, before), Serves),
    (
        "older segments and their mark",
        |now, before| {
            replace_segments(now, before);
            write(now, "watermark", read(before, "watermark"));
        },
        ServesOrRefuses("oracle_log.jsonl at entry"),
    ),
    (
        "an empty segment and an older store",
        |now, before| {
            write(now, &last_segment(now), "");
            remove(now, "store");
            copy_dir(&before.state().join("store"), &now.state().join("store"));
        },
        Serves,
    ),
    (
        "an empty segment with an empty copy",
        |now, _| {
            write(now, &last_segment(now), "");
            write(now, &last_segment(now).replace("segments/", "segments.copy/"), "");
        },
        // a database with all entries replaces the segment
        ServesOrRefuses("its head is damaged"),
    ),
    ("no copies of segments", |now, _| remove(now, "segments.copy"), Serves),
    (
        "an empty copy",
        |now, _| write(now, &last_segment(now).replace("segments/", "segments.copy/"), ""),
        Serves,
    ),
    (
        "an older store and its mark",
        |now, before| {
            remove(now, "store");
            copy_dir(&before.state().join("store"), &now.state().join("store"));
            write(now, "watermark", read(before, "watermark"));
        },
        Serves,
    ),
    ("an older mark", |now, before| write(now, "watermark", read(before, "watermark")), Serves),
    ("no mark", |now, _| remove(now, "watermark"), Serves),
    ("an empty mark", |now, _| write(now, "watermark", ""), Serves),
    ("a mark of zeros", |now, _| write(now, "watermark", vec![0; read(now, "watermark").len()]), Serves),
    (
        "no mark and no segments",
        |now, _| {
            remove(now, "watermark");
            remove(now, "segments");
        },
        Serves,
    ),
    (
        "no mark, no segments and no copies",
        |now, _| {
            ["watermark", "segments", "segments.copy"].iter().for_each(|part| remove(now, part));
        },
        Refuses("its segments are missing"),
    ),
    ("no mirror", |now, _| remove(now, "oracle_log.jsonl"), Serves),
    ("garbage for a mirror", |now, _| write(now, "oracle_log.jsonl", [0xff; 5000]), Serves),
    ("a mirror with another line", |now, _| append(now, "oracle_log.jsonl", b"{\"seq\":99999999}\n"), Serves),
    (
        "a mirror that knows more",
        |now, _| {
            let next = now.mirror().lines().count() + 1;
            append(now, "oracle_log.jsonl", format!("{{\"seq\":{next}}}\n").as_bytes());
        },
        Refuses("oracle_log.jsonl at entry"),
    ),
];

/// Path of the last segment.
fn last_segment(world: &DaemonWorld) -> String {
    let names = fs::read_dir(world.state().join("segments")).expect("the read succeeds");
    let names = names.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    let last = names.filter(|name| name.parse::<u64>().is_ok()).max();
    format!("segments/{}", last.expect("at least one"))
}

fn replace_segments(now: &DaemonWorld, before: &DaemonWorld) {
    remove(now, "segments");
    copy_dir(&before.state().join("segments"), &now.state().join("segments"));
}

fn append(world: &DaemonWorld, file: &str, content: &[u8]) {
    write(world, file, [&read(world, file), content].concat());
}

/// Path of sled's snapshot.
fn snapshot(world: &DaemonWorld) -> String {
    let names = fs::read_dir(world.state().join("store")).expect("the read succeeds");
    let names = names.filter_map(|entry| entry.expect("an entry").file_name().into_string().ok());
    let snapshot = names.filter(|name| name.starts_with("snap.")).max();
    format!("store/{}", snapshot.expect("at least one"))
}

/// A state, and a copy of it from before the last writes.
async fn state_and_older_copy() -> (UndamagedState, DaemonWorld) {
    let before = UndamagedState::create().await;
    let world = before.copy_to_new_world();
    let daemon = world.serve().await;
    let routes = &mut daemon.routes().await;
    for n in 0..20 {
        assert_eq!(post(routes, &format!("/v1/verdicts/later-{n}"), &submission(GOOD)).await.status, 201);
    }
    let mut documents = before.documents;
    for n in 0..20 {
        let document = get(routes, &format!("/v1/verdicts/later-{n}")).await.body.to_vec();
        documents.insert(format!("later-{n}"), Some(document));
    }
    assert!(daemon.stop().success());
    let log = world.mirror();
    (UndamagedState { world, log, documents }, before.world)
}

#[tokio::test]
async fn changed_state_is_served_completely_or_refused() {
    let (whole, before) = state_and_older_copy().await;
    for (what, tamper, expected) in TAMPERED {
        let world = whole.copy_to_new_world();
        tamper(&world, &before);
        match (start_outcome(&whole, &world, what).await, expected) {
            (StartOutcome::Serves, Serves | ServesOrRefuses(_)) => {}
            (StartOutcome::Refuses(line), Refuses(words) | ServesOrRefuses(words)) => {
                assert!(line.contains(words), "{what}: {line}");
            }
            (other, _) => panic!("{what}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn watermark_slot_with_a_flipped_byte_is_replaced_by_the_other_slot() {
    let (whole, _) = state_and_older_copy().await;
    let mark = read(&whole.world, "watermark");
    let used: Vec<_> = (0..mark.len()).filter(|place| mark[*place] != 0).collect();
    for place in used.iter().step_by(used.len() / 12) {
        let world = whole.copy_to_new_world();
        let mut flipped = mark.clone();
        flipped[*place] ^= 0x40;
        write(&world, "watermark", flipped);
        let what = format!("byte {place} of the mark flipped");
        assert_eq!(start_outcome(&whole, &world, &what).await, StartOutcome::Serves, "{what}");
    }
}

#[tokio::test]
async fn mirror_with_a_torn_or_garbled_end_is_repaired() {
    let whole = UndamagedState::create().await;
    let last_line = whole.log.lines().last().expect("the log is not empty").len() + 1;
    let ends: [(&str, Vec<u8>); 4] = [
        ("a torn line", whole.log.as_bytes()[..whole.log.len() - last_line / 2].to_vec()),
        ("a lost line", whole.log.as_bytes()[..whole.log.len() - last_line].to_vec()),
        ("garbage", [whole.log.as_bytes(), &[0xfe; 3000]].concat()),
        ("zeros and line ends", [whole.log.as_bytes(), b"\0\0\0\n\0\0\n"].concat()),
    ];
    for (what, mirror) in ends {
        let world = whole.copy_to_new_world();
        write(&world, "oracle_log.jsonl", mirror);
        assert_eq!(start_outcome(&whole, &world, what).await, StartOutcome::Serves, "{what}");
        let daemon = world.serve().await;
        check_served(&mut daemon.control().await, &world.state()).await;
    }
}

#[tokio::test]
async fn newer_schema_version_is_refused_and_not_changed() {
    let whole = UndamagedState::create().await;
    let world = whole.copy_to_new_world();
    let mut mark = read(&world, "watermark");
    // a slot has a magic number, schema, counts, mirrored number and checksum
    let slots: Vec<_> = (0..mark.len()).filter(|at| mark[*at..].starts_with(b"oracledW")).collect();
    assert_eq!(slots.len(), 2);
    let known = u32::from_be_bytes(mark[slots[0] + 8..slots[0] + 12].try_into().expect("4 bytes"));
    for at in slots {
        mark[at + 8..at + 12].copy_from_slice(&(known + 1).to_be_bytes());
        let sum = crc32fast::hash(&mark[at..at + 164]).to_be_bytes();
        mark[at + 164..at + 168].copy_from_slice(&sum);
    }
    write(&world, "watermark", &mark);
    let StartOutcome::Refuses(line) = start_outcome(&whole, &world, "a newer schema").await else {
        panic!("it is served");
    };
    let fault = format!("schema version {}, and this oracled reads versions up to {known}", known + 1);
    assert!(line.contains(&fault), "{line}");
    assert_eq!(read(&world, "watermark"), mark);
    assert_eq!(read(&world, "oracle_log.jsonl"), whole.log.as_bytes());
}

#[tokio::test]
async fn error_names_a_state_directory_that_is_not_writable() {
    let whole = UndamagedState::create().await;
    let world = DaemonWorld::default();
    // a file instead of the directory
    fs::write(world.state(), "").expect("the write succeeds");
    let StartOutcome::Refuses(line) = start_outcome(&whole, &world, "a file").await else {
        panic!("the state is served")
    };
    assert!(line.contains(&world.state().display().to_string()), "{line}");

    let mut world = whole.copy_to_new_world();
    let set_modes = |state: &Path, mode| {
        for path in [state, &state.join("store")] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the values are set");
        }
    };
    let state = world.state();
    set_modes(&state, 0o555);
    if fs::write(world.state().join("probe"), "").is_ok() {
        // root can write in spite of the modes, so the daemon runs as another user, who must be able to reach the
        // directory
        remove(&world, "probe");
        world.wrapper =
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(String::from).into();
        fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o777)).expect("the values are set");
        let mut probe = std::process::Command::new("setpriv");
        probe.args(&world.wrapper[1..]).arg(oracled_tests::program("oracled")).arg("--version");
        if !probe.output().is_ok_and(|probed| probed.status.success()) {
            println!("skipped: no other user can run the daemon on this machine");
            return;
        }
    }
    let refused = start_outcome(&whole, &world, "no rights").await;
    // otherwise the temporary directory could not be removed
    set_modes(&state, 0o755);
    let StartOutcome::Refuses(line) = refused else { panic!("the state is served") };
    assert!(line.contains("Permission denied") && line.contains("state"), "{line}");
}

/// Changes a bit in the middle of a file in place: a copy of the file has other bytes than the one that the daemon has open.
fn flip_middle(world: &DaemonWorld, file: &str) {
    let path = world.state().join(file);
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the file opens");
    let middle = file.metadata().expect("a length").len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).expect("the file is readable");
    file.write_all_at(&[byte[0] ^ 4], middle).expect("the write succeeds");
}

/// The segment that holds the verdicts of the next tests.
const SEALED: &str = "segments/0000000001.zst";

/// A daemon with three sessions, of which the first ones are in a sealed segment, each with an address. It was stopped.
async fn with_sealed_segment() -> DaemonWorld {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    for n in 0..3 {
        let texts: Vec<_> = (0..4000).map(|at| format!("{n} {at} {}", at * 7919 % 997)).collect();
        let raw = json!({"verdict": "GREEN", "summary": texts.join(", ")}).to_string();
        let mut body = submission(&raw);
        body["customer_email"] = json!(format!("person{n}@example.org"));
        let path = format!("/v1/verdicts/cs_{n}");
        assert_eq!(post(&mut daemon.routes().await, &path, &body).await.status, 201);
    }
    eventually("the first segment is compressed", async || world.state().join(SEALED).exists()).await;
    assert!(daemon.stop().success());
    world
}

fn key_of(world: &DaemonWorld) -> String {
    let key = world.ctl(&["log", "key"]).stdout;
    String::from_utf8(key).expect("valid UTF-8").trim().to_owned()
}

async fn status_of(daemon: &DaemonProcess<'_>) -> Value {
    document(&get(&mut daemon.control().await, "/v1/status").await)
}

async fn gauge(daemon: &DaemonProcess<'_>, name: &str) -> String {
    let metrics = get(&mut daemon.routes().await, "/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).expect("valid UTF-8");
    let is_named = |line: &&str| line.split(' ').next() == Some(name);
    text.lines().find(is_named).expect("the gauge").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_served_from_the_copy_while_a_segment_cannot_be_repaired() {
    let world = with_sealed_segment().await;
    flip_middle(&world, SEALED);
    // no file can be written for the repair
    let blocked = world.state().join(SEALED).with_extension("new");
    let daemon = world.serve().await;
    fs::create_dir(&blocked).expect("the folder is created");
    let key = key_of(&world);
    for n in 0..3 {
        let read = get(&mut daemon.routes().await, &format!("/v1/verdicts/cs_{n}")).await;
        assert_eq!(read.status, 200, "{n}");
    }
    let [state, exported, backup] = [world.state(), world.path("exported"), world.path("backup")]
        .map(|path| path.to_str().expect("valid UTF-8").to_owned());
    for arguments in [
        &["explain", "cs_0"][..],
        &["card", "cs_0"],
        &["log", "--json", "--after", "0"],
        &["log", "export", &exported],
        &["verify-log", &state, "--key", &key, "--replay"],
    ] {
        let output = world.ctl_in_thread(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    eventually("the damage is reported", async || {
        let reasons = status_of(&daemon).await["degraded"].to_string();
        reasons.contains("state_damaged since 20") && reasons.contains("segment 1")
    })
    .await;
    assert_eq!(gauge(&daemon, "oracled_segments_damaged").await, "oracled_segments_damaged 1");
    let doctor = world.ctl_in_thread(&["doctor"]).await;
    let report = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(report.contains("state_damaged since 20"), "{doctor:?}");

    fs::remove_dir(&blocked).expect("the removal succeeds");
    let backed_up = world.ctl_in_thread(&["backup", &backup]).await;
    assert!(backed_up.status.success(), "{backed_up:?}");
    eventually("the damage is repaired", async || {
        let status = status_of(&daemon).await;
        status["segment_damage"].is_null() && !status["degraded"].to_string().contains("state_damaged")
    })
    .await;
    assert_eq!(gauge(&daemon, "oracled_segments_damaged").await, "oracled_segments_damaged 0");
    let recovered = get(&mut daemon.control().await, "/v1/log?event=storage_recovered&after=0").await;
    let recovered: Value = serde_json::from_slice(&recovered.body).expect("one entry");
    assert!(recovered["failed_at"].as_str() < recovered["timestamp"].as_str(), "{recovered}");
    assert!(world.ctl_in_thread(&["verify-log", &backup, "--key", &key]).await.status.success());
    assert!(daemon.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_that_cannot_be_written_degrade_the_daemon_until_they_are_written() {
    let world = with_sealed_segment().await;
    let copies = world.state().join("segments.copy");
    fs::remove_dir_all(&copies).expect("the removal succeeds");
    symlink("missing", &copies).expect("the link is created");
    let daemon = world.serve().await;
    eventually("the missing copies are reported", async || {
        let status = status_of(&daemon).await;
        status["copies_missing"].is_string() && status["degraded"].to_string().contains("copies_missing")
    })
    .await;
    assert_eq!(gauge(&daemon, "oracled_copies_missing").await, "oracled_copies_missing 1");
    let doctor = world.ctl_in_thread(&["doctor"]).await;
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    let shown = world.ctl_in_thread(&["status"]).await;
    assert!(String::from_utf8_lossy(&shown.stdout).contains("copies"), "{shown:?}");

    fs::remove_file(&copies).expect("the link is removed");
    let names_in = |folder: &str| -> BTreeSet<_> {
        let files = fs::read_dir(world.state().join(folder)).into_iter().flatten().flatten();
        files.map(|file| file.file_name()).filter(|name| name != "spare").collect()
    };
    eventually("the copies are written", async || {
        let is_whole = names_in("segments") == names_in("segments.copy");
        is_whole && status_of(&daemon).await["copies_missing"].is_null()
    })
    .await;
    assert_eq!(gauge(&daemon, "oracled_copies_missing").await, "oracled_copies_missing 0");
    assert!(daemon.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_by_address_succeeds_while_a_segment_or_its_copy_is_damaged() {
    for damaged in [SEALED, "segments.copy/0000000001.zst"] {
        let world = with_sealed_segment().await;
        let daemon = world.serve().await;
        flip_middle(&world, damaged);
        let erased =
            world.ctl_in_thread(&["erase", "--email", "person0@example.org", "--reason", "asked"]).await;
        assert!(erased.status.success(), "{damaged}: {erased:?}");
        assert_eq!(get(&mut daemon.routes().await, "/v1/verdicts/cs_0").await.status, 404);
        eventually("the damage is repaired", async || status_of(&daemon).await["segment_damage"].is_null())
            .await;
        let key = key_of(&world);
        assert!(daemon.stop().success());
        for folder in ["segments", "segments.copy"] {
            for file in fs::read_dir(world.state().join(folder)).expect("the folder is readable") {
                let path = file.expect("an entry").path();
                let mut content = fs::read(&path).expect("the file is readable");
                if path.extension().is_some() {
                    content = zstd::decode_all(&*content).expect("the file is whole");
                }
                let text = String::from_utf8_lossy(&content);
                assert!(!text.contains("person0@example.org"), "{damaged}: {}", path.display());
            }
        }
        let state = world.state();
        let state = state.to_str().expect("valid UTF-8");
        let verified = world.ctl(&["--json", "verify-log", state, "--key", &key]);
        let report: Value = serde_json::from_slice(&verified.stdout).expect("JSON");
        assert!(!report["notes"].to_string().contains("segments.copy"), "{damaged}: {report}");
    }
}
