//! Why nothing was pulled.

use crate::upstream::web::WebError;
use std::io;
use std::time::Duration;

/// Why nothing was pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// There is no answer, or none that is a payload.
    #[error(transparent)]
    Web(#[from] WebError),
    /// There is more than is taken.
    #[error("a payload of {} bytes; allowed: {max_bytes} (`ingestion.max_payload_bytes`)", many(*promised_bytes))]
    TooLarge {
        /// How long it is, where that is known.
        promised_bytes: Option<u64>,
        /// How long it may be.
        max_bytes: u64,
    },
    /// The payload did not come whole.
    #[error("{received_bytes} of {} bytes came: {why}", of(*promised_bytes))]
    Cut {
        /// How much came.
        received_bytes: u64,
        /// How much was to come, where that is known.
        promised_bytes: Option<u64>,
        /// What went wrong.
        why: String,
    },
    /// What came could not be put away.
    #[error("the payload cannot be kept: {0}")]
    Keep(io::Error),
}

impl PullError {
    /// For how long whoever was asked wants to be left alone, where it says so.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Web(WebError::Failed { failure, .. }) => failure.retry_after,
            _ => None,
        }
    }
}

fn many(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string())
}

fn of(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "an unknown number of".to_owned(), |bytes| bytes.to_string())
}
