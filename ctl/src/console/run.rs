//! One run: what would change, the gates that it broke, its rejects with their raw records, and the decision about it.

use super::access::LoginEnd;
use super::chart::{BarRow, bars};
use super::done;
use super::forms::{Draft, Fields, action_button, after_action, reason_field};
use super::items::{Neighbors, run_title};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{
    Tone, age, badge, card, decided, group_digits, group_in_text, live, message, minute, moment,
    moment_or_none, next_link, pairs, run_tone, short_moment, table, user, with_code, words,
};
use super::{Console, ConsoleState, recall, run_changes};
use crate::base::options::encode_segment;
use crate::base::output::short_run_id;
use crate::console;
use crate::ground::ingest::{approve, cancel, cause_beside_gates, decide, read_run, run_path, state_word};
use axum::Extension;
use axum::extract::{Path, State};
use domain_base::caller::OPERATOR_REASON_MAX_BYTES;
use domain_base::decimal::Decimal;
use domain_base::digest::Sha256Hex;
use domain_base::page::ListPage;
use domain_ground::run::{GateBreach, IngestionRun, ReleaseEffect, RunCounts, RunState};
use domain_ground::wire::{RejectReport, RunReport};
use hyper::Method;
use maud::{Markup, html};

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
    let run = &report.run;
    let changes = run_changes::render(console, run, changes_after).await;
    let recalled = recall::run_card(console, run).await;
    let neighbors = Neighbors::read(console, &format!("/runs/{}", run.run_id)).await;
    let reject_rows: Vec<_> = rejects.items.iter().map(reject_row).collect();
    let heading = ["#record", "rule", "place", "reason", "raw record"];
    let reject_count = html! { span.count.(if run.counts.rejected > 0 { "refused" } else { "neutral" }) { (run.counts.rejected) } };
    let rejected = html! { (table("Rejected records", &heading, &reject_rows)) (next_link(&format!("/runs/{run_id}"), rejects.next.as_deref())) };
    let body = html! {
        (done::note(console, fields).await)
        (draft.note())
        @if run.state == RunState::Held { (watch_run(&report)) }
        @if let Some(by) = &report.outdated_by { (message(Tone::Waiting, &outdated_note(by))) }
        @for breach in &run.breaches { (message(Tone::Held, &html! { strong { (with_code(&breach_text(breach))) } })) }
        div.split {
            div {
                (render_effect(run))
                (changes)
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

/// A warning on the changes of a held run after another run of its source was completed.
fn outdated_note(by: &Sha256Hex) -> Markup {
    html! {
        strong { "The data in force has changed since this run was read. " }
        "Its counts and changes are those to the data before " a href=(format!("/runs/{by}")) { "run " (short_run_id(by)) }
        ", so an approval has another effect. For a new comparison, discard the run and ingest its payload again."
    }
}

/// The live part of a held run: it appears when the run is not any longer as the page shows it.
fn watch_run(RunReport { run, outdated_by, .. }: &RunReport) -> Markup {
    let seen = outdated_by.as_ref().map_or("", Sha256Hex::as_str);
    live(&format!("/events/runs/{}?seen={seen}", run.run_id), &html! {})
}

/// The decision of another person about a held run, or another run that was completed since.
pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    Path(run_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let (shared, seen) = (console.clone(), fields.text("seen").to_owned());
    console::stream(&console, login, move || {
        let (console, run_id, seen) = (shared.clone(), run_id.clone(), seen.clone());
        async move {
            let report = read_run(&console.options, &run_id).await?;
            if report.run.state == RunState::Held {
                let news = report.outdated_by.as_ref().filter(|by| by.as_str() != seen);
                return Ok::<_, PageError>(html! {
                    @if let Some(by) = news { div role="status" { (message(Tone::Waiting, &outdated_note(by))) } }
                });
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

fn render_run(RunReport { run, progress, undone_by, .. }: &RunReport) -> Markup {
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

fn render_decision(
    RunReport { run, undone_by, outdated_by, .. }: &RunReport,
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
            p.note {
                @if outdated_by.is_some() { "It needs a second press: the data in force has changed. " }
                "Its changes are visible at once. It can be undone."
            }
            // the daemon refuses the approval if another run was completed since this page
            @if let Some(by) = outdated_by { input type="hidden" name="outdated_by" value=(by); }
            (draft.confirmation())
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
            div.body { (reason_field("Why?", OPERATOR_REASON_MAX_BYTES, draft, &format!("{} {}", run.run_id, run.state.into_str()))) div.acts { (buttons) } (neighbors.next_field()) }
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
    let outdated_by = fields.text("outdated_by").to_owned();
    let is_first_press = fields.filled("reason").is_some() && fields.text("confirmed") != outdated_by;
    // a run that was decided or outdated meanwhile is refused by the daemon, and needs no question
    if action == "approve"
        && is_first_press
        && is_as_seen(&read_run(&console.options, &run_id).await?, &outdated_by)
    {
        let question = html! {
            "The changes on this page are those to earlier data. Press “Approve the run” once more to approve it all the same."
        };
        let draft = Draft::to_confirm(&question, &outdated_by, fields);
        return draft.with_status(show(&console, &run_id, &Fields::default(), &draft).await);
    }
    match try_act(&console, (&run_id, &action), &fields).await {
        // after an undo, it is the new run
        Ok((report, done)) => Ok(after_action(&format!("/runs/{}", report.run.run_id), done, &fields)),
        Err(error) => {
            let draft = Draft::failed(error, fields)?;
            draft.with_status(show(&console, &run_id, &Fields::default(), &draft).await)
        }
    }
}

/// Whether a run is held, and outdated by the run of which its page warned.
fn is_as_seen(RunReport { run, outdated_by, .. }: &RunReport, seen: &str) -> bool {
    run.state == RunState::Held && outdated_by.as_ref().is_some_and(|by| by.as_str() == seen)
}

async fn try_act(
    console: &Console,
    (run_id, action): (&str, &str),
    fields: &Fields,
) -> Result<(RunReport, &'static str), PageError> {
    let options = &console.options;
    let reason = || fields.required("reason", "Reason");
    let done = match action {
        // the run ends a moment later
        "cancel" => return Ok((cancel(options, run_id).await?, "cancellation requested")),
        "approve" => {
            let outdated_by = fields.parsed::<Sha256Hex>("outdated_by", "outdated_by")?;
            return Ok((approve(options, run_id, &reason()?, outdated_by).await?, "approved"));
        }
        "discard" => "discarded",
        "undo" => "undone",
        _ => return Err(PageError::input(format!("`{action}` is not an action of a run"))),
    };
    Ok((decide(options, run_id, action, &reason()?).await?, done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_about_an_outdated_run_needs_one_that_is_held_and_outdated_as_its_page_says() {
        let examples: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/openapi-examples.json")).expect("valid JSON");
        let by = "0".repeat(64);
        let report = |state: &str| {
            let mut report = examples["read_run"]["200"].clone();
            report["run"]["state"] = state.into();
            report["outdated_by"] = by.as_str().into();
            serde_json::from_value::<RunReport>(report).expect("a valid run")
        };
        assert!(is_as_seen(&report("held"), &by));
        assert!(!is_as_seen(&report("held"), &"1".repeat(64)), "another run was completed since");
        assert!(!is_as_seen(&report("completed"), &by), "a colleague has approved it");
    }

    #[test]
    fn broken_gate_names_its_share_and_the_allowed_one_in_percent() {
        let allowed = "0.05".parse().expect("a number");
        let withdrawn = GateBreach::MaxWithdrawnRatio { withdrawn: 600, in_force: 1000, allowed };
        let allowed = "0.01".parse().expect("a number");
        let rejected = GateBreach::MaxRejectedRatio { rejected: 1, read: 40, allowed };
        let texts = [withdrawn, rejected].map(|breach| breach_text(&breach));
        insta::assert_snapshot!("broken_gates", texts.join("\n"));
    }
}
