//! How old an answer may be, and how an answer that is too old is handled (seed: `rfc-0002-ground-truth`, "Freshness &
//! Invalidation").

mod evaluate;

use crate::id::SourceId;
use crate::source::UpdateFrequency;
use domain_base::document::{Document, DocumentVersions};
use domain_base::payload::given;
use domain_base::session_id::is_path_step;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use utoipa::ToSchema;

pub use evaluate::{AnswerFreshness, AnswerHandling, AxisFreshness};

const DAY_S: u64 = 86_400;

/// The longest age that a policy may allow, in seconds: a hundred years.
pub const MAX_AGE_S: u64 = 36_525 * DAY_S;
/// The maximum age of a `state_sensitive` axis without a limit in its ontology, in seconds: one day, as for the lab
/// value in the seed's example.
pub const STATE_SENSITIVE_MAX_AGE_S: u64 = DAY_S;

/// A freshness policy document: how old the values of a source may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FreshnessPolicy {
    /// The source.
    pub oracle_id: SourceId,
    /// The requirements of single axes by path; none by default.
    #[serde(default, deserialize_with = "named_by_key")]
    pub axis_freshness: BTreeMap<String, AxisFreshnessRequirement>,
    /// The maximum age on all other axes, in seconds.
    pub default_max_age_seconds: u64,
    /// How a stale value on any other axis is handled.
    pub default_stale_behavior: StaleBehavior,
    /// Whether Saturdays and Sundays (UTC) do not count toward ages; false by default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub business_days: bool,
    /// The events that mark all values of the source as stale; none by default.
    #[serde(default)]
    pub invalidation_triggers: Vec<InvalidationTrigger>,
}

/// How old the values of one axis may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisFreshnessRequirement {
    /// The path of the axis; it must be the key of this entry, which is the default.
    #[schema(required = false)]
    pub axis: String,
    /// The maximum age, in seconds.
    pub max_age_seconds: u64,
    /// How a stale value is handled.
    pub stale_behavior: StaleBehavior,
    /// Whether a query of a stale value starts a refresh.
    pub refresh_on_query: bool,
}

/// Deserializes requirements; `axis` defaults to the key of the entry.
fn named_by_key<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, AxisFreshnessRequirement>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct FreshnessRequirementInput {
        #[serde(default, deserialize_with = "given")]
        axis: Option<String>,
        max_age_seconds: u64,
        stale_behavior: StaleBehavior,
        refresh_on_query: bool,
    }
    let written = BTreeMap::<String, FreshnessRequirementInput>::deserialize(deserializer)?;
    let requirement = |(key, written): (String, FreshnessRequirementInput)| {
        let FreshnessRequirementInput { axis, max_age_seconds, stale_behavior, refresh_on_query } = written;
        let axis = axis.unwrap_or_else(|| key.clone());
        (key, AxisFreshnessRequirement { axis, max_age_seconds, stale_behavior, refresh_on_query })
    };
    Ok(written.into_iter().map(requirement).collect())
}

/// How a stale value is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StaleBehavior {
    /// Serve it with a warning.
    ServeStaleWithWarning,
    /// Serve it without a warning.
    ServeStaleSilent,
    /// Wait for a refresh.
    BlockUntilFresh,
    /// Return an error.
    FailClosed,
    /// Serve it with a warning, as a value of the next lower tier.
    DegradeTier,
}

/// An event that marks all values of a source as stale.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(tag = "trigger_type", content = "config", rename_all = "snake_case", deny_unknown_fields)]
pub enum InvalidationTrigger {
    /// A fixed age.
    TimeBased {
        /// The age since the release in seconds; a shorter limit of an axis still applies.
        ttl_seconds: u64,
    },
    /// A newer version of the source.
    VersionChange {},
    /// A message from the source to a webhook.
    UpstreamSignal {
        /// The path of the webhook.
        webhook: String,
        /// The file with the secret with which the sender signs the body. Without it, every client of the routes' socket may
        /// send the message.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        #[schema(value_type = Option<String>)]
        secret_file: Option<PathBuf>,
    },
    /// A command of an administrator.
    Manual {},
}

