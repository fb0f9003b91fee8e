//! The latency that the daemon adds to a model's own, for the regeneration of a lost verdict and for a first
//! verdict. The comparisons are the same model, called by the same client without a daemon, and the journal
//! alone with the daemon's commits.

use crate::load::{LoadConnections, LoadRound, RoundEnd, get, nanoseconds, post, put};
use crate::machine::cpu_ns;
use crate::read::merge_latencies;
use crate::records::{QUERY, ordered, regenerated, session_id, text};
use crate::standalone_journal::StandaloneJournal;
use crate::table::{BenchRow, BenchTable, at_most, cpu_each, histogram, latencies, median};
use crate::{BenchEffort, model};
use actors_platform::clock::Clock;
use actors_upstream::{HeaderKey, UpstreamEndpoint};
use domain_verdict::label::ProductTier;
use hdrhistogram::Histogram;
use oracled_store::JournalRecord;
use oracled_tests::DaemonWorld;
use oracled_tests::generation::built_in_prompt;
use oracled_tests::model::gemini_answer;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;

/// The response time of the model.
const MODEL_TAKES: Duration = Duration::from_millis(20);
/// Longer than any response time of the model.
const PATIENCE: Duration = Duration::from_secs(10);
/// A placeholder: the model checks no key.
const KEY: &str = "none";
/// The numbers of connections.
const CONNECTIONS: [usize; 2] = [1, 16];
/// The limit of the added median latency, in nanoseconds.
const AIM_NS: f64 = 1e6;

/// Measures both ways with each number of connections.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let address = model::serve(&gemini_answer(text(ProductTier::Full)).to_string(), MODEL_TAKES)?;
    let mut world = DaemonWorld::with_config(&format!(
        "[model]\nbase_url = \"http://{address}\"\ncalls_per_minute = 1000000\ncalls_at_once = 1000\n"
    ));
    world.variables.push(("GEMINI_API_KEY".into(), KEY.into()));
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let daemon = runtime.block_on(world.serve());
    let mut sides = RegenSides {
        pid: daemon.pid(),
        bare: BareModel::new(address)?,
        journal: StandaloneJournal::open(&world.path("alone"))?,
        numbers: Box::new(0..),
    };
    table.group(format!(
        "what is added to a model's {} ms, in the median and at p99; ratio: the median of it over that of the journal's \
         commits",
        MODEL_TAKES.as_millis()
    ));
    for way in [RegenTrigger::LostVerdict, RegenTrigger::First] {
        for connections in CONNECTIONS {
            sides.measure(way, connections, &world.socket(), effort, table)?;
        }
    }
    Ok(())
}

/// The way on which the model is called.
#[derive(Debug, Clone, Copy)]
enum RegenTrigger {
    /// A registered session without a verdict is read.
    LostVerdict,
    /// A first verdict is requested.
    First,
}

impl RegenTrigger {
    const fn description(self) -> &'static str {
        match self {
            Self::LostVerdict => "lost verdict",
            Self::First => "first verdict",
        }
    }

    /// The HTTP status of an answer.
    const fn status(self) -> u16 {
        match self {
            Self::LostVerdict => 200,
            Self::First => 201,
        }
    }

    /// The records of one verdict. The model is called between them.
    fn records(self, number: usize) -> [JournalRecord; 2] {
        match self {
            Self::LostVerdict => regenerated(number),
            Self::First => ordered(number),
        }
    }

    /// The request of one verdict.
    fn request(self, number: usize) -> io::Result<Vec<u8>> {
        let path = format!("/v1/verdicts/{}", session_id(number));
        match self {
            Self::LostVerdict => Ok(get(&path)),
            Self::First => {
                let mut request = Vec::new();
                post(&mut request, &path, &json!({"tier": "full", "query": QUERY}).to_string())?;
                Ok(request)
            }
        }
    }
}

/// The sides that are measured alternately.
struct RegenSides {
    pid: u32,
    bare: BareModel,
    journal: StandaloneJournal,
    /// The numbers of the sessions. Each session is used once.
    numbers: Box<dyn Iterator<Item = usize>>,
}

