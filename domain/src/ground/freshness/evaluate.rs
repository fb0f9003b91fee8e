//! Whether an answer is stale, and what becomes of it.

use super::{FreshnessPolicy, StaleBehavior, age_s};
use crate::base::moment::age_and_limit;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What becomes of an answer, the strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is given: nothing is stale, or nothing is to be said of it.
    Serve,
    /// It is given with warnings.
    ServeWithWarnings,
    /// It is given with warnings, and counts as a lower tier's.
    DegradeTier,
    /// It waits for a refresh.
    BlockUntilFresh,
    /// It is an error.
    FailClosed,
}

impl Answer {
    /// Whether it is given.
    #[must_use]
    pub const fn is_given(self) -> bool {
        match self {
            Self::Serve | Self::ServeWithWarnings | Self::DegradeTier => true,
            Self::BlockUntilFresh | Self::FailClosed => false,
        }
    }
}

impl From<StaleBehavior> for Answer {
    fn from(behavior: StaleBehavior) -> Self {
        match behavior {
            StaleBehavior::ServeStaleSilent => Self::Serve,
            StaleBehavior::ServeStaleWithWarning => Self::ServeWithWarnings,
            StaleBehavior::DegradeTier => Self::DegradeTier,
            StaleBehavior::BlockUntilFresh => Self::BlockUntilFresh,
            StaleBehavior::FailClosed => Self::FailClosed,
        }
    }
}

/// How fresh one axis is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisFreshness {
    /// Which.
    pub axis: String,
    /// How old it is, in whole seconds; nothing where the source had no release.
    pub age_seconds: Option<u64>,
    /// How old it may be, in seconds.
    pub max_age_seconds: u64,
    /// Whether it is older than that, from before an invalidation, or of no release at all.
    pub stale: bool,
    /// What applies to it where it is stale.
    pub stale_behavior: StaleBehavior,
}

/// How fresh an answer is, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Each axis that the answer depends on, in the order in which they were named.
    pub axes: Vec<AxisFreshness>,
    /// What becomes of the answer: the strictest of what applies to its stale axes.
    pub answer: Answer,
    /// What there is to be said of stale axes; nothing of those that are served in silence.
    pub warnings: Vec<String>,
    /// Whether a refresh is to be started.
    pub refresh: bool,
}

impl FreshnessPolicy {
    /// What becomes of an answer at `now` that depends on `axes`, as they were at `as_of`: the release of the version that
    /// they come from, or when they were retrieved. Without one the source had nothing to say yet, and that is stale.
    ///
    /// `invalidated_at` is the time of an invalidation that applies to the answer, if one does. It makes every axis stale.
    /// `time_based` triggers count as age instead. Answers without axes are served.
    #[must_use]
    pub fn evaluate(
        &self,
        axes: &[&str],
        as_of: Option<Timestamp>,
        invalidated_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Freshness {
        let age_seconds = as_of.map(|as_of| age_s(as_of, now));
        let mut freshness = Freshness {
            axes: Vec::with_capacity(axes.len()),
            answer: Answer::Serve,
            warnings: Vec::new(),
            refresh: false,
        };
        for axis in axes {
            let requirement = self.requirement(axis);
            let stale_behavior =
                requirement.map_or(self.default_stale_behavior, |required| required.stale_behavior);
            let max_age_seconds = self.max_age_s(requirement);
            let is_too_old = age_seconds.is_none_or(|age_seconds| age_seconds > max_age_seconds);
            let stale = is_too_old || invalidated_at.is_some();
            if stale {
                freshness.answer = freshness.answer.max(stale_behavior.into());
                freshness.refresh |= stale_behavior == StaleBehavior::BlockUntilFresh
                    || requirement.is_some_and(|required| required.refresh_on_query);
            }
            if stale && stale_behavior != StaleBehavior::ServeStaleSilent {
                let warning = match (as_of, invalidated_at) {
                    (Some(as_of), Some(at)) => {
                        format!("`{axis}` is as of {as_of} and was invalidated at {at}")
                    }
                    (Some(as_of), None) => {
                        let (age, allowed) = age_and_limit(age_s(as_of, now), max_age_seconds);
                        format!("`{axis}` is {age} old, and {allowed} are allowed")
                    }
                    (None, _) => format!("source {} had no release then", self.oracle_id),
                };
                // where there was none that is said once, not of each axis
                if as_of.is_some() || freshness.warnings.is_empty() {
                    freshness.warnings.push(warning);
                }
            }
            let axis = (*axis).to_owned();
            freshness.axes.push(AxisFreshness { axis, age_seconds, max_age_seconds, stale, stale_behavior });
        }
        freshness
    }
}
