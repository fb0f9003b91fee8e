//! The course of a run: it begins with a commit, is read on its own thread, and ends with another commit.

use super::error::HELD_MAX;
use super::flights::Claim;
use super::progress::{Ending, Progress};
use super::reading::{Outcome, Reading};
use super::{Begin, Begun, IngestionError, Shop};
use crate::audit::commit_loop::Decided;
use crate::audit::logger::CommitError;
use crate::ground::registry::{Desk, Ready, RegistryError, as_read};
use crate::platform::caller::carried;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::audit::event::ground::RunEntry;
use oracled_domain::ground::id::SourceId;
use oracled_domain::ground::ontology::is_version;
use oracled_domain::ground::run::{Run, RunCounts, RunInput, RunState, split_record_id};
use oracled_domain::ground::timeline::Release;
use oracled_domain::{Event, EventKind, Peer, Sha256Hex};
use oracled_store::ground::state::{Completed, SourceState};
use oracled_store::{Record, RowKey, StoreError, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The most that a release date may be in the future: the next day may have begun in another time zone.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(24);

/// How long a new run waits for an ended run to release the source. After that the new run is rejected as busy.
const LEAVES: Duration = Duration::from_secs(2);

/// The change by a run: its source, the run itself, and the log entries.
pub(super) struct Changed {
    pub(super) source: SourceState,
    pub(super) run: Run,
    pub(super) events: Vec<Event>,
}

/// Begins a run, unless the same run was completed before or is held.
pub(super) async fn begin(shop: Arc<Shop>, message: Begin) -> Result<Begun, IngestionError> {
    if !is_version(&message.version) {
        return Err(IngestionError::bad_version(&message.version));
    }
    let ready = shop.desk().pipeline(&message.pipeline_id)?;
    let (source, _) = shop.desk().source(&ready.definition.pipeline.oracle_id)?;
    let (now, released_at) = (source.present(shop.clock.now()), message.released_at);
    if released_at.duration_since(now) > AHEAD_MAX {
        return Err(IngestionError::Ahead { released_at, now });
    }
    let (peer, replace) = (message.peer, message.replace);
    let run = shop.planned(message, &ready, &source);
    let known = |source| match shop.brought_before(&run, source, replace)? {
        Some(known) => Ok::<_, IngestionError>(Some(known)),
        None => Ok(shop.held_before(&run, peer)?),
    };
    if let Some(known) = known(&source)? {
        return Ok(Begun::Unchanged(Box::new(known)));
    }
    let record_id = run.record_id(0);
    let digits = split_record_id(&record_id).map_or("", |(digits, _)| digits);
    if shop.store.runs_with_prefix(digits)?.iter().any(|other| other != run.run_id.as_str()) {
        return Err(IngestionError::Collision(run.run_id));
    }
    let (claim, progress) = shop.claim(&run).await?;
    // another run may have become visible before the claim; after the claim none can
    let (source, _) = shop.desk().source(&run.oracle_id)?;
    if let Some(known) = known(&source)? {
        return Ok(Begun::Unchanged(Box::new(known)));
    }
    // a held run with this id was already returned above
    if source.held.len() >= HELD_MAX {
        return Err(IngestionError::TooManyHeld { oracle_id: run.oracle_id, held: source.held });
    }
    let desk = shop.desk();
    let begun = shop.log.decide_and_commit(|| {
        let entry = RunEntry { run: Box::new(run.clone()), peer };
        changed(&desk, &run.oracle_id, |source| {
            let registration = &source.entry.registration;
            if (&registration.ontology, registration.snapshot) != (&run.input.ontology, run.snapshot) {
                return Err(IngestionError::Amended(run.oracle_id.clone()));
            }
            Ok(Changed {
                source: source.with_attempt(&run.run_id),
                run: run.clone(),
                events: vec![Event::new(run.started_at, None, EventKind::IngestionStarted(entry))],
            })
        })
    });
    if let Err(error) = begun.await {
        if matches!(error, IngestionError::Commit(CommitError::Unavailable(_))) {
            tokio::spawn(async move { shop.let_go_once_writable(&run).await });
        }
        return Err(error);
    }
    shop.metrics.ingesting.started();
    tokio::spawn(carried(fly(shop, ready, claim, progress)));
    Ok(Begun::Started(Box::new(run)))
}

/// Resumes the runs that were interrupted.
pub(super) async fn resume_all(shop: Arc<Shop>) {
    let runs = match shop.store.runs() {
        Ok(runs) => runs,
        Err(error) => {
            tracing::error!(%error, "could not read the interrupted ingestion runs");
            return;
        }
    };
    for run in runs.into_iter().filter(|run| run.state == RunState::Running) {
        tracing::info!(run_id = %run.run_id, oracle_id = %run.oracle_id, "ingestion run resumed");
        let (claim, progress) = match shop.flights.claim(&run) {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::error!(run_id = %run.run_id, %error, "could not resume an ingestion run");
                continue;
            }
        };
        shop.metrics.ingesting.started();
        match shop.ready_for(&run) {
            Ok(ready) => drop(tokio::spawn(fly(Arc::clone(&shop), ready, claim, progress))),
            Err(error) => {
                let shop = Arc::clone(&shop);
                tokio::spawn(async move {
                    shop.end(&progress, failed(error.to_string())).await;
                    drop(claim);
                });
            }
        }
    }
}

