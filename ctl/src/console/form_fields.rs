//! Fields of forms.

use super::layout::PageError;
use crate::base::options::encode_segment;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, Request};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use std::collections::BTreeMap;

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

    #[tokio::test]
    async fn line_breaks_of_a_textarea_are_read_as_lf() {
        let request = Request::post("/").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.body(Body::from("text=a%0D%0Ab%0Ac")).expect("a valid request");
        let fields = Fields::from_request(request, &()).await.expect("a valid form");
        assert_eq!(fields.text("text"), "a\nb\nc");
    }
}
