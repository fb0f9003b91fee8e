//! Durable submissions over the socket. They are compared with the journal alone with as many writers, and with the floor, a
//! program of one file that does the same with nothing else. Where `redis-server` is installed, it stores the same bytes with
//! `appendfsync always`.

use crate::load::{LoadConnections, LoadRound, RoundEnd, body_of, post};
use crate::machine::{spent_since, thread_times};
use crate::peer::PeerProcess;
use crate::postgres::PostgresPeer;
use crate::read::{all_latencies, busiest_row};
use crate::records::{QUERY, record, session_id, text};
use crate::redis::RedisServer;
use crate::standalone_journal::{StandaloneJournal, fill_store};
use crate::table::{BenchRow, BenchTable, at_least, cpu_each, median, per_second};
use crate::{BenchEffort, CONNECTIONS, SERVE_FLOOR, tree};
use domain_verdict::label::ProductTier;
use oracled_store::{JournalRecord, RowWrite};
use oracled_tests::{DaemonProcess, DaemonWorld};
use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::runtime;

/// The required ratio to the journal alone with the highest number of connections.
const AIM: f64 = 0.5;
/// The required ratio to the rate of the floor, to that of Redis and to that of PostgreSQL, with the highest number of connections.
const FLOOR_AIM: f64 = 0.5;
const REDIS_AIM: f64 = 0.25;
const POSTGRES_AIM: f64 = 1.5;
/// The lowest number of submissions in a round, for any number of connections.
const SUBMISSIONS_MIN: usize = 600;

/// Submits full verdicts of `sessions` sessions, beginning with number `from`.
pub(crate) fn fill_from(socket: &Path, from: usize, sessions: usize) -> io::Result<()> {
    submit(&[socket], 64, sessions, &mut (from..)).map(drop)
}

/// Submits full verdicts of the next sessions over connections to these daemons, all at the same time.
pub(crate) fn submit(
    sockets: &[impl AsRef<Path>],
    connections: usize,
    submissions: usize,
    numbers: &mut impl Iterator<Item = usize>,
) -> io::Result<LoadRound> {
    let body = json!({"tier": "full", "query": QUERY, "raw": text(ProductTier::Full)}).to_string();
    let mut load = LoadConnections::connect_to(sockets, connections)?;
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
    floor: PeerProcess,
    redis: Option<RedisServer>,
    postgres: Option<PostgresPeer>,
    /// The next session of the daemon and its peers.
    next: usize,
    record_bytes: usize,
}

/// The rounds of one number of connections.
#[derive(Default)]
struct SubmitRounds {
    over_socket: Vec<LoadRound>,
    by_journal: Vec<LoadRound>,
    by_floor: Vec<LoadRound>,
    by_redis: Vec<LoadRound>,
    by_postgres: Vec<LoadRound>,
    /// The sizes of the groups of the journal alone.
    groups: Vec<usize>,
    /// The processor time of a submission, in nanoseconds, and that of the floor.
    cpu: Vec<f64>,
    floor_cpu: Vec<f64>,
    /// The share of the busiest thread in it, and that of the floor.
    busiest: Vec<f64>,
    floor_busiest: Vec<f64>,
}

/// Measures each number of connections with an empty store, and the highest one with a filled store.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let journal_rate = measure_with(0, &CONNECTIONS, effort, table)?;
    tree::show(journal_rate, table);
    let most = CONNECTIONS.last().copied();
    measure_with(effort.stored, most.as_slice(), effort, table).map(drop)
}

/// Measures with `stored` sessions in each store. Returns the rate of the journal alone with the last number of connections.
fn measure_with(
    stored: usize,
    connections: &[usize],
    effort: BenchEffort,
    table: &mut BenchTable,
) -> io::Result<f64> {
    let world = DaemonWorld::default();
    if stored > 0 {
        fill_store(&world.state(), stored)?;
        fill_store(&world.path("alone"), stored)?;
    }
    let [redis_dir, postgres_dir] = ["redis", "postgres"].map(|name| world.path(name));
    fs::create_dir(&redis_dir)?;
    fs::create_dir(&postgres_dir)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut sides = SubmitSides {
        daemon: runtime.block_on(world.serve()),
        world: &world,
        alone: StandaloneJournal::open(&world.path("alone"))?,
        floor: PeerProcess::start(SERVE_FLOOR, &world.path("floor.sock"), &world.path("floor"))?,
        redis: if stored > 0 { None } else { RedisServer::start(&redis_dir)? },
        postgres: if stored > 0 { None } else { PostgresPeer::start(&postgres_dir)? },
        next: stored,
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
        rounds.show(&format!("{connections:2} connections, groups of {our_group:.1}"), is_most, table);
        journal_rate = median_rate(&rounds.by_journal);
    }
    Ok(journal_rate)
}

