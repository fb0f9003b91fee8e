//! What happens in the ground-truth layer, for the log.

use super::Peer;
use crate::base::digest::Sha256Hex;
use crate::documents::{Document, DocumentKind};
use crate::ground::id::{PipelineId, SourceId};
use crate::ground::run::Run;
use crate::ground::source::SourceRegistryEntry;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A document was registered, or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    pub before: Option<Box<Json>>,
    /// The document.
    pub after: Box<Json>,
    /// Who registered it.
    pub peer: Peer,
}

impl DocumentEntry {
    /// The entry of a document in place of `before`.
    #[must_use]
    pub fn new<D: Document>(before: Option<&D>, after: &D, peer: Peer) -> Self {
        Self {
            kind: D::KIND,
            document_id: after.document_id(),
            before_sha256: before.map(Document::digest),
            sha256: after.digest(),
            before: before.map(|before| before.to_json().into()),
            after: after.to_json().into(),
            peer,
        }
    }
}

/// A source was approved or deprecated: its entry before and after, without its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEntry {
    /// Which.
    pub oracle_id: SourceId,
    /// What was done.
    pub change: SourceChange,
    /// Its entry before.
    pub before: Box<SourceRegistryEntry>,
    /// Its entry after.
    pub after: Box<SourceRegistryEntry>,
    /// By whom.
    pub peer: Peer,
}

/// What can be done to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceChange {
    /// It answers.
    Approved,
    /// It will cease to answer.
    Deprecated,
}

/// What a source has said was declared stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidationEntry {
    /// Which.
    pub oracle_id: SourceId,
    /// What made it stale.
    pub trigger: InvalidationCause,
    /// What was said of it.
    pub detail: String,
    /// By whom; null where a run of a newer version has failed.
    pub peer: Option<Peer>,
}

/// What can make all that a source has said stale at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvalidationCause {
    /// A message of the source.
    UpstreamSignal,
    /// A newer version, of which somebody tells.
    VersionChange,
    /// An administrator's word.
    Manual,
}

/// What a source has said was declared stale, and holds after all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmationEntry {
    /// Which.
    pub oracle_id: SourceId,
    /// When it was declared stale.
    pub invalidated_at: Timestamp,
    /// What confirms it.
    pub confirmed_by: ConfirmationCause,
    /// What was said of it.
    pub detail: String,
    /// By whom; null where a pull by a schedule, or a refresh, has found so.
    pub peer: Option<Peer>,
}

/// What can confirm that a source still says what it has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationCause {
    /// A pull that was begun afterwards has found the same.
    Pull,
    /// An administrator's word.
    Manual,
}

/// A run has begun, or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEntry {
    /// The run as it is now.
    #[serde(flatten)]
    pub run: Box<Run>,
    /// By whom; null where it was a schedule's doing, or its own.
    pub peer: Option<Peer>,
}

/// A payload is about to be pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullStartedEntry {
    /// For which pipeline.
    pub pipeline_id: PipelineId,
    /// Who wants it: a user, `schedule` or `refresh`.
    pub requested_by: String,
    /// By whom; null where it is a schedule's doing, or a refresh.
    pub peer: Option<Peer>,
}

/// A payload was pulled, or there was nothing new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullEndedEntry {
    /// For which pipeline.
    pub pipeline_id: PipelineId,
    /// Who wanted it: a user, `schedule` or `refresh`.
    pub requested_by: String,
    /// The run that reads it; null where the source has nothing new.
    pub run_id: Option<Sha256Hex>,
    /// By whom; null where it was a schedule's doing, or a refresh.
    pub peer: Option<Peer>,
}

/// A payload could not be pulled: there is no run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullFailedEntry {
    /// For which pipeline.
    pub pipeline_id: PipelineId,
    /// Who wanted it: a user, `schedule` or `refresh`.
    pub requested_by: String,
    /// Why.
    pub cause: String,
    /// By whom; null where it was a schedule's doing, or a refresh.
    pub peer: Option<Peer>,
}

/// Old content and raw payloads were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneEntry {
    /// Of which source.
    pub oracle_id: SourceId,
    /// What had ceased to hold before then.
    pub before: Timestamp,
    /// How many versions have lost their content; their provenance stays.
    pub versions: u64,
    /// The payloads that were removed.
    pub payloads: Vec<Sha256Hex>,
    /// By whom.
    pub peer: Peer,
}

/// Damaged files of a source were made anew out of its payloads. What the source says is the same as before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildEntry {
    /// Of which source.
    pub oracle_id: SourceId,
    /// How many runs have read their payloads again.
    pub runs: u64,
    /// How often what had once been pruned was pruned again.
    pub prunings: u64,
    /// The files that were made anew, by their digests, which are what they were.
    pub files: Vec<Sha256Hex>,
    /// By whom.
    pub peer: Peer,
}
