//! The costs of the models: `GET /v1/costs`.

use jiff::Timestamp;
use oracled_domain::base::decimal::Decimal;
use oracled_domain::verdict::cost::CostSum;
use serde::{Deserialize, Serialize};

/// The query of `GET /v1/costs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CostsParams {
    /// Only costs of the UTC day of this time and of later days.
    pub since: Option<Timestamp>,
    /// Only costs of the UTC day of this time and of earlier days.
    pub until: Option<Timestamp>,
}

/// The costs of the models.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostsResponse {
    /// The costs by UTC day, model and tier, the earliest day first.
    pub costs: Vec<CostSum>,
    /// The daily budget, if one is configured.
    pub budget: Option<DailyBudgetReport>,
}

/// The daily budget.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DailyBudgetReport {
    /// The budget of a UTC day.
    pub daily: Decimal,
    /// The currency of the budget.
    pub currency: String,
    /// The costs of the current UTC day in this currency.
    pub costs_of_today: Decimal,
    /// When the budget resets; null unless it is used up.
    pub resets_at: Option<Timestamp>,
}
