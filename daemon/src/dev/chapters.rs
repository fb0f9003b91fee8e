//! The chapters of `oracled dev`: about verdicts, and about facts. A walk sends the requests of a chapter, checks their
//! responses, and prints the chapter.

use crate::dev::DevUpstreams;
use actors_platform::clock::monotonic;
use actors_upstream::canned::RECORDED_QUERY;
use anyhow::{Context, bail};
use domain_base::digest::Sha256Hex;
use domain_base::text_form::visible_line;
use domain_verdict::divergence::DISCLAIMER;
use hyper::{Method, StatusCode};
use oracled_api::client::{ClientError, DaemonClient, DaemonResponse};
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const ONTOLOGY: &str = include_str!("../../../examples/ground-truth/ontologies/population.json");
const SOURCE: &str = include_str!("../../../examples/ground-truth/sources/world-bank-population.json");
const PIPELINE: &str = include_str!("../../../examples/ground-truth/pipelines/world-bank-population.json");
/// Two releases, each with its date, which is also its version.
const FIRST: (&str, &str) =
    ("2017-10-26", include_str!("../../../examples/ground-truth/data/world-bank-population/2017-10-26.csv"));
const SECOND: (&str, &str) =
    ("2026-03-06", include_str!("../../../examples/ground-truth/data/world-bank-population/2026-03-06.csv"));
/// A day between the two releases.
const BETWEEN: &str = "2018-01-01T00:00:00Z";
/// The values of Moldova in 2015, of both releases.
const VALUES: [&str; 2] = ["3554108", "2835978"];

pub(super) async fn ingest_two_releases(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let (ontology, source) = (walk.id("population"), walk.id("world-bank"));
    let ontology =
        json!({"kind": "ontology", "document": set_texts(ONTOLOGY, &[("/ontology_id", &ontology)])?});
    let mut documents = vec![ontology];
    documents.extend(source_documents(walk, &source)?);
    register(walk, &documents).await?;
    let first = ingest(walk, &source, FIRST).await?;
    approve(walk, &source).await?;
    let second = ingest(walk, &source, SECOND).await?;
    let then = query(walk, &source, Some(BETWEEN)).await?;
    let now = query(walk, &source, None).await?;
    for (answer, value) in [&then, &now].into_iter().zip(VALUES) {
        walk.check(answer, "/response/records/0/axes/population", value)?;
    }
    Ok(vec![
        format!(
            "World Bank, population: {} records in release {}, {} in release {}; {} are superseded",
            text(&first, "/run/counts/records"),
            FIRST.0,
            text(&second, "/run/counts/records"),
            SECOND.0,
            text(&second, "/run/counts/changes/superseded"),
        ),
        format!(
            "Moldova in 2015: {} as of 2018-01-01, {} as of now",
            population_text(&then),
            population_text(&now)
        ),
    ])
}

pub(super) async fn trace_value(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let now = query(walk, &walk.id("world-bank"), None).await?;
    walk.record_id = text(&now, "/response/records/0/record_id");
    let provenance = walk.get(&format!("/v1/records/{}/provenance", walk.record_id)).await?;
    let number = |name| usize::try_from(provenance.pointer(name)?.as_u64()?).ok();
    let (offset, len) = (number("/raw/offset").unwrap_or_default(), number("/raw/len").unwrap_or_default());
    let raw = SECOND.1.get(offset..offset + len).context("the payload does not have these bytes")?;
    walk.check(&provenance, "/raw_hash", Sha256Hex::of(raw.as_bytes()).as_str())?;
    walk.check(&provenance, "/raw/raw_sha256", Sha256Hex::of(SECOND.1.as_bytes()).as_str())?;
    Ok(vec![
        format!(
            "{} is from record {} of release {}",
            population_text(&now),
            walk.record_id,
            text(&provenance, "/source_version")
        ),
        format!(
            "payload bytes {offset} to {}: {raw} (SHA-256 {})",
            offset + len,
            text(&provenance, "/raw_hash")
        ),
    ])
}

