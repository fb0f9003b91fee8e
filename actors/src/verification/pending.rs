//! Pending decisions, which workflows without a waiting caller make later.

use super::VerificationContext;
use crate::platform::caller::spawn_for_caller;
use crate::platform::clock::stopwatch;
use oracled_domain::verification::DecisionInputs;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Pause before the next attempt of a decision that could not be committed.
const DECISION_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of pending decisions. Beyond it, a request is rejected as busy.
pub(super) const PENDING_DECISIONS_MAX: usize = 2000;
/// Pending decisions use one in this number of slots, so that waiting callers get theirs.
const PENDING_SLOT_DIVISOR: usize = 4;

#[derive(Debug)]
pub(super) struct PendingDecisions {
    /// Execution ids of the decisions in progress. A restarted actor does not start any of them twice.
    claimed_ids: Mutex<BTreeSet<String>>,
    slots: Semaphore,
}

/// Exclusive access to a pending decision, until this is dropped.
pub(super) struct PendingDecisionClaim {
    context: Arc<VerificationContext>,
    execution_id: String,
}

impl PendingDecisions {
    /// No pending decisions, with a share of the `at_once` slots.
    pub(super) fn new(at_once: usize) -> Self {
        let slots = Semaphore::new((at_once / PENDING_SLOT_DIVISOR).max(1));
        Self { claimed_ids: Mutex::default(), slots }
    }

    fn lock_claimed_ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.claimed_ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingDecisionClaim {
    /// Claims a new pending decision; `None` if the limit is reached. It must be claimed before it is logged, because
    /// concurrent requests could exceed the limit otherwise.
    pub(super) fn new(verifier: &Arc<VerificationContext>, execution_id: &str) -> Option<Self> {
        Self::claim_below_limit(verifier, execution_id, PENDING_DECISIONS_MAX)
    }

    /// Claims a pending decision; `None` if `most` are in progress, or if it is already claimed.
    fn claim_below_limit(
        verifier: &Arc<VerificationContext>,
        execution_id: &str,
        most: usize,
    ) -> Option<Self> {
        let mut taken_up = verifier.pending.lock_claimed_ids();
        let is_new = taken_up.len() < most && taken_up.insert(execution_id.to_owned());
        is_new.then(|| Self { context: Arc::clone(verifier), execution_id: execution_id.to_owned() })
    }

    /// Starts the decision in the background. It waits for a slot.
    pub(super) fn start_decision(self, inputs: DecisionInputs) {
        spawn_for_caller(async move {
            let Self { context: verifier, execution_id } = &self;
            loop {
                let slot = verifier.pending.slots.acquire().await;
                let Err(error) = verifier.decide(inputs.clone(), stopwatch()).await else { break };
                tracing::warn!(%execution_id, %error, "could not make a pending decision; retrying");
                drop(slot);
                sleep(DECISION_RETRY_PAUSE).await;
            }
        });
    }
}

impl Drop for PendingDecisionClaim {
    fn drop(&mut self) {
        self.context.pending.lock_claimed_ids().remove(&self.execution_id);
    }
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
        if let Some(claim) =
            PendingDecisionClaim::claim_below_limit(verifier, &inputs.execution_id, usize::MAX)
        {
            claim.start_decision(inputs);
        }
    }
}
