//! Reviews: the questions to a reviewer, and their decisions.

use super::envelope::Envelope;
use super::inputs::DecisionInputs;
use super::oracle_call::CallOutcome;
use super::reason::AxisReason;
use super::request::{ValidatedClaim, values_as_written};
use super::stored_state::{AxisBaseline, BaselineOrNull, OpenReview};
use crate::decide::ReviewDispute;
use crate::stored_state::HumanLock;
use crate::verification_record::{CandidateAnswer, StatedValue};
use domain_base::digest::Sha256Hex;
use domain_base::row::{Index, IndexEntry, KeyedRow, Row, RowData, Table, check_row, index_of};
use domain_base::text_form::is_blank;
use domain_base::wording::excerpt;
use domain_ground::axis::Axis;
use domain_ground::freshness::MAX_AGE_S;
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::query::{WrittenValue, typed};
use domain_ground::subject::title_subject;
use domain_ground::value::{AxisValue, TypedValue};
use domain_ground::version_name::ReviewRuleRef;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

// utoipa maps every type with the name `AxisValue` to arbitrary JSON

/// The maximum length of the reason of a resolution, in bytes.
pub const REASON_MAX_BYTES: usize = 4096;
/// The maximum validity of a resolution, in seconds.
pub const VALIDITY_MAX_S: u64 = MAX_AGE_S;

/// The maximum number of open reviews of one workflow. Beyond it, further questions for a reviewer are `blocked`.
pub const QUEUE_MAX: u64 = 10_000;
/// The maximum number of open reviews of all workflows.
pub const QUEUE_TOTAL_MAX: u64 = 50_000;
/// The maximum number of open reviews of one workflow that callers can open at will
/// ([`ReviewCase::is_caller_openable`]). They have a limit of their own, so that they do not use up
/// [`QUEUE_MAX`], which is for disputes between sources about the present.
pub const CALLERS_QUEUE_MAX: u64 = 1_000;
/// The maximum number of open reviews of all workflows that callers can open at will.
pub const CALLERS_QUEUE_TOTAL_MAX: u64 = 5_000;

/// A question that a reviewer must decide, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewCase {
    /// The id of the review: the execution id of the decision that opened it.
    pub review_id: String,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// The ontology of the axes.
    pub ontology: OntologyRef,
    /// The subject.
    #[serde(rename = "where")]
    pub subject: BTreeMap<String, AxisValue>,
    /// The requested time; null for the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was known; null for all that is known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<Timestamp>,
    /// The axes to decide, by their paths, each with the reasons.
    pub axes: BTreeMap<String, BTreeSet<AxisReason>>,
    /// The outcome of the call of each oracle of the workflow.
    pub sources: BTreeMap<SourceId, CallOutcome>,
    /// The answer of each oracle, with its provenance. For an oracle that was too slow or not reachable, its last
    /// cached answer.
    pub candidates: BTreeMap<SourceId, CandidateAnswer>,
    /// The claims, by the paths of axes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, ValidatedClaim>,
    /// Whether only a claim opened it: the sources settle all of its axes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_claim: bool,
    /// The SHA-256 of the question without its times, of the answers, and of the claims if a claim alone opened the review. A
    /// repeated dispute has the same SHA-256.
    pub evidence_hash: Sha256Hex,
    /// The SHA-256 of the envelope.
    pub envelope_sha256: Sha256Hex,
    /// The time at which it was opened.
    pub opened_at: Timestamp,
}

impl ReviewCase {
    /// Its title, in words, such as "Population, Aruba, 2000". `names` are the names of values of the subject, by axis.
    #[must_use]
    pub fn title(&self, ontology: Option<&Ontology>, names: &BTreeMap<String, AxisValue>) -> String {
        let as_of = self.point_in_time.map(|at| format!(", as of {at:.0}")).unwrap_or_default();
        title_subject(self.axes.keys(), ontology, &self.subject, names) + &as_of
    }