pub(super) async fn check_texts(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let request = json!({"axes_requested": ["area_name", "population"], "filters": [filter("year", 2015)]});
    let facts_from = json!([{"query": {"oracle_id": walk.id("world-bank"), "request": request}}]);
    let mut lines = Vec::new();
    for (claim, verdict) in [
        ("The population of Aruba in 2015 was 107,906.", "PASS"),
        ("The population of Aruba in 2015 was 104,341.", "FAIL"),
    ] {
        let text_and_facts = json!({"candidate_output": claim, "facts_from": facts_from});
        let evaluation = walk.post("/v1/rules/evaluate", &text_and_facts, StatusCode::OK).await?;
        walk.check(&evaluation, "/verdict", verdict)?;
        let violations = evaluation.pointer("/rules/0/violations/0/message").and_then(Value::as_str);
        let reasons = violations.map(|message| format!(" ({message})")).unwrap_or_default();
        lines.push(format!("{}: {claim}{reasons}", text(&evaluation, "/verdict")));
    }
    Ok(lines)
}

pub(super) async fn decide_dispute(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let (first, second, census) = (walk.id("world-bank"), walk.id("office"), walk.id("census"));
    let mut documents = source_documents(walk, &second)?.to_vec();
    documents.push(json!({"kind": "workflow", "document": {
        "workflow_id": census,
        "domain": "How many people live in a country",
        "ontology": {"ontology_id": walk.id("population"), "version": "1"},
        "axes": ["population"],
        "oracles": [first, second],
        "conflict_resolution": {"same_tier_strategy": "require_human"},
        "oracle_latency": {"on_timeout": "FAIL_CLOSED_BLOCK"},
        "authority_latency": {
            "authority_latency_budget_ms": 3000,
            "enforcement_mode": "INLINE",
            "on_timeout_behavior": "ESCALATE",
        },
    }}));
    register(walk, &documents).await?;
    ingest(walk, &second, FIRST).await?;
    approve(walk, &second).await?;

    let ask = |area: &str| json!({"workflow": census, "where": {"area": area, "year": 2015}, "axes": ["population"]});
    let agreed = walk.post("/v1/verify", &ask("SRB"), StatusCode::OK).await?;
    walk.check(&agreed, "/axes/population/basis", "agreement")?;
    let disputed = walk.post("/v1/verify", &ask("MDA"), StatusCode::OK).await?;
    walk.check(&disputed, "/kind", "human_review")?;
    let review = format!("/v1/reviews/{}/resolve", text(&disputed, "/review_id"));
    let resolution = json!({
        "values": {"population": 2_835_978},
        "reason": "the later release",
        "valid_for_seconds": 86_400,
    });
    walk.control(Method::POST, &review, &resolution.to_string(), StatusCode::OK).await?;
    let decided = walk.post("/v1/verify", &ask("MDA"), StatusCode::OK).await?;
    walk.check(&decided, "/kind", "authoritative")?;
    walk.check(&decided, "/axes/population/basis", "human_lock")?;
    walk.execution_id = text(&decided, "/execution_id");
    let stated = |n: u8| {
        let value = text(&disputed, &format!("/candidates/{n}/values/population/value"));
        format!("{value} ({})", text(&disputed, &format!("/candidates/{n}/oracle_id")))
    };
    Ok(vec![
        format!("Serbia: {}, both sources agree", text(&agreed, "/axes/population/value")),
        format!("Moldova: {} or {}; kind: {}", stated(0), stated(1), text(&disputed, "/kind")),
        format!(
            "the reviewer chooses {}; reason: {}",
            text(&decided, "/axes/population/value"),
            text(&resolution, "/reason")
        ),
    ])
}

pub(super) async fn reproduce_decision(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let execution = format!("/v1/executions/{}", walk.execution_id);
    let explained = walk.control(Method::GET, &execution, "", StatusCode::OK).await?;
    walk.check(&explained, "/decisions/0/reproduced", true)?;
    let session = walk.id("good");
    let events = walk.events(&session).await?;
    let status = walk.control(Method::GET, "/v1/status", "", StatusCode::OK).await?;
    Ok(vec![
        format!("{} log entries; session {session} has {}", text(&status, "/entries"), events.join(", ")),
        format!("decision {} is reproduced from its logged inputs", walk.execution_id),
    ])
}

