//! Large answers, held in memory within a bound of all of them together until they are sent.

use crate::platform::problem::Problem;
use crate::platform::service::Service;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;

/// So many times as long as a request its answer can be.
const TIMES_REQUEST: usize = 1000;
/// The longest answer, about, in bytes: a thousand steps and violations of every rule.
const ANSWER_MAX_BYTES: usize = 32 * 1024 * 1024;
/// It is handed on in pieces of so many bytes, so that what is held and what is not yet sent are about the same.
const PIECE_BYTES: usize = 64 * 1024;

/// How long room is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until there is room for what the rules answer to a request of so many bytes, however long that gets.
///
/// # Errors
/// `Overloaded` where others leave theirs unread for too long.
pub(crate) async fn room_for(
    request_bytes: usize,
    service: &Service,
) -> Result<OwnedSemaphorePermit, Problem> {
    room_of(request_bytes.saturating_mul(TIMES_REQUEST).min(ANSWER_MAX_BYTES), service).await
}

/// Waits until there is room for an answer of so many bytes.
///
/// # Errors
/// `Overloaded` where others leave theirs unread for too long.
pub(crate) async fn room_of(bytes: usize, service: &Service) -> Result<OwnedSemaphorePermit, Problem> {
    let room = timeout(PATIENCE, service.hold_answer(bytes)).await;
    room.map_err(|_| Problem::overloaded("too many answers wait to be read"))
}

/// An answer with its part of the memory for all of them.
#[derive(Debug)]
pub(crate) struct Held {
    rest: Bytes,
    /// Given back when the last piece has been taken.
    _room: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// Holds `answer` in as much of `room` as it needs; a small one needs none.
    pub(crate) fn new(answer: Vec<u8>, mut room: Option<OwnedSemaphorePermit>) -> Self {
        if let Some(room) = &mut room {
            drop(room.split(room.num_permits().saturating_sub(answer.len())));
        }
        Self { rest: answer.into(), _room: room }
    }

    /// The next piece of it; nothing behind the last.
    fn piece(&mut self) -> Option<Bytes> {
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        (!piece.is_empty()).then_some(piece)
    }
}

/// Answers as they come, one behind the other.
#[derive(Debug)]
pub(crate) struct Answers {
    coming: mpsc::Receiver<Held>,
    /// The one that is being sent.
    current: Option<Held>,
}

impl Answers {
    /// Those that are sent through the channel, of which no more than one waits.
    pub(crate) fn channel() -> (mpsc::Sender<Held>, Self) {
        let (sender, coming) = mpsc::channel(1);
        (sender, Self { coming, current: None })
    }
}

impl From<Answers> for Body {
    fn from(answers: Answers) -> Self {
        Self::new(answers)
    }
}

impl hyper::body::Body for Answers {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(piece) = self.current.as_mut().and_then(Held::piece) {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            self.current = ready!(self.coming.poll_recv(cx));
            if self.current.is_none() {
                return Poll::Ready(None);
            }
        }
    }
}

impl From<Held> for Body {
    fn from(held: Held) -> Self {
        Self::new(held)
    }
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.piece().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// An answer that is a JSON document already.
pub(crate) fn document(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = (status, body.into()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
