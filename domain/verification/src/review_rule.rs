//! Review rules: registered documents, immutable under their version, by which a reviewer resolves many reviews alike.

use crate::oracle_call::CallOutcome;
use crate::reason::AxisReason;
use crate::review::{ReviewCase, ReviewResolution, VALIDITY_MAX_S};
use crate::verification_record::{CandidateAnswer, VerificationTier};
use domain_base::decimal::{self, Decimal, DecimalError, DecimalNumber, Rounding};
use domain_base::document::{Document, DocumentVersions};
use domain_base::text_form::is_blank;
use domain_ground::axis::Axis;
use domain_ground::id::{ReviewRuleId, SourceId, WorkflowId};
use domain_ground::ontology::Ontology;
use domain_ground::value::TypedValue;
use domain_ground::version_name::ReviewRuleRef;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The maximum number of workflows of a rule.
pub const WORKFLOWS_MAX: usize = 64;
/// The maximum length of a description, in bytes.
pub const DESCRIPTION_MAX_BYTES: usize = 1024;
/// The maximum number of digits after the point of `difference_below_percent`. Differences are cut to as many, so a cut difference is
/// below the limit if and only if the exact one is.
pub const PERCENT_PLACES: i32 = 6;
const DAY_S: u64 = 86_400;
/// The maximum validity, in days.
pub const VALID_FOR_MAX_DAYS: u64 = VALIDITY_MAX_S / DAY_S;

/// A review rule: one version of the condition on which reviews are resolved, and of the value that is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewRule {
    /// The id, the same for all versions.
    pub review_rule_id: ReviewRuleId,
    /// The version. The newest version is the one with the highest number.
    #[schema(minimum = 1)]
    pub version: u32,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The workflows whose reviews it may resolve.
    pub workflows: Vec<WorkflowId>,
    /// The value that is taken.
    pub take: TakenValue,
    /// The percentage of the larger magnitude below which the difference of any two values of an axis must be: more than 0, at most 100,
    /// with up to 6 digits after the point.
    #[serde(deserialize_with = "decimal::required")]
    #[schema(value_type = DecimalNumber)]
    pub difference_below_percent: Decimal,
    /// The validity of a resolution, in days.
    pub valid_for_days: u64,
}

/// The value that a rule takes: `newer_release` is that of the latest release, `source` that of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TakenValue {
    /// The value of the latest release.
    NewerRelease,
    /// The value of this source.
    Source(SourceId),
}

/// Why a rule is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewRuleError {
    /// The version is 0.
    #[error("`version` is 0 (1 to {} allowed)", u32::MAX)]
    Version,
    /// The description is blank or too long.
    #[error(
        "`description` has {bytes} bytes, or only white space (1 to {DESCRIPTION_MAX_BYTES} bytes allowed)"
    )]
    Description {
        /// The length of the description, in bytes.
        bytes: usize,
    },
    /// The number of workflows is not allowed.
    #[error("`workflows` has {given} items (1 to {WORKFLOWS_MAX} allowed)")]
    WorkflowCount {
        /// The number of workflows.
        given: usize,
    },
    /// A workflow is named twice.
    #[error("`workflows` has {0} twice; write it once")]
    WorkflowTwice(WorkflowId),
    /// The percentage is out of range, or has too many digits.
    #[error(
        "`difference_below_percent` is {0} (more than 0, at most 100, with up to {PERCENT_PLACES} digits after the point, allowed)"
    )]
    Percent(Decimal),
    /// The validity is out of range.
    #[error("`valid_for_days` is {0} (1 to {VALID_FOR_MAX_DAYS} allowed)")]
    Validity(u64),
}

