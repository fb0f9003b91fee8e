//! Durable submissions over the socket. They are compared with the journal alone with as many writers, and
//! with writing and syncing the same bytes to a file in groups of the same sizes. The file is written once at
//! its end, so that the file system commits a new length each time, and once over existing bytes.

use crate::load::{LoadConnections, LoadRound, RoundEnd, body_of, nanoseconds, post};
use crate::machine::cpu_ns;
use crate::read::all_latencies;
use crate::records::{QUERY, record, session_id, text};
use crate::standalone_journal::StandaloneJournal;
use crate::table::{BenchRow, BenchTable, at_least, cpu_each, histogram, median, per_second};
use crate::{BenchEffort, CONNECTIONS};
use oracled_domain::ProductTier;
use oracled_tests::DaemonWorld;
use serde_json::json;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime;

/// The required ratio with the highest number of connections.
const AIM: f64 = 0.5;
/// The lowest number of submissions in a round, for any number of connections.
const SUBMISSIONS_MIN: usize = 600;

/// Submits full verdicts of `sessions` sessions, beginning with number `from`.
pub(crate) fn fill_from(socket: &Path, from: usize, sessions: usize) -> io::Result<()> {
    submit(socket, 64, sessions, &mut (from..)).map(drop)
}

fn submit(
    socket: &Path,
    connections: usize,
    submissions: usize,
    numbers: &mut impl Iterator<Item = usize>,
) -> io::Result<LoadRound> {
    let body = json!({"tier": "full", "query": QUERY, "raw": text(ProductTier::Full)}).to_string();
    let mut load = LoadConnections::connect(socket, connections)?;
    load.round(RoundEnd::Sent(submissions), 201, |request| {
        let number = numbers.next().expect("the range is endless");
        post(request, &format!("/v1/verdicts/{}", session_id(number)), &body)
            .expect("a write to memory succeeds");
    })
}

/// Measures each number of connections.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let world = DaemonWorld::default();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let daemon = runtime.block_on(world.serve());
    let mut alone = StandaloneJournal::open(&world.path("alone"))?;
    let (mut growing, mut grown) = (File::create(world.path("growing"))?, File::create(world.path("grown"))?);
    let record_bytes = serde_json::to_vec(&record(0))?.len();
    let (mut numbers, mut records) = (0.., (0..).map(|number| vec![record(number)]));

    table.group(format!(
        "durable submit over the socket, full verdicts of {} bytes that make records of {record_bytes} bytes; \
         ratio: rate of oracled over rate of the baseline",
        text(ProductTier::Full).len()
    ));
    for connections in CONNECTIONS {
        let submissions = (connections * effort.submissions).max(SUBMISSIONS_MIN);
        let before = groups_of_daemon(&world.socket())?;
        let [mut over_socket, mut by_journal, mut by_append, mut by_overwriting] = [const { Vec::new() }; 4];
        let (mut groups, mut cpu) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            let cpu_before = cpu_ns(daemon.pid())?;
            over_socket.push(submit(&world.socket(), connections, submissions, &mut numbers)?);
            cpu.push((cpu_ns(daemon.pid())? - cpu_before) as f64 / submissions as f64);
            let (round, in_groups) = alone.round(connections, submissions, Duration::ZERO, &mut records)?;
            by_journal.push(round);
            by_append.push(write_and_sync(&mut growing, &in_groups, record_bytes)?);
            fill_up(&mut grown, submissions * record_bytes)?;
            by_overwriting.push(write_and_sync(&mut grown, &in_groups, record_bytes)?);
            groups.extend(in_groups);
        }
        let after = groups_of_daemon(&world.socket())?;
        let our_group = (after.0 - before.0) / (after.1 - before.1);
        let journal_group = (effort.rounds * submissions) as f64 / groups.len() as f64;
        let [ours, journal] =
            [&over_socket, &by_journal].map(|rounds| median(rounds.iter().map(|round| round.rate)));
        let most = CONNECTIONS.last() == Some(&connections);
        let ratio = ours / journal;
        table.row(BenchRow {
            what: format!("{connections:2} connections, groups of {our_group:.1}"),
            measured: per_second(ours),
            cpu: cpu_each(median(cpu)),
            latencies: all_latencies(&over_socket),
            baseline: format!("journal alone, groups of {journal_group:.1}"),
            baseline_measured: per_second(journal),
            baseline_latencies: all_latencies(&by_journal),
            verdict: if most { at_least(ratio, AIM) } else { format!("{ratio:.2}") },
            ..BenchRow::default()
        });
        for (what, rounds) in [("append", &by_append), ("overwrite", &by_overwriting)] {
            let rate = median(rounds.iter().map(|round| round.rate));
            table.row(BenchRow {
                baseline: format!("{what} and fdatasync, same groups"),
                baseline_measured: per_second(rate),
                baseline_latencies: all_latencies(rounds),
                verdict: format!("{:.2}", ours / rate),
                ..BenchRow::default()
            });
        }
    }
    Ok(())
}

/// The numbers of records and groups that the daemon has committed, from its metrics.
fn groups_of_daemon(socket: &Path) -> io::Result<(f64, f64)> {
    let metrics = String::from_utf8(body_of(socket, "/metrics")?).map_err(io::Error::other)?;
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        line.ok_or_else(|| io::Error::other(format!("the metrics hold no {name}")))
    };
    Ok((value("oracled_journal_group_records_sum ")?, value("oracled_journal_group_records_count ")?))
}

/// Writes `bytes` bytes to `file`, syncs it, and goes back to its start.
fn fill_up(file: &mut File, bytes: usize) -> io::Result<()> {
    file.rewind()?;
    file.write_all(&vec![b'y'; bytes])?;
    file.sync_all()?;
    file.rewind()
}

/// Writes the same number of bytes in the same groups, and syncs each group.
fn write_and_sync(file: &mut File, groups: &[usize], record_bytes: usize) -> io::Result<LoadRound> {
    let mut latencies = histogram();
    let bytes = vec![b'x'; record_bytes * groups.iter().max().copied().unwrap_or_default()];
    let began = Instant::now();
    for group in groups {
        let one_began = Instant::now();
        file.write_all(bytes.get(..group * record_bytes).unwrap_or_default())?;
        file.sync_data()?;
        latencies.saturating_record(nanoseconds(one_began.elapsed()));
    }
    let requests = groups.iter().sum();
    Ok(LoadRound { requests, rate: requests as f64 / began.elapsed().as_secs_f64(), latencies })
}
