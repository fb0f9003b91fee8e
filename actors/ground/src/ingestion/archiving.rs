//! Archives a payload: its pieces are decoded, compressed and written on a separate thread.

use bytes::{Buf, Bytes};
use domain_ground::id::SourceId;
use oracled_store::{Store, StoreError};
use std::io::{self, ErrorKind, Read};
use store_facts::archive::{ArchiveWriter, PayloadRef};
use store_facts::decoding::{DecodingError, PayloadEncoding};
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

/// The most pieces that wait to be written.
const PIECES_WAITING: usize = 4;
/// The number of bytes that are decoded at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Held while a payload is finished or removed. Between the end of archiving and the commit of its run, a payload looks
/// unneeded, and must not be removed.
pub static ARCHIVING: Mutex<()> = Mutex::const_new(());

/// A payload that is being archived. If this is dropped before [`PayloadArchiver::finish`], nothing is stored.
#[derive(Debug)]
pub struct PayloadArchiver {
    pieces: mpsc::Sender<ArchiverMessage>,
    written: JoinHandle<Result<PayloadRef, ArchiveError>>,
}

#[derive(Debug)]
enum ArchiverMessage {
    More(Bytes),
    End,
}

/// Why a payload is not in the archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store could not write the payload.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The payload has another compression or encoding than its pipeline names.
    #[error("{0}")]
    Undecodable(String),
    /// The decoded payload is too long.
    #[error(
        "the payload has more than {max_bytes} bytes after its decompression (`ingestion.max_payload_bytes`)"
    )]
    TooLarge {
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// An internal error.
    #[error("the payload could not be archived: {0}")]
    Inside(String),
}

impl PayloadArchiver {
    /// Begins to archive a payload of the source `oracle_id` with this encoding. The archive gets its plain text in UTF-8,
    /// at most `max_bytes`.
    #[must_use]
    pub fn begin(store: Store, oracle_id: SourceId, encoding: PayloadEncoding, max_bytes: u64) -> Self {
        let (pieces, arriving) = mpsc::channel(PIECES_WAITING);
        let written = spawn_blocking(move || {
            let mut writer = store.archive_writer(&oracle_id)?;
            let pieces = PieceReader { pieces: arriving, piece: Bytes::new(), is_at_end: false };
            let payload = encoding.decode(pieces).map_err(|error| ArchiveError::Inside(error.to_string()))?;
            copy(payload, &mut writer, max_bytes)?;
            Ok(writer.finish()?)
        });
        Self { pieces, written }
    }

    /// Passes on the next piece. Waits while the queue is full.
    ///
    /// # Errors
    /// An earlier piece could not be written; [`PayloadArchiver::finish`] returns the cause.
    pub async fn push(&self, piece: Bytes) -> io::Result<()> {
        let sent = self.pieces.send(ArchiverMessage::More(piece)).await;
        sent.map_err(|_| io::Error::other("the archive writer has stopped"))
    }

    /// Returns the payload once it is durable.
    ///
    /// # Errors
    /// The payload could not be decoded or written.
    pub async fn finish(self) -> Result<PayloadRef, ArchiveError> {
        let Self { pieces, written } = self;
        // if the writer has stopped, its result has the cause
        drop(pieces.send(ArchiverMessage::End).await);
        drop(pieces);
        written.await.map_err(|error| ArchiveError::Inside(error.to_string()))?
    }
}

/// Copies a decoded payload to the archive.
fn copy(mut payload: impl Read, archive: &mut ArchiveWriter, max_bytes: u64) -> Result<(), ArchiveError> {
    let (mut chunk, mut total_bytes) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let read = payload.read(&mut chunk).map_err(|error| {
            let is_encoding = error.get_ref().is_some_and(|source| source.is::<DecodingError>());
            if is_encoding {
                ArchiveError::Undecodable(error.to_string())
            } else {
                ArchiveError::Inside(error.to_string())
            }
        })?;
        total_bytes += read as u64;
        if total_bytes > max_bytes {
            return Err(ArchiveError::TooLarge { max_bytes });
        }
        if read == 0 {
            return Ok(());
        }
        archive.push(chunk.get(..read).unwrap_or_default())?;
    }
}

/// Reads the pieces of a payload as they arrive.
struct PieceReader {
    pieces: mpsc::Receiver<ArchiverMessage>,
    piece: Bytes,
    is_at_end: bool,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.piece.has_remaining() && !self.is_at_end {
            match self.pieces.blocking_recv() {
                Some(ArchiverMessage::More(piece)) => self.piece = piece,
                Some(ArchiverMessage::End) => self.is_at_end = true,
                // the sender was dropped: the payload is not complete
                None => return Err(ErrorKind::ConnectionAborted.into()),
            }
        }
        let count = self.piece.remaining().min(into.len());
        self.piece.copy_to_slice(into.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}
