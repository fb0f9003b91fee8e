//! The start and the stop of the daemon: from the store to the sockets, and back in the opposite order.

mod store_check;

use self::store_check::StoreCheckTask;
use super::control::{DaemonStart, reload};
use super::platform::config::credentials::find_credential;
use super::platform::series::SeriesTask;
use super::platform::service::StateSizeTask;
use crate::audit::checkpoints::{self, CheckpointTask};
use crate::config::DaemonConfig;
use crate::platform::access_log::{AccessLog, SocketKind};
use crate::platform::api::front::SocketFrontend;
use crate::platform::cluster::{self, ClusterDigests, ClusterMember};
use crate::platform::config::{ConfigError, Configuration, DaemonFlags, LimitsSection, StorageSection};
use crate::platform::listen::{self, BoundSocket, DaemonSockets, REFUSALS_MAX, ServingThreads, SocketLimits};
use crate::platform::metrics_listener;
use crate::platform::problem::hide_state_dir;
use crate::platform::service::DaemonService;
use crate::platform::telemetry::LogLevelHandle;
use crate::platform::traces::{TraceCollector, TraceExport, TracedDaemon};
use crate::upstreams::{ReloadableClients, UpstreamClients};
use crate::verdict::config::applications::{mail_templates, processes};
use crate::verdict::config::models::{ModelProvider, model_entries};
use crate::verdict::control::recalls::RecallTask;
use crate::verdict::retention::RetentionTask;
use crate::{api, control, review};
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::FallbackLog;
use actors_ground::ingestion;
use actors_platform::clock::Clock;
use actors_platform::guardian::EndReason;
use actors_platform::key_file::{KEY_BYTES, create_key, read_key};
use actors_platform::work::StopWork;
use actors_platform::work_turn::WorkTurn;
use actors_upstream::witnesses::Witnesses;
use actors_verdict::cache::PolicyConfig;
use actors_verdict::erasure::StartedRemovals;
use actors_verdict::generation::find_prompt_template;
use actors_verdict::held_key::HeldVerdictKey;
use actors_verdict::mail_content::find_mail_template;
use actors_verdict::regen;
use actors_verification::VerificationConfig;
use anyhow::{Context, Error, anyhow, bail};
use domain_audit::checkpoint::LogSigner;
use domain_audit::event::{LOG_KEY_EVENTS, LogKeyReplaced, ServiceStarted, ServiceStopped, log_key_in};
use domain_base::cluster::ConfigDigests;
use domain_base::event::AuditEvent;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use oracled_actors::ActorSystem;
use oracled_actors::system::SystemParts;
use oracled_store::{ClusterMarker, Journal, JournalRecord, LogQuery, Store, StoreError, StoreOptions};
use prometheus_client::registry::Registry;
use sd_notify::NotifyState;
use std::fs;
use std::future::pending;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The part of a request's time limit that a verification may take; the rest is for the answer.
const LONGEST_PART: f64 = 0.9;
/// Minimum time limit for closing the log, independent of the configuration: a hanging disk must not block the stop.
const CLOSING_TAKES: Duration = Duration::from_secs(10);
/// Maximum time that a stop waits for connections of administrators: one that follows the log without reading
/// must not block the stop.
const FOLLOWERS_STAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct RunningDaemon {
    /// The state that its handlers share.
    pub service: Arc<DaemonService>,
    start: Arc<DaemonStart>,
    servers: SocketServers,
    bound: Vec<BoundSocket>,
    tasks: DaemonTasks,
    traces: TraceExport,
    signals: ProcessSignals,
}

/// The handled signals of the process.
#[derive(Debug)]
struct ProcessSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl ProcessSignals {
    fn listen() -> anyhow::Result<Self> {
        let of = |kind| signal(kind).context("signals cannot be received");
        Ok(Self {
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
            hangup: of(SignalKind::hangup())?,
        })
    }
}

/// Serves until a signal stops the daemon. Runs on its own actix system.
///
/// # Errors
/// Any error that prevents the start, or that ends the daemon.
pub fn serve(config: DaemonConfig, flags: DaemonFlags, log_level: LogLevelHandle) -> anyhow::Result<()> {
    actix_rt::System::new().block_on(async {
        let daemon = RunningDaemon::start(config, flags, log_level).await?;
        notify_systemd(&[NotifyState::Ready]);
        // a separate task: the future of `block_on` is polled whenever any actor wakes, and this one waits
        // for six events
        actix_rt::spawn(daemon.run_until_stopped()).await?
    })
}