/// Why a rule does not give a resolution of a review.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ReviewRuleMismatch {
    /// The rule is not for the workflow of the review.
    #[error("the rule is not for workflow {workflow_id}")]
    OtherWorkflow { workflow_id: WorkflowId },
    /// A reviewer must decide for another reason than a difference between sources.
    #[error("`{axis}` needs a reviewer for another reason than a difference: {}", .reason.describe())]
    OtherReason { axis: String, reason: AxisReason },
    /// A claim differs from the sources.
    #[error("{claimed_by} claims a value of `{axis}`")]
    Claimed { axis: String, claimed_by: String },
    /// The values are not numbers.
    #[error("the values of `{axis}` are not numbers")]
    NotNumeric { axis: String },
    /// The values have different definitions.
    #[error("the values of `{axis}` have different definitions")]
    OtherDefinitions { axis: String },
    /// Fewer than two sources have a value.
    #[error("fewer than two sources have a value of `{axis}`")]
    TooFewValues { axis: String },
    /// A source did not answer, so its value is a cached one.
    #[error("{oracle_id} did not answer; its value of `{axis}` is a cached one")]
    NotAnswered { axis: String, oracle_id: SourceId },
    /// The difference cannot be computed exactly.
    #[error("the difference between the values of `{axis}` cannot be computed exactly")]
    NotComputable { axis: String },
    /// The difference is too large.
    #[error("the values of `{axis}` differ by {percent} %, which is not below {limit} %")]
    TooLarge {
        axis: String,
        /// The difference in percent, cut to [`PERCENT_PLACES`] digits after the point.
        percent: Decimal,
        limit: Decimal,
    },
    /// A value has no date of a release: its source is live.
    #[error("{oracle_id} is live, so its value of `{axis}` has no date of a release")]
    NoReleaseDate { axis: String, oracle_id: SourceId },
    /// The latest releases have the same date and different values.
    #[error("the latest releases have the same date ({released_at}) and different values of `{axis}`")]
    SameReleaseDate { axis: String, released_at: Timestamp },
    /// The source of the rule has no value.
    #[error("{oracle_id} has no value of `{axis}`")]
    NoValueOfSource { axis: String, oracle_id: SourceId },
    /// The resolution would be valid for longer than the axis allows.
    #[error(
        "a value of `{axis}` is valid for at most {most_seconds} s, which is less than `valid_for_days` of the rule"
    )]
    LongValidity { axis: String, most_seconds: u64 },
    /// A source has another answer now than in the review, or only one of both.
    #[error("the answers of {} have changed since the review was opened; dismiss it, and verify again", joined(.sources))]
    EvidenceChanged { sources: BTreeSet<SourceId> },
    /// A later release has confirmed a value since, so the dates of the review are not the present ones.
    #[error("a later release of {} has confirmed its value since the review was opened; dismiss it, and verify again", joined(.sources))]
    ReleasedAgain { sources: BTreeSet<SourceId> },
    /// The resolution would also resolve another review of the same subject: a newer one for which the rule does not give it, or an older
    /// one that is not about a difference between sources.
    #[error("the resolution would also resolve review {review_id}, which the rule must not resolve")]
    OtherReview { review_id: String },
    /// The request has another resolution than the rule gives.
    #[error("the rule gives {} for {valid_for_seconds} s, and nothing else", joined_values(.values))]
    OtherResolution { values: BTreeMap<String, Json>, valid_for_seconds: u64 },
}

fn joined(sources: &BTreeSet<SourceId>) -> String {
    sources.iter().map(SourceId::as_str).collect::<Vec<_>>().join(", ")
}

