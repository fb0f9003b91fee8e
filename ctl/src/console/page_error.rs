//! Pages that cannot be shown, and actions that failed.

use super::frame::text_page;
use crate::base::error::CtlError;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
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
        let is_unknown = self.status().is_server_error();
        let advice = if is_unknown {
            "If this was an action, look whether it was done before you repeat it."
        } else {
            "Nothing was changed."
        };
        text_page("The request failed", &format!("{}. {advice}", self.0), self.status())
    }
}

pub(super) async fn not_found() -> Response {
    text_page("Not found", "The console has no such page.", StatusCode::NOT_FOUND)
}
