//! A connection that reports whether its client is still connected while its request is served.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// A connection with several handles.
#[derive(Debug, Clone)]
pub(super) struct SharedStream(Arc<UnixStream>);

impl SharedStream {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self(Arc::new(stream))
    }

    /// Whether the client has its end open. A client that only shut down its sending half counts as connected.
    pub(super) fn has_client(&self) -> bool {
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        let is_known = poll(&mut polled, PollTimeout::ZERO).is_ok();
        let hangup = PollFlags::POLLHUP | PollFlags::POLLERR;
        !(is_known && polled.iter().filter_map(PollFd::revents).any(|revents| revents.intersects(hangup)))
    }

    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match write(&self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(read) => {
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(self.0.as_raw_fd(), Shutdown::Write).map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn client_that_only_finished_sending_counts_as_connected() {
        let (stream, mut client) = UnixStream::pair().expect("a pair");
        let mut shared = SharedStream::new(stream);
        assert!(shared.has_client());
        client.write_all(b"request").await.expect("the request is sent");
        client.shutdown().await.expect("the client closes its sending side");
        let mut request = Vec::new();
        shared.read_to_end(&mut request).await.expect("the request is received");
        assert_eq!(request, b"request");
        assert!(shared.has_client());
        shared.write_all(b"answer").await.expect("the answer is sent");
        shared.shutdown().await.expect("the daemon closes its sending side");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("the answer is received");
        assert_eq!(answer, b"answer");
    }

    #[tokio::test]
    async fn client_that_closed_counts_as_disconnected() {
        let (stream, client) = UnixStream::pair().expect("a pair");
        let shared = SharedStream::new(stream);
        drop(client);
        assert!(!shared.has_client());
    }
}
