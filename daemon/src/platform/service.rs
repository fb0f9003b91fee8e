//! The state that the sockets share: the running system, its limits, and its readiness.

use crate::platform::access_log::RequestMetrics;
use crate::platform::cluster::{ClusterMember, ClusterSection};
use crate::platform::config::{Configuration, LimitsSection, Section};
use crate::platform::problem::{Problem, without_state_dir};
use crate::platform::telemetry::LogLevelHandle;
use actors_audit::logger::{JournalReport, LogContact};
use actors_platform::caller::{current_application, spawn_for_caller};
use actors_platform::clock::monotonic;
use actors_upstream::mail::MAIL_ORACLE;
use actors_upstream::oracle_health::ListHealthStatuses;
use actors_upstream::web::witness::SignedCheckpoint;
use actors_upstream::witnesses::{ConflictingWitness, Witnesses};
use domain_audit::checkpoint::LogSigner;
use domain_base::caller::{PeerCredentials, RequestOwner};
use domain_base::cluster::ClusterReport;
use domain_base::problem::{IN_CLUSTER, INTERNAL_ERROR, STORAGE_UNAVAILABLE};
use domain_base::series::SeriesHistory;
use domain_base::session_id::ApplicationName;
use domain_base::wording::format_count;
use domain_upstream::health::OracleHealthStatus;
use domain_upstream::upstream_id::UpstreamId;
use jiff::Timestamp;
use oracled_actors::ActorSystem;
use oracled_store::StoreError;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirEntry};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

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
        let failed = |cause: String| Problem::new(INTERNAL_ERROR, cause);
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
    done.map_err(|error| Problem::new(INTERNAL_ERROR, error.to_string()))?.map_err(Into::into)
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
    /// The membership of this host in its cluster; `None` if it is the only host.
    pub cluster: Option<ClusterMember>,
    /// When the daemon started to serve.
    pub started_at: Timestamp,
    /// The metrics registry.
    pub registry: Registry,
    /// The metrics of requests on both sockets.
    pub request_metrics: RequestMetrics,
    /// The metric of the size of the state directory.
    pub state_size: StateSizeMetrics,
    /// The metrics over time.
    pub series: Arc<StdMutex<SeriesHistory>>,
    /// Number of connections to the routes' socket.
    pub connections: Arc<AtomicUsize>,
    /// Number of connections to the control socket.
    pub control_connections: Arc<AtomicUsize>,
    slots: Arc<Semaphore>,
    /// The slots of applications that have a limit of their own.
    application_slots: BTreeMap<ApplicationName, Arc<Semaphore>>,
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// The rate limit of signals.
    pub signal_rate: SignalRate,
    draining: AtomicBool,
    /// Whether requests read what other hosts may have changed, for tests that check whether this is noticed.
    #[cfg(debug_assertions)]
    reads_stale: AtomicBool,
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
        (log_signer, witnesses): (LogSigner, Witnesses),
        cluster: Option<ClusterMember>,
    ) -> Arc<Self> {
        witnesses.register_metrics(&mut registry);
        let request_metrics = RequestMetrics::default();
        request_metrics.register(&mut registry);
        let state_size = StateSizeMetrics::default();
        state_size.register(&mut registry);
        if let Some(member) = &cluster {
            member.metrics.register(&mut registry);
            if let Some(contact) = system.log.contact().cloned() {
                // it is set once
                drop(member.journal.set((system.log.report(), contact)));
            }
        }
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
            cluster,
            registry,
            request_metrics,
            state_size,
            series: Arc::default(),
            connections: Arc::default(),
            control_connections: Arc::default(),
            slots,
            application_slots,
            bodies,
            answers,
            signal_rate: SignalRate::default(),
            draining: AtomicBool::new(false),
            #[cfg(debug_assertions)]
            reads_stale: AtomicBool::new(false),
            damage: watch::channel(None).0,
            stopping: watch::channel(false).0,
            control: Mutex::new(()),
        };
        Arc::new(service)
    }

    /// The state directory.
    pub(crate) fn state_dir(&self) -> &Path {
        self.config.state_dir()
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
    pub fn run_work<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> impl Future<Output = Result<T, Problem>> {
        let work = Box::pin(work);
        async { self.run_with_slots(self.take_slots(), work).await }
    }

    /// Takes a slot, and one of the caller's application, if it has a limit of its own.
    fn take_slots(&self) -> Result<(Option<OwnedSemaphorePermit>, OwnedSemaphorePermit), Problem> {
        let take = |slots: &Arc<Semaphore>, what| {
            Arc::clone(slots).try_acquire_owned().map_err(|_| Problem::overloaded(what))
        };
        let own = self.own_slots();
        let own = own.map(|slots| take(slots, "too many verdicts of the application are in flight"));
        Ok((own.transpose()?, take(&self.slots, "too many verdicts are in flight")?))
    }

    /// The same, but waits for a slot instead of failing with `Overloaded`.
    ///
    /// # Errors
    /// `Draining` before the work starts; `Internal` if the work panicked.
    pub fn run_work_queued<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> impl Future<Output = Result<T, Problem>> {
        let work = Box::pin(work);
        async {
            // the semaphores are never closed
            let own = match self.own_slots() {
                Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
                None => None,
            };
            let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| Problem::draining());
            self.run_with_slots(slot.map(|slot| (own, slot)), work).await
        }
    }

    /// The slots of the caller's application, if it has a limit of its own.
    fn own_slots(&self) -> Option<&Arc<Semaphore>> {
        self.application_slots.get(&current_application()?)
    }

    async fn run_with_slots<T: Send + 'static>(
        &self,
        slots: Result<(Option<OwnedSemaphorePermit>, OwnedSemaphorePermit), Problem>,
        // the future of a request has kilobytes: without the box, each caller on the way to the task would copy it
        work: Pin<Box<impl Future<Output = Result<T, Problem>> + Send + 'static>>,
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
    /// `Draining`; `StorageUnavailable` if the log does not continue those of `checkpoints.stop_at_conflicts` witnesses, or if the clock of
    /// this host differs too much from that of its cluster.
    pub fn check_new_work(&self) -> Result<(), Problem> {
        if self.is_draining() {
            return Err(Problem::draining());
        }
        let clock = self.cluster.as_ref().and_then(|member| member.view.borrow().clock_fault.clone());
        let conflict = clock.or_else(|| self.log_conflict());
        conflict.map_or(Ok(()), |cause| Err(Problem::new(STORAGE_UNAVAILABLE, cause)))
    }

    /// Waits until the store has everything that any host of the cluster had committed before the call.
    ///
    /// # Errors
    /// `StorageUnavailable` if the shared log does not answer.
    pub async fn catch_up(&self) -> Result<(), Problem> {
        #[cfg(debug_assertions)]
        if self.reads_stale.load(Ordering::Relaxed) {
            return Ok(());
        }
        let began = monotonic();
        let caught_up = self.system.log.catch_up().await;
        if let Some(member) = &self.cluster {
            member.metrics.wait_seconds.observe(began.elapsed().as_secs_f64());
        }
        Ok(caught_up?)
    }

    /// Lets [`Self::catch_up`] wait no longer.
    #[cfg(debug_assertions)]
    pub(crate) fn read_stale(&self) {
        self.reads_stale.store(true, Ordering::Relaxed);
    }

    /// Checks that the store had everything that any host of the cluster had committed at some time within `cluster.stale_s`.
    ///
    /// # Errors
    /// `StorageUnavailable` if it has not.
    pub fn check_recent(&self) -> Result<(), Problem> {
        let Some(contact) = self.system.log.contact() else { return Ok(()) };
        let section = self.section::<ClusterSection>();
        if contact.age() <= section.stale() {
            return Ok(());
        }
        let failure = contact.failure().unwrap_or_default();
        let detail = format!(
            "the shared log was read more than {} s (`cluster.stale_s`) ago: {failure}",
            section.stale_s
        );
        Err(Problem::new(STORAGE_UNAVAILABLE, detail))
    }

    /// Checks that this host does the work that one host of a cluster does at a time.
    ///
    /// # Errors
    /// `InCluster`, with what is done by another host.
    pub fn require_turn(&self, what: &str) -> Result<(), Problem> {
        match &self.cluster {
            Some(member) if !member.turn.is_ours() => {
                let detail =
                    format!("{what} by the host with the lease `work`; `oraclectl cluster status` names it");
                Err(Problem::new(IN_CLUSTER, detail))
            }
            _ => Ok(()),
        }
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

    /// The cluster, as this host sees it; `None` if it is the only host.
    #[must_use]
    pub async fn cluster_report(&self) -> Option<ClusterReport> {
        let member = self.cluster.as_ref()?;
        let missing = self.system.missing_files().await;
        let (view, contact) = (member.view.borrow().clone(), self.system.log.contact());
        let journal = self.journal_report().failure.map(|(cause, _)| cause);
        let failure = journal
            .or_else(|| contact.and_then(LogContact::failure))
            .or(view.ended.and_then(Result::err))
            .or(view.fault)
            .or(view.clock_fault);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let report = ClusterReport {
            config_differences: Vec::new(),
            missing_files: missing.files,
            missing_bytes: missing.size_bytes,
            fetch_failure: missing.failure,
            host: member.host.clone(),
            has_work: member.turn.is_ours(),
            contact_ms: contact.map_or(0, |contact| milliseconds(contact.age())),
            failure,
            keys: member.key_ids(),
            standbys: view.standbys,
            rights: view.rights,
            hosts: view.hosts,
            hosts_read_ms: view.read_at.map(|at| milliseconds(monotonic().duration_since(at))),
        };
        Some(ClusterReport { config_differences: report.find_config_differences(), ..report })
    }

    /// The faults that do not stop submissions: no model can make first verdicts, a budget is used up, mail cannot be sent, files still
    /// have data of erased sessions, held verdicts cannot be opened, recalled verdicts cannot be reported, or rows are lost.
    pub async fn degraded_reasons(&self) -> Vec<String> {
        let statuses = self.system.oracle_health.ask(ListHealthStatuses).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not read the health of the upstream systems");
            Vec::new()
        });
        let orders = self.system.model_orders.iter();
        let now = self.system.clock.now();
        let models =
            orders.filter_map(|(name, models)| models_unavailable(name.as_ref(), models, &statuses, now));
        let system = self.system.clone();
        let budgets = run_blocking(move || system.used_up_budgets()).await.unwrap_or_else(|problem| {
            tracing::warn!(?problem, "could not read the daily budgets");
            Vec::new()
        });
        let mail: Vec<_> = statuses.iter().filter_map(|health| mail_unavailable(health, now)).collect();
        let erased: Vec<_> = match self.system.erasure.incomplete().await {
            Ok(causes) => causes.into_iter().map(|cause| format!("erasure_incomplete: {cause}")).collect(),
            Err(_) => vec!["erasure_unknown: the erasures in progress cannot be read".to_owned()],
        };
        let held = self.system.check_held_key().await.err();
        // applications see this, too, so it names no session
        let held = held.map(|error| {
            let waits =
                if error.delays_orders() { ", and orders whose verdicts may be held wait for it" } else { "" };
            format!("held_verdicts_unreadable: the key of held verdicts is another one, or cannot be read{waits}; restore it")
        });
        let recalls = self.system.recalls.failing_since().map(|since| {
            format!("recall_reports_late since {since:.0}: recalled verdicts could not be reported; the service log has the cause, and the daemon retries")
        });
        let JournalReport { segment_damage, missing_copies, lost_rows, .. } = self.journal_report();
        let damage = segment_damage.map(|(damage, since)| {
            format!("state_damaged since {since:.0}: {damage}; the daemon writes the segments again from their copies")
        });
        let missing_copies = missing_copies.map(|missing| {
            format!("copies_missing: {missing}; the daemon tries again every second; free disk space, or check the folder segments.copy")
        });
        let lost = lost_rows.len();
        let lost = (lost > 0).then(|| {
            let rows = format_count(lost, "row is", "rows are");
            format!("rows_lost: {rows} in no copy; `oraclectl status` names them")
        });
        models
            .chain(budgets)
            .chain(mail)
            .chain(erased)
            .chain(held)
            .chain(recalls)
            .chain(damage)
            .chain(missing_copies)
            .chain(lost)
            .collect()
    }

    /// Repairs the segments with the damage `damage` from their copies, and damaged copies from their segments. Meanwhile no erasure rewrites
    /// the segments, and no backup links damaged segments.
    ///
    /// # Errors
    /// `Corrupt` or `Short` if a segment and its copy are damaged; a file cannot be written; `Unavailable` if the daemon is stopping.
    pub(crate) async fn repair_segments(
        &self,
        _turn: &OwnedMutexGuard<()>,
        damage: String,
    ) -> Result<(), StoreError> {
        let (log, erasure) = (&self.system.log, Arc::clone(&self.system.erasure.0));
        let mut healing = log.begin_healing().await?;
        let write = move || healing.write(&|| !erasure.is_stopped.load(Ordering::Relaxed)).map(|()| healing);
        let written = spawn_blocking(write).await;
        let healing = written.map_err(|panic| StoreError::Unavailable { cause: panic.to_string() })??;
        log.finish_healing(healing, damage).await
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
        let contact = self.system.log.contact().and_then(LogContact::failure);
        let contact =
            contact.filter(|_| failure.is_none()).map(|cause| format!("storage_unavailable: {cause}"));
        let clock = self.cluster.as_ref().and_then(|member| member.view.borrow().clock_fault.clone());
        let clock = clock.map(|cause| format!("clock_differs: {cause}"));
        let draining = self.is_draining().then(|| "draining".to_owned());
        [failure, contact, clock, damage, conflict, draining]
            .into_iter()
            .flatten()
            .map(without_state_dir)
            .collect()
    }
}

