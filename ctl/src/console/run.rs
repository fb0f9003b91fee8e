//! One run: what would change, the gates that it broke, its rejects with their raw records, and the decision about it.

use super::access::LoginEnd;
use super::chart::{BarRow, bars};
use super::done;
use super::forms::{Draft, Fields, action_button, after_action, reason_field};
use super::items::{Difference, Neighbors, run_title};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, age, badge, card, cut, decided, group_digits, group_in_text, live, message, minute, moment,
    moment_or_none, next_link, pairs, run_tone, short_moment, table, user, with_code, words,
};
use super::{Console, ConsoleState, recall};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use crate::base::output::short_run_id;
use crate::console;
use crate::ground::ingest::{
    UNKNOWN_CHANGES, cancel, cause_beside_gates, decide, raw_texts, read_changes, read_run, run_path,
    state_word,
};
use axum::Extension;
use axum::extract::{Path, State};
use domain_base::caller::OPERATOR_REASON_MAX_BYTES;
use domain_base::decimal::Decimal;
use domain_base::page::{ListPage, PageLimit};
use domain_base::wording::format_count;
use domain_ground::run::{GateBreach, IngestionRun, ReleaseEffect, RunCounts, RunState};
use domain_ground::wire::{RejectReport, RunChangeReport, RunReport};
use hyper::Method;
use maud::{Markup, html};
use serde_json::Value as Json;

/// Number of changes in the table.
const CHANGES: usize = 50;
/// Number of the largest changes that are drawn.
const LARGEST: usize = 8;
/// Number of rejects on a page.
const REJECTS: usize = 50;

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
        short_moment(run.started_at),
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
    show(&console, &run_id, &fields, &Draft::default()).await
}

