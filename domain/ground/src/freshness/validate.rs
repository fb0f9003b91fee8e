//! Validation of freshness policies.

use super::{AxisFreshnessLimits, FreshnessPolicy, InvalidationTrigger, MAX_AGE_S};
use domain_base::text_id::is_path_step;

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
