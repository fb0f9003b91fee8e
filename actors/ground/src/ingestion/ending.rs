//! The end of a run. One commit makes its records visible, or closes it without a change.

use super::reading::PayloadReadOutcome;
use super::run_task::{SourceRunChange, decide_run_change, mark_held_again, next_known_at};
use super::upkeep::{check_unchanged, run_while_archiving_waits};
use super::{IngestContext, IngestionError};
use crate::ingestion::RunTracker;
use crate::ingestion::reading::ARCHIVING;
use crate::ingestion::run_task::execute_run;
use crate::ingestion::source_claims::ClaimHolder;
use crate::registry::{CommitContext, PreparedPipeline, RegistryError, policy_of};
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::CommitDecision;
use actors_platform::caller::spawn_for_caller;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::event::{
    IngestionEnded, IngestionStarted, InvalidationCause, InvalidationEntry, RunEntry, SourceInvalidated,
};
use domain_ground::freshness::InvalidationTrigger;
use domain_ground::run::{
    GateBreach, IngestionRun, RunCounts, RunDecision, RunPhase, RunState, SortedFileRef, UndoneRun,
    undo_run_id,
};
use domain_ground::source_state::{CompletedRun, SourceState, StatedRecords};
use domain_ground::timeline::TimelineRun;
use oracled_store::StoreError;
use oracled_store::ground::staging::{RunStaging, StagedRun};
use oracled_store::ground::view::SourceView;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The pause before the commit of a run's end is retried.
const END_PAUSE: Duration = Duration::from_secs(1);

impl IngestContext {
    pub(super) async fn end(
        &self,
        progress: &RunTracker,
        outcome: PayloadReadOutcome,
    ) -> Option<IngestionRun> {
        progress.set_phase(RunPhase::Committing);
        let mut run = progress.run.clone();
        run.ended_at = Some(self.clock.now());
        let ended = match outcome {
            PayloadReadOutcome::Staged { staged, ready, base } => {
                match self.complete_or_hold(progress, run.clone(), *staged, (&ready, &base)).await {
                    Err(IngestionError::Store(StoreError::Stopped)) => self.read_stored_run(run),
                    // after `Unavailable` it is unknown whether the commit is durable
                    Err(error) if !matches!(error, IngestionError::Commit(CommitError::Unavailable(_))) => {
                        (run.state, run.cause) = (RunState::Failed, Some(error.to_string()));
                        self.close(run).await
                    }
                    ended => ended,
                }
            }
            PayloadReadOutcome::EndedEarly => self.read_stored_run(run),
            PayloadReadOutcome::NoSpace { cause } => {
                (run.state, run.cause) = (RunState::Failed, Some(cause));
                let closed = self.close(run).await;
                self.remove_payload(&progress.run).await;
                closed
            }
            PayloadReadOutcome::Failed { cause, counts, rows } => {
                (run.state, run.cause, run.counts, run.rows) = (RunState::Failed, Some(cause), *counts, rows);
                match self.upload_run_files(progress, run.rows.iter().cloned().collect()).await {
                    Err(IngestionError::Store(StoreError::Stopped)) => self.read_stored_run(run),
                    Err(error) => {
                        let cause = run.cause.take().unwrap_or_default();
                        run.cause = Some(format!("{cause}; and its rejects could not be stored: {error}"));
                        run.rows = None;
                        self.close(run).await
                    }
                    Ok(()) => self.close(run).await,
                }
            }
        };
        match ended {
            Ok(run) => {
                let IngestionRun { run_id, oracle_id, state, counts, cause, .. } = &run;
                let (records, rejected) = (counts.records, counts.rejected);
                match state {
                    RunState::Running => tracing::info!(%run_id, %oracle_id, "ingestion run suspended"),
                    RunState::Failed => {
                        tracing::warn!(%run_id, %oracle_id, records, rejected, cause, "ingestion run failed");
                    }
                    _ => {
                        tracing::info!(%run_id, %oracle_id, state = state.into_str(), records, rejected, cause, "ingestion run ended");
                    }
                }
                self.metrics.count_ended_run(&run);
                Some(run)
            }
            // in the store the run is still running, so the next start reads its payload again
            Err(error) => {
                tracing::error!(run_id = %progress.run.run_id, %error, "could not commit the end of an ingestion run");
                None
            }
        }
    }

