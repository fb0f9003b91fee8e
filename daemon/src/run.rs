//! The daemon's life: from the store to the sockets, and back in the opposite order.

use crate::api;
use crate::control;
use crate::platform::api::front::Front;
use crate::platform::checking::Checking;
use crate::platform::config::{Config, Flags, Limits, Provider, Storage};
use crate::platform::control::reload::reload;
use crate::platform::listen;
use crate::platform::listen::refusal::REFUSALS_MAX;
use crate::platform::listen::{Bound, Bounds, Sockets};
use crate::platform::problem::hide_state_dir;
use crate::platform::service::Service;
use crate::platform::telemetry::LogLevel;
use crate::platform::upstreams::Upstreams;
use anyhow::{Context, bail};
use axum::Extension;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use oracled_actors::audit::fallback::Fallback;
use oracled_actors::audit::logger::CommitError;
use oracled_actors::ground::ingestion::{self, IngestionConfig, slices};
use oracled_actors::system::Parts;
use oracled_actors::verdict::notifier::Rest;
use oracled_actors::verdict::regen;
use oracled_actors::verification::VerificationConfig;
use oracled_actors::{Clock, Supervision, System};
use oracled_domain::{Event, EventKind};
use oracled_store::{Journal, Options};
use sd_notify::NotifyState;
use std::fs;
use std::future::pending;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// File descriptors kept for the store, the log and the rest.
const OTHER_FILES: u64 = 256;
/// So much of the time for a request is for the decision over it; the rest is for what it takes to tell it.
const LONGEST_PART: f64 = 0.9;
/// How long closing the log may take at least, whatever is configured: a disk that hangs must not hold the stop.
const CLOSING_TAKES: Duration = Duration::from_secs(10);
/// How long a stop waits for administrators: one who follows the log and reads no more must not hold it.
const FOLLOWERS_STAY: Duration = Duration::from_secs(1);

/// A daemon that serves.
#[derive(Debug)]
pub struct Daemon {
    /// What its handlers share.
    pub service: Arc<Service>,
    flags: Arc<Flags>,
    /// The routes' and the administrators'.
    servers: [JoinHandle<()>; 2],
    bound: Vec<Bound>,
    checking: Checking,
    signals: Signals,
}

/// What the process is told from outside.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let of = |kind| signal(kind).context("signals cannot be received");
        Ok(Self {
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
            hangup: of(SignalKind::hangup())?,
        })
    }
}

/// Serves until told to stop. Runs on an actix system of its own.
///
/// # Errors
/// Whatever keeps the daemon from starting, or makes it give up.
pub fn serve(config: Config, flags: Flags, log_level: LogLevel) -> anyhow::Result<()> {
    actix_rt::System::new().block_on(async {
        let daemon = Daemon::start(config, flags, log_level).await?;
        tell_systemd(&[NotifyState::Ready]);
        // a task of its own: what is blocked on is polled whenever any actor is woken, and this waits for six things
        actix_rt::spawn(daemon.until_stopped()).await?
    })
}

