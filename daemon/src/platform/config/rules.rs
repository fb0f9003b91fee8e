//! The configuration of the rules.

use super::{ConfigError, not_allowed_error};
use oracled_actors::rules::RulesConfig;
use oracled_domain::rules::{RuleId, RuleSettings};
use serde::{Deserialize, Serialize};
use strum::VariantNames;
use utoipa::ToSchema;

/// The rules that apply if a request names none, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct RulesProfile(Vec<RuleId>);

impl TryFrom<Vec<String>> for RulesProfile {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let ids: Result<Vec<RuleId>, _> = words.iter().map(|word| word.parse()).collect();
        ids.map(Self).map_err(|_: oracled_domain::rules::UnknownRuleError| {
            format!("an entry is not a rule; allowed: {}", RuleId::VARIANTS.join(", "))
        })
    }
}

impl From<RulesProfile> for Vec<String> {
    fn from(profile: RulesProfile) -> Self {
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
    pub profile: RulesProfile,
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
        Self { profile: RulesProfile(profile), unsupported_max, compiled_bytes: 64 * 1024 * 1024 }
    }
}

impl RulesSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let RulesProfile(profile) = &self.profile;
        if let Some(rule) = RuleId::first_repeated(profile) {
            return Err(not_allowed_error("rules.profile", format_args!("`{rule}` twice"), "each rule once"));
        }
        if profile.is_empty() {
            return Err(not_allowed_error("rules.profile", "empty", "at least one rule"));
        }
        Ok(())
    }

    /// The defaults for checks.
    #[must_use]
    pub fn settings(&self) -> RuleSettings {
        let Self { profile: RulesProfile(profile), unsupported_max, .. } = self.clone();
        RuleSettings { unsupported_max, profile }
    }

    /// The configuration of the rules service.
    #[must_use]
    pub fn to_config(&self) -> RulesConfig {
        RulesConfig { settings: self.settings(), compiled_bytes: self.compiled_bytes }
    }
}
