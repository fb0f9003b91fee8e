//! The errors of the store, each with its remedy.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The reason why the store does not open or respond.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process uses the store.
    #[error("the store in {dir} is in use by another process; stop that one, or name another --state-dir")]
    Locked {
        /// The state directory.
        dir: PathBuf,
    },
    /// A directory or file cannot be created, read or written.
    #[error("cannot use {path}: {source}; {}", advice(.source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The database is damaged.
    #[error(
        "the store in {dir} is damaged ({detail}); keep a copy of the directory, and restore a backup with `oraclectl restore`"
    )]
    Corrupt {
        /// The state directory.
        dir: PathBuf,
        /// The damage that was found.
        detail: String,
    },
    /// Committed data is missing.
    #[error(
        "the store in {dir} lacks committed data ({detail}); it was changed or damaged outside oracled. Put the missing files back, or \
         keep a copy of the directory, and restore a backup with `oraclectl restore`"
    )]
    Short {
        /// The state directory.
        dir: PathBuf,
        /// The missing data, with numbers.
        detail: String,
    },
    /// The log of this host is not that of its cluster.
    #[error(
        "the log in {dir} is not that of its cluster ({detail}); compare it with another host by `oraclectl verify-log`, and let the host \
         whose entries are to be given up join again with `oraclectl cluster join`"
    )]
    Diverged {
        /// The state directory.
        dir: PathBuf,
        /// The first difference that was found.
        detail: String,
    },
    /// A file of a source is missing or damaged. The database is intact, and other sources answer.
    #[error("source {oracle_id}: {kind} {path} {fault}; {}", .kind.advice(.oracle_id))]
    SourceFile {
        /// The id of the source of the file.
        oracle_id: String,
        /// The content of the file.
        kind: SourceFileKind,
        /// The path of the file.
        path: PathBuf,
        /// The fault, worded to follow the file's path: `is missing`.
        fault: String,
    },
    /// This host of a cluster lacks files of a source that another host has made. It fetches them.
    #[error(
        "source {oracle_id}: {files} of its files ({size_bytes} bytes) are not on this host yet; it fetches them from `cluster.objects`. Try \
         again, or ask another host"
    )]
    FactsNotHere {
        /// The id of the source of the files.
        oracle_id: String,
        /// The number of the missing files.
        files: u64,
        /// Their length.
        size_bytes: u64,
    },
    /// An object that the hosts of a cluster share cannot be read or written.
    #[error(
        "the object {name} cannot be used: {source}; check `cluster.objects`, its credentials and the connection, and try again"
    )]
    Object {
        /// The name of the object.
        name: String,
        /// The error of the service, or the fault of the content.
        source: io::Error,
    },
    /// An object that the hosts of a cluster share is damaged.
    #[error(
        "the object {name} is damaged ({fault}); on a host that has the file, delete the object and run `oraclectl source verify ID`"
    )]
    ObjectDamaged {
        /// The name of the object.
        name: String,
        /// The fault of its content.
        fault: String,
    },
    /// A row is lost: its segment and the database were damaged.
    #[error(
        "{row} is lost: entry {entry} of the log has set it, and every copy of it was damaged; restore a backup; or erase its session with \
         `oraclectl erase --session ID`, remove a verdict with `oraclectl purge`, or register a document without versions again with \
         `oraclectl apply`"
    )]
    RowLost {
        /// The table and the name of the row.
        row: String,
        /// The number of the entry that set the row.
        entry: u64,
    },
    /// A later version of oracled wrote the store.
    #[error(
        "the store in {dir} has schema version {found}, and this oracled reads versions up to {known}; run the oracled that \
         wrote it, or a later one, or restore the backup from before the upgrade with `oraclectl restore`"
    )]
    Newer {
        /// The state directory.
        dir: PathBuf,
        /// The store's schema version.
        found: u32,
        /// The latest schema version that this build reads.
        known: u32,
    },
    /// An earlier version of oracled wrote the store.
    #[error(
        "the store in {dir} has schema version {found}, and this oracled upgrades versions from {oldest} on; run the oracled that \
         wrote it, or start with an empty state directory"
    )]
    Older {
        /// The state directory.
        dir: PathBuf,
        /// The store's schema version.
        found: u32,
        /// The first schema version that this build upgrades.
        oldest: u32,
    },
    /// An earlier version of oracled wrote the store, and one of its rows cannot be upgraded. Nothing was changed.
    #[error(
        "the store in {dir} has schema version {found}, and cannot be upgraded to version {known} ({fault}); nothing was changed. \
         Run the oracled that wrote it, and report this"
    )]
    NotUpgraded {
        /// The state directory.
        dir: PathBuf,
        /// The store's schema version.
        found: u32,
        /// The schema version of this build.
        known: u32,
        /// The row or table, and the fault.
        fault: String,
    },
    /// A file or a piece of it exceeds its size limit.
    #[error("{what} has {size_bytes} bytes, and at most {max_bytes} are allowed")]
    TooLarge {
        /// The name of the oversized part.
        what: &'static str,
        size_bytes: u64,
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// A row was written to a sorted file out of key order.
    #[error("row {row} of {path} does not have a greater key than the row before it")]
    OutOfOrder {
        /// The file.
        path: PathBuf,
        /// The number of the row, from 1.
        row: u64,
    },
    /// The caller stopped the check.
    #[error("the check was stopped: the daemon is stopping, or the caller closed the connection")]
    Stopped,
    /// The store is open, but rejects writes for now, and reads too while it is being reopened.
    #[error("the store is unavailable: {cause}")]
    Unavailable { cause: String },
}

