//! The delivery of a verdict as sentences from its log entries, and a later verdict that differs.

use super::Console;
use super::layout::PageError;
use super::parts::{Tone, card, icon, message, verdict_label, words};
use crate::base::options::encode_segment;
use domain_base::event::EntryMembers;
use domain_base::moment::Moment;
use domain_verdict::webhook::WebhookId;
use domain_verdict::wire::SessionPage;
use hyper::Method;
use maud::{Markup, html};
use serde_json::Value as Json;

/// A session with its entries of the log. The log names its reader.
pub(super) async fn read_session(console: &Console, session_id: &str) -> Result<SessionPage, PageError> {
    let path = format!("/v1/sessions/{}", encode_segment(session_id));
    let answer = console.options.call_control(Method::GET, &path, None).await;
    Ok(answer.map_err(|error| error.with_application_hint(session_id))?.json()?)
}

/// The name of a message: the event of a webhook, or the purpose of a mail.
pub(super) fn message_name(entry: EntryMembers<'_>) -> String {
    let kind = entry.text("kind");
    if is_webhook(entry) { format!("webhook {kind}") } else { format!("mail with the {}", words(&kind)) }
}

pub(super) fn is_webhook(entry: EntryMembers<'_>) -> bool {
    entry.text("message_id").starts_with(WebhookId::PREFIX)
}

/// The sentence of an entry about the delivery, and its tone; `None` if it is about something else.
fn sentence(entry: EntryMembers<'_>) -> Option<(Tone, String)> {
    let text = |path: &str| entry.text(path);
    let attempt = || format!("at attempt {}", text("attempt"));
    Some(match text("event").as_str() {
        "verdict_cached" => {
            (Tone::Ok, format!("The verdict {} was stored for delivery.", text("verdict_label")))
        }
        "message_sent" => {
            let answer = match text("status").as_str() {
                "" => String::new(),
                status => format!(", answered with status {status} after {} ms", text("latency_ms")),
            };
            (Tone::Ok, format!("The {} was sent {}{answer}.", message_name(entry), attempt()))
        }
        "message_failed" => {
            let is_dead = text("next_attempt_at").is_empty();
            let next = if is_dead { "There is no further attempt." } else { "It is sent again." };
            let tone = if is_dead { Tone::Refused } else { Tone::Waiting };
            let failed = format!("The {} could not be sent {}", message_name(entry), attempt());
            (tone, format!("{failed}: {}. {next}", text("cause")))
        }
        "regen_divergence_check" => {
            let [first, later] = ["original_verdict", "regen_verdict"].map(text);
            match text("divergence_level").as_str() {
                "" => (
                    Tone::Neutral,
                    format!("A later verdict, {later}, could not be compared: the first is not known."),
                ),
                "none" => {
                    (Tone::Ok, format!("A later verdict has the same label as the first one: {later}."))
                }
                level => (
                    Tone::Diverged,
                    format!("A later verdict, {later}, differs from the first one, {first}: {level}."),
                ),
            }
        }
        _ => return None,
    })
}

/// The first label, a later one, and the level of their difference, of the last check that has found a difference; `None` if none has.
fn divergence(history: &[Json]) -> Option<(String, String, String)> {
    let mut checks =
        history.iter().map(EntryMembers).filter(|entry| entry.text("event") == "regen_divergence_check");
    let differs = |entry: &EntryMembers<'_>| !["", "none"].contains(&entry.text("divergence_level").as_str());
    let last = checks.rfind(differs)?;
    let [first, later, level] =
        ["original_verdict", "regen_verdict", "divergence_level"].map(|name| last.text(name));
    Some((first, later, level))
}

/// The note that two verdicts of a session differ. `compare` is a link to both.
pub(super) fn divergence_note(history: &[Json], compare: &Markup) -> Markup {
    html! {
        @if let Some((first, later, level)) = divergence(history) {
            (message(Tone::Diverged, &html! {
                strong { "Two verdicts of this session differ: " (first) ", later " (later) " (" (level) "). " }
                (compare)
            }))
        }
    }
}

