//! Backtest: the decisions of a store, calculated again with other policies, beside a read of the same stored texts alone.

#![allow(clippy::indexing_slicing, reason = "a missing member fails the measurement")]

use crate::BenchEffort;
use crate::machine::cpu_ns;
use crate::records::session_id;
use crate::standalone_journal::{CACHE_BYTES, FACTS_CACHE_BYTES, fill_store};
use crate::table::{BenchRow, BenchTable, at_most, cpu_each, median};
use hyper::Method;
use oracled_store::{Store, StoreOptions};
use oracled_tests::{DaemonProcess, DaemonWorld, lines};
use serde_json::{Value, json};
use std::io;
use std::time::Instant;
use tokio::runtime;

/// The longest acceptable time for 100,000 decisions, in seconds.
const AIM_S: f64 = 30.0;
const AIM_DECISIONS: f64 = 100_000.0;

/// Measures a policy by flags, and one with a rule.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    let verdicts = effort.stored;
    let world = DaemonWorld::default();
    fill_store(&world.state(), verdicts)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let daemon = runtime.block_on(world.serve());
    let mut measured = Vec::new();
    for (what, gate) in [
        ("a policy by flags and coherence", "[gate]\nhold = [\"verdict_conflict\"]\ncoherence_min = 0.99\n"),
        ("a policy with RULE-PREC-001", "[gate]\nrules = [\"RULE-PREC-001\"]\n"),
    ] {
        let (mut times, mut cpus) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            let (began, cpu) = (Instant::now(), cpu_ns(daemon.pid())?);
            let report = runtime.block_on(what_if(&daemon, gate))?;
            times.push(began.elapsed().as_secs_f64());
            cpus.push((cpu_ns(daemon.pid())? - cpu) as f64 / verdicts as f64);
            assert_eq!(
                (&report["from_text"], &report["from_flags"]),
                (&json!(verdicts), &json!(0)),
                "{report}"
            );
        }
        measured.push((what, median(times), median(cpus)));
    }
    if !daemon.stop().success() {
        return Err(io::Error::other("the daemon stopped with an error"));
    }
    let (read_s, read_ns) = read_alone(&world, verdicts, effort.rounds)?;
    table.group(format!("backtest of {verdicts} decisions with stored texts"));
    for (what, time_s, cpu) in measured {
        let scaled_s = time_s * AIM_DECISIONS / verdicts as f64;
        table.row(BenchRow {
            what: what.into(),
            measured: format!("{time_s:.2} s"),
            cpu: cpu_each(cpu),
            baseline: "the same texts and sessions, read alone".into(),
            baseline_measured: format!("{read_s:.2} s"),
            baseline_cpu: cpu_each(read_ns),
            verdict: format!("{:.2}{}", time_s / read_s, at_most(scaled_s, AIM_S, &format!(": {AIM_S} s"))),
            ..BenchRow::default()
        });
    }
    Ok(())
}

/// The report on a policy.
async fn what_if(daemon: &DaemonProcess<'_>, gate: &str) -> io::Result<Value> {
    let body = json!({"gate": gate}).to_string().into_bytes();
    let mut control = daemon.control().await;
    let answer = control.call_without_timeout(Method::POST, "/v1/what-if", body.into()).await;
    let answer = answer.map_err(io::Error::other)?;
    let last = lines(&answer.body).pop().unwrap_or_default();
    if last["report"].is_object() {
        Ok(last["report"].clone())
    } else {
        Err(io::Error::other(last.to_string()))
    }
}

/// The time to read all verdicts with their sessions, and the processor time of each.
fn read_alone(world: &DaemonWorld, verdicts: usize, rounds: usize) -> io::Result<(f64, f64)> {
    let options = StoreOptions {
        dir: world.state(),
        cache_bytes: CACHE_BYTES,
        facts_cache_bytes: FACTS_CACHE_BYTES,
        min_free_bytes: 0,
    };
    let (_journal, store) = Store::open(options).map_err(io::Error::other)?;
    let (mut times, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (began, cpu) = (Instant::now(), cpu_ns(std::process::id())?);
        for number in 0..verdicts {
            let session_id = session_id(number).parse().expect("an id");
            let (verdict, session) = store.verdict_and_session(&session_id).map_err(io::Error::other)?;
            assert!(verdict.is_some() && session.is_some(), "the session is stored");
        }
        times.push(began.elapsed().as_secs_f64());
        cpus.push((cpu_ns(std::process::id())? - cpu) as f64 / verdicts as f64);
    }
    Ok((median(times), median(cpus)))
}