    /// Why it waits: the values of the sources on its first axis, and the reasons.
    #[must_use]
    pub fn cause(&self) -> String {
        let Some((path, reasons)) = self.axes.first_key_value() else { return String::new() };
        let stated = self.candidates.iter().filter_map(|(oracle_id, candidate)| {
            Some(format!("{oracle_id} {}", candidate.values.get(path)?.value))
        });
        let claimed =
            self.claimed.get(path).map(|claim| format!("{} claims {}", claim.claimed_by, claim.value));
        let values = stated.chain(claimed).collect::<Vec<_>>().join(", ");
        let reasons = reasons.iter().map(|reason| reason.describe()).collect::<Vec<_>>().join("; ");
        if values.is_empty() { reasons } else { format!("{values}: {reasons}") }
    }
}

/// The reviewer who makes a decision.
#[derive(Debug, Clone, Copy)]
pub struct Verifier<'a> {
    /// The user id.
    pub id: &'a str,
    /// The name of the user; `None` if the system has none.
    pub name: Option<&'a str>,
}

/// A reviewer's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewResolution {
    /// The value of each axis of the review. A number that JSON would round is rejected; as a string, it keeps all its
    /// digits.
    #[serde(deserialize_with = "values_as_written")]
    #[schema(value_type = BTreeMap<String, WrittenValue>)]
    pub values: BTreeMap<String, Json>,
    /// The definitions of the values, by axis; "" is the axis's own. Required if the candidates have different definitions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub definitions: BTreeMap<String, String>,
    /// Whether a value is intended that no candidate and no claim has. Without it, such a value is rejected as a mistake.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_value: bool,
    /// The reason.
    pub reason: String,
    /// The validity, in seconds.
    pub valid_for_seconds: u64,
    /// The review rule that gives this resolution; absent if none does. A resolution that the rule does not give is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<ReviewRuleRef>,
}

/// A review, with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewState {
    /// The review.
    pub review: ReviewCase,
    /// The resolution; null if the review is open or dismissed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolutionRecord>,
    /// The revocation of the resolution; null while it is valid, or after it has expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<RevocationRecord>,
    /// The dismissal; null if the review is open or resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed: Option<DismissalRecord>,
    /// The comments, in the order of time; at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<ReviewComment>,
}

/// A resolution, with its reviewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolutionRecord {
    /// The decision.
    pub resolution: ReviewResolution,
    /// The user id of the reviewer.
    pub verifier_id: String,
    /// The name of the reviewer at the time of the decision; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_name: Option<String>,
    /// The time of the resolution.
    pub resolved_at: Timestamp,
    /// The baselines of the sources before this resolution confirmed their deviations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<SourceId, BTreeMap<String, BaselineOrNull>>)]
    pub held_against: PriorBaselines,
}

/// Baselines by source and by the path of the axis; `None` if there was no baseline.
pub type PriorBaselines = BTreeMap<SourceId, BTreeMap<String, Option<AxisBaseline>>>;

/// The request to revoke a resolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevocationRequest {
    /// The reason.
    pub reason: String,
}

/// A revocation, with its reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevocationRecord {
    /// The reason.
    pub reason: String,
    /// The user id of the reviewer.
    pub verifier_id: String,
    /// The name of the reviewer at the time of the decision; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_name: Option<String>,
    /// The time of the revocation.
    pub revoked_at: Timestamp,
}

/// The request to close a review without a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DismissalRequest {
    /// The reason.
    pub reason: String,
}

/// A dismissal, with its reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DismissalRecord {
    /// The reason.
    pub reason: String,
    /// The user id of the reviewer.
    pub verifier_id: String,
    /// The name of the reviewer at the time of the decision; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier_name: Option<String>,
    /// The time of the dismissal.
    pub dismissed_at: Timestamp,
}

