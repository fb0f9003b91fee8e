//! The cost of model calls: prices, the cost of a call, and sums.

use crate::generation::ModelTokenUsage;
use crate::label::ProductTier;
use domain_base::decimal::{Decimal, DecimalError};
use domain_base::row::{SumTable, SumWrite};
use domain_base::session_id::ApplicationName;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
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
    pub day: Date,
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
pub fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The end of the UTC day of a moment.
#[must_use]
pub fn end_of_day(at: Timestamp) -> Timestamp {
    let next = day_of(at).tomorrow().and_then(|day| day.to_zoned(TimeZone::UTC));
    next.map_or(Timestamp::MAX, |day| day.timestamp())
}

/// The costs of a UTC day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCosts {
    pub sums: Vec<CostSum>,
    /// The budgets that were found to be used up, each once.
    pub used_up: Vec<UsedUpBudget>,
}

/// The costs of each UTC day, under its date.
pub static COSTS: SumTable = SumTable { name: "costs", add: DayCosts::add_stored };

/// The name of a day's costs in [`COSTS`].
#[must_use]
pub fn day_name(day: Date) -> String {
    day.to_string()
}

impl DayCosts {
    fn add_stored(stored: Option<&[u8]>, addition: &[u8]) -> Vec<u8> {
        let read = |stored| serde_json::from_slice::<Self>(stored).ok();
        let mut costs = stored.and_then(read).unwrap_or_default();
        if let Some(Self { sums, used_up }) = read(addition) {
            sums.into_iter().for_each(|sum| sum.add_to(&mut costs.sums));
            used_up.into_iter().for_each(|budget| costs.add_used_up(budget));
        }
        serde_json::to_vec(&costs).expect("the costs are plain data with string keys")
    }

    /// The addition of these costs to those of a day.
    #[must_use]
    pub fn to_sum(&self, day: Date) -> SumWrite {
        let value = serde_json::to_vec(self).expect("the costs are plain data with string keys");
        SumWrite { table: &COSTS, name: day_name(day), value }
    }

    /// Adds the finding that a budget is used up, unless the day has it.
    pub fn add_used_up(&mut self, budget: UsedUpBudget) {
        if !self.is_known_used_up(budget.application.as_ref(), &budget.daily) {
            self.used_up.push(budget);
        }
    }

    /// Whether this budget of `application`, or of all, was found to be used up. A raised budget can be used up again.
    #[must_use]
    pub fn is_known_used_up(&self, application: Option<&ApplicationName>, daily: &Decimal) -> bool {
        self.used_up.iter().any(|budget| budget.application.as_ref() == application && budget.daily == *daily)
    }
}

/// When a daily budget was first found to be used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedUpBudget {
    /// The application that has the budget; `None` for the budget of all.
    pub application: Option<ApplicationName>,
    /// The budget.
    pub daily: Decimal,
    pub at: Timestamp,
}

/// The budgets of each UTC day. They count the costs in their currency.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CostBudgets {
    pub currency: String,
    /// That of all calls.
    pub all: Option<Decimal>,
    /// Those of applications that have one of their own. The budget of all applies to them, too.
    pub applications: BTreeMap<ApplicationName, Decimal>,
}

impl CostBudgets {
    /// Whether no budget is configured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.applications.is_empty()
    }

    /// The budgets, with the costs of the day of `now`.
    #[must_use]
    pub fn of_day(&self, costs: &DayCosts, now: Timestamp) -> Vec<DailyBudget> {
        let own = self.applications.iter().map(|(name, daily)| (Some(name), daily));
        let all = self.all.iter().map(|daily| (None, daily));
        let report = |(application, daily): (Option<&ApplicationName>, &Decimal)| {
            let counts = |sum: &&CostSum| {
                sum.cost.currency == self.currency
                    && (application.is_none() || sum.application.as_ref() == application)
            };
            let amounts = costs.sums.iter().filter(counts).map(|sum| &sum.cost.amount);
            let costs_of_today = amounts.fold(Decimal::from(0), |total, amount| add(&total, amount));
            let resets_at = (costs_of_today >= *daily).then(|| end_of_day(now));
            DailyBudget {
                application: application.cloned(),
                daily: daily.clone(),
                currency: self.currency.clone(),
                costs_of_today,
                resets_at,
            }
        };
        all.chain(own).map(report).collect()
    }
}

/// A daily budget, and the costs of the current UTC day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DailyBudget {
    /// The application that has the budget; null for the budget of all model calls.
    pub application: Option<ApplicationName>,
    /// The budget of a UTC day.
    pub daily: Decimal,
    /// The currency of the budget.
    pub currency: String,
    /// The costs of the current UTC day in this currency.
    pub costs_of_today: Decimal,
    /// When the budget resets; null unless it is used up.
    pub resets_at: Option<Timestamp>,
}

impl DailyBudget {
    /// That it is used up; `None` if it is not. Applications see this, so it names none of them.
    #[must_use]
    pub fn describe_used_up(&self) -> Option<String> {
        let until = self.resets_at?;
        let of = if self.application.is_some() { " of an application" } else { "" };
        Some(format!("budget_used_up: orders{of} wait until {until:.0}"))
    }

    /// Whether it is used up, and calls for `application` count toward it.
    #[must_use]
    pub fn stops(&self, application: Option<&ApplicationName>) -> bool {
        let counts = self.application.is_none() || self.application.as_ref() == application;
        counts && self.resets_at.is_some()
    }
}

