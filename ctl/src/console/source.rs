//! The catalog of sources; one source with its freshness, its releases and its runs.

use super::catalog::{read_source, read_sources};
use super::chart::{BarRow, bars};
use super::forms::Fields;
use super::history;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, badge, card, day, freshness_badge, group_digits, message, moment, moment_or_none, pairs, table,
    table_card, user, with_code,
};
use super::run::{RUN_HEADING, breach_text, coverage_rows, run_row};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use axum::extract::{self, State};
use domain_base::moment::format_span;
use domain_base::page::{ListPage, PageLimit};
use domain_base::wording::format_count;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::wire::{FreshnessReport, RunReport, SourceSummary};
use hyper::Method;
use jiff::Timestamp;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Number of runs on the page.
const RUNS: usize = 50;
/// Maximum number of years in the calendar of releases: the latest.
const YEARS: usize = 12;

async fn read_freshness(console: &Console, oracle_id: &str) -> Result<FreshnessReport, PageError> {
    let path = format!("/v1/sources/{}/freshness", encode_segment(oracle_id));
    Ok(console.options.call_control(Method::GET, &path, None).await?.json()?)
}

async fn read_runs(console: &Console, filter: &str) -> Result<Vec<RunReport>, PageError> {
    let path = format!("/v1/runs?{filter}");
    let runs: ListPage<RunReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    Ok(runs.items)
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    extract::Path(oracle_id): extract::Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let freshness = read_freshness(&console, &oracle_id).await?;
    let runs = read_runs(&console, &format!("limit={RUNS}&oracle_id={}", encode_segment(&oracle_id))).await?;
    let runs_of = |state: RunState| runs.iter().filter(move |report| report.run.state == state);
    let rows: Vec<_> = runs.iter().map(run_row).collect();
    let body = html! {
        @for report in runs_of(RunState::Held) { (held_message(&report.run)) }
        div.grid2 { (render_freshness(&source, &freshness)) (render_releases(&source, &runs)) }
        (table_card("Runs, the latest first", &RUN_HEADING, &rows))
        div.grid2 {
            @if let Some(last) = runs_of(RunState::Completed).next() {
                (card("Filled axes", &html! { span.muted.small { "percent of records, last run" } }, &html! { div.body { (bars(&coverage_rows(&last.run))) } }))
            }
            (render_changes(&runs))
        }
        (card("History of a value", &html! {}, &html! { div.body { (history::form(&source, &fields)) } }))
        (card("Registration", &html! {}, &html! { div.body { (render_registration(&source)) } }))
    };
    let registration = &source.entry.registration;
    let sub = html! {
        (release_badge(&freshness))
        @let held = runs_of(RunState::Held).count();
        @if held > 0 { (badge(Tone::Held, html! { (format_count(held, "run", "runs")) " held" })) }
        @if !source.answers { (badge(Tone::Refused, "does not answer")) }
        span { (registration.oracle_tier.into_str()) } span { (registration.ontology) } span { (registration.data_license) }
    };
    let head = PageHead {
        title: registration.oracle_name.clone(),
        crumbs: Some(html! { a href="/sources" { "Sources" } " › " (oracle_id) }),
        sub: Some(sub),
        actions: Some(
            html! { a.btn.slim href=(format!("/sources/{}/query", encode_segment(&oracle_id))) { "Facts" } },
        ),
    };
    Ok(render_page(&console, Section::Sources, head, &body).await)
}

fn held_message(run: &IngestionRun) -> Markup {
    message(
        Tone::Held,
        &html! {
            strong { "Release " (run.input.version) " is held. " }
            @for breach in &run.breaches { (with_code(&breach_text(breach))) ". " }
            a href=(format!("/runs/{}", run.run_id)) { "Review the run" }
        },
    )
}

/// Whether an answer would be stale now: the oldest axis.
fn release_badge(report: &FreshnessReport) -> Markup {
    let axes = &report.now.axes;
    let oldest = axes.iter().max_by_key(|axis| axis.age_seconds);
    let limit = axes.iter().map(|axis| axis.max_age_seconds).min().unwrap_or_default();
    freshness_badge(axes.iter().any(|axis| axis.stale), oldest.and_then(|axis| axis.age_seconds), limit)
}