async fn show(console: &Console, run_id: &str, fields: &Fields, draft: &Draft) -> PageResult {
    let report = read_run(&console.options, run_id).await?;
    let after =
        fields.filled("after").map(|after| format!("&after={}", encode_segment(after))).unwrap_or_default();
    let path = format!("{}/rejects?raw=true&limit={REJECTS}{after}", run_path(run_id));
    let rejects: ListPage<RejectReport> =
        console.options.call_control(Method::GET, &path, None).await?.json()?;
    let changes_after = fields.parsed::<u64>("changes_after", "changes_after")?;
    let is_first = changes_after.is_none();
    let limit = if is_first { <PageLimit>::MAX } else { CHANGES };
    let changes = read_changes(&console.options, run_id, changes_after, Some(limit)).await;
    let run = &report.run;
    let recalled = recall::run_card(console, run).await;
    let neighbors = Neighbors::read(console, &format!("/runs/{}", run.run_id)).await;
    let reject_rows: Vec<_> = rejects.items.iter().map(reject_row).collect();
    let heading = ["#record", "rule", "place", "reason", "raw record"];
    let reject_count = html! { span.count.(if run.counts.rejected > 0 { "refused" } else { "neutral" }) { (run.counts.rejected) } };
    let rejected = html! { (table("Rejected records", &heading, &reject_rows)) (next_link(&format!("/runs/{run_id}"), rejects.next.as_deref())) };
    let body = html! {
        (done::note(console, fields).await)
        (draft.note())
        @if run.state == RunState::Held { (live(&format!("/events/runs/{}", run.run_id), &html! {})) }
        @for breach in &run.breaches { (message(Tone::Held, &html! { strong { (with_code(&breach_text(breach))) } })) }
        div.split {
            div {
                (render_effect(run))
                (render_changes(run, changes, is_first))
                @if run.counts.rejected > 0 { (card("Rejected records", &reject_count, &rejected)) }
                @if !run.counts.axes.is_empty() {
                    (card("Filled axes", &html! { span.muted.small { "percent of records" } }, &html! { div.body { (bars(&coverage_rows(run))) } }))
                }
            }
            div { (render_decision(&report, &neighbors, draft)) (recalled) (render_run(&report)) }
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
    Ok(render_page(console, section, head, &body).await)
}

/// The decision of another person about a held run.
pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    Path(run_id): Path<String>,
) -> PageResult {
    let shared = console.clone();
    console::stream(&console, login, move || {
        let (console, run_id) = (shared.clone(), run_id.clone());
        async move {
            let report = read_run(&console.options, &run_id).await?;
            if report.run.state == RunState::Held {
                return Ok::<_, PageError>(html! {});
            }
            Ok(decided(&html! {
                strong { "The run is " (words(state_word(&report))) " now. " }
                @if let Some(decision) = &report.run.decision {
                    (user(&decision.decided_by, None)) " has decided it at " (minute(decision.decided_at)) ": “" (decision.reason) "”. "
                }
                a href=(format!("/runs/{run_id}")) { "Show the run" }
            }))
        }
    })
}

/// The bars of the records in force, and of their values by axis.
fn effect_rows(counts: &RunCounts, effect: ReleaseEffect) -> Vec<BarRow> {
    let number = |count: u64| group_digits(&count.to_string());
    let ReleaseEffect { in_force, withdrawn, changed, unconfirmed } = effect;
    let whole = BarRow {
        name: "records".to_owned(),
        parts: vec![
            (Tone::Neutral, share(in_force.saturating_sub(withdrawn + changed + unconfirmed), in_force)),
            (Tone::Held, share(changed, in_force)),
            (Tone::Refused, share(withdrawn, in_force)),
            (Tone::Stale, share(unconfirmed, in_force)),
        ],
        text: format!("{} of {}", number(changed + withdrawn), number(in_force)),
        note: (unconfirmed > 0).then(|| {
            format!(
                "{} not confirmed: rejected records have no readable identity, and could be these",
                number(unconfirmed)
            )
        }),
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
    [whole].into_iter().chain(axes).collect()
}

fn effect_legend(effect: ReleaseEffect) -> Markup {
    let words = [
        (Tone::Neutral, "unchanged"),
        (Tone::Held, "changed"),
        (Tone::Refused, "withdrawn, or empty"),
        (Tone::Stale, "not confirmed"),
    ];
    let words = words.into_iter().filter(|(tone, _)| *tone != Tone::Stale || effect.unconfirmed > 0);
    html! { ul.legend {
        @for (tone, word) in words {
            li { svg.sw.(tone.name()) aria-hidden="true" { rect width="12" height="12" fill=[super::chart::pattern(tone)] {} } (word) }
        }
    } }
}

/// The effect of the run in numbers: on the records in force, and on the values of each axis.
fn render_effect(run: &IngestionRun) -> Markup {
    let counts = &run.counts;
    let number = |count: u64| group_digits(&count.to_string());
    let percent = |part: u64, all: u64| percent(share(part, all));
    let effect = counts.effect.unwrap_or_default();
    let stat = |name: &str, value: u64, note: String| {
        html! { div.stat { span.k { (name) } span.v { (number(value)) } span.d { (note) } } }
    };
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
        @if effect.in_force > 0 {
            div.body { div.chart { h3 { "Of " (number(effect.in_force)) " records in force, and of their values by axis" } (effect_legend(effect)) (bars(&effect_rows(counts, effect))) } }
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
        ("requested", html! { "by " (user(&run.requested_by, None)) }),
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
    rows.extend(counts.warnings.iter().map(|warning| ("warning", with_code(&warning.to_string()))));
    rows.extend(cause_beside_gates(run).map(|cause| ("cause", with_code(&cause))));
    rows.extend(
        run.undoes.iter().map(|undone| {
            ("undoes", html! { a href=(format!("/runs/{}", undone.run_id)) { (undone.run_id) } })
        }),
    );
    rows.extend(undone_by.iter().map(|by| ("undone by", html! { a href=(format!("/runs/{by}")) { (by) } })));
    if let Some(decision) = &run.decision {
        let by = user(&decision.decided_by, None);
        rows.push((
            "decision",
            html! { "by " (by) ", " (moment(decision.decided_at)) ": " (decision.reason) },
        ));
    }
    card("Run", &html! {}, &html! { div.body { (pairs(rows)) } })
}

/// A broken gate in words, with shares in percent.
pub(super) fn breach_text(breach: &GateBreach) -> String {
    use GateBreach::{
        MaxChangedRatio, MaxChangedValuesRatio, MaxRejectedRatio, MaxUnfilledRatio, MaxWithdrawnRatio,
        Unconfirmed,
    };
    let number = |count: u64| group_digits(&count.to_string());
    let of = |part: u64, all: u64, what: &str, allowed: &Decimal| {
        let allowed = allowed.to_string().parse::<f64>().unwrap_or_default();
        let (share, allowed) = (percent(part as f64 / all.max(1) as f64), percent(allowed));
        format!("{} of {} {what}: {share}, allowed {allowed}", number(part), number(all))
    };
    match breach {
        MaxRejectedRatio { rejected, read, allowed } => of(
            *rejected,
            *read,
            if *rejected == 1 { "records was rejected" } else { "records were rejected" },
            allowed,
        ),
        MaxWithdrawnRatio { withdrawn, in_force, allowed } => {
            of(*withdrawn, *in_force, "records in force would be withdrawn", allowed)
        }
        Unconfirmed { unconfirmed, in_force, allowed } => {
            let are = if *unconfirmed == 1 { "is" } else { "are" };
            of(*unconfirmed, *in_force, &format!("records in force {are} not confirmed"), allowed)
        }
        MaxChangedRatio { changed, in_force, allowed } => {
            of(*changed, *in_force, "records in force would change", allowed)
        }
        MaxUnfilledRatio { axis, unfilled, filled, allowed } => {
            of(*unfilled, *filled, &format!("values of {} would be empty", words(axis)), allowed)
        }
        MaxChangedValuesRatio { axis, changed, compared, allowed } => {
            of(*changed, *compared, &format!("values of {} would change", words(axis)), allowed)
        }
        other => group_in_text(&other.to_string()),
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// A share as a percentage with at most one decimal.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// The fields of a row, by the names of the columns if it has as many fields, else by their numbers.
fn row_fields(text: &str, columns: &[String]) -> Vec<(String, String)> {
    let is_named = |fields: &Vec<String>| fields.len() > 1 && fields.len() == columns.len();
    let named = [b';', b'\t', b',', b'|'].into_iter().map(|mark| split_row(text, mark)).find(is_named);
    if let Some(fields) = named {
        return columns.iter().cloned().zip(fields).collect();
    }
    let mark = [';', '\t'].into_iter().find(|mark| text.contains(*mark)).unwrap_or(',');
    let fields = text.split(mark).enumerate();
    fields.map(|(number, field)| (format!("field {}", number + 1), field.trim().to_owned())).collect()
}

fn split_row(text: &str, mark: u8) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.delimiter(mark).has_headers(false).flexible(true).from_reader(text.as_bytes());
    let row = reader.records().next().and_then(Result::ok).unwrap_or_default();
    row.iter().map(|field| field.trim().to_owned()).collect()
}

/// The parts of two raw records that differ: members of objects by their names, and fields of rows by those of the columns. `None` if the
/// records have no such parts in common.
fn changed_parts(before: &str, after: &str, columns: &[String]) -> Option<Vec<(String, String, String)>> {
    let parsed = |text: &str| serde_json::from_str::<serde_json::Map<String, Json>>(text).ok();
    let parts = |text: &str| -> Vec<(String, String)> {
        if let Some(members) = parsed(text) {
            let text = |value: Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            return members.into_iter().map(|(name, value)| (words(&name), text(value))).collect();
        }
        row_fields(text, columns)
    };
    let (before, after) = (parts(before), parts(after));
    let has_same_names = before.iter().map(|(name, _)| name).eq(after.iter().map(|(name, _)| name));
    if !has_same_names || before.len() < 2 {
        return None;
    }
    let pairs = before.into_iter().zip(after).filter(|((_, before), (_, after))| before != after);
    Some(pairs.map(|((name, before), (_, after))| (name, before, after)).collect())
}

/// The number of characters of a raw record or a value in the table of changes.
const CELL_CHARS: usize = 120;

/// One row for each part of a record that changes, or for the whole record. A cell without a text is empty: a narrow screen leaves
/// it out.
fn change_rows(change: &RunChangeReport, columns: &[String]) -> Vec<Vec<Markup>> {
    let row = |name: &str, before: Markup, after: Markup, difference: String| {
        vec![
            html! { (words(change.kind.into_str())) },
            html! { span.breakall { (change.source_record_id) } },
            html! { (name) },
            before,
            after,
            html! { (difference) },
        ]
    };
    let value = |text: &str| match text {
        "" => html! { span.muted { "empty" } },
        text => html! { code.breakall { (cut(&group_in_text(text), CELL_CHARS)) } },
    };
    let parts = change.before.as_ref().zip(change.after.as_ref());
    let Some(parts) = parts.and_then(|(before, after)| changed_parts(before, after, columns)) else {
        let [before, after] = raw_texts(change).map(|text| {
            if text == "-" {
                html! {}
            } else {
                value(text)
            }
        });
        return vec![row("", before, after, String::new())];
    };
    let rows = parts.iter().map(|(name, before, after)| {
        let difference = Difference::of(before, after);
        let difference = difference.map_or_else(String::new, |difference| difference.percent());
        row(name, value(before), value(after), difference)
    });
    rows.collect()
}

/// The parts of records with the largest differences in percent, as bars.
fn largest_changes(changes: &[RunChangeReport], columns: &[String]) -> Vec<BarRow> {
    let differences = changes.iter().flat_map(|change| {
        let texts = change.before.as_ref().zip(change.after.as_ref());
        let parts = texts.and_then(|(before, after)| changed_parts(before, after, columns));
        parts.into_iter().flatten().filter_map(move |(name, before, after)| {
            let difference = Difference::of(&before, &after)?;
            let note = format!("{} → {}", group_digits(&before), group_digits(&after));
            Some((difference, format!("{}, {name}", change.source_record_id), note))
        })
    });
    let mut differences: Vec<_> = differences.collect();
    differences.sort_by(|(one, ..), (other, ..)| other.share().total_cmp(&one.share()));
    let row = |(difference, name, note): (Difference, String, String)| BarRow {
        name,
        parts: vec![(Tone::Held, difference.share().min(1.0))],
        text: difference.percent(),
        note: Some(note),
    };
    differences.into_iter().take(LARGEST).map(row).collect()
}

fn render_largest(changes: &ListPage<RunChangeReport>, columns: &[String]) -> Markup {
    let rows = largest_changes(&changes.items, columns);
    html! {
        @if !rows.is_empty() {
            div.body { div.chart {
                h3 { "Largest changes, in percent of the larger value" }
                @if changes.next.is_some() { p.small.muted { "Of the first " (group_digits(&changes.items.len().to_string())) " changes. The run has more." } }
                (bars(&rows))
            } }
        }
    }
}

/// The changes from a number on; before the first ones, the largest as a picture.
fn render_changes(
    run: &IngestionRun,
    changes: Result<ListPage<RunChangeReport>, CtlError>,
    is_first: bool,
) -> Markup {
    let content = match changes {
        Err(error) => html! { div.body { (PageError::from(error).render()) } },
        Ok(_) if run.rows.is_none() && run.state == RunState::Held => {
            html! { div.body { p { (UNKNOWN_CHANGES) } } }
        }
        Ok(changes) if changes.items.is_empty() => return html! {},
        Ok(changes) => {
            let columns = &run.counts.columns;
            let shown = changes.items.get(..CHANGES).unwrap_or(&changes.items);
            let rows: Vec<_> = shown.iter().flat_map(|change| change_rows(change, columns)).collect();
            let heading = ["change", "record", "part", "before", "after", "#difference"];
            let has_more = changes.next.is_some() || shown.len() < changes.items.len();
            let last = shown.last().map(|change| change.number).unwrap_or_default();
            html! {
                @if is_first { (render_largest(&changes, columns)) }
                (table("Changed records", &heading, &rows))
                @if has_more {
                    div.pager {
                        span { (format_count(shown.len(), "record", "records")) }
                        span.right { a.btn.slim href=(format!("/runs/{}?changes_after={last}", run.run_id)) { "Further changes" } }
                    }
                }
            }
        }
    };
    html! { div #changes { (card("Changed records", &html! { span.muted.small { "of a changed record only what differs, of others the whole" } }, &content)) } }
}

fn render_decision(
    RunReport { run, undone_by, .. }: &RunReport,
    neighbors: &Neighbors,
    draft: &Draft,
) -> Markup {
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
        RunState::Completed if undone_by.is_none() => html! {
            (action("danger", "Undo the run", "z", "undo"))
            p.note {
                @if run.undoes.is_some() { "The run that it undid has effect again." }
                @else { "The release before it is in force again." }
            }
        },
        RunState::Running => {
            return html! { form method="post" action=(path("cancel")) { button.btn.danger type="submit" { "Cancel the run" } } };
        }
        _ => return draft.kept_reason(),
    };
    html! {
        form.card.decide #decide method="post" action=(path("discard")) aria-label="Decide" {
            header { h2 { "Decide" } span.right { (badge(run_tone(run.state), html! { (run.state.into_str()) ", " (age(run.ended_at.unwrap_or(run.started_at))) })) } }
            div.body { (reason_field("Why?", OPERATOR_REASON_MAX_BYTES, draft)) div.acts { (buttons) } (neighbors.next_field()) }
            @if run.state == RunState::Held { (neighbors.footer()) }
        }
    }
}

fn reject_row(RejectReport { reject, raw_text }: &RejectReport) -> Vec<Markup> {
    vec![
        html! { (reject.position + 1) },
        html! { (reject.rejection.rule.into_str()) },
        html! { (reject.rejection.place.as_deref().unwrap_or("none")) },
        with_code(&reject.rejection.reason),
        html! {
            @match raw_text {
                Some(text) => code.breakall { (text) },
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
    match try_act(&console, (&run_id, &action), &fields).await {
        // after an undo, it is the new run
        Ok((report, done)) => Ok(after_action(&format!("/runs/{}", report.run.run_id), done, &fields)),
        Err(error) => {
            let draft = Draft::failed(error, fields)?;
            draft.with_status(show(&console, &run_id, &Fields::default(), &draft).await)
        }
    }
}

async fn try_act(
    console: &Console,
    (run_id, action): (&str, &str),
    fields: &Fields,
) -> Result<(RunReport, &'static str), PageError> {
    let options = &console.options;
    let done = match action {
        // the run ends a moment later
        "cancel" => return Ok((cancel(options, run_id).await?, "cancellation requested")),
        "approve" => "approved",
        "discard" => "discarded",
        "undo" => "undone",
        _ => return Err(PageError::input(format!("`{action}` is not an action of a run"))),
    };
    Ok((decide(options, run_id, action, &fields.required("reason", "Reason")?).await?, done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_shows_only_the_parts_that_differ() {
        let part =
            |name: &str, before: &str, after: &str| (name.to_owned(), before.to_owned(), after.to_owned());
        let changed = |before: &str, after: &str| changed_parts(before, after, &[]);
        let members = changed(r#"{"a_b":"x","n":5}"#, r#"{"a_b":"x","n":6}"#);
        assert_eq!(members, Some(vec![part("n", "5", "6")]));
        let fields = changed("Aruba,ABW,2000,90588", "Aruba,ABW,2000,90866");
        assert_eq!(fields, Some(vec![part("field 4", "90588", "90866")]));
        assert_eq!(changed("Aruba,ABW", "Aruba,ABW,2000"), None);
        assert_eq!(changed("a", "b"), None);
        let columns = ["Country", "Code", "Value"].map(str::to_owned);
        let named = changed_parts("\"Korea, Rep.\",KOR,5", "\"Korea, Rep.\",KOR,6", &columns);
        assert_eq!(named, Some(vec![part("Value", "5", "6")]));
        let named = changed_parts("Korea, Rep.;KOR;1,5", "Korea, Rep.;KOR;1,6", &columns);
        assert_eq!(named, Some(vec![part("Value", "1,5", "1,6")]));
    }

    fn replaced(number: u64, before: &str, after: &str) -> RunChangeReport {
        serde_json::from_value(serde_json::json!({
            "number": number, "kind": "replaced", "source_record_id": format!("ABW/{number}"), "record_id": null,
            "valid_from": "2026-11-20T10:00:00Z", "valid_until": null, "before": before, "after": after,
        }))
        .expect("a change")
    }

    #[test]
    fn largest_changes_are_drawn_before_the_first_ones_in_percent() {
        let mut items: Vec<_> = (1..=60).map(|number| replaced(number, "ABW,100", "ABW,101")).collect();
        items.extend([replaced(61, "ABW,100", "ABW,400"), replaced(62, "north,1", "south,1")]);
        let rows = largest_changes(&items, &["area".to_owned(), "population".to_owned()]);
        assert_eq!(
            (rows.len(), rows[0].name.as_str(), rows[0].text.as_str()),
            (LARGEST, "ABW/61, population", "75 %")
        );
        assert_eq!(
            (rows[0].parts.clone(), rows[0].note.as_deref()),
            (vec![(Tone::Held, 0.75)], Some("100 → 400"))
        );
        let page = |next: Option<&str>| {
            render_largest(&ListPage { items: items.clone(), next: next.map(str::to_owned) }, &[])
                .into_string()
        };
        assert!(!page(None).contains("The run has more") && page(Some("62")).contains("The run has more"));
    }

    #[test]
    fn change_of_a_whole_record_has_no_text_in_its_empty_cells() {
        let change = serde_json::json!({
            "number": 1, "kind": "became_valid", "source_record_id": "a", "record_id": null,
            "valid_from": "2026-11-20T10:00:00Z", "valid_until": null, "before": null, "after": "Aruba,ABW,5",
        });
        let change: RunChangeReport = serde_json::from_value(change).expect("a change");
        let rows: Vec<Vec<_>> = change_rows(&change, &[])
            .into_iter()
            .map(|row| row.into_iter().map(Markup::into_string).collect())
            .collect();
        let after = "<code class=\"breakall\">Aruba,ABW,5</code>";
        assert_eq!(rows[0][2..], ["", "", after, ""].map(str::to_owned));
    }

    #[test]
    fn broken_gate_names_its_share_and_the_allowed_one_in_percent() {
        let allowed = "0.05".parse().expect("a number");
        let breach = GateBreach::MaxWithdrawnRatio { withdrawn: 600, in_force: 1000, allowed };
        assert_eq!(
            breach_text(&breach),
            "600 of 1,000 records in force would be withdrawn: 60 %, allowed 5 %"
        );
        let allowed = "0.01".parse().expect("a number");
        let breach = GateBreach::MaxRejectedRatio { rejected: 1, read: 40, allowed };
        assert_eq!(breach_text(&breach), "1 of 40 records was rejected: 2.5 %, allowed 1 %");
    }
}
