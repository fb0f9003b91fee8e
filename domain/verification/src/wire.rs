//! Workflows, decisions and reviews.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::replay::ErasedVerification;
use crate::request::ValidatedClaim;
use crate::review::{
    DismissalRecord, ResolutionRecord, ReviewCase, ReviewComment, ReviewResolution, ReviewState,
    RevocationRecord,
};
use crate::review_rule::ReviewRuleMismatch;
use crate::verification_record::StatedValue;
use crate::{AxisReason, DecisionInputs, Envelope};
use domain_base::decimal::Decimal;
use domain_base::page::PageLimit;
use domain_base::problem::ProblemDocument;
use domain_ground::id::{SourceId, WorkflowId};
use domain_ground::value::AxisValue;
use domain_ground::version_name::ReviewRuleRef;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
// utoipa maps every type with the name `AxisValue` to arbitrary JSON

/// One line of the answer of `POST /v1/verify:batch`: an envelope or a problem.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct VerifyBatchAnswer {
    /// The number of the line in the request, from 1.
    pub line: u64,
    /// The envelope, of any `kind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<Envelope>)]
    pub envelope: Option<Box<RawValue>>,
    /// The problem, if the request was not decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Option<ProblemDocument>)]
    pub problem: Option<Box<RawValue>>,
}

/// The decisions of one execution.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ExplainResponse {
    /// The decisions in their order: two if the workflow answers before its sources do, otherwise one.
    pub decisions: Vec<ExplainedDecision>,
    /// The decisions that cannot be computed again, because their inputs or their envelopes were erased; absent if there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<ErasedVerification>,
}

/// A decision, taken again from the log.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ExplainedDecision {
    /// All inputs of the decision.
    pub inputs: Box<DecisionInputs>,
    /// The envelope that was returned.
    pub envelope: Box<Envelope>,
    /// Whether the inputs give the same envelope now, to the byte.
    pub reproduced: bool,
}

/// The query of `GET /v1/reviews`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReviewsParams {
    /// Only reviews that are neither resolved nor dismissed; the default.
    #[serde(default = "open_only")]
    pub open: bool,
    /// Only reviews of this workflow.
    pub workflow: Option<WorkflowId>,
    /// Only reviews after this one in the list, which begins with the newest.
    pub after: Option<String>,
    /// The most reviews in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

const fn open_only() -> bool {
    true
}

/// A review without the full answers of its sources.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReviewSummary {
    /// The execution id of the decision that opened it.
    pub review_id: String,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// The subject, by its identity axes.
    #[serde(rename = "where")]
    pub subject: BTreeMap<String, AxisValue>,
    /// The time at which the values hold; absent for the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// The time by which the data was known; absent for all that is known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<Timestamp>,
    /// The axes to decide, each with its reasons.
    pub axes: BTreeMap<String, BTreeSet<AxisReason>>,
    /// The values of each source on those axes.
    pub values: BTreeMap<SourceId, BTreeMap<String, StatedValue>>,
    /// The claimed values on those axes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, ValidatedClaim>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The reviewer who resolved it; absent if it is open or dismissed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    /// The name of that reviewer; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by_name: Option<String>,
    /// When it was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Timestamp>,
    /// When the resolution was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The reviewer who closed it without a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed_by: Option<String>,
    /// The name of that reviewer; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed_by_name: Option<String>,
    /// When it was dismissed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed_at: Option<Timestamp>,
}

/// A review with its title and its outcome.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReviewReport {
    /// What the review is about, in words.
    pub title: String,
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

impl ReviewReport {
    /// The report of a review in this state.
    #[must_use]
    pub fn new(title: String, state: ReviewState) -> Self {
        let ReviewState { review, resolved, revoked, dismissed, comments } = state;
        Self { title, review, resolved, revoked, dismissed, comments }
    }

