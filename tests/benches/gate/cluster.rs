//! Durable submissions and cached reads over the hosts of one cluster. They are compared with one embedded daemon, and with appends
//! to a shared log alone: the client of the hosts appends the groups that they have appended once more, over one connection. All
//! servers and hosts are on this machine and its disk.

use crate::load::{LoadConnections, LoadRound, RoundEnd, body_of, get, nanoseconds};
use crate::machine::cpu_ns;
use crate::read::{SESSIONS, all_latencies};
use crate::records::{record, session_id, text};
use crate::submit::{bytes_of, fill_from, groups_of_daemon, median_rate, submit};
use crate::table::{BenchRow, BenchTable, cpu_each, histogram, median, per_second};
use crate::{BenchEffort, CONNECTIONS};
use domain_verdict::label::ProductTier;
use oracled_store::SCHEMA;
use oracled_tests::cluster::TestCluster;
use oracled_tests::{DaemonProcess, DaemonWorld};
use postgres::{Client, NoTls};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store_log::{GroupsEnd, SharedAppend, SharedGroup, SharedLog};
use store_postgres::{
    ClusterIdentity, ClusterKeys, ClusterMembership, PostgresLog, PostgresSettings, SharedLogDurability,
};
use tokio::runtime::{self, Runtime};

/// The names of the hosts, in the order in which they join.
const HOSTS: [&str; 3] = ["a", "b", "c"];
/// The database of the appends alone.
const ALONE: &str = "alone";
/// The cluster, and the end of the log from which it starts.
const BEGINNING: &str = "
SELECT store_id, log_key, held_key, after, root FROM oracled_cluster CROSS JOIN oracled_group ORDER BY before LIMIT 1";
/// The bytes of groups that are read at once.
const READ_BYTES: usize = 8 * 1024 * 1024;

/// Daemons under one load.
struct DaemonsSide<'w> {
    worlds: Vec<&'w DaemonWorld>,
    daemons: Vec<DaemonProcess<'w>>,
}

/// The rounds of some daemons.
#[derive(Default)]
struct SideRounds {
    rounds: Vec<LoadRound>,
    /// The processor time of a request in all daemons, in nanoseconds.
    cpu: Vec<f64>,
    /// The mean numbers of records in the groups of a round.
    groups: Vec<f64>,
}

/// A copy of the cluster's log, which only this program appends to.
struct AloneLog {
    log: PostgresLog,
    source: PostgresLog,
    end: GroupsEnd,
}

/// The hosts of a cluster, and what they are compared with.
struct ClusterSides<'w> {
    hosts: DaemonsSide<'w>,
    embedded: DaemonsSide<'w>,
    /// `None` before the first host.
    alone: Option<AloneLog>,
    /// The next session of the hosts and of the embedded daemon.
    next: usize,
}

/// Measures without a standby, and submissions again with a synchronous one. Measures nothing without PostgreSQL.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let Some(cluster) = TestCluster::start() else {
        println!("PostgreSQL is not installed; the rows of the cluster are left out");
        return Ok(());
    };
    let reads = measure_cluster(&cluster, SharedLogDurability::Asynchronous, effort, table)?;
    table.group(format!(
        "cached read over {} connections, spread over the hosts of a cluster; ratio: rate of the hosts over rate of the baseline",
        connections()
    ));
    reads.into_iter().for_each(|row| table.row(row));
    drop(cluster);
    let cluster = TestCluster::start_with_standby().expect("PostgreSQL is installed");
    measure_cluster(&cluster, SharedLogDurability::SynchronousStandby, effort, table).map(drop)
}

/// Measures with each number of hosts. Adds the rows of submissions, and returns those of reads, which a standby does not change.
fn measure_cluster(
    cluster: &TestCluster,
    durability: SharedLogDurability,
    effort: BenchEffort,
    table: &mut BenchTable,
) -> io::Result<Vec<BenchRow>> {
    let has_standby = durability == SharedLogDurability::SynchronousStandby;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (worlds, single) =
        (HOSTS.map(|host| DaemonWorld::with_config(&cluster.config(host))), DaemonWorld::default());
    let mut sides = ClusterSides {
        hosts: DaemonsSide { worlds: Vec::new(), daemons: Vec::new() },
        embedded: DaemonsSide { daemons: vec![runtime.block_on(single.serve())], worlds: vec![&single] },
        alone: None,
        next: SESSIONS,
    };
    fill_from(&single.socket(), 0, SESSIONS)?;
    table.group(format!(
        "durable submit over {} connections, spread over the hosts of a cluster {}, full verdicts of {} bytes that make records of \
         {} bytes; ratio: rate of the hosts over rate of the baseline, in records",
        connections(),
        if has_standby { "with a synchronous standby" } else { "without a standby" },
        text(ProductTier::Full).len(),
        bytes_of(&record(0)),
    ));
    let mut reads = Vec::new();
    for world in &worlds {
        sides.add_host(cluster, world, &runtime)?;
        if sides.alone.is_none() {
            sides.alone = Some(AloneLog::create(cluster, durability)?);
        }
        sides.measure_submissions(effort, table)?;
        if !has_standby {
            reads.push(sides.measure_reads(effort)?);
        }
    }
    Ok(reads)
}