/// A signal has stopped the start, as it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("stopped before this host has entered its cluster")]
pub struct StoppedEarlyError;

/// The state directory has the data of a daemon without test mode, and this start is in test mode.
#[derive(Debug, thiserror::Error)]
#[error("the state directory {} was not made in test mode; start without --test-mode, or use another directory", .0.display())]
pub struct NoTestStateError(pub PathBuf);

/// Checks that the state directory was always used in test mode, or never.
fn check_test_mode(store: &Store, state_dir: &Path) -> anyhow::Result<()> {
    match (store.is_log_of_test_mode()?, store.is_test()) {
        (Some(true), false) => bail!(
            "the state directory {} was made in test mode, so its verdicts can be canned; start with --test-mode, or use another \
             directory",
            state_dir.display()
        ),
        (Some(false), true) => Err(NoTestStateError(state_dir.to_owned()).into()),
        _ => Ok(()),
    }
}

/// Logs the start. On a full disk the daemon cannot write entries, but still answers reads.
async fn log_start(service: &DaemonService) -> anyhow::Result<()> {
    check_test_mode(&service.system.store, service.state_dir())?;
    if let Some(last) = service.system.store.last_entry_at()? {
        service.system.clock.note_earlier_time(last);
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let log_key = service.log_signer.key().to_string();
    let mut events = Vec::new();
    if let Some(before) = last_named_log_key(&service.system.store)?.filter(|before| *before != log_key) {
        tracing::warn!(
            before,
            after = log_key,
            "the key of the log is another one than before; if you did not replace it, restore the previous key, else give the new \
             public key to everyone who verifies the log"
        );
        let replaced = LogKeyReplaced { before, after: log_key.clone() };
        events.push(AuditEvent::new(service.started_at, None, replaced));
    }
    events.push(AuditEvent::new(service.started_at, None, ServiceStarted { version, log_key }));
    match service.system.log.commit(JournalRecord { events, ..JournalRecord::default() }).await {
        Err(CommitError::Unavailable(cause)) => {
            tracing::error!(cause, "the first entry could not be logged");
        }
        committed => drop(committed.context("the first entry could not be logged")?),
    }
    Ok(())
}

/// Logs the stop of the daemon, as the last entry. A host that has left its cluster cannot log it.
async fn log_stop(service: &DaemonService) {
    service.system.log.flush().await;
    if service.cluster.as_ref().is_some_and(ClusterMember::has_ended) {
        return;
    }
    let stopped = AuditEvent::new(service.system.clock.now(), None, ServiceStopped {});
    if let Err(error) = service.system.log.commit(stopped.into()).await {
        tracing::error!(%error, "the last entry could not be logged");
    }
}

/// Logs the start, and removes what other hosts have removed meanwhile.
async fn prepare_store(service: &DaemonService) -> anyhow::Result<()> {
    log_start_or_repair(service).await?;
    service.system.erasure.catch_up().await;
    Ok(())
}

/// Logs the start. If a read finds damage, the database is rebuilt first.
async fn log_start_or_repair(service: &DaemonService) -> anyhow::Result<()> {
    let Err(error) = log_start(service).await else { return Ok(()) };
    let Some(damage @ StoreError::Corrupt { .. }) = error.downcast_ref() else { return Err(error) };
    let damage = damage.to_cause();
    tracing::error!(damage, "a read has found damage; the database is rebuilt");
    if let Err(cause) = service.system.log.rebuild_database(damage).await {
        bail!("{cause}");
    }
    log_start(service).await
}

/// The work that the daemon does from time to time.
#[derive(Debug)]
struct DaemonTasks {
    checking: StoreCheckTask,
    checkpoints: CheckpointTask,
    retention: RetentionTask,
    recalls: RecallTask,
    state_size: StateSizeTask,
    series: SeriesTask,
}

impl DaemonTasks {
    fn start(service: &Arc<DaemonService>, state_dir: &Path) -> Self {
        Self {
            checking: StoreCheckTask::start(service),
            checkpoints: CheckpointTask::start(service),
            retention: RetentionTask::start(service),
            recalls: RecallTask::start(service),
            state_size: StateSizeTask::start(state_dir, &service.state_size),
            series: SeriesTask::start(service, state_dir, api::METRICS),
        }
    }
}

impl RunningDaemon {
    /// Opens the store, starts the actors and serves the sockets. When this returns, requests are answered.
    ///
    /// # Errors
    /// Any error that prevents the start, with a remedy.
    pub async fn start(
        config: DaemonConfig,
        flags: DaemonFlags,
        log_level: LogLevelHandle,
    ) -> anyhow::Result<Self> {
        // stored data is about customers, so only the daemon's user may read it; the modes of the sockets
        // decide who may connect
        umask(Mode::from_bits_truncate(0o077));
        // before the sockets exist: a signal without a handler ends the process at once
        let mut signals = ProcessSignals::listen()?;
        let calls: usize = model_entries(&config).iter().map(|model| model.section.calls_at_once).sum();
        let files =
            raise_file_limit(config.limits.connections + 2 * config.limits.control_connections + calls);
        check_state_dir(&config.state_dir)?;
        let clock = Clock::system();
        let upstreams = UpstreamClients::from_config(&config, &clock, &flags)?;
        upstreams.warn_of_cleartext();
        let collector = config.traces.collector(&clock, flags.allow_cleartext)?;
        let held_key = find_held_key(&config)?;
        let OpenedLog { journal, store, log_signer, cluster } =
            open_log(&config, &held_key, &upstreams.witnesses, &flags, &mut signals).await?;
        // after the store: a second daemon on the same store must not take the sockets of the first one
        let sockets = DaemonSockets::open(&config.socket_files()?).await?;
        let (turn, objects) = (turn_of(cluster.as_ref()), config.cluster.open_objects()?);
        let (applications, clients) = (processes(&config.applications), upstreams.clients);
        let parts = SystemParts {
            journal,
            store,
            clock,
            fallback: FallbackLog::stderr(),
            supervision: config.supervision.to_limits(),
            applications: applications.names(),
            oracles: upstreams.oracles,
            models: upstreams.models,
            prompt_templates: config.prompt_template.templates(&config.applications),
            recall_modes: config.recall.modes(&config.applications),
            calls: upstreams.calls,
            budgets: config.costs.to_budgets(&config.applications),
            lookup: clients.services.lookup.clone(),
            orders: config.orders.to_orders_config(&config.applications),
            queue: config.limits.in_flight.saturating_add(config.limits.connections),
            hot_bytes: config.storage.hot_bytes,
            pages_bytes: config.limits.bodies_bytes,
            mailing: clients.services.notifier_config(&config),
            webhooks: clients.services.webhook_config(&config),
            policy: policy_config(&config, held_key, flags.test_mode),
            unexpected_fields: config.gate.unexpected_fields,
            rules: config.rules.to_config(),
            ingestion: config.ingestion.to_config(clients.puller.clone(), (turn.clone(), objects)),
            verification: verification_config(&config, &clients),
            turn,
            removals: cluster.as_ref().map(|member| member.removals.clone()),
            shared_calls: cluster.as_ref().map(|member| member.shared_calls.clone()),
        };
        let mut registry = Registry::with_prefix("oracled");
        let traces = start_traces(collector, &config, &flags, &mut registry)?;
        let system = ActorSystem::start(parts, &mut registry);
        let (config, witnesses) = (Arc::new(config), upstreams.witnesses);
        let service = DaemonService::new(
            system,
            registry,
            Arc::<DaemonConfig>::clone(&config),
            applications,
            log_level,
            (log_signer, witnesses),
            cluster,
        );
        prepare_store(&service).await?;
        let (start, bound) = (Arc::new(DaemonStart { flags, config, clients }), sockets.bound_sockets());
        let threads =
            Arc::new(ServingThreads::start().context("the threads for the routes cannot be started")?);
        let connections = limit_connections(files.saturating_sub(calls as u64), &service.limits);
        let servers = SocketServers::start(&service, &start, sockets, threads, connections);
        let tasks = DaemonTasks::start(&service, &start.config.state_dir);
        warn_of_missing_parts(&service, &start.config);
        log_serving(&service, &start.config, files);
        Ok(Self { service, start, servers, bound, tasks, traces, signals })
    }

    /// Serves until SIGTERM or SIGINT, reloads on SIGHUP, and stops in order.
    ///
    /// # Errors
    /// If an actor was given up, the store is damaged, or its log is not that of the cluster. The process then ends with a failure.
    pub async fn run_until_stopped(mut self) -> anyhow::Result<()> {
        let mut watchdog = sd_notify::watchdog_enabled().map(|within| interval(within / 2));
        if let Some(watchdog) = &mut watchdog {
            watchdog.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let failure = loop {
            tokio::select! {
                _ = self.signals.terminate.recv() => break None,
                _ = self.signals.interrupt.recv() => break None,
                _ = self.signals.hangup.recv() => self.reload().await,
                reason = self.service.system.abandoned() => break Some(match reason {
                    EndReason::Fault(reason) => anyhow!(reason),
                    EndReason::Fork(detail) => StoreError::Diverged { dir: self.start.config.state_dir.clone(), detail }.into(),
                }),
                damage = self.service.wait_for_damage() => break Some(anyhow!(damage)),
                ended = async { match &self.service.cluster { Some(member) => member.ended().await, None => pending().await } } => {
                    break ended.err().map(|reason| anyhow!(reason));
                }
                () = async { match &mut watchdog { Some(tick) => drop(tick.tick().await), None => pending().await } } => {
                    notify_systemd(&[NotifyState::Watchdog]);
                }
            }
        };
        self.stop().await;
        failure.map_or(Ok(()), Err)
    }

    /// Stops accepting requests, finishes those in flight within the time limit, and syncs all data to the disk.
    pub async fn stop(self) {
        notify_systemd(&[NotifyState::Stopping]);
        tracing::info!("oracled is stopping");
        let Self {
            service,
            servers: SocketServers { routes, control, review, threads },
            bound,
            tasks: DaemonTasks { checking, checkpoints, retention, recalls, state_size, series },
            traces,
            ..
        } = self;
        let bound_s = Duration::from_secs(service.limits.shutdown_s);
        retention.stop();
        recalls.stop();
        state_size.stop();
        series.stop().await;
        service.system.erasure.stop();
        checking.stop().await;
        for socket in bound {
            // from now on clients cannot connect, and another daemon can bind the path
            if let Err(error) = socket.remove() {
                tracing::debug!(%error, ?socket, "could not remove the socket");
            }
        }
        service.stop();
        let finished = timeout(bound_s, async {
            let rest = service.system.notifier.ask(StopWork);
            let runs = service.system.ingestion.ask(ingestion::StopRuns);
            // calls of the model are paid for even if no caller waits any longer: none starts, and those in flight end
            let orders = service.system.orders.ask(StopWork);
            let (rested, runs, orders, ()) = tokio::join!(rest, runs, orders, async {
                drop(routes.await);
                service.wait_until_idle().await;
                if let Err(error) = service.system.regen.ask(regen::AwaitGenerations::default()).await {
                    tracing::debug!(%error, "generation of verdicts is cut off by the stop");
                }
            });
            if let Err(error) = orders {
                tracing::debug!(%error, "attempts of orders are cut off by the stop");
            }
            if let Err(error) = runs {
                tracing::debug!(%error, "ingestion runs are cut off by the stop");
            }
            if let Err(error) = rested {
                tracing::warn!(%error, "mails and webhooks may be sent again after the next start");
            }
        });
        let is_finished = finished.await.is_ok();
        // another host would do again what is in progress here
        if is_finished && let Some(member) = &service.cluster {
            member.release().await;
        }
        if !is_finished {
            let (connections, in_flight) = (service.connections.load(Ordering::Relaxed), service.in_flight());
            tracing::warn!(connections, in_flight, ?bound_s, "stopped with work still in flight");
        }
        if timeout(bound_s.min(FOLLOWERS_STAY), wait_for_people(control, review)).await.is_err() {
            tracing::debug!("an administrator's connection is cut off by the stop");
        }
        let closed = timeout(bound_s.max(CLOSING_TAKES), async {
            log_stop(&service).await;
            service.system.log.close().await;
            checkpoints.stop(&service).await;
        });
        if closed.await.is_err() {
            tracing::error!("could not close the log in time; acknowledged entries are on the disk");
        }
        traces.stop().await;
        // before the actors: a request that was cut off gets no answer
        threads.stop();
    }

    async fn reload(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            notify_systemd(&[NotifyState::Reloading, now]);
        }
        match reload(&self.service, &self.start, None).await {
            Ok(reloaded) => tracing::info!(?reloaded, "reloaded"),
            Err(problem) => tracing::error!("the reload failed: {problem}"),
        }
        notify_systemd(&[NotifyState::Ready]);
    }
}

/// The target of the warning about the test mode.
pub(crate) const TEST_MODE_TARGET: &str = "oracled::test_mode";

/// Writes to the service log that requests are answered.
fn log_serving(service: &DaemonService, config: &DaemonConfig, file_limit: u64) {
    tracing::info!(
        socket = %config.socket.display(),
        control_socket = %config.control_socket.display(),
        review_socket = config.review_socket.as_ref().map(|path| tracing::field::display(path.display())),
        state_dir = %config.state_dir.display(),
        entries = service.journal_report().counts.entries,
        file_limit,
        "oracled serves"
    );
    if service.system.store.is_test() {
        tracing::warn!(target: TEST_MODE_TARGET, "test mode: verdicts can be canned, and mails go to files");
    }
}

fn notify_systemd(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "could not notify systemd");
    }
}

