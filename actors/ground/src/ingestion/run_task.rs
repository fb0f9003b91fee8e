//! The course of a run: it begins with a commit, is read on its own thread, and ends with another commit.

use super::error::HELD_MAX;
use super::reading::{PayloadReadOutcome, PayloadReader};
use super::source_claims::SourceClaim;
use super::{IngestContext, IngestionError, StartRun, StartRunOutcome};
use crate::ingestion::sharing::FETCH_POLL;
use crate::ingestion::{RunStopReason, RunTracker};
use crate::registry::{CommitContext, PreparedPipeline, RegistryError};
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::CommitDecision;
use actors_platform::caller::spawn_for_caller;
use actors_platform::clock::monotonic;
use actors_platform::span::{Span, SpanKind};
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::event::{IngestionStarted, RunEntry};
use domain_ground::id::SourceId;
use domain_ground::ontology::is_version;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::{IngestionRun, RunCounts, RunInput, RunState, split_record_id};
use domain_ground::source_state::{CompletedRun, SourceState};
use domain_ground::timeline::TimelineRun;
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, StoreError};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// The most that a release date may be in the future: the next day may have begun in another time zone.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// How long a new run waits for an ended run to release the source. After that the new run is rejected as busy.
const CLAIM_RELEASE_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long a new run waits for the files of the last run of another host.
const FILES_WAIT_MAX: Duration = Duration::from_secs(5);

/// The change by a run: its source, the run itself, and the log entries.
pub(super) struct SourceRunChange {
    pub(super) source: SourceState,
    pub(super) run: IngestionRun,
    pub(super) events: Vec<AuditEvent>,
}

/// Begins a run, unless the same run is in progress, was completed before or is held.
pub(super) async fn begin(
    context: Arc<IngestContext>,
    message: StartRun,
) -> Result<StartRunOutcome, IngestionError> {
    context.check_sharing()?;
    if !is_version(&message.version) {
        return Err(IngestionError::invalid_version(&message.version));
    }
    let ready = context.prepare_pipeline_of_payload(&message).await?;
    let (source, _) = context.commit_context().source(&ready.definition.pipeline.oracle_id)?;
    let (now, released_at) = (source.present(context.clock.now()), message.released_at);
    if released_at.duration_since(now) > AHEAD_MAX {
        return Err(IngestionError::Ahead { released_at, now });
    }
    let (peer, replace) = (message.peer, message.replace);
    let run = context.plan_run(message, &ready, &source);
    let known = |source: &SourceState| match context.find_counting_run(&run, source, replace)? {
        Some(known) => Ok::<_, IngestionError>(Some(known)),
        None => Ok(context.find_held_run(&run, peer)?),
    };
    if let Some(known) = known(&source)? {
        return Ok(StartRunOutcome::Unchanged(Box::new(known)));
    }
    let record_id = run.record_id(0);
    let digits = split_record_id(&record_id).map_or("", |(digits, _)| digits);
    if context.store.runs_with_prefix(digits)?.iter().any(|other| other != run.run_id.as_str()) {
        return Err(IngestionError::Collision(run.run_id));
    }
    let claimed = context.claim(&run).await;
    if matches!(&claimed, Err(IngestionError::Busy { run_id, .. }) if *run_id == run.run_id)
        && let Some(running) = context.find_running(&run.run_id)?
    {
        return Ok(StartRunOutcome::Started(Box::new(running)));
    }
    let (claim, progress) = claimed?;
    // another run may have become visible before the claim; after the claim none can
    let (source, _) = context.commit_context().source(&run.oracle_id)?;
    if let Some(known) = known(&source)? {
        return Ok(StartRunOutcome::Unchanged(Box::new(known)));
    }
    // a held run with this id was already returned above
    context.prepare_begin(source, &progress).await?;
    let commit_context = context.commit_context();
    // a lost one is stored again
    let is_stored = matches!(context.store.definition(&ready.sha256), Ok(Some(_)));
    let begun = context.log.decide_and_commit(|| {
        let entry = RunEntry { run: Box::new(run.clone()), peer };
        let mut decision = decide_run_change(&commit_context, &run.oracle_id, |source| {
            let registration = &source.entry.registration;
            if (&registration.ontology, registration.snapshot) != (&run.input.ontology, run.snapshot) {
                return Err(IngestionError::Amended(run.oracle_id.clone()));
            }
            // another host may have made it visible
            if known(&source)?.is_some() {
                return Err(IngestionError::Amended(run.oracle_id.clone()));
            }
            Ok(SourceRunChange {
                source: source.with_attempt(&run.run_id),
                run: run.clone(),
                events: vec![AuditEvent::new(run.started_at, None, IngestionStarted(entry))],
            })
        })?;
        if let (CommitDecision::Change((), record), false) = (&mut decision, is_stored) {
            record.writes.push(RowWrite::put::<PipelineDefinition>(&ready.definition));
        }
        Ok(decision)
    });
    if let Err(error) = begun.await {
        if matches!(error, IngestionError::Commit(CommitError::Unavailable(_))) {
            tokio::spawn(async move { context.remove_once_log_writable(&run).await });
        }
        return Err(error);
    }
    context.metrics.count_started_run();
    spawn_for_caller(execute_run(context, ready, claim, progress));
    Ok(StartRunOutcome::Started(Box::new(run)))
}

