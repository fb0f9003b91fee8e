//! The time from starting the process to its first answer, and the memory that it has then, with an empty
//! store and with a full one.

use crate::BenchEffort;
use crate::load::body_of;
use crate::records::session_id;
use crate::standalone_journal::fill_store;
use crate::submit::fill_from;
use crate::table::{BenchRow, BenchTable, at_least, at_most, median, per_second};
use hyper::Method;
use jiff::Timestamp;
use oracled_tests::{DaemonProcess, DaemonWorld, PATIENCE, get};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};
use tokio::runtime;

/// Verdicts submitted before a daemon is killed, which the next start checks: in a small store and in a large one.
const NEW: usize = 10_000;
const NEW_MANY: usize = 100_000;
/// The pause between two attempts to get an answer.
const PAUSE: Duration = Duration::from_micros(200);
/// The idle time before the daemon's memory is read. By then the allocator has returned the freed memory.
const IDLE: Duration = Duration::from_secs(20);
/// The messages that a start logs at level `debug`, each with the phase that ends there.
const PHASES: [(&str, &str); 3] = [
    ("the store is being opened", "process and configuration"),
    ("the database is open", "segments, sled and the check of the log"),
    ("oracled serves", "actors, first entry, sockets"),
];
/// Number of entries that are proved.
const PROOFS: usize = 101;
/// The number of entries that `oraclectl verify-log` should verify in a second.
const VERIFIED_AIM: f64 = 200_000.0;
/// The longest acceptable time of a rebuild, in seconds.
const REBUILD_MAX: Duration = Duration::from_secs(600);
/// The parts of a state directory, with the starts of the paths of their files.
const DISK_PARTS: [(&str, &[&str]); 3] =
    [("segments", &["segments"]), ("database", &["store/"]), ("mirror", &["oracle_log"])];
/// The largest acceptable space for a verdict, in bytes.
const DISK_AIM: f64 = 3000.0;
/// The longest acceptable time of a proof, in milliseconds.
const PROOF_AIM_MS: f64 = 5.0;

/// A store to start on, with the limits to meet.
struct StartCase {
    /// Verdicts in the store.
    stored: usize,
    /// Verdicts submitted before a daemon is killed or stopped.
    new: usize,
    /// The longest time of a start and of a stop.
    aim_ms: f64,
    /// The largest resident memory.
    aim_mib: f64,
}

/// Measures two stores and compares each with an empty one.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let few = StartCase { stored: effort.stored, new: NEW, aim_ms: 100.0, aim_mib: 60.0 };
    let many = StartCase { stored: effort.stored_many, new: NEW_MANY, aim_ms: 1000.0, aim_mib: 100.0 };
    measure_case(effort, &few, table)?;
    measure_case(effort, &many, table)
}

/// Measures the largest store.
pub(crate) fn measure_largest(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let case = StartCase { stored: effort.stored_most, new: NEW_MANY, aim_ms: 10_000.0, aim_mib: 1000.0 };
    measure_case(effort, &case, table)
}

fn measure_case(effort: BenchEffort, case: &StartCase, table: &mut BenchTable) -> io::Result<()> {
    let (mut full, empty) = (DaemonWorld::default(), DaemonWorld::default());
    fill_store(&full.state(), case.stored)?;
    let (from_filled, daemon) = start(&full)?;
    let mut stops = vec![stop(daemon)?];
    let mut starts: Vec<[f64; 3]> = Vec::new();
    for _ in 0..effort.starts {
        let [(from_full, daemon), (from_empty, other)] = [start(&full)?, start(&empty)?];
        stops.push(stop(daemon)?);
        stop(other)?;
        let (_, daemon) = start(&full)?;
        daemon.kill();
        let (from_killed, daemon) = start(&full)?;
        stops.push(stop(daemon)?);
        starts.push([from_full, from_empty, from_killed]);
    }
    let [of_full, of_empty] = [idle_memory_mib(&full)?, idle_memory_mib(&empty)?];
    let (_, daemon) = start(&full)?;
    fill_from(&full.socket(), case.stored, case.new)?;
    daemon.kill();
    let (from_torn, daemon) = start(&full)?;
    fill_from(&full.socket(), case.stored + case.new, case.new)?;
    let stop_after_new = stop(daemon)?;
    let phases = phases(&mut full, effort)?;
    let proof_and_erasure = proof_and_erasure(&full)?;
    let verified = verify_log(&full)?;
    let stored = (case.stored + 2 * case.new) as f64;
    let parts = DISK_PARTS.map(|(part, folders)| (part, disk_bytes(&full.state(), folders) as f64 / stored));
    let rebuilt_s = rebuild(&full)?;
    let of_start = |number: usize| median(starts.iter().filter_map(|start| start.get(number)).copied());
    let [from_full, from_empty, from_killed] = [of_start(0), of_start(1), of_start(2)];
    let before = format!("killed with {} new ones", case.new);
    let starts = [
        ("stopped before", from_full),
        ("killed before", from_killed),
        ("filled before", from_filled),
        (before.as_str(), from_torn),
    ];
    let slowest = stops.into_iter().fold(0.0, f64::max);
    table.group(format!("start, stop and memory with {} full verdicts in the store", case.stored));
    show_times(case, &starts, from_empty, &phases, [slowest, stop_after_new], table);
    table.row(BenchRow {
        what: "resident memory, idle".into(),
        measured: format!("{of_full:.1} MiB"),
        baseline: "with an empty store".into(),
        baseline_measured: format!("{of_empty:.1} MiB"),
        verdict: format!(
            "{:.2}{}",
            of_full / of_empty,
            at_most(of_full, case.aim_mib, &format!(": {} MiB", case.aim_mib))
        ),
        ..BenchRow::default()
    });
    show_log_rows(proof_and_erasure, verified, rebuilt_s, table);
    show_disk(&parts, table);
    Ok(())
}