/// Logs a warning if the model has no key, or if a configured template is not registered.
fn warn_of_missing_parts(service: &DaemonService, config: &DaemonConfig) {
    if config.model.provider != ModelProvider::None && service.system.models.is_empty() {
        tracing::warn!("the model's key is missing, so no verdicts are generated; see `model.api_key_file`");
    }
    for (application, name) in config.prompt_template.templates(&config.applications).iter() {
        if let Err(error) = find_prompt_template(&service.system.store, name) {
            let application = application.map(ToString::to_string);
            tracing::warn!(application, %error, "no prompt can be built, so orders wait");
        }
    }
    for (application, names) in mail_templates(&config.applications, &config.mail).iter() {
        for name in names {
            if let Err(error) = find_mail_template(&service.system.store, name) {
                let application = application.map(ToString::to_string);
                tracing::warn!(application, %error, "mails wait for their template");
            }
        }
    }
}

/// File descriptors reserved for the store, the log and others.
const OTHER_FILES: u64 = 256;

/// Maximum number of connections to the routes' socket for this limit of open files. More connections would
/// leave no file descriptors for the store.
fn limit_connections(files: u64, limits: &LimitsSection) -> usize {
    let left = files.saturating_sub(OTHER_FILES).saturating_sub(2 * limits.control_connections as u64);
    let left = left.saturating_sub(2 * REFUSALS_MAX as u64);
    let connections = limits.connections.min(usize::try_from(left).unwrap_or(usize::MAX)).max(1);
    if connections < limits.connections {
        tracing::warn!(
            connections,
            file_limit = files,
            "fewer connections than configured: raise the limit on open files"
        );
    }
    connections
}