/// Resumes the runs that were interrupted.
pub(super) async fn resume_all(context: Arc<IngestContext>) {
    let runs = match context.find_interrupted() {
        Ok(runs) => runs,
        Err(error) => {
            tracing::error!(%error, "could not read the interrupted ingestion runs");
            return;
        }
    };
    for run in runs {
        let (claim, progress) = match context.claim_for_run(&run).await {
            Ok(claimed) => claimed,
            // in a cluster, it is in progress
            Err(IngestionError::OtherHost(_) | IngestionError::Busy { .. } | IngestionError::Upkeep(_))
                if context.turn.host().is_some() =>
            {
                continue;
            }
            Err(error) => {
                tracing::error!(run_id = %run.run_id, %error, "could not resume an ingestion run");
                continue;
            }
        };
        // it may have ended before the claim
        if !context.is_run_running(&run.run_id).unwrap_or(true) {
            continue;
        }
        tracing::info!(run_id = %run.run_id, oracle_id = %run.oracle_id, "ingestion run resumed");
        context.metrics.count_started_run();
        match context.prepare_pipeline_of_run(&run) {
            Ok(ready) => drop(tokio::spawn(execute_run(Arc::clone(&context), ready, claim, progress))),
            Err(error) => {
                let context = Arc::clone(&context);
                tokio::spawn(async move {
                    context.end(&progress, failed_read(error.to_string())).await;
                    drop(claim);
                });
            }
        }
    }
}

/// Cancels a run. None of its records become visible, and it is not resumed.
pub(super) async fn cancel(
    context: Arc<IngestContext>,
    run_id: Sha256Hex,
    peer: PeerCredentials,
) -> Result<(), IngestionError> {
    let progress = context.claims.run(&run_id);
    // another host of the cluster may read it
    let foreign = || if context.turn.host().is_some() { context.find_running(&run_id) } else { Ok(None) };
    let mut run = match &progress {
        Some(progress) => progress.run.clone(),
        None => foreign()?.ok_or_else(|| IngestionError::NotRunning(run_id.clone()))?,
    };
    if let Some(progress) = progress.as_ref().filter(|progress| progress.is_rebuild()) {
        // a completed run that is read again stays completed
        progress.request_stop(RunStopReason::Cancelled);
        return Ok(());
    }
    (run.state, run.ended_at) = (RunState::Cancelled, Some(context.clock.now()));
    run.cause = Some("cancelled by an administrator".into());
    mark_held_again(&mut run);
    let close = || {
        context.decide_unless_ended(&run_id, || {
            context.decide_closing(&context.commit_context(), &run, Some(peer))
        })
    };
    let (_, cancelled) = context.log.decide_and_commit(close).await?;
    if cancelled.is_none() {
        return Err(IngestionError::NotRunning(run_id));
    }
    if let Some(progress) = progress {
        progress.request_stop(RunStopReason::Cancelled);
    }
    Ok(())
}

