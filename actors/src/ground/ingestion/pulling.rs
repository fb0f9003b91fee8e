//! Pulls: the daemon fetches payloads on request, by a schedule, or because an answer was stale.

mod due;
mod refresh;
mod release;

use due::PipelineSchedule;
pub(super) use due::begin_due;
pub(super) use refresh::refresh;

use super::archiving::{ARCHIVING, ArchiveError, PayloadArchiver};
use super::run_task::begin;
use super::{IngestContext, IngestionError, StartRun, StartRunOutcome};
use crate::audit::commit_loop::CommitDecision;
use crate::ground::pull::{FetchedPayload, HttpValidators, PayloadFetchOutcome, PullError, PullRequest};
use crate::ground::registry::{PreparedPipeline, RegistryError, SourceConfirmation, expect_unchanged_row};
use jiff::Timestamp;
use oracled_domain::audit::event::ground::{
    ConfirmationCause, PullEndedEntry, PullFailedEntry, PullStartedEntry,
};
use oracled_domain::documents::DocumentKind;
use oracled_domain::ground::id::{PipelineId, SourceId};
use oracled_domain::ground::pipeline::{LastPullTimes, RegisteredPipeline};
use oracled_domain::ground::run::{IngestionRun, RunState};
use oracled_domain::{AuditEvent, EventKind, PeerCredentials, Sha256Hex};
use oracled_store::ground::archive::PayloadRef;
use oracled_store::ground::decoding::PayloadEncoding;
use oracled_store::{JournalRecord, RowName, RowWrite};
use refresh::SourceRefreshState;
use release::PayloadVersion;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

#[derive(Debug, Clone)]
pub(super) struct RequestedPull {
    pub(super) pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub(super) requested_by: String,
    pub(super) peer: Option<PeerCredentials>,
    /// Whether the payload is requested even if the source would report that it has not changed.
    pub(super) force: bool,
}

#[derive(Debug, Clone)]
pub enum PullOutcome {
    /// The source has nothing new.
    NothingNew {
        /// The time of the request.
        retrieved_at: Timestamp,
    },
    /// A payload was received. It is being read, or was read before.
    Begun(StartRunOutcome),
}

/// The memory of pulls, lost at a restart.
#[derive(Debug, Default)]
pub(super) struct PullTracker {
    /// The validators of each pipeline's last payload, with the run that read that payload.
    known_validators: Mutex<HashMap<PipelineId, (Sha256Hex, HttpValidators)>>,
    /// The pulls in progress, at most one for each pipeline. A pull's channel closes when it ends.
    in_progress: Mutex<HashMap<PipelineId, watch::Receiver<()>>>,
    refreshing: Mutex<HashMap<SourceId, SourceRefreshState>>,
    /// The pipelines' schedules.
    schedules: Mutex<HashMap<PipelineId, PipelineSchedule>>,
}

impl PullOutcome {
    /// The run that reads or has read the received payload, if one was received.
    #[must_use]
    pub fn run(&self) -> Option<&IngestionRun> {
        match self {
            Self::NothingNew { .. } => None,
            Self::Begun(StartRunOutcome::Started(run) | StartRunOutcome::Unchanged(run)) => Some(run),
        }
    }
}

impl From<ArchiveError> for IngestionError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Store(error) => Self::Store(error),
            ArchiveError::Inside(cause) => Self::Archiving(cause),
            ArchiveError::Undecodable(cause) => Self::Undecodable(cause),
            error @ ArchiveError::TooLarge { .. } => Self::PayloadTooLarge(error.to_string()),
        }
    }
}

/// The slot of a pull in progress; dropping it releases the slot.
struct PullSlot<'p> {
    pulls: &'p PullTracker,
    pipeline_id: &'p PipelineId,
    _ends: watch::Sender<()>,
}

impl Drop for PullSlot<'_> {
    fn drop(&mut self) {
        self.pulls.in_progress.lock().unwrap_or_else(PoisonError::into_inner).remove(self.pipeline_id);
    }
}

