//! Pulls: the daemon fetches payloads on request, by a schedule, or because an answer was stale.
//!
//! A payload that differs from the source's last payload is a new release, even if the source had the same
//! payload earlier. Only the latest run of a version counts. If a source returns to earlier content, that
//! content must therefore not get its former version again.

use super::error::REFRESH_PAUSE;
use super::run_task::begin;
use super::{IngestContext, IngestionError, StartRun, StartRunOutcome};
use crate::ingestion::reading::{ARCHIVING, ArchiveError, PayloadArchiver};
use crate::pull::{
    FetchedPayload, HttpValidators, PayloadFetchOutcome, PullError, PullRequest, PullSchedule,
};
use crate::registry::{PreparedPipeline, RegistryError, SourceConfirmation};
use actors_audit::logger::handle::CommitDecision;
use actors_platform::caller::run_as_current_caller;
use actors_platform::work::InFlight;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_base::event::AuditEvent;
use domain_ground::event::{
    ConfirmationCause, PullEnded, PullEndedEntry, PullFailed, PullFailedEntry, PullStarted, PullStartedEntry,
};
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::pipeline::{LastPullTimes, PipelineState};
use domain_ground::run::{IngestionRun, RunState};
use domain_ground::source_state::{CompletedRun, SourceState};
use domain_ground::timeline::{ReleaseScope, VisibleReleases};
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, StoreError};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use store_facts::archive::PayloadRef;
use store_facts::decoding::PayloadEncoding;
use tokio::sync::watch;

/// A pull that was interrupted by the end of the daemon is due again this long after it began, unless its
/// schedule has an earlier time. Without the pause, a daemon that restarts in a loop would pull at each
/// start.
const INTERRUPTED_PULL_PAUSE: SignedDuration = SignedDuration::from_mins(15);

