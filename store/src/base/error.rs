//! Everything that can be wrong with the store, each with what to do about it.

use oracled_domain::ground::id::SourceId;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why the store did not open, or does not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it.
    #[error("the store in {dir} is in use by another process; stop that one, or name another --state-dir")]
    Locked {
        /// The state directory.
        dir: PathBuf,
    },
    /// A directory or file cannot be created, read or written.
    #[error("cannot use {path}: {source}; {}", advice(.source))]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The database is damaged.
    #[error(
        "the store in {dir} is damaged ({detail}); restore the whole state directory from a backup, or move it \
         aside and start with an empty one: the entries up to the damage stay readable in oracle_log.jsonl"
    )]
    Corrupt {
        /// The state directory.
        dir: PathBuf,
        /// What was found.
        detail: String,
    },
    /// Something that was committed is not there.
    #[error(
        "the store in {dir} is short of what was committed to it ({detail}); it was changed or damaged outside \
         oracled. Restore the whole state directory from a backup, or move it aside and start with an empty one"
    )]
    Short {
        /// The state directory.
        dir: PathBuf,
        /// What is missing, with numbers.
        detail: String,
    },
    /// A file of a source is not there, or not what was committed. The database is whole, and other sources answer.
    #[error("source {oracle_id}: {kind} {path} {fault}; {}", .kind.advice(.oracle_id))]
    SourceFile {
        /// Whose.
        oracle_id: SourceId,
        /// What it holds.
        kind: FileKind,
        /// Where it is, or should be.
        path: PathBuf,
        /// What is wrong with it, behind its name.
        fault: String,
    },
    /// It was written by a later version.
    #[error(
        "the store in {dir} has schema version {found}, and this oracled knows versions up to {known}; run the \
         oracled that wrote it, or a later one"
    )]
    Newer {
        /// The state directory.
        dir: PathBuf,
        /// The store's schema version.
        found: u32,
        /// The latest this build knows.
        known: u32,
    },
    /// It was written by an earlier version.
    #[error(
        "the store in {dir} has schema version {found}, and this oracled reads only version {known}; run the oracled that \
         wrote it, or start with an empty state directory"
    )]
    Older {
        /// The state directory.
        dir: PathBuf,
        /// The store's schema version.
        found: u32,
        /// The one this build reads.
        known: u32,
    },
    /// Something is longer than a file of the store takes.
    #[error("{what} has {size_bytes} bytes, and at most {max_bytes} are allowed")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How long it is.
        size_bytes: u64,
        /// How long it may be.
        max_bytes: u64,
    },
    /// A row came to a sorted file that does not lie behind the row before it.
    #[error("row {row} of {path} does not have a greater key than the row before it")]
    OutOfOrder {
        /// The file.
        path: PathBuf,
        /// Which one, from 1.
        row: u64,
    },
    /// The caller stopped the check.
    #[error("the check was stopped: the daemon is stopping, or the caller closed the connection")]
    Stopped,
    /// It is open, but does not take writes (or, while it is being reopened, reads) for now.
    #[error("the store is unavailable: {cause}")]
    Unavailable {
        /// What failed.
        cause: String,
    },
}

/// What a file of a source holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// What its runs have said: statements, and each run's rejects and changes.
    Facts,
    /// The rejects of a run that has come to nothing.
    Rejects,
    /// What one of its runs has read.
    Payload,
}

impl FileKind {
    /// What to do about one that is damaged or gone.
    fn advice(self, oracle_id: &SourceId) -> String {
        match self {
            Self::Facts => format!(
                "`oraclectl source rebuild {oracle_id}` makes it anew out of the archived payloads; or restore it from \
                 a backup while oracled is stopped"
            ),
            Self::Rejects | Self::Payload => {
                "ingest the release again from its file, or restore this one from a backup".into()
            }
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Facts => "the file of facts",
            Self::Rejects => "the file of rejects",
            Self::Payload => "the archived payload",
        })
    }
}

impl StoreError {
    /// Whether there was no space for it on the disk.
    pub(crate) fn lacks_room(&self) -> bool {
        matches!(self, Self::Io { source, .. } if lacks_room(source))
    }

    /// What sled says while reading: a failed read is an answer nobody can trust.
    pub(crate) fn damaged(dir: &Path, error: &sled::Error) -> Self {
        match error {
            // also what an earlier write has failed with, which sled goes on answering until it is reopened
            sled::Error::Io(error) if !Self::shows_damage(error) => {
                Self::Io { path: dir.to_owned(), source: io::Error::new(error.kind(), error.to_string()) }
            }
            sled::Error::Corruption { at, .. } => {
                let place = at.map(|at| format!(" at {at:?}")).unwrap_or_default();
                Self::Corrupt { dir: dir.to_owned(), detail: format!("a checksum is wrong{place}") }
            }
            _ => Self::Corrupt { dir: dir.to_owned(), detail: error.to_string() },
        }
    }

    /// What the system says to a write of a file in whole: no room is something that passes.
    pub(crate) fn unwritten(path: &Path, source: io::Error) -> Self {
        let full = lacks_room(&source);
        let error = Self::Io { path: path.to_owned(), source };
        if full { Self::Unavailable { cause: error.to_string() } } else { error }
    }

    /// Whether the system did what it was asked, and what it read is not what should be there.
    pub(crate) fn shows_damage(error: &io::Error) -> bool {
        matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
    }
}

/// What to do about a file or directory that cannot be used.
fn advice(source: &io::Error) -> &'static str {
    if lacks_room(source) {
        "make room for some megabytes there"
    } else {
        "it must be readable and writable by the user that runs oracled"
    }
}

fn lacks_room(source: &io::Error) -> bool {
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}
