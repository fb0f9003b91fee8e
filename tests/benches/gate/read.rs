//! Reads a cached verdict over the socket, compared with a bare axum handler that returns the same bytes.

use crate::load::{LoadConnections, LoadRound, RoundEnd, body_of, get};
use crate::machine::{spent_since, thread_times};
use crate::peer::PeerProcess;
use crate::records::session_id;
use crate::table::{
    BenchRow, BenchTable, at_least, at_most, cpu_each, histogram, latencies, median, per_second,
};
use crate::{BenchEffort, CONNECTIONS, SERVE_BARE, submit};
use hdrhistogram::Histogram;
use oracled_tests::DaemonWorld;
use std::path::PathBuf;
use std::{fs, io};
use tokio::runtime;

/// The number of sessions that are read in turn.
pub(crate) const SESSIONS: usize = 256;
/// The required ratio with the highest number of connections.
const AIM: f64 = 0.6;

/// Measures each number of connections.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let world = DaemonWorld::default();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let daemon = runtime.block_on(world.serve());
    submit::fill_from(&world.socket(), 0, SESSIONS)?;
    let paths: Vec<String> =
        (0..SESSIONS).map(|number| format!("/v1/verdicts/{}", session_id(number))).collect();
    let requests: Vec<Vec<u8>> = paths.iter().map(|path| get(path)).collect();
    let body = body_of(&world.socket(), paths.first().expect("at least one session"))?;
    let bare_socket = world.path("bare.sock");
    fs::write(world.path("body"), &body)?;
    let bare = PeerProcess::start(SERVE_BARE, &bare_socket, &world.path("body"))?;

    table.group(format!(
        "cached read over the socket, {} bytes; ratio: rate of oracled over rate of the bare handler",
        body.len()
    ));
    for connections in CONNECTIONS {
        let mut sides =
            [ReadSide::new(world.socket(), daemon.pid()), ReadSide::new(bare_socket.clone(), bare.pid())];
        for _ in 0..effort.rounds {
            for side in &mut sides {
                side.round(connections, effort, &requests)?;
            }
        }
        let [ours, baseline] = &sides;
        let ratio = ours.rate() / baseline.rate();
        let most = CONNECTIONS.last() == Some(&connections);
        table.row(BenchRow {
            what: format!("{connections:2} connections"),
            measured: per_second(ours.rate()),
            cpu: cpu_each(median(ours.cpu.iter().copied())),
            latencies: all_latencies(&ours.rounds),
            baseline: "bare axum handler".into(),
            baseline_measured: per_second(baseline.rate()),
            baseline_cpu: cpu_each(median(baseline.cpu.iter().copied())),
            baseline_latencies: all_latencies(&baseline.rounds),
            verdict: if most { at_least(ratio, AIM) } else { format!("{ratio:.2}") },
        });
        if most {
            table.row(busiest_row(&ours.busiest));
        }
    }
    Ok(())
}

/// The highest share of the busiest thread: two processors then serve 1.7 times the rate of one.
const BUSIEST_AIM: f64 = 0.59;

/// The row of the share of the busiest thread in the processor time of a request.
pub(crate) fn busiest_row(shares: &[f64]) -> BenchRow {
    let share = median(shares.iter().copied());
    BenchRow {
        what: "    its busiest thread".into(),
        measured: format!("{:.0} % of it", 100.0 * share),
        verdict: at_most(share, BUSIEST_AIM, &format!("{BUSIEST_AIM}")),
        ..BenchRow::default()
    }
}

/// One of the two servers, with its measurements.
pub(crate) struct ReadSide {
    socket: PathBuf,
    pid: u32,
    pub(crate) rounds: Vec<LoadRound>,
    /// Processor time of one request in nanoseconds, for each round.
    pub(crate) cpu: Vec<f64>,
    /// The share of the busiest thread in it.
    busiest: Vec<f64>,
}

impl ReadSide {
    pub(crate) fn new(socket: PathBuf, pid: u32) -> Self {
        Self { socket, pid, rounds: Vec::new(), cpu: Vec::new(), busiest: Vec::new() }
    }

    pub(crate) fn round(
        &mut self,
        connections: usize,
        effort: BenchEffort,
        requests: &[Vec<u8>],
    ) -> io::Result<()> {
        let mut load = LoadConnections::connect(&self.socket, connections)?;
        let mut cycle = requests.iter().cycle();
        let mut next = |request: &mut Vec<u8>| {
            request.extend_from_slice(cycle.next().expect("the iterator is endless"));
        };
        load.round(RoundEnd::Elapsed(effort.reading / 10), 200, &mut next)?;
        let before = thread_times(self.pid)?;
        let round = load.round(RoundEnd::Elapsed(effort.reading), 200, &mut next)?;
        let (spent, busiest) = spent_since(self.pid, &before)?;
        self.cpu.push(spent / round.requests as f64);
        self.busiest.push(busiest);
        self.rounds.push(round);
        Ok(())
    }

    pub(crate) fn rate(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.rate))
    }
}

/// The latencies of several rounds in one histogram.
pub(crate) fn merge_latencies(rounds: &[LoadRound]) -> Histogram<u64> {
    let mut all = histogram();
    for round in rounds {
        all.add(&round.latencies).expect("the bounds are the same");
    }
    all
}

/// The latencies of several rounds, as shown in the table.
pub(crate) fn all_latencies(rounds: &[LoadRound]) -> String {
    latencies(&merge_latencies(rounds))
}
