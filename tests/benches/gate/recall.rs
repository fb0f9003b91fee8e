//! Recall: a store of verdicts over statements of a source, the time to build its index, and the time to find the verdicts that a
//! release touches. The sets are compared with those of a replay of all verdicts.

#![allow(clippy::indexing_slicing, reason = "a missing member fails the measurement")]

use crate::BenchEffort;
use crate::ground::facts::{BenchFact, BenchRelease, releases};
use crate::ground::{SOURCE, ingest, ingest_release};
use crate::machine::cpu_ns;
use crate::records::session_id;
use crate::standalone_journal::{commit_all_of, open};
use crate::table::{BenchRow, BenchTable, at_most, cpu_each, median};
use domain_base::digest::Sha256Hex;
use domain_base::event::{AuditEvent, EventKind};
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_base::session_id::SessionId;
use domain_ground::ontology::OntologyRef;
use domain_ground::run::record_id;
use domain_ground::source::OracleTier;
use domain_rules::event::{RulesEntry, RulesEvaluated};
use domain_rules::sourced::{
    FactQueryTarget, FactSource, OriginFacts, RecordOrigin, SourcedFact, SourcedFactOrigin,
};
use domain_rules::{CandidateCheck, FactSet, RuleId, RuleSettings, RulesEvaluation};
use domain_verdict::crosscheck::judge;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::event::{CrosscheckEntry, TmmCrosscheck, VerdictCached};
use domain_verdict::label::ProductTier;
use domain_verdict::query::CustomerQuery;
use domain_verdict::rules_gate::{RulesGateOutcome, examine};
use domain_verdict::session::{OriginalVerdict, SessionRecord};
use fastrand::Rng;
use hyper::Method;
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowWrite};
use oracled_tests::ground::wait_for_run;
use oracled_tests::{DaemonProcess, DaemonWorld, document, get, post};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::{self, Runtime};

/// Statements of each verdict.
const STATEMENTS_EACH: usize = 3;
/// Verdicts over each statement, divided by [`STATEMENTS_EACH`].
const VERDICTS_OVER: usize = 10;
/// One of this many statements is corrected by the large release: 5,000 of 100,000.
const CORRECTED_ONE_IN: usize = 20;
/// The longest acceptable time for a release that corrects one statement, in seconds.
const AIM_S: f64 = 1.0;
/// The largest acceptable ratio of a submission with references to one without.
const SUBMISSION_AIM: f64 = 1.05;
/// Submissions in a group, and groups in a round.
const GROUP: usize = 64;
const GROUPS: usize = 40;

/// Measures the index and two releases, and the cost of references.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let (verdicts, statements) = (effort.stored_many, effort.stored_many / VERDICTS_OVER);
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let world = DaemonWorld::default();
    let first = releases(1, statements);
    let facts = first.first().map(|release| release.facts.clone()).unwrap_or_default();
    let daemon = runtime.block_on(world.serve());
    runtime.block_on(ingest(&daemon, &first))?;
    let run_id = runtime.block_on(first_run(&daemon))?;
    check_stopped(daemon)?;
    table.group(format!(
        "recall, {verdicts} verdicts over {statements} statements, {STATEMENTS_EACH} in each"
    ));
    submissions(effort, &facts, &run_id, table)?;
    fill(&world, verdicts, &facts, &run_id)?;

    let daemon = runtime.block_on(world.serve());
    let (began, cpu) = (Instant::now(), cpu_ns(daemon.pid())?);
    let entries = (verdicts * 3) as u64;
    let of_first = format!("&run={run_id}&limit=1");
    while runtime.block_on(recalled(&daemon, &of_first))?["up_to_entry"].as_u64() < Some(entries) {}
    let built_s = began.elapsed().as_secs_f64();
    table.row(BenchRow {
        what: "index of the statements, built from the log".into(),
        measured: format!("{built_s:.1} s"),
        cpu: cpu_each((cpu_ns(daemon.pid())? - cpu) as f64 / verdicts as f64),
        baseline: "for each verdict: processor time".into(),
        ..BenchRow::default()
    });
    let began = Instant::now();
    runtime.block_on(recalled(&daemon, "&limit=1"))?;
    table.row(BenchRow {
        what: "all statements of the source, none of which differs".into(),
        measured: format!("{:.1} s", began.elapsed().as_secs_f64()),
        ..BenchRow::default()
    });
    let corrected = corrections(effort, &runtime, &daemon, &facts, table)?;
    undo_and_erase(&runtime, &daemon, &replay(verdicts, statements, &corrected), table)?;
    check_stopped(daemon)
}

