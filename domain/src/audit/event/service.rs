//! The events of the service itself, of its storage, and of removals of data.

use super::backup::BackupEntry;
use super::erasure::{ErasureEndEntry, ErasureStartEntry};
use super::retention::{RetentionEndEntry, RetentionStartEntry, SessionExpiryEntry};
use super::{LostRow, PeerCredentials};
use crate::base::event::{Event, EventClass, EventNotice, EventType, event_in, read_open};
use crate::base::session_id::SessionId;
use crate::verdict::health::OracleHealthLevel;
use crate::verdict::oracle::OracleId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The erasure of a session's data started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ErasureStarted(pub ErasureStartEntry);

impl Event for ErasureStarted {
    const NAME: &'static str = "erasure_started";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Removal;
    const NEEDS_COMMIT: bool = true;
}

/// The data of a session were erased. Entries about the session have hashes in place of the erased values. `session_id` is
/// missing if the id was erased, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SessionErased(pub ErasureEndEntry);

impl Event for SessionErased {
    const NAME: &'static str = "session_erased";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Removal;
    const NEEDS_COMMIT: bool = true;
}

/// The removal of data that are older than configured started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct RetentionStarted(pub RetentionStartEntry);

impl Event for RetentionStarted {
    const NAME: &'static str = "retention_started";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Removal;
    const NEEDS_COMMIT: bool = true;
}

/// The rows of old sessions were removed, at most 100 with an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SessionsExpired(pub SessionExpiryEntry);

impl Event for SessionsExpired {
    const NAME: &'static str = "sessions_expired";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Removal;
    const NEEDS_COMMIT: bool = true;
}

/// Data that are older than configured were removed. The entries of the log have hashes in place of the removed values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct RetentionApplied(pub RetentionEndEntry);

impl Event for RetentionApplied {
    const NAME: &'static str = "retention_applied";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Removal;
    const NEEDS_COMMIT: bool = true;
}

/// An administrator drained or reloaded the daemon, set the level of the service log, or probed an oracle; or a signal
/// reloaded the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ControlAction {
    /// The verb.
    pub action: String,
    /// The details of the request; may be empty.
    pub detail: String,
    /// The administrator's process; null for a signal, because the kernel does not report its sender.
    pub peer: Option<PeerCredentials>,
}

impl Event for ControlAction {
    const NAME: &'static str = "control_action";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// The health status of an oracle changed, or an administrator opened or closed its circuit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OracleHealthChanged {
    /// The oracle.
    pub oracle_id: OracleId,
    /// The previous status.
    pub from: OracleHealthLevel,
    /// The new status.
    pub to: OracleHealthLevel,
    /// The cause of the change.
    pub cause: String,
    /// The number of failures since the last success.
    pub consecutive_failures: u32,
    /// The administrator's process; null if the result of calls, or elapsed time, caused the change.
    pub peer: Option<PeerCredentials>,
}

impl Event for OracleHealthChanged {
    const NAME: &'static str = "oracle_health_changed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn needs_commit(&self) -> bool {
        self.peer.is_some()
    }

    fn notice(&self, _: Option<&SessionId>) -> Option<EventNotice> {
        let Self { oracle_id, from, to, consecutive_failures, .. } = self;
        let opened = *to == OracleHealthLevel::CircuitOpen && from != to;
        opened.then(|| {
            let data = json!({ "oracle_id": oracle_id, "consecutive_failures": consecutive_failures });
            EventNotice::to_operators("circuit.opened", data)
        })
    }
}

/// A backup of the whole state, or only a part of it, was sent to an administrator. If the disk is full, the entry goes to the
/// service log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct BackupTaken(pub BackupEntry);

impl Event for BackupTaken {
    const NAME: &'static str = "backup_taken";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// `oracle_log.jsonl` differed from the log. The file was moved aside, or missing lines were added to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MirrorRepaired {
    /// The number of the first entry whose line was missing or different.
    pub damaged_seq: u64,
    /// Where its line was expected, in bytes from the start of the file.
    pub offset: u64,
}

impl Event for MirrorRepaired {
    const NAME: &'static str = "mirror_repaired";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// The journal accepts entries again after a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StorageRecovered {
    /// The failure.
    pub cause: String,
    /// The time when the failure began.
    pub failed_at: Timestamp,
    /// The number of entries that were written to the service log as `log_fallback` in the meantime.
    pub fallback_entries: u64,
    /// The rows that every copy has lost.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_open")]
    #[schema(nullable = false)]
    pub lost_rows: Option<Vec<LostRow>>,
}

impl Event for StorageRecovered {
    const NAME: &'static str = "storage_recovered";
    const ERASABLE: &'static [&'static str] = &["lost_rows"];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// The daemon started to serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ServiceStarted {
    /// The version of the daemon.
    pub version: String,
    /// The public key with which checkpoints of the log are verified from now on.
    pub log_key: String,
}

impl Event for ServiceStarted {
    const NAME: &'static str = "service_started";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// The key that signs checkpoints is another one than before: the daemon created it after a restore without the previous key,
/// or an operator replaced it. `service_started` follows in the same commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LogKeyReplaced {
    /// The public key before, the last one that the log names.
    pub before: String,
    /// The public key from now on.
    pub after: String,
}

impl Event for LogKeyReplaced {
    const NAME: &'static str = "log_key_replaced";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// The daemon shut down cleanly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ServiceStopped {}

impl Event for ServiceStopped {
    const NAME: &'static str = "service_stopped";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// The events of the feature.
pub(super) const EVENTS: &[&EventType] = &[
    ErasureStarted::TYPE,
    SessionErased::TYPE,
    RetentionStarted::TYPE,
    SessionsExpired::TYPE,
    RetentionApplied::TYPE,
    ControlAction::TYPE,
    OracleHealthChanged::TYPE,
    BackupTaken::TYPE,
    MirrorRepaired::TYPE,
    StorageRecovered::TYPE,
    ServiceStarted::TYPE,
    LogKeyReplaced::TYPE,
    ServiceStopped::TYPE,
];

/// The events that name the public key of the log, which is in use from then on.
pub const LOG_KEY_EVENTS: [&str; 3] = [ServiceStarted::NAME, LogKeyReplaced::NAME, RetentionStarted::NAME];

/// The public key that the entry with this line names; `None` if it names none, or is none of [`LOG_KEY_EVENTS`].
///
/// # Errors
/// A member of the line is not one of its event.
pub fn log_key_in(line: &str) -> Result<Option<String>, serde_json::Error> {
    Ok(match event_in(line).unwrap_or_default() {
        ServiceStarted::NAME => Some(serde_json::from_str::<ServiceStarted>(line)?.log_key),
        LogKeyReplaced::NAME => Some(serde_json::from_str::<LogKeyReplaced>(line)?.after),
        RetentionStarted::NAME => serde_json::from_str::<RetentionStarted>(line)?.0.log_key,
        _ => None,
    })
}
