//! Trials of prompt templates.

use crate::rules::object;
use oracled_domain::verdict::cost::ModelCost;
use oracled_domain::verdict::generation::ModelTokenUsage;
use oracled_domain::verdict::template_name::TemplateRef;
use oracled_domain::{CrosscheckDecision, ProductTier, PromptTemplate};
use serde::{Deserialize, Serialize};

/// `POST /v1/prompts/try`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptTryRequest {
    /// The template, which need not be registered. Without it, the configured template is tried.
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub template: Option<PromptTemplate>,
    /// `quick`, `full` or `strategy`.
    pub tier: ProductTier,
    /// The query.
    pub query: String,
}

/// The result of one trial.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PromptTryResponse {
    /// The version of the template that was tried.
    pub template: TemplateRef,
    /// The decision on the model's answer; null if there is no answer that can be judged.
    pub decision: Option<CrosscheckDecision>,
    /// Why there is no such answer; null if there is one.
    pub failure: Option<String>,
    /// The tokens used, with retries; null if the model did not report them.
    pub usage: Option<ModelTokenUsage>,
    /// The cost, with retries; null if the model has no prices, or reported no tokens.
    pub cost: Option<ModelCost>,
}
