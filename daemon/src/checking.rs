//! The check of the whole store and of all sources, beside the service.

use crate::service::Service;
use actors::clock::monotonic;
use actors::ingestion::{IngestionError, Verify};
use domain::ground::id::SourceId;
use jiff::SignedDuration;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use store::{Store, StoreError};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

/// The pause before a check that could not be made is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// The time between the end of a check and the next one.
const CHECK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// A check pauses for so many times as long as it has worked: it takes a tenth of one core.
const PAUSE_FACTOR: u32 = 9;
/// A check works for at least this long between two pauses.
const WORK_TIME: Duration = Duration::from_millis(2);
/// The longest pause of a check. A stop waits for it.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The time that a stop waits for a check: a read of a disk that hangs must not hold it.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// The files of sources that are logged one by one.
const FAULTS_LOGGED: usize = 100;

/// A check that is under way.
#[derive(Debug)]
pub(crate) struct Checking {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Checking {
    /// Starts to check the store and then each source: first what is left of the last check, then all of it once a day. A
    /// store that has lost something must not go on being served; the faults of a source are only reported.
    #[must_use]
    pub(crate) fn start(service: &Arc<Service>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let service = Arc::clone(service);
        let task = tokio::spawn(async move {
            let Some(damage) = check(&service, stopped).await else { return };
            tracing::error!(damage, "the store cannot be trusted");
            service.system.log.doubt().await;
            service.note_damage(damage);
        });
        Self { task, stop }
    }

    /// Ends the check, and notes where the next one continues.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if timeout(STOP_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("the check of the store does not end");
        }
    }
}

/// Checks until damage is found, or the daemon stops.
async fn check(service: &Arc<Service>, mut stopped: watch::Receiver<bool>) -> Option<String> {
    loop {
        let (store, told) = (service.system.store.clone(), stopped.clone());
        let pause = match spawn_blocking(move || slowly(&store, &told)).await {
            Ok(Ok(false)) => return None,
            Ok(Ok(true)) => {
                log_file_faults(service).await;
                check_sources(service, &stopped).await;
                CHECK_EVERY
            }
            // that is no finding: the store is being reopened, or the disk is full
            Ok(Err(StoreError::Unavailable { .. } | StoreError::Io { .. })) => RETRY_PAUSE,
            Ok(Err(error)) => return Some(error.to_string()),
            Err(panic) => return Some(panic.to_string()),
        };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.changed() => return None,
        }
        let store = service.system.store.clone();
        if pause == CHECK_EVERY
            && let Ok(Err(error)) = spawn_blocking(move || store.audit_again()).await
        {
            tracing::warn!(%error, "the next check of the store covers only what is new");
        }
    }
}

/// Checks the store with pauses; whether it came to the end.
fn slowly(store: &Store, stopped: &watch::Receiver<bool>) -> Result<bool, StoreError> {
    let pace = Pace::new(stopped.clone());
    store.audit(|_| pace.proceed())
}

/// The pace of a check, and its end.
struct Pace {
    began: Mutex<Instant>,
    stopped: watch::Receiver<bool>,
}

impl Pace {
    fn new(stopped: watch::Receiver<bool>) -> Self {
        Self { began: Mutex::new(monotonic()), stopped }
    }

    /// Pauses where it is time for that. Returns whether the check continues.
    fn proceed(&self) -> bool {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let worked = began.elapsed();
        if worked >= WORK_TIME && !*self.stopped.borrow() {
            thread::sleep((worked * PAUSE_FACTOR).min(LONGEST_PAUSE));
            *began = monotonic();
        }
        !*self.stopped.borrow()
    }
}

/// Checks every source that was not checked for a day, as `oraclectl source verify` does. The store notes each, so that the
/// next start continues with the others.
async fn check_sources(service: &Arc<Service>, stopped: &watch::Receiver<bool>) {
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

async fn check_source(service: &Arc<Service>, oracle_id: SourceId, stopped: &watch::Receiver<bool>) {
    let pace = Pace::new(stopped.clone());
    let proceed = Arc::new(move |_| pace.proceed());
    let check = Verify { oracle_id: oracle_id.clone(), run_id: None, proceed };
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
    let of_files = checked.file_fault.iter();
    for fault in of_files.chain(checked.runs.iter().flat_map(|run| &run.faults)).take(FAULTS_LOGGED) {
        tracing::error!(%oracle_id, "{fault}");
    }
    tracing::error!(%oracle_id, faults, "the check of the source found faults");
}

/// Logs the files of sources that are missing, cut or other files: they keep neither other sources nor verdicts from being
/// served.
async fn log_file_faults(service: &Arc<Service>) {
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
        tracing::error!(more, "more files of sources are missing, cut or other files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_ends_a_check_at_its_next_step() {
        let (stop, stopped) = watch::channel(false);
        let pace = Pace::new(stopped);
        assert!(pace.proceed());
        stop.send_replace(true);
        assert!(!pace.proceed());
    }
}
