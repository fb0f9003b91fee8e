//! The log entries of the ground-truth layer.

use super::PeerCredentials;
use super::query::QueryEntry;
use crate::base::digest::Sha256Hex;
use crate::base::event::{Event, EventClass, EventNotice, EventType};
use crate::base::session_id::SessionId;
use crate::documents::{DocumentKind, RegistryDocument};
use crate::ground::id::{PipelineId, SourceId};
use crate::ground::run::IngestionRun;
use crate::ground::run::RunState;
use crate::ground::source::SourceRegistryEntry;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::json;

/// A document was registered, or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentEntry {
    /// The kind of the document.
    pub kind: DocumentKind,
    /// Its id.
    pub document_id: String,
    /// The digest of the document that it replaces; null if it is new.
    pub before_sha256: Option<Sha256Hex>,
    /// Its digest.
    pub sha256: Sha256Hex,
    /// The document that it replaces; null if it is new.
    #[schema(value_type = Option<Value>)]
    pub before: Option<Box<Json>>,
    /// The document.
    #[schema(value_type = Value)]
    pub after: Box<Json>,
    /// The process that registered it.
    pub peer: PeerCredentials,
}

impl DocumentEntry {
    /// The entry of the registration of `after`, which replaces `before`.
    #[must_use]
    pub fn new<D: RegistryDocument>(before: Option<&D>, after: &D, peer: PeerCredentials) -> Self {
        Self {
            kind: D::KIND,
            document_id: after.document_id(),
            before_sha256: before.map(RegistryDocument::digest),
            sha256: after.digest(),
            before: before.map(|before| before.to_json().into()),
            after: after.to_json().into(),
            peer,
        }
    }
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

/// A document was registered, or changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct DocumentRegistered(pub DocumentEntry);

impl Event for DocumentRegistered {
    const NAME: &'static str = "document_registered";
    const ERASABLE: &'static [&'static str] = &[];
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = true;
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
    const CLASS: EventClass = EventClass::Value;
    const NEEDS_COMMIT: bool = false;
}

/// The events of the feature.
pub(super) const EVENTS: &[&EventType] = &[
    DocumentRegistered::TYPE,
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