/// Raises the limit of open files to the needs of the connections, as far as the system allows. Returns the
/// resulting limit.
fn raise_file_limit(connections: usize) -> u64 {
    let needed = connections as u64 + OTHER_FILES + 2 * REFUSALS_MAX as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    let raised = needed.min(hard);
    if soft < raised && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() {
        return raised;
    }
    soft
}

fn start_traces(
    collector: Option<TraceCollector>,
    config: &DaemonConfig,
    flags: &DaemonFlags,
    registry: &mut Registry,
) -> anyhow::Result<TraceExport> {
    let daemon = TracedDaemon { host: config.cluster.host.clone(), is_test: flags.test_mode };
    TraceExport::start(collector, &daemon, registry).context("the thread of the traces cannot be started")
}

/// The turn of this host at the work that one host of a cluster does at a time.
fn turn_of(cluster: Option<&ClusterMember>) -> WorkTurn {
    cluster.map_or(WorkTurn::Alone, |member| member.turn.clone())
}

fn policy_config(config: &DaemonConfig, key: HeldVerdictKey, test_mode: bool) -> PolicyConfig {
    let opinions = config.orders.to_opinion_plans(&config.applications);
    PolicyConfig { policies: config.policies(test_mode), opinions, key }
}

fn verification_config(config: &DaemonConfig, clients: &ReloadableClients) -> VerificationConfig {
    VerificationConfig {
        at_once: config.verification.at_once,
        // a longer request times out, and no caller would get its envelope
        longest: Duration::from_secs(config.limits.request_s).mul_f64(LONGEST_PART),
        health: config.health,
        live: Arc::new(clients.live.clone()),
    }
}

