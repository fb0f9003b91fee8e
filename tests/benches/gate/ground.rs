//! Ground truth: the daemon ingests a payload, and its facts are queried through the library and over the
//! socket. The comparisons are SQLite with the same facts, and a bare axum handler that returns the same
//! bytes. Before the timing, each answer is compared with SQLite's.

pub(crate) mod facts;
mod library;
mod logged;
mod socket;
mod sqlite_facts;

use crate::BenchEffort;
use crate::load::nanoseconds;
use crate::table::{BenchRow, BenchTable, at_most, histogram, median, per_second};
use bytes::Bytes;
use facts::{BenchFact, BenchRelease, releases};
use fastrand::Rng;
use hdrhistogram::Histogram;
use hyper::Method;
use library::LibraryStore;
use oracled_api::client::DaemonClient;
use oracled_tests::{DaemonProcess, DaemonWorld, at, document, get, post};
use serde_json::Value;
use sqlite_facts::{SqliteFacts, SqliteStatements};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};
use tokio::runtime;

pub(crate) const SOURCE: &str = "world-bank-population";
/// Example documents of the project.
const DOCUMENTS: [(&str, &str); 3] = [
    ("/v1/documents/ontology/population@1", "ontologies/population.json"),
    ("/v1/documents/source/world-bank-population", "sources/world-bank-population.json"),
    ("/v1/documents/pipeline/world-bank-population", "pipelines/world-bank-population.json"),
];
/// The highest ratio of the time of a lookup to SQLite's.
const AIM: f64 = 0.5;
/// The highest number of records in an answer.
const MOST: u32 = 10_000;
/// The number of releases in the measurement of queries at a past time.
const RELEASES: usize = 4;
/// A range contains one of this many facts.
const RANGE: usize = 500;
/// The records of one page, and the pages that are read in one round.
const PAGE: u32 = 1000;
const PAGES: usize = 50;
/// The pause between two checks of a run's state.
const PAUSE: Duration = Duration::from_millis(5);

/// A query.
#[derive(Debug)]
pub(crate) enum BenchQuery<'f> {
    /// One area and year.
    Lookup { area: &'f str, year: u16 },
    /// All years of an area.
    Years(&'f str),
    /// An area by its name, which is indexed.
    Named(&'f str),
    /// Facts with at least this population, which is not indexed.
    FromOn(i64),
    /// The page of facts after this one, or the first page.
    Page(Option<&'f ReturnedFact>),
}

impl BenchQuery<'_> {
    /// The highest number of records in an answer.
    const fn limit(&self) -> u32 {
        if matches!(self, Self::Page(_)) { PAGE } else { MOST }
    }
}

/// A returned fact. Both sides read the same values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReturnedFact {
    area: String,
    year: u16,
    name: String,
    population: i64,
    valid_from: i64,
    run: u32,
    position: i64,
    raw_hash: [u8; 32],
}

/// Measures one release with all facts, and several releases with a part of them each.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    for count in [1, RELEASES] {
        let releases = releases(count, effort.facts / count);
        let world = DaemonWorld::default();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let daemon = runtime.block_on(world.serve());
        let ingested = runtime.block_on(ingest(&daemon, &releases))?;
        let (baseline, inserted) = SqliteFacts::fill(&world.path("facts.sqlite"), &releases)?;
        table.group(format!(
            "ground truth, {} facts in {count} releases; ratio: time of oracled over time of the baseline",
            effort.facts
        ));
        table.row(BenchRow {
            what: "ingest, from the archive to the commit".into(),
            measured: per_second(effort.facts as f64 / ingested.as_secs_f64()),
            baseline: "SQLite, parsed rows, one transaction".into(),
            baseline_measured: per_second(effort.facts as f64 / inserted.as_secs_f64()),
            verdict: format!("{:.2}", ingested.as_secs_f64() / inserted.as_secs_f64()),
            ..BenchRow::default()
        });
        if count == 1 {
            socket::measure(effort, &world, daemon.pid(), &releases, table)?;
        }
        if !daemon.stop().success() {
            return Err(io::Error::other("the daemon stopped with an error"));
        }
        let sides =
            &mut QuerySides { library: LibraryStore::open(&world.state())?, baseline: baseline.prepare()? };
        lookups(effort, sides, &releases, table)?;
        if count == 1 {
            logged::measure(effort, &mut sides.library, &releases, table)?;
        }
        filtered(effort, sides, &releases, table)?;
        pages(effort, sides, &releases, table)?;
    }
    Ok(())
}

