//! Ontologies, sources, pipelines, runs and queries.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::freshness::{AnswerFreshness, FreshnessPolicy};
use crate::id::SourceId;
use crate::query::{QueryAnswer, QueryFilter};
use crate::record::{ProvenanceRecord, RecordContent};
use crate::rejection::RejectedRecord;
use crate::run::{IngestionRun, RunProgress};
use crate::source::SourceRegistryEntry;
use crate::source_state::{SourceCheck, SourceCheckProgress};
use crate::timeline::VersionChangeKind;
use domain_base::digest::Sha256Hex;
use domain_base::moment::Moment;
use domain_base::page::PageLimit;
use domain_base::problem::ProblemDocument;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::{RefOr, Schema};

/// One line of the answer of `POST /v1/query:batch`: an answer or a problem.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct QueryBatchAnswer<'a> {
    /// The number of the line in the request, from 1.
    pub line: u64,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<QueryAnswer>)]
    pub answer: Option<&'a QueryAnswer>,
    /// The problem, if the query was not answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<ProblemDocument>)]
    pub problem: Option<Box<RawValue>>,
}

/// The query of `GET /v1/changes`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ChangesParams {
    /// Only changes after this position, the `next` of an earlier answer; all if it is absent.
    pub since: Option<String>,
    /// Only changes of this source.
    pub oracle_id: Option<SourceId>,
    /// The most changes in the answer: 1 to 10000, by default 1000.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit<1000, 10_000>,
}

/// The answer to a signal.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SignalResponse {
    /// The sources that are stale now.
    pub invalidated: Vec<SourceId>,
}

/// A source and whether it answers.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceSummary {
    /// Its entry in the registry.
    #[serde(flatten)]
    pub entry: SourceRegistryEntry,
    /// The axes that identify a subject, in the order of the ontology.
    pub identity: Vec<String>,
    /// Whether it answers now.
    pub answers: bool,
    /// Why it does not answer, or until when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The stored statements: one for each record and release that changes it.
    pub statements: u64,
    /// Their size on disk, in bytes.
    pub size_bytes: u64,
}

/// The query of `GET /v1/runs/{run_id}/changes`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunChangesParams {
    /// Only changes after this number.
    pub after: Option<u64>,
    /// The most changes in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

/// A change of a run.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunChangeReport {
    /// The number of the change in its run.
    pub number: u64,
    /// The kind of the change.
    pub kind: VersionChangeKind,
    /// The source's own id of the record.
    pub source_record_id: String,
    /// The id of the record that the run changes; null for a record of the run itself.
    pub record_id: Option<String>,
    /// The start of the interval in which the record is valid after the change; null if it is no longer valid at any time.
    pub valid_from: Option<Timestamp>,
    /// The end of that interval; null if it is open.
    pub valid_until: Option<Timestamp>,
    /// The raw record that the run changes, cut to 4,096 bytes; null for a new record, or if its payload was removed.
    pub before: Option<String>,
    /// The raw record that is in force instead, cut to 4,096 bytes; null if there is none, or if its payload was removed.
    pub after: Option<String>,
}

/// The query of `GET /v1/runs/{run_id}/rejects`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RejectsParams {
    /// Only rejects after this position in the payload.
    pub after: Option<u64>,
    /// Whether each reject has the text of its raw record.
    #[serde(default)]
    pub raw: bool,
    /// The most rejects in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

/// A rejected record, with its text if it is requested.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RejectReport {
    /// The reject.
    #[serde(flatten)]
    pub reject: RejectedRecord,
    /// The text of the raw record, cut to 4,096 bytes; absent if it is not requested, or if the payload was not kept or was pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub raw_text: Option<String>,
}

/// The provenance of a record, with the text of its raw record.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProvenanceReport {
    /// The provenance.
    #[serde(flatten)]
    pub provenance: ProvenanceRecord,
    /// The text of the raw record, cut to 4,096 bytes; absent if the record was pruned, if its payload was not kept, or if there is a
    /// `raw_fault`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub raw_text: Option<String>,
    /// Why the text cannot be read, if the payload is damaged or lost. The provenance does not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub raw_fault: Option<String>,
}

/// A source with its checks.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SourceReport {
    /// The source.
    #[serde(flatten)]
    pub entry: SourceRegistryEntry,
    /// The last completed check; null before the first one.
    pub last_check: Option<SourceCheck>,
    /// The progress of the running check; null if none is running.
    pub checking: Option<SourceCheckProgress>,
}

/// `POST /v1/sources/{oracle_id}/review`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceReviewRequest {
    /// It answers from now on; a deprecation is revoked.
    Approve {},
    /// It answers until then, at least 90 days from now.
    Deprecate(Moment),
}

