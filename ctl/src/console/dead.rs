//! A mail or a webhook that could not be sent: its error, and whether it is sent again or removed.

use super::access::LoginEnd;
use super::done;
use super::forms::{Draft, Fields, action_button, after_action};
use super::items::{
    DeadLetter, Neighbors, dead_path as page_path, describe_message, find_queued, read_dead, session_of,
};
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, age, badge, card, decided, due, live, moment, pairs, session_link};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::console;
use axum::Extension;
use axum::extract::{Path, State};
use domain_base::upstream_text::UpstreamText;
use domain_verdict::wire::{MailAction, MailActionRequest};
use hyper::Method;
use maud::{Markup, html};

const GONE: &str = "It is no dead letter any longer: it was sent again, or removed.";

async fn find(console: &Console, path: &str) -> Result<Option<DeadLetter>, PageError> {
    Ok(read_dead(console).await?.into_iter().find(|letter| letter.path() == path))
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path((outbox, id)): Path<(String, String)>,
    fields: Fields,
) -> PageResult {
    show(&console, (&outbox, &id), &fields, &Draft::default()).await
}

async fn show(console: &Console, (outbox, id): (&str, &str), fields: &Fields, draft: &Draft) -> PageResult {
    let path = page_path(outbox, id);
    let letter = find(console, &path).await?;
    let neighbors = Neighbors::read(console, &path).await;
    let title = match &letter {
        Some(letter) => letter.title.clone(),
        None => describe_message(console, outbox, id).await,
    };
    let parts = match letter {
        Some(letter) => render(&letter, (&path, id), &neighbors, draft),
        None => render_gone(find_queued(console, &path).await.as_ref(), id, &neighbors),
    };
    let body = html! { (done::note(console, fields).await) (draft.note()) (parts) };
    let head = PageHead {
        crumbs: Some(neighbors.crumbs()),
        actions: Some(neighbors.actions()),
        ..PageHead::titled(title)
    };
    Ok(render_page(console, Section::Inbox, head, &body).await)
}

/// A message that was sent again or removed: what is known about it.
fn render_gone(queued: Option<&DeadLetter>, id: &str, neighbors: &Neighbors) -> Markup {
    let session = queued.and_then(|message| message.session_id.as_ref().map(ToString::to_string));
    let session = session.or_else(|| session_of(id));
    let mut facts = vec![("id", html! { code { (id) } })];
    facts.extend(session.map(|session_id| ("session", session_link(&session_id))));
    if let Some(DeadLetter { tries, .. }) = queued {
        facts.push(("attempts", html! { (tries.attempts) }));
        facts.push(("next attempt", due(tries.next_attempt_at)));
    }
    html! { section.card.decide #decide { div.body { p { (GONE) } (pairs(facts)) } (neighbors.footer()) } }
}

fn render(letter: &DeadLetter, (path, id): (&str, &str), neighbors: &Neighbors, draft: &Draft) -> Markup {
    let DeadLetter { receiver, session_id, tries, .. } = letter;
    let facts = [
        ("id", html! { code { (id) } }),
        ("receiver", html! { (receiver) }),
        (
            "session",
            html! { @if let Some(id) = &session_id { (session_link(id.as_str())) } @else { "none" } },
        ),
        ("queued", moment(tries.queued_at)),
        ("attempts", html! { (tries.attempts) }),
        ("last error", html! { (tries.last_error.as_ref().map_or("none", UpstreamText::reveal)) }),
    ];
    let button = |text: &str, key: &str, value: &str, class: &str| {
        action_button(class, &html! { (text) }, key, ("action", value), path)
    };
    html! {
        (live(&format!("/events{path}"), &html! {}))
        div.split {
            div { (card("Message", &badge(Tone::Refused, "not sent"), &html! { div.body { (pairs(facts)) } })) }
            div {
                form.card.decide #decide method="post" action=(path) aria-label="Decide" {
                    header { h2 { "Decide" } span.right { (badge(Tone::Refused, html! { "dead, " (age(tries.queued_at)) })) } }
                    div.body {
                        p.small.muted { "The log has the action with your name. It has no reason, so each action needs a second press." }
                        (draft.confirmation())
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
    }
}

pub(super) async fn events(
    State(console): State<ConsoleState>,
    Extension(login): Extension<LoginEnd>,
    Path((outbox, id)): Path<(String, String)>,
) -> PageResult {
    let (shared, path) = (console.clone(), page_path(&outbox, &id));
    console::stream(&console, login, move || {
        let (console, path) = (shared.clone(), path.clone());
        async move {
            let is_waiting = find(&console, &path).await?.is_some();
            Ok::<_, PageError>(if is_waiting {
                html! {}
            } else {
                decided(&html! { (GONE) })
            })
        }
    })
}

pub(super) async fn act(
    State(console): State<ConsoleState>,
    Path((outbox, id)): Path<(String, String)>,
    fields: Fields,
) -> PageResult {
    if !["outbox", "webhooks"].contains(&outbox.as_str()) {
        return Err(PageError::input(format!("`{outbox}` has no dead letters; allowed: outbox, webhooks")));
    }
    let action = fields.text("action").to_owned();
    let question = match action.as_str() {
        "requeue" => "Press “Send it again” once more to queue the message again.",
        "drop" => "Press “Remove it unsent” once more. The message is then deleted, and never sent.",
        other => return Err(PageError::input(format!("`{other}` is not an action; allowed: requeue, drop"))),
    };
    let draft = if fields.text("confirmed") == action {
        match send(&console, (&outbox, &id), &action).await {
            Ok(done) => return Ok(after_action(&page_path(&outbox, &id), done, &fields)),
            Err(error) => Draft::failed(error, fields)?,
        }
    } else {
        Draft::to_confirm(&html! { (question) }, &action, fields)
    };
    draft.with_status(show(&console, (&outbox, &id), &Fields::default(), &draft).await)
}

async fn send(
    console: &Console,
    (outbox, id): (&str, &str),
    action: &str,
) -> Result<&'static str, PageError> {
    let path = format!("/v1/{outbox}/{}", encode_segment(id));
    if action == "drop" {
        console.options.call_control(Method::DELETE, &path, None).await?;
        return Ok("message removed");
    }
    let request = MailActionRequest { action: MailAction::Requeue };
    let body = serde_json::to_vec(&request).map_err(std::io::Error::from)?;
    console.options.call_control(Method::POST, &path, Some(body.into())).await?;
    Ok("message queued again")
}
