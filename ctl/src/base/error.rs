//! The errors of the verbs, and their exit codes.

use oracled_api::base::client::ClientError;
use oracled_domain::Sha256Hex;
use std::io::{self, ErrorKind};

/// The error with which a verb ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CtlError {
    /// The daemon does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The daemon rejects the request, or cannot serve it now.
    #[error("{detail} ({code})")]
    Problem {
        /// The `detail` of the problem document.
        detail: String,
        /// The stable problem code.
        code: String,
        /// The HTTP status.
        status: u16,
        /// The whole problem document.
        document: serde_json::Value,
    },
    /// The verdict is not approved. The decision was printed.
    #[error("the verdict is not approved")]
    NotApproved,
    /// No values are verified. The reason was printed.
    #[error("no values are verified")]
    NotVerified,
    /// A decision has another result when it is computed again. Both were printed.
    #[error("the logged decision cannot be reproduced")]
    NotReproduced,
    /// A probe failed. The cause was printed.
    #[error("the probe failed")]
    ProbeFailed,
    /// A run failed, or a check found faults. The reason was printed.
    #[error("the run failed")]
    RunFailed,
    /// A run is held. The gates that it failed were printed.
    #[error(
        "run {0} is held, so its records are not visible; `oraclectl ingest approve {0} --reason …` releases it, `oraclectl \
         ingest discard {0} --reason …` discards it"
    )]
    Held(Sha256Hex),
    /// Some of several operations failed. Each error was printed; the first one decides the exit code.
    #[error(transparent)]
    Printed(Box<CtlError>),
    /// The user interrupted the wait for a run.
    #[error(
        "run {0} continues; `oraclectl ingest show {0}` shows its progress, `oraclectl ingest cancel {0}` ends it"
    )]
    Detached(Sha256Hex),
    /// A name is ambiguous, is given twice, or matches nothing.
    #[error("{0}")]
    NotOne(String),
    /// A file cannot be read.
    #[error("cannot read {file}: {cause}")]
    Read {
        /// The path, or "standard input".
        file: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// An error that is specific to a verb.
    #[error("{message}")]
    Verb {
        /// The error text.
        message: String,
        /// The exit status of the process.
        exit_code: u8,
        /// Whether the reason was printed already.
        was_printed: bool,
    },
    /// Standard output cannot be written.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

impl CtlError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotApproved
            | Self::NotReproduced
            | Self::ProbeFailed
            | Self::RunFailed
            | Self::NotOne(_) => 1,
            Self::Printed(first) => first.exit_code(),
            Self::NotVerified => 6,
            Self::Held(_) => 7,
            Self::Detached(_) => 130,
            Self::Problem { status, .. } if *status < 500 => 1,
            Self::Client(_) => 3,
            Self::Verb { exit_code, .. } => *exit_code,
            Self::Problem { .. } => 4,
            Self::Read { .. } | Self::Output(_) => 5,
        }
    }

    /// Whether the reader of standard output has closed it. The program then ends with success.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == ErrorKind::BrokenPipe)
    }
}
