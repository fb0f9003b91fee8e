//! Verification requests: the axes of one subject to verify, and claims about them.

use super::workflow::Workflow;
use domain_base::moment::{self, FutureTimeError, Moment, check_not_future};
use domain_base::text_form::is_blank;
use domain_base::wording::excerpt;
use domain_ground::axis::Axis;
use domain_ground::id::WorkflowId;
use domain_ground::ontology::Ontology;
use domain_ground::query::{WrittenValue, as_written, typed};
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use domain_ground::value::AxisValue;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// The maximum number of axes in one request.
pub const AXES_MAX: usize = 64;
/// The maximum length of `claimed_by`, in bytes.
pub const CLAIMED_BY_MAX_BYTES: usize = 256;
/// The maximum length of a question as JSON, in bytes. The log contains it with each decision.
pub const QUESTION_MAX_BYTES: usize = 64 << 10;

/// A verification request: the axes of one subject to verify, and the workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// The workflow.
    pub workflow: WorkflowId,
    /// The subject: the values of identity axes. A number that JSON would round is rejected; as a string, it keeps all its
    /// digits.
    #[serde(rename = "where", deserialize_with = "values_as_written")]
    #[schema(value_type = BTreeMap<String, WrittenValue>)]
    pub subject: BTreeMap<String, Json>,
    /// The paths of the axes to verify; in a keyed group, the path of one value (`nutrients.protein.amount`).
    pub axes: Vec<String>,
    /// Claims about requested axes, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, ClaimedValue>,
    /// The requested time; the present if absent. A day without a time means midnight in UTC.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub point_in_time: Option<Timestamp>,
    /// Use only what the daemon had ingested by this time; all that it knows if absent.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub known_at: Option<Timestamp>,
}

/// A claim about the value of an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimedValue {
    /// The claimed value. A number that JSON would round is rejected; as a string, it keeps all its digits.
    #[serde(deserialize_with = "as_written")]
    #[schema(value_type = WrittenValue)]
    pub value: Json,
    /// The claimant.
    pub claimed_by: String,
    /// Whether the claimant has confirmed the value when asked.
    #[serde(default)]
    pub confirmed: bool,
}

/// A validated request: each value is valid for its axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerificationQuestion {
    /// The subject, as far as the request identifies it.
    #[serde(rename = "where")]
    pub subject: BTreeMap<String, AxisValue>,
    /// The paths of the requested axes, in the order of the request.
    pub axes: Vec<String>,
    /// The claims, by the paths of axes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, ValidatedClaim>,
    /// The requested time; null for the present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// Use only what the daemon had ingested by this time; all that it knows if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<Timestamp>,
}

/// A validated claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidatedClaim {
    /// The claimed value.
    pub value: AxisValue,
    /// The claimant.
    pub claimed_by: String,
    /// Whether the claimant has confirmed the value when asked.
    pub confirmed: bool,
}

