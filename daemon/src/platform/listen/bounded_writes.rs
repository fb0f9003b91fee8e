//! A connection whose client must keep reading.

use actors_platform::clock::stopwatch;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Time that a client may leave its answer unread while memory for answers is short.
const UNREAD_WHEN_SHORT: Duration = Duration::from_secs(2);
/// Bytes that a client must read to regain one second. So a client that reads a few bytes at a time also runs
/// out of time.
const BYTES_PER_SECOND: f64 = 1024.0 * 1024.0;
/// Maximum time that a client that writes may read nothing, as a multiple of the bound.
const BOUNDS_WHILE_WRITING: u32 = 10;
/// Interval at which a stalled answer is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Returns whether requests wait for memory that unread answers hold.
pub type ShortageCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// A stream that fails if its client reads nothing for `bound`, and writes nothing either: some clients write a whole
/// batch before they read, within [`BOUNDS_WHILE_WRITING`] times `bound`. Without this limit, a client that never reads
/// its answer would hold a connection and the answer in memory without end.
pub(super) struct BoundedWrites<S> {
    stream: S,
    bound: Duration,
    is_short: ShortageCheck,
    /// Time that answers were unread, less the time regained for bytes that were read.
    unread: Duration,
    /// Set while the client reads nothing.
    stalled: Option<WriteStall>,
    /// When the client last wrote.
    wrote_at: Option<Instant>,
}

struct WriteStall {
    began: Instant,
    check: Pin<Box<Sleep>>,
}

impl<S> BoundedWrites<S> {
    pub(super) const fn new(stream: S, bound: Duration, is_short: ShortageCheck) -> Self {
        Self { stream, bound, is_short, unread: Duration::ZERO, stalled: None, wrote_at: None }
    }

    fn check_stall(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            if let Some(stall) = self.stalled.take() {
                self.unread += stall.began.elapsed();
            }
            #[expect(clippy::cast_precision_loss, reason = "one write has fewer than 2^52 bytes")]
            let read = written.as_ref().map_or(0.0, |bytes| *bytes as f64);
            self.unread = self.unread.saturating_sub(Duration::from_secs_f64(read / BYTES_PER_SECOND));
            return Poll::Ready(written);
        }
        // stalls add up: a client that reads a few bytes before each check is as slow as one that reads nothing
        if self.stalled.is_none() && self.unread >= UNREAD_WHEN_SHORT && (self.is_short)() {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        let stall = self.stalled.get_or_insert_with(|| WriteStall {
            began: stopwatch(),
            check: Box::pin(sleep(CHECK_INTERVAL.min(self.bound))),
        });
        while stall.check.as_mut().poll(cx).is_ready() {
            let is_too_slow = stall.began.elapsed() + self.unread >= UNREAD_WHEN_SHORT && (self.is_short)();
            let silent = stall.began.max(self.wrote_at.unwrap_or(stall.began)).elapsed();
            let is_over = stall.began.elapsed() >= self.bound.saturating_mul(BOUNDS_WHILE_WRITING);
            if is_too_slow || is_over || silent >= self.bound {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
            let next = CHECK_INTERVAL.min(self.bound.saturating_sub(silent));
            stall.check.as_mut().reset(stopwatch() + next);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > filled {
            self.wrote_at = Some(stopwatch());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.check_stall(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.check_stall(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

    const BOUND: Duration = Duration::from_secs(60);

    /// The time to write `bytes` to a client that reads `step` bytes each `pause`, and whether all were written.
    async fn time_writes(bytes: usize, step: usize, pause: Duration, short: bool) -> (Duration, bool) {
        let (stream, mut client) = duplex(1024);
        let short = AtomicBool::new(short);
        let mut writes = BoundedWrites::new(stream, BOUND, Arc::new(move || short.load(Ordering::Relaxed)));
        let began = stopwatch();
        let reader = tokio::spawn(async move {
            let mut read = vec![0; step];
            loop {
                sleep(pause).await;
                if client.read(&mut read).await.is_ok_and(|read| read == 0) {
                    return;
                }
            }
        });
        let all = writes.write_all(&vec![0; bytes]).await.is_ok();
        let took = began.elapsed();
        drop(writes);
        reader.abort();
        (took, all)
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answer_is_cut_after_seconds_only_while_memory_is_short() {
        let forever = Duration::from_secs(3600);
        let (took, all) = time_writes(10_000, 1, forever, true).await;
        assert!(!all && took < Duration::from_secs(3), "{took:?}");
        let (took, all) = time_writes(10_000, 1, forever, false).await;
        assert!(!all && took >= BOUND, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn answer_read_little_by_little_is_cut_only_while_memory_is_short() {
        let (took, all) = time_writes(100_000, 100, Duration::from_millis(100), true).await;
        assert!(!all && took < Duration::from_secs(4), "{took:?}");
        let (_, all) = time_writes(100_000, 100, Duration::from_millis(100), false).await;
        assert!(all, "it is slow, and no request waits for memory");
        let (_, all) = time_writes(10_000_000, 1024, Duration::from_micros(500), true).await;
        assert!(all, "it is fast enough");
    }

    #[tokio::test(start_paused = true)]
    async fn unread_answer_of_a_client_that_writes_is_cut_after_10_times_the_bound() {
        let (stream, mut client) = duplex(1024);
        let (mut requests, mut answers) = split(BoundedWrites::new(stream, BOUND, Arc::new(|| false)));
        let writer = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                sleep(BOUND / 2).await;
            }
        });
        let reader = tokio::spawn(async move { while requests.read_u8().await.is_ok() {} });
        let began = stopwatch();
        assert!(answers.write_all(&[0; 10_000]).await.is_err());
        let took = began.elapsed();
        assert!(took >= BOUND * 10 && took < BOUND * 11, "{took:?}");
        writer.abort();
        reader.abort();
    }
}
