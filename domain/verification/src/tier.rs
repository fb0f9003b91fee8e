//! The trust in an answer: the tier of its source or, above all of them, a reviewer's decision.

use domain_ground::source::OracleTier;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The trust in one answer, in ascending order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum VerificationTier {
    /// Untrusted: it decides nothing.
    Unverified,
    /// Valid for a related domain only.
    CrossDomain,
    /// Supplementary.
    Secondary,
    /// Authoritative for the domain.
    Primary,
    /// Decided by a reviewer.
    HumanLock,
}

impl VerificationTier {
    /// The next lower tier. The lowest tier stays, and so does `HumanLock`, which is not a tier of sources.
    #[must_use]
    pub const fn lower(self) -> Self {
        match self {
            Self::HumanLock => Self::HumanLock,
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::CrossDomain,
            Self::CrossDomain | Self::Unverified => Self::Unverified,
        }
    }

    /// The weight in `weighted_average`: 4, 2 or 1; `None` if the tier takes no part.
    #[must_use]
    pub const fn weight(self) -> Option<i64> {
        match self {
            Self::Primary => Some(4),
            Self::Secondary => Some(2),
            Self::CrossDomain => Some(1),
            Self::Unverified | Self::HumanLock => None,
        }
    }
}

impl From<OracleTier> for VerificationTier {
    fn from(tier: OracleTier) -> Self {
        match tier {
            OracleTier::Unverified => Self::Unverified,
            OracleTier::CrossDomain => Self::CrossDomain,
            OracleTier::Secondary => Self::Secondary,
            OracleTier::Primary => Self::Primary,
        }
    }
}
