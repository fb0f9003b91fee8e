//! How far sources are trusted.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// How far a source is trusted. It is declared, not inferred (RFC, "Oracle Trust Hierarchy"); the order is that of trust.
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
    /// The tier below it; the lowest stays.
    #[must_use]
    pub const fn lower(self) -> Self {
        match self {
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::CrossDomain,
            Self::CrossDomain | Self::Unverified => Self::Unverified,
        }
    }
}
