//! The navigation, and parts that several pages have.

use super::frame::document;
use super::state::Console;
use crate::base::options::encode_segment;
use axum::response::Response;
use hyper::StatusCode;
use maud::{Markup, html};

/// The section of the navigation that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Orders,
    Reviews,
    Sources,
    Rules,
    Log,
}

/// The sections with their names and paths, in the order of the navigation; and whether reviewers have them.
const SECTIONS: [(Section, &str, &str, bool); 6] = [
    (Section::Overview, "Overview", "/", false),
    (Section::Orders, "Orders and sessions", "/orders", true),
    (Section::Reviews, "Reviews", "/reviews", true),
    (Section::Sources, "Sources", "/sources", false),
    (Section::Rules, "Rules", "/rules", false),
    (Section::Log, "Log", "/log", false),
];

/// A page with the status 200.
pub(crate) fn page(console: &Console, section: Section, title: &str, body: &Markup) -> Response {
    document(title, &html! {}, &navigation(console, Some(section)), body, StatusCode::OK)
}

/// The navigation. `current` is the section of the page.
pub(super) fn navigation(console: &Console, current: Option<Section>) -> Markup {
    let sections = SECTIONS.iter().filter(|(.., for_reviewers)| *for_reviewers || !console.has_only_reviews);
    html! {
        nav aria-label="Pages" {
            ul {
                @for (of, name, path, _) in sections {
                    li { a href=(path) aria-current=[(Some(*of) == current).then_some("page")] { (name) } }
                }
            }
        }
        form.logout method="post" action="/logout" { button type="submit" { "Log out" } }
    }
}

/// A table with the head and the body in `parts`. A narrow screen scrolls it.
pub(crate) fn scrolled(caption: &str, parts: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" { table { caption { (caption) } (parts) } }
    }
}

/// A table of cells.
pub(crate) fn table(caption: &str, heading: &[&str], rows: &[Vec<Markup>]) -> Markup {
    let parts = html! {
        thead { tr { @for name in heading { th scope="col" { (name) } } } }
        tbody {
            @for row in rows { tr { @for cell in row { td { (cell) } } } }
            @if rows.is_empty() { tr { td colspan=(heading.len()) { "none" } } }
        }
    };
    scrolled(caption, &parts)
}

/// Names with their values.
pub(crate) fn pairs<'n>(rows: impl IntoIterator<Item = (&'n str, Markup)>) -> Markup {
    html! { dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}

/// A link to the next page of a list: the page at `path` with the parameter `after`.
pub(crate) fn next_link(path: &str, next: Option<&str>) -> Markup {
    let separator = if path.contains('?') { '&' } else { '?' };
    html! {
        @if let Some(next) = next {
            p { a href=(format!("{path}{separator}after={}", encode_segment(next))) { "Next page" } }
        }
    }
}

/// A form for an action with a reason. `action` is the path of the post, `name` what the button says.
pub(crate) fn reason_form(action: &str, name: &str, fields: &Markup) -> Markup {
    html! {
        form.action method="post" action=(action) {
            (fields)
            label { "Reason" input name="reason" required maxlength="1024" autocomplete="off"; }
            button type="submit" { (name) }
        }
    }
}

/// Parts of a page that the script replaces whenever the events at `path` bring new ones.
pub(crate) fn live(path: &str, parts: &Markup) -> Markup {
    html! {
        p.live {
            button #pause type="button" hidden { "Pause updates" }
            span #live-state role="status" {}
            noscript { "Reload the page to update it." }
        }
        div #live data-events=(path) { (parts) }
    }
}
