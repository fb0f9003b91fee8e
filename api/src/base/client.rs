//! A client of either socket, for `oraclectl`, `oracled dev` and tests.
//!
//! It uses hyper directly: reqwest does not report `100 Continue`, which an upload waits for, and needs a TLS provider even
//! for a Unix socket.

use super::pieces::Pieces;
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
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// How long the beginning of an answer is waited for; longer than a request may take by default.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Attempts to connect while too many others do: about 5 s.
const CONNECT_ATTEMPTS: u32 = 500;
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The longest answer that is read, or line of one that is read line by line, in bytes.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Whom a request is for; over a Unix socket that says nothing.
const HOST_NAME: &str = "oracled";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("oracled does not answer at {path}: {reason}")]
    NotThere {
        /// Where it was looked for.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Somebody is there, and says nothing.
    #[error("oracled has not answered for {0:?}; is it stopped, or the disk stuck?")]
    Silent(Duration),
    /// The connection broke.
    #[error("the connection to oracled broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The answer cannot be read.
    #[error("oracled's answer cannot be read: {0}")]
    Unreadable(String),
}

/// What is sent: whole, or as it comes.
type Body = Either<Full<Bytes>, Pieces>;

/// One connection.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Body>,
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// `NotThere`, with what to do.
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
        let stream = connected.map_err(|error| not_there(path, &error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Sends a request and reads its answer whole.
    ///
    /// # Errors
    /// Where the connection breaks before that.
    pub async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Answer, ClientError> {
        Answer::whole(self.open(method, path, body).await?).await
    }

    /// The same for what takes the time that it takes: the answer is waited for as long as the connection lasts.
    ///
    /// # Errors
    /// Where the connection breaks before that.
    pub async fn call_however_long(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, ClientError> {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        let request = request.header(HOST, HOST_NAME).body(Either::Left(Full::new(body)));
        let request = request.map_err(|error| ClientError::Unreadable(error.to_string()))?;
        self.sender.ready().await?;
        Answer::whole(self.sender.send_request(request).await?).await
    }

    /// Sends a request and hands back the answer with its body still to come.
    ///
    /// # Errors
    /// Where the connection breaks before the answer begins.
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

    /// Posts lines of JSON as they come through `lines`, and hands back the answer, which may begin and go on
    /// meanwhile.
    ///
    /// # Errors
    /// Where the connection breaks before the answer begins.
    pub async fn exchange(&mut self, path: &str, lines: Pieces) -> Result<Response<Incoming>, ClientError> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/x-ndjson");
        self.send(request, Either::Right(lines)).await
    }

    /// Posts `payload`, and hands back the answer. The daemon tells when it wants the payload, and then so does `wanted`: what
    /// is refused need not be sent first. Where its `length_bytes` is known, what is shorter is not taken. How long that takes is
    /// for the caller to bound.
    ///
    /// # Errors
    /// Where the connection breaks before the answer begins.
    pub async fn upload(
        &mut self,
        path: &str,
        payload: Pieces,
        length_bytes: Option<u64>,
        wanted: Arc<Notify>,
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
        on_informational(&mut request, move |_| wanted.notify_one());
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    async fn send(&mut self, request: Builder, body: Body) -> Result<Response<Incoming>, ClientError> {
        self.sender.ready().await?;
        let request = request.header(HOST, HOST_NAME).body(body);
        let request = request.map_err(|error| ClientError::Unreadable(error.to_string()))?;
        let answered = timeout(PATIENCE, self.sender.send_request(request)).await;
        Ok(answered.map_err(|_| ClientError::Silent(PATIENCE))??)
    }
}

impl Answer {
    /// Reads an answer to its end.
    pub async fn whole(response: Response<Incoming>) -> Result<Self, ClientError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
        let body = body.map_err(|error| ClientError::Unreadable(error.to_string()))?.to_bytes();
        Ok(Self { status: head.status, headers: head.headers, body })
    }

    /// Reads the body as a `T`.
    ///
    /// # Errors
    /// `Unreadable` where it is none.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}

/// An answer, line by line as it comes.
#[derive(Debug)]
pub struct AnswerLines {
    body: Incoming,
    pending: BytesMut,
    /// So many bytes of what is pending hold no end of a line.
    searched: usize,
}

impl AnswerLines {
    /// The lines of `body`.
    #[must_use]
    pub fn of(body: Incoming) -> Self {
        Self { body, pending: BytesMut::new(), searched: 0 }
    }

    /// The next line, with its end; nothing at the end of the answer.
    ///
    /// # Errors
    /// Where the connection breaks, or the answer ends within a line.
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
                None => return Err(ClientError::Unreadable("it ends within a line".into())),
            }
        }
    }
}

fn not_there(path: &Path, error: &io::Error) -> ClientError {
    let reason = match error.kind() {
        ErrorKind::NotFound => {
            "there is no such socket; is the daemon running, and with this path?".to_owned()
        }
        ErrorKind::ConnectionRefused => "nobody serves this socket any more; start the daemon".to_owned(),
        ErrorKind::PermissionDenied => "permission denied; be in the socket's group, or root".to_owned(),
        _ => error.to_string(),
    };
    ClientError::NotThere { path: path.to_owned(), reason }
}
