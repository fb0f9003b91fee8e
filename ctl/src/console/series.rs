//! The charts of the overview, from the series that the daemon keeps.

use super::Console;
use super::chart::{ChartBuckets, ChartFrame, ChartLine, bar_chart, line_chart};
use super::forms::Fields;
use super::parts::{Tone, words};
use crate::base::error::CtlError;
use domain_base::series::{MeasuredSeries, SeriesRange, SeriesResponse};
use hyper::Method;
use jiff::Timestamp;
use maud::{Markup, html};

/// Maximum number of labels of a series that have lines of their own.
const LABELS_MAX: usize = 4;
/// The tones of the lines of a series, by label.
const TONES: [Tone; LABELS_MAX] = [Tone::Info, Tone::Held, Tone::Stale, Tone::Diverged];

const RANGES: [(SeriesRange, &str, &str); 3] = [
    (SeriesRange::Hour, "hour", "Hour"),
    (SeriesRange::Day, "day", "Day"),
    (SeriesRange::Week, "week", "Week"),
];

/// The range that the address names.
pub(super) fn read_range(fields: &Fields) -> SeriesRange {
    let named = RANGES.into_iter().find(|(_, name, _)| *name == fields.text("range"));
    named.map(|(range, ..)| range).unwrap_or_default()
}

fn range_name(range: SeriesRange) -> &'static str {
    RANGES.into_iter().find(|(other, ..)| *other == range).map_or("hour", |(_, name, _)| name)
}

pub(super) fn events_path(range: SeriesRange) -> String {
    format!("/events/overview?range={}", range_name(range))
}

pub(super) async fn read(console: &Console, range: SeriesRange) -> Result<SeriesResponse, CtlError> {
    let path = format!("/v1/series?range={}", range_name(range));
    Ok(console.options.call_control(Method::GET, &path, None).await?.json()?)
}