/// Why a request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyRequestError {
    /// The request is for another workflow.
    #[error("`workflow` is {named}, but must be {given}")]
    OtherWorkflow {
        named: WorkflowId,
        /// The workflow that validates the request.
        given: WorkflowId,
    },
    /// No axes are requested, or too many.
    #[error("`axes` names {0} axes; allowed: 1 to {AXES_MAX}")]
    Axes(usize),
    /// An axis is requested twice.
    #[error("`axes` names `{0}` twice")]
    Twice(String),
    /// An axis is not allowed in a field.
    #[error("`{field}`: `{axis}` is not allowed; allowed: {allowed}")]
    UnknownAxis {
        field: &'static str,
        axis: String,
        /// The allowed axes.
        allowed: String,
    },
    /// A group is requested as a whole.
    #[error("`axes`: `{0}` is a group; request one of its values, with a key in the place of `*`")]
    Group(String),
    /// A value is not valid for its axis.
    #[error("`{field}.{axis}`: {fault}")]
    Value { field: &'static str, axis: String, fault: String },
    /// The request names a time in the future.
    #[error(transparent)]
    Ahead(#[from] FutureTimeError),
    /// The question is too long for the log.
    #[error("the question has {0} bytes as JSON; allowed: at most {QUESTION_MAX_BYTES}")]
    Long(usize),
    /// A claim has no claimant, or the name of the claimant is too long.
    #[error("`claimed.{0}.claimed_by` is blank or too long (1 to {CLAIMED_BY_MAX_BYTES} bytes allowed)")]
    Claimant(String),
}

impl VerifyRequest {
    /// Validates the request in `workflow`, over `ontology`, at `now`. A `where` without some identity axes
    /// is valid, but does not identify one subject.
    ///
    /// # Errors
    /// The field, the fault and what is allowed.
    pub fn read(
        &self,
        workflow: &Workflow,
        ontology: &Ontology,
        now: Timestamp,
    ) -> Result<VerificationQuestion, VerifyRequestError> {
        if self.workflow != workflow.workflow_id {
            let (named, given) = (self.workflow.clone(), workflow.workflow_id.clone());
            return Err(VerifyRequestError::OtherWorkflow { named, given });
        }
        if !(1..=AXES_MAX).contains(&self.axes.len()) {
            return Err(VerifyRequestError::Axes(self.axes.len()));
        }
        check_not_future("point_in_time", self.point_in_time, now)?;
        check_not_future("known_at", self.known_at, now)?;
        let mut seen = BTreeSet::new();
        for path in &self.axes {
            let axis = ontology.axis(path).filter(|axis| workflow.axes.contains(&axis.axis));
            let axis = axis.ok_or_else(|| build_unknown_axis_error("axes", path, workflow.axes.iter()))?;
            if axis.is_group() && axis.axis == *path {
                return Err(VerifyRequestError::Group(excerpt(path)));
            }
            if !seen.insert(path) {
                return Err(VerifyRequestError::Twice(excerpt(path)));
            }
        }
        let question = VerificationQuestion {
            subject: self.read_subject(ontology)?,
            axes: self.axes.clone(),
            claimed: self.read_claims(ontology)?,
            point_in_time: self.point_in_time,
            known_at: self.known_at,
        };
        let bytes = serde_json::to_vec(&question).map_or(usize::MAX, |json| json.len());
        if bytes > QUESTION_MAX_BYTES { Err(VerifyRequestError::Long(bytes)) } else { Ok(question) }
    }

    fn read_subject(&self, ontology: &Ontology) -> Result<BTreeMap<String, AxisValue>, VerifyRequestError> {
        let read = |(name, value): (&String, &Json)| {
            let axis = ontology.identity().find(|axis| axis.axis == *name);
            let known =
                || build_unknown_axis_error("where", name, ontology.identity().map(|axis| &axis.axis));
            Ok((name.clone(), read_value("where", name, value, axis.ok_or_else(known)?)?))
        };
        self.subject.iter().map(read).collect()
    }

    fn read_claims(
        &self,
        ontology: &Ontology,
    ) -> Result<BTreeMap<String, ValidatedClaim>, VerifyRequestError> {
        let read = |(name, claimed): (&String, &ClaimedValue)| {
            let axis = ontology.axis(name).filter(|_| self.axes.contains(name));
            let axis = axis.ok_or_else(|| build_unknown_axis_error("claimed", name, self.axes.iter()))?;
            let claimed_by = claimed.claimed_by.trim();
            if is_blank(claimed_by) || claimed_by.len() > CLAIMED_BY_MAX_BYTES {
                return Err(VerifyRequestError::Claimant(excerpt(name)));
            }
            let value = read_value("claimed", name, &claimed.value, axis)?;
            let claim =
                ValidatedClaim { value, claimed_by: claimed_by.to_owned(), confirmed: claimed.confirmed };
            Ok((name.clone(), claim))
        };
        self.claimed.iter().map(read).collect()
    }
}

/// Reads values by name, each as it is written.
pub(super) fn values_as_written<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Json>, D::Error> {
    #[derive(Deserialize)]
    struct ExactJson(#[serde(deserialize_with = "as_written")] Json);
    let values = BTreeMap::<String, ExactJson>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|(name, ExactJson(value))| (name, value)).collect())
}

fn read_value(
    field: &'static str,
    name: &str,
    value: &Json,
    axis: &Axis,
) -> Result<AxisValue, VerifyRequestError> {
    let bad = |fault| VerifyRequestError::Value { field, axis: excerpt(name), fault };
    Ok(typed(value, axis).map_err(bad)?.into_value())
}

fn build_unknown_axis_error<'n>(
    field: &'static str,
    axis: &str,
    allowed: impl Iterator<Item = &'n String>,
) -> VerifyRequestError {
    let allowed = allowed.map(|name| excerpt(name)).collect::<Vec<_>>().join(", ");
    VerifyRequestError::UnknownAxis { field, axis: excerpt(axis), allowed }
}
