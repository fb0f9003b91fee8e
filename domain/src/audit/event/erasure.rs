//! The entries of an erasure. Both are about the session, and stay.

use super::PeerCredentials;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use strum::IntoStaticStr;

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

/// A kind of data that an erasure removes.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ErasedData {
    /// The session: query, address, facts, order, original verdict.
    Session,
    /// The cached verdict.
    Verdict,
    /// The verdict that the policy held.
    HeldVerdict,
    /// The check that rejected a verdict of an unknown session.
    RejectingCheck,
    /// The time of the last attempt to regenerate the verdict.
    RegenAttempt,
    /// Mails in the outbox.
    Mail,
    /// Webhooks in the outbox.
    Webhook,
    /// Values in log entries, with the callers of these entries.
    LogValues,
}