/// Logs the start. A full disk keeps the daemon from writing, and not from answering reads.
async fn log_start(service: &Service) -> anyhow::Result<()> {
    if let Some(last) = service.system.store.last_entry_at()? {
        service.system.clock.note_earlier(last);
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let started = Event::new(service.started_at, None, EventKind::ServiceStarted { version });
    match service.system.log.commit(started.into()).await {
        Err(CommitError::Unavailable(cause)) => {
            tracing::error!(cause, "the first entry could not be logged");
        }
        committed => drop(committed.context("the first entry could not be logged")?),
    }
    Ok(())
}

impl Daemon {
    /// Opens the store, starts the actors and serves both sockets. When this returns, requests are answered.
    ///
    /// # Errors
    /// Whatever keeps it from starting, with an instruction.
    pub async fn start(config: Config, flags: Flags, log_level: LogLevel) -> anyhow::Result<Self> {
        // what is kept is about customers: it is the daemon's user's alone, and the sockets say who else may talk
        umask(Mode::from_bits_truncate(0o077));
        // before anyone knows of the daemon: a signal that nobody listens to ends it on the spot
        let signals = Signals::listen()?;
        let calls = config.model.calls_at_once;
        let files = raise_file_limit(config.limits.connections + config.limits.control_connections + calls);
        let Storage { cache_bytes, facts_cache_bytes, min_free_bytes, .. } = config.storage;
        let options =
            Options { dir: config.state_dir.clone(), cache_bytes, facts_cache_bytes, min_free_bytes };
        check_state_dir(&config.state_dir)?;
        hide_state_dir(&config.state_dir);
        let clock = Clock::system();
        let upstreams = Upstreams::of(&config, &clock, flags.allow_cleartext)?;
        upstreams.warn_of_cleartext();
        let (journal, store) = Journal::open(options)?;
        // behind the store: a second daemon on the same one must not take the first one's sockets
        let sockets = Sockets::open(&config).await?;
        let supervision = Supervision {
            max_panics: config.supervision.max_panics,
            window: Duration::from_secs(config.supervision.window_s),
            max_pause: Duration::from_millis(config.supervision.max_pause_ms),
        };
        let system = System::start(Parts {
            journal,
            store,
            clock,
            fallback: Fallback::stderr(),
            supervision,
            oracles: upstreams.oracles,
            model: upstreams.model,
            calls: upstreams.calls,
            queue: config.limits.in_flight.saturating_add(config.limits.connections),
            hot_bytes: config.storage.hot_bytes,
            pages_bytes: config.limits.bodies_bytes,
            mailing: upstreams.mailing,
            unexpected_fields: config.gate.unexpected_fields,
            rules: config.rules.to_config(),
            ingestion: IngestionConfig {
                runs_at_once: config.ingestion.runs_at_once,
                limits: slices::Limits::default(),
                puller: Arc::new(upstreams.puller),
                refresh_wait: Duration::from_secs(config.ingestion.refresh_s),
            },
            verification: VerificationConfig {
                at_once: config.verification.at_once,
                // a request that takes longer is cut off, and its envelope would be told to nobody
                longest: Duration::from_secs(config.limits.request_s).mul_f64(LONGEST_PART),
                health: config.health,
                live: Arc::new(upstreams.live),
            },
        });
        let service = Service::new(system, config, log_level);
        log_start(&service).await?;
        let flags = Arc::new(flags);
        let bound = sockets.bound();
        let connections = connections_within(files.saturating_sub(calls as u64), &service.config.limits);
        let servers = start_servers(&service, &flags, sockets, connections);
        let checking = Checking::start(&service);
        if service.config.model.provider != Provider::None && service.system.model.is_none() {
            tracing::warn!(
                "there is no key for the model, so no verdicts are made; see `model.api_key_file`"
            );
        }
        tracing::info!(
            socket = %service.config.socket.display(),
            control_socket = %service.config.control_socket.display(),
            state_dir = %service.config.state_dir.display(),
            entries = service.journal().counts.entries,
            file_limit = files,
            "oracled serves"
        );
        Ok(Self { service, flags, servers, bound, checking, signals })
    }

    /// Serves until SIGTERM or SIGINT, reloads on SIGHUP, and ends in good order.
    ///
    /// # Errors
    /// Where an actor was given up or the store is damaged: the process is to end with a failure.
    pub async fn until_stopped(mut self) -> anyhow::Result<()> {
        let mut watchdog = sd_notify::watchdog_enabled().map(|within| interval(within / 2));
        if let Some(watchdog) = &mut watchdog {
            watchdog.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let failure = loop {
            tokio::select! {
                _ = self.signals.terminate.recv() => break None,
                _ = self.signals.interrupt.recv() => break None,
                _ = self.signals.hangup.recv() => self.reload().await,
                reason = self.service.system.abandoned() => break Some(reason),
                damage = self.service.damage() => break Some(damage),
                () = async { match &mut watchdog { Some(tick) => drop(tick.tick().await), None => pending().await } } => {
                    tell_systemd(&[NotifyState::Watchdog]);
                }
            }
        };
        self.stop().await;
        match failure {
            None => Ok(()),
            Some(reason) => bail!("{reason}"),
        }
    }

    /// Stops accepting, finishes what is in flight within the bound, and puts everything on the disk.
    pub async fn stop(self) {
        tell_systemd(&[NotifyState::Stopping]);
        tracing::info!("oracled stops");
        let Self { service, servers: [routes, control], bound, checking, .. } = self;
        let bound_s = Duration::from_secs(service.config.limits.shutdown_s);
        checking.stop().await;
        for socket in bound {
            // from now on a client gets a clear refusal and another daemon can have the name
            if let Err(error) = socket.remove() {
                tracing::debug!(%error, ?socket, "the socket was gone already");
            }
        }
        service.stop();
        let finished = timeout(bound_s, async {
            let rest = service.system.notifier.ask(Rest);
            let runs = service.system.ingestion.ask(ingestion::Rest);
            let (rested, runs, ()) = tokio::join!(rest, runs, async {
                drop(routes.await);
                service.settled().await;
                // what nobody waits for any more is paid for all the same
                if let Err(error) = service.system.regen.ask(regen::Rest).await {
                    tracing::debug!(%error, "verdicts on their way are not waited for");
                }
            });
            if let Err(error) = runs {
                tracing::debug!(%error, "runs are cut short");
            }
            if let Err(error) = rested {
                tracing::warn!(%error, "mails may be sent again by the next start");
            }
        });
        if finished.await.is_err() {
            let (connections, in_flight) = (service.connections.load(Ordering::Relaxed), service.in_flight());
            tracing::warn!(connections, in_flight, ?bound_s, "not everything in flight was finished");
        }
        if timeout(bound_s.min(FOLLOWERS_STAY), control).await.is_err() {
            tracing::debug!("an administrator's connection was left");
        }
        let closed = timeout(bound_s.max(CLOSING_TAKES), async {
            // the daemon's end is the last entry
            service.system.log.flush().await;
            let stopped = Event::new(service.system.clock.now(), None, EventKind::ServiceStopped);
            if let Err(error) = service.system.log.commit(stopped.into()).await {
                tracing::error!(%error, "the last entry could not be logged");
            }
            service.system.log.close().await;
        });
        if closed.await.is_err() {
            tracing::error!("the log does not get closed; what was acknowledged is on the disk");
        }
    }

    async fn reload(&self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell_systemd(&[NotifyState::Reloading, now]);
        }
        match reload(&self.service, &self.flags, None).await {
            Ok(reloaded) => tracing::info!(?reloaded, "reloaded"),
            Err(problem) => tracing::error!("the reload failed: {problem}"),
        }
        tell_systemd(&[NotifyState::Ready]);
    }
}

/// Checks that other users cannot write to the state directory, if it exists.
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
    Ok(())
}