/// A request that is logged with its reason.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// The reason: 1 to 1,024 bytes of visible text.
    pub reason: String,
}

/// `POST /v1/runs/{run_id}/approve`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequest {
    /// The reason: 1 to 1,024 bytes of visible text.
    pub reason: String,
    /// The run's `outdated_by` on which the decision is based. If it is another one now, the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated_by: Option<Sha256Hex>,
}

/// The query of `POST /v1/pipelines/{pipeline_id}/runs`.
#[derive(Debug, Clone, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UploadParams {
    /// The source's name for this version.
    pub version: String,
    /// When the source released it.
    pub released_at: Moment,
    /// Whether it may replace an earlier payload of this version.
    #[serde(default)]
    pub replace: bool,
}

/// The request of `POST /v1/sources/{oracle_id}/history`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueHistoryRequest {
    /// The axis of the value.
    pub axis: String,
    /// Filters that fix all identity axes of the subject.
    pub filters: Vec<QueryFilter>,
}

/// The query of `POST /v1/pipelines/{pipeline_id}/pull`.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PullParams {
    /// Whether to request the payload without validators, so that the source sends it even if it reports no change.
    #[serde(default)]
    pub force: bool,
}

/// The answer to an upload.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UploadResponse {
    /// Whether an earlier run read the same payload, so that nothing changes.
    pub unchanged: bool,
    /// The run.
    pub run: IngestionRun,
}

/// The query of `GET /v1/runs`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsParams {
    /// Only runs of this source.
    pub oracle_id: Option<SourceId>,
    /// Only runs after this one in the list, which begins with the latest.
    pub after: Option<Sha256Hex>,
    /// The most runs in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

/// A run and its progress.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunReport {
    /// The run.
    pub run: IngestionRun,
    /// Its progress; null if it has ended.
    pub progress: Option<RunProgress>,
    /// The run that undid it; null if none did.
    pub undone_by: Option<Sha256Hex>,
    /// The latest run of the source that was completed since this held run was read: its changes are those to the data before
    /// that. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated_by: Option<Sha256Hex>,
}

/// The answer to a pull.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PullResponse {
    /// Whether the source has nothing new.
    pub unchanged: bool,
    /// The run that reads the payload; null if there is nothing new.
    pub run: Option<IngestionRun>,
    /// When the source was queried, if it had nothing new.
    pub retrieved_at: Option<Timestamp>,
}

/// `POST /v1/sources/{oracle_id}/prune`.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneRequest {
    /// Remove content that ceased to hold before this time; by default, all content that the pipelines need not keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Moment>,
}

/// `POST /v1/sources/{oracle_id}/verify`.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyFilesRequest {
    /// Only this run; the whole source if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Sha256Hex>,
}

/// One line of an export: a version of a record. A question with `point_in_time` and `known_at` gets the version whose
/// two periods contain these times.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ExportedVersion {
    /// The time from which questions about a time get the version: the start of its validity, but not before the date of
    /// a release that states it.
    pub valid_from: Timestamp,
    /// The end of that period, exclusive; null without an end.
    pub valid_until: Option<Timestamp>,
    /// The time from which this daemon knew it so.
    pub known_from: Timestamp,
    /// The end of that period, exclusive: a later run changed, replaced or undid it; null without an end.
    pub known_until: Option<Timestamp>,
    /// Its provenance, without the times at which this daemon processed it.
    pub provenance: ExportedProvenance,
    /// Its content, whose canonical JSON has the digest `normalized_hash`; null if it was pruned.
    pub record: Option<RecordContent>,
}

/// The provenance of an exported record: without `ingested_at` and `verified_at`, which differ between daemons.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ExportedProvenance(ProvenanceRecord);

impl utoipa::PartialSchema for ExportedProvenance {
    fn schema() -> RefOr<Schema> {
        let mut schema = <ProvenanceRecord as utoipa::PartialSchema>::schema();
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            for absent in ["ingested_at", "verified_at"] {
                object.properties.remove(absent);
                object.required.retain(|name| name != absent);
            }
        }
        schema
    }
}

impl utoipa::ToSchema for ExportedProvenance {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        <ProvenanceRecord as utoipa::ToSchema>::schemas(schemas);
    }
}

/// The freshness of a source.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FreshnessReport {
    /// The policy in force.
    pub policy: FreshnessPolicy,
    /// Whether it is the default policy, since none was set.
    pub is_default: bool,
    /// When the source was marked stale; null if a run or a confirmation has followed.
    pub invalidated_at: Option<Timestamp>,
    /// The latest version that is released by now; null before the first.
    pub current_version: Option<String>,
    /// When it was released: the start of all ages.
    pub released_at: Option<Timestamp>,
    /// The freshness of each axis now.
    pub now: AnswerFreshness,
}
