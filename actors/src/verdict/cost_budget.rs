//! The daily budget for model calls.

use jiff::Timestamp;
use oracled_domain::base::decimal::Decimal;
use oracled_domain::verdict::cost::{day_of, end_of_day, total_in};
use oracled_store::{Store, StoreError};

/// The budget of each UTC day. It counts the costs in its currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostBudget {
    pub daily: Decimal,
    pub currency: String,
}

/// A day on which the budget is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedUpBudget {
    /// The costs of the day.
    pub costs: Decimal,
    /// When the next day begins.
    pub resets_at: Timestamp,
}

impl CostBudget {
    /// The costs of the day of `now`.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn costs_of_day(&self, store: &Store, now: Timestamp) -> Result<Decimal, StoreError> {
        Ok(total_in(&store.costs_of_day(day_of(now))?, &self.currency))
    }

    /// Whether the budget of the day of `now` is used up.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn used_up(&self, store: &Store, now: Timestamp) -> Result<Option<UsedUpBudget>, StoreError> {
        let costs = self.costs_of_day(store, now)?;
        let is_reached = costs >= self.daily;
        Ok(is_reached.then(|| UsedUpBudget { costs, resets_at: end_of_day(now) }))
    }
}
