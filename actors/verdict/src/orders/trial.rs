//! Trials of prompt templates, which run beside the orders.

use super::OrdersActor;
use crate::generation::{GenerationError, PromptTrial, PromptTrialResult};
use actix::{Context, Handler, Message, ResponseFuture};
use std::sync::Arc;

/// Asks the model once with a prompt template, and judges its answer. Nothing is delivered.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<PromptTrialResult, GenerationError>")]
pub struct TryPrompt(pub PromptTrial);

impl Handler<TryPrompt> for OrdersActor {
    type Result = ResponseFuture<Result<PromptTrialResult, GenerationError>>;

    fn handle(&mut self, TryPrompt(trial): TryPrompt, _: &mut Context<Self>) -> Self::Result {
        let runner = Arc::clone(&self.work.runner);
        Box::pin(async move { runner.try_prompt(trial).await })
    }
}
