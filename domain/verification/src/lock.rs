//! Human locks: a reviewer's decision on one axis of one subject. While it is valid, a lock counts as an
//! oracle of its own tier, above all others.

use super::request::VerificationQuestion;
use super::verification_record::OracleVerificationRecord;
use super::workflow::Workflow;
use crate::verification_record::VerificationTier;
use domain_base::digest::Sha256Hex;
use domain_ground::axis::Axis;
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::ontology::OntologyRef;
use domain_ground::source::LOCK_ORACLE_ID;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use domain_ground::value::AxisValue;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
