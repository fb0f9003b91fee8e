//! The tokens and the costs of the model calls in the log.

use super::event::{AuditEvent, OracleInteraction};
use crate::verdict::cost::CostSum;
use crate::verdict::generation::ModelTokenUsage;

impl AuditEvent {
    /// The tokens used by the model call that the event is about.
    #[must_use]
    pub fn token_usage(&self) -> Option<ModelTokenUsage> {
        self.kind.get::<OracleInteraction>()?.0.usage
    }

    /// The cost of the model call that the event is about.
    #[must_use]
    pub fn model_cost(&self) -> Option<CostSum> {
        self.kind.get::<OracleInteraction>()?.0.cost_sum(self.timestamp, self.session_id.as_ref())
    }
}
