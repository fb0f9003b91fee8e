//! A run on its way: begun by a commit, read on a thread of its own, ended by another commit.

use super::archiving::ARCHIVING;
use super::flights::Claim;
use super::progress::{Ending, Phase, Progress};
use super::reading::{Outcome, Reading};
use super::{Begin, Begun, IngestionError, Shop};
use crate::logger::CommitError;
use crate::registry::{Decided, Desk, Ready, RegistryError, as_read, policy_of};
use domain::event::ground::{InvalidationCause, InvalidationEntry, RunEntry};
use domain::ground::freshness::InvalidationTrigger;
use domain::ground::id::SourceId;
use domain::ground::ontology::is_version;
use domain::ground::run::{FileRef, Run, RunCounts, RunInput, RunState, split_record_id};
use domain::ground::timeline::Release;
use domain::{Event, Peer, Sha256Hex};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use store::ground::staging::Staged;
use store::ground::state::{Completed, SourceState};
use store::{Record, RowKey, StoreError, Write};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// A run's end that the log does not take is tried again after so long.
const END_PAUSE: Duration = Duration::from_secs(1);
/// What a source is said to have released lies ahead of now by no more: a day may be over elsewhere.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// What a run changes: its source and itself, with the entries that tell of it.
struct Changed {
    source: SourceState,
    run: Run,
    events: Vec<Event>,
}

/// Begins a run, unless it has been.
pub(super) async fn begin(shop: Arc<Shop>, message: Begin) -> Result<Begun, IngestionError> {
    if !is_version(&message.version) {
        return Err(IngestionError::Version);
    }
    let ready = shop.desk().pipeline(&message.pipeline_id)?;
    let (source, _) = shop.desk().source(&ready.definition.pipeline.oracle_id)?;
    let (now, released_at) = (shop.clock.now(), message.released_at);
    if released_at.duration_since(now) > AHEAD_MAX {
        return Err(IngestionError::Ahead { released_at, now });
    }
    let (peer, replace) = (message.peer, message.replace);
    let run = shop.planned(message, &ready, &source);
    let counts = source.read_as(&run.input.version);
    if counts.is_some_and(|counts| counts.run_id == run.run_id)
        && let Some((known, _)) = shop.store.run(&run.run_id)?
    {
        return Ok(Begun::Unchanged(Box::new(known)));
    }
    if !replace {
        check_version(&run, counts)?;
    }
    let record_id = run.record_id(0);
    let digits = split_record_id(&record_id).map_or("", |(digits, _)| digits);
    if shop.store.runs_with_prefix(digits)?.iter().any(|other| other != run.run_id.as_str()) {
        return Err(IngestionError::Collision(run.run_id));
    }
    let (claim, progress) = shop.claim(&run).await?;
    let desk = shop.desk();
    let begun = desk.change_or(|desk| {
        let entry = RunEntry { run: Box::new(run.clone()), peer, timestamp: run.started_at };
        changed(desk, &run.oracle_id, |source| Changed {
            source: source.with_attempt(&run.run_id),
            run: run.clone(),
            events: vec![Event::IngestionStarted(entry)],
        })
    });
    begun.await?;
    shop.metrics.ingesting.started();
    tokio::spawn(fly(shop, ready, claim, progress));
    Ok(Begun::Started(Box::new(run)))
}

/// Goes on with the runs that were cut short.
pub(super) async fn resume_all(shop: Arc<Shop>) {
    let runs = match shop.store.runs() {
        Ok(runs) => runs,
        Err(error) => {
            tracing::error!(%error, "runs that were cut short cannot be gone on with");
            return;
        }
    };
    for run in runs.into_iter().filter(|run| run.state == RunState::Running) {
        tracing::info!(run_id = %run.run_id, oracle_id = %run.oracle_id, "a run that was cut short goes on");
        let Ok((claim, progress)) = shop.flights.claim(&run) else { continue };
        shop.metrics.ingesting.started();
        match shop.ready_for(&run) {
            Ok(ready) => drop(tokio::spawn(fly(Arc::clone(&shop), ready, claim, progress))),
            Err(error) => shop.end(&progress, failed(error.to_string())).await,
        }
    }
}

