//! The paths on which verdicts reach the gate.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The path on which a verdict reached the gate.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum GatePath {
    /// Submitted for delivery.
    Submit,
    /// Written to the cache by the routes of the service that oracled replaces.
    CacheWrite,
    /// Generated at a route's request, for its first delivery.
    Generate,
    /// Regenerated, because it was lost from the cache.
    Regen,
    /// Judged only, without delivery.
    Check,
    /// Generated to try a prompt template, without delivery.
    Try,
}