/// The freshness limits of an axis that the source provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisFreshnessLimits<'a> {
    /// The path of the axis in the ontology.
    pub axis: &'a str,
    /// Whether the axis describes a changing state, so that its age is limited.
    pub state_sensitive: bool,
    /// The maximum age that the ontology allows, in seconds.
    pub max_ttl_seconds: Option<u64>,
}

impl AxisFreshnessLimits<'_> {
    /// The maximum age in seconds; `None` if any age is allowed.
    fn limit_s(&self) -> Option<u64> {
        self.max_ttl_seconds.or(self.state_sensitive.then_some(STATE_SENSITIVE_MAX_AGE_S))
    }
}

/// Under the id of the source.
impl Document for FreshnessPolicy {
    const KIND: &'static str = "freshness_policy";
    const DISTINGUISHING_MEMBER: &'static str = "default_max_age_seconds";
    const VERSIONS: DocumentVersions = DocumentVersions::None;

    fn document_id(&self) -> String {
        self.oracle_id.to_string()
    }
}

impl FreshnessPolicy {
    /// The default policy of a source. It serves stale values with a warning and treats a new version as an
    /// invalidation. It returns an error for a stale axis whose age the ontology limits, and starts a refresh. The
    /// maximum age leaves room for one late release:
    ///
    /// | `update_frequency` | maximum age |
    /// | --- | --- |
    /// | `realtime` | 5 minutes |
    /// | `daily` | 2 days |
    /// | `weekly` | 14 days |
    /// | `monthly` | 62 days |
    /// | `quarterly` | 184 days |
    /// | `annual` | 732 days |
    /// | `static` | a hundred years: a source without planned updates does not become stale |
    /// | `on_demand` | 366 days: no release is scheduled, and a year without one deserves a warning |
    ///
    /// The limit of the ontology applies if it is shorter. A `state_sensitive` axis without such a limit is limited to
    /// [`STATE_SENSITIVE_MAX_AGE_S`].
    #[must_use]
    pub fn default_for(
        oracle_id: SourceId,
        update_frequency: UpdateFrequency,
        axes: &[AxisFreshnessLimits<'_>],
    ) -> Self {
        let max_age_s = match update_frequency {
            UpdateFrequency::Realtime => 300,
            UpdateFrequency::Daily => 2 * DAY_S,
            UpdateFrequency::Weekly => 14 * DAY_S,
            UpdateFrequency::Monthly => 62 * DAY_S,
            UpdateFrequency::Quarterly => 184 * DAY_S,
            UpdateFrequency::Annual => 732 * DAY_S,
            UpdateFrequency::Static => MAX_AGE_S,
            UpdateFrequency::OnDemand => 366 * DAY_S,
        };
        let requirement = |bound: &AxisFreshnessLimits<'_>| {
            let requirement = AxisFreshnessRequirement {
                axis: bound.axis.to_owned(),
                max_age_seconds: bound.limit_s()?.min(max_age_s),
                stale_behavior: StaleBehavior::FailClosed,
                refresh_on_query: true,
            };
            Some((bound.axis.to_owned(), requirement))
        };
        Self {
            oracle_id,
            axis_freshness: axes.iter().filter_map(requirement).collect(),
            default_max_age_seconds: max_age_s,
            default_stale_behavior: StaleBehavior::ServeStaleWithWarning,
            business_days: false,
            invalidation_triggers: vec![InvalidationTrigger::VersionChange {}],
        }
    }

    /// The age of a value that was true at `as_of`, as the policy counts it, in whole seconds; 0 if `as_of` is in the future.
    fn age_s(&self, as_of: Timestamp, now: Timestamp) -> u64 {
        if !self.business_days {
            return age_s(as_of, now);
        }
        u64::try_from(weekday_seconds(now) - weekday_seconds(as_of)).unwrap_or(0)
    }

    /// The requirement of an axis, by its own path or by the path of its group (`nutrients.*.amount`). If several
    /// groups match, the one with the shortest maximum age applies. `None` if the defaults apply.
    fn requirement(&self, axis: &str) -> Option<&AxisFreshnessRequirement> {
        self.axis_freshness.get(axis).or_else(|| {
            let groups = self.axis_freshness.iter().filter(|(group, _)| is_group_match(group, axis));
            groups.map(|(_, requirement)| requirement).min_by_key(|requirement| requirement.max_age_seconds)
        })
    }

