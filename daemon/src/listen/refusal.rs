//! Connections over the bound.

use crate::api::front::{REQUEST_ID, new_request_id};
use crate::problem::{MEDIA_TYPE, Problem};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many refusals are written at a time. Each holds a file descriptor for up to [`FAREWELL`], so that a flood of
/// connections would otherwise use up those of the store.
pub(crate) const REFUSALS_MAX: usize = 32;
/// How long a connection over the bound is kept for its refusal.
const FAREWELL: Duration = Duration::from_secs(1);

/// The refusals of one socket.
#[derive(Debug)]
pub(super) struct Refusals {
    connections: usize,
    writing: Arc<Semaphore>,
}

impl Refusals {
    /// Those of a socket that serves so many connections.
    pub(super) fn new(connections: usize) -> Self {
        Self { connections, writing: Arc::new(Semaphore::new(REFUSALS_MAX)) }
    }

    /// Answers 503 without reading the request, or closes the connection at once where too many refusals are being written.
    pub(super) fn refuse(&self, stream: UnixStream) {
        let Ok(permit) = Arc::clone(&self.writing).try_acquire_owned() else { return };
        let connections = self.connections;
        tokio::spawn(async move {
            if let Ok(Err(error)) = timeout(FAREWELL, write_refusal(stream, connections)).await {
                tracing::debug!(%error, "a connection over the bound was gone before it was told");
            }
            drop(permit);
        });
    }
}

async fn write_refusal(mut stream: UnixStream, connections: usize) -> io::Result<()> {
    let problem = Problem::Overloaded(format!("there are {connections} connections already"));
    let body = problem.to_json();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {}\r\nretry-after: 1\r\n\
         {REQUEST_ID}: {}\r\nconnection: close\r\n\r\n",
        body.len(),
        new_request_id()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await?;
    // closing on what is still being sent would break the client's sending before it reads the answer
    let mut rest = [0; 4096];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}
