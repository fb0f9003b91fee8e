//! The parts of the policy beside the gate: of a tier, and of an application.

use crate::platform::config::{ConfigError, not_allowed_error};
use domain_rules::{RuleId, RuleIds};
use domain_verdict::label::ProductTier;
use domain_verdict::policy::FlagSelector;
use domain_verdict::tmm::OMEGA;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of the policy. A key that is not set has the value of the more general table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySection {
    /// Flags that hold an approved verdict, in place of `gate.hold`.
    pub hold: Option<Vec<String>>,
    /// Flags that refuse an approved verdict, in place of `gate.refuse`.
    pub refuse: Option<Vec<String>>,
    /// Minimum coherence in place of `gate.coherence_min`.
    pub coherence_min: Option<f64>,
    /// Rules that every verdict must pass, in place of `gate.rules`.
    #[schema(value_type = Option<Vec<String>>)]
    pub rules: Option<RuleIds>,
}

/// The policy of an application. A key that is not set has the value in `[gate.TIER]`, or else in `[gate]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationGateSection {
    /// Flags that hold an approved verdict, in place of `gate.hold`.
    pub hold: Option<Vec<String>>,
    /// Flags that refuse an approved verdict, in place of `gate.refuse`.
    pub refuse: Option<Vec<String>>,
    /// Minimum coherence in place of `gate.coherence_min`.
    pub coherence_min: Option<f64>,
    /// Rules that every verdict must pass, in place of `gate.rules`.
    #[schema(value_type = Option<Vec<String>>)]
    pub rules: Option<RuleIds>,
    /// The policy for quick verdicts.
    #[serde(skip_serializing_if = "PolicySection::is_empty")]
    pub quick: PolicySection,
    /// The policy for full verdicts.
    #[serde(skip_serializing_if = "PolicySection::is_empty")]
    pub full: PolicySection,
    /// The policy for strategy verdicts.
    #[serde(skip_serializing_if = "PolicySection::is_empty")]
    pub strategy: PolicySection,
}

impl PolicySection {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first fault in the table `table`.
    pub(super) fn check(&self, table: &str) -> Result<(), ConfigError> {
        for (key, words) in [("hold", &self.hold), ("refuse", &self.refuse)] {
            let is_unknown = |word: &String| word.parse::<FlagSelector>().is_err();
            if words.iter().flatten().any(is_unknown) {
                // a word is not shown, because it can be a misplaced secret
                let allowed = format!("a list of {}", FlagSelector::NAMES.join(", "));
                return Err(not_allowed_error(
                    format!("{table}.{key}"),
                    "a list with an unknown flag",
                    allowed,
                ));
            }
        }
        if let Some(rule) = self.rules.as_ref().and_then(|rules| RuleId::first_repeated(&rules.0)) {
            let key = format!("{table}.rules");
            return Err(not_allowed_error(key, format_args!("`{rule}` twice"), "each rule once"));
        }
        match self.coherence_min.filter(|minimum| !(*minimum > OMEGA && *minimum <= 1.0)) {
            Some(minimum) => {
                let allowed = format!("a number above {OMEGA} and at most 1");
                Err(not_allowed_error(format!("{table}.coherence_min"), minimum, allowed))
            }
            None => Ok(()),
        }
    }
}

impl ApplicationGateSection {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn common(&self) -> PolicySection {
        let Self { hold, refuse, coherence_min, rules, .. } = self.clone();
        PolicySection { hold, refuse, coherence_min, rules }
    }

    pub(super) const fn of(&self, tier: ProductTier) -> &PolicySection {
        match tier {
            ProductTier::Quick => &self.quick,
            ProductTier::Full => &self.full,
            ProductTier::Strategy => &self.strategy,
        }
    }
}
