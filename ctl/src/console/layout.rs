//! The document around each page, with the navigation; and errors as pages.

use super::counts::{NavCounts, read_counts};
use super::parts::{Tone, badge, entered_reason, icon, kept_reason, message, sentence, with_code};
use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::output::format_user;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use hyper::header::{CONTENT_TYPE, REFERER};
use hyper::http::uri::PathAndQuery;
use hyper::{StatusCode, Uri};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use nix::unistd::{User, geteuid};

/// The section of the navigation that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Inbox,
    Orders,
    Sources,
    Rules,
    Log,
}

/// An entry of the navigation.
struct NavEntry {
    section: Section,
    name: &'static str,
    icon: &'static str,
    path: &'static str,
    /// The key after `g`.
    key: &'static str,
    for_reviewers: bool,
}

const NAVIGATION: [NavEntry; 6] = [
    NavEntry {
        section: Section::Overview,
        name: "Overview",
        icon: "overview",
        path: "/",
        key: "o",
        for_reviewers: false,
    },
    NavEntry {
        section: Section::Inbox,
        name: "Inbox",
        icon: "inbox",
        path: "/inbox",
        key: "i",
        for_reviewers: true,
    },
    NavEntry {
        section: Section::Orders,
        name: "Orders",
        icon: "orders",
        path: "/orders",
        key: "d",
        for_reviewers: true,
    },
    NavEntry {
        section: Section::Sources,
        name: "Sources",
        icon: "sources",
        path: "/sources",
        key: "s",
        for_reviewers: false,
    },
    NavEntry {
        section: Section::Rules,
        name: "Rules",
        icon: "rules",
        path: "/rules",
        key: "r",
        for_reviewers: false,
    },
    NavEntry {
        section: Section::Log,
        name: "Log",
        icon: "log",
        path: "/log",
        key: "l",
        for_reviewers: false,
    },
];

fn shown_entries(console: &Console) -> impl Iterator<Item = &'static NavEntry> {
    let has_all = !console.has_only_reviews;
    NAVIGATION.iter().filter(move |entry| entry.for_reviewers || has_all)
}

/// The top of a page: its title, its state and its links.
#[derive(Debug, Default)]
pub(crate) struct PageHead {
    pub(crate) title: String,
    /// The way to the page, before its title.
    pub(crate) crumbs: Option<Markup>,
    /// The state in words, after the title.
    pub(crate) sub: Option<Markup>,
    /// Links at the right.
    pub(crate) actions: Option<Markup>,
}

