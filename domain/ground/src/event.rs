//! The log entries of the ground-truth layer.

use crate::freshness::AnswerHandling;
use crate::id::{PipelineId, SourceId};
use crate::run::{IngestionRun, RunState};
use crate::source::SourceRegistryEntry;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::{EntryMembers, Event, EventClass, EventNotice, EventType};
use domain_base::session_id::SessionId;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// One read of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueryEntry {
    /// The way in which the source was read. `query` includes entries of `facts_from`.
    pub read: SourceReadKind,
    /// The source; absent for the change feed of all sources, and if no such record exists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oracle_id: Option<SourceId>,
    /// The id of the query.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub query_id: Option<String>,
    /// The SHA-256 of the canonical JSON (RFC 8785) of the query's `request`, with `filters`, `include_provenance` and
    /// `explain` always present. For the other reads it is the digest of `{"record_id"}`, of
    /// `{"limit", "oracle_id", "since"}` (null if omitted), or of `{"oracle_id"}`.
    pub request_sha256: Sha256Hex,
    /// The valid time that was asked about; absent for the time of the read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub point_in_time: Option<Timestamp>,
    /// The system time that the answer is limited to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub known_at: Option<Timestamp>,
    /// The result: `answered`, or the code of the problem. An export has two entries: `started`, and its end.
    pub outcome: SourceReadOutcome,
    /// The versions of the source that the answer comes from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub data_version: Option<String>,
    /// The number of records, or of changes.
    pub records_returned: u64,
    /// The decision of the freshness policy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub freshness: Option<AnswerHandling>,
    /// The time until the answer was ready, in milliseconds.
    pub latency_ms: f64,
}

/// A way to read a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceReadKind {
    /// `POST /v1/query`, or an entry of `facts_from`.
    Query,
    /// A record by its id.
    Record,
    /// The provenance of a record.
    Provenance,
    /// The change feed.
    Changes,
    /// All records of a source.
    Export,
    /// The history of a value on both axes of time.
    History,
}

/// The result of a read; other than `answered` and `started`, the problem code of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceReadOutcome {
    /// Records were returned, or there are none.
    Answered,
    /// An export began; a second entry reports its end.
    Started,
    /// No such source is registered.
    SourceUnknown,
    /// The source is live and has no stored records.
    SourceLive,
    /// The source is not approved, or its deprecation date has passed.
    SourceSilent,
    /// The data is too old for the freshness policy.
    SourceStale,
    /// No such record exists.
    RecordUnknown,
    /// The query names a time in the future.
    TimeInFuture,
    /// The query is invalid.
    InvalidQuery,
    /// The limit of concurrent answers is reached.
    Overloaded,
    /// The query exceeds the work limit.
    QueryTooCostly,
    /// The scan reached its deadline, or the caller closed the connection.
    QueryStopped,
    /// Reading failed.
    Failed,
}

/// The pull that an entry is about.
fn format_pull(entry: EntryMembers<'_>) -> String {
    format!("{} requested by {}", entry.text("pipeline_id"), entry.text("requested_by"))
}

/// A source was approved or deprecated. Contains its registry entry before and after, without its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceEntry {
    /// The source.
    pub oracle_id: SourceId,
    /// The change.
    pub change: SourceChange,
    /// The registry entry before the change.
    pub before: Box<SourceRegistryEntry>,
    /// The registry entry after the change.
    pub after: Box<SourceRegistryEntry>,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

/// A change of the status of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceChange {
    /// The source is approved, and answers.
    Approved,
    /// The source is deprecated, and will stop answering.
    Deprecated,
}

/// All data of a source was marked stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InvalidationEntry {
    /// The source.
    pub oracle_id: SourceId,
    /// The cause.
    pub trigger: InvalidationCause,
    /// The details of the cause; may be empty.
    pub detail: String,
    /// The process that reported it; null if a run of a newer version failed.
    pub peer: Option<PeerCredentials>,
}