/// The store with its log.
struct OpenedLog {
    journal: Journal,
    store: Store,
    log_signer: LogSigner,
    cluster: Option<ClusterMember>,
}

/// Opens the store, enters the cluster, and compares the log with what others know of it.
async fn open_log(
    config: &DaemonConfig,
    held_key: &HeldVerdictKey,
    witnesses: &Witnesses,
    flags: &DaemonFlags,
    signals: &mut ProcessSignals,
) -> anyhow::Result<OpenedLog> {
    let log_key = find_log_key()?;
    let secrets = config.cluster.secrets(flags.allow_cleartext)?;
    let (mut journal, store) = open_store(config)?;
    if flags.test_mode {
        journal.mark_test_mode();
    }
    match check_test_mode(&store, &config.state_dir) {
        // the start repairs it, and checks the mode again
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::Corrupt { .. })) => {}
        checked => checked?,
    }
    let log_signer = open_log_signer(log_key, config, &store)?;
    let cluster = match cluster::find_marker(&config.cluster, &config.state_dir)? {
        None => None,
        Some(ClusterMarker::Init { .. }) if !StartedRemovals::read(&store)?.is_empty() => bail!(
            "a removal of data is not complete, and would not be completed on a host of a cluster; remove the file `cluster` in {}, and start \
             the daemon without `cluster.host` until `oraclectl backup` succeeds",
            config.state_dir.display()
        ),
        Some(ClusterMarker::Init { .. }) if !journal.lost_rows().is_empty() => bail!(
            "the store has lost rows, and the first host of a cluster has to be whole; remove the file `cluster` in {}, start the daemon \
             without `cluster.host`, and erase or replace the rows that `oraclectl status` names (see docs/recover.md#damage)",
            config.state_dir.display()
        ),
        Some(marker) => {
            let (log_key, held_key) = (log_signer.key().to_string(), held_key.digest()?.to_string());
            let digests = ClusterDigests { log_key, held_key, config: decision_digests(config) };
            let opened = (journal, store.clone());
            let (entered, member) = tokio::select! {
                entered = cluster::enter(&config.cluster, marker, secrets, digests, opened) => entered?,
                _ = signals.terminate.recv() => return Err(StoppedEarlyError.into()),
                _ = signals.interrupt.recv() => return Err(StoppedEarlyError.into()),
            };
            journal = entered;
            Some(member)
        }
    };
    checkpoints::check_or_repair(&config.checkpoints, &mut journal, &store)?;
    // another host of a cluster may have shown a witness later entries meanwhile
    if cluster.is_none() {
        checkpoints::check_witnesses(witnesses, &log_signer, &store).await?;
    }
    Ok(OpenedLog { journal, store, log_signer, cluster })
}

