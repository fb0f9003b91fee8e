//! The catalog of sources; one source with its registration, its freshness, its runs, and forms for queries; and one
//! run with its counts, the gates that it broke, its rejects, and the decision about it.

use super::layout::{
    PageError, PageResult, Section, moment, moment_or_none, page as render_page, pairs, table,
};
use super::query::query_form;
use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::base::output::{format_requester, short_run_id};
use crate::console::layout::{
    Fields, StepLine, after_action, bars, done_note, next_link, reason_form, step_chart,
};
use crate::ground::ingest::{
    UNKNOWN_CHANGES, cancel, cause_beside_gates, decide, raw_texts, read_changes, read_run, run_path,
    state_word,
};
use axum::extract::{Path, State};
use axum::response::Response;
use domain_base::decimal::Decimal;
use domain_base::moment::format_span;
use domain_base::page::{ListPage, PageLimit};
use domain_ground::id::SourceId;
use domain_ground::query::{FilterOperator, QueryFilter, ValueHistory};
use domain_ground::run::{IngestionRun, ReleaseEffect, RunState};
use domain_ground::wire::{
    FreshnessReport, RejectReport, RunChangeReport, RunReport, SourceSummary, ValueHistoryRequest,
};
use hyper::Method;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::BTreeSet;

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

/// Maximum number of times at which data was known: the latest.
const KNOWN_MAX: usize = 12;
/// Maximum number of times at which a value is valid: the latest.
const VALID_MAX: usize = 60;

/// A value with the time at which it is valid, and the time at which it was known.
struct ValueAtTimes {
    known_at: Timestamp,
    valid_at: Timestamp,
    has_record: bool,
    /// `None` without a record, or if it has no value.
    value: Option<String>,
    unit: Option<String>,
}

fn history_form(source: &SourceSummary, fields: &Fields) -> Markup {
    let axes = source.entry.registration.axes_provided.iter().filter(|axis| !source.identity.contains(axis));
    html! {
        form.action method="get" action=(format!("/sources/{}/history", encode_segment(source.entry.oracle_id().as_str()))) {
            @for axis in &source.identity {
                @let name = format!("where:{axis}");
                label { (axis) input name=(name) value=(fields.text(&name)) required autocomplete="off"; }
            }
            label { "Axis" input name="axis" value=(fields.text("axis")) list="axes" required autocomplete="off"; }
            datalist #axes { @for axis in axes { option value=(axis) {} } }
            button type="submit" { "Show the history" }
        }
    }
}

