//! The costs of the models: `GET /v1/costs`.

use jiff::Timestamp;
use oracled_domain::base::moment::{self, Moment};
use oracled_domain::verdict::cost::CostSum;
use oracled_domain::verdict::cost_budget::DailyBudget;
use serde::{Deserialize, Serialize};

/// The query of `GET /v1/costs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CostsParams {
    /// Only costs of the UTC day of this time and of later days.
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub since: Option<Timestamp>,
    /// Only costs of the UTC day of this time and of earlier days.
    #[serde(default, deserialize_with = "moment::optional")]
    #[param(value_type = Option<Moment>)]
    pub until: Option<Timestamp>,
}

/// The costs of the models.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostsResponse {
    /// The costs by UTC day, application, model and tier, the earliest day first.
    pub costs: Vec<CostSum>,
    /// The daily budgets: that of all model calls, and those of applications.
    pub budgets: Vec<DailyBudget>,
}
