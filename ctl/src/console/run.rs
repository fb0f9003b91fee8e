//! One run: its counts, the gates that it broke, its rejects with their raw records, and the decision about it.

use super::ConsoleState;
use super::layout::{
    PageError, PageResult, Section, moment, moment_or_none, next_link, page as render_page, pairs,
    reason_form, table,
};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::base::output::{format_requester, short_run_id};
use crate::console::layout::{Fields, after_action, bars, done_note};
use crate::ground::ingest::{
    UNKNOWN_CHANGES, cancel, cause_beside_gates, decide, raw_texts, read_changes, read_run, run_path,
    state_word,
};
use axum::extract::{Path, State};
use domain_base::decimal::Decimal;
use domain_base::page::ListPage;
use domain_ground::run::{IngestionRun, ReleaseEffect, RunState};
use domain_ground::wire::{RejectReport, RunChangeReport, RunReport};
use hyper::Method;
use maud::{Markup, html};

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
pub(super) fn coverage_rows(run: &IngestionRun) -> Vec<(String, f64)> {
    let percent = |share: &Decimal| share.to_string().parse::<f64>().unwrap_or_default() * 100.0;
    let rounded = |percent: f64| (percent * 100.0).round() / 100.0;
    run.counts.axes.iter().map(|(axis, fill)| (axis.clone(), rounded(percent(&fill.share)))).collect()
}

pub(super) async fn page(
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
