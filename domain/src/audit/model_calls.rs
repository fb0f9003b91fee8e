//! The tokens and the costs of the model calls in the log.

use super::event::{AuditEvent, EventKind};
use crate::verdict::cost::{CostSum, day_of};
use crate::verdict::generation::ModelTokenUsage;
use crate::verdict::session::SessionId;

impl AuditEvent {
    /// The tokens used by the model call that the event is about.
    #[must_use]
    pub const fn token_usage(&self) -> Option<ModelTokenUsage> {
        match &self.kind {
            EventKind::OracleInteraction(interaction) => interaction.usage,
            _ => None,
        }
    }

    /// The cost of the model call that the event is about.
    #[must_use]
    pub fn model_cost(&self) -> Option<CostSum> {
        let EventKind::OracleInteraction(interaction) = &self.kind else { return None };
        let usage = interaction.usage?;
        Some(CostSum {
            day: day_of(self.timestamp),
            application: self.session_id.as_ref().map(SessionId::application),
            model: interaction.oracle_id.clone(),
            tier: interaction.tier,
            calls: 1,
            prompt_tokens: usage.prompt_tokens.unwrap_or(0),
            output_tokens: usage.output_tokens.unwrap_or(0),
            cost: interaction.cost.clone()?,
        })
    }
}
