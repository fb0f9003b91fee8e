//! The state that the sockets share: the running system, its limits, and its readiness.

use crate::platform::access_log::RequestMetrics;
use crate::platform::applications::Applications;
use crate::platform::config::{Configuration, LimitsSection, Section};
use crate::platform::problem::{Problem, without_state_dir};
use crate::platform::signal_rate::SignalRate;
use crate::platform::state_size::StateSizeMetrics;
use crate::platform::telemetry::LogLevelHandle;
use actors_audit::logger::JournalReport;
use actors_platform::caller::{current_application, spawn_for_caller};
use actors_upstream::web::witness::SignedCheckpoint;
use actors_upstream::witnesses::{ConflictingWitness, Witnesses};
use domain_audit::checkpoint::LogSigner;
use domain_base::application::ApplicationName;
use domain_ground::id::SourceId;
use domain_ground::upkeep::SourceCheckProgress;
use jiff::Timestamp;
use oracled_actors::ActorSystem;
use oracled_api::base::problem::ProblemCode;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::spawn_blocking;

/// The progress of the source checks that callers wait for.
#[derive(Debug, Default)]
pub struct SourceChecks(StdMutex<HashMap<SourceId, SourceCheckProgress>>);

impl SourceChecks {
    /// Sets the progress of the check of a source, or removes it after the check.
    pub fn set(&self, oracle_id: &SourceId, progress: Option<SourceCheckProgress>) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Some(progress) => drop(checks.insert(oracle_id.clone(), progress)),
            None => drop(checks.remove(oracle_id)),
        }
    }

    #[must_use]
    pub fn get(&self, oracle_id: &SourceId) -> Option<SourceCheckProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(oracle_id).copied()
    }
}

/// Runs `action` to its end in a separate task. hyper drops the future of a handler when its client
/// disconnects, which must not separate a change from its entry. A panic fails only this request.
///
/// # Errors
/// `Internal` if the action panicked.
pub(crate) fn run_to_end<T: Send + 'static>(
    action: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> impl Future<Output = Result<T, Problem>> {
    let (sender, done) = oneshot::channel();
    let task = spawn_for_caller(async move { drop(sender.send(action.await)) });
    async move {
        let failed = |cause: String| Problem::new(ProblemCode::InternalError, cause);
        task.await.map_err(|error| {
            if error.is_panic() {
                count_request_panic();
            }
            failed(error.to_string())
        })?;
        done.await.map_err(|error| failed(error.to_string()))?
    }
}

/// Runs `work`, which reads the disk for long, on a thread where it delays no other request.
///
/// # Errors
/// The error of `work`; `Internal` if it panicked.
pub(crate) async fn run_blocking<T: Send + 'static, E: Into<Problem> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, Problem> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| Problem::new(ProblemCode::InternalError, error.to_string()))?.map_err(Into::into)
}

/// Counts a request that failed by a panic. The panic hook has logged it.
pub(crate) fn count_request_panic() {
    REQUEST_PANICS.fetch_add(1, Ordering::Relaxed);
}

/// Number of requests that failed by a panic.
static REQUEST_PANICS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn request_panics() -> u64 {
    REQUEST_PANICS.load(Ordering::Relaxed)
}

/// The state of the running daemon for its handlers.
#[derive(Debug)]
pub struct DaemonService {
    pub system: ActorSystem,
    /// The configuration at the start.
    config: Arc<dyn Configuration>,
    pub limits: LimitsSection,
    pub applications: Applications,
    pub log_level: LogLevelHandle,
    /// The key that signs checkpoints of the log.
    pub log_signer: LogSigner,
    /// The witnesses of the log.
    pub witnesses: Witnesses,
    /// When the daemon started to serve.
    pub started_at: Timestamp,
    /// The metrics registry.
    pub registry: Registry,
    /// The metrics of requests on both sockets.
    pub request_metrics: RequestMetrics,
    /// The metric of the size of the state directory.
    pub state_size: StateSizeMetrics,
    /// Number of connections to the routes' socket.
    pub connections: Arc<AtomicUsize>,
    /// Number of connections to the control socket.
    pub control_connections: Arc<AtomicUsize>,
    slots: Arc<Semaphore>,
    /// The slots of applications that have a limit of their own.
    application_slots: BTreeMap<ApplicationName, Arc<Semaphore>>,
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// The checks of sources that callers wait for.
    pub checks: SourceChecks,
    /// The rate limit of signals.
    pub signal_rate: SignalRate,
    draining: AtomicBool,
    /// The damage that the background check of the store found.
    damage: watch::Sender<Option<String>>,
    stopping: watch::Sender<bool>,
    control: Mutex<()>,
}

