//! The document around each page with its style and script, the navigation, and parts that several pages have, such as
//! fields of forms and charts.
//!
//! Charts are SVG without inline style: the stylesheet colors their classes.

use super::{Console, ConsoleState};
use crate::base::error::CtlError;
use crate::base::options::encode_segment;
use axum::body::to_bytes;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, Request, State};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use domain_base::moment::format_span;
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use std::collections::BTreeMap;

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

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 40.0;

/// A line of values, with gaps where a value is missing. `summary` describes it to a screen reader.
pub(crate) fn sparkline(values: &[Option<f64>], summary: &str) -> Markup {
    let top = values.iter().flatten().copied().fold(1.0, f64::max);
    let step = WIDTH / values.len().saturating_sub(1).max(1) as f64;
    let mut path = String::new();
    let mut is_drawing = false;
    for (index, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let (x, y) = (index as f64 * step, HEIGHT - 2.0 - value / top * (HEIGHT - 4.0));
            path.push_str(&format!("{}{x:.1} {y:.1}", if is_drawing { 'L' } else { 'M' }));
            if !is_drawing {
                // a single value is a dot
                path.push_str("h0.1");
            }
        }
        is_drawing = value.is_some();
    }
    html! {
        svg.sparkline viewBox="0 0 240 40" role="img" aria-label=(summary) preserveAspectRatio="none" {
            path d=(path) {}
        }
    }
}

/// Names with their numbers, as a table whose last column is drawn.
pub(crate) fn bars(caption: &str, label: &str, unit: &str, rows: &[(String, f64)]) -> Markup {
    let top = rows.iter().map(|(_, count)| *count).fold(1.0, f64::max);
    let parts = html! {
        thead { tr { th scope="col" { (label) } th scope="col" { (unit) } td {} } }
        tbody {
            @for (name, count) in rows {
                tr {
                    th scope="row" { (name) }
                    td.number { (count) }
                    td aria-hidden="true" {
                        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" {
                            rect width=(format!("{:.1}", count / top * 100.0)) height="10" {}
                        }
                    }
                }
            }
            @if rows.is_empty() { tr { td colspan="3" { "none" } } }
        }
    };
    scrolled(caption, &parts)
}

/// A line of a chart over time: its name, and its values at times in seconds. Each value holds until the next time; without one, the
/// line has a gap.
#[derive(Debug)]
pub(crate) struct StepLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(i64, Option<f64>)>,
}

/// The size of a chart over time.
const SIZE: (f64, f64) = (640.0, 240.0);
/// Space around the lines.
const MARGIN: f64 = 8.0;
/// Number of colors of lines in the stylesheet.
const COLORS: usize = 4;

/// Lines over time with a legend. The last line is the most prominent. `labels` are those of the first and the last time.
pub(crate) fn step_chart(lines: &[StepLine], unit: &str, labels: [&str; 2], summary: &str) -> Markup {
    let all = || lines.iter().flat_map(|line| &line.points);
    let times = || all().map(|(at, _)| *at as f64);
    let span = (times().fold(f64::MAX, f64::min), times().fold(f64::MIN, f64::max));
    let values = || all().filter_map(|(_, value)| *value);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    // counted from the newest line, which always has the first look
    let look = |number: usize| {
        let age = lines.len().saturating_sub(number + 1);
        format!("color-{} dash-{}", age % COLORS, age / COLORS)
    };
    html! {
        figure.chart {
            svg viewBox="0 0 640 240" role="img" aria-label=(summary) {
                @for (number, line) in lines.iter().enumerate() {
                    path class=(look(number)) d=(step_path(line, span, (low, high))) { title { (line.name) } }
                }
                @if values().next().is_some() {
                    text x="8" y="20" { (high) " " (unit) }
                    @if low < high { text x="8" y="236" { (low) " " (unit) } }
                }
            }
            figcaption { span { (labels[0]) } span { (labels[1]) } }
            ul.legend {
                @for (number, line) in lines.iter().enumerate().rev() {
                    li {
                        svg viewBox="0 0 40 8" aria-hidden="true" { path class=(look(number)) d="M0 4H40" {} }
                        (line.name)
                    }
                }
            }
        }
    }
}

fn step_path(line: &StepLine, (start, end): (f64, f64), (low, high): (f64, f64)) -> String {
    let scale = |value: f64, low: f64, high: f64, length: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        MARGIN + share * (length - 2.0 * MARGIN)
    };
    let mut path = String::new();
    let mut is_drawing = false;
    for (at, value) in &line.points {
        let x = scale(*at as f64, start, end, SIZE.0);
        if is_drawing {
            path.push_str(&format!("H{x:.1}"));
        }
        if let Some(value) = value {
            let y = SIZE.1 - scale(*value, low, high, SIZE.1);
            path.push_str(&if is_drawing { format!("V{y:.1}") } else { format!("M{x:.1} {y:.1}") });
        }
        is_drawing = value.is_some();
    }
    if is_drawing {
        path.push_str(&format!("H{:.1}", SIZE.0 - MARGIN));
    }
    path
}

