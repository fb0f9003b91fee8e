//! A body that is sent in pieces while it is being produced.
//!
//! The body ends when the sender calls [`StreamedBodySender::finish`]. If the sender is dropped first, the
//! body ends with an error and the connection breaks: a partial payload must not look complete. The flag of
//! `finish` is read only after the channel is empty, so that no piece is lost.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// The receiving end: the body of a request.
#[derive(Debug)]
pub struct StreamedBody {
    pieces: mpsc::Receiver<Bytes>,
    is_whole: Arc<AtomicBool>,
}

/// The sending end. If it is dropped without [`StreamedBodySender::finish`], the body ends with an error.
#[derive(Debug)]
pub struct StreamedBodySender {
    pieces: mpsc::Sender<Bytes>,
    is_whole: Arc<AtomicBool>,
}

/// The body was dropped: its pieces are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body was dropped before it was sent completely")]
pub struct BodyDroppedError;

impl StreamedBody {
    /// Creates a body and its sender. The channel holds up to `pieces_waiting` pieces, at least one; then the sender
    /// waits.
    #[must_use]
    pub fn new(pieces_waiting: usize) -> (StreamedBodySender, Self) {
        let (sender, pieces) = mpsc::channel(pieces_waiting);
        let is_whole = Arc::new(AtomicBool::new(false));
        (StreamedBodySender { pieces: sender, is_whole: Arc::clone(&is_whole) }, Self { pieces, is_whole })
    }
}

impl StreamedBodySender {
    /// Sends a piece, after waiting for space in the channel.
    ///
    /// # Errors
    /// `BodyDroppedError` if the body was dropped.
    pub async fn send(&mut self, piece: Bytes) -> Result<(), BodyDroppedError> {
        self.pieces.send(piece).await.map_err(|_| BodyDroppedError)
    }

    /// Marks the body as complete and ends it.
    pub fn finish(self) {
        // `Release`, so that the receiver sees the flag when it sees the channel closed by the drop of this sender
        self.is_whole.store(true, Ordering::Release);
    }

    /// Waits until the body is dropped.
    pub async fn wait_until_dropped(&self) {
        self.pieces.closed().await;
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match ready!(self.pieces.poll_recv(context)) {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if self.is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "the sender ended before the body was complete",
            ))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::pin::pin;
    use std::sync::mpsc as threads;
    use std::task::Waker;
    use std::thread;

    /// Rounds in which a sender is dropped while its body is polled. Some of the drops occur within a poll.
    const ROUNDS: u64 = 20_000;

    /// Polls the body until it has a piece or ends.
    fn next(body: &mut StreamedBody) -> Option<io::Result<Bytes>> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(&mut context) {
                return frame.map(|frame| frame.map(|frame| frame.into_data().expect("a piece")));
            }
        }
    }

    #[test]
    fn body_keeps_all_pieces_when_the_sender_is_dropped() {
        let (senders, given) = threads::sync_channel::<(StreamedBodySender, bool)>(0);
        let sending = thread::spawn(move || {
            for (mut sender, finishes) in given {
                let sent = pin!(sender.send(Bytes::from_static(b"last")))
                    .poll(&mut Context::from_waker(Waker::noop()));
                assert_eq!(sent, Poll::Ready(Ok(())));
                if finishes {
                    sender.finish();
                }
            }
        });
        for round in 0..ROUNDS {
            let finishes = round % 2 == 0;
            let (sender, mut body) = StreamedBody::new(1);
            senders.send((sender, finishes)).unwrap();
            assert_eq!(next(&mut body).expect("a piece").unwrap(), "last");
            for _ in 0..2 {
                let kind = next(&mut body).map(|end| end.unwrap_err().kind());
                assert_eq!(kind, (!finishes).then_some(ErrorKind::UnexpectedEof), "round {round}");
            }
        }
        drop(senders);
        sending.join().unwrap();
    }

    #[tokio::test]
    async fn sender_waits_for_space_and_fails_after_the_body_is_dropped() {
        let (mut sender, mut body) = StreamedBody::new(1);
        sender.send("one".into()).await.unwrap();
        {
            let mut second = pin!(sender.send("two".into()));
            let mut context = Context::from_waker(Waker::noop());
            assert!(second.as_mut().poll(&mut context).is_pending());
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
            second.await.unwrap();
        }
        drop(body);
        sender.wait_until_dropped().await;
        assert_eq!(sender.send("three".into()).await, Err(BodyDroppedError));
    }
}