impl DaemonService {
    /// The service for a system that was just started.
    #[must_use]
    pub fn new(
        system: ActorSystem,
        mut registry: Registry,
        config: Arc<dyn Configuration>,
        applications: Applications,
        log_level: LogLevelHandle,
        log_signer: LogSigner,
        witnesses: Witnesses,
    ) -> Arc<Self> {
        witnesses.register_metrics(&mut registry);
        let request_metrics = RequestMetrics::default();
        request_metrics.register(&mut registry);
        let state_size = StateSizeMetrics::default();
        state_size.register(&mut registry);
        let limits = config.section::<LimitsSection>().clone();
        let slots = Arc::new(Semaphore::new(limits.in_flight));
        let own = applications.0.iter();
        let own = own.filter_map(|(name, processes)| {
            Some((name.clone(), Arc::new(Semaphore::new(processes.in_flight?))))
        });
        let application_slots = own.collect();
        let bodies = Arc::new(Semaphore::new(limits.bodies_bytes));
        let answers = Arc::new(Semaphore::new(limits.bodies_bytes));
        let service = Self {
            started_at: system.clock.now(),
            system,
            config,
            limits,
            applications,
            log_level,
            log_signer,
            witnesses,
            registry,
            request_metrics,
            state_size,
            connections: Arc::default(),
            control_connections: Arc::default(),
            slots,
            application_slots,
            bodies,
            answers,
            checks: SourceChecks::default(),
            signal_rate: SignalRate::default(),
            draining: AtomicBool::new(false),
            damage: watch::channel(None).0,
            stopping: watch::channel(false).0,
            control: Mutex::new(()),
        };
        Arc::new(service)
    }

    /// The section of a feature in the configuration at the start.
    #[must_use]
    pub fn section<S: Section>(&self) -> &S {
        self.config.section()
    }

