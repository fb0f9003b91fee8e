//! The event about a backup.

use super::PeerCredentials;
use serde::{Deserialize, Serialize};

/// A backup that was sent to an administrator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BackupEntry {
    /// The number of log entries in the backup, which does not include this entry.
    pub entries: u64,
    /// The length of all files that were sent, in bytes.
    pub bytes: u64,
    /// Whether the backup was sent completely. Otherwise the client disconnected, or a file could not be read.
    pub complete: bool,
    /// The administrator's process.
    pub peer: PeerCredentials,
}