/// Why a resolution is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewResolutionError {
    /// The ontology is not the review's.
    #[error("the review has the ontology {expected}, not {given}")]
    OtherOntology {
        /// The ontology of the review.
        expected: OntologyRef,
        /// The ontology that validates the resolution.
        given: OntologyRef,
    },
    /// The axes are not those of the review.
    #[error("`values` names {named}; required: all axes of the review and no others: {required}")]
    Axes {
        /// The axes in the resolution.
        named: String,
        /// The axes of the review.
        required: String,
    },
    /// A value is not valid for its axis.
    #[error("`values.{axis}`: {fault}")]
    Value { axis: String, fault: String },
    /// The definition of a value is missing.
    #[error(
        "`definitions.{axis}` is missing; add the definition of the value, because the candidates have different ones: {definitions}"
    )]
    NoDefinition {
        axis: String,
        /// The definitions of the candidates.
        definitions: String,
    },
    /// A definition is for an axis that the review does not have.
    #[error("`definitions.{axis}`: no axis of the review has that name")]
    OtherDefinition { axis: String },
    /// A definition is too long.
    #[error("`definitions.{axis}` has {bytes} bytes; allowed: at most {DEFINITION_MAX_BYTES}")]
    LongDefinition {
        axis: String,
        /// The length of the definition, in bytes.
        bytes: usize,
    },
    /// No candidate and no claim has the value, and `own_value` is not set.
    #[error(
        "`values.{axis}`: no candidate or claim has {value}; they have: {offered}. Set `own_value` (`--own-value`) to use it anyway"
    )]
    ValueNotOffered {
        /// The axis.
        axis: String,
        /// The value, with its definition.
        value: String,
        /// The values of the candidates and the claim.
        offered: String,
    },
    /// The reason is blank or too long.
    #[error("`reason` is blank or too long (1 to {REASON_MAX_BYTES} bytes allowed)")]
    Reason,
    /// The validity is out of range.
    #[error("`valid_for_seconds` is {seconds}; allowed: 1 to {most} s")]
    Validity {
        /// The given validity, in seconds.
        seconds: u64,
        /// The maximum, in seconds: less if the ontology limits the age of values.
        most: u64,
    },
}

impl ReviewCase {
    /// The review that `envelope`, decided from `inputs`, opens. `None` if no reviewer must decide, or the same dispute
    /// already has an open review.
    #[must_use]
    pub fn of(inputs: &DecisionInputs, envelope: &Envelope) -> Option<Self> {
        let is_new = envelope.review_id.as_ref() == Some(&envelope.execution_id);
        let ReviewDispute { axes, candidates, of_claim, evidence_hash } =
            ReviewDispute::of(inputs, envelope).filter(|_| is_new)?;
        Some(Self {
            review_id: envelope.execution_id.clone(),
            workflow_id: envelope.workflow.clone(),
            ontology: envelope.ontology.clone(),
            subject: envelope.subject.clone(),
            point_in_time: envelope.point_in_time,
            known_at: envelope.known_at,
            axes,
            sources: envelope
                .candidates
                .iter()
                .map(|outcome| (outcome.oracle_id.clone(), outcome.outcome))
                .collect(),
            candidates,
            claimed: inputs.question.claimed.clone(),
            of_claim,
            evidence_hash,
            envelope_sha256: envelope.sha256.clone(),
            opened_at: envelope.decided_at,
        })
    }

    /// The entry of this review among the open reviews of its subject.
    #[must_use]
    pub fn to_open_review(&self) -> OpenReview {
        OpenReview {
            review_id: self.review_id.clone(),
            evidence_hash: self.evidence_hash.clone(),
            ontology: self.ontology.clone(),
            axes: self.axes.keys().cloned().collect(),
            of_claim: self.of_claim,
        }
    }

    /// Whether it is about the present state, as known now.
    #[must_use]
    pub const fn is_about_the_present(&self) -> bool {
        self.point_in_time.is_none() && self.known_at.is_none()
    }

    /// Whether callers can open such reviews at will: by a claim, by choosing a past time, or by naming an
    /// subject that no source has answered for.
    #[must_use]
    pub fn is_caller_openable(&self) -> bool {
        self.of_claim || !self.is_about_the_present() || self.candidates.is_empty()
    }

    /// Whether its resolution also decides `other`, a review of the same subject: both have the same ontology
    /// and the same times, and it has all axes of `other`.
    #[must_use]
    pub fn is_deciding(&self, other: &Self) -> bool {
        let times = |review: &Self| (review.point_in_time, review.known_at);
        self.ontology == other.ontology
            && times(self) == times(other)
            && other.axes.keys().all(|axis| self.axes.contains_key(axis))
    }