/// `document` with other texts at these JSON pointers.
fn set_texts(document: &str, texts: &[(&str, &str)]) -> anyhow::Result<Value> {
    let mut document: Value = serde_json::from_str(document)?;
    for (pointer, text) in texts {
        *document.pointer_mut(pointer).with_context(|| format!("no {pointer}"))? = (*text).into();
    }
    Ok(document)
}

/// The example's source and pipeline, with `oracle_id` as the id of both.
fn source_documents(walk: &DevWalk<'_>, oracle_id: &str) -> anyhow::Result<[Value; 2]> {
    let ontology = walk.id("population");
    let source = set_texts(SOURCE, &[("/oracle_id", oracle_id), ("/ontology/ontology_id", &ontology)])?;
    let pipeline = set_texts(
        PIPELINE,
        &[
            ("/pipeline/pipeline_id", oracle_id),
            ("/pipeline/oracle_id", oracle_id),
            ("/pipeline/transformation/output_schema_id", &format!("{ontology}@1")),
            ("/normalization/target_ontology_id", &ontology),
        ],
    )?;
    Ok([json!({"kind": "source", "document": source}), json!({"kind": "pipeline", "document": pipeline})])
}

async fn register(walk: &mut DevWalk<'_>, documents: &[Value]) -> anyhow::Result<()> {
    let request = json!({"documents": documents}).to_string();
    let registered = walk.control(Method::POST, "/v1/documents", &request, StatusCode::OK).await?;
    walk.check(&registered, "/registered", documents.len())
}

/// Submits a release, waits until it is ingested, and returns the run.
async fn ingest(walk: &mut DevWalk<'_>, oracle_id: &str, release: (&str, &str)) -> anyhow::Result<Value> {
    let (day, payload) = release;
    let path = format!("/v1/pipelines/{oracle_id}/runs?version={day}&released_at={day}");
    let run = walk.control(Method::POST, &path, payload, StatusCode::ACCEPTED).await?;
    walk.wait_for(&format!("/v1/runs/{}", text(&run, "/run/run_id")), "/run/state", "completed").await
}