    /// Makes a run visible, or holds it if it breaks a gate of its pipeline. The gates of an approved run are not
    /// checked.
    async fn complete_or_hold(
        &self,
        progress: &RunTracker,
        mut run: IngestionRun,
        mut staged: StagedRun,
        (ready, base): (&PreparedPipeline, &SourceState),
    ) -> Result<IngestionRun, IngestionError> {
        let (source, _) = self.commit_context().source(&run.oracle_id)?;
        let previous = self.previous_run(&run, &source)?;
        if let Some(previous) = &previous {
            staged.counts.compare_columns(previous);
        }
        if run.decision.is_none() {
            // the number of its rows: another run may have been completed after this one was planned
            run.number = source.next_number();
            let gates = &ready.definition.pipeline.gates;
            let same_payload = same_payload(&run, &source, gates.accept_same_payload);
            run.breaches = gates.breaches(&staged.counts, &staged.axis_effects, same_payload);
            if let Some(previous) = &previous {
                run.breaches.extend(emptied_axes(&run, &staged.counts, previous));
                let is_cut = (previous.counts.open_end, staged.counts.open_end) == (Some(false), Some(true));
                let open_end = || GateBreach::OpenEnd { version: previous.input.version.clone() };
                run.breaches.extend(is_cut.then(open_end));
            }
            let records = staged.pruned;
            run.breaches.extend((records > 0).then_some(GateBreach::PrunedContent { records }));
        }
        if run.breaches.is_empty() || run.decision.is_some() {
            let files = staged.statements.iter().chain([&staged.rows]).cloned().collect();
            self.upload_run_files(progress, files).await?;
            return self.complete(run, staged, ready, base).await;
        }
        let causes: Vec<_> = run.breaches.iter().map(ToString::to_string).collect();
        self.upload_run_files(progress, vec![staged.rows.clone()]).await?;
        let (counts, rows) = staged.keep_for_held_run();
        (run.state, run.cause) = (RunState::Held, Some(causes.join("; ")));
        (run.counts, run.rows) = (counts, Some(rows));
        self.close(run).await
    }

    /// The latest run of the same pipeline that completed and was not undone.
    fn previous_run(
        &self,
        run: &IngestionRun,
        source: &SourceState,
    ) -> Result<Option<IngestionRun>, IngestionError> {
        let counting = source.counting_runs();
        let before = counting.iter().rev().find(|completed| completed.pipeline_id == run.pipeline_id);
        let before = before.map(|before| self.store.run(&before.run_id)).transpose()?.flatten();
        Ok(before.map(|(before, _)| before))
    }

    /// Makes a run visible, unless it was ended meanwhile.
    async fn complete(
        &self,
        mut run: IngestionRun,
        staged: StagedRun,
        ready: &PreparedPipeline,
        base: &SourceState,
    ) -> Result<IngestionRun, IngestionError> {
        let transformations = ready.normalizer.transformations(ready.definition.pipeline.audit);
        let StagedRun { counts, rows, stated, statements, .. } = &staged;
        let held_rows = run.rows.take();
        (run.state, run.counts, run.rows) = (RunState::Completed, counts.clone(), Some(rows.clone()));
        let (now, mut before) = (self.clock.now(), None);
        let run_id = run.run_id.clone();
        let ended = self.commit_end(&run_id, |commit_context| {
            decide_run_change(commit_context, &run.oracle_id.clone(), |source| {
                check_unchanged(&source, base)?;
                run.ended_at = Some(next_known_at(&source, now));
                run.number = source.next_number();
                before = Some(source.clone());
                let source = match run.release() {
                    Some(release) => {
                        let completed = completed_run_entry(&run, release, (rows.clone(), *stated));
                        let transformations = transformations.to_vec();
                        source.with_completed(completed, transformations, statements.clone())
                    }
                    None => source,
                };
                let entry = RunEntry { run: Box::new(run.clone()), peer: None };
                Ok(SourceRunChange {
                    source,
                    run: run.clone(),
                    events: vec![AuditEvent::new(now, None, IngestionEnded(entry))],
                })
            })
        });
        let is_ours = match ended.await {
            Ok(is_ours) => is_ours,
            Err(error) => {
                // it is unknown whether the store names the files; if not, the next start removes them
                staged.keep_files();
                return Err(error);
            }
        };
        if !is_ours {
            return self.read_stored_run(run);
        }
        staged.keep_files();
        self.store.remove_run_rows(held_rows.as_ref(), run.rows.as_ref());
        if let Some(before) = before
            && let Err(error) = self.store.remove_replaced(&before)
        {
            tracing::warn!(%run_id, %error, "could not remove replaced files; the next start removes them");
        }
        Ok(run)
    }

