//! Lookups over the socket, compared with a bare axum handler that returns the same bytes.

use super::facts::BenchRelease;
use super::{SOURCE, as_of, random_facts};
use crate::load::post;
use crate::peer::PeerProcess;
use crate::read::{ReadSide, all_latencies};
use crate::table::{BenchRow, BenchTable, cpu_each, median, per_second};
use crate::{BenchEffort, CONNECTIONS, SERVE_BARE};
use jiff::Timestamp;
use oracled_api::client::DaemonClient;
use oracled_tests::DaemonWorld;
use serde_json::{Value, json};
use std::{fs, io};
use tokio::runtime;

const PATH: &str = "/v1/query";
/// The number of facts that are looked up in turn.
const LOOKUPS: usize = 4096;

/// Measures each number of connections.
pub(crate) fn measure(
    effort: BenchEffort,
    world: &DaemonWorld,
    pid: u32,
    releases: &[BenchRelease],
    table: &mut BenchTable,
) -> io::Result<()> {
    let (at, release) = as_of(releases)?;
    let facts = random_facts(release, LOOKUPS);
    let at = Timestamp::from_second(at).map_err(io::Error::other)?;
    let question = |area: &str, year: u16| {
        json!({"oracle_id": SOURCE, "request": {
            "axes_requested": ["population"],
            "filters": [
                {"axis": "area", "operator": "eq", "value": area},
                {"axis": "year", "operator": "eq", "value": year},
            ],
            "point_in_time": at,
        }})
    };
    let bodies: Vec<Value> = facts.iter().map(|fact| question(&fact.area, fact.year)).collect();
    let mut answer = Vec::new();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut routes = DaemonClient::connect(&world.socket()).await.expect("the daemon listens");
        for (fact, body) in facts.iter().zip(&bodies) {
            let response = oracled_tests::post(&mut routes, PATH, body).await;
            let pointer = "/response/records/0/axes/population";
            assert_eq!(oracled_tests::at(&response, pointer), fact.population.to_string(), "{fact:?}");
            answer = response.body.to_vec();
        }
    });
    let requests = bodies.iter().map(|body| {
        let mut request = Vec::new();
        post(&mut request, PATH, &body.to_string()).map(|()| request)
    });
    let requests = requests.collect::<io::Result<Vec<_>>>()?;
    let bare_socket = world.path("bare.sock");
    fs::write(world.path("body"), &answer)?;
    let bare = PeerProcess::start(SERVE_BARE, &bare_socket, &world.path("body"))?;
    for connections in CONNECTIONS {
        let mut sides = [ReadSide::new(world.socket(), pid), ReadSide::new(bare_socket.clone(), bare.pid())];
        for _ in 0..effort.rounds {
            for side in &mut sides {
                side.round(connections, effort, &requests)?;
            }
        }
        let [ours, baseline] = &sides;
        table.row(BenchRow {
            what: format!("lookup over the socket, {} bytes, {connections:2} connections", answer.len()),
            measured: per_second(ours.rate()),
            cpu: cpu_each(median(ours.cpu.iter().copied())),
            latencies: all_latencies(&ours.rounds),
            baseline: "bare axum handler".into(),
            baseline_measured: per_second(baseline.rate()),
            baseline_cpu: cpu_each(median(baseline.cpu.iter().copied())),
            baseline_latencies: all_latencies(&baseline.rounds),
            verdict: format!("{:.2}", baseline.rate() / ours.rate()),
        });
    }
    Ok(())
}
