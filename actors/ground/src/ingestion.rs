//! Ingestion: turns the payload of a source into records (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline").
//!
//! Each run is its own task. A source has at most one run at a time, and the number of all runs is limited. The payload
//! is archived before its run begins, so the next start can repeat an interrupted run. Files that the interrupted run
//! wrote are discarded.

mod ending;
mod error;
pub mod pulling;
mod reading;
mod run_task;
pub(crate) mod sharing;
mod source_claims;
mod upkeep;

pub use crate::ingestion::reading::{ARCHIVING, ArchiveError, PayloadArchiver};
use crate::metrics::IngestionMetrics;
use crate::pull::PayloadPuller;
use crate::registry::{CommitContext, PreparedPipeline, RegistryError};
use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, Supervised};
use actors_audit::logger::LoggerHandle;
use actors_platform::clock::Clock;
use actors_platform::work_turn::WorkTurn;
use actors_upstream::Reloadable;
use domain_base::caller::PeerCredentials;
use domain_base::digest::Sha256Hex;
use domain_ground::id::{PipelineId, SourceId};
use domain_ground::run::{IngestionRun, RunPhase, RunProgress, RunState};
use domain_ground::source_state::{
    PruneOutcome, PruneReport, RebuildOutcome, SourceCheckProgress, SourceCheckReport, SourceState,
};
pub use error::IngestionError;
use jiff::Timestamp;
use oracled_store::{RowWrite, Store};
pub use pulling::PullOutcome;
use pulling::{PullTracker, RequestedPull};
pub use sharing::MissingFilesReport;
use sharing::SharedFiles;
use source_claims::SourceClaims;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store_facts::archive::PayloadRef;
use store_facts::objects::SharedObjects;
use store_facts::slices::SliceLimits;
use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_blocking;

/// Interval between checks of the schedules, whose resolution is 1 minute.
const SCHEDULE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The configuration of ingestion.
#[derive(Debug)]
pub struct IngestionConfig {
    /// The most runs in progress; others wait.
    pub runs_at_once: usize,
    /// The memory limits for reading a payload.
    pub limits: SliceLimits,
    /// The client that pulls payloads.
    pub puller: Reloadable<PayloadPuller>,
    /// The longest time that a query with a stale answer waits for a refresh.
    pub refresh_wait: Duration,
    /// Whether this host does the work that one host of a cluster does at a time.
    pub turn: WorkTurn,
    /// The objects that all hosts of a cluster share. Without them, no run begins in a cluster.
    pub objects: Option<Arc<dyn SharedObjects>>,
}

/// Begins a run over an archived payload.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<StartRunOutcome, IngestionError>")]
pub struct StartRun {
    /// The pipeline that reads the payload.
    pub pipeline_id: PipelineId,
    /// The digest of the registered definition by which the payload was decoded.
    pub pipeline_sha256: Sha256Hex,
    /// The source's name for this version.
    pub version: String,
    /// When the source released it.
    pub released_at: Timestamp,
    /// Whether the run may replace what was read as this version before, with another payload or release date.
    pub replace: bool,
    /// The archived payload.
    pub payload: PayloadRef,
    /// The URL of a pulled payload.
    pub source_url: Option<String>,
    /// The time of the request for a pulled payload.
    pub retrieved_at: Option<Timestamp>,
    /// The number of invalidations of the source when the pull began; `None` for a submitted payload.
    pub invalidation_count: Option<u64>,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    /// The requesting process, if there is one.
    pub peer: Option<PeerCredentials>,
}

#[derive(Debug, Clone)]
pub enum StartRunOutcome {
    /// The run is in progress: it has begun, or the same run was in progress already.
    Started(Box<IngestionRun>),
    /// The same run was completed before, or is held. Nothing changes.
    Unchanged(Box<IngestionRun>),
}

/// Cancels a run: none of its records become visible, and it is not resumed.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), IngestionError>")]
pub struct CancelRun {
    pub run_id: Sha256Hex,
    /// The operator.
    pub peer: PeerCredentials,
}

/// Approves a held run: its payload is read again, and its records become visible.
#[derive(Debug, Message)]
#[rtype(result = "Result<IngestionRun, IngestionError>")]
pub struct ApproveRun {
    pub run_id: Sha256Hex,
    /// The operator's reason.
    pub reason: String,
    /// The run that was completed since the held one was read, as the operator knows it.
    pub outdated_by: Option<Sha256Hex>,
    /// The operator.
    pub peer: PeerCredentials,
}

