//! The first page: the state of the daemon.

use super::access::LoginEnd;
use super::chart::{bars, sparkline};
use super::layout::{
    PageError, PageResult, Section, live, moment, moment_or_none, page as render_page, pairs, table,
};
use super::metrics::{Metrics, SERIES, Series, read_metrics};
use super::{Console, ConsoleState, events};
use crate::base::output::format_known;
use crate::platform::status::{format_budgets, format_witnesses, list_lost_rows};
use crate::verdict::divergence::format_variance;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain_audit::checkpoint::Checkpoint;
use domain_base::actor_report::ActorReport;
use domain_base::count::format_count;
use domain_base::moment::format_span;
use domain_upstream::health::OracleHealthStatus;
use domain_verdict::crosscheck::CrosscheckReason;
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use oracled_domain::status::{StatusReport, WaitingOrders};
use std::collections::BTreeMap;
use std::sync::PoisonError;

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
    events::stream(&console, login, move || {
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
        @if let Some(damage) = &status.segment_damage { p.alert { "The segments are damaged, and are written again from the database: " (damage) } }
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
}
