//! The daemon's metrics: read from their text (OpenMetrics), and sampled for the last day while the console runs.

use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// One sample of a metric.
#[derive(Debug, Clone, PartialEq)]
struct MetricSample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The samples of one scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(Vec<MetricSample>);

impl Metrics {
    /// The samples in `text`. Lines that are not samples are skipped.
    pub(crate) fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(parse_line).collect())
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &MetricSample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// The sum of the samples of `name`; `None` if there are none.
    pub(crate) fn sum(&self, name: &str) -> Option<f64> {
        let mut values = self.named(name).map(|sample| sample.value);
        let first = values.next()?;
        Some(values.fold(first, |sum, value| sum + value))
    }

    /// The sums of the samples of `name`, by the values of `labels`.
    pub(crate) fn sums_by<const N: usize>(
        &self,
        name: &str,
        labels: [&str; N],
    ) -> BTreeMap<[String; N], f64> {
        let mut sums = BTreeMap::new();
        for sample in self.named(name) {
            let values = labels.map(|label| sample.labels.get(label).cloned().unwrap_or_default());
            *sums.entry(values).or_default() += sample.value;
        }
        sums
    }

    /// The buckets of a histogram: upper limits with the number of values in each, in order.
    pub(crate) fn buckets(&self, histogram: &str) -> Vec<(String, f64)> {
        let name = format!("{histogram}_bucket");
        let mut below = 0.0;
        let buckets = self.named(&name).filter_map(|sample| Some((sample.labels.get("le")?, sample.value)));
        buckets
            .map(|(limit, total)| {
                let own = total - below;
                below = total;
                (limit.clone(), own)
            })
            .collect()
    }
}

fn parse_line(line: &str) -> Option<MetricSample> {
    let name_length = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(name_length)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(MetricSample { name: name.to_owned(), labels, value })
}

/// The labels before `}`, and the rest of the line.
fn parse_labels(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, after) = rest.split_once("=\"")?;
        let (mut value, mut is_escaped, mut end) = (String::new(), false, None);
        for (at, character) in after.char_indices() {
            match character {
                'n' if is_escaped => value.push('\n'),
                _ if is_escaped => value.push(character),
                '\\' => {}
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                _ => value.push(character),
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        rest = after.get(end?..)?;
        labels.insert(name.to_owned(), value);
    }
}

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);
/// How long a sample is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// A metric that the overview shows over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) title: &'static str,
    metric: &'static str,
    /// Whether the value only rises, so that its increase is shown.
    pub(crate) is_counter: bool,
}

pub(crate) const SERIES: [Series; 6] = [
    Series { title: "Judged verdicts", metric: "oracled_crosscheck_judgments_total", is_counter: true },
    Series { title: "Orders that wait", metric: "oracled_orders", is_counter: false },
    Series {
        title: "Age of the oldest order, in seconds",
        metric: "oracled_orders_oldest_age_seconds",
        is_counter: false,
    },
    Series { title: "Open reviews", metric: "oracled_reviews_open", is_counter: false },
    Series { title: "Verifications", metric: "oracled_verifications_total", is_counter: true },
    Series { title: "New log entries", metric: "oracled_log_entries", is_counter: true },
];

/// The samples of the last day at most. A value is `None` if the daemon did not have the metric.
#[derive(Debug, Default)]
pub(crate) struct MetricHistory {
    samples: VecDeque<(Timestamp, [Option<f64>; SERIES.len()])>,
}

impl MetricHistory {
    fn push(&mut self, at: Timestamp, metrics: &Metrics) {
        self.samples.push_back((at, SERIES.map(|series| metrics.sum(series.metric))));
        while self.samples.front().is_some_and(|(first, _)| at.duration_since(*first) > KEPT) {
            self.samples.pop_front();
        }
    }

    /// When the oldest sample was taken.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.samples.front().map(|(at, _)| *at)
    }

    /// The newest value of a gauge, or the newest increase of a counter; `None` if the newest sample is not from now, or has none.
    pub(crate) fn latest(&self, series: Series, now: Timestamp) -> Option<f64> {
        let place = SERIES.iter().position(|other| *other == series)?;
        // the daemon may have been down between two samples
        let is_recent = |at: Timestamp, end: Timestamp| {
            end.duration_since(at).unsigned_abs() < SAMPLE_INTERVAL.saturating_mul(2)
        };
        let mut newest = self.samples.iter().rev();
        let (at, sample) = newest.next().filter(|(at, _)| is_recent(*at, now))?;
        let value = sample.get(place).copied().flatten()?;
        if !series.is_counter {
            return Some(value);
        }
        let (_, previous) = newest.next().filter(|(previous, _)| is_recent(*previous, *at))?;
        let previous = previous.get(place).copied().flatten()?;
        Some(find_increase(previous, value))
    }

    /// `points` values of a series over `span` until `end`, the oldest first: the highest value of each step, or the increase of
    /// a counter. `None` without a sample.
    pub(crate) fn values(
        &self,
        series: Series,
        (span, end): (SignedDuration, Timestamp),
        points: usize,
    ) -> Vec<Option<f64>> {
        let place = SERIES.iter().position(|other| *other == series).unwrap_or_default();
        let step = span.as_secs_f64() / points.max(1) as f64;
        let mut values: Vec<Option<f64>> = vec![None; points];
        let mut previous: Option<f64> = None;
        for (at, sample) in &self.samples {
            let Some(value) = sample.get(place).copied().flatten() else { continue };
            let shown = match previous {
                _ if !series.is_counter => value,
                Some(previous) => find_increase(previous, value),
                None => 0.0,
            };
            previous = Some(value);
            let before_end = end.duration_since(*at).as_secs_f64() / step;
            let slot =
                points.checked_sub(1 + before_end.max(0.0) as usize).and_then(|index| values.get_mut(index));
            if let Some(slot) = slot {
                let so_far = slot.unwrap_or_default();
                *slot = Some(if series.is_counter { so_far + shown } else { so_far.max(shown) });
            }
        }
        values
    }
}