fn render_registration(source: &SourceSummary) -> Markup {
    let entry = &source.entry;
    let registration = &entry.registration;
    pairs([
        ("publisher", html! { (registration.upstream_authority) ", " (registration.upstream_url) }),
        ("domain", html! { (registration.domain) }),
        ("axes", html! { (registration.axes_provided.join(", ")) }),
        ("identity", html! { (source.identity.join(", ")) }),
        (
            "answers",
            html! {
                @if source.answers { "yes" } @else { strong { "no" } }
                @if let Some(note) = &source.note { ": " (note) }
            },
        ),
        ("registered", html! { (moment(entry.registered_at)) " by " (user(&entry.registered_by, None)) }),
        (
            "stored",
            html! { (format_count(group_digits(&source.statements.to_string()), "statement", "statements")) ", " (group_digits(&source.size_bytes.to_string())) " bytes" },
        ),
    ])
}

fn render_freshness(source: &SourceSummary, report: &FreshnessReport) -> Markup {
    let rows = report.now.axes.iter().map(|axis| {
        let share =
            axis.age_seconds.map_or(1.0, |age| age as f64 / axis.max_age_seconds.max(1) as f64).min(1.0);
        let age = axis.age_seconds.map_or_else(|| "no release".to_owned(), format_span);
        BarRow {
            name: axis.axis.clone(),
            parts: vec![(if axis.stale { Tone::Stale } else { Tone::Ok }, share)],
            text: if axis.stale { "stale".to_owned() } else { "fresh".to_owned() },
            note: Some(format!("{age} of {} allowed", format_span(axis.max_age_seconds))),
        }
    });
    let body = html! {
        (bars(&rows.collect::<Vec<_>>()))
        (pairs([
            ("current release", html! { (report.current_version.as_deref().unwrap_or("none")) }),
            ("released", moment_or_none(report.released_at)),
            ("policy", html! { (if report.is_default { "the default one" } else { "its own" }) }),
            ("marked stale", moment_or_none(report.invalidated_at)),
            ("answers", html! { @if source.answers { "yes" } @else { "no" } }),
        ]))
    };
    card("Freshness", &release_badge(report), &html! { div.body { (body) } })
}

/// The releases in a calendar of months, and as a list.
fn render_releases(source: &SourceSummary, runs: &[RunReport]) -> Markup {
    let versions = &source.entry.version_history;
    let month = |at: Timestamp| {
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        (date.year(), date.month())
    };
    let published: BTreeSet<_> = versions.iter().map(|version| month(version.released_at)).collect();
    let held = runs.iter().filter(|report| report.run.state == RunState::Held);
    let held: BTreeSet<_> = held.map(|report| month(report.run.input.released_at)).collect();
    let (this_year, this_month) = month(Timestamp::now());
    let first = published.iter().chain(&held).map(|(year, _)| *year).min().unwrap_or(this_year);
    let years: Vec<_> = (first..=this_year).rev().take(YEARS).collect();
    let last = versions.iter().rev().take(5);
    let rows = versions.iter().rev().map(|version| {
        let records = version
            .record_count
            .map_or_else(|| "unknown".to_owned(), |count| group_digits(&count.to_string()));
        vec![
            html! { (version.version) },
            day(version.released_at),
            day(version.ingested_at),
            html! { (records) },
        ]
    });
    let beside = html! { ul.legend {
        li { svg.sw.info aria-hidden="true" { rect width="12" height="12" {} } "published" }
        li { svg.sw.hs aria-hidden="true" { rect x="1" y="1" width="10" height="10" {} } "held" }
    } };
    let height = 14 + years.len() * 17;
    let body = html! {
        div.relrow {
            svg.cal.info viewBox=(format!("0 0 312 {height}")) role="img" aria-label="Releases by month; the table has their dates" {
                @for (number, letter) in "JFMAMJJASOND".chars().enumerate() { text x=(44 + number * 22) y="10" { (letter) } }
                @for (row, year) in years.iter().rev().enumerate() {
                    text x="0" y=(26 + row * 17) { (year) }
                    @for number in 1..=12_i8 {
                        @let at = (*year, number);
                        @let class = if held.contains(&at) { "held" } else if published.contains(&at) { "on" } else if at > (this_year, this_month) { "no" } else { "off" };
                        rect class=(class) x=(38 + (number as usize - 1) * 22) y=(16 + row * 17) width="18" height="12" rx="3" {}
                    }
                }
            }
            ul.rels {
                @for version in last { li { b { (version.version) } br; span.muted.xs { (day(version.released_at)) } } }
                @if versions.is_empty() { li.muted { "none" } }
            }
        }
        details.data {
            summary { "Show as a table" }
            (table("Releases", &["version", "released", "ingested", "#records"], &rows.collect::<Vec<_>>()))
        }
    };
    card("Releases", &beside, &html! { div.body { (body) } })
}

