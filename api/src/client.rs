//! A client of any socket, for `oraclectl`, `oracled dev` and tests.
//!
//! It uses hyper directly: reqwest does not report `100 Continue`, which an upload waits for, and needs a TLS
//! provider even for a Unix socket.

use super::streamed_body::StreamedBody;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::ext::on_informational;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST};
use hyper::http::request::Builder;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Time limit for the start of an answer. It is longer than the default time limit of a request.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Attempts to connect while too many others do: about 5 s.
const CONNECT_ATTEMPTS: u32 = 500;
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Longest body, or longest line of a body that is read line by line, in bytes.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The `Host` header. HTTP/1.1 requires one; over a Unix socket its value has no meaning.
const HOST_NAME: &str = "oracled";

/// The reason for a missing answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon accepts connections at the path.
    #[error("oracled does not answer at {path}: {reason}")]
    NotThere {
        /// The path of the socket.
        path: PathBuf,
        /// The cause, and the remedy.
        reason: String,
    },
    /// The daemon accepted the connection, and did not begin an answer within this time.
    #[error("oracled has not answered for {} s; is the process stopped, or the disk stuck?", .0.as_secs())]
    Silent(Duration),
    /// The connection broke before the answer was complete.
    #[error("the connection to oracled broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The answer is too long, or has an unexpected form.
    #[error("oracled's answer cannot be read: {0}")]
    Unreadable(String),
}

/// The body of a request: complete, or sent in pieces.
type RequestBody = Either<Full<Bytes>, StreamedBody>;

/// One connection to a socket of the daemon.
#[derive(Debug)]
pub struct DaemonClient {
    sender: SendRequest<RequestBody>,
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct DaemonResponse {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
}

impl DaemonClient {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// `NotThere` if the socket does not accept the connection.
    pub async fn connect(path: &Path) -> Result<Self, ClientError> {
        let is_busy = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
        let mut connected = UnixStream::connect(path).await;
        let mut attempts = 1;
        // the kernel's queue of new connections is full
        while connected.as_ref().is_err_and(is_busy) && attempts < CONNECT_ATTEMPTS {
            sleep(CONNECT_PAUSE).await;
            connected = UnixStream::connect(path).await;
            attempts += 1;
        }
        let stream = connected.map_err(|error| connect_error(path, &error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Sends a request and reads the complete answer.
    ///
    /// # Errors
    /// The connection breaks, the answer does not begin within [`PATIENCE`], or it is too long.
    pub async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<DaemonResponse, ClientError> {
        DaemonResponse::read_whole(self.open(method, path, body).await?).await
    }

    /// Sends a request like [`DaemonClient::call`], without a time limit for the start of the answer.
    ///
    /// # Errors
    /// The connection breaks, or the answer is too long.
    pub async fn call_without_timeout(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<DaemonResponse, ClientError> {
        DaemonResponse::read_whole(self.open_without_timeout(method, path, body).await?).await
    }

    /// Sends a request like [`DaemonClient::open`], without a time limit for the start of the answer.
    ///
    /// # Errors
    /// The connection breaks before the answer begins.
    pub async fn open_without_timeout(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let request = request.header(HOST, HOST_NAME).body(Either::Left(Full::new(body)));
        let request = request.map_err(|error| ClientError::Unreadable(error.to_string()))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and returns the answer as soon as its headers are complete. The body is still to be read.
    ///
    /// # Errors
    /// The connection breaks before the answer begins, or the answer does not begin within [`PATIENCE`].
    pub async fn open(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        self.send(request, Either::Left(Full::new(body.unwrap_or_default()))).await
    }

    /// Posts lines of JSON while `lines` produces them. Returns the answer as soon as its headers are complete,
    /// possibly while lines are still being sent.
    ///
    /// # Errors
    /// The connection breaks before the answer begins, or the answer does not begin within [`PATIENCE`].
    pub async fn post_lines(
        &mut self,
        path: &str,
        lines: StreamedBody,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/x-ndjson");
        self.send(request, Either::Right(lines)).await
    }

    /// Posts `payload` and returns the answer. Notifies `requested` when the daemon sends `100 Continue`, so
    /// that the payload of a rejected request is not sent. If `length_bytes` is given, the daemon rejects a shorter
    /// payload. The upload has no time limit: the caller sets one.
    ///
    /// # Errors
    /// The connection breaks before the answer begins.
    pub async fn upload(
        &mut self,
        path: &str,
        payload: StreamedBody,
        length_bytes: Option<u64>,
        requested: Arc<Notify>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::post(path)
            .header(HOST, HOST_NAME)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(EXPECT, "100-continue");
        if let Some(length_bytes) = length_bytes {
            request = request.header(CONTENT_LENGTH, length_bytes);
        }
        let request = request.body(Either::Right(payload));
        let mut request = request.map_err(|error| ClientError::Unreadable(error.to_string()))?;
        on_informational(&mut request, move |_| requested.notify_one());
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    async fn send(&mut self, request: Builder, body: RequestBody) -> Result<Response<Incoming>, ClientError> {
        self.sender.ready().await?;
        let request = request.header(HOST, HOST_NAME).body(body);
        let request = request.map_err(|error| ClientError::Unreadable(error.to_string()))?;
        let answered = timeout(PATIENCE, self.sender.send_request(request)).await;
        Ok(answered.map_err(|_| ClientError::Silent(PATIENCE))??)
    }
}

impl DaemonResponse {
    /// Reads the rest of an answer, at most 64 MiB.
    pub async fn read_whole(response: Response<Incoming>) -> Result<Self, ClientError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
        let body = body.map_err(|error| ClientError::Unreadable(error.to_string()))?.to_bytes();
        Ok(Self { status: head.status, headers: head.headers, body })
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// `Unreadable` if the body is not a `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}

/// The lines of an answer, each available as soon as it arrives.
#[derive(Debug)]
pub struct ResponseLines {
    body: Incoming,
    pending: BytesMut,
    /// Bytes at the start of `pending` that are known to contain no line end.
    searched: usize,
}

impl ResponseLines {
    /// The lines of `body`.
    #[must_use]
    pub fn new(body: Incoming) -> Self {
        Self { body, pending: BytesMut::new(), searched: 0 }
    }

    /// The next line with its line end; `None` at the end of the answer.
    ///
    /// # Errors
    /// The connection breaks, the answer ends within a line, or a line is too long.
    pub async fn next_line(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let end = self.pending.iter().skip(self.searched).position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line = self.pending.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.pending.len();
            if self.searched > ANSWER_MAX_BYTES {
                let text = format!("a line has more than {ANSWER_MAX_BYTES} bytes");
                return Err(ClientError::Unreadable(text));
            }
            match self.body.frame().await.transpose()? {
                Some(frame) => self.pending.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                None if self.pending.is_empty() => return Ok(None),
                None => return Err(ClientError::Unreadable("the answer ends within a line".into())),
            }
        }
    }
}

fn connect_error(path: &Path, error: &io::Error) -> ClientError {
    let is_other_file = || fs::metadata(path).is_ok_and(|file| !file.file_type().is_socket());
    let reason = match error.kind() {
        _ if is_other_file() => "it is not a socket; use the path of a socket of oracled".to_owned(),
        ErrorKind::NotFound => "the socket does not exist; is the daemon running with this path?".to_owned(),
        ErrorKind::ConnectionRefused => {
            "no process accepts connections on this socket; start the daemon".to_owned()
        }
        ErrorKind::PermissionDenied => {
            "permission denied; join the socket's group, or run this as root".to_owned()
        }
        _ => error.to_string(),
    };
    ClientError::NotThere { path: path.to_owned(), reason }
}
