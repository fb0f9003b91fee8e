//! Server-sent events: parts of a page, rendered again while the page is open.

use super::Console;
use super::access::LoginEnd;
use super::layout::{PageError, PageResult};
use crate::base::error::CtlError;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use maud::Markup;
use oracled_api::streamed_body::{StreamedBody, StreamedBodySender};
use std::time::Duration;
use tokio::time::sleep;

/// Time between two renderings.
const INTERVAL: Duration = Duration::from_secs(2);
/// Number of renderings without a change after which a comment keeps the connection open.
const SILENT_MAX: u32 = 5;

/// Sends what `render` returns, whenever it has changed, until the login ends. An error is sent in its place.
pub(crate) fn stream<F>(
    console: &Console,
    mut login: LoginEnd,
    render: impl FnMut() -> F + Send + 'static,
) -> PageResult
where
    F: Future<Output = Result<Markup, PageError>> + Send,
{
    let permit = console.streams.clone().try_acquire_owned().map_err(|_| CtlError::Verb {
        message: "too many pages receive updates; close some".to_owned(),
        exit_code: 4,
        was_printed: false,
    })?;
    let (mut sender, body) = StreamedBody::new(1);
    tokio::spawn(async move {
        let _permit = permit;
        let has_login_ended = tokio::select! {
            () = send_renderings(&mut sender, render) => false,
            () = login.wait() => true,
        };
        if has_login_ended {
            sender.finish();
        }
    });
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::new(body)).into_response())
}

/// Sends events until the page is closed.
async fn send_renderings<F>(sender: &mut StreamedBodySender, mut render: impl FnMut() -> F)
where
    F: Future<Output = Result<Markup, PageError>>,
{
    let (mut last, mut silent) = (String::new(), 0);
    loop {
        let rendered = render().await.unwrap_or_else(|error| error.render()).into_string();
        silent += 1;
        let mut event = Bytes::new();
        if rendered != last {
            event = format_event(&rendered).into();
            (last, silent) = (rendered, 0);
        } else if silent > SILENT_MAX {
            event = Bytes::from_static(b":\n\n");
            silent = 0;
        }
        if !event.is_empty() && sender.send(event).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(INTERVAL) => {}
            () = sender.wait_until_dropped() => return,
        }
    }
}

/// An event with `text` as its data.
fn format_event(text: &str) -> String {
    let lines = text.split(['\n', '\r']).map(|line| format!("data: {line}\n"));
    lines.chain(["\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::format_event;

    #[test]
    fn event_has_one_data_line_for_each_line_of_its_text() {
        assert_eq!(format_event("a\nevent: x\rb"), "data: a\ndata: event: x\ndata: b\n\n");
    }
}
