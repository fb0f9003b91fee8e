//! Ingestion: turns the payload of a source into records (seed: `rfc-0002-ground-truth`, "Data Ingestion Pipeline").
//!
//! Each run is its own task. A source has at most one run at a time, and the number of all runs is limited. The payload
//! is archived before its run begins, so the next start can repeat an interrupted run. Files that the interrupted run
//! wrote are discarded.

mod archiving;
mod coverage;
mod deciding;
mod ending;
mod error;
mod flight;
mod flights;
mod progress;
mod pulling;
mod reading;
mod rebuild;
pub mod slices;
mod upkeep;

pub use archiving::{ARCHIVING, Archiving, NotArchived};
pub use error::IngestionError;
use oracled_domain::ground::check::PruneOutcome;
use oracled_domain::ground::check::RebuildOutcome;
use oracled_domain::ground::check::VerifiedSource;
use oracled_domain::ground::run::RunProgress;
pub use pulling::PullOutcome;

use crate::audit::logger::Log;
use crate::ground::pull::Puller;
use crate::ground::registry::Desk;
use crate::platform::clock::Clock;
use crate::platform::metrics::Metrics;
use actix::{Actor, AsyncContext, Context, Handler, Message, ResponseFuture, Supervised};
use flights::Flights;
use jiff::Timestamp;
use oracled_domain::Peer;
use oracled_domain::Sha256Hex;
use oracled_domain::ground::check::CheckProgress;
use oracled_domain::ground::id::{PipelineId, SourceId};
use oracled_domain::ground::run::Run;
use oracled_store::Store;
use oracled_store::ground::archive::Archived;
use pulling::{Pulls, Wanted};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Interval between checks of the schedules, whose resolution is 1 minute.
const SCHEDULES_LOOKED_AT: Duration = Duration::from_secs(5);

/// The configuration of ingestion.
#[derive(Debug)]
pub struct IngestionConfig {
    /// The most runs in progress; others wait.
    pub runs_at_once: usize,
    /// The memory limits for reading a payload.
    pub limits: slices::Limits,
    /// The client that pulls payloads.
    pub puller: Arc<Puller>,
    /// The longest time that a query with a stale answer waits for a refresh.
    pub refresh_wait: Duration,
}

/// Begins a run over an archived payload.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Begun, IngestionError>")]
pub struct Begin {
    /// The pipeline that reads the payload.
    pub pipeline_id: PipelineId,
    /// The source's name for this version.
    pub version: String,
    /// When the source released it.
    pub released_at: Timestamp,
    /// Whether the run may replace what was read as this version before, with another payload or release date.
    pub replace: bool,
    /// The archived payload.
    pub payload: Archived,
    /// The URL of a pulled payload.
    pub source_url: Option<String>,
    /// The time of the request for a pulled payload.
    pub retrieved_at: Option<Timestamp>,
    /// The number of invalidations of the source when the pull began; `None` for a submitted payload.
    pub invalidation_count: Option<u64>,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    /// The requesting process, if there is one.
    pub peer: Option<Peer>,
}

/// The outcome of [`Begin`].
#[derive(Debug, Clone)]
pub enum Begun {
    /// The run is in progress.
    Started(Box<Run>),
    /// The same run was completed before, or is held. Nothing changes.
    Unchanged(Box<Run>),
}

/// Cancels a run: none of its records become visible, and it is not resumed.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), IngestionError>")]
pub struct Cancel {
    /// The id of the run.
    pub run_id: Sha256Hex,
    /// The operator.
    pub peer: Peer,
}

/// Approves a held run: its payload is read again, and its records become visible.
#[derive(Debug, Message)]
#[rtype(result = "Result<Run, IngestionError>")]
pub struct Approve {
    /// The id of the run.
    pub run_id: Sha256Hex,
    /// The operator's reason.
    pub reason: String,
    /// The operator.
    pub peer: Peer,
}

/// Discards a held run. Its records never become visible.
#[derive(Debug, Message)]
#[rtype(result = "Result<Run, IngestionError>")]
pub struct Discard {
    /// The id of the run.
    pub run_id: Sha256Hex,
    /// The operator's reason.
    pub reason: String,
    /// The operator.
    pub peer: Peer,
}

/// Undoes a completed run. Returns the new run that does so.
#[derive(Debug, Message)]
#[rtype(result = "Result<Run, IngestionError>")]
pub struct Undo {
    /// The id of the run.
    pub run_id: Sha256Hex,
    /// The operator's reason.
    pub reason: String,
    /// The operator.
    pub peer: Peer,
}

