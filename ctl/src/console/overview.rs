//! The first page: the state of the daemon, and its metrics: read from their text (OpenMetrics), and sampled for the
//! last day while the console runs.

use super::access::LoginEnd;
use super::layout::{
    PageError, PageResult, Section, live, moment, moment_or_none, page as render_page, pairs, table,
};
use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::options::GlobalOptions;
use crate::base::output::format_known;
use crate::console;
use crate::console::layout::{bars, sparkline};
use crate::platform::status::{format_budgets, format_witnesses, list_lost_rows};
use crate::verdict::divergence::format_variance;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::Checkpoint;
use domain_base::moment::format_span;
use domain_base::service::ActorReport;
use domain_base::wording::format_count;
use domain_upstream::health::OracleHealthStatus;
use domain_verdict::crosscheck::CrosscheckReason;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use oracled_domain::status::{StatusReport, WaitingOrders};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// The periods of the charts over time, with their names.
const PERIODS: [(SignedDuration, &str); 2] =
    [(SignedDuration::from_hours(1), "last hour"), (SignedDuration::from_hours(24), "last day")];
/// Number of values in a chart over time.
const POINTS: usize = 60;

pub(super) async fn page(State(console): State<ConsoleState>) -> PageResult {
    if console.has_only_reviews {
        return Ok(Redirect::to("/reviews").into_response());
    }
    let parts = render(&console).await?;
    Ok(render_page(&console, Section::Overview, "Overview", &live("/events/overview", &parts)))
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
) -> PageResult {
    let shared = console.clone();
    console::stream(&console, login, move || {
        let console = shared.clone();
        async move { render(&console).await }
    })
}

