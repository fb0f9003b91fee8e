//! Upkeep: compares the stored data of a source with its digests, prunes data that is no longer needed, and rebuilds
//! damaged files: the runs of the source read their payloads again, as they did the first time.

use super::source_claims::ClaimHolder;
use super::{
    CheckProgressCallback, IngestContext, IngestionError, PruneOldContent, PruneSource, VerifySourceFiles,
};
use crate::ingestion::RunTracker;
use crate::ingestion::reading::{ARCHIVING, PayloadReadOutcome, PayloadReader};
use crate::ingestion::source_claims::SourceClaim;
use crate::registry::RegistryError;
use actors_audit::logger::handle::CommitDecision;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::event::{PruneEntry, RebuildEntry, SourcePruned, SourceRebuilt};
use domain_ground::id::SourceId;
use domain_ground::source_state::{
    CompletedRun, PruneOutcome, PruneReport, RebuildOutcome, RunCheckReport, SourceCheck,
    SourceCheckProgress, SourceCheckReport, SourcePruning, SourceState, UnprunedSource,
};
use jiff::{SignedDuration, Timestamp};
use oracled_store::ground::payloads::UnreadablePayload;
use oracled_store::ground::rebuild::{RebuildError, RebuildStep, SourceRebuild};
use oracled_store::ground::staging::RunStaging;
use oracled_store::ground::verify::{PayloadCheckReport, PayloadFault};
use oracled_store::ground::view::SourceView;
use oracled_store::{JournalRecord, RowExpectation, RowWrite, Store, StoreError};
use std::sync::Arc;
use tokio::sync::MutexGuard;
use tokio::task::spawn_blocking;

/// Removes the content that ceased to hold by `before` from a source, and the payloads that are then no
/// longer needed. The default for `before` is the latest allowed time.
pub(super) async fn prune_on_request(
    context: Arc<IngestContext>,
    PruneSource { oracle_id, before, peer }: PruneSource,
) -> Result<PruneOutcome, IngestionError> {
    context.check_sharing()?;
    let kept_until = context.latest_prune_time(&oracle_id)?;
    let before = before.unwrap_or(kept_until);
    if before > kept_until {
        return Err(IngestionError::Retained { before, kept_until });
    }
    prune(&context, oracle_id, before, Some(peer), false).await
}