/// Checks that `run` has the same payload and release date as the run that counts for its version, if there is one.
fn check_version(run: &IngestionRun, counts: Option<&CompletedRun>) -> Result<(), IngestionError> {
    let RunInput { version, raw_sha256, released_at, .. } = &run.input;
    match counts {
        Some(CompletedRun { run_id, raw_sha256: raw, release, .. })
            if (raw, &release.released_at) != (raw_sha256, released_at) =>
        {
            let (version, run_id) = (version.clone(), run_id.clone());
            Err(IngestionError::VersionKnown { version, run_id, released_at: release.released_at })
        }
        _ => Ok(()),
    }
}

/// The commit that applies `change` to a source.
pub(super) fn decide_run_change(
    commit_context: &CommitContext,
    oracle_id: &SourceId,
    change: impl FnOnce(SourceState) -> Result<SourceRunChange, IngestionError>,
) -> Result<CommitDecision<()>, IngestionError> {
    let (source, revision) = commit_context.source(oracle_id)?;
    let SourceRunChange { source, run, events } = change(source)?;
    let record = JournalRecord {
        expect: vec![RowExpectation::new::<SourceState>(oracle_id, Some(revision))],
        events,
        writes: vec![RowWrite::put::<SourceState>(&source), RowWrite::put::<IngestionRun>(&run)],
        ..JournalRecord::default()
    };
    Ok(CommitDecision::Change((), record))
}

/// Reads a run's payload, and ends the run with the outcome.
pub(super) async fn execute_run(
    context: Arc<IngestContext>,
    ready: PreparedPipeline,
    claim: SourceClaim,
    progress: Arc<RunTracker>,
) {
    let mut span = Span::child_or_root(SpanKind::Internal, "ingestion run");
    span.set_text("oracled.source", &progress.run.oracle_id);
    span.set_text("oracled.run_id", &progress.run.run_id);
    let lost = claim.lost();
    let read = span.run(async {
        let outcome = tokio::select! {
            _ = progress.wait_for_stop() => PayloadReadOutcome::EndedEarly,
            // the semaphore is never closed
            slot = context.run_slots.acquire() => {
                let outcome = context.read_payload(ready, &progress).await;
                drop(slot);
                outcome
            }
        };
        // without the lease, another host resumes the run
        let outcome = if claim.is_held() { outcome } else { PayloadReadOutcome::EndedEarly };
        context.end(&progress, outcome).await
    });
    let stop = async {
        lost.await;
        progress.request_stop(RunStopReason::Stopping);
        pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = read => ended,
        () = stop => None,
    };
    describe(&mut span, ended.as_ref());
    drop(span);
    // release the source first: `remove_unless_needed` waits for the archive lock, whose holder may wait for
    // this source
    drop(claim);
    context.remove_unless_needed(&progress.run).await;
    context.shared.note_changed();
}

/// Describes a run in its span; `None` if its end is not stored.
fn describe(span: &mut Span, ended: Option<&IngestionRun>) {
    let Some(IngestionRun { state, counts, .. }) = ended else { return span.fail("not_stored") };
    span.set("oracled.state", state.into_str());
    span.set("oracled.records", counts.records);
    span.set("oracled.rejected", counts.rejected);
    if *state == RunState::Failed {
        span.fail("failed");
    }
}

/// The time when a run becomes known: now, or 1 µs after the previous run if the clock has not advanced. The
/// answer for a given `known_at` thus never depends on later runs.
pub(super) fn next_known_at(source: &SourceState, now: Timestamp) -> Timestamp {
    let present = source.present(now);
    let is_taken = source.completed.last().is_some_and(|last| last.release.ingested_at == present);
    if is_taken { present.saturating_add(SignedDuration::from_micros(1)).unwrap_or(present) } else { present }
}

fn failed_read(cause: String) -> PayloadReadOutcome {
    PayloadReadOutcome::Failed { cause, counts: Box::default(), rows: None }
}

