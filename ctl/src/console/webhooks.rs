//! The webhooks that are not accepted yet, and the latest attempts to send one.

use super::ConsoleState;
use super::items::dead_path;
use super::layout::{PageHead, PageResult, Section, page as render_page};
use super::log::read_entries;
use super::parts::{
    Tone, badge, cut_table_card, due, free_text, second, session_link, short_moment, table_card,
};
use crate::verdict::webhook::LoggedAttempt;
use axum::extract::State;
use domain_base::event::Event;
use domain_base::page::{ListPage, PageLimit};
use domain_base::upstream_text::UpstreamText;
use domain_verdict::event::{MessageFailed, MessageSent};
use domain_verdict::outbox::MessageKind;
use domain_verdict::webhook::WebhookState;
use hyper::Method;
use maud::{Markup, html};

/// Number of entries of attempts that are read, the newest ones. Those of mails are among them.
const READ: usize = 200;

pub(super) async fn page(State(console): State<ConsoleState>) -> PageResult {
    let path = format!("/v1/webhooks?limit={}", <PageLimit>::MAX);
    let queued: ListPage<WebhookState> =
        console.options.call_control(Method::GET, &path, None).await?.json()?;
    let events = [MessageFailed::NAME, MessageSent::NAME].join(",");
    let entries = read_entries(&console, &format!("event={events}"), READ).await?;
    let attempts: Vec<LoggedAttempt> = entries
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()
        .map_err(std::io::Error::from)?;
    let body = html! { (queued_card(&queued)) (attempts_card(&attempts)) };
    let sub = html! {
        span { "The attempts are those among the newest " (READ) " to send a mail or a webhook; " code { "oraclectl webhook log" } " has more." }
    };
    let head = PageHead { sub: Some(sub), ..PageHead::below("/", "Overview", "Webhooks") };
    Ok(render_page(&console, Section::Overview, head, &body).await)
}

fn queued_card(queued: &ListPage<WebhookState>) -> Markup {
    let rows: Vec<_> = queued.items.iter().map(queued_row).collect();
    let heading = ["event", "of", "to", "queued", "#attempts", "next attempt", "last error"];
    cut_table_card("Not accepted yet", &heading, &rows, queued.next.is_some())
}

fn attempts_card(attempts: &[LoggedAttempt]) -> Markup {
    let of_webhooks = attempts.iter().filter(|attempt| matches!(attempt.kind, MessageKind::Webhook(_)));
    let rows: Vec<_> = of_webhooks.map(attempt_row).collect();
    table_card("Attempts, the latest first", &["entry", "time", "event", "to", "#attempt", "result"], &rows)
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
        free_text(tries.last_error.as_ref().map_or("none", UpstreamText::reveal)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn queued_webhook_has_its_receiver_and_its_error() {
        let examples: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/openapi-examples.json")).expect("valid JSON");
        let mut listed = examples["list_webhooks"]["200"].clone();
        let card = |listed: &serde_json::Value| {
            let page = serde_json::from_value(listed.clone()).expect("a page of webhooks");
            queued_card(&page).into_string()
        };
        let dead = card(&listed);
        for part in
            ["order.delivered", "href=\"/sessions/shop", ">dead letter</a>", "with status 410", ">1</span>"]
        {
            assert!(dead.contains(part), "{part} is not in {dead}");
        }
        listed["items"][0]["next_attempt_at"] = json!("2026-11-20T10:00:00Z");
        listed["next"] = json!("msg_000644ab1c2d3e4f0123456789abcdef");
        let waiting = card(&listed);
        assert!(waiting.contains(">due</td>") && waiting.contains("more than 1<"), "{waiting}");
    }

    #[test]
    fn attempts_are_those_of_webhooks_with_their_results() {
        let entry = |event: &str, kind: &str, answer: serde_json::Value| {
            let mut entry = json!({
                "seq": 1234, "event": event, "message_id": format!("msg_{}", "0".repeat(32)), "kind": kind,
                "application": "shop", "attempt": 2, "timestamp": "2026-11-20T10:00:00Z",
            });
            if let (Some(entry), Some(answer)) = (entry.as_object_mut(), answer.as_object()) {
                entry.extend(answer.clone());
            }
            serde_json::from_value::<LoggedAttempt>(entry).expect("an attempt")
        };
        let attempts = [
            entry("message_sent", "order.delivered", json!({"status": 204, "latency_ms": 31})),
            entry(
                "message_failed",
                "order.delivered",
                json!({"cause": "no answer", "next_attempt_at": null}),
            ),
            entry("message_failed", "verdict", json!({"cause": "a mail", "next_attempt_at": null})),
        ];
        let card = attempts_card(&attempts).into_string();
        for part in ["href=\"/log/1234\"", "status 204 after 31 ms", "accepted", "failed", "no answer"] {
            assert!(card.contains(part), "{part} is not in {card}");
        }
        assert!(card.contains(">2</span>") && !card.contains("a mail"), "{card}");
    }
}
