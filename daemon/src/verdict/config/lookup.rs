//! The configuration of the look-up of sessions that are not registered.

use super::applications::ApplicationSections;
use super::models::{ModelSection, longest_deadline_ms};
use crate::platform::config::{ConfigError, Configuration, LimitsSection, Section, not_allowed_error};
use domain_verdict::lookup::{LookupDefinition, LookupSettings, LookupSettingsError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::ToSchema;

/// A payment service whose answers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LookupPreset {
    /// Stripe: `GET /v1/checkout/sessions/{session_id}`.
    Stripe,
}

/// The look-up of sessions that are not registered. A read of an unknown session asks the payment service for its tier,
/// query and address, and registers it. `ingestion.allow_local`, `ingestion.connect_s` and `ingestion.idle_s` also apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupSection {
    /// A payment service that gives the other keys of this table their defaults: `stripe`. Without it, `session_url`,
    /// `tier_path` and `query_paths` turn the look-up on.
    #[schema(value_type = LookupPreset)]
    pub preset: Option<LookupPreset>,
    /// URL of a session, with the variable `{session_id}`. For `stripe` the default is
    /// `https://api.stripe.com/v1/checkout/sessions/{session_id}`.
    pub session_url: Option<String>,
    /// Path of the tier in the answer, as in an adapter. For `stripe` the default is `$.metadata.tier`.
    pub tier_path: Option<String>,
    /// Paths of the parts of the query, which are joined. Only the last ones may be missing in an answer. For `stripe` the
    /// default is `$.metadata.query`.
    pub query_paths: Vec<String>,
    /// Path of the customer's address. For `stripe` the default is `$.customer_details.email`.
    pub email_path: Option<String>,
    /// Path of a value that an answer must have, with `required_value`. For `stripe` the default is `$.payment_status`.
    pub required_path: Option<String>,
    /// The value at `required_path`. For `stripe` the default is `paid` or `no_payment_required`.
    pub required_value: Option<String>,
    /// File with the bearer token of the payment service; for Stripe the secret key, or better a restricted key that can only
    /// read checkout sessions. systemd's credential `oracled_lookup-token` overrides this file. The file overrides the
    /// variable `LOOKUP_TOKEN`. Without a token, none is sent.
    #[schema(value_type = Option<String>)]
    pub token_file: Option<PathBuf>,
    /// Time limit of a look-up. Together with the longest `deadline_ms` of the models it is at most `limits.request_s`.
    #[schema(minimum = 100, maximum = 60_000)]
    pub timeout_ms: u64,
}

impl Default for LookupSection {
    fn default() -> Self {
        Self {
            preset: None,
            session_url: None,
            tier_path: None,
            query_paths: Vec::new(),
            email_path: None,
            required_path: None,
            required_value: None,
            token_file: None,
            timeout_ms: 2000,
        }
    }
}

impl Section for LookupSection {
    fn key(&self) -> &'static str {
        "lookup"
    }

    fn check(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        self.check_applications(all.section()).into_iter().collect()
    }

    fn check_limits(&self, all: &dyn Configuration) -> Vec<ConfigError> {
        let deadline_ms = longest_deadline_ms(all.section::<ModelSection>(), all.section());
        let checked = self.check_keys(all.section::<LimitsSection>().request_s, deadline_ms);
        checked.err().into_iter().collect()
    }
}

