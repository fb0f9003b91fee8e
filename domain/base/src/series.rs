//! Metrics over time: which series the daemon keeps, and how samples become their values.
//!
//! A series is declared beside its metric. Three rings of fixed length hold the last hour, day and week.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::metric_samples::{MetricLabels, MetricSample, parse_samples};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use strum::VariantArray;

/// The maximum number of values of a label for which one series keeps its own values.
const LABELS_MAX: usize = 64;

/// The range of the values of series.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    VariantArray,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SeriesRange {
    /// The last 60 minutes by 1 minute.
    #[default]
    Hour,
    /// The last 24 hours by 15 minutes.
    Day,
    /// The last 7 days by 1 hour.
    Week,
}

impl SeriesRange {
    /// The time of each value, in seconds.
    #[must_use]
    pub const fn step_s(self) -> u32 {
        match self {
            Self::Hour => 60,
            Self::Day => 15 * 60,
            Self::Week => 60 * 60,
        }
    }

    /// The number of values.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Hour => 60,
            Self::Day => 96,
            Self::Week => 168,
        }
    }

    /// The number of the step that contains `at`.
    fn step_of(self, at: Timestamp) -> i64 {
        at.as_second().div_euclid(self.step_s().into())
    }
}

/// The parameters of `GET /v1/series`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SeriesParams {
    /// The range: `hour` (default), `day` or `week`.
    #[param(inline)]
    pub range: SeriesRange,
}

/// The unit of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesUnit {
    /// Events per minute.
    PerMinute,
    /// Seconds.
    Seconds,
    /// A part of the whole, from 0 to 1.
    Ratio,
    /// A number of items.
    Items,
}

/// The series of a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SeriesResponse {
    /// The range.
    pub range: SeriesRange,
    /// The start of the first value.
    pub start: Timestamp,
    /// The time of each value, in seconds. The last value is of the step in progress.
    pub step_s: u32,
    /// The series, in the order of their declarations and labels.
    pub series: Vec<MeasuredSeries>,
}

/// The values of one series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MeasuredSeries {
    /// The stable name.
    pub name: String,
    /// What it measures, in words.
    pub title: String,
    /// The unit.
    pub unit: SeriesUnit,
    /// The label that distinguishes it from others of the same name; empty if there is only one.
    pub labels: BTreeMap<String, String>,
    /// The value of each step; null where nothing was measured.
    pub values: Vec<Option<f64>>,
}

/// Selects samples by their labels.
pub type LabelFilter = fn(&MetricLabels) -> bool;

/// How a value follows from the samples of a metric.
#[derive(Debug, Clone, Copy)]
pub enum SeriesMeasure {
    /// The increase of a counter per minute.
    RatePerMinute,
    /// The highest value of a gauge.
    Highest,
    /// The mean of a gauge.
    Mean,
    /// The greatest age of a gauge that is a time in seconds since 1970; 0 without such a time.
    Age,
    /// The part of the increase of a counter whose samples the filter selects. Without an increase there is no value.
    Share(LabelFilter),
    /// A quantile of a histogram's increase, from 0 to 1. Without an increase there is no value.
    Quantile(f64),
}

/// The declaration of a series, beside that of its metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricSeries {
    /// The stable name.
    pub name: &'static str,
    /// The measured quantity, in words.
    pub title: &'static str,
    /// The unit.
    pub unit: SeriesUnit,
    /// The name of the metric, without `oracled_`, and for a histogram without `_bucket`.
    pub metric: &'static str,
    /// The samples that count.
    pub filter: LabelFilter,
    /// The label whose values have series of their own.
    pub by: Option<&'static str>,
    /// How a value follows from the samples.
    pub measure: SeriesMeasure,
}

impl MetricSeries {
    fn sample_name(&self) -> String {
        let suffix = if matches!(self.measure, SeriesMeasure::Quantile(_)) { "_bucket" } else { "" };
        format!("oracled_{}{suffix}", self.metric)
    }

    /// Reads the samples of one scrape, by the value of the label.
    fn read(&self, samples: &[MetricSample], at: Timestamp) -> BTreeMap<String, Reading> {
        let name = self.sample_name();
        let mut readings: BTreeMap<String, Reading> = BTreeMap::new();
        if matches!(self.measure, SeriesMeasure::Age) {
            readings.insert(String::new(), Reading::default());
        }
        for MetricSample { labels, value, .. } in
            samples.iter().filter(|sample| sample.name == name && (self.filter)(&sample.labels))
        {
            let label = self.by.map_or("", |by| labels.get(by).unwrap_or_default());
            if !readings.contains_key(label) && readings.len() >= LABELS_MAX {
                continue;
            }
            let reading = readings.entry(label.to_owned()).or_default();
            match self.measure {
                SeriesMeasure::Age => reading.all = reading.all.max(at.as_second() as f64 - value),
                SeriesMeasure::Share(filter) => {
                    reading.all += value;
                    reading.part += if filter(labels) { *value } else { 0.0 };
                }
                SeriesMeasure::Quantile(_) => {
                    let limit = labels.get("le").and_then(|limit| limit.parse().ok()).unwrap_or(f64::MAX);
                    *reading.below.entry(limit_key(limit)).or_default() += value;
                }
                _ => reading.all += value,
            }
        }
        readings
    }
}

