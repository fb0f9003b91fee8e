//! Decisions that are taken later: of workflows that let nobody wait.

use super::{Verifier, VerifyError};
use crate::clock::stopwatch;
use domain::verification::Inputs;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// A decision that could not be taken, since the log could not be written or too much went on, is tried again after so long.
const AGAIN: Duration = Duration::from_secs(5);

/// Takes up all decisions that are still to be taken: a stop has come in between.
pub(super) fn take_up(verifier: &Arc<Verifier>) {
    match verifier.store.pending() {
        Ok(pending) => pending.into_iter().for_each(|inputs| begin(verifier, inputs)),
        Err(error) => {
            tracing::error!(%error, "decisions that were promised cannot be read, and are not taken");
        }
    }
}

/// Has a decision taken, and does not wait for it.
pub(super) fn begin(verifier: &Arc<Verifier>, inputs: Inputs) {
    let verifier = Arc::clone(verifier);
    actix_rt::spawn(async move {
        while let Err(error) = verifier.decide(inputs.clone(), stopwatch()).await {
            tracing::warn!(execution_id = %inputs.execution_id, %error, "a decision that was promised is not taken yet");
            if matches!(error, VerifyError::NoAnswer(_)) {
                return;
            }
            sleep(AGAIN).await;
        }
    });
}
