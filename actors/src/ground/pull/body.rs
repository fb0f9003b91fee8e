//! Receives a payload piece by piece, within limits, and checks that it is complete.

use super::PullSettings;
use super::error::PullError;
use crate::upstream::http::root_cause;
use bytes::Bytes;
use reqwest::Response;
use std::io;
use tokio::time::timeout;

/// Bytes of a payload that were received, and its announced length if that is known.
#[derive(Debug, Default)]
pub(super) struct PullProgress {
    received_bytes: u64,
    announced_bytes: Option<u64>,
}

impl PullProgress {
    /// The error for an incomplete payload, with the cause `why`.
    pub(super) const fn truncation_error(&self, why: String) -> PullError {
        let Self { received_bytes, announced_bytes } = *self;
        PullError::Cut { received_bytes, announced_bytes, why }
    }
}

/// Reads the payload, and passes each piece to `keep`. Returns its length in bytes.
pub(super) async fn read(
    settings: &PullSettings,
    mut response: Response,
    progress: &mut PullProgress,
    mut keep: impl AsyncFnMut(Bytes) -> io::Result<()>,
) -> Result<u64, PullError> {
    let PullSettings { max_payload_bytes: max_bytes, idle, .. } = *settings;
    progress.announced_bytes = response.content_length();
    let announced_bytes = progress.announced_bytes;
    if announced_bytes.is_some_and(|announced| announced > max_bytes) {
        return Err(PullError::TooLarge { announced_bytes, max_bytes });
    }
    loop {
        let Ok(piece) = timeout(idle, response.chunk()).await else {
            let idle_s = idle.as_secs_f64();
            return Err(progress.truncation_error(format!("no data for {idle_s} s (`ingestion.idle_s`)")));
        };
        let Some(piece) = piece.map_err(|error| progress.truncation_error(root_cause(&error)))? else {
            break;
        };
        progress.received_bytes = progress.received_bytes.saturating_add(piece.len() as u64);
        if progress.received_bytes > max_bytes {
            return Err(PullError::TooLarge { announced_bytes, max_bytes });
        }
        keep(piece).await.map_err(PullError::Keep)?;
    }
    // the client reports an error if bytes are missing, and does not read extra bytes
    Ok(progress.received_bytes)
}
