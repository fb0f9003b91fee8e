//! Errors of pulls.

use crate::upstream::web::WebError;
use std::io;
use std::time::Duration;

/// Why nothing was pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// There is no answer, or the answer is not a payload.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The payload is too long.
    #[error("the payload has {} bytes (limit {max_bytes}: `ingestion.max_payload_bytes`)", many(*announced_bytes))]
    TooLarge {
        /// Its announced length in bytes, if known.
        announced_bytes: Option<u64>,
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// The payload is incomplete.
    #[error("received {received_bytes} of {} bytes: {why}", of(*announced_bytes))]
    Cut {
        /// Number of bytes received.
        received_bytes: u64,
        /// Announced length in bytes, if known.
        announced_bytes: Option<u64>,
        /// The cause.
        why: String,
    },
    /// The received data could not be stored.
    #[error("could not store the payload: {0}")]
    Keep(io::Error),
}

impl PullError {
    /// The wait that the server requests before a retry, if it requests one.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Web(WebError::Failed { failure, .. }) => failure.retry_after,
            _ => None,
        }
    }
}

fn many(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "too many".to_owned(), |bytes| bytes.to_string())
}

fn of(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string())
}