/// Discards a held run. Its records never become visible.
#[derive(Debug, Message)]
#[rtype(result = "Result<IngestionRun, IngestionError>")]
pub struct DiscardRun {
    pub run_id: Sha256Hex,
    /// The operator's reason.
    pub reason: String,
    /// The operator.
    pub peer: PeerCredentials,
}

/// Undoes a completed run. Returns the new run that does so.
#[derive(Debug, Message)]
#[rtype(result = "Result<IngestionRun, IngestionError>")]
pub struct UndoRun {
    pub run_id: Sha256Hex,
    /// The operator's reason.
    pub reason: String,
    /// The operator.
    pub peer: PeerCredentials,
}

/// Pulls a pipeline's payload and begins its run.
#[derive(Debug, Message)]
#[rtype(result = "Result<PullOutcome, IngestionError>")]
pub struct PullPipeline {
    pub pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    /// The requesting process, if there is one.
    pub peer: Option<PeerCredentials>,
    /// Whether the payload is requested even if the source would report that it has not changed.
    pub force: bool,
}

/// Pulls the current payload of a source, and waits until its run is visible or has failed. Concurrent
/// requests share one pull. After a pull without anything new, there is no further pull for 60 s.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), IngestionError>")]
pub struct RefreshSource(pub SourceId);

/// Removes the content of records that are no longer valid from a source, and the payloads that are then not needed.
/// Provenance is kept.
#[derive(Debug, Message)]
#[rtype(result = "Result<PruneOutcome, IngestionError>")]
pub struct PruneSource {
    pub oracle_id: SourceId,
    /// Content is removed if it ceased to be valid before this time; `None` for the retention of its pipelines.
    pub before: Option<Timestamp>,
    /// The operator.
    pub peer: PeerCredentials,
}

/// Prunes all sources: content that ceased to be valid at least `days` days ago. A pipeline can keep its content longer.
#[derive(Debug, Message)]
#[rtype(result = "Result<PruneReport, IngestionError>")]
pub struct PruneOldContent {
    pub days: u32,
    /// The operator; `None` for the daily run.
    pub peer: Option<PeerCredentials>,
    /// Whether nothing is removed.
    pub is_dry_run: bool,
}

/// Rebuilds the damaged or missing files of a source from its archived payloads. Its data stays the same.
#[derive(Debug, Message)]
#[rtype(result = "Result<RebuildOutcome, IngestionError>")]
pub struct RebuildSource {
    pub oracle_id: SourceId,
    /// The operator.
    pub peer: PeerCredentials,
}

/// Returns whether a check continues. The check calls this at least every 256 KiB, on its own thread; the function may
/// sleep.
pub type CheckProgressCallback = Arc<dyn Fn(SourceCheckProgress) -> bool + Send + Sync>;

/// Compares the stored data of a source with its digests.
#[derive(Message)]
#[rtype(result = "Result<SourceCheckReport, IngestionError>")]
pub struct VerifySourceFiles {
    pub oracle_id: SourceId,
    /// Only this run.
    pub run_id: Option<Sha256Hex>,
    /// Returns whether the check continues.
    pub proceed: CheckProgressCallback,
}

impl fmt::Debug for VerifySourceFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { oracle_id, run_id, .. } = self;
        f.debug_struct("Verify").field("oracle_id", oracle_id).field("run_id", run_id).finish_non_exhaustive()
    }
}

/// Returns the progress of all runs.
#[derive(Debug, Message)]
#[rtype(result = "Vec<RunProgress>")]
pub struct ListRunProgress;

/// Sets whether the daemon is draining. If so, no scheduled pull begins.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SetDraining(pub bool);

/// Stops all runs and rebuilds, and answers when they have stopped. The next start resumes the runs.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopRuns;

/// The actor that runs the ingestion of payloads.
#[derive(Debug)]
pub struct IngestionActor {
    pub context: Arc<IngestContext>,
}