/// The key of the budget, without amounts: callers of one application may not see the costs of others.
impl fmt::Display for DailyBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.application {
            None => write!(f, "`costs.daily_budget`"),
            Some(application) => write!(f, "`applications.{application}.daily_budget`"),
        }
    }
}

/// The time between `from` and `to` in which a budget was used up that applies to `application`. Each such time ends with
/// its day, also if the budget was raised meanwhile: an order must not end too early.
#[must_use]
pub fn time_without_budget(
    days: &[DayCosts],
    application: &ApplicationName,
    from: Timestamp,
    to: Timestamp,
) -> SignedDuration {
    let first_of_day = |day: &DayCosts| {
        let applies =
            |budget: &&UsedUpBudget| budget.application.as_ref().is_none_or(|name| name == application);
        day.used_up.iter().filter(applies).map(|budget| budget.at).min()
    };
    let times = days.iter().filter_map(first_of_day);
    let times = times.map(|at| end_of_day(at).min(to).duration_since(at.max(from)));
    times.filter(SignedDuration::is_positive).fold(SignedDuration::ZERO, SignedDuration::saturating_add)
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

    mod cost_budget {
        use crate::cost::{ModelCost, day_of, *};
        use crate::label::ProductTier;

        fn decimal(text: &str) -> Decimal {
            text.parse().expect("a number")
        }

        fn at(text: &str) -> Timestamp {
            text.parse().expect("a time")
        }

        fn name(text: &str) -> ApplicationName {
            text.parse().expect("a name")
        }

        fn sum(application: Option<&str>, amount: &str, currency: &str) -> CostSum {
            CostSum {
                day: day_of(at("2026-11-20T10:00:00Z")),
                application: application.map(name),
                model: "a".into(),
                tier: ProductTier::Quick,
                calls: 1,
                prompt_tokens: 300,
                output_tokens: 40,
                cost: ModelCost { amount: decimal(amount), currency: currency.into() },
            }
        }

        #[test]
        fn budget_counts_calls_of_its_application_in_its_currency() {
            let sums = vec![
                sum(Some("shop"), "1", "USD"),
                sum(Some("help"), "2", "USD"),
                sum(Some("shop"), "4", "EUR"),
                sum(None, "8", "USD"),
            ];
            let costs = DayCosts { sums, used_up: Vec::new() };
            let budgets = |all: &str, shop: &str| CostBudgets {
                currency: "USD".into(),
                all: Some(decimal(all)),
                applications: BTreeMap::from([(name("shop"), decimal(shop))]),
            };
            let now = at("2026-11-20T10:00:00Z");
            let of_day = |all, shop| budgets(all, shop).of_day(&costs, now);
            let reports = of_day("11.1", "1");
            let counted: Vec<_> = reports.iter().map(|budget| budget.costs_of_today.clone()).collect();
            assert_eq!(counted, [decimal("11"), decimal("1")]);
            let resets: Vec<_> = reports.iter().map(|budget| budget.resets_at).collect();
            assert_eq!(resets, [None, Some(at("2026-11-21T00:00:00Z"))]);
            let stopped = |reports: &[DailyBudget], of: Option<&str>| {
                let application = of.map(name);
                reports.iter().any(|budget| budget.stops(application.as_ref()))
            };
            assert_eq!(
                [Some("shop"), Some("help"), None].map(|of| stopped(&reports, of)),
                [true, false, false]
            );
            let reports = of_day("11", "2");
            assert_eq!([Some("shop"), Some("help"), None].map(|of| stopped(&reports, of)), [true; 3]);
        }

        #[test]
        fn time_without_budget_ends_with_the_day_and_counts_once() {
            let used_up = |application: Option<&str>, moment| UsedUpBudget {
                application: application.map(name),
                daily: decimal("20"),
                at: at(moment),
            };
            let mut first = DayCosts::default();
            first.add_used_up(used_up(Some("shop"), "2026-11-20T22:00:00Z"));
            first.add_used_up(used_up(Some("shop"), "2026-11-20T23:10:00Z"));
            first.add_used_up(used_up(None, "2026-11-20T23:00:00Z"));
            assert_eq!(first.used_up.len(), 2);
            let raised = UsedUpBudget { daily: decimal("30"), ..used_up(None, "2026-11-20T23:50:00Z") };
            first.add_used_up(raised);
            assert_eq!(first.used_up.len(), 3);
            let mut second = DayCosts::default();
            second.add_used_up(used_up(None, "2026-11-21T23:30:00Z"));
            let days = [first, second];
            for (of, from, to, minutes) in [
                ("shop", "2026-11-20T00:00:00Z", "2026-11-22T12:00:00Z", 150),
                ("help", "2026-11-20T00:00:00Z", "2026-11-22T12:00:00Z", 90),
                ("shop", "2026-11-20T23:00:00Z", "2026-11-21T12:00:00Z", 60),
                ("shop", "2026-11-20T00:00:00Z", "2026-11-20T22:10:00Z", 10),
                ("shop", "2026-11-20T00:00:00Z", "2026-11-20T21:00:00Z", 0),
                ("shop", "2026-11-22T00:00:00Z", "2026-11-22T12:00:00Z", 0),
            ] {
                let time = time_without_budget(&days, &name(of), at(from), at(to));
                assert_eq!(time, SignedDuration::from_mins(minutes), "{of} {from} {to}");
            }
            assert_eq!(end_of_day(at("2026-12-31T23:59:59.9Z")), at("2027-01-01T00:00:00Z"));
        }
    }
}
