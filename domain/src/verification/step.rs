//! One pairwise resolution, as an envelope tells it.

use super::reason::Reason;
use super::tier::Tier;
use super::workflow::Strategy;
use crate::base::decimal::Decimal;
use crate::ground::id::SourceId;
// utoipa takes whatever is called `Value` for any JSON
use crate::ground::value::Value as AxisValue;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// Two values in conflict, and what became of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// On which axis.
    pub axis: String,
    /// Its number there, from 1.
    pub number: u32,
    /// What stood so far.
    pub standing: Party,
    /// What it is held against.
    pub against: Party,
    /// How far apart the two are, where they are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delta: Option<Decimal>,
    /// Whether they are of one tier.
    pub relation: Relation,
    /// How such a conflict is settled.
    pub strategy: Strategy,
    /// What became of it.
    pub outcome: StepOutcome,
    /// What stands now; nothing where it is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<AxisValue>,
    /// Why it is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<Reason>,
}

/// One side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Who says so, or has become part of it.
    pub oracles: Vec<SourceId>,
    /// What.
    pub value: AxisValue,
    /// The highest tier among them, as it counts here.
    pub tier: Tier,
}

/// How the tiers of two sides stand to one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// They are the same.
    SameTier,
    /// They are not.
    DifferentTier,
}

/// What became of a conflict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, VariantArray, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum StepOutcome {
    /// What stood stands.
    Kept,
    /// The other one stands.
    Replaced,
    /// A mean of both stands.
    Averaged,
    /// A person decides.
    Escalated,
    /// Nobody decides.
    Disputed,
}