/// Registers the documents and ingests every release. Returns the total time of the runs, each from the moment when its
/// payload was archived.
pub(crate) async fn ingest(daemon: &DaemonProcess<'_>, releases: &[BenchRelease]) -> io::Result<Duration> {
    let control = &mut daemon.control().await;
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/ground-truth");
    for (path, name) in DOCUMENTS {
        let body = Bytes::from(fs::read(examples.join(name))?);
        let answer = control.call(Method::PUT, path, Some(body)).await.map_err(io::Error::other)?;
        assert_eq!(answer.status, 200, "{}", document(&answer));
    }
    let review = serde_json::json!({"approve": {}});
    let mut took = Duration::ZERO;
    for release in releases {
        took += ingest_release(control, release).await?.1;
    }
    let approved = post(control, &format!("/v1/sources/{SOURCE}/review"), &review).await;
    assert_eq!(approved.status, 200, "{}", document(&approved));
    Ok(took)
}

/// Ingests a release. Returns the id of its run, and the time from the moment when its payload was archived.
pub(crate) async fn ingest_release(
    control: &mut DaemonClient,
    release: &BenchRelease,
) -> io::Result<(String, Duration)> {
    let (version, payload) = (&release.version, Bytes::from(release.payload()));
    let path = format!("/v1/pipelines/{SOURCE}/runs?version={version}&released_at={version}-07-01");
    let answer = control.call(Method::POST, &path, Some(payload)).await.map_err(io::Error::other)?;
    let began = Instant::now();
    assert_eq!(answer.status, 202, "{}", document(&answer));
    let run_id = at(&answer, "/run/run_id").as_str().unwrap_or_default().to_owned();
    let path = format!("/v1/runs/{run_id}");
    let run = loop {
        let run = at(&get(control, &path).await, "/run");
        if run.get("state") != Some(&Value::from("running")) {
            break run;
        }
        tokio::time::sleep(PAUSE).await;
    };
    assert_eq!(run.pointer("/counts/records"), Some(&Value::from(release.facts.len())), "{run}");
    Ok((run_id, began.elapsed()))
}

/// The two sides that answer the same queries.
struct QuerySides<'b> {
    library: LibraryStore,
    baseline: SqliteStatements<'b>,
}

impl QuerySides<'_> {
    /// Queries both sides and compares their answers. Returns the number of facts.
    fn compare(&mut self, question: &BenchQuery<'_>, at: i64) -> io::Result<usize> {
        let facts = self.library.query(question, at)?;
        assert_eq!(facts, self.baseline.query(question, at)?, "{question:?} as of {at}");
        Ok(facts.len())
    }
}

/// Random facts of a release, the same in every run of the benchmark.
fn random_facts(release: &BenchRelease, count: usize) -> Vec<&BenchFact> {
    let mut random = Rng::with_seed(19);
    (0..count).filter_map(|_| random.choice(&release.facts)).collect()
}

fn question(fact: &BenchFact) -> BenchQuery<'_> {
    BenchQuery::Lookup { area: &fact.area, year: fact.year }
}

/// The time for which `releases` are queried: a moment after the last but one, or after the only one.
fn as_of(releases: &[BenchRelease]) -> io::Result<(i64, &BenchRelease)> {
    let release = releases.get(releases.len().saturating_sub(2));
    let release = release.ok_or_else(|| io::Error::other("there are no releases"))?;
    Ok((release.released_s + 1, release))
}

/// Looks facts up one by one.
fn lookups(
    effort: BenchEffort,
    sides: &mut QuerySides<'_>,
    releases: &[BenchRelease],
    table: &mut BenchTable,
) -> io::Result<()> {
    let (at, release) = as_of(releases)?;
    let facts = random_facts(release, effort.lookups);
    for fact in &facts {
        assert_eq!(sides.compare(&question(fact), at)?, 1, "{fact:?}");
    }
    let [mut ours, mut each, mut together] = [histogram(), histogram(), histogram()];
    for _ in 0..effort.rounds {
        time(&facts, &mut ours, |question| sides.library.query(question, at))?;
        time(&facts, &mut each, |question| sides.baseline.query(question, at))?;
        sides.baseline.begin()?;
        time(&facts, &mut together, |question| sides.baseline.query(question, at))?;
        sides.baseline.end()?;
    }
    let p50 = |histogram: &Histogram<u64>| histogram.value_at_quantile(0.5) as f64;
    for (what, baseline, latencies, has_aim) in [
        ("lookup by identity", "SQLite, prepared", &each, true),
        ("", "SQLite, all in one transaction", &together, false),
    ] {
        let ratio = p50(&ours) / p50(latencies);
        let aim = if has_aim { at_most(ratio, AIM, &format!(": {AIM}")) } else { String::new() };
        table.row(BenchRow {
            what: what.into(),
            latencies: if has_aim { in_us(&ours) } else { String::new() },
            baseline: baseline.into(),
            baseline_latencies: in_us(latencies),
            verdict: format!("{ratio:.2}{aim}"),
            ..BenchRow::default()
        });
    }
    Ok(())
}