/// Cancels a run. None of its records become visible, and it is not resumed.
pub(super) async fn cancel(shop: Arc<Shop>, run_id: Sha256Hex, peer: Peer) -> Result<(), IngestionError> {
    let Some(progress) = shop.flights.run(&run_id) else { return Err(IngestionError::NotRunning(run_id)) };
    let mut run = progress.run.clone();
    if progress.is_again() {
        // a completed run that is read again stays completed
        progress.end(Ending::Cancelled);
        return Ok(());
    }
    (run.state, run.ended_at) = (RunState::Cancelled, Some(shop.clock.now()));
    run.cause = Some("cancelled by an administrator".into());
    held_again(&mut run);
    let close = || shop.unless_ended(&run_id, || shop.closed(&shop.desk(), &run, Some(peer)));
    let (_, cancelled) = shop.log.decide_and_commit(close).await?;
    if cancelled.is_none() {
        return Err(IngestionError::NotRunning(run_id));
    }
    progress.end(Ending::Cancelled);
    Ok(())
}

/// Checks that `run` has the same payload and release date as the run that counts for its version, if there is one.
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

/// The commit that applies `change` to a source.
pub(super) fn changed(
    desk: &Desk,
    oracle_id: &SourceId,
    change: impl FnOnce(SourceState) -> Result<Changed, IngestionError>,
) -> Result<Decided<()>, IngestionError> {
    let (source, revision) = desk.source(oracle_id)?;
    let Changed { source, run, events } = change(source)?;
    let record = Record {
        expect: as_read(RowKey::Source(oracle_id.clone()), Some(revision)),
        events,
        writes: vec![Write::PutSource(Arc::new(source)), Write::PutRun(Arc::new(run))],
        ..Record::default()
    };
    Ok(Decided::Change((), record))
}

/// Reads a run's payload, and ends the run with the outcome.
pub(super) async fn fly(shop: Arc<Shop>, ready: Ready, claim: Claim, progress: Arc<Progress>) {
    let outcome = tokio::select! {
        _ = progress.until_ended() => Outcome::EndedEarly,
        // the semaphore is never closed
        place = shop.places.acquire() => {
            let outcome = shop.read_payload(ready, &progress).await;
            drop(place);
            outcome
        }
    };
    shop.end(&progress, outcome).await;
    // release the source first: `let_go` waits for the archive lock, whose holder may wait for this source
    drop(claim);
    shop.let_go(&progress.run).await;
}

/// The time when a run becomes known: now, or 1 µs after the previous run if the clock has not advanced. The answer for a
/// given `known_at` thus never depends on later runs.
pub(super) fn behind(source: &SourceState, now: Timestamp) -> Timestamp {
    let present = source.present(now);
    let is_taken = source.completed.last().is_some_and(|last| last.release.ingested_at == present);
    if is_taken { present.saturating_add(SignedDuration::from_micros(1)).unwrap_or(present) } else { present }
}