/// Where the values of a chart come from.
enum ChartSource {
    /// Series by their names, each as the sum over its labels, with its word and tone.
    Sums(&'static [(&'static str, &'static str, Tone)]),
    /// The labels of one series, with their tones.
    Labels(&'static str, &'static [(&'static str, Tone)]),
    /// A line for each label of each series; those of the second one are dashed.
    Lines(&'static [(&'static str, &'static str)]),
}

/// A chart of the overview.
struct SeriesChart {
    title: &'static str,
    unit: &'static str,
    /// The number by which each value is multiplied.
    factor: f64,
    is_stack: bool,
    source: ChartSource,
}

const CHARTS: [SeriesChart; 6] = [
    SeriesChart {
        title: "Verdicts",
        unit: "per minute",
        factor: 1.0,
        is_stack: true,
        source: ChartSource::Sums(&[
            ("verdicts_approved", "approved", Tone::Ok),
            ("verdicts_rejected", "rejected", Tone::Refused),
        ]),
    },
    SeriesChart {
        title: "Latency of requests to models",
        unit: "seconds",
        factor: 1.0,
        is_stack: false,
        source: ChartSource::Lines(&[("model_latency_p50", "p50"), ("model_latency_p99", "p99")]),
    },
    SeriesChart {
        title: "Age of the oldest in a queue",
        unit: "minutes",
        factor: 1.0 / 60.0,
        is_stack: false,
        source: ChartSource::Sums(&[("order_age", "order", Tone::Waiting), ("mail_age", "mail", Tone::Info)]),
    },
    SeriesChart {
        title: "Approval by tier",
        unit: "% of judged verdicts",
        factor: 100.0,
        is_stack: false,
        source: ChartSource::Lines(&[("approval", "")]),
    },
    SeriesChart {
        title: "Orders that ended, or were held",
        unit: "per minute",
        factor: 1.0,
        is_stack: true,
        source: ChartSource::Labels(
            "orders_ended",
            &[
                ("delivered", Tone::Ok),
                ("held", Tone::Held),
                ("failed", Tone::Refused),
                ("cancelled", Tone::Neutral),
            ],
        ),
    },
    SeriesChart {
        title: "Requests",
        unit: "per minute",
        factor: 1.0,
        is_stack: false,
        source: ChartSource::Sums(&[
            ("requests", "all", Tone::Info),
            ("failed_requests", "status 500 or more", Tone::Refused),
        ]),
    },
];

impl SeriesChart {
    fn lines(&self, series: &SeriesResponse) -> Vec<ChartLine> {
        let named = |name: &str| series.series.iter().filter(move |one| one.name == name).collect::<Vec<_>>();
        let line = |name: String, tone: Tone, is_dashed: bool, values: Vec<Option<f64>>| {
            let points = values.into_iter().enumerate();
            let points =
                points.map(|(slot, value)| (time_of(series, slot), value.map(|value| value * self.factor)));
            ChartLine { name, tone, is_dashed, points: points.collect() }
        };
        match self.source {
            ChartSource::Sums(parts) => {
                let of_part = |(name, word, tone): &(&str, &str, Tone)| {
                    line(
                        (*word).to_owned(),
                        *tone,
                        *tone == Tone::Refused && !self.is_stack,
                        sum(&named(name)),
                    )
                };
                parts.iter().map(of_part).collect()
            }
            ChartSource::Labels(name, labels) => {
                let all = named(name);
                let of_label = |(label, tone): &(&str, Tone)| {
                    let own: Vec<_> = all.iter().filter(|one| label_of(one) == *label).copied().collect();
                    line((*label).to_owned(), *tone, false, sum(&own))
                };
                labels.iter().map(of_label).collect()
            }
            ChartSource::Lines(names) => {
                let of_series = |(place, (name, word)): (usize, &(&str, &str))| {
                    let own = named(name).into_iter().zip(TONES);
                    let own = own.map(|(one, tone)| {
                        let name = [label_of(one), *word].into_iter().filter(|text| !text.is_empty());
                        line(words(&name.collect::<Vec<_>>().join(" ")), tone, place > 0, one.values.clone())
                    });
                    own.collect::<Vec<_>>()
                };
                names.iter().enumerate().flat_map(of_series).collect()
            }
        }
    }
}

fn label_of(series: &MeasuredSeries) -> &str {
    series.labels.values().next().map(String::as_str).unwrap_or_default()
}

fn time_of(series: &SeriesResponse, slot: usize) -> i64 {
    series.start.as_second() + slot as i64 * i64::from(series.step_s)
}

/// The sums of the values at the same times; nothing where none was measured.
fn sum(series: &[&MeasuredSeries]) -> Vec<Option<f64>> {
    let length = series.iter().map(|one| one.values.len()).max().unwrap_or_default();
    let at = |slot: usize| {
        let values = series.iter().filter_map(|one| one.values.get(slot).copied().flatten());
        values.reduce(|sum, value| sum + value)
    };
    (0..length).map(at).collect()
}

/// The times in which a circuit was open.
fn find_bands(series: &SeriesResponse) -> Vec<(i64, i64)> {
    let circuits: Vec<_> = series.series.iter().filter(|one| one.name == "oracle_unavailable").collect();
    let mut bands: Vec<(i64, i64)> = Vec::new();
    for (slot, value) in sum(&circuits).into_iter().enumerate() {
        if value.is_some_and(|value| value > 0.0) {
            let (from, until) = (time_of(series, slot), time_of(series, slot + 1));
            match bands.last_mut() {
                Some(last) if last.1 == from => last.1 = until,
                _ => bands.push((from, until)),
            }
        }
    }
    bands
}

pub(super) fn render(series: &SeriesResponse) -> Markup {
    let bands = find_bands(series);
    let slots = series.range.length();
    let span = (time_of(series, 0), time_of(series, slots));
    let now = Timestamp::now().as_second();
    let chart = |number: usize, chart: &SeriesChart| {
        let lines = chart.lines(series);
        let id = format!("series-{number}");
        let frame = ChartFrame {
            id: &id,
            title: chart.title,
            unit: chart.unit,
            span,
            time_name: "time",
            bands: &bands,
            buckets: chart.is_stack.then(|| ChartBuckets { length_s: series.step_s.into(), now }),
        };
        let drawn = if chart.is_stack { bar_chart(&frame, &lines) } else { line_chart(&frame, &lines) };
        html! { div.card { div.body { (drawn) } } }
    };
    html! {
        section.section aria-labelledby="time" {
            header {
                h2 #time { "Over time" }
                span.muted.small { "UTC" @if !bands.is_empty() { ". Red: a circuit was open" } }
                div.right { nav.seg aria-label="Range of the charts" {
                    @for (range, name, title) in RANGES {
                        a href=(format!("/?range={name}")) aria-current=[(range == series.range).then_some("true")] { (title) }
                    }
                } }
            }
            div.grid2 { @for (number, one) in CHARTS.iter().enumerate() { (chart(number, one)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn series() -> SeriesResponse {
        let one = |name: &str, labels: serde_json::Value, values: serde_json::Value| json!({"name": name, "title": name, "unit": "items", "labels": labels, "values": values});
        let response = json!({
            "range": "hour", "start": "1970-01-01T00:00:00Z", "step_s": 60,
            "series": [
                one("verdicts_approved", json!({"tier": "quick"}), json!([1.0, null, 2.0])),
                one("verdicts_approved", json!({"tier": "full"}), json!([3.0, null, null])),
                one("orders_ended", json!({"state": "failed"}), json!([0.5, 0.0, 0.0])),
                one("model_latency_p50", json!({"model": "a_b"}), json!([1.0, 2.0, 3.0])),
                one("model_latency_p99", json!({"model": "a_b"}), json!([2.0, 3.0, null])),
                one("oracle_unavailable", json!({"oracle": "a"}), json!([0.0, 0.5, 1.0])),
            ],
        });
        serde_json::from_value(response).expect("valid series")
    }

    #[test]
    fn lines_are_sums_or_labels_and_gaps_stay() {
        let series = series();
        let lines: Vec<Vec<ChartLine>> = CHARTS.iter().map(|chart| chart.lines(&series)).collect();
        assert_eq!(lines[0][0].points, [(0, Some(4.0)), (60, None), (120, Some(2.0))]);
        let latency: Vec<_> = lines[1].iter().map(|line| (line.name.as_str(), line.is_dashed)).collect();
        assert_eq!(latency, [("a b p50", false), ("a b p99", true)]);
        assert_eq!(lines[4][2].points[0], (0, Some(0.5)));
        assert!(lines[4][0].points.is_empty(), "nothing was delivered");
    }

    #[test]
    fn band_covers_the_time_in_which_a_circuit_was_open() {
        assert_eq!(find_bands(&series()), [(60, 180)]);
        let page = render(&series()).into_string();
        assert_eq!(
            page.matches("class=\"band refused\"").count(),
            3,
            "each chart with values has it: {page}"
        );
        assert!(page.contains("No values in this time") && !page.contains("NaN"), "{page}");
    }
}