async fn approve(walk: &mut DevWalk<'_>, oracle_id: &str) -> anyhow::Result<()> {
    let path = format!("/v1/sources/{oracle_id}/review");
    let source = walk.control(Method::POST, &path, r#"{"approve":{}}"#, StatusCode::OK).await?;
    walk.check(&source, "/review_status", "approved")
}

/// Queries the population of Moldova in 2015, as of a time or now.
async fn query(
    walk: &mut DevWalk<'_>,
    oracle_id: &str,
    point_in_time: Option<&str>,
) -> anyhow::Result<Value> {
    let request = json!({
        "axes_requested": ["population"],
        "filters": [filter("area", "MDA"), filter("year", 2015)],
        "point_in_time": point_in_time,
    });
    walk.post("/v1/query", &json!({"oracle_id": oracle_id, "request": request}), StatusCode::OK).await
}

fn filter(axis: &str, value: impl Into<Value>) -> Value {
    json!({"axis": axis, "operator": "eq", "value": value.into()})
}

/// The value of the first record of a query's answer.
fn population_text(answer: &Value) -> String {
    text(answer, "/response/records/0/axes/population")
}

const GOOD: &str = include_str!("good.json");
/// GREEN with a positive summary, over five RED dimensions without analyses.
const CONTRADICTING: &str = include_str!("contradicting.json");
/// The answer of a real model, cut at its token limit.
const TRUNCATED: &str = include_str!("truncated.txt");
const QUERY: &str = "A neighbourhood tool library run by volunteers out of a shipping container.";
const TRUNCATED_QUERY: &str = "Adopt a second rescue dog while working from home three days a week.";
/// The recipient. The domain `.invalid` is reserved, so this address cannot exist.
const CUSTOMER: &str = "customer@example.invalid";
const ORACLES: &str = "/v1/health/oracles";
/// Maximum number of calls until the circuit opens: an order lists its last ten attempts.
const CALLS_MAX: u32 = 10;
/// Number of requests to the model that fail in the outage: two for each of the three calls that open the circuit.
const FAILED_REQUESTS: u32 = 6;

pub(super) async fn deliver_verdict(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let path = format!("/v1/verdicts/{}", walk.id("good"));
    let verdict: Value = serde_json::from_str(GOOD)?;
    let submission = json!({"tier": "full", "query": QUERY, "verdict": verdict});
    let first = walk.post(&path, &submission, StatusCode::CREATED).await?;
    walk.check(&first, "/decision/coherence_score", 1.0)?;
    let again = walk.post(&path, &submission, StatusCode::OK).await?;
    walk.check(&again, "/replayed", true)?;
    walk.check(&again, "/verdict", verdict)?;
    Ok(vec![
        format_summary(&first),
        format!(
            "coherence {}, at least {:.4} required; a second submission returns the same verdict",
            text(&first, "/decision/coherence_score"),
            first.pointer("/decision/threshold").and_then(Value::as_f64).unwrap_or_default(),
        ),
    ])
}

pub(super) async fn refuse_verdicts(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let mut lines = Vec::new();
    let contradicting: Value = serde_json::from_str(CONTRADICTING)?;
    for (name, title, submission, reason) in [
        (
            "contradicting",
            "GREEN over RED dimensions",
            json!({"tier": "full", "query": QUERY, "verdict": contradicting}),
            "dimension_conflict",
        ),
        (
            "truncated",
            "cut off at the token limit",
            json!({"tier": "full", "query": TRUNCATED_QUERY, "raw": TRUNCATED}),
            "degenerate_manifold",
        ),
    ] {
        let path = format!("/v1/verdicts/{}", walk.id(name));
        let refused = walk.post(&path, &submission, StatusCode::UNPROCESSABLE_ENTITY).await?;
        walk.check(&refused, "/code", "crosscheck_rejected")?;
        walk.check(&refused, "/decision/crosscheck_reason", reason)?;
        let flags = refused.pointer("/decision/flags").and_then(Value::as_array);
        let flags = flags.into_iter().flatten().filter_map(Value::as_str);
        let mut flags: Vec<_> = flags.filter_map(|flag| flag.split(':').next()).collect();
        flags.dedup();
        let coherence = text(&refused, "/decision/coherence_score");
        lines.push(format!("{title}: coherence {coherence}, {}", flags.join(", ")));
    }
    Ok(lines)
}

pub(super) async fn generate_verdict(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let session = walk.id("generated");
    let request = json!({"tier": "full", "query": RECORDED_QUERY, "customer_email": CUSTOMER});
    let generated = walk.order(&session, &request).await?;
    walk.check(&generated, "/verdict/verdict", "NULL")?;
    let mail = walk.mail(&format!("verdict:{session}")).await?;
    Ok([format_summary(&generated)].into_iter().chain(mail).collect())
}

pub(super) async fn regenerate_verdict(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let session = walk.id("generated");
    let path = format!("/v1/verdicts/{session}");
    let purged = walk.control(Method::DELETE, &path, "", StatusCode::OK).await?;
    walk.check(&purged, "/purged", true)?;
    let regenerated = walk.get(&path).await?;
    walk.check(&regenerated, "/verdict/verdict", "RED")?;
    walk.check(&regenerated, "/original_verdict", "NULL")?;
    walk.check(&regenerated, "/divergence_level", "significant")?;
    walk.check(&regenerated, "/disclaimer", DISCLAIMER)?;
    let difference = format!(
        "delivered: {}, regenerated: {}; divergence: {}",
        text(&regenerated, "/original_verdict"),
        text(&regenerated, "/verdict/verdict"),
        text(&regenerated, "/divergence_level"),
    );
    let mail = walk.mail(&format!("divergence:{session}:")).await?;
    Ok([difference].into_iter().chain(mail).collect())
}

/// The model fails until its circuit opens, then recovers. A request waits meanwhile.
pub(super) async fn simulate_outage(walk: &mut DevWalk<'_>) -> anyhow::Result<ChapterLines> {
    let session = walk.id("later");
    // another query in each walk, because the failures of a query are counted
    let query = format!("Walk {}: what if the model fails? test:outage={FAILED_REQUESTS}", walk.before);
    let request = json!({"tier": "full", "query": query});
    let order_path = format!("/v1/orders/{session}");
    let retry = json!({"action": "retry", "reason": "the walk does not wait"}).to_string();
    let waiting = walk.post_in_background(&format!("/v1/verdicts/{session}"), &request).await?;
    // the request has arrived
    walk.wait_for("/v1/orders?limit=1", "/items/0/session_id", &session).await?;
    let mut calls = 0;
    let (open, error) = loop {
        let outcome = format!("/last_attempts/{calls}/outcome");
        let order = walk.wait_for(&order_path, &outcome, "model_unavailable").await?;
        let error = text(&order, &format!("/last_attempts/{calls}/cause"));
        calls += 1;
        let oracles = walk.control(Method::GET, ORACLES, "", StatusCode::OK).await?;
        if text(&oracles, "/0/status") == "circuit_open" || calls == CALLS_MAX {
            break (oracles, error);
        }
        walk.control(Method::POST, &order_path, &retry, StatusCode::OK).await?;
    };
    let failures = text(&open, "/0/consecutive_failures");
    walk.check(&open, "/0/status", "circuit_open")?;
    walk.wait_for(ORACLES, "/0/status", "unhealthy").await?;
    walk.control(Method::POST, &order_path, &retry, StatusCode::OK).await?;
    let generated: Value = waiting.await??.json()?;
    walk.wait_for(&order_path, "/state", "delivered").await?;
    walk.wait_for(ORACLES, "/0/status", "healthy").await?;
    Ok(vec![
        error,
        format!(
            "circuit open after {failures} failures, closed by a call; the waiting request gets {}",
            format_summary(&generated)
        ),
    ])
}

/// The verdict of a response, and the beginning of its summary.
fn format_summary(response: &Value) -> String {
    format!("{}: {}", text(response, "/verdict/verdict"), text(response, "/verdict/summary"))
}

/// Time limit for a change that happens without a further request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of characters of a line: with its indent, it fits 100 columns.
const LINE_CHARS: usize = 96;
/// Maximum number of characters shown of a body.
const BODY_CHARS: usize = 4000;

type ChapterLines = Vec<String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DevSocket {
    Routes,
    Control,
}

/// A walk in progress.
#[derive(Debug)]
pub(super) struct DevWalk<'w> {
    pub(super) outside: &'w DevUpstreams,
    /// The record and the decision that the commands to try show.
    pub(super) record_id: String,
    pub(super) execution_id: String,
    /// Number of chapters, by result.
    pub(super) passed: usize,
    pub(super) unchecked: usize,
    pub(super) failed: usize,
    socket: PathBuf,
    routes: DaemonClient,
    control: DaemonClient,
    /// The number of the last log entry before the walk. Ids contain it, so that several walks can use one store, for example
    /// after one that was stopped.
    before: u64,
    is_verbose: bool,
    is_colored: bool,
    /// Whether the responses of the current chapter are known in advance.
    is_checked: bool,
    /// The last request.
    request: String,
    /// The requests and responses of the current chapter.
    detail: String,
}

