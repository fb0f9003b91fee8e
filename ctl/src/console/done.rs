//! The note after an action: what is done, to which item, and the way back to it.

use super::Console;
use super::forms::{Fields, is_own_path};
use super::items::{describe_message, run_title, value_text};
use super::parts::{Tone, capitalized, message, minute};
use crate::ground::ingest::read_run;
use crate::verification::review::{read_evidence, read_review_report};
use domain_verification::wire::ReviewReport;
use maud::{Markup, html};

/// The note that an action is done. `of` in the address is the page of its item, if the note is on another page.
pub(super) async fn note(console: &Console, fields: &Fields) -> Markup {
    let is_plain = |words: &&str| {
        words.len() < 30 && words.bytes().all(|byte| byte == b' ' || byte.is_ascii_lowercase())
    };
    let Some(done) = fields.filled("done").filter(is_plain) else { return html! {} };
    let of = fields.filled("of").filter(|path| is_own_path(path));
    let named = match of {
        Some(path) => describe(console, path).await.unwrap_or_default(),
        None => html! {},
    };
    let text = html! {
        strong { "Done: " (done) "." } (named)
        @if let Some(path) = of {
            " "
            @match done {
                "resolved" => a href=(path) { "Show or revoke it" },
                "commented" => a href=(format!("{path}#comments")) { "Show the comments" },
                _ => a href=(path) { "Show it" },
            }
        }
    };
    html! { div role="status" data-after-action { (message(Tone::Ok, &text)) } }
}

/// The item with the page at `path`, and its decided values.
async fn describe(console: &Console, path: &str) -> Option<Markup> {
    let mut parts = path.trim_start_matches('/').split('/');
    let (kind, id) = (parts.next()?, parts.next()?);
    let text = match kind {
        "reviews" => return describe_review(console, id).await,
        "runs" => run_title(&read_run(&console.options, id).await.ok()?.run),
        "notices" => format!("Notice about the verdict of {}", id.replace("%2F", "/")),
        "dead" => describe_message(console, id, &parts.next()?.replace("%2F", "/")).await,
        "sessions" => format!("Order of session {}", id.replace("%2F", "/")),
        _ => return None,
    };
    Some(html! { " " (text) "." })
}

async fn describe_review(console: &Console, review_id: &str) -> Option<Markup> {
    let ReviewReport { title, review, resolved, revoked, .. } =
        read_review_report(&console.options, review_id).await.ok()?;
    let Some(resolved) = resolved.filter(|_| revoked.is_none()) else {
        return Some(html! { " " (title) "." });
    };
    // the log names the reader of the evidence, so it is read only for the units of values
    let evidence = read_evidence(&console.options, review_id).await.ok();
    let units = evidence.map(|evidence| evidence.units).unwrap_or_default();
    let values = resolved.resolution.values.iter().map(|(path, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = value_text(&value, units.get(path));
        if review.axes.len() > 1 { format!("{} {value}", capitalized(path)) } else { value }
    });
    let validity = std::time::Duration::from_secs(resolved.resolution.valid_for_seconds);
    Some(html! {
        " " (title) ": " b { (values.collect::<Vec<_>>().join(", ")) }
        @if let Ok(until) = resolved.resolved_at.checked_add(validity) { ", valid until " (minute(until)) }
        "."
    })
}
