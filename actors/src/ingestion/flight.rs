//! A run on its way: begun by a commit, read on a thread of its own, ended by another commit.

use super::archiving::ARCHIVING;
use super::flights::Claim;
use super::progress::{Phase, Progress};
use super::reading::{Outcome, Reading};
use super::{Begin, Begun, IngestionError, Shop};
use crate::logger::CommitError;
use crate::registry::{Decided, Ready, as_read, policy_of};
use domain::event::ground::RunEntry;
use domain::ground::freshness::InvalidationTrigger;
use domain::ground::id::SourceId;
use domain::ground::ontology::is_version;
use domain::ground::run::{Run, RunCounts, RunInput, RunState, split_record_id};
use domain::ground::timeline::Release;
use domain::{Event, Peer, Sha256Hex};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use store::ground::state::{Completed, SourceState};
use store::{Record, RowKey, Write};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// A run's end that the log does not take is tried again after so long.
const END_PAUSE: Duration = Duration::from_secs(1);

/// Begins a run, unless it has been.
pub(super) async fn begin(shop: Arc<Shop>, message: Begin) -> Result<Begun, IngestionError> {
    if !is_version(&message.version) {
        return Err(IngestionError::Version);
    }
    let ready = shop.desk().pipeline(&message.pipeline_id)?;
    let (source, _) = shop.desk().source(&ready.definition.pipeline.oracle_id)?;
    let run = shop.planned(message.clone(), &ready, &source);
    if let Some((known, _)) = shop.store.run(&run.run_id)?
        && known.state == RunState::Completed
    {
        return Ok(Begun::Unchanged(Box::new(known)));
    }
    let record_id = run.record_id(0);
    let digits = split_record_id(&record_id).map_or("", |(digits, _)| digits);
    if shop.store.runs_with_prefix(digits)?.iter().any(|other| other != run.run_id.as_str()) {
        return Err(IngestionError::Collision(run.run_id));
    }
    let (claim, progress) = shop.flights.claim(&run)?;
    let peer = message.peer;
    shop.commit_change(&run.oracle_id.clone(), |source| {
        let entry = RunEntry { run: Box::new(run.clone()), peer, timestamp: run.started_at };
        let source = source.with_attempt(&run.run_id);
        (source, run.clone(), Event::IngestionStarted(entry))
    })
    .await?;
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

/// Reads a run's payload and ends it, one way or another.
async fn fly(shop: Arc<Shop>, ready: Ready, claim: Claim, progress: Arc<Progress>) {
    // the semaphore is never closed
    let place = shop.places.acquire().await;
    let outcome = match shop.reading(ready, &progress) {
        Ok(reading) => match spawn_blocking(move || reading.run()).await {
            Ok(outcome) => outcome,
            Err(error) => failed(error.to_string()),
        },
        Err(error) => failed(error.to_string()),
    };
    drop(place);
    shop.end(&progress, outcome).await;
    drop(claim);
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
    fn ready_for(&self, run: &Run) -> Result<Ready, IngestionError> {
        let desk = self.desk();
        let definition = self.store.definition(&run.input.pipeline_sha256)?;
        let unknown = || crate::registry::RegistryError::PipelineUnknown(run.pipeline_id.clone());
        let (source, _) = desk.source(&run.oracle_id)?;
        Ok(desk.ready(definition.ok_or_else(unknown)?, &source.entry)?)
    }

    fn reading(&self, ready: Ready, progress: &Arc<Progress>) -> Result<Reading, IngestionError> {
        let run = &progress.run;
        let view = self.store.view(&run.oracle_id)?;
        let unknown = || crate::registry::RegistryError::SourceUnknown(run.oracle_id.clone());
        let view = view.ok_or_else(unknown)?;
        let release = Release {
            run: view.state.next_number(),
            version: run.input.version.clone(),
            released_at: run.input.released_at,
            ingested_at: behind(&view.state, self.clock.now()),
            snapshot: run.snapshot,
        };
        let Ready { definition, normalizer, .. } = ready;
        let (files, progress) = (self.store.files().clone(), Arc::clone(progress));
        Ok(Reading { files, view, definition, normalizer, release, progress, limits: self.limits })
    }

    /// Ends a run with what has come of it.
    async fn end(&self, progress: &Progress, outcome: Outcome) {
        progress.enter(Phase::Committing);
        let mut run = progress.run.clone();
        run.ended_at = Some(self.clock.now());
        let ended = match outcome {
            Outcome::Staged(staged) => self.complete(run, *staged).await,
            Outcome::Cancelled => {
                run.state = RunState::Cancelled;
                run.cause = Some("an administrator has cancelled it".into());
                self.close(run, progress.cancelled_by()).await
            }
            Outcome::Failed { cause, counts, rows } => {
                (run.state, run.cause, run.counts, run.rows) = (RunState::Failed, Some(cause), counts, rows);
                self.close(run, None).await
            }
        };
        match ended {
            Ok(run) => {
                let Run { run_id, oracle_id, state, counts, cause, .. } = &run;
                tracing::info!(%run_id, %oracle_id, state = state.as_str(), records = counts.records,
                    rejected = counts.rejected, cause, "a run has ended");
                self.metrics.ingesting.ended(&run);
            }
            // it stands in the store as going on: the next start reads it again
            Err(error) => {
                tracing::error!(run_id = %progress.run.run_id, %error, "a run's end cannot be committed");
            }
        }
    }

    /// Makes a run visible.
    async fn complete(
        &self,
        mut run: Run,
        staged: store::ground::staging::Staged,
    ) -> Result<Run, IngestionError> {
        let ready = self.ready_for(&run)?;
        let transformations = ready.normalizer.transformations(ready.definition.pipeline.audit).to_vec();
        let keeps_raw = ready.definition.pipeline.audit.log_raw_input;
        let (counts, rows, files) = staged.named();
        (run.state, run.counts, run.rows) = (RunState::Completed, counts, Some(rows.clone()));
        let (now, mut before) = (self.clock.now(), None);
        let oracle_id = run.oracle_id.clone();
        let run_id = run.run_id.clone();
        let ended = self.commit_end(&oracle_id, &run_id, |source| {
            run.ended_at = Some(behind(&source, now));
            run.number = source.next_number();
            let completed = run.release().map(|release| Completed {
                run_id: run.run_id.clone(),
                pipeline_id: run.pipeline_id.clone(),
                raw_sha256: run.input.raw_sha256.clone(),
                source_url: run.source_url.clone(),
                transformations: transformations.clone(),
                release,
                rows: rows.clone(),
            });
            before = Some(source.clone());
            let source = match completed {
                Some(completed) => source.with_completed(&run, completed, files.clone()),
                None => source,
            };
            let entry = RunEntry { run: Box::new(run.clone()), peer: None, timestamp: now };
            (source, run.clone(), Event::IngestionEnded(entry))
        });
        // where this fails nobody knows whether the files are named: what is not, the next start removes
        ended.await?;
        if let Some(before) = before {
            self.store.remove_replaced(&before)?;
        }
        if !keeps_raw {
            let _turn = ARCHIVING.lock().await;
            self.store.remove_unneeded_payload(&run.input.raw_sha256)?;
        }
        Ok(run)
    }

    /// Ends a run that comes to nothing.
    async fn close(&self, run: Run, peer: Option<Peer>) -> Result<Run, IngestionError> {
        let timestamp = run.ended_at.unwrap_or(run.started_at);
        self.commit_end(&run.oracle_id, &run.run_id, |source| {
            let entry = RunEntry { run: Box::new(run.clone()), peer, timestamp };
            let mut source = source.with_attempt(&run.run_id);
            if run.state == RunState::Failed && run.source_url.is_some() && self.heeds_versions(&source) {
                // the source says something else by now, and nobody knows what
                source.invalidated_at = Some(timestamp);
            }
            (source, run.clone(), Event::IngestionEnded(entry))
        })
        .await?;
        Ok(run)
    }

    /// Whether what a source has said is stale as soon as it has a newer version.
    fn heeds_versions(&self, source: &SourceState) -> bool {
        let ontology = self.desk().ontology(&source.entry.registration.ontology);
        let is_version =
            |trigger: &InvalidationTrigger| matches!(trigger, InvalidationTrigger::VersionChange {});
        ontology
            .is_ok_and(|ontology| policy_of(source, &ontology).invalidation_triggers.iter().any(is_version))
    }

    /// Commits a run's end as [`Shop::commit_change`] does, as soon as the log takes it: a disk that was full would else
    /// leave a run that seems to go on, and does not, until the next start.
    async fn commit_end(
        &self,
        oracle_id: &SourceId,
        run_id: &Sha256Hex,
        mut change: impl FnMut(SourceState) -> (SourceState, Run, Event),
    ) -> Result<(), IngestionError> {
        loop {
            match self.commit_change(oracle_id, &mut change).await {
                Err(IngestionError::Commit(CommitError::Unavailable(cause))) => {
                    tracing::warn!(%run_id, cause, "a run's end waits until the log takes it");
                }
                ended => return ended,
            }
            sleep(END_PAUSE).await;
            if self.log.report().wait_for(|report| report.failure.is_none()).await.is_err() {
                return Err(CommitError::Unavailable("the daemon is stopping".into()).into());
            }
            // what seemed to fail may be there
            if self.store.run(run_id)?.is_none_or(|(run, _)| run.state != RunState::Running) {
                return Ok(());
            }
        }
    }

    /// Commits what `change` makes of the source as it is, with the run and its entry.
    async fn commit_change(
        &self,
        oracle_id: &SourceId,
        mut change: impl FnMut(SourceState) -> (SourceState, Run, Event),
    ) -> Result<(), IngestionError> {
        let desk = self.desk();
        let changed = desk.change_or(|desk| {
            let (source, revision) = desk.source(oracle_id)?;
            let (source, run, event) = change(source);
            let record = Record {
                expect: as_read(RowKey::Source(oracle_id.clone()), Some(revision)),
                events: vec![event],
                writes: vec![Write::PutSource(Arc::new(source)), Write::PutRun(Arc::new(run))],
            };
            Ok(Decided::Change((), record))
        });
        changed.await.map(|_| ())
    }
}
