//! The configuration of the rules.

use super::{ConfigError, not_allowed_error};
use oracled_actors::rules::RulesConfig;
use oracled_domain::rules::{RuleId, RuleSettings};
use serde::{Deserialize, Serialize};
use strum::VariantNames;
use utoipa::ToSchema;

/// A list of rules, in the order in which they apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct RuleIds(Vec<RuleId>);

impl RuleIds {
    pub(super) fn to_vec(&self) -> Vec<RuleId> {
        self.0.clone()
    }

    /// Checks that the list in `key` has each rule once.
    pub(super) fn check(&self, key: &str) -> Result<(), ConfigError> {
        RuleId::first_repeated(&self.0).map_or(Ok(()), |rule| {
            Err(not_allowed_error(key, format_args!("`{rule}` twice"), "each rule once"))
        })
    }
}

impl TryFrom<Vec<String>> for RuleIds {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let ids: Result<Vec<RuleId>, _> = words.iter().map(|word| word.parse()).collect();
        ids.map(Self).map_err(|_: oracled_domain::rules::UnknownRuleError| {
            format!("an entry is not a rule; allowed: {}", RuleId::VARIANTS.join(", "))
        })
    }
}

impl From<RuleIds> for Vec<String> {
    fn from(profile: RuleIds) -> Self {
        profile.0.iter().map(ToString::to_string).collect()
    }
}

/// The rules for text, and their limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesSection {
    /// The rules that apply if a request names no rules, in this order; in a variable separated by
    /// commas. The default is the seven published rules.
    #[schema(value_type = Vec<String>)]
    pub profile: RuleIds,
    /// Maximum number of unsupported claims, if a request sets no number or sets `CONFIG:UNSUPPORTED_MAX`.
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub unsupported_max: u64,
    /// Memory for compiled fact sets.
    #[schema(minimum = 1_048_576, maximum = 1_099_511_627_776u64)]
    pub compiled_bytes: u64,
}

impl Default for RulesSection {
    fn default() -> Self {
        let RuleSettings { unsupported_max, profile } = RuleSettings::default();
        Self { profile: RuleIds(profile), unsupported_max, compiled_bytes: 64 * 1024 * 1024 }
    }
}

impl RulesSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.profile.check("rules.profile")?;
        if self.profile.0.is_empty() {
            return Err(not_allowed_error("rules.profile", "empty", "at least one rule"));
        }
        Ok(())
    }

    /// The defaults for checks.
    #[must_use]
    pub fn settings(&self) -> RuleSettings {
        let Self { profile: RuleIds(profile), unsupported_max, .. } = self.clone();
        RuleSettings { unsupported_max, profile }
    }

    /// The configuration of the rules service.
    #[must_use]
    pub fn to_config(&self) -> RulesConfig {
        RulesConfig { settings: self.settings(), compiled_bytes: self.compiled_bytes }
    }
}