/// A release that corrects one fact, and one that corrects many, with the verdicts that each touches. Returns the fact of the first.
fn corrections(
    effort: BenchEffort,
    runtime: &Runtime,
    daemon: &DaemonProcess<'_>,
    facts: &[BenchFact],
    table: &mut BenchTable,
) -> io::Result<BTreeSet<usize>> {
    let (verdicts, statements) = (effort.stored_many, facts.len());
    let (mut now, mut first) = (facts.to_vec(), None);
    for (version, count) in [("2024", 1), ("2025", statements / CORRECTED_ONE_IN)] {
        let corrected = correct(&mut now, count);
        let release = BenchRelease { version: version.to_owned(), released_s: 0, facts: now.clone() };
        let (run, _) =
            runtime.block_on(async { ingest_release(&mut daemon.control().await, &release).await })?;
        let expected = replay(verdicts, statements, &corrected);
        let query = format!("&run={run}");
        let mut times = Vec::new();
        for _ in 0..effort.rounds {
            let began = Instant::now();
            let answer = runtime.block_on(recalled(daemon, &format!("{query}&limit=100")))?;
            times.push(began.elapsed().as_secs_f64());
            assert_eq!(answer["total"], expected.len(), "the number is that of a replay");
        }
        let found = runtime.block_on(sessions(daemon, &query))?;
        assert!(found == expected, "the sessions are not those of a replay");
        let time_s = median(times);
        let aim = if count == 1 { at_most(time_s, AIM_S, &format!(": {AIM_S} s")) } else { String::new() };
        table.row(BenchRow {
            what: format!("release that corrects {count}: the first 100 of {} verdicts", expected.len()),
            measured: format!("{:.1} ms", time_s * 1e3),
            baseline: "a replay of all verdicts".into(),
            baseline_measured: "same set".into(),
            verdict: aim,
            ..BenchRow::default()
        });
        first.get_or_insert(corrected);
    }
    Ok(first.unwrap_or_default())
}

/// Undoes the last release, after which `expected` are the verdicts with other statements, and erases one of them.
fn undo_and_erase(
    runtime: &Runtime,
    daemon: &DaemonProcess<'_>,
    expected: &BTreeSet<String>,
    table: &mut BenchTable,
) -> io::Result<()> {
    let control = || async { daemon.control().await };
    let runs = runtime.block_on(async {
        document(&get(&mut control().await, &format!("/v1/runs?oracle_id={SOURCE}")).await)
    });
    let run = runs.pointer("/items/0/run/run_id").and_then(Value::as_str).unwrap_or_default();
    let undo = format!("/v1/runs/{run}/undo");
    let undone =
        runtime.block_on(async { post(&mut control().await, &undo, &json!({"reason": "measured"})).await });
    let id = document(&undone)["run"]["run_id"].as_str().unwrap_or_default().to_owned();
    runtime.block_on(async { wait_for_run(&mut control().await, &id).await });
    assert!(runtime.block_on(sessions(daemon, ""))? == *expected, "the undone release touches verdicts");

    let mut rest = expected.clone();
    let erased = rest.pop_first().ok_or_else(|| io::Error::other("a release touches no verdict"))?;
    let body = json!({"session_id": erased, "reason": "measured"}).to_string().into();
    let answer = runtime
        .block_on(async { control().await.call_without_timeout(Method::POST, "/v1/erasures", body).await });
    assert!(answer.is_ok_and(|answer| answer.status == 200), "it is erased");
    let began = Instant::now();
    loop {
        let answer = runtime.block_on(recalled(daemon, "&limit=1"))?;
        if answer["up_to_entry"].as_u64() >= answer["last_entry"].as_u64() {
            break;
        }
    }
    let built_s = began.elapsed().as_secs_f64();
    assert!(runtime.block_on(sessions(daemon, ""))? == rest, "the erased session is still named");
    table.row(BenchRow {
        what: "after an undo and the erasure of a session: all statements of the source".into(),
        measured: format!("after {built_s:.1} s"),
        baseline: "a replay of all verdicts".into(),
        baseline_measured: "same sets".into(),
        ..BenchRow::default()
    });
    Ok(())
}

fn check_stopped(daemon: DaemonProcess<'_>) -> io::Result<()> {
    if daemon.stop().success() { Ok(()) } else { Err(io::Error::other("the daemon stopped with an error")) }
}

async fn first_run(daemon: &DaemonProcess<'_>) -> io::Result<Sha256Hex> {
    let runs = document(&get(&mut daemon.control().await, &format!("/v1/runs?oracle_id={SOURCE}")).await);
    let run_id = runs.pointer("/items/0/run/run_id").and_then(Value::as_str);
    run_id.and_then(|run_id| run_id.parse().ok()).ok_or_else(|| io::Error::other(format!("no run: {runs}")))
}

