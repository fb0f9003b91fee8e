//! The log that several hosts share: an append-only sequence of groups outside of the hosts, such as a table of PostgreSQL.
//!
//! A group is committed when it is appended there. Each host then writes it to its own segment and database, in the same order, so
//! all hosts have the same store. A host whose groups end elsewhere than the shared log cannot append.

use std::fmt::Debug;

/// A group of records in the shared log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedGroup {
    /// The number of the last entry of the log before the group.
    pub before: u64,
    /// The number of its last entry.
    pub after: u64,
    /// The root of the log's Merkle tree after the group. Its leaves have random salts and the digests of the rows, so it names this
    /// group and all before it. An erasure does not change it.
    pub root: [u8; 32],
    /// The changes of the database, as in a segment. A shared log returns the bytes that were appended, or an error.
    pub rows: Vec<u8>,
}

/// The end of a host's groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupsEnd {
    /// The number of the last entry of the log.
    pub entries: u64,
    /// The root of the log's Merkle tree.
    pub root: [u8; 32],
}

/// How the groups of a host relate to the shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedTail {
    /// The shared log has all groups of the host, and ends at this entry.
    Follows(u64),
    /// The shared log ends before the groups of the host do, at this entry: it has lost some, or was replaced by an older copy.
    Lacks(u64),
    /// The shared log has other groups than the host.
    Forked,
}

/// The end of a group in the shared log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedEnd {
    pub end: GroupsEnd,
    /// The host that has appended the group.
    pub host: String,
}

/// The outcome of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedAppend {
    /// The group is committed.
    Appended,
    /// The group is committed, and another host waits to append one.
    AppendedBefore,
    /// The shared log ends at another entry, or has lost groups. Nothing was appended.
    Behind,
}

/// Why a call of the shared log has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedLogError {
    /// It did not answer, or cannot be used for now. It is unknown whether a group was appended.
    #[error("the shared log cannot be used now: {0}")]
    Unanswered(String),
    /// It does not accept this host, until an operator has changed something.
    #[error("the shared log does not accept this host: {0}")]
    Refused(String),
}

/// A shared log, over one connection.
///
/// After an error the connection is gone, and only [`SharedLog::connect`] makes a new one. So an append always uses the connection on
/// which the ends were compared: a shared log that was replaced by an older copy is never appended to unseen.
pub trait SharedLog: Debug + Send {
    /// Connects, and compares the end of the host's groups with the shared log.
    ///
    /// # Errors
    /// It does not answer.
    fn connect(&mut self, own: GroupsEnd) -> Result<SharedTail, SharedLogError>;

    /// Reports that the shared log has all groups of this host, and waits until it has those of the other hosts, if it may have lost
    /// some. A host that does not answer is not waited for longer than 10 s.
    ///
    /// # Errors
    /// It does not answer, or other hosts have not reported that yet.
    fn settle(&mut self) -> Result<(), SharedLogError>;

    /// The ends of its groups up to entry `up_to`, the last one first: at least one if there is any, and not necessarily all.
    ///
    /// # Errors
    /// It does not answer, or is not connected.
    fn ends(&mut self, up_to: u64) -> Result<Vec<SharedEnd>, SharedLogError>;

    /// Appends a group, if the shared log ends with the group of `own`, the end of the host's groups, and has lost none since the ends were
    /// compared.
    ///
    /// # Errors
    /// It does not answer, or is not connected.
    fn append(&mut self, own: GroupsEnd, group: &SharedGroup) -> Result<SharedAppend, SharedLogError>;

    /// Reports to the other hosts whether this one waits to append a group, since the log ended elsewhere before. They let it append first.
    ///
    /// # Errors
    /// It does not answer, or is not connected.
    fn set_waiting(&mut self, is_waiting: bool) -> Result<(), SharedLogError>;

    /// The groups after this entry, in their order: at least one if there is any, and then up to `max_bytes` of rows.
    ///
    /// # Errors
    /// It does not answer, or is not connected.
    fn read(&mut self, after: u64, max_bytes: usize) -> Result<Vec<SharedGroup>, SharedLogError>;

    /// The end of the shared log, at some time since the call. `None` if the log may have lost groups since this host compared the ends, even
    /// groups that this host never had. Only a new connection compares the ends again.
    ///
    /// # Errors
    /// It does not answer, or is not connected.
    fn tail(&mut self) -> Result<Option<GroupsEnd>, SharedLogError>;
}
