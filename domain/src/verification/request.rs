//! Requests: which axes of which thing are to be verified, and what somebody claims of them.

use super::workflow::Workflow;
use crate::base::blank::is_blank;
use crate::base::moment::{self, Moment, TimeAhead, check_not_ahead};
use crate::base::wording::excerpt;
use crate::ground::axis::Axis;
use crate::ground::id::WorkflowId;
use crate::ground::ontology::Ontology;
use crate::ground::query::{Written, as_written, typed};
use crate::ground::value::Value;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// The most axes of one request.
pub const AXES_MAX: usize = 64;
/// The longest name of who claims something, in bytes.
pub const CLAIMED_BY_MAX_BYTES: usize = 256;
/// The longest question, as JSON, in bytes: the log has it with each decision.
pub const QUESTION_MAX_BYTES: usize = 64 << 10;

/// A request as it is made: which axes of which thing are to be verified, and by which workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    /// By which workflow.
    pub workflow: WorkflowId,
    /// Which thing: the values of identity axes; numbers are taken as they are written, or not at all.
    #[serde(rename = "where", deserialize_with = "values_as_written")]
    #[schema(value_type = BTreeMap<String, Written>)]
    pub thing: BTreeMap<String, Json>,
    /// What of it; of a keyed group one value each (`nutrients.protein.amount`).
    pub axes: Vec<String>,
    /// What somebody claims, by axes that are asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, Claimed>,
    /// As it was then; now where it is left out. A day without a time is its midnight in UTC.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub point_in_time: Option<Timestamp>,
    /// Use only what the daemon had ingested by this time; all that it knows if absent.
    #[serde(default, deserialize_with = "moment::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>)]
    pub known_at: Option<Timestamp>,
}

/// A claim as it is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claimed {
    /// The value; a number is taken as it is written, or not at all.
    #[serde(deserialize_with = "as_written")]
    #[schema(value_type = Written)]
    pub value: Json,
    /// Who says so.
    pub claimed_by: String,
    /// Whether they have confirmed it when asked.
    #[serde(default)]
    pub confirmed: bool,
}

/// A request that can be meant: every value is one of its axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Which thing, as far as the request says.
    #[serde(rename = "where")]
    pub thing: BTreeMap<String, Value>,
    /// What of it, in the order asked for.
    pub axes: Vec<String>,
    /// What somebody claims.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claimed: BTreeMap<String, Claim>,
    /// As it was then; now where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point_in_time: Option<Timestamp>,
    /// Use only what the daemon had ingested by this time; all that it knows if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_at: Option<Timestamp>,
}

/// A claim that can be meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The value.
    pub value: Value,
    /// Who says so.
    pub claimed_by: String,
    /// Whether they have confirmed it when asked.
    pub confirmed: bool,
}

/// Why a request cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It is of another workflow.
    #[error("`workflow` is {named}, and not {given}")]
    OtherWorkflow {
        /// What it names.
        named: WorkflowId,
        /// Against which it is read.
        given: WorkflowId,
    },
    /// No axes are asked for, or too many.
    #[error("`axes` names {0} axes; 1 to {AXES_MAX} are taken")]
    Axes(usize),
    /// An axis is asked for twice.
    #[error("`axes` names `{0}` twice")]
    Twice(String),
    /// An axis cannot be named there.
    #[error("`{field}`: `{axis}` is not allowed; allowed: {allowed}")]
    UnknownAxis {
        /// Where it is named.
        field: &'static str,
        /// Which one.
        axis: String,
        /// Those that may be named there.
        allowed: String,
    },
    /// A group is asked for as a whole.
    #[error("`axes`: `{0}` is a group; one of its values is asked for, with a key in the place of `*`")]
    Group(String),
    /// A value is none of its axis.
    #[error("`{field}.{axis}`: {fault}")]
    Value {
        /// Where it stands.
        field: &'static str,
        /// On which axis.
        axis: String,
        /// What is wrong with it.
        fault: String,
    },
    /// It names a time in the future.
    #[error(transparent)]
    Ahead(#[from] TimeAhead),
    /// It is longer than what is logged of each question.
    #[error("what is asked has {0} bytes as JSON; at the most {QUESTION_MAX_BYTES}")]
    Long(usize),
    /// It is not said who claims something.
    #[error("`claimed.{0}.claimed_by` has 1 to {CLAIMED_BY_MAX_BYTES} bytes")]
    Claimant(String),
}

