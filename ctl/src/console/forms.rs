//! The fields of forms, and what follows an action: the next page, or the same page again with what was entered.

use super::layout::{KeptReason, PageError, PageResult};
use super::parts::{Tone, badge, kept_reason, message, sentence, with_code};
use crate::base::options::encode_segment;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use domain_base::caller::OPERATOR_REASON_MAX_BYTES;
use domain_base::digest::Sha256Hex;
use domain_base::wording::format_count;
use hyper::StatusCode;
use maud::{Markup, html};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The fields of a form, posted or in the query. Of a repeated field, the last one counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    #[cfg(test)]
    pub(crate) fn of<N: Into<String>>(fields: impl IntoIterator<Item = (N, String)>) -> Self {
        Self(fields.into_iter().map(|(name, text)| (name.into(), text)).collect())
    }

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

/// The fields of a form whose action is not done, and the cause. The page is shown again with both.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    fields: Fields,
    status: StatusCode,
    note: Option<Markup>,
    /// The value that a second press confirms.
    confirmed: Option<String>,
}

impl Draft {
    /// The action has failed. Nothing is kept while the daemon cannot answer.
    ///
    /// # Errors
    /// The error is one of the daemon, which the page cannot be read from.
    pub(crate) fn failed(error: PageError, fields: Fields) -> Result<Self, PageError> {
        if error.status().is_server_error() {
            return Err(error);
        }
        let note = nothing_changed(&with_code(&sentence(&error.0.to_string())));
        Ok(Self { fields, status: error.status(), note: Some(note), confirmed: None })
    }

    /// The same with another cause, which says more than the error.
    pub(crate) fn because(mut self, cause: Option<Markup>) -> Self {
        if let Some(cause) = cause {
            self.note = Some(nothing_changed(&cause));
        }
        self
    }

    /// A second press is required: it sends `confirmed` in the field of that name.
    pub(crate) fn to_confirm(question: &Markup, confirmed: &str, fields: Fields) -> Self {
        let note = message(Tone::Waiting, question);
        Self { fields, status: StatusCode::OK, note: Some(note), confirmed: Some(confirmed.to_owned()) }
    }

    /// The text that was entered in a field.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.fields.text(name)
    }

    pub(crate) fn note(&self) -> Markup {
        html! { @if let Some(note) = &self.note { div role="alert" data-after-action { (note) } } }
    }

    /// Whether a second press is required.
    pub(crate) const fn is_to_confirm(&self) -> bool {
        self.confirmed.is_some()
    }

    /// The hidden field of the second press.
    pub(crate) fn confirmation(&self) -> Markup {
        html! { @if let Some(value) = &self.confirmed { input type="hidden" name="confirmed" value=(value); } }
    }

    /// The entered reason, on a page that has no form for it any longer.
    pub(crate) fn kept_reason(&self) -> Markup {
        kept_reason(self.text("reason"))
    }

    /// The page with the status of the error.
    pub(crate) fn with_status(&self, page: PageResult) -> PageResult {
        page.map(|mut page| {
            if self.note.is_some() && page.status() == StatusCode::OK {
                *page.status_mut() = self.status;
            }
            page
        })
    }
}

fn nothing_changed(cause: &Markup) -> Markup {
    message(Tone::Waiting, &html! { strong { "Nothing was changed. " } (cause) })
}

/// The most bytes of a form, as for those of axum.
const FORM_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Adds the entered reason to a failed answer, whose page shows it.
pub(crate) async fn keep_reason(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let form = match to_bytes(body, FORM_MAX_BYTES).await {
        Ok(form) => form,
        Err(error) => return (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()).into_response(),
    };
    let copy = Request::from_parts(parts.clone(), Body::from(form.clone()));
    let mut response = next.run(Request::from_parts(parts, Body::from(form))).await;
    if response.status().is_client_error() || response.status().is_server_error() {
        let fields = Fields::from_request(copy, &()).await.unwrap_or_default();
        response.extensions_mut().insert(KeptReason(fields.text("reason").into()));
    }
    response
}

