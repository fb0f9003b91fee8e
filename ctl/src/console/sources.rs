//! The catalog of sources, and the runs that wait for a decision.

use super::layout::{PageError, PageResult, Section, moment_or_none, page as render_page, table};
use super::run::{RUN_HEADING, run_row};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use axum::extract::State;
use axum::response::Response;
use domain_base::page::{ListPage, PageLimit};
use domain_ground::run::RunState;
use domain_ground::wire::{RunReport, SourceSummary};
use hyper::Method;
use maud::{Markup, html};

pub(super) async fn page(State(console): State<ConsoleState>) -> PageResult {
    let sources = read_sources(&console).await?;
    let path = format!("/v1/runs?limit={}", <PageLimit>::MAX);
    let runs: ListPage<RunReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let is_held = |report: &&RunReport| report.run.state == RunState::Held;
    let held: Vec<_> = runs.items.iter().filter(is_held).map(run_row).collect();
    let latest: Vec<_> = runs.items.iter().take(20).map(run_row).collect();
    let heading = ["source", "name", "trust", "license", "answers", "version", "released", "statements"];
    let body = html! {
        @if !held.is_empty() { (table("Held runs, which wait for a decision", &RUN_HEADING, &held)) }
        (table("Sources", &heading, &sources.iter().map(row).collect::<Vec<_>>()))
        (table("Latest runs", &RUN_HEADING, &latest))
    };
    Ok(render_page(&console, Section::Sources, "Sources", &body))
}

pub(super) async fn read_sources(console: &Console) -> Result<Vec<SourceSummary>, PageError> {
    Ok(console.options.call_routes(Method::GET, "/v1/sources", None).await?.json()?)
}

/// A source of the catalog.
pub(super) async fn read_source(console: &Console, oracle_id: &str) -> Result<SourceSummary, PageError> {
    let sources = read_sources(console).await?;
    let found = sources.into_iter().find(|source| source.entry.oracle_id().as_str() == oracle_id);
    found.ok_or_else(|| PageError::input(format!("no source has the id {oracle_id}")))
}

/// A page about a source: a form, and the result of the form or its error.
pub(super) fn result_page(
    console: &Console,
    (title, oracle_id): (&str, &str),
    form: &Markup,
    result: Result<Markup, PageError>,
) -> Response {
    let body = html! {
        (form)
        @match result {
            Ok(parts) => (parts),
            Err(error) => (error.render()),
        }
        p { a href=(format!("/sources/{}", encode_segment(oracle_id))) { "Back to the source" } }
    };
    render_page(console, Section::Sources, &format!("{title} of {oracle_id}"), &body)
}

fn row(source: &SourceSummary) -> Vec<Markup> {
    let entry = &source.entry;
    let registration = &entry.registration;
    let current = entry.version_history.iter().find(|version| version.version == entry.current_version);
    let id = registration.oracle_id.as_str();
    vec![
        html! { a href=(format!("/sources/{}", encode_segment(id))) { (id) } },
        html! { (registration.oracle_name) },
        html! { (registration.oracle_tier.into_str()) },
        html! { (registration.data_license) },
        html! {
            @if source.answers { "yes" } @else { strong { "no" } }
            @if let Some(note) = &source.note { ": " (note) }
        },
        html! { (entry.current_version) },
        moment_or_none(current.map(|version| version.released_at)),
        html! { (source.statements) },
    ]
}