impl RegenSides {
    fn measure(
        &mut self,
        way: RegenTrigger,
        connections: usize,
        socket: &Path,
        effort: BenchEffort,
        table: &mut BenchTable,
    ) -> io::Result<()> {
        let verdicts = connections * effort.generated;
        let mut load = LoadConnections::connect(socket, connections)?;
        let [mut ours, mut bare, mut journal] = [const { Vec::new() }; 3];
        let mut cpu = Vec::new();
        for _ in 0..effort.rounds {
            let numbers: Vec<usize> = self.numbers.by_ref().take(verdicts).collect();
            if matches!(way, RegenTrigger::LostVerdict) {
                register(socket, &numbers)?;
            }
            let requests =
                numbers.iter().map(|number| way.request(*number)).collect::<io::Result<Vec<_>>>()?;
            let mut requests = requests.into_iter();
            let cpu_before = cpu_ns(self.pid)?;
            ours.push(load.round(RoundEnd::Sent(verdicts), way.status(), |request| {
                *request = requests.next().expect("one for each");
            })?);
            cpu.push((cpu_ns(self.pid)? - cpu_before) as f64 / verdicts as f64);
            bare.push(self.bare.round(connections, effort.generated)?);
            let mut records = numbers.into_iter().map(|number| way.records(number).into());
            journal.push(self.journal.round(connections, verdicts, MODEL_TAKES, &mut records)?.0);
        }
        let [ours, bare, journal] = [ours, bare, journal].map(|rounds| merge_latencies(&rounds));
        let added = [0.5, 0.99].map(|quantile| value(&ours, quantile) - value(&bare, quantile));
        let [added_p50, added_p99] = added;
        let journal_p50 = value(&journal, 0.5);
        table.row(BenchRow {
            what: format!("{}, {connections:2} connections", way.description()),
            measured: format!("{} / {} more", ms(added_p50), ms(added_p99)),
            cpu: cpu_each(median(cpu)),
            latencies: latencies(&ours),
            baseline: "the model, called by the same client".into(),
            baseline_latencies: latencies(&bare),
            verdict: at_most(added_p50, AIM_NS, "1 ms"),
            ..BenchRow::default()
        });
        table.row(BenchRow {
            baseline: format!("journal alone, commits: {}", way.records(0).len()),
            baseline_measured: ms(journal_p50),
            baseline_latencies: latencies(&journal),
            verdict: format!("{:.2}", added_p50 / journal_p50),
            ..BenchRow::default()
        });
        Ok(())
    }
}

/// Registers sessions whose verdicts the daemon does not have.
fn register(socket: &Path, numbers: &[usize]) -> io::Result<()> {
    let body = json!({"tier": "full", "query": QUERY, "original_verdict": "GREEN"}).to_string();
    let mut numbers = numbers.iter();
    let mut load = LoadConnections::connect(socket, numbers.len().min(16))?;
    let round = load.round(RoundEnd::Sent(numbers.len()), 201, |request| {
        let number = numbers.next().expect("one for each");
        put(request, &format!("/v1/sessions/{}", session_id(*number)), &body)
            .expect("a write to memory succeeds");
    });
    round.map(drop)
}

/// The model without a daemon.
struct BareModel {
    runtime: Runtime,
    endpoint: Arc<UpstreamEndpoint>,
    question: Arc<Value>,
}

impl BareModel {
    fn new(address: SocketAddr) -> io::Result<Self> {
        let key = HeaderKey::bearer(KEY.into()).map_err(io::Error::other)?;
        let endpoint = UpstreamEndpoint::new(&format!("http://{address}"), Some(key), Clock::system());
        let prompt = built_in_prompt(ProductTier::Full, QUERY);
        Ok(Self {
            runtime: runtime::Builder::new_current_thread().enable_all().build()?,
            endpoint: Arc::new(endpoint.map_err(io::Error::other)?),
            question: Arc::new(json!({"contents": [{"role": "user", "parts": [{"text": prompt.text()}]}]})),
        })
    }

    /// Runs `askers` tasks, each of which sends `questions` requests one after the other.
    fn round(&self, askers: usize, questions: usize) -> io::Result<LoadRound> {
        let began = Instant::now();
        let latencies = self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..askers {
                tasks.spawn(send_requests(Arc::clone(&self.endpoint), Arc::clone(&self.question), questions));
            }
            let mut all = histogram();
            while let Some(of_one) = tasks.join_next().await {
                all.add(of_one.expect("an asker does not panic")?).expect("the bounds are the same");
            }
            io::Result::Ok(all)
        })?;
        let requests = askers * questions;
        Ok(LoadRound { requests, rate: requests as f64 / began.elapsed().as_secs_f64(), latencies })
    }
}

async fn send_requests(
    endpoint: Arc<UpstreamEndpoint>,
    question: Arc<Value>,
    times: usize,
) -> io::Result<Histogram<u64>> {
    let mut latencies = histogram();
    for _ in 0..times {
        let began = Instant::now();
        let request = endpoint.post(&["v1beta", "models", "bare:generateContent"], &question);
        let reply = endpoint.send(request, PATIENCE).await;
        latencies.saturating_record(nanoseconds(began.elapsed()));
        reply
            .and_then(|reply| endpoint.check(&reply))
            .map_err(|failure| io::Error::other(failure.to_string()))?;
    }
    Ok(latencies)
}

/// A quantile, in nanoseconds.
fn value(latencies: &Histogram<u64>, quantile: f64) -> f64 {
    latencies.value_at_quantile(quantile) as f64
}

fn ms(ns: f64) -> String {
    format!("{:.2} ms", ns / 1e6)
}
