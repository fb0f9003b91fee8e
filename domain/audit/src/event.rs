//! The events of the service itself, of its storage, and of removals of data.

use domain_base::caller::PeerCredentials;
use domain_base::event::{EntryMembers, Event, EventClass, EventType, event_in, read_open};
use domain_base::row::ErasedData;
use domain_base::session_id::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The member of an entry with lost rows.
pub const LOST_ROWS: &str = "lost_rows";

/// A row that every copy has lost: its segment and the database were damaged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LostRow {
    /// The table and the name of the row, as in `rows_sha256`: `verdicts/cs_1`. `log/7` means the inputs of the verification that
    /// entry 7 logs.
    pub row: String,
    /// The number of the entry that set it.
    pub entry: u64,
    /// The number of the damaged segment.
    pub segment: u64,
}

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
    /// The files of `oracle_log.jsonl` that may still have the data; absent if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unread_files: Vec<String>,
}

/// A removal of old data started. It continues after a restart until its end is logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionStartEntry {
    /// The data to remove.
    pub due: DueData,
    /// The administrator's process; null for the daily run.
    pub peer: Option<PeerCredentials>,
    /// The public key of the log if entries are dropped: the last entry that names it can be one of them. Null otherwise.
    pub log_key: Option<String>,
}

/// The rows of old sessions were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionExpiryEntry {
    /// The number of the entry with which the removal started.
    pub started_seq: u64,
    /// The removed sessions.
    pub session_ids: Vec<SessionId>,
}

/// Old data were removed from all files of the state directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionEndEntry {
    /// The number of the entry with which the removal started.
    pub started_seq: u64,
    /// The data that were due when it started.
    pub due: DueData,
    /// Number of sessions that were removed.
    pub sessions: u64,
    /// Number of rotated files of `oracle_log.jsonl` that may still have the data.
    pub unread_files: u64,
}

/// The data that are older than configured, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DueData {
    /// Sessions with their verdicts; null if they are kept forever.
    pub verdicts: Option<DueKind>,
    /// Log entries with callers or other erasable values, except those of verifications; null if the values are kept forever.
    pub log_values: Option<DueKind>,
    /// Log entries with values of verifications and their reviews; null if the values are kept forever.
    pub verifications: Option<DueKind>,
    /// Log entries that are dropped; null if all are kept forever. `last_seq` is the last one: it can be earlier than `before`
    /// allows, since the log is dropped in blocks.
    pub log: Option<DueKind>,
}

/// The data of a kind that are older than configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DueKind {
    /// The configured number of days.
    pub days: u32,
    /// The data are older than this time.
    pub before: Timestamp,
    /// The last entry of the log before this time.
    pub last_seq: u64,
    /// Number of sessions or entries.
    pub count: u64,
    /// The time of the oldest one; null if there is none.
    pub oldest: Option<Timestamp>,
}

impl DueData {
    /// Whether any data are due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        [&self.verdicts, &self.log_values, &self.verifications, &self.log]
            .into_iter()
            .flatten()
            .any(|kind| kind.count > 0)
    }

    /// The last entry of the log that is dropped; `None` if no entry is due.
    #[must_use]
    pub fn dropped_up_to(&self) -> Option<u64> {
        self.log.as_ref().filter(|kind| kind.count > 0).map(|kind| kind.last_seq)
    }
}

/// The erasure of a session's data started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ErasureStarted(pub ErasureStartEntry);

impl Event for ErasureStarted {
    const NAME: &'static str = "erasure_started";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Removal;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.by_peer()
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        let unread = entry.list("unread_files");
        let unread = if unread.is_empty() { unread } else { format!("; not from {unread}") };
        format!("{} {}{unread}", entry.list("data"), entry.by_peer())
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        if entry.text("peer").is_empty() { "daily run".to_owned() } else { entry.by_peer() }
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.count("session_ids", "session", "sessions")
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} removed", entry.count("sessions", "session", "sessions"))
    }
}