    /// Runs `work` to its end, even if its caller disconnects.
    ///
    /// # Errors
    /// `Draining` or `Overloaded` before the work starts; `Internal` if the work panicked.
    pub async fn run_work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let take = |slots: &Arc<Semaphore>, what| {
            Arc::clone(slots).try_acquire_owned().map_err(|_| Problem::overloaded(what))
        };
        let slots = || {
            let own = self.own_slots();
            let own = own.map(|slots| take(slots, "too many verdicts of the application are in flight"));
            Ok((own.transpose()?, take(&self.slots, "too many verdicts are in flight")?))
        };
        self.run_with_slots(slots(), work).await
    }

    /// The same, but waits for a slot instead of failing with `Overloaded`.
    ///
    /// # Errors
    /// `Draining` before the work starts; `Internal` if the work panicked.
    pub async fn run_work_queued<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        // the semaphores are never closed
        let own = match self.own_slots() {
            Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
            None => None,
        };
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| Problem::draining());
        self.run_with_slots(slot.map(|slot| (own, slot)), work).await
    }

    /// The slots of the caller's application, if it has a limit of its own.
    fn own_slots(&self) -> Option<&Arc<Semaphore>> {
        self.application_slots.get(&current_application()?)
    }

    async fn run_with_slots<T: Send + 'static>(
        &self,
        slots: Result<(Option<OwnedSemaphorePermit>, OwnedSemaphorePermit), Problem>,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        self.check_new_work()?;
        let slots = slots?;
        run_to_end(async move {
            let done = work.await;
            drop(slots);
            done
        })
        .await
    }

    /// Number of slots in use.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.limits.in_flight.saturating_sub(self.slots.available_permits())
    }

    /// Reserves `bytes` of the memory for requests' bodies, until the permit is dropped.
    ///
    /// # Errors
    /// `Overloaded` if less memory is left.
    pub fn reserve_body(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.bodies).try_acquire_many_owned(bytes);
        permit.map_err(|_| Problem::overloaded("too many request bodies are in memory"))
    }

    /// Waits for `bytes` of the memory for large answers, or for all of it if `bytes` is larger. The memory is reserved
    /// until the permit is dropped.
    pub async fn reserve_response(&self, bytes: usize) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.answers).acquire_many_owned(self.response_permits(bytes)).await;
        permit.expect("the semaphore is never closed")
    }

    /// Reserves the memory as [`Self::reserve_response`], or returns `None` if less is free.
    #[must_use]
    pub fn try_reserve_response(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.answers).try_acquire_many_owned(self.response_permits(bytes)).ok()
    }

    fn response_permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.limits.bodies_bytes)).unwrap_or(u32::MAX)
    }

    /// Whether requests wait for memory that answers hold until they are read.
    #[must_use]
    pub fn is_short_of_memory(&self) -> bool {
        // a waiting request takes all available permits
        self.answers.available_permits() == 0 || self.system.queries.is_short_of_pages()
    }

    /// Waits for the lock on changes to the running daemon.
    pub async fn lock_control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().await
    }

    /// Waits until no work is in flight.
    pub async fn wait_until_idle(&self) {
        let all = u32::try_from(self.limits.in_flight).unwrap_or(u32::MAX);
        // the semaphore is never closed, so this call returns only with all permits
        drop(self.slots.acquire_many(all).await);
    }

    /// Checks that new work is accepted.
    ///
    /// # Errors
    /// `Draining`; `StorageUnavailable` if the log does not continue those of `checkpoints.stop_at_conflicts` witnesses.
    pub fn check_new_work(&self) -> Result<(), Problem> {
        if self.is_draining() {
            return Err(Problem::draining());
        }
        let conflict = self.log_conflict();
        conflict.map_or(Ok(()), |cause| Err(Problem::new(ProblemCode::StorageUnavailable, cause)))
    }

    /// How the log differs from that of a witness, if that stops new work.
    fn log_conflict(&self) -> Option<String> {
        let ConflictingWitness { name, conflict } = self.witnesses.stopping_conflict()?;
        Some(format!("the log conflicts with the witness {name}: {conflict}"))
    }

    /// The newest checkpoint that a witness has cosigned, if it has at least `entries` entries; otherwise the newest one.
    #[must_use]
    pub fn log_checkpoint(&self, entries: u64) -> SignedCheckpoint {
        let (size, root) = self.system.store.log_head();
        let cosigned = self.witnesses.cosigned().filter(|cosigned| cosigned.size >= entries.min(size));
        cosigned.unwrap_or_else(|| SignedCheckpoint { size, note: self.log_signer.sign(size, root) })
    }

    /// Whether new work is rejected because of a drain.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Rejects new work, or accepts it again.
    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Release);
    }

    /// Becomes true when the daemon stops.
    #[must_use]
    pub fn subscribe_stop(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Signals to all waiting tasks that the daemon stops.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Stores that the store was found damaged while the daemon serves.
    pub fn report_damage(&self, damage: String) {
        self.damage.send_replace(Some(damage));
    }

    /// Waits until the store is found damaged. Returns the damage.
    pub async fn wait_for_damage(&self) -> String {
        let mut damage = self.damage.subscribe();
        let found = damage.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        found.unwrap_or_default()
    }

    /// The state of the journal.
    #[must_use]
    pub fn journal_report(&self) -> JournalReport {
        self.system.log.report().borrow().clone()
    }

    /// The reasons why the daemon accepts no verdicts; empty if it is ready.
    #[must_use]
    pub fn unready_reasons(&self) -> Vec<String> {
        let failure = self
            .journal_report()
            .new_work_rejection()
            .map(|(cause, since)| format!("storage_unavailable since {since}: {cause}"));
        let damage = self.damage.borrow().as_ref().map(|damage| format!("storage_damaged: {damage}"));
        let conflict = self.log_conflict().map(|cause| format!("log_conflict: {cause}"));
        let draining = self.is_draining().then(|| "draining".to_owned());
        [failure, damage, conflict, draining].into_iter().flatten().map(without_state_dir).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn action_runs_to_its_end_if_its_caller_disconnects() {
        let (done, is_done) = oneshot::channel();
        drop(run_to_end(async move {
            tokio::task::yield_now().await;
            done.send(()).expect("the test waits");
            Ok(())
        }));
        is_done.await.expect("the action completes");
    }

    #[tokio::test]
    async fn request_fails_alone_and_is_counted_if_it_panics() {
        let before = request_panics();
        let panicked: Result<(), Problem> = run_to_end(async { panic!("over nothing") }).await;
        assert!(panicked.is_err(), "{panicked:?}");
        assert!(run_to_end(async { Ok(()) }).await.is_ok());
        assert_eq!(request_panics() - before, 1);
    }
}