/// Pulls a pipeline's payload and begins its run, unless another pull of the pipeline is in progress. The pull's
/// beginning and end are logged, so the next start can distinguish a missed scheduled pull from a pull that was made.
pub(super) async fn pull(
    context: Arc<IngestContext>,
    requested_pull: RequestedPull,
) -> Result<PullOutcome, IngestionError> {
    let _slot = context.pulls.claim_slot(&requested_pull.pipeline_id)?;
    let RequestedPull { pipeline_id, requested_by, peer, .. } = requested_pull.clone();
    let began_at = context.clock.now();
    let entry = PullStartedEntry { pipeline_id, requested_by, peer };
    context
        .commit_pull_state(
            &requested_pull,
            LastPullTimes { began_at, ended_at: None },
            AuditEvent::new(began_at, None, EventKind::PullStarted(entry)),
        )
        .await?;
    let pulled = try_pull(Arc::clone(&context), &requested_pull).await;
    let RequestedPull { pipeline_id, requested_by, peer, .. } = requested_pull.clone();
    let timestamp = context.clock.now();
    let event = match &pulled {
        Ok(outcome) => {
            let run_id = outcome.run().map(|run| run.run_id.clone());
            AuditEvent::new(
                timestamp,
                None,
                EventKind::PullEnded(PullEndedEntry { pipeline_id, requested_by, run_id, peer }),
            )
        }
        Err(error) => {
            context.metrics.ingestion.count_failed_pull();
            let cause = error.to_string();
            AuditEvent::new(
                timestamp,
                None,
                EventKind::PullFailed(PullFailedEntry { pipeline_id, requested_by, cause, peer }),
            )
        }
    };
    context
        .commit_pull_state(&requested_pull, LastPullTimes { began_at, ended_at: Some(timestamp) }, event)
        .await?;
    pulled
}

/// A payload that was pulled, and the registered definition by which it was decoded.
struct DecodedPull {
    pipeline_sha256: Sha256Hex,
    payload: PayloadRef,
}

async fn try_pull(
    context: Arc<IngestContext>,
    requested_pull: &RequestedPull,
) -> Result<PullOutcome, IngestionError> {
    let (registered, _) = context.commit_context().registered_pipeline(&requested_pull.pipeline_id)?;
    let pipeline_sha256 = registered.pipeline_sha256;
    let ready = context.prepare_pipeline(&requested_pull.pipeline_id).await?;
    let source_state = context.read_pull_source_state(&ready, context.clock.now())?;
    // read before the request: the payload does not end a later invalidation
    let invalidation_count = source_state.invalidation_count();
    let read_by = source_state.read_by(&ready).filter(|_| !requested_pull.force);
    let known = read_by.map(|run| context.pulls.validators(run)).unwrap_or_default();
    let request = PullRequest::of(&ready.definition.pipeline, known);
    let request = request.ok_or_else(|| IngestionError::NotPulled(requested_pull.pipeline_id.clone()))?;
    let puller = context.puller.get();
    let encoding = PayloadEncoding::of(&ready.definition.pipeline.retrieval);
    let oracle_id = ready.definition.pipeline.oracle_id.clone();
    let archiving =
        PayloadArchiver::begin(context.store.clone(), oracle_id, encoding, puller.max_payload_bytes());
    let answer = puller.pull(&request, async |piece| archiving.push(piece).await).await;
    let pulled = match answer {
        Ok(PayloadFetchOutcome::Payload(pulled)) => pulled,
        Ok(PayloadFetchOutcome::Unchanged { retrieved_at }) => {
            return context
                .end_unchanged_pull(
                    requested_pull,
                    source_state.read_by(&ready),
                    invalidation_count,
                    retrieved_at,
                )
                .await;
        }
        Err(PullError::Keep(_)) => {
            // the archive has the cause
            archiving.finish().await?;
            return Err(IngestionError::Archiving("the archive rejected a piece of the payload".into()));
        }
        Err(error) => return Err(error.into()),
    };
    let _turn = ARCHIVING.lock().await;
    let payload = archiving.finish().await?;
    let decoded = DecodedPull { pipeline_sha256, payload };
    context.start_pulled_run(requested_pull, &ready, invalidation_count, pulled, decoded).await
}

impl IngestContext {
    /// Commits the beginning or the end of a pull, with its entry.
    async fn commit_pull_state(
        &self,
        requested_pull: &RequestedPull,
        last: LastPullTimes,
        event: AuditEvent,
    ) -> Result<(), IngestionError> {
        let (pipeline_id, commit_context) = (&requested_pull.pipeline_id, self.commit_context());
        let changed = self.log.decide_and_commit(|| {
            let (registered, revision) = commit_context.registered_pipeline(pipeline_id)?;
            let record = JournalRecord {
                expect: expect_unchanged_row(
                    RowName::of_document(DocumentKind::Pipeline, pipeline_id.to_string()),
                    Some(revision),
                ),
                events: vec![event.clone()],
                writes: vec![RowWrite::put(&RegisteredPipeline { last_pull: Some(last), ..registered })],
                ..JournalRecord::default()
            };
            Ok::<_, RegistryError>(CommitDecision::Change((), record))
        });
        Ok(changed.await.map(drop)?)
    }

    /// Whether the source has only one pipeline, which therefore brings all of its data.
    fn has_single_pipeline(&self, oracle_id: &SourceId) -> Result<bool, IngestionError> {
        let pipelines = self.store.pipelines()?;
        Ok(pipelines.iter().filter(|known| known.oracle_id == *oracle_id).count() == 1)
    }

