//! Rebuilds damaged files of a source: its runs read their payloads again, as they did the first time.

use super::flights::{Claim, Holder};
use super::progress::Progress;
use super::reading::{Outcome, Reading};
use super::{IngestionError, Shop};
use crate::ground::registry::RegistryError;
use oracled_domain::audit::event::ground::RebuildEntry;
use oracled_domain::ground::check::RebuildOutcome;
use oracled_domain::ground::id::SourceId;
use oracled_domain::{Event, EventKind, Peer};
use oracled_store::ground::payloads::Unreadable;
use oracled_store::ground::rebuild::{RebuildError, Rebuilding, Step};
use oracled_store::ground::staging::Staging;
use oracled_store::ground::state::Completed;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The most runs with unreadable payloads that an error names.
const NAMED_MAX: usize = 20;

/// Rebuilds the files of a source that differ from the committed ones.
pub(super) async fn rebuild(
    shop: Arc<Shop>,
    oracle_id: SourceId,
    peer: Peer,
) -> Result<RebuildOutcome, IngestionError> {
    let claim = shop.flights.hold(&oracle_id, Holder::Upkeep)?;
    // a rebuild counts as a run; the semaphore is never closed
    let place = shop.places.acquire().await;
    let work = (Arc::clone(&shop), oracle_id.clone());
    let made = spawn_blocking(move || (work.0.make_anew(&work.1, &claim), claim)).await;
    drop(place);
    let (outcome, _claim) = made.map_err(|error| IngestionError::Inside(error.to_string()))?;
    let outcome = outcome?;
    if outcome.files.is_empty() {
        return Ok(outcome);
    }
    let RebuildOutcome { runs, prunings, files, .. } = outcome.clone();
    tracing::info!(%oracle_id, runs, prunings, files = files.len(), "damaged files rebuilt");
    let timestamp = shop.clock.now();
    let entry = RebuildEntry { oracle_id: oracle_id.clone(), runs, prunings, files, peer };
    // the state of the source is unchanged; the commit makes readers of the damaged files close them
    shop.commit_files(&oracle_id, Event::new(timestamp, None, EventKind::SourceRebuilt(entry)), |source| {
        source
    })
    .await?;
    Ok(outcome)
}

impl Shop {
    fn make_anew(&self, oracle_id: &SourceId, claim: &Claim) -> Result<RebuildOutcome, IngestionError> {
        let unknown = || RegistryError::SourceUnknown(oracle_id.clone());
        let mut rebuilding = self.store.rebuilding(oracle_id)?.ok_or_else(unknown)?;
        let mut outcome =
            RebuildOutcome { oracle_id: oracle_id.clone(), runs: 0, prunings: 0, files: Vec::new() };
        let damaged = rebuilding.damaged();
        if damaged.is_empty() {
            // the files may have been rebuilt without a commit
            self.store.reopen(oracle_id);
            return Ok(outcome);
        }
        let refused = |why| IngestionError::NotRebuilt { oracle_id: oracle_id.clone(), why };
        let unreadable = self.store.unreadable_payloads(rebuilding.committed())?;
        if !unreadable.is_empty() {
            return Err(refused(in_words(&unreadable)));
        }
        let differs = |error| match error {
            RebuildError::Store(error) => IngestionError::Store(error),
            error @ RebuildError::Differs { .. } => refused(error.to_string()),
        };
        let cancelled = || refused("it was cancelled, or the daemon is stopping".into());
        let mut progress: Option<Arc<Progress>> = None;
        for step in self.store.steps(rebuilding.committed())? {
            match step {
                Step::Run(completed) if completed.release.undoes.is_some() => {
                    let staging = Staging::new(rebuilding.apart(), &completed.run_id, completed.release.run)?;
                    let staged =
                        staging.finish(&*rebuilding.view()?, &completed.release, |_| claim.is_to_go_on())?;
                    rebuilding.add(&completed, staged.ok_or_else(cancelled)?).map_err(differs)?;
                    outcome.runs += 1;
                }
                Step::Run(completed) => {
                    let reading = self.reading_again(&rebuilding, &completed)?;
                    let before = progress.replace(Arc::clone(&reading.progress));
                    claim.hand_to(&reading.progress);
                    // a cancellation before that was addressed to the previous run
                    if before.is_some_and(|run| run.ending().is_some()) {
                        return Err(cancelled());
                    }
                    match reading.run() {
                        Outcome::Staged { staged, .. } => {
                            rebuilding.add(&completed, *staged).map_err(differs)?;
                        }
                        Outcome::EndedEarly => return Err(cancelled()),
                        Outcome::Failed { cause, .. } | Outcome::NoSpace { cause } => {
                            return Err(refused(format!("run {}: {cause}", completed.run_id)));
                        }
                    }
                    outcome.runs += 1;
                }
                Step::Prune(before) => {
                    let goes_on =
                        |_| claim.is_to_go_on() && progress.as_ref().is_none_or(|run| run.ending().is_none());
                    if !rebuilding.prune(before, goes_on)? {
                        return Err(cancelled());
                    }
                    outcome.prunings += 1;
                }
            }
            if progress.as_ref().is_some_and(|run| run.ending().is_some()) {
                return Err(cancelled());
            }
        }
        rebuilding.finish(&damaged).map_err(differs)?;
        self.store.reopen(oracle_id);
        outcome.files = damaged.into_iter().map(|file| file.sha256).collect();
        Ok(outcome)
    }

    /// The reading of a completed run, over its payload and the rebuilt files of the earlier runs.
    fn reading_again(
        &self,
        rebuilding: &Rebuilding,
        completed: &Completed,
    ) -> Result<Reading, IngestionError> {
        let missing = || IngestionError::Inside(format!("run {} is missing", completed.run_id));
        let (run, _) = self.store.run(&completed.run_id)?.ok_or_else(missing)?;
        let ready = self.ready_for(&run)?;
        Ok(Reading {
            files: rebuilding.apart().clone(),
            view: rebuilding.view()?,
            ready,
            release: completed.release.clone(),
            progress: Arc::new(Progress::new(run)),
            limits: self.limits,
        })
    }
}

/// The text of the error: which runs cannot read their payloads again, and why.
fn in_words(unreadable: &[Unreadable]) -> String {
    let named = unreadable.iter().take(NAMED_MAX);
    let named = named.map(|Unreadable { run_id, version, why }| format!("run {run_id} ({version}): {why}"));
    let mut words = named.collect::<Vec<_>>().join("; ");
    if let Some(others @ 1..) = unreadable.len().checked_sub(NAMED_MAX) {
        words.push_str(&format!("; and {others} more"));
    }
    format!("some payloads cannot be read again: {words}")
}
