//! The state between decisions: cached answers, baselines, open reviews and human locks.
//!
//! A lock is a reviewer's decision on one axis of one subject. While it is valid, it counts as an oracle of its own
//! tier, above all others.

use crate::request::VerificationQuestion;
use crate::verification_record::{CandidateAnswer, OracleVerificationRecord, StatedValue, VerificationTier};
use crate::workflow::Workflow;
use domain_base::digest::{Sha256Hex, digest_of_json};
use domain_base::row::{IndexEntry, Row, RowData, Table, check_row, not_indexed};
use domain_base::wording::ParseTextError;
use domain_ground::axis::Axis;
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::ontology::OntologyRef;
use domain_ground::source::LOCK_ORACLE_ID;
use domain_ground::value::AxisValue;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Separates the two parts of a name. Neither part contains this character.
const SEPARATOR: char = '/';
/// The maximum number of open reviews of one subject, for its present and for its past each, without reviews that only
/// claims opened. A further dispute joins the latest review that has all of its axes.
pub const OPEN_MAX: usize = 16;
/// The maximum number of open reviews of one subject that only claims opened, for its present and for its past each.
pub const CLAIMS_OPEN_MAX: usize = 4;

/// The last accepted answer of a live source about one subject, in the present or in the past. `SERVE_STALE` may serve
/// it, and a later answer must not have an earlier time of issue. All workflows share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachedAnswer {
    /// The answer, with all axes on which the source has a value; `None` if it is not served, so that only its time of
    /// issue counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<CandidateAnswer>,
    /// The past time that the answer is about; `None` for the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// The digest of the adapter that read the answer.
    pub adapter_sha256: Sha256Hex,
    /// The time of issue in the answer, if it has one. Answers with an earlier time of issue are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Timestamp>,
    /// The number of invalidations of the source at the time of the request.
    pub invalidation_count: u64,
    /// The `ETag` of the answer, for conditional requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl CachedAnswer {
    /// The part that applies to a question about `point_in_time`: of an answer about another time, only its
    /// time of issue.
    #[must_use]
    pub fn for_question(self, point_in_time: Option<Timestamp>) -> Self {
        let candidate = self.candidate.filter(|_| self.point_in_time == point_in_time);
        Self { candidate, ..self }
    }

    /// Removes the answer, and keeps its time of issue.
    #[must_use]
    pub fn without_candidate(self) -> Self {
        Self { candidate: None, etag: None, ..self }
    }
}

/// The key of a cached answer: the source, the subject, and whether it is about the present or the past. All past times
/// share one key. A caller that varies the time therefore does not fill the store, and an answer that was issued before
/// the last one is a replay even if it is about another time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CachedAnswerKey {
    pub oracle_id: SourceId,
    /// The SHA-256 of the subject and of whether the answer is about the past.
    pub about: Sha256Hex,
}

impl CachedAnswerKey {
    /// The key of an answer of `oracle_id` about `subject` at `point_in_time`; `None` for the present.
    #[must_use]
    pub fn of(
        oracle_id: &SourceId,
        subject: &BTreeMap<String, AxisValue>,
        point_in_time: Option<Timestamp>,
    ) -> Self {
        let past = point_in_time.map(|_| "past");
        Self { oracle_id: oracle_id.clone(), about: digest_of_json(&(subject, past)) }
    }
}

/// The state of one subject in one workflow: its open reviews, its locks and its baselines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectState {
    /// The open reviews, the oldest first.
    pub open: Vec<OpenReview>,
    /// The reviewers' decisions, one for each axis; some may have expired.
    pub locks: Vec<HumanLock>,
    /// The baseline values of each source, on axes that have a `deviation_limit`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub baselines: SourceBaselines,
}

/// Baselines by source and by the path of the axis.
pub type SourceBaselines = BTreeMap<SourceId, BTreeMap<String, AxisBaseline>>;

/// The last undisputed value of a source on an axis. The next value of the source is compared with it, whatever time that
/// value is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisBaseline {
    /// The value.
    pub stated: StatedValue,
    /// The version of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_version: Option<String>,
    /// The time as of which the value holds.
    pub observed_at: Timestamp,
    /// The time at which the value became known: the end of the run, or the retrieval.
    pub verified_at: Timestamp,
}

/// Represents in schemas a baseline, or null if there was none.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum BaselineOrNull {
    /// A baseline.
    Baseline(AxisBaseline),
    /// There was none.
    Null,
}

impl AxisBaseline {
    /// The baseline from the value of `candidate` at `path`.
    #[must_use]
    pub fn of(candidate: &CandidateAnswer, path: &str) -> Option<Self> {
        Some(Self {
            stated: candidate.values.get(path)?.clone(),
            source_version: candidate.record.source_version.clone(),
            observed_at: candidate.observed_at,
            verified_at: candidate.record.verified_at,
        })
    }
}

/// A review that is neither resolved nor dismissed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenReview {
    /// The id of the review.
    pub review_id: String,
    /// The digest of the evidence. A dispute with the same evidence does not open another review.
    pub evidence_hash: Sha256Hex,
    /// The ontology of the axes.
    pub ontology: OntologyRef,
    /// The paths of the axes.
    pub axes: BTreeSet<String>,
    /// Whether only a claim opened it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_claim: bool,
}