/// The increase of a counter between two samples.
fn find_increase(previous: f64, value: f64) -> f64 {
    // a counter starts again at 0 with the daemon
    if value >= previous { value - previous } else { value }
}

/// The daemon's metrics now.
pub(crate) async fn read_metrics(options: &GlobalOptions) -> Result<Metrics, CtlError> {
    let answer = options.call_routes(Method::GET, "/metrics", None).await?;
    Ok(Metrics::parse(&String::from_utf8_lossy(&answer.body)))
}

/// Takes samples for as long as the console runs. Without an answer of the daemon there is no sample.
pub(super) async fn sample(options: GlobalOptions, history: Arc<Mutex<MetricHistory>>) {
    loop {
        if let Ok(metrics) = read_metrics(&options).await {
            let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
            history.push(Timestamp::now(), &metrics);
        }
        sleep(SAMPLE_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE a counter\na_total{x=\"1\",y=\"q\\\"{}\\\\\"} 3\na_total{x=\"2\"} 4 # {} 1\nb 0.5\n\
                        h_bucket{le=\"0.1\"} 1\nh_bucket{le=\"+Inf\"} 5\nbroken{\nz{x=\"3\"} 0\n# EOF\n";

    #[test]
    fn samples_are_read_with_escaped_labels() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(
            (metrics.sum("a_total"), metrics.sum("b"), metrics.sum("c")),
            (Some(7.0), Some(0.5), None)
        );
        let by_y = metrics.sums_by("a_total", ["y"]);
        assert_eq!(by_y, [([String::new()], 4.0), (["q\"{}\\".to_owned()], 3.0)].into());
    }

    #[test]
    fn buckets_have_their_own_counts() {
        let buckets = Metrics::parse(TEXT).buckets("h");
        assert_eq!(buckets, [("0.1".to_owned(), 1.0), ("+Inf".to_owned(), 4.0)]);
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn values_are_the_maximum_of_a_gauge_and_the_increase_of_a_counter() {
        let mut history = MetricHistory::default();
        for (second, reviews, entries) in [(1, 2, 10), (11, 5, 15), (21, 1, 3), (31, 0, 4)] {
            let text = format!("oracled_reviews_open {reviews}\noracled_log_entries {entries}\n");
            history.push(at(second), &Metrics::parse(&text));
        }
        let values = |place: usize| history.values(SERIES[place], (SignedDuration::from_secs(60), at(60)), 3);
        assert_eq!(values(3), [Some(5.0), Some(1.0), None]);
        assert_eq!(values(5), [Some(5.0), Some(4.0), None]);
        assert_eq!(values(0), [None, None, None]);
        assert_eq!(history.since(), Some(at(1)));
    }

    #[test]
    fn latest_value_is_that_of_a_recent_sample() {
        let mut history = MetricHistory::default();
        let latest = |history: &MetricHistory, second| {
            [3, 5, 0].map(|place| history.latest(SERIES[place], at(second)))
        };
        assert_eq!(latest(&history, 5), [None, None, None]);
        for (second, reviews, entries, now) in [
            (1, 2, 10, [Some(2.0), None, None]),
            (11, 5, 15, [Some(5.0), Some(5.0), None]),
            (21, 1, 15, [Some(1.0), Some(0.0), None]),
            (31, 0, 4, [Some(0.0), Some(4.0), None]),
            // the daemon was down
            (91, 0, 9, [Some(0.0), None, None]),
        ] {
            let text = format!("oracled_reviews_open {reviews}\noracled_log_entries {entries}\n");
            history.push(at(second), &Metrics::parse(&text));
            assert_eq!(latest(&history, second + 19), now, "{second}");
            assert_eq!(latest(&history, second + 20), [None, None, None], "{second}");
        }
    }

    #[test]
    fn history_keeps_one_day() {
        let mut history = MetricHistory::default();
        for hour in 0..30 {
            history.push(at(hour * 3600), &Metrics::default());
        }
        assert_eq!((history.samples.len(), history.since()), (25, Some(at(5 * 3600))));
    }
}
