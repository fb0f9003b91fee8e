//! Whether a policy can work.

use super::{AxisBound, FreshnessPolicy, InvalidationTrigger, MAX_AGE_S};

/// So many triggers may a policy have.
pub const MAX_TRIGGERS: usize = 16;
/// The longest path of a webhook, in bytes.
pub const WEBHOOK_MAX_BYTES: usize = 256;
/// Paths that are there for webhooks begin so.
const FOR_WEBHOOKS: &str = "/v1/signals/";
/// Other paths of more than one part that the service has itself begin so; it has each path of one part for itself, too.
const SERVED: [&str; 2] = ["/v1/", "/cache/"];

/// Why a freshness policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// It names an axis that the source does not provide.
    #[error(
        "`axis_freshness.{axis}`: the source provides no such axis; it is one of its `axes_provided`, as it stands there"
    )]
    UnknownAxis {
        /// Which.
        axis: String,
    },
    /// A requirement stands under another name than its own.
    #[error("`axis_freshness.{key}.axis` is `{axis}`; it is the name that it stands under")]
    OtherAxis {
        /// The name that it stands under.
        key: String,
        /// The one that it has.
        axis: String,
    },
    /// An age is 0, or longer than anyone means.
    #[error("`{field}` is {seconds}; it is 1 to {MAX_AGE_S} seconds")]
    BadAge {
        /// Where it stands.
        field: String,
        /// What it is, in seconds.
        seconds: u64,
    },
    /// An axis whose age the ontology bounds may become too old.
    #[error(
        "by the ontology `{axis}` may be {limit_s} s old at the most; here it may be {max_age_s} s old: \
         `axis_freshness.{axis}.max_age_seconds` or the default is to be no more than that"
    )]
    Unbounded {
        /// Which.
        axis: String,
        /// How old it may become by the policy, in seconds.
        max_age_s: u64,
        /// How old it may be, in seconds.
        limit_s: u64,
    },
    /// A webhook is no path that a source may have for itself.
    #[error(
        "`invalidation_triggers.{index}.config.webhook` is no path for a webhook: it begins with `{FOR_WEBHOOKS}`, or has two \
         parts or more (`/ehr/invalidate`) and begins neither with `/v1/` nor with `/cache/`, which the service has itself; \
         up to {WEBHOOK_MAX_BYTES} printable ASCII characters without blanks, `?` and `#`"
    )]
    BadWebhook {
        /// Which trigger, from 0.
        index: usize,
    },
    /// The path of a secret depends on where the daemon was started.
    #[error(
        "`invalidation_triggers.{index}.config.secret_file` is a relative path; allowed: an absolute one"
    )]
    BadSecretFile {
        /// The trigger, from 0.
        index: usize,
    },
    /// There are too many triggers.
    #[error("`invalidation_triggers` has {count}; it has {MAX_TRIGGERS} at the most")]
    TooManyTriggers {
        /// How many.
        count: usize,
    },
}

impl FreshnessPolicy {
    /// Whether this can be the policy of a source that provides `axes`.
    ///
    /// # Errors
    /// The first that speaks against it: an axis that the source does not provide, an age of 0 or beyond [`MAX_AGE_S`], an
    /// axis that may become older than its ontology allows, a webhook whose path is none, or is the service's own.
    pub fn validate(&self, axes: &[AxisBound<'_>]) -> Result<(), BadPolicy> {
        check_age("default_max_age_seconds", self.default_max_age_seconds)?;
        for (key, requirement) in &self.axis_freshness {
            if !axes.iter().any(|bound| bound.axis == key) {
                return Err(BadPolicy::UnknownAxis { axis: key.clone() });
            }
            if requirement.axis != *key {
                return Err(BadPolicy::OtherAxis { key: key.clone(), axis: requirement.axis.clone() });
            }
            check_age(&format!("axis_freshness.{key}.max_age_seconds"), requirement.max_age_seconds)?;
        }
        self.validate_triggers()?;
        for bound in axes {
            let max_age_s = self.max_age_s(self.requirement(bound.axis));
            if let Some(limit_s) = bound.limit_s().filter(|limit_s| max_age_s > *limit_s) {
                return Err(BadPolicy::Unbounded { axis: bound.axis.to_owned(), max_age_s, limit_s });
            }
        }
        Ok(())
    }

    fn validate_triggers(&self) -> Result<(), BadPolicy> {
        let count = self.invalidation_triggers.len();
        if count > MAX_TRIGGERS {
            return Err(BadPolicy::TooManyTriggers { count });
        }
        for (index, trigger) in self.invalidation_triggers.iter().enumerate() {
            match trigger {
                InvalidationTrigger::TimeBased { ttl_seconds } => {
                    check_age(&format!("invalidation_triggers.{index}.config.ttl_seconds"), *ttl_seconds)?;
                }
                InvalidationTrigger::UpstreamSignal { webhook, .. } if !is_for_webhooks(webhook) => {
                    return Err(BadPolicy::BadWebhook { index });
                }
                InvalidationTrigger::UpstreamSignal { secret_file: Some(file), .. }
                    if !file.is_absolute() =>
                {
                    return Err(BadPolicy::BadSecretFile { index });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_age(field: &str, seconds: u64) -> Result<(), BadPolicy> {
    if (1..=MAX_AGE_S).contains(&seconds) {
        return Ok(());
    }
    Err(BadPolicy::BadAge { field: field.to_owned(), seconds })
}

fn is_for_webhooks(path: &str) -> bool {
    let is_path = path.len() <= WEBHOOK_MAX_BYTES
        && path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'));
    let parts: Vec<_> = path.split('/').collect();
    let is_served = SERVED.iter().any(|begin| path.starts_with(begin)) && !path.starts_with(FOR_WEBHOOKS);
    // before the first `/` there is nothing
    is_path
        && !is_served
        && matches!(parts.as_slice(), ["", first, .., last] if !first.is_empty() && !last.is_empty())
}
