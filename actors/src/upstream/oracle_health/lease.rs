//! The leave to make one call, which is handed back with what came of it.

use super::{OracleHealth, Report};
use actix::Addr;
use oracled_domain::OracleId;
use oracled_domain::verdict::health::{self, Outcome};

/// The leave to make one call. Dropped without a report it says that nothing was learned.
#[derive(Debug)]
#[must_use = "a lease is for one call, and its outcome is to be reported"]
pub struct Lease {
    oracle_id: OracleId,
    permit: health::Permit,
    outcome: Outcome,
    trial: bool,
    oracle_health: Addr<OracleHealth>,
}

impl Lease {
    pub(super) fn new(
        oracle_id: OracleId,
        permit: health::Permit,
        trial: bool,
        oracle_health: Addr<OracleHealth>,
    ) -> Self {
        Self { oracle_id, permit, outcome: Outcome::Neutral, trial, oracle_health }
    }

    /// Whether the call is the one that decides a half-open circuit. Who cannot afford a call that fails may probe the
    /// oracle instead, and report that.
    #[must_use]
    pub const fn is_trial(&self) -> bool {
        self.trial
    }

    /// Says how the call ended.
    pub fn report(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (oracle_id, permit) = (self.oracle_id.clone(), self.permit);
        let outcome = std::mem::replace(&mut self.outcome, Outcome::Neutral);
        // one for each call that was let through; the rare one that a panic costs is made up for by the lease's end
        self.oracle_health.do_send(Report { oracle_id, permit, outcome });
    }
}
