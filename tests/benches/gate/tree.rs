//! The cost of the Merkle tree of the log: the salted leaves of the entries of a submission, their hashes, and the tiles.

use crate::records::record;
use crate::table::{BenchRow, BenchTable, at_least, median, per_second};
use domain_audit::leaf::{EntryAdditions, EntrySalts, entry_text};
use domain_audit::log_tiles::LastTiles;
use domain_audit::log_tree::LogTree;
use oracled_store::JournalRecord;
use std::hint::black_box;
use std::time::Instant;

const SALTS: EntrySalts = EntrySalts { secret: [7; 16], covers_session_ids: false };
/// Records in a round.
const RECORDS: usize = 5_000;
/// Rounds; the table shows the median.
const ROUNDS: usize = 7;
/// The required rate of durable submissions with the tree, relative to the rate without it.
const AIM: f64 = 0.9;

/// Adds the rate of durable submissions by the journal alone, compared with the rate that it would have without the tree.
pub(crate) fn show(journal_rate: f64, table: &mut BenchTable) {
    let [lines_us, leaves_us] = entry_costs_us();
    let with_us = 1e6 / journal_rate;
    let without_us = with_us - (leaves_us - lines_us);
    table.row(BenchRow {
        what: format!("the journal alone: entries with leaves and tree {leaves_us:.1} µs"),
        measured: per_second(journal_rate),
        baseline: format!("without the tree: lines of the entries {lines_us:.1} µs"),
        baseline_measured: per_second(1e6 / without_us),
        verdict: at_least(without_us / with_us, AIM),
        ..BenchRow::default()
    });
}

/// The processor times of one submission's entries in microseconds: their lines alone, and with leaves, hashes and tiles.
fn entry_costs_us() -> [f64; 2] {
    let records: Vec<JournalRecord> = (0..RECORDS).map(record).collect();
    let [mut lines, mut leaves] = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for event in records.iter().flat_map(|record| &record.events) {
            black_box(serde_json::to_string(event).expect("an event is plain data with string keys"));
        }
        lines.push(began.elapsed().as_secs_f64() * 1e6 / RECORDS as f64);
        let (mut tree, mut last) = (LogTree::default(), LastTiles::default());
        let began = Instant::now();
        for event in records.iter().flat_map(|record| &record.events) {
            let index = tree.size();
            let text = entry_text(index + 1, event, EntryAdditions::default(), &SALTS);
            last.append(index, tree.append(text.leaf.as_bytes()), &mut |_, hashes| {
                black_box(hashes);
            });
        }
        leaves.push(began.elapsed().as_secs_f64() * 1e6 / RECORDS as f64);
    }
    [lines, leaves].map(median)
}