/// That mail cannot be sent; `None` if the upstream system is another one, or takes calls.
fn mail_unavailable(health: &OracleHealthStatus, now: Timestamp) -> Option<String> {
    let cause = health.unavailability(now).filter(|_| health.oracle_id.as_str() == MAIL_ORACLE)?;
    let since = health.circuit_opened_at.map(|since| format!(" since {since:.0}")).unwrap_or_default();
    Some(format!("mail_unavailable{since}: the mail service cannot be used ({cause}), so mails wait"))
}

/// That none of `models` can make first verdicts of `application`, or of all applications; `None` if one can, or if none is configured.
fn models_unavailable(
    application: Option<&ApplicationName>,
    models: &[UpstreamId],
    statuses: &[OracleHealthStatus],
    now: Timestamp,
) -> Option<String> {
    let found = |id: &UpstreamId| {
        let health = statuses.iter().find(|health| health.oracle_id == *id)?;
        Some((health, health.unavailability(now)?))
    };
    let unavailable: Vec<_> = models.iter().map(found).collect::<Option<_>>()?;
    // since when a model is paused is not known
    let since: Option<Vec<_>> = unavailable.iter().map(|(health, _)| health.circuit_opened_at).collect();
    let since = since.and_then(|since| since.into_iter().max());
    let since = since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
    let of = application.map(|name| format!(" of {name}")).unwrap_or_default();
    let each = unavailable.iter().map(|(health, cause)| format!("{}: {cause}", health.oracle_id));
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty())
        .then(|| format!("models_unavailable{since}: no model{of} can answer ({each}), so orders wait"))
}

