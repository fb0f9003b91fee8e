//! The frame of each page.

use super::assets::{SCRIPT_PATH, STYLE_PATH};
use axum::response::{Html, IntoResponse, Response};
use hyper::StatusCode;
use maud::{DOCTYPE, Markup, html};

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
