//! Decisions that are taken later: of workflows that let nobody wait.

use super::Verifier;
use crate::platform::caller::carried;
use crate::platform::clock::stopwatch;
use oracled_domain::verification::Inputs;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// A decision that could not be taken, since the log could not be written, is tried again after so long.
const AGAIN: Duration = Duration::from_secs(5);
/// So many are promised at once; who asks for more is told to come back.
pub(super) const PROMISED_MAX: usize = 2000;
/// Of all turns this part is for them, so that those who wait are not kept from theirs.
const PART_OF_TURNS: usize = 4;

/// The decisions that are still to be taken.
#[derive(Debug)]
pub(super) struct Promises {
    /// By their execution ids. A restart of the actor takes none up twice.
    taken_up: Mutex<BTreeSet<String>>,
    places: Semaphore,
}

/// One of them, which nobody else takes up as long as there is this.
pub(super) struct Promise {
    verifier: Arc<Verifier>,
    execution_id: String,
}

impl Promises {
    /// None so far, where so many questions are put at once.
    pub(super) fn new(at_once: usize) -> Self {
        let places = Semaphore::new((at_once / PART_OF_TURNS).max(1));
        Self { taken_up: Mutex::default(), places }
    }

    fn taken_up(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.taken_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Promise {
    /// One more, where there is room for it. It is to be had before it is logged: others may be on their way there.
    pub(super) fn new(verifier: &Arc<Verifier>, execution_id: &str) -> Option<Self> {
        Self::among(verifier, execution_id, PROMISED_MAX)
    }

    /// The same among so many at the most; nothing where somebody has it already, either.
    fn among(verifier: &Arc<Verifier>, execution_id: &str, most: usize) -> Option<Self> {
        let mut taken_up = verifier.promises.taken_up();
        let is_new = taken_up.len() < most && taken_up.insert(execution_id.to_owned());
        is_new.then(|| Self { verifier: Arc::clone(verifier), execution_id: execution_id.to_owned() })
    }

    /// Has the decision taken when it is its turn, and does not wait for it.
    pub(super) fn begin(self, inputs: Inputs) {
        tokio::spawn(carried(async move {
            let Self { verifier, execution_id } = &self;
            loop {
                let place = verifier.promises.places.acquire().await;
                let Err(error) = verifier.decide(inputs.clone(), stopwatch()).await else { break };
                tracing::warn!(%execution_id, %error, "a decision that was promised is not taken yet");
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

/// Takes up all decisions that are still to be taken and that nobody has in hand, however many: a stop has come in between, or a
/// panic.
pub(super) fn take_up(verifier: &Arc<Verifier>) {
    let pending = match verifier.store.pending() {
        Ok(pending) => pending,
        Err(error) => {
            tracing::error!(%error, "decisions that were promised cannot be read, and are not taken");
            return;
        }
    };
    for inputs in pending {
        if let Some(promise) = Promise::among(verifier, &inputs.execution_id, usize::MAX) {
            promise.begin(inputs);
        }
    }
}