/// Ends a run before it is done. Nothing of it becomes visible, and no start goes on with it.
pub(super) async fn cancel(shop: Arc<Shop>, run_id: Sha256Hex, peer: Peer) -> Result<(), IngestionError> {
    let Some(progress) = shop.flights.run(&run_id) else { return Err(IngestionError::NotRunning(run_id)) };
    let mut run = progress.run.clone();
    if run.state == RunState::Completed {
        // its source is being rebuilt, and it stays what it is
        progress.end(Ending::Cancelled);
        return Ok(());
    }
    (run.state, run.ended_at) = (RunState::Cancelled, Some(shop.clock.now()));
    run.cause = Some("an administrator has cancelled it".into());
    let cancelled = shop.desk().change_or(|desk| shop.closed(desk, &run, Some(peer))).await?;
    if !cancelled.1 {
        return Err(IngestionError::NotRunning(run_id));
    }
    progress.end(Ending::Cancelled);
    Ok(())
}

/// Whether a run reads what `counts` for its version was read from, where anything does.
fn check_version(run: &Run, counts: Option<&Completed>) -> Result<(), IngestionError> {
    let RunInput { version, raw_sha256, released_at, .. } = &run.input;
    match counts {
        Some(Completed { run_id, raw_sha256: raw, release, .. })
            if (raw, &release.released_at) != (raw_sha256, released_at) =>
        {
            let (version, run_id) = (version.clone(), run_id.clone());
            Err(IngestionError::VersionKnown { version, run_id, released_at: release.released_at })
        }
        _ => Ok(()),
    }
}

/// What a source becomes by `change`, to be committed.
fn changed(
    desk: &Desk,
    oracle_id: &SourceId,
    change: impl FnOnce(SourceState) -> Changed,
) -> Result<Decided<()>, IngestionError> {
    let (source, revision) = desk.source(oracle_id)?;
    let Changed { source, run, events } = change(source);
    let record = Record {
        expect: as_read(RowKey::Source(oracle_id.clone()), Some(revision)),
        events,
        writes: vec![Write::PutSource(Arc::new(source)), Write::PutRun(Arc::new(run))],
    };
    Ok(Decided::Change((), record))
}

/// Reads a run's payload and ends it, one way or another.
async fn fly(shop: Arc<Shop>, ready: Ready, claim: Claim, progress: Arc<Progress>) {
    let outcome = tokio::select! {
        _ = progress.until_ended() => Outcome::EndedEarly,
        // the semaphore is never closed
        place = shop.places.acquire() => {
            let outcome = shop.read(ready, &progress).await;
            drop(place);
            outcome
        }
    };
    shop.end(&progress, outcome).await;
    // whoever has the next payload may hold what this waits for, and wait for the place
    drop(claim);
    shop.let_go(&progress.run).await;
}

/// When a run becomes known: now, or just behind the run before it where the clock has not gone on since. What is known at
/// a time then never depends on what is ingested later.
fn behind(source: &SourceState, now: Timestamp) -> Timestamp {
    let last = source.completed.last().map(|completed| completed.release.ingested_at);
    let next = last.and_then(|last| last.checked_add(SignedDuration::from_micros(1)).ok());
    next.map_or(now, |next| next.max(now))
}

fn failed(cause: String) -> Outcome {
    Outcome::Failed { cause, counts: RunCounts::default(), rows: None }
}

impl Shop {
    /// The run that a message asks for.
    fn planned(&self, message: Begin, ready: &Ready, source: &SourceState) -> Run {
        let Begin { pipeline_id, version, released_at, payload, source_url, requested_by, .. } = message;
        let ontology = source.entry.registration.ontology.clone();
        let (pipeline_sha256, raw_sha256) = (ready.sha256.clone(), payload.sha256);
        let input = RunInput { ontology, pipeline_sha256, raw_sha256, released_at, version };
        Run {
            run_id: input.run_id(),
            oracle_id: source.entry.oracle_id().clone(),
            number: source.next_number(),
            pipeline_id,
            input,
            snapshot: source.entry.registration.snapshot,
            raw_bytes: payload.size_bytes,
            source_url,
            requested_by,
            state: RunState::Running,
            started_at: self.clock.now(),
            ended_at: None,
            counts: RunCounts::default(),
            rows: None,
            cause: None,
        }
    }

    /// The pipeline as it was when the run began.
    pub(super) fn ready_for(&self, run: &Run) -> Result<Ready, IngestionError> {
        let definition = self.store.definition(&run.input.pipeline_sha256)?;
        let unknown = || RegistryError::PipelineUnknown(run.pipeline_id.clone());
        Ok(self.desk().ready_again(definition.ok_or_else(unknown)?, &run.input.ontology)?)
    }

    /// The place of a run's source. Whoever has ended, and is about to give it back, is waited for.
    async fn claim(&self, run: &Run) -> Result<(Claim, Arc<Progress>), IngestionError> {
        loop {
            match self.flights.claim(run) {
                Err(IngestionError::Busy { run_id, .. }) if !self.goes_on(&run_id)? => {
                    self.flights.until_free(&run.oracle_id).await;
                }
                claimed => return claimed,
            }
        }
    }