/// Pulls a pipeline's payload and begins its run.
#[derive(Debug, Message)]
#[rtype(result = "Result<PullOutcome, IngestionError>")]
pub struct Pull {
    /// The pipeline that pulls.
    pub pipeline_id: PipelineId,
    /// The requester: a user id, `schedule` or `refresh`.
    pub requested_by: String,
    /// The requesting process, if there is one.
    pub peer: Option<Peer>,
}

/// Pulls the current payload of a source, and waits until its run is visible or has failed. Concurrent requests share one
/// pull. After a pull without anything new, there is no further pull for 60 s.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), IngestionError>")]
pub struct Refresh(pub SourceId);

/// Removes the content of records that are no longer valid from a source, and the payloads that are then not needed.
/// Provenance is kept.
#[derive(Debug, Message)]
#[rtype(result = "Result<PruneOutcome, IngestionError>")]
pub struct Prune {
    /// The source.
    pub oracle_id: SourceId,
    /// Content is removed if it ceased to be valid before this time; `None` for the retention of its pipelines.
    pub before: Option<Timestamp>,
    /// The operator.
    pub peer: Peer,
}

/// Rebuilds the damaged or missing files of a source from its archived payloads. Its data stays the same.
#[derive(Debug, Message)]
#[rtype(result = "Result<RebuildOutcome, IngestionError>")]
pub struct Rebuild {
    /// The source.
    pub oracle_id: SourceId,
    /// The operator.
    pub peer: Peer,
}

/// Returns whether a check continues. The check calls this at least every 256 KiB, on its own thread; the function may
/// sleep.
pub type Proceed = Arc<dyn Fn(CheckProgress) -> bool + Send + Sync>;

/// Compares the stored data of a source with its digests.
#[derive(Message)]
#[rtype(result = "Result<VerifiedSource, IngestionError>")]
pub struct Verify {
    /// The source.
    pub oracle_id: SourceId,
    /// Only this run.
    pub run_id: Option<Sha256Hex>,
    /// Returns whether the check continues.
    pub proceed: Proceed,
}

impl fmt::Debug for Verify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { oracle_id, run_id, .. } = self;
        f.debug_struct("Verify").field("oracle_id", oracle_id).field("run_id", run_id).finish_non_exhaustive()
    }
}

/// Returns the progress of all runs.
#[derive(Debug, Message)]
#[rtype(result = "Vec<RunProgress>")]
pub struct Running;

/// Sets whether the daemon is draining. If so, no scheduled pull begins.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SetDraining(pub bool);

/// Stops all runs and rebuilds, and answers when they have stopped. The next start resumes the runs.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Rest;

/// The actor that runs the ingestion of payloads.
#[derive(Debug)]
pub struct Ingestion {
    shop: Arc<Shop>,
}

/// The context that all runs share.
#[derive(Debug)]
struct Shop {
    store: Store,
    log: Log,
    clock: Clock,
    metrics: Metrics,
    limits: slices::Limits,
    flights: Arc<Flights>,
    places: Semaphore,
    puller: Arc<Puller>,
    pulls: Pulls,
    /// Whether the daemon is draining. If so, no scheduled pull begins.
    draining: AtomicBool,
}

impl Ingestion {
    pub(crate) fn new(
        config: IngestionConfig,
        store: Store,
        log: Log,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        let IngestionConfig { runs_at_once, limits, puller, .. } = config;
        let places = Semaphore::new(runs_at_once);
        let (flights, pulls, draining) = Default::default();
        let shop = Shop { store, log, clock, metrics, limits, flights, places, puller, pulls, draining };
        Self { shop: Arc::new(shop) }
    }
}

impl Ingestion {
    /// Checks the schedules now, and then at a fixed interval.
    fn watch_schedules(&self, ctx: &mut Context<Self>) {
        pulling::begin_due(&self.shop);
        ctx.run_interval(SCHEDULES_LOOKED_AT, |ingestion, _| pulling::begin_due(&ingestion.shop));
    }
}

impl Shop {
    /// Creates the counters of all registered sources.
    fn expect_all(&self) {
        match self.store.sources() {
            Ok(sources) => {
                sources.iter().for_each(|source| self.metrics.ingesting.expects(source.entry.oracle_id()));
            }
            Err(error) => {
                tracing::error!(%error, "could not read the sources; their counters start with their first run");
            }
        }
    }

    /// The context for changes of the registry.
    fn desk(&self) -> Desk {
        Desk { store: self.store.clone(), log: self.log.clone(), clock: self.clock.clone() }
    }
}

impl Actor for Ingestion {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.shop.expect_all();
        tokio::spawn(flight::resume_all(Arc::clone(&self.shop)));
        self.watch_schedules(ctx);
    }
}

