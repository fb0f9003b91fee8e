//! How old an answer may be, and what becomes of one that is too old (seed: `rfc-0002-ground-truth`, "Freshness &
//! Invalidation").

use crate::ground::frequency::UpdateFrequency;
use crate::ground::id::SourceId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

mod evaluate;
mod validate;

pub use evaluate::{Answer, AxisFreshness, Freshness};
pub use validate::{BadPolicy, MAX_TRIGGERS, WEBHOOK_MAX_BYTES};

const DAY_S: u64 = 86_400;

/// The longest age that a policy may allow, in seconds: a hundred years.
pub const MAX_AGE_S: u64 = 36_525 * DAY_S;
/// So old may a `state_sensitive` axis be where its ontology does not say, in seconds: a day, like the lab value in the
/// seed's example.
pub const STATE_SENSITIVE_MAX_AGE_S: u64 = DAY_S;

/// How old what a source says may be, with the seed's fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreshnessPolicy {
    /// Which source.
    pub oracle_id: SourceId,
    /// What holds for single axes, by their names.
    pub axis_freshness: BTreeMap<String, AxisFreshnessRequirement>,
    /// For all others: the greatest age, in seconds.
    pub default_max_age_seconds: u64,
    /// For all others: what becomes of what is older.
    pub default_stale_behavior: StaleBehavior,
    /// What makes all that the source has said stale.
    pub invalidation_triggers: Vec<InvalidationTrigger>,
}

/// How old what a source says of one axis may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisFreshnessRequirement {
    /// The axis, by the name under which this stands in the policy.
    pub axis: String,
    /// Its greatest age, in seconds.
    pub max_age_seconds: u64,
    /// What becomes of what is older.
    pub stale_behavior: StaleBehavior,
    /// Whether asking for it while it is stale starts a refresh.
    pub refresh_on_query: bool,
}

/// What becomes of an answer that is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaleBehavior {
    /// It is given with a warning.
    ServeStaleWithWarning,
    /// It is given without a word.
    ServeStaleSilent,
    /// It waits for a refresh.
    BlockUntilFresh,
    /// It is an error.
    FailClosed,
    /// It is given with a warning, and counts as a lower tier's.
    DegradeTier,
}

/// What makes all that a source has said stale.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "trigger_type", content = "config", rename_all = "snake_case", deny_unknown_fields)]
pub enum InvalidationTrigger {
    /// Its age.
    TimeBased {
        /// So many seconds after its release it is stale, whatever an axis allows beyond that.
        ttl_seconds: u64,
    },
    /// A newer version of the source.
    VersionChange {},
    /// A message of the source.
    UpstreamSignal {
        /// The path at which it comes in.
        webhook: String,
        /// The file with the secret under which the sender signs the body. Without it, whoever may talk to the routes'
        /// socket may send the message.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        secret_file: Option<PathBuf>,
    },
    /// An administrator's word.
    Manual {},
}

/// What a policy has to know of an axis that its source provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisBound<'a> {
    /// Its name in the ontology.
    pub axis: &'a str,
    /// Whether it tells of a state that changes, so that it must not be old.
    pub state_sensitive: bool,
    /// The greatest age that the ontology allows it, in seconds.
    pub max_ttl_seconds: Option<u64>,
}

impl AxisBound<'_> {
    /// How old the axis may be at the most, in seconds; nothing where any age will do.
    fn limit_s(&self) -> Option<u64> {
        self.max_ttl_seconds.or(self.state_sensitive.then_some(STATE_SENSITIVE_MAX_AGE_S))
    }
}

impl FreshnessPolicy {
    /// The policy of a source that has none of its own. It warns of what is stale, and refuses a stale axis whose age is
    /// bounded by its ontology, starting a refresh; a new version is an invalidation. The greatest age leaves room for one
    /// release that does not come:
    ///
    /// | `update_frequency` | greatest age |
    /// | --- | --- |
    /// | `realtime` | 5 minutes |
    /// | `daily` | 2 days |
    /// | `weekly` | 14 days |
    /// | `monthly` | 62 days |
    /// | `quarterly` | 184 days |
    /// | `annual` | 732 days |
    /// | `static` | a hundred years: what nobody means to update does not get old |
    /// | `on_demand` | 366 days: nobody has promised anything, and a year without is worth a word |
    ///
    /// An axis may not be older than its ontology says; where it does not, a `state_sensitive` one not than
    /// [`STATE_SENSITIVE_MAX_AGE_S`].
    #[must_use]
    pub fn default_of(
        oracle_id: SourceId,
        update_frequency: UpdateFrequency,
        axes: &[AxisBound<'_>],
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
        let requirement = |bound: &AxisBound<'_>| {
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
            invalidation_triggers: vec![InvalidationTrigger::VersionChange {}],
        }
    }

    /// What is required of an axis by its name, or by that of its group (`nutrients.*.amount`); of several groups the one
    /// that allows the least age. Nothing where the defaults hold.
    fn requirement(&self, axis: &str) -> Option<&AxisFreshnessRequirement> {
        self.axis_freshness.get(axis).or_else(|| {
            let groups = self.axis_freshness.iter().filter(|(group, _)| covers(group, axis));
            groups.map(|(_, requirement)| requirement).min_by_key(|requirement| requirement.max_age_seconds)
        })
    }

    /// How old an axis may be, in seconds: as is required of it, and within each `time_based` trigger's time.
    fn max_age_s(&self, requirement: Option<&AxisFreshnessRequirement>) -> u64 {
        let required = requirement.map_or(self.default_max_age_seconds, |required| required.max_age_seconds);
        let ttls = self.invalidation_triggers.iter().filter_map(|trigger| match trigger {
            InvalidationTrigger::TimeBased { ttl_seconds } => Some(*ttl_seconds),
            _ => None,
        });
        ttls.fold(required, u64::min)
    }
}

/// Whether the path of a keyed group, with `*` for any key, is that of this axis.
fn covers(group: &str, axis: &str) -> bool {
    let (mut parts, mut keys) = (group.split('.'), axis.split('.'));
    loop {
        match (parts.next(), keys.next()) {
            (None, None) => return true,
            (Some(part), Some(key)) if part == "*" || part == key => {}
            _ => return false,
        }
    }
}

/// How old what was true at `as_of` is, in whole seconds; 0 where that lies ahead.
#[must_use]
pub fn age_s(as_of: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(as_of).as_secs()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