impl<'w> DevWalk<'w> {
    /// Connects to a daemon.
    pub(super) async fn start(
        outside: &'w DevUpstreams,
        socket: &Path,
        control_socket: &Path,
        is_verbose: bool,
    ) -> anyhow::Result<Self> {
        let mut walk = Self {
            outside,
            record_id: String::new(),
            execution_id: String::new(),
            passed: 0,
            unchecked: 0,
            failed: 0,
            socket: socket.to_owned(),
            routes: DaemonClient::connect(socket).await?,
            control: DaemonClient::connect(control_socket).await?,
            before: 0,
            is_verbose,
            is_colored: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            is_checked: true,
            request: String::new(),
            detail: String::new(),
        };
        let status = walk.control(Method::GET, "/v1/status", "", StatusCode::OK).await?;
        walk.before = status.get("entries").and_then(Value::as_u64).context("the status has no `entries`")?;
        Ok(walk)
    }

    /// Whether the store has a finished walk. The ids of this walk are then those of that one.
    pub(super) async fn find_earlier_walk(&mut self) -> anyhow::Result<bool> {
        let sources = self.get("/v1/sources").await?;
        // the source of the last chapter that registers one
        let before = sources.as_array().into_iter().flatten().find_map(|source| {
            text(source, "/oracle_id").strip_prefix("dev-")?.strip_suffix("-office")?.parse().ok()
        });
        self.before = before.unwrap_or(self.before);
        Ok(before.is_some())
    }

    /// The id of a session, document or source of this walk.
    pub(super) fn id(&self, name: &str) -> String {
        format!("dev-{}-{name}", self.before)
    }

