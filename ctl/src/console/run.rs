//! One run: what would change, the gates that it broke, its rejects with their raw records, and the decision about it.

use super::chart::{BarRow, bars};
use super::forms::{Fields, action_button, after_action, done_note, reason_field};
use super::items::{Neighbors, run_title};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, age, badge, card, group_digits, message, moment, moment_or_none, next_link, pairs, run_tone, table,
    words,
};
use super::{ConsoleState, recall};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::base::output::{format_requester, short_run_id};
use crate::ground::ingest::{
    UNKNOWN_CHANGES, cancel, cause_beside_gates, decide, raw_texts, read_changes, read_run, run_path,
    state_word,
};
use axum::extract::{Path, State};
use domain_base::decimal::Decimal;
use domain_base::page::ListPage;
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::wire::{RejectReport, RunChangeReport, RunReport};
use hyper::Method;
use maud::{Markup, html};

/// Number of changes that are shown.
const CHANGES: usize = 50;
/// Number of rejects on a page.
const REJECTS: usize = 50;
/// The maximum length of the reason of a decision, in bytes.
const REASON_MAX_BYTES: usize = 1024;

pub(super) const RUN_HEADING: [&str; 7] =
    ["run", "source", "version", "state", "started", "#records", "#rejected"];

/// The row of a run in a table.
pub(super) fn run_row(report: &RunReport) -> Vec<Markup> {
    let (run, state) = (&report.run, state_word(report));
    vec![
        html! { a data-row href=(format!("/runs/{}", run.run_id)) { (short_run_id(&run.run_id)) } },
        html! { a href=(format!("/sources/{}", run.oracle_id)) { (run.oracle_id) } },
        html! { (run.input.version) },
        badge(run_tone(run.state), words(state)),
        moment(run.started_at),
        html! { (group_digits(&run.counts.records.to_string())) },
        html! { (group_digits(&run.counts.rejected.to_string())) },
    ]
}

/// The share of records with a value, by axis.
pub(super) fn coverage_rows(run: &IngestionRun) -> Vec<BarRow> {
    let row = |(axis, share): (&String, &Decimal)| {
        let share = share.to_string().parse::<f64>().unwrap_or_default();
        let text = format!("{} %", (share * 10_000.0).round() / 100.0);
        BarRow { name: axis.clone(), parts: vec![(Tone::Info, share)], text, note: None }
    };
    run.counts.axes.iter().map(|(axis, fill)| row((axis, &fill.share))).collect()
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
    let run = &report.run;
    let recalled = recall::run_card(&console, run).await;
    let neighbors = Neighbors::read(&console, &format!("/runs/{}", run.run_id)).await;
    let reject_rows: Vec<_> = rejects.items.iter().map(reject_row).collect();
    let heading = ["#record", "rule", "place", "reason", "raw record"];
    let reject_count = html! { span.count.(if run.counts.rejected > 0 { "refused" } else { "neutral" }) { (run.counts.rejected) } };
    let rejected = html! { (table("Rejected records", &heading, &reject_rows)) (next_link(&format!("/runs/{run_id}"), rejects.next.as_deref())) };
    let body = html! {
        (done_note(&fields))
        @for breach in &run.breaches { (message(Tone::Held, &html! { strong { (breach) } })) }
        div.split {
            div {
                (render_effect(run))
                (render_changes(run, changes))
                @if run.counts.rejected > 0 { (card("Rejected records", &reject_count, &rejected)) }
                @if !run.counts.axes.is_empty() {
                    (card("Filled axes", &html! { span.muted.small { "percent of records" } }, &html! { div.body { (bars(&coverage_rows(run))) } }))
                }
            }
            div { (render_decision(&report, &neighbors)) (recalled) (render_run(&report)) }
        }
    };
    let is_held = run.state == RunState::Held;
    let sub = html! {
        (badge(run_tone(run.state), words(state_word(&report))))
        @if is_held { span { "No record of it is visible until it is approved." } }
        a href=(format!("/sources/{}", run.oracle_id)) { "Source" }
    };
    let head = PageHead {
        title: run_title(run),
        crumbs: Some(if is_held {
            neighbors.crumbs()
        } else {
            html! { a href="/sources" { "Sources" } " › run " (short_run_id(&run.run_id)) }
        }),
        sub: Some(sub),
        actions: is_held.then(|| neighbors.actions()),
    };
    let section = if is_held { Section::Inbox } else { Section::Sources };
    Ok(render_page(&console, section, head, &body).await)
}

