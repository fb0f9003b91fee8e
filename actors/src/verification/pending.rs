//! Decisions that are taken later: of workflows that let nobody wait.

use super::{Verifier, VerifyError};
use crate::clock::stopwatch;
use domain::verification::Inputs;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// A decision that could not be taken, since the log could not be written, is tried again after so long.
const AGAIN: Duration = Duration::from_secs(5);
/// So many are promised at once; who asks for more is told to come back.
const PROMISED_MAX: usize = 2000;
/// Of all turns this part is for them, so that those who wait are not kept from theirs.
const PART_OF_TURNS: usize = 4;

/// The decisions that are still to be taken.
#[derive(Debug)]
pub(super) struct Promises {
    /// By their execution ids. A restart of the actor takes none up twice.
    taken_up: Mutex<BTreeSet<String>>,
    places: Semaphore,
}

impl Promises {
    /// None so far, where so many questions are put at once.
    pub(super) fn new(at_once: usize) -> Self {
        let places = Semaphore::new((at_once / PART_OF_TURNS).max(1));
        Self { taken_up: Mutex::default(), places }
    }

    /// Whether there is room for one more.
    pub(super) fn have_room(&self) -> bool {
        self.taken_up().len() < PROMISED_MAX
    }

    /// Whether nobody has taken it up so far.
    fn take_up(&self, execution_id: &str) -> bool {
        self.taken_up().insert(execution_id.to_owned())
    }

    fn done(&self, execution_id: &str) {
        self.taken_up().remove(execution_id);
    }

    fn taken_up(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.taken_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes up all decisions that are still to be taken: a stop has come in between.
pub(super) fn take_up(verifier: &Arc<Verifier>) {
    match verifier.store.pending() {
        Ok(pending) => pending.into_iter().for_each(|inputs| begin(verifier, inputs)),
        Err(error) => {
            tracing::error!(%error, "decisions that were promised cannot be read, and are not taken");
        }
    }
}

/// Has a decision taken when it is its turn, and does not wait for it.
pub(super) fn begin(verifier: &Arc<Verifier>, inputs: Inputs) {
    if !verifier.promises.take_up(&inputs.execution_id) {
        return;
    }
    let verifier = Arc::clone(verifier);
    actix_rt::spawn(async move {
        let place = verifier.promises.places.acquire().await;
        while let Err(error) = verifier.decide(inputs.clone(), stopwatch()).await {
            tracing::warn!(execution_id = %inputs.execution_id, %error, "a decision that was promised is not taken yet");
            if matches!(error, VerifyError::NoAnswer(_)) {
                break;
            }
            sleep(AGAIN).await;
        }
        drop(place);
        verifier.promises.done(&inputs.execution_id);
    });
}
