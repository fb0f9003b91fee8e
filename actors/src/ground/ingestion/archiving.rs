//! Archives a payload: its pieces are compressed and written on a separate thread.

use super::decoding::{ArchiveError, ArchiverMessage, PayloadEncoding};
use bytes::Bytes;
use oracled_store::ground::archive::PayloadRef;
use oracled_store::ground::files::GroundFiles;
use std::io;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

/// The most pieces that wait to be written.
const PIECES_WAITING: usize = 4;

/// Held while a payload is finished or removed. Between the end of archiving and the commit of its run, a payload looks
/// unneeded, and must not be removed.
pub static ARCHIVING: Mutex<()> = Mutex::const_new(());

/// A payload that is being archived. If this is dropped before [`PayloadArchiver::finish`], nothing is stored.
#[derive(Debug)]
pub struct PayloadArchiver {
    pieces: mpsc::Sender<ArchiverMessage>,
    written: JoinHandle<Result<Option<PayloadRef>, ArchiveError>>,
}

impl PayloadArchiver {
    /// Begins to archive a payload. The archive gets its plain text in UTF-8.
    #[must_use]
    pub fn begin(files: GroundFiles, encoding: PayloadEncoding) -> Self {
        let (pieces, arriving) = mpsc::channel(PIECES_WAITING);
        let written = spawn_blocking(move || {
            let mut writer = files.archive_writer()?;
            if !encoding.decode(arriving, &mut writer)? {
                return Ok(None);
            }
            Ok(writer.finish().map(Some)?)
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
    /// The payload could not be written.
    pub async fn finish(self) -> Result<PayloadRef, ArchiveError> {
        let Self { pieces, written } = self;
        // if the writer has stopped, its result has the cause
        drop(pieces.send(ArchiverMessage::End).await);
        drop(pieces);
        let written = written.await.map_err(|error| ArchiveError::Inside(error.to_string()))?;
        written?.ok_or_else(|| ArchiveError::Inside("the writer got no end of the payload".into()))
    }
}