/// The context that all runs share.
#[derive(Debug)]
pub struct IngestContext {
    store: Store,
    log: LoggerHandle,
    clock: Clock,
    metrics: IngestionMetrics,
    limits: SliceLimits,
    claims: Arc<SourceClaims>,
    run_slots: Semaphore,
    puller: Reloadable<PayloadPuller>,
    pulls: PullTracker,
    /// Whether the daemon is draining. If so, no scheduled pull begins.
    pub draining: AtomicBool,
    turn: WorkTurn,
    shared: SharedFiles,
}

impl IngestionActor {
    pub fn new(
        config: IngestionConfig,
        store: Store,
        log: LoggerHandle,
        clock: Clock,
        metrics: IngestionMetrics,
    ) -> Self {
        let IngestionConfig { runs_at_once, limits, puller, turn, objects, .. } = config;
        if objects.is_some() {
            store.share_files();
        }
        let run_slots = Semaphore::new(runs_at_once);
        let (claims, pulls, draining) = Default::default();
        let context = IngestContext {
            store,
            log,
            clock,
            metrics,
            limits,
            claims,
            run_slots,
            puller,
            pulls,
            draining,
            turn,
            shared: SharedFiles::new(objects),
        };
        Self { context: Arc::new(context) }
    }
}

impl IngestionActor {
    /// Checks the schedules now, and then at a fixed interval.
    fn watch_schedules(&self, ctx: &mut Context<Self>) {
        if self.context.check_sharing().is_err() {
            return;
        }
        pulling::begin_due(&self.context);
        ctx.run_interval(SCHEDULE_CHECK_INTERVAL, |ingestion, _| {
            pulling::begin_due(&ingestion.context);
            let context = &ingestion.context;
            if context.turn.host().is_some() && context.turn.is_ours() {
                // a run whose host is gone
                tokio::spawn(run_task::resume_all(Arc::clone(context)));
            }
        });
    }
}

impl IngestContext {
    /// Creates the counters of all registered sources.
    fn init_source_counters(&self) {
        match self.store.sources() {
            Ok(sources) => {
                sources.iter().for_each(|source| {
                    self.metrics.init_counters_of_source(source.entry.oracle_id());
                });
            }
            Err(error) => {
                tracing::error!(%error, "could not read the sources; their counters start with their first run");
            }
        }
    }

    /// The context for changes of the registry.
    fn commit_context(&self) -> CommitContext {
        CommitContext { store: self.store.clone(), log: self.log.clone(), clock: self.clock.clone() }
    }
}

impl IngestContext {
    /// The current definition of a pipeline. The words of its tables are read on a thread of their own.
    async fn prepare_pipeline(&self, pipeline_id: &PipelineId) -> Result<PreparedPipeline, IngestionError> {
        let (commit_context, pipeline_id) = (self.commit_context(), pipeline_id.clone());
        let prepared = spawn_blocking(move || commit_context.pipeline(&pipeline_id)).await;
        Ok(prepared.map_err(|error| IngestionError::Inside(error.to_string()))??)
    }

    /// The current definition of a pipeline, if the payload was decoded by it.
    async fn prepare_pipeline_of_payload(
        &self,
        message: &StartRun,
    ) -> Result<PreparedPipeline, IngestionError> {
        let commit_context = self.commit_context();
        let check = || match commit_context.pipeline_state(&message.pipeline_id)? {
            (known, _) if known.pipeline_sha256 == message.pipeline_sha256 => Ok(()),
            (known, _) => Err(IngestionError::Amended(known.oracle_id)),
        };
        check()?;
        let ready = self.prepare_pipeline(&message.pipeline_id).await?;
        // it may have been registered again meanwhile
        check()?;
        Ok(ready)
    }

    /// The pipeline as of the run's beginning.
    fn prepare_pipeline_of_run(&self, run: &IngestionRun) -> Result<PreparedPipeline, IngestionError> {
        let definition = self.store.definition(&run.input.pipeline_sha256)?;
        let unknown = || RegistryError::PipelineUnknown(run.pipeline_id.clone());
        Ok(self
            .commit_context()
            .prepare_accepted_pipeline(definition.ok_or_else(unknown)?, &run.input.ontology)?)
    }
}

impl Actor for IngestionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.context.init_source_counters();
        if self.context.turn.host().is_none() {
            tokio::spawn(run_task::resume_all(Arc::clone(&self.context)));
        }
        sharing::follow_files(&self.context);
        self.watch_schedules(ctx);
    }
}