async fn recalled(daemon: &DaemonProcess<'_>, params: &str) -> io::Result<Value> {
    let path = format!("/v1/recalls?oracle_id={SOURCE}{params}");
    let answer = daemon.control().await.call_without_timeout(Method::GET, &path, Vec::new().into()).await;
    let answer = answer.map_err(io::Error::other)?;
    assert_eq!(answer.status, 200, "{}", document(&answer));
    Ok(document(&answer))
}

/// The sessions of the verdicts in a scope.
async fn sessions(daemon: &DaemonProcess<'_>, scope: &str) -> io::Result<BTreeSet<String>> {
    let (mut found, mut after) = (BTreeSet::new(), String::new());
    loop {
        let page = recalled(daemon, &format!("{scope}&limit=1000{after}")).await?;
        for verdict in page["verdicts"].as_array().into_iter().flatten() {
            assert_eq!(verdict["result"], "now_contradicted", "{verdict}");
            found.extend(verdict["session_id"].as_str().map(str::to_owned));
        }
        let Some(next) = page["next"].as_str() else { return Ok(found) };
        after = format!("&after={next}");
    }
}

/// Corrects random facts. Returns their positions.
fn correct(facts: &mut [BenchFact], count: usize) -> BTreeSet<usize> {
    let mut random = Rng::with_seed(count as u64);
    let mut corrected = BTreeSet::new();
    while corrected.len() < count.min(facts.len()) {
        let position = random.usize(0..facts.len());
        if corrected.insert(position)
            && let Some(fact) = facts.get_mut(position)
        {
            fact.population += 1_000 + random.i64(0..1_000_000);
        }
    }
    corrected
}

/// The positions of the statements of verdict number `number`.
fn positions(number: usize, statements: usize) -> [usize; STATEMENTS_EACH] {
    [0, statements / 3 + 1, 2 * statements / 3 + 2].map(|from| (number + from) % statements)
}

/// The sessions of the verdicts of which a statement was corrected.
fn replay(verdicts: usize, statements: usize, corrected: &BTreeSet<usize>) -> BTreeSet<String> {
    let relied =
        |number: &usize| positions(*number, statements).iter().any(|position| corrected.contains(position));
    (0..verdicts).filter(relied).map(session_id).collect()
}

/// A verdict of three claims, with its check against the statements that support them.
fn checked(number: usize, facts: &[BenchFact], run_id: &Sha256Hex) -> (String, CandidateCheck) {
    let of = positions(number, facts.len()).map(|position| (position, facts.get(position)));
    let text = |fact: &BenchFact| {
        format!("The population of {} in {} was {}", fact.name, fact.year, fact.population)
    };
    let origin = |(position, fact): (usize, Option<&BenchFact>)| OriginFacts {
        facts: vec![SourcedFact {
            fact: 0,
            template_id: "population".parse().expect("an id"),
            text: fact.map(text).unwrap_or_default(),
        }],
        origin: SourcedFactOrigin::Record(RecordOrigin {
            oracle_id: SOURCE.parse().expect("an id"),
            oracle_tier: OracleTier::Primary,
            raw_hash: Sha256Hex::of(&position.to_be_bytes()),
            record_id: record_id(run_id, position as u64),
            source_version: "2023".to_owned(),
            stale: false,
        }),
    };
    let source = FactSource {
        facts: STATEMENTS_EACH as u64,
        ontology: OntologyRef { ontology_id: "population".parse().expect("an id"), version: "1".to_owned() },
        origins: of.map(origin).into(),
        point_in_time: None,
        asked: FactQueryTarget::Query(SOURCE.parse().expect("an id")),
        warnings: Vec::new(),
    };
    let check = CandidateCheck { rules: Some(vec![RuleId::Prec013]), ..CandidateCheck::default() };
    let claims: String =
        of.iter().filter_map(|(_, fact)| *fact).map(|fact| format!("{}. ", text(fact))).collect();
    let verdict = json!({"verdict": "GREEN", "summary": claims.trim_end()});
    (verdict.to_string(), check.with_facts_from(vec![source]))
}

