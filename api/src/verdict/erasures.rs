//! The erasure of sessions.

use oracled_domain::SessionId;
use oracled_domain::base::row::ErasedData;
use oracled_domain::verdict::session::CustomerEmail;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// `POST /v1/erasures`: either a session, or all sessions that have an address, or had it when they were removed.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ErasureRequest {
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SessionId>)]
    pub session_id: Option<String>,
    /// The address. Upper and lower case count as the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CustomerEmail>)]
    pub customer_email: Option<String>,
    /// The reason, 1 to 1,024 bytes. The audit log keeps it.
    pub reason: String,
}

/// The result of an erasure.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasureResponse {
    /// The erased sessions. They can include sessions of an earlier erasure that was interrupted.
    pub sessions: Vec<ErasedSession>,
    /// Sessions that had the address before it was corrected. They were not erased.
    pub former_sessions: BTreeSet<SessionId>,
    /// Rotated files of `oracle_log.jsonl` in the state directory that may still have the data: they are compressed, cannot be
    /// read, or have lines that are not entries of the log.
    pub unread_files: Vec<String>,
}

/// A session that was erased.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErasedSession {
    /// The id of the session.
    pub session_id: SessionId,
    /// The kinds of data that were found.
    pub data: BTreeSet<ErasedData>,
}