impl IngestContext {
    /// The earlier run with the same id, if its records count.
    ///
    /// # Errors
    /// `Undone` and `Replaced` if its records no longer count. `VersionKnown` if another run counts for the version,
    /// unless `replace` is set.
    pub(super) fn find_counting_run(
        &self,
        run: &IngestionRun,
        source: &SourceState,
        replace: bool,
    ) -> Result<Option<IngestionRun>, IngestionError> {
        let visible = source.completed.iter().rev().find(|completed| completed.run_id == run.run_id);
        let counts = source.run_of_version(&run.input.version);
        let undone_by = visible.and_then(|visible| source.undone_by(visible.release.run));
        // with a later reading of the version, the end of the undo would not restore the run
        if let (Some(by), None) = (undone_by, counts) {
            let (run_id, by) = (run.run_id.clone(), by.run_id.clone());
            return Err(IngestionError::Undone { run_id, by });
        }
        if let Some(by) = counts
            && visible.is_some()
        {
            if by.run_id == run.run_id {
                return Ok(self.store.run(&run.run_id)?.map(|(known, _)| known));
            }
            let (run_id, version) = (run.run_id.clone(), run.input.version.clone());
            return Err(IngestionError::Replaced { run_id, version, by: by.run_id.clone() });
        }
        if !replace {
            check_version(run, counts)?;
        }
        Ok(None)
    }

    /// The earlier run with the same id, if it is held or discarded. A discarded payload is read again only if an
    /// operator submits it, not if a schedule pulls it.
    fn find_held_run(
        &self,
        run: &IngestionRun,
        peer: Option<PeerCredentials>,
    ) -> Result<Option<IngestionRun>, StoreError> {
        let known = self.store.run(&run.run_id)?.map(|(known, _)| known);
        Ok(known.filter(|known| match known.state {
            RunState::Held => true,
            RunState::Discarded => peer.is_none(),
            RunState::Running | RunState::Completed | RunState::Failed | RunState::Cancelled => false,
        }))
    }

    /// Checks that the source can have a further run, and that all hosts of the cluster can read its payload.
    async fn prepare_begin(&self, source: SourceState, progress: &RunTracker) -> Result<(), IngestionError> {
        let oracle_id = progress.run.oracle_id.clone();
        if source.held.len() >= HELD_MAX {
            return Err(IngestionError::TooManyHeld { oracle_id, held: source.held });
        }
        // the run compares its records with those of the last run, which another host may just have made
        let began = monotonic();
        while let Some(absent) = self.store.files().absence(&source) {
            if began.elapsed() > FILES_WAIT_MAX {
                return Err(absent.into());
            }
            sleep(FETCH_POLL).await;
        }
        self.upload_payload(progress).await
    }

    /// The run that `message` requests.
    fn plan_run(&self, message: StartRun, ready: &PreparedPipeline, source: &SourceState) -> IngestionRun {
        let StartRun { pipeline_id, version, released_at, payload, requested_by, replace, .. } = message;
        let StartRun { source_url, retrieved_at, invalidation_count, .. } = message;
        let ontology = source.entry.registration.ontology.clone();
        let (pipeline_sha256, raw_sha256) = (ready.sha256.clone(), payload.sha256);
        let input = RunInput { ontology, pipeline_sha256, raw_sha256, released_at, version };
        IngestionRun {
            run_id: input.run_id(),
            oracle_id: source.entry.oracle_id().clone(),
            number: source.next_number(),
            pipeline_id,
            input,
            snapshot: source.entry.registration.snapshot,
            replace,
            undoes: None,
            raw_bytes: payload.size_bytes,
            source_url,
            retrieved_at,
            invalidation_count: invalidation_count.unwrap_or(source.invalidation_count),
            requested_by,
            state: RunState::Running,
            started_at: self.clock.now(),
            ended_at: None,
            counts: RunCounts::default(),
            rows: None,
            cause: None,
            breaches: Vec::new(),
            decision: None,
        }
    }

