//! Texts of pages: times, and parts of addresses.

use crate::base::options::encode_segment;
use jiff::Timestamp;
use maud::{Markup, html};
use oracled_domain::base::moment::format_span;

/// A moment as UTC with its age.
pub(crate) fn moment(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (at.strftime("%Y-%m-%d %H:%M:%S UTC")) } " (" (age_text(at, Timestamp::now())) ")" }
}

/// A moment as UTC, or `none`.
pub(crate) fn moment_or_none(at: Option<Timestamp>) -> Markup {
    html! { @if let Some(at) = at { (moment(at)) } @else { "none" } }
}

/// How long ago `at` was, or how far in the future it is.
fn age_text(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    let span = format_span(seconds.unsigned_abs());
    if seconds < 0 { format!("in {span}") } else { format!("{span} ago") }
}

/// A link to the page of a session.
pub(crate) fn session_link(session_id: &str) -> Markup {
    html! { a href=(format!("/sessions/{}", encode_segment(session_id))) { (session_id) } }
}