    /// The locks of `resolution`, one for each axis, as decided by `verifier` at `now`.
    ///
    /// # Errors
    /// The first fault, and what is allowed.
    pub fn resolve(
        &self,
        ontology: &Ontology,
        resolution: &ReviewResolution,
        verifier: Verifier<'_>,
        now: Timestamp,
    ) -> Result<Vec<HumanLock>, ReviewResolutionError> {
        if self.ontology != ontology.reference() {
            let (expected, given) = (self.ontology.clone(), ontology.reference());
            return Err(ReviewResolutionError::OtherOntology { expected, given });
        }
        if !self.axes.keys().eq(resolution.values.keys()) {
            let joined = |mut names: Vec<&str>| {
                names.truncate(self.axes.len().max(1) * 2);
                names.join(", ")
            };
            return Err(ReviewResolutionError::Axes {
                named: joined(resolution.values.keys().map(String::as_str).collect()),
                required: joined(self.axes.keys().map(String::as_str).collect()),
            });
        }
        self.check_definitions(&resolution.definitions)?;
        let reason = checked(&resolution.reason)?;
        let lock = |(path, value): (&String, &Json)| {
            let bad = |fault| ReviewResolutionError::Value { axis: path.clone(), fault };
            let axis = ontology.axis(path).ok_or_else(|| bad("the ontology has no such axis".into()))?;
            let most = axis.max_ttl_seconds.unwrap_or(VALIDITY_MAX_S).min(VALIDITY_MAX_S);
            let seconds = resolution.valid_for_seconds;
            if !(1..=most).contains(&seconds) {
                return Err(ReviewResolutionError::Validity { seconds, most });
            }
            let value = typed(value, axis).map_err(bad)?;
            let definition = self.definition_by(resolution, path)?;
            if !resolution.own_value {
                self.check_value_offered(path, axis, &value, definition.as_deref())?;
            }
            let validity = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            Ok(HumanLock {
                review_id: self.review_id.clone(),
                workflow_id: self.workflow_id.clone(),
                ontology: self.ontology.clone(),
                subject: self.subject.clone(),
                point_in_time: self.point_in_time,
                known_at: self.known_at,
                axis: path.clone(),
                value: value.into_value(),
                definition,
                verifier_id: verifier.id.to_owned(),
                verifier_name: verifier.name.map(str::to_owned),
                reason: reason.to_owned(),
                verified_at: now,
                valid_until: now.saturating_add(validity).unwrap_or(Timestamp::MAX),
                evidence_hash: self.evidence_hash.clone(),
            })
        };
        resolution.values.iter().map(lock).collect()
    }
}

impl ReviewState {
    /// The state of a newly opened review.
    #[must_use]
    pub const fn new_open(review: ReviewCase) -> Self {
        Self { review, resolved: None, revoked: None, dismissed: None, comments: Vec::new() }
    }

    /// Whether the review waits for a reviewer.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.resolved.is_none() && self.dismissed.is_none()
    }
}

impl RevocationRequest {
    /// Checks the reason.
    ///
    /// # Errors
    /// If the reason is blank or too long.
    pub fn check(&self) -> Result<(), ReviewResolutionError> {
        checked(&self.reason).map(drop)
    }
}

impl DismissalRequest {
    /// The trimmed reason.
    ///
    /// # Errors
    /// If the reason is blank or too long.
    pub fn checked(&self) -> Result<&str, ReviewResolutionError> {
        checked(&self.reason)
    }
}

/// The trimmed reason, if it is neither blank nor too long.
fn checked(reason: &str) -> Result<&str, ReviewResolutionError> {
    let reason = reason.trim();
    let is_one = !is_blank(reason) && reason.len() <= REASON_MAX_BYTES;
    is_one.then_some(reason).ok_or(ReviewResolutionError::Reason)
}

/// The ids of the open reviews.
pub static OPEN_REVIEWS: Index = Index { name: "open_reviews", session_of: |_| None };
/// The open reviews by workflow. Those that callers can open at will have a second name.
pub static OPEN_BY_WORKFLOW: Index = Index { name: "open_by_workflow", session_of: |_| None };
/// Separates the two parts of a name. Neither part contains this character.
const SEPARATOR: char = '/';
/// The prefix of index names of open reviews that callers can open at will. No workflow id begins with it.
const CALLER_OPENABLE: char = '!';

/// The beginning of the names of the open reviews of a workflow in [`OPEN_BY_WORKFLOW`].
#[must_use]
pub fn open_prefix(workflow_id: &WorkflowId) -> String {
    format!("{workflow_id}{SEPARATOR}")
}

