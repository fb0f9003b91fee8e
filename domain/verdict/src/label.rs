//! The terms of a verdict: tiers, labels and dimensions (seed: `tmm-crosscheck`, "Inputs").

use domain_base::wording::ParseTextError;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// The tier that the customer paid for. It determines the required fields of a verdict.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    Display,
    EnumString,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str, parse_err_fn = unknown_tier, parse_err_ty = ParseTextError)]
pub enum ProductTier {
    /// Quick Take: verdict and summary.
    Quick,
    /// Full Breakdown: quick, and five dimensions.
    Full,
    /// Strategy Session: full, and a strategy.
    Strategy,
}

impl ProductTier {
    /// All tiers, the smallest first.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Full, Self::Strategy];
}

fn unknown_tier(word: &str) -> ParseTextError {
    ParseTextError::new("a tier", word, "quick, full, strategy")
}

/// The label of a verdict, for the whole submission or for one dimension.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    Display,
    EnumString,
    utoipa::ToSchema,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
pub enum VerdictLabel {
    /// Coherent.
    Green,
    /// Coherent with reservations.
    Amber,
    /// Incoherent.
    Red,
    /// Anomalous stillness: a valid state, not a failure (invariant 8).
    Null,
}

impl VerdictLabel {
    /// All labels, in the seed's order.
    pub const ALL: [Self; 4] = [Self::Green, Self::Amber, Self::Red, Self::Null];
}

/// One of the five dimensions of a breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr, Display, EnumString)]
#[strum(const_into_str)]
pub enum VerdictDimension {
    Stability,
    Turbulence,
    /// "Change Rate", with its space.
    #[strum(to_string = "Change Rate")]
    ChangeRate,
    Completion,
    Curvature,
}

impl VerdictDimension {
    /// All dimensions, in the seed's order.
    pub const ALL: [Self; 5] =
        [Self::Stability, Self::Turbulence, Self::ChangeRate, Self::Completion, Self::Curvature];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tier_error_names_the_three_tiers() {
        let error = "platinum".parse::<ProductTier>().expect_err("not a tier").to_string();
        assert_eq!(error, "`platinum` is not a tier; allowed: quick, full, strategy");
    }

    #[test]
    fn label_parses_only_exact_spelling() {
        assert_eq!("NULL".parse(), Ok(VerdictLabel::Null));
        for near in ["green", " GREEN", "GREEN ", "Null", ""] {
            assert!(near.parse::<VerdictLabel>().is_err(), "{near:?}");
        }
    }

    #[test]
    fn tiers_and_labels_serialize_as_displayed() {
        for tier in ProductTier::ALL {
            assert_eq!(serde_json::to_string(&tier).expect("a word"), format!("\"{tier}\""));
        }
        for label in VerdictLabel::ALL {
            assert_eq!(serde_json::to_string(&label).expect("a word"), format!("\"{label}\""));
        }
    }
}