fn joined_values(values: &BTreeMap<String, Json>) -> String {
    let value = |(axis, value): (&String, &Json)| {
        format!("{axis} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    values.iter().map(value).collect::<Vec<_>>().join(", ")
}

impl Document for ReviewRule {
    const KIND: &'static str = "review_rule";
    const DISTINGUISHING_MEMBER: &'static str = "review_rule_id";
    const VERSIONS: DocumentVersions = DocumentVersions::Numbered;

    fn document_id(&self) -> String {
        self.reference().to_string()
    }
}

/// The value of a source that counts on an axis.
struct CountedValue<'r> {
    oracle_id: &'r SourceId,
    candidate: &'r CandidateAnswer,
    number: Decimal,
}

impl ReviewRule {
    /// The reference to this version.
    #[must_use]
    pub fn reference(&self) -> ReviewRuleRef {
        ReviewRuleRef { id: self.review_rule_id.clone(), version: self.version }
    }

    /// Validates a document.
    ///
    /// # Errors
    /// The first fault.
    pub fn validate(&self) -> Result<(), ReviewRuleError> {
        if self.version == 0 {
            return Err(ReviewRuleError::Version);
        }
        let is_faulty = |text: &&String| is_blank(text) || text.len() > DESCRIPTION_MAX_BYTES;
        if let Some(text) = self.description.as_ref().filter(is_faulty) {
            return Err(ReviewRuleError::Description { bytes: text.len() });
        }
        if !(1..=WORKFLOWS_MAX).contains(&self.workflows.len()) {
            return Err(ReviewRuleError::WorkflowCount { given: self.workflows.len() });
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = self.workflows.iter().find(|workflow_id| !known.insert(*workflow_id)) {
            return Err(ReviewRuleError::WorkflowTwice(twice.clone()));
        }
        let percent = &self.difference_below_percent;
        let is_allowed = *percent > Decimal::from(0)
            && *percent <= Decimal::from(100)
            && percent.places() <= PERCENT_PLACES;
        if !is_allowed {
            return Err(ReviewRuleError::Percent(percent.clone()));
        }
        let is_valid = (1..=VALID_FOR_MAX_DAYS).contains(&self.valid_for_days);
        is_valid.then_some(()).ok_or(ReviewRuleError::Validity(self.valid_for_days))
    }

    /// The resolution of `review` that the rule gives, with the rule as its reason. `ontology` is that of the review.
    ///
    /// # Errors
    /// The first reason why the rule does not apply.
    pub fn resolve(
        &self,
        review: &ReviewCase,
        ontology: &Ontology,
    ) -> Result<ReviewResolution, ReviewRuleMismatch> {
        if !self.workflows.contains(&review.workflow_id) {
            return Err(ReviewRuleMismatch::OtherWorkflow { workflow_id: review.workflow_id.clone() });
        }
        let mut values = BTreeMap::new();
        for path in review.axes.keys() {
            let number = self.taken_number(review, ontology, path)?;
            values.insert(path.clone(), Json::String(number.to_string()));
        }
        let rule = self.reference();
        Ok(ReviewResolution {
            values,
            definitions: BTreeMap::new(),
            own_value: false,
            reason: format!("review rule {rule}"),
            valid_for_seconds: self.valid_for_seconds(),
            rule: Some(rule),
        })
    }

    const fn valid_for_seconds(&self) -> u64 {
        self.valid_for_days * DAY_S
    }

    /// The number that the rule takes on the axis at `path`.
    fn taken_number(
        &self,
        review: &ReviewCase,
        ontology: &Ontology,
        path: &str,
    ) -> Result<Decimal, ReviewRuleMismatch> {
        let named = || path.to_owned();
        check_reason(review, path)?;
        let axis = ontology.axis(path).filter(|axis| axis.kind.is_numeric());
        let axis = axis.ok_or_else(|| ReviewRuleMismatch::NotNumeric { axis: named() })?;
        if let Some(most_seconds) = axis.max_ttl_seconds.filter(|most| self.valid_for_seconds() > *most) {
            return Err(ReviewRuleMismatch::LongValidity { axis: named(), most_seconds });
        }
        let counted = counted_values(review, axis, path)
            .ok_or_else(|| ReviewRuleMismatch::NotNumeric { axis: named() })?;
        let is_cached =
            |value: &&CountedValue<'_>| review.sources.get(value.oracle_id) != Some(&CallOutcome::Answered);
        if let Some(cached) = counted.iter().find(is_cached) {
            let oracle_id = cached.oracle_id.clone();
            return Err(ReviewRuleMismatch::NotAnswered { axis: named(), oracle_id });
        }
        if counted.len() < 2 {
            return Err(ReviewRuleMismatch::TooFewValues { axis: named() });
        }
        let percent =
            largest_difference(&counted).map_err(|_| ReviewRuleMismatch::NotComputable { axis: named() })?;
        if percent >= self.difference_below_percent {
            let limit = self.difference_below_percent.clone();
            return Err(ReviewRuleMismatch::TooLarge { axis: named(), percent, limit });
        }
        match &self.take {
            TakenValue::NewerRelease => newest_number(&counted, path),
            TakenValue::Source(oracle_id) => {
                let of_source = counted.into_iter().find(|value| value.oracle_id == oracle_id);
                of_source.map(|value| value.number).ok_or_else(|| ReviewRuleMismatch::NoValueOfSource {
                    axis: named(),
                    oracle_id: oracle_id.clone(),
                })
            }
        }
    }
}

/// Checks that a reviewer must decide `review` only because values of sources with the same definition differ, however much.
///
/// # Errors
/// An axis has another reason, a claim, or different definitions.
pub fn check_reasons(review: &ReviewCase) -> Result<(), ReviewRuleMismatch> {
    review.axes.keys().try_for_each(|path| check_reason(review, path))
}

/// As [`check_reasons`], for the axis at `path`.
fn check_reason(review: &ReviewCase, path: &str) -> Result<(), ReviewRuleMismatch> {
    let axis = path.to_owned();
    let reasons = review.axes.get(path).into_iter().flatten();
    if let Some(reason) = reasons.copied().find(|reason| !is_of_difference(*reason)) {
        return Err(ReviewRuleMismatch::OtherReason { axis, reason });
    }
    if let Some(claim) = review.claimed.get(path) {
        return Err(ReviewRuleMismatch::Claimed { axis, claimed_by: claim.claimed_by.clone() });
    }
    if review.is_definition_required(path) {
        return Err(ReviewRuleMismatch::OtherDefinitions { axis });
    }
    Ok(())
}

/// The largest difference between two values on each axis of `review`, in percent of the larger magnitude, cut to [`PERCENT_PLACES`]
/// digits after the point. Without axes whose values are not numbers, or whose difference cannot be computed.
#[must_use]
pub fn differences_percent(review: &ReviewCase, ontology: &Ontology) -> BTreeMap<String, Decimal> {
    let difference = |path: &String| {
        let axis = ontology.axis(path).filter(|axis| axis.kind.is_numeric())?;
        let counted = counted_values(review, axis, path).filter(|counted| counted.len() > 1)?;
        Some((path.clone(), largest_difference(&counted).ok()?))
    };
    review.axes.keys().filter_map(difference).collect()
}

/// Whether a reviewer must decide because values of sources differ, and for no other reason.
const fn is_of_difference(reason: AxisReason) -> bool {
    matches!(
        reason,
        AxisReason::DeltaThreshold
            | AxisReason::RatioThreshold
            | AxisReason::RequireHuman
            | AxisReason::RecencyUndecided
            | AxisReason::PrecedenceUnclear
            | AxisReason::StrategyImpossible
            | AxisReason::CascadeLimit
            | AxisReason::OracleInvalidated
    )
}

/// The values of the trusted sources on an axis; `None` if one of them is not a number.
fn counted_values<'r>(review: &'r ReviewCase, axis: &Axis, path: &str) -> Option<Vec<CountedValue<'r>>> {
    let trusted = review
        .candidates
        .iter()
        .filter(|(_, candidate)| candidate.record.oracle_tier != VerificationTier::Unverified);
    let stated = trusted
        .filter_map(|(oracle_id, candidate)| Some((oracle_id, candidate, candidate.values.get(path)?)));
    let counted = stated.map(|(oracle_id, candidate, stated)| match stated.value.typed(axis) {
        Ok(TypedValue::Number(number)) => Some(CountedValue { oracle_id, candidate, number }),
        _ => None,
    });
    counted.collect()
}