/// The evaluation of a verdict, and the record of its delivery with `entry` in the log.
fn record(
    number: usize,
    verdict: &str,
    check: CandidateCheck,
    to_entry: impl FnOnce(&RulesEvaluation) -> RulesEntry,
) -> JournalRecord {
    let (tier, now) = (ProductTier::Quick, Timestamp::now());
    let session_id: SessionId = session_id(number).parse().expect("an id");
    let query = CustomerQuery::new("What were the populations?".to_owned());
    let judgment = judge(tier, VerdictPayload::raw(verdict));
    let judged = TmmCrosscheck(CrosscheckEntry::of(&judgment, &query, GatePath::Submit));
    let approved = judgment.outcome.expect("the verdict is coherent");
    let facts = FactSet::compile(&check.facts);
    let RulesGateOutcome { evaluation, outcome } =
        examine(approved, &check, &facts, &RuleSettings::default());
    let approved = outcome.expect("the facts support the claims");
    let cached = VerdictCached {
        tier,
        verdict_label: approved.label(),
        verdict_sha256: approved.sha256().clone(),
        path: GatePath::Submit,
        evaluation_sha256: Some(evaluation.sha256.clone()),
    };
    let evaluated = RulesEvaluated(to_entry(&evaluation));
    let events = [EventKind::from(judged), evaluated.into(), cached.into()];
    let session = SessionRecord {
        original: Some(OriginalVerdict::delivered(&approved, None, None, now)),
        delivered_sha256: Some(approved.sha256().clone()),
        cached_sha256: Some(approved.sha256().clone()),
        check: Some(Arc::new(check)),
        ..SessionRecord::new(session_id.clone(), tier, query.clone())
    };
    let evaluation_sha256 = Some(evaluation.sha256);
    let delivery = VerdictDelivery {
        session_id: session_id.clone(),
        query,
        approved,
        cached_at: now,
        regen: None,
        evaluation_sha256,
    };
    JournalRecord {
        events: events.map(|event| AuditEvent::new(now, session_id.clone(), event)).into(),
        writes: vec![RowWrite::put::<VerdictDelivery>(&delivery), RowWrite::put::<SessionRecord>(&session)],
        ..JournalRecord::default()
    }
}

fn with_references(evaluation: &RulesEvaluation) -> RulesEntry {
    RulesEntry::of(evaluation, Some(GatePath::Submit))
}

/// The entry as an earlier version wrote it.
fn without_references(evaluation: &RulesEvaluation) -> RulesEntry {
    let mut entry = with_references(evaluation);
    if let Some(facts_from) = &mut entry.facts_from {
        facts_from.relied_on = None;
    }
    entry
}

fn fill(world: &DaemonWorld, verdicts: usize, facts: &[BenchFact], run_id: &Sha256Hex) -> io::Result<()> {
    let record = |number| {
        let (verdict, check) = checked(number, facts, run_id);
        record(number, &verdict, check, with_references)
    };
    commit_all_of(&mut open(&world.state())?, (0..verdicts).map(record))
}

/// The cost of references: submissions from the judgment to the commit, with and without them, alternately.
fn submissions(
    effort: BenchEffort,
    facts: &[BenchFact],
    run_id: &Sha256Hex,
    table: &mut BenchTable,
) -> io::Result<()> {
    let worlds = [DaemonWorld::default(), DaemonWorld::default()];
    let mut journals = [open(&worlds[0].state())?, open(&worlds[1].state())?];
    let entries: [fn(&RulesEvaluation) -> RulesEntry; 2] = [with_references, without_references];
    let (mut times, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..4 * effort.rounds {
        let from = round * GROUP * GROUPS;
        for (times, (journal, to_entry)) in times.iter_mut().zip(journals.iter_mut().zip(entries)) {
            let cases: Vec<_> = (from..from + GROUP * GROUPS)
                .map(|number| (number, checked(number, facts, run_id)))
                .collect();
            let began = cpu_ns(std::process::id())?;
            let records =
                cases.into_iter().map(|(number, (verdict, check))| record(number, &verdict, check, to_entry));
            commit_all_of(journal, records)?;
            times.push((cpu_ns(std::process::id())? - began) as f64 / (GROUP * GROUPS) as f64);
        }
        ratios.extend(times[0].last().zip(times[1].last()).map(|(with, without)| with / without));
    }
    ratios.sort_by(f64::total_cmp);
    let (ratio, [with, without]) = (median(ratios.clone()), times.map(median));
    let quarter = |part: usize| ratios.get((ratios.len() - 1) * part / 4).copied().unwrap_or(f64::NAN);
    let spread = format!("{ratio:.3} ({:.3} to {:.3} for half of the rounds)", quarter(1), quarter(3));
    table.row(BenchRow {
        what: "submission with three facts, from the judgment to the commit".into(),
        cpu: cpu_each(with),
        baseline: "the same without references in the entry".into(),
        baseline_cpu: cpu_each(without),
        verdict: at_most(ratio, SUBMISSION_AIM, &format!("{spread}: {SUBMISSION_AIM}")),
        ..BenchRow::default()
    });
    Ok(())
}
