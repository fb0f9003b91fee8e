//! Writes a response in pieces from a blocking thread.

use oracled_api::base::streamed_body::{StreamedBody, StreamedBodySender};
use std::io::{self, Write};
use tokio::runtime::Handle;

/// Size of the pieces, in bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// Maximum number of pieces that wait for the reader.
const PIECES_WAITING: usize = 4;

/// The writer of a streamed body. A write fails once the client has disconnected.
#[derive(Debug)]
pub(crate) struct PieceWriter {
    sender: StreamedBodySender,
    piece: Vec<u8>,
    /// Number of lines sent.
    pub(crate) lines: u64,
    runtime: Handle,
}

impl PieceWriter {
    /// Creates a writer and its body. Call this on the runtime.
    pub(crate) fn new() -> (Self, StreamedBody) {
        let (sender, body) = StreamedBody::new(PIECES_WAITING);
        (Self { sender, piece: Vec::new(), lines: 0, runtime: Handle::current() }, body)
    }

    /// Ends the body. It is complete: call this after a flush.
    pub(crate) fn finish(self) {
        self.sender.finish();
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.piece);
        let lines = piece.iter().filter(|byte| **byte == b'\n').count();
        self.runtime.block_on(self.sender.send(piece.into())).map_err(io::Error::other)?;
        self.lines += lines as u64;
        Ok(())
    }
}