/// The number of connections to all daemons of a side.
fn connections() -> usize {
    CONNECTIONS.into_iter().max().unwrap_or_default()
}

impl<'w> ClusterSides<'w> {
    /// Starts the first host of the cluster, with the sessions that are read, or the next one.
    fn add_host(
        &mut self,
        cluster: &TestCluster,
        world: &'w DaemonWorld,
        runtime: &Runtime,
    ) -> io::Result<()> {
        let first = self.hosts.worlds.first().copied();
        let daemon = match first {
            Some(first) => runtime.block_on(cluster.join(world, first)),
            None => runtime.block_on(cluster.init(world)),
        };
        if first.is_none() {
            fill_from(&world.socket(), 0, SESSIONS)?;
        }
        self.hosts.worlds.push(world);
        self.hosts.daemons.push(daemon);
        Ok(())
    }

    fn title(&self) -> String {
        match self.hosts.worlds.len() {
            1 => "1 host".into(),
            hosts => format!("{hosts} hosts"),
        }
    }

    fn measure_submissions(&mut self, effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
        let submissions = connections() * effort.submissions;
        let (mut ours, mut embedded) = (SideRounds::default(), SideRounds::default());
        let alone = self.alone.as_mut().expect("it is created after the first host");
        let (mut appends, mut appended_records, mut appended_bytes) = (Vec::new(), Vec::new(), Vec::new());
        // the groups so far are not measured
        alone.copy()?;
        for _ in 0..effort.rounds {
            self.hosts.submit(submissions, self.next, &mut ours)?;
            self.embedded.submit(submissions, self.next, &mut embedded)?;
            let (round, bytes) = alone.copy()?;
            let groups = round.requests as f64;
            appended_records.push(round.rate * submissions as f64 / groups);
            appended_bytes.push(bytes as f64 / groups);
            appends.push(round);
            self.next += submissions;
        }
        let rate = median_rate(&ours.rounds);
        let [group, embedded_group] = [&ours, &embedded].map(|side| median(side.groups.iter().copied()));
        let alone = median(appended_records);
        let kilobytes = median(appended_bytes) / 1e3;
        table.row(BenchRow {
            what: format!("{}, groups of {group:.1}", self.title()),
            baseline: format!("appends alone, {:.0} groups/s of {kilobytes:.1} kB", median_rate(&appends)),
            baseline_measured: per_second(alone),
            baseline_latencies: all_latencies(&appends),
            verdict: format!("{:.2}", rate / alone),
            ..ours.row()
        });
        table.row(embedded.baseline(format!("embedded daemon, groups of {embedded_group:.1}"), rate));
        Ok(())
    }

    fn measure_reads(&self, effort: BenchEffort) -> io::Result<BenchRow> {
        let (mut ours, mut embedded) = (SideRounds::default(), SideRounds::default());
        let requests: Vec<Vec<u8>> =
            (0..SESSIONS).map(|number| get(&format!("/v1/verdicts/{}", session_id(number)))).collect();
        for _ in 0..effort.rounds {
            self.hosts.read(effort, &requests, &mut ours)?;
            self.embedded.read(effort, &requests, &mut embedded)?;
        }
        let BenchRow { measured, cpu, latencies, .. } = ours.row();
        let baseline = embedded.baseline("embedded daemon".into(), median_rate(&ours.rounds));
        Ok(BenchRow { what: self.title(), measured, cpu, latencies, ..baseline })
    }
}

impl DaemonsSide<'_> {
    fn sockets(&self) -> Vec<PathBuf> {
        self.worlds.iter().map(|world| world.socket()).collect()
    }

    /// The processor time of all daemons, in nanoseconds.
    fn cpu_ns(&self) -> io::Result<u64> {
        self.daemons.iter().map(|daemon| cpu_ns(daemon.pid())).sum()
    }

    /// The numbers of records and groups that the daemons have committed.
    fn groups(&self) -> io::Result<(f64, f64)> {
        self.sockets().iter().try_fold((0.0, 0.0), |(records, groups), socket| {
            let of_one = groups_of_daemon(socket)?;
            Ok((records + of_one.0, groups + of_one.1))
        })
    }

    /// Submits verdicts of `submissions` sessions, beginning with number `from`.
    fn submit(&self, submissions: usize, from: usize, rounds: &mut SideRounds) -> io::Result<()> {
        let (sockets, groups, cpu) = (self.sockets(), self.groups()?, self.cpu_ns()?);
        rounds.rounds.push(submit(&sockets, connections(), submissions, &mut (from..))?);
        // before a host answers that a session is missing, it has all that the others have written
        let missing = format!("/v1/verdicts/{}", session_id(from + submissions));
        sockets.iter().try_for_each(|socket| body_of(socket, &missing).map(drop))?;
        rounds.cpu.push((self.cpu_ns()? - cpu) as f64 / submissions as f64);
        let now = self.groups()?;
        rounds.groups.push((now.0 - groups.0) / (now.1 - groups.1));
        Ok(())
    }

    fn read(&self, effort: BenchEffort, requests: &[Vec<u8>], rounds: &mut SideRounds) -> io::Result<()> {
        let mut load = LoadConnections::connect_to(&self.sockets(), connections())?;
        let mut cycle = requests.iter().cycle();
        let mut next = |request: &mut Vec<u8>| {
            request.extend_from_slice(cycle.next().expect("the iterator is endless"));
        };
        load.round(RoundEnd::Elapsed(effort.reading / 10), 200, &mut next)?;
        let cpu = self.cpu_ns()?;
        let round = load.round(RoundEnd::Elapsed(effort.reading), 200, &mut next)?;
        rounds.cpu.push((self.cpu_ns()? - cpu) as f64 / round.requests as f64);
        rounds.rounds.push(round);
        Ok(())
    }
}

