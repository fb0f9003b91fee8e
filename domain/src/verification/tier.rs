//! How far an answer is trusted: its source's tier, and above all of them a person who decided.

use crate::ground::source::OracleTier;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use utoipa::ToSchema;

/// The trust in one answer; the order is that of trust.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Tier {
    /// Untrusted: it decides nothing.
    Unverified,
    /// Valid for a related domain only.
    CrossDomain,
    /// Supplementary.
    Secondary,
    /// Authoritative for the domain.
    Primary,
    /// A person has decided, having seen what the others say.
    HumanLock,
}

impl Tier {
    /// The tier below it; the lowest stays, and what a person decided is no source's.
    #[must_use]
    pub const fn lower(self) -> Self {
        match self {
            Self::HumanLock => Self::HumanLock,
            Self::Primary => Self::Secondary,
            Self::Secondary => Self::CrossDomain,
            Self::CrossDomain | Self::Unverified => Self::Unverified,
        }
    }

    /// What it weighs in `weighted_average`: 4, 2 and 1; nothing where it takes no part.
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

impl From<OracleTier> for Tier {
    fn from(tier: OracleTier) -> Self {
        match tier {
            OracleTier::Unverified => Self::Unverified,
            OracleTier::CrossDomain => Self::CrossDomain,
            OracleTier::Secondary => Self::Secondary,
            OracleTier::Primary => Self::Primary,
        }
    }
}