/// A cause for marking all data of a source stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvalidationCause {
    /// The source sent a signal.
    UpstreamSignal,
    /// A newer version exists.
    VersionChange,
    /// An administrator decided it.
    Manual,
}

/// Data of a source that was marked stale was confirmed as valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ConfirmationEntry {
    /// The source.
    pub oracle_id: SourceId,
    /// The time when the data was marked stale.
    pub invalidated_at: Timestamp,
    /// The cause of the confirmation.
    pub confirmed_by: ConfirmationCause,
    /// The details of the cause; may be empty.
    pub detail: String,
    /// The process that confirmed it; null if a scheduled pull or a refresh did.
    pub peer: Option<PeerCredentials>,
}

/// A cause for confirming the data of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationCause {
    /// A pull that started after the invalidation found no change.
    Pull,
    /// An administrator decided it.
    Manual,
}

/// A run started or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunEntry {
    /// The run as it is now.
    #[serde(flatten)]
    pub run: Box<IngestionRun>,
    /// The process that requested it; null if a schedule, or the run itself, caused it.
    pub peer: Option<PeerCredentials>,
}

/// A payload is about to be pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PullStartedEntry {
    /// The pipeline.
    pub pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    /// The process that requested it; null for a schedule or a refresh.
    pub peer: Option<PeerCredentials>,
}

/// A payload was pulled, or the source had no new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PullEndedEntry {
    /// The pipeline.
    pub pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    /// The run that reads the payload; null if the source had no new one.
    pub run_id: Option<Sha256Hex>,
    /// The process that requested it; null for a schedule or a refresh.
    pub peer: Option<PeerCredentials>,
}

/// A payload could not be pulled, so there is no run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PullFailedEntry {
    /// The pipeline.
    pub pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    /// The error.
    pub cause: String,
    /// The process that requested it; null for a schedule or a refresh.
    pub peer: Option<PeerCredentials>,
}

/// Old content and raw payloads were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PruneEntry {
    /// The source.
    pub oracle_id: SourceId,
    /// The cutoff: content whose validity ended before this time was removed.
    pub before: Timestamp,
    /// The number of versions whose content was removed. Their provenance stays.
    pub versions: u64,
    /// The SHA-256 of each removed payload.
    pub payloads: Vec<Sha256Hex>,
    /// The administrator's process; null for the daily run.
    pub peer: Option<PeerCredentials>,
}

/// Damaged or missing files of a source were recreated from its payloads. Its data is the same as before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RebuildEntry {
    /// The source.
    pub oracle_id: SourceId,
    /// The number of runs whose payloads were read again.
    pub runs: u64,
    /// The number of prunings that were repeated.
    pub prunings: u64,
    /// The digests of the recreated files, which are the same as before.
    pub files: Vec<Sha256Hex>,
    /// The administrator's process.
    pub peer: PeerCredentials,
}

/// A source was approved or deprecated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SourceChanged(pub SourceEntry);

impl Event for SourceChanged {
    const NAME: &'static str = "source_changed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{} {}", entry.words(&["oracle_id", "change"]), entry.by_peer())
    }
}

/// All data of a source was marked stale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SourceInvalidated(pub InvalidationEntry);

impl Event for SourceInvalidated {
    const NAME: &'static str = "source_invalidated";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!(
            "{} by {}{}",
            entry.text("oracle_id"),
            entry.text("trigger"),
            entry.text_after(": ", "detail")
        )
    }
}

/// Data of a source that was marked stale was confirmed as valid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SourceConfirmed(pub ConfirmationEntry);

impl Event for SourceConfirmed {
    const NAME: &'static str = "source_confirmed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!(
            "{} by {}{}",
            entry.text("oracle_id"),
            entry.text("confirmed_by"),
            entry.text_after(": ", "detail")
        )
    }
}

/// A payload is about to be pulled. This entry is committed before the source is called, so that schedules hold after a
/// restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct PullStarted(pub PullStartedEntry);

impl Event for PullStarted {
    const NAME: &'static str = "pull_started";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        format_pull(entry)
    }
}

/// A payload was pulled, or the source had no new one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct PullEnded(pub PullEndedEntry);