/// The number of changed statements of each completed release.
fn render_changes(runs: &[RunReport]) -> Markup {
    let completed = runs.iter().map(|report| &report.run).filter(|run| run.state == RunState::Completed);
    let counts: Vec<(&str, u64)> =
        completed.map(|run| (run.input.version.as_str(), run.counts.changes.values().sum())).collect();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or_default().max(1);
    let rows = counts.into_iter().map(|(version, count)| BarRow {
        name: version.to_owned(),
        parts: vec![(Tone::Info, count as f64 / most as f64)],
        text: group_digits(&count.to_string()),
        note: None,
    });
    card(
        "Changes of each release",
        &html! { span.muted.small { "changed statements" } },
        &html! { div.body { (bars(&rows.collect::<Vec<_>>())) } },
    )
}

pub(super) async fn list_page(State(console): State<ConsoleState>) -> PageResult {
    let sources = read_sources(&console).await?;
    let runs = read_runs(&console, &format!("limit={}", <PageLimit>::MAX)).await?;
    let held: Vec<_> = runs.iter().filter(|report| report.run.state == RunState::Held).collect();
    let mut freshness = BTreeMap::new();
    for source in &sources {
        let oracle_id = source.entry.oracle_id().as_str();
        // a source that is removed meanwhile has none
        if let Ok(report) = read_freshness(&console, oracle_id).await {
            freshness.insert(oracle_id, report);
        }
    }
    let rows = sources.iter().map(|source| {
        let id = source.entry.oracle_id().as_str();
        let held = held.iter().filter(|report| report.run.oracle_id.as_str() == id).count();
        row(source, freshness.get(id), held)
    });
    let rows: Vec<_> = rows.collect();
    let is_stale = |report: &&FreshnessReport| report.now.axes.iter().any(|axis| axis.stale);
    let stale = freshness.values().filter(is_stale).count();
    let heading = ["source", "state", "current release", "released", "#statements", "trust", "license"];
    let latest: Vec<_> = runs.iter().take(20).map(run_row).collect();
    let held_rows: Vec<_> = held.iter().map(|report| run_row(report)).collect();
    let body = html! {
        @if !held.is_empty() { (table_card("Held runs", &RUN_HEADING, &held_rows)) }
        (card("Sources", &html! { span.count.neutral { (sources.len()) } }, &table("Sources", &heading, &rows)))
        (table_card("Latest runs", &RUN_HEADING, &latest))
    };
    let sub = html! {
        @if stale > 0 { (badge(Tone::Stale, html! { (stale) " stale" })) } @else if !sources.is_empty() { (badge(Tone::Ok, "none stale")) }
        @if !held.is_empty() { (badge(Tone::Held, html! { (format_count(held.len(), "run", "runs")) " held" })) }
    };
    let head = PageHead { sub: Some(sub), ..PageHead::titled("Sources") };
    Ok(render_page(&console, Section::Sources, head, &body).await)
}

fn row(source: &SourceSummary, freshness: Option<&FreshnessReport>, held: usize) -> Vec<Markup> {
    let entry = &source.entry;
    let registration = &entry.registration;
    let current = entry.version_history.iter().find(|version| version.version == entry.current_version);
    let id = registration.oracle_id.as_str();
    vec![
        html! { a data-row href=(format!("/sources/{}", encode_segment(id))) { (id) } br; span.muted { (registration.oracle_name) } },
        html! {
            span.chips {
                @if let Some(report) = freshness { (release_badge(report)) }
                @if held > 0 { (badge(Tone::Held, html! { (held) " held" })) }
                @if !source.answers { (badge(Tone::Refused, "does not answer")) }
            }
            @if let Some(note) = &source.note { span.muted.xs { (note) } }
        },
        html! { (entry.current_version) },
        html! { @if let Some(current) = current { (day(current.released_at)) } @else { "none" } },
        html! { (group_digits(&source.statements.to_string())) },
        html! { (registration.oracle_tier.into_str()) },
        html! { (registration.data_license) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    #[test]
    fn calendar_has_a_table_with_all_releases() {
        let examples: Json =
            serde_json::from_str(include_str!("../../../docs/openapi-examples.json")).expect("valid JSON");
        let mut source = examples["list_sources"]["200"][0].clone();
        let release = source["version_history"][0].clone();
        let releases = (1..=7).map(|month| {
            let mut release = release.clone();
            release["version"] = format!("v{month}").into();
            release
        });
        source["version_history"] = releases.collect();
        let source: SourceSummary = serde_json::from_value(source).expect("a valid source");
        let page = render_releases(&source, &[]).into_string();
        let (calendar, table) = page.split_once("<details class=\"data\">").expect("a table");
        assert!(table.contains(">v1</td>") && table.contains(">v7</td>"), "{table}");
        assert!(!calendar.contains("<b>v1</b>") && calendar.contains("<b>v7</b>"), "{calendar}");
    }
}
