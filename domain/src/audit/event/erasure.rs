//! The entries of an erasure. Both are about the session, and stay.

use super::PeerCredentials;
use crate::base::row::ErasedData;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An administrator erases the data of a session. The erasure continues after a restart until its end is logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureStartEntry {
    /// The administrator's reason.
    pub reason: String,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

/// The data of a session were erased from all files of the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureEndEntry {
    /// The number of the entry with which the erasure started.
    pub started_seq: u64,
    /// The kinds of data that were found.
    pub data: BTreeSet<ErasedData>,
    /// The administrator's reason.
    pub reason: String,
    /// The administrator's process.
    pub peer: PeerCredentials,
}