/// The effect of the run in numbers: on the records in force, and on the values of each axis.
fn render_effect(run: &IngestionRun) -> Markup {
    let counts = &run.counts;
    let number = |count: u64| group_digits(&count.to_string());
    let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let percent = |part: u64, all: u64| format!("{} %", (share(part, all) * 1000.0).round() / 10.0);
    let effect = counts.effect.unwrap_or_default();
    let unchanged = effect.in_force.saturating_sub(effect.withdrawn + effect.changed);
    let stat = |name: &str, value: u64, note: String| {
        html! { div.stat { span.k { (name) } span.v { (number(value)) } span.d { (note) } } }
    };
    let whole = BarRow {
        name: "records".to_owned(),
        parts: vec![
            (Tone::Neutral, share(unchanged, effect.in_force)),
            (Tone::Held, share(effect.changed, effect.in_force)),
            (Tone::Refused, share(effect.withdrawn, effect.in_force)),
        ],
        text: format!("{} of {}", number(effect.changed + effect.withdrawn), number(effect.in_force)),
        note: None,
    };
    let axes = counts.axis_effects.iter().map(|(axis, effect)| {
        let changed = effect.changed.saturating_sub(effect.unfilled);
        let same = effect.filled.saturating_sub(effect.changed);
        BarRow {
            name: axis.clone(),
            parts: vec![
                (Tone::Neutral, share(same, effect.filled)),
                (Tone::Held, share(changed, effect.filled)),
                (Tone::Refused, share(effect.unfilled, effect.filled)),
            ],
            text: format!("{} of {}", number(effect.changed), number(effect.filled)),
            note: None,
        }
    });
    let rows: Vec<_> = [whole].into_iter().chain(axes).collect();
    let legend = html! { ul.legend {
        @for (tone, word) in [(Tone::Neutral, "unchanged"), (Tone::Held, "changed"), (Tone::Refused, "withdrawn, or empty")] {
            li { svg.sw.(tone.name()) aria-hidden="true" { rect width="12" height="12" fill=[super::chart::pattern(tone)] {} } (word) }
        }
    } };
    let title = if run.state == RunState::Completed { "What changed" } else { "What would change" };
    let body = html! {
        div.stats {
            @if counts.effect.is_some() {
                (stat("Withdrawn", effect.withdrawn, percent(effect.withdrawn, effect.in_force)))
                (stat("Changed", effect.changed, percent(effect.changed, effect.in_force)))
            } @else {
                (stat("Read", counts.read, "records of the payload".to_owned()))
                (stat("Repeated", counts.collapsed, "identical records".to_owned()))
            }
            (stat("Rejected", counts.rejected, format!("{} of {} read", percent(counts.rejected, counts.read), number(counts.read))))
            (stat("Accepted", counts.records, "records".to_owned()))
        }
        @if counts.effect.is_some_and(|effect| effect.in_force > 0) {
            div.body { div.chart { h3 { "Of " (number(effect.in_force)) " records in force, and of their values by axis" } (legend) (bars(&rows)) } }
        }
    };
    card(title, &html! {}, &body)
}

