//! Checks the whole store, `oracle_log.jsonl` and all sources while the daemon serves.

use crate::platform::service::DaemonService;
use actors_ground::ingestion::{IngestionError, VerifySourceFiles};
use actors_platform::clock::monotonic;
use domain_ground::id::SourceId;
use jiff::SignedDuration;
use oracled_store::{Store, StoreError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

/// Pause before a failed check is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Pause before a repair of the segments that failed is tried again.
const HEALING_PAUSE: Duration = Duration::from_secs(60);
/// Time between the end of a check and the next one.
const CHECK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Pause of a check, as a multiple of its work time. At 9 the check takes a tenth of one core.
const PAUSE_FACTOR: u32 = 9;
/// Minimum work time between two pauses.
const WORK_TIME: Duration = Duration::from_millis(2);
/// Maximum pause of a check. A stop of the daemon waits for its end.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum time that a stop of the daemon waits for a check, so that a hanging disk does not block the stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of faults of sources that are logged one by one.
const FAULTS_LOGGED: usize = 100;

/// The check in progress.
#[derive(Debug)]
pub(crate) struct StoreCheckTask {
    tasks: [JoinHandle<()>; 2],
    stop: watch::Sender<bool>,
}

impl StoreCheckTask {
    /// Checks the store and then each source: first the rest of the last check, then everything once a day.
    /// A damaged database is rebuilt from the segments; if the next check finds damage again, the daemon ends. Faults of a
    /// source are only reported.
    #[must_use]
    pub(crate) fn start(service: &Arc<DaemonService>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let healing = tokio::spawn(heal_when_damaged(Arc::clone(service), stopped.clone()));
        let service = Arc::clone(service);
        let checking = tokio::spawn(async move {
            let Some(damage) = run_checks(&service, stopped).await else { return };
            tracing::error!(damage, "the store is damaged, although it was rebuilt; the daemon ends");
            service.report_damage(damage);
        });
        Self { tasks: [checking, healing], stop }
    }

    /// Stops the check. Its position is stored for the next one.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            if timeout(STOP_TIMEOUT, task).await.is_err() {
                tracing::warn!("a check or a repair of the store did not end in time");
            }
        }
    }
}

/// Repeats the check until the daemon stops, or returns the damage that remains after the database was rebuilt.
async fn run_checks(service: &Arc<DaemonService>, mut stopped: watch::Receiver<bool>) -> Option<String> {
    let mut is_rebuilt = false;
    loop {
        let (store, stop_flag) = (service.system.store.clone(), stopped.clone());
        let pause = match spawn_blocking(move || check_store(&store, &stop_flag)).await {
            Ok(Ok(false)) => return None,
            Ok(Ok(true)) => {
                is_rebuilt = false;
                // after the store: a mirror is never written again from a log that was changed
                check_mirror(service, &stopped).await;
                check_segments(service, &stopped).await;
                log_file_faults(service).await;
                check_sources(service, &stopped).await;
                CHECK_EVERY
            }
            // not a fault: the store is being reopened, or the disk is full
            Ok(Err(StoreError::Unavailable { .. } | StoreError::Io { .. })) => RETRY_PAUSE,
            Ok(Err(error)) if is_rebuilt => return Some(error.to_string()),
            Ok(Err(error)) => {
                let cause = error.to_cause();
                tracing::error!(cause, "the database is damaged; it is rebuilt from the segments");
                if let Err(error) = service.system.log.rebuild_database(cause).await {
                    tracing::error!(error, "could not rebuild the database");
                }
                is_rebuilt = true;
                RETRY_PAUSE
            }
            Err(panic) => return Some(panic.to_string()),
        };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.changed() => return None,
        }
    }
}

/// Compares `oracle_log.jsonl` with the log, and has it written again if it differs.
async fn check_mirror(service: &Arc<DaemonService>, stopped: &watch::Receiver<bool>) {
    let log = &service.system.log;
    let snapshot = match log.mirror_snapshot().await {
        Ok(snapshot) => snapshot,
        Err(error) => return tracing::error!(error, "could not check oracle_log.jsonl"),
    };
    let (store, pace) = (service.system.store.clone(), CheckPace::new(stopped.clone()));
    let checked = spawn_blocking(move || (store.check_mirror(&snapshot, || pace.proceed()), snapshot)).await;
    let repaired = match checked {
        Ok((Ok(None), _)) => return tracing::debug!("oracle_log.jsonl was checked"),
        Ok((Ok(Some(fault)), snapshot)) => log.rewrite_mirror(snapshot, fault).await,
        Ok((Err(error), _)) => Err(error.to_string()),
        Err(panic) => Err(panic.to_string()),
    };
    if let Err(error) = repaired {
        tracing::error!(error, "could not check or repair oracle_log.jsonl");
    }
}

/// Writes the segments again from their copies whenever damage of them was found, until the daemon stops. If a segment is damaged like its
/// copy, the store is rebuilt from the undamaged data, and the rows that are lost are logged.
async fn heal_when_damaged(service: Arc<DaemonService>, mut stopped: watch::Receiver<bool>) {
    loop {
        let mut pause = RETRY_PAUSE;
        if service.system.store.segment_damage().is_some() {
            match heal_segments(&service).await {
                Ok(()) => tracing::info!("the segments are whole"),
                Err(_) if *stopped.borrow() => return,
                Err(damage) if damage.damage().is_some() => {
                    let damage = damage.to_cause();
                    tracing::error!(
                        damage,
                        "a segment is damaged like its copy; the store is rebuilt from the undamaged data"
                    );
                    if let Err(error) = service.system.log.rebuild_database(damage).await {
                        tracing::error!(error, "could not rebuild the store");
                    }
                    pause = HEALING_PAUSE;
                }
                Err(error) => {
                    tracing::error!(%error, "could not write the segments again; it is tried again");
                    pause = HEALING_PAUSE;
                }
            }
        }
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.changed() => return,
        }
    }
}