/// Adds the bytes on the disk for each verdict to the table.
fn show_disk(parts: &[(&str, f64)], table: &mut BenchTable) {
    let total: f64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let list: Vec<_> = parts.iter().map(|(part, bytes)| format!("{part} {:.2}", bytes / 1000.0)).collect();
    table.row(BenchRow {
        what: "disk for a verdict".into(),
        measured: format!("{:.2} KB", total / 1000.0),
        baseline: list.join(", "),
        verdict: at_most(total, DISK_AIM, &format!(": {:.0} KB", DISK_AIM / 1000.0)),
        ..BenchRow::default()
    });
}

/// The bytes that the files in the state directory take whose paths begin with one of `starts`.
fn disk_bytes(state: &Path, starts: &[&str]) -> u64 {
    let mut folders = vec![state.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, Ok(found)) = (entry.path(), entry.metadata()) else { continue };
            let name = path.strip_prefix(state).unwrap_or(&path).to_string_lossy().into_owned();
            if found.is_dir() {
                folders.push(path);
            } else if starts.iter().any(|start| name.starts_with(start)) {
                bytes += 512 * found.blocks();
            }
        }
    }
    bytes
}

/// Adds the times of proofs, of an erasure, of a rebuild and of `oraclectl verify-log` to the table.
fn show_log_rows(
    [proof_p50, proof_p99, erasure_s]: [f64; 3],
    (entries, verified_s): (f64, f64),
    rebuilt_s: f64,
    table: &mut BenchTable,
) {
    table.row(BenchRow {
        what: "proof of one entry".into(),
        measured: format!("{proof_p50:.2} ms (p50)"),
        baseline: "the slowest of 100".into(),
        baseline_measured: format!("{proof_p99:.2} ms (p99)"),
        verdict: at_most(proof_p99, PROOF_AIM_MS, &format!(": {PROOF_AIM_MS} ms")),
        ..BenchRow::default()
    });
    table.row(BenchRow {
        what: "erasure of one session".into(),
        measured: format!("{erasure_s:.1} s"),
        ..BenchRow::default()
    });
    table.row(BenchRow {
        what: "start that rebuilds the database".into(),
        measured: format!("{rebuilt_s:.1} s"),
        ..BenchRow::default()
    });
    let rate = entries / verified_s;
    table.row(BenchRow {
        what: format!("verify-log of {entries} entries"),
        measured: per_second(rate),
        baseline: "the aim".into(),
        baseline_measured: per_second(VERIFIED_AIM),
        verdict: at_least(rate / VERIFIED_AIM, 1.0),
        ..BenchRow::default()
    });
}

/// The number of entries that `oraclectl verify-log` verifies in the state directory, and its time in seconds.
fn verify_log(world: &DaemonWorld) -> io::Result<(f64, f64)> {
    let key = {
        let (_, daemon) = start(world)?;
        let key = world.ctl(&["log", "key"]);
        stop(daemon)?;
        String::from_utf8_lossy(&key.stdout).trim().to_owned()
    };
    let state = world.state();
    let began = Instant::now();
    // the largest log takes longer than a test waits
    let verified =
        world.ctl_command(&["--json", "verify-log", &state.to_string_lossy(), "--key", &key]).output()?;
    let took = began.elapsed().as_secs_f64();
    let shown: Value = serde_json::from_slice(&verified.stdout)?;
    let entries = shown.get("size").and_then(Value::as_f64);
    entries.map(|entries| (entries, took)).ok_or_else(|| io::Error::other(format!("{verified:?}")))
}

/// The time of a start without a database, in seconds.
fn rebuild(world: &DaemonWorld) -> io::Result<f64> {
    fs::remove_dir_all(world.state().join("store"))?;
    let began = Instant::now();
    let daemon = world.spawn();
    while body_of(&world.socket(), "/healthz").is_err() {
        if began.elapsed() > REBUILD_MAX {
            return Err(io::Error::other(format!("the daemon does not start: {}", world.service_log())));
        }
        sleep(PAUSE);
    }
    let took = began.elapsed().as_secs_f64();
    stop(daemon)?;
    Ok(took)
}