    /// Whether a run has not ended.
    pub(super) fn goes_on(&self, run_id: &Sha256Hex) -> Result<bool, StoreError> {
        Ok(self.store.run(run_id)?.is_some_and(|(run, _)| run.state == RunState::Running))
    }

    /// Reads a run's payload on a thread of its own.
    async fn read(&self, ready: Ready, progress: &Arc<Progress>) -> Outcome {
        match self.reading(ready, progress) {
            Ok(reading) => match spawn_blocking(move || reading.run()).await {
                Ok(outcome) => outcome,
                Err(error) => failed(error.to_string()),
            },
            Err(error) => failed(error.to_string()),
        }
    }

    fn reading(&self, ready: Ready, progress: &Arc<Progress>) -> Result<Reading, IngestionError> {
        let run = &progress.run;
        let view = self.store.view(&run.oracle_id)?;
        let unknown = || RegistryError::SourceUnknown(run.oracle_id.clone());
        let view = view.ok_or_else(unknown)?;
        let release = Release {
            run: view.state.next_number(),
            version: run.input.version.clone(),
            released_at: run.input.released_at,
            ingested_at: behind(&view.state, self.clock.now()),
            snapshot: run.snapshot,
        };
        let (files, progress) = (self.store.files().clone(), Arc::clone(progress));
        Ok(Reading { files, view, ready, release, progress, limits: self.limits })
    }

    /// Ends a run with what has come of it.
    async fn end(&self, progress: &Progress, outcome: Outcome) {
        progress.enter(Phase::Committing);
        let mut run = progress.run.clone();
        run.ended_at = Some(self.clock.now());
        let ended = match outcome {
            Outcome::Staged { staged, ready } => match self.complete(run.clone(), *staged, &ready).await {
                // of what the log does not take nobody knows whether it is there
                Err(error) if !matches!(error, IngestionError::Commit(CommitError::Unavailable(_))) => {
                    (run.state, run.cause) = (RunState::Failed, Some(error.to_string()));
                    self.close(run).await
                }
                ended => ended,
            },
            Outcome::EndedEarly => self.ended(run),
            Outcome::Failed { cause, counts, rows } => {
                (run.state, run.cause, run.counts, run.rows) = (RunState::Failed, Some(cause), counts, rows);
                self.close(run).await
            }
        };
        match ended {
            Ok(run) => {
                let Run { run_id, oracle_id, state, counts, cause, .. } = &run;
                tracing::info!(%run_id, %oracle_id, state = state.as_str(), records = counts.records,
                    rejected = counts.rejected, cause, "a run has ended, or the next start goes on with it");
                self.metrics.ingesting.ended(&run);
            }
            // it stands in the store as going on: the next start reads it again
            Err(error) => {
                tracing::error!(run_id = %progress.run.run_id, %error, "a run's end cannot be committed");
            }
        }
    }

    /// Makes a run visible, unless somebody has ended it.
    async fn complete(&self, mut run: Run, staged: Staged, ready: &Ready) -> Result<Run, IngestionError> {
        let transformations = ready.normalizer.transformations(ready.definition.pipeline.audit);
        let Staged { counts, rows, statements, .. } = &staged;
        (run.state, run.counts, run.rows) = (RunState::Completed, counts.clone(), Some(rows.clone()));
        let (now, mut before) = (self.clock.now(), None);
        let run_id = run.run_id.clone();
        let ended = self.commit_end(&run_id, |desk| {
            changed(desk, &run.oracle_id.clone(), |source| {
                run.ended_at = Some(behind(&source, now));
                run.number = source.next_number();
                before = Some(source.clone());
                let source = match run.release() {
                    Some(release) => {
                        let completed = completed(&run, release, rows.clone());
                        let transformations = transformations.to_vec();
                        source.with_completed(&run, completed, transformations, statements.clone())
                    }
                    None => source,
                };
                let entry = RunEntry { run: Box::new(run.clone()), peer: None, timestamp: now };
                Changed { source, run: run.clone(), events: vec![Event::IngestionEnded(entry)] }
            })
        });
        let is_ours = match ended.await {
            Ok(is_ours) => is_ours,
            Err(error) => {
                // nobody knows whether the files are named: what is not, the next start removes
                staged.named();
                return Err(error);
            }
        };
        if !is_ours {
            return self.ended(run);
        }
        staged.named();
        if let Some(before) = before
            && let Err(error) = self.store.remove_replaced(&before)
        {
            tracing::warn!(%run_id, %error, "files that were replaced stay until the next start");
        }
        Ok(run)
    }