fn decision_digests(config: &dyn Configuration) -> ConfigDigests {
    config.decision_digests()
}

/// Opens the store as configured.
fn open_store(config: &DaemonConfig) -> Result<(Journal, Store), StoreError> {
    let StorageSection { cache_bytes, facts_cache_bytes, min_free_bytes, erase_session_ids, .. } =
        config.storage;
    let dir = config.state_dir.clone();
    let (journal, store) = Store::open(StoreOptions { dir, cache_bytes, facts_cache_bytes, min_free_bytes })?;
    if erase_session_ids {
        journal.cover_session_ids();
    }
    Ok((journal, store))
}

/// Checks that other users cannot write to the state directory, if it exists, and that no answer names it.
fn check_state_dir(dir: &Path) -> anyhow::Result<()> {
    // the store reports all other faults of the directory
    let mode = fs::metadata(dir).map_or(0, |found| found.mode() & 0o7777);
    if mode & 0o022 != 0 {
        bail!(
            "the state directory {} has mode {mode:04o}: other users can replace its files (allowed: 0700, 0750 or 0755); run: \
             chmod go-w {0}",
            dir.display()
        );
    }
    hide_state_dir(dir);
    Ok(())
}

/// The task of each socket.
#[derive(Debug)]
struct SocketServers {
    routes: JoinHandle<()>,
    control: JoinHandle<()>,
    review: Option<JoinHandle<()>>,
    /// Work of requests continues on them after its connection is closed.
    threads: Arc<ServingThreads>,
}

