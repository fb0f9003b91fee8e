//! The tokens and the costs of the model calls in the log.

use super::event::{AuditEvent, EventKind};
use crate::base::row::SumWrite;
use crate::verdict::cost::{CostSum, day_of};
use crate::verdict::cost_budget::{COSTS, DayCosts, UsedUpBudget, day_name};
use crate::verdict::generation::ModelTokenUsage;
use crate::verdict::session::SessionId;

impl AuditEvent {
    /// What the event adds to rows of sums: the cost of a model call, or a budget that is used up, to the costs of its day.
    #[must_use]
    pub fn sums(&self) -> Option<SumWrite> {
        let used_up = match &self.kind {
            EventKind::DailyBudgetReached { application, budget, .. } => Some(UsedUpBudget {
                application: application.clone(),
                daily: budget.clone(),
                at: self.timestamp,
            }),
            _ => None,
        };
        let cost = self.model_cost();
        if cost.is_none() && used_up.is_none() {
            return None;
        }
        let costs = DayCosts { sums: cost.into_iter().collect(), used_up: used_up.into_iter().collect() };
        let value = serde_json::to_vec(&costs).expect("the costs are plain data with string keys");
        Some(SumWrite { table: &COSTS, name: day_name(day_of(self.timestamp)), value })
    }

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