pub(crate) fn median_rate(rounds: &[LoadRound]) -> f64 {
    median(rounds.iter().map(|round| round.rate))
}

impl SubmitSides<'_> {
    fn rounds(&mut self, connections: usize, effort: BenchEffort) -> io::Result<SubmitRounds> {
        let submissions = (connections * effort.submissions).max(SUBMISSIONS_MIN);
        let mut rounds = SubmitRounds::default();
        let (socket, floor_socket) = (self.world.socket(), self.world.path("floor.sock"));
        for _ in 0..effort.rounds {
            let numbers = self.next..;
            self.next += submissions;
            let servers = [
                (&socket, self.daemon.pid(), &mut rounds.over_socket, (&mut rounds.cpu, &mut rounds.busiest)),
                (
                    &floor_socket,
                    self.floor.pid(),
                    &mut rounds.by_floor,
                    (&mut rounds.floor_cpu, &mut rounds.floor_busiest),
                ),
            ];
            for (socket, pid, of_server, (cpu, busiest)) in servers {
                let before = thread_times(pid)?;
                of_server.push(submit(&[socket], connections, submissions, &mut numbers.clone())?);
                let (spent, share) = spent_since(pid, &before)?;
                cpu.push(spent / submissions as f64);
                busiest.push(share);
            }
            let mut records = numbers.map(|number| vec![record(number)]);
            let (round, in_groups) =
                self.alone.round(connections, submissions, Duration::ZERO, &mut records)?;
            rounds.by_journal.push(round);
            let (from, bytes) = (self.next - submissions, self.record_bytes);
            if let Some(redis) = &self.redis {
                rounds.by_redis.push(redis.round(connections, submissions, from, bytes)?);
            }
            if let Some(postgres) = &self.postgres {
                rounds.by_postgres.push(postgres.round(connections, submissions, from, bytes)?);
            }
            rounds.groups.extend(in_groups);
        }
        Ok(rounds)
    }
}

impl SubmitRounds {
    fn show(&self, what: &str, is_most: bool, table: &mut BenchTable) {
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
        if is_most {
            table.row(busiest_row(&self.busiest));
        }
        let [cpu, floor_cpu] = [&self.cpu, &self.floor_cpu].map(|cpu| median(cpu.iter().copied()));
        let peers = [
            (format!("floor; CPU × {:.1}", cpu / floor_cpu), &self.by_floor, cpu_each(floor_cpu), FLOOR_AIM),
            ("redis-server, appendfsync always, same bytes".into(), &self.by_redis, String::new(), REDIS_AIM),
            (
                "PostgreSQL, synchronous commit, same bytes".into(),
                &self.by_postgres,
                String::new(),
                POSTGRES_AIM,
            ),
        ];
        for (baseline, rounds, baseline_cpu, aim) in peers.into_iter().filter(|peer| !peer.1.is_empty()) {
            let rate = median_rate(rounds);
            table.row(BenchRow {
                what: format!("    the journal alone: {:.2}", journal / rate),
                baseline,
                baseline_measured: per_second(rate),
                baseline_cpu,
                baseline_latencies: all_latencies(rounds),
                verdict: verdict(ours / rate, aim),
                ..BenchRow::default()
            });
        }
    }
}

/// The numbers of records and groups that the daemon has committed, from its metrics.
pub(crate) fn groups_of_daemon(socket: &Path) -> io::Result<(f64, f64)> {
    let metrics = String::from_utf8(body_of(socket, "/metrics")?).map_err(io::Error::other)?;
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        line.ok_or_else(|| io::Error::other(format!("the metrics hold no {name}")))
    };
    Ok((value("oracled_journal_group_records_sum ")?, value("oracled_journal_group_records_count ")?))
}

/// The bytes of a record: its events and the rows that it sets.
pub(crate) fn bytes_of(record: &JournalRecord) -> usize {
    let rows = record.writes.iter().filter_map(RowWrite::value).map(<[u8]>::len);
    serde_json::to_vec(&record.events).expect("plain data").len() + rows.sum::<usize>()
}