impl Event for PullEnded {
    const NAME: &'static str = "pull_ended";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let run_id = entry.text("run_id");
        let outcome = if run_id.is_empty() { "nothing new".to_owned() } else { format!("run {run_id}") };
        format!("{}: {outcome}", format_pull(entry))
    }
}

/// A payload could not be pulled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct PullFailed(pub PullFailedEntry);

impl Event for PullFailed {
    const NAME: &'static str = "pull_failed";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        format!("{}: {}", format_pull(entry), entry.text("cause"))
    }
}

/// An ingestion run started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct IngestionStarted(pub RunEntry);

impl Event for IngestionStarted {
    const NAME: &'static str = "ingestion_started";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        entry.words(&["oracle_id", "version"])
    }
}

/// An ingestion run ended. Its records are visible, or the run has no effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct IngestionEnded(pub RunEntry);

impl Event for IngestionEnded {
    const NAME: &'static str = "ingestion_ended";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let (run, records) = (
            entry.words(&["oracle_id", "version", "state"]),
            entry.count("counts/records", "record", "records"),
        );
        let (rejected, cause) = (entry.text("counts/rejected"), entry.text_after("; ", "cause"));
        format!("{run}: {records}, {rejected} rejected{cause}")
    }

    fn notice(&self, _: Option<&SessionId>) -> Option<EventNotice> {
        let IngestionRun { run_id, oracle_id, pipeline_id, .. } = &*self.0.run;
        (self.0.run.state == RunState::Held).then(|| {
            let data = json!({ "run_id": run_id, "oracle_id": oracle_id, "pipeline_id": pipeline_id });
            EventNotice::to_operators("run.held", data)
        })
    }
}

/// Old content and raw payloads of a source were removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SourcePruned(pub PruneEntry);

impl Event for SourcePruned {
    const NAME: &'static str = "source_pruned";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Kept;
    const NEEDS_COMMIT: bool = true;

    fn summary(entry: EntryMembers<'_>) -> String {
        let versions = entry.count("versions", "version", "versions");
        format!("{} before {}: {versions}", entry.text("oracle_id"), entry.text("before"))
    }
}

/// Damaged or missing files of a source were recreated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SourceRebuilt(pub RebuildEntry);

impl Event for SourceRebuilt {
    const NAME: &'static str = "source_rebuilt";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let (files, runs) = (entry.count("files", "file", "files"), entry.count("runs", "run", "runs"));
        format!("{} {}: {files} from {runs}", entry.text("oracle_id"), entry.by_peer())
    }
}

/// A source was read by a query, by the id of a record, by the change feed, or by an export.
///
/// These entries are written in groups, and the response does not wait for the disk: a crash may lose those of the last
/// 100 ms. A clean stop loses none. While more than 4,096 of them wait, reads wait too; no entry is dropped. While the
/// log accepts no entries, reads of sources get 503 `storage_unavailable`, and their entries go to standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct SourceQueried(pub QueryEntry);

impl Event for SourceQueried {
    const NAME: &'static str = "source_queried";
    const ERASABLE: &'static [&'static str] = &["query_id", "request_sha256"];
    const CLASS: EventClass = EventClass::Routine;
    const NEEDS_COMMIT: bool = false;

    fn summary(entry: EntryMembers<'_>) -> String {
        let read = entry.words(&["read", "oracle_id", "data_version", "outcome"]);
        format!(
            "{read}: {} {}",
            entry.count("records_returned", "record", "records"),
            entry.text("freshness")
        )
    }
}

/// The events of the feature.
pub const EVENTS: &[&EventType] = &[
    SourceChanged::TYPE,
    SourceInvalidated::TYPE,
    SourceConfirmed::TYPE,
    PullStarted::TYPE,
    PullEnded::TYPE,
    PullFailed::TYPE,
    IngestionStarted::TYPE,
    IngestionEnded::TYPE,
    SourcePruned::TYPE,
    SourceRebuilt::TYPE,
    SourceQueried::TYPE,
];