fn failed(cause: String) -> Outcome {
    Outcome::Failed { cause, counts: Box::default(), rows: None }
}

impl Shop {
    /// The earlier run with the same id, if its records count.
    ///
    /// # Errors
    /// `Undone` and `Replaced` if its records no longer count. `VersionKnown` if another run counts for the version,
    /// unless `replace` is set.
    pub(super) fn brought_before(
        &self,
        run: &Run,
        source: &SourceState,
        replace: bool,
    ) -> Result<Option<Run>, IngestionError> {
        let visible = source.completed.iter().rev().find(|completed| completed.run_id == run.run_id);
        if let Some(by) = visible.and_then(|visible| source.undone_by(visible.release.run)) {
            let (run_id, by) = (run.run_id.clone(), by.run_id.clone());
            return Err(IngestionError::Undone { run_id, by });
        }
        let counts = source.read_as(&run.input.version);
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
    fn held_before(&self, run: &Run, peer: Option<Peer>) -> Result<Option<Run>, StoreError> {
        let known = self.store.run(&run.run_id)?.map(|(known, _)| known);
        Ok(known.filter(|known| match known.state {
            RunState::Held => true,
            RunState::Discarded => peer.is_none(),
            RunState::Running | RunState::Completed | RunState::Failed | RunState::Cancelled => false,
        }))
    }

    /// The run that `message` requests.
    fn planned(&self, message: Begin, ready: &Ready, source: &SourceState) -> Run {
        let Begin { pipeline_id, version, released_at, payload, requested_by, replace, .. } = message;
        let Begin { source_url, retrieved_at, invalidation_count, .. } = message;
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

    /// The pipeline as of the run's beginning.
    pub(super) fn ready_for(&self, run: &Run) -> Result<Ready, IngestionError> {
        let definition = self.store.definition(&run.input.pipeline_sha256)?;
        let unknown = || RegistryError::PipelineUnknown(run.pipeline_id.clone());
        Ok(self.desk().ready_again(definition.ok_or_else(unknown)?, &run.input.ontology)?)
    }

    /// Claims the source of a run. Waits a short time for a run that has ended but not yet released the source, since the
    /// caller may hold a lock that keeps others from submitting payloads.
    pub(super) async fn claim(&self, run: &Run) -> Result<(Claim, Arc<Progress>), IngestionError> {
        match self.flights.claim(run) {
            Err(IngestionError::Busy { run_id, .. }) if self.has_ended(&run_id)? => {
                drop(timeout(LEAVES, self.flights.until_left(&run_id)).await);
                self.flights.claim(run)
            }
            claimed => claimed,
        }
    }

    /// Whether the run has ended and is about to release its source. A completed run that is read again is not.
    fn has_ended(&self, run_id: &Sha256Hex) -> Result<bool, StoreError> {
        let is_again = self.flights.run(run_id).is_some_and(|progress| progress.is_again());
        Ok(!is_again && !self.goes_on(run_id)?)
    }

    /// Whether a run is still running.
    pub(super) fn goes_on(&self, run_id: &Sha256Hex) -> Result<bool, StoreError> {
        Ok(self.store.run(run_id)?.is_some_and(|(run, _)| run.state == RunState::Running))
    }

    /// Reads a run's payload on a thread of its own.
    async fn read_payload(&self, ready: Ready, progress: &Arc<Progress>) -> Outcome {
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
            has_unidentified: false,
            undoes: None,
        };
        let (files, progress) = (self.store.files().clone(), Arc::clone(progress));
        Ok(Reading { files, view, ready, release, progress, limits: self.limits })
    }
}

/// Marks an approved run that did not become visible as held again, so that it can be approved once more.
pub(super) fn held_again(run: &mut Run) {
    if matches!(run.state, RunState::Failed | RunState::Cancelled) && run.decision.take().is_some() {
        run.state = RunState::Held;
    }
}