    /// Returns the stored run. Either another task has ended it, or the next start continues it.
    fn read_stored_run(&self, run: IngestionRun) -> Result<IngestionRun, IngestionError> {
        Ok(self.store.run(&run.run_id)?.map_or(run, |(ended, _)| ended))
    }

    /// Removes a run's payload, unless it must be kept.
    pub(super) async fn remove_unless_needed(&self, run: &IngestionRun) {
        let archiving_guard = ARCHIVING.lock().await;
        let (store, sha256) = (self.store.clone(), run.input.raw_sha256.clone());
        let work = move || store.remove_unneeded_payload(&sha256, None);
        if let Err(error) = run_while_archiving_waits(archiving_guard, work).await {
            tracing::warn!(run_id = %run.run_id, %error, "could not remove an unneeded payload");
        }
    }

    /// Removes the payload of a run whose begin entry was not committed. Waits until the log is writable,
    /// since the failed commit may have been durable.
    pub(super) async fn remove_once_log_writable(&self, run: &IngestionRun) {
        sleep(END_PAUSE).await;
        if self.log.report().wait_for(|report| report.failure.is_none()).await.is_ok() {
            self.remove_unless_needed(run).await;
        }
    }

    /// Removes the payload of a run that failed for lack of space, unless another run has the same payload.
    async fn remove_payload(&self, run: &IngestionRun) {
        let archiving_guard = ARCHIVING.lock().await;
        let (store, failed) = (self.store.clone(), run.clone());
        let work = move || store.remove_payload_of(&failed);
        if let Err(error) = run_while_archiving_waits(archiving_guard, work).await {
            tracing::warn!(run_id = %run.run_id, %error, "could not remove the payload of a failed run");
        }
    }

    /// Closes a run without a change of the source's records, unless it was ended meanwhile.
    async fn close(&self, mut run: IngestionRun) -> Result<IngestionRun, IngestionError> {
        if mark_held_again(&mut run) {
            let held = self.read_stored_run(run.clone())?;
            self.store.remove_run_rows(run.rows.as_ref(), held.rows.as_ref());
            (run.counts, run.rows) = (held.counts, held.rows);
        }
        let is_ours = self
            .commit_end(&run.run_id, |commit_context| self.decide_closing(commit_context, &run, None))
            .await?;
        if is_ours { Ok(run) } else { self.read_stored_run(run) }
    }

    /// Calls `end` if the run has not ended; otherwise there is nothing to commit.
    pub(super) fn decide_unless_ended(
        &self,
        run_id: &Sha256Hex,
        end: impl FnOnce() -> Result<CommitDecision<()>, IngestionError>,
    ) -> Result<CommitDecision<()>, IngestionError> {
        if self.is_run_running(run_id)? { end() } else { Ok(CommitDecision::Already(())) }
    }