fn render_run(RunReport { run, progress, undone_by }: &RunReport) -> Markup {
    let counts = &run.counts;
    let mut rows = vec![
        ("run", html! { code.breakall { (run.run_id) } }),
        ("source", html! { a href=(format!("/sources/{}", run.oracle_id)) { (run.oracle_id) } }),
        ("released", moment(run.input.released_at)),
        ("pipeline", html! { (run.pipeline_id) }),
        (
            "payload",
            html! { (group_digits(&run.raw_bytes.to_string())) " bytes, SHA-256 " code { (run.input.raw_sha256) } },
        ),
        ("requested", html! { "by " (format_requester(&run.requested_by)) }),
        ("started", moment(run.started_at)),
        ("ended", moment_or_none(run.ended_at)),
    ];
    if let Some(progress) = progress {
        let doing: &str = progress.phase.into();
        rows.push((
            "progress",
            html! { (doing) ": " (progress.bytes_read) " of " (progress.bytes) " bytes" },
        ));
    }
    let changes = counts.changes.iter().map(|(change, count)| format!("{} {count}", words(change)));
    rows.push(("changes", html! { (changes.collect::<Vec<_>>().join(", ")) }));
    rows.extend(counts.warnings.iter().map(|warning| ("warning", html! { (warning) })));
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
    card("Run", &html! {}, &html! { div.body { (pairs(rows)) } })
}

fn render_changes(run: &IngestionRun, changes: Result<ListPage<RunChangeReport>, CtlError>) -> Markup {
    let row = |change: &RunChangeReport| {
        let [before, after] = raw_texts(change).map(|text| html! { code { (text) } });
        vec![html! { (words(change.kind.into_str())) }, html! { (change.source_record_id) }, before, after]
    };
    let content = match changes {
        Err(error) => html! { div.body { (PageError::from(error).render()) } },
        Ok(_) if run.rows.is_none() && run.state == RunState::Held => {
            html! { div.body { p { (UNKNOWN_CHANGES) } } }
        }
        Ok(changes) if changes.items.is_empty() => return html! {},
        Ok(changes) => {
            let rows: Vec<_> = changes.items.iter().map(row).collect();
            html! {
                (table("Changed records", &["change", "record", "raw record before", "raw record after"], &rows))
                @if changes.next.is_some() { div.pager { span { "More: " code { "oraclectl ingest changes " (run.run_id) } } } }
            }
        }
    };
    card("Rows", &html! {}, &content)
}

fn render_decision(RunReport { run, undone_by, .. }: &RunReport, neighbors: &Neighbors) -> Markup {
    let path = |action: &str| format!("/runs/{}/{action}", run.run_id);
    let action = |class: &str, text: &str, key: &str, verb: &str| {
        action_button(class, &html! { (text) }, key, ("decision", verb), &path(verb))
    };
    let buttons = match run.state {
        RunState::Held => html! {
            (action("plain", "Discard the run", "d", "discard"))
            p.note { "The current release stays in force." }
            (action("plain", "Approve the run", "a", "approve"))
            p.note { "Its changes are visible at once. It can be undone." }
        },
        RunState::Completed if undone_by.is_none() && run.undoes.is_none() => html! {
            (action("danger", "Undo the run", "z", "undo"))
            p.note { "The release before it is in force again." }
        },
        RunState::Running => {
            return html! { form method="post" action=(path("cancel")) { button.btn.danger type="submit" { "Cancel the run" } } };
        }
        _ => return html! {},
    };
    html! {
        form.card.decide #decide method="post" action=(path("discard")) aria-label="Decide" {
            header { h2 { "Decide" } span.right { (badge(run_tone(run.state), html! { (run.state.into_str()) ", " (age(run.ended_at.unwrap_or(run.started_at))) })) } }
            div.body { (reason_field("Why?", REASON_MAX_BYTES)) div.acts { (buttons) } (neighbors.next_field()) }
            @if run.state == RunState::Held { (neighbors.footer()) }
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
    Ok(after_action(&format!("/runs/{}", report.run.run_id), done, &fields))
}