/// The beginning of the names of the open reviews that callers can open at will, for one workflow or for all.
#[must_use]
pub fn caller_openable_prefix(workflow_id: Option<&WorkflowId>) -> String {
    format!("{CALLER_OPENABLE}{}", workflow_id.map(open_prefix).unwrap_or_default())
}

impl Row for ReviewState {
    type Key = String;
    const TABLE: &'static Table = &Table {
        name: "reviews",
        bundle: None,
        data: RowData::Verification,
        is_new_work: true,
        names_files: false,
        finds_entries: false,
        upgrades: &[],
        check: check_row::<Self>,
        indexes: &[&OPEN_REVIEWS, &OPEN_BY_WORKFLOW],
        index: index_of::<Self>,
    };

    fn index(&self) -> Vec<IndexEntry> {
        if !self.is_open() {
            return Vec::new();
        }
        let ReviewCase { review_id, workflow_id, .. } = &self.review;
        let by_caller = self.review.is_caller_openable().then(|| caller_openable_prefix(Some(workflow_id)));
        let prefixes = by_caller.into_iter().chain([open_prefix(workflow_id)]);
        let by_workflow = prefixes.map(|prefix| OPEN_BY_WORKFLOW.entry(format!("{prefix}{review_id}")));
        by_workflow.chain([OPEN_REVIEWS.entry(review_id.clone())]).collect()
    }
}

impl KeyedRow for ReviewState {
    fn key(&self) -> String {
        self.review.review_id.clone()
    }
}

/// The maximum length of a comment, in bytes.
pub const COMMENT_MAX_BYTES: usize = 4096;
/// The maximum number of comments on a review.
pub const COMMENTS_MAX: usize = 50;

/// The request to comment on a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommentRequest {
    /// The comment: 1 to 4,096 bytes.
    #[schema(min_length = 1, max_length = 4096)]
    pub text: String,
}

/// A comment on a review, with its author. It changes nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewComment {
    /// The comment.
    pub text: String,
    /// The user id of the author.
    pub author_id: String,
    /// The name of the author at the time of the comment; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    /// The time of the comment.
    pub commented_at: Timestamp,
}

/// The text of a comment is blank or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`text` is blank or has {bytes} bytes (1 to {COMMENT_MAX_BYTES} bytes allowed)")]
pub struct CommentTextError {
    /// The length of the text without surrounding white space, in bytes.
    pub bytes: usize,
}

impl CommentRequest {
    /// The trimmed text.
    ///
    /// # Errors
    /// If it is blank or too long.
    pub fn checked(&self) -> Result<&str, CommentTextError> {
        let text = self.text.trim();
        let is_allowed = !is_blank(text) && text.len() <= COMMENT_MAX_BYTES;
        is_allowed.then_some(text).ok_or(CommentTextError { bytes: text.len() })
    }
}

/// The maximum length of a definition in a resolution, in bytes.
pub const DEFINITION_MAX_BYTES: usize = 1024;
/// The maximum number of values or definitions that an error lists.
const NAMED_MAX: usize = 8;

impl ReviewCase {
    /// The definitions of the candidates' values on an axis; "" is the axis's own.
    #[must_use]
    pub fn definitions_of(&self, path: &str) -> BTreeSet<&str> {
        let stated_values = self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        stated_values.map(|stated| stated.definition.as_deref().unwrap_or_default()).collect()
    }

    /// Whether a resolution must name the definition of its value on an axis, because the candidates have
    /// different ones.
    #[must_use]
    pub fn is_definition_required(&self, path: &str) -> bool {
        let is_mismatch = |reasons: &BTreeSet<AxisReason>| reasons.contains(&AxisReason::DefinitionMismatch);
        self.axes.get(path).is_some_and(is_mismatch) || self.definitions_of(path).len() > 1
    }

    /// The definition of the candidates whose value on an axis is written `value`; `None` unless it is the
    /// same for all of them.
    #[must_use]
    pub fn only_definition_of(&self, path: &str, value: &str) -> Option<&str> {
        let stated_values = self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        let matching = stated_values.filter(|stated| stated.value.to_string() == value);
        let mut definitions: BTreeSet<_> =
            matching.map(|stated| stated.definition.as_deref().unwrap_or_default()).collect();
        definitions.pop_first().filter(|_| definitions.is_empty())
    }

