//! Refuses connections over the limit.

use crate::platform::access_log::AccessLog;
use crate::platform::api::front::{REQUEST_ID, new_request_id};
use crate::platform::problem::Problem;
use hyper::StatusCode;
use oracled_api::base::problem::PROBLEM_MEDIA_TYPE;
use oracled_domain::PeerCredentials;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of refusals written at a time. Each holds a file descriptor for up to [`FAREWELL`]; without
/// the limit a flood of connections would use up the store's descriptors.
pub(crate) const REFUSALS_MAX: usize = 32;
/// Maximum time that a connection over the limit stays open for its refusal.
const FAREWELL: Duration = Duration::from_secs(1);

/// Refuses connections of one socket.
#[derive(Debug)]
pub(super) struct ConnectionRefusals {
    connections: usize,
    writing: Arc<Semaphore>,
    access_log: Arc<AccessLog>,
}

impl ConnectionRefusals {
    /// `connections` is the limit of the socket.
    pub(super) fn new(connections: usize, access_log: Arc<AccessLog>) -> Self {
        Self { connections, writing: Arc::new(Semaphore::new(REFUSALS_MAX)), access_log }
    }

    /// Answers 503 without reading the request. Closes the connection at once if [`REFUSALS_MAX`] refusals
    /// are being written.
    pub(super) fn refuse(&self, stream: UnixStream, peer: PeerCredentials) {
        let request_id = new_request_id();
        let permit = Arc::clone(&self.writing).try_acquire_owned().ok();
        let status = permit.is_some().then_some(StatusCode::SERVICE_UNAVAILABLE);
        self.access_log.record_rejected_connection(peer, status, &request_id);
        let Some(permit) = permit else { return };
        let connections = self.connections;
        tokio::spawn(async move {
            if let Ok(Err(error)) = timeout(FAREWELL, write_refusal(stream, connections, &request_id)).await {
                tracing::debug!(%error, "could not write the refusal of a connection");
            }
            drop(permit);
        });
    }
}

async fn write_refusal(mut stream: UnixStream, connections: usize, request_id: &str) -> io::Result<()> {
    let problem = Problem::overloaded(format!("there are {connections} connections already"));
    let body = problem.to_json();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_MEDIA_TYPE}\r\ncontent-length: {}\r\nretry-after: 1\r\n\
         {REQUEST_ID}: {request_id}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await?;
    discard_rest(stream).await
}

/// Discards what the client still sends to a connection that is answered, for at most [`FAREWELL`].
pub(super) async fn discard_rest_for_a_moment(stream: impl AsyncRead + Unpin) {
    if let Ok(Err(error)) = timeout(FAREWELL, discard_rest(stream)).await {
        tracing::debug!(%error, "could not read the rest of a rejected request");
    }
}

/// A close before the client has sent its request would break the connection before the client reads the answer.
async fn discard_rest(mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut rest = [0; 4096];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}