/// The times of the proofs of random entries in milliseconds (p50, p99), and of the erasure of a session in seconds.
fn proof_and_erasure(world: &DaemonWorld) -> io::Result<[f64; 3]> {
    let (_, daemon) = start(world)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(async {
        let mut control = daemon.control().await;
        let checkpoint = get(&mut control, "/v1/log/checkpoint").await;
        let text = String::from_utf8_lossy(&checkpoint.body).into_owned();
        let size: u64 = text.lines().nth(1).and_then(|size| size.parse().ok()).unwrap_or_default();
        let (mut random, mut times) = (fastrand::Rng::with_seed(20), Vec::new());
        for _ in 0..PROOFS {
            let path = format!("/v1/log/proof?seq={}&size={size}", random.u64(1..=size));
            let began = Instant::now();
            if get(&mut control, &path).await.status != 200 {
                return Err(io::Error::other("an entry cannot be proved"));
            }
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let erasure = json!({"session_id": session_id(0), "reason": "measured"});
        let began = Instant::now();
        let body = erasure.to_string().into();
        let erased = control.call_without_timeout(Method::POST, "/v1/erasures", body).await;
        if !erased.is_ok_and(|answer| answer.status == 200) {
            return Err(io::Error::other("a session was not erased"));
        }
        let quantile = |part: usize| times.get((times.len() - 1) * part / 100).copied().unwrap_or_default();
        Ok([quantile(50), quantile(99), began.elapsed().as_secs_f64()])
    });
    stop(daemon)?;
    measured
}

/// Adds the times of starts, of their phases, and of stops to the table.
fn show_times(
    case: &StartCase,
    starts: &[(&str, f64)],
    from_empty: f64,
    phases: &[(&str, f64)],
    [stop_slowest, stop_after_new]: [f64; 2],
    table: &mut BenchTable,
) {
    let aim_ms = format!(": {} ms", case.aim_ms);
    for (what, took) in starts.iter().copied() {
        table.row(BenchRow {
            what: format!("start to ready, {what}"),
            measured: format!("{took:.1} ms"),
            baseline: "with an empty store".into(),
            baseline_measured: format!("{from_empty:.1} ms"),
            verdict: format!("{:.2}{}", took / from_empty, at_most(took, case.aim_ms, &aim_ms)),
            ..BenchRow::default()
        });
    }
    for (phase, took) in phases {
        table.row(BenchRow {
            what: format!("    of it {phase}"),
            measured: format!("{took:.1} ms"),
            ..BenchRow::default()
        });
    }
    for (what, took) in [
        ("right after a start, the slowest".to_owned(), stop_slowest),
        (format!("after {} new ones", case.new), stop_after_new),
    ] {
        table.row(BenchRow {
            what: format!("stop, {what}"),
            measured: format!("{took:.1} ms"),
            verdict: at_most(took, case.aim_ms, &aim_ms),
            ..BenchRow::default()
        });
    }
}

/// The resident memory of an idle daemon in MiB.
fn idle_memory_mib(world: &DaemonWorld) -> io::Result<f64> {
    let (_, daemon) = start(world)?;
    sleep(IDLE);
    let bytes = daemon.resident_bytes()?;
    drop(daemon);
    Ok(bytes as f64 / f64::from(1 << 20))
}

/// Stops a daemon and returns the time in milliseconds.
fn stop(daemon: DaemonProcess<'_>) -> io::Result<f64> {
    let began = Instant::now();
    if !daemon.stop().success() {
        return Err(io::Error::other("a daemon stopped with an error"));
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// Starts a daemon. Returns the time to its first answer in milliseconds.
fn start(world: &DaemonWorld) -> io::Result<(f64, DaemonProcess<'_>)> {
    let began = Instant::now();
    let daemon = world.spawn();
    while body_of(&world.socket(), "/healthz").is_err() {
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("the daemon does not start: {}", world.service_log())));
        }
        sleep(PAUSE);
    }
    Ok((began.elapsed().as_secs_f64() * 1e3, daemon))
}

/// The times of the phases of a start in milliseconds, as medians of several starts.
fn phases(world: &mut DaemonWorld, effort: BenchEffort) -> io::Result<Vec<(&'static str, f64)>> {
    world.variables = [("ORACLED_LOG_LEVEL", "debug"), ("ORACLED_LOG_FORMAT", "json")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let mut taken = vec![Vec::new(); PHASES.len()];
    for _ in 0..effort.starts {
        let bytes_before = world.service_log().len();
        let mut last = Timestamp::now();
        let (_, daemon) = start(world)?;
        let log = world.service_log().split_off(bytes_before);
        daemon.stop();
        for ((message, _), taken) in PHASES.iter().zip(&mut taken) {
            let at = log.lines().find_map(|line| message_time(line, message));
            let at = at.ok_or_else(|| io::Error::other(format!("a start did not log: {message}")))?;
            taken.push(at.duration_since(last).as_secs_f64() * 1e3);
            last = at;
        }
    }
    world.variables.clear();
    Ok(PHASES.iter().zip(taken).map(|((_, phase), taken)| (*phase, median(taken))).collect())
}

/// The timestamp of a line of the service log, if it has this message.
fn message_time(line: &str, message: &str) -> Option<Timestamp> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line.pointer("/fields/message")? != message {
        return None;
    }
    line.get("timestamp")?.as_str()?.parse().ok()
}
