//! A client that sends any bytes at any time, well formed or not.

use crate::PATIENCE;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use oracled_api::client::DaemonResponse;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// Fewest connections at once that can test a limit.
const FEWEST: usize = 1000;
/// Open files that are left to the tests that run in parallel with a test of many connections.
const LEFT_FILES: usize = 3000;

/// Number of connections for a test that needs `requested` of them: `requested`, or as many as the system's
/// limit of open files permits. A lower number is printed.
///
/// # Panics
/// Panics if that number is too low for a test, or if the limit cannot be raised to the system's maximum.
#[must_use]
pub fn connections(requested: usize) -> usize {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("the system reports it");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("the system permits it");
    let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(LEFT_FILES);
    assert!(room >= FEWEST, "{most} files may be open: at least {} are needed", FEWEST + LEFT_FILES);
    if room < requested {
        println!("{room} connections instead of {requested}: only {most} files may be open");
    }
    requested.min(room)
}

/// One connection to a socket of the daemon.
#[derive(Debug)]
pub struct WireConnection {
    stream: UnixStream,
    read: Vec<u8>,
}

impl WireConnection {
    /// Connects to the socket at `path`.
    ///
    /// # Panics
    /// Panics if the socket is not served.
    pub async fn connect(path: &Path) -> Self {
        loop {
            let stream = UnixStream::connect(path).await;
            // more connections wait to be accepted than the kernel queues
            if stream.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                sleep(Duration::from_millis(1)).await;
                continue;
            }
            return Self { stream: stream.expect("the socket is served"), read: Vec::new() };
        }
    }

    /// Sends `bytes`.
    ///
    /// # Errors
    /// Returns an error if the daemon has closed the connection.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Waits until the daemon has begun to answer, without reading.
    pub async fn wait_for_answer(&self) {
        let readable = timeout(PATIENCE, self.stream.readable()).await.expect("the daemon answers");
        readable.expect("the connection is there");
    }

    /// Reads the next answer. Returns `None` if the daemon closes the connection.
    pub async fn answer(&mut self) -> Option<DaemonResponse> {
        let (status, headers) = self.answer_head().await?;
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let body = Bytes::from(self.read_bytes(length.unwrap_or(0)).await?);
        Some(DaemonResponse { status, headers, body })
    }

    /// Reads status and headers of the next answer.
    pub(crate) async fn answer_head(&mut self) -> Option<(StatusCode, HeaderMap)> {
        let head = String::from_utf8(self.take_until(b"\r\n\r\n").await?);
        let head = head.expect("the daemon's headers are ASCII");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        Some((status.expect("the answer is HTTP"), lines.filter_map(header).collect()))
    }

    /// Reads up to and including `end`, and returns the bytes before it.
    pub(crate) async fn take_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let at = self.read_until(|read| read.windows(end.len()).position(|some| some == end)).await?;
        let mut taken: Vec<u8> = self.read.drain(..at + end.len()).collect();
        taken.truncate(at);
        Some(taken)
    }

    /// Reads `bytes` bytes. Returns `None` if the daemon closes the connection first.
    pub async fn read_bytes(&mut self, bytes: usize) -> Option<Vec<u8>> {
        self.read_until(|read| (read.len() >= bytes).then_some(bytes)).await?;
        Some(self.read.drain(..bytes).collect())
    }

    /// Sends `bytes` and reads the answer, even if the daemon answers and closes the connection before it has read
    /// all bytes.
    pub async fn exchange(&mut self, bytes: impl AsRef<[u8]>) -> Option<DaemonResponse> {
        drop(self.send(bytes).await);
        self.answer().await
    }

    /// Waits until the daemon closes the connection, and discards the data before that.
    pub async fn wait_for_hangup(&mut self) {
        while self.read_until(|_| None).await.is_some() {}
    }

    /// Reads until `found` returns a position in the data read. Returns `None` if the daemon closes the connection
    /// first.
    async fn read_until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        loop {
            if let Some(at) = found(&self.read) {
                return Some(at);
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.read)).await;
            // a daemon that closes a connection with unread bytes resets it
            if read.expect("the daemon answers or hangs up").unwrap_or(0) == 0 {
                return None;
            }
        }
    }
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(": ")?;
    Some((name.parse().ok()?, value.parse().ok()?))
}

/// Head of a request with `host` and these headers, and the blank line after it.
#[must_use]
pub fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nhost: oracled\r\n{headers}\r\n")
}

/// A complete POST of a JSON body, with these headers and those that it requires.
#[must_use]
pub fn post(path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len().to_string();
    let mut all = vec![("content-type", "application/json"), ("content-length", &length)];
    all.extend_from_slice(headers);
    [head("POST", path, &all).as_bytes(), body].concat()
}