/// The samples of one series in one scrape.
#[derive(Debug, Clone, Default)]
struct Reading {
    all: f64,
    part: f64,
    /// The values up to each limit of a histogram, by [`limit_key`].
    below: BTreeMap<u64, f64>,
}

/// Orders limits, which are not negative.
const fn limit_key(limit: f64) -> u64 {
    // JSON has no infinity
    if limit < f64::MAX { limit.to_bits() } else { f64::MAX.to_bits() }
}

/// What one step of a series has measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum SeriesCell {
    Highest(f64),
    Quotient(f64, f64),
    /// The lower limit, the upper limit and the number of values of each bucket that has values.
    Distribution(Vec<(f64, f64, f64)>),
}

impl SeriesCell {
    /// The measurement between two scrapes that are `minutes` apart. Without `previous`, counters have no increase.
    fn between(measure: SeriesMeasure, previous: Option<(&Reading, f64)>, reading: &Reading) -> Option<Self> {
        match measure {
            SeriesMeasure::Highest | SeriesMeasure::Age => return Some(Self::Highest(reading.all)),
            SeriesMeasure::Mean => return Some(Self::Quotient(reading.all, 1.0)),
            _ => {}
        }
        let (previous, minutes) = previous?;
        // a counter starts again at 0 with the daemon
        let increase = |before: f64, now: f64| if now >= before { now - before } else { now };
        let all = increase(previous.all, reading.all);
        match measure {
            SeriesMeasure::Share(_) => {
                (all > 0.0).then(|| Self::Quotient(increase(previous.part, reading.part).min(all), all))
            }
            SeriesMeasure::Quantile(_) => {
                let (mut lower, mut counted, mut buckets) = (0.0, 0.0, Vec::new());
                for (limit, below) in &reading.below {
                    let upper = f64::from_bits(*limit);
                    let below = increase(previous.below.get(limit).copied().unwrap_or_default(), *below);
                    if below > counted {
                        buckets.push((lower, upper, below - counted));
                    }
                    (lower, counted) = (upper, below.max(counted));
                }
                (!buckets.is_empty()).then_some(Self::Distribution(buckets))
            }
            _ => Some(Self::Quotient(all, minutes)),
        }
    }

    /// Adds what another part of the same step has measured.
    fn add(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Highest(highest), Self::Highest(other)) => *highest = highest.max(other),
            (Self::Quotient(part, all), Self::Quotient(other_part, other_all)) => {
                *part += other_part;
                *all += other_all;
            }
            (Self::Distribution(buckets), Self::Distribution(others)) => {
                for other in others {
                    match buckets.iter_mut().find(|bucket| bucket.1 == other.1) {
                        Some(bucket) => bucket.2 += other.2,
                        None => buckets.push(other),
                    }
                }
                buckets.sort_by(|one, other| one.1.total_cmp(&other.1));
            }
            // another version declared the series otherwise
            (_, other) => *self = other,
        }
    }

    fn value(&self, measure: SeriesMeasure) -> Option<f64> {
        let value = match (self, measure) {
            (Self::Highest(highest), SeriesMeasure::Highest | SeriesMeasure::Age) => *highest,
            (Self::Distribution(buckets), SeriesMeasure::Quantile(quantile)) => {
                find_quantile(buckets, quantile)?
            }
            (
                Self::Quotient(part, all),
                SeriesMeasure::RatePerMinute | SeriesMeasure::Mean | SeriesMeasure::Share(_),
            ) => part / all,
            _ => return None,
        };
        value.is_finite().then(|| (value * 1e6).round() / 1e6)
    }
}

/// The quantile, interpolated inside its bucket. In a bucket without an upper limit it is the lower one.
fn find_quantile(buckets: &[(f64, f64, f64)], quantile: f64) -> Option<f64> {
    let rank = quantile * buckets.iter().map(|(_, _, count)| count).sum::<f64>();
    let mut counted = 0.0;
    let reaches = |(_, _, count): &&(f64, f64, f64)| {
        counted += count;
        counted >= rank
    };
    let (lower, upper, count) = *buckets.iter().find(reaches)?;
    let inside = 1.0 - (counted - rank) / count;
    Some(if upper < f64::MAX { lower + (upper - lower) * inside } else { lower })
}

/// The steps of one range, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct SeriesRing {
    /// The number of the newest step.
    newest: i64,
    /// The cells by the name of the series and the value of its label.
    cells: BTreeMap<String, BTreeMap<String, VecDeque<Option<SeriesCell>>>>,
}

