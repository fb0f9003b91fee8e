//! A client that sends a body line by line while it reads the answer line by line.

use crate::wire::{WireConnection, head};
use hyper::header::HeaderMap;
use serde_json::Value;
use std::io;
use std::path::Path;

/// One request on a connection of its own.
#[derive(Debug)]
pub struct StreamedRequest {
    wire: WireConnection,
    /// Headers of the answer, after they have arrived.
    headers: Option<HeaderMap>,
    /// Bytes of the answer that have arrived and are not returned yet.
    body: Vec<u8>,
}

impl StreamedRequest {
    /// Starts a request for `path` at `socket`.
    ///
    /// # Panics
    /// Panics if the socket is not served.
    pub async fn begin(socket: &Path, path: &str) -> Self {
        let mut wire = WireConnection::connect(socket).await;
        let headers = [("content-type", "application/x-ndjson"), ("transfer-encoding", "chunked")];
        wire.send(head("POST", path, &headers)).await.expect("the daemon listens");
        Self { wire, headers: None, body: Vec::new() }
    }

    /// Sends `text` as one chunk of the body.
    ///
    /// # Errors
    /// Returns an error if the daemon has closed the connection.
    ///
    /// # Panics
    /// Panics if `text` is empty, because an empty chunk ends the body.
    pub async fn send(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        let text = text.as_ref();
        assert!(!text.is_empty(), "an empty chunk ends the body");
        self.wire.send([format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()).await
    }

    /// Ends the body.
    ///
    /// # Errors
    /// Returns an error if the daemon has closed the connection.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.wire.send("0\r\n\r\n").await
    }

    /// Waits for the next line of the answer. Returns `None` at the end of the answer or if the daemon closes the
    /// connection.
    ///
    /// # Panics
    /// Panics if the answer is not JSON lines.
    pub async fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.body.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.body.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("each line is JSON"));
            }
            let piece = self.piece().await?;
            self.body.extend_from_slice(&piece);
            if piece.is_empty() {
                assert!(self.body.is_empty(), "the last line is whole: {:?}", self.body);
                return None;
            }
        }
    }

    /// Remaining lines of the answer.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        rest
    }

    /// Waits for the next chunk of the answer's body. The last chunk is empty.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        if self.headers.is_none() {
            let (status, headers) = self.wire.answer_head().await?;
            assert_eq!(status, 200, "{headers:?}");
            assert_eq!(
                headers.get("content-type").expect("the response has a content type"),
                "application/x-ndjson"
            );
            self.headers = Some(headers);
        }
        let size = self.wire.take_until(b"\r\n").await?;
        let size = str::from_utf8(&size).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let mut piece = self.wire.read_bytes(size.expect("a piece begins with its size") + 2).await?;
        piece.truncate(piece.len() - 2);
        Some(piece)
    }
}
