//! The ways on which a verdict comes to the gate.

use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// The path on which a verdict came to the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum GatePath {
    /// Handed in for delivery.
    Submit,
    /// Written to the cache by the routes of the service that oracled replaces.
    CacheWrite,
    /// Generated at a route's request, for its first delivery.
    Generate,
    /// Regenerated, since it was lost from the cache.
    Regen,
    /// Judged only.
    Check,
}

impl GatePath {
    /// The path's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::CacheWrite => "cache_write",
            Self::Generate => "generate",
            Self::Regen => "regen",
            Self::Check => "check",
        }
    }
}