impl SocketServers {
    fn start(
        service: &Arc<DaemonService>,
        start: &Arc<DaemonStart>,
        sockets: DaemonSockets,
        threads: Arc<ServingThreads>,
        connections: usize,
    ) -> Self {
        let limits = &service.limits;
        let idle = Duration::from_secs(limits.idle_s);
        let DaemonSockets { routes, control, review, metrics, .. } = sockets;
        if let Some(listener) = metrics {
            let router = api::metrics_router(Arc::clone(service));
            tokio::spawn(metrics_listener::serve(listener, router, service.subscribe_stop()));
        }
        let access_log =
            |socket| AccessLog::new(socket, start.config.access_log, service.request_metrics.clone());
        let host = service.cluster.as_ref().map(|member| member.host.clone());
        let is_test = service.system.store.is_test();
        let front = |router, log: &Arc<AccessLog>| {
            SocketFrontend::new(router, limits, host.clone(), Arc::clone(log)).in_test_mode(is_test)
        };
        let log = access_log(SocketKind::Routes);
        let of_routes =
            front(api::router(Arc::clone(service)), &log).for_applications(service.applications.clone());
        let routes = tokio::spawn(listen::serve(
            (routes, Arc::clone(&threads)),
            // submitted work is finished even if the client has disconnected
            socket_limits(limits, connections, idle, true),
            Arc::clone(&service.connections),
            service.subscribe_stop(),
            {
                let service = Arc::clone(service);
                Arc::new(move || service.is_short_of_memory())
            },
            log,
            move |request, peer, still_waiting| of_routes.clone().answer(request, peer, still_waiting),
        ));
        let router = control::router(Arc::clone(service), Arc::clone(start));
        let log = access_log(SocketKind::Control);
        let of_control = front(router, &log).without_time_limit_for(control::has_no_time_limit);
        // an administrator may follow the log without a time limit
        let counter = Arc::clone(&service.control_connections);
        let control = serve_people(service, control, (of_control, log), Duration::MAX, counter);
        let review = review.map(|socket| {
            let router = review::router(Arc::clone(service));
            let log = access_log(SocketKind::Review);
            let of_review = front(router, &log).for_reviewers();
            serve_people(service, socket, (of_review, log), idle, Arc::default())
        });
        Self { routes, control, review, threads }
    }
}

/// Serves a socket of administrators or reviewers.
fn serve_people(
    service: &Arc<DaemonService>,
    socket: UnixListener,
    (front, log): (SocketFrontend, Arc<AccessLog>),
    unread: Duration,
    open: Arc<AtomicUsize>,
) -> JoinHandle<()> {
    let limits = &service.limits;
    tokio::spawn(listen::serve(
        // apart from the load of the routes
        (socket, Arc::new(ServingThreads::current())),
        socket_limits(limits, limits.control_connections, unread, false),
        open,
        service.subscribe_stop(),
        Arc::new(|| false),
        log,
        move |request, peer, still_waiting| front.clone().answer(request, peer, still_waiting),
    ))
}

/// Waits until the connections of administrators and reviewers are closed.
async fn wait_for_people(control: JoinHandle<()>, review: Option<JoinHandle<()>>) {
    drop(control.await);
    if let Some(review) = review {
        drop(review.await);
    }
}

const fn socket_limits(
    limits: &LimitsSection,
    connections: usize,
    unread: Duration,
    finish_unheard: bool,
) -> SocketLimits {
    SocketLimits {
        connections,
        idle: Duration::from_secs(limits.idle_s),
        unread,
        finish_unheard,
        headers: limits.headers,
        header_bytes: limits.header_bytes,
    }
}

