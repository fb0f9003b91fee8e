//! Durable submissions over the socket. They are compared with the journal alone with as many writers, and
//! with writing and syncing the same bytes to a file in groups of the same sizes. The file is written once at
//! its end, so that the file system commits a new length each time, and once over existing bytes. Where
//! `redis-server` is installed, it stores the same bytes with `appendfsync always`.

use crate::load::{LoadConnections, LoadRound, RoundEnd, body_of, nanoseconds, post};
use crate::machine::cpu_ns;
use crate::read::all_latencies;
use crate::records::{QUERY, record, session_id, text};
use crate::redis::RedisServer;
use crate::standalone_journal::{StandaloneJournal, fill_store};
use crate::table::{BenchRow, BenchTable, at_least, cpu_each, histogram, median, per_second};
use crate::{BenchEffort, CONNECTIONS, tree};
use domain_verdict::label::ProductTier;
use oracled_store::{JournalRecord, RowWrite};
use oracled_tests::{DaemonProcess, DaemonWorld};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime;

/// The required ratio to the journal alone with the highest number of connections.
const AIM: f64 = 0.5;
/// The required ratio to appending and syncing the same bytes, with an empty store and with a filled one.
const APPEND_AIM: f64 = 0.5;
const APPEND_AIM_STORED: f64 = 0.35;
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

/// A daemon and its peers, with the same sessions stored before.
struct SubmitSides<'w> {
    world: &'w DaemonWorld,
    daemon: DaemonProcess<'w>,
    alone: StandaloneJournal,
    /// Files that are written at their end, and over existing bytes.
    growing: File,
    grown: File,
    redis: Option<RedisServer>,
    /// The next session of the daemon, of the journal and of Redis.
    next: [usize; 3],
    record_bytes: usize,
}

/// The rounds of one number of connections.
#[derive(Default)]
struct SubmitRounds {
    over_socket: Vec<LoadRound>,
    by_journal: Vec<LoadRound>,
    by_append: Vec<LoadRound>,
    by_overwriting: Vec<LoadRound>,
    by_redis: Vec<LoadRound>,
    /// The sizes of the groups of the journal alone.
    groups: Vec<usize>,
    /// The processor time of a submission, in nanoseconds.
    cpu: Vec<f64>,
}

/// Measures each number of connections with an empty store, and the highest one with a filled store.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let journal_rate = measure_with(0, &CONNECTIONS, APPEND_AIM, effort, table)?;
    tree::show(journal_rate, table);
    let most = CONNECTIONS.last().copied();
    measure_with(effort.stored, most.as_slice(), APPEND_AIM_STORED, effort, table).map(drop)
}

/// Measures with `stored` sessions in each store. Returns the rate of the journal alone with the last number of connections.
fn measure_with(
    stored: usize,
    connections: &[usize],
    append_aim: f64,
    effort: BenchEffort,
    table: &mut BenchTable,
) -> io::Result<f64> {
    let world = DaemonWorld::default();
    if stored > 0 {
        fill_store(&world.state(), stored)?;
        fill_store(&world.path("alone"), stored)?;
    }
    let redis_dir = world.path("redis");
    fs::create_dir(&redis_dir)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut sides = SubmitSides {
        daemon: runtime.block_on(world.serve()),
        world: &world,
        alone: StandaloneJournal::open(&world.path("alone"))?,
        growing: File::create(world.path("growing"))?,
        grown: File::create(world.path("grown"))?,
        redis: if stored > 0 { None } else { RedisServer::start(&redis_dir)? },
        next: [stored; 3],
        record_bytes: bytes_of(&record(0)),
    };
    table.group(format!(
        "durable submit over the socket with {stored} sessions in the store, full verdicts of {} bytes that make records of \
         {} bytes; ratio: rate of oracled over rate of the baseline",
        text(ProductTier::Full).len(),
        sides.record_bytes,
    ));
    let mut journal_rate = 0.0;
    for connections in connections.iter().copied() {
        let is_most = CONNECTIONS.last() == Some(&connections);
        let before = groups_of_daemon(&world.socket())?;
        let rounds = sides.rounds(connections, effort)?;
        let after = groups_of_daemon(&world.socket())?;
        let our_group = (after.0 - before.0) / (after.1 - before.1);
        rounds.show(
            &format!("{connections:2} connections, groups of {our_group:.1}"),
            is_most,
            append_aim,
            table,
        );
        journal_rate = median_rate(&rounds.by_journal);
    }
    Ok(journal_rate)
}