    /// The commit that closes a run without a change of the source's records.
    pub(super) fn decide_closing(
        &self,
        commit_context: &CommitContext,
        run: &IngestionRun,
        peer: Option<PeerCredentials>,
    ) -> Result<CommitDecision<()>, IngestionError> {
        let timestamp = run.ended_at.unwrap_or(run.started_at);
        decide_run_change(commit_context, &run.oracle_id, |source| {
            let entry = RunEntry { run: Box::new(run.clone()), peer };
            let mut events = vec![AuditEvent::new(timestamp, None, IngestionEnded(entry))];
            let mut source = match run.state {
                RunState::Held => source.with_held(&run.run_id),
                _ => source.with_attempt(&run.run_id),
            };
            let is_not_visible = matches!(run.state, RunState::Failed | RunState::Held);
            if is_not_visible && run.source_url.is_some() && self.is_stale_after_new_version(&source) {
                // the source has a newer version, which is not visible
                source = source.invalidated(timestamp);
                events.push(AuditEvent::new(
                    timestamp,
                    None,
                    SourceInvalidated(InvalidationEntry {
                        oracle_id: run.oracle_id.clone(),
                        trigger: InvalidationCause::VersionChange,
                        detail: format!("run {} of a newer version is {}", run.run_id, run.state.into_str()),
                        peer: None,
                    }),
                ));
            }
            Ok(SourceRunChange { source, run: run.clone(), events })
        })
    }

    /// Whether the source's policy marks its data stale when a newer version exists.
    fn is_stale_after_new_version(&self, source: &SourceState) -> bool {
        let ontology = self.commit_context().ontology(&source.entry.registration.ontology);
        let is_version =
            |trigger: &InvalidationTrigger| matches!(trigger, InvalidationTrigger::VersionChange {});
        ontology
            .is_ok_and(|ontology| policy_of(source, &ontology).invalidation_triggers.iter().any(is_version))
    }

    /// Commits a run's end, and retries until the log accepts the commit. Without the retry, a full disk would leave a
    /// run that seems to be running until the next start. Returns whether this call ended the run.
    async fn commit_end(
        &self,
        run_id: &Sha256Hex,
        mut end: impl FnMut(&CommitContext) -> Result<CommitDecision<()>, IngestionError>,
    ) -> Result<bool, IngestionError> {
        let mut may_be_durable = false;
        loop {
            let commit_context = self.commit_context();
            let ended =
                self.log.decide_and_commit(|| self.decide_unless_ended(run_id, || end(&commit_context)));
            match ended.await {
                Err(IngestionError::Commit(CommitError::Unavailable(cause))) => {
                    tracing::warn!(%run_id, cause, "could not commit the end of an ingestion run; retrying");
                }
                // the attempt that seemed to fail was durable, unless the run was cancelled meanwhile
                Ok((_, None)) if may_be_durable => {
                    let run = self.store.run(run_id)?;
                    return Ok(run.is_some_and(|(run, _)| run.state != RunState::Cancelled));
                }
                ended => return Ok(ended?.1.is_some()),
            }
            may_be_durable = true;
            sleep(END_PAUSE).await;
            if self.log.report().wait_for(|report| report.failure.is_none()).await.is_err() {
                return Err(CommitError::Unavailable("the daemon is stopping".into()).into());
            }
        }
    }
}

/// Returns the version of the source that has the same payload as `run`, if that indicates a mistake: the
/// wrong file was submitted or published, or that version was undone.
fn same_payload(run: &IngestionRun, source: &SourceState, is_accepted: bool) -> Option<String> {
    let is_mistaken = |completed: &&CompletedRun| {
        completed.raw_sha256 == run.input.raw_sha256
            && completed.release.undoes.is_none()
            && (source.undone_by(completed.release.run).is_some()
                || !is_accepted && completed.release.version != run.input.version)
    };
    source.completed.iter().rev().find(is_mistaken).map(|completed| completed.release.version.clone())
}