/// The processes of an application.
#[derive(Debug, Clone, Default)]
pub struct ApplicationProcesses {
    pub uids: Vec<u32>,
    /// The group ids, for processes whose user id no application lists.
    pub gids: Vec<u32>,
    /// Maximum number of verdicts in flight.
    pub in_flight: Option<usize>,
    /// Whether the other applications may read its verifications.
    pub shares_verifications: bool,
}

/// The applications by name. If there are none, all callers belong to `default`.
#[derive(Debug, Clone, Default)]
pub struct Applications(pub BTreeMap<ApplicationName, ApplicationProcesses>);

impl Applications {
    /// The names, or only `default` if no application is configured.
    #[must_use]
    pub fn names(&self) -> Vec<ApplicationName> {
        if self.0.is_empty() {
            return vec![ApplicationName::default()];
        }
        self.0.keys().cloned().collect()
    }

    /// The application of the process `peer`; `None` if it belongs to none.
    pub(crate) fn of_peer(&self, peer: PeerCredentials) -> Option<ApplicationName> {
        if self.0.is_empty() {
            return Some(ApplicationName::default());
        }
        let by_uid = || self.0.iter().find(|(_, processes)| processes.uids.contains(&peer.uid));
        let by_gid = || self.0.iter().find(|(_, processes)| processes.gids.contains(&peer.gid));
        by_uid().or_else(by_gid).map(|(name, _)| name.clone())
    }