    /// Runs a chapter and prints its lines. A chapter ends at its first unexpected response, which is a failure only if
    /// the chapter is checked. Returns whether the chapter reached its end.
    pub(super) async fn chapter(
        &mut self,
        title: &str,
        is_checked: bool,
        run: impl AsyncFnOnce(&mut Self) -> anyhow::Result<ChapterLines>,
    ) -> io::Result<bool> {
        self.detail.clear();
        self.is_checked = is_checked;
        let ran = run(self).await;
        let (mark, code, count) = match (is_checked, &ran) {
            (false, _) => ("·", 33, &mut self.unchecked),
            (true, Ok(_)) => ("✓", 32, &mut self.passed),
            (true, Err(_)) => ("✗", 31, &mut self.failed),
        };
        *count += 1;
        let mark = self.colored(mark, code);
        let mut out = io::stdout().lock();
        let is_ok = ran.is_ok();
        match ran {
            Ok(lines) => {
                writeln!(out, "{mark} {title}")?;
                for line in lines {
                    writeln!(out, "    {}", shortened(&line, LINE_CHARS))?;
                }
            }
            Err(fault) => {
                let fault = format!("{}: {fault:#}", self.request);
                writeln!(out, "{mark} {title}: {}", shortened(&fault, BODY_CHARS))?;
            }
        }
        let detail = if self.is_verbose || !is_ok { self.detail.as_str() } else { "" };
        out.write_all(detail.as_bytes())?;
        Ok(is_ok)
    }

    /// Prints the title of a chapter that cannot run, and counts the chapter as not checked.
    pub(super) fn skip(&mut self, title: &str, reason: &str) -> io::Result<()> {
        self.unchecked += 1;
        writeln!(io::stdout(), "{} {title}: skipped, because {reason}", self.colored("·", 33))
    }

    fn colored(&self, mark: &str, code: u8) -> String {
        if self.is_colored { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() }
    }

