//! Evaluates whether an answer is stale and how it is handled.

use super::{FreshnessPolicy, StaleBehavior};
use domain_base::moment::format_age_and_limit;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How an answer is handled, from the least to the most strict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AnswerHandling {
    /// Serve it without warnings.
    Serve,
    ServeWithWarnings,
    /// Serve it with warnings, as an answer of the next lower tier.
    DegradeTier,
    /// Wait for a refresh.
    BlockUntilFresh,
    /// Return an error.
    FailClosed,
}

impl AnswerHandling {
    /// Whether the answer is served.
    #[must_use]
    pub const fn is_served(self) -> bool {
        match self {
            Self::Serve | Self::ServeWithWarnings | Self::DegradeTier => true,
            Self::BlockUntilFresh | Self::FailClosed => false,
        }
    }
}

impl From<StaleBehavior> for AnswerHandling {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AxisFreshness {
    /// The path of the axis.
    pub axis: String,
    /// Its age in whole seconds; null if the source had no release.
    pub age_seconds: Option<u64>,
    /// The maximum age, in seconds.
    pub max_age_seconds: u64,
    /// Whether it exceeds the maximum age, was invalidated, or comes from no release.
    pub stale: bool,
    /// How the axis is handled if it is stale.
    pub stale_behavior: StaleBehavior,
}

/// The freshness of an answer, and how the answer is handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AnswerFreshness {
    /// Each axis that the answer depends on, in the order given.
    pub axes: Vec<AxisFreshness>,
    /// How the answer is handled: the strictest behavior of its stale axes.
    pub answer: AnswerHandling,
    /// Warnings about stale axes, except for axes with `serve_stale_silent`.
    pub warnings: Vec<String>,
    /// Whether to start a refresh.
    pub refresh: bool,
}

impl FreshnessPolicy {
    /// Evaluates an answer at `now` that depends on `axes`. `as_of` is the release time of its version, or the time of
    /// retrieval. Without `as_of` the source had no release yet, and the answer is stale.
    ///
    /// `invalidated_at` is the time of an invalidation that applies to the answer, if any. It makes every axis stale.
    /// `time_based` triggers limit the age instead. Answers without axes are served.
    #[must_use]
    pub fn evaluate(
        &self,
        axes: &[&str],
        as_of: Option<Timestamp>,
        invalidated_at: Option<Timestamp>,
        now: Timestamp,
    ) -> AnswerFreshness {
        let age_seconds = as_of.map(|as_of| self.age_s(as_of, now));
        let mut freshness = AnswerFreshness {
            axes: Vec::with_capacity(axes.len()),
            answer: AnswerHandling::Serve,
            warnings: Vec::new(),
            refresh: false,
        };
        // axes with the same fault share a warning
        let mut faults = BTreeMap::<String, Vec<String>>::new();
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
                let fault = match (as_of, invalidated_at) {
                    (Some(as_of), Some(at)) => format!("as of {as_of}, and invalidated at {at}"),
                    (Some(as_of), None) => {
                        let (age, allowed) = format_age_and_limit(self.age_s(as_of, now), max_age_seconds);
                        let days = if self.business_days { " without weekends" } else { "" };
                        format!("{age} old{days}, and {allowed} are allowed")
                    }
                    (None, _) => {
                        format!("no release of source {} is known for the requested time", self.oracle_id)
                    }
                };
                faults.entry(fault).or_default().push(format!("`{axis}`"));
            }
            let axis = (*axis).to_owned();
            freshness.axes.push(AxisFreshness { axis, age_seconds, max_age_seconds, stale, stale_behavior });
        }
        let warnings = faults.into_iter().map(|(fault, axes)| format!("{}: {fault}", axes.join(", ")));
        freshness.warnings.extend(warnings);
        freshness
    }
}