impl Supervised for IngestionActor {
    /// Runs are separate tasks and continue.
    fn restarting(&mut self, ctx: &mut Context<Self>) {
        self.watch_schedules(ctx);
    }
}

impl Handler<PullPipeline> for IngestionActor {
    type Result = ResponseFuture<Result<PullOutcome, IngestionError>>;

    fn handle(&mut self, message: PullPipeline, _: &mut Context<Self>) -> Self::Result {
        let PullPipeline { pipeline_id, requested_by, peer, force } = message;
        let requested = RequestedPull { pipeline_id, requested_by, peer, force };
        Box::pin(pulling::pull(Arc::clone(&self.context), requested))
    }
}

impl Handler<PruneSource> for IngestionActor {
    type Result = ResponseFuture<Result<PruneOutcome, IngestionError>>;

    fn handle(&mut self, message: PruneSource, _: &mut Context<Self>) -> Self::Result {
        Box::pin(upkeep::prune_on_request(Arc::clone(&self.context), message))
    }
}

impl Handler<PruneOldContent> for IngestionActor {
    type Result = ResponseFuture<Result<PruneReport, IngestionError>>;

    fn handle(&mut self, message: PruneOldContent, _: &mut Context<Self>) -> Self::Result {
        Box::pin(upkeep::prune_old_content(Arc::clone(&self.context), message))
    }
}

impl Handler<RebuildSource> for IngestionActor {
    type Result = ResponseFuture<Result<RebuildOutcome, IngestionError>>;

    fn handle(
        &mut self,
        RebuildSource { oracle_id, peer }: RebuildSource,
        _: &mut Context<Self>,
    ) -> Self::Result {
        Box::pin(upkeep::rebuild(Arc::clone(&self.context), oracle_id, peer))
    }
}

impl Handler<VerifySourceFiles> for IngestionActor {
    type Result = ResponseFuture<Result<SourceCheckReport, IngestionError>>;

    fn handle(&mut self, check: VerifySourceFiles, _: &mut Context<Self>) -> Self::Result {
        Box::pin(upkeep::verify(Arc::clone(&self.context), check))
    }
}

impl Handler<RefreshSource> for IngestionActor {
    type Result = ResponseFuture<Result<(), IngestionError>>;

    fn handle(&mut self, RefreshSource(oracle_id): RefreshSource, _: &mut Context<Self>) -> Self::Result {
        Box::pin(pulling::refresh(Arc::clone(&self.context), oracle_id))
    }
}

impl Handler<StartRun> for IngestionActor {
    type Result = ResponseFuture<Result<StartRunOutcome, IngestionError>>;

    fn handle(&mut self, message: StartRun, _: &mut Context<Self>) -> Self::Result {
        Box::pin(run_task::begin(Arc::clone(&self.context), message))
    }
}

impl Handler<CancelRun> for IngestionActor {
    type Result = ResponseFuture<Result<(), IngestionError>>;

    fn handle(&mut self, CancelRun { run_id, peer }: CancelRun, _: &mut Context<Self>) -> Self::Result {
        Box::pin(run_task::cancel(Arc::clone(&self.context), run_id, peer))
    }
}

impl Handler<ApproveRun> for IngestionActor {
    type Result = ResponseFuture<Result<IngestionRun, IngestionError>>;

    fn handle(
        &mut self,
        ApproveRun { run_id, reason, outdated_by, peer }: ApproveRun,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let request = ending::RunDecisionRequest { run_id, reason, peer };
        Box::pin(ending::approve(Arc::clone(&self.context), request, outdated_by))
    }
}

impl Handler<DiscardRun> for IngestionActor {
    type Result = ResponseFuture<Result<IngestionRun, IngestionError>>;

    fn handle(
        &mut self,
        DiscardRun { run_id, reason, peer }: DiscardRun,
        _: &mut Context<Self>,
    ) -> Self::Result {
        Box::pin(ending::discard(
            Arc::clone(&self.context),
            ending::RunDecisionRequest { run_id, reason, peer },
        ))
    }
}

impl Handler<UndoRun> for IngestionActor {
    type Result = ResponseFuture<Result<IngestionRun, IngestionError>>;

    fn handle(&mut self, UndoRun { run_id, reason, peer }: UndoRun, _: &mut Context<Self>) -> Self::Result {
        Box::pin(ending::undo(Arc::clone(&self.context), ending::RunDecisionRequest { run_id, reason, peer }))
    }
}

