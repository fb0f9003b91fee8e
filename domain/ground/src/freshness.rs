//! How old an answer may be, and how an answer that is too old is handled (seed: `rfc-0002-ground-truth`, "Freshness &
//! Invalidation").

use crate::id::SourceId;
use crate::source::UpdateFrequency;
use domain_base::document::{Document, DocumentVersions};
use domain_base::present_member::given;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use utoipa::ToSchema;

mod evaluate;
mod validate;

pub use evaluate::{AnswerFreshness, AnswerHandling, AxisFreshness};
pub use validate::{FreshnessPolicyError, MAX_TRIGGERS, WEBHOOK_MAX_BYTES};

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

#[cfg(test)]
mod tests;
