//! The login, and the checks before each page.

use super::ConsoleState;
use super::layout::{entry_page, text_page};
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain_base::visible::visible_text;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use serde::Deserialize;
use std::borrow::Cow;

/// The headers of each answer. No page may load anything from elsewhere, be shown in a frame, or be read by another origin.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
    ),
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // a stricter policy would also remove `Origin` from the console's own forms
    (REFERRER_POLICY, "same-origin"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

#[derive(Debug, Deserialize)]
pub(super) struct LoginParams {
    #[serde(default)]
    secret: String,
}

/// Refuses requests of other pages, and adds the headers to each answer.
pub(super) async fn guard(State(console): State<ConsoleState>, request: Request, next: Next) -> Response {
    let fault = console.access.find_fault(request.method(), request.uri().path(), request.headers());
    let mut response = match fault {
        Some(fault) => {
            text_page("Refused", &format!("The request was refused: {fault}."), StatusCode::FORBIDDEN)
        }
        None => next.run(request).await,
    };
    response = show_foreign_text(response);
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The same answer with escapes for characters that hide or reorder text, in pages and in events. A page has foreign text in
/// many places; the templates themselves have no such character.
fn show_foreign_text(response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if ![&b"text/html"[..], b"text/plain", b"text/event-stream"].iter().any(|shown| kind.starts_with(shown)) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    // each frame is a whole page or a whole event
    let body = body.map_frame(|frame| {
        frame.map_data(|data| match visible_text(&String::from_utf8_lossy(&data)) {
            Cow::Borrowed(_) => data.clone(),
            Cow::Owned(shown) => Bytes::from(shown),
        })
    });
    Response::from_parts(head, Body::new(body))
}

/// Refuses requests without a login. A handler may extract its [`LoginEnd`](super::access::LoginEnd).
pub(super) async fn require_login(
    State(console): State<ConsoleState>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(login) = console.access.find_login(request.headers()) {
        request.extensions_mut().insert(login);
        return next.run(request).await;
    }
    let text = "This browser is not logged in. Open the link that oraclectl console printed. A link can be used once: press Enter in \
                the terminal for a new one.";
    text_page("Not logged in", text, StatusCode::UNAUTHORIZED)
}

pub(super) async fn log_in(
    State(console): State<ConsoleState>,
    Query(LoginParams { secret }): Query<LoginParams>,
) -> Response {
    let Some(cookie) = console.access.use_link(&secret) else {
        let text = "This login link was used already, or a newer one exists. Press Enter in the terminal of oraclectl console for a new \
                    one.";
        return text_page("Not logged in", text, StatusCode::UNAUTHORIZED);
    };
    let cookie = format!("{}={cookie}; HttpOnly; SameSite=Strict; Path=/", console.access.cookie_name());
    ([(SET_COOKIE, cookie)], entry_page()).into_response()
}

pub(super) async fn log_out(State(console): State<ConsoleState>) -> Response {
    console.access.log_out();
    let text = "You are logged out. Press Enter in the terminal of oraclectl console for a new login link.";
    text_page("Logged out", text, StatusCode::OK)
}
