//! The configuration of the rules.

use crate::platform::config::{ConfigError, Configuration, Section, not_allowed_error};
use actors_rules::RulesConfig;
use domain_rules::{RuleId, RuleIds, RuleSettings};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

impl Section for RulesSection {
    fn key(&self) -> &'static str {
        "rules"
    }

    fn check(&self, _: &dyn Configuration) -> Vec<ConfigError> {
        let RuleIds(profile) = &self.profile;
        let (given, allowed) = match RuleId::first_repeated(profile) {
            Some(rule) => (format!("`{rule}` twice"), "each rule once"),
            None if profile.is_empty() => ("empty".to_owned(), "at least one rule"),
            None => return Vec::new(),
        };
        vec![not_allowed_error("rules.profile", given, allowed)]
    }
}

impl RulesSection {
    /// The configuration of the rules service.
    #[must_use]
    pub fn to_config(&self) -> RulesConfig {
        let Self { profile: RuleIds(profile), unsupported_max, compiled_bytes } = self.clone();
        RulesConfig { settings: RuleSettings { unsupported_max, profile }, compiled_bytes }
    }
}
