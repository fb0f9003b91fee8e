//! The webhooks that are not accepted yet, and the attempts of the last day to send one.

use super::ConsoleState;
use super::items::dead_path;
use super::layout::{PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, badge, due, free_text, second, session_link, short_moment, table_card};
use crate::verdict::webhook::{LoggedAttempt, read_attempts};
use axum::extract::State;
use domain_base::page::{ListPage, PageLimit};
use domain_base::wording::format_count;
use domain_verdict::webhook::WebhookState;
use hyper::Method;
use maud::{Markup, html};

/// Number of attempts that are shown.
const SHOWN: usize = 200;

pub(super) async fn page(State(console): State<ConsoleState>) -> PageResult {
    let path = format!("/v1/webhooks?limit={}", <PageLimit>::MAX);
    let queued: ListPage<WebhookState> =
        console.options.call_control(Method::GET, &path, None).await?.json()?;
    let attempts = read_attempts(&console.options, false, None).await?;
    let queued: Vec<_> = queued.items.iter().map(queued_row).collect();
    let shown: Vec<_> = attempts.iter().rev().take(SHOWN).map(|(_, attempt)| attempt_row(attempt)).collect();
    let heading = ["event", "of", "to", "queued", "#attempts", "next attempt", "last error"];
    let body = html! {
        (table_card("Not accepted yet", &heading, &queued))
        (table_card(
            "Attempts of the last 24 hours, the latest first",
            &["entry", "time", "event", "to", "#attempt", "result"],
            &shown,
        ))
    };
    let sub = html! {
        span { (format_count(attempts.len(), "attempt", "attempts")) " in the last 24 hours" }
        @if attempts.len() > SHOWN { span { "the latest " (SHOWN) " are shown; " code { "oraclectl webhook log" } " has all" } }
    };
    let head = PageHead { sub: Some(sub), ..PageHead::below("/", "Overview", "Webhooks") };
    Ok(render_page(&console, Section::Overview, head, &body).await)
}

fn queued_row(webhook: &WebhookState) -> Vec<Markup> {
    let tries = &webhook.tries;
    let path = dead_path("webhooks", webhook.webhook_id.as_str());
    vec![
        html! { (webhook.kind.into_str()) },
        html! {
            @if let Some(session_id) = &webhook.session_id { (session_link(session_id.as_str())) }
            @else { (webhook.subject.as_deref().unwrap_or("–")) }
        },
        html! { (webhook.receiver().describe()) },
        short_moment(tries.queued_at),
        html! { (tries.attempts) },
        html! { @if tries.is_dead() { a href=(path) { "dead letter" } } @else { (due(tries.next_attempt_at)) } },
        free_text(tries.last_error.as_deref().unwrap_or("none")),
    ]
}

fn attempt_row(attempt: &LoggedAttempt) -> Vec<Markup> {
    let answer =
        attempt.answer.map(|answer| format!("status {} after {} ms", answer.status, answer.latency_ms));
    let tone = if attempt.is_sent() { Tone::Ok } else { Tone::Refused };
    let word = if attempt.is_sent() { "accepted" } else { "failed" };
    let cause = attempt.cause.clone().or(answer).unwrap_or_default();
    vec![
        html! { a href=(format!("/log/{}", attempt.seq)) { (attempt.seq) } },
        second(attempt.timestamp),
        html! { (attempt.kind.into_str()) },
        html! { (attempt.receiver.describe()) },
        html! { (attempt.attempt) },
        html! { (badge(tone, word)) " " (free_text(&cause)) },
    ]
}