impl VerifyRequest {
    /// What it means in `workflow`, over `ontology`, at `now`. A `where` that leaves identity axes out can be meant; it does not
    /// fix one thing.
    ///
    /// # Errors
    /// Why it cannot be meant: the field, what is wrong and what is allowed.
    pub fn read(
        &self,
        workflow: &Workflow,
        ontology: &Ontology,
        now: Timestamp,
    ) -> Result<Question, BadRequest> {
        if self.workflow != workflow.workflow_id {
            let (named, given) = (self.workflow.clone(), workflow.workflow_id.clone());
            return Err(BadRequest::OtherWorkflow { named, given });
        }
        if !(1..=AXES_MAX).contains(&self.axes.len()) {
            return Err(BadRequest::Axes(self.axes.len()));
        }
        check_not_ahead("point_in_time", self.point_in_time, now)?;
        check_not_ahead("known_at", self.known_at, now)?;
        let mut seen = BTreeSet::new();
        for path in &self.axes {
            let axis = ontology.axis(path).filter(|axis| workflow.axes.contains(&axis.axis));
            let axis = axis.ok_or_else(|| unknown("axes", path, workflow.axes.iter()))?;
            if axis.is_group() && axis.axis == *path {
                return Err(BadRequest::Group(excerpt(path)));
            }
            if !seen.insert(path) {
                return Err(BadRequest::Twice(excerpt(path)));
            }
        }
        let question = Question {
            thing: self.read_thing(ontology)?,
            axes: self.axes.clone(),
            claimed: self.read_claims(ontology)?,
            point_in_time: self.point_in_time,
            known_at: self.known_at,
        };
        let bytes = serde_json::to_vec(&question).map_or(usize::MAX, |json| json.len());
        if bytes > QUESTION_MAX_BYTES { Err(BadRequest::Long(bytes)) } else { Ok(question) }
    }

    fn read_thing(&self, ontology: &Ontology) -> Result<BTreeMap<String, Value>, BadRequest> {
        let read = |(name, value): (&String, &Json)| {
            let axis = ontology.identity().find(|axis| axis.axis == *name);
            let known = || unknown("where", name, ontology.identity().map(|axis| &axis.axis));
            Ok((name.clone(), read_value("where", name, value, axis.ok_or_else(known)?)?))
        };
        self.thing.iter().map(read).collect()
    }

    fn read_claims(&self, ontology: &Ontology) -> Result<BTreeMap<String, Claim>, BadRequest> {
        let read = |(name, claimed): (&String, &Claimed)| {
            let axis = ontology.axis(name).filter(|_| self.axes.contains(name));
            let axis = axis.ok_or_else(|| unknown("claimed", name, self.axes.iter()))?;
            let claimed_by = claimed.claimed_by.trim();
            if is_blank(claimed_by) || claimed_by.len() > CLAIMED_BY_MAX_BYTES {
                return Err(BadRequest::Claimant(excerpt(name)));
            }
            let value = read_value("claimed", name, &claimed.value, axis)?;
            let claim = Claim { value, claimed_by: claimed_by.to_owned(), confirmed: claimed.confirmed };
            Ok((name.clone(), claim))
        };
        self.claimed.iter().map(read).collect()
    }
}

/// Values by name, each as it is written.
pub(super) fn values_as_written<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Json>, D::Error> {
    #[derive(Deserialize)]
    struct Written(#[serde(deserialize_with = "as_written")] Json);
    let values = BTreeMap::<String, Written>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|(name, Written(value))| (name, value)).collect())
}

fn read_value(field: &'static str, name: &str, value: &Json, axis: &Axis) -> Result<Value, BadRequest> {
    let bad = |fault| BadRequest::Value { field, axis: excerpt(name), fault };
    Ok(typed(value, axis).map_err(bad)?.into_value())
}

fn unknown<'n>(field: &'static str, axis: &str, allowed: impl Iterator<Item = &'n String>) -> BadRequest {
    let allowed = allowed.map(|name| excerpt(name)).collect::<Vec<_>>().join(", ");
    BadRequest::UnknownAxis { field, axis: excerpt(axis), allowed }
}