async fn render(console: &Console) -> Result<Markup, PageError> {
    let options = &console.options;
    let get = async |path: &str| options.call_control(Method::GET, path, None).await;
    let status: StatusReport = get("/v1/status").await?.json()?;
    let actors: Vec<ActorReport> = get("/v1/actors").await?.json()?;
    let oracles: Vec<OracleHealthStatus> = get("/v1/health/oracles").await?.json()?;
    let note = get("/v1/log/checkpoint").await?.body;
    let checkpoint = Checkpoint::read_unverified(&String::from_utf8_lossy(&note)).ok();
    let metrics = read_metrics(options).await?;
    Ok(html! {
        section aria-labelledby="state" {
            h2 #state { "State" }
            (render_readiness(&status))
            (render_state(&status, &metrics, checkpoint.as_ref()))
        }
        section aria-labelledby="time" { h2 #time { "Over time" } (render_series(console)) }
        section aria-labelledby="verdicts" {
            h2 #verdicts { "Verdicts" }
            div.columns {
                (bars("Coherence of judged verdicts", "up to", "verdicts", &coherence_rows(&metrics)))
                (render_judgments(&metrics))
                (render_divergence(&metrics))
            }
        }
        section aria-labelledby="parts" {
            h2 #parts { "Parts" }
            (render_oracles(&oracles))
            (render_actors(&actors))
        }
    })
}

fn render_readiness(status: &StatusReport) -> Markup {
    html! {
        @if status.ready {
            p.good { strong { "Ready." } " It accepts verdicts." }
        } @else {
            p.alert { strong { "Not ready: " } (status.reasons.join("; ")) }
        }
        @if let Some(failure) = &status.journal_failure { p.alert { "The journal rejects entries: " (failure) } }
        @if let Some(damage) = &status.segment_damage { p.alert { "The segments are damaged, and are written again from their copies: " (damage) } }
        @if !status.lost_rows.is_empty() { p.alert { "Lost: " (list_lost_rows(&status.lost_rows)) } }
        @if let Some(lag) = &status.mirror_lag { p.alert { "oracle_log.jsonl lags behind the log: " (lag) } }
        @if status.variance.escalated { p.alert { "Regenerated verdicts differ too often from the delivered ones." } }
    }
}

fn render_state(status: &StatusReport, metrics: &Metrics, checkpoint: Option<&Checkpoint>) -> Markup {
    let orders = status.orders.as_ref().map(|WaitingOrders { queued, generating, held }| {
        html! {
            a href="/orders?state=queued" { (queued) " queued" } ", " (generating) " generating, "
            a href="/orders?state=held" { (held) " held" }
        }
    });
    let age = |metric: &str| metrics.sum(metric).filter(|age| *age >= 1.0);
    let age = |metric: &str| age(metric).map_or_else(|| "none".into(), |age| format_span(age as u64));
    let oldest_review = metrics.sum("oracled_review_oldest_open_timestamp_seconds").filter(|at| *at > 0.0);
    let oldest_review = oldest_review.and_then(|at| Timestamp::from_second(at as i64).ok());
    let held_runs = status.held_runs.as_deref().map(|runs| {
        html! {
            @if runs.is_empty() { "none" }
            @for run in runs { a href=(format!("/sources/{}", run.oracle_id)) { (run.oracle_id) } " " }
        }
    });
    let budgets =
        status.budgets.as_deref().map_or_else(|| "unknown: they cannot be read".into(), format_budgets);
    pairs([
        ("version", html! { (status.version) ", serves since " (moment(status.started_at)) }),
        ("store", html! { (status.verdicts) " verdicts, " (status.sessions) " sessions" }),
        ("model", html! { (status.model) }),
        ("budgets", html! { (budgets) }),
        ("orders", orders.unwrap_or_else(|| html! { "unknown: they cannot be read" })),
        ("oldest order", html! { (age("oracled_orders_oldest_age_seconds")) }),
        (
            "mail",
            html! { (format_known(status.mails)) " in the outbox, oldest: " (age("oracled_outbox_oldest_age_seconds")) },
        ),
        ("webhooks", html! { (format_known(status.webhooks)) " in the outbox" }),
        (
            "reviews",
            html! { a href="/reviews" { (status.open_reviews) " open" } ", oldest: " (moment_or_none(oldest_review)) },
        ),
        ("held runs", held_runs.unwrap_or_else(|| html! { "unknown: they cannot be read" })),
        ("divergence", html! { (format_variance(&status.variance)) }),
        (
            "log",
            html! {
                a href="/log" { (format_count(status.entries, "entry", "entries")) }
                @if let Some(checkpoint) = checkpoint {
                    ", checkpoint of " (format_count(checkpoint.size, "entry", "entries")) " with root "
                    code { (BASE64_STANDARD.encode(checkpoint.root)) }
                }
            },
        ),
        ("witnesses", html! { (format_witnesses(&status.witnesses)) }),
    ])
}

fn render_series(console: &Console) -> Markup {
    let history = console.history.lock().unwrap_or_else(PoisonError::into_inner);
    let end = Timestamp::now();
    let since = history.since().unwrap_or(end);
    let row = |series: &Series| {
        let now = match history.latest(*series, end) {
            Some(value) if series.is_counter => format!("{} in 10 s", format_number(value)),
            Some(value) => format_number(value),
            None => "–".to_owned(),
        };
        let mut cells = vec![html! { (series.title) }, html! { (now) }];
        for (span, name) in PERIODS {
            let values = history.values(*series, (span, end), POINTS);
            let most = values.iter().flatten().copied().reduce(f64::max);
            let most = most
                .map_or_else(|| "no samples".to_owned(), |most| format!("at most {}", format_number(most)));
            let summary = format!("{}, {name}: {most}", series.title);
            cells.push(html! { (sparkline(&values, &summary)) span.number { (most) } });
        }
        cells
    };
    let rows: Vec<_> = SERIES.iter().map(row).collect();
    html! {
        (table("Samples of the console", &["metric", "now", "last hour, by minute", "last day, by 24 minutes"], &rows))
        p.note { "The console takes a sample every 10 s while it runs: since " (since.strftime("%Y-%m-%d %H:%M:%S UTC")) "." }
    }
}

/// Judged verdicts by the upper limits of their coherence.
fn coherence_rows(metrics: &Metrics) -> Vec<(String, f64)> {
    let buckets = metrics.buckets("oracled_coherence").into_iter();
    let format_limit = |limit: String| match limit.parse::<f64>() {
        Ok(number) if number.is_finite() => format_number(number),
        _ => limit,
    };
    buckets.map(|(limit, count)| (format_limit(limit), count)).collect()
}

/// A number, rounded to 4 digits after the point.
fn format_number(number: f64) -> String {
    ((number * 10_000.0).round() / 10_000.0).to_string()
}

fn render_judgments(metrics: &Metrics) -> Markup {
    let counts = metrics.sums_by("oracled_crosscheck_judgments_total", ["tier", "reason"]);
    let mut tiers: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for ([tier, reason], count) in &counts {
        let (approved, all) = tiers.entry(tier).or_default();
        *all += count;
        *approved += if reason == CrosscheckReason::Pass.into_str() { *count } else { 0.0 };
    }
    let rows = tiers.into_iter().filter(|(_, (_, all))| *all > 0.0).map(|(tier, (approved, all))| {
        vec![html! { (tier) }, html! { (all) }, html! { (format!("{:.1} %", approved / all * 100.0)) }]
    });
    let rows: Vec<_> = rows.collect();
    table("Approval by tier, since the start", &["tier", "judged", "approved"], &rows)
}

fn render_divergence(metrics: &Metrics) -> Markup {
    let counts = metrics.sums_by("oracled_regens_compared_total", ["original", "regenerated", "level"]);
    let rows: Vec<_> = counts
        .into_iter()
        .filter(|(_, count)| *count > 0.0)
        .map(|([original, regenerated, level], count)| {
            vec![html! { (original) " → " (regenerated) }, html! { (level) }, html! { (count) }]
        })
        .collect();
    table("Regenerated verdicts, since the start", &["labels", "divergence", "verdicts"], &rows)
}

fn render_oracles(oracles: &[OracleHealthStatus]) -> Markup {
    let row = |oracle: &OracleHealthStatus| {
        vec![
            html! { (oracle.oracle_id) },
            html! { span.status data-status=(oracle.status.into_str()) { (oracle.status.into_str()) } },
            html! { (oracle.consecutive_failures) },
            html! { (oracle.latency_p50_ms) " ms, " (oracle.latency_p99_ms) " ms" },
            moment_or_none(oracle.last_success_at),
            html! { (oracle.refusal().or_else(|| oracle.last_error.clone()).unwrap_or_else(|| "none".to_owned())) },
        ]
    };
    let heading = ["oracle", "status", "failures", "p50, p99", "last success", "last error"];
    table("Health of models, mail and sources", &heading, &oracles.iter().map(row).collect::<Vec<_>>())
}

fn render_actors(actors: &[ActorReport]) -> Markup {
    let row = |actor: &ActorReport| {
        let panic = actor.last_panic.as_ref();
        vec![
            html! { (actor.name) },
            html! { (actor.handled) },
            html! { (actor.queue_depth) },
            html! { (actor.latency_p50_us) " µs, " (actor.latency_p99_us) " µs" },
            html! { (actor.restarts) },
            html! { @if let Some(panic) = panic { (moment(panic.at)) ": " (panic.message) } @else { "none" } },
        ]
    };
    let heading = ["actor", "handled", "waiting", "p50, p99", "restarts", "last panic"];
    table("Actors", &heading, &actors.iter().map(row).collect::<Vec<_>>())
}

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
    fn sums_by<const N: usize>(&self, name: &str, labels: [&str; N]) -> BTreeMap<[String; N], f64> {
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
    title: &'static str,
    metric: &'static str,
    /// Whether the value only rises, so that its increase is shown.
    pub(crate) is_counter: bool,
}

const SERIES: [Series; 6] = [
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

    #[test]
    fn limits_of_coherence_are_rounded() {
        let text = "oracled_coherence_bucket{le=\"0.5\"} 1\noracled_coherence_bucket{le=\"0.9740425724725061\"} 3\n\
                    oracled_coherence_bucket{le=\"+Inf\"} 3\n";
        let rows = coherence_rows(&Metrics::parse(text));
        let limits: Vec<_> = rows.iter().map(|(limit, count)| (limit.as_str(), *count)).collect();
        assert_eq!(limits, [("0.5", 1.0), ("0.974", 2.0), ("+Inf", 0.0)]);
    }

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