    /// The state of the review.
    #[must_use]
    pub fn into_state(self) -> ReviewState {
        let Self { title: _, review, resolved, revoked, dismissed, comments } = self;
        ReviewState { review, resolved, revoked, dismissed, comments }
    }
}

/// The evidence of a review that is not a part of it.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReviewEvidence {
    /// What the review is about, in words.
    pub title: String,
    /// The UCUM codes of the units of the axes to decide, by the paths of the axes.
    pub units: BTreeMap<String, String>,
    /// The texts of the raw records from which the candidates were read, by source, each cut to 4,096 bytes. Missing for a live
    /// source, and if the archive does not have the payload.
    pub raw_texts: BTreeMap<SourceId, String>,
    /// The present answers of ingested sources whose answer has changed since the review was opened, for the time of the question, and of
    /// all sources that may no longer answer. Empty for a question with `known_at`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed: BTreeMap<SourceId, ReviewedSourceAnswer>,
}

/// The present answer of a source in a review.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReviewedSourceAnswer {
    /// The version of the source; null if it has no record of the subject in force, or may not answer.
    pub version: Option<String>,
    /// The values of the axes to decide, by their paths. An axis without a value is missing.
    pub values: BTreeMap<String, AxisValue>,
}

impl From<ReviewState> for ReviewSummary {
    fn from(ReviewState { review, resolved, revoked, dismissed, comments: _ }: ReviewState) -> Self {
        let axes = review.axes;
        let values = review.candidates.into_iter().map(|(oracle_id, mut candidate)| {
            candidate.values.retain(|path, _| axes.contains_key(path));
            (oracle_id, candidate.values)
        });
        let values = values.filter(|(_, values)| !values.is_empty()).collect();
        let mut claimed = review.claimed;
        claimed.retain(|path, _| axes.contains_key(path));
        Self {
            review_id: review.review_id,
            workflow_id: review.workflow_id,
            subject: review.subject,
            point_in_time: review.point_in_time,
            known_at: review.known_at,
            axes,
            values,
            claimed,
            opened_at: review.opened_at,
            resolved_at: resolved.as_ref().map(|resolved| resolved.resolved_at),
            revoked_at: revoked.map(|revoked| revoked.revoked_at),
            resolved_by_name: resolved.as_ref().and_then(|resolved| resolved.verifier_name.clone()),
            resolved_by: resolved.map(|resolved| resolved.verifier_id),
            dismissed_at: dismissed.as_ref().map(|dismissed| dismissed.dismissed_at),
            dismissed_by_name: dismissed.as_ref().and_then(|dismissed| dismissed.verifier_name.clone()),
            dismissed_by: dismissed.map(|dismissed| dismissed.verifier_id),
        }
    }
}

/// The query of `GET /v1/review-rules`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReviewRulesParams {
    /// Only rules after this one in the list, which is in the order of their ids.
    pub after: Option<String>,
    /// The most rules in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

/// The result of a review rule for an open review.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuledReview {
    /// The review.
    pub review_id: String,
    /// The rule with its version.
    pub rule: ReviewRuleRef,
    /// The largest difference between two values on each axis, in percent of the larger magnitude, cut to 6 digits after the point.
    /// Without an axis whose values cannot be compared.
    pub differences_percent: BTreeMap<String, Decimal>,
    /// The resolution by the rule, to be sent as it is or with another reason; null if the rule does not apply.
    pub resolution: Option<ReviewResolution>,
    /// Why the rule does not apply; null if it does.
    pub mismatch: Option<RuleMismatchReport>,
}

/// Why a review rule does not apply to a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleMismatchReport {
    /// The reason as one word, such as `too_large`.
    pub reason: String,
    /// The reason with its values.
    pub detail: String,
}

impl From<&ReviewRuleMismatch> for RuleMismatchReport {
    fn from(mismatch: &ReviewRuleMismatch) -> Self {
        Self { reason: mismatch.into_str().to_owned(), detail: mismatch.to_string() }
    }
}