    /// The user id that owns what the process `peer` creates; `None` if applications are configured, which own it.
    pub(crate) fn owner_uid(&self, peer: PeerCredentials) -> Option<u32> {
        self.0.is_empty().then_some(peer.uid)
    }

    /// Whether `reader` may read a verification of `owner`.
    pub(crate) fn may_read_verification(&self, reader: &RequestOwner, owner: &RequestOwner) -> bool {
        let is_shared =
            || self.0.get(&owner.application).is_some_and(|processes| processes.shares_verifications);
        reader.is_same(owner) || is_shared()
    }
}

/// Maximum number of signals that are accepted at one path within a window.
pub(crate) const SIGNALS_PER_WINDOW: u32 = 10;
const SIGNAL_WINDOW: Duration = Duration::from_secs(60);

/// The signals of each path in its current window. Only paths that a freshness policy names are counted.
#[derive(Debug, Default)]
pub struct SignalRate(StdMutex<HashMap<String, (Instant, u32)>>);

impl SignalRate {
    /// Counts a signal at `path`, or returns how long to wait for the next window.
    pub(crate) fn count_signal(&self, path: &str, now: Instant) -> Result<(), Duration> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // policies change: a path that no policy names must not stay in memory
        windows.retain(|_, (began, _)| now.duration_since(*began) < SIGNAL_WINDOW);
        let (began, count) = windows.entry(path.to_owned()).or_insert((now, 0));
        if *count >= SIGNALS_PER_WINDOW {
            return Err(SIGNAL_WINDOW.saturating_sub(now.duration_since(*began)));
        }
        *count += 1;
        Ok(())
    }
}