/// The axes that have no value in this snapshot, but had values in the pipeline's previous release. They are reported
/// unless the records that the snapshot replaces show it already. A release that is not a snapshot is not checked,
/// because it contains only changes, whose records may lack such values.
fn emptied_axes(run: &IngestionRun, counts: &RunCounts, before: &IngestionRun) -> Vec<GateBreach> {
    let had_values = |axis: &str| before.counts.axes.get(axis).is_some_and(|fill| fill.records > 0);
    let is_reported = |axis: &str| {
        run.breaches
            .iter()
            .any(|breach| matches!(breach, GateBreach::MaxUnfilledRatio { axis: of, .. } if of == axis))
    };
    let emptied = counts
        .axes
        .iter()
        .filter(|(axis, fill)| run.snapshot && fill.records == 0 && had_values(axis) && !is_reported(axis));
    let breach = |(axis, _): (&String, _)| {
        let (axis, version) = (axis.clone(), before.input.version.clone());
        GateBreach::EmptiedAxis { axis, version }
    };
    emptied.map(breach).collect()
}

/// The entry of a completed run in the state of its source.
pub(super) fn completed_run_entry(
    run: &IngestionRun,
    release: TimelineRun,
    (rows, stated): (SortedFileRef, StatedRecords),
) -> CompletedRun {
    CompletedRun {
        run_id: run.run_id.clone(),
        pipeline_id: run.pipeline_id.clone(),
        pipeline_sha256: run.input.pipeline_sha256.clone(),
        raw_sha256: run.input.raw_sha256.clone(),
        source_url: run.source_url.clone(),
        release,
        invalidation_count: run.invalidation_count,
        records: run.counts.records,
        rows,
        stated,
    }
}

/// A decision: the run, the operator and the reason.
#[derive(Debug, Clone)]
pub(super) struct RunDecisionRequest {
    pub(super) run_id: Sha256Hex,
    pub(super) reason: String,
    pub(super) peer: PeerCredentials,
}

/// Reads a held run again without checking its gates. Its records become visible like those of any other run. Does nothing
/// if the same operator has approved the run already. Refuses it if another run than `outdated_by` was completed last since the held
/// run was read: its changes are not those that the operator has seen.
pub(super) async fn approve(
    context: Arc<IngestContext>,
    request: RunDecisionRequest,
    outdated_by: Option<Sha256Hex>,
) -> Result<IngestionRun, IngestionError> {
    let known = read_run(&context, &request.run_id)?;
    if context.is_approved(&known, &request)? {
        return Ok(known);
    }
    context.check_sharing()?;
    context.store.files().check_free_space()?;
    let decision = context.run_decision(&request);
    let held = context.require_held(known)?;
    let ready = context.prepare_pipeline_of_run(&held)?;
    let mut run = IngestionRun {
        state: RunState::Running,
        ended_at: None,
        cause: None,
        decision: Some(decision),
        // the counts, the rejects and the changes stay until the approval is complete
        ..held
    };
    let (claim, _) = context.claim(&run).await?;
    let (source, _) = context.commit_context().source(&run.oracle_id)?;
    // another run may have brought the version since
    let counting = |run: &IngestionRun, source: &SourceState| {
        context.find_counting_run(run, source, run.replace).map_err(|error| refused_approval(run, error))
    };
    if let Some(known) = counting(&run, &source)? {
        return Err(IngestionError::NotHeld { run_id: known.run_id, state: known.state, undone_by: None });
    }
    let commit_context = context.commit_context();
    let begun = context.log.decide_and_commit(|| {
        decide_run_change(&commit_context, &run.oracle_id.clone(), |source| {
            // it may have been discarded during the wait
            let held = context.read_held_run(&run.run_id)?;
            if counting(&run, &source)?.is_some() {
                return Err(IngestionError::Amended(run.oracle_id.clone()));
            }
            check_seen(&held, &source, outdated_by.as_ref())?;
            run.invalidation_count = source.invalidation_count;
            let timestamp = context.clock.now();
            let entry = RunEntry { run: Box::new(run.clone()), peer: Some(request.peer) };
            let source = source.with_attempt(&run.run_id);
            Ok(SourceRunChange {
                source,
                run: run.clone(),
                events: vec![AuditEvent::new(timestamp, None, IngestionStarted(entry))],
            })
        })
    });
    begun.await?;
    // the run is final only after the commit
    let progress = Arc::new(RunTracker::new(run.clone()));
    claim.assign_to_run(&progress);
    context.metrics.count_started_run();
    spawn_for_caller(execute_run(context, ready, claim, progress));
    Ok(run)
}