    /// Reads from the routes' socket.
    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let answer = self.call(DevSocket::Routes, Method::GET, path, "", StatusCode::OK).await?;
        Ok(answer.json()?)
    }

    /// Posts to the routes' socket.
    pub(super) async fn post(
        &mut self,
        path: &str,
        body: &Value,
        status: StatusCode,
    ) -> anyhow::Result<Value> {
        let answer = self.call(DevSocket::Routes, Method::POST, path, &body.to_string(), status).await?;
        Ok(answer.json()?)
    }

    /// Orders a verdict, and waits for it until the first attempt fails: the daemon would try again for a day.
    pub(super) async fn order(&mut self, session: &str, request: &Value) -> anyhow::Result<Value> {
        let waiting = self.post_in_background(&format!("/v1/verdicts/{session}"), request).await?;
        let before = self.detail.len();
        while !waiting.is_finished() {
            self.detail.truncate(before);
            let orders = self.control(Method::GET, "/v1/orders?limit=1", "", StatusCode::OK).await?;
            let order = |name: &str| text(&orders, &format!("/items/0/{name}"));
            if order("session_id") == session && order("state") == "queued" && order("attempts") != "0" {
                bail!("{}", order("last_attempts/0/cause"));
            }
            sleep(PAUSE).await;
        }
        self.detail.truncate(before);
        let answer = waiting.await??;
        self.detail.push_str(&format!("      {}\n", answer.status));
        let response = String::from_utf8_lossy(&answer.body);
        self.detail.push_str(&format!("      {}\n", shortened(&response, BODY_CHARS)));
        if answer.status != StatusCode::CREATED {
            bail!("expected status 201 Created, got {}: {}", answer.status, shortened(&response, LINE_CHARS));
        }
        Ok(answer.json()?)
    }

    /// Posts to the routes' socket on a connection of its own, so that other requests can be sent while it waits.
    async fn post_in_background(
        &mut self,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<JoinHandle<Result<DaemonResponse, ClientError>>> {
        let (mut client, path, body) =
            (DaemonClient::connect(&self.socket).await?, path.to_owned(), body.to_string());
        self.describe(&format!("POST {path}"), &body);
        Ok(tokio::spawn(async move { client.call(Method::POST, &path, Some(body.into())).await }))
    }

    /// Sends a request to the control socket.
    pub(super) async fn control(
        &mut self,
        method: Method,
        path: &str,
        body: &str,
        status: StatusCode,
    ) -> anyhow::Result<Value> {
        Ok(self.call(DevSocket::Control, method, path, body, status).await?.json()?)
    }

    /// The names of the logged events of a session, in their order.
    pub(super) async fn events(&mut self, session: &str) -> anyhow::Result<Vec<String>> {
        let path = format!("/v1/log?session={session}");
        let answer = self.call(DevSocket::Control, Method::GET, &path, "", StatusCode::OK).await?;
        let entries = serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>();
        entries.map(|entry| Ok(text(&entry?, "/event"))).collect()
    }

    /// Reads from the control socket until the value at a JSON pointer is as expected.
    pub(super) async fn wait_for(
        &mut self,
        path: &str,
        pointer: &str,
        expected: &str,
    ) -> anyhow::Result<Value> {
        let began = monotonic();
        let before = self.detail.len();
        loop {
            // the detail has only the last attempt
            self.detail.truncate(before);
            let found = self.control(Method::GET, path, "", StatusCode::OK).await?;
            if text(&found, pointer) == expected || began.elapsed() >= PATIENCE {
                self.check(&found, pointer, expected)?;
                return Ok(found);
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits for the mail whose id begins with `id`. Returns its recipient and its subject.
    pub(super) async fn mail(&mut self, id: &str) -> anyhow::Result<Option<String>> {
        if !self.is_checked {
            return Ok(None);
        }
        let began = monotonic();
        while began.elapsed() < PATIENCE {
            if let Some((file, text)) = self.outside.find_mail(id)? {
                self.describe(&format!("mail {}", file.display()), &text);
                let head = text.lines().take(2).collect::<Vec<_>>();
                return Ok(Some(format!("mail {}", head.join(", "))));
            }
            sleep(PAUSE).await;
        }
        bail!("mail {id} did not arrive within {PATIENCE:?}")
    }

    /// Fails if the value at a JSON pointer of a response is not as expected.
    pub(super) fn check(
        &self,
        response: &Value,
        pointer: &str,
        expected: impl Into<Value>,
    ) -> anyhow::Result<()> {
        let (found, expected) = (response.pointer(pointer), expected.into());
        if self.is_checked && found != Some(&expected) {
            bail!("expected {expected} at {pointer}, got {}", found.unwrap_or(&Value::Null));
        }
        Ok(())
    }

    async fn call(
        &mut self,
        socket: DevSocket,
        method: Method,
        path: &str,
        body: &str,
        status: StatusCode,
    ) -> anyhow::Result<DaemonResponse> {
        let client = if socket == DevSocket::Routes { &mut self.routes } else { &mut self.control };
        self.request = format!("{method} {path}");
        let sent = (!body.is_empty()).then(|| body.to_owned().into());
        let answer = client.call(method, path, sent).await?;
        let suffix = if socket == DevSocket::Routes { "" } else { " (control socket)" };
        self.describe(&format!("{}{suffix}", self.request), body);
        self.detail.push_str(&format!("      {}\n", answer.status));
        let response = String::from_utf8_lossy(&answer.body);
        self.detail.push_str(&format!("      {}\n", shortened(&response, BODY_CHARS)));
        if answer.status != status {
            let problem: Value = answer.json().unwrap_or_default();
            bail!("expected status {status}, got {}: {}", answer.status, text(&problem, "/detail"));
        }
        Ok(answer)
    }

    fn describe(&mut self, title: &str, body: &str) {
        self.detail.push_str(&format!("    {title}\n"));
        if !body.is_empty() {
            self.detail.push_str(&format!("      {}\n", shortened(body, BODY_CHARS)));
        }
    }
}

/// The value at a JSON pointer: a text without its quotes, any other value as JSON.
pub(super) fn text(document: &Value, pointer: &str) -> String {
    match document.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        found => found.unwrap_or(&Value::Null).to_string(),
    }
}

/// `text` on one visible line, and shortened.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = line.chars().count();
    let cut: String =
        line.chars().take(if count > chars { chars.saturating_sub(1) } else { count }).collect();
    visible_line(&cut).into_owned() + if count > chars { "…" } else { "" }
}
