//! The document around each page with its style and script, the navigation, and parts that several pages have.

use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use domain_base::moment::format_span;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

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
fn navigation(console: &Console, current: Option<Section>) -> Markup {
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

pub(crate) const STYLE_PATH: &str = "/assets/style.css";
pub(crate) const SCRIPT_PATH: &str = "/assets/console.js";

pub(crate) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../../assets/style.css"))
}

pub(crate) async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../../assets/console.js"))
}

/// A page with one text and without navigation, for a browser without a login.
pub(super) fn text_page(title: &str, text: &str, status: StatusCode) -> Response {
    document(title, &html! {}, &html! {}, &html! { p { (text) } }, status)
}

/// The page after the login, which opens the console. A redirect would not do: after a link on another page, the browser
/// would follow it without the cookie.
pub(super) fn entry_page() -> Response {
    let head = html! { meta http-equiv="refresh" content="0; url=/"; };
    document(
        "Logged in",
        &head,
        &html! {},
        &html! { p { a href="/" { "Open the console" } } },
        StatusCode::OK,
    )
}

pub(super) fn document(
    title: &str,
    head: &Markup,
    navigation: &Markup,
    body: &Markup,
    status: StatusCode,
) -> Response {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                (head)
                title { (title) " – oracled" }
                link rel="stylesheet" href=(STYLE_PATH);
                script src=(SCRIPT_PATH) defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { span.brand { "oracled" } (navigation) }
                main #main tabindex="-1" { h1 { (title) } (body) }
            }
        }
    };
    (status, Html(document.into_string())).into_response()
}

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

/// Why a page cannot be shown, or an action failed.
#[derive(Debug)]
pub(crate) struct PageError(pub(crate) CtlError);

pub(crate) type PageResult = Result<Response, PageError>;

impl PageError {
    /// A field of a form is missing or invalid.
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self(CtlError::Usage(text.into()))
    }

    /// The error as a part of a page.
    pub(crate) fn render(&self) -> Markup {
        html! { p.alert role="alert" { strong { "Error: " } (self.0) } }
    }

    fn status(&self) -> StatusCode {
        match &self.0 {
            CtlError::Problem { status, .. } => {
                StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY)
            }
            CtlError::Client(_) => StatusCode::BAD_GATEWAY,
            CtlError::Usage(_) => StatusCode::BAD_REQUEST,
            CtlError::Verb { exit_code: 1, .. } => StatusCode::NOT_FOUND,
            CtlError::Verb { exit_code: 4, .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl<E: Into<CtlError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        (self.status(), format!("{}.", self.0)).into_response()
    }
}

pub(super) async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "The console has no such page.").into_response()
}

/// Shows each failed answer that is a text, of a page or of the router, as a page with navigation. After an action, the page
/// has what is known about its effect.
pub(super) async fn render_errors(
    State(console): State<ConsoleState>,
    request: Request,
    next: Next,
) -> Response {
    let is_read = request.method().is_safe();
    let login = console.access.find_login(request.headers());
    let response = next.run(request).await;
    let status = response.status();
    let is_text =
        response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !(status.is_client_error() || status.is_server_error()) || !is_text {
        return response;
    }
    // the text is in memory already
    let text = to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let body = html! {
        p role="alert" {
            @if text.is_empty() { (status) "." } @else { (text) }
            @if !is_read {
                @if status.is_server_error() {
                    " Look whether the action was done before you repeat it."
                } @else { " Nothing was changed." }
            }
        }
    };
    let title = if status == StatusCode::NOT_FOUND { "Not found" } else { "The request failed" };
    let shown = if login.is_some() {
        navigation(&console, None)
    } else {
        html! {}
    };
    document(title, &html! {}, &shown, &body, status)
}