    /// The maximum age of an axis, in seconds: the shortest of its requirement and all `time_based` triggers.
    fn max_age_s(&self, requirement: Option<&AxisFreshnessRequirement>) -> u64 {
        let required = requirement.map_or(self.default_max_age_seconds, |required| required.max_age_seconds);
        let ttls = self.invalidation_triggers.iter().filter_map(|trigger| match trigger {
            InvalidationTrigger::TimeBased { ttl_seconds } => Some(*ttl_seconds),
            _ => None,
        });
        ttls.fold(required, u64::min)
    }
}

/// Whether the path of a keyed group, in which `*` matches any key, matches the path `axis`.
fn is_group_match(group: &str, axis: &str) -> bool {
    let (mut parts, mut keys) = (group.split('.'), axis.split('.'));
    loop {
        match (parts.next(), keys.next()) {
            (None, None) => return true,
            (Some(part), Some(key)) if part == "*" || part == key => {}
            _ => return false,
        }
    }
}

/// The age of a value that was true at `as_of`, in whole seconds; 0 if `as_of` is in the future.
#[must_use]
pub fn age_s(as_of: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(as_of).as_secs()).unwrap_or(0)
}

/// The seconds of Mondays to Fridays from a fixed Monday to `at`.
fn weekday_seconds(at: Timestamp) -> i64 {
    const DAY: i64 = DAY_S as i64;
    // 1970-01-05 was a Monday
    let since_monday = at.as_second() - 4 * DAY;
    let (weeks, in_week) = (since_monday.div_euclid(7 * DAY), since_monday.rem_euclid(7 * DAY));
    weeks * 5 * DAY + in_week.min(5 * DAY)
}

/// The maximum number of triggers in a policy.
pub const MAX_TRIGGERS: usize = 16;
/// The longest path of a webhook, in bytes.
pub const WEBHOOK_MAX_BYTES: usize = 256;
/// The prefix of paths that are reserved for webhooks.
const FOR_WEBHOOKS: &str = "/v1/signals/";
/// Prefixes of the service's own paths. The service also reserves every path of one segment.
const SERVED: [&str; 2] = ["/v1/", "/cache/"];

/// Why a freshness policy is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FreshnessPolicyError {
    /// The policy names an axis that the source does not provide.
    #[error(
        "`axis_freshness.{axis}`: the source does not provide this axis; use a path of its `axes_provided` as written there"
    )]
    UnknownAxis {
        /// The path of the axis.
        axis: String,
    },
    /// The `axis` of a requirement differs from its key.
    #[error("`axis_freshness.{key}.axis` is `{axis}`; it must be equal to its key `{key}`")]
    OtherAxis {
        /// The key of the entry.
        key: String,
        /// The value of `axis`.
        axis: String,
    },
    /// An age is 0 or too long.
    #[error("`{field}` is {seconds} (1 to {MAX_AGE_S} seconds allowed)")]
    BadAge {
        /// The path of the field.
        field: String,
        /// The value, in seconds.
        seconds: u64,
    },
    /// The policy allows a greater age of an axis than the ontology.
    #[error(
        "`{axis}` may become {max_age_s} s old, but the ontology allows at most {limit_s} s: set \
         `axis_freshness.{axis}.max_age_seconds` or the default to {limit_s} or less"
    )]
    Unbounded {
        /// The path of the axis.
        axis: String,
        /// The maximum age that the policy allows, in seconds.
        max_age_s: u64,
        /// The maximum age that the ontology allows, in seconds.
        limit_s: u64,
    },
    /// The policy does not count weekends, and the ontology limits the age of an axis.
    #[error(
        "`business_days` is true, but the ontology limits the age of `{axis}` on all days (`max_ttl_seconds`, \
         `state_sensitive`); remove `business_days`"
    )]
    BusinessDays {
        /// The path of the axis.
        axis: String,
    },
    /// The path of a webhook is invalid or reserved by the service.
    #[error(
        "`invalidation_triggers.{index}.config.webhook` is not a webhook path: begin it with `{FOR_WEBHOOKS}`, or use two \
         or more segments (`/ehr/invalidate`) outside of the service's own `/v1/` and `/cache/`; at most \
         {WEBHOOK_MAX_BYTES} printable ASCII characters without spaces, `?` and `#` are allowed"
    )]
    BadWebhook {
        /// The index of the trigger, from 0.
        index: usize,
    },
    /// A relative path of a secret depends on the daemon's working directory.
    #[error("`invalidation_triggers.{index}.config.secret_file` is a relative path; use an absolute path")]
    BadSecretFile {
        /// The index of the trigger, from 0.
        index: usize,
    },
    /// The number of triggers exceeds the limit.
    #[error("`invalidation_triggers` has {count} entries (at most {MAX_TRIGGERS} allowed)")]
    TooManyTriggers {
        /// The number of triggers found.
        count: usize,
    },
}

