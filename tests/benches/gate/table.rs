//! The table: each measurement with its comparison, and whether it meets its aim.

use hdrhistogram::Histogram;
use std::fmt;

const COLUMNS: usize = 9;
const HEADINGS: [&str; COLUMNS] = [
    "what",
    "oracled",
    "CPU each",
    "p50 / p99",
    "compared with",
    "measured",
    "CPU each",
    "p50 / p99",
    "ratio: aim",
];
/// The spaces between columns.
const GAP: usize = 2;

/// One row of the table.
#[derive(Debug, Default)]
pub(crate) struct BenchRow {
    /// The name of the measurement.
    pub(crate) what: String,
    /// The measured value.
    pub(crate) measured: String,
    /// The processor time of one request.
    pub(crate) cpu: String,
    /// The latencies.
    pub(crate) latencies: String,
    /// The name of the comparison.
    pub(crate) baseline: String,
    /// The value of the comparison.
    pub(crate) baseline_measured: String,
    /// The processor time of one request in the comparison.
    pub(crate) baseline_cpu: String,
    /// The latencies of the comparison.
    pub(crate) baseline_latencies: String,
    /// The ratio of the two, and the aim.
    pub(crate) verdict: String,
}

/// All rows, in groups.
#[derive(Debug, Default)]
pub(crate) struct BenchTable {
    groups: Vec<(String, Vec<BenchRow>)>,
}

impl BenchTable {
    /// Begins a group of rows.
    pub(crate) fn group(&mut self, title: impl Into<String>) {
        self.groups.push((title.into(), Vec::new()));
    }

    /// Adds a row to the last group.
    pub(crate) fn row(&mut self, row: BenchRow) {
        self.groups.last_mut().expect("a group was begun").1.push(row);
    }
}

impl BenchRow {
    fn cells(&self) -> [&str; COLUMNS] {
        [
            &self.what,
            &self.measured,
            &self.cpu,
            &self.latencies,
            &self.baseline,
            &self.baseline_measured,
            &self.baseline_cpu,
            &self.baseline_latencies,
            &self.verdict,
        ]
    }
}

impl fmt::Display for BenchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = HEADINGS.map(str::len);
        for row in self.groups.iter().flat_map(|(_, rows)| rows) {
            for (width, cell) in widths.iter_mut().zip(row.cells()) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |f: &mut fmt::Formatter<'_>, cells: [&str; COLUMNS]| {
            let mut text = String::new();
            for (cell, width) in cells.into_iter().zip(widths) {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', width + GAP - cell.chars().count()));
            }
            writeln!(f, "{}", text.trim_end())
        };
        for (title, rows) in &self.groups {
            writeln!(f, "\n{title}")?;
            line(f, HEADINGS)?;
            for row in rows {
                line(f, row.cells())?;
            }
        }
        Ok(())
    }
}

/// A ratio with its aim: `0.71: 0.6 reached`.
pub(crate) fn at_least(ratio: f64, aim: f64) -> String {
    format!("{ratio:.2}: {aim} {}", if ratio >= aim { "reached" } else { "MISSED" })
}

/// The aim, and whether the value meets it.
pub(crate) fn at_most(value: f64, aim: f64, shown: &str) -> String {
    format!("{shown} {}", if value <= aim { "reached" } else { "MISSED" })
}

/// A rate, per second.
pub(crate) fn per_second(rate: f64) -> String {
    format!("{rate:.0}/s")
}

/// The processor time of one request, given in nanoseconds.
pub(crate) fn cpu_each(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

/// Latencies that were recorded in nanoseconds, in microseconds.
pub(crate) fn latencies(histogram: &Histogram<u64>) -> String {
    let [p50, p99] = [0.5, 0.99].map(|quantile| to_us(histogram.value_at_quantile(quantile)));
    format!("{p50} / {p99} µs")
}

fn to_us(ns: u64) -> u64 {
    (ns + 500) / 1000
}

/// A histogram of latencies in nanoseconds, up to ten seconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid")
}

/// The median; of an even number of values, the lower one of the middle two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