/// An administrator drained or reloaded the daemon, set the level of the service log, or probed an oracle; or a signal
/// reloaded the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ControlAction {
    /// The verb.
    pub action: String,
    /// The details of the request; may be empty.
    pub detail: String,
    /// The administrator's process; that of the user `oracled` for `systemctl reload`, and null for a signal, because the kernel does not
    /// report its sender.
    pub peer: Option<PeerCredentials>,
}

impl Event for ControlAction {
    const NAME: &'static str = "control_action";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} {}", entry.words(&["action", "detail"]), entry.by_peer())
    }
}

/// The data that an operator or a reviewer has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadSubject {
    /// Entries of the log.
    Log,
    /// A session with its query, its address and its log entries.
    Session,
    /// A delivered verdict, or its card.
    Verdict,
    /// The decisions of a verification with their inputs.
    Verification,
    /// The texts of raw records.
    RawRecord,
    /// Claims of delivered verdicts that a source has contradicted since.
    Recall,
    /// Claims of verdicts that another policy would judge otherwise.
    WhatIf,
}

/// An operator read the log, a session, a verdict, a verification, raw records or claims, or a reviewer read raw records. `caller` has
/// the reader and the socket. `session_id` is the session that the request names, if the daemon knows it.
///
/// The entry is committed before the answer is sent. While the log accepts no entries, the read is still answered, and the entry goes
/// to the service log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OperatorRead {
    /// The data.
    pub subject: ReadSubject,
    /// The parameters of the request without the session; absent if it has none. `execution` and `request_id` have no value, since a
    /// caller can choose these ids.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "read_open")]
    #[schema(nullable = false)]
    pub parameters: Option<String>,
}

impl Event for OperatorRead {
    const NAME: &'static str = "operator_read";
    const ERASABLE: &'static [&'static str] = &["parameters"];
    const CLASS: EventClass = EventClass::Routine;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.words(&["subject", "parameters"])
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

    fn summary(entry: EntryMembers<'_>) -> String {
        let complete = if entry.is_true("complete") { "" } else { " incomplete" };
        let entries = entry.count("entries", "entry", "entries");
        format!("{entries}, {}{complete} {}", entry.count("bytes", "byte", "bytes"), entry.by_peer())
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("from entry {}, at byte {}", entry.text("damaged_seq"), entry.text("offset"))
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        let (failed_at, cause) = (entry.text("failed_at"), entry.text("cause"));
        let has_fallback = !matches!(entry.text("fallback_entries").as_str(), "" | "0");
        let entries = entry.count("fallback_entries", "entry", "entries");
        let fallback = if has_fallback { format!("; {entries} in the service log") } else { String::new() };
        format!("found at {failed_at}: {cause}{fallback}")
    }
}

/// A later version of oracled has upgraded the store. The rows of these tables have another form than the digests in entries before
/// are of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoreUpgraded {
    /// The schema version before.
    pub from_schema: u32,
    /// The schema version from now on.
    pub to_schema: u32,
    /// The last entry before the upgrade.
    pub entries: u64,
    /// The tables whose rows have another form.
    pub tables: Vec<String>,
}

impl Event for StoreUpgraded {
    const NAME: &'static str = "store_upgraded";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("from schema version {} to {}", entry.text("from_schema"), entry.text("to_schema"))
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.text("version")
    }
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

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.text("after")
    }
}

/// The daemon shut down cleanly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ServiceStopped {}

impl Event for ServiceStopped {
    const NAME: &'static str = "service_stopped";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(_: EntryMembers<'_>) -> String {
        String::new()
    }
}

/// The events of the feature.
pub const EVENTS: &[&EventType] = &[
    ErasureStarted::TYPE,
    SessionErased::TYPE,
    RetentionStarted::TYPE,
    SessionsExpired::TYPE,
    RetentionApplied::TYPE,
    ControlAction::TYPE,
    OperatorRead::TYPE,
    BackupTaken::TYPE,
    MirrorRepaired::TYPE,
    StorageRecovered::TYPE,
    StoreUpgraded::TYPE,
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