/// Checks that `seen` is the latest run that was completed since the held one was read.
fn check_seen(
    held: &IngestionRun,
    source: &SourceState,
    seen: Option<&Sha256Hex>,
) -> Result<(), IngestionError> {
    let since = source.run_since(held).map(|since| &since.run_id);
    if since == seen {
        return Ok(());
    }
    Err(IngestionError::Outdated { run_id: held.run_id.clone(), by: since.cloned() })
}

/// The error of an approval of `run`, with its remedy.
fn refused_approval(run: &IngestionRun, error: IngestionError) -> IngestionError {
    match error {
        IngestionError::VersionKnown { version, run_id: by, released_at } => {
            IngestionError::VersionTaken { run_id: run.run_id.clone(), version, by, released_at }
        }
        other => other,
    }
}

/// Discards a held run. Its records never become visible.
pub(super) async fn discard(
    context: Arc<IngestContext>,
    request: RunDecisionRequest,
) -> Result<IngestionRun, IngestionError> {
    let mut run = context.read_held_run(&request.run_id)?;
    (run.state, run.decision) = (RunState::Discarded, Some(context.run_decision(&request)));
    run.ended_at = Some(context.clock.now());
    let close = || {
        context.read_held_run(&request.run_id)?;
        context.decide_closing(&context.commit_context(), &run, Some(request.peer))
    };
    context.log.decide_and_commit(close).await?;
    context.metrics.count_operator_decision(&run);
    context.remove_unless_needed(&run).await;
    Ok(run)
}

fn read_run(context: &IngestContext, run_id: &Sha256Hex) -> Result<IngestionRun, IngestionError> {
    let found = context.store.run(run_id)?.map(|(run, _)| run);
    found.ok_or_else(|| IngestionError::RunUnknown(run_id.clone()))
}

/// Undoes a completed run by a new run. Queries with an earlier `known_at` still return the records of the undone run.
pub(super) async fn undo(
    context: Arc<IngestContext>,
    request: RunDecisionRequest,
) -> Result<IngestionRun, IngestionError> {
    let run_id = &request.run_id;
    let oracle_id = read_run(&context, run_id)?.oracle_id;
    context.check_sharing()?;
    let claim = context.claim_source(&oracle_id, ClaimHolder::Upkeep).await?;
    // it may have been discarded during the wait
    let undone = read_run(&context, run_id)?;
    let state = undone.state;
    let not_completed = || IngestionError::NotCompleted { run_id: run_id.clone(), state };
    let view = context.store.view(&undone.oracle_id)?;
    let view = view.ok_or_else(|| RegistryError::SourceUnknown(undone.oracle_id.clone()))?;
    let visible = view.state.completed.iter().rev().find(|completed| completed.run_id == request.run_id);
    let number = visible.map(|completed| completed.release.run).ok_or_else(not_completed)?;
    if let Some(by) = view.state.undone_by(number) {
        return Err(IngestionError::Undone { run_id: run_id.clone(), by: by.run_id.clone() });
    }
    if undone.undoes.is_none() && !view.known.is_counted(number) {
        let version = undone.input.version.clone();
        let by = view.state.run_of_version(&version).ok_or_else(not_completed)?.run_id.clone();
        return Err(IngestionError::NotCounting { run_id: run_id.clone(), version, by });
    }
    let now = context.clock.now();
    let target = UndoneRun { run_id: request.run_id.clone(), number };
    let next = view.state.next_number();
    let mut run = IngestionRun {
        run_id: undo_run_id(&target, next),
        number: next,
        undoes: Some(target),
        requested_by: request.peer.uid.to_string(),
        state: RunState::Completed,
        started_at: now,
        ended_at: Some(next_known_at(&view.state, now)),
        counts: RunCounts::default(),
        rows: None,
        cause: None,
        breaches: Vec::new(),
        decision: Some(context.run_decision(&request)),
        source_url: None,
        retrieved_at: None,
        ..undone
    };
    let release = run.release().ok_or_else(not_completed)?;
    let staged = context.stage_undo(&run, &release, Arc::clone(&view)).await?;
    if staged.pruned > 0 {
        return Err(IngestionError::ContentPruned { run_id: request.run_id, records: staged.pruned });
    }
    context.upload_files(&run.oracle_id, vec![staged.rows.clone()], false).await?;
    (run.counts, run.rows) = (staged.counts.clone(), Some(staged.rows.clone()));
    let commit_context = context.commit_context();
    let committed = context.log.decide_and_commit(|| {
        decide_run_change(&commit_context, &run.oracle_id, |source| {
            check_unchanged(&source, &view.state)?;
            let files = source.files.clone();
            let completed = completed_run_entry(&run, release.clone(), (staged.rows.clone(), staged.stated));
            let source = source.with_completed(completed, Vec::new(), files);
            let entry = RunEntry { run: Box::new(run.clone()), peer: Some(request.peer) };
            Ok(SourceRunChange {
                source,
                run: run.clone(),
                events: vec![AuditEvent::new(now, None, IngestionEnded(entry))],
            })
        })
    });
    let committed = committed.await;
    // after a failed commit the store may or may not name the files; if not, the next start removes them
    staged.keep_files();
    committed?;
    context.metrics.count_operator_decision(&run);
    drop(claim);
    Ok(run)
}