/// The entries about the delivery as sentences, each with its entry of the log, whose page has the proof; and the verdict card.
pub(super) fn render_delivery(session_id: &str, page: &SessionPage) -> Markup {
    let session = encode_segment(session_id);
    let entries = page.history.iter().map(EntryMembers);
    let body = html! {
        @if let Some((first, later, _)) = divergence(&page.history) {
            div.stats.two {
                div.stat { span.k { "First verdict" } span.v { (verdict_label(&first, "plain")) } }
                div.stat { span.k { "Later verdict" } span.v { (verdict_label(&later, "plain")) } }
            }
        }
        ul.events {
            @for entry in entries {
                @if let Some((tone, text)) = sentence(entry) {
                    @let (seq, at) = (entry.text("seq"), entry.text("timestamp"));
                    li {
                        time.nowrap datetime=(at) title=(at) { @if let Ok(Moment(at)) = at.parse() { (at.strftime("%-d %b %H:%M:%S")) } }
                        span.(tone.name()).fg { (icon(tone.name())) }
                        span { a href=(format!("/log/{seq}")) { (text) } }
                        span.du { (seq) }
                    }
                }
            }
        }
        footer {
            @if page.has_older_entries { a href=(format!("/log?session={session}&after=0")) { "Older entries" } }
            span { "Each entry has its proof. The card verifies itself in a browser." }
            a.btn.slim href=(format!("/sessions/{session}/card.html")) { "Download the verdict card" }
        }
    };
    card("Delivery and proof", &html! { span.muted.small { "UTC" } }, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(history: Vec<Json>) -> SessionPage {
        serde_json::from_value(json!({
            "session_id": "shop/cs_1", "tier": "quick", "query": "Sell honey?", "owner_uid": null, "customer_email": null,
            "original_verdict": "GREEN", "delivered_sha256": null, "cached_sha256": null, "prompt_sha256": null,
            "prompt_template": null, "order": null, "mails": [], "costs": [], "history": history, "has_older_entries": false,
        }))
        .expect("a valid session")
    }

    fn checked(level: Json) -> Json {
        json!({"seq": 9, "event": "regen_divergence_check", "original_verdict": "GREEN", "regen_verdict": "RED", "divergence_level": level})
    }

    #[test]
    fn delivery_has_a_sentence_with_its_entry_for_each_message() {
        let history = vec![
            json!({"seq": 1, "event": "session_registered"}),
            json!({"seq": 2, "event": "verdict_cached", "verdict_label": "GREEN", "timestamp": "2026-11-20T10:00:00Z"}),
            json!({"seq": 3, "event": "message_failed", "message_id": "verdict:shop/cs_1", "kind": "verdict", "attempt": 1,
                "cause": "<b>busy</b>", "next_attempt_at": "2026-11-20T10:01:00Z"}),
            json!({"seq": 4, "event": "message_sent", "message_id": "verdict:shop/cs_1", "kind": "verdict", "attempt": 2}),
            json!({"seq": 5, "event": "message_sent", "message_id": "msg_0123456789abcdef0123456789abcdef", "kind": "order.delivered",
                "attempt": 1, "status": 204, "latency_ms": 210}),
        ];
        let shown = render_delivery("shop/cs_1", &page(history)).into_string();
        for (seq, text) in [
            (2, "The verdict GREEN was stored"),
            (3, "The mail with the verdict could not be sent at attempt 1: &lt;b&gt;busy"),
            (4, "The mail with the verdict was sent at attempt 2."),
            (5, "The webhook order.delivered was sent at attempt 1, answered with status 204 after 210 ms."),
        ] {
            assert!(shown.contains(&format!("href=\"/log/{seq}\">{text}")), "{seq} {text}: {shown}");
        }
        assert!(!shown.contains("/log/1\"") && !shown.contains("First verdict"), "{shown}");
        assert!(shown.contains("href=\"/sessions/shop%2Fcs_1/card.html\""), "{shown}");
    }

    #[test]
    fn divergence_shows_both_labels_and_a_note_only_if_they_differ() {
        let history = vec![checked(json!("significant"))];
        let note = divergence_note(&history, &html! { a href="#" {} }).into_string();
        assert!(
            note.contains("class=\"msg diverged\"") && note.contains("GREEN, later RED (significant)"),
            "{note}"
        );
        let shown = render_delivery("cs_1", &page(history)).into_string();
        assert!(shown.contains("vlabel ok plain") && shown.contains("vlabel refused plain"), "{shown}");
        for level in [json!("none"), json!(null)] {
            let later = [checked(json!("significant")), checked(level.clone())];
            assert_eq!(
                divergence_note(&later, &html! { a href="#" {} }).into_string(),
                note,
                "it has differed"
            );
            let history = vec![checked(level)];
            assert!(divergence_note(&history, &html! {}).into_string().is_empty());
            assert!(!render_delivery("cs_1", &page(history)).into_string().contains("vlabel"));
        }
    }
}