impl SeriesRing {
    /// Moves the ring to the step `newest`. A clock that was set back drops the steps after it.
    fn advance(&mut self, newest: i64, length: usize) {
        let steps = self.newest.abs_diff(newest).min(length as u64);
        let forward = newest > self.newest;
        self.newest = newest;
        for by_label in self.cells.values_mut() {
            by_label.retain(|_, cells| {
                cells.resize(length, None);
                for _ in 0..steps {
                    if forward {
                        cells.pop_front();
                        cells.push_back(None);
                    } else {
                        cells.pop_back();
                        cells.push_front(None);
                    }
                }
                cells.iter().any(Option::is_some)
            });
        }
    }

    fn add(&mut self, (name, label): (&str, &str), cell: SeriesCell, length: usize) {
        let by_label = self.cells.entry(name.to_owned()).or_default();
        if !by_label.contains_key(label) && by_label.len() >= LABELS_MAX {
            return;
        }
        let cells = by_label.entry(label.to_owned()).or_insert_with(|| VecDeque::from(vec![None; length]));
        match cells.back_mut() {
            Some(Some(newest)) => newest.add(cell),
            Some(newest) => *newest = Some(cell),
            None => {}
        }
    }
}

/// The last scrape.
#[derive(Debug, Clone)]
struct LastScrape {
    at: Timestamp,
    readings: BTreeMap<(&'static str, String), Reading>,
}

/// The values of the declared series.
#[derive(Debug, Clone, Default)]
pub struct SeriesHistory {
    declared: Vec<&'static MetricSeries>,
    rings: BTreeMap<SeriesRange, SeriesRing>,
    last: Option<LastScrape>,
}

impl SeriesHistory {
    /// A history without values.
    #[must_use]
    pub fn new(declared: Vec<&'static MetricSeries>) -> Self {
        let rings = SeriesRange::VARIANTS.iter().map(|range| (*range, SeriesRing::default())).collect();
        Self { declared, rings, last: None }
    }

    /// Restores the values that [`Self::to_json`] wrote. Series that are not declared any longer are dropped.
    ///
    /// # Errors
    /// It is not the JSON of a history.
    pub fn restore(&mut self, json: &[u8]) -> Result<(), serde_json::Error> {
        let rings: BTreeMap<SeriesRange, SeriesRing> = serde_json::from_slice(json)?;
        for (range, mut ring) in rings {
            ring.cells.retain(|name, _| self.declared.iter().any(|series| series.name == name));
            for cells in ring.cells.values_mut().flat_map(BTreeMap::values_mut) {
                cells.resize(range.length(), None);
            }
            self.rings.insert(range, ring);
        }
        Ok(())
    }

    /// The values as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.rings).expect("the history is plain data with string keys")
    }

    /// Adds the metrics of a scrape, in OpenMetrics text.
    pub fn add(&mut self, text: &str, at: Timestamp) {
        let samples: Vec<_> = parse_samples(text).collect();
        for (range, ring) in &mut self.rings {
            ring.advance(range.step_of(at), range.length());
        }
        let minutes = self.last.as_ref().map(|last| at.duration_since(last.at).as_secs_f64() / 60.0);
        let minutes = minutes.filter(|minutes| *minutes > 0.0);
        let (mut readings, none) = (BTreeMap::new(), Reading::default());
        for series in &self.declared {
            for (label, reading) in series.read(&samples, at) {
                let key = (series.name, label);
                let last = self.last.as_ref().zip(minutes);
                // a counter that is new since the last scrape began at 0
                let previous =
                    last.map(|(last, minutes)| (last.readings.get(&key).unwrap_or(&none), minutes));
                if let Some(cell) = SeriesCell::between(series.measure, previous, &reading) {
                    for (range, ring) in &mut self.rings {
                        ring.add((key.0, &key.1), cell.clone(), range.length());
                    }
                }
                readings.insert(key, reading);
            }
        }
        self.last = Some(LastScrape { at, readings });
    }

    /// The values of a range whose last step contains `now`.
    #[must_use]
    pub fn read(&self, range: SeriesRange, now: Timestamp) -> SeriesResponse {
        let mut ring = self.rings.get(&range).cloned().unwrap_or_default();
        let newest = range.step_of(now);
        ring.advance(newest, range.length());
        let first = newest.saturating_add(1).saturating_sub_unsigned(range.length() as u64);
        let start = Timestamp::from_second(first.saturating_mul(range.step_s().into())).unwrap_or_default();
        let series = self.declared.iter().flat_map(|series| {
            let by_label = ring.cells.get(series.name).into_iter().flatten();
            by_label.map(|(label, cells)| {
                let values =
                    cells.iter().map(|cell| cell.as_ref().and_then(|cell| cell.value(series.measure)));
                MeasuredSeries {
                    name: series.name.to_owned(),
                    title: series.title.to_owned(),
                    unit: series.unit,
                    labels: series.by.iter().map(|by| ((*by).to_owned(), label.clone())).collect(),
                    values: values.collect(),
                }
            })
        });
        SeriesResponse { range, start, step_s: range.step_s(), series: series.collect() }
    }
}

#[cfg(test)]
mod tests;
