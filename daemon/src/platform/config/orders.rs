//! The configuration of orders.

use super::applications::{ApplicationSection, ApplicationSections};
use super::{ConfigError, not_allowed_error};
use jiff::SignedDuration;
use oracled_actors::verdict::orders::OrdersConfig;
use oracled_domain::ApplicationName;
use oracled_domain::verdict::order::OrderPolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The effect of a limit on an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderLimitAction {
    /// The order fails.
    #[default]
    Fail,
    /// The order is held until an operator retries or fails it.
    Hold,
}

/// Orders: first verdicts that the model generates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrdersSection {
    /// Age of an order at which each model gets one last attempt. Before, it is attempted again after failures of a model.
    #[schema(minimum = 60, maximum = 2_592_000)]
    pub max_age_s: u32,
    /// Total number of [rejected answers](../delivery.md#generate-a-verdict) of the models to an order, at which it stops:
    /// answers that the crosscheck, the rules or the policy reject, that are incomplete or empty, that cannot be read
    /// but report tokens, or in which a model declines.
    #[schema(minimum = 1, maximum = 100)]
    pub generations_max: u32,
    /// Temperatures of the calls after the first, second and further rejected answers. The last one is also that of all
    /// further calls, and `top_k` is not sent with them. With an empty list, all calls have the settings of the first one.
    pub further_temperatures: Vec<f64>,
    /// Maximum number of open orders. Further ones get 503 `model_busy`.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub queue_max: usize,
    /// Effect of `orders.max_age_s` and `orders.generations_max` on an order: `fail`, or `hold` until an operator retries or
    /// fails it.
    pub at_limit: OrderLimitAction,
}

impl Default for OrdersSection {
    fn default() -> Self {
        Self {
            max_age_s: 24 * 60 * 60,
            generations_max: 3,
            further_temperatures: vec![0.4, 0.8],
            queue_max: 10_000,
            at_limit: OrderLimitAction::default(),
        }
    }
}

impl OrdersSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.further_temperatures.iter().find(|temperature| !(0.0..=2.0).contains(*temperature)) {
            Some(other) => {
                Err(not_allowed_error("orders.further_temperatures", other, "numbers from 0 to 2"))
            }
            None => Ok(()),
        }
    }

    /// The limits of applications. With several applications, those without a limit of their own share equally what the others
    /// leave of `queue_max`, so that none can fill it.
    fn limits_of_applications(&self, applications: &ApplicationSections) -> BTreeMap<ApplicationName, usize> {
        let own = applications.values().filter_map(|section| section.queue_max);
        let (sum, count) =
            own.fold((0, 0), |(sum, count): (usize, usize), own| (sum.saturating_add(own), count + 1));
        let sharing = applications.len() - count;
        let share = self.queue_max.saturating_sub(sum).checked_div(sharing).unwrap_or_default().max(1);
        let share = (applications.len() > 1).then_some(share);
        let limit = |(name, section): (&ApplicationName, &ApplicationSection)| {
            Some((name.clone(), section.queue_max.or(share)?))
        };
        applications.iter().filter_map(limit).collect()
    }

    /// The limits of orders.
    #[must_use]
    pub fn to_orders_config(&self, applications: &ApplicationSections) -> OrdersConfig {
        OrdersConfig {
            policy: OrderPolicy {
                max_age: SignedDuration::from_secs(self.max_age_s.into()),
                generations_max: self.generations_max,
                holds_stopped: self.at_limit == OrderLimitAction::Hold,
            },
            queue_max: self.queue_max,
            applications: self.limits_of_applications(applications),
            further_temperatures: self.further_temperatures.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_without_a_limit_share_what_the_others_leave() {
        let limits = |queue_max: usize, own: &[(&str, Option<usize>)]| {
            let section = |queue_max| ApplicationSection { queue_max, ..ApplicationSection::default() };
            let own = own.iter().map(|(name, own)| (name.parse().expect("a name"), section(*own))).collect();
            let limits = OrdersSection { queue_max, ..OrdersSection::default() }.limits_of_applications(&own);
            limits.into_values().collect::<Vec<_>>()
        };
        assert_eq!(limits(10_000, &[]), Vec::<usize>::new());
        assert_eq!(limits(10_000, &[("a", None)]), Vec::<usize>::new());
        assert_eq!(limits(10_000, &[("a", Some(7))]), [7]);
        assert_eq!(limits(10_000, &[("a", None), ("b", None)]), [5000, 5000]);
        assert_eq!(limits(10_000, &[("a", None), ("b", Some(4000)), ("c", None)]), [3000, 4000, 3000]);
        assert_eq!(limits(10, &[("a", None), ("b", Some(10))]), [1, 10]);
    }
}
