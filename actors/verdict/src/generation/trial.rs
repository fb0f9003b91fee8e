//! Trials of prompt templates: the model is asked and its answer is judged, but nothing is delivered.

use super::error::GenerationError;
use super::prompt::PromptError;
use super::runner::{GenerationRunner, ModelRequest};
use crate::crosscheck::JudgeTrial;
use crate::rate_limiter::RequestTrialCall;
use crate::submission::GenerationTrace;
use actors_upstream::{ModelCallPurpose, ModelError};
use domain_base::application::ApplicationName;
use domain_base::gate_path::GatePath;
use domain_base::payload::VerdictPayload;
use domain_verdict::cost::ModelCost;
use domain_verdict::crosscheck::CrosscheckDecision;
use domain_verdict::event::OracleInteraction;
use domain_verdict::generation::ModelTokenUsage;
use domain_verdict::label::ProductTier;
use domain_verdict::prompt::{PromptTemplate, build_verdict_prompt};
use domain_verdict::query::CustomerQuery;

/// One trial of a prompt template.
#[derive(Debug, Clone)]
pub struct PromptTrial {
    pub template: PromptTemplate,
    pub tier: ProductTier,
    pub query: CustomerQuery,
}

/// The result of a trial.
#[derive(Debug)]
pub struct PromptTrialResult {
    /// The decision on the answer, or why there was no answer that can be judged.
    pub decision: Result<CrosscheckDecision, ModelError>,
    /// The tokens used, with retries.
    pub usage: Option<ModelTokenUsage>,
    /// The cost, with retries; `None` if the model has no prices, or reported no tokens.
    pub cost: Option<ModelCost>,
}

impl GenerationRunner {
    /// Asks the model once with a prompt of the template, with the settings of first verdicts, and judges the answer. Only
    /// log entries are stored.
    ///
    /// # Errors
    /// The model may not be called now, it rejects the request itself, or the answer could not be judged or logged.
    pub(crate) async fn try_prompt(&self, trial: PromptTrial) -> Result<PromptTrialResult, GenerationError> {
        let PromptTrial { template, tier, query } = trial;
        let prompt = build_verdict_prompt(&template, tier, &query).map_err(PromptError::from)?;
        let (model, lease) = self.request_first_lease(&ApplicationName::default()).await?;
        let _slots = self.handles.rate_limiter.ask(RequestTrialCall(model.oracle_id().clone())).await??;
        let request = ModelRequest { prompt, settings: model.original.clone() };
        let purpose = ModelCallPurpose { session_id: None, path: GatePath::Try };
        let called = self.call_model(&model, &model.caller, &purpose, &request).await;
        self.count_refused_request(&called);
        self.report_call(lease, &called, true);
        let interactions = called.interactions;
        let usage = ModelTokenUsage::sum(interactions.iter().filter_map(OracleInteraction::usage_of));
        let cost =
            ModelCost::sum(interactions.iter().filter_map(OracleInteraction::cost_of).map(|sum| sum.cost));
        let trace = GenerationTrace { generation: request.generation(), interactions };
        let decision = match called.outcome {
            Ok(answer) => {
                let payload = VerdictPayload::raw(&answer.text);
                let record = GenerationTrace::record(Some(&trace), None);
                Ok(self.handles.crosscheck.ask(JudgeTrial { tier, query, payload, record }).await??)
            }
            Err(error) => {
                self.handles.log.commit(GenerationTrace::record(Some(&trace), None)).await?;
                if let ModelError::RefusedRequest { .. } = error {
                    return Err(GenerationError::Model { error, retry_after: None });
                }
                Err(error)
            }
        };
        Ok(PromptTrialResult { decision, usage, cost })
    }
}