impl PageHead {
    pub(crate) fn titled(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// The head of a page below the list at `path`.
    pub(crate) fn below(path: &str, list: &str, title: impl Into<String>) -> Self {
        Self { crumbs: Some(html! { a href=(path) { (list) } }), ..Self::titled(title) }
    }

    fn render(&self) -> Markup {
        html! {
            div.head {
                div {
                    @if let Some(crumbs) = &self.crumbs { p.crumbs { (crumbs) } }
                    h1 { (self.title) }
                    @if let Some(sub) = &self.sub { p.sub { (sub) } }
                }
                @if let Some(actions) = &self.actions { div.actions { (actions) } }
            }
        }
    }
}

/// A page with the status 200.
pub(crate) async fn page(console: &Console, section: Section, head: PageHead, body: &Markup) -> Response {
    let counts = read_counts(console).await;
    let body = html! { (test_banner(console)) (head.render()) (body) };
    document(&head.title, &html! {}, Some(&Frame::of(console, Some(section), counts)), &body, StatusCode::OK)
}

/// The page with the status of a fault in the fields of its form, if there is one.
pub(crate) fn with_fault(mut page: Response, fault: Option<&PageError>) -> Response {
    if let Some(fault) = fault {
        *page.status_mut() = fault.status();
    }
    page
}

/// The banner of every page while the daemon is in test mode.
fn test_banner(console: &Console) -> Markup {
    let text = html! { strong { "Test mode. " } "Verdicts can be canned, and mails go to files: no customer gets one." };
    html! { @if console.frame.is_test() { div role="note" { (message(Tone::Waiting, &text)) } } }
}

/// The navigation. `current` is the section of the page.
fn navigation(console: &Console, current: Option<Section>, counts: NavCounts) -> Markup {
    let count = |section| match section {
        Section::Inbox => Some(("inbox", counts.inbox, Tone::Held, "to decide")),
        Section::Orders => Some(("orders", counts.orders, Tone::Waiting, "waiting")),
        Section::Sources => Some(("sources", counts.sources, Tone::Stale, "stale")),
        _ => None,
    };
    html! {
        header.side {
            a.brand href="/" {
                svg viewBox="0 0 22 22" aria-hidden="true" {
                    circle cx="11" cy="11" r="9" fill="none" stroke="currentColor" stroke-width="2.2" {}
                    circle.info.lgo cx="11" cy="11" r="3.4" {}
                }
                "oracled"
                span.host { (console.host) }
            }
            span.live.off.top #live-top hidden {}
            form.find role="search" action="/find" {
                label.sr for="find" { "Find a session, a source, a review, or a log entry by its number" }
                input #find name="q" type="text" placeholder="Find" required autocomplete="off";
                kbd { "/" }
                button.sr type="submit" tabindex="-1" { "Find" }
            }
            nav.nav aria-label="Console" {
                @for entry in shown_entries(console) {
                    a href=(entry.path) data-go=(entry.key) aria-current=[(Some(entry.section) == current).then_some("page")] {
                        (icon(entry.icon))
                        span { (entry.name) }
                        @if let Some((name, number, tone, word)) = count(entry.section) {
                            // updates of the page have the numbers, too
                            span.count.(tone.name()) data-count=(name) hidden[number.unwrap_or_default() == 0] {
                                span { @if let Some(number) = number { (number) } } span.sr { " " (word) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The end of the navigation: updates, keys, the user.
fn foot() -> Markup {
    let uid = geteuid();
    let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
    html! {
        footer.foot {
            div.side-foot {
                div.row {
                    span.live #live-state role="status" {}
                    button.linkish #pause type="button" data-key="u" hidden { "Pause updates" }
                }
                noscript { "Reload the page to update it." }
                div.row {
                    span { "Version " (env!("CARGO_PKG_VERSION")) }
                    button.linkish popovertarget="keys" data-key="?" { kbd { "?" } " keys" }
                }
                div.row {
                    span { (format_user(&uid.to_string(), name.as_deref())) }
                    form method="post" action="/logout" { button.linkish type="submit" { "Log out" } }
                }
            }
        }
    }
}

/// The keys that the script has on all pages. Those of a page are on its elements, from which the script lists them.
const KEYS: [(&[&str], &str); 4] = [
    (&["/"], "find"),
    (&["j", "k"], "next, previous row"),
    (&["Enter"], "open the row"),
    (&["Esc"], "leave the field, close this"),
];

fn keys(console: &Console) -> Markup {
    html! {
        div #keys.pop popover role="dialog" aria-label="Keys" {
            h2 { "Keys" }
            div { h3 { "On this page" } dl #page-keys.dl.kd {} }
            h3 { "On all pages" }
            dl.dl.kd {
                @for (keys, effect) in KEYS { dt { @for key in keys { kbd { (key) } " " } } dd { (effect) } }
                @for entry in shown_entries(console) { dt { kbd { "g" } " " kbd { (entry.key) } } dd { (entry.name) } }
            }
            p.small { "After an action, keys and buttons wait for 1 s, so that a second press does not act on the next item." }
            p.small.keyoff { label.check { input #single-keys type="checkbox" checked; "Single keys" } }
            noscript { p.small { "Keys need the console's script." } }
        }
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
    document(title, &html! {}, None, &html! { h1 { (title) } p { (text) } }, status)
}

/// The page after the login, which opens the console. A redirect would not do: after a link on another page, the browser
/// would follow it without the cookie.
pub(super) fn entry_page() -> Response {
    let head = html! { meta http-equiv="refresh" content="0; url=/"; };
    let body = html! { h1 { "Logged in" } p { a href="/" { "Open the console" } } };
    document("Logged in", &head, None, &body, StatusCode::OK)
}

/// The frame around the content of a page.
struct Frame {
    navigation: Markup,
    keys: Markup,
    /// The name of the login. What the browser keeps is for this login only.
    login: String,
}

impl Frame {
    fn of(console: &Console, current: Option<Section>, counts: NavCounts) -> Self {
        let login = console.access.login_name();
        Self { navigation: navigation(console, current, counts), keys: keys(console), login }
    }
}

fn document(
    title: &str,
    head: &Markup,
    frame: Option<&Frame>,
    body: &Markup,
    status: StatusCode,
) -> Response {
    let main = html! { main #main tabindex="-1" { (body) } };
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
            body data-login=[frame.map(|frame| &frame.login)] {
                (PreEscaped(include_str!("../../assets/icons.svg")))
                a.skip href="#main" { "Skip to the content" }
                @match frame {
                    Some(Frame { navigation, keys, .. }) => { div.app { (navigation) (main) (foot()) } (keys) },
                    None => (main),
                }
            }
        }
    };
    (status, Html(document.into_string())).into_response()
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

    /// The selection by the fields of a form. A fault in them is shown beside the form, which keeps what was entered.
    ///
    /// # Errors
    /// The daemon failed.
    pub(crate) fn beside_form<T: Default>(read: Result<T, Self>) -> Result<(T, Option<Self>), Self> {
        match read {
            Ok(found) => Ok((found, None)),
            Err(error) if error.status().is_server_error() => Err(error),
            Err(error) => Ok((T::default(), Some(error))),
        }
    }

    /// The error as a part of a page.
    pub(crate) fn render(&self) -> Markup {
        html! { div role="alert" { (message(Tone::Refused, &html! { strong { "Error: " } (with_code(&self.0.to_string())) })) } }
    }

    pub(crate) fn status(&self) -> StatusCode {
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

/// The id of the request that the daemon has refused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestId(Box<str>);

/// The reason that was entered for an action that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptReason(pub(crate) Box<str>);

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), sentence(&self.0.to_string())).into_response();
        if let CtlError::Problem { request_id: Some(id), .. } = self.0 {
            response.extensions_mut().insert(RequestId(id));
        }
        response
    }
}

pub(super) async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "The console has no such page.").into_response()
}

/// The page with the link or the form of a request; `None` if it is not known, or if the request has only loaded it again.
fn page_before(request: &Request) -> Option<PathAndQuery> {
    let url: Uri = request.headers().get(REFERER)?.to_str().ok()?.parse().ok()?;
    let before = url.path_and_query()?;
    let is_same = request.method().is_safe() && request.uri().path_and_query() == Some(before);
    (!is_same && !before.as_str().starts_with("//")).then(|| before.clone())
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
    let before = login.as_ref().and_then(|_| page_before(&request));
    let response = next.run(request).await;
    let (status, request_id) = (response.status(), response.extensions().get::<RequestId>().cloned());
    let reason = response.extensions().get::<KeptReason>().cloned();
    let is_text =
        response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"));
    if !(status.is_client_error() || status.is_server_error()) || !is_text {
        return response;
    }
    // the text is in memory already
    let text = to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let title = if status == StatusCode::NOT_FOUND { "Not found" } else { "The request failed" };
    let tone = if status.is_server_error() { Tone::Refused } else { Tone::Waiting };
    let fault = html! {
        p role="alert" {
            @if text.is_empty() { (status) "." } @else { (with_code(&text)) }
            @if !is_read {
                @if status.is_server_error() {
                    " Look whether the action was done before you repeat it."
                } @else { " Nothing was changed." }
            }
        }
        @if let Some(RequestId(id)) = request_id { p.small.muted { "Request " code { (id) } } }
    };
    let head = PageHead { sub: Some(badge(tone, status.as_u16())), ..PageHead::titled(title) };
    // after a server error, the daemon may be what fails, so no counts are read
    let counts = if login.is_some() && status.is_client_error() {
        read_counts(&console).await
    } else {
        NavCounts::default()
    };
    let body = html! {
        (test_banner(&console))
        (head.render())
        (message(tone, &fault))
        @if let Some(KeptReason(reason)) = reason {
            // the daemon may have done the action before it failed
            @if status.is_server_error() { (entered_reason("The reason that you entered", &reason)) } @else { (kept_reason(&reason)) }
        }
        @if let Some(before) = before { div.actions { a.btn href=(before) { "Back" } } }
    };
    let shown = login.map(|_| Frame::of(&console, None, counts));
    document(title, &html! {}, shown.as_ref(), &body, status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::problem_error;
    use hyper::header::{HeaderName, HeaderValue};
    use oracled_api::client::DaemonResponse;

    #[test]
    fn page_before_is_another_one_or_has_the_form() {
        let before = |method: &str, path: &str, referer: &str| {
            let request = hyper::Request::builder().method(method).uri(path).header(REFERER, referer);
            let request = request.body(axum::body::Body::empty()).expect("a valid request");
            page_before(&request).map(|before| before.to_string())
        };
        let url = |path: &str| format!("http://127.0.0.1:1{path}");
        let inbox = Some("/inbox?kind=dispute".to_owned());
        assert_eq!(before("GET", "/reviews/v-1", &url("/inbox?kind=dispute")), inbox);
        assert_eq!(before("GET", "/inbox", &url("/inbox?kind=dispute")), inbox);
        assert_eq!(before("GET", "/inbox?kind=dispute", &url("/inbox?kind=dispute")), None);
        let several = "/orders/several";
        assert_eq!(before("POST", several, &url(several)).as_deref(), Some(several));
        assert_eq!(before("GET", "/log", &url("//other.example/")), None);
    }

    #[test]
    fn failed_answer_keeps_the_id_of_its_request() {
        let id = (HeaderName::from_static("x-request-id"), HeaderValue::from_static("791e-2f4"));
        let answer = DaemonResponse {
            status: StatusCode::NOT_FOUND,
            headers: [id].into_iter().collect(),
            body: "{}".into(),
        };
        let response = PageError(problem_error(&answer)).into_response();
        assert_eq!(response.extensions().get(), Some(&RequestId("791e-2f4".into())));
    }
}