fn median_rate(rounds: &[LoadRound]) -> f64 {
    median(rounds.iter().map(|round| round.rate))
}

impl SubmitSides<'_> {
    fn rounds(&mut self, connections: usize, effort: BenchEffort) -> io::Result<SubmitRounds> {
        let submissions = (connections * effort.submissions).max(SUBMISSIONS_MIN);
        let (mut rounds, bytes, socket) = (SubmitRounds::default(), self.record_bytes, self.world.socket());
        for _ in 0..effort.rounds {
            let [mut numbers, records, keys] = self.next.map(|from| from..);
            self.next = self.next.map(|from| from + submissions);
            let cpu_before = cpu_ns(self.daemon.pid())?;
            rounds.over_socket.push(submit(&socket, connections, submissions, &mut numbers)?);
            rounds.cpu.push((cpu_ns(self.daemon.pid())? - cpu_before) as f64 / submissions as f64);
            let mut records = records.map(|number| vec![record(number)]);
            let (round, in_groups) =
                self.alone.round(connections, submissions, Duration::ZERO, &mut records)?;
            rounds.by_journal.push(round);
            rounds.by_append.push(write_and_sync(&mut self.growing, &in_groups, bytes)?);
            fill_up(&mut self.grown, submissions * bytes)?;
            rounds.by_overwriting.push(write_and_sync(&mut self.grown, &in_groups, bytes)?);
            if let Some(redis) = &self.redis {
                rounds.by_redis.push(redis.round(connections, submissions, keys.start, bytes)?);
            }
            rounds.groups.extend(in_groups);
        }
        Ok(rounds)
    }
}

impl SubmitRounds {
    fn show(&self, what: &str, is_most: bool, append_aim: f64, table: &mut BenchTable) {
        let [ours, journal] = [&self.over_socket, &self.by_journal].map(|rounds| median_rate(rounds));
        let verdict = |ratio: f64, aim| if is_most { at_least(ratio, aim) } else { format!("{ratio:.2}") };
        let records: usize = self.groups.iter().sum();
        table.row(BenchRow {
            what: what.to_owned(),
            measured: per_second(ours),
            cpu: cpu_each(median(self.cpu.iter().copied())),
            latencies: all_latencies(&self.over_socket),
            baseline: format!("journal alone, groups of {:.1}", records as f64 / self.groups.len() as f64),
            baseline_measured: per_second(journal),
            baseline_latencies: all_latencies(&self.by_journal),
            verdict: verdict(ours / journal, AIM),
            ..BenchRow::default()
        });
        let peers = [
            ("append and fdatasync, same groups", &self.by_append),
            ("overwrite and fdatasync, same groups", &self.by_overwriting),
            ("redis-server, appendfsync always, same bytes", &self.by_redis),
        ];
        for (number, (peer, rounds)) in
            peers.into_iter().enumerate().filter(|(_, (_, rounds))| !rounds.is_empty())
        {
            let peer_rate = median_rate(rounds);
            let (ratio, of_journal) = (ours / peer_rate, journal / peer_rate);
            table.row(BenchRow {
                baseline: peer.to_owned(),
                baseline_measured: per_second(peer_rate),
                baseline_latencies: all_latencies(rounds),
                verdict: if number == 0 { verdict(ratio, append_aim) } else { format!("{ratio:.2}") },
                what: format!("    the journal alone: {of_journal:.2}"),
                ..BenchRow::default()
            });
        }
    }
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

/// The bytes of a record: its events and the rows that it sets.
fn bytes_of(record: &JournalRecord) -> usize {
    let rows = record.writes.iter().filter_map(RowWrite::value).map(<[u8]>::len);
    serde_json::to_vec(&record.events).expect("plain data").len() + rows.sum::<usize>()
}
