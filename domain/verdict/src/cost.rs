//! The cost of model calls: prices, the cost of a call, and sums.

use crate::generation::ModelTokenUsage;
use crate::label::ProductTier;
use domain_base::application::ApplicationName;
use domain_base::decimal::{Decimal, DecimalError};
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The number of tokens that a price is for.
const TOKENS_OF_A_PRICE: i64 = 1_000_000;

/// The prices of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPrices {
    /// The price of a million tokens of prompts.
    pub input: Decimal,
    /// The price of a million tokens that the model writes, thinking included.
    pub output: Decimal,
    pub currency: String,
}

impl ModelPrices {
    /// The cost of a call; `None` if the model has not reported its tokens.
    #[must_use]
    pub fn cost_of(&self, usage: &ModelTokenUsage) -> Option<ModelCost> {
        if usage.prompt_tokens.is_none() && usage.output_tokens.is_none() {
            return None;
        }
        let amount = self.amount_of(usage).ok()?;
        Some(ModelCost { amount, currency: self.currency.clone() })
    }

    fn amount_of(&self, usage: &ModelTokenUsage) -> Result<Decimal, DecimalError> {
        // the model reports these numbers, and no call has more tokens
        let tokens = |count: Option<u64>| {
            Decimal::from(i64::from(u32::try_from(count.unwrap_or(0)).unwrap_or(u32::MAX)))
        };
        let input = self.input.checked_mul(&tokens(usage.prompt_tokens))?;
        let output = self.output.checked_mul(&tokens(usage.output_tokens))?;
        input.checked_add(&output)?.div_exact(&Decimal::from(TOKENS_OF_A_PRICE))
    }
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelCost {
    /// The exact amount.
    pub amount: Decimal,
    /// The currency, as configured.
    pub currency: String,
}

impl ModelCost {
    /// The sum of several calls of one model; `None` if none has a cost.
    #[must_use]
    pub fn sum(costs: impl IntoIterator<Item = Self>) -> Option<Self> {
        costs.into_iter().reduce(|a, b| Self { amount: add(&a.amount, &b.amount), ..a })
    }

    /// The sums of `costs`, one for each currency.
    #[must_use]
    pub fn sum_by_currency(costs: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut sums = BTreeMap::new();
        for cost in costs {
            let sum = sums.entry(cost.currency).or_insert_with(|| Decimal::from(0));
            *sum = add(sum, &cost.amount);
        }
        sums.into_iter().map(|(currency, amount)| Self { amount, currency }).collect()
    }
}

impl fmt::Display for ModelCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.currency)
    }
}

/// The sum of two amounts. Beyond the limits of decimals, which no cost reaches, the sum stays as it is.
pub(super) fn add(a: &Decimal, b: &Decimal) -> Decimal {
    a.checked_add(b).unwrap_or_else(|_| a.clone())
}

/// The cost of one model for verdicts of one tier and application on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostSum {
    /// The day, in UTC.
    #[schema(value_type = String, format = Date)]
    pub day: civil::Date,
    /// The application of the verdicts; null for trials of prompts.
    pub application: Option<ApplicationName>,
    /// The model's name among the oracles.
    pub model: String,
    /// The tier of the verdicts.
    pub tier: ProductTier,
    /// The number of calls with a cost, retries included.
    pub calls: u64,
    /// The tokens of the prompts.
    pub prompt_tokens: u64,
    /// The tokens that the model wrote, thinking included.
    pub output_tokens: u64,
    /// The cost.
    #[serde(flatten)]
    pub cost: ModelCost,
}

impl CostSum {
    /// Adds this sum to the sum of the same day, application, model, tier and currency in `sums`, or appends it.
    pub fn add_to(self, sums: &mut Vec<Self>) {
        let is_same = |sum: &&mut Self| {
            (sum.day, sum.tier) == (self.day, self.tier)
                && (&sum.application, &sum.model) == (&self.application, &self.model)
                && sum.cost.currency == self.cost.currency
        };
        match sums.iter_mut().find(is_same) {
            None => sums.push(self),
            Some(sum) => {
                sum.calls = sum.calls.saturating_add(self.calls);
                sum.prompt_tokens = sum.prompt_tokens.saturating_add(self.prompt_tokens);
                sum.output_tokens = sum.output_tokens.saturating_add(self.output_tokens);
                sum.cost.amount = add(&sum.cost.amount, &self.cost.amount);
            }
        }
    }
}

/// The UTC day of a moment.
#[must_use]
pub fn day_of(at: Timestamp) -> civil::Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The end of the UTC day of a moment.
#[must_use]
pub fn end_of_day(at: Timestamp) -> Timestamp {
    let next = day_of(at).tomorrow().and_then(|day| day.to_zoned(TimeZone::UTC));
    next.map_or(Timestamp::MAX, |day| day.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().expect("a number")
    }

    fn usage(prompt_tokens: Option<u64>, output_tokens: Option<u64>) -> ModelTokenUsage {
        ModelTokenUsage { prompt_tokens, output_tokens, thinking_tokens: None, total_tokens: None }
    }

    fn sum(day: &str, model: &str, amount: &str, currency: &str) -> CostSum {
        CostSum {
            day: day.parse().expect("a day"),
            application: None,
            model: model.into(),
            tier: ProductTier::Quick,
            calls: 1,
            prompt_tokens: 300,
            output_tokens: 40,
            cost: ModelCost { amount: decimal(amount), currency: currency.into() },
        }
    }

    #[test]
    fn cost_is_exact() {
        let prices = ModelPrices { input: decimal("0.3"), output: decimal("2.5"), currency: "USD".into() };
        for (prompt, output, cost) in [
            (Some(300), Some(40), Some("0.00019")),
            (Some(1), None, Some("0.0000003")),
            (None, Some(1_000_000), Some("2.5")),
            (Some(0), Some(0), Some("0")),
            (Some(u64::MAX), None, Some("1288.4901885")),
            (None, None, None),
        ] {
            let amount = prices.cost_of(&usage(prompt, output)).map(|cost| cost.amount);
            assert_eq!(amount, cost.map(decimal), "{prompt:?} {output:?}");
        }
    }

    #[test]
    fn sums_are_kept_apart_by_day_application_model_tier_and_currency() {
        let mut sums = Vec::new();
        let application =
            CostSum { application: Some(ApplicationName::default()), ..sum("2026-11-20", "a", "0.1", "USD") };
        let tier = CostSum { tier: ProductTier::Full, ..sum("2026-11-20", "a", "0.1", "USD") };
        for one in [
            sum("2026-11-20", "a", "0.1", "USD"),
            sum("2026-11-21", "a", "0.1", "USD"),
            sum("2026-11-20", "b", "0.1", "USD"),
            sum("2026-11-20", "a", "0.1", "EUR"),
            tier,
            application,
            sum("2026-11-20", "a", "0.2", "USD"),
        ] {
            one.add_to(&mut sums);
        }
        assert_eq!(sums.len(), 6);
        assert_eq!((sums[0].calls, sums[0].output_tokens), (2, 80));
        assert_eq!(sums[0].cost.amount, decimal("0.3"));
    }
}