async fn heal_segments(service: &DaemonService) -> Result<(), StoreError> {
    let turn = service.system.erasure.wait_for_turn().await;
    // a backup may have repaired the damage since
    let Some(damage) = service.system.store.segment_damage() else { return Ok(()) };
    tracing::warn!(damage, reason = "state_damaged", "the segments are written again from their copies");
    service.repair_segments(&turn, damage).await
}

/// Reads the segments and their copies. The store notes a damaged one, which is then written again.
async fn check_segments(service: &Arc<DaemonService>, stopped: &watch::Receiver<bool>) {
    let (store, pace) = (service.system.store.clone(), CheckPace::new(stopped.clone()));
    match spawn_blocking(move || store.check_segments(|| pace.proceed())).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::error!(error = error.to_cause(), "a segment is damaged"),
        Err(panic) => tracing::error!(%panic, "could not check the segments"),
    }
}

/// Checks the store with pauses. Returns false if the check was stopped.
fn check_store(store: &Store, stopped: &watch::Receiver<bool>) -> Result<bool, StoreError> {
    let pace = CheckPace::new(stopped.clone());
    Ok(store.audit(|_| pace.proceed())? && store.check_tiles(|| pace.proceed())?)
}

/// Slows a check down, and stops it with the daemon.
struct CheckPace {
    began: Mutex<Instant>,
    stopped: watch::Receiver<bool>,
}

impl CheckPace {
    fn new(stopped: watch::Receiver<bool>) -> Self {
        Self { began: Mutex::new(monotonic()), stopped }
    }

    /// Pauses if the work time is over. Returns whether the check continues.
    fn proceed(&self) -> bool {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = began.elapsed();
        if elapsed >= WORK_TIME && !*self.stopped.borrow() {
            thread::sleep((elapsed * PAUSE_FACTOR).min(LONGEST_PAUSE));
            *began = monotonic();
        }
        !*self.stopped.borrow()
    }
}

/// Checks every source that was not checked within the last day, as `oraclectl source verify` does. Each
/// result is stored, so that the check continues with the other sources after a restart.
async fn check_sources(service: &Arc<DaemonService>, stopped: &watch::Receiver<bool>) {
    let store = service.system.store.clone();
    let now = service.system.clock.now();
    let since = now.saturating_sub(SignedDuration::try_from(CHECK_EVERY).unwrap_or_default());
    let unchecked = spawn_blocking(move || store.unchecked_sources(since.unwrap_or(now), now)).await;
    let unchecked = match unchecked {
        Ok(Ok(unchecked)) => unchecked,
        Ok(Err(error)) => return tracing::error!(%error, "could not check the sources"),
        Err(error) => return tracing::error!(%error, "could not check the sources"),
    };
    for oracle_id in unchecked {
        if *stopped.borrow() {
            return;
        }
        check_source(service, oracle_id, stopped).await;
    }
}

async fn check_source(service: &Arc<DaemonService>, oracle_id: SourceId, stopped: &watch::Receiver<bool>) {
    let pace = CheckPace::new(stopped.clone());
    let proceed = Arc::new(move |_| pace.proceed());
    let check = VerifySourceFiles { oracle_id: oracle_id.clone(), run_id: None, proceed };
    let checked = match service.system.ingestion.ask(check).await {
        Ok(Ok(checked)) => checked,
        Ok(Err(IngestionError::Store(StoreError::Stopped))) => return,
        Ok(Err(error)) => return tracing::error!(%oracle_id, %error, "could not check the source"),
        Err(error) => return tracing::error!(%oracle_id, %error, "could not check the source"),
    };
    let faults = checked.fault_count();
    if faults == 0 {
        return tracing::debug!(%oracle_id, "the check of the source found no fault");
    }
    let file_faults = checked.file_fault.iter();
    for fault in file_faults.chain(checked.runs.iter().flat_map(|run| &run.faults)).take(FAULTS_LOGGED) {
        tracing::error!(%oracle_id, "{fault}");
    }
    tracing::error!(%oracle_id, faults, "the check of the source found faults");
}

/// Logs the files of sources that are missing, truncated or replaced. Other sources and verdicts are still served.
async fn log_file_faults(service: &Arc<DaemonService>) {
    let store = service.system.store.clone();
    let found = spawn_blocking(move || store.file_faults()).await;
    let faults = match found {
        Ok(Ok(faults)) => faults,
        Ok(Err(error)) => return tracing::error!(%error, "could not check the files of sources"),
        Err(error) => return tracing::error!(%error, "could not check the files of sources"),
    };
    for fault in faults.iter().take(FAULTS_LOGGED) {
        tracing::error!("{fault}");
    }
    if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_LOGGED) {
        tracing::error!(more, "more files of sources are missing, truncated or replaced");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_ends_a_check_at_its_next_step() {
        let (stop, stopped) = watch::channel(false);
        let pace = CheckPace::new(stopped);
        assert!(pace.proceed());
        stop.send_replace(true);
        assert!(!pace.proceed());
    }
}