/// Prunes all sources. A source that is busy or damaged is left for the next time.
pub(super) async fn prune_old_content(
    context: Arc<IngestContext>,
    PruneOldContent { days, peer, is_dry_run }: PruneOldContent,
) -> Result<PruneReport, IngestionError> {
    context.check_sharing()?;
    let age = SignedDuration::from_hours(24 * i64::from(days));
    let before = context.clock.now().saturating_sub(age).unwrap_or(Timestamp::MIN);
    let mut report = PruneReport::default();
    for source in context.store.sources()?.iter().filter(|source| !source.completed.is_empty()) {
        let oracle_id = source.entry.oracle_id().clone();
        // a pipeline can keep its content for longer
        let before = before.min(context.latest_prune_time(&oracle_id)?);
        match prune(&context, oracle_id.clone(), before, peer, is_dry_run).await {
            Ok(outcome) if outcome.versions == 0 && outcome.payloads.is_empty() => {}
            Ok(outcome) => report.sources.push(SourcePruning { oracle_id, outcome }),
            Err(
                error @ (IngestionError::Busy { .. }
                | IngestionError::Upkeep(_)
                | IngestionError::OtherHost(_)
                | IngestionError::SourceChanged(_)
                | IngestionError::Store(
                    StoreError::SourceFile { .. } | StoreError::FactsNotHere { .. },
                )),
            ) => {
                tracing::warn!(%error, %oracle_id, "a source was not pruned; the next retention tries it again");
                report.unpruned.push(UnprunedSource { oracle_id, cause: error.to_string() });
            }
            // a full disk, for example, concerns the further sources too
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

async fn prune(
    context: &Arc<IngestContext>,
    oracle_id: SourceId,
    before: Timestamp,
    peer: Option<PeerCredentials>,
    is_dry_run: bool,
) -> Result<PruneOutcome, IngestionError> {
    let claim = Arc::new(context.claim_source(&oracle_id, ClaimHolder::Upkeep).await?);
    let view = context.view(&oracle_id)?;
    let old = view.state.clone();
    let pruning_claim = Arc::clone(&claim);
    let pruned = spawn_blocking(move || view.prune(before, |_| pruning_claim.is_allowed_to_continue())).await;
    let pruned = pruned.map_err(|error| IngestionError::Inside(error.to_string()))??;
    let pruned =
        pruned.ok_or_else(|| IngestionError::Inside("the daemon is stopping; nothing was pruned".into()))?;
    let archiving_guard = ARCHIVING.lock().await;
    let (versions, freed_bytes) = (pruned.statements, pruned.freed_bytes);
    let payloads = context.list_removable_payloads(&old, &pruned.unneeded, before)?;
    let mut outcome = PruneOutcome { before, versions, payloads, freed_bytes };
    if outcome.versions == 0 && outcome.payloads.is_empty() {
        return Ok(outcome);
    }
    if is_dry_run {
        let (store, payloads) = (context.store.clone(), outcome.payloads.clone());
        let work = move || store.files().removable_bytes(&payloads);
        outcome.freed_bytes += run_while_archiving_waits(archiving_guard, work).await?;
        return Ok(outcome);
    }
    let files = pruned.into_kept_files();
    context.upload_files(&oracle_id, files.clone(), false).await?;
    let timestamp = context.clock.now();
    let entry = PruneEntry {
        oracle_id: oracle_id.clone(),
        before,
        versions,
        payloads: outcome.payloads.clone(),
        peer,
    };
    context
        .commit_files(&oracle_id, AuditEvent::new(timestamp, None, SourcePruned(entry)), |source| {
            check_unchanged(&source, &old)?;
            Ok(SourceState { files: files.clone(), ..source })
        })
        .await?;
    context.store.remove_replaced(&old)?;
    let (store, payloads) = (context.store.clone(), outcome.payloads.clone());
    let work = move || store.remove_unneeded_payloads(&payloads, Some(&oracle_id));
    outcome.freed_bytes += run_while_archiving_waits(archiving_guard, work).await?;
    Ok(outcome)
}

/// Runs `work`, which removes payloads or reads their files, on a thread that may block. No payload is archived until the
/// work ends, even if the caller drops this future.
pub(super) async fn run_while_archiving_waits<T: Send + 'static>(
    archiving_guard: MutexGuard<'static, ()>,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, IngestionError> {
    let done = spawn_blocking(move || {
        let _archiving_guard = archiving_guard;
        work()
    });
    let done = done.await.map_err(|error| IngestionError::Inside(error.to_string()))?;
    Ok(done?)
}

/// Compares a source's files, and all of its runs or one of them, with their digests. Stores the result of a
/// check of the whole source, and uploads again what was lost of its objects.
pub(super) async fn verify(
    context: Arc<IngestContext>,
    check: VerifySourceFiles,
) -> Result<SourceCheckReport, IngestionError> {
    let VerifySourceFiles { oracle_id, run_id, proceed } = check;
    let verified = verify_until_settled(&context, &oracle_id, run_id.as_ref(), proceed).await?;
    if run_id.is_none() {
        let found = SourceCheck { checked_at: context.clock.now(), fault_count: verified.fault_count() };
        let (store, checked_id) = (context.store.clone(), oracle_id.clone());
        let stored = spawn_blocking(move || store.put_source_check(&checked_id, found)).await;
        let stored = stored.map_err(|error| IngestionError::Inside(error.to_string()))?;
        if let Err(error) = stored {
            tracing::warn!(%error, "could not store the result of a source check");
        }
        // it can take long, so it comes after the result is stored
        if verified.fault_count() == 0 {
            context.upload_lost_objects(&oracle_id).await;
        }
    }
    Ok(verified)
}

/// Checks a source. Repeats the check if a run ended meanwhile, and has merged and removed the files.
async fn verify_until_settled(
    context: &Arc<IngestContext>,
    oracle_id: &SourceId,
    run_id: Option<&Sha256Hex>,
    proceed: CheckProgressCallback,
) -> Result<SourceCheckReport, IngestionError> {
    // the check stops if the caller drops this future, which holds the first of two references
    let caller_alive = Arc::new(());
    loop {
        let (worker, checked_id, caller_alive_too) =
            (Arc::clone(context), oracle_id.clone(), Arc::clone(&caller_alive));
        let (run_id, proceed) = (run_id.cloned(), Arc::clone(&proceed));
        let checked = spawn_blocking(move || {
            // if the files cannot be opened again, the open view is used, so that the payloads are checked
            let opened = worker.store.view_for_check(&checked_id).or_else(|_| worker.store.view(&checked_id));
            let view = match opened {
                // the file is damaged so that it cannot be opened
                Err(error @ StoreError::SourceFile { .. }) => {
                    let file_fault = Some(error.to_string());
                    let runs = Vec::new();
                    return Ok((
                        SourceCheckReport { oracle_id: checked_id, rows: 0, file_fault, runs },
                        None,
                    ));
                }
                view => view?.ok_or_else(|| RegistryError::SourceUnknown(checked_id.clone()))?,
            };
            let is_awaited = || Arc::strong_count(&caller_alive_too) > 1 && !worker.claims.is_stopping();
            let mut proceed = |progress| is_awaited() && proceed(progress);
            let verified = verified(&worker.store, &view, run_id.as_ref(), &mut proceed)?;
            Ok((verified, Some(view.state.files.clone())))
        });
        let checked: Result<_, IngestionError> =
            checked.await.map_err(|error| IngestionError::Inside(error.to_string()))?;
        let (verified, files) = checked?;
        let is_settled =
            |files| Ok::<_, IngestionError>(context.commit_context().source(oracle_id)?.0.files == files);
        if verified.file_fault.is_none() || files.map_or(Ok(true), is_settled)? {
            return Ok(verified);
        }
    }
}

fn verified(
    store: &Store,
    view: &SourceView,
    run_id: Option<&Sha256Hex>,
    proceed: &mut dyn FnMut(SourceCheckProgress) -> bool,
) -> Result<SourceCheckReport, IngestionError> {
    let is_requested = |id: &Sha256Hex| run_id.is_none_or(|requested| requested == id);
    let completed: Vec<_> =
        view.state.completed.iter().filter(|completed| is_requested(&completed.run_id)).collect();
    let numbers = completed.iter().map(|completed| completed.release.run).collect();
    let mut meter = view.meter(&numbers, proceed);
    let of_files = view.verify_files(&mut meter);
    let of_rejects = |rows| {
        let oracle_id = view.state.entry.oracle_id();
        store.verify_rejects(oracle_id, run_id, &mut meter).map(|rejects| rows + rejects)
    };
    let (rows, file_fault) = match of_files.and_then(of_rejects) {
        Ok(rows) => (rows, None),
        Err(error @ StoreError::SourceFile { .. }) => (0, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let lost = store.lost_payloads(&view.state)?;
    let mut runs = Vec::new();
    let mut found = match view.verify_runs(&numbers, &mut meter) {
        Ok(found) => found,
        Err(error @ StoreError::Stopped) => return Err(error.into()),
        Err(_) if file_fault.is_some() => completed
            .iter()
            .map(|completed| (completed.release.run, unreadable_report(store, completed)))
            .collect(),
        Err(error) => return Err(error.into()),
    };
    for completed in completed {
        let found = found.remove(&completed.release.run).unwrap_or_default();
        let PayloadCheckReport { records, payload_bytes, faults, mut fault_count, no_payload } = found;
        let describe_fault = |fault: PayloadFault| match fault.position {
            Some(position) => format!("record {position}, at byte {}: {}", fault.offset, fault.what),
            None => format!("the payload: {}", fault.what),
        };
        let mut faults: Vec<_> = faults.into_iter().map(describe_fault).collect();
        let lost = lost.iter().find(|lost| lost.run_id == completed.run_id);
        fault_count += u64::from(lost.is_some());
        let has_payload = !no_payload || lost.is_some();
        faults.extend(lost.map(|lost| lost.why.clone()));
        runs.push(RunCheckReport {
            run_id: completed.run_id.clone(),
            version: completed.release.version.clone(),
            records,
            payload_bytes,
            has_payload,
            fault_count,
            faults,
        });
    }
    for (run, fault) in store.check_held_payloads(view.state.entry.oracle_id())? {
        if is_requested(&run.run_id) {
            runs.push(RunCheckReport {
                run_id: run.run_id,
                version: run.input.version,
                records: 0,
                payload_bytes: if fault.is_none() { run.raw_bytes } else { 0 },
                has_payload: true,
                fault_count: u64::from(fault.is_some()),
                faults: fault.into_iter().collect(),
            });
        }
    }
    Ok(SourceCheckReport { oracle_id: view.state.entry.oracle_id().clone(), rows, file_fault, runs })
}

/// The result for a run if the files with the offsets of its records are damaged.
fn unreadable_report(store: &Store, completed: &CompletedRun) -> PayloadCheckReport {
    if !store.files().has_archived(&completed.raw_sha256) {
        return PayloadCheckReport { no_payload: true, ..PayloadCheckReport::default() };
    }
    let what = "the offsets of its records are unknown, since a file of facts is damaged".to_owned();
    let fault = PayloadFault { run: completed.release.run, position: None, offset: 0, what };
    PayloadCheckReport { faults: vec![fault], fault_count: 1, ..PayloadCheckReport::default() }
}

/// Checks that the files and the visible runs of a source are those of `before`, on which this work is based. Another host can have
/// changed them after this one has lost its lease.
pub(super) fn check_unchanged(source: &SourceState, before: &SourceState) -> Result<(), IngestionError> {
    if (&source.files, &source.completed) == (&before.files, &before.completed) {
        return Ok(());
    }
    Err(IngestionError::SourceChanged(source.entry.oracle_id().clone()))
}

impl IngestContext {
    fn view(&self, oracle_id: &SourceId) -> Result<Arc<SourceView>, IngestionError> {
        let unknown = || RegistryError::SourceUnknown(oracle_id.clone());
        Ok(self.store.view(oracle_id)?.ok_or_else(unknown)?)
    }

    /// The archived payloads that can be removed with a pruning: those whose content was pruned, and those of failed
    /// runs.
    fn list_removable_payloads(
        &self,
        source: &SourceState,
        unneeded: &[Sha256Hex],
        before: Timestamp,
    ) -> Result<Vec<Sha256Hex>, IngestionError> {
        let mut payloads = self.store.payloads_of_failures(source, before)?;
        payloads.extend_from_slice(unneeded);
        payloads.sort();
        payloads.dedup();
        let mut removable = Vec::new();
        for sha256 in payloads {
            let needed = || self.store.is_payload_needed(&sha256, Some(source.entry.oracle_id()));
            if self.store.files().has_archived(&sha256) && !needed()? {
                removable.push(sha256);
            }
        }
        Ok(removable)
    }

    /// The latest time for which pruning is allowed: now minus the longest retention of the source's
    /// pipelines.
    fn latest_prune_time(&self, oracle_id: &SourceId) -> Result<Timestamp, IngestionError> {
        let mut days = 0;
        for registered in self.store.pipelines()?.iter().filter(|known| known.oracle_id == *oracle_id) {
            let definition = self.store.registered_definition(&registered.pipeline_id)?;
            days = days.max(definition.map_or(0, |definition| definition.pipeline.storage.retention_days));
        }
        let retention = SignedDuration::from_hours(i64::from(days) * 24);
        Ok(self.clock.now().saturating_sub(retention).unwrap_or(Timestamp::MIN))
    }

    /// Commits `change` to the state of a source, together with `event`.
    async fn commit_files(
        &self,
        oracle_id: &SourceId,
        event: AuditEvent,
        change: impl Fn(SourceState) -> Result<SourceState, IngestionError>,
    ) -> Result<(), IngestionError> {
        let commit_context = self.commit_context();
        let changed = self.log.decide_and_commit(|| {
            let (source, revision) = commit_context.source(oracle_id)?;
            let record = JournalRecord {
                expect: vec![RowExpectation::new::<SourceState>(oracle_id, Some(revision))],
                events: vec![event.clone()],
                writes: vec![RowWrite::put::<SourceState>(&change(source)?)],
                ..JournalRecord::default()
            };
            Ok(CommitDecision::Change((), record))
        });
        changed.await.map(|_| ())
    }
}

/// The most runs with unreadable payloads that an error names.
const NAMED_MAX: usize = 20;

/// Rebuilds the files of a source that differ from the committed ones.
pub(super) async fn rebuild(
    context: Arc<IngestContext>,
    oracle_id: SourceId,
    peer: PeerCredentials,
) -> Result<RebuildOutcome, IngestionError> {
    context.check_sharing()?;
    let claim = context.claim_source(&oracle_id, ClaimHolder::Upkeep).await?;
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
    let (source, _) = context.commit_context().source(&oracle_id)?;
    let rebuilt = source.sorted_files().filter(|file| outcome.files.contains(&file.sha256));
    context.upload_files(&oracle_id, rebuilt.cloned().collect(), true).await?;
    let RebuildOutcome { runs, prunings, files, .. } = outcome.clone();
    tracing::info!(%oracle_id, runs, prunings, files = files.len(), "damaged files rebuilt");
    let timestamp = context.clock.now();
    let entry = RebuildEntry { oracle_id: oracle_id.clone(), runs, prunings, files, peer };
    // the state of the source is unchanged; the commit makes readers of the damaged files close them
    context.commit_files(&oracle_id, AuditEvent::new(timestamp, None, SourceRebuilt(entry)), Ok).await?;
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
