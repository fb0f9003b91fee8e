//! An operator's decisions about runs: approve or discard a held run, undo a completed one.

use super::ending::completed_run_entry;
use super::progress::RunTracker;
use super::run_task::{SourceRunChange, decide_run_change, execute_run, next_known_at};
use super::source_claims::ClaimHolder;
use super::{IngestContext, IngestionError};
use crate::registry::RegistryError;
use actors_platform::caller::spawn_for_caller;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::event::{IngestionEnded, IngestionStarted, RunEntry};
use domain_ground::run::{IngestionRun, RunCounts, RunDecision, RunState, UndoneRun, undo_run_id};
use domain_ground::timeline::TimelineRun;
use oracled_store::ground::staging::{RunStaging, StagedRun};
use oracled_store::ground::view::SourceView;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// A decision: the run, the operator and the reason.
#[derive(Debug, Clone)]
pub(super) struct RunDecisionRequest {
    pub(super) run_id: Sha256Hex,
    pub(super) reason: String,
    pub(super) peer: PeerCredentials,
}

/// Reads a held run again without checking its gates. Its records become visible like those of any other run. Does nothing
/// if the same operator has approved the run already.
pub(super) async fn approve(
    context: Arc<IngestContext>,
    request: RunDecisionRequest,
) -> Result<IngestionRun, IngestionError> {
    if let Some(approved) = context.find_approved_run(&request)? {
        return Ok(approved);
    }
    context.store.files().check_free_space()?;
    let decision = context.run_decision(&request);
    let held = context.read_held_run(&request.run_id)?;
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
    if let Some(known) = context.find_counting_run(&run, &source, run.replace)? {
        return Err(IngestionError::NotHeld { run_id: known.run_id, state: known.state });
    }
    let commit_context = context.commit_context();
    let begun = context.log.decide_and_commit(|| {
        decide_run_change(&commit_context, &run.oracle_id.clone(), |source| {
            context.read_held_run(&run.run_id)?;
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

/// Undoes a completed run by a new run. Queries with an earlier `known_at` still return the records of the undone run.
pub(super) async fn undo(
    context: Arc<IngestContext>,
    request: RunDecisionRequest,
) -> Result<IngestionRun, IngestionError> {
    let unknown = || IngestionError::RunUnknown(request.run_id.clone());
    let (undone, _) = context.store.run(&request.run_id)?.ok_or_else(unknown)?;
    let not_completed = || IngestionError::NotCompleted(request.run_id.clone());
    let claim = context.claims.claim_for(&undone.oracle_id, ClaimHolder::Upkeep)?;
    let view = context.store.view(&undone.oracle_id)?;
    let view = view.ok_or_else(|| RegistryError::SourceUnknown(undone.oracle_id.clone()))?;
    let visible = view.state.completed.iter().rev().find(|completed| completed.run_id == request.run_id);
    let number = visible.map(|completed| completed.release.run).ok_or_else(not_completed)?;
    if let Some(by) = view.state.undone_by(number) {
        let (run_id, by) = (request.run_id.clone(), by.run_id.clone());
        return Err(IngestionError::Undone { run_id, by });
    }
    if undone.undoes.is_none() && !view.known.is_counted(number) {
        return Err(not_completed());
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
    (run.counts, run.rows) = (staged.counts.clone(), Some(staged.rows.clone()));
    let commit_context = context.commit_context();
    let committed = context.log.decide_and_commit(|| {
        decide_run_change(&commit_context, &run.oracle_id, |source| {
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

    /// The run, if the operator has approved it, and it is in progress or its records count.
    fn find_approved_run(
        &self,
        request: &RunDecisionRequest,
    ) -> Result<Option<IngestionRun>, IngestionError> {
        let by = request.peer.uid.to_string();
        let is_by_operator = |run: &IngestionRun| {
            run.undoes.is_none() && run.decision.as_ref().is_some_and(|decision| decision.decided_by == by)
        };
        let run = self.store.run(&request.run_id)?.map(|(run, _)| run);
        let Some(run) = run.filter(is_by_operator) else { return Ok(None) };
        let counts = match run.state {
            RunState::Running => true,
            RunState::Completed => {
                let (source, _) = self.commit_context().source(&run.oracle_id)?;
                let counting = source.run_of_version(&run.input.version);
                counting.is_some_and(|counting| counting.run_id == run.run_id)
            }
            RunState::Held | RunState::Failed | RunState::Cancelled | RunState::Discarded => false,
        };
        Ok(counts.then_some(run))
    }

    /// Reads a run, which must be held.
    fn read_held_run(&self, run_id: &Sha256Hex) -> Result<IngestionRun, IngestionError> {
        let unknown = || IngestionError::RunUnknown(run_id.clone());
        let (run, _) = self.store.run(run_id)?.ok_or_else(unknown)?;
        if run.state != RunState::Held {
            return Err(IngestionError::NotHeld { run_id: run.run_id, state: run.state });
        }
        Ok(run)
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
