//! Pending decisions, which workflows without a waiting caller make later.

use super::Verifier;
use crate::platform::caller::carried;
use crate::platform::clock::stopwatch;
use oracled_domain::verification::Inputs;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Pause before the next attempt of a decision that could not be committed.
const AGAIN: Duration = Duration::from_secs(5);
/// Maximum number of pending decisions. Beyond it, a request is rejected as busy.
pub(super) const PROMISED_MAX: usize = 2000;
/// Pending decisions use one in this number of slots, so that waiting callers get theirs.
const PART_OF_TURNS: usize = 4;

/// The pending decisions.
#[derive(Debug)]
pub(super) struct Promises {
    /// Execution ids of the decisions in progress. A restarted actor does not start any of them twice.
    taken_up: Mutex<BTreeSet<String>>,
    places: Semaphore,
}

/// Exclusive access to a pending decision, until this is dropped.
pub(super) struct Promise {
    verifier: Arc<Verifier>,
    execution_id: String,
}

impl Promises {
    /// No pending decisions, with a share of the `at_once` slots.
    pub(super) fn new(at_once: usize) -> Self {
        let places = Semaphore::new((at_once / PART_OF_TURNS).max(1));
        Self { taken_up: Mutex::default(), places }
    }

    fn taken_up(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.taken_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Promise {
    /// Claims a new pending decision; `None` if the limit is reached. It must be claimed before it is logged, because
    /// concurrent requests could exceed the limit otherwise.
    pub(super) fn new(verifier: &Arc<Verifier>, execution_id: &str) -> Option<Self> {
        Self::among(verifier, execution_id, PROMISED_MAX)
    }

    /// Claims a pending decision; `None` if `most` are in progress, or if it is already claimed.
    fn among(verifier: &Arc<Verifier>, execution_id: &str, most: usize) -> Option<Self> {
        let mut taken_up = verifier.promises.taken_up();
        let is_new = taken_up.len() < most && taken_up.insert(execution_id.to_owned());
        is_new.then(|| Self { verifier: Arc::clone(verifier), execution_id: execution_id.to_owned() })
    }

    /// Starts the decision in the background. It waits for a slot.
    pub(super) fn begin(self, inputs: Inputs) {
        tokio::spawn(carried(async move {
            let Self { verifier, execution_id } = &self;
            loop {
                let place = verifier.promises.places.acquire().await;
                let Err(error) = verifier.decide(inputs.clone(), stopwatch()).await else { break };
                tracing::warn!(%execution_id, %error, "could not make a pending decision; retrying");
                drop(place);
                sleep(AGAIN).await;
            }
        }));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.verifier.promises.taken_up().remove(&self.execution_id);
    }
}

/// Starts all pending decisions that are not in progress, without a limit: those that were interrupted by a stop or a
/// panic.
pub(super) fn take_up(verifier: &Arc<Verifier>) {
    let pending = match verifier.store.pending() {
        Ok(pending) => pending,
        Err(error) => {
            tracing::error!(%error, "could not read the pending decisions");
            return;
        }
    };
    for inputs in pending {
        if let Some(promise) = Promise::among(verifier, &inputs.execution_id, usize::MAX) {
            promise.begin(inputs);
        }
    }
}
