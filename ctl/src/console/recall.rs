//! The delivered verdicts that relied on statements of a source that differ now: of all its records, or of those that a run changed.

use super::forms::Fields;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, badge, card, group_digits, message, moment, next_link, session_link, table, words};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::base::output::short_run_id;
use crate::verdict::recall::{describe, describe_omissions, read_recall};
use axum::extract::State;
use domain_ground::run::{IngestionRun, RunState};
use domain_verdict::recall::{RecallResult, RecalledStatement, RecalledVerdict};
use domain_verdict::wire::RecallResponse;
use maud::{Markup, html};

pub(super) async fn page(State(console): State<ConsoleState>, fields: Fields) -> PageResult {
    let source = fields.required("source", "Source")?;
    let run = fields.filled("run");
    let params = [("run", run.map(str::to_owned)), ("after", fields.filled("after").map(str::to_owned))];
    let answer = read_recall(&console.options, &source, &params).await?;
    let rows: Vec<_> = answer.verdicts.iter().map(verdict_row).collect();
    let heading = ["session", "result", "then", "now", "evaluated"];
    let body = html! {
        p { (describe(&answer)) "." }
        (omissions(&answer))
        (card("Verdicts", &html! { span.count.neutral { (answer.total) } }, &html! {
            (table("Verdicts", &heading, &rows))
            (next_link(&page_path(&source, run), answer.next.as_deref()))
        }))
    };
    let title = match run {
        Some(run) => format!("Verdicts that run {} touches", short_run_id_of(run)),
        None => format!("Verdicts with changed statements of {source}"),
    };
    let crumbs =
        html! { a href="/sources" { "Sources" } " › " a href=(format!("/sources/{source}")) { (source) } };
    let head = PageHead { crumbs: Some(crumbs), ..PageHead::titled(title) };
    Ok(render_page(&console, Section::Sources, head, &body).await)
}

fn omissions(answer: &RecallResponse) -> Markup {
    html! { @for line in describe_omissions(answer) { (message(Tone::Held, &html! { (line) })) } }
}

fn short_run_id_of(run: &str) -> String {
    run.parse().map_or_else(|_| run.to_owned(), |run_id| short_run_id(&run_id))
}

fn page_path(source: &str, run: Option<&str>) -> String {
    let run = run.map(|run| format!("&run={}", encode_segment(run))).unwrap_or_default();
    format!("/recalls?source={}{run}", encode_segment(source))
}

pub(super) const fn result_tone(result: RecallResult) -> Tone {
    match result {
        RecallResult::StillSupported => Tone::Ok,
        RecallResult::NotEvaluated => Tone::Neutral,
        RecallResult::NoLongerSupported => Tone::Held,
        RecallResult::NowContradicted => Tone::Diverged,
    }
}

fn verdict_row(verdict: &RecalledVerdict) -> Vec<Markup> {
    let RecalledVerdict { session_id, entry, evaluated_at, result, cause, statements, .. } = verdict;
    let cause: Option<&str> = cause.as_ref().map(Into::into);
    let stated = |text: fn(&RecalledStatement) -> Markup| html! { @for statement in statements { p { (text(statement)) } } };
    vec![
        session_link(session_id.as_str()),
        html! { (badge(result_tone(*result), words(result.into()))) @if let Some(cause) = cause { p.note { (words(cause)) } } },
        stated(|statement| html! { (statement.then.as_deref().unwrap_or("not stored")) }),
        stated(
            |statement| html! { @if statement.now.is_empty() { "no such statement" } @else { (statement.now.join("; ")) } },
        ),
        html! { (moment(*evaluated_at)) " " a href=(format!("/log/{entry}")) { "entry " (entry) } },
    ]
}

/// How many delivered verdicts a completed run touches.
pub(super) async fn run_card(console: &Console, run: &IngestionRun) -> Markup {
    if run.state != RunState::Completed {
        return html! {};
    }
    let (source, run_id) = (run.oracle_id.as_str(), run.run_id.as_str());
    let params = [("run", Some(run_id.to_owned())), ("limit", Some("1".to_owned()))];
    let body = match read_recall(&console.options, source, &params).await {
        Err(error) => PageError::from(error).render(),
        Ok(answer) => {
            let verdicts = if answer.total == 1 { "delivered verdict" } else { "delivered verdicts" };
            let count = html! { (group_digits(&answer.total.to_string())) " " (verdicts) };
            html! {
                p {
                    "This release touches "
                    @if answer.total == 0 { "no delivered verdict" } @else { a href=(page_path(source, Some(run_id))) { (count) } }
                    "."
                }
                (omissions(&answer))
            }
        }
    };
    card("Recall", &html! {}, &html! { div.body { (body) } })
}
