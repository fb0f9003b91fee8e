//! A client of either socket, for `oraclectl`, `oracled dev` and tests.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How long the beginning of an answer is waited for; longer than a request may take by default.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest answer that is read, in bytes.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

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

/// One connection.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
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
        let stream = UnixStream::connect(path).await.map_err(|error| not_there(path, &error))?;
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
        let response = self.open(method, path, body).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
        let body = body.map_err(|error| ClientError::Unreadable(error.to_string()))?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
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
        self.sender.ready().await?;
        let mut request = Request::builder().method(method).uri(path).header(HOST, "oracled");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body.unwrap_or_default()));
        let request = request.map_err(|error| ClientError::Unreadable(error.to_string()))?;
        let answered = timeout(PATIENCE, self.sender.send_request(request)).await;
        Ok(answered.map_err(|_| ClientError::Silent(PATIENCE))??)
    }
}

impl Answer {
    /// Reads the body as a `T`.
    ///
    /// # Errors
    /// `Unreadable` where it is none.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::Unreadable(error.to_string()))
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