impl IngestContext {
    fn run_decision(&self, request: &RunDecisionRequest) -> RunDecision {
        RunDecision {
            decided_by: request.peer.uid.to_string(),
            decided_at: self.clock.now(),
            reason: request.reason.clone(),
        }
    }

    /// Whether the operator has approved the run, and it is in progress or its records count.
    fn is_approved(&self, run: &IngestionRun, request: &RunDecisionRequest) -> Result<bool, IngestionError> {
        let by = request.peer.uid.to_string();
        let is_by_operator = run.decision.as_ref().is_some_and(|decision| decision.decided_by == by);
        if run.undoes.is_some() || !is_by_operator {
            return Ok(false);
        }
        Ok(match run.state {
            RunState::Running => true,
            RunState::Completed => {
                let (source, _) = self.commit_context().source(&run.oracle_id)?;
                let counting = source.run_of_version(&run.input.version);
                counting.is_some_and(|counting| counting.run_id == run.run_id)
            }
            RunState::Held | RunState::Failed | RunState::Cancelled | RunState::Discarded => false,
        })
    }

    /// Reads a run, which must be held.
    fn read_held_run(&self, run_id: &Sha256Hex) -> Result<IngestionRun, IngestionError> {
        self.require_held(read_run(self, run_id)?)
    }

    fn require_held(&self, run: IngestionRun) -> Result<IngestionRun, IngestionError> {
        if run.state == RunState::Held {
            return Ok(run);
        }
        let source = self.store.source(&run.oracle_id)?;
        let undone_by =
            source.and_then(|(source, _)| Some(source.run_undone_by(&run.run_id)?.run_id.clone()));
        Err(IngestionError::NotHeld { run_id: run.run_id, state: run.state, undone_by })
    }

    /// Writes the files of an undo.
    async fn stage_undo(
        &self,
        run: &IngestionRun,
        release: &TimelineRun,
        view: Arc<SourceView>,
    ) -> Result<StagedRun, IngestionError> {
        let staging = RunStaging::new(self.store.files(), &run.run_id, release.run)?;
        let (release, claims) = (release.clone(), Arc::clone(&self.claims));
        let staged = spawn_blocking(move || staging.finish(&view, &release, |_| !claims.is_stopping())).await;
        let staged = staged.map_err(|error| IngestionError::Inside(error.to_string()))??;
        staged.ok_or_else(|| IngestionError::Inside("the daemon is stopping; nothing was undone".into()))
    }
}
