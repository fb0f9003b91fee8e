//! Pages that cannot be shown, and actions that failed.

use super::ConsoleState;
use super::layout::{document, navigation};
use crate::base::error::CtlError;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use maud::{Markup, html};

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
