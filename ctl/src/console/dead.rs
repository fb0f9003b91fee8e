//! A mail or a webhook that could not be sent: its error, and whether it is sent again or removed.

use super::ConsoleState;
use super::forms::{Fields, after_action, done_note};
use super::items::{DeadLetter, Neighbors, read_dead};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, age, badge, card, moment, pairs, session_link};
use crate::base::options::encode_segment;
use axum::extract::{Path, State};
use domain_verdict::wire::{MailAction, MailActionRequest};
use hyper::Method;
use maud::html;

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path((outbox, id)): Path<(String, String)>,
    fields: Fields,
) -> PageResult {
    let letters = read_dead(&console).await?;
    let path = format!("/dead/{}/{}", encode_segment(&outbox), encode_segment(&id));
    let letter = letters.into_iter().find(|letter| letter.path() == path);
    let Some(DeadLetter { title, session_id, tries, .. }) = letter else {
        return Err(PageError::input(format!(
            "no dead letter has the id {id}; it was sent again, or removed"
        )));
    };
    let neighbors = Neighbors::read(&console, &path).await;
    let facts = [
        ("id", html! { code { (id) } }),
        (
            "session",
            html! { @if let Some(id) = &session_id { (session_link(id.as_str())) } @else { "none" } },
        ),
        ("queued", moment(tries.queued_at)),
        ("attempts", html! { (tries.attempts) }),
        ("last error", html! { (tries.last_error.as_deref().unwrap_or("none")) }),
    ];
    let button = |text: &str, key: &str, value: &str, class: &str| {
        html! { button.btn.(class) type="submit" name="action" value=(value) data-key=(key) aria-keyshortcuts=(key) { span { (text) } kbd aria-hidden="true" { (key) } } }
    };
    let body = html! {
        (done_note(&fields))
        div.split {
            div { (card("Message", &badge(Tone::Refused, "not sent"), &html! { div.body { (pairs(facts)) } })) }
            div {
                form.card.decide #decide method="post" action=(path) aria-label="Decide" {
                    header { h2 { "Decide" } span.right { (badge(Tone::Refused, html! { "dead, " (age(tries.queued_at)) })) } }
                    div.body {
                        div.acts {
                            (button("Send it again", "r", "requeue", "plain"))
                            p.note { "It is queued as if it were new." }
                            (button("Remove it unsent", "x", "drop", "danger"))
                            p.note { "It is never sent." }
                        }
                        (neighbors.next_field())
                    }
                    (neighbors.footer())
                }
            }
        }
    };
    let head = PageHead {
        crumbs: Some(neighbors.crumbs()),
        actions: Some(neighbors.actions()),
        ..PageHead::titled(title)
    };
    Ok(render_page(&console, Section::Inbox, head, &body).await)
}

pub(super) async fn act(
    State(console): State<ConsoleState>,
    Path((outbox, id)): Path<(String, String)>,
    fields: Fields,
) -> PageResult {
    if !["outbox", "webhooks"].contains(&outbox.as_str()) {
        return Err(PageError::input(format!("`{outbox}` has no dead letters; allowed: outbox, webhooks")));
    }
    let path = format!("/v1/{outbox}/{}", encode_segment(&id));
    let (method, body, done) = match fields.text("action") {
        "requeue" => {
            let request = MailActionRequest { action: MailAction::Requeue };
            (
                Method::POST,
                Some(serde_json::to_vec(&request).map_err(std::io::Error::from)?.into()),
                "queued again",
            )
        }
        "drop" => (Method::DELETE, None, "removed"),
        other => return Err(PageError::input(format!("`{other}` is not an action; allowed: requeue, drop"))),
    };
    console.options.call_control(method, &path, body).await?;
    let next = fields.filled("next").unwrap_or("/inbox").to_owned();
    Ok(after_action(&next, done, &Fields::default()))
}