impl SideRounds {
    fn cpu(&self) -> String {
        cpu_each(median(self.cpu.iter().copied()))
    }

    /// The row of these rounds, without a name and a baseline.
    fn row(&self) -> BenchRow {
        BenchRow {
            measured: per_second(median_rate(&self.rounds)),
            cpu: self.cpu(),
            latencies: all_latencies(&self.rounds),
            ..BenchRow::default()
        }
    }

    /// The row in which these rounds are the baseline of a rate.
    fn baseline(&self, baseline: String, rate: f64) -> BenchRow {
        let own = median_rate(&self.rounds);
        BenchRow {
            baseline,
            baseline_measured: per_second(own),
            baseline_cpu: self.cpu(),
            baseline_latencies: all_latencies(&self.rounds),
            verdict: format!("{:.2}", rate / own),
            ..BenchRow::default()
        }
    }
}

impl AloneLog {
    /// Creates the log in a database of its own, with the beginning of the cluster's.
    fn create(cluster: &TestCluster, durability: SharedLogDurability) -> io::Result<Self> {
        let server = cluster.server.as_ref().expect("the server runs");
        let mut client = Client::connect(&server.url(), NoTls).map_err(io::Error::other)?;
        client.batch_execute(&format!("CREATE DATABASE {ALONE}")).map_err(io::Error::other)?;
        let row = client.query_one(BEGINNING, &[]).map_err(io::Error::other)?;
        let (entries, root): (i64, Vec<u8>) = (row.get(3), row.get(4));
        let root = root.try_into().map_err(|_| io::Error::other("a root of another length"))?;
        let end = GroupsEnd { entries: entries.cast_unsigned(), root };
        let identity = ClusterIdentity { log_key: row.get(1), held_key: row.get(2) };
        let settings = PostgresSettings {
            url: server.url(),
            host: ALONE.to_owned(),
            instance: [1; 16],
            store_id: row.get::<_, i64>(0).cast_unsigned(),
            schema: SCHEMA,
            identity,
            keys: ClusterKeys::parse(&cluster.keys()).map_err(io::Error::other)?,
            durability,
            answer_within: Duration::from_secs(20),
        };
        let alone = PostgresSettings { url: server.url_of(ALONE), ..settings.clone() };
        // this program reads the cluster's log as a host
        ClusterMembership::new(settings.clone()).enter(false).map_err(io::Error::other)?;
        let (mut source, mut log) = (PostgresLog::new(settings), PostgresLog::new(alone));
        log.create(end, false, None).map_err(io::Error::other)?;
        for log in [&mut source, &mut log] {
            log.connect(end).map_err(io::Error::other)?;
        }
        Ok(Self { log, source, end })
    }

    /// Appends the groups that the hosts have appended since the last call. Counts groups, and the bytes of their rows.
    fn copy(&mut self) -> io::Result<(LoadRound, usize)> {
        let mut groups: Vec<SharedGroup> = Vec::new();
        loop {
            let after = groups.last().map_or(self.end.entries, |group| group.after);
            let next = self.source.read(after, READ_BYTES).map_err(io::Error::other)?;
            if next.is_empty() {
                break;
            }
            groups.extend(next);
        }
        let mut latencies = histogram();
        let began = Instant::now();
        for group in &groups {
            let sent_at = Instant::now();
            let outcome = self.log.append(self.end, group).map_err(io::Error::other)?;
            latencies.saturating_record(nanoseconds(sent_at.elapsed()));
            if outcome != SharedAppend::Appended {
                return Err(io::Error::other("a group was not appended"));
            }
            self.end = GroupsEnd { entries: group.after, root: group.root };
        }
        let (requests, bytes) = (groups.len(), groups.iter().map(|group| group.rows.len()).sum());
        let rate = requests as f64 / began.elapsed().as_secs_f64();
        Ok((LoadRound { requests, rate, latencies }, bytes))
    }
}