impl FreshnessPolicy {
    /// Validates the policy for a source that provides `axes`.
    ///
    /// # Errors
    /// The first fault found: an axis that the source does not provide, an age of 0 or beyond [`MAX_AGE_S`], an axis
    /// that may become older than its ontology allows, also on weekends, or a webhook path that is invalid or reserved by the service.
    pub fn validate(&self, axes: &[AxisFreshnessLimits<'_>]) -> Result<(), FreshnessPolicyError> {
        check_age("default_max_age_seconds", self.default_max_age_seconds)?;
        for (key, requirement) in &self.axis_freshness {
            if !axes.iter().any(|bound| bound.axis == key) {
                return Err(FreshnessPolicyError::UnknownAxis { axis: key.clone() });
            }
            if requirement.axis != *key {
                return Err(FreshnessPolicyError::OtherAxis {
                    key: key.clone(),
                    axis: requirement.axis.clone(),
                });
            }
            check_age(&format!("axis_freshness.{key}.max_age_seconds"), requirement.max_age_seconds)?;
        }
        self.validate_triggers()?;
        if let Some(bound) = axes.iter().find(|bound| self.business_days && bound.limit_s().is_some()) {
            return Err(FreshnessPolicyError::BusinessDays { axis: bound.axis.to_owned() });
        }
        for bound in axes {
            let max_age_s = self.max_age_s(self.requirement(bound.axis));
            if let Some(limit_s) = bound.limit_s().filter(|limit_s| max_age_s > *limit_s) {
                return Err(FreshnessPolicyError::Unbounded {
                    axis: bound.axis.to_owned(),
                    max_age_s,
                    limit_s,
                });
            }
        }
        Ok(())
    }

    fn validate_triggers(&self) -> Result<(), FreshnessPolicyError> {
        let count = self.invalidation_triggers.len();
        if count > MAX_TRIGGERS {
            return Err(FreshnessPolicyError::TooManyTriggers { count });
        }
        for (index, trigger) in self.invalidation_triggers.iter().enumerate() {
            match trigger {
                InvalidationTrigger::TimeBased { ttl_seconds } => {
                    check_age(&format!("invalidation_triggers.{index}.config.ttl_seconds"), *ttl_seconds)?;
                }
                InvalidationTrigger::UpstreamSignal { webhook, .. } if !is_for_webhooks(webhook) => {
                    return Err(FreshnessPolicyError::BadWebhook { index });
                }
                InvalidationTrigger::UpstreamSignal { secret_file: Some(file), .. }
                    if !file.is_absolute() =>
                {
                    return Err(FreshnessPolicyError::BadSecretFile { index });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_age(field: &str, seconds: u64) -> Result<(), FreshnessPolicyError> {
    if (1..=MAX_AGE_S).contains(&seconds) {
        return Ok(());
    }
    Err(FreshnessPolicyError::BadAge { field: field.to_owned(), seconds })
}

fn is_for_webhooks(path: &str) -> bool {
    let is_path = path.len() <= WEBHOOK_MAX_BYTES
        && path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'));
    let parts: Vec<_> = path.split('/').collect();
    let is_served = SERVED.iter().any(|begin| path.starts_with(begin)) && !path.starts_with(FOR_WEBHOOKS);
    // the path begins with `/`, so its first part is empty
    is_path
        && !is_served
        && !parts.iter().any(|part| is_path_step(part))
        && matches!(parts.as_slice(), ["", first, .., last] if !first.is_empty() && !last.is_empty())
}

#[cfg(test)]
mod tests;