pub(super) async fn history_page(
    State(console): State<ConsoleState>,
    Path(oracle_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let rendered = render(&console, &source, &fields).await;
    let form = history_form(&source, &fields);
    Ok(result_page(&console, ("History of a value", &oracle_id), &form, rendered))
}

async fn render(console: &Console, source: &SourceSummary, fields: &Fields) -> Result<Markup, PageError> {
    let axis = fields.required("axis", "Axis")?;
    if axis.contains('*') {
        return Err(PageError::input(format!(
            "`{axis}` is a group of axes; write the key of one in place of the `*`"
        )));
    }
    // one subject: without one of its values, the first of several subjects would be shown
    let filters = source.identity.iter().map(|identity| {
        let value = fields.required(&format!("where:{identity}"), identity)?;
        Ok(QueryFilter { axis: identity.clone(), operator: FilterOperator::Eq, value: Json::String(value) })
    });
    let filters = filters.collect::<Result<_, PageError>>()?;
    let request = ValueHistoryRequest { axis: axis.clone(), filters };
    let values = read_values(console, source.entry.oracle_id(), &request).await?;
    Ok(render_values(&axis, &values))
}

fn render_values(axis: &str, values: &[ValueAtTimes]) -> Markup {
    if !values.iter().any(|known| known.has_record) {
        return html! { p { "No record matches." } };
    }
    let unit = values.iter().find_map(|known| known.unit.as_deref());
    let title = unit.map_or_else(|| axis.to_owned(), |unit| format!("{axis} ({unit})"));
    let mut rows = Vec::new();
    for (number, known) in values.iter().enumerate() {
        let state = |known: &ValueAtTimes| (known.known_at, known.has_record, known.value.clone());
        let previous = number.checked_sub(1).and_then(|number| values.get(number));
        if previous.is_none_or(|previous| state(previous) != state(known)) {
            let missing = if known.has_record { "no value" } else { "no record" };
            rows.push(vec![
                html! { (known.known_at) },
                html! { (known.valid_at) },
                html! { (known.value.as_deref().unwrap_or(missing)) },
            ]);
        }
    }
    html! {
        (render_chart(&title, unit.unwrap_or_default(), values))
        (table("Each change, by the time at which it was known", &["known at", "valid at", &title], &rows))
        p.note {
            "`valid at` is now or the time of a release, at most the latest " (VALID_MAX) "; `known at` is the end of an ingestion, at most "
            "the latest " (KNOWN_MAX) "."
        }
    }
}

/// The value for each pair of times, by the time at which it was known.
async fn read_values(
    console: &Console,
    oracle_id: &SourceId,
    request: &ValueHistoryRequest,
) -> Result<Vec<ValueAtTimes>, PageError> {
    let path = format!("/v1/runs?limit={}&oracle_id={oracle_id}", <PageLimit>::MAX);
    let runs: ListPage<RunReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let runs = runs.items.iter().map(|report| &report.run).filter(|run| run.state == RunState::Completed);
    let known_at: BTreeSet<_> = runs.clone().filter_map(|run| run.ended_at).collect();
    let known_at: BTreeSet<_> = known_at.into_iter().rev().take(KNOWN_MAX).collect();
    let valid_at: BTreeSet<_> = runs.map(|run| run.input.released_at).chain([Timestamp::now()]).collect();
    let valid_at: BTreeSet<_> = valid_at.into_iter().rev().take(VALID_MAX).collect();
    let pairs: Vec<_> =
        known_at.iter().flat_map(|known_at| valid_at.iter().map(|valid_at| (*known_at, *valid_at))).collect();
    // without a completed run, nothing was ever known
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let path = format!("/v1/sources/{oracle_id}/history");
    let body = serde_json::to_vec(request).map_err(std::io::Error::from)?;
    let history: ValueHistory =
        console.options.call_control(Method::POST, &path, Some(body.into())).await?.json()?;
    let values = pairs.into_iter().map(|(known_at, valid_at)| {
        let known = history.values.iter().find(|known| known.is_answer_at(valid_at, known_at));
        ValueAtTimes {
            known_at,
            valid_at,
            has_record: known.is_some(),
            value: known.and_then(|known| Some(known.value.as_ref()?.to_string())),
            unit: history.unit.clone(),
        }
    });
    Ok(values.collect())
}

/// One line for each time at which data was known. Values that are not numbers have no chart.
fn render_chart(title: &str, unit: &str, values: &[ValueAtTimes]) -> Markup {
    let mut lines: Vec<StepLine> = Vec::new();
    for known in values {
        let name = format!("known at {}", known.known_at);
        if lines.last().is_none_or(|line| line.name != name) {
            lines.push(StepLine { name, points: Vec::new() });
        }
        let number = known.value.as_ref().and_then(|value| value.parse::<f64>().ok());
        // a text may be `inf`
        let number = number.filter(|number| number.is_finite());
        if let Some(line) = lines.last_mut() {
            line.points.push((known.valid_at.as_second(), number));
        }
    }
    let times = || values.iter().map(|known| known.valid_at);
    let day = |at: Option<Timestamp>| at.map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
    let (first, last) = (day(times().min()), day(times().max()));
    let summary = format!("{title} from {first} to {last}, one line for each time at which it was known");
    html! {
        @if lines.iter().flat_map(|line| &line.points).any(|(_, number)| number.is_some()) {
            (step_chart(&lines, unit, [&first, &last], &summary))
        } @else { p { "No chart: the values are not numbers." } }
    }
}

pub(super) async fn list_page(State(console): State<ConsoleState>) -> PageResult {
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

/// Number of changes that are shown.
const CHANGES: usize = 50;
/// Number of rejects on a page.
const REJECTS: usize = 50;

pub(super) const RUN_HEADING: [&str; 7] =
    ["run", "source", "version", "state", "started", "records", "rejected"];

/// The row of a run in a table.
pub(super) fn run_row(report: &RunReport) -> Vec<Markup> {
    let (run, state) = (&report.run, state_word(report));
    vec![
        html! { a href=(format!("/runs/{}", run.run_id)) { (short_run_id(&run.run_id)) } },
        html! { a href=(format!("/sources/{}", run.oracle_id)) { (run.oracle_id) } },
        html! { (run.input.version) },
        html! { span.status data-status=(state) { (state) } },
        moment(run.started_at),
        html! { (run.counts.records) },
        html! { (run.counts.rejected) },
    ]
}

/// The share of records with a value, by axis, in percent.
fn coverage_rows(run: &IngestionRun) -> Vec<(String, f64)> {
    let percent = |share: &Decimal| share.to_string().parse::<f64>().unwrap_or_default() * 100.0;
    let rounded = |percent: f64| (percent * 100.0).round() / 100.0;
    run.counts.axes.iter().map(|(axis, fill)| (axis.clone(), rounded(percent(&fill.share)))).collect()
}

pub(super) async fn run_page(
    State(console): State<ConsoleState>,
    Path(run_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let report = read_run(&console.options, &run_id).await?;
    let after =
        fields.filled("after").map(|after| format!("&after={}", encode_segment(after))).unwrap_or_default();
    let path = format!("{}/rejects?raw=true&limit={REJECTS}{after}", run_path(&run_id));
    let rejects: ListPage<RejectReport> =
        console.options.call_control(Method::GET, &path, None).await?.json()?;
    let changes = read_changes(&console.options, &run_id, None, Some(CHANGES)).await;
    let body = html! {
        (done_note(&fields))
        (render_run(&report))
        (render_changes(&report.run, changes))
        (render_decision(&report))
        (bars("Filled axes", "axis", "percent of records", &coverage_rows(&report.run)))
        section aria-labelledby="rejects" {
            h2 #rejects { "Rejects" }
            (table("Rejected records", &["record", "rule", "place", "reason", "raw record"], &rejects.items.iter().map(reject_row).collect::<Vec<_>>()))
            (next_link(&format!("/runs/{run_id}"), rejects.next.as_deref()))
        }
    };
    Ok(render_page(&console, Section::Sources, &format!("Run {}", short_run_id(&report.run.run_id)), &body))
}

fn render_run(RunReport { run, progress, undone_by }: &RunReport) -> Markup {
    let counts = &run.counts;
    let mut rows = vec![
        ("run", html! { code { (run.run_id) } }),
        ("source", html! { a href=(format!("/sources/{}", run.oracle_id)) { (run.oracle_id) } }),
        ("version", html! { (run.input.version) ", released " (moment(run.input.released_at)) }),
        ("state", html! { span.status data-status=(run.state.into_str()) { (run.state.into_str()) } }),
        ("pipeline", html! { (run.pipeline_id) }),
        ("payload", html! { (run.raw_bytes) " bytes, " code { (run.input.raw_sha256) } }),
        ("requested by", html! { (format_requester(&run.requested_by)) }),
        ("started", moment(run.started_at)),
        ("ended", moment_or_none(run.ended_at)),
        (
            "records",
            html! { (counts.read) " read, " (counts.records) " accepted, " (counts.collapsed) " repeated, " (counts.rejected) " rejected" },
        ),
    ];
    if let Some(progress) = progress {
        let doing: &str = progress.phase.into();
        rows.push((
            "progress",
            html! { (doing) ": " (progress.bytes_read) " of " (progress.bytes) " bytes" },
        ));
    }
    let changes = counts.changes.iter().map(|(change, count)| format!("{change} {count}"));
    rows.push(("changes", html! { (changes.collect::<Vec<_>>().join(", ")) }));
    if let Some(ReleaseEffect { in_force, withdrawn, changed }) = counts.effect {
        let effect = html! { "of " (in_force) " records in force, " (withdrawn) " are withdrawn and " (changed) " change" };
        rows.push(("effect", effect));
    }
    rows.extend(counts.warnings.iter().map(|warning| ("warning", html! { (warning) })));
    rows.extend(run.breaches.iter().map(|breach| ("gate", html! { strong { (breach) } })));
    rows.extend(cause_beside_gates(run).map(|cause| ("cause", html! { (cause) })));
    rows.extend(
        run.undoes.iter().map(|undone| {
            ("undoes", html! { a href=(format!("/runs/{}", undone.run_id)) { (undone.run_id) } })
        }),
    );
    rows.extend(undone_by.iter().map(|by| ("undone by", html! { a href=(format!("/runs/{by}")) { (by) } })));
    if let Some(decision) = &run.decision {
        let by = format_requester(&decision.decided_by);
        rows.push((
            "decision",
            html! { "by " (by) ", " (moment(decision.decided_at)) ": " (decision.reason) },
        ));
    }
    pairs(rows)
}

fn render_changes(run: &IngestionRun, changes: Result<ListPage<RunChangeReport>, CtlError>) -> Markup {
    let row = |change: &RunChangeReport| {
        let [before, after] = raw_texts(change).map(|text| html! { code { (text) } });
        vec![html! { (change.kind.into_str()) }, html! { (change.source_record_id) }, before, after]
    };
    let is_done = run.state == RunState::Completed;
    let title = if is_done { "What the run changed" } else { "What the run would change" };
    let content = match changes {
        Err(error) => PageError::from(error).render(),
        Ok(_) if run.rows.is_none() && run.state == RunState::Held => html! { p { (UNKNOWN_CHANGES) } },
        Ok(changes) if changes.items.is_empty() => return html! {},
        Ok(changes) => {
            let rows: Vec<_> = changes.items.iter().map(row).collect();
            html! {
                (table("Changed records", &["change", "record", "raw record before", "raw record after"], &rows))
                @if changes.next.is_some() { p { "More: " code { "oraclectl ingest changes " (run.run_id) } } }
            }
        }
    };
    html! { section aria-labelledby="changes" { h2 #changes { (title) } (content) } }
}

fn render_decision(RunReport { run, undone_by, .. }: &RunReport) -> Markup {
    let form =
        |action: &str, name: &str| reason_form(&format!("/runs/{}/{action}", run.run_id), name, &html! {});
    html! {
        @match run.state {
            RunState::Held => {
                p { "Nothing of this run is visible until it is approved." }
                (form("approve", "Approve the run"))
                (form("discard", "Discard the run"))
            },
            RunState::Running => {
                form.action method="post" action=(format!("/runs/{}/cancel", run.run_id)) {
                    button type="submit" { "Cancel the run" }
                }
            },
            RunState::Completed if undone_by.is_none() && run.undoes.is_none() => (form("undo", "Undo the run")),
            _ => {},
        }
    }
}

fn reject_row(RejectReport { reject, raw_text }: &RejectReport) -> Vec<Markup> {
    vec![
        html! { (reject.position + 1) },
        html! { (reject.rejection.rule.into_str()) },
        html! { (reject.rejection.place.as_deref().unwrap_or("none")) },
        html! { (reject.rejection.reason) },
        html! {
            @match raw_text {
                Some(text) => code { (text) },
                None => "none: the payload was pruned",
            }
        },
    ]
}

pub(super) async fn act(
    State(console): State<ConsoleState>,
    Path((run_id, action)): Path<(String, String)>,
    fields: Fields,
) -> PageResult {
    let options = &console.options;
    let (report, done) = if action == "cancel" {
        // the run ends a moment later
        (cancel(options, &run_id).await?, "cancellation requested")
    } else {
        let done = match action.as_str() {
            "approve" => "approved",
            "discard" => "discarded",
            "undo" => "undone",
            _ => return Err(PageError::input(format!("`{action}` is not an action of a run"))),
        };
        (decide(options, &run_id, &action, &fields.required("reason", "Reason")?).await?, done)
    };
    // after an undo, it is the new run
    Ok(after_action(&format!("/runs/{}", report.run.run_id), done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(known_at: i64, valid_at: i64, value: Option<&str>) -> ValueAtTimes {
        let at = |second| Timestamp::from_second(second).expect("a time");
        ValueAtTimes {
            known_at: at(known_at),
            valid_at: at(valid_at),
            has_record: value.is_some(),
            value: value.map(str::to_owned),
            unit: value.map(|_| "m".to_owned()),
        }
    }

    #[test]
    fn history_has_a_gap_without_a_record_and_names_the_unit() {
        let values =
            [known(50, 0, Some("7")), known(50, 10, None), known(50, 20, Some("8")), known(90, 0, Some("7"))];
        let page = render_values("height", &values).into_string();
        for text in ["H320.0M632.0", "height (m)", "no record", "known at 1970-01-01T00:01:30Z</li>"] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
        for name in ["north", "inf"] {
            let text = render_values("name", &[known(50, 0, Some(name))]).into_string();
            assert!(text.contains("No chart") && text.contains(name), "{text}");
        }
        for values in [vec![], vec![known(50, 0, None)]] {
            let page = render_values("height", &values).into_string();
            assert!(page.contains("No record matches") && !page.contains("<table"), "{page}");
        }
    }
}