impl Handler<SetDraining> for IngestionActor {
    type Result = ();

    fn handle(&mut self, SetDraining(draining): SetDraining, _: &mut Context<Self>) {
        self.context.draining.store(draining, Ordering::Relaxed);
    }
}

impl Handler<StopRuns> for IngestionActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, StopRuns: StopRuns, _: &mut Context<Self>) -> Self::Result {
        let context = Arc::clone(&self.context);
        Box::pin(async move { context.claims.stop().await })
    }
}

impl Handler<ListRunProgress> for IngestionActor {
    type Result = Vec<RunProgress>;

    fn handle(&mut self, _: ListRunProgress, _: &mut Context<Self>) -> Self::Result {
        self.context.claims.progress()
    }
}

/// Returns what this host of a cluster lacks of the files that rows name.
#[derive(Debug, Message)]
#[rtype(result = "MissingFilesReport")]
pub struct ReadMissingFiles;

impl Handler<ReadMissingFiles> for IngestionActor {
    type Result = MessageResult<ReadMissingFiles>;

    fn handle(&mut self, _: ReadMissingFiles, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.context.shared.report())
    }
}

/// Notes that another host has changed rows that name files.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct NoteForeignFiles(());

impl NoteForeignFiles {
    /// The message about these changes; `None` if they name no files.
    #[must_use]
    pub fn of(writes: &[RowWrite]) -> Option<Self> {
        let names_files = |write: &RowWrite| {
            write.row.key::<SourceState>().is_some() || write.row.key::<IngestionRun>().is_some()
        };
        writes.iter().any(names_files).then_some(Self(()))
    }
}

impl Handler<NoteForeignFiles> for IngestionActor {
    type Result = ();

    fn handle(&mut self, NoteForeignFiles(()): NoteForeignFiles, _: &mut Context<Self>) {
        self.context.shared.note_changed();
    }
}

actors_platform::handle_actor_calls!(IngestionActor);

/// The state of a run that its readers share.
#[derive(Debug)]
struct RunTracker {
    bytes_read: AtomicU64,
    read: AtomicU64,
    rejected: AtomicU64,
    merged: AtomicU64,
    run: IngestionRun,
    state: Mutex<RunTrackerState>,
    ended: Notify,
}

#[derive(Debug)]
struct RunTrackerState {
    phase: RunPhase,
    /// Why the run must end early, if it must.
    stop_reason: Option<RunStopReason>,
}

/// Why a run must end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunStopReason {
    /// The run was cancelled, and the store has this state.
    Cancelled,
    /// The daemon is stopping; the next start resumes the run.
    Stopping,
}

impl RunTracker {
    fn new(run: IngestionRun) -> Self {
        let state = Mutex::new(RunTrackerState { phase: RunPhase::Waiting, stop_reason: None });
        let (bytes_read, read, rejected, merged, ended) = Default::default();
        Self { bytes_read, read, rejected, merged, run, state, ended }
    }

    fn set_phase(&self, phase: RunPhase) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).phase = phase;
    }

    /// Whether the run is completed, and is read again to rebuild its source.
    fn is_rebuild(&self) -> bool {
        self.run.state == RunState::Completed
    }

    /// Makes the run end early.
    fn request_stop(&self, why: RunStopReason) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop_reason = Some(why);
        self.ended.notify_one();
    }

    /// Why the run must end early; `None` if it continues.
    fn stop_reason(&self) -> Option<RunStopReason> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop_reason
    }

    /// Waits until the run must end early.
    async fn wait_for_stop(&self) -> RunStopReason {
        loop {
            if let Some(ending) = self.stop_reason() {
                return ending;
            }
            self.ended.notified().await;
        }
    }

    fn report(&self) -> RunProgress {
        let IngestionRun { run_id, oracle_id, pipeline_id, input, started_at, raw_bytes, .. } = &self.run;
        RunProgress {
            run_id: run_id.clone(),
            oracle_id: oracle_id.clone(),
            pipeline_id: pipeline_id.clone(),
            version: input.version.clone(),
            started_at: *started_at,
            phase: self.state.lock().unwrap_or_else(PoisonError::into_inner).phase,
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes: *raw_bytes,
            read: self.read.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            merged: self.merged.load(Ordering::Relaxed),
        }
    }
}
