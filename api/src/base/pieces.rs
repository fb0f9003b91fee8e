//! A body that is sent piece by piece while it is still being made.
//!
//! It ends where its sender says so. One whose sender goes without a word ends with an error, and breaks its connection: half
//! a payload must not look like a whole one. Whether it has ended is looked at only behind the last piece, so that none is lost
//! whenever the sender goes.

use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// The body.
#[derive(Debug)]
pub struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    is_whole: Arc<AtomicBool>,
}

/// Who sends it. Dropped without [`Sender::finish`], it breaks the body off.
#[derive(Debug)]
pub struct Sender {
    pieces: mpsc::Sender<Bytes>,
    is_whole: Arc<AtomicBool>,
}

/// Nobody reads the body any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads any more")]
pub struct Unread;

impl Pieces {
    /// A body and who sends it. So many pieces may wait to be read, at least one; then the sender waits.
    #[must_use]
    pub fn new(pieces_waiting: usize) -> (Sender, Self) {
        let (sender, pieces) = mpsc::channel(pieces_waiting);
        let is_whole = Arc::new(AtomicBool::new(false));
        (Sender { pieces: sender, is_whole: Arc::clone(&is_whole) }, Self { pieces, is_whole })
    }
}

impl Sender {
    /// Sends a piece once there is room for it.
    ///
    /// # Errors
    /// `Unread` where the body was dropped.
    pub async fn send(&mut self, piece: Bytes) -> Result<(), Unread> {
        self.pieces.send(piece).await.map_err(|_| Unread)
    }

    /// Says that all of the body was sent.
    pub fn finish(self) {
        // seen by whoever sees the channel closed, which dropping the sender does
        self.is_whole.store(true, Ordering::Release);
    }

    /// Waits until nobody reads the body any more.
    pub async fn unread(&self) {
        self.pieces.closed().await;
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match ready!(self.pieces.poll_recv(context)) {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if self.is_whole.load(Ordering::Acquire) => None,
            None => Some(Err(io::Error::new(ErrorKind::UnexpectedEof, "it was broken off by its sender"))),
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

    /// So often does a sender go while its body is looked at: now and then amid a look.
    const ROUNDS: u64 = 20_000;

    /// Looks at the body until it has something.
    fn next(body: &mut Pieces) -> Option<io::Result<Bytes>> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(&mut context) {
                return frame.map(|frame| frame.map(|frame| frame.into_data().expect("a piece")));
            }
        }
    }

    #[test]
    fn no_piece_is_lost_whenever_the_sender_goes() {
        let (senders, given) = threads::sync_channel::<(Sender, bool)>(0);
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
            let (sender, mut body) = Pieces::new(1);
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
    async fn a_sender_waits_for_room_and_is_told_when_nobody_reads() {
        let (mut sender, mut body) = Pieces::new(1);
        sender.send("one".into()).await.unwrap();
        {
            let mut second = pin!(sender.send("two".into()));
            let mut context = Context::from_waker(Waker::noop());
            assert!(second.as_mut().poll(&mut context).is_pending());
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
            second.await.unwrap();
        }
        drop(body);
        sender.unread().await;
        assert_eq!(sender.send("three".into()).await, Err(Unread));
    }
}