    /// Claims the source of a run. Waits a short time for a run that has ended but not yet released the
    /// source, since the caller may hold a lock that keeps others from submitting payloads.
    pub(super) async fn claim(
        &self,
        run: &IngestionRun,
    ) -> Result<(SourceClaim, Arc<RunTracker>), IngestionError> {
        match self.claim_for_run(run).await {
            Err(IngestionError::Busy { run_id, .. }) if self.has_ended(&run_id)? => {
                drop(timeout(CLAIM_RELEASE_WAIT_MAX, self.claims.wait_until_released(&run_id)).await);
                self.claim_for_run(run).await
            }
            claimed => claimed,
        }
    }

    /// Claims the source of a run on this host, and in its cluster.
    async fn claim_for_run(
        &self,
        run: &IngestionRun,
    ) -> Result<(SourceClaim, Arc<RunTracker>), IngestionError> {
        let (mut claim, progress) = self.claims.claim_for_run(run)?;
        self.take_lease(&mut claim, &run.oracle_id).await?;
        Ok((claim, progress))
    }

    /// The runs that are in progress and that no task of this host reads.
    fn find_interrupted(&self) -> Result<Vec<IngestionRun>, StoreError> {
        let mut interrupted = Vec::new();
        for run_id in self.store.sources()?.iter().flat_map(|source| &source.attempts) {
            if self.claims.run(run_id).is_none() {
                interrupted.extend(self.find_running(run_id)?);
            }
        }
        Ok(interrupted)
    }

    /// Whether the run has ended and is about to release its source. A completed run that is read again is not.
    fn has_ended(&self, run_id: &Sha256Hex) -> Result<bool, StoreError> {
        let is_again = self.claims.run(run_id).is_some_and(|progress| progress.is_rebuild());
        Ok(!is_again && !self.is_run_running(run_id)?)
    }

    /// Whether a run is still running.
    pub(super) fn is_run_running(&self, run_id: &Sha256Hex) -> Result<bool, StoreError> {
        Ok(self.find_running(run_id)?.is_some())
    }

    /// The run, if it is still running.
    fn find_running(&self, run_id: &Sha256Hex) -> Result<Option<IngestionRun>, StoreError> {
        let run = self.store.run(run_id)?.map(|(run, _)| run);
        Ok(run.filter(|run| run.state == RunState::Running))
    }

    /// Reads a run's payload on a thread of its own.
    async fn read_payload(&self, ready: PreparedPipeline, progress: &Arc<RunTracker>) -> PayloadReadOutcome {
        let fetched = self.fetch_payload(&progress.run).await;
        match fetched.and_then(|()| self.payload_reader(ready, progress)) {
            // in a cluster, the run is resumed later
            Err(error) if Self::lacks_files(&error) => {
                tracing::warn!(run_id = %progress.run.run_id, %error, "the files for an ingestion run cannot be fetched now");
                PayloadReadOutcome::EndedEarly
            }
            Ok(reading) => match spawn_blocking(move || reading.run()).await {
                Ok(outcome) => outcome,
                Err(error) => failed_read(error.to_string()),
            },
            Err(error) => failed_read(error.to_string()),
        }
    }

    fn payload_reader(
        &self,
        ready: PreparedPipeline,
        progress: &Arc<RunTracker>,
    ) -> Result<PayloadReader, IngestionError> {
        let run = &progress.run;
        let view = self.store.view(&run.oracle_id)?;
        let unknown = || RegistryError::SourceUnknown(run.oracle_id.clone());
        let view = view.ok_or_else(unknown)?;
        let release = TimelineRun {
            run: view.state.next_number(),
            version: run.input.version.clone(),
            released_at: run.input.released_at,
            ingested_at: next_known_at(&view.state, self.clock.now()),
            snapshot: run.snapshot,
            has_unidentified: false,
            undoes: None,
        };
        let (files, progress) = (self.store.files().clone(), Arc::clone(progress));
        Ok(PayloadReader { files, view, ready, release, progress, limits: self.limits })
    }
}

/// Marks an approved run that did not become visible as held again, so that it can be approved once more. Returns whether it was
/// approved.
pub(super) fn mark_held_again(run: &mut IngestionRun) -> bool {
    let was_approved =
        matches!(run.state, RunState::Failed | RunState::Cancelled) && run.decision.take().is_some();
    if was_approved {
        run.state = RunState::Held;
    }
    was_approved
}