/// Latencies of a few microseconds.
fn in_us(histogram: &Histogram<u64>) -> String {
    let [p50, p99] = [0.5, 0.99].map(|quantile| histogram.value_at_quantile(quantile) as f64 / 1e3);
    format!("{p50:.2} / {p99:.2} µs")
}

/// Queries each of `facts`, and records the time of each query.
fn time(
    facts: &[&BenchFact],
    latencies: &mut Histogram<u64>,
    mut ask: impl FnMut(&BenchQuery<'_>) -> io::Result<Vec<ReturnedFact>>,
) -> io::Result<()> {
    for fact in facts {
        let question = question(fact);
        let began = Instant::now();
        let found = ask(&question)?;
        latencies.saturating_record(nanoseconds(began.elapsed()));
        assert_eq!(found.len(), 1, "{question:?}");
    }
    Ok(())
}

/// Measures queries that an index answers, and one that no index answers.
fn filtered(
    effort: BenchEffort,
    sides: &mut QuerySides<'_>,
    releases: &[BenchRelease],
    table: &mut BenchTable,
) -> io::Result<()> {
    let (at, release) = as_of(releases)?;
    let mut populations: Vec<i64> = release.facts.iter().map(|fact| fact.population).collect();
    populations.sort_unstable();
    let from_on = populations.iter().nth_back(populations.len() / RANGE).copied().unwrap_or_default();
    let named = random_facts(release, 1).first().map_or("", |fact| fact.name.as_str());
    let area = random_facts(release, 1).first().map_or("", |fact| fact.area.as_str());
    for (what, question) in [
        ("range of the identity", BenchQuery::Years(area)),
        ("indexed equality", BenchQuery::Named(named)),
        ("range without an index", BenchQuery::FromOn(from_on)),
    ] {
        let count = sides.compare(&question, at)?;
        let mut rounds: [Vec<f64>; 2] = Default::default();
        let [ours, baseline] = &mut rounds;
        for _ in 0..effort.rounds {
            let began = Instant::now();
            drop(sides.library.query(&question, at)?);
            ours.push(began.elapsed().as_secs_f64() * 1e6);
            let began = Instant::now();
            drop(sides.baseline.query(&question, at)?);
            baseline.push(began.elapsed().as_secs_f64() * 1e6);
        }
        let [ours, baseline] = rounds.map(median);
        comparison_row(table, format!("{what}, {count} of {}", release.facts.len()), ours, baseline);
    }
    Ok(())
}

/// Reads all facts, page by page.
fn pages(
    effort: BenchEffort,
    sides: &mut QuerySides<'_>,
    releases: &[BenchRelease],
    table: &mut BenchTable,
) -> io::Result<()> {
    let (at, _) = as_of(releases)?;
    let mut lasts: Vec<Option<ReturnedFact>> = vec![None];
    for _ in 0..PAGES {
        let question = BenchQuery::Page(lasts.last().and_then(Option::as_ref));
        let page = sides.library.query(&question, at)?;
        assert_eq!(page, sides.baseline.query(&question, at)?, "{question:?} as of {at}");
        lasts.extend(page.last().cloned().map(Some));
    }
    let mut rounds: [Vec<f64>; 2] = Default::default();
    let [ours, baseline] = &mut rounds;
    for _ in 0..effort.rounds {
        let questions = || lasts.iter().map(|last| BenchQuery::Page(last.as_ref()));
        let each = |began: Instant| began.elapsed().as_secs_f64() * 1e6 / lasts.len() as f64;
        let began = Instant::now();
        for question in questions() {
            drop(sides.library.query(&question, at)?);
        }
        ours.push(each(began));
        let began = Instant::now();
        for question in questions() {
            drop(sides.baseline.query(&question, at)?);
        }
        baseline.push(each(began));
    }
    let [ours, baseline] = rounds.map(median);
    comparison_row(table, format!("page of {PAGE}, {} pages", lasts.len()), ours, baseline);
    Ok(())
}

/// A row of times in microseconds, compared with SQLite.
fn comparison_row(table: &mut BenchTable, what: String, ours: f64, baseline: f64) {
    table.row(BenchRow {
        what,
        measured: shown(ours),
        baseline: "SQLite".into(),
        baseline_measured: shown(baseline),
        verdict: format!("{:.2}", ours / baseline),
        ..BenchRow::default()
    });
}

fn shown(us: f64) -> String {
    if us < 1e3 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1e3) }
}