/// The field of the reason of a decision. One form has one reason for all of its actions. `item` names what is decided, with its
/// state: the browser keeps a written reason for it, and for nothing else.
pub(crate) fn reason_field(hint: &str, most_bytes: usize, draft: &Draft, item: &str) -> Markup {
    html! {
        // Enter in another field would press the first button
        button type="submit" hidden disabled {}
        div.f {
            label for="reason" { span data-key="w" data-focus="reason" data-name="write the reason" { "Reason" } }
            textarea #reason name="reason" required maxlength=(most_bytes) data-max-bytes=(most_bytes) data-draft=(item) placeholder=(hint) aria-describedby="reason-hint say" { (draft.text("reason")) }
            span.hint #reason-hint { "Up to " (most_bytes) " bytes. The log has it with your name." }
            span.hint.say #say role="status" {}
        }
    }
}

/// The text that a second press about several items repeats: a digest of the action, and of the items with their values on the page.
pub(crate) fn digest_items<I: Serialize + Ord>(action: &str, items: impl IntoIterator<Item = I>) -> String {
    let items: BTreeSet<I> = items.into_iter().collect();
    Sha256Hex::of_json(&(action, items)).to_string()
}

/// The box that checks an item of a decision about several. A form that was sent keeps its choice, except of an item that has
/// changed: the person has not read its new `value`.
pub(crate) fn item_box(fields: &Fields, (name, value): (&str, &str), label: &str) -> Markup {
    let sent = fields.filled(name);
    let is_first = fields.filled("action").is_none();
    html! {
        input type="checkbox" form="decide" name=(name) value=(value) checked[is_first || sent == Some(value)] aria-label=(label);
        @if sent.is_some_and(|sent| sent != value) { " " (badge(Tone::Waiting, "changed")) }
    }
}

/// The note about checked items that the page does not show any longer as they were sent. `shown` has the value of each item on it.
pub(crate) fn changed_items(fields: &Fields, prefix: &str, shown: &BTreeMap<String, String>) -> Markup {
    let is_changed = |(id, value): &(&str, &str)| shown.get(*id).is_none_or(|shown| shown != value);
    let changed = fields.with_prefix(prefix).filter(is_changed).count();
    html! {
        @if changed > 0 {
            (message(Tone::Waiting, &html! {
                strong { (format_count(changed, "checked row has", "checked rows have")) " changed or gone since." }
                " A changed row is not checked any longer: read it before you check it again."
            }))
        }
    }
}

/// A box that checks all items. It needs the script, which shows it.
pub(crate) fn check_all() -> Markup {
    html! { label.check data-check-all hidden { input type="checkbox"; "Check all" } }
}

/// A button of a form with its key, which is pressed only while no field has the focus.
pub(crate) fn action_button(
    class: &str,
    text: &Markup,
    key: &str,
    (name, value): (&str, &str),
    path: &str,
) -> Markup {
    html! {
        button.btn.(class) type="submit" name=(name) value=(value) formaction=(path) data-key=(key) aria-keyshortcuts=(key) {
            span { (text) }
            kbd aria-hidden="true" { (key) }
        }
    }
}

/// A form for an action with a reason. `action` is the path of the post, `name` the text of the button.
pub(crate) fn reason_form(action: &str, name: &str, fields: &Markup) -> Markup {
    html! {
        form.action method="post" action=(action) {
            (fields)
            label.f { "Reason" input type="text" name="reason" required maxlength=(OPERATOR_REASON_MAX_BYTES) autocomplete="off"; }
            button.btn type="submit" { (name) }
        }
    }
}

/// Whether a path is one of the console, and not an address elsewhere.
pub(crate) fn is_own_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Sends the browser on after an action on the page at `path`: to the field `next` of the form, or to the page itself.
/// `done::note` is its note there.
pub(crate) fn after_action(path: &str, done: &str, fields: &Fields) -> Response {
    let done = encode_segment(done);
    let target = match fields.filled("next").filter(|next| is_own_path(next)) {
        Some(next) => {
            let separator = if next.contains('?') { '&' } else { '?' };
            format!("{next}{separator}done={done}&of={}", encode_segment(path))
        }
        None => format!("{path}?done={done}"),
    };
    Redirect::to(&target).into_response()
}

