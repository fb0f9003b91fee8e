//! Bodies of requests and of answers, within the limits of memory and time.

use crate::platform::problem::Problem;
use crate::platform::service::DaemonService;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, EXPECT, HeaderValue};
use hyper::{Request, StatusCode};
use oracled_api::streamed_body::{StreamedBody, StreamedBodySender};
use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

/// Maximum ratio of the length of an answer by the rules to the length of its request.
const TIMES_REQUEST: usize = 1000;
/// Approximate maximum length of such an answer, in bytes: a thousand steps and violations of every rule.
const ANSWER_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Size of the pieces in which an answer is sent, in bytes. Sent pieces are freed, so the held memory is about what is
/// unsent.
const PIECE_BYTES: usize = 64 * 1024;

/// Maximum wait for free memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until there is memory for the answer by the rules to a request of `request_bytes`, for the maximum
/// length of the answer.
///
/// # Errors
/// `Overloaded` if other clients leave their answers unread for too long.
pub(crate) async fn reserve_rules_response(
    request_bytes: usize,
    service: &DaemonService,
) -> Result<OwnedSemaphorePermit, Problem> {
    reserve_bytes(request_bytes.saturating_mul(TIMES_REQUEST).min(ANSWER_MAX_BYTES), service).await
}

/// Waits until there is memory for an answer of `bytes`.
///
/// # Errors
/// `Overloaded` if other clients leave their answers unread for too long.
async fn reserve_bytes(bytes: usize, service: &DaemonService) -> Result<OwnedSemaphorePermit, Problem> {
    let room = timeout(PATIENCE, service.reserve_response(bytes)).await;
    room.map_err(|_| Problem::overloaded("too many answers wait to be read"))
}

/// An answer with its part of the memory for all answers.
#[derive(Debug)]
pub(crate) struct ReservedBody {
    rest: Bytes,
    /// Released with the answer, when the last piece has been taken.
    held: Vec<OwnedSemaphorePermit>,
}

impl ReservedBody {
    /// Reduces `room` to the length of `answer`. A small answer needs no room.
    pub(crate) fn new(answer: Vec<u8>, mut room: Option<OwnedSemaphorePermit>) -> Self {
        if let Some(room) = &mut room {
            drop(room.split(room.num_permits().saturating_sub(answer.len())));
        }
        Self { rest: answer.into(), held: room.into_iter().collect() }
    }

    /// Holds `permit` until the last piece has been taken.
    pub(super) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.held.push(permit);
    }

    /// Whether the answer has a part of the memory for all answers.
    pub(super) const fn has_memory(&self) -> bool {
        !self.held.is_empty()
    }

    /// The length of the part that has not been taken, in bytes.
    pub(super) const fn unsent_bytes(&self) -> usize {
        self.rest.len()
    }

    /// The next piece; `None` after the last.
    fn next_piece(&mut self) -> Option<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        (!piece.is_empty()).then_some(piece)
    }
}

/// Several answers, sent in sequence as they arrive.
#[derive(Debug)]
pub(crate) struct ReservedBodyStream {
    coming: mpsc::UnboundedReceiver<ReservedBody>,
    /// The answer that is being sent.
    current: Option<ReservedBody>,
    /// Number of pieces that the client has taken.
    taken: Arc<AtomicU64>,
}

impl ReservedBodyStream {
    /// The answers that are sent through the channel. The sender must limit them by permits that each answer holds.
    pub(super) fn channel() -> (mpsc::UnboundedSender<ReservedBody>, Self) {
        let (sender, coming) = mpsc::unbounded_channel();
        (sender, Self { coming, current: None, taken: Arc::default() })
    }

    /// The number of pieces that the client has taken.
    pub(super) fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }
}

impl From<ReservedBodyStream> for Body {
    fn from(answers: ReservedBodyStream) -> Self {
        Self::new(answers)
    }
}

impl hyper::body::Body for ReservedBodyStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(ReservedBody::next_piece) {
                self.taken.fetch_add(1, Ordering::Relaxed);
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            // an answer that was taken holds no memory while the next one is awaited
            self.current = None;
            self.current = ready!(self.coming.poll_recv(cx));
            if self.current.is_none() {
                return Poll::Ready(None);
            }
        }
    }
}

impl From<ReservedBody> for Body {
    fn from(body: ReservedBody) -> Self {
        Self::new(body)
    }
}

impl hyper::body::Body for ReservedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next_piece().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// A response with a body that is already a JSON document.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = (status, body.into()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Maximum number of bytes of one body that are discarded. A longer body ends the connection.
pub(super) const DISCARDED_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Maximum time for this.
const DISCARD_TIME: Duration = Duration::from_secs(10);
/// A client that sends nothing for this long is waiting for its answer.
const DISCARD_PAUSE: Duration = Duration::from_secs(1);

/// A body that is returned when its reader drops it.
///
/// The front reads and discards what the handler leaves unread, because many clients read no answer before they have sent the
/// whole body: to them, an answer and a closed connection are a broken pipe.
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

/// Maximum number of pieces that wait for the reader.
const PIECES_WAITING: usize = 4;

/// The writer of a streamed body. A write fails once the client has disconnected.
#[derive(Debug)]
pub(crate) struct PieceWriter {
    sender: StreamedBodySender,
    piece: Vec<u8>,
    /// Number of lines sent.
    pub(crate) lines: u64,
    runtime: Handle,
}

impl PieceWriter {
    /// Creates a writer and its body. Call this on the runtime.
    pub(crate) fn new() -> (Self, StreamedBody) {
        let (sender, body) = StreamedBody::new(PIECES_WAITING);
        (Self { sender, piece: Vec::new(), lines: 0, runtime: Handle::current() }, body)
    }

    /// Ends the body. It is complete: call this after a flush.
    pub(crate) fn finish(self) {
        self.sender.finish();
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.piece);
        let lines = piece.iter().filter(|byte| **byte == b'\n').count();
        self.runtime.block_on(self.sender.send(piece.into())).map_err(io::Error::other)?;
        self.lines += lines as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn stream_releases_an_answer_that_was_taken_before_the_next_one_arrives() {
        let memory = Arc::new(Semaphore::new(6));
        let (sender, mut answers) = ReservedBodyStream::channel();
        let mut body = ReservedBody::new(b"answer".to_vec(), None);
        body.hold(Arc::clone(&memory).acquire_many_owned(6).await.expect("the semaphore is open"));
        sender.send(body).expect("the stream is open");
        let piece = answers.frame().await.expect("a piece").expect("a piece cannot fail");
        assert_eq!(piece.into_data().expect("a piece is data"), "answer");
        let next = timeout(Duration::from_millis(1), answers.frame()).await;
        assert!(next.is_err(), "no other answer was sent");
        assert_eq!(memory.available_permits(), 6);
    }
}
