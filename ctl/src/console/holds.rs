//! The sessions on legal hold.

use super::ConsoleState;
use super::layout::{PageHead, PageResult, Section, page as render_page};
use super::parts::{free_text, session_link, short_moment, table_card, user};
use axum::extract::State;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::wire::LegalHolds;
use hyper::Method;
use maud::{Markup, html};

/// The path of the page.
pub(super) const PATH: &str = "/holds";

pub(super) async fn page(State(console): State<ConsoleState>) -> PageResult {
    let LegalHolds { holds } =
        console.options.call_control(Method::GET, "/v1/legal-holds", None).await?.json()?;
    let rows: Vec<_> = holds.iter().map(row).collect();
    let heading = ["session", "since", "reason", "by", "#log stays from entry", "erasure refused"];
    let body = html! {
        (table_card("Sessions on legal hold", &heading, &rows))
        p.small.muted { "Nothing erases or removes them. " code { "oraclectl hold" } " places and releases a hold." }
    };
    let head = PageHead::below("/orders", "Orders", "Legal holds");
    Ok(render_page(&console, Section::Orders, head, &body).await)
}

fn row(hold: &LegalHold) -> Vec<Markup> {
    vec![
        session_link(hold.session_id.as_str()),
        short_moment(hold.placed_at),
        free_text(&hold.reason),
        html! { (user(&hold.peer.uid.to_string(), None)) },
        html! { a href=(format!("/log/{}", hold.first_seq)) { (hold.first_seq) } },
        html! { @if let Some(at) = hold.erasure_refused_at { (short_moment(at)) } @else { "none" } },
    ]
}