/// Sends the browser back to the page at `path` after an action, with a note that names the item of the page.
pub(crate) fn same_page(path: &str, done: &str) -> Response {
    Redirect::to(&format!("{path}?done={}&of={}", encode_segment(done), encode_segment(path))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use hyper::header::{CONTENT_TYPE, LOCATION};

    #[test]
    fn action_continues_only_on_a_page_of_the_console() {
        let target = |next: &str| {
            let fields = Fields([("next".to_owned(), next.to_owned())].into());
            let answer = after_action("/runs/a", "approved", &fields);
            answer.headers()[LOCATION].to_str().expect("text").to_owned()
        };
        assert_eq!(target("/reviews/v-1"), "/reviews/v-1?done=approved&of=%2Fruns%2Fa");
        for other in ["", "//evil.example", "https://evil.example", "/\\evil.example", "runs"] {
            assert_eq!(target(other), "/runs/a?done=approved", "{other}");
        }
    }

    #[test]
    fn reason_has_its_item_and_its_notes_are_outside_its_label() {
        let field = reason_field("Why?", 100, &Draft::default(), "/reviews/v-1 0").into_string();
        assert!(field.contains("data-draft=\"/reviews/v-1 0\""), "{field}");
        assert!(field.contains("aria-describedby=\"reason-hint say\""), "{field}");
        let (label, rest) = field.split_once("</label>").expect("a label");
        assert!(label.contains("for=\"reason\"") && !label.contains("id=\"say\""), "{field}");
        assert!(rest.contains("id=\"say\"") && rest.contains("id=\"reason-hint\""), "{field}");
    }

    #[test]
    fn second_press_repeats_the_action_and_the_items_in_any_order() {
        let digest = digest_items("release", [("cs_1", "1"), ("cs_2", "1")]);
        assert_eq!(digest, digest_items("release", [("cs_2", "1"), ("cs_1", "1")]));
        for (action, items) in [
            ("fail", [("cs_1", "1"), ("cs_2", "1")]),
            ("release", [("cs_1", "1"), ("cs_3", "1")]),
            ("release", [("cs_1", "1"), ("cs_2", "2")]),
        ] {
            assert_ne!(digest, digest_items(action, items), "{action} {items:?}");
        }
    }

    #[test]
    fn item_that_has_changed_is_marked_and_not_checked() {
        let sent = [("action", "fail"), ("at:a", "1"), ("at:b", "1"), ("at:gone", "1")];
        let fields = Fields::of(sent.map(|(name, text)| (name, text.to_owned())));
        let shown = |fields: &Fields, name: &str, value: &str| {
            let page = item_box(fields, (name, value), "x").into_string();
            (page.contains(" checked"), page.contains("</svg>changed</span>"))
        };
        assert_eq!(shown(&fields, "at:a", "1"), (true, false));
        assert_eq!(shown(&fields, "at:b", "2"), (false, true));
        assert_eq!(shown(&fields, "at:new", "1"), (false, false));
        assert_eq!(shown(&Fields::default(), "at:new", "1"), (true, false));
        let note = |shown: &[(&str, &str)]| {
            let shown = shown.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect();
            changed_items(&fields, "at:", &shown).into_string()
        };
        let two = note(&[("a", "1"), ("b", "2")]);
        assert!(two.contains("class=\"msg waiting\"") && two.contains("<strong>2 "), "{two}");
        assert_eq!(note(&[("a", "1"), ("b", "1"), ("gone", "1"), ("new", "1")]), "");
    }

    #[tokio::test]
    async fn line_breaks_of_a_textarea_are_read_as_lf() {
        let request = Request::post("/").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.body(Body::from("text=a%0D%0Ab%0Ac")).expect("a valid request");
        let fields = Fields::from_request(request, &()).await.expect("a valid form");
        assert_eq!(fields.text("text"), "a\nb\nc");
    }
}