fn start_servers(
    service: &Arc<Service>,
    flags: &Arc<Flags>,
    sockets: Sockets,
    connections: usize,
) -> [JoinHandle<()>; 2] {
    let limits = &service.config.limits;
    let bounds = |connections, unread, finish_unheard| Bounds {
        connections,
        idle: Duration::from_secs(limits.idle_s),
        unread,
        finish_unheard,
        headers: limits.headers,
        header_bytes: limits.header_bytes,
    };
    let routes = Front::new(api::router(Arc::clone(service)), limits);
    let control = control::router(Arc::clone(service)).layer(Extension(Arc::clone(flags)));
    let control = Front::new(control, limits).unhurried(control::is_unhurried);
    let Sockets { routes: routes_socket, control: control_socket, .. } = sockets;
    [
        tokio::spawn(listen::serve(
            routes_socket,
            // what was handed in is judged, even if nobody waits for the answer any more
            bounds(connections, Duration::from_secs(limits.idle_s), true),
            Arc::clone(&service.connections),
            service.stopping(),
            {
                let service = Arc::clone(service);
                Arc::new(move || service.is_short_of_answers())
            },
            move |request, peer, still_waiting| routes.clone().answer(request, peer, still_waiting),
        )),
        tokio::spawn(listen::serve(
            control_socket,
            // an administrator may look at a followed log for as long as it takes
            bounds(limits.control_connections, Duration::MAX, false),
            Arc::clone(&service.control_connections),
            service.stopping(),
            Arc::new(|| false),
            move |request, peer, still_waiting| control.clone().answer(request, peer, still_waiting),
        )),
    ]
}

fn tell_systemd(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "systemd could not be told");
    }
}

/// How many connections to the routes' socket the open files suffice for: with more of them the store would be left
/// without any.
fn connections_within(files: u64, limits: &Limits) -> usize {
    let left = files.saturating_sub(OTHER_FILES).saturating_sub(limits.control_connections as u64);
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

/// Raises the number of files that may be open as far as the connections need and the system lets; hands back
/// where it stands.
fn raise_file_limit(connections: usize) -> u64 {
    let needed = connections as u64 + OTHER_FILES + 2 * REFUSALS_MAX as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 0 };
    let wanted = needed.min(hard);
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        return wanted;
    }
    soft
}