impl LookupSection {
    /// Whether unknown sessions are looked up.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.preset.is_some() || self.session_url.is_some()
    }

    /// The settings, with those of the preset for keys that are not set. `query_max_bytes` is the longest query.
    #[must_use]
    pub fn to_settings(&self, query_max_bytes: usize) -> LookupSettings {
        let preset = |key: &Option<String>, of_stripe: &str| {
            let default = self.preset.map(|LookupPreset::Stripe| of_stripe.to_owned());
            key.clone().or(default)
        };
        let mut query_paths = self.query_paths.clone();
        if query_paths.is_empty() {
            query_paths.extend(preset(&None, "$.metadata.query"));
        }
        let paid = ["paid", "no_payment_required"].map(ToOwned::to_owned).to_vec();
        let required_values = match (&self.required_value, self.preset) {
            (Some(value), _) => Some(vec![value.clone()]),
            (None, Some(LookupPreset::Stripe)) => Some(paid),
            (None, None) => None,
        };
        LookupSettings {
            session_url: preset(
                &self.session_url,
                "https://api.stripe.com/v1/checkout/sessions/{session_id}",
            )
            .unwrap_or_default(),
            tier_path: preset(&self.tier_path, "$.metadata.tier").unwrap_or_default(),
            query_paths,
            email_path: preset(&self.email_path, "$.customer_details.email"),
            required: preset(&self.required_path, "$.payment_status").zip(required_values),
            query_max_bytes,
        }
    }

    /// Checks the keys together. `request_s` is the time limit of a request, in seconds, and `deadline_ms` the longest of the
    /// models.
    fn check_keys(&self, request_s: u64, deadline_ms: u64) -> Result<(), ConfigError> {
        if !self.is_on() {
            let keys = [
                ("tier_path", self.tier_path.is_some()),
                ("query_paths", !self.query_paths.is_empty()),
                ("email_path", self.email_path.is_some()),
                ("required_path", self.required_path.is_some()),
                ("required_value", self.required_value.is_some()),
                ("token_file", self.token_file.is_some()),
            ];
            return match keys.into_iter().find(|(_, is_set)| *is_set) {
                None => Ok(()),
                Some((key, _)) => Err(not_allowed_error(
                    format!("lookup.{key}"),
                    "set without a payment service",
                    "`lookup.preset` or `lookup.session_url` with it",
                )),
            };
        }
        if self.preset.is_none() && self.required_path.is_some() != self.required_value.is_some() {
            let allowed = "`lookup.required_path` and `lookup.required_value` together";
            return Err(not_allowed_error(
                "lookup.required_path",
                if self.required_path.is_some() {
                    "set without `lookup.required_value`"
                } else {
                    "not set, but `lookup.required_value` is"
                },
                allowed,
            ));
        }
        if self.required_value.as_deref() == Some("") {
            return Err(not_allowed_error("lookup.required_value", "empty", "a text, for example `paid`"));
        }
        let max_ms = (request_s * 1000).saturating_sub(deadline_ms);
        if self.timeout_ms > max_ms {
            let allowed =
                format!("100 to {max_ms}: `limits.request_s` less the longest `deadline_ms` of the models");
            return Err(not_allowed_error("lookup.timeout_ms", self.timeout_ms, allowed));
        }
        LookupDefinition::new(&self.to_settings(usize::MAX)).map(drop).map_err(|error| {
            let allowed = match error.setting {
                "session_url" => "http:// or https://, a host, and a path with `{session_id}`",
                _ => "a path to one value, for example `$.metadata.tier`",
            };
            let LookupSettingsError { setting, fault } = error;
            ConfigError::NotUnderstood(format!("`lookup.{setting}`: {fault}; allowed: {allowed}"))
        })
    }

    /// The fault if the look-up and the applications do not fit together.
    fn check_applications(&self, applications: &ApplicationSections) -> Option<ConfigError> {
        let first = applications.iter().find(|(_, section)| section.lookup).map(|(name, _)| name);
        match first {
            Some(name) if !self.is_on() => Some(not_allowed_error(
                format!("applications.{name}.lookup"),
                "true",
                "false, or `lookup.preset` or `lookup.session_url` with it",
            )),
            None if self.is_on() && !applications.is_empty() => Some(not_allowed_error(
                "lookup",
                "set, but no application uses it",
                "`lookup = true` in the table of an application whose customers pay there",
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn section(changes: Value) -> LookupSection {
        let mut all = serde_json::to_value(LookupSection::default()).expect("plain data");
        all.as_object_mut().expect("a table").extend(changes.as_object().expect("a table").clone());
        serde_json::from_value(all).expect("a section")
    }

    /// The key of the fault of a section, if it has one: the first text between backticks.
    fn fault(changes: Value) -> Option<String> {
        let error = section(changes).check_keys(30, 28_000).err()?.to_string();
        error.split('`').nth(1).map(str::to_owned)
    }

    #[test]
    fn stripe_preset_has_all_keys_and_each_can_be_replaced() {
        let settings = section(json!({"preset": "stripe"})).to_settings(9);
        assert_eq!(settings.session_url, "https://api.stripe.com/v1/checkout/sessions/{session_id}");
        assert_eq!((settings.tier_path.as_str(), settings.query_max_bytes), ("$.metadata.tier", 9));
        assert_eq!(settings.query_paths, ["$.metadata.query"]);
        assert_eq!(settings.email_path.as_deref(), Some("$.customer_details.email"));
        assert_eq!(
            settings.required,
            Some(("$.payment_status".into(), vec!["paid".into(), "no_payment_required".into()]))
        );
        let own =
            json!({"preset": "stripe", "tier_path": "a", "query_paths": ["b", "c"], "required_value": "d"});
        let settings = section(own).to_settings(9);
        assert_eq!((settings.tier_path.as_str(), settings.query_paths.len()), ("a", 2));
        assert_eq!(settings.required, Some(("$.payment_status".into(), vec!["d".into()])));
    }

    #[test]
    fn lookup_check_names_the_key_that_cannot_work() {
        let url = "https://pay.example/{session_id}";
        for (changes, key) in [
            (json!({}), None),
            (json!({"preset": "stripe"}), None),
            (json!({"session_url": url, "tier_path": "tier", "query_paths": ["query"]}), None),
            (json!({"tier_path": "tier"}), Some("lookup.tier_path")),
            (json!({"session_url": url}), Some("lookup.query_paths")),
            (json!({"session_url": url, "tier_path": "tier"}), Some("lookup.query_paths")),
            (json!({"preset": "stripe", "session_url": "https://pay.example/"}), Some("lookup.session_url")),
            (json!({"session_url": "x"}), Some("lookup.session_url")),
            (json!({"preset": "stripe", "required_value": ""}), Some("lookup.required_value")),
            (json!({"preset": "stripe", "email_path": "a["}), Some("lookup.email_path")),
            (json!({"preset": "stripe", "timeout_ms": 2001}), Some("lookup.timeout_ms")),
            (
                json!({"session_url": url, "tier_path": "tier", "query_paths": ["query"], "required_path": "paid"}),
                Some("lookup.required_path"),
            ),
        ] {
            assert_eq!(fault(changes.clone()).as_deref(), key, "{changes}");
        }
    }

    #[test]
    fn lookup_and_applications_must_name_each_other() {
        let of = |lookup: bool, preset: Value| {
            let applications = json!({"shop": {"uids": [1], "lookup": lookup}, "help": {"uids": [2]}});
            let applications = serde_json::from_value(applications).expect("applications");
            section(json!({"preset": preset})).check_applications(&applications).is_some()
        };
        assert!(!of(true, json!("stripe")) && !of(false, Value::Null));
        assert!(of(false, json!("stripe")) && of(true, Value::Null));
        let alone = section(json!({"preset": "stripe"})).check_applications(&ApplicationSections::new());
        assert!(alone.is_none());
    }
}
