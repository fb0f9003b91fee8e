//! The crosscheck alone: from a payload's text to its decision.

use crate::table::{BenchRow, BenchTable, at_most, median};
use crate::{BenchEffort, records};
use domain_base::payload::VerdictPayload;
use domain_verdict::crosscheck::{self, judge};
use domain_verdict::label::ProductTier;
use std::hint::black_box;
use std::io;
use std::time::Instant;

/// Verdicts of one timed batch.
const BATCH: u32 = 2000;
/// Batches of a round.
const BATCHES: usize = 7;
/// The time limit for parsing and deciding a full verdict, in nanoseconds.
const AIM_NS: f64 = 3000.0;

/// Measures every tier.
pub(crate) fn measure(effort: BenchEffort, table: &mut BenchTable) -> io::Result<()> {
    table
        .group("crosscheck alone, on one core; ratio: time of oracled over time of serde_json's own parsing");
    for tier in ProductTier::ALL {
        let text = records::text(tier);
        let payload = VerdictPayload::raw(text);
        let rounds: Vec<[f64; 3]> = (0..effort.rounds * BATCHES)
            .map(|_| {
                [
                    time(|| crosscheck::decide(&crosscheck::inspect(tier, black_box(&payload)))),
                    time(|| serde_json::from_str::<serde_json::Value>(black_box(text))),
                    time(|| judge(tier, black_box(&payload).clone())),
                ]
            })
            .collect();
        let decided = median(rounds.iter().map(|[decided, _, _]| *decided));
        let parsed = median(rounds.iter().map(|[_, parsed, _]| *parsed));
        let judged = median(rounds.iter().map(|[_, _, judged]| *judged));
        let aim = if tier == ProductTier::Full { at_most(decided, AIM_NS, ": 3 µs") } else { String::new() };
        table.row(BenchRow {
            what: format!("{tier}, {} bytes: parse and decide", text.len()),
            measured: format!("{decided:.0} ns"),
            baseline: "parse as serde_json::Value".into(),
            baseline_measured: format!("{parsed:.0} ns"),
            verdict: format!("{:.2}{aim}", decided / parsed),
            ..BenchRow::default()
        });
        table.row(BenchRow {
            what: "    the whole gate, with its SHA-256".into(),
            measured: format!("{judged:.0} ns"),
            verdict: format!("{:.2}", judged / parsed),
            ..BenchRow::default()
        });
    }
    Ok(())
}

/// Nanoseconds of one call, from a batch of them.
fn time<T>(mut call: impl FnMut() -> T) -> f64 {
    let began = Instant::now();
    for _ in 0..BATCH {
        drop(black_box(call()));
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
}
