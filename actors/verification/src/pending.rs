//! Pending decisions, which workflows without a waiting caller make later.

use super::VerificationContext;
use actors_platform::caller::spawn_for_caller;
use actors_platform::clock::stopwatch;
use actors_platform::in_flight::{InFlight, InFlightClaim};
use domain_verification::DecisionInputs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Pause before the next attempt of a decision that could not be committed.
const DECISION_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of pending decisions. Beyond it, a request is rejected as busy.
pub const PENDING_DECISIONS_MAX: usize = 2000;
/// Pending decisions use one in this number of slots, so that waiting callers get theirs.
const PENDING_SLOT_DIVISOR: usize = 4;

/// Exclusive access to a pending decision, by its execution id.
pub(super) type PendingDecisionClaim = InFlightClaim<String>;

#[derive(Debug)]
pub(super) struct PendingDecisions {
    /// The decisions in progress. A restarted actor does not start any of them twice.
    in_flight: InFlight<String>,
    slots: Semaphore,
}

impl PendingDecisions {
    /// No pending decisions, with a share of the `at_once` slots.
    pub(super) fn new(at_once: usize) -> Self {
        let slots = Semaphore::new((at_once / PENDING_SLOT_DIVISOR).max(1));
        Self { in_flight: InFlight::default(), slots }
    }

    /// Claims a new pending decision; `None` if the limit is reached. It must be claimed before it is logged, because
    /// concurrent requests could exceed the limit otherwise.
    pub(super) fn claim(&self, execution_id: &str) -> Option<PendingDecisionClaim> {
        self.in_flight.claim_below(execution_id.to_owned(), PENDING_DECISIONS_MAX)
    }
}

/// Starts a decision in the background. It waits for a slot.
pub(super) fn start_decision(
    verifier: Arc<VerificationContext>,
    claim: PendingDecisionClaim,
    inputs: DecisionInputs,
) {
    spawn_for_caller(async move {
        loop {
            let slot = verifier.pending.slots.acquire().await;
            let Err(error) = verifier.decide(inputs.clone(), stopwatch()).await else { break };
            tracing::warn!(execution_id = claim.id, %error, "could not make a pending decision; retrying");
            drop(slot);
            sleep(DECISION_RETRY_PAUSE).await;
        }
    });
}

/// Starts all pending decisions that are not in progress, without a limit: those that were interrupted by a stop or a
/// panic.
pub(super) fn resume_pending_decisions(verifier: &Arc<VerificationContext>) {
    let pending = match verifier.store.pending_decisions() {
        Ok(pending) => pending,
        Err(error) => {
            tracing::error!(%error, "could not read the pending decisions");
            return;
        }
    };
    for inputs in pending {
        if let Some(claim) = verifier.pending.in_flight.claim(inputs.execution_id.clone()) {
            start_decision(Arc::clone(verifier), claim, inputs);
        }
    }
}
