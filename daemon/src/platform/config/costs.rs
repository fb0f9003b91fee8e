//! The configuration of costs.

use super::{ConfigError, DaemonConfig, not_allowed_error};
use oracled_domain::base::decimal::Decimal;
use oracled_domain::verdict::cost_budget::CostBudgets;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The costs of the models, as computed from their prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CostsSection {
    /// The currency of all prices and budgets: three letters, such as `EUR`. It is only a name; nothing is converted.
    pub currency: String,
    /// The budget of a UTC day, for all models together. When the costs of the day reach it, no further verdict is generated
    /// on this day: orders wait, and reads of lost verdicts get 503 `model_busy`. Calls in flight are completed. Every model
    /// must have prices. Without a value, costs are not limited.
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    pub daily_budget: Option<f64>,
}

impl Default for CostsSection {
    fn default() -> Self {
        Self { currency: "USD".into(), daily_budget: None }
    }
}

impl CostsSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.currency.len() == 3 && self.currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Ok(());
        }
        Err(not_allowed_error(
            "costs.currency",
            "not the code of a currency",
            "three letters of `A-Z`, such as EUR",
        ))
    }
}

impl DaemonConfig {
    /// The daily budgets.
    #[must_use]
    pub fn cost_budgets(&self) -> CostBudgets {
        let own = self.applications.iter().filter_map(|(name, section)| {
            section.daily_budget.and_then(exact_amount).map(|daily| (name.clone(), daily))
        });
        CostBudgets {
            currency: self.costs.currency.clone(),
            all: self.costs.daily_budget.and_then(exact_amount),
            applications: own.collect(),
        }
    }
}

/// The number as it is written in the configuration; `None` if it is not finite.
pub(crate) fn exact_amount(number: f64) -> Option<Decimal> {
    // the shortest text that reads back as the number
    number.to_string().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_has_the_written_digits() {
        for text in ["0.1", "0.3", "2.5", "0.0000001", "19.99", "1000000000"] {
            let number: f64 = text.parse().expect("a number");
            assert_eq!(exact_amount(number).map(|amount| amount.to_string()).as_deref(), Some(text));
        }
        assert_eq!(exact_amount(f64::NAN), None);
    }
}
