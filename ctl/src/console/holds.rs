//! The sessions on legal hold.

use super::ConsoleState;
use super::layout::{PageHead, PageResult, Section, page as render_page};
use super::parts::{cut_table_card, free_text, group_digits, session_link, short_moment, user};
use axum::extract::State;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::wire::LegalHolds;
use hyper::Method;
use maud::{Markup, html};

/// The most holds that are shown.
const SHOWN_MAX: usize = 1_000;

/// The path of the page.
pub(super) const PATH: &str = "/holds";

pub(super) async fn page(State(console): State<ConsoleState>) -> PageResult {
    let LegalHolds { holds } =
        console.options.call_control(Method::GET, "/v1/legal-holds", None).await?.json()?;
    let body = html! {
        (render(&holds))
        p.small.muted { "Nothing erases or removes them. " code { "oraclectl hold" } " places and releases a hold." }
    };
    let head = PageHead::below("/orders", "Orders", "Legal holds");
    Ok(render_page(&console, Section::Orders, head, &body).await)
}

fn render(holds: &[LegalHold]) -> Markup {
    let rows: Vec<_> = holds.iter().take(SHOWN_MAX).map(row).collect();
    let heading = ["session", "since", "reason", "by", "#log stays from entry", "erasure refused"];
    let has_more = holds.len() > rows.len();
    html! {
        (cut_table_card("Sessions on legal hold", &heading, &rows, has_more))
        @if has_more {
            p.small { "These are the first of " (group_digits(&holds.len().to_string())) " sessions. " code { "oraclectl hold" } " lists all." }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_list_is_cut_and_says_so() {
        let hold: LegalHold = serde_json::from_value(json!({
            "session_id": "cs_1", "reason": "case 17", "placed_at": "2026-11-20T10:00:00Z",
            "peer": {"uid": 0, "gid": 0, "pid": null}, "first_seq": 1,
        }))
        .expect("a valid hold");
        let page = |number| render(&vec![hold.clone(); number]).into_string();
        let all = page(SHOWN_MAX);
        assert!(all.contains(">1,000</span>") && !all.contains("<p class=\"small\">"), "{all}");
        let cut = page(SHOWN_MAX + 1);
        assert!(cut.contains(" 1,000</span>") && cut.contains("<p class=\"small\">"), "{cut}");
        assert!(cut.contains(" 1,001 ") && cut.contains("<code>oraclectl hold</code>"), "{cut}");
        assert_eq!(cut.matches("case 17").count(), SHOWN_MAX);
    }
}
