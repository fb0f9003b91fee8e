//! A payload on its way into the archive: taken piece by piece, compressed and written on a thread of its own.

use bytes::Bytes;
use oracled_store::StoreError;
use oracled_store::ground::archive::Archived;
use oracled_store::ground::files::Files;
use std::io;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinHandle, spawn_blocking};

/// So many pieces may wait to be written.
const PIECES_WAITING: usize = 4;

/// Between the moment that a payload is in the archive and the moment that a run names it nobody may take it for one that
/// nobody needs: whoever finishes or removes one holds this meanwhile.
pub static ARCHIVING: Mutex<()> = Mutex::const_new(());

/// A payload on its way into the archive. Dropped before [`Archiving::finish`], it leaves nothing.
#[derive(Debug)]
pub struct Archiving {
    pieces: mpsc::Sender<Piece>,
    written: JoinHandle<Result<Option<Archived>, StoreError>>,
}

#[derive(Debug)]
enum Piece {
    More(Bytes),
    End,
}

/// Why a payload is not in the archive.
#[derive(Debug, thiserror::Error)]
pub enum NotArchived {
    /// The disk does not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Writing failed inside.
    #[error("the payload could not be archived: {0}")]
    Inside(String),
}

impl Archiving {
    /// Begins a payload.
    #[must_use]
    pub fn begin(files: Files) -> Self {
        let (pieces, mut coming) = mpsc::channel(PIECES_WAITING);
        let written = spawn_blocking(move || {
            let mut writer = files.archive_writer()?;
            while let Some(piece) = coming.blocking_recv() {
                match piece {
                    Piece::More(bytes) => writer.push(&bytes)?,
                    Piece::End => return writer.finish().map(Some),
                }
            }
            // whoever sent it is gone
            Ok(None)
        });
        Self { pieces, written }
    }

    /// Takes the next piece; waits while others wait to be written.
    ///
    /// # Errors
    /// Where an earlier piece could not be written: [`Archiving::finish`] says why.
    pub async fn push(&self, piece: Bytes) -> io::Result<()> {
        let sent = self.pieces.send(Piece::More(piece)).await;
        sent.map_err(|_| io::Error::other("the archive does not take it"))
    }

    /// The payload, once it is durable.
    ///
    /// # Errors
    /// Where it could not be written.
    pub async fn finish(self) -> Result<Archived, NotArchived> {
        let Self { pieces, written } = self;
        // where nobody takes it any more, the writer says why
        drop(pieces.send(Piece::End).await);
        drop(pieces);
        let written = written.await.map_err(|error| NotArchived::Inside(error.to_string()))?;
        written?.ok_or_else(|| NotArchived::Inside("it was given up".into()))
    }
}