    /// The definition of the value of `resolution` on an axis; `None` for the axis's own. By default it is the common
    /// definition of the candidates.
    fn definition_by(
        &self,
        resolution: &ReviewResolution,
        path: &str,
    ) -> Result<Option<String>, ReviewResolutionError> {
        let definitions = self.definitions_of(path);
        let definition = match resolution.definitions.get(path) {
            Some(given) if given.len() > DEFINITION_MAX_BYTES => {
                return Err(ReviewResolutionError::LongDefinition {
                    axis: path.to_owned(),
                    bytes: given.len(),
                });
            }
            Some(given) => given.trim(),
            None if self.is_definition_required(path) => {
                let definitions = definitions.into_iter().map(format_definition);
                return Err(ReviewResolutionError::NoDefinition {
                    axis: path.to_owned(),
                    definitions: join_first(definitions),
                });
            }
            None => definitions.first().copied().unwrap_or_default(),
        };
        Ok(Some(definition.to_owned()).filter(|definition| !definition.is_empty()))
    }

    /// Rejects a value that no candidate has with this definition, and no claim has.
    fn check_value_offered(
        &self,
        path: &str,
        axis: &Axis,
        value: &TypedValue,
        definition: Option<&str>,
    ) -> Result<(), ReviewResolutionError> {
        let is_value = |offered: &AxisValue| offered.typed(axis).is_ok_and(|offered| offered == *value);
        let stated = || self.candidates.values().filter_map(|candidate| candidate.values.get(path));
        let claim = self.claimed.get(path).map(|claim| &claim.value);
        let is_offered =
            |stated: &StatedValue| stated.definition.as_deref() == definition && is_value(&stated.value);
        // a claim names no definition: it has the axis's own
        if stated().any(is_offered) || (definition.is_none() && claim.is_some_and(is_value)) {
            return Ok(());
        }
        let offered: BTreeSet<_> = stated()
            .map(|stated| format_value(&stated.value, stated.definition.as_deref()))
            .chain(claim.map(|claim| format_value(claim, None)))
            .collect();
        let offered = if offered.is_empty() { "nothing".into() } else { join_first(offered.into_iter()) };
        let value = format_value(&value.to_value(), definition);
        Err(ReviewResolutionError::ValueNotOffered { axis: path.to_owned(), value, offered })
    }

    /// Rejects definitions of axes that the review does not have.
    fn check_definitions(&self, definitions: &BTreeMap<String, String>) -> Result<(), ReviewResolutionError> {
        let other = definitions.keys().find(|path| !self.axes.contains_key(*path));
        other.map_or(Ok(()), |path| Err(ReviewResolutionError::OtherDefinition { axis: path.clone() }))
    }
}

/// A value with its definition, for an error.
fn format_value(value: &AxisValue, definition: Option<&str>) -> String {
    let value_text = excerpt(&value.to_string());
    definition.map_or_else(|| value_text.clone(), |definition| format!("{value_text} ({definition})"))
}

/// A definition for an error; `""` is the axis's own.
fn format_definition(definition: &str) -> String {
    if definition.is_empty() { "`\"\"` (the axis's own)".into() } else { format!("`{definition}`") }
}

/// The first [`NAMED_MAX`] items, joined by commas.
fn join_first(items: impl Iterator<Item = String>) -> String {
    items.take(NAMED_MAX).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_has_visible_text_of_limited_length() {
        let checked = |text: &str| CommentRequest { text: text.into() }.checked().map(str::to_owned);
        let longest = "\u{e9}".repeat(COMMENT_MAX_BYTES / 2);
        for (text, expected) in [(" seen ", "seen"), (&*longest, &*longest)] {
            assert_eq!(checked(text).as_deref(), Ok(expected));
        }
        assert_eq!(checked(&format!("{longest}x")), Err(CommentTextError { bytes: COMMENT_MAX_BYTES + 1 }));
        for blank in ["", " \n", "\u{200b}"] {
            assert!(checked(blank).is_err(), "{blank:?}");
        }
    }
}
