//! One resolution of two values, as an envelope shows it.

use super::reason::AxisReason;
use super::tier::VerificationTier;
use super::workflow::ConflictStrategy;
use domain_base::decimal::Decimal;
use domain_ground::id::SourceId;
// utoipa maps every type with the name `AxisValue` to arbitrary JSON
use domain_ground::value::AxisValue;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// A conflict between two values, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConflictStep {
    /// The path of the axis.
    pub axis: String,
    /// The number of the step on the axis, from 1.
    pub number: u32,
    /// The standing side.
    pub standing: ConflictSide,
    /// The side that is compared with it.
    pub against: ConflictSide,
    /// The difference between both values, if they are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub delta: Option<Decimal>,
    /// Whether both sides have the same tier.
    pub relation: TierRelation,
    /// The strategy for such a conflict.
    pub strategy: ConflictStrategy,
    /// The outcome.
    pub outcome: ConflictStepOutcome,
    /// The standing value after the step; absent if the conflict is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub value: Option<AxisValue>,
    /// The reason why the conflict is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<AxisReason>,
}

/// One side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConflictSide {
    /// The oracles that have the value, or contributed to it.
    pub oracles: Vec<SourceId>,
    /// The value.
    pub value: AxisValue,
    /// The highest tier of the oracles, as it counts here.
    pub tier: VerificationTier,
}

/// How the tiers of two sides compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TierRelation {
    /// The tiers are the same.
    SameTier,
    /// The tiers differ.
    DifferentTier,
}

/// The outcome of a conflict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema, VariantArray, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ConflictStepOutcome {
    /// The standing value stays.
    Kept,
    /// The other value replaces the standing one.
    Replaced,
    /// The mean of both replaces the standing value.
    Averaged,
    /// A reviewer decides.
    Escalated,
    /// The dispute is reported, and not decided.
    Disputed,
}