impl Supervised for Ingestion {
    /// Runs are separate tasks and continue.
    fn restarting(&mut self, ctx: &mut Context<Self>) {
        self.watch_schedules(ctx);
    }
}

impl Handler<Pull> for Ingestion {
    type Result = ResponseFuture<Result<PullOutcome, IngestionError>>;

    fn handle(&mut self, message: Pull, _: &mut Context<Self>) -> Self::Result {
        let Pull { pipeline_id, requested_by, peer } = message;
        Box::pin(pulling::pull(Arc::clone(&self.shop), Wanted { pipeline_id, requested_by, peer }))
    }
}

impl Handler<Prune> for Ingestion {
    type Result = ResponseFuture<Result<PruneOutcome, IngestionError>>;

    fn handle(&mut self, Prune { oracle_id, before, peer }: Prune, _: &mut Context<Self>) -> Self::Result {
        Box::pin(upkeep::prune(Arc::clone(&self.shop), oracle_id, before, peer))
    }
}

impl Handler<Rebuild> for Ingestion {
    type Result = ResponseFuture<Result<RebuildOutcome, IngestionError>>;

    fn handle(&mut self, Rebuild { oracle_id, peer }: Rebuild, _: &mut Context<Self>) -> Self::Result {
        Box::pin(rebuild::rebuild(Arc::clone(&self.shop), oracle_id, peer))
    }
}

impl Handler<Verify> for Ingestion {
    type Result = ResponseFuture<Result<VerifiedSource, IngestionError>>;

    fn handle(&mut self, check: Verify, _: &mut Context<Self>) -> Self::Result {
        Box::pin(upkeep::verify(Arc::clone(&self.shop), check))
    }
}

impl Handler<Refresh> for Ingestion {
    type Result = ResponseFuture<Result<(), IngestionError>>;

    fn handle(&mut self, Refresh(oracle_id): Refresh, _: &mut Context<Self>) -> Self::Result {
        Box::pin(pulling::refresh(Arc::clone(&self.shop), oracle_id))
    }
}

impl Handler<Begin> for Ingestion {
    type Result = ResponseFuture<Result<Begun, IngestionError>>;

    fn handle(&mut self, message: Begin, _: &mut Context<Self>) -> Self::Result {
        Box::pin(flight::begin(Arc::clone(&self.shop), message))
    }
}

impl Handler<Cancel> for Ingestion {
    type Result = ResponseFuture<Result<(), IngestionError>>;

    fn handle(&mut self, Cancel { run_id, peer }: Cancel, _: &mut Context<Self>) -> Self::Result {
        Box::pin(flight::cancel(Arc::clone(&self.shop), run_id, peer))
    }
}

impl Handler<Approve> for Ingestion {
    type Result = ResponseFuture<Result<Run, IngestionError>>;

    fn handle(&mut self, Approve { run_id, reason, peer }: Approve, _: &mut Context<Self>) -> Self::Result {
        Box::pin(deciding::approve(Arc::clone(&self.shop), deciding::Wanted { run_id, reason, peer }))
    }
}

impl Handler<Discard> for Ingestion {
    type Result = ResponseFuture<Result<Run, IngestionError>>;

    fn handle(&mut self, Discard { run_id, reason, peer }: Discard, _: &mut Context<Self>) -> Self::Result {
        Box::pin(deciding::discard(Arc::clone(&self.shop), deciding::Wanted { run_id, reason, peer }))
    }
}

impl Handler<Undo> for Ingestion {
    type Result = ResponseFuture<Result<Run, IngestionError>>;

    fn handle(&mut self, Undo { run_id, reason, peer }: Undo, _: &mut Context<Self>) -> Self::Result {
        Box::pin(deciding::undo(Arc::clone(&self.shop), deciding::Wanted { run_id, reason, peer }))
    }
}

impl Handler<SetDraining> for Ingestion {
    type Result = ();

    fn handle(&mut self, SetDraining(draining): SetDraining, _: &mut Context<Self>) {
        self.shop.draining.store(draining, Ordering::Relaxed);
    }
}

impl Handler<Rest> for Ingestion {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Rest: Rest, _: &mut Context<Self>) -> Self::Result {
        let shop = Arc::clone(&self.shop);
        Box::pin(async move { shop.flights.stop().await })
    }
}

impl Handler<Running> for Ingestion {
    type Result = Vec<RunProgress>;

    fn handle(&mut self, _: Running, _: &mut Context<Self>) -> Self::Result {
        self.shop.flights.progress()
    }
}

crate::platform::door::asked_through_a_door!(Ingestion);

#[cfg(test)]
pub(crate) mod tests;