/// The largest difference between two of the values, in percent of the larger magnitude of both.
fn largest_difference(counted: &[CountedValue<'_>]) -> Result<Decimal, DecimalError> {
    let mut largest = Decimal::from(0);
    for (place, one) in counted.iter().enumerate() {
        for other in counted.iter().skip(place + 1) {
            largest = largest.max(percent_between(&one.number, &other.number)?);
        }
    }
    Ok(largest)
}

/// The difference of two numbers in percent of the larger magnitude, cut to [`PERCENT_PLACES`] digits after the point. Equal numbers
/// have the difference 0, and a number and zero 100.
///
/// # Errors
/// The numbers are too large, or too close to zero.
pub fn percent_between(one: &Decimal, other: &Decimal) -> Result<Decimal, DecimalError> {
    let zero = Decimal::from(0);
    if one == other {
        return Ok(zero);
    }
    let (low, high) = if one < other { (one, other) } else { (other, one) };
    let larger = high.clone().max(zero.checked_sub(low)?);
    // the division comes first, since a hundredfold difference can exceed the limits of a decimal
    let part = high.checked_sub(low)?.div_rounded(&larger, PERCENT_PLACES + 2, Rounding::Truncate)?;
    part.checked_mul(&Decimal::from(100))
}

/// The value of the latest release, by the date of the release.
fn newest_number(counted: &[CountedValue<'_>], path: &str) -> Result<Decimal, ReviewRuleMismatch> {
    // the date of a live answer is the time of its retrieval
    if let Some(live) = counted.iter().find(|value| value.candidate.provenance.is_none()) {
        let (axis, oracle_id) = (path.to_owned(), live.oracle_id.clone());
        return Err(ReviewRuleMismatch::NoReleaseDate { axis, oracle_id });
    }
    let released_at = counted.iter().map(|value| value.candidate.observed_at).max();
    let newest = counted.iter().filter(|value| Some(value.candidate.observed_at) == released_at);
    let numbers: BTreeSet<_> = newest.map(|value| &value.number).collect();
    match (numbers.first(), numbers.len()) {
        (Some(number), 1) => Ok((*number).clone()),
        _ => Err(ReviewRuleMismatch::SameReleaseDate {
            axis: path.to_owned(),
            released_at: released_at.unwrap_or(Timestamp::MIN),
        }),
    }
}