/// The key of a subject.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubjectKey {
    pub workflow_id: WorkflowId,
    /// The SHA-256 of the subject and of whether the question is about the present.
    pub about: Sha256Hex,
}

impl SubjectKey {
    /// The key of a subject in a workflow. All questions about its past share one key, so that a client that
    /// varies the time does not open a review for each time.
    #[must_use]
    pub fn of(
        workflow_id: &WorkflowId,
        subject: &BTreeMap<String, AxisValue>,
        is_about_the_present: bool,
    ) -> Self {
        Self { workflow_id: workflow_id.clone(), about: digest_of_json(&(subject, is_about_the_present)) }
    }
}

impl fmt::Display for CachedAnswerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.oracle_id, self.about)
    }
}

impl FromStr for CachedAnswerKey {
    type Err = ParseTextError;

    fn from_str(name: &str) -> Result<Self, ParseTextError> {
        let key = name.split_once(SEPARATOR).and_then(|(oracle_id, about)| {
            Some(Self { oracle_id: oracle_id.parse().ok()?, about: about.parse().ok()? })
        });
        key.ok_or_else(|| ParseTextError::new("the key of a cached answer", name, "a source and a digest"))
    }
}

impl fmt::Display for SubjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.workflow_id, self.about)
    }
}

impl Row for CachedAnswer {
    type Key = CachedAnswerKey;
    const TABLE: &'static Table = &Table {
        name: "cached_answers",
        bundle: None,
        data: RowData::Verification,
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

impl Row for SubjectState {
    type Key = SubjectKey;
    const TABLE: &'static Table = &Table {
        name: "subjects",
        bundle: None,
        data: RowData::Verification,
        is_new_work: false,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[],
        index: not_indexed,
    };

    fn index(&self) -> Vec<IndexEntry> {
        Vec::new()
    }
}

// utoipa maps every type with the name `AxisValue` to arbitrary JSON

/// A reviewer's decision on one axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HumanLock {
    /// The review that it resolves.
    pub review_id: String,
    /// The workflow in which it applies.
    pub workflow_id: WorkflowId,
    /// The ontology of the axis: in another one the same number may have another meaning.
    pub ontology: OntologyRef,
    /// The subject.
    #[serde(rename = "where")]
    pub subject: BTreeMap<String, AxisValue>,
    /// The time of the state that was decided; null for the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was known; null for all that is known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<Timestamp>,
    /// The path of the axis.
    pub axis: String,
    /// The decided value.
    pub value: AxisValue,
    /// The definition of the value, if it is not the axis's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// The user id of the reviewer.
    pub verifier_id: String,
    /// The name of the reviewer at the time of the decision; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_name: Option<String>,
    /// The reviewer's reason.
    pub reason: String,
    /// The time of the decision.
    pub verified_at: Timestamp,
    /// The time at which it expires.
    pub valid_until: Timestamp,
    /// The SHA-256 of the evidence in the review.
    pub evidence_hash: Sha256Hex,
}

impl HumanLock {
    /// Whether the lock applies to `axis` of this question to `workflow`. Expired locks count too.
    pub(super) fn is_about(&self, workflow: &Workflow, question: &VerificationQuestion, axis: &str) -> bool {
        self.workflow_id == workflow.workflow_id
            && self.ontology == workflow.ontology
            && self.subject == question.subject
            && self.covers(question)
            && self.axis == axis
    }

    /// Whether it covers the time of the question. A lock on the present covers all times from its decision on.
    #[must_use]
    pub fn covers(&self, question: &VerificationQuestion) -> bool {
        if (self.point_in_time, self.known_at) == (question.point_in_time, question.known_at) {
            return true;
        }
        let is_on_the_present = self.point_in_time.is_none() && self.known_at.is_none();
        let is_later = |time: Option<Timestamp>| time.is_none_or(|time| time >= self.verified_at);
        is_on_the_present && is_later(question.point_in_time) && is_later(question.known_at)
    }

    /// Whether it is valid at `now`. The maximum age of values on the axis applies to locks, too. A lock with
    /// a time after `now` is valid, because the clock was set back since.
    pub(super) fn is_valid(&self, axis: &Axis, now: Timestamp) -> bool {
        let too_old = axis.max_ttl_seconds.is_some_and(|limit_s| {
            let limit = SignedDuration::from_secs(i64::try_from(limit_s).unwrap_or(i64::MAX));
            now.duration_since(self.verified_at) > limit
        });
        now < self.valid_until && !too_old
    }

    pub(super) fn record(&self) -> OracleVerificationRecord {
        OracleVerificationRecord {
            oracle_id: oracle_id(LOCK_ORACLE_ID),
            oracle_tier: VerificationTier::HumanLock,
            source_locator: format!("urn:oracled:review:{}", self.review_id),
            source_version: None,
            retrieved_at: self.verified_at,
            verified_at: self.verified_at,
            verification_method: "human review".into(),
            verifier_id: self.verifier_id.clone(),
            evidence_hash: Some(self.evidence_hash.clone()),
            signature_info: None,
            ttl_seconds: u64::try_from(self.valid_until.duration_since(self.verified_at).as_secs()).ok(),
            chain_of_custody: None,
        }
    }
}

/// A reserved id that no source has.
pub(super) fn oracle_id(id: &str) -> SourceId {
    id.parse().expect("the constants are ids")
}