/// The content of a file of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFileKind {
    /// The facts of its runs: statements, and each run's rejects and changes.
    Facts,
    /// The rejects of a run that did not complete.
    Rejects,
    /// The payload that one of its runs has read.
    Payload,
}

impl SourceFileKind {
    /// The remedy for a damaged or missing file of this kind.
    fn advice(self, oracle_id: &str) -> String {
        match self {
            Self::Facts => format!(
                "`oraclectl source rebuild {oracle_id}` recreates it from the archived payloads; or restore it from \
                 a backup while oracled is stopped"
            ),
            Self::Rejects | Self::Payload => {
                "ingest the release again from its file, or restore this one from a backup".into()
            }
        }
    }
}

impl fmt::Display for SourceFileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Facts => "the file of facts",
            Self::Rejects => "the file of rejects",
            Self::Payload => "the archived payload",
        })
    }
}

impl StoreError {
    /// The damage or the loss that was found; `None` if the store is only unreadable now.
    #[must_use]
    pub fn damage(&self) -> Option<&str> {
        match self {
            Self::Corrupt { detail, .. } | Self::Short { detail, .. } => Some(detail),
            _ => None,
        }
    }

    /// Whether the fault can be one of a single row or file, so that others may still be read. `Corrupt` can concern many rows: a page of
    /// the database, for example.
    #[must_use]
    pub const fn is_of_one_row(&self) -> bool {
        matches!(self, Self::RowLost { .. }) || self.is_repairable()
    }

    /// Whether the fault is damage that a repair can remove, so that the same read can succeed later. The daemon recreates a damaged
    /// database by itself; an operator rebuilds or restores a file of a source.
    #[must_use]
    pub const fn is_repairable(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::SourceFile { .. })
    }

    /// The same damage, with a further detail.
    pub fn with_detail(self, further: &str) -> Self {
        match self {
            Self::Corrupt { dir, detail } => Self::Corrupt { dir, detail: format!("{detail}; {further}") },
            Self::Short { dir, detail } => Self::Short { dir, detail: format!("{detail}; {further}") },
            other => other,
        }
    }

    /// The same error about the directory `to`, of which `from` is a copy.
    pub fn moved(self, from: &Path, to: &Path) -> Self {
        let moved = |path: PathBuf| path.strip_prefix(from).map(|rest| to.join(rest)).unwrap_or(path.clone());
        match self {
            Self::Corrupt { dir, detail } => Self::Corrupt { dir: moved(dir), detail },
            Self::Short { dir, detail } => Self::Short { dir: moved(dir), detail },
            Self::Io { path, source } => Self::Io { path: moved(path), source },
            Self::SourceFile { oracle_id, kind, path, fault } => {
                Self::SourceFile { oracle_id, kind, path: moved(path), fault }
            }
            other => other,
        }
    }

    /// Whether the disk has too little space.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_out_of_space_error(source))
    }

    /// The error for a failed write of a whole file. A full disk gives `Unavailable`, since the write can be retried.
    pub fn write_error(path: &Path, source: io::Error) -> Self {
        let full = is_out_of_space_error(&source);
        let error = Self::Io { path: path.to_owned(), source };
        if full { Self::Unavailable { cause: error.to_string() } } else { error }
    }

    /// The text of the error as the cause of `Unavailable`, or of a repair. That of damage has no remedy, since a running daemon repairs it.
    pub fn to_cause(&self) -> String {
        match self {
            Self::Unavailable { cause } => cause.clone(),
            Self::Corrupt { detail, .. } | Self::Short { detail, .. } => {
                format!("the store is damaged: {detail}")
            }
            other => other.to_string(),
        }
    }

    /// Whether the read itself succeeded but returned invalid or too few bytes.
    pub fn is_damage(error: &io::Error) -> bool {
        matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData)
    }
}

/// The remedy for a file or directory that cannot be used.
fn advice(source: &io::Error) -> &'static str {
    if is_out_of_space_error(source) {
        "free some megabytes on its disk"
    } else {
        "it must be readable and writable by the user that runs oracled"
    }
}

fn is_out_of_space_error(source: &io::Error) -> bool {
    matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}
