//! One source: its registration, its freshness, its runs, and forms for queries.

use super::ConsoleState;
use super::chart::bars;
use super::form_fields::Fields;
use super::layout::{Section, moment, moment_or_none, page as render_page, pairs, table};
use super::page_error::PageResult;
use super::query::query_form;
use super::run::{RUN_HEADING, coverage_rows, run_row};
use super::sources::read_source;
use super::value_history::history_form;
use crate::base::options::encode_segment;
use axum::extract::{Path, State};
use domain_base::moment::format_span;
use domain_ground::run::RunState;
use hyper::Method;
use maud::{Markup, html};
use oracled_api::base::page::ListPage;
use oracled_api::ground::{FreshnessReport, RunReport, SourceSummary};

/// Number of runs on the page.
const RUNS: usize = 50;

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(oracle_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let path = format!("/v1/sources/{}/freshness", encode_segment(&oracle_id));
    let freshness: FreshnessReport = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let path = format!("/v1/runs?limit={RUNS}&oracle_id={}", encode_segment(&oracle_id));
    let runs: ListPage<RunReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let completed: Vec<_> =
        runs.items.iter().filter(|report| report.run.state == RunState::Completed).collect();
    let changes = completed.iter().rev().map(|report| {
        let changes: u64 = report.run.counts.changes.values().sum();
        (format!("version {}", report.run.input.version), changes as f64)
    });
    let changes: Vec<_> = changes.collect();
    let body = html! {
        (render_registration(&source))
        (render_freshness(&freshness))
        section aria-labelledby="query" { h2 #query { "Query" } (query_form(&source, &fields)) }
        section aria-labelledby="value" { h2 #value { "History of a value" } (history_form(&source, &fields)) }
        section aria-labelledby="runs" {
            h2 #runs { "Runs" }
            (table("Runs, the latest first", &RUN_HEADING, &runs.items.iter().map(run_row).collect::<Vec<_>>()))
            div.columns {
                @if let Some(last) = completed.first() {
                    (bars("Filled axes in the last completed run", "axis", "percent of records", &coverage_rows(&last.run)))
                }
                (bars("Changes of each release", "release", "changes", &changes))
            }
        }
    };
    Ok(render_page(&console, Section::Sources, &format!("Source {oracle_id}"), &body))
}

fn render_registration(source: &SourceSummary) -> Markup {
    let entry = &source.entry;
    let registration = &entry.registration;
    pairs([
        ("name", html! { (registration.oracle_name) }),
        ("publisher", html! { (registration.upstream_authority) ", " (registration.upstream_url) }),
        ("license", html! { (registration.data_license) }),
        ("trust", html! { (registration.oracle_tier.into_str()) }),
        ("domain", html! { (registration.domain) }),
        ("ontology", html! { (registration.ontology) }),
        ("axes", html! { (registration.axes_provided.join(", ")) }),
        ("identity", html! { (source.identity.join(", ")) }),
        (
            "answers",
            html! {
                @if source.answers { "yes" } @else { strong { "no" } }
                @if let Some(note) = &source.note { ": " (note) }
            },
        ),
        ("registered", html! { (moment(entry.registered_at)) " by uid " (entry.registered_by) }),
        ("stored", html! { (source.statements) " statements, " (source.size_bytes) " bytes" }),
    ])
}

fn render_freshness(report: &FreshnessReport) -> Markup {
    let rows = report.now.axes.iter().map(|axis| {
        let age = axis.age_seconds.map_or_else(|| "no release".to_owned(), format_span);
        vec![
            html! { (axis.axis) },
            html! { (age) },
            html! { (format_span(axis.max_age_seconds)) },
            html! { @if axis.stale { strong { "stale" } } @else { "fresh" } },
        ]
    });
    html! {
        section aria-labelledby="freshness" {
            h2 #freshness { "Freshness" }
            (pairs([
                ("policy", html! { (if report.is_default { "the default one" } else { "its own" }) }),
                ("current version", html! { (report.current_version.as_deref().unwrap_or("none")) }),
                ("released", moment_or_none(report.released_at)),
                ("marked stale", moment_or_none(report.invalidated_at)),
            ]))
            (table("Freshness by axis", &["axis", "age", "allowed", "now"], &rows.collect::<Vec<_>>()))
        }
    }
}
