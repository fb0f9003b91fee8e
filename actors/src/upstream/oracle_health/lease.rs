//! The permit for one call, through which the outcome of the call is reported.

use super::{OracleHealth, ReportCallOutcome};
use actix::Addr;
use oracled_domain::OracleId;
use oracled_domain::verdict::health::{self, CircuitCallOutcome};

/// The permit for one call. Dropping it without a report counts as a neutral outcome.
#[derive(Debug)]
#[must_use = "a lease is for one call, and its outcome is to be reported"]
pub struct CallLease {
    oracle_id: OracleId,
    permit: health::CircuitPermit,
    outcome: CircuitCallOutcome,
    trial: bool,
    oracle_health: Addr<OracleHealth>,
}

impl CallLease {
    pub(super) fn new(
        oracle_id: OracleId,
        permit: health::CircuitPermit,
        trial: bool,
        oracle_health: Addr<OracleHealth>,
    ) -> Self {
        Self { oracle_id, permit, outcome: CircuitCallOutcome::Neutral, trial, oracle_health }
    }

    /// Whether the call is the trial call of a half-open circuit. A caller that cannot afford a failed call
    /// may probe the oracle instead, and report that outcome.
    #[must_use]
    pub const fn is_trial(&self) -> bool {
        self.trial
    }

    pub fn report(mut self, outcome: CircuitCallOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for CallLease {
    fn drop(&mut self) {
        let (oracle_id, permit) = (self.oracle_id.clone(), self.permit);
        let outcome = std::mem::replace(&mut self.outcome, CircuitCallOutcome::Neutral);
        // one message per permitted call; if a panic loses it, the expiry of the permit makes up for it
        self.oracle_health.do_send(ReportCallOutcome { oracle_id, permit, outcome });
    }
}
