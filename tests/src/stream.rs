//! A request whose body is sent line by line while its answer is read line by line.

use crate::wire::{Wire, head};
use hyper::header::HeaderMap;
use serde_json::Value;
use std::io;
use std::path::Path;

/// One such request, on a connection of its own.
#[derive(Debug)]
pub struct Stream {
    wire: Wire,
    /// The answer's headers, once they have come.
    headers: Option<HeaderMap>,
    /// What has come of the answer and was not handed out.
    body: Vec<u8>,
}

impl Stream {
    /// Begins a request for `path` at `socket`.
    ///
    /// # Panics
    /// Where nobody serves it.
    pub async fn begin(socket: &Path, path: &str) -> Self {
        let mut wire = Wire::connect(socket).await;
        let headers = [("content-type", "application/x-ndjson"), ("transfer-encoding", "chunked")];
        wire.send(head("POST", path, &headers)).await.expect("it listens");
        Self { wire, headers: None, body: Vec::new() }
    }

    /// Sends `text` as one piece of the body.
    ///
    /// # Errors
    /// Where the daemon has hung up.
    ///
    /// # Panics
    /// Where it is empty: that would be the body's end.
    pub async fn send(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        let text = text.as_ref();
        assert!(!text.is_empty(), "an empty piece is the end");
        self.wire.send([format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()).await
    }

    /// Ends the body.
    ///
    /// # Errors
    /// Where the daemon has hung up.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.wire.send("0\r\n\r\n").await
    }

    /// Waits for the answer's next line; nothing at its end, or where the daemon hangs up.
    ///
    /// # Panics
    /// Where what comes is no answer in lines of JSON.
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

    /// The lines that are still to come.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        rest
    }

    /// Waits for the next piece of the answer's body, which is empty at its end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        if self.headers.is_none() {
            let (status, headers) = self.wire.answer_head().await?;
            assert_eq!(status, 200, "{headers:?}");
            assert_eq!(headers.get("content-type").expect("it says"), "application/x-ndjson");
            self.headers = Some(headers);
        }
        let size = self.wire.take_until(b"\r\n").await?;
        let size = str::from_utf8(&size).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let mut piece = self.wire.take(size.expect("a piece begins with its size") + 2).await?;
        piece.truncate(piece.len() - 2);
        Some(piece)
    }
}