#[derive(Debug, Clone)]
pub struct RequestedPull {
    pub pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    pub peer: Option<PeerCredentials>,
    /// Whether the payload is requested even if the source would report that it has not changed.
    pub force: bool,
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
    /// The pulls in progress, at most one for each pipeline.
    in_flight: InFlight<PipelineId>,
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

/// Pulls a pipeline's payload and begins its run, unless another pull of the pipeline is in progress. The pull's
/// beginning and end are logged, so the next start can distinguish a missed scheduled pull from a pull that was made.
pub async fn pull(
    context: Arc<IngestContext>,
    requested_pull: RequestedPull,
) -> Result<PullOutcome, IngestionError> {
    context.check_sharing()?;
    let RequestedPull { pipeline_id, requested_by, peer, .. } = requested_pull.clone();
    let claim = context.pulls.in_flight.claim(pipeline_id.clone());
    let _claim = claim.ok_or_else(|| IngestionError::Pulling(pipeline_id.clone()))?;
    let began_at = context.clock.now();
    let entry = PullStartedEntry { pipeline_id, requested_by, peer };
    context
        .commit_pull_state(
            &requested_pull,
            LastPullTimes { began_at, ended_at: None },
            AuditEvent::new(began_at, None, PullStarted(entry)),
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
                PullEnded(PullEndedEntry { pipeline_id, requested_by, run_id, peer }),
            )
        }
        Err(error) => {
            context.metrics.count_failed_pull();
            let cause = error.to_string();
            AuditEvent::new(
                timestamp,
                None,
                PullFailed(PullFailedEntry { pipeline_id, requested_by, cause, peer }),
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
    let (registered, _) = context.commit_context().pipeline_state(&requested_pull.pipeline_id)?;
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
            let (state, revision) = commit_context.pipeline_state(pipeline_id)?;
            let record = JournalRecord {
                expect: vec![RowExpectation::new::<PipelineState>(pipeline_id, Some(revision))],
                events: vec![event.clone()],
                writes: vec![RowWrite::put(&PipelineState { last_pull: Some(last), ..state })],
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

/// A pipeline's schedule. Definitions may be long, so each is read only once for its schedule.
#[derive(Debug)]
struct PipelineSchedule {
    /// The digest of the definition.
    pipeline_sha256: Sha256Hex,
    /// The schedule with its text, if the definition has one.
    schedule: Option<(String, PullSchedule)>,
    /// When the pipeline is due next.
    next: Option<Timestamp>,
}

/// Begins the pulls that are due. While the daemon drains or stops, the pulls stay due.
pub fn begin_due(context: &Arc<IngestContext>) {
    if context.draining.load(Ordering::Relaxed) || context.claims.is_stopping() {
        return;
    }
    if !context.turn.is_ours() {
        // another host makes these pulls
        context.pulls.schedules.lock().unwrap_or_else(PoisonError::into_inner).clear();
        return;
    }
    let due = match context.take_due_pipelines() {
        Ok(due) => due,
        Err(error) => {
            tracing::error!(%error, "could not read the schedules");
            return;
        }
    };
    for pipeline_id in due {
        let context = Arc::clone(context);
        actix_rt::spawn(async move {
            let request = RequestedPull {
                pipeline_id: pipeline_id.clone(),
                requested_by: "schedule".into(),
                peer: None,
                force: false,
            };
            match pull(context, request).await {
                Ok(outcome) => tracing::info!(%pipeline_id, ?outcome, "scheduled pull ended"),
                Err(IngestionError::Pulling(_)) => {
                    tracing::warn!(%pipeline_id, "scheduled pull skipped: the previous pull is still in progress");
                }
                Err(error) => tracing::warn!(%pipeline_id, %error, "scheduled pull failed"),
            }
        });
    }
}

impl IngestContext {
    /// The pipelines whose schedules have come due since the last call. Several missed times count as one.
    fn take_due_pipelines(&self) -> Result<Vec<PipelineId>, StoreError> {
        let now = self.clock.now();
        let mut known = self.pulls.schedules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        let mut scheduled = HashMap::new();
        for registered in self.store.pipelines()? {
            let before = known.remove(&registered.pipeline_id);
            let is_as_before =
                |before: &PipelineSchedule| before.pipeline_sha256 == registered.pipeline_sha256;
            let mut pipeline = match before {
                Some(before) if is_as_before(&before) => before,
                before => match self.read_pipeline_schedule(&registered, before, now)? {
                    Some(pipeline) => pipeline,
                    None => continue,
                },
            };
            if let Some((_, schedule)) = &pipeline.schedule {
                let next = schedule.next_after(now);
                if pipeline.next.is_some_and(|next| next <= now) {
                    due.push(registered.pipeline_id.clone());
                    pipeline.next = next;
                } else if pipeline.next > next {
                    // the clock was set back
                    pipeline.next = next;
                }
            }
            scheduled.insert(registered.pipeline_id, pipeline);
        }
        *known = scheduled;
        Ok(due)
    }

    /// The schedule of a registered pipeline. If the schedule is the same as `before`, its next time is kept.
    fn read_pipeline_schedule(
        &self,
        registered: &PipelineState,
        before: Option<PipelineSchedule>,
        now: Timestamp,
    ) -> Result<Option<PipelineSchedule>, StoreError> {
        let pipeline_sha256 = registered.pipeline_sha256.clone();
        let Some(definition) = self.store.registered_definition(&registered.pipeline_id)? else {
            return Ok(None);
        };
        let text = definition.pipeline.retrieval.schedule;
        let schedule = text.and_then(|text| PullSchedule::parse(&text).ok().map(|schedule| (text, schedule)));
        let next = schedule.as_ref().and_then(|(text, schedule)| {
            let is_same =
                |before: &PipelineSchedule| before.schedule.as_ref().is_some_and(|(known, _)| known == text);
            let before = before.filter(is_same);
            before.map_or_else(|| first_due(schedule, registered, now), |before| before.next)
        });
        Ok(Some(PipelineSchedule { pipeline_sha256, schedule, next }))
    }
}

/// The first due time at `now` of a pipeline without a remembered schedule. The schedule counts from the last pull, or
/// from a later registration.
fn first_due(schedule: &PullSchedule, registered: &PipelineState, now: Timestamp) -> Option<Timestamp> {
    let last = registered.last_pull.filter(|last| last.began_at > registered.registered_at);
    let since = last.map_or(registered.registered_at, |last| last.began_at);
    // a time in the future was recorded before the clock was set back
    let next = schedule.next_after(since.min(now));
    let was_cut_short = last.is_some_and(|last| last.ended_at.is_none());
    let again = since.checked_add(INTERRUPTED_PULL_PAUSE).ok().filter(|_| was_cut_short);
    next.into_iter().chain(again).min()
}

#[derive(Debug)]
enum SourceRefreshState {
    /// A refresh is in progress; the channel reports its end.
    InProgress(watch::Receiver<bool>),
    /// The last refresh brought nothing.
    NothingNew { invalidation_count: u64, ended_at: Timestamp },
}

/// Pulls the current payload of a source and waits for the end, unless a refresh is in progress or a recent one brought
/// nothing. The caller checks whether there is anything new.
pub(super) async fn refresh(context: Arc<IngestContext>, oracle_id: SourceId) -> Result<(), IngestionError> {
    let pipeline_id = context.pulled_pipeline(&oracle_id)?;
    let (source, _) = context.commit_context().source(&oracle_id)?;
    let now = context.clock.now();
    let (sender, mut ended) = {
        let mut refreshing = context.pulls.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        match refreshing.get(&oracle_id) {
            // if the sender is gone, the refresh has ended without a report
            Some(SourceRefreshState::InProgress(ended)) if ended.has_changed().is_ok() => {
                (None, ended.clone())
            }
            // the source may have something new if it was invalidated since that refresh began
            Some(SourceRefreshState::NothingNew { invalidation_count, ended_at })
                if is_in_refresh_pause(*ended_at, now)
                    && source.invalidation_count == *invalidation_count =>
            {
                return Err(IngestionError::Resting { oracle_id, at: *ended_at });
            }
            Some(_) | None => {
                let (sender, ended) = watch::channel(false);
                refreshing.insert(oracle_id.clone(), SourceRefreshState::InProgress(ended.clone()));
                (Some(sender), ended)
            }
        }
    };
    if let Some(sender) = sender {
        // a separate task on this thread: the caller may stop waiting
        actix_rt::spawn(run_as_current_caller(async move {
            let failed_or_held = context.pull_for(&oracle_id, pipeline_id).await;
            let now =
                context.commit_context().source(&oracle_id).map_or_else(|_| source.clone(), |(now, _)| now);
            let mut refreshing = context.pulls.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
            refreshing.remove(&oracle_id);
            if now.completed.len() == source.completed.len() {
                // a failed run invalidates its source itself
                let invalidation_count =
                    if failed_or_held { now.invalidation_count } else { source.invalidation_count };
                let ended_at = context.clock.now();
                refreshing.insert(oracle_id, SourceRefreshState::NothingNew { invalidation_count, ended_at });
            }
            sender.send_replace(true);
        }));
    }
    // a closed channel also means that the refresh has ended
    drop(ended.wait_for(|ended| *ended).await);
    Ok(())
}

/// Whether a source that had nothing new at `at` is not pulled at `now`. If the clock was set back, it is pulled.
fn is_in_refresh_pause(at: Timestamp, now: Timestamp) -> bool {
    at <= now && now.duration_since(at) < REFRESH_PAUSE
}

impl IngestContext {
    /// Pulls a pipeline for stale answers of its source, or waits for the pull in progress. Then waits for
    /// the runs that follow. Returns whether its run failed or is held.
    async fn pull_for(self: &Arc<Self>, oracle_id: &SourceId, pipeline_id: PipelineId) -> bool {
        let request = RequestedPull { pipeline_id, requested_by: "refresh".into(), peer: None, force: false };
        let mut begun = None;
        match pull(Arc::clone(self), request).await {
            Ok(outcome) => begun = outcome.run().map(|run| run.run_id.clone()),
            // once it can be claimed, that pull has ended
            Err(IngestionError::Pulling(pipeline_id)) => {
                drop(self.pulls.in_flight.claim_when_free(pipeline_id).await);
            }
            Err(error) => tracing::warn!(%oracle_id, %error, "refresh failed"),
        }
        self.claims.wait_until_no_run(oracle_id).await;
        let run = begun.and_then(|run_id| self.store.run(&run_id).ok().flatten());
        run.is_some_and(|(run, _)| matches!(run.state, RunState::Failed | RunState::Held))
    }

    fn pulled_pipeline(&self, oracle_id: &SourceId) -> Result<PipelineId, IngestionError> {
        for registered in self.store.pipelines()?.into_iter().filter(|known| known.oracle_id == *oracle_id) {
            let definition = self.store.registered_definition(&registered.pipeline_id)?;
            if definition.is_some_and(|definition| definition.pipeline.retrieval.method.is_pull()) {
                return Ok(registered.pipeline_id);
            }
        }
        Err(IngestionError::NoPull(oracle_id.clone()))
    }
}

/// The state of a source that a pull needs.
struct PullSourceState {
    source: SourceState,
    /// The run that read the data of this pipeline that is now in force.
    current: Option<IngestionRun>,
    /// The latest attempt of the pipeline that is not visible.
    invisible_attempt: Option<IngestionRun>,
    /// The held runs of the source.
    held: Vec<IngestionRun>,
}

/// The version and release date of a payload.
struct PayloadVersion {
    version: String,
    released_at: Timestamp,
}

impl IngestContext {
    /// The state of a pipeline's source as of `now`.
    fn read_pull_source_state(
        &self,
        ready: &PreparedPipeline,
        now: Timestamp,
    ) -> Result<PullSourceState, IngestionError> {
        let pipeline = &ready.definition.pipeline;
        let (source, _) = self.commit_context().source(&pipeline.oracle_id)?;
        let present = source.present(now);
        let known = VisibleReleases::new(&source.releases(), ReleaseScope::default());
        let is_meant = |completed: &&CompletedRun| {
            let release = &completed.release;
            completed.pipeline_id == pipeline.pipeline_id
                && release.released_at <= present
                && known.is_counted(release.run)
        };
        let order =
            |completed: &&CompletedRun| (completed.release.released_at, completed.release.version.clone());
        let current = source.completed.iter().filter(is_meant).max_by_key(order);
        let current = match current {
            Some(completed) => self.store.run(&completed.run_id)?.map(|(run, _)| run),
            None => None,
        };
        let invisible_attempt = self.find_invisible_attempt(&source, &pipeline.pipeline_id)?;
        let mut held = Vec::new();
        for run_id in &source.held {
            held.extend(self.store.run(run_id)?.map(|(run, _)| run));
        }
        Ok(PullSourceState { source, current, invisible_attempt, held })
    }

    fn find_invisible_attempt(
        &self,
        source: &SourceState,
        pipeline_id: &PipelineId,
    ) -> Result<Option<IngestionRun>, IngestionError> {
        for run_id in source.attempts.iter().rev() {
            let run = self.store.run(run_id)?.map(|(run, _)| run);
            if let Some(run) = run.filter(|run| run.pipeline_id == *pipeline_id) {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }
}

impl PullSourceState {
    /// The number of invalidations of the source.
    const fn invalidation_count(&self) -> u64 {
        self.source.invalidation_count
    }

    /// The run that read the data in force exactly as `ready` would read it.
    fn read_by(&self, ready: &PreparedPipeline) -> Option<&IngestionRun> {
        let ontology = &self.source.entry.registration.ontology;
        let reads = |run: &&IngestionRun| {
            run.input.pipeline_sha256 == ready.sha256 && run.input.ontology == *ontology
        };
        self.current.as_ref().filter(reads)
    }

    /// The version and release date of the payload with the digest `raw`, which was requested at `retrieved_at`.
    ///
    /// A known payload keeps its version, even if another definition reads it now, or if its last run failed or is held.
    /// Another payload does not get the version of a held run, which could then not be approved. The release date is `modified`,
    /// the date that the source reports, if that is newer than all known releases. Otherwise it is the time of the pull.
    fn version_of_payload(
        &self,
        raw: &Sha256Hex,
        modified: Option<Timestamp>,
        retrieved_at: Timestamp,
    ) -> PayloadVersion {
        let retrieved_at = self.source.present(retrieved_at);
        let completed = self.source.completed.iter().map(|completed| &completed.release);
        let brought: Vec<_> = completed.filter(|release| release.undoes.is_none()).collect();
        let releases = || brought.iter().copied();
        let by_then = releases().map(|release| release.released_at).filter(|at| *at <= retrieved_at);
        let newest = by_then.max();
        let is_newest = |at: Timestamp| at <= retrieved_at && newest.is_none_or(|newest| newest < at);
        let attempt = self.invisible_attempt.as_ref().filter(|run| is_newest(run.input.released_at));
        let held = self.held.iter().filter(|run| is_newest(run.input.released_at));
        let known = self.current.iter().chain(attempt).chain(held).find(|run| run.input.raw_sha256 == *raw);
        if let Some(run) = known {
            return PayloadVersion { version: run.input.version.clone(), released_at: run.input.released_at };
        }
        let is_taken = |at: Timestamp| {
            let text = at.to_string();
            let is_held = |run: &IngestionRun| run.input.released_at == at || run.input.version == text;
            releases().any(|release| release.released_at == at || release.version == text)
                || self.held.iter().any(is_held)
        };
        let modified = modified.filter(|modified| is_newest(*modified) && !is_taken(*modified));
        let mut released_at = modified.unwrap_or(retrieved_at);
        // the clock may not have advanced since the last release
        while is_taken(released_at)
            && let Ok(next) = released_at.checked_add(SignedDuration::from_micros(1))
        {
            released_at = next;
        }
        PayloadVersion { version: released_at.to_string(), released_at }
    }
}
