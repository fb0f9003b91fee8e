//! The trust tiers of sources.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The trust in a source: declared, never inferred (RFC, "Oracle Trust Hierarchy"). Tiers are ordered by trust.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OracleTier {
    /// Untrusted until validated.
    Unverified,
    /// Valid for a related domain only.
    CrossDomain,
    /// Supplementary.
    Secondary,
    /// Authoritative for the domain.
    Primary,
}

impl OracleTier {
    /// The next lower tier; the lowest tier stays the same.
    #[must_use]
    pub const fn lower(self) -> Self {
        match self {
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::CrossDomain,
            Self::CrossDomain | Self::Unverified => Self::Unverified,
        }
    }
}
