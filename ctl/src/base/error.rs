//! Why a verb came to nothing, and the exit code for it.

use oracled_api::base::client::ClientError;
use oracled_domain::Sha256Hex;
use std::io::{self, ErrorKind};

/// Why a verb came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CtlError {
    /// The daemon does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The daemon refuses, or cannot for now.
    #[error("{detail} ({code})")]
    Problem {
        /// What the daemon says.
        detail: String,
        /// Its stable code.
        code: String,
        /// The HTTP status.
        status: u16,
        /// The whole document.
        document: serde_json::Value,
    },
    /// The verdict is not approved. It was printed.
    #[error("the verdict is not approved")]
    NotApproved,
    /// No values are verified. Why was printed.
    #[error("no values are verified")]
    NotVerified,
    /// A decision comes out otherwise than it did. It was printed.
    #[error("the decision comes out otherwise when it is taken again")]
    NotReproduced,
    /// A probe failed. How was printed.
    #[error("the probe failed")]
    ProbeFailed,
    /// A run came to nothing. Why was printed.
    #[error("the run came to nothing")]
    CameToNothing,
    /// A run is held. The gates that it broke were printed.
    #[error(
        "run {0} is held and nothing of it is visible; `oraclectl ingest approve {0} --reason …` lets it pass, `oraclectl \
         ingest discard {0} --reason …` discards it"
    )]
    Held(Sha256Hex),
    /// Of several things that were to be done some were not. Why was printed of each; the first decides the exit code.
    #[error(transparent)]
    Printed(Box<CtlError>),
    /// Nobody waits for a run any more.
    #[error(
        "run {0} goes on; `oraclectl ingest show {0}` tells how far it is, `oraclectl ingest cancel {0}` ends it"
    )]
    Detached(Sha256Hex),
    /// What is named is not there, or there are several of it.
    #[error("{0}")]
    NotOne(String),
    /// A document does not say what it is.
    #[error("{file} is not {kind}: {cause}")]
    Document {
        /// Which one.
        file: String,
        /// What it should be.
        kind: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// A file cannot be read.
    #[error("cannot read {file}: {cause}")]
    Read {
        /// Which one.
        file: String,
        /// Why.
        cause: io::Error,
    },
    /// An error that is specific to a verb.
    #[error("{message}")]
    Verb {
        /// The message.
        message: String,
        /// The exit code.
        exit_code: u8,
        /// Whether the reason was printed already.
        was_printed: bool,
    },
    /// Nothing more can be printed.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

impl CtlError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotApproved
            | Self::NotReproduced
            | Self::ProbeFailed
            | Self::CameToNothing
            | Self::NotOne(_) => 1,
            Self::Printed(first) => first.exit_code(),
            Self::NotVerified => 6,
            Self::Held(_) => 7,
            Self::Detached(_) => 130,
            Self::Problem { status, .. } if *status < 500 => 1,
            Self::Client(_) => 3,
            Self::Verb { exit_code, .. } => *exit_code,
            Self::Problem { .. } => 4,
            Self::Read { .. } | Self::Document { .. } | Self::Output(_) => 5,
        }
    }

    /// Whoever reads our output has enough: that is no error.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == ErrorKind::BrokenPipe)
    }
}
