//! The body of a request. The front reads and discards what the handler leaves unread, because many clients read no answer
//! before they have sent the whole body: to them, an answer and a closed connection are a broken pipe.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::EXPECT;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Maximum number of bytes of one body that are discarded. A longer body ends the connection.
pub(super) const DISCARDED_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Maximum time for this.
const DISCARD_TIME: Duration = Duration::from_secs(10);
/// A client that sends nothing for this long is waiting for its answer.
const DISCARD_PAUSE: Duration = Duration::from_secs(1);

/// A body that is returned when its reader drops it.
struct LentBody {
    /// `None` once it is returned.
    body: Option<Incoming>,
    was_read: bool,
    returned: Option<oneshot::Sender<UnreadBody>>,
}

/// A body of which something may be unread.
struct UnreadBody {
    body: Incoming,
    was_read: bool,
}

/// The front's end of a body that is lent to a handler.
pub(super) struct ReturnedBody {
    returned: oneshot::Receiver<UnreadBody>,
    /// Whether the client sends its body only when it is asked to.
    is_on_request: bool,
}

/// Lends the body of `request` to its handler.
pub(super) fn lend_body(request: Request<Incoming>) -> (Request<Body>, ReturnedBody) {
    let is_on_request = request.headers().contains_key(EXPECT);
    let (sender, returned) = oneshot::channel();
    let lend = |body| Body::new(LentBody { body: Some(body), was_read: false, returned: Some(sender) });
    (request.map(lend), ReturnedBody { returned, is_on_request })
}

impl ReturnedBody {
    /// Reads and discards the rest of the body. Returns whether the connection can be used for another request: false if
    /// the client has more to send.
    pub(super) async fn discard(mut self) -> bool {
        // a handler that answers while it reads still has the body
        let Ok(UnreadBody { mut body, was_read }) = self.returned.try_recv() else { return true };
        if body.is_end_stream() {
            return true;
        }
        if self.is_on_request && !was_read {
            // reading would make the server ask for the body
            return false;
        }
        timeout(DISCARD_TIME, discard(&mut body)).await.unwrap_or(false)
    }
}

/// Discards `body` up to its end, a pause, or the limit. Returns whether the end was reached.
async fn discard(body: &mut Incoming) -> bool {
    let mut bytes = 0;
    while let Ok(frame) = timeout(DISCARD_PAUSE, body.frame()).await {
        match frame {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, Bytes::len),
        }
        if bytes > DISCARDED_MAX_BYTES {
            return false;
        }
    }
    false
}

impl HttpBody for LentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.was_read = true;
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        if let Some((body, returned)) = self.body.take().zip(self.returned.take()) {
            // the front may have sent the answer already, while the handler read on
            drop(returned.send(UnreadBody { body, was_read: self.was_read }));
        }
    }
}