/// The time between two measurements. A state directory can have hundreds of thousands of files.
const EVERY: Duration = Duration::from_secs(60);
/// The parts, with the start of the paths of their files in the state directory.
const PARTS: [(&str, &str); 6] = [
    ("segments", "segments"),
    ("database", "store"),
    ("log_lines", "oracle_log"),
    ("facts", "ground/facts"),
    ("payloads", "ground/raw"),
    ("work", "ground/work"),
];
/// The part of the other files.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartLabels {
    part: &'static str,
}

/// The metric of the size. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StateSizeMetrics(Family<PartLabels, Gauge>);

impl StateSizeMetrics {
    pub fn register(&self, registry: &mut Registry) {
        let help = "Size of the state directory by part, measured every 60 s";
        registry.register_with_unit("storage", help, Unit::Bytes, self.0.clone());
    }

    fn set(&self, sizes: &[(&'static str, u64)]) {
        for (part, bytes) in sizes {
            self.0.get_or_create(&PartLabels { part }).set(i64::try_from(*bytes).unwrap_or(i64::MAX));
        }
    }
}

/// The task that measures the state directory.
#[derive(Debug)]
pub(crate) struct StateSizeTask(JoinHandle<()>);

impl StateSizeTask {
    #[must_use]
    pub(crate) fn start(dir: &Path, metrics: &StateSizeMetrics) -> Self {
        let (dir, metrics) = (dir.to_owned(), metrics.clone());
        Self(tokio::spawn(async move {
            loop {
                let dir = dir.clone();
                match spawn_blocking(move || measure_parts(&dir)).await {
                    Ok(sizes) => metrics.set(&sizes),
                    Err(error) => tracing::warn!(%error, "could not measure the state directory"),
                }
                sleep(EVERY).await;
            }
        }))
    }

    pub(crate) fn stop(self) {
        self.0.abort();
    }
}

/// The bytes of the files of each part. A file that disappears meanwhile counts as 0.
fn measure_parts(dir: &Path) -> Vec<(&'static str, u64)> {
    let mut sizes: Vec<_> = PARTS.iter().map(|(part, _)| (*part, 0)).chain([(OTHER, 0)]).collect();
    add_files(dir, "", &mut sizes);
    sizes
}

/// Adds the files in `dir`, whose path in the state directory is `prefix`.
fn add_files(dir: &Path, prefix: &str, sizes: &mut [(&'static str, u64)]) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(metadata) = DirEntry::metadata(&entry) else { continue };
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if metadata.is_dir() {
            add_files(&entry.path(), &format!("{path}/"), sizes);
            continue;
        }
        let part = PARTS.iter().find(|(_, start)| path.starts_with(start)).map_or(OTHER, |(part, _)| *part);
        if let Some((_, bytes)) = sizes.iter_mut().find(|(name, _)| *name == part) {
            *bytes += metadata.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_upstream::health::{CircuitBreaker, OracleHealthConfig};
    use std::slice;

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

    #[test]
    fn models_are_unavailable_if_the_only_one_requested_a_long_wait() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().expect("a time");
        let id: UpstreamId = "openai".parse().expect("an id");
        let reason_of = |id: &UpstreamId, wait_s| {
            let mut circuit = CircuitBreaker::new(id.clone(), OracleHealthConfig::default());
            circuit.note_requested_wait(now, Duration::from_secs(wait_s));
            let statuses = [circuit.status()];
            let mail = statuses.iter().find_map(|health| mail_unavailable(health, now));
            models_unavailable(None, slice::from_ref(id), &statuses, now).filter(|_| mail.is_none()).or(mail)
        };
        let reason = reason_of(&id, 3600).expect("no model can answer");
        let is_named = reason.starts_with("models_unavailable") && reason.contains("2026-11-20T11:00:00Z");
        assert!(is_named, "{reason}");
        assert_eq!(reason_of(&id, 20), None, "a short wait needs no person");
        let reason = reason_of(&MAIL_ORACLE.parse().expect("an id"), 3600).expect("mails wait");
        assert!(reason.starts_with("mail_unavailable"), "{reason}");
    }

    #[test]
    fn process_belongs_to_application_of_its_uid_before_that_of_its_gid() {
        let processes = |uids: &[u32], gids: &[u32]| ApplicationProcesses {
            uids: uids.into(),
            gids: gids.into(),
            ..ApplicationProcesses::default()
        };
        let all = [("shop", processes(&[1], &[])), ("help", processes(&[3], &[2]))];
        let named = all.map(|(name, processes)| (name.parse().expect("a valid name"), processes));
        let all = Applications(named.into());
        let of = |uid, gid| all.of_peer(PeerCredentials { uid, gid, pid: None }).map(String::from);
        assert_eq!(of(1, 2).as_deref(), Some("shop"));
        assert_eq!(of(9, 2).as_deref(), Some("help"));
        assert_eq!(of(9, 1), None);
        let peer = PeerCredentials { uid: 9, gid: 9, pid: None };
        assert_eq!(Applications::default().of_peer(peer), Some(ApplicationName::default()));
    }

    #[test]
    fn signals_beyond_the_rate_wait_for_the_next_window() {
        let (rate, now) = (SignalRate::default(), Instant::now());
        for _ in 0..SIGNALS_PER_WINDOW {
            assert_eq!(rate.count_signal("/v1/signals/a", now), Ok(()));
        }
        let later = now + Duration::from_secs(20);
        assert_eq!(rate.count_signal("/v1/signals/a", later), Err(Duration::from_secs(40)));
        assert_eq!(rate.count_signal("/v1/signals/b", later), Ok(()), "another path has its own rate");
        assert_eq!(rate.count_signal("/v1/signals/a", now + SIGNAL_WINDOW), Ok(()));
    }

    #[test]
    fn each_file_of_the_state_directory_is_in_one_part() {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, bytes) in [
            ("segments/0000000001", 1),
            ("segments/spare", 2),
            ("store/db", 4),
            ("store/blobs/1", 8),
            ("oracle_log.jsonl", 16),
            ("oracle_log-1.jsonl", 32),
            ("ground/facts/a.sorted", 64),
            ("ground/raw/a.raw", 128),
            ("ground/work/run/1", 256),
            ("log.key", 512),
            ("ground/unknown", 1024),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is created");
            fs::write(path, vec![b'x'; bytes]).expect("the file is written");
        }
        let sizes = [3, 12, 48, 64, 128, 256, 1536];
        let measured: Vec<_> = measure_parts(dir.path()).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(measured, sizes);
    }
}