/// The fields of a form, posted or in the query. Of a repeated field, the last one counts.
#[derive(Debug, Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// The text of a field without surrounding white space; empty if it is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map(|value| value.trim()).unwrap_or_default()
    }

    /// The text of a field; `None` if it is missing or empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// The text of a field that must not be empty. `label` is its label on the page.
    ///
    /// # Errors
    /// The field is missing or empty.
    pub(crate) fn required(&self, name: &str, label: &str) -> Result<String, PageError> {
        let text = self.filled(name).map(str::to_owned);
        text.ok_or_else(|| PageError::input(format!("`{label}` is empty; enter a text")))
    }

    /// An input with the field's text. `hint` is shown while it is empty.
    pub(crate) fn input(&self, name: &str, label: &str, hint: &str) -> Markup {
        html! { label { (label) input name=(name) value=(self.text(name)) placeholder=(hint) autocomplete="off"; } }
    }

    /// All fields whose names begin with `prefix`, by the rest of their names.
    pub(crate) fn with_prefix<'f>(&'f self, prefix: &'f str) -> impl Iterator<Item = (&'f str, &'f str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.trim())))
    }

    /// The value of a field, parsed; `None` if it is missing or empty.
    ///
    /// # Errors
    /// The text cannot be parsed.
    pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
        label: &str,
    ) -> Result<Option<T>, PageError> {
        let parse =
            |text: &str| text.parse().map_err(|error| PageError::input(format!("`{label}`: {error}")));
        self.filled(name).map(parse).transpose()
    }
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let fields: Result<Form<Vec<(String, String)>>, FormRejection> =
            Form::from_request(request, state).await;
        match fields {
            // browsers send line breaks of a textarea as CRLF
            Ok(Form(fields)) => {
                Ok(Self(fields.into_iter().map(|(name, text)| (name, text.replace("\r\n", "\n"))).collect()))
            }
            Err(rejection) => Err((rejection.status(), rejection.body_text()).into_response()),
        }
    }
}

/// Sends the browser to the page at `path` after an action. [`done_note`] is its note there.
pub(crate) fn after_action(path: &str, done: &str) -> Response {
    Redirect::to(&format!("{path}?done={}", encode_segment(done))).into_response()
}

/// The note that an action is done.
pub(crate) fn done_note(fields: &Fields) -> Markup {
    let done = fields.filled("done").filter(|words| {
        words.len() < 30 && words.bytes().all(|byte| byte == b' ' || byte.is_ascii_lowercase())
    });
    html! { @if let Some(done) = done { p.done role="status" { "Done: " (done) "." } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use hyper::header::CONTENT_TYPE;

    #[test]
    fn chart_of_no_or_equal_values_has_only_finite_numbers() {
        let line =
            |points: &[(i64, Option<f64>)]| StepLine { name: "<a>".to_owned(), points: points.to_vec() };
        let one = Some(1.0);
        for points in [vec![], vec![(5, None)], vec![(5, one)], vec![(5, one), (6, one)]] {
            let chart = step_chart(&[line(&points)], "", ["", ""], "").into_string();
            assert!(!chart.contains("NaN") && !chart.contains("inf") && !chart.contains("<a>"), "{chart}");
        }
        let sparkline = sparkline(&[None, Some(0.0), None], "").into_string();
        assert!(sparkline.contains("M120.0 38.0h0.1"), "{sparkline}");
    }

    #[test]
    fn line_over_time_has_a_gap_where_a_value_is_missing() {
        let points = vec![(0, Some(1.0)), (4, None), (6, None), (8, Some(3.0)), (10, Some(2.0))];
        let line = StepLine { name: "known".to_owned(), points };
        let path = step_path(&line, (0.0, 10.0), (1.0, 3.0));
        // from 8 to 632: the first value ends at 4, the next one begins at 8
        assert_eq!(path, "M8.0 232.0H257.6M507.2 8.0H632.0V120.0H632.0");
        let at_end = StepLine { name: "known".to_owned(), points: vec![(0, Some(1.0)), (10, None)] };
        assert_eq!(step_path(&at_end, (0.0, 10.0), (1.0, 3.0)), "M8.0 232.0H632.0");
        let chart = step_chart(&[line, at_end], "m", ["", ""], "").into_string();
        assert!(chart.contains("3 m") && chart.contains("</svg>known</li>"), "{chart}");
        assert!(chart.contains("color-0 dash-0") && chart.contains("color-1 dash-0"), "{chart}");
    }

    #[tokio::test]
    async fn line_breaks_of_a_textarea_are_read_as_lf() {
        let request = Request::post("/").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.body(Body::from("text=a%0D%0Ab%0Ac")).expect("a valid request");
        let fields = Fields::from_request(request, &()).await.expect("a valid form");
        assert_eq!(fields.text("text"), "a\nb\nc");
    }
}
