//! Rebuilds damaged files of a source: its runs read their payloads again, as they did the first time.

use super::reading::{PayloadReadOutcome, PayloadReader};
use super::source_claims::{ClaimHolder, SourceClaim};
use super::{IngestContext, IngestionError};
use crate::ingestion::RunTracker;
use crate::registry::RegistryError;
use domain_base::caller::PeerCredentials;
use domain_base::event::AuditEvent;
use domain_ground::event::{RebuildEntry, SourceRebuilt};
use domain_ground::id::SourceId;
use domain_ground::source_state::CompletedRun;
use domain_ground::upkeep::RebuildOutcome;
use oracled_store::ground::payloads::UnreadablePayload;
use oracled_store::ground::rebuild::{RebuildError, RebuildStep, SourceRebuild};
use oracled_store::ground::staging::RunStaging;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// The most runs with unreadable payloads that an error names.
const NAMED_MAX: usize = 20;

/// Rebuilds the files of a source that differ from the committed ones.
pub(super) async fn rebuild(
    context: Arc<IngestContext>,
    oracle_id: SourceId,
    peer: PeerCredentials,
) -> Result<RebuildOutcome, IngestionError> {
    let claim = context.claims.claim_for(&oracle_id, ClaimHolder::Upkeep)?;
    // a rebuild counts as a run; the semaphore is never closed
    let slot = context.run_slots.acquire().await;
    let work = (Arc::clone(&context), oracle_id.clone());
    let rebuilt = spawn_blocking(move || (work.0.rebuild_files(&work.1, &claim), claim)).await;
    drop(slot);
    let (outcome, _claim) = rebuilt.map_err(|error| IngestionError::Inside(error.to_string()))?;
    let outcome = outcome?;
    if outcome.files.is_empty() {
        return Ok(outcome);
    }
    let RebuildOutcome { runs, prunings, files, .. } = outcome.clone();
    tracing::info!(%oracle_id, runs, prunings, files = files.len(), "damaged files rebuilt");
    let timestamp = context.clock.now();
    let entry = RebuildEntry { oracle_id: oracle_id.clone(), runs, prunings, files, peer };
    // the state of the source is unchanged; the commit makes readers of the damaged files close them
    context
        .commit_files(&oracle_id, AuditEvent::new(timestamp, None, SourceRebuilt(entry)), |source| source)
        .await?;
    Ok(outcome)
}

impl IngestContext {
    fn rebuild_files(
        &self,
        oracle_id: &SourceId,
        claim: &SourceClaim,
    ) -> Result<RebuildOutcome, IngestionError> {
        let unknown = || RegistryError::SourceUnknown(oracle_id.clone());
        let mut rebuilding = self.store.start_rebuild(oracle_id)?.ok_or_else(unknown)?;
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
            return Err(refused(format_unreadable_payloads(&unreadable)));
        }
        let differs = |error| match error {
            RebuildError::Store(error) => IngestionError::Store(error),
            error @ RebuildError::Differs { .. } => refused(error.to_string()),
        };
        let cancelled = || refused("it was cancelled, or the daemon is stopping".into());
        let mut progress: Option<Arc<RunTracker>> = None;
        for step in self.store.rebuild_steps(rebuilding.committed())? {
            match step {
                RebuildStep::Run(completed) if completed.release.undoes.is_some() => {
                    let (files, run_id) = (rebuilding.temporary_files(), &completed.run_id);
                    let staging = RunStaging::new(files, run_id, completed.release.run)?;
                    let staged = staging.finish(&*rebuilding.view()?, &completed.release, |_| {
                        claim.is_allowed_to_continue()
                    })?;
                    rebuilding.add(&completed, staged.ok_or_else(cancelled)?).map_err(differs)?;
                    outcome.runs += 1;
                }
                RebuildStep::Run(completed) => {
                    let reading = self.rebuild_reader(&rebuilding, &completed)?;
                    let before = progress.replace(Arc::clone(&reading.progress));
                    claim.assign_to_run(&reading.progress);
                    // a cancellation before that was addressed to the previous run
                    if before.is_some_and(|run| run.stop_reason().is_some()) {
                        return Err(cancelled());
                    }
                    match reading.run() {
                        PayloadReadOutcome::Staged { staged, .. } => {
                            rebuilding.add(&completed, *staged).map_err(differs)?;
                        }
                        PayloadReadOutcome::EndedEarly => return Err(cancelled()),
                        PayloadReadOutcome::Failed { cause, .. } | PayloadReadOutcome::NoSpace { cause } => {
                            return Err(refused(format!("run {}: {cause}", completed.run_id)));
                        }
                    }
                    outcome.runs += 1;
                }
                RebuildStep::Prune(before) => {
                    let goes_on = |_| {
                        claim.is_allowed_to_continue()
                            && progress.as_ref().is_none_or(|run| run.stop_reason().is_none())
                    };
                    if !rebuilding.prune(before, goes_on)? {
                        return Err(cancelled());
                    }
                    outcome.prunings += 1;
                }
            }
            if progress.as_ref().is_some_and(|run| run.stop_reason().is_some()) {
                return Err(cancelled());
            }
        }
        rebuilding.finish(&damaged).map_err(differs)?;
        self.store.reopen(oracle_id);
        outcome.files = damaged.into_iter().map(|file| file.sha256).collect();
        Ok(outcome)
    }

    /// The reading of a completed run, over its payload and the rebuilt files of the earlier runs.
    fn rebuild_reader(
        &self,
        rebuilding: &SourceRebuild,
        completed: &CompletedRun,
    ) -> Result<PayloadReader, IngestionError> {
        let missing = || IngestionError::Inside(format!("run {} is missing", completed.run_id));
        let (run, _) = self.store.run(&completed.run_id)?.ok_or_else(missing)?;
        let ready = self.prepare_pipeline_of_run(&run)?;
        Ok(PayloadReader {
            files: rebuilding.temporary_files().clone(),
            view: rebuilding.view()?,
            ready,
            release: completed.release.clone(),
            progress: Arc::new(RunTracker::new(run)),
            limits: self.limits,
        })
    }
}

/// The text of the error: which runs cannot read their payloads again, and why.
fn format_unreadable_payloads(unreadable: &[UnreadablePayload]) -> String {
    let named = unreadable.iter().take(NAMED_MAX);
    let named =
        named.map(|UnreadablePayload { run_id, version, why }| format!("run {run_id} ({version}): {why}"));
    let mut words = named.collect::<Vec<_>>().join("; ");
    if let Some(others @ 1..) = unreadable.len().checked_sub(NAMED_MAX) {
        words.push_str(&format!("; and {others} more"));
    }
    format!("some payloads cannot be read again: {words}")
}