    /// Ends a pull that found the payload of `run` again. If `run` has all of the source's data, this
    /// confirms the source, unless it was invalidated after the pull began.
    async fn end_unchanged_pull(
        &self,
        requested_pull: &RequestedPull,
        run: Option<&IngestionRun>,
        invalidation_count: u64,
        retrieved_at: Timestamp,
    ) -> Result<PullOutcome, IngestionError> {
        if let Some(run) = run
            && self.has_single_pipeline(&run.oracle_id)?
        {
            let confirmation = SourceConfirmation {
                confirmed_by: ConfirmationCause::Pull,
                detail: format!("pipeline {} still brings version {}", run.pipeline_id, run.input.version),
                peer: requested_pull.peer,
                invalidation_count: Some(invalidation_count),
            };
            self.commit_context().confirm(&run.oracle_id, confirmation).await?;
        }
        Ok(PullOutcome::NothingNew { retrieved_at })
    }

    /// Begins the run of a pulled payload, unless the payload was read before.
    async fn start_pulled_run(
        self: &Arc<Self>,
        requested_pull: &RequestedPull,
        ready: &PreparedPipeline,
        invalidation_count: u64,
        pulled: FetchedPayload,
        DecodedPull { pipeline_sha256, payload }: DecodedPull,
    ) -> Result<PullOutcome, IngestionError> {
        let raw_sha256 = payload.sha256.clone();
        let FetchedPayload { url, validators, modified, retrieved_at, .. } = pulled;
        let source_state = self.read_pull_source_state(ready, retrieved_at)?;
        if let Some(run) = source_state.read_by(ready).filter(|run| run.input.raw_sha256 == raw_sha256) {
            self.pulls.remember(run, validators);
            self.store.remove_new_payload(&raw_sha256)?;
            return self
                .end_unchanged_pull(requested_pull, Some(run), invalidation_count, retrieved_at)
                .await;
        }
        let PayloadVersion { version, released_at } =
            source_state.version_of_payload(&raw_sha256, modified, retrieved_at);
        let message = StartRun {
            pipeline_id: requested_pull.pipeline_id.clone(),
            pipeline_sha256,
            version,
            released_at,
            replace: false,
            payload,
            source_url: Some(url),
            retrieved_at: Some(retrieved_at),
            invalidation_count: Some(invalidation_count),
            requested_by: requested_pull.requested_by.clone(),
            peer: requested_pull.peer,
        };
        let begun = begin(Arc::clone(self), message).await;
        // after a failed commit the run may be durable; then the next start needs the payload
        if !matches!(begun, Ok(StartRunOutcome::Started(_)) | Err(IngestionError::Commit(_))) {
            self.store.remove_new_payload(&raw_sha256)?;
        }
        let begun = begun?;
        let (StartRunOutcome::Started(run) | StartRunOutcome::Unchanged(run)) = &begun;
        tokio::spawn(Arc::clone(self).remember_once_visible((**run).clone(), validators));
        Ok(PullOutcome::Begun(begun))
    }

    /// Remembers the validators of a payload once its run is visible. The payload of a failed run is pulled again.
    async fn remember_once_visible(self: Arc<Self>, run: IngestionRun, validators: HttpValidators) {
        self.claims.wait_until_released(&run.run_id).await;
        if let Ok(Some((ended, _))) = self.store.run(&run.run_id)
            && ended.state == RunState::Completed
        {
            self.pulls.remember(&ended, validators);
        }
    }
}

impl PullTracker {
    /// The slot of a pipeline's pull, unless another pull has it.
    fn claim_slot<'p>(&'p self, pipeline_id: &'p PipelineId) -> Result<PullSlot<'p>, IngestionError> {
        let mut under_way = self.in_progress.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.contains_key(pipeline_id) {
            return Err(IngestionError::Pulling(pipeline_id.clone()));
        }
        let (ends, ended) = watch::channel(());
        under_way.insert(pipeline_id.clone(), ended);
        Ok(PullSlot { pulls: self, pipeline_id, _ends: ends })
    }

    /// Waits for the end of a pipeline's pull, if one is in progress.
    async fn wait_for_pull(&self, pipeline_id: &PipelineId) {
        let ended = self.in_progress.lock().unwrap_or_else(PoisonError::into_inner).get(pipeline_id).cloned();
        if let Some(mut ended) = ended {
            // nothing is sent: the channel closes at the end
            drop(ended.changed().await);
        }
    }

    /// The validators of the payload of `run`, unless its pipeline has brought another payload since.
    fn validators(&self, run: &IngestionRun) -> HttpValidators {
        let known = self.known_validators.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&run.pipeline_id).filter(|(run_id, _)| *run_id == run.run_id);
        known.map(|(_, validators)| validators.clone()).unwrap_or_default()
    }

    fn remember(&self, run: &IngestionRun, validators: HttpValidators) {
        let mut known = self.known_validators.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(run.pipeline_id.clone(), (run.run_id.clone(), validators));
    }
}