/// The number of newest entries of each kind in which the last public key is searched. A removal of old data names the key only if it
/// drops entries.
const NAMING_ENTRIES: usize = 1000;

/// The name of the key in the state directory.
const LOG_KEY_FILE: &str = "log.key";

/// The key of the log in the credential `oracled_log-key`, if it is given.
pub(crate) fn find_log_key() -> Result<Option<[u8; KEY_BYTES]>, ConfigError> {
    let Some(file) = find_credential("log-key")? else { return Ok(None) };
    read_key(&file).map(Some).map_err(|error| {
        ConfigError::NotUnderstood(format!(
            "systemd's credential oracled_log-key: cannot read the key of the log: {error}; allowed: 32 bytes in Base64"
        ))
    })
}

/// The key that signs checkpoints: `provided`, or the one in the state directory, which is created if it is missing.
fn open_log_signer(
    provided: Option<[u8; KEY_BYTES]>,
    config: &DaemonConfig,
    store: &Store,
) -> anyhow::Result<LogSigner> {
    let name = store.log_name()?;
    if let Some(secret) = provided {
        return Ok(LogSigner::new(&name, &secret));
    }
    let file = config.state_dir.join(LOG_KEY_FILE);
    let at = file.display();
    match read_key(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        read => {
            let secret = read.map_err(|error| {
                let remedy = reading_remedy(error.kind());
                Error::new(error).context(format!("cannot read the key of the log in {at}; {remedy}"))
            })?;
            return Ok(LogSigner::new(&name, &secret));
        }
    }
    let secret = create_key(&file).map_err(|error| {
        let remedy = creation_remedy(error.kind());
        Error::new(error).context(format!("cannot create the key of the log in {at}; {remedy}"))
    })?;
    if store.log_head().0 > 0 {
        tracing::warn!(file = %at, "the log has entries and had no key, so a new key was created");
    }
    Ok(LogSigner::new(&name, &secret))
}

/// The last public key that the log names; `None` if it names none.
fn last_named_log_key(store: &Store) -> Result<Option<String>, StoreError> {
    let mut last: Option<(u64, String)> = None;
    for event in LOG_KEY_EVENTS {
        let query = LogQuery {
            events: vec![event.to_owned()],
            newest: true,
            limit: NAMING_ENTRIES,
            ..LogQuery::default()
        };
        for line in store.log(&query)? {
            let key = store.read_entry(&line, log_key_in)?;
            if let Some(key) = key.filter(|_| last.as_ref().is_none_or(|(seq, _)| *seq < line.seq)) {
                last = Some((line.seq, key));
            }
        }
    }
    Ok(last.map(|(_, key)| key))
}

const fn reading_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => "make the daemon's user the owner of the file, with mode 0600",
        ErrorKind::InvalidData => {
            "put your copy of the file back (a backup has no private keys), or move the file away: the daemon then creates another \
             key, whose public key everyone who verifies the log needs"
        }
        _ => "check the disk",
    }
}

const fn creation_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => "make the daemon's user the owner of the state directory",
        ErrorKind::NotFound => "create the state directory, or mount its disk",
        ErrorKind::StorageFull => "free space on the disk",
        _ => "check the disk, and remove a folder `log.key.new` in the state directory",
    }
}

/// The key of held verdicts. Errors do not show its path, which can be a misplaced key. That in the state directory is read
/// when it is used: if it is lost, the daemon still delivers.
pub(crate) fn find_held_key(config: &DaemonConfig) -> Result<HeldVerdictKey, ConfigError> {
    let credential = find_credential("held-key")?.map(|file| ("systemd's credential oracled_held-key", file));
    let configured = || config.gate.held_key_file.clone().map(|file| ("`gate.held_key_file`", file));
    let Some((name, file)) = credential.or_else(configured) else {
        return Ok(HeldVerdictKey::in_state_dir(&config.state_dir));
    };
    HeldVerdictKey::provided(file).map_err(|error| {
        ConfigError::NotUnderstood(format!(
            "{name}: cannot read the key of held verdicts from the file: {error}; allowed: the path of a file with 32 bytes \
             in Base64"
        ))
    })
}