    /// A run as somebody else has ended it, or left it to the next start.
    fn ended(&self, run: Run) -> Result<Run, IngestionError> {
        Ok(self.store.run(&run.run_id)?.map_or(run, |(ended, _)| ended))
    }

    /// Lets go of a run's payload, where it is not to be kept.
    async fn let_go(&self, run: &Run) {
        let _turn = ARCHIVING.lock().await;
        if let Err(error) = self.store.remove_unneeded_payload(&run.input.raw_sha256, None) {
            tracing::warn!(run_id = %run.run_id, %error, "a payload that nobody needs stays");
        }
    }

    /// Ends a run that comes to nothing, unless somebody has.
    async fn close(&self, run: Run) -> Result<Run, IngestionError> {
        let is_ours = self.commit_end(&run.run_id, |desk| self.closed(desk, &run, None)).await?;
        if is_ours { Ok(run) } else { self.ended(run) }
    }

    /// What closes a run that comes to nothing, unless it has ended.
    fn closed(&self, desk: &Desk, run: &Run, peer: Option<Peer>) -> Result<Decided<()>, IngestionError> {
        if !self.goes_on(&run.run_id)? {
            return Ok(Decided::Already(()));
        }
        let timestamp = run.ended_at.unwrap_or(run.started_at);
        changed(desk, &run.oracle_id, |source| {
            let entry = RunEntry { run: Box::new(run.clone()), peer, timestamp };
            let mut events = vec![Event::IngestionEnded(entry)];
            let mut source = source.with_attempt(&run.run_id);
            if run.state == RunState::Failed && run.source_url.is_some() && self.heeds_versions(&source) {
                // the source says something else by now, and nobody knows what
                source.invalidated_at = Some(timestamp);
                events.push(Event::SourceInvalidated(InvalidationEntry {
                    oracle_id: run.oracle_id.clone(),
                    trigger: InvalidationCause::VersionChange,
                    detail: format!("run {} of a newer version has failed", run.run_id),
                    peer: None,
                    timestamp,
                }));
            }
            Changed { source, run: run.clone(), events }
        })
    }

    /// Whether what a source has said is stale as soon as it has a newer version.
    fn heeds_versions(&self, source: &SourceState) -> bool {
        let ontology = self.desk().ontology(&source.entry.registration.ontology);
        let is_version =
            |trigger: &InvalidationTrigger| matches!(trigger, InvalidationTrigger::VersionChange {});
        ontology
            .is_ok_and(|ontology| policy_of(source, &ontology).invalidation_triggers.iter().any(is_version))
    }

    /// Commits a run's end as soon as the log takes it: a disk that was full would else leave a run that seems to go on,
    /// and does not, until the next start. Says whether the end is this one.
    async fn commit_end(
        &self,
        run_id: &Sha256Hex,
        mut end: impl FnMut(&Desk) -> Result<Decided<()>, IngestionError>,
    ) -> Result<bool, IngestionError> {
        let mut is_perhaps_there = false;
        loop {
            let desk = self.desk();
            let ended = desk.change_or(|desk| match self.goes_on(run_id)? {
                true => end(desk),
                false => Ok(Decided::Already(())),
            });
            match ended.await {
                Err(IngestionError::Commit(CommitError::Unavailable(cause))) => {
                    tracing::warn!(%run_id, cause, "a run's end waits until the log takes it");
                }
                // what seemed to fail is there, unless it was cancelled meanwhile
                Ok((_, false)) if is_perhaps_there => {
                    let run = self.store.run(run_id)?;
                    return Ok(run.is_some_and(|(run, _)| run.state != RunState::Cancelled));
                }
                ended => return Ok(ended?.1),
            }
            is_perhaps_there = true;
            sleep(END_PAUSE).await;
            if self.log.report().wait_for(|report| report.failure.is_none()).await.is_err() {
                return Err(CommitError::Unavailable("the daemon is stopping".into()).into());
            }
        }
    }
}

/// A run as its source remembers it.
fn completed(run: &Run, release: Release, rows: FileRef) -> Completed {
    Completed {
        run_id: run.run_id.clone(),
        pipeline_id: run.pipeline_id.clone(),
        pipeline_sha256: run.input.pipeline_sha256.clone(),
        raw_sha256: run.input.raw_sha256.clone(),
        source_url: run.source_url.clone(),
        release,
        rows,
    }
}
